"""A case as a one-node `Graph`, without a host's interpreter: for kernels that are tried before the
door is open.

Attributes follow the op contract of `tflgpu_plugin.ops`; the real readers live in `providers`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from conformance import host, models
from conformance.cases import Case
from tflgpu_plugin.graph import Graph, Node, Tensor

Options = Mapping[str, Any]
Attributes = dict[str, Any]

OPS = {
    "CONV_2D": "conv_2d", "DEPTHWISE_CONV_2D": "depthwise_conv_2d", "TRANSPOSE_CONV": "transpose_conv",
    "FULLY_CONNECTED": "fully_connected", "AVERAGE_POOL_2D": "average_pool_2d", "MAX_POOL_2D": "max_pool_2d",
    "ADD": "add", "SUB": "sub", "MUL": "mul", "MAXIMUM": "maximum", "MINIMUM": "minimum",
    "LOGICAL_AND": "logical_and", "RELU": "relu", "RELU6": "relu6", "RELU_N1_TO_1": "relu_n1_to_1",
    "LOGISTIC": "logistic", "TANH": "tanh", "EXP": "exp", "PRELU": "prelu", "SOFTMAX": "softmax", "MEAN": "mean",
    "RESHAPE": "reshape", "SQUEEZE": "reshape", "EXPAND_DIMS": "reshape", "STRIDED_SLICE": "strided_slice",
    "PAD": "pad", "PADV2": "pad", "CONCATENATION": "concat", "RESIZE_BILINEAR": "resize_bilinear",
    "LSTM": "lstm_basic",
}  # fmt: skip

# The op contract puts the operands of a transposed convolution in another order than the host.
ORDER = {"TRANSPOSE_CONV": (2, 1, 3, 0)}


def _activation(o: Options) -> Attributes:
    return {"activation": str(o.get("fusedActivationFunction", "NONE")).lower()}


def _window(o: Options) -> Attributes:
    strides = (int(o.get("strideH", 0)), int(o.get("strideW", 0)))
    return {"strides": strides, "padding": str(o.get("padding", "SAME")).lower(), **_activation(o)}


def _dilations(o: Options) -> Attributes:
    return {"dilations": (int(o.get("dilationHFactor", 1)), int(o.get("dilationWFactor", 1)))}


def _pool(o: Options) -> Attributes:
    return {**_window(o), "window": (int(o.get("filterHeight", 0)), int(o.get("filterWidth", 0)))}


def _slice(o: Options) -> Attributes:
    masks = {"begin": "beginMask", "end": "endMask", "ellipsis": "ellipsisMask", "new_axis": "newAxisMask",
             "shrink_axis": "shrinkAxisMask"}  # fmt: skip
    found: Attributes = {f"{name}_mask": int(o.get(key, 0)) for name, key in masks.items()}
    return {**found, "offset": bool(o.get("offset", False))}


ATTRIBUTES: dict[str, Callable[[Options], Attributes]] = {
    "CONV_2D": lambda o: {**_window(o), **_dilations(o)},
    "DEPTHWISE_CONV_2D": lambda o: {
        **_window(o), **_dilations(o), "multiplier": int(o.get("depthMultiplier", 0)),
    },
    "TRANSPOSE_CONV": _window,
    "FULLY_CONNECTED": lambda o: {**_activation(o), "keep_num_dims": bool(o.get("keepNumDims", False))},
    "AVERAGE_POOL_2D": _pool,
    "MAX_POOL_2D": _pool,
    "ADD": _activation,
    "SUB": _activation,
    "MUL": _activation,
    "SOFTMAX": lambda o: {"beta": float(o.get("beta", 0.0))},
    "MEAN": lambda o: {"keep_dims": bool(o.get("keepDims", False))},
    "STRIDED_SLICE": _slice,
    "CONCATENATION": lambda o: {**_activation(o), "axis": int(o.get("axis", 0))},
    "RESIZE_BILINEAR": lambda o: {
        "align_corners": bool(o.get("alignCorners", False)),
        "half_pixel_centers": bool(o.get("halfPixelCenters", False)),
    },
    "LSTM": lambda o: {
        "cell_clip": float(o.get("cellClip", 0.0)), "proj_clip": float(o.get("projClip", 0.0)),
        **_activation(o),
    },
}  # fmt: skip


def graph(case: Case) -> Graph:
    """The one-node graph of a case; tensor k is input k, then come the outputs. Output shapes are
    the host's."""
    shapes = host.shapes(models.build(case))
    tensors: dict[int, Tensor] = {}
    ids: list[int | None] = []
    for k, value in enumerate(case.inputs):
        if value is None:
            ids.append(None)
            continue
        ids.append(k)
        tensors[k] = Tensor(
            f"input_{k}", value.shape, value.dtype, value.data, variable=value.variable
        )
    present = len(tensors)
    outputs = tuple(len(case.inputs) + k for k in range(case.outputs))
    for k, tensor in enumerate(outputs):
        tensors[tensor] = Tensor(f"output_{k}", shapes[present + k] or (), case.output_type)
    node = _node(case, ids, outputs, tensors)
    fed = tuple(
        k for k, t in tensors.items() if k not in outputs and t.data is None and not t.variable
    )
    variables = [k for k, t in tensors.items() if t.variable]
    visible = outputs[: models.VISIBLE.get(case.op)]
    return Graph(tensors, (node,), fed, visible, tuple(zip(variables, outputs, strict=False)))


def _node(
    case: Case, ids: list[int | None], outputs: tuple[int, ...], tensors: dict[int, Tensor]
) -> Node:
    order = ORDER.get(case.op, range(len(ids)))
    reads = tuple(ids[k] if k < len(ids) else None for k in order)
    read = ATTRIBUTES.get(case.op)
    attributes = read(case.options) if read else {}
    if OPS[case.op] == "reshape" and (len(ids) < 2 or case.op != "RESHAPE"):
        reads = reads[:1]
        attributes["shape"] = tensors[outputs[0]].shape
    if case.op in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED") and len(reads) < 3:
        reads += (None,)
    if OPS[case.op] == "pad" and len(reads) < 3:
        reads += (None,)
    return Node(
        0, OPS[case.op], reads, outputs, attributes, case.name, case.op, case.version, sources=(0,)
    )
