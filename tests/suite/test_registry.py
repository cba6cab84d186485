"""Tables that threads share are only accessed with their lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tflgpu_plugin.registry import KeyLocks, Once, Registry, WeakCache

READS = ("get", "pop", "items", "values", "copy", "add", "move_to_end", "popitem")
DUNDERS = ("__getitem__", "__setitem__", "__delitem__", "__contains__")


class Lock:
    """A lock that counts how often it is held."""

    def __init__(self) -> None:
        self.held = self.taken = 0

    def __enter__(self) -> None:
        self.held += 1
        self.taken += 1

    def __exit__(self, *_: object) -> None:
        self.held -= 1


def guarded(kind: type, lock: Lock) -> Any:
    """Returns an empty container that fails when it is used without the lock."""

    def checked(name: str) -> Callable[..., Any]:
        own = getattr(kind, name)

        def call(self: Any, *given: Any, **more: Any) -> Any:
            assert lock.held, f"{name} without the lock"
            return own(self, *given, **more)

        return call

    names = [name for name in (*READS, *DUNDERS) if hasattr(kind, name)]
    return type("Guarded", (kind,), {name: checked(name) for name in names})()


class Value:
    """An object to which weak references are possible."""


def watched(one: Any) -> tuple[Any, Lock]:
    """Returns the table, with a lock and containers that watch their use."""
    lock = Lock()
    for name, held in vars(one).items():
        if hasattr(held, "acquire"):
            setattr(one, name, lock)
        elif isinstance(held, dict | set):
            setattr(one, name, guarded(type(held), lock))
    return one, lock


KEPT = Value()
USES: dict[str, tuple[Callable[[], Any], list[Callable[[Any], Any]]]] = {
    "Registry": (
        Registry,
        [
            lambda one: one.put(1, KEPT),
            lambda one: one.get(1),
            lambda one: one.pop(1),
            lambda one: one.drop(1, KEPT),
            lambda one: one.items(),
            lambda one: one.values(),
        ],
    ),
    "Once": (Once, [lambda one: one.first(1)]),
    "WeakCache": (
        lambda: WeakCache(1),
        [lambda one: one.get(1), lambda one: one.values(), lambda one: one.put(1, KEPT)],
    ),
    "KeyLocks": (KeyLocks, [lambda one: one.of(1).__enter__()]),
}


@pytest.mark.parametrize("name", USES)
def test_each_use_takes_the_lock(name: str) -> None:
    make, uses = USES[name]
    for use in uses:
        one, lock = watched(make())
        use(one)
        assert lock.taken and not lock.held
