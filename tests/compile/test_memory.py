"""The memory plan: no overlap in space and time, no buffer on both sides of a launch, close to the
lower bound.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tflgpu_plugin.compile import memory


def chain(seed: int, length: int) -> tuple[list[list[int]], list[list[int]], dict[int, int]]:
    """A random network: every launch reads one to three earlier tensors and writes one."""
    rng = np.random.default_rng(seed)
    reads: list[list[int]] = [[]]
    for step in range(1, length):
        recent = range(max(0, step - 6), step)
        reads.append(sorted({int(t) for t in rng.choice(list(recent), rng.integers(1, 4))}))
    writes = [[step] for step in range(length)]
    sizes = {step: int(rng.integers(1, 500)) for step in range(length)}
    return reads, writes, sizes


@pytest.mark.parametrize("seed", range(20))
def test_no_overlap_and_no_shared_side(seed: int) -> None:
    reads, writes, sizes = chain(seed, 60)
    alive = memory.lives(reads, writes, sizes)
    places, pools = memory.assign(alive, memory.conflicts(reads, writes), 1 << 20)
    for a, b in itertools.combinations(alive, 2):
        if places[a].pool != places[b].pool:
            continue
        apart_in_time = alive[a].last < alive[b].first or alive[b].last < alive[a].first
        start_a, start_b = places[a].offset, places[b].offset
        apart_in_space = start_a + sizes[a] <= start_b or start_b + sizes[b] <= start_a
        assert apart_in_time or apart_in_space, (a, b)
    for read, write in zip(reads, writes, strict=True):
        assert not {places[t].pool for t in read} & {places[t].pool for t in write}
    assert all(places[t].offset + sizes[t] <= pools[places[t].pool] for t in alive)


def test_a_chain_needs_two_buffers() -> None:
    reads, writes = [[], [0], [1], [2], [3]], [[0], [1], [2], [3], [4]]
    alive = memory.lives(reads, writes, dict.fromkeys(range(5), 10))
    _, pools = memory.assign(alive, memory.conflicts(reads, writes), 1 << 20)
    assert sum(pools) == 20 == memory.lower_bound(alive)


def test_a_pool_over_the_limit_is_split() -> None:
    reads, writes = [[], [], [], [0, 1, 2]], [[0], [1], [2], [3]]
    alive = memory.lives(reads, writes, dict.fromkeys(range(4), 10))
    _, pools = memory.assign(alive, memory.conflicts(reads, writes), 15)
    assert sorted(pools) == [10, 10, 10, 10]
