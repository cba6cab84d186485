"""Options, error messages and tables that the commands share."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.console import Console
from rich.table import Table

from tflgpu_plugin import log
from tflgpu_plugin.cli.exits import Sentence

F = TypeVar("F", bound=Callable[..., Any])
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
existing = click.Path(exists=True, dir_okay=False, path_type=Path)
adapter_option = click.option(
    "--adapter", help="A part of an adapter's name, or its index in `tflgpu info`."
)
# Output is text, never markup: names and advice contain brackets and colons.
LITERAL: dict[str, Any] = {"highlight": False, "markup": False, "emoji": False}
console = Console(soft_wrap=True, **LITERAL)
MIN_COLUMN = 4  # characters of a column on a terminal, with the space before it


def finite(_context: object, _parameter: object, number: float | None) -> float | None:
    """Returns an option's number; click takes nan and infinities for numbers, too."""
    if number is not None and not math.isfinite(number):
        raise click.BadParameter(f"{number} is not a finite number.")
    return number


def pairs(given: Iterable[str]) -> dict[str, str]:
    found = [item.partition("=") for item in given]
    for key, separator, _ in found:
        if not separator:
            raise Sentence(
                f"An option is written KEY=VALUE, not {key!r}; `tflgpu options` lists them."
            )
    return {key: value for key, _, value in found}


def usable(_context: object, _parameter: object, given: Iterable[str]) -> dict[str, str]:
    """Returns a command's options; where one is wrong, its usage is shown."""
    try:
        return pairs(given)
    except Sentence as error:
        raise click.UsageError(error.message) from error


host_option = click.option(
    "--host",
    help="tflite-runtime, ai-edge-litert, litert (its CompiledModel) or onnxruntime; by default "
    "the host that reads the model.",
)
option_pairs = click.option(
    "--option",
    "-o",
    "given",
    multiple=True,
    metavar="KEY=VALUE",
    callback=usable,
    help="An option; `tflgpu options` lists them.",
)


def prepared(command: F) -> F:
    """Adds the options of commands that prepare a model."""
    return option_pairs(host_option(command))


def scaled(mean: float, std: float) -> Callable[[F], F]:
    """Returns a decorator that adds the options for the scale of pictures, with these defaults."""
    above = click.FloatRange(min=0, min_open=True)
    std_option = click.option("--std", default=std, type=above, callback=finite, show_default=True)
    mean_option = click.option(
        "--mean", default=mean, callback=finite, show_default=True,
        help="Float models get (pixel - mean) / std.",
    )  # fmt: skip
    return lambda command: mean_option(std_option(command))


_inputs = click.option(
    "--input", "files", multiple=True, metavar="NAME=FILE.npy", help="An input's values."
)
_shapes = click.option(
    "--shape", "shapes", multiple=True, metavar="NAME=1x512", help="An input's shape."
)
_seed = click.option("--seed", default=0, type=click.IntRange(min=0), help="Of all other inputs.")
_image = click.option("--image", type=existing, help="A picture for the model.")
_rtol = click.option(
    "--rtol",
    type=click.FloatRange(min=0),
    callback=finite,
    help="The tolerance, relative to the largest value of a tensor (1e-4).",
)


def fed(command: F, mean: float = 0.0, std: float = 1.0) -> F:
    """Adds the options of commands that run a model on given inputs (see `given.inputs`), with
    these defaults for the scale of pictures."""
    return _image(scaled(mean, std)(shaped(_seed(command))))


def shaped(command: F) -> F:
    """Adds the options for the shapes of inputs (see `given.all_shapes`)."""
    return _inputs(_shapes(command))


def compared(command: F) -> F:
    """Adds the options of commands that run a model on given inputs and compare the outputs."""
    return fed(_rtol(command))


@contextmanager
def progress(what: str) -> Iterator[Callable[[float], None]]:
    """Yields a function that shows on a terminal which part of the work is done."""
    from rich.progress import Progress

    errors = Console(stderr=True, **LITERAL)
    bars = Progress(console=errors, transient=True, disable=not errors.is_terminal)
    with log.without_progress(), bars as bar:
        task = bar.add_task(what, total=1.0)
        yield lambda part: bar.update(task, completed=part)


def print_json(value: Any) -> None:
    from tflgpu_plugin.frontend.reports import with_old_keys  # imports numpy, which may be broken

    click.echo(json.dumps(with_old_keys(value), indent=1))


def megabytes(size: int) -> str:
    """Returns a number of bytes as text, in megabytes."""
    return f"{size / 1e6:.1f} MB" if size >= 1e5 or not size else f"{size / 1e3:.1f} kB"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Prints rows under their heads. On a terminal long cells are wrapped, but the first of a row,
    which is its name, only where it leaves no room; elsewhere each row is one line. Nothing is
    cut."""
    listed = [list(row) for row in rows]
    terminal = Console(**LITERAL)
    if not terminal.is_terminal:
        for line in _lines([list(head), *listed]):
            click.echo(line)
        return
    made = Table(box=None, pad_edge=False)
    widest = max(len(row[0]) for row in [head, *listed])
    fits = widest + MIN_COLUMN * (len(head) - 1) <= terminal.width
    for number, name in enumerate(head):
        made.add_column(name, overflow="fold", no_wrap=fits and number == 0)
    for row in listed:
        made.add_row(*row)
    terminal.print(made)


def _lines(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()


def show_agreements(agreements: Iterable[Any]) -> None:
    """Prints the comparison of each tensor."""
    cells = [
        [
            _tail(a.name) if console.is_terminal else a.name,
            f"{a.difference:.1e}",
            f"{a.magnitude:.3g}",
            f"{a.relative:.1e}",
            "NO" if not a.ok else "empty" if a.empty else "yes",
        ]
        for a in agreements
    ]
    table(["tensor", "largest difference", "largest value", "ratio", "agrees"], cells)


def _tail(name: str, width: int = 32) -> str:
    """Returns the end of a long name: names in models are paths, whose ends differ."""
    return name if len(name) <= width else "…" + name[1 - width :]
