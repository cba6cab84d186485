"""Messages to the user: the logger "tflgpu_plugin" of Python's `logging`, never standard output.

Where the program has set up no logging, lines of level warning and above go to stderr as they are.
The level comes from `TFLGPU_LOG`, `tflgpu_plugin.set_log_level` or the logger itself. Importing
`logging` takes as long as the rest of a small start, so it is left until somebody needs it."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from tflgpu_plugin import threads
from tflgpu_plugin.threads import foreign

NAME, VARIABLE = "tflgpu_plugin", "TFLGPU_LOG"
LEVELS = {
    "debug": 10,
    "info": 20,
    "warning": 30,
    "error": 40,
    "off": 60,
}  # the numbers of `logging`
DEBUG, INFO, WARNING = LEVELS["debug"], LEVELS["info"], LEVELS["warning"]
# Lines on stderr begin with these; records of the logger do not.
PREFIXES = ("WARNING: ", "tflgpu: ")
REPORT = "Please report it with the file of `tflgpu bugreport`."


def say(text: str, level: int = WARNING) -> None:
    """Logs a text at this level. It may begin with one of PREFIXES, which only stderr shows."""
    if "logging" not in sys.modules and level >= _from_environment():
        return write(text)  # `logging` is not imported, so the program cannot have set a level
    if not enabled(level):
        return None
    prefix = next((p for p in PREFIXES if text.startswith(p)), "")
    with foreign():  # handlers of the program
        _logger().log(level, "%s", text[len(prefix) :], extra={"prefix": prefix})
    return None


def enabled(level: int) -> bool:
    """Whether a text of this level would be logged anywhere."""
    if "logging" in sys.modules:
        return bool(_logger().isEnabledFor(level))
    return level >= _from_environment()


def set_level(level: str) -> None:
    """Sets the least level that is logged, a key of LEVELS. Raises ValueError."""
    if level not in LEVELS:
        raise ValueError(f"There is no log level {level!r}. The levels are: {', '.join(LEVELS)}.")
    import logging

    logging.getLogger(NAME).setLevel(LEVELS[level])


def _from_environment() -> int:
    """Returns the level that the variable TFLGPU_LOG names. A value that is not a level is reported
    once and means warnings."""
    name = os.environ.get(VARIABLE, "").lower()
    if name and name not in LEVELS:
        _unknown(name)
    return LEVELS.get(name, WARNING)


@functools.cache
def _unknown(name: str) -> None:
    """Warns once that the value `name` of the environment variable is not a level."""
    write(f"WARNING: tflgpu: {VARIABLE} is {name[:40]!r}. It takes: {', '.join(LEVELS)}.")


def write(text: str, stream: Any = None) -> None:
    """Writes `text` as a line to this stream or stderr, if there is one. No model fails because
    stderr is on a full disk, a closed file or a pipe without a reader."""
    to = sys.stderr if stream is None else stream
    progress("")
    if to is not None:
        with suppress(OSError, ValueError):
            print(text, file=to, flush=True)


def progress(text: str) -> None:
    """Shows a text on the last line of the terminal, in place of the one before; "" removes it.
    Does nothing where stderr is not a terminal, or warnings are off."""
    to = sys.stderr
    if to is not None and (text or _line.text):
        _line.show(text, to)


@contextmanager
def without_progress() -> Iterator[None]:
    """Turns progress messages off while the context is entered, because the program shows its
    own."""
    _line.hide(1)
    try:
        yield
    finally:
        _line.hide(-1)


class _Line:
    """The last line of the terminal, which threads share: its `text`, "" where nothing is shown."""

    def __init__(self) -> None:
        self._lock = threads.RLock()
        self._hidden = 0
        self.text = ""

    def show(self, text: str, to: Any) -> None:
        """Writes the text in place of the one before, unless the program hides it."""
        with self._lock, suppress(OSError, ValueError):
            if not self._hidden and (self.text or (_is_terminal(to) and enabled(WARNING))):
                before, self.text = self.text, text
                to.write(f"\r{' ' * len(before)}\r{text}")
                to.flush()

    def hide(self, change: int) -> None:
        with self._lock:
            self._hidden += change


def _is_terminal(stream: Any) -> bool:
    """Whether a stream is a terminal. Programs also replace stderr by objects that only write."""
    return bool(getattr(stream, "isatty", bool)())


_line = _Line()


def _logger() -> Any:
    """Returns the logger with our handler, which does nothing if the program has handlers of its
    own."""
    import logging

    logger = logging.getLogger(NAME)
    if any(handler.get_name() == NAME for handler in logger.handlers):
        return logger

    class OnStderr(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            others = [*logger.handlers, *(logging.getLogger().handlers if logger.propagate else ())]
            if all(handler is self for handler in others):
                write(getattr(record, "prefix", "") + record.getMessage())

    handler = OnStderr()
    handler.set_name(NAME)
    logger.addHandler(handler)
    if logger.level == logging.NOTSET:
        logger.setLevel(_from_environment())
    return logger
