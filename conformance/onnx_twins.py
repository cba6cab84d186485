"""ONNX models written by hand for cases that tf2onnx cannot convert, and for a first look without
it: the same inputs, the same answer.

Images are NHWC in a case and NCHW in ONNX, so a twin has the transposes that a converter writes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from conformance.cases import Case
from conformance.host import Array

OPSET = 18
IR_VERSION = 9
ACTIVATIONS = {"RELU": (0.0, None), "RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0)}
UNARY = {"LOGISTIC": "Sigmoid", "TANH": "Tanh", "EXP": "Exp", "RELU": "Relu"}
BINARY = {"ADD": "Add", "SUB": "Sub", "MUL": "Mul", "MAXIMUM": "Max", "MINIMUM": "Min"}


class Twin:
    """A graph under construction; methods return the names of tensors."""

    def __init__(self, case: Case) -> None:
        from onnx import TensorProto, helper

        self.helper, self.case = helper, case
        self.types = {"f32": TensorProto.FLOAT, "bool": TensorProto.BOOL, "i32": TensorProto.INT32}
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.fed: list[Any] = []
        self.count = 0

    def inputs(self) -> list[str | None]:
        """The case's inputs: fed, constant or absent. State is a constant of zeros."""
        return [None if i is None else self._input(i, k) for k, i in enumerate(self.case.inputs)]

    def _input(self, value: Any, place: int) -> str:
        if value.variable:
            return self.constant(np.zeros(value.shape, np.float32))
        if value.data is not None:
            return self.constant(value.data)
        name = f"input_{place}"
        kind = self.types[value.dtype]
        self.fed.append(self.helper.make_tensor_value_info(name, kind, value.shape))
        return name

    def constant(self, data: Array) -> str:
        from onnx import numpy_helper

        self.count += 1
        name = f"constant_{self.count}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(data), name))
        return name

    def node(self, op: str, *inputs: str | None, outputs: int = 1, **attributes: Any) -> list[str]:
        self.count += 1
        made = [f"{op}_{self.count}_{k}" for k in range(outputs)]
        reads = ["" if name is None else name for name in inputs]
        self.nodes.append(self.helper.make_node(op, reads, made, **attributes))
        return made

    def one(self, op: str, *inputs: str | None, **attributes: Any) -> str:
        return self.node(op, *inputs, **attributes)[0]

    def activate(self, name: str) -> str:
        """The case's fused activation."""
        chosen = str(self.case.options.get("fusedActivationFunction", "NONE"))
        return self.clip(name, chosen) if chosen in ACTIVATIONS else name

    def clip(self, name: str, activation: str) -> str:
        low, high = (
            None if v is None else self.constant(np.array(v, np.float32))
            for v in ACTIVATIONS[activation]
        )
        return self.one("Clip", name, low, high)

    def image(self, op: str, x: str | None, *rest: str | None, **attributes: Any) -> str:
        """An operator on NCHW between the two transposes."""
        inside = self.one("Transpose", x, perm=[0, 3, 1, 2])
        made = self.one(op, inside, *rest, **attributes)
        return self.one("Transpose", made, perm=[0, 2, 3, 1])

    def to_bytes(self, *outputs: str) -> bytes:
        """The model; the last nodes' results are its outputs, in order."""
        kind = self.types[self.case.output_type]
        results = [self.helper.make_tensor_value_info(name, kind, None) for name in outputs]
        graph = self.helper.make_graph(self.nodes, "twin", self.fed, results, self.constants)
        opset = [self.helper.make_opsetid("", OPSET)]
        made = self.helper.make_model(graph, opset_imports=opset, ir_version=IR_VERSION)
        return bytes(made.SerializeToString())


