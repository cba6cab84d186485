"""Small TFLite models for tests of the frontend: a few ops, seeded weights, shapes that resize."""

from __future__ import annotations

from typing import Any

import numpy as np

from conformance.cases import seeded
from conformance.models.tflite import Model
from conformance.models.tflite_file import schema

FEATURES = 4
CPU_OP = "MUL"  # of `on_cpu`


def conv(model: Model, x: int, shape: tuple[int, ...], name: str = "", seed: int = 1) -> int:
    """Adds a 3x3 SAME convolution to FEATURES channels with RELU; x has this `shape`."""
    weights = model.constant(seeded(FEATURES, 3, 3, shape[-1], seed=seed))
    bias = model.constant(seeded(FEATURES, seed=seed + 1))
    options = {
        "padding": "SAME",
        "strideH": 1,
        "strideW": 1,
        "fusedActivationFunction": "RELU",
    }
    out = (*shape[:-1], FEATURES)
    return model.op("CONV_2D", [x, weights, bias], "Conv2DOptions", options, shape=out, name=name)


def binary(model: Model, op: str, a: int, b: int, shape: tuple[int, ...], name: str = "") -> int:
    """Adds ADD, SUB or MUL without activation, or an op that has no options."""
    table = {"ADD": "AddOptions", "SUB": "SubOptions", "MUL": "MulOptions"}
    options: dict[str, Any] = {"fusedActivationFunction": "NONE"} if op in table else {}
    return model.op(op, [a, b], table.get(op), options, shape=shape, name=name)


def on_cpu(model: Model, a: int, b: int, shape: tuple[int, ...], name: str = "") -> int:
    """Adds a product that stays on the CPU because of its activation, tanh, which hosts ignore."""
    options = {"fusedActivationFunction": "TANH"}
    return model.op(CPU_OP, [a, b], "MulOptions", options, shape=shape, name=name)


def guide() -> bytes:
    """Returns the example of the delegate guide: convolution, mean, and a squared difference."""
    model, shape = Model(), (1, 8, 8, 3)
    features = conv(model, model.input("x", shape), shape, "features")
    axes = model.constant(np.array([1, 2], np.int32))
    options = {"keepDims": False}
    mean = model.op("MEAN", [features, axes], "ReducerOptions", options, shape=(1, 4), name="mean")
    target = model.constant(seeded(1, 4))
    model.output(binary(model, "SQUARED_DIFFERENCE", mean, target, (1, 4), "distance"))
    return model.to_bytes()


def one_partition(shape: tuple[int, ...] = (1, 8, 8, 3)) -> bytes:
    """Returns a model of two convolutions."""
    model = Model()
    x = model.input("x", shape, signature=(-1, -1, -1, 3))
    features = conv(model, x, shape, "first")
    model.output(conv(model, features, (*shape[:-1], FEATURES), "second", seed=3))
    return model.to_bytes()


def wide_layers() -> bytes:
    """Returns a model of two 1x1 convolutions, from 64 to 1024 channels and back: large enough for
    float16 storage, and for weights to be most of the plan."""
    model, shape, wide = Model(), (1, 16, 16, 64), (1, 16, 16, 1024)
    x = model.input("x", shape)
    options = {"padding": "SAME", "strideH": 1, "strideW": 1, "fusedActivationFunction": "RELU"}
    for given, result in ((shape, wide), (wide, shape)):
        weights = model.constant(seeded(result[-1], 1, 1, given[-1], scale=0.1))
        reads = [x, weights, model.constant(seeded(result[-1]))]
        x = model.op("CONV_2D", reads, "Conv2DOptions", options, shape=result)
    model.output(x)
    return model.to_bytes()


def two_partitions(read_by_both: bool = False, shown: bool = False) -> bytes:
    """Returns a model of x -> [p, q] on the GPU, q -> d on the CPU, and p + d on the GPU.

    With `read_by_both`, the CPU node also reads p, so that it shares p with a partition; `shown`: p
    is an output of the model, too."""
    model, shape = Model(), (1, 6, 5, 3)
    out = (*shape[:-1], FEATURES)
    x = model.input("x", shape, signature=(-1, -1, -1, 3))
    p, q = conv(model, x, shape, "p"), conv(model, x, shape, "q", seed=5)
    if read_by_both:
        other = binary(model, "ADD", p, model.constant(np.float32(2.0)), out, "shifted")
    else:
        other = q
    d = on_cpu(model, q, other, out, "d")
    if read_by_both:
        d = on_cpu(model, d, d, out, "d2")
        d = on_cpu(model, d, p, out, "d3")
    model.output(*([p] if shown else []), binary(model, "ADD", p, d, out, "sum"))
    return model.to_bytes()


def resized_between_partitions() -> bytes:
    """Returns a model of a convolution, RESIZE_NEAREST_NEIGHBOR (which stays on the CPU), and a
    convolution."""
    model, shape = Model(), (1, 5, 4, 3)
    x = model.input("x", shape, signature=(-1, -1, -1, 3))
    features = conv(model, x, shape, "small")
    size = model.constant(np.array([9, 7], np.int32))
    options = {"alignCorners": False, "halfPixelCenters": False}
    larger = model.op(
        "RESIZE_NEAREST_NEIGHBOR", [features, size], "ResizeNearestNeighborOptions", options,
        shape=(1, 9, 7, FEATURES), name="larger",
    )  # fmt: skip
    model.output(conv(model, larger, (1, 9, 7, FEATURES), "large", seed=3))
    return model.to_bytes()


