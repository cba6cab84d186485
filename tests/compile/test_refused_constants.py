"""A constant over the adapter's binding limit leaves the node that reads it on the CPU, and no
other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.support.harness import device_of
from tests.support.judged import claimed
from tests.support.net import Net

pytestmark = pytest.mark.adapter

LIMIT = 1 << 16
TABLE = np.random.default_rng(0).uniform(-1, 1, (256, 128)).astype(np.float32)


def product(b: Net, x: int) -> int:
    """Returns a product with a constant that cannot be split, and an epilogue."""
    return b.op("matmul", b.constant(TABLE), x)


def highest(b: Net, x: int) -> int:
    table, axes = b.constant(TABLE.T.copy()), b.ints(1)
    top = b.op("reduce_max", table, axes, keep_dims=True)
    return b.op("add", x, top)


def seen_otherwise(b: Net, x: int) -> int:
    flat = b.constant(TABLE.reshape(128, 256))
    table = b.op("reshape", flat, None, shape=(256, 128))
    return b.op("matmul", table, x)


@pytest.mark.parametrize("reader", [product, highest, seen_otherwise])
def test_other_nodes_stay(
    reader: Callable[[Net, int], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    device = device_of()
    monkeypatch.setattr(device, "target", replace(device.target, max_binding_bytes=LIMIT))
    b = Net()
    x = b.input((128, 4))
    value = reader(b, b.op("relu", x))
    for op in ("logistic", "tanh"):
        value = b.op(op, value)
    graph = b.graph(value)
    found = claimed(graph, {"force": True})
    ops = {node.id: node.op for node in graph.nodes}
    left = {ops[node] for node in found.refusals}
    assert left and not left & {"relu", "logistic", "tanh", "add"}, found.refusals
    assert "device.limit" in {reason.code for reason in found.refusals.values()}


@pytest.mark.parametrize("large", ["input", "output", "between"])
def test_a_value_over_the_limit_leaves_its_node(
    large: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The values are computed at run time: inputs, outputs and internal tensors."""
    device = device_of()
    monkeypatch.setattr(device, "target", replace(device.target, max_binding_bytes=LIMIT))
    b = Net()
    x = b.input((256, 128) if large == "input" else (1, 128))
    value = b.op("relu", b.input((1, 128)))
    other = b.op("logistic", value)
    shape, axes = (256, 128), b.ints(0)
    wide = x if large == "input" else b.op("expand", other, b.ints(*shape))
    end = wide if large == "output" else b.op("reduce_max", wide, axes, keep_dims=True)
    graph = b.graph(other, end)
    found = claimed(graph, {"force": True})
    ops = {node.id: node.op for node in graph.nodes}
    left = {ops[node] for node in found.refusals}
    assert left and not left & {"relu", "logistic"}, found.refusals
    assert "device.limit" in {reason.code for reason in found.refusals.values()}
