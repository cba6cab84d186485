"""Selects the adapter of a worker."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from itertools import count
from typing import Any

from tflgpu_plugin.cache import folders
from tflgpu_plugin.registry import Registry
from tflgpu_plugin.runtime.adapter import adapters as present, select

ALL = "all"
LONGEST = 60.0  # seconds for which a worker waits for another
_claimed: Registry[str, Any] = Registry()  # locks, held for the life of the process


def named(adapters: str | Iterable[Any]) -> tuple[str, ...]:
    """Returns the adapters of a list, or of one text with their names or indices between commas."""
    listed = adapters.split(",") if isinstance(adapters, str) else map(str, adapters)
    return tuple(name for one in listed if (name := one.strip()))


def dealt(adapters: Sequence[str], worker: int) -> str | None:
    """Returns the adapter of the worker with this number: the adapters are assigned cyclically.
    None stands for the best adapter."""
    return adapters[worker % len(adapters)] if adapters else None


def spread(adapters: Sequence[str]) -> list[str]:
    """Replaces `all` by the indices of all adapters, of software ones only where there are no
    others. Raises NoAdapter."""
    if list(adapters) != [ALL]:
        return list(adapters)
    best = select(None)
    return [str(k) for k, one in enumerate(present()) if one.software == best.software]


def adapter(adapters: Sequence[str]) -> str | None:
    """Returns the adapter of a worker without a number: the `adapters` are assigned cyclically to
    the workers of this machine. Without any, it is the one that Ray's GPU ids name, or None for the
    best adapter. Raises NoAdapter, also where one of several is not on this machine."""
    if adapters:
        for name in adapters:
            if name != ALL:
                select(name)
        return dealt(spread(adapters), _number(adapters))
    ids = _gpu_ids()
    if not ids:
        return None
    hardware = [str(k) for k, one in enumerate(present()) if not one.software]
    return dealt(hardware, ids[0])


def _number(adapters: Sequence[str]) -> int:
    """Returns the least number that no living worker of these adapters has on this machine. A lock
    on a file reserves it, which the system releases when the process dies."""
    folder = folders.cache("workers")
    try:
        from filelock import FileLock, Timeout
    except ImportError:  # comes with Ray
        return 0
    if folder is None:
        return os.getpid()
    name = sha256("\0".join(adapters).encode()).hexdigest()[:16]
    for number in count():
        lock = FileLock(folder / f"{name}-{number}.lock", timeout=0)
        try:
            lock.acquire()
        except Timeout:
            continue
        _claimed.put(lock.lock_file, lock)
        return number
    raise AssertionError("the numbers are unlimited")


@contextmanager
def one_at_a_time(options: Mapping[str, Any]) -> Iterator[None]:
    """Serializes the workers of this machine that prepare the same model: the first one stores
    plans, which the others load. A worker that has waited LONGEST seconds for the lock continues
    without it."""
    folder = folders.cache("workers")
    try:
        from filelock import FileLock, Timeout
    except ImportError:
        folder = None
    if folder is None or not options.get("serialization_dir"):
        yield
        return
    name = sha256(f"{options['serialization_dir']} {options.get('model_token')}".encode())
    lock = FileLock(folder / f"start-{name.hexdigest()[:16]}.lock")
    with suppress(Timeout):
        lock.acquire(timeout=LONGEST)
    try:
        yield
    finally:
        lock.release()


def _gpu_ids() -> list[int]:
    """Returns the GPUs that Ray has assigned to this worker, none outside of Ray."""
    ray = sys.modules.get("ray")
    if ray is None or not ray.is_initialized():
        return []
    given = ray.get_runtime_context().get_accelerator_ids().get("GPU", [])
    return [int(one) for one in given if str(one).isdigit()]
