"""Loops are recognized as recurrent layers by what they compute: weights are in the op's order
whatever the body's, and anything unaccounted for prevents recognition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from conformance.cases import seeded
from tests.support.loop_bodies import (
    BATCH,
    STEPS,
    UNITS,
    Loop,
    blocks,
    gru,
    lstm,
    rnn,
    weights,
)
from tflgpu_plugin.errors import Unsupported
from tflgpu_plugin.importer import loop_body
from tflgpu_plugin.ir import Node, Tensor

same = np.testing.assert_array_equal
USUAL = {"steps": STEPS, "batch": BATCH, "every": True}


def node(loop: Loop, op: str, number: int = 0) -> int:
    """Returns the index of the node with this op in the body."""
    return [k for k, one in enumerate(loop.graph.nodes) if one.op == op][number]


def changed(loop: Loop, name: str, number: int = 0, **to: Any) -> Loop:
    """Returns the loop with one node of its body replaced."""
    at = node(loop, name, number)
    loop.graph.nodes[at] = replace(loop.graph.nodes[at], **to)
    return loop


def fed(loop: Loop, op: str, position: int, tensor: int, number: int = 0) -> Loop:
    """Returns the loop with another operand of one node of its body."""
    at = node(loop, op, number)
    inputs = list(loop.graph.nodes[at].inputs)
    inputs[position] = tensor
    return changed(loop, op, number, inputs=tuple(inputs))


# ---- what they are -------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["ifco", "cofi", "ofic"])
def test_an_lstm(order: str) -> None:
    found = lstm(order).layer()
    assert (found.sequence, found.states) == (4, (2, 3))
    assert found.results == {1: "y", 2: "h", 3: "c"}
    assert found.attributes == USUAL | {"cell": "lstm", "gates": "ifco"}
    same(found.weights, blocks(weights(4), order, "ifco"))
    same(found.recurrent, blocks(weights(4, UNITS, 2), order, "ifco"))
    same(found.bias, blocks(seeded(4 * UNITS, seed=3), order, "ifco"))
    assert found.content_bias is None


def test_an_lstm_whose_states_are_carried_the_other_way_round() -> None:
    loop = lstm()
    g = loop.graph
    h, c = loop.states
    swapped = {h: c, c: h}
    for k, one in enumerate(g.nodes):
        g.nodes[k] = replace(one, inputs=tuple(swapped.get(t, t) if t is not None else t
                                               for t in one.inputs))  # fmt: skip
    g.outputs[2:4] = g.outputs[3:1:-1]
    found = loop.layer()
    assert found.states == (3, 2) and found.results == {1: "y", 3: "h", 2: "c"}
    same(found.weights, weights(4))


@pytest.mark.parametrize("biased", [False, True])
def test_a_gru_that_resets_products(biased: bool) -> None:
    found = gru(biased=biased).layer()
    assert found.attributes == USUAL | {"cell": "gru", "linear": True}
    assert (found.states, found.results) == ((2,), {1: "y", 2: "h"})
    same(found.weights, weights(3))
    same(found.recurrent, weights(3, UNITS, 2))
    if not biased:
        assert found.bias is None and found.content_bias is None
        return
    of_x, of_h = seeded(3 * UNITS, seed=3), seeded(3 * UNITS, seed=4)
    same(found.content_bias, of_h[2 * UNITS :])
    of_h[2 * UNITS :] = 0
    same(found.bias, of_x + of_h)


@pytest.mark.parametrize("biased", [False, True])
def test_a_gru_that_resets_its_state(biased: bool) -> None:
    found = gru(linear=False, biased=biased).layer()
    assert found.attributes == USUAL | {"cell": "gru", "linear": False}
    same(found.recurrent, np.concatenate([weights(2, UNITS, 2), weights(1, UNITS, 5)]))
    assert found.content_bias is None and (found.bias is not None) == biased


@pytest.mark.parametrize("activation", ["tanh", "relu", "logistic"])
def test_a_simple_layer(activation: str) -> None:
    found = rnn(activation=activation).layer()
    assert found.attributes == USUAL | {"cell": "rnn", "activation": activation}
    same(found.weights, weights(1))
    same(found.recurrent, weights(1, UNITS, 2))


def test_a_fused_activation() -> None:
    loop = rnn()
    last = node(loop, "tanh")
    (made,) = loop.graph.nodes[last].outputs
    del loop.graph.nodes[last]
    loop = changed(loop, "add", 1, attributes={"activation": "relu"}, outputs=(made,))
    assert loop.layer().attributes["activation"] == "relu"


def test_only_the_last_step() -> None:
    found = lstm(every=False).layer()
    assert found.results == {1: "y", 2: "h", 3: "c"} and not found.attributes["every"]


def test_no_list_at_all() -> None:
    loop = rnn()
    loop.graph.outputs[1] = loop.stack
    found = loop.layer()
    assert found.results == {2: "h"} and not found.attributes["every"]


def test_fewer_steps_than_the_sequence_has() -> None:
    loop = rnn(every=False)
    loop.condition.nodes.clear()
    ends = [loop.condition.op("less", loop.condition.inputs[0], loop.condition.ints(n))
            for n in (STEPS + 3, STEPS - 2)]  # fmt: skip
    loop.condition.outputs = [loop.condition.op("logical_and", *ends)]
    assert loop.layer().attributes["steps"] == STEPS - 2


def test_one_sequence_row_may_be_flat() -> None:
    """A sequence row of one batch may be flat, as converters write it."""
    loop = Loop(batch=1)
    g = loop.graph
    of_h = g.op("reshape", g.dense(loop.states[0], weights(1, UNITS, 2)), None, shape=(UNITS,))
    both = g.op("add", g.dense(loop.row, weights(1)), of_h)
    found = loop.finish(g.op("tanh", both)).layer()
    assert found.attributes["batch"] == 1


def test_columns_by_slices() -> None:
    loop = lstm()
    z = loop.graph.nodes[node(loop, "split")]
    at = loop.graph.nodes.index(z)
    del loop.graph.nodes[at]
    ends, ones = [(0, 0), (0, UNITS), (0, 2 * UNITS), (0, 3 * UNITS), (0, 4 * UNITS)], (1, 1)
    cuts: list[Node] = []
    for k, made in enumerate(z.outputs):
        operands = [loop.graph.ints(*pair) for pair in (ends[k], ends[k + 1], ones)]
        cuts.append(Node(90 + k, "strided_slice", (z.inputs[0], *operands), (made,),
                         {"begin_mask": 1, "end_mask": 1}))  # fmt: skip
    loop.graph.nodes[at:at] = cuts
    same(loop.layer().weights, weights(4))


def test_gates_whose_function_is_taken_before_they_are_parted() -> None:
    """The update and the reset gate of a GRU share one activation."""
    loop = Loop()
    g, (h,) = loop.graph, loop.states
    of_x, of_h = g.dense(loop.row, weights(2)), g.dense(h, weights(2, UNITS, 2))
    update, reset = g.split(g.op("logistic", g.op("add", of_x, of_h)), 2)
    own = g.dense(g.op("mul", reset, h), weights(1, UNITS, 5))
    new = g.op("tanh", g.op("add", g.dense(loop.row, weights(1, seed=6)), own))
    rest = g.op("sub", g.constant(np.float32(1)), update)
    found = loop.finish(g.op("add", g.op("mul", update, h), g.op("mul", rest, new))).layer()
    same(found.weights, np.concatenate([weights(2), weights(1, seed=6)]))


def test_float16_weights() -> None:
    loop = Loop()
    g = loop.graph
    half = g.constant(weights(1).astype(np.float16))
    dense = g.op("fully_connected", loop.row, g.op("dequantize", half), None)
    of_h = g.dense(loop.states[0], weights(1, UNITS, 2))
    found = loop.finish(g.op("tanh", g.op("add", dense, of_h))).layer()
    same(found.weights, weights(1).astype(np.float16).astype(np.float32))


def test_an_update_in_place() -> None:
    loop = rnn()
    g = loop.graph
    row = g.nodes[node(loop, "reshape")].outputs[0]
    here = g.op("concat", g.op("reshape", loop.counter, None, shape=(1,)), g.ints(0, 0), axis=0)
    g.outputs[1] = g.op("update_slice", loop.stack, row, here)
    assert loop.layer().results == {1: "y", 2: "h"}


def test_biases_of_a_block_are_added_up() -> None:
    loop = rnn(bias=seeded(UNITS, seed=7))
    g = loop.graph
    at = node(loop, "add", 1)
    both = g.nodes[at]
    more = g.tensor()
    g.nodes[at : at + 1] = [
        replace(both, outputs=(more,)),
        Node(91, "add", (g.constant(seeded(1, UNITS, seed=8)), more), both.outputs, {}),
    ]
    same(loop.layer().bias, seeded(UNITS, seed=7) + seeded(1, UNITS, seed=8)[0])


# ---- what they are not ---------------------------------------------------------------------------


def started(value: int | None) -> Loop:
    loop = rnn()
    data = None if value is None else np.array(value, np.int32)
    loop.given[0] = Tensor("v0", (), "i32", data)
    return loop


def ended(op: str, *operands: Callable[[Loop], int]) -> Loop:
    loop = rnn()
    loop.condition.nodes.clear()
    loop.condition.outputs = [loop.condition.op(op, *(make(loop) for make in operands))]
    return loop


def number(value: int) -> Callable[[Loop], int]:
    return lambda loop: loop.condition.ints(value)


def value(position: int) -> Callable[[Loop], int]:
    return lambda loop: loop.condition.inputs[position]


def counted(loop: Loop) -> int:
    return loop.condition.op("add", loop.condition.inputs[0], loop.condition.ints(1))


def given(position: int, tensor: Tensor) -> Loop:
    loop = rnn()
    loop.given[position] = tensor
    return loop


def more_outputs() -> Loop:
    loop = rnn()
    loop.graph.outputs.append(loop.sequence)
    return loop


def outputs(position: int, make: Callable[[Loop], int], loop: Loop | None = None) -> Loop:
    loop = loop or rnn()
    loop.graph.outputs[position] = make(loop)
    return loop


def two_lists() -> Loop:
    loop = Loop(2)
    g, (h, c) = loop.graph, loop.states
    new = g.op("tanh", g.op("add", g.dense(loop.row, weights(1)), g.dense(h, weights(1, UNITS, 2))))
    loop.finish(new, c)
    g.outputs[3] = g.op("reshape", new, None, shape=loop.one)
    return loop


def second_sequence() -> Loop:
    loop = rnn()
    g = loop.graph
    other = g.op("gather", loop.stack, loop.counter, axis=0)
    of_it = g.dense(other, weights(1, UNITS, 9))
    g.nodes[node(loop, "add", 1) : node(loop, "add", 1)] = [g.nodes.pop(-2), g.nodes.pop(-1)]
    return fed(loop, "add", 0, of_it, 1)


def third_factor() -> Loop:
    """Returns a GRU whose candidate state also depends on the state, before and after the reset
    gate."""
    loop = gru(linear=False)
    g = loop.graph
    at = node(loop, "add", 3)
    both, more = g.nodes[at], g.dense(loop.states[0], weights(1, UNITS, 9))
    made = g.tensor()
    g.nodes[at : at + 1] = [
        g.nodes.pop(),
        replace(both, outputs=(made,)),
        Node(92, "add", (made, more), both.outputs),
    ]
    return loop


def other_list() -> Loop:
    """Returns a loop that carries its two lists crosswise."""
    loop = rnn()
    for graph in (loop.graph, loop.condition):
        graph.input(loop.shapes[1])
    loop.given.append(loop.given[1])
    loop.graph.outputs.append(loop.graph.outputs[1])
    loop.graph.outputs[1] = loop.stack
    return loop


def at_a_gate() -> Loop:
    """Returns a GRU whose candidate state depends on the reset gate alone."""
    loop = gru(linear=False)
    return fed(
        loop, "fully_connected", 0, loop.graph.nodes[node(loop, "logistic", 1)].outputs[0], 2
    )


WRONG: dict[str, Callable[[], Loop]] = {
    "starts at 1": lambda: started(1),
    "starts at -1": lambda: started(-1),
    "starts at an index of the run": lambda: started(None),
    "counts by 2": lambda: by_two(),
    "never ends": lambda: ended("less", number(1), number(STEPS)),
    "ends at once": lambda: ended("less", value(0), number(0)),
    "ends after the sequence": lambda: ended("less", value(0), number(STEPS + 1)),
    "ends below": lambda: ended("less", number(STEPS), value(0)),
    "ends by what counts ahead": lambda: ended("less", counted, number(STEPS)),
    "ends by a value": lambda: ended("less", value(2), number(STEPS)),
    "ends by two numbers": lambda: ended(
        "less", value(0), lambda loop: loop.condition.ints(STEPS, 1)
    ),
    "ends by another operator": lambda: ended("less_equal", value(0), number(STEPS - 1)),
    "a list of fewer steps": lambda: ended("less", value(0), number(STEPS - 1)),
    "is given fewer values": lambda: cut_given(),
    "gives more values": more_outputs,
    "is given other types": lambda: given(2, Tensor("h", (BATCH, UNITS), "i32")),
    "gives back the next state for the list": lambda: outputs(1, lambda loop: loop.states[0]),
    "changes the sequence": lambda: outputs(3, lambda loop: loop.graph.op("tanh", loop.sequence)),
    "gives the sequence for a state": lambda: outputs(2, lambda loop: loop.sequence),
    "counts twice": lambda: outputs(
        0, lambda loop: loop.graph.op("add", loop.more, loop.graph.ints(1))
    ),
    "does not count": lambda: outputs(0, lambda loop: loop.counter),
    "another state": lambda: outputs(
        3, lambda loop: loop.graph.op("tanh", loop.graph.outputs[3]), lstm()
    ),
    "two lists": two_lists,
    "a list of another list": other_list,
    "a gru of gates": at_a_gate,
    "a gru of its state twice": third_factor,
    "two sequences": second_sequence,
    "reads the next row": lambda: fed_first(),
    "the row of another axis": lambda: changed(rnn(), "gather", attributes={"axis": 1}),
    "rows of batches": lambda: changed(rnn(), "gather", attributes={"axis": 0, "batch_dims": 1}),
    "a node that is refused": lambda: changed(rnn(), "tanh", op=""),
    "an unknown operator": lambda: changed(rnn(), "tanh", op="exp"),
    "an activation that no step has": lambda: changed(
        rnn(), "add", 1, attributes={"activation": "relu6"}
    ),
    "the list in another axis": lambda: changed(rnn(), "concat", 2, attributes={"axis": 1}),
    "a list with an activation": lambda: changed(
        rnn(), "concat", 2, attributes={"axis": 0, "activation": "relu"}
    ),
    "an lstm without tanh": lambda: changed(lstm(), "tanh", 0, op="logistic"),
    "an lstm with another function at the end": lambda: changed(lstm(), "tanh", 1, op="relu"),
    "an lstm with another gate": lambda: changed(lstm(), "logistic", 1, op="tanh"),
    "an lstm that adds gates": lambda: changed(lstm(), "mul", 0, op="add"),
    "an lstm that multiplies parts": lambda: changed(lstm(), "add", 3, op="mul"),
    "a gru without tanh": lambda: changed(gru(), "tanh", op="logistic"),
    "a gru with another gate": lambda: changed(gru(), "logistic", 0, op="relu"),
    "a gru with another reset": lambda: changed(gru(), "logistic", 1, op="tanh"),
    "a gru before with another reset": lambda: changed(gru(linear=False), "logistic", 1, op="tanh"),
    "an unknown function": lambda: changed(rnn(), "tanh", op="", host_op="GELU"),
}


def cut_given() -> Loop:
    loop = rnn()
    loop.given.pop()
    return loop


def fed_first() -> Loop:
    """Returns a loop that reads the row after the counter's."""
    loop = rnn()
    add = loop.graph.nodes.pop(node(loop, "add"))
    loop.graph.nodes.insert(0, add)
    return fed(loop, "gather", 1, add.outputs[0])


