"""Threads and locks of the operating system, even where a program has replaced those of Python, and
functions that run work on such threads.

gevent and eventlet replace the functions of `threading` by ones that switch greenlets where they
would wait. Inside a host's call that ends the process, and a lock that is held across a switch is
never released to a thread that waits for it. So no code that a host's call may reach uses
`threading`. (`concurrent.futures` takes longer to import than the rest of a start.)"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
from _queue import SimpleQueue
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.machinery import BuiltinImporter
from typing import TYPE_CHECKING, Any, Generic, TypeVar

T = TypeVar("T")

MAX_THREADS = min(4, os.cpu_count() or 1)  # threads that share work: more get no more bandwidth
WORTH = 4 << 20  # bytes of data from which several threads are faster than one

if TYPE_CHECKING:
    from threading import Lock as Lock, RLock as RLock, local as local


def _original_thread_module() -> Any:
    """Returns the unpatched module `_thread`, as it is when Python starts."""
    spec = BuiltinImporter.find_spec("_thread")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


builtin_thread = _original_thread_module()
Queue = SimpleQueue  # never replaced; threads that wait for an item let others run
if not TYPE_CHECKING:
    Lock, RLock, local = builtin_thread.allocate_lock, builtin_thread.RLock, builtin_thread._local


def pause(seconds: float) -> None:
    """Lets other threads run for a time. (`time.sleep` may be replaced, too.)"""
    lock = Lock()
    lock.acquire()
    lock.acquire(timeout=seconds)


# ---- work on threads -----------------------------------------------------------------------------


class Task(Generic[T]):
    """Work that was started on another thread. Calling this object waits for the end of the work,
    and returns its result or raises its error."""

    def __init__(self, work: Callable[[], T], name: str) -> None:
        self._work = work
        self._results: list[T] = []
        self._error: BaseException | None = None
        self._ended = Lock()
        self._ended.acquire()
        self._name, self._caller = f"tflgpu-{name}", _here.caller

    def run(self) -> None:
        """Does the work on the calling thread."""
        try:
            _here.caller = self._caller
            if hasattr(builtin_thread, "set_name"):  # Python 3.14
                builtin_thread.set_name(self._name)
            self._results.append(self._work())
        except BaseException as error:
            self._error = error
        finally:
            del self._work  # and what it holds
            self._ended.release()

    def wait(self) -> None:
        """Waits for the end, without raising the work's error."""
        with self._ended:
            pass

    def __call__(self) -> T:
        self.wait()
        if self._error is not None:
            raise self._error
        return self._results[0]


def begin(work: Callable[[], T], name: str) -> Task[T]:
    """Starts `work` on a thread of this name."""
    begun = Task(work, name)
    builtin_thread.start_new_thread(begun.run, ())
    return begun


class Worker:
    """A permanent thread that does one work item after the other, in the order of their submission.

    The C library gives each of the threads that work at the same time its own memory pool (up to
    eight pools per processor), and keeps freed memory in these pools. Therefore work that allocates
    much, such as the driver's compilation, is done on few threads."""

    def __init__(self, name: str) -> None:
        self._name, self._lock = name, RLock()
        self._waiting: SimpleQueue[Task[Any]] = SimpleQueue()
        self._process = 0  # in which the thread runs

    def begin(self, work: Callable[[], T]) -> Task[T]:
        begun = Task(work, self._name)
        with self._lock:
            if self._process != os.getpid():
                self._waiting = SimpleQueue()
                # May raise RuntimeError.
                builtin_thread.start_new_thread(self._run, (self._waiting,))
                self._process = os.getpid()
            self._waiting.put(begun)
        return begun

    @staticmethod
    def _run(waiting: SimpleQueue[Task[Any]]) -> None:
        while True:
            waiting.get().run()


def share(
    work: Callable[[T], object], items: Iterable[T], name: str, most: int = MAX_THREADS
) -> None:
    """Calls `work` on each item, in any order, on this thread and up to `most` - 1 others of this
    name. Returns when all have ended; raises what one of them has raised."""
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


# ---- the thread that has called a host -----------------------------------------------------------


class _Here(local):
    caller: int | None = None  # the thread whose call into a host this thread serves


_here = _Here()


def run_for_caller(caller: int, work: Callable[[], T]) -> T:
    """Returns the result of `work`, which this thread and the threads that it starts do for the
    thread `caller`. Work that is interrupted by an exception that is no Exception, such as
    KeyboardInterrupt or GreenletExit, is done again; the program gets that exception when the host
    returns."""
    before, _here.caller = _here.caller, caller
    try:
        return work()
    except Exception:
        raise
    except BaseException as error:
        surface(error)
        return work()
    finally:
        _here.caller = before


def surface(error: BaseException) -> None:
    """Raises `error` in the thread that has called the host, when the host returns to its Python
    code; immediately if this thread does not work for such a call."""
    if _here.caller is None:
        raise error
    raised = _raising(error)
    thread = ctypes.c_ulong(_here.caller)
    if not ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(raised)):
        sys.excepthook(type(error), error, error.__traceback__)  # no thread of Python


def _raising(error: BaseException) -> type[BaseException]:
    """Returns a class whose only instance is `error`: Python's interface to raise in another thread
    takes a class."""
    kind = type(error)
    again: Callable[..., BaseException] = lambda cls: error  # noqa: E731
    try:
        names = {"__new__": again, "__module__": kind.__module__, "__qualname__": kind.__qualname__}
        return type(kind.__name__, (kind,), names)
    except TypeError:  # a class that nobody can derive from
        return kind


@contextmanager
def foreign() -> Iterator[None]:
    """Wraps a call of the program's own code during our work. Our work continues whatever that code
    raises; the program gets the exception when the host returns."""
    try:
        yield
    except BaseException as error:
        surface(error)
