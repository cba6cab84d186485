"""Work on threads of its own, without concurrent.futures, whose import takes longer than what is
done here at a start."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Begun(Generic[T]):
    """Work that goes on. Calling this waits for its end and gives its result, or raises what it has
    raised, each time.
    """

    def __init__(self, work: Callable[[], T], name: str) -> None:
        self._work = work
        self._results: list[T] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"tflgpu-{name}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._results.append(self._work())
        except BaseException as error:
            self._error = error
        del self._work  # and what it holds

    def wait(self) -> None:
        """Wait for the end, whatever it is."""
        self._thread.join()

    def __call__(self) -> T:
        self.wait()
        if self._error is not None:
            raise self._error
        return self._results[0]


def begin(work: Callable[[], T], name: str) -> Begun[T]:
    """Begin `work` on a thread of this name."""
    return Begun(work, name)
