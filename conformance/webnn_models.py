"""ONNX models of the cases in WebNN's conformance data: `model` writes the operators of a graph,
each by its row in `WRITERS`, with the meaning that the WebNN specification gives it.

A tensor that the data calls constant becomes one, unless nothing would be left for a run to
tell."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import ModelProto, helper, numpy_helper

from conformance.webnn_data import (
    Array,
    Description,
    NotConvertible,
    arguments,
    constants_of,
    number,
    numbers,
)

OPSET, IR_VERSION = 23, 11
IMAGE, TO_LAST, TO_SECOND = "nchw", (0, 2, 3, 1), (0, 3, 1, 2)
# The roles of operands, in the order of ONNX.
OPERANDS = ("input", "a", "b", "filter", "indices", "mean", "variance", "scale", "bias")
ALIKE = {
    "abs": "Abs", "add": "Add", "ceil": "Ceil", "div": "Div", "exp": "Exp", "floor": "Floor",
    "hardSwish": "HardSwish", "log": "Log", "matmul": "MatMul", "max": "Max", "min": "Min",
    "mul": "Mul", "neg": "Neg", "pow": "Pow", "relu": "Relu", "sigmoid": "Sigmoid", "sqrt": "Sqrt",
    "sub": "Sub", "tanh": "Tanh",
}  # fmt: skip
COMPARISONS = {
    "equal": "Equal", "greater": "Greater", "greaterOrEqual": "GreaterOrEqual", "lesser": "Less",
    "lesserOrEqual": "LessOrEqual",
}  # fmt: skip
REDUCTIONS = {
    "reduceL1": "ReduceL1", "reduceL2": "ReduceL2", "reduceLogSum": "ReduceLogSum",
    "reduceLogSumExp": "ReduceLogSumExp", "reduceMax": "ReduceMax", "reduceMean": "ReduceMean",
    "reduceMin": "ReduceMin", "reduceProduct": "ReduceProd", "reduceSum": "ReduceSum",
    "reduceSumSquare": "ReduceSumSquare",
}  # fmt: skip


def model(graph: Description) -> ModelProto:
    """Returns the ONNX model of a graph. Raises NotConvertible."""
    given = {name: numbers(value) for name, value in graph["inputs"].items()}
    constants = constants_of(graph)
    made = _Graph(given)
    for operator in graph["operators"]:
        if operator["name"] not in WRITERS:
            raise NotConvertible(f"{operator['name']} has no row")
        results = WRITERS[operator["name"]](made, _Call(made, operator))
        named = operator["outputs"]
        for name, result in zip([named] if isinstance(named, str) else named, results,
                                strict=True):  # fmt: skip
            made.name(result, name)
    inputs = {name: value for name, value in given.items() if name not in constants}
    outputs = {name: numbers(value) for name, value in graph["expectedOutputs"].items()}
    weights = {name: given[name] for name in constants} | made.constants
    initializers = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    return helper.make_model(
        helper.make_graph(made.nodes, "webnn", _ports(inputs), _ports(outputs), initializers),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
    )


def _ports(values: Mapping[str, Array]) -> list[Any]:
    return [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
        )
        for name, value in values.items()
    ]


@dataclass
class _Graph:
    """The nodes and constants of a model that is being written."""

    given: Mapping[str, Array]
    nodes: list[Any] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)

    def add(self, op: str, *inputs: str, results: int = 1, **attributes: Any) -> str:
        """Adds a node and returns the name of its first result."""
        names = [f"{op}_{len(self.nodes)}_{k}" for k in range(results)]
        self.nodes.append(helper.make_node(op, inputs, names, **attributes))
        return names[0]

    def constant(self, values: Any, kind: Any = np.int64) -> str:
        name = f"constant_{len(self.constants)}"
        self.constants[name] = np.asarray(values, kind)
        return name

    def transpose(self, value: str, order: Sequence[int]) -> str:
        """Returns the value with its axes in this order, itself if they are."""
        if [*order] == [*range(len(order))]:
            return value
        return self.add("Transpose", value, perm=[*order])

    def reshape(self, value: str, shape: Sequence[int]) -> str:
        return self.add("Reshape", value, self.constant([*shape]))

    def cast(self, value: str, kind: str) -> str:
        return self.add("Cast", value, to=helper.np_dtype_to_tensor_dtype(np.dtype(kind)))

    def name(self, result: str, name: str) -> None:
        """Gives a node's result another name."""
        for node in self.nodes:
            for names in (node.input, node.output):
                kept = [name if one == result else one for one in names]
                del names[:]
                names.extend(kept)


@dataclass(frozen=True)
class _Call:
    """An operator's call: its operands by role, and its other arguments."""

    graph: _Graph
    operator: Description

    def __getattr__(self, name: str) -> Any:
        return arguments(self.operator)[name]

    def get(self, name: str, default: Any) -> Any:
        return arguments(self.operator).get(name, default)

    @property
    def operands(self) -> list[str]:
        given = arguments(self.operator)
        return [given[role] for role in OPERANDS if role in given]

    def array(self, role: str) -> Array:
        return self.graph.given[arguments(self.operator)[role]]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array("input").shape

    @property
    def kind(self) -> Any:
        return self.array("input").dtype


