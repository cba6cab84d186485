"""Values for each thread that calls a host, whichever threads the host's callbacks run on."""

from __future__ import annotations

import sys
from typing import Generic, TypeVar

from tflgpu_plugin import native, threads

T = TypeVar("T")

KEPT = 64  # values of threads that Python does not know, or that have ended


class PerCaller(Generic[T]):
    """A value for each thread that calls a host; it is dropped some time after the thread has
    ended."""

    def __init__(self) -> None:
        self._lock = threads.RLock()
        self._values: dict[int, tuple[int, T]] = {}  # by thread: its number, its value

    def set(self, value: T) -> None:
        """Sets the value of the thread whose call into a host led to the current callback."""
        thread = native.lib.tg_caller_thread()
        with self._lock:
            self._values.pop(thread, None)
            self._values[thread] = native.lib.tg_caller_number(), value
            if len(self._values) > KEPT:
                self._forget()

    def get(self) -> T | None:
        """Returns the value of that thread, or None where it has none."""
        with self._lock:
            number, value = self._values.get(native.lib.tg_caller_thread(), (0, None))
        return value if number == native.lib.tg_caller_number() else None

    def _forget(self) -> None:
        living = sys._current_frames()
        ended = [thread for thread in self._values if thread not in living]
        for thread in ended[: len(self._values) - KEPT]:
            del self._values[thread]
