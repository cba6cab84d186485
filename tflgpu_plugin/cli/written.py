"""Writes the files of commands: an existing one is replaced once the new one is complete."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields the path to write to in place of `path`, which it replaces at the end unless an
    exception is raised. Raises OSError with the name of `path` where it cannot be written."""
    out = Path(os.path.realpath(path))
    whole = out.exists() and not out.is_file()  # a device or a pipe cannot be replaced
    part = out if whole else out.with_name(f"{out.name}.{os.getpid()}.part")
    try:
        yield part
        os.replace(part, out)
    except OSError as error:  # that of a full disk names no file
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        if not whole:
            part.unlink(missing_ok=True)