Writer = Callable[[_Graph, _Call], Sequence[str]]


def _alike(op: str, **fixed: Any) -> Writer:
    """Returns the writer of an operator that takes the same operands; `fixed` has attributes with
    their defaults."""

    def write(graph: _Graph, call: _Call) -> Sequence[str]:
        given: dict[str, Any] = {k: float(call.get(k, value)) for k, value in fixed.items()}
        return [graph.add(op, *call.operands, **given)]

    return write


def _comparison(op: str) -> Writer:
    return lambda graph, call: [graph.cast(graph.add(op, *call.operands), "uint8")]


def _logical_not(graph: _Graph, call: _Call) -> Sequence[str]:
    return [graph.cast(graph.add("Not", graph.cast(call.a, "bool")), "uint8")]


def _batch_normalization(graph: _Graph, call: _Call) -> Sequence[str]:
    axis, rank = call.get("axis", 1), len(call.shape)
    channels = call.shape[axis]
    order = [k for k in range(rank) if k != axis]
    order.insert(1, axis)
    x = call.input
    x = graph.reshape(x, (1, channels)) if rank == 1 else graph.transpose(x, order)
    scale = call.get("scale", "") or graph.constant(np.ones(channels), call.kind)
    bias = call.get("bias", "") or graph.constant(np.zeros(channels), call.kind)
    y = graph.add("BatchNormalization", x, scale, bias, call.mean, call.variance,
                  epsilon=call.get("epsilon", 1e-5))  # fmt: skip
    if rank == 1:
        return [graph.reshape(y, (channels,))]
    return [graph.transpose(y, np.argsort(order).tolist())]


def _cast(graph: _Graph, call: _Call) -> Sequence[str]:
    return [graph.cast(call.input, call.type)]


def _clamp(graph: _Graph, call: _Call) -> Sequence[str]:
    kind = call.kind.name
    bounds = [
        graph.constant(number(call.get(name, None), kind), kind)
        if name in arguments(call.operator) else ""
        for name in ("minValue", "maxValue")
    ]  # fmt: skip
    return [graph.add("Clip", call.input, *bounds)]


def _concat(graph: _Graph, call: _Call) -> Sequence[str]:
    return [graph.add("Concat", *call.inputs, axis=call.axis)]


def _layers(graph: _Graph, call: _Call, order: str) -> tuple[str, str, dict[str, Any]]:
    """Returns the input as NCHW, the filter in this order of its axes, and the attributes that
    convolutions share."""
    to = TO_SECOND if call.get("inputLayout", IMAGE) != IMAGE else range(4)
    axes = call.get("filterLayout", order)
    kernel = graph.transpose(call.filter, [axes.index(axis) for axis in order])
    top, bottom, left, right = call.get("padding", (0, 0, 0, 0))
    attributes = {
        "pads": [top, left, bottom, right],
        "strides": call.get("strides", [1, 1]),
        "dilations": call.get("dilations", [1, 1]),
        "group": call.get("groups", 1),
    }
    return graph.transpose(call.input, to), kernel, attributes


def _convolved(graph: _Graph, call: _Call, op: str, *operands: str, **given: Any) -> Sequence[str]:
    bias = [call.bias] if call.get("bias", "") else []
    y = graph.add(op, *operands, *bias, **given)
    return [graph.transpose(y, TO_LAST if call.get("inputLayout", IMAGE) != IMAGE else range(4))]


def _conv2d(graph: _Graph, call: _Call) -> Sequence[str]:
    x, kernel, attributes = _layers(graph, call, "oihw")
    return _convolved(graph, call, "Conv", x, kernel, **attributes)


def _conv_transpose2d(graph: _Graph, call: _Call) -> Sequence[str]:
    """`outputSizes` takes the place of `outputPadding`, which follows from it."""
    x, kernel, attributes = _layers(graph, call, "iohw")
    more = call.get("outputPadding", [0, 0])
    if call.get("outputSizes", None):
        first = 2 if call.get("inputLayout", IMAGE) == IMAGE else 1
        axes, pads = call.get("filterLayout", "iohw"), attributes["pads"]
        more = []
        for k, axis in enumerate("hw"):
            extent = call.array("filter").shape[axes.index(axis)]
            least = (call.shape[first + k] - 1) * attributes["strides"][k]
            least += (extent - 1) * attributes["dilations"][k] + 1 - pads[k] - pads[k + 2]
            more.append(call.outputSizes[k] - least)
    return _convolved(graph, call, "ConvTranspose", x, kernel, output_padding=more, **attributes)


def _expand(graph: _Graph, call: _Call) -> Sequence[str]:
    return [graph.add("Expand", call.input, graph.constant(call.newShape))]


def _reshape(graph: _Graph, call: _Call) -> Sequence[str]:
    return [graph.reshape(call.input, call.newShape)]


