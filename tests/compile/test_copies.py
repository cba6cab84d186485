"""Tests which copies are eliminated, by recorded launches alone."""

from __future__ import annotations

from collections.abc import Sequence

from tflgpu_plugin.compile.copies import elide
from tflgpu_plugin.ir import Node
from tflgpu_plugin.kernels import Operand
from tflgpu_plugin.ops.lowering import Launch, Source

NODE = Node(0, "concat", (), ())
SIZES = {1: 4, 2: 4, 3: 8, 4: 16, 5: 4, 6: 4, 7: 4, 8: 64, 9: 4, 10: 8}


def launch(
    reads: Sequence[Source],
    writes: Sequence[Source],
    copies: int | None = None,
    takes: int | None = None,
) -> Launch:
    operands = [(Operand(f"r{k}"), source) for k, source in enumerate(reads)]
    operands += [(Operand(f"w{k}", "w"), source) for k, source in enumerate(writes)]
    return Launch("concat", NODE, tuple(operands), {}, {}, {}, (1, 1, 1), copies, takes)


def left_out(
    *launches: Launch, homes: Sequence[int] = (), aliases: dict[int, int] | None = None
) -> dict[int, tuple[int, int]]:
    """Returns where the tensors lie whose copies are omitted; asserts that all other launches are
    there."""

    def root(source: Source) -> Source:
        return (aliases or {}).get(source, source) if isinstance(source, int) else source

    kept, views = elide(launches, root, SIZES, homes)
    assert len(kept) == len(launches) - len(views.offsets)
    return views.offsets


BOTH = launch([5], [4])  # 16 vec4, of which 1 has the first four, and 2 the next
HALF, REST = launch([4], [1], takes=0), launch([4], [2], takes=4)
MAKE, COPY = launch([5], [1]), launch([1], [3], copies=4)


def test_a_tensor_goes_where_it_is_copied_to() -> None:
    assert left_out(MAKE, COPY) == {1: (3, 4)}


def test_a_tensor_that_is_written_later_is_copied() -> None:
    """The copy must not see a later write."""
    assert left_out(MAKE, COPY, launch([5], [1])) == {}
    assert left_out(launch([5], [1]), MAKE, COPY) == {1: (3, 4)}


def test_a_tensor_that_nothing_writes_is_copied() -> None:
    assert left_out(COPY) == {}


def test_one_with_a_buffer_of_its_own_is_copied() -> None:
    assert left_out(MAKE, COPY, homes=[1]) == {}


def test_a_larger_one_is_copied() -> None:
    assert left_out(launch([5], [4]), launch([4], [3], copies=0)) == {}
    assert left_out(launch([5], [2]), launch([2], [1], copies=0)) == {2: (1, 0)}


def test_one_is_copied_where_a_launch_would_read_and_write_one_buffer() -> None:
    other = launch([5], [2])
    join = launch([2], [3], copies=0)
    assert left_out(MAKE, other, COPY, join) == {1: (3, 4), 2: (3, 0)}
    reader = launch([1], [2])  # of the first part into the second
    assert left_out(MAKE, reader, COPY, join) == {1: (3, 4)}
    assert left_out(MAKE, COPY, launch([3], [1])) == {}


def test_what_begins_another_tensor_goes_to_the_end_with_the_rest_of_it() -> None:
    inside = {1: (4, 0), 4: (3, 4)}
    assert left_out(BOTH, HALF, COPY) == inside
    assert left_out(BOTH, HALF, REST, COPY) == inside | {2: (4, 4)}
    first = launch([6], [7]), launch([7], [3], copies=0)
    assert left_out(*first, BOTH, HALF, REST, COPY) == inside | {2: (4, 4), 7: (3, 0)}
    _, views = elide([BOTH, HALF, COPY], lambda source: source, SIZES)
    assert views.grown == {3: 20}