def joined() -> bytes:
    """Returns a model of two convolutions whose results are joined along the batch, and a third."""
    model, shape = Model(), (1, 6, 5, 3)
    x = model.input("x", shape, signature=(-1, -1, -1, 3))
    y = model.input("y", (2, 6, 5, 3), signature=(-1, -1, -1, 3))
    parts = [conv(model, x, shape, "x part"), conv(model, y, (2, 6, 5, 3), "y part", seed=5)]
    both = model.op(
        "CONCATENATION", parts, "ConcatenationOptions", {"axis": 0}, shape=(3, 6, 5, FEATURES)
    )
    model.output(conv(model, both, (3, 6, 5, FEATURES), "last", seed=3))
    return model.to_bytes()


def squeezed() -> bytes:
    """Returns a model of a convolution, a squeeze of the batch, a squeeze of all extents of 1, and
    RELU."""
    model, shape = Model(), (1, 6, 5, 3)
    x = conv(model, model.input("x", shape, signature=(1, -1, -1, 3)), shape, "features")
    axes = {"squeezeDims": [0]}
    flat = model.op("SQUEEZE", [x], "SqueezeOptions", axes, shape=(6, 5, FEATURES), name="flat")
    again = model.op("SQUEEZE", [flat], "SqueezeOptions", {}, shape=(6, 5, FEATURES), name="again")
    model.output(model.op("RELU", [again], shape=(6, 5, FEATURES), name="relu"))
    return model.to_bytes()


def shared_output() -> bytes:
    """Returns a model whose outputs are a tensor inside of the partition and the partition's
    result."""
    model, shape = Model(), (1, 8, 8, 3)
    features = conv(model, model.input("x", shape), shape, "features")
    out = (*shape[:-1], FEATURES)
    model.output(conv(model, features, out, "last", seed=3), features)
    return model.to_bytes()


def shape_at_run_time() -> bytes:
    """Returns a model of a RESHAPE to a fed shape and a convolution, next to a convolution of fixed
    shape."""
    model, shape = Model(), (1, 6, 6, 3)
    x = model.input("x", shape)
    wanted = model.input("wanted", (4,), "i32")
    options = {"newShape": [1, 6, 6, 3]}
    again = model.op("RESHAPE", [x, wanted], "ReshapeOptions", options, shape=shape, name="again")
    model.output(conv(model, again, shape, "dynamic"), conv(model, x, shape, "static", seed=3))
    return model.to_bytes()


def lstm() -> bytes:
    """Returns a model of a basic LSTM cell whose state the interpreter keeps."""
    model, batch, inputs, depth = Model(), 1, 3, 5
    x = model.input("x", (batch, inputs))
    activation = model.variable("activation", (batch, depth))
    weights = model.constant(seeded(4 * depth, inputs + depth))
    bias = model.constant(seeded(4 * depth, seed=2))
    state = model.variable("state", (batch, depth))
    options = {"fusedActivationFunction": "TANH", "kernelType": "BASIC"}
    shapes = [(batch, depth), (batch, depth), (batch, inputs + depth), (batch, 4 * depth)]
    results = model.multi_op(
        "LSTM", [x, activation, weights, bias, state], "LSTMOptions", options,
        shapes=shapes, version=2,
    )  # fmt: skip
    model.output(results[0])
    return model.to_bytes()


def branches() -> bytes:
    """Returns a model of an IF over two graphs with a convolution each: hosts call a delegate once
    per graph."""
    import flatbuffers

    s, shape = schema(), (1, 5, 5, 3)
    whole = Model()
    which = whole.input("which", (), "bool")
    x = whole.input("x", shape)
    options = {"thenSubgraphIndex": 1, "elseSubgraphIndex": 2}
    whole.output(whole.op("IF", [which, x], "IfOptions", options, shape=(1, 5, 5, FEATURES)))
    packed = whole.unpacked()
    for seed in (1, 3):
        branch = Model()
        branch.output(conv(branch, branch.input("x", shape), shape, "branch", seed=seed))
        append_subgraph(packed, branch.unpacked())
    builder = flatbuffers.Builder(1 << 16)
    builder.Finish(packed.Pack(builder), b"TFL3")
    assert len(packed.subgraphs) == 3 and s is not None
    return bytes(builder.Output())


def append_subgraph(packed: Any, other: Any) -> None:
    """The only subgraph of `other` becomes one more of `packed`."""
    graph = other.subgraphs[0]
    for tensor in graph.tensors:
        if tensor.buffer:
            packed.buffers.append(other.buffers[tensor.buffer])
            tensor.buffer = len(packed.buffers) - 1
    for operator in graph.operators:
        packed.operatorCodes.append(other.operatorCodes[operator.opcodeIndex])
        operator.opcodeIndex = len(packed.operatorCodes) - 1
    packed.subgraphs.append(graph)
