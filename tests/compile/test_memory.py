"""Tests memory planning: tensors do not overlap in space and time, no launch reads and writes one
buffer, and sizes are close to the lower bound."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tflgpu_plugin.compile import memory


def chain(seed: int, length: int) -> tuple[list[list[int]], list[list[int]], dict[int, int]]:
    """Returns the lifetimes of a random network: each launch reads one to three earlier tensors and
    writes one."""
    rng = np.random.default_rng(seed)
    reads: list[list[int]] = [[]]
    for step in range(1, length):
        recent = range(max(0, step - 6), step)
        reads.append(sorted({int(t) for t in rng.choice(list(recent), rng.integers(1, 4))}))
    writes = [[step] for step in range(length)]
    sizes = {step: int(rng.integers(1, 500)) for step in range(length)}
    return reads, writes, sizes


# The sizes of all pools of random networks.
TAKEN = (
    2762,
    2380,
    2683,
    2428,
    2749,
    2991,
    3018,
    3243,
    2615,
    3014,
    2490,
    2656,
    2690,
    2566,
    1994,
    3090,
    2427,
    2610,
    3308,
    3456,
)


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
    assert memory.lower_bound(alive) <= sum(pools) <= TAKEN[seed]


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


def test_lives_and_conflicts_are_those_of_the_launches() -> None:
    """A tensor lives from the first launch that uses it to the last; one that a launch reads and
    writes is not in conflict with itself."""
    reads, writes = [[], [0], [0, 1, 2], [2]], [[0, 1], [2], [2, 3], [4]]
    sizes = {k: 10 * k + 1 for k in range(5)}
    assert memory.lives(reads, writes, sizes) == {
        0: memory.Life(1, 0, 2), 1: memory.Life(11, 0, 2), 2: memory.Life(21, 1, 3),
        3: memory.Life(31, 2, 2), 4: memory.Life(41, 3, 3),
    }  # fmt: skip
    found = memory.conflicts(reads, writes)
    assert found == {0: {2, 3}, 1: {2, 3}, 2: {0, 1, 3, 4}, 3: {0, 1, 2}, 4: {2}}


def placed(
    *lives: tuple[int, int, int], limit: int = 100
) -> tuple[list[tuple[int, int]], list[int]]:
    """Returns (pool, offset) of tensors with these sizes and lifetimes, none of which needs a
    separate pool, and the pools."""
    alive = {k: memory.Life(*life) for k, life in enumerate(lives)}
    places, pools = memory.assign(alive, {}, limit)
    return [(places[k].pool, places[k].offset) for k in alive], pools


def test_the_lowest_place_where_nothing_is_in_the_way() -> None:
    # Large ones first; what fits between two, exactly, lies there.
    assert placed((9, 0, 9), (7, 0, 3), (6, 0, 9), (7, 4, 9)) == (
        [(0, 0), (0, 9), (0, 16), (0, 9)], [22],
    )  # fmt: skip
    assert placed((9, 0, 9), (7, 0, 3), (6, 0, 9), (5, 4, 9), (3, 4, 9))[0][3:] == [
        (0, 9), (0, 22),
    ]  # fmt: skip
    # Lives that meet in one launch overlap; those that follow do not.
    assert placed((5, 0, 1), (5, 1, 2), (5, 2, 3)) == ([(0, 0), (0, 5), (0, 0)], [10])
    assert placed((5, 0, 1), (5, 2, 3)) == ([(0, 0), (0, 0)], [5])


def test_a_pool_is_filled_to_its_limit() -> None:
    assert placed((6, 0, 9), (4, 0, 9), limit=10) == ([(0, 0), (0, 6)], [10])
    assert placed((6, 0, 9), (4, 0, 9), limit=9) == ([(0, 0), (1, 0)], [6, 4])
    assert placed((12, 0, 9), (4, 0, 9), limit=9) == ([(0, 0), (1, 0)], [12, 4])
    # Where nothing grows is better than where something does, and the first pool before others.
    assert placed((8, 0, 9), (7, 0, 4), (6, 0, 9), (2, 5, 9), limit=8)[0] == [
        (0, 0), (1, 0), (2, 0), (1, 0),
    ]  # fmt: skip


def test_the_least_is_what_is_alive_at_once() -> None:
    alive = [memory.Life(5, 0, 1), memory.Life(7, 1, 2), memory.Life(6, 2, 4)]
    assert memory.lower_bound(dict(enumerate(alive))) == 13
    assert memory.lower_bound(dict(enumerate(alive[:2]))) == 12
    assert memory.lower_bound({}) == 0
