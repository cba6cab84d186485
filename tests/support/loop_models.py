"""TFLite models with a loop around a layer of any size, or a branch."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from conformance.cases import seeded
from conformance.models.tflite import Model
from tests.support.small_models import append_subgraph

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


def around(units: int, branch: bool = False) -> bytes:
    """Returns a model of y = tanh(dense(x)), applied twice, in a WHILE; with `branch`, in an IF in
    its body."""
    shape, inner = (1, units), _layer(units, False)
    body = Model() if branch else _layer(units, True)
    if branch:
        _count(body)
        body.output(_either(body, body.input("x", shape), units, FIRST_BODY + 2))
    cond = Model()
    below = [cond.input("counter", (), "i32"), cond.constant(np.array(2, np.int32))]
    cond.input("x", shape)
    cond.output(cond.op("LESS", below, "LessOptions", {}, dtype="bool"))
    main = Model()
    named = {"condSubgraphIndex": FIRST_BODY, "bodySubgraphIndex": FIRST_BODY + 1}
    reads = [main.constant(np.array(0, np.int32)), main.input("x", shape)]
    results = main.multi_op("WHILE", reads, "WhileOptions", named, shapes=[(), shape],
                            dtypes=["i32", "f32"])  # fmt: skip
    main.output(results[1])
    return packed(main, cond, body, *([inner] if branch else []))


def nested(units: int) -> bytes:
    """Returns a model of a layer, a loop whose body contains a loop, and another layer."""
    shape, own = (1, units), np.ones((units, units), np.float32) / units
    main, condition, body = Model(), Model(), Model()
    zero = main.constant(np.array(0, np.int32))
    carried: dict[str, Any] = {"shapes": [(), shape], "dtypes": ["i32", "f32"]}
    pre = dense(main, main.input("x", shape), own, "pre")
    named = {"condSubgraphIndex": 1, "bodySubgraphIndex": 2}
    made = main.multi_op("WHILE", [zero, pre], "WhileOptions", named, **carried)
    main.output(dense(main, made[1], own, "post"))
    below = [condition.input("counter", (), "i32"), condition.constant(np.array(2, np.int32))]
    condition.input("x", shape)
    condition.output(condition.op("LESS", below, "LessOptions", {}, dtype="bool"))
    _count(body)
    given = [body.constant(np.array(0, np.int32)), body.input("x", shape)]
    named = {"condSubgraphIndex": 3, "bodySubgraphIndex": 4}
    body.output(body.multi_op("WHILE", given, "WhileOptions", named, **carried)[1])
    return packed(main, condition, body, condition, _layer(units, True))
