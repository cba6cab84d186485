"""Graphs of a few operators, for faults that single operators do not show: outputs inside a
partition, tensors with several readers, many partitions, aliases, fused steps.

Nodes named "cpu..." are kept off the device by the option `exclude`, so that partitions alternate
with CPU nodes whatever the table supports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from conformance.cases import seeded
from conformance.models.tflite import Model

SHAPE = (1, 6, 5, 4)


@dataclass(frozen=True)
class GraphCase:
    """A model and where its nodes must run: how many on the CPU, in how many partitions."""

    name: str
    build: Callable[[], Model]
    partitions: int = 1
    on_cpu: int = 0

    @property
    def excluded(self) -> str:
        """Returns the value of the option `exclude`."""
        return ",".join(f"cpu{k}" for k in range(self.on_cpu))


class Maker(Model):
    """A model with short ways to add nodes of one shape; `cpu` counts nodes for the CPU."""

    cpu = 0

    def start(self, shape: tuple[int, ...] = SHAPE, free: bool = False) -> int:
        signature = (shape[0], -1, -1, shape[-1]) if free else None
        return self.input(f"x{len(self.inputs)}", shape, signature=signature)

    def conv(self, x: int, channels: int = 4, kernel: int = 3, activation: str = "NONE") -> int:
        inputs, seed = self.tensors[x].shape[-1], len(self.tensors)
        scale = (3.0 / (kernel * kernel * inputs)) ** 0.5
        weights = self.constant(seeded(channels, kernel, kernel, inputs, seed=seed, scale=scale))
        bias = self.constant(seeded(channels, seed=seed))
        options = _window(activation)
        return self.add("CONV_2D", [x, weights, bias], "Conv2DOptions", options)

    def depthwise(self, x: int, padding: str = "SAME") -> int:
        channels, seed = self.tensors[x].shape[-1], len(self.tensors)
        reads = [x, self.constant(seeded(1, 3, 3, channels, seed=seed)),
                 self.constant(seeded(channels, seed=seed))]  # fmt: skip
        options = _window("NONE") | {"depthMultiplier": 1, "padding": padding}
        return self.add("DEPTHWISE_CONV_2D", reads, "DepthwiseConv2DOptions", options)

    def unary(self, op: str, x: int) -> int:
        return self.add(op, [x])

    def binary(self, op: str, a: int, b: int, activation: str = "NONE") -> int:
        table = {"MAXIMUM": "MaximumMinimumOptions", "MINIMUM": "MaximumMinimumOptions"}
        options = {} if op in table else {"fusedActivationFunction": activation}
        return self.add(op, [a, b], table.get(op, f"{op.title()}Options"), options)

    def reshape(self, x: int, shape: tuple[int, ...]) -> int:
        sizes = self.constant(np.array(shape, np.int32))
        return self.add("RESHAPE", [x, sizes], "ReshapeOptions", {"newShape": list(shape)})

    def on_cpu(self, x: int) -> int:
        """Adds a node that `exclude` keeps on the CPU."""
        self.cpu += 1
        return self.add("TANH", [x], name=f"cpu{self.cpu - 1}")

    def add(
        self,
        op: str,
        reads: list[int],
        table: str | None = None,
        options: dict[str, Any] | None = None,
        name: str = "",
    ) -> int:
        """Adds an operator whose output shape the host infers at once, for the next one to use."""
        result = self.op(op, reads, table, options or {}, name=name)
        outputs, self.outputs = self.outputs, [result]
        self.infer_shapes()
        self.outputs = outputs
        return result


def _window(activation: str) -> dict[str, Any]:
    strides = {"strideH": 1, "strideW": 1}
    return {"padding": "SAME", "fusedActivationFunction": activation, **strides}


def intermediate_output() -> Model:
    """Returns a model whose intermediate tensor is an output, too."""
    m = Maker()
    inner = m.conv(m.start())
    m.output(m.conv(m.unary("RELU", inner)), inner)
    return m


def added_output() -> Model:
    """Returns a model of an ADD whose result and operands are all outputs: none may share the
    storage of another."""
    m = Maker()
    x = m.start()
    a, b = m.conv(x), m.conv(x)
    m.output(m.binary("ADD", a, b), a, b)
    return m


def output_read_by_a_later_partition() -> Model:
    m = Maker()
    first = m.conv(m.start())
    m.output(m.binary("ADD", m.conv(m.on_cpu(first)), first), first)
    return m


def read_by_cpu_and_partition() -> Model:
    m = Maker()
    shared = m.conv(m.start())
    m.output(m.binary("MUL", m.on_cpu(shared), m.unary("RELU", shared)))
    return m


def two_outputs_of_a_node() -> Model:
    """Returns a model of an LSTM whose activation and state are both read on the device and
    returned."""
    m, depth = Maker(), 5
    x = m.start((1, 3))
    weights, bias = m.constant(seeded(4 * depth, 3 + depth)), m.constant(seeded(4 * depth))
    held = m.variable("activation", (1, depth)), m.variable("state", (1, depth))
    options = {"fusedActivationFunction": "TANH", "kernelType": "BASIC"}
    shapes = [(1, depth), (1, depth), (1, 3 + depth), (1, 4 * depth)]
    reads = [x, held[0], weights, bias, held[1]]
    found = m.multi_op("LSTM", reads, "LSTMOptions", options, shapes=shapes, version=2)
    m.output(m.binary("ADD", found[0], found[1]), found[1], found[0])
    return m


def constant_output() -> Model:
    m = Maker()
    m.output(m.conv(m.start()), m.constant(seeded(2, 3), "fixed"))
    return m


def passthrough() -> Model:
    """Returns a model with an input that is an output, beside a node."""
    m = Maker()
    x = m.start()
    m.output(m.unary("RELU", x), x)
    return m


def only_moves_nothing() -> Model:
    """Returns a model of consecutive reshapes of an input, all of which are outputs."""
    m = Maker()
    x = m.start()
    flat = m.reshape(x, (1, 30, 4))
    m.output(flat, m.reshape(flat, (1, 5, 6, 4)))
    return m


def same_output_twice() -> Model:
    """Returns a model that lists one tensor of a partition as two outputs."""
    m = Maker()
    y = m.conv(m.start())
    m.output(y, y)
    return m


def diamond() -> Model:
    m = Maker()
    top = m.conv(m.start())
    left, right = m.unary("LOGISTIC", top), m.conv(top)
    m.output(m.binary("MUL", left, right))
    return m


def diamond_over_a_cpu_node() -> Model:
    """Returns a model of which one branch is on the CPU: a single partition would need its own
    output as input."""
    m = Maker()
    top = m.conv(m.start())
    m.output(m.binary("ADD", m.conv(m.on_cpu(top)), m.conv(top)))
    return m


def diamonds() -> Model:
    """Returns a model of residual blocks whose inputs are read again after the next block."""
    m = Maker()
    x = first = m.conv(m.start())
    for _ in range(4):
        x = m.binary("ADD", m.conv(m.conv(x, activation="RELU")), x, "RELU")
    m.output(m.binary("SUB", x, first))
    return m


def partitions(count: int) -> Callable[[], Model]:
    """Returns a function that makes `count` partitions with a CPU node between adjacent ones."""

    def build() -> Model:
        m = Maker()
        x = m.binary("ADD", m.start(), m.constant(seeded(4)))
        for _ in range(count - 1):
            x = m.binary("ADD", m.on_cpu(x), m.constant(seeded(4, seed=len(m.tensors))))
        m.output(x)
        return m

    return build


def inputs_of_several_shapes() -> Model:
    """Returns operators that broadcast their inputs to each other in both orders."""
    m = Maker()
    a, b, c = m.start(), m.start((1, 6, 1, 4)), m.start((4,))
    m.output(m.binary("SUB", b, m.binary("MUL", c, a)), m.binary("ADD", b, c))
    return m


def unused_input() -> Model:
    m = Maker()
    x, _ = m.start(), m.start((2, 2))
    m.output(m.conv(x))
    return m


def input_is_both_operands() -> Model:
    m = Maker()
    x = m.start()
    m.output(m.binary("MUL", x, x))
    return m


def _whole(m: Maker, op: str, reads: list[int], table: str, **options: Any) -> int:
    """Adds a node whose results are int32, one for each channel."""
    return m.op(op, reads, table, options, dtype="i32", shape=SHAPE[-1:])


def indices() -> Model:
    """Returns a model of the position of each channel's largest value, as row and column, and the
    element of another tensor there; all are small integers."""
    m = Maker()
    _, height, width, channels = SHAPE
    x, y = m.start(), m.start((height, width))
    places = m.constant(np.array([height * width, channels]), dtype="i32")
    flat = m.op("RESHAPE", [x, places], "ReshapeOptions", shape=(height * width, channels))
    zero, size = (m.constant(np.array(n), dtype="i32") for n in (0, width))
    best = _whole(m, "ARG_MAX", [flat, zero], "ArgMaxOptions", outputType="INT32")
    row = _whole(m, "FLOOR_DIV", [best, size], "FloorDivOptions")
    before = _whole(m, "MUL", [row, size], "MulOptions")
    column = _whole(m, "SUB", [best, before], "SubOptions")
    pairs = m.op("PACK", [row, column], "PackOptions", {"valuesCount": 2, "axis": 1},
                 dtype="i32", shape=(channels, 2))  # fmt: skip
    picked = m.op("GATHER_ND", [y, pairs], "GatherNdOptions", {}, shape=(channels,))
    real = m.op("CAST", [column], "CastOptions", {"inDataType": "INT32", "outDataType": "FLOAT32"},
                shape=(channels,))  # fmt: skip
    m.output(m.binary("ADD", picked, real), best)
    return m


def variance() -> Model:
    """Returns a model of instance normalization as converters write it."""
    m = Maker()
    x = m.conv(m.start())

    def mean(y: int) -> int:
        axes = m.constant(np.array([1, 2], np.int32))
        return m.add("MEAN", [y, axes], "ReducerOptions", {"keepDims": True})

    middle = mean(x)
    spread = mean(m.add("SQUARED_DIFFERENCE", [x, middle], "SquaredDifferenceOptions"))
    factor = m.unary("RSQRT", m.binary("ADD", spread, m.constant(np.float32(1e-3))))
    scale = m.binary("MUL", factor, m.constant(seeded(4)))
    m.output(m.binary("MUL", m.binary("SUB", x, middle), scale))
    return m


CASES = [
    GraphCase("an intermediate that is also an output", intermediate_output),
    GraphCase("a sum and its operands are outputs", added_output),
    GraphCase("an output that a later partition reads", output_read_by_a_later_partition, 2, 1),
    GraphCase("a tensor for a CPU node and a partition", read_by_cpu_and_partition, 2, 1),
    GraphCase("two outputs of one node", two_outputs_of_a_node),
    GraphCase("a constant output", constant_output),
    GraphCase("an input passed through", passthrough),
    GraphCase("reshapes only", only_moves_nothing),
    GraphCase("one tensor as two outputs", same_output_twice),
    GraphCase("diamond", diamond),
    GraphCase("diamond over a CPU node", diamond_over_a_cpu_node, 2, 1),
    GraphCase("four residual blocks", diamonds),
    GraphCase("2 partitions", partitions(2), 2, 1),
    GraphCase("3 partitions", partitions(3), 3, 2),
    GraphCase("50 partitions", partitions(50), 50, 49),
    GraphCase("inputs that broadcast against each other", inputs_of_several_shapes),
    GraphCase("an input that nothing reads", unused_input),
    GraphCase("one input as both operands", input_is_both_operands),
]


def resizable() -> Model:
    """Returns a model of convolutions around a residual, for any height and width."""
    m = Maker()
    x = m.conv(m.start(free=True))
    m.output(m.binary("ADD", m.conv(m.unary("RELU", x)), x))
    return m


# ---- fused patterns: a producer and what a pass merges into it --------------------------------


def _then(step: Callable[[Maker, int], int], producer: str = "conv") -> Callable[[], Model]:
    def build() -> Model:
        m = Maker()
        x = m.start()
        made = m.depthwise(x) if producer == "depthwise" else m.conv(x, channels=4)
        if producer == "mul":
            made = m.binary("MUL", x, m.constant(seeded(4)))
        m.output(step(m, made))
        return m

    return build


def _with_constant(op: str, shape: tuple[int, ...], first: bool = False) -> Callable[[], Model]:
    def step(m: Maker, y: int) -> int:
        c = m.constant(seeded(*shape) if prod(shape) > 1 else np.full(shape, 0.7, np.float32))
        return m.binary(op, *((c, y) if first else (y, c)))

    return _then(step)


def _residual(producer: str) -> Callable[[], Model]:
    return _then(lambda m, y: m.binary("ADD", y, m.inputs[0], "RELU"), producer)


def _padded(m: Maker, x: int) -> int:
    amounts = m.constant(np.array([[0, 0], [2, 1], [0, 3], [0, 0]], np.int32))
    return m.add("PAD", [x, amounts], "PadOptions")


def _pad_then(producer: str) -> Callable[[], Model]:
    def build() -> Model:
        m = Maker()
        padded = _padded(m, m.start())
        m.output(m.depthwise(padded, "VALID") if producer == "depthwise" else _valid(m, padded))
        return m

    return build


def _valid(m: Maker, x: int) -> int:
    reads = [x, m.constant(seeded(5, 3, 3, 4)), m.constant(seeded(5))]
    return m.add("CONV_2D", reads, "Conv2DOptions", _window("RELU6") | {"padding": "VALID"})


def _unary(op: str) -> Callable[[Maker, int], int]:
    return lambda m, y: m.unary(op, y)


def _prelu(m: Maker, y: int) -> int:
    return m.add("PRELU", [y, m.constant(seeded(1, 1, 4))])


def _chain(m: Maker, y: int) -> int:
    y = m.binary("MUL", y, m.constant(seeded(4)))
    y = m.binary("ADD", y, m.constant(seeded(4, seed=3)), "RELU6")
    return m.unary("LOGISTIC", y)


FUSED: dict[str, Callable[[], Model]] = {
    **{f"convolution, {op.lower()}": _then(_unary(op))
       for op in ("RELU", "RELU6", "RELU_N1_TO_1", "LOGISTIC", "TANH")},
    **{f"convolution, {op.lower()} per channel": _with_constant(op, (4,))
       for op in ("ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM")},
    "convolution, one value": _with_constant("MUL", (1,)),
    "convolution, map": _with_constant("ADD", SHAPE),
    "convolution taken from a constant": _with_constant("SUB", (4,), first=True),
    "convolution, prelu": _then(_prelu),
    "convolution, chain": _then(_chain),
    "convolution, residual": _residual("conv"),
    "depthwise, residual": _residual("depthwise"),
    "depthwise, chain": _then(_chain, "depthwise"),
    "elementwise, chain": _then(_chain, "mul"),
    "pad, convolution": _pad_then("conv"),
    "pad, depthwise": _pad_then("depthwise"),
}  # fmt: skip

# Cases of operators whose ONNX counterparts take other types: these have no twin.
OF_TFLITE = [
    GraphCase("indices and what lies there", indices),
    GraphCase("instance normalization", variance),
]
