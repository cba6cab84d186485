"""Work on threads of its own, without concurrent.futures, whose import takes longer than what is
done here at a start."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

T = TypeVar("T")

MAX_THREADS = min(4, os.cpu_count() or 1)  # threads that share work: memory is no faster with more
WORTH = 4 << 20  # bytes to work on from which they pay


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


def share(
    work: Callable[[T], object], items: Iterable[T], name: str, most: int = MAX_THREADS
) -> None:
    """`work` on each item, in any order, on this thread and up to `most` - 1 others of this name.
    Returns when all have ended; raises what one of them has raised."""
    left = list(items)[::-1]

    def some() -> None:
        while left:
            try:
                item = left.pop()
            except IndexError:  # another thread has taken the last one
                return
            work(item)

    others = [begin(some, name) for _ in range(min(most, len(left)) - 1)]
    try:
        some()
    finally:
        for other in others:
            other.wait()
    for other in others:
        other()