def test_the_rest_of_it_must_have_room() -> None:
    """The source must fit into the target from that position on, without a following tensor in it
    or in an enclosing one, and within the adapter's binding limit."""
    inside = {1: (4, 0)}
    assert left_out(BOTH, HALF, launch([1], [3], copies=0)) == inside
    assert left_out(BOTH, HALF, COPY, homes=[3]) == inside
    assert left_out(BOTH, HALF, COPY, homes=[4]) == inside
    assert left_out(BOTH, launch([4], [1], takes=4), COPY) == {1: (4, 4)}
    for most, found in ((20, {1: (4, 0), 4: (3, 4)}), (19, inside)):
        assert elide([BOTH, HALF, COPY], lambda source: source, SIZES, (), most)[1].offsets == found
    outer = launch([3], [8], copies=0)
    assert left_out(BOTH, HALF, COPY, outer) == inside | {4: (3, 4)}
    twice = launch([1], [9], copies=4)
    assert left_out(BOTH, HALF, COPY, twice) == inside | {4: (3, 4)}


def test_one_goes_to_the_end_of_one_tensor_with_the_rest_of_it() -> None:
    """It is not copied to the ends of two tensors, and nothing is copied twice into one."""
    other = launch([5], [10]), launch([10], [9], takes=0), launch([9], [3], copies=4)
    found = {1: (4, 0), 4: (3, 4), 9: (10, 0)}
    assert left_out(BOTH, HALF, COPY, *other) == found  # whose end is taken
    assert left_out(BOTH, HALF, *other, COPY) == {1: (4, 0), 9: (10, 0), 10: (3, 4)}
    same = launch([1], [3], copies=0), launch([1], [3], copies=4)
    assert left_out(MAKE, *same) == {}


def test_none_goes_to_the_end_where_a_launch_would_read_and_write_one_buffer() -> None:
    made = launch([2], [7]), launch([7], [3], copies=0)  # of the rest, into the same tensor
    assert left_out(BOTH, HALF, REST, *made, COPY) == {1: (4, 0), 2: (4, 4), 7: (3, 0)}


def test_aliases_are_followed() -> None:
    copy = launch([2], [3], copies=4)
    assert left_out(MAKE, copy, aliases={2: 1}) == {1: (3, 4)}
    assert left_out(MAKE, copy, launch([5], [2]), aliases={2: 1}) == {}


def test_parts_of_parts() -> None:
    inner = launch([1], [2], copies=0)
    outer = launch([2], [3], copies=4)
    kept, views = elide([MAKE, inner, outer], lambda source: source, SIZES)
    assert views.find(1) == (3, 4) and len(kept) == 1
    kept, views = elide([MAKE, COPY, launch([1], [4], copies=8)], lambda source: source, SIZES)
    assert views.find(1) == (3, 4) and len(kept) == 2


def test_a_slice_stays_where_it_is() -> None:
    make, cut, use = launch([5], [4]), launch([4], [1], takes=8), launch([1], [2])
    assert left_out(make, cut, use) == {1: (4, 8)}
    assert left_out(make, cut, use, homes=[1]) == {}
    assert left_out(make, cut, use, homes=[4]) == {1: (4, 8)}
    assert left_out(cut, use) == {}  # of what nothing writes
    for later in ([4], [1]):  # what is written later is not in it
        assert left_out(make, cut, launch([5], later), use) == {}


def test_a_slice_is_copied_where_a_launch_would_read_and_write_one_buffer() -> None:
    make, cut = launch([5], [4]), launch([4], [1], takes=0)
    assert left_out(make, cut, launch([1], [4])) == {}
    other = launch([4], [2], takes=4)
    assert left_out(make, cut, other, launch([1, 2], [3])) == {1: (4, 0), 2: (4, 4)}


def test_a_slice_of_a_part_lies_in_the_whole() -> None:
    make, copy, cut = launch([5], [2]), launch([2], [3], copies=4), launch([2], [1], takes=0)
    kept, views = elide([make, cut, copy], lambda source: source, SIZES)
    assert views.find(1) == (3, 4) and kept == [make]
