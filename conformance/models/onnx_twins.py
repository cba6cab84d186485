"""TFLite models of this suite as ONNX models, operator by operator: for what tf2onnx cannot
convert, for graphs, and for a look at ONNX Runtime without tensorflow.

Images are NHWC in TFLite and NCHW in ONNX, so a twin has the transposes that a converter writes.
The node that makes a tensor has its name, so that the option `exclude` means the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from conformance.cases import Case
from conformance.host import Array
from conformance.models import tflite as models
from conformance.models.tflite import Model, Shape
from tflgpu_plugin.ir import NUMPY_DTYPES

OPSET = 18
IR_VERSION = 9
VALUES = {"f32": "FLOAT", "bool": "BOOL", "i32": "INT32", "i64": "INT64"}
LIMITS = {"RELU": (0.0, None), "RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0)}
UNARY = {"LOGISTIC": "Sigmoid", "TANH": "Tanh", "EXP": "Exp", "RELU": "Relu", "ABS": "Abs",
         "NEG": "Neg"}  # fmt: skip
BINARY = {"ADD": "Add", "SUB": "Sub", "MUL": "Mul", "MAXIMUM": "Max", "MINIMUM": "Min"}
TO_ONNX, TO_TFLITE = (0, 3, 1, 2), (0, 2, 3, 1)
Operand = str | None


class NoTwin(Exception):
    """An error for an operator, or a form of one, that has no twin; the text says which."""


@dataclass
class Twin:
    """A graph under construction; methods return the names of tensors."""

    model: Model
    nodes: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)
    count: int = 0
    dtype: str = "f32"  # of the operator's result

    def constant(self, data: Array) -> str:
        from onnx import numpy_helper

        self.count += 1
        name = f"held_{self.count}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(data), name))
        return name

    def integers(self, *values: Any) -> str:
        return self.constant(np.asarray(values, np.int64))

    def node(self, op: str, *inputs: Operand, outputs: int = 1, **attributes: Any) -> list[str]:
        from onnx import helper

        self.count += 1
        made = [f"{op}_{self.count}_{k}" for k in range(outputs)]
        reads = ["" if name is None else name for name in inputs]
        self.nodes.append(helper.make_node(op, reads, made, name=made[0], **attributes))
        return made

    def one(self, op: str, *inputs: Operand, **attributes: Any) -> str:
        return self.node(op, *inputs, **attributes)[0]

    def activate(self, name: str, options: Mapping[str, Any]) -> str:
        """Adds a fused activation."""
        chosen = str(options.get("fusedActivationFunction", "NONE"))
        if chosen == "TANH":
            return self.one("Tanh", name)
        return self.clip(name, chosen) if chosen in LIMITS else name

    def clip(self, name: str, activation: str) -> str:
        low, high = (
            None if v is None else self.constant(np.array(v, NUMPY_DTYPES[self.dtype]))
            for v in LIMITS[activation]
        )
        return self.one("Clip", name, low, high)

    def image(self, op: str, x: Operand, *rest: Operand, **attributes: Any) -> str:
        """Adds an operator on NCHW between the two transposes."""
        inside = self.one("Transpose", x, perm=TO_ONNX)
        return self.one("Transpose", self.one(op, inside, *rest, **attributes), perm=TO_TFLITE)


@dataclass(frozen=True)
class Node:
    """One TFLite operator: the names of its inputs, with their shapes and constant values."""

    op: str
    options: Mapping[str, Any]
    inputs: tuple[Operand, ...]
    shapes: tuple[Shape, ...]
    values: tuple[Array | None, ...]

    def known(self, position: int) -> Array:
        """Returns a constant input. Raises NoTwin if it is not constant or absent."""
        found = self.values[position] if position < len(self.values) else None
        if found is None:
            raise NoTwin(f"{self.op} with input {position} computed in a run")
        return found


def _lstm(t: Twin, n: Node) -> list[str] | str:
    """Returns the twin of an LSTM, or why there is none: the basic cell in plain operators, the
    full one as ONNX's layer."""
    full = n.options.get("kernelType", "FULL") == "FULL"
    return _lstm_layer(t, n) if full else _lstm_cell(t, n)


def _lstm_layer(t: Twin, n: Node) -> str:
    """Adds ONNX's LSTM, which has no projection or normalization, clips gates but not cells, and
    couples gates in another way."""
    normalized = any(value is not None for value in n.values[20:])
    if n.values[1] is None or n.values[16] is not None or n.options["cellClip"] or normalized:
        raise NoTwin(f"{n.op} with a projection, clips, coupled gates or layer normalization")

    def gates(first: int) -> Array:  # input, output, forget, cell
        return np.concatenate([n.known(first + k) for k in (0, 3, 1, 2)])[None]

    peepholes = None
    if n.values[9] is not None:
        peepholes = t.constant(np.concatenate([n.known(9 + k) for k in (0, 2, 1)])[None])
    x, biases, rank = n.inputs[0], gates(12), len(n.shapes[0])
    batch_first = rank == 3 and not n.options.get("timeMajor")
    if rank == 2:
        x = t.one("Unsqueeze", x, t.integers(0))
    elif batch_first:
        x = t.one("Transpose", x, perm=[1, 0, 2])
    both = np.concatenate([biases, 0 * biases], 1)
    weights = [t.constant(part) for part in (gates(1), gates(5), both)]
    y = t.one("LSTM", x, *weights, None, None, None, peepholes, hidden_size=gates(5).shape[2])
    y = t.one("Squeeze", y, t.integers(*([0, 1] if rank == 2 else [1])))
    return t.one("Transpose", y, perm=[1, 0, 2]) if batch_first else y


