"""ONNX models over float16: the same model with float16 inputs, weights and outputs, and the same
model in float32 with every weight and every node's result rounded to float16, which is what storing
values so costs by itself (as `half_storage` does for TFLite)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from conformance.variants.half_storage import rounded

FLOAT, FLOAT16 = 1, 10
# Inputs that stay float32 in a float16 model: regions and scales of a resize.
FLOAT_INPUTS = {"Resize": (1, 2), "Upsample": (1,)}


def float16(model: Any) -> Any:
    """Returns a copy of an ONNX ModelProto with float16 in place of float32."""
    import onnx

    made = onnx.ModelProto()
    made.CopyFrom(model)
    kept = set(_float_inputs(made.graph))
    for value in (*made.graph.input, *made.graph.output, *made.graph.value_info):
        if value.name not in kept and value.type.tensor_type.elem_type == FLOAT:
            value.type.tensor_type.elem_type = FLOAT16
    for name, tensor in _constants(made.graph):
        if name not in kept:
            _replace(tensor, np.float16)
    for node in made.graph.node:
        for attribute in node.attribute:
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i == FLOAT:
                attribute.i = FLOAT16
    return made


def rounded_weights(model: Any) -> Any:
    """Returns a copy in float32 whose weights are rounded to float16."""
    import onnx

    made = onnx.ModelProto()
    made.CopyFrom(model)
    for _, tensor in _constants(made.graph):
        _replace(tensor, np.float32)
    return made


def simulation(model: Any) -> Any:
    """Returns a copy in float32 that rounds every float32 weight, input and result to float16."""
    import onnx
    from onnx import shape_inference

    made = rounded_weights(shape_inference.infer_shapes(model))
    graph, kept = made.graph, set(_float_inputs(made.graph))
    typed = (*graph.input, *graph.output, *graph.value_info)
    floats = {v.name for v in typed if v.type.tensor_type.elem_type == FLOAT} - kept
    floats -= {tensor.name for tensor in graph.initializer}
    nodes = []
    given = [v.name for v in graph.input if v.name in floats]
    for name in given:
        nodes += _rounding(name, f"{name}/half")
    renamed = {name: f"{name}/half" for name in given}
    for node in graph.node:
        for k, name in enumerate(node.input):
            node.input[k] = renamed.get(name, name)
        made_here = [name for name in node.output if name in floats]
        for k, name in enumerate(node.output):
            node.output[k] = f"{name}/full" if name in made_here else name
        nodes.append(onnx.NodeProto.FromString(node.SerializeToString()))
        for name in made_here:
            nodes += _rounding(f"{name}/full", name)
    del graph.node[:], graph.value_info[:]
    graph.node.extend(nodes)
    return made


def _rounding(source: str, target: str) -> list[Any]:
    from onnx import helper

    return [
        helper.make_node("Cast", [source], [f"{target}/short"], to=FLOAT16),
        helper.make_node("Cast", [f"{target}/short"], [target], to=FLOAT),
    ]


def _float_inputs(graph: Any) -> Iterator[str]:
    for node in graph.node:
        for position in FLOAT_INPUTS.get(node.op_type, ()):
            if position < len(node.input) and node.input[position]:
                yield node.input[position]


def _constants(graph: Any) -> Iterator[tuple[str, Any]]:
    """Yields names and TensorProtos of the float32 constants."""
    for tensor in graph.initializer:
        if tensor.data_type == FLOAT:
            yield tensor.name, tensor
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.name == "value" and attribute.t.data_type == FLOAT:
                yield node.output[0], attribute.t


def _replace(tensor: Any, kind: Any) -> None:
    from onnx import numpy_helper

    values = rounded(np.asarray(numpy_helper.to_array(tensor), np.float32))
    tensor.CopyFrom(numpy_helper.from_array(values.astype(kind), tensor.name))