def _lstm(twin: Twin) -> bytes:
    """The basic cell of one step from a state of zeros, in plain operators.

    Gates stand in the order input, new input, forget, output, as in the host's basic kernel.
    """
    x, before, weights, bias, state = twin.inputs()
    joined = twin.one("Concat", x, before, axis=1)
    gates = twin.one("Gemm", joined, weights, bias, transB=1)
    depth = twin.case.inputs[4].shape[1]  # type: ignore[union-attr]
    sizes = twin.constant(np.full(4, depth, np.int64))
    parts = twin.node("Split", gates, sizes, outputs=4, axis=1)
    entering, new, kept, leaving = parts
    taken = twin.one("Mul", twin.one("Sigmoid", entering), twin.one("Tanh", new))
    left = twin.one("Mul", twin.one("Sigmoid", kept), state)
    after = twin.one("Add", taken, left)
    out = twin.one("Mul", twin.one("Sigmoid", leaving), twin.one("Tanh", after))
    return twin.to_bytes(out, after)


def _conv(twin: Twin) -> bytes | None:
    """Constant weights only: runtime ones would need a transpose of their own."""
    case, options = twin.case, twin.case.options
    weights = case.inputs[1]
    if weights is None or weights.data is None:
        return None
    x, _, bias = twin.inputs()
    held = twin.constant(np.moveaxis(weights.data, 3, 1))
    channels = case.inputs[0].shape[3]  # type: ignore[union-attr]
    made = twin.image(
        "Conv", x, held, bias,
        strides=[options["strideH"], options["strideW"]],
        dilations=[options["dilationHFactor"], options["dilationWFactor"]],
        auto_pad="SAME_UPPER" if options["padding"] == "SAME" else "VALID",
        group=channels // weights.shape[3],
    )  # fmt: skip
    return twin.to_bytes(twin.activate(made))


def _pool(twin: Twin) -> bytes:
    options = twin.case.options
    op = "MaxPool" if twin.case.op == "MAX_POOL_2D" else "AveragePool"
    made = twin.image(
        op, twin.inputs()[0],
        kernel_shape=[options["filterHeight"], options["filterWidth"]],
        strides=[options["strideH"], options["strideW"]],
        auto_pad="SAME_UPPER" if options["padding"] == "SAME" else "VALID",
    )  # fmt: skip
    return twin.to_bytes(twin.activate(made))


def _unary(twin: Twin) -> bytes:
    return twin.to_bytes(twin.one(UNARY[twin.case.op], twin.inputs()[0]))


def _clipped(twin: Twin) -> bytes:
    return twin.to_bytes(twin.clip(str(twin.inputs()[0]), twin.case.op))


def _binary(twin: Twin) -> bytes:
    return twin.to_bytes(twin.activate(twin.one(BINARY[twin.case.op], *twin.inputs())))


def _fully_connected(twin: Twin) -> bytes | None:
    if len(twin.case.inputs[0].shape) != 2:  # type: ignore[union-attr]
        return None
    return twin.to_bytes(twin.activate(twin.one("Gemm", *twin.inputs(), transB=1)))


def _concat(twin: Twin) -> bytes:
    axis = int(twin.case.options["axis"])
    return twin.to_bytes(twin.one("Concat", *twin.inputs(), axis=axis))


def _softmax(twin: Twin) -> bytes | None:
    if twin.case.options.get("beta", 1.0) != 1.0:
        return None
    return twin.to_bytes(twin.one("Softmax", twin.inputs()[0], axis=-1))


TWINS: dict[str, Callable[[Twin], bytes | None]] = {
    "LSTM": _lstm,
    "CONV_2D": _conv,
    "MAX_POOL_2D": _pool,
    "AVERAGE_POOL_2D": _pool,
    "FULLY_CONNECTED": _fully_connected,
    "CONCATENATION": _concat,
    "SOFTMAX": _softmax,
    **dict.fromkeys(ACTIVATIONS, _clipped),
    **dict.fromkeys(UNARY, _unary),
    **dict.fromkeys(BINARY, _binary),
}


def build(case: Case) -> bytes | None:
    """The twin of a case; None when it has none."""
    return TWINS[case.op](Twin(case)) if case.op in TWINS else None
