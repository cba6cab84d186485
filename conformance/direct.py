"""Builds a case as a one-node `Graph`, without a host's interpreter: for lint, shape functions and
kernels alone.

Operators and the order of operands come from the provider's table; attributes are read from a
case's options, which name the schema's fields (the provider reads the host's structs instead)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from conformance import host
from conformance.cases import Case
from conformance.models import tflite as models
from tflgpu_plugin import ops
from tflgpu_plugin.importer import imported
from tflgpu_plugin.ir import Graph, HostOp, Node, Tensor
from tflgpu_plugin.providers.tflite import params
from tflgpu_plugin.providers.tflite.loops import BODIES
from tflgpu_plugin.providers.tflite.ops import HOST_OPS, POOL_ARGMAX, UNPOOL

Options = Mapping[str, Any]
Attributes = dict[str, Any]
Reader = Callable[[Options], Attributes]


def _activation(o: Options) -> Attributes:
    return {"activation": str(o.get("fusedActivationFunction", "NONE")).lower()}


def _window(o: Options) -> Attributes:
    strides = (int(o.get("strideH", 0)), int(o.get("strideW", 0)))
    return {"strides": strides, "padding": str(o.get("padding", "SAME")).lower(), **_activation(o)}


def _convolution(o: Options) -> Attributes:
    dilations = (int(o.get("dilationHFactor", 1)), int(o.get("dilationWFactor", 1)))
    return {**_window(o), "dilations": dilations}


def _depthwise(o: Options) -> Attributes:
    return {**_convolution(o), "multiplier": int(o.get("depthMultiplier", 0))}


def _pool(o: Options) -> Attributes:
    window = (int(o.get("filterHeight", 0)), int(o.get("filterWidth", 0)))
    return {**_window(o), "window": window}


def _slice(o: Options) -> Attributes:
    masks = {
        "begin_mask": "beginMask",
        "end_mask": "endMask",
        "ellipsis_mask": "ellipsisMask",
        "new_axis_mask": "newAxisMask",
        "shrink_axis_mask": "shrinkAxisMask",
    }
    found: Attributes = {name: int(o.get(field, 0)) for name, field in masks.items()}
    return {**found, "offset": bool(o.get("offset", False))}


def _fully_connected(o: Options) -> Attributes:
    return {**_activation(o), "keep_num_dims": bool(o.get("keepNumDims", False))}


def _concat(o: Options) -> Attributes:
    return {**_activation(o), "axis": int(o.get("axis", 0))}


def _resize(o: Options) -> Attributes:
    return {
        "align_corners": bool(o.get("alignCorners", False)),
        "half_pixel_centers": bool(o.get("halfPixelCenters", False)),
    }


def _conv_3d(o: Options) -> Attributes:
    strides = tuple(int(o.get(f"stride{axis}", 0)) for axis in "DHW")
    dilations = tuple(int(o.get(f"dilation{axis}Factor", 1)) for axis in "DHW")
    window = _window(o) | {"strides": strides, "dilations": dilations}
    return window | {"filters_last": True}


def _lstm(o: Options) -> Attributes:
    clips = {
        "cell_clip": float(o.get("cellClip", 0.0)),
        "proj_clip": float(o.get("projClip", 0.0)),
    }
    return {**clips, **_activation(o)}


def _sequence(o: Options) -> Attributes:
    return {**_lstm(o), "time_axis": 0 if o.get("timeMajor") else 1}


def _lrn(o: Options) -> Attributes:
    size = 2 * int(o.get("radius", 0)) + 1
    named = {name: float(o.get(name, 0)) for name in ("alpha", "beta", "bias")}
    return named | {"size": size, "alpha": named["alpha"] * size}


def _plain(options: Options) -> Attributes:
    """Returns attributes named like the options: timeMajor becomes time_major."""
    return {re.sub(r"([A-Z])", r"_\1", name).lower(): value for name, value in options.items()}


READERS: dict[str, Reader] = {
    "CONV_2D": _convolution,
    "DEPTHWISE_CONV_2D": _depthwise,
    "TRANSPOSE_CONV": _window,
    "FULLY_CONNECTED": _fully_connected,
    "AVERAGE_POOL_2D": _pool,
    "MAX_POOL_2D": _pool,
    "L2_POOL_2D": _pool,
    "L2_NORMALIZATION": lambda o: {"axis": -1, "p": 2, "least": 1e-6},
    "LOCAL_RESPONSE_NORMALIZATION": _lrn,
    "RELU_0_TO_1": lambda o: {"low": 0.0, "high": 1.0},
    "ADD": _activation,
    "SUB": _activation,
    "MUL": _activation,
    "SOFTMAX": lambda o: {"beta": float(o.get("beta", 0.0))},
    "MEAN": lambda o: {"keep_dims": bool(o.get("keepDims", False))},
    "STRIDED_SLICE": _slice,
    "CONCATENATION": _concat,
    "RESIZE_BILINEAR": _resize,
    "LSTM": _lstm,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": _sequence,
    "RNN": _activation,
    "UNIDIRECTIONAL_SEQUENCE_RNN": lambda o: (
        _activation(o) | {"time_axis": 0 if o.get("timeMajor") else 1}
    ),
    "BIDIRECTIONAL_SEQUENCE_LSTM": lambda o: _sequence(o) | {"merged": bool(o.get("mergeOutputs"))},
    "BIDIRECTIONAL_SEQUENCE_RNN": lambda o: (
        _activation(o)
        | {"time_axis": 0 if o.get("timeMajor") else 1, "merged": bool(o.get("mergeOutputs"))}
    ),
    "SVDF": lambda o: _activation(o) | {"rank": int(o.get("rank", 0))},
    "RESIZE_NEAREST_NEIGHBOR": _resize,
    "MIRROR_PAD": lambda o: {"mode": str(o.get("mode", "REFLECT")).lower()},
    "DEPTH_TO_SPACE": lambda o: {"block": int(o.get("blockSize", 0))},
    "SPACE_TO_DEPTH": lambda o: {"block": int(o.get("blockSize", 0))},
    "EMBEDDING_LOOKUP": lambda o: {"axis": 0},
    "ONE_HOT": lambda o: {"axis": int(o.get("axis", 0))},
    "GATHER": lambda o: {"axis": int(o.get("axis", 0)), "batch_dims": int(o.get("batchDims", 0))},
    "ARG_MAX": lambda o: {"keep_dims": False},
    "ARG_MIN": lambda o: {"keep_dims": False},
    "DIV": _activation,
    "PACK": lambda o: {"axis": int(o.get("axis", 0))},
    "UNPACK": lambda o: {"axis": int(o.get("axis", 0))},
    "CUSTOM Convolution2DTransposeBias": _window,
    "CUSTOM TFLite_Detection_PostProcess": params.detections,
    **dict.fromkeys(
        ("SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "REDUCE_ALL", "REDUCE_ANY"),
        lambda o: {"keep_dims": bool(o.get("keepDims", False))},
    ),
    "CONV_3D": _conv_3d,
    "CONV_3D_TRANSPOSE": _conv_3d,
    "BATCH_MATMUL": lambda o: {
        "transpose_a": bool(o.get("adjX")),
        "transpose_b": bool(o.get("adjY")),
    },
    "GELU": lambda o: {"approximate": bool(o.get("approximate", False))},
    "CUMSUM": _plain,
    "REVERSE_SEQUENCE": lambda o: {
        "batch_axis": o.get("batchDim", 0),
        "time_axis": o.get("seqDim", 0),
    },
    **{
        op: lambda o, reduction=reduction: {"reduction": reduction}  # type: ignore[misc]
        for op, reduction in (
            *((op, "add") for op in ("SCATTER_ND", "SEGMENT_SUM", "UNSORTED_SEGMENT_SUM")),
            ("UNSORTED_SEGMENT_PROD", "mul"),
            ("UNSORTED_SEGMENT_MIN", "min"),
            ("UNSORTED_SEGMENT_MAX", "max"),
        )
    },
    "STABLEHLO_PAD": lambda o: {
        "paddings": tuple(zip(o["edgePaddingLow"], o["edgePaddingHigh"], strict=True)),
        **({"inside": True} if any(o["interiorPadding"]) else {}),
    },
    "LEAKY_RELU": lambda o: {"alpha": float(o.get("alpha", 0.0))},
}


def graph(case: Case) -> Graph:
    """Returns the one-node graph of a case; tensor k is input k, then come the outputs. Output
    shapes are the host's. Raises ValueError with the host's words when it refuses the model, and
    KeyError when no row has the operator."""
    shapes = host.shapes(models.build(case))
    tensors: dict[int, Tensor] = {}
    for k, value in enumerate(case.inputs):
        if value is not None:
            tensors[k] = Tensor(
                f"input_{k}", value.shape, value.dtype, value.data, value.quantization,
                variable=value.variable,
            )  # fmt: skip
    present = len(tensors)
    outputs = tuple(len(case.inputs) + k for k in range(case.outputs))
    for k, tensor in enumerate(outputs):
        shape = shapes[present + k] or ()
        quantization = case.output_quantization
        tensors[tensor] = Tensor(f"output_{k}", shape, case.types[k], quantization=quantization)
    imported.annotate([k for k in tensors if k not in outputs], tensors)
    node = _with_state(_node(case, outputs, tensors), tensors)
    if case.intermediates and (held := case.intermediates[-1]):  # what hosts call the hidden state
        hidden = (held.scale[0], float(held.zero_point[0]))
        node = replace(node, attributes={**node.attributes, "hidden": hidden})
    pairs = [(node.inputs[k], node.outputs[n]) for k, n in ops.rows()[node.op].states]
    given = [k for k, t in tensors.items() if k not in node.outputs and t.data is None]
    fed = tuple(k for k in given if not tensors[k].variable)
    states = tuple((before, after) for before, after in pairs if before is not None)
    return Graph(tensors, (node,), fed, outputs[: models.VISIBLE.get(case.op)], states)


def _with_state(node: Node, tensors: dict[int, Tensor]) -> Node:
    """Returns the node with the results that only update state, which are added to the tensors."""
    outputs = node.outputs
    for before, after in ops.rows()[node.op].states:
        if after < 0:
            like = tensors[node.inputs[before] or 0]
            outputs = (*outputs, len(node.inputs) + 100 + len(outputs))
            tensors[outputs[-1]] = replace(like, name=f"state_{after}", variable=False)
    return replace(node, outputs=outputs)


# Operators that cannot run alone: complex numbers and pooling indices lie between them and others.
PAIRED = {"RFFT2D", "REAL", "IMAG", "COMPLEX_ABS", POOL_ARGMAX, UNPOOL}
# Rows that a model of one operator shows.
SINGLE = {name: row for name, row in HOST_OPS.items() if name not in {*BODIES, *PAIRED}}


def form_of(case: Case) -> HostOp:
    """Returns the row of a case. Raises KeyError when there is none."""
    return HOST_OPS[case.op].form(len(case.inputs))


def _node(case: Case, outputs: tuple[int, ...], tensors: Mapping[int, Tensor]) -> Node:
    form = form_of(case)
    reads = form.arranged([k if k in tensors else None for k in range(len(case.inputs))])
    read = READERS.get(case.op)
    attributes = read(case.options) if read else {}
    if case.op == "EXPAND_DIMS":
        axis = tensors[1].data
        assert axis is not None
        attributes["expand"], reads = int(axis.reshape(-1)[0]), reads[:1]
    elif form.op == "reshape" and (len(reads) < 2 or reads[1] is None):
        attributes["shape"] = tensors[outputs[0]].shape
    if form.op == "transpose":
        perm = tensors[1].data
        assert perm is not None
        attributes["perm"], reads = tuple(int(axis) for axis in perm), reads[:1]
    return Node(
        id=0,
        op=form.op,
        inputs=reads,
        outputs=outputs,
        attributes=attributes,
        name=case.name,
        host_op=case.op,
        version=case.version,
        row=form,
        sources=(0,),
    )
