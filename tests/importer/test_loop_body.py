"""Bodies of loops are read node by node: tests which nodes are recognized, and which make the loop
unsupported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from conformance.cases import seeded
from tests.support.loop_bodies import BATCH, INPUTS, STEPS, UNITS, Graph, weights
from tflgpu_plugin.errors import Unsupported
from tflgpu_plugin.importer.loop_body import MAX_NUMBERS, Forms
from tflgpu_plugin.importer.loop_values import Below, Counter, Listed, Numbers, Slab, Vector
from tflgpu_plugin.ir import Tensor

SHAPES = ((), (STEPS, BATCH, UNITS), (BATCH, UNITS), (STEPS, BATCH, INPUTS))
KINDS = ("i32", "f32", "f32", "f32")


class Body(Graph):
    """A body under construction, with a counter, a list, a state and a sequence as inputs."""

    def __init__(self, batch: int = BATCH) -> None:
        super().__init__()
        self.given = [Tensor("", tuple(batch if e == BATCH else e for e in shape), kind)
                      for shape, kind in zip(SHAPES, KINDS, strict=True)]  # fmt: skip
        self.counter, self.list, self.state, self.rows = (
            self.input(one.shape, one.dtype) for one in self.given
        )

    def made(self, *outputs: int) -> tuple[Forms, list[Any]]:
        self.outputs = list(outputs)
        forms = Forms(dict(self.tensors))
        return forms, forms.run(self.body(), self.given)

    def value(self, output: int) -> Any:
        return self.made(output)[1][0]

    def refused(self, output: int, match: str = "is not a recurrent layer") -> None:
        with pytest.raises(Unsupported, match=match):
            self.made(output)

    def one(self, tensor: int) -> int:
        return self.op("reshape", tensor, None, shape=(1,))

    def place(self, tensor: int, *rest: int) -> int:
        return self.op("concat", self.one(tensor), self.ints(*rest), axis=0)

    def after(self) -> int:
        return self.op("add", self.counter, self.ints(1))


def test_numbers_are_short_lists_of_integers() -> None:
    g = Body()
    assert g.value(g.constant(np.arange(MAX_NUMBERS, dtype=np.int32))) == Numbers((*range(8),))
    assert g.value(g.constant(np.arange(MAX_NUMBERS + 1, dtype=np.int32))) is None
    assert g.value(g.constant(np.float32([1]))) is None
    g.refused(g.op("add", g.counter, g.constant(np.float32(1))))


def test_counters() -> None:
    g = Body()
    assert g.value(g.counter) == Numbers((Counter(0),))
    assert g.value(g.op("add", g.ints(2), g.after())) == Numbers((Counter(0, 3),))
    for operands in ((g.counter, g.counter), (g.ints(1), g.ints(1)), (g.counter, g.ints(1, 2)),
                     (g.place(g.counter, 0), g.ints(1))):  # fmt: skip
        g.refused(g.op("add", *operands), "counter is not increased")
        g.nodes.pop()


def test_the_end() -> None:
    g = Body()
    low = g.op("less", g.counter, g.ints(5))
    both = g.op("logical_and", low, g.op("less", g.after(), g.ints(7)))
    assert g.value(both) == Below(frozenset({(Counter(0), 5), (Counter(0, 1), 7)}))
    true = g.tensor((), "bool", np.array(True))
    for operands in ((low, true), (true, low)):
        g.refused(g.op("logical_and", *operands), "condition is not a comparison")
        g.nodes.pop()
    for pair in ((g.ints(5), g.counter), (g.counter, g.counter), (g.ints(1), g.ints(2)),
                 (g.state, g.ints(1)), (g.counter, g.state)):  # fmt: skip
        g.refused(g.op("less", *pair), "condition is not a comparison")
        g.nodes.pop()


def test_rows_of_a_sequence() -> None:
    g = Body()
    forms, (row,) = g.made(g.op("gather", g.rows, g.counter, axis=0))
    assert forms.made[row.form] == ("row", 3, Counter(0))
    assert (row.rows, row.width) == (BATCH, INPUTS)
    ahead = g.op("gather", g.rows, g.after(), axis=0)
    forms, (row,) = g.made(ahead)
    assert forms.made[row.form] == ("row", 3, Counter(0, 1))


@pytest.mark.parametrize(
    "make",
    [
        lambda g: g.op("gather", g.state, g.counter, axis=0),
        lambda g: g.op("gather", g.op("tanh", g.state), g.counter, axis=0),
        lambda g: g.op("gather", g.rows, g.counter, axis=1),
        lambda g: g.op("gather", g.rows, g.counter, axis=0, batch_dims=1),
        lambda g: g.op("gather", g.rows, g.ints(0), axis=0),
        lambda g: g.op("gather", g.rows, g.place(g.counter, 0), axis=0),
        lambda g: g.op("gather", g.rows, g.state, axis=0),
    ],
)
def test_other_rows(make: Callable[[Body], int]) -> None:
    g = Body()
    g.refused(make(g), "row by row")


def test_rows_are_floats() -> None:
    g = Body()
    g.given[3] = Tensor("", SHAPES[3], "i32")
    g.tensors[g.rows] = Tensor("", SHAPES[3], "i32")
    g.refused(g.op("gather", g.rows, g.counter, axis=0), "row by row")


def test_products() -> None:
    g = Body()
    weights_, bias = g.constant(weights(2, UNITS)), g.constant(seeded(2 * UNITS))
    forms, (found,) = g.made(g.op("fully_connected", g.state, weights_, bias))
    state = forms.form("state", 2)
    assert forms.slabs(found.form) == (Slab(weights_, 0, 6, state), Slab(bias, 0, 6))
    assert (found.rows, found.width) == (BATCH, 2 * UNITS)
    assert forms.slabs(state) == ()


@pytest.mark.parametrize(
    "make",
    [
        lambda g: g.op("fully_connected", g.state, g.state, None),
        lambda g: g.dense(g.state, np.ones((4, UNITS), np.int8)),
        lambda g: g.dense(g.state, np.ones((4, 2 * UNITS), np.float32)),
        lambda g: g.dense(g.state, np.ones(UNITS, np.float32)),
        lambda g: g.dense(g.state, np.ones((1, 4, UNITS), np.float32)),
        lambda g: g.dense(g.rows, np.ones((4, INPUTS), np.float32)),
        lambda g: g.dense(g.state, weights(1, UNITS), np.ones(UNITS, np.float16)),
        lambda g: g.dense(g.state, weights(1, UNITS), np.ones(UNITS - 1, np.float32)),
        lambda g: g.dense(g.state, weights(1, UNITS), np.ones((UNITS, 1), np.float32)),
        lambda g: g.op("fully_connected", g.counter, g.constant(weights(1, UNITS)), None),
    ],
)
def test_other_products(make: Callable[[Body], int]) -> None:
    g = Body()
    g.refused(make(g))


def test_no_bias() -> None:
    g = Body()
    matrix = g.constant(weights(1, UNITS))
    forms, (found,) = g.made(g.op("fully_connected", g.state, matrix))
    assert len(forms.slabs(found.form)) == 1


def test_a_bias_that_a_step_makes() -> None:
    g = Body(batch=1)
    g.refused(
        g.op("fully_connected", g.state, g.constant(weights(1, UNITS)), g.state), "not a bias"
    )


def test_the_same_bias_twice() -> None:
    g = Body()
    bias = g.constant(seeded(UNITS))
    dense = g.op("fully_connected", g.state, g.constant(weights(1, UNITS)), bias)
    forms, (found,) = g.made(g.op("add", dense, bias))
    assert forms.slabs(found.form).count(Slab(bias, 0, UNITS)) == 2


@pytest.mark.parametrize("constant", [seeded(UNITS, 1), seeded(1), seeded(UNITS).astype("f2")])
def test_a_constant_that_is_no_bias(constant: Any) -> None:
    g = Body()
    dense = g.dense(g.state, weights(1, UNITS))
    g.refused(g.op("add", dense, g.constant(constant)), "not a bias")


def test_a_constant_is_added_to_products_alone() -> None:
    g = Body()
    g.refused(g.op("add", g.state, g.constant(seeded(UNITS))), "not a sum of products")


@pytest.mark.parametrize("op", ["add", "mul"])
def test_the_order_of_two(op: str) -> None:
    g = Body()
    a, b = g.op("tanh", g.state), g.op("logistic", g.state)
    first, second = g.op(op, a, b), g.op(op, b, a)
    _, (one, other) = g.made(first, second)
    assert one == other
    g.refused(g.op(op, a, g.dense(g.state, weights(2, UNITS))), "broadcasts")


def test_operands_that_spread_each_other() -> None:
    """A column and a row of one size make a matrix."""
    g = Body(batch=1)
    column = g.op("reshape", g.state, None, shape=(UNITS, 1))
    g.refused(g.op("mul", column, g.op("tanh", g.state)), "makes")


def test_fused_activations() -> None:
    g = Body()
    forms, (found,) = g.made(g.op("mul", g.state, g.state, activation="relu"))
    assert forms.made[found.form][0] == "relu"
    g.refused(g.op("mul", g.state, g.state, activation="relu6"), "activation relu6")


def columns(g: Body, start: int, count: int, rank: int = 2) -> int:
    dense = g.dense(g.state, weights(3, UNITS))
    if rank == 3:
        dense = g.op("reshape", dense, None, shape=(1, BATCH, 3 * UNITS))
    zeros = (0,) * (rank - 1)
    return g.op("slice", dense, g.ints(*zeros, start), g.ints(*(-1 for _ in zeros), count))


@pytest.mark.parametrize("rank", [2, 3])
def test_columns(rank: int) -> None:
    g = Body()
    forms, (found,) = g.made(columns(g, 2, 4, rank))
    (slab,) = forms.slabs(found.form)
    assert (slab.start, slab.stop, found.width) == (2, 6, 4)


def test_columns_of_columns_and_of_functions() -> None:
    g = Body()
    dense = g.op("logistic", g.dense(g.state, weights(4, UNITS)))
    _, high = g.split(dense, 2)
    _, part = g.split(high, 2)
    forms, (found,) = g.made(part)
    name, inner = forms.made[found.form]
    assert name == "logistic"
    assert forms.slabs(inner)[0][1:3] == (9, 12)


def test_all_columns_of_a_state() -> None:
    g = Body()
    forms, (found,) = g.made(g.op("slice", g.state, g.ints(0, 0), g.ints(-1, UNITS)))
    assert found == Vector(forms.form("state", 2), BATCH, UNITS)


@pytest.mark.parametrize(
    "make",
    [
        lambda g: g.op("slice", g.state, g.ints(0, 0), g.ints(1, -1)),  # rows
        lambda g: g.op("slice", g.state, g.ints(1, 0), g.ints(1, -1)),
        lambda g: g.op("slice", g.state, g.ints(0, 0), g.ints(0, -1)),  # none
        lambda g: g.op("slice", g.state, g.ints(0, 1), g.ints(-1, 2)),  # columns of no products
        lambda g: g.op("slice", g.op("mul", g.state, g.state), g.ints(0, 1), g.ints(-1, 2)),
        lambda g: g.op("slice", g.op("tanh", g.state), g.ints(0, 1), g.ints(-1, 2)),
        lambda g: g.op("reshape", g.state, None, shape=(UNITS, BATCH)),
        lambda g: g.op("reshape", g.state, None, shape=(BATCH * UNITS,)),
        lambda g: g.op("reshape", g.state, None, shape=(5, 5)),
        lambda g: g.many("split", g.state, g.ints(0), count=2)[1],
        lambda g: g.op("reshape", g.rows, None, shape=(STEPS, -1)),
        lambda g: g.op("split", g.counter, g.ints(0)),
    ],
)
def test_other_moves(make: Callable[[Body], int]) -> None:
    g = Body()
    g.refused(make(g))


def test_rows_in_another_shape() -> None:
    for batch, shapes in ((1, ((UNITS,), (UNITS, 1), (1, 1, UNITS))),
                          (BATCH, ((1, BATCH, UNITS), (BATCH, 1, UNITS)))):  # fmt: skip
        for shape in shapes:
            g = Body(batch)
            found = g.value(g.op("reshape", g.state, None, shape=shape))
            assert (found.rows, found.width) == (batch, UNITS)


def update(
    g: Body, low: Any = None, high: Any = None, row: Any = None, rest: Any = None, axis: int = 0
) -> int:
    """Adds nodes that replace a row of the list by slicing and joining; returns the new list."""
    row = g.op("reshape", g.state, None, shape=(1, BATCH, UNITS)) if row is None else row
    low = (g.ints(0, 0, 0), g.place(g.counter, -1, -1)) if low is None else low
    high = (g.place(g.after(), 0, 0), g.ints(-1, -1, -1)) if high is None else high
    parts = [g.op("slice", g.list, *low), row, g.op("slice", rest or g.list, *high)]
    return g.op("concat", *parts, axis=axis)


def test_a_list_with_a_row_put_in() -> None:
    g = Body()
    forms, (found,) = g.made(update(g))
    assert found == Listed(1, Counter(0), forms.form("state", 2))
    g = Body()
    low = g.ints(0, 0, 0), g.place(g.counter, BATCH, UNITS)
    assert g.value(update(g, low)) == found
    g = Body()
    row = g.op("reshape", g.state, None, shape=(1, BATCH, UNITS))
    assert g.value(g.op("update_slice", g.list, row, g.place(g.counter, 0, 0))) == found


@pytest.mark.parametrize(
    "make",
    [
        lambda g: update(g, (g.ints(1, 0, 0), g.place(g.counter, -1, -1))),
        lambda g: update(g, (g.ints(0, 1, 0), g.place(g.counter, -1, -1))),
        lambda g: update(g, (g.ints(0, 0, 1), g.place(g.counter, -1, -1))),
        lambda g: update(g, (g.ints(0, 0, 0), g.place(g.counter, BATCH - 1, -1))),
        lambda g: update(g, (g.ints(0, 0, 0), g.place(g.counter, -1, UNITS - 1))),
        lambda g: update(g, (g.ints(0, 0, 0), g.place(g.counter, -1))),
        lambda g: update(g, (g.ints(0, 0), g.place(g.counter, -1, -1))),
        lambda g: update(g, (g.ints(0, 0, 0), g.ints(2, -1, -1))),
        lambda g: update(g, (g.place(g.counter, 0, 0), g.place(g.counter, -1, -1))),
        lambda g: update(g, (g.ints(0, 0, 0), g.place(g.after(), -1, -1))),
        lambda g: update(g, (g.place(g.counter, 0, 0), g.ints(-1, -1, -1))),
        lambda g: update(g, (g.state, g.place(g.counter, -1, -1))),
        lambda g: update(g, (g.ints(0, 0, 0), g.state)),
        lambda g: update(g, high=(g.place(g.counter, 0, 0), g.ints(-1, -1, -1))),
        lambda g: update(g, high=(g.place(g.after(), 0, 0), g.ints(2, -1, -1))),
        lambda g: update(g, high=(g.ints(1, 0, 0), g.ints(-1, -1, -1))),
        lambda g: update(g, high=(g.ints(0, 0, 0), g.place(g.after(), -1, -1))),
        lambda g: update(g, row=g.op("reshape", g.state, None, shape=(BATCH, 1, UNITS))),
        lambda g: update(g, row=g.state),
        lambda g: update(g, rest=g.rows),
        lambda g: update(g, axis=1),
        lambda g: g.op("concat", g.state, g.state, axis=0),
        lambda g: g.op("concat", g.state, g.state, g.state, axis=0),
        lambda g: g.op("concat", g.list, None, g.list, axis=0),
        lambda g: g.op("concat", g.ints(1), g.state, axis=0),
    ],
)
def test_other_lists(make: Callable[[Body], int]) -> None:
    g = Body()
    g.refused(make(g))


def test_a_list_of_which_more_is_joined() -> None:
    g = Body()
    made = update(g)
    last = g.nodes.pop()
    low, row, high = (t for t in last.inputs if t is not None)
    other = g.op("reshape", g.state, None, shape=(1, BATCH, UNITS))
    for parts in ((low, row, row, high), (high, row, low), (low, row, low), (low, row),
                  (high, row, high), (low, row, other), (other, row, high)):  # fmt: skip
        g.refused(g.op("concat", *parts, axis=0))
        g.nodes.pop()
    assert made


@pytest.mark.parametrize(
    "make",
    [
        lambda g, row: g.op("update_slice", g.list, row, g.place(g.counter, 1, 0)),
        lambda g, row: g.op("update_slice", g.list, row, g.place(g.counter, 0, 1)),
        lambda g, row: g.op("update_slice", g.list, row, g.place(g.counter, 0)),
        lambda g, row: g.op("update_slice", g.list, row, g.place(g.counter, 0, 0, 0)),
        lambda g, row: g.op("update_slice", g.list, row, g.ints(0, 0, 0)),
        lambda g, row: g.op("update_slice", g.list, row, g.ints(0, 1, 0)),
        lambda g, row: g.op("update_slice", g.list, row, g.state),
        lambda g, row: g.op("update_slice", row, row, g.place(g.counter, 0, 0)),
        lambda g, row: g.op("update_slice", g.list, g.state, g.place(g.counter, 0, 0)),
    ],
)
def test_other_updates(make: Callable[[Body, int], int]) -> None:
    g = Body()
    g.refused(make(g, g.op("reshape", g.state, None, shape=(1, BATCH, UNITS))))


def test_float16_constants_alone() -> None:
    g = Body()
    half = g.tensor((BATCH, UNITS), "f16")
    g.refused(g.op("dequantize", half), "not floats")
    g.nodes.pop()
    g.refused(g.op("dequantize", g.constant(np.ones(3, np.int8))), "not floats")


def test_what_a_body_is_given() -> None:
    """Each input occurs once; constants of the model are no inputs."""
    g = Body()
    g.inputs[2] = g.inputs[3]
    g.given[2] = g.given[3]
    g.refused(g.counter, "shape of its value 3 changes")
    g = Body()
    g.tensors[g.state] = Tensor("", (BATCH, UNITS), "f32", seeded(BATCH, UNITS))
    g.refused(g.counter, "shape of its value 2 changes")
    g = Body()
    g.given[2] = Tensor("", (BATCH, UNITS), "i32")
    g.refused(g.counter, "shape of its value 2 changes")


@pytest.mark.parametrize("number", [0, 1])
def test_what_is_written_twice(number: int) -> None:
    for other in ("state", "constant"):
        g = Body()
        parts = g.split(g.dense(g.state, weights(2, UNITS)), 2)
        taken = g.state if other == "state" else g.constant(seeded(UNITS))
        outputs = [*parts]
        outputs[number] = taken
        g.nodes[-1] = type(g.nodes[-1])(9, "split", g.nodes[-1].inputs, tuple(outputs))
        g.refused(parts[1 - number], "writes a tensor twice")


def test_what_nothing_makes() -> None:
    g = Body()
    g.refused(g.op("tanh", g.tensor((BATCH, UNITS))), "no node writes")
