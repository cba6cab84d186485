"""TFLite models with a loop around a layer of any size, or a branch."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from conformance.cases import seeded
from conformance.models.tflite import Model, Shape
from tests.support.small_models import append_subgraph
from tflgpu_plugin.ir import NUMPY_DTYPES

FIRST_BODY = 1  # number of the first graph after the model's own


def packed(main: Model, *others: Model) -> bytes:
    """Returns the model with further graphs, from number 1 on."""
    whole = main.unpacked()
    for other in others:
        append_subgraph(whole, other.unpacked())
    builder = import_module("flatbuffers").Builder(1 << 16)
    builder.Finish(whole.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def dense(model: Model, x: int, weights: Any, name: str = "") -> int:
    """Adds a product of one row with weights [outputs, inputs], without a bias."""
    options = {"fusedActivationFunction": "NONE"}
    reads = [x, model.constant(weights), None]
    shape = (1, weights.shape[0])
    return model.op("FULLY_CONNECTED", reads, "FullyConnectedOptions", options, shape=shape,
                    name=name)  # fmt: skip


def _layer(units: int, counter: bool) -> Model:
    """Returns a graph that computes tanh(dense(x)) and increments a counter, if there is one."""
    graph, shape = Model(), (1, units)
    if counter:
        _count(graph)
    x = graph.input("x", shape)
    layer = dense(graph, x, seeded(units, units, scale=1 / units), "layer")
    graph.output(graph.op("TANH", [layer], shape=shape, name="tanh"))
    return graph


def _count(graph: Model) -> None:
    one = graph.constant(np.array(1, np.int32))
    reads, options = [graph.input("counter", (), "i32"), one], {"fusedActivationFunction": "NONE"}
    graph.output(graph.op("ADD", reads, "AddOptions", options, dtype="i32"))


def _either(graph: Model, x: int, units: int, number: int) -> int:
    """Adds an IF whose branches are both this graph."""
    named = {"thenSubgraphIndex": number, "elseSubgraphIndex": number}
    reads = [graph.constant(np.array(True)), x]
    return graph.op("IF", reads, "IfOptions", named, shape=(1, units))


def branching(units: int) -> bytes:
    """Returns a model of y = tanh(dense(x)) in an IF."""
    main = Model()
    main.output(_either(main, main.input("x", (1, units)), units, FIRST_BODY))
    return packed(main, _layer(units, False))


def constant_branch(dtype: str) -> bytes:
    """Returns a model that adds x to the result of an IF over a constant of this type; the branches
    are one and two negations."""
    shape, main = (1, 4), Model()
    truth = main.constant(np.array(True))
    held = main.constant(np.array([[0, 1, 1, 0]]).astype(NUMPY_DTYPES[dtype]))
    named = {"thenSubgraphIndex": FIRST_BODY, "elseSubgraphIndex": FIRST_BODY + 1}
    made = main.op("IF", [truth, held], "IfOptions", named, shape=shape, dtype=dtype)
    real = main.op("CAST", [made], "CastOptions", {}, shape=shape)
    options = {"fusedActivationFunction": "NONE"}
    main.output(main.op("ADD", [real, main.input("x", shape)], "AddOptions", options, shape=shape))
    op = ("LOGICAL_NOT", "LogicalNotOptions") if dtype == "bool" else ("NEG", "NegOptions")
    branches = (Model(), Model())
    for count, branch in enumerate(branches, 1):
        value = branch.input("value", shape, dtype)
        for _ in range(count):
            value = branch.op(op[0], [value], op[1], {}, shape=shape, dtype=dtype)
        branch.output(value)
    return packed(main, *branches)


def around(units: int, branch: bool = False) -> bytes:
    """Returns a model of y = tanh(dense(x)), applied twice, in a WHILE; with `branch`, in an IF in
    its body."""
    shape, inner = (1, units), _layer(units, False)
    body = Model() if branch else _layer(units, True)
    if branch:
        _count(body)
        body.output(_either(body, body.input("x", shape), units, FIRST_BODY + 2))
    main = Model()
    zero = main.constant(np.array(0, np.int32))
    main.output(_loop(main, FIRST_BODY, zero, main.input("x", shape)))
    return packed(main, _below(2, shape), body, *([inner] if branch else []))


def nested(units: int, deep: int = 2) -> bytes:
    """Returns a model of a layer, a loop whose body contains a loop, and so on `deep` times, of two
    steps each, and another layer."""
    shape, own = (1, units), np.ones((units, units), np.float32) / units
    main, condition = Model(), _below(2, shape)
    zero = main.constant(np.array(0, np.int32))
    pre = dense(main, main.input("x", shape), own, "pre")
    made = _loop(main, 1, zero, pre)
    main.output(dense(main, made, own, "post"))
    graphs = list[Model]()
    for number in range(3, 2 * deep + 1, 2):
        body = Model()
        _count(body)
        x = body.input("x", shape)
        body.output(_loop(body, number, body.constant(np.array(0, np.int32)), x))
        graphs += [condition, body]
    return packed(main, *graphs, condition, _layer(units, True))


def passing(units: int) -> bytes:
    """Returns a loop of two steps that counts only behind a loop in its body, which hands over the
    outer counter, as it was, with its own."""
    shape = (1, units)
    main, body, check, inner = Model(), Model(), Model(), Model()
    main.output(_loop(main, 1, main.constant(np.array(0, np.int32)), main.input("x", shape)))
    named = {"condSubgraphIndex": 3, "bodySubgraphIndex": 4}
    outer, x = body.input("counter", (), "i32"), body.input("x", shape)
    given = [body.constant(np.array(0, np.int32)), outer, x]
    made = body.multi_op("WHILE", given, "WhileOptions", named, shapes=[(), (), shape],
                         dtypes=["i32", "i32", "f32"])  # fmt: skip
    one, sums = body.constant(np.array(1, np.int32)), {"fusedActivationFunction": "NONE"}
    more = body.op("ADD", [made[1], one], "AddOptions", sums, dtype="i32")
    body.output(more, made[2])
    below = [check.input("counter", (), "i32"), check.constant(np.array(3, np.int32))]
    check.input("outer", (), "i32"), check.input("x", shape)
    check.output(check.op("LESS", below, "LessOptions", {}, dtype="bool"))
    _count(inner)
    kept, x = inner.input("outer", (), "i32"), inner.input("x", shape)
    inner.output(kept, dense(inner, x, np.ones((units, units), np.float32) / units))
    return packed(main, _below(2, shape), body, check, inner)


def _below(limit: int, shape: Shape) -> Model:
    """Returns the condition of a loop: its counter is below the limit."""
    graph = Model()
    below = [graph.input("counter", (), "i32"), graph.constant(np.array(limit, np.int32))]
    graph.input("x", shape)
    graph.output(graph.op("LESS", below, "LessOptions", {}, dtype="bool"))
    return graph


def _loop(graph: Model, condition: int, counter: int, x: int) -> int:
    """Adds a loop over a counter and x, whose condition and body are graphs with consecutive
    numbers; returns x after its last step."""
    named = {"condSubgraphIndex": condition, "bodySubgraphIndex": condition + 1}
    shapes = [(), graph.tensors[x].shape]
    made = graph.multi_op("WHILE", [counter, x], "WhileOptions", named, shapes=shapes,
                          dtypes=["i32", "f32"])  # fmt: skip
    return made[1]


def choosing(units: int, asked: bool = False) -> bytes:
    """Returns a loop of four steps. In its body an IF takes one branch in the first step, the other
    one later; a loop that begins at the outer counter follows. With `asked`, the first element of x
    chooses the branch."""
    shape, main, body = (1, units), Model(), Model()
    body_branches = (_layer(units, False), _halved(units))
    main.output(_loop(main, 1, main.constant(np.array(0, np.int32)), main.input("x", shape)))
    _count(body)
    x = body.input("x", shape)
    if asked:
        corner = [body.constant(np.array(n, np.int32)) for n in ((0, 0), (1, 1))]
        one = body.op("SLICE", [x, *corner], "SliceOptions", {}, shape=(1, 1))
        one = body.op("RESHAPE", [one, body.constant(np.zeros(0, np.int32))], "ReshapeOptions",
                      {"newShape": []}, shape=())  # fmt: skip
        pair = [one, body.constant(np.float32(0))]
    else:
        pair = [body.inputs[0], body.constant(np.array(1, np.int32))]
    which = body.op("LESS", pair, "LessOptions", {}, dtype="bool")
    named = {"thenSubgraphIndex": 3, "elseSubgraphIndex": 4}
    chosen = body.op("IF", [which, x], "IfOptions", named, shape=shape)
    body.output(_loop(body, 5, body.inputs[0], chosen))
    return packed(main, _below(4, shape), body, *body_branches, _below(6, shape),
                  _layer(units, True))  # fmt: skip


def _halved(units: int) -> Model:
    graph = Model()
    half = graph.constant(np.full((1, units), 0.5, np.float32))
    options = {"fusedActivationFunction": "NONE"}
    pair = [graph.input("x", (1, units)), half]
    graph.output(graph.op("MUL", pair, "MulOptions", options, shape=(1, units)))
    return graph