def _gather(graph: _Graph, call: _Call) -> Sequence[str]:
    """Indices beyond the ends are those at the ends."""
    axis = call.get("axis", 0)
    size, kind, indices = call.shape[axis], call.array("indices").dtype.name, call.indices
    if kind not in ("int32", "int64"):
        indices, kind = graph.cast(indices, "int64"), "int64"
    ends = [graph.constant(-size, kind), graph.constant(size - 1, kind)]
    return [graph.add("Gather", call.input, graph.add("Clip", indices, *ends), axis=axis)]


def _instance_normalization(graph: _Graph, call: _Call) -> Sequence[str]:
    last = call.get("layout", IMAGE) != IMAGE
    channels = call.shape[3 if last else 1]
    x = graph.transpose(call.input, TO_SECOND if last else range(4))
    scale = call.get("scale", "") or graph.constant(np.ones(channels), call.kind)
    bias = call.get("bias", "") or graph.constant(np.zeros(channels), call.kind)
    y = graph.add("InstanceNormalization", x, scale, bias, epsilon=call.get("epsilon", 1e-5))
    return [graph.transpose(y, TO_LAST if last else range(4))]


def _layer_normalization(graph: _Graph, call: _Call) -> Sequence[str]:
    """The axes move to the end. Without axes every element is normalized alone: it has an axis of
    its own."""
    rank = len(call.shape)
    axes = call.get("axes", [*range(1, rank)])
    order = [k for k in range(rank) if k not in axes] + [*axes]
    extents = [call.shape[k] for k in axes] or [1]
    x = graph.transpose(call.input, order)
    x = x if axes else graph.reshape(x, (*call.shape, 1))
    kind = call.kind
    scale, bias = call.get("scale", ""), call.get("bias", "")
    if not axes:
        scale, bias = (graph.reshape(name, (1,)) if name else "" for name in (scale, bias))
    scale = scale or graph.constant(np.ones(extents), kind)
    more = [bias] if bias else []
    y = graph.add("LayerNormalization", x, scale, *more, axis=-len(extents),
                  epsilon=call.get("epsilon", 1e-5))  # fmt: skip
    if not axes:
        return [graph.reshape(y, call.shape)]
    return [graph.transpose(y, np.argsort(order).tolist())]


def _linear(graph: _Graph, call: _Call) -> Sequence[str]:
    alpha = graph.constant(call.get("alpha", 1.0), call.kind)
    beta = graph.constant(call.get("beta", 0.0), call.kind)
    return [graph.add("Add", graph.add("Mul", call.input, alpha), beta)]


def _reduction(op: str) -> Writer:
    """Without axes every element is reduced alone: it has an axis of its own."""

    def write(graph: _Graph, call: _Call) -> Sequence[str]:
        axes, keep = call.get("axes", [*range(len(call.shape))]), call.get("keepDimensions", False)
        if axes:
            return [graph.add(op, call.input, graph.constant(axes), keepdims=int(keep))]
        x = graph.reshape(call.input, (*call.shape, 1))
        return [graph.add(op, x, graph.constant([len(call.shape)]), keepdims=0)]

    return write


def _slice(graph: _Graph, call: _Call) -> Sequence[str]:
    ends = [start + size for start, size in zip(call.starts, call.sizes, strict=True)]
    steps = call.get("strides", [1] * len(ends))
    bounds = (call.starts, ends, [*range(len(ends))], steps)
    return [graph.add("Slice", call.input, *map(graph.constant, bounds))]


def _softmax(graph: _Graph, call: _Call) -> Sequence[str]:
    return [graph.add("Softmax", call.input, axis=call.axis)]


def _split(graph: _Graph, call: _Call) -> Sequence[str]:
    names, axis, splits = call.operator["outputs"], call.get("axis", 0), call.splits
    sizes = [] if isinstance(splits, int) else [graph.constant(splits)]
    attributes = {"num_outputs": splits} if isinstance(splits, int) else {}
    graph.add("Split", call.input, *sizes, results=len(names), axis=axis, **attributes)
    return [*graph.nodes[-1].output]


def _transpose(graph: _Graph, call: _Call) -> Sequence[str]:
    order = call.get("permutation", [*reversed(range(len(call.shape)))])
    given = {"perm": order} if order else {}  # an attribute has no empty list
    return [graph.add("Transpose", call.input, **given)]


WRITERS: Mapping[str, Writer] = {
    **{name: _alike(op) for name, op in ALIKE.items()},
    **{name: _comparison(op) for name, op in COMPARISONS.items()},
    **{name: _reduction(op) for name, op in REDUCTIONS.items()},
    "batchNormalization": _batch_normalization,
    "cast": _cast,
    "clamp": _clamp,
    "concat": _concat,
    "conv2d": _conv2d,
    "convTranspose2d": _conv_transpose2d,
    "elu": _alike("Elu", alpha=1.0),
    "expand": _expand,
    "gather": _gather,
    "hardSigmoid": _alike("HardSigmoid", alpha=0.2, beta=0.5),
    "instanceNormalization": _instance_normalization,
    "layerNormalization": _layer_normalization,
    "leakyRelu": _alike("LeakyRelu", alpha=0.01),
    "linear": _linear,
    "logicalNot": _logical_not,
    "reshape": _reshape,
    "slice": _slice,
    "softmax": _softmax,
    "split": _split,
    "transpose": _transpose,
}
