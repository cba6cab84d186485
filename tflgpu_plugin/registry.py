"""State that all threads of a process share: each such table is one object with its lock.

No method returns a container that another thread may change: `values` and the like return copies.
Modules have no other mutable containers (tests/suite/test_shared_state.py). The locks are
reentrant, since signal handlers and garbage collection may run at any time in the thread that holds
them."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from tflgpu_plugin import threads

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Registry(Generic[K, V]):
    """A dictionary that threads share."""

    def __init__(self) -> None:
        self._lock = threads.RLock()
        self._items: dict[K, V] = {}

    def get(self, key: K) -> V | None:
        with self._lock:
            return self._items.get(key)

    def put(self, key: K, value: V) -> None:
        with self._lock:
            self._items[key] = value

    def pop(self, key: K) -> V | None:
        """Removes and returns a value; None when there is none."""
        with self._lock:
            return self._items.pop(key, None)

    def drop(self, key: K, value: V) -> None:
        """Removes this value, unless another one has replaced it."""
        with self._lock:
            if self._items.get(key) is value:
                del self._items[key]

    def items(self) -> list[tuple[K, V]]:
        """Returns the present (key, value) pairs, the oldest first."""
        with self._lock:
            return list(self._items.copy().items())

    def values(self) -> list[V]:
        return [value for _, value in self.items()]

    def __len__(self) -> int:
        return len(self._items)


class WeakRegistry(Registry[K, V]):
    """A dictionary that threads share, whose keys it does not keep alive."""

    def __init__(self) -> None:
        super().__init__()
        self._items = weakref.WeakKeyDictionary()  # type: ignore[assignment]


class Single(Generic[V]):
    """A value of which a process has one: the first thread that asks for it makes it, and others
    wait meanwhile."""

    def __init__(self, make: Callable[[], V]) -> None:
        self._make, self._lock = make, threads.RLock()
        self._made: list[V] = []

    def __call__(self) -> V:
        """Returns the value. Raises what making it has raised; the next call then tries again."""
        if not self._made:
            with self._lock:
                if not self._made:
                    self._made.append(self._make())
        return self._made[0]


class Once:
    """A set of keys for messages and work that happen once per process."""

    def __init__(self) -> None:
        self._lock = threads.RLock()
        self._seen: set[Hashable] = set()

    def first(self, key: Hashable) -> bool:
        """Returns True only for the first call with this key in this process."""
        with self._lock:
            seen = key in self._seen
            self._seen.add(key)
            return not seen


class WeakCache(Generic[K, V]):
    """A dictionary of objects that live as long as they are referenced elsewhere; the `recent` ones
    that were put or got last are kept alive."""

    def __init__(self, recent: int = 0) -> None:
        self._lock = threads.RLock()
        self._living: weakref.WeakValueDictionary[K, V] = weakref.WeakValueDictionary()
        self._recent: OrderedDict[K, V] = OrderedDict()
        self._most = recent

    def get(self, key: K) -> V | None:
        with self._lock:
            value = self._living.get(key)
            dropped = None if value is None else self._use(key, value)
        del dropped  # after the lock is released, since its destruction may take long
        return value

    def put(self, key: K, value: V) -> None:
        with self._lock:
            self._living[key] = value
            dropped = self._use(key, value)
        del dropped

    def values(self) -> list[V]:
        """Returns the objects that are alive now."""
        with self._lock:
            return list(self._living.values())

    def _use(self, key: K, value: V) -> V | None:
        """Keeps this value alive and returns the one that no longer is. The caller holds the
        lock."""
        if not self._most:
            return None
        self._recent[key] = value
        self._recent.move_to_end(key)
        return self._recent.popitem(last=False)[1] if len(self._recent) > self._most else None


class KeyLocks(Generic[K]):
    """Serializes the threads that make something for the same key."""

    def __init__(self) -> None:
        self._lock = threads.RLock()
        self._turns: dict[K, tuple[Any, int]] = {}  # a lock, and how many have asked for it

    @contextmanager
    def of(self, key: K) -> Iterator[None]:
        with self._lock:
            turn, users = self._turns.get(key) or (threads.RLock(), 0)
            self._turns[key] = turn, users + 1
        try:
            with turn:
                yield
        finally:
            with self._lock:
                turn, users = self._turns.pop(key)
                if users > 1:
                    self._turns[key] = turn, users - 1
