"""Operators that onnxruntime has no CPU kernels for: a model of them, and one of what they stand
for in the operators of ONNX, whose answers on the CPU theirs must be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tests.support.onnx_models import Array, cpu, places, session
from tests.support.onnx_nodes import MS

Nodes = Sequence[tuple[str, Sequence[str], Sequence[str], Mapping[str, Any]]]


def values(*shape: int) -> Array:
    return np.random.default_rng(shape).standard_normal(shape).astype(np.float32)


def built(nodes: Nodes, feeds: Mapping[str, Array], held: Mapping[str, Array],
          outputs: Sequence[str]) -> bytes:  # fmt: skip
    """Returns a model; operators that ONNX does not define are those of onnxruntime."""
    from onnx import defs, helper, numpy_helper

    made = [
        helper.make_node(op, reads, writes, domain="" if defs.has(op) else MS, **more)
        for op, reads, writes, more in nodes
    ]
    kinds = {name: helper.np_dtype_to_tensor_dtype(x.dtype) for name, x in feeds.items()}
    kind = next(iter(kinds.values()))
    graph = helper.make_graph(
        made, "test",
        [helper.make_tensor_value_info(name, kinds[name], x.shape) for name, x in feeds.items()],
        [helper.make_tensor_value_info(name, kind, None) for name in outputs],
        [numpy_helper.from_array(x, name) for name, x in held.items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(MS, 1)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString())


def check(nodes: Nodes, means: Nodes, feeds: Mapping[str, Array], held: Mapping[str, Array],
          outputs: Sequence[str] = ("y",)) -> None:  # fmt: skip
    """Whole on the GPU, with the answer of the CPU for what it means; float16 as well, whose
    answer is that of float32 within its steps."""
    wanted = cpu(built(means, feeds, held, outputs)).run(None, feeds)
    for kind, tolerance in ((np.float32, 1e-5), (np.float16, 4e-3)):
        given = {name: _as(kind, x) for name, x in feeds.items()}
        kept = {name: _as(kind, x) for name, x in held.items()}
        ours = session(built(nodes, given, kept, outputs))
        assert set(places(ours).values()) == {"gpu"}
        for got, right in zip(ours.run(None, given), wanted, strict=True):
            assert got.shape == right.shape and got.dtype == kind
            np.testing.assert_allclose(got, right, rtol=0, atol=tolerance * np.abs(right).max())


def _as(kind: type[np.floating[Any]], x: Array) -> Array:
    """Returns floats converted to this type, and integers unchanged."""
    return x.astype(kind) if x.dtype.kind == "f" else x
