"""Seeded graphs of a few operators each, for faults that single-op cases do not show: fused steps,
aliases, tensors that must not share memory, tensors that are outputs and inputs at once, partitions
beside CPU nodes.

Shapes come from the host: an operator that its CPU kernels refuse is removed again."""

from __future__ import annotations

from math import prod

import numpy as np

from conformance.host import Array
from conformance.models.tflite import Model
from conformance.random import (
    graphs_choosing as choosing,
    graphs_indexed as indexed,
    graphs_newer as newer,
    values,
)
from conformance.random.graphs_maker import ACTIVATIONS, Maker

ON_THE_CPU = ("NEG", "ABS", "SQUARE")
SIMPLE, NEW, INDEXED, CHOOSING = 60, 120, 180, 240
CHANNELS = (1, 3, 4, 5, 8, 16, 17)


def _conv(m: Maker) -> None:
    x, kernel = m.pick(4), m.choose.choice((1, 1, 2, 3, 3))
    inputs, outputs = m.shape(x)[3], m.choose.choice(CHANNELS)
    reads = [x, m.weights(outputs, kernel, kernel, inputs), m.weights(outputs)]
    m.add("CONV_2D", reads, "Conv2DOptions", **m.window())


def _depthwise(m: Maker) -> None:
    x, kernel = m.pick(4), m.choose.choice((2, 3, 3, 5))
    outputs = m.shape(x)[3] * m.choose.choice((1, 1, 1, 2))
    data = m.numbers.uniform(-0.5, 0.5, (1, kernel, kernel, outputs)).astype(np.float32)
    reads = [x, m.model.constant(data), m.weights(outputs)]
    multiplier = outputs // m.shape(x)[3]
    table = "DepthwiseConv2DOptions"
    m.add("DEPTHWISE_CONV_2D", reads, table, depthMultiplier=multiplier, **m.window())


def _padded_conv(m: Maker) -> None:
    """Adds a padding with a single reader, a convolution, which a pass merges."""
    top, bottom, left, right = (m.choose.randrange(3) for _ in range(4))
    amounts = m.integers((0, 0), (top, bottom), (left, right), (0, m.choose.choice((0, 0, 3))))
    if m.add("PAD", [m.pick(4), amounts], "PadOptions") is not None:
        m.choose.choice((_conv, _depthwise))(m)


def _unary(m: Maker) -> None:
    m.add(m.choose.choice(("RELU", "RELU6", "RELU_N1_TO_1", "LOGISTIC", "TANH")), [m.pick()])


def _binary(m: Maker) -> None:
    op = m.choose.choice(("ADD", "ADD", "MUL", "SUB", "MAXIMUM", "MINIMUM"))
    x = m.pick()
    shape = m.shape(x)
    second = m.choose.choice(("tensor", "tensor", "any", "full", "channels", "one"))
    if second == "tensor":
        y = m.pick(like=shape)
    elif second == "any":
        y = m.pick()
    else:
        sizes = {"full": shape, "channels": shape[-1:], "one": (1,)}
        data = m.numbers.uniform(-1, 1, sizes[second]).astype(np.float32)
        y = m.model.constant(data)
    reads = [x, y] if m.choose.random() < 0.6 else [y, x]
    if op in ("MAXIMUM", "MINIMUM"):
        m.add(op, reads, "MaximumMinimumOptions")
    else:
        activation = m.choose.choice(ACTIVATIONS)
        m.add(op, reads, f"{op.title()}Options", fusedActivationFunction=activation)


def _prelu(m: Maker) -> None:
    x = m.pick(4)
    _, height, width, channels = m.shape(x)
    m.add("PRELU", [x, m.weights(*m.choose.choice(((1, 1, channels), (height, width, channels))))])


def _concat(m: Maker) -> None:
    x = m.pick()
    if not m.shape(x):
        return
    axis = m.choose.randrange(len(m.shape(x)))
    others = [m.pick(like=m.shape(x), but=axis) for _ in range(m.choose.choice((1, 1, 2, 3)))]
    m.add("CONCATENATION", [x, *others], "ConcatenationOptions", axis=axis)


def _pool(m: Maker) -> None:
    x, size = m.pick(4), m.choose.choice((2, 3))
    op = m.choose.choice(("AVERAGE_POOL_2D", "MAX_POOL_2D"))
    m.add(op, [x], "Pool2DOptions", filterWidth=size, filterHeight=size, **m.window())


