"""The commands that list what the plugin supports, reads and keeps: `tflgpu ops`, `tflgpu options`,
`tflgpu env` and `tflgpu cache`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from tflgpu_plugin.cli.exits import Commands, Sentence
from tflgpu_plugin.cli.shared import as_json, console, megabytes, print_json, table


@click.command()
@click.argument("name", required=False)
@click.option("--markdown", is_flag=True, help="Print the page docs/ops.md.")
@click.option("--adapter", help="Also show what is refused on this adapter and its driver.")
@as_json
def ops(name: str | None, markdown: bool, adapter: str | None, as_json: bool) -> None:
    """Show the operators that run on the GPU, or those with NAME in their names.

    Each has versions, per edition of the documentation, types and further conditions."""
    from tflgpu_plugin.cli import tables

    if markdown:
        return click.echo(tables.ops_markdown(), nl=False)
    target = None if adapter is None else _target(adapter)
    tflite, onnx = tables.named(tables.op_rows(target), tables.onnx_rows(target), name)
    if as_json:
        return print_json([*tflite, *onnx])
    if tflite:
        console.print("TensorFlow Lite", style="bold")
        table(tables.OP_HEAD, tables.op_cells(tflite))
    if onnx:
        console.print("\nONNX" if tflite else "ONNX", style="bold")
        table(tables.ONNX_HEAD, tables.onnx_cells(onnx))
    return None if target is None else _show_quirks(target, [*tflite, *onnx])


def _target(wanted: str) -> Any:
    from tflgpu_plugin.runtime import adapter

    return adapter.open_device(adapter.select(wanted)).target


def _show_quirks(target: Any, rows: Sequence[dict[str, Any]]) -> None:
    where = f"{target.name}, {target.driver}".rstrip(", ")
    found = [f"{row['operator']}: {reason}" for row in rows for reason in row["quirks"]]
    if not found:
        console.print(f"\nNothing is known to go wrong on {where}.")
        return
    console.print(f"\nRefused on {where}:")
    for line in found:
        console.print(f"  {line}")


@click.command()
@click.option("--markdown", is_flag=True, help="Print the page docs/options.md.")
@as_json
def options(markdown: bool, as_json: bool) -> None:
    """Show the options of load_delegate("tflgpu", {...})."""
    from tflgpu_plugin.cli import tables

    rows = tables.option_rows()
    if markdown or as_json:
        return click.echo(tables.options_markdown(), nl=False) if markdown else print_json(rows)
    names = ("option", "values", "meaning")
    return table(names, [[row[name] for name in names] for row in rows])


@click.command()
@as_json
def env(as_json: bool) -> None:
    """Show the environment variables that matter, and their values."""
    from tflgpu_plugin.cli import environment

    rows = environment.current()
    if as_json:
        return print_json([asdict(variable) | {"value": value} for variable, value in rows])
    shown = [(one, value) for one, value in rows if value is not None or not one.internal]
    head = ("variable", "value", "values", "meaning")
    table(head, [(one.name, "-" if value is None else value, one.values, one.meaning)
                 for one, value in shown])  # fmt: skip
    for sentence in environment.unknown():
        console.print(sentence, style="yellow")


@click.group(cls=Commands)
def cache() -> None:
    """Show or delete the files that are kept between runs."""


_folder = click.argument(
    "folder", required=False, type=click.Path(exists=True, file_okay=False, path_type=Path)
)


@cache.command("info")
@_folder
@as_json
def show_cache(folder: Path | None, as_json: bool) -> None:
    """Show what is kept in the user's cache, or as plans in FOLDER.

    FOLDER is a folder that was given to the option serialization_dir."""
    from tflgpu_plugin.cli import caches

    found = caches.contents(folder)
    if as_json:
        return print_json(asdict(found) | {"bytes": found.bytes})
    console.print(f"{found.folder}: {megabytes(found.bytes)}")
    if folder is None:
        table(("folder", "files", "size", "content"), [
            (one.name, f"{one.files:,}", megabytes(one.bytes), one.content) for one in found.kinds
        ])  # fmt: skip
    elif found.plans:
        head = ("file", "size", "plans", "model_token", "adapter", "state")
        table(head, [(one.name, megabytes(one.bytes), str(one.plans), one.model_token, one.adapter,
                      one.state) for one in found.plans])  # fmt: skip
    return None


@cache.command("clear")
@_folder
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@as_json
def clear_cache(folder: Path | None, yes: bool, as_json: bool) -> None:
    """Delete what is kept in the user's cache, or the plans in FOLDER.

    Programs that are running go on; the next ones generate what they need again."""
    from tflgpu_plugin.cli import caches

    files, place = caches.files(folder), caches.contents(folder).folder
    kind = "file" if len(files) == 1 else "files"
    what = f"{len(files):,} {kind} ({megabytes(sum(files.values()))}) in {place}"
    if files and not yes and not confirmed(f"Delete {what}?", asked=not as_json):
        return console.print("Nothing was deleted.")
    nothing = "There was nothing" if folder is None else "There were no plans"
    failed = caches.clear(files)
    if failed:
        path, reason = next(iter(failed.items()))
        raise Sentence(f"{len(failed):,} of {what} could not be deleted: {path}: {reason}.")
    if as_json:
        return print_json({"folder": place, "files": len(files), "bytes": sum(files.values())})
    return console.print(f"Deleted {what}." if files else f"{nothing} in {place}.")


def confirmed(question: str, asked: bool) -> bool:
    """Returns the answer to a question. Raises Sentence where nobody can answer it, and
    KeyboardInterrupt after Ctrl-C, which click does not tell from the end of the input."""
    try:
        if asked:
            return click.confirm(question, err=True)
    except click.Abort as error:
        click.echo(err=True)
        if isinstance(error.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from None
    raise Sentence("Nothing was deleted: add --yes to delete without a question.")
