"""Models of float64 that are compared with the CPU provider's kernels of float64."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import tflgpu_plugin
from tests.support import onnx_models as m
from tests.support.onnx_models import Array, cpu, session

CHANCE = np.random.default_rng(11)
ML = "ai.onnx.ml"
SINGLE = {"double": "float32"}


def doubles(*shape: int) -> Array:
    """Returns random numbers of float64 that float32 has to round."""
    return CHANCE.standard_normal(shape)


def model(
    nodes: Sequence[Any],
    feeds: Mapping[str, Array],
    outputs: Mapping[str, Any],
    constants: Mapping[str, Array] | None = None,
    shapes: Mapping[str, m.Shape] | None = None,
    opset: int = 17,
) -> bytes:
    """Returns a model with inputs of the types and shapes of `feeds`, unless `shapes` has others,
    and results of the types `outputs`; it may have operators of ai.onnx.ml."""
    import onnx

    given = {name: (shapes or {}).get(name, data.shape) for name, data in feeds.items()}
    kinds = {name: data.dtype for name, data in feeds.items()} | dict(outputs)
    held = onnx.load_from_string(
        m.model(nodes, given, dict.fromkeys(outputs), constants, opset, kinds)
    )
    held.opset_import.append(onnx.helper.make_opsetid(ML, 3))
    return bytes(held.SerializeToString())


def same(ours: Any, data: bytes, feeds: Mapping[str, Array], part: float = 2e-6) -> None:
    """Results have the types and shapes of the CPU provider's, and floats are within a part of the
    largest magnitude."""
    for got, wanted in zip(ours.run(None, feeds), cpu(data).run(None, feeds), strict=True):
        assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
        if wanted.dtype.kind == "f":
            largest = float(np.abs(wanted).max(initial=0, where=np.isfinite(wanted)))
            np.testing.assert_allclose(got, wanted, rtol=0, atol=part * largest)
        else:
            np.testing.assert_array_equal(got, wanted)


def checked(data: bytes, *feeds: Mapping[str, Array], **options: Any) -> Any:
    """Returns our session with the option, whose nodes all run on the GPU, after comparing its
    results for all feeds."""
    ours = session(data, optimize=False, **{**SINGLE, **options})
    for given in feeds:
        same(ours, data, given)
    found = tflgpu_plugin.report(ours)
    assert {node.where for node in found.nodes} == {"gpu"}, found
    assert not found.host_runs
    return ours


def in_double(model: Any) -> Any:
    """Returns a copy of an onnx ModelProto with double in place of every float, in values, types
    and constants."""
    from onnx import ModelProto

    made = ModelProto()
    made.CopyFrom(model)
    _widen(made.graph)
    return made


def _widen(graph: Any) -> None:
    from onnx import TensorProto

    for value in (*graph.input, *graph.output, *graph.value_info):
        kind = value.type.sequence_type.elem_type if value.type.HasField("sequence_type") else None
        tensor = (kind or value.type).tensor_type
        if tensor.elem_type == TensorProto.FLOAT:
            tensor.elem_type = TensorProto.DOUBLE
    for tensor in graph.initializer:
        _widen_constant(tensor)
    for attribute in (one for each in graph.node for one in each.attribute):
        if attribute.name in ("to", "dtype") and attribute.i == TensorProto.FLOAT:
            attribute.i = TensorProto.DOUBLE
        if attribute.HasField("t"):
            _widen_constant(attribute.t)
        if attribute.HasField("g"):
            _widen(attribute.g)


def _widen_constant(tensor: Any) -> None:
    from onnx import TensorProto, numpy_helper

    if tensor.data_type == TensorProto.FLOAT:
        wide = numpy_helper.to_array(tensor).astype(np.float64)
        tensor.CopyFrom(numpy_helper.from_array(wide, tensor.name))