def _lstm_cell(t: Twin, n: Node) -> list[str]:
    """Adds the basic cell for one step from a state of zeros, in plain operators. The order of
    gates is input, new input, forget, output, as in the host's basic kernel."""
    x, _, weights, bias, _ = n.inputs
    depth = n.shapes[4][1]
    before, state = (t.constant(np.zeros(n.shapes[k], np.float32)) for k in (1, 4))
    gates = t.one("Gemm", t.one("Concat", x, before, axis=1), weights, bias, transB=1)
    entering, new, kept, leaving = t.node("Split", gates, t.integers(*[depth] * 4), outputs=4,
                                          axis=1)  # fmt: skip
    taken = t.one("Mul", t.one("Sigmoid", entering), t.one("Tanh", new))
    after = t.one("Add", taken, t.one("Mul", t.one("Sigmoid", kept), state))
    return [t.one("Mul", t.one("Sigmoid", leaving), t.one("Tanh", after)), after]


def _window(options: Mapping[str, Any], shape: Shape, kernel: Sequence[int]) -> dict[str, Any]:
    """Returns strides and padding of a window over [B, H, W, C]. Padding is explicit, because
    ONNX's automatic padding is ambiguous for strides wider than the window."""
    strides = [options["strideH"], options["strideW"]]
    if options["padding"] != "SAME":
        return {"strides": strides, "auto_pad": "VALID"}
    if all(stride <= size for stride, size in zip(strides, kernel, strict=True)):
        return {"strides": strides, "auto_pad": "SAME_UPPER"}
    missing = [
        max(0, (-(-extent // stride) - 1) * stride + size - extent)
        for extent, stride, size in zip(shape[1:3], strides, kernel, strict=True)
    ]
    pads = [n // 2 for n in missing] + [n - n // 2 for n in missing]
    return {"strides": strides, "pads": pads}


def _conv(t: Twin, n: Node) -> str:
    o, depthwise = n.options, n.op == "DEPTHWISE_CONV_2D"
    weights = np.moveaxis(n.known(1), 3, 0 if depthwise else 1)
    if depthwise:  # [1, KH, KW, outputs] as [outputs, 1, KH, KW]
        groups = n.shapes[0][3]
    else:
        groups = n.shapes[0][3] // n.shapes[1][3]
    dilations = [o.get("dilationHFactor", 1), o.get("dilationWFactor", 1)]
    bias = n.inputs[2] if len(n.inputs) > 2 else None
    window = [(k - 1) * d + 1 for k, d in zip(n.shapes[1][1:3], dilations, strict=True)]
    made = t.image(
        "Conv", n.inputs[0], t.constant(weights), bias, dilations=dilations, group=groups,
        **_window(o, n.shapes[0], window),
    )  # fmt: skip
    return t.activate(made, o)


def _pool(t: Twin, n: Node) -> str:
    o = n.options
    op = "MaxPool" if n.op == "MAX_POOL_2D" else "AveragePool"
    kernel = [o["filterHeight"], o["filterWidth"]]
    return t.activate(
        t.image(op, n.inputs[0], kernel_shape=kernel, **_window(o, n.shapes[0], kernel)), o
    )


def _fully_connected(t: Twin, n: Node) -> str:
    if n.options.get("keepNumDims"):
        raise NoTwin("FULLY_CONNECTED that keeps dimensions")
    x = n.inputs[0]
    if len(n.shapes[0]) != 2:
        x = t.one("Reshape", x, t.integers(-1, n.shapes[1][1]))
    return t.activate(t.one("Gemm", x, *n.inputs[1:], transB=1), n.options)


def _pad(t: Twin, n: Node) -> str:
    return t.one("Pad", n.inputs[0], t.integers(*n.known(1).T.reshape(-1)))


def _slice(t: Twin, n: Node) -> str:
    if any(n.options.get(name) for name in n.options if name.endswith("Mask")):
        raise NoTwin("STRIDED_SLICE with masks")
    begin, end, steps = (n.known(k) for k in (1, 2, 3))
    axes = t.integers(*range(len(begin)))
    return t.one("Slice", n.inputs[0], t.integers(*begin), t.integers(*end), axes,
                 t.integers(*steps))  # fmt: skip


def _resize(t: Twin, n: Node) -> str:
    o = n.options
    mode = "align_corners" if o.get("alignCorners") else "asymmetric"
    mode = "half_pixel" if o.get("halfPixelCenters") else mode
    batch, _, _, channels = n.shapes[0]
    size = t.integers(batch, channels, *n.known(1))
    how = {"mode": "linear", "coordinate_transformation_mode": mode}
    return t.image("Resize", n.inputs[0], None, None, size, **how)


def _softmax(t: Twin, n: Node) -> str:
    if n.options.get("beta", 1.0) != 1.0:
        raise NoTwin("SOFTMAX with a beta")
    return t.one("Softmax", n.inputs[0], axis=-1)


def _binary(t: Twin, n: Node) -> str:
    return t.activate(t.one(BINARY[n.op], *n.inputs), n.options)


def _concat(t: Twin, n: Node) -> str:
    return t.one("Concat", *n.inputs, axis=int(n.options["axis"]))


def _mean(t: Twin, n: Node) -> str:
    keep = int(n.options.get("keepDims", False))
    return t.one("ReduceMean", n.inputs[0], t.integers(*n.known(1).reshape(-1)), keepdims=keep)


Rule = Callable[[Twin, Node], str | list[str]]
RULES: dict[str, Rule] = {
    "LSTM": _lstm,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": _lstm,
    "CONV_2D": _conv,
    "DEPTHWISE_CONV_2D": _conv,
    "MAX_POOL_2D": _pool,
    "AVERAGE_POOL_2D": _pool,
    "FULLY_CONNECTED": _fully_connected,
    "CONCATENATION": _concat,
    "SOFTMAX": _softmax,
    "PAD": _pad,
    "STRIDED_SLICE": _slice,
    "RESIZE_BILINEAR": _resize,
    "MEAN": _mean,
    "PRELU": lambda t, n: t.one("PRelu", *n.inputs),
    "RESHAPE": lambda t, n: t.one("Reshape", n.inputs[0], t.integers(*n.known(1).reshape(-1))),
    "SQUARE": lambda t, n: t.one("Mul", n.inputs[0], n.inputs[0]),
    **dict.fromkeys(LIMITS, lambda t, n: t.clip(str(n.inputs[0]), n.op)),
    **dict.fromkeys(UNARY, lambda t, n: t.one(UNARY[n.op], n.inputs[0])),
    **dict.fromkeys(BINARY, _binary),
}


def build(case: Case) -> bytes | None:
    """Returns the twin of a case, or None if it has none."""
    try:
        return convert(models.single(case))
    except NoTwin:
        return None


def convert(model: Model) -> bytes:
    """Returns the twin of a model, with the same inputs, outputs and order. Open extents are
    symbolic. Raises NoTwin."""
    twin, names = Twin(model), dict[int, str]()
    for index in model.inputs:
        names[index] = f"input_{index}"
    if any(model.tensors[t].dtype not in VALUES for t in (*model.inputs, *model.outputs)):
        raise NoTwin("its types")
    for index, tensor in enumerate(model.tensors):
        if tensor.data is not None and tensor.dtype in VALUES:
            names[index] = twin.constant(tensor.data)
    for operator in model.operators:
        if operator.op not in RULES:
            raise NoTwin(operator.op)
        first, twin.dtype = len(twin.nodes), model.tensors[operator.outputs[0]].dtype
        made = RULES[operator.op](twin, _node(model, operator, names))
        results = [made] if isinstance(made, str) else made
        names.update(zip(operator.outputs, results, strict=False))
        _name(twin.nodes[first:], model.tensors[operator.outputs[0]].name)
    return _to_bytes(twin, names)


def _node(model: Model, operator: Any, names: Mapping[int, str]) -> Node:
    read = [None if t < 0 else model.tensors[t] for t in operator.inputs]
    return Node(
        operator.op,
        operator.options,
        tuple(names.get(t) for t in operator.inputs),
        tuple(() if tensor is None else tensor.shape for tensor in read),
        tuple(None if tensor is None else tensor.data for tensor in read),
    )


def _name(nodes: list[Any], name: str) -> None:
    """Names the nodes that an operator became: the last one like its tensor, the others with a
    number after that."""
    for k, node in enumerate(nodes[::-1]):
        node.name = f"{name}/{k}" if k else name


def _to_bytes(twin: Twin, names: Mapping[int, str]) -> bytes:
    from onnx import TensorProto, helper

    model = twin.model

    def info(index: int, name: str, shape: Any) -> Any:
        kind = TensorProto.DataType.Value(VALUES[model.tensors[index].dtype])
        return helper.make_tensor_value_info(name, kind, shape)

    given = [info(t, names[t], _extents(model.tensors[t])) for t in model.inputs]
    made, seen = [], set[str]()
    for t in model.outputs:  # ONNX has no output twice
        name = names[t] if names[t] not in seen else twin.one("Identity", names[t])
        seen.add(name)
        made.append(info(t, name, None))
    graph = helper.make_graph(twin.nodes, "twin", given, made, twin.constants)
    opset = [helper.make_opsetid("", OPSET)]
    proto = helper.make_model(graph, opset_imports=opset, ir_version=IR_VERSION)
    return bytes(proto.SerializeToString())


def _extents(tensor: Any) -> list[int | str]:
    signature = tensor.signature or tensor.shape
    return [f"extent_{k}" if extent < 0 else extent for k, extent in enumerate(signature)]
