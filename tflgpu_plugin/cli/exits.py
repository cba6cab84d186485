"""Ends every command with a documented exit status, and with a sentence in place of a traceback,
also where its output cannot be written."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from tflgpu_plugin import cli, log
from tflgpu_plugin.cli import environment
from tflgpu_plugin.log import REPORT
from tflgpu_plugin.switches import debugging

FINE, DIFFERS, UNUSABLE, NO_ADAPTER, INTERRUPTED = 0, 1, 2, 3, cli.INTERRUPTED
WHOLE = 1 << 20  # characters, for a text that is not cut
EXPECTED = (
    ValueError,
    RuntimeError,
    OSError,
    ImportError,
)  # errors whose texts are written for users


class Sentence(click.ClickException):
    """An error for input that cannot be used; the message says what to do."""

    exit_code = UNUSABLE


class NothingToRunOn(Sentence):
    """An error for a machine without an adapter."""

    exit_code = NO_ADAPTER


class Commands(click.Group):
    """A group of commands whose exceptions become a sentence and a status. Its help lists the whole
    first sentence of each command, which click would cut."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        shown = [name for name in self.list_commands(ctx) if not self.commands[name].hidden]
        with formatter.section("Commands"):
            formatter.write_dl([(n, self.commands[n].get_short_help_str(WHOLE)) for n in shown])

    def main(self, *args: Any, **more: Any) -> Any:
        with _written():
            return super().main(*args, **more)

    def invoke(self, ctx: click.Context) -> Any:
        log.enabled(log.WARNING)  # tells of a wrong TFLGPU_LOG; a command may be silent meanwhile
        environment.tell_unknown_values()
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
    """Returns the sentence that a user reads for an error."""
    if isinstance(error, MemoryError):
        return "There is not enough memory for this. Use a smaller model or input, or free some."
    text = " ".join(_text(error).split())
    of_host = type(error).__module__.startswith("onnxruntime")  # they have no common class
    if isinstance(error, EXPECTED) or of_host:
        return text or type(error).__name__
    return (
        f"This is a defect of tflgpu-plugin ({type(error).__name__}: {text}). {REPORT} "
        "TFLGPU_DEBUG=1 shows the traceback."
    )


def _text(error: BaseException) -> str:
    """Returns the text of an error; for errors of the operating system the file and the reason,
    without a number."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}."
    return str(error)


def status(error: BaseException) -> int:
    """Returns the exit status for an error: NO_ADAPTER if this machine has none, even if a host
    repeats our message inside another error. A name that matches no adapter is bad input."""
    try:
        from tflgpu_plugin.runtime.adapter import INSTALL_HINT
    except Exception:  # numpy cannot be imported; `error` says so
        return UNUSABLE
    return NO_ADAPTER if INSTALL_HINT in str(error) else UNUSABLE


class Patient(io.RawIOBase):
    """A standard stream whose writes never fail, even when its reader has gone away or its disk is
    full; `failure` is the reason why data was lost."""

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
        """Returns the failure, except when the reader has closed the pipe, as `head` does when it
        has read enough."""
        gone = (errno.EPIPE, errno.EINVAL) if sys.platform == "win32" else (errno.EPIPE,)
        return None if self.failure is None or self.failure.errno in gone else self.failure


@contextmanager
def _written() -> Iterator[None]:
    """Makes both standard streams accept all writes while the context is entered. Ends the process
    with UNUSABLE and a sentence if standard output was lost."""
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
    """Returns the same stream as a patient one; None where it is not one of the system's (in
    tests). Characters that a terminal lacks are replaced."""
    buffer = getattr(stream, "buffer", None)
    raw = getattr(buffer, "raw", buffer)  # with PYTHONUNBUFFERED there is no buffer
    if not isinstance(stream, io.TextIOWrapper) or not isinstance(raw, io.RawIOBase):
        return None
    return io.TextIOWrapper(
        io.BufferedWriter(Patient(raw)),
        stream.encoding,
        "replace",
        line_buffering=stream.line_buffering,
    )


def _open_closed() -> None:
    """Opens closed standard streams (`>&-`) on the null device, so that no other file gets their
    descriptors."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the system returns the lowest free descriptor
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r" if number == 0 else "w", encoding="utf-8"))
