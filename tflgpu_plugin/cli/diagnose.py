"""The commands for wrong answers, `tflgpu compare`, `tflgpu bugreport` and `tflgpu conformance`:
their arguments and output."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from tflgpu_plugin.cli.exits import DIFFERS, FINE
from tflgpu_plugin.cli.shared import (
    adapter_option,
    as_json,
    compared,
    console,
    existing,
    finite,
    prepared,
    print_json,
    show_agreements,
)
from tflgpu_plugin.cli.written import OutFile


@click.command()
@click.argument("model", type=existing)
@compared
@click.option("--bisect", is_flag=True, help="Find the first launch whose result differs.")
@click.option(
    "--workaround",
    is_flag=True,
    help="Find the first launch whose result differs, and run without its form.",
)
@click.option(
    "--repro",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Find the first launch whose result differs, and write its part of the model to DIR, "
    "with a program that runs it.",
)
@adapter_option
@prepared
@as_json
def compare(model: Path, as_json: bool, **arguments: Any) -> None:
    """Compare all outputs of MODEL on the CPU and on the GPU. Exit status 1 when they differ,
    or when nothing that the GPU computed could be compared.

    Inputs that are not given have seeded values. --bisect runs every partition launch by launch on
    the CPU's values; --workaround also tries the model without the form of the first wrong
    launch."""
    from tflgpu_plugin.cli import compare as comparing

    found = comparing.compared(comparing.request(model, arguments))
    if as_json:
        print_json(found.as_json())
    else:
        console.print(f"{found.model} in {found.comparison.host}")
        show_agreements(found.comparison.agreements)
        for line in found.lines():
            console.print(line)
        if arguments["repro"] and not found.repro:
            console.print(f"No wrong result was found to write to {arguments['repro']}.")
    raise SystemExit(FINE if found.comparison.ok else DIFFERS)


@click.command()
@click.argument("model", type=existing, required=False)
@click.option(
    "--out",
    default="report.zip",
    type=OutFile(".zip"),
    metavar="FILE.zip",
    help="The file to write.",
    show_default=True,
)
@click.option("--with-model", is_flag=True, help="Add the model's file.")
@click.option(
    "--conformance",
    default=60.0,
    type=click.FloatRange(min=0),
    callback=finite,
    metavar="SECONDS",
    help="How long to test the operators of the model; 0 leaves it out.",
    show_default=True,
)
@compared
@adapter_option
@prepared
@as_json
def bugreport(
    model: Path | None, out: Path, with_model: bool, conformance: float, as_json: bool,
    **arguments: Any,
) -> None:  # fmt: skip
    """Write a .zip file for a report: this machine and, with MODEL, what runs on the GPU, how its
    outputs compare, its kernels, and tests of its operators. Names of users and files are left
    out."""
    from tflgpu_plugin.cli import bugreport as reporting, compare as comparing

    search = arguments | {"bisect": True, "workaround": True, "repro": None}
    asked = None if model is None else comparing.request(model, search)
    found = reporting.write(reporting.Request(out, asked, with_model, conformance))
    if as_json:
        return print_json(asdict(found))
    for name, size in found.parts.items():
        console.print(f"  {name:<14} {size:>9,} bytes")
    for name, error in found.failed.items():
        console.print(f"  {name} has a traceback: {error}", style="yellow")
    console.print(f"Wrote {found.path}. Look through it before you send it.")


@click.command()
@click.option("--op", default="", metavar="NAME,...", help="Operators, ops or families.")
@click.option("--dtype", default="", metavar="NAME,...", help="Types, or all.  [default: f32,bool]")
@click.option("--host", default="", metavar="NAME,...", help="By default all that are installed.")
@click.option("--quick", is_flag=True, help="Fewer tests of each operator.")
@click.option(
    "--jobs",
    default=1,
    type=click.IntRange(min=1),
    show_default=True,
    help="Processes; on a software adapter as many as there are cores.",
)
@click.option(
    "--out",
    default="tflgpu-conformance",
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder of the report.",
)
@adapter_option
@as_json
def conformance(as_json: bool, adapter: str | None, **arguments: Any) -> None:
    """Compare every operator on the GPU with the hosts' CPU kernels and write a report, one file
    to look at and to send. Exit status 1 when a test fails.

    It takes minutes on a GPU and more than an hour on a software adapter; --op and --quick choose
    less. It needs more packages:

    \b
    pip install 'tflgpu-plugin[conformance]'"""
    from tflgpu_plugin.cli import conformance as suite

    done = suite.run(suite.Request(adapter=adapter or "", **arguments), 2 if as_json else None)
    if as_json:
        print_json(asdict(done))
    elif done.counts:
        found = ", ".join(f"{count} {outcome}" for outcome, count in done.counts.items() if count)
        console.print(f"{sum(done.counts.values())} results: {found}")
        both = f"{done.report}, a single file, and report.json beside it"
        console.print(f"Wrote {both}. Please attach both to a report.")
    raise SystemExit(done.status)