def _reshape(m: Maker) -> None:
    x = m.pick()
    rest, extents = prod(m.shape(x)), list[int]()
    for _ in range(m.choose.choice((0, 1, 2, 3, 3, 4))):
        extents.append(m.choose.choice([d for d in range(1, min(rest, 64) + 1) if rest % d == 0]))
        rest //= extents[-1]
    shape = [*extents, rest]
    m.add("RESHAPE", [x, m.integers(*shape)], "ReshapeOptions", newShape=shape)


def _resize(m: Maker) -> None:
    size = m.integers(m.choose.randint(1, 14), m.choose.randint(1, 14))
    align, half = m.choose.choice(((False, False), (True, False), (False, True)))
    options = {"alignCorners": align, "halfPixelCenters": half}
    m.add("RESIZE_BILINEAR", [m.pick(4), size], "ResizeBilinearOptions", version=3, **options)


def _mean(m: Maker) -> None:
    axes = m.integers(*m.choose.choice(((1, 2), (1, 2), (3,), (-1, 1))))
    m.add("MEAN", [m.pick(4), axes], "ReducerOptions", keepDims=m.choose.random() < 0.5)


def _softmax(m: Maker) -> None:
    m.add("SOFTMAX", [m.pick()], "SoftmaxOptions", beta=1.0)


def _slice(m: Maker) -> None:
    x = m.pick()
    bounds = [sorted(m.choose.sample(range(extent + 1), 2)) for extent in m.shape(x)]
    begin, end = m.integers(*(b[0] for b in bounds)), m.integers(*(b[1] for b in bounds))
    steps = m.integers(*(m.choose.choice((1, 1, 2)) for _ in bounds))
    m.add("STRIDED_SLICE", [x, begin, end, steps], "StridedSliceOptions")


def _fully_connected(m: Maker) -> None:
    x, outputs = m.pick(), m.choose.choice(CHANNELS)
    if len(m.shape(x)) < 2:
        return
    reads = [x, m.weights(outputs, m.shape(x)[-1]), m.weights(outputs)]
    activation = m.choose.choice(ACTIVATIONS)
    m.add("FULLY_CONNECTED", reads, "FullyConnectedOptions", fusedActivationFunction=activation)


def _on_the_cpu(m: Maker) -> None:
    """Adds an operator that the test keeps on the CPU, so that partitions and CPU nodes
    alternate."""
    m.add(m.choose.choice(ON_THE_CPU), [m.pick()])


def _transpose(m: Maker) -> None:
    x = m.pick()
    perm = m.choose.sample(range(len(m.shape(x))), len(m.shape(x)))
    if perm:  # hosts transpose a scalar by reading what is not there
        m.add("TRANSPOSE", [x, m.integers(*perm)], "TransposeOptions")


def _mirror(m: Maker) -> None:
    x, mode = m.pick(), m.choose.choice(("REFLECT", "SYMMETRIC"))
    most = [extent - (mode == "REFLECT") for extent in m.shape(x)]
    pairs = [(m.choose.randint(0, min(2, n)), m.choose.randint(0, min(2, n))) for n in most]
    if pairs:
        m.add("MIRROR_PAD", [x, m.integers(*pairs)], "MirrorPadOptions", mode=mode)


def _padded_with_a_value(m: Maker) -> None:
    x = m.pick()
    pairs = [(m.choose.choice((0, 0, 1, 2)), m.choose.choice((0, 0, 1))) for _ in m.shape(x)]
    value = m.model.constant(np.float32(m.choose.choice((0.0, 1.5, -2.0))))
    if pairs and m.choose.random() < 0.7:
        m.add("PADV2", [x, m.integers(*pairs), value], "PadV2Options")
    elif pairs:
        low, high = (list(side) for side in zip(*pairs, strict=True))
        m.add("STABLEHLO_PAD", [x, value], "StablehloPadOptions", edgePaddingLow=low,
              edgePaddingHigh=high, interiorPadding=[0] * len(pairs))  # fmt: skip


def _gather(m: Maker) -> None:
    x = m.pick()
    if not m.shape(x):
        return
    axis = m.choose.randrange(len(m.shape(x)))
    places = [m.choose.randrange(m.shape(x)[axis]) for _ in range(m.choose.choice((1, 2, 5)))]
    m.add("GATHER", [x, m.integers(*places)], "GatherOptions", axis=axis)


def _blocks(m: Maker) -> None:
    op = m.choose.choice(("SPACE_TO_DEPTH", "DEPTH_TO_SPACE"))
    table = f"{op.title().replace('_', '')}Options"
    m.add(op, [m.pick(4)], table, blockSize=2)


