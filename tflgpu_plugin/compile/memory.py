"""Assigns each tensor of a partition a (pool, offset): greedy by size over coloured pools.

WebGPU refuses one buffer as source and destination of a dispatch, so tensors that one launch reads
and writes are in different pools. Within a pool, tensors whose lifetimes do not overlap share
bytes: largest first, at the lowest offset ("greedy by size" of arXiv 2001.03288). Sizes and offsets
are in vec4 (16 bytes)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate


@dataclass(frozen=True)
class Life:
    """A tensor's size in vec4, and the first and last launch for which it must exist."""

    size: int
    first: int
    last: int


@dataclass(frozen=True)
class Allocation:
    pool: int
    offset: int


@dataclass
class _Pool:
    size: int
    members: list[tuple[int, int]] = field(default_factory=list)  # (offset, tensor)

    def add(self, tensor: int, offset: int, size: int) -> None:
        self.size = max(self.size, offset + size)
        self.members.append((offset, tensor))
        self.members.sort()


def lives(
    reads: Sequence[Sequence[int]], writes: Sequence[Sequence[int]], sizes: Mapping[int, int]
) -> dict[int, Life]:
    """Returns the lifetime of each tensor, from what each launch reads and writes."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for step, (read, write) in enumerate(zip(reads, writes, strict=True)):
        for tensor in (*read, *write):
            first.setdefault(tensor, step)
            last[tensor] = step
    return {tensor: Life(sizes[tensor], first[tensor], last[tensor]) for tensor in first}


def conflicts(
    reads: Sequence[Sequence[int]], writes: Sequence[Sequence[int]]
) -> dict[int, set[int]]:
    """Returns, for each tensor, those it must not share a buffer with."""
    found: dict[int, set[int]] = {}
    for read, write in zip(reads, writes, strict=True):
        for source in read:
            for target in write:
                if source != target:
                    found.setdefault(source, set()).add(target)
                    found.setdefault(target, set()).add(source)
    return found


def assign(
    alive: Mapping[int, Life], apart: Mapping[int, set[int]], limit: int
) -> tuple[dict[int, Allocation], list[int]]:
    """Returns an allocation for each tensor and the size of each pool; no pool exceeds `limit`
    unless a single tensor does."""
    pools: list[_Pool] = []
    found: dict[int, Allocation] = {}
    for tensor in sorted(alive, key=lambda t: (-alive[t].size, alive[t].first, t)):
        forbidden = {found[other].pool for other in apart.get(tensor, ()) if other in found}
        fitting: list[tuple[int, int, int]] = []  # growth, pool, offset
        for number, pool in enumerate(pools):
            if number in forbidden:
                continue
            offset = _lowest(pool, alive[tensor], alive)
            end = offset + alive[tensor].size
            if end <= limit:
                fitting.append((max(0, end - pool.size), number, offset))
        if not fitting:
            pools.append(_Pool(alive[tensor].size))
            fitting = [(0, len(pools) - 1, 0)]
        _, number, offset = min(fitting)
        pools[number].add(tensor, offset, alive[tensor].size)
        found[tensor] = Allocation(number, offset)
    return found, [pool.size for pool in pools]


def offsets_in_pools(
    alive: Mapping[int, Life], chosen: Mapping[int, int]
) -> tuple[dict[int, int], list[int]]:
    """Returns the offset of each tensor in the pool that was chosen for it, and the size of each
    pool."""
    pools = [_Pool(0) for _ in range(max(chosen.values(), default=-1) + 1)]
    found = {}
    for tensor in sorted(alive, key=lambda t: (-alive[t].size, alive[t].first, t)):
        pool = pools[chosen[tensor]]
        found[tensor] = _lowest(pool, alive[tensor], alive)
        pool.add(tensor, found[tensor], alive[tensor].size)
    return found, [pool.size for pool in pools]


def _lowest(pool: _Pool, life: Life, alive: Mapping[int, Life]) -> int:
    """Returns the lowest offset that is free for the tensor's whole lifetime."""
    offset = 0
    for start, other in pool.members:
        theirs = alive[other]
        if theirs.last < life.first or life.last < theirs.first:
            continue
        if start - offset >= life.size:
            break
        offset = max(offset, start + theirs.size)
    return offset


def lower_bound(alive: Mapping[int, Life]) -> int:
    """Returns the largest sum of sizes alive at one launch, the least memory that any assignment
    needs."""
    grows: dict[int, int] = {}  # by how much more is alive at a launch than before it
    for life in alive.values():
        grows[life.first] = grows.get(life.first, 0) + life.size
        grows[life.last + 1] = grows.get(life.last + 1, 0) - life.size
    return max(accumulate(grows[step] for step in sorted(grows)), default=0)
