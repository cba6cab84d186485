"""The command `tflgpu`: a thin layer; every answer is available as JSON. Exit statuses are those of
exits.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from tflgpu_plugin.cli.diagnose import bugreport, compare, conformance
from tflgpu_plugin.cli.exits import DIFFERS, FINE, NO_ADAPTER, Commands
from tflgpu_plugin.cli.listing import cache, env, ops, options
from tflgpu_plugin.cli.run import run
from tflgpu_plugin.cli.shared import (
    adapter_option,
    as_json,
    console,
    existing,
    fed,
    option_pairs,
    prepared,
    print_json,
    shaped,
    show_agreements,
)
from tflgpu_plugin.cli.speed import bench, profile
from tflgpu_plugin.cli.written import OutFile, replacing


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="tflgpu-plugin")
def main() -> None:
    """A GPU for TensorFlow Lite and ONNX Runtime.

    Exit status: 0 for success, 1 when results differ or fall short, 2 for input that cannot be
    used, 3 when this machine has no adapter, 130 after Ctrl-C."""


for one in (bench, bugreport, cache, compare, conformance, env, ops, options, profile, run):
    main.add_command(one)


@main.command()
@as_json
def info(as_json: bool) -> None:
    """Show adapters, hosts and versions, and what to install. Exit status 3 without an adapter."""
    from tflgpu_plugin.cli import doctor

    found = doctor.examine()
    if as_json:
        print_json({"usable": found.usable, **asdict(found)})
    else:
        _show_info(found)
    if not found.adapters:
        raise SystemExit(NO_ADAPTER)


def _show_info(found: Any) -> None:
    from tflgpu_plugin.cli import doctor

    for name, version in (found.versions | found.hosts).items():
        console.print(f"{name:<16} {version}")
    for number, adapter in enumerate(found.adapters):
        console.print(f"\nadapter {number}: {adapter['name']}", style="bold")
        for name in ("kind", "vendor", "backend", "driver"):
            console.print(f"  {name:<10} {adapter[name]}")
        console.print(f"  {'features':<10} {', '.join(adapter['features'])}")
        for line in doctor.measured_lines(adapter["measured"]):
            console.print(f"  {'measured':<10} {line}", highlight=False)
    state = ", ".join(found.enabled) or "no (see `tflgpu enable --help`)"
    console.print(f"\nenabled in every program: {state}")
    for sentence in found.advice:
        console.print(sentence, style="yellow")


@main.command()
@click.argument("model", type=existing)
@click.option("--require", metavar="all|90%|N", help="Exit with status 1 if fewer nodes do.")
@click.option("--annotate", type=OutFile(".onnx"), metavar="OUT.onnx",
              help="Write a copy of an ONNX model with the place of each node as metadata, which "
              "Netron shows; without onnxruntime's own optimizations.")  # fmt: skip
@click.option("--assume-limits", "limits", metavar="default|FILE",
              help="Check for another adapter, by WebGPU's default limits or those in the output "
              "of `tflgpu info --json`. None needs to be here.")  # fmt: skip
@click.option(
    "--advice",
    "advised",
    is_flag=True,
    help="Also say how the model could suit GPUs better, and which layers cost what.",
)
@shaped
@adapter_option
@prepared
@as_json
def check(
    model: Path, require: str | None, annotate: Path | None, limits: str | None, advised: bool,
    as_json: bool, **arguments: Any,
) -> None:  # fmt: skip
    """Show which nodes of MODEL run on the GPU, in which partitions, and why the others do not."""
    from tflgpu_plugin.cli import check as checker, given

    if annotate and model.suffix.lower() != ".onnx":
        raise click.UsageError("--annotate is for ONNX models.")
    if advised and limits:
        raise click.UsageError("--advice is about plans for an adapter here, not assumed ones.")
    required = None if require is None else checker.Required.read(require)
    shapes, options = given.all_shapes(arguments), given.options(arguments)
    with checker.on(limits):
        found = checker.check(model, options, arguments["host"], shapes, not annotate, advised)
    lacks = found.lacks(required) if required else ""
    if annotate:
        noted = checker.annotated(model, found.report)
        with replacing(annotate) as part:
            part.write_bytes(noted)
    if as_json:
        print_json(found.as_json())
    else:
        for line in checker.lines(found):
            console.print(line)
        if annotate:
            console.print(f"Wrote {annotate}.")
    if lacks:
        click.echo(lacks, err=True)
        raise SystemExit(DIFFERS)


@main.command()
@click.argument("model", type=existing)
@click.option("--node", help="Only this node: its number, its name or an operator.")
@shaped
@adapter_option
@prepared
@as_json
def kernels(model: Path, node: str | None, as_json: bool, **arguments: Any) -> None:
    """Show the WGSL and the launches of MODEL, node by node, without running it."""
    from tflgpu_plugin.cli import given, kernels as planner

    options, shapes = given.options(arguments), given.all_shapes(arguments)
    found = planner.planned(model, options, arguments["host"], shapes)
    if node is not None:
        found = found.of_node(node)
    if as_json:
        return print_json(asdict(found))
    for line in found.lines():
        click.echo(line)


@main.command()
@click.argument("model", type=existing, required=False)
@click.option("--model", "former", type=existing, hidden=True)  # the argument's former spelling
@click.option("--labels", type=existing, help="Class names, one per line.")
@partial(fed, mean=127.5, std=127.5)
@adapter_option
@prepared
@click.option(
    "--runs",
    default=10,
    type=click.IntRange(min=1),
    help="Inferences that are timed.",
    show_default=True,
)
@as_json
def demo(
    model: Path | None, former: Path | None, labels: Path | None, runs: int, as_json: bool,
    **arguments: Any,
) -> None:  # fmt: skip
    """Run MODEL on the CPU and on the GPU and compare. Exit status 1 when they disagree.

    MODEL is a .tflite or .onnx file; without it the demo's own MobileNet v1 runs, in both hosts."""
    from tflgpu_plugin import demo as demonstration
    from tflgpu_plugin.cli import given

    if model and former:
        raise click.UsageError("Name one model: the argument MODEL stands for --model.")
    source = click.get_current_context().get_parameter_source
    named = any(source(name) is not ParameterSource.DEFAULT for name in ("mean", "std"))
    request = demonstration.Request(
        model or former, given.inputs(arguments), labels, arguments["host"],
        given.options(arguments), runs, named,
    )  # fmt: skip
    result = demonstration.run(request)
    if as_json:
        print_json(result.as_json())
    else:
        _show_demo(result)
    raise SystemExit(FINE if result.ok else DIFFERS)