def _deconv(m: Maker) -> None:
    x, kernel, stride = m.pick(4), m.choose.choice((2, 3, 4)), m.choose.choice((1, 2, 3))
    batch, height, width, inputs = m.shape(x)
    outputs = m.choose.choice(CHANNELS)
    size = m.integers(batch, height * stride, width * stride, outputs)
    reads = [size, m.weights(outputs, kernel, kernel, inputs), x]
    if m.choose.random() < 0.5:
        reads.append(m.weights(outputs))
    m.add("TRANSPOSE_CONV", reads, "TransposeConvOptions", 3 if len(reads) == 4 else 1,
          padding="SAME", strideW=stride, strideH=stride)  # fmt: skip


def _nearest(m: Maker) -> None:
    size = m.integers(m.choose.randint(1, 14), m.choose.randint(1, 14))
    align, half = m.choose.choice(((False, False), (True, False), (False, True)))
    options = {"alignCorners": align, "halfPixelCenters": half}
    op, table = "RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighborOptions"
    m.add(op, [m.pick(4), size], table, version=3, **options)


def _more_unary(m: Maker) -> None:
    x = m.pick()
    op = m.choose.choice(("HARD_SWISH", "LEAKY_RELU", "EXP", "SQRT", "RSQRT", "LOG"))
    if op == "LEAKY_RELU":
        m.add(op, [x], "LeakyReluOptions", alpha=0.2)
    elif op == "EXP":
        bounded = m.add("TANH", [x])
        if bounded is not None:
            m.add(op, [bounded], "ExpOptions")
    elif op in ("SQRT", "RSQRT", "LOG"):
        inside = m.add("LOGISTIC", [x])
        if inside is not None:
            m.add(op, [inside])
    else:
        m.add(op, [x])


def _squeeze(m: Maker) -> None:
    x = m.pick()
    axes = [axis for axis, extent in enumerate(m.shape(x)) if extent == 1]
    if axes:
        m.add("SQUEEZE", [x], "SqueezeOptions", squeezeDims=axes[:1])


def _split(m: Maker) -> None:
    x = m.pick()
    pairs = [(axis, n) for axis, extent in enumerate(m.shape(x)) for n in (2, 3) if extent % n == 0]
    if pairs:
        axis, count = m.choose.choice(pairs)
        m.add_parts(x, axis, count)


MORE = (
    *[_transpose] * 3,
    *(_mirror, _padded_with_a_value, _gather, _blocks, _deconv, _nearest, _more_unary),
    *(_more_unary, _squeeze, _split, _split),
)

MAKERS = (
    *[_conv] * 4,
    *[_depthwise] * 2,
    *[_padded_conv] * 2,
    *[_unary] * 3,
    *[_binary] * 5,
    *[_concat] * 2,
    *(_prelu, _pool, _reshape, _resize, _mean, _softmax, _slice, _fully_connected),
)


def build(seed: int) -> tuple[Model, list[list[Array]]]:
    """Returns a model and two feeds. Every third seed has operators that stay on the CPU; seeds
    from SIMPLE on have operators without an ONNX twin, too, from NEW on those of `graphs_newer`,
    from INDEXED on mostly those of `graphs_indexed`, and from CHOOSING on those of
    `graphs_choosing`."""
    m = Maker(seed)
    batch = m.choose.choice((1, 1, 1, 2, 3))
    for k in range(m.choose.choice((1, 1, 2))):
        extents = (m.choose.randint(2, 12), m.choose.randint(2, 12), m.choose.choice(CHANNELS))
        m.tensors.append(m.model.input(f"x{k}", (batch, *extents)))
    m.exact.update(m.tensors)
    makers = (*MAKERS, *(() if seed < SIMPLE else MORE), *(() if seed < NEW else newer.MAKERS * 2))
    makers = (*makers, *(() if seed < INDEXED else indexed.MAKERS * 4))
    makers = (*makers, *(() if seed < CHOOSING else choosing.MAKERS * 12))
    makers = (*makers, *[_on_the_cpu] * (3 if seed % 3 == 0 else 0))
    wanted = m.choose.choice((2, 3, 4, 6, 10, 20))
    while len(m.model.operators) < wanted:
        m.choose.choice(makers)(m)
    made = [t for o in m.model.operators for t in o.outputs]
    read = {t for o in m.model.operators for t in o.inputs}
    given = [t for t in made if t not in read or m.choose.random() < 0.15]
    # No partition gives complex numbers to the host.
    m.model.outputs = [t for t in given if m.model.tensors[t].dtype != "c64"]
    shapes = [m.shape(t) for t in m.model.inputs]
    return m.model, values.feeds(m.numbers, [shapes] * 2, seed)
