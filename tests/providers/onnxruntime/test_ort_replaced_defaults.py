"""Tests inputs with a default that a run replaces, like LoRA adapters: a plan made for the default
is never used for another value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.onnx_models import Array, cpu, model, node, session

pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.adapter
X = np.random.default_rng(0).standard_normal((2, 8)).astype(np.float32)
DEFAULT = np.arange(1, 9, dtype=np.float32)


def another(place: int) -> Array:
    """Returns the default with one element changed."""
    made = DEFAULT.copy()
    made[place] = -3
    return made


@pytest.mark.parametrize(
    "given",
    [another(0), another(4), another(-1), DEFAULT[:1], DEFAULT[:1] * 2, -DEFAULT],
    ids=["first", "middle", "last", "shorter", "shorter and other", "all"],
)
def test_no_run_answers_with_a_default_that_was_replaced(given: Array) -> None:
    data = model([node("Mul", ["x", "w"], ["y"])], {"x": X.shape, "w": ("n",)}, {"y": X.shape},
                 {"w": DEFAULT})  # fmt: skip
    ours, theirs = session(data), cpu(data)

    def right(**feed: Any) -> None:
        (wanted,) = theirs.run(None, feed)
        np.testing.assert_allclose(ours.run(None, feed)[0], wanted, rtol=1e-6)

    right(x=X)
    right(x=X, w=DEFAULT)
    right(x=X, w=given)
    right(x=X)


@pytest.mark.parametrize("op", ["Bernoulli", "Neg", "Mul"])
def test_a_default_that_nodes_on_the_cpu_read_too(op: str) -> None:
    """onnxruntime copies a default for our nodes where its own read it, too. A Mul is in a second
    partition, behind a node on the CPU; chances of 0 and 1 make Bernoulli a copy."""
    chances = np.eye(4, 8, dtype=np.float32)
    nodes = [node("Mul", ["x", "w"], ["y"])]
    nodes += [node("Bernoulli", ["x"], ["r"]), node("Mul", ["r", "w"], ["z"])] if op == "Mul" else (
        [node(op, ["w"], ["z"])])  # fmt: skip
    shapes = {"x": (2, 8), "w": (8,)}
    outputs = {"y": (2, 8), "z": (2, 8) if op == "Mul" else (8,)}
    data = model(nodes, shapes, outputs, {"w": chances[3]})
    ours, theirs = session(data), cpu(data)
    for given in (chances[3], chances[1], chances[3]):
        feed = {"x": chances[:2], "w": given}
        for found, wanted in zip(ours.run(None, feed), theirs.run(None, feed), strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_a_default_replaced_by_the_same_numbers_in_another_shape() -> None:
    data = model([node("Mul", ["x", "w"], ["y"])], {"x": (8, 8), "w": ("n", "m")}, {"y": (8, 8)},
                 {"w": DEFAULT[None]})  # fmt: skip
    ours, theirs = session(data), cpu(data)
    x = np.ones((8, 8), np.float32)
    for given in (DEFAULT[None], DEFAULT[:, None], DEFAULT[None]):
        (wanted,) = theirs.run(None, {"x": x, "w": given})
        np.testing.assert_array_equal(ours.run(None, {"x": x, "w": given})[0], wanted)


def test_a_body_reads_the_value_that_replaces_a_default() -> None:
    """Such a run is the host's: its model of the partition has the body of a loop as a graph."""
    from onnx import TensorProto, helper

    names = {"i": TensorProto.INT64, "more": TensorProto.BOOL}
    before = [helper.make_tensor_value_info(name, kind, []) for name, kind in names.items()]
    held = helper.make_tensor_value_info("s", TensorProto.FLOAT, [2, 8])
    after = helper.make_tensor_value_info("t", TensorProto.FLOAT, [2, 8])
    goes = helper.make_tensor_value_info("goes", TensorProto.BOOL, [])
    steps = [node("Identity", ["more"], ["goes"]), node("Mul", ["s", "w"], ["t"])]
    body = helper.make_graph(steps, "body", [*before, held], [goes, after])
    data = model(
        [node("Loop", ["count", "", "x"], ["y"], body=body)], {"x": X.shape, "w": (8,)},
        {"y": X.shape}, {"w": DEFAULT, "count": np.array(3)},
    )  # fmt: skip
    ours, theirs = session(data), cpu(data)
    for feed in ({"x": X}, {"x": X, "w": another(4)}, {"x": X}):
        (wanted,) = theirs.run(None, feed)
        np.testing.assert_allclose(ours.run(None, feed)[0], wanted, rtol=1e-5)
