"""Writes the files of commands: an existing one is replaced once the new one is complete, and the
files that a command reads are never replaced."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click


class OutFile(click.Path):
    """The type of an option that names a file to write: its name ends in a suffix, and its folder
    exists, which is checked before the command works for minutes."""

    def __init__(self, suffix: str) -> None:
        super().__init__(dir_okay=False, path_type=Path)
        self.suffix = suffix

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Path:  # fmt: skip
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        if path.suffix.lower() != self.suffix and not _is_device(path):
            self.fail(f"The name of the file must end in {self.suffix}, not as {path}.", param, ctx)
        if not path.parent.is_dir():
            self.fail(f"There is no folder {path.parent}.", param, ctx)
        return path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields the path to write to in place of `path`, which it replaces at the end unless an
    exception is raised. Raises OSError with the name of `path` where it cannot be written, and
    UsageError where it is a file that the command reads."""
    if path.is_file() and any(path.samefile(one) for one in _read_files()):
        raise click.UsageError(f"{path} is an input of this command: write to another file.")
    out = Path(os.path.realpath(path))
    whole = _is_device(out)  # a device or a pipe cannot be replaced
    part = out if whole else out.with_name(f"{out.name}.{os.getpid()}.part")
    try:
        yield part
        os.replace(part, out)
    except OSError as error:  # that of a full disk names no file
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        if not whole:
            part.unlink(missing_ok=True)


def _is_device(path: Path) -> bool:
    return path.exists() and not path.is_file()


def _read_files() -> Iterator[Path]:
    """Yields the files that the running command was given to read."""
    context = click.get_current_context(silent=True)
    for param in context.command.params if context else ():
        value = context.params.get(param.name or "") if context else None
        if isinstance(param.type, click.Path) and param.type.exists and value is not None:
            yield Path(value)
