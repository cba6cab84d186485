"""Small float ONNX models, quantized by onnxruntime's own quantizer in both of its formats (groups
of QuantizeLinear and DequantizeLinear, and QLinear operators), and how far two answers are apart in
levels of the output."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
OPSET = 17
FORMATS = ("qdq", "qlinear")
# Types of activations and weights, and whether weights have a scale per channel.
KINDS = (
    ("u8", "u8", False), ("u8", "i8", True), ("i8", "i8", True), ("i8", "i8", False),
    ("u16", "u8", False), ("i16", "i8", False),
)  # fmt: skip
SAMPLES = 4  # runs that choose the scales


@dataclass(frozen=True)
class Network:
    """A float32 model of a few nodes; `inputs` are fed, `constants` are its own."""

    name: str
    nodes: Callable[[], Sequence[Any]]
    inputs: Mapping[str, Sequence[int]]
    output: Sequence[int]
    constants: Mapping[str, Array]
    formats: Sequence[str] = FORMATS

    def written(self, kind: tuple[str, str, bool]) -> Sequence[str]:
        """Returns the formats for these types: only groups support 16 bits."""
        return self.formats if kind[0].endswith("8") else ("qdq",)

    @property
    def op(self) -> str:
        """Returns the operator that the network is about."""
        return self.name.split("-")[0]

    def feed(self, seed: int) -> dict[str, Array]:
        chance = np.random.default_rng(seed)
        return {
            name: chance.uniform(-2, 3, shape).astype(np.float32)
            for name, shape in self.inputs.items()
        }

    def model(self) -> Any:
        """Returns the onnx.ModelProto."""
        from onnx import TensorProto, helper, numpy_helper

        def info(name: str, shape: Sequence[int]) -> Any:
            return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

        graph = helper.make_graph(
            self.nodes(),
            self.name,
            [info(name, shape) for name, shape in self.inputs.items()],
            [info("y", self.output)],
            [numpy_helper.from_array(value, name) for name, value in self.constants.items()],
        )
        opset = [helper.make_opsetid("", OPSET)]
        return helper.make_model(graph, opset_imports=opset, ir_version=8)


def _node(op: str, *inputs: str, output: str = "y", **attributes: Any) -> Any:
    from onnx import helper

    return helper.make_node(op, inputs, [output], name=f"{op} {output}", **attributes)


def _values(*shape: int) -> Array:
    chance = np.random.default_rng(sum(shape))
    return chance.uniform(-1, 1, shape).astype(np.float32)


def _one(
    op: str, shape: Sequence[int], output: Sequence[int], *constants: Array, **attributes: Any
) -> Network:
    names = {f"c{k}": value for k, value in enumerate(constants)}
    title = f"{op}-{'x'.join(map(str, shape))}"
    return Network(
        title, lambda: [_node(op, "x", *names, **attributes)], {"x": shape}, output, names
    )


def _two(op: str, first: Sequence[int], second: Sequence[int], **attributes: Any) -> Network:
    output = np.broadcast_shapes(tuple(first), tuple(second)) if op != "MatMul" else (4, 5)
    return Network(
        f"{op}-{'x'.join(map(str, second))}", lambda: [_node(op, "a", "b", **attributes)],
        {"a": first, "b": second}, output, {},
    )  # fmt: skip


def _after(
    op: str, shape: Sequence[int], output: Sequence[int], *constants: Array, **attributes: Any
) -> Network:
    """Returns a network with the operator after a sum: the quantizer leaves these operators alone
    unless their input is quantized."""
    plain = _one(op, shape, output, *constants, **attributes)

    def nodes() -> list[Any]:
        return [
            _node("Add", "x", "added", output="s"),
            _node(op, "s", *plain.constants, **attributes),
        ]

    constant = {"added": _values(*shape)}
    return replace(plain, nodes=nodes, constants={**constant, **plain.constants})


def networks() -> Iterator[Network]:
    """Returns networks of one operator each, then a few of several."""
    yield _one("Conv", (1, 3, 9, 8), (1, 6, 9, 8), _values(6, 3, 3, 3), _values(6), pads=[1] * 4)
    yield _one("Conv", (2, 40, 5, 6), (2, 8, 5, 6), _values(8, 40, 1, 1))
    yield _one("Conv", (1, 8, 9, 9), (1, 8, 5, 5), _values(8, 1, 3, 3), _values(8), group=8,
               pads=[1] * 4, strides=[2, 2])  # fmt: skip
    yield _one("Conv", (1, 6, 11), (1, 4, 9), _values(4, 6, 3), _values(4))
    transposed = _one(
        "ConvTranspose", (1, 3, 4, 5), (1, 5, 8, 10), _values(3, 5, 2, 2), strides=[2, 2]
    )
    yield replace(transposed, formats=("qdq",))  # there is no QLinear operator
    yield _one("MatMul", (3, 7, 20), (3, 7, 9), _values(20, 9))
    yield _two("MatMul", (4, 6), (6, 5))
    yield _one("Gemm", (5, 33), (5, 10), _values(10, 33), _values(10), transB=1)
    yield _two("Add", (2, 3, 4, 5), (2, 3, 4, 5))
    yield _two("Add", (2, 3, 4, 5), (3, 1, 1))
    yield _two("Mul", (2, 3, 4, 5), (2, 3, 4, 5))
    yield _one("Sigmoid", (3, 50), (3, 50))
    yield _one("LeakyRelu", (3, 50), (3, 50), alpha=0.1)
    yield _one("Softmax", (3, 50), (3, 50))
    pool: dict[str, Any] = {"kernel_shape": [2, 2], "strides": [2, 2]}
    yield _after("AveragePool", (1, 5, 8, 8), (1, 5, 4, 4), **pool)
    yield _after("MaxPool", (1, 5, 8, 8), (1, 5, 4, 4), **pool)
    yield _after("GlobalAveragePool", (2, 5, 7, 6), (2, 5, 1, 1))
    yield _after("Reshape", (2, 12), (4, 6), np.array([4, 6]))
    yield _after("Transpose", (2, 3, 4), (4, 2, 3), perm=[2, 0, 1])
    yield _after("Resize", (1, 2, 4, 5), (1, 2, 8, 10), np.zeros(0, np.float32),
                 np.array([1, 1, 2, 2], np.float32))  # fmt: skip
    yield _after("Pad", (1, 2, 4, 5), (1, 2, 7, 6), np.array([0, 0, 1, 0, 0, 0, 2, 1]))
    yield Network("Concat", lambda: [_node("Concat", "a", "b", axis=1)],
                  {"a": (2, 3, 4), "b": (2, 5, 4)}, (2, 8, 4), {})  # fmt: skip
    yield Network("chain", _chain, {"x": (1, 3, 12, 12)}, (1, 10), {
        "w1": _values(8, 3, 3, 3), "b1": _values(8), "w2": _values(8, 1, 3, 3), "b2": _values(8),
        "w3": _values(8, 8, 1, 1), "w4": _values(10, 8), "b4": _values(10),
    })  # fmt: skip


def _chain() -> list[Any]:
    return [
        _node("Conv", "x", "w1", "b1", output="a", pads=[1] * 4, strides=[2, 2]),
        _node("Relu", "a", output="b"),
        _node("Conv", "b", "w2", "b2", output="c", group=8, pads=[1] * 4),
        _node("Relu", "c", output="d"),
        _node("Conv", "d", "w3", output="e"),
        _node("Add", "b", "e", output="f"),
        _node("GlobalAveragePool", "f", output="g"),
        _node("Flatten", "g", output="h"),
        _node("Gemm", "h", "w4", "b4", transB=1),
    ]


_MADE: dict[tuple[object, ...], bytes] = {}  # each is used optimized and plain


class _Samples:
    """Runs for the quantizer."""

    def __init__(self, feeds: Iterable[Mapping[str, Array]]) -> None:
        self.feeds = iter(feeds)

    def get_next(self) -> Mapping[str, Array] | None:
        return next(self.feeds, None)


def quantize(network: Network, form: str, kind: tuple[str, str, bool]) -> bytes:
    """Returns the network with 8-bit activations and weights, and a float32 output."""
    key = (network.name, form, kind)
    if key not in _MADE:
        feeds = [network.feed(seed) for seed in range(SAMPLES)]
        _MADE[key] = quantized(network.model(), feeds, form, kind)
    return _MADE[key]


def quantized(
    model: Any, feeds: Iterable[Mapping[str, Array]], form: str, kind: tuple[str, str, bool]
) -> bytes:
    """Returns a model (its path, or an onnx.ModelProto) whose scales cover its values for these
    inputs."""
    from onnxruntime import quantization as host

    types = {
        "u8": host.QuantType.QUInt8, "i8": host.QuantType.QInt8,
        "u16": host.QuantType.QUInt16, "i16": host.QuantType.QInt16,
    }  # fmt: skip
    activations, weights, per_channel = kind
    formats = {"qdq": host.QuantFormat.QDQ, "qlinear": host.QuantFormat.QOperator}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "quantized.onnx"
        host.quantize_static(
            model, path, _Samples(feeds), quant_format=formats[form],
            per_channel=per_channel, activation_type=types[activations], weight_type=types[weights],
            reduce_range=activations != weights,  # without it, some CPUs' kernels saturate
        )  # fmt: skip
        return path.read_bytes()


def quantize_dynamic(network: Network, weights: str, per_channel: bool) -> bytes:
    """Returns the network with 8-bit weights, whose activations are quantized by their range in
    each run."""
    from onnxruntime import quantization as host

    kind = host.QuantType.QInt8 if weights == "i8" else host.QuantType.QUInt8
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "quantized.onnx"
        host.quantize_dynamic(
            network.model(), path, weight_type=kind, per_channel=per_channel,
            op_types_to_quantize=["Conv", "MatMul", "Gemm"],
        )  # fmt: skip
        return path.read_bytes()


def contributed() -> Iterator[tuple[str, bytes, dict[str, Array]]]:
    """Returns models of onnxruntime's own operators that its quantizer does not write, with
    inputs."""
    chance = np.random.default_rng(3)
    x = chance.uniform(-2, 3, (4, 6)).astype(np.float32)
    a = chance.integers(0, 256, (2, 4, 6), np.uint8)
    b = chance.integers(-128, 128, (6, 5), np.int8)
    scales = chance.uniform(0.01, 0.02, 5).astype(np.float32)
    zeros = chance.integers(-9, 9, 5).astype(np.int8)
    bias = _values(5)
    small, middle = np.float32(0.02), np.uint8(120)
    yield "MatMulIntegerToFloat", *_contributed(
        "MatMulIntegerToFloat", {"a": a}, {"b": b, "as": small, "bs": scales, "az": middle,
                                           "bz": zeros, "bias": bias}, np.float32)  # fmt: skip
    yield "DynamicQuantizeMatMul", *_contributed(
        "DynamicQuantizeMatMul", {"x": x}, {"b": b, "bs": scales, "bz": zeros, "bias": bias},
        np.float32)  # fmt: skip
    yield "QuantizeLinear", *_contributed(
        "QuantizeLinear", {"x": x}, {"s": small, "z": middle}, np.uint8)  # fmt: skip
    yield "DequantizeLinear", *_contributed(
        "DequantizeLinear", {"a": a}, {"s": small, "z": middle}, np.float32)  # fmt: skip
    yield "QGemm", *_contributed(
        "QGemm", {"a": a[0]}, {"as": small, "az": middle, "b": b, "bs": scales, "bz": zeros,
                               "c": np.arange(5, dtype=np.int32) * 999}, np.float32,
        alpha=0.5)  # fmt: skip


def _contributed(
    op: str, fed: Mapping[str, Array], constants: Mapping[str, Any], result: Any, **attributes: Any
) -> tuple[bytes, dict[str, Array]]:
    from onnx import helper, numpy_helper

    def info(name: str, dtype: Any, shape: Any) -> Any:
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return helper.make_tensor_value_info(name, kind, shape)

    node = helper.make_node(op, [*fed, *constants], ["y"], domain="com.microsoft", **attributes)
    graph = helper.make_graph(
        [node], op,
        [info(name, value.dtype, value.shape) for name, value in fed.items()],
        [info("y", result, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("com.microsoft", 1)]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    return bytes(made.SerializeToString()), dict(fed)


def steps(model: bytes) -> list[float]:
    """Returns for each output its step: the scale of the node that computes it."""
    import onnx
    from onnx import numpy_helper

    graph = onnx.ModelProto.FromString(model).graph
    constants = {value.name: value for value in graph.initializer}
    makers = {name: node for node in graph.node for name in node.output}
    found = []
    for output in graph.output:
        last = makers[output.name]
        assert last.op_type == "DequantizeLinear", f"{output.name} comes from {last.op_type}"
        found.append(float(numpy_helper.to_array(constants[last.input[1]])))
    return found