def _show_demo(result: Any) -> None:
    for comparison in result.comparisons:
        first = comparison is result.comparisons[0]
        title = result.title if first else "\nThe same network"
        console.print(f"{title}, {comparison.host}")
        show_agreements(comparison.agreements)
        for label, score in result.classes if first else ():
            console.print(f"  {score:8.4f}  {label}")
        for line in result.lines(comparison):
            console.print(line)
    for line in result.missing_lines():
        console.print(line)


@main.command("exec", context_settings={"allow_interspersed_args": False})
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- PROGRAM ...")
@adapter_option
@option_pairs
@as_json
def execute(words: Sequence[str], as_json: bool, **arguments: Any) -> None:
    """Run PROGRAM with the GPU: its ONNX Runtime sessions and TFLite interpreters that name no
    other provider or delegate use this plugin. One line on stderr at the end says how many nodes
    ran on the GPU. The exit status is the program's.

    PROGRAM is a command, a Python file, or -m MODULE: tflgpu exec -- rembg i in.png out.png"""
    from tflgpu_plugin.cli import given, launch

    raise SystemExit(launch.launch(words, given.options(arguments), as_json))


@main.command()
@click.option("--no-onnxruntime", is_flag=True, help="Do not change ONNX Runtime.")
@as_json
def enable(no_onnxruntime: bool, as_json: bool) -> None:
    """Register the plugin with the hosts in every program of this environment.

    TFLite hosts then accept load_delegate("tflgpu"), LiteRT's CompiledModel takes this plugin for
    the GPU, and ONNX Runtime accepts "TflGpuExecutionProvider", without an import of the plugin.
    Programs still have to ask for it; `tflgpu exec` does that for them."""
    from tflgpu_plugin.cli import enable as switch

    path = switch.enable(not no_onnxruntime)
    if as_json:
        return print_json({"enabled": [str(path)]})
    console.print(f"Wrote {path}; `tflgpu disable` removes it.")


@main.command()
@as_json
def disable(as_json: bool) -> None:
    """Undo `tflgpu enable`."""
    from tflgpu_plugin.cli import enable as switch

    removed = switch.disable()
    if as_json:
        return print_json({"removed": [str(path) for path in removed]})
    for path in removed:
        console.print(f"Removed {path}.")
    if not removed:
        console.print("Nothing to remove: it was not enabled.")
