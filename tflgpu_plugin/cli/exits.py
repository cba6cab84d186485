"""How every command ends: with a documented exit status, and with a sentence in place of a
traceback, also where its output cannot be written.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from tflgpu_plugin.errors import debugging

FINE, DIFFERS, UNUSABLE, NO_ADAPTER, INTERRUPTED = 0, 1, 2, 3, 130
EXPECTED = (ValueError, RuntimeError, OSError, ImportError)  # their texts are written for users


class Sentence(click.ClickException):
    """Input that cannot be used: the message says what to do."""

    exit_code = UNUSABLE


class NothingToRunOn(Sentence):
    """This machine has no adapter."""

    exit_code = NO_ADAPTER


class Commands(click.Group):
    """A group whose commands may raise anything: it becomes a sentence and a status."""

    def main(self, *args: Any, **more: Any) -> Any:
        with _written():
            return super().main(*args, **more)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except KeyboardInterrupt:
            click.echo("Interrupted.", err=True)
            raise SystemExit(INTERRUPTED) from None
        except Exception as error:
            if debugging():
                raise
            kind = NothingToRunOn if status(error) == NO_ADAPTER else Sentence
            raise kind(sentence(error)) from error


def sentence(error: BaseException) -> str:
    """What a user reads of an error."""
    if isinstance(error, MemoryError):
        return "There is not enough memory for this. Use a smaller model or input, or free some."
    text = " ".join(_text(error).split())
    of_host = type(error).__module__.startswith("onnxruntime")  # they have no common class
    if isinstance(error, EXPECTED) or of_host:
        return text or type(error).__name__
    return (
        f"This is a defect of tflgpu-plugin ({type(error).__name__}: {text}). Please report it "
        "with the traceback, which TFLGPU_DEBUG=1 shows."
    )


def _text(error: BaseException) -> str:
    """The text of an error; of the system's errors the file and the reason, without a number."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}."
    return str(error)


def status(error: BaseException) -> int:
    """NO_ADAPTER where this machine has none, also where a host hands on our sentence that says so;
    the name of an adapter that matches none is an input.
    """
    from tflgpu_plugin.runtime.adapter import INSTALL_HINT

    return NO_ADAPTER if INSTALL_HINT in str(error) else UNUSABLE


class Patient(io.RawIOBase):
    """A standard stream that takes all that is written to it, also when nobody reads it any more
    or its disk is full; `failure` is why something was lost.
    """

    def __init__(self, raw: io.RawIOBase) -> None:
        self.raw = raw
        self.failure: OSError | None = None

    def write(self, data: Any) -> int | None:
        if self.failure is None:
            try:
                return self.raw.write(data)
            except OSError as error:
                self.failure = error
        return len(data)

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self.raw.isatty()

    def fileno(self) -> int:
        return self.raw.fileno()

    @property
    def lost(self) -> OSError | None:
        """The failure, but for a reader that has gone away: it has all that it wanted."""
        gone = (errno.EPIPE, errno.EINVAL) if sys.platform == "win32" else (errno.EPIPE,)
        return None if self.failure is None or self.failure.errno in gone else self.failure


@contextmanager
def _written() -> Iterator[None]:
    """Both standard streams take everything meanwhile. Ends the process with UNUSABLE and a
    sentence when standard output was lost on its way.
    """
    _open_closed()
    out, replaced = _patient(sys.stdout), (sys.stdout, sys.stderr)
    err = _patient(sys.stderr)
    sys.stdout, sys.stderr = out or sys.stdout, err or sys.stderr
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        raw: Any = out.buffer.raw if out else None  # type: ignore[attr-defined]
        if raw and raw.lost:
            click.echo(f"Error: The output cannot be written ({raw.lost.strerror}).", err=True)
            sys.stderr.flush()
            raise SystemExit(UNUSABLE) from raw.lost
        sys.stdout, sys.stderr = replaced


def _patient(stream: Any) -> io.TextIOWrapper | None:
    """The same stream, patient; None where it is none of the system's (in tests). Signs that a
    terminal lacks are replaced.
    """
    buffer = getattr(stream, "buffer", None)
    raw = getattr(buffer, "raw", buffer)  # with PYTHONUNBUFFERED there is nothing in between
    if not isinstance(stream, io.TextIOWrapper) or not isinstance(raw, io.RawIOBase):
        return None
    return io.TextIOWrapper(
        io.BufferedWriter(Patient(raw)),
        stream.encoding,
        "replace",
        line_buffering=stream.line_buffering,
    )


def _open_closed() -> None:
    """Give closed standard streams (`>&-`) a descriptor that goes nowhere, so that no file of ours
    gets theirs.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free descriptor is this one
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r" if number == 0 else "w", encoding="utf-8"))
