"""What the commands share: options, sentences about bad input, tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click
from rich.console import Console
from rich.table import Table

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
existing = click.Path(exists=True, dir_okay=False, path_type=Path)
adapter_option = click.option(
    "--adapter", help="A part of an adapter's name, or its index in `tflgpu info`."
)
# What is printed is text, never markup: names and advice hold brackets and colons.
LITERAL: dict[str, Any] = {"highlight": False, "markup": False, "emoji": False}
console = Console(soft_wrap=True, **LITERAL)


def prepared(command: F) -> F:
    """Options of the commands that make a model ready to run."""
    host = "tflite-runtime or ai-edge-litert; the preferred one by default."
    option = click.option(
        "--option", "-o", "given", multiple=True, metavar="KEY=VALUE", help="An option."
    )
    return option(click.option("--host", help=host)(command))


class Sentence(click.ClickException):
    """Input that cannot be used: the message says what to do."""

    exit_code = 2


def pairs(given: Iterable[str]) -> dict[str, str]:
    found = [item.partition("=") for item in given]
    for key, separator, _ in found:
        if not separator:
            raise Sentence(
                f"An option is written KEY=VALUE, not {key!r}; `tflgpu options` lists them."
            )
    return {key: value for key, _, value in found}


def or_sentence(action: Callable[[], T]) -> T:
    """Run an action; what hosts and our own modules raise about bad input becomes one sentence."""
    try:
        return action()
    except (ValueError, RuntimeError, OSError, ImportError) as error:
        _fail(error)


def _fail(error: Exception) -> NoReturn:
    raise Sentence(" ".join(str(error).split()) or type(error).__name__) from error


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=1))


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    made = Table(box=None, pad_edge=False)
    for name in head:
        made.add_column(name)
    for row in rows:
        made.add_row(*row)
    Console(**LITERAL).print(made)