def by_two() -> Loop:
    loop = rnn()
    return fed(loop, "add", 1, loop.graph.ints(2))


@pytest.mark.parametrize("name", WRONG)
def test_another_loop(name: str) -> None:
    with pytest.raises(Unsupported, match="is not a recurrent layer"):
        WRONG[name]().layer()


def test_what_the_constant_of_a_gru_is() -> None:
    for constant in (np.float32(2), np.float32([1, 1]), np.int32(1)):
        loop = gru()
        with pytest.raises(Unsupported, match="subtracts"):
            fed(loop, "sub", 0, loop.graph.constant(constant)).layer()
    loop = gru()
    assert fed(loop, "sub", 0, loop.graph.constant(np.float32([[1]]))).layer()
    with pytest.raises(Unsupported, match="subtracts"):
        fed(loop, "sub", 0, loop.states[0]).layer()


@pytest.mark.parametrize("position", [0, 1, 2])
def test_extents_of_the_list(position: int) -> None:
    """The list has one row per step, and rows have the size of the state."""
    loop = rnn()
    shape = list(loop.given[1].shape)
    shape[position] += 1
    loop.given[1] = replace(loop.given[1], shape=tuple(shape))
    with pytest.raises(Unsupported):
        loop.layer()


def test_a_body_of_many_nodes() -> None:
    loop = rnn()
    while len(loop.graph.nodes) < loop_body.MAX_NODES:
        loop.graph.op("tanh", loop.states[0])
    loop.layer()
    loop.graph.op("tanh", loop.states[0])
    with pytest.raises(Unsupported, match="257 nodes"):
        loop.layer()


def test_expressions_that_double_take_no_time() -> None:
    loop = rnn()
    found = loop.graph.outputs[2]
    for _ in range(200):
        found = loop.graph.op("mul", found, found)
    loop.graph.outputs[2] = found
    with pytest.raises(Unsupported):
        loop.layer()


def test_a_weight_that_is_used_twice_is_no_gate() -> None:
    loop = rnn()
    of_x = loop.graph.nodes[node(loop, "fully_connected")].outputs[0]
    with pytest.raises(Unsupported, match="not that of an LSTM"):
        fed(fed(loop, "add", 0, of_x, 1), "add", 1, of_x, 1).layer()
