"""`tflgpu run MODEL INPUTS... --out DIR`: runs a model on many inputs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from tflgpu_plugin.cli.exits import DIFFERS, FINE, INTERRUPTED
from tflgpu_plugin.cli.shared import (
    LITERAL,
    as_json,
    console,
    existing,
    prepared,
    print_json,
    scaled,
)


@click.command()
@click.argument("model", type=existing)
@click.argument("inputs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--out",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder for the results.",
)
@click.option(
    "--format",
    "kind",
    type=click.Choice(["npz", "parquet"]),
    default="npz",
    show_default=True,
    help="The format of the results.",
)
@click.option(
    "--batch",
    type=click.IntRange(min=0),
    default=32,
    show_default=True,
    help="Inputs per file of results, and per run of a model whose first extent is open. "
    "0: an input is a complete tensor, first extent included.",
)
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    help="Processes on this machine; by default one for each adapter named.",
)
@click.option(
    "--adapter",
    "--adapters",
    "adapters",
    metavar="LIST",
    help="Names or indices with commas, assigned to workers cyclically; or `all`.",
)
@click.option(
    "--ray",
    metavar="[ADDRESS]",
    is_flag=False,
    flag_value="",
    help="Workers on the Ray cluster there, or on one of this machine. The model and the inputs "
    "must have the same paths on all machines.",
)
@click.option("--resume", is_flag=True, help="Continue the run whose results are in --out.")
@scaled(127.5, 127.5)
@prepared
@as_json
def run(
    model: Path, inputs: Sequence[Path], given: Mapping[str, str], host: str | None,
    adapters: str | None, as_json: bool, **more: Any,
) -> None:  # fmt: skip
    """Run MODEL on all INPUTS: pictures, .npy, .npz and .parquet files, and folders of them.

    Results are in the order of the inputs. Exit status 1 when some inputs have no results, each
    with a sentence; 130 after Ctrl-C, from which --resume continues."""
    from tflgpu_plugin.batch import placing, run as runner
    from tflgpu_plugin.batch.spec import Spec

    settings = {name: more.pop(name) for name in ("batch", "mean", "std")}
    spec = Spec(model, host, given, **settings)
    request = runner.Request(spec, inputs, adapters=placing.named(adapters or ""), **more)
    with _bar() as (tell, progress):
        try:
            outcome = runner.run(request, tell, progress)
        except KeyboardInterrupt:
            kept = f" Finished results are in {request.out}; --resume continues."
            tell(f"Interrupted.{kept if request.out.exists() else ''}")
            raise SystemExit(INTERRUPTED) from None
    if as_json:
        print_json(asdict(outcome))
    else:
        for failure in outcome.failures:
            click.echo(str(failure), err=True)
        console.print(outcome.line())
    raise SystemExit(DIFFERS if outcome.failures else FINE)


@contextmanager
def _bar() -> Iterator[tuple[Any, Any]]:
    """Yields a progress bar on a terminal, and a function that prints lines above it, on stderr."""
    from rich import progress as shown  # imported late: only this command needs it

    bar = shown.Progress(
        shown.BarColumn(), shown.MofNCompleteColumn(), shown.TextColumn("inputs"),
        shown.TimeRemainingColumn(),
        console=Console(stderr=True, soft_wrap=True, **LITERAL),
        disable=not sys.stderr.isatty(), transient=True,
    )  # fmt: skip
    task = bar.add_task("", total=None)
    with bar:
        yield bar.console.print, lambda done, whole: bar.update(task, completed=done, total=whole)
