"""Work on threads of its own, without concurrent.futures, whose import takes longer than what is
done here at a start."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def begin(work: Callable[[], T], name: str) -> Callable[[], T]:
    """Begin `work` on a thread. What is returned waits for its end and gives its result, or raises
    what it has raised, each time that it is called.
    """
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    def result() -> T:
        thread.join()
        if errors:
            raise errors[0]
        return results[0]

    thread = threading.Thread(target=run, name=f"tflgpu-{name}", daemon=True)
    thread.start()
    return result
