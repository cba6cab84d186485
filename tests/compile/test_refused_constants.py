"""A constant over the adapter's binding limit leaves the node that reads it to the CPU, and no
other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.compile.test_compiler import Builder
from tests.support.harness import device_of
from tflgpu_plugin.engine import claim
from tflgpu_plugin.options import Options

pytestmark = pytest.mark.adapter

LIMIT = 1 << 16
TABLE = np.random.default_rng(0).uniform(-1, 1, (256, 128)).astype(np.float32)


def product(b: Builder, x: int) -> int:
    """Of a constant that cannot be split, fused with what follows."""
    return b.node("matmul", (b.tensor(TABLE.shape, TABLE), x), (256, 4))


def highest(b: Builder, x: int) -> int:
    table, axes = b.tensor((128, 256), TABLE.T.copy()), b.tensor((1,), np.array([1], np.int32))
    top = b.node("reduce_max", (table, axes), (128, 1), keep_dims=True)
    return b.node("add", (x, top), (128, 4))


def seen_otherwise(b: Builder, x: int) -> int:
    flat = b.tensor((128, 256), TABLE.reshape(128, 256))
    table = b.node("reshape", (flat, None), (256, 128), shape=(256, 128))
    return b.node("matmul", (table, x), (256, 4))


@pytest.mark.parametrize("reader", [product, highest, seen_otherwise])
def test_other_nodes_stay(
    reader: Callable[[Builder, int], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    device = device_of()
    monkeypatch.setattr(device, "target", replace(device.target, max_binding_bytes=LIMIT))
    b = Builder()
    x = b.tensor((128, 4))
    value = reader(b, b.node("relu", (x,), (128, 4)))
    for op in ("logistic", "tanh"):
        value = b.node(op, (value,), b.tensors[value].shape)
    graph = b.graph((x,), (value,))
    found = claim(graph, Options(force=True))
    ops = {node.id: node.op for node in graph.nodes}
    left = {ops[node] for node in found.refusals}
    assert left and not left & {"relu", "logistic", "tanh", "add"}, found.refusals
    assert "device.limit" in {reason.code for reason in found.refusals.values()}


@pytest.mark.parametrize("large", ["input", "output", "between"])
def test_a_value_over_the_limit_leaves_its_node(
    large: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values of a run: what the host hands over, takes back, or never sees."""
    device = device_of()
    monkeypatch.setattr(device, "target", replace(device.target, max_binding_bytes=LIMIT))
    b = Builder()
    x = b.tensor((256, 128) if large == "input" else (1, 128))
    value = b.node("relu", (b.tensor((1, 128)),), (1, 128))
    other = b.node("logistic", (value,), (1, 128))
    shape, axes = (256, 128), b.tensor((1,), np.array([0], np.int32))
    wide = x if large == "input" else b.node(
        "expand", (other, b.tensor((2,), np.array(shape, np.int32))), shape)  # fmt: skip
    ends = [wide] if large == "output" else [
        b.node("reduce_max", (wide, axes), (1, 128), keep_dims=True)]  # fmt: skip
    graph = b.graph(tuple(t for t, held in b.tensors.items() if held.data is None and t in (0, 1)),
                    (other, *ends))  # fmt: skip
    found = claim(graph, Options(force=True))
    ops = {node.id: node.op for node in graph.nodes}
    left = {ops[node] for node in found.refusals}
    assert left and not left & {"relu", "logistic"}, found.refusals
    assert "device.limit" in {reason.code for reason in found.refusals.values()}
