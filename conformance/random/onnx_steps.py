"""The operators of `random_onnx`, in all their forms: each function adds one to a graph, with
random inputs, attributes and constants.

Operators that jump (comparisons, selections) read exact values only, so that a rounding error stays
small."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from conformance.random.onnx_maker import BOOL, CHANNELS, FLOAT, Maker, Value


def _conv(m: Maker) -> None:
    x = m.pick(3, 4, 5)
    channels, rank = x.shape[1], len(x.shape) - 2
    groups = m.choose.choice([g for g in (1, 1, 2, channels) if channels % g == 0])
    groups = 1 if rank == 3 else groups
    outputs = groups * m.choose.choice((1, 2, 3, 4))
    kernel = [m.choose.choice((1, 2, 3)) for _ in range(rank)]
    spread = (3 / (prod(kernel) * channels / groups)) ** 0.5
    reads: list[Value | str] = [x, m.weights(outputs, channels // groups, *kernel, spread=spread)]
    if m.choose.random() < 0.7:
        reads.append(m.weights(outputs))
    m.add("Conv", *reads, group=groups, **_window(m, rank))


def _window(m: Maker, rank: int) -> dict[str, Any]:
    window: dict[str, Any] = {"strides": [m.choose.choice((1, 1, 2, 3)) for _ in range(rank)]}
    window["dilations"] = [m.choose.choice((1, 1, 1, 2)) for _ in range(rank)]
    if m.choose.random() < 0.3 and set(window["dilations"]) == {1}:
        window["auto_pad"] = m.choose.choice(("SAME_UPPER", "SAME_LOWER", "VALID"))
        window["strides"] = [1] * rank
    else:
        window["pads"] = [m.choose.choice((0, 0, 1, 2)) for _ in range(2 * rank)]
    return window


def _deconv(m: Maker) -> None:
    x = m.pick(3, 4)
    channels, rank = x.shape[1], len(x.shape) - 2
    groups = m.choose.choice([g for g in (1, 1, 2, channels) if channels % g == 0])
    kernel = [m.choose.choice((1, 2, 3, 4)) for _ in range(rank)]
    strides = [m.choose.choice((1, 2, 2, 3)) for _ in range(rank)]
    more: dict[str, Any] = {"output_padding": [m.choose.randrange(s) for s in strides]}
    weights = m.weights(channels, m.choose.choice((1, 2, 3)), *kernel, spread=0.5)
    pads = [m.choose.choice((0, 0, 1)) for _ in range(2 * rank)]
    m.add("ConvTranspose", x, weights, group=groups, strides=strides, pads=pads,
          **(more if m.choose.random() < 0.3 else {}))  # fmt: skip


def _pool(m: Maker) -> None:
    x = m.pick(3, 4, 5)
    rank = len(x.shape) - 2
    kernel = [m.choose.choice((1, 2, 3)) for _ in range(rank)]
    pads = [m.choose.randrange(k) for k in kernel] * 2
    strides = [m.choose.choice((1, 2, 3)) for _ in range(rank)]
    how: dict[str, Any] = {"kernel_shape": kernel, "strides": strides, "pads": pads}
    how["ceil_mode"] = m.choose.choice((0, 0, 1))
    if m.choose.random() < 0.5:
        m.add("MaxPool", x, exact=x.exact, **how)
    else:
        m.add("AveragePool", x, count_include_pad=m.choose.randrange(2), **how)


def _normalize(m: Maker) -> None:
    x = m.pick(3, 4, 5)
    channels = x.shape[1]
    kind = m.choose.choice(("batch", "instance", "layer", "lrn"))
    scale, bias = m.weights(channels), m.weights(channels)
    if kind == "batch":
        variance = m.const(m.numbers.uniform(0.5, 2, channels))
        m.add("BatchNormalization", x, scale, bias, m.weights(channels), variance)
    elif kind == "instance":
        m.add("InstanceNormalization", x, scale, bias, epsilon=0.1)
    elif kind == "lrn":
        m.add("LRN", x, size=m.choose.choice((1, 3, 5)), alpha=0.1)
    elif m.opset >= 17:
        axis = m.choose.randrange(1, len(x.shape))
        size = x.shape[axis:]
        m.add("LayerNormalization", x, m.weights(*size), m.weights(*size), axis=axis, epsilon=0.1)


UNARY = ("Relu", "Sigmoid", "Tanh", "LeakyRelu", "Elu", "HardSigmoid", "Softplus", "Erf", "Selu",
         "Abs", "Neg", "Sin", "Cos", "Celu", "Softsign", "HardSwish", "Atan", "Identity",
         "ThresholdedRelu", "Mish", "Gelu")  # fmt: skip


def _unary(m: Maker) -> None:
    x = m.pick()
    op = m.choose.choice(UNARY)
    if op != "ThresholdedRelu" or x.exact:
        m.add(op, x, exact=x.exact and op in ("Relu", "Abs", "Neg", "Identity"))


def _guarded(m: Maker) -> None:
    """Adds a function with a limited domain, and ops that keep its input inside."""
    x = m.pick()
    op = m.choose.choice(("Sqrt", "Log", "Exp", "Reciprocal", "Div", "Pow"))
    if op == "Exp":
        return m.add("Exp", m.step("Tanh", x))
    inside = m.step("Add", m.step("Abs", x), m.const(0.5))
    if op == "Div":
        return m.add("Div", m.pick(), inside)
    m.add(op, inside, *([m.const(m.choose.choice((2.0, 0.5, -1.0, 1.3)))] if op == "Pow" else []))


def _binary(m: Maker) -> None:
    x = m.pick()
    other: Value | str = m.pick()
    if m.choose.random() < 0.5:
        kept = [n if m.choose.random() < 0.6 else 1 for n in x.shape]
        other = m.weights(*kept[m.choose.randrange(len(kept) + 1) :])
    op = m.choose.choice(("Add", "Add", "Sub", "Mul", "Max", "Min", "Sum", "Mean"))
    reads = [x, other] if m.choose.random() < 0.6 else [other, x]
    exact = op in ("Max", "Min") and x.exact and (isinstance(other, str) or other.exact)
    m.add(op, *reads, exact=exact)


def _prelu(m: Maker) -> None:
    x = m.pick(2, 3, 4)
    m.add("PRelu", x, m.weights(x.shape[1], *[1] * (len(x.shape) - 2)))


def _clip(m: Maker) -> None:
    x, low, high = m.pick(), m.const(-0.4), m.const(0.7)
    m.add("Clip", *m.choose.choice(((x, low, high), (x, low), (x, "", high))), exact=x.exact)


def _products(m: Maker) -> None:
    x = m.pick(1, 2, 3, 4)
    inner, outputs = x.shape[-1], m.choose.choice(CHANNELS)
    spread = (3 / inner) ** 0.5
    if len(x.shape) == 2 and m.choose.random() < 0.6:
        flip = m.choose.randrange(2)
        size = (outputs, inner) if flip else (inner, outputs)
        bias = m.weights(*m.choose.choice(((outputs,), (1, outputs), (x.shape[0], 1), ())))
        m.add("Gemm", x, m.weights(*size, spread=spread), bias, transB=flip,
              alpha=m.choose.choice((1.0, 0.5)), beta=m.choose.choice((1.0, 2.0)))  # fmt: skip
    elif m.choose.random() < 0.5:
        m.add("MatMul", x, m.weights(inner, outputs, spread=spread))
    elif m.choose.random() < 0.5:
        m.add("MatMul", m.weights(outputs, x.shape[-2], spread=spread), x)
    else:  # attention's product of a tensor with itself
        order = [*range(len(x.shape) - 2), len(x.shape) - 1, len(x.shape) - 2]
        m.add("MatMul", x, m.step("Transpose", x, perm=order))


def _reduce(m: Maker) -> None:
    x = m.pick()
    op = m.choose.choice(("Mean", "Mean", "Sum", "Max", "Min", "L1", "L2", "SumSquare",
                          "LogSumExp"))  # fmt: skip
    axes = sorted(m.choose.sample(range(len(x.shape)), m.choose.randint(1, max(1, len(x.shape)))))
    keep = m.choose.randrange(2)
    if m.opset >= 18 or op == "Sum":
        m.add(f"Reduce{op}", x, m.ints(*axes), keepdims=keep, exact=x.exact and op in "MaxMin")
    else:
        m.add(f"Reduce{op}", x, axes=axes, keepdims=keep)


def _pooled(m: Maker) -> None:
    m.add(m.choose.choice(("GlobalAveragePool", "GlobalMaxPool")), m.pick(3, 4, 5))


def _softmax(m: Maker) -> None:
    x = m.pick(2, 3, 4)
    axis = m.choose.randrange(-len(x.shape), len(x.shape))
    m.add(m.choose.choice(("Softmax", "Softmax", "LogSoftmax")), x, axis=axis)


def _reshape(m: Maker) -> None:
    x = m.pick()
    rest, extents = prod(x.shape), list[int]()
    for _ in range(m.choose.choice((0, 1, 2, 3))):
        extents.append(m.choose.choice([d for d in range(1, min(rest, 64) + 1) if rest % d == 0]))
        rest //= extents[-1]
    m.add("Reshape", x, m.ints(*extents, m.choose.choice((-1, rest))), exact=x.exact)


def _by_arithmetic(m: Maker) -> None:
    """Adds a shape that is computed from the tensor's own shape, as exporters write it."""
    x = m.pick(3, 4)
    shape = m.step("Shape", x)
    batch = m.step("Gather", shape, m.ints(0), axis=0)
    target = m.step("Concat", batch, m.ints(m.choose.choice((x.shape[1], 1)), -1), axis=0)
    m.add("Reshape", x, target, exact=x.exact)


def _flatten(m: Maker) -> None:
    x = m.pick()
    m.add("Flatten", x, axis=m.choose.randrange(len(x.shape) + 1), exact=x.exact)


def _transpose(m: Maker) -> None:
    x = m.pick(2, 3, 4, 5)
    perm = m.choose.sample(range(len(x.shape)), len(x.shape))
    m.add("Transpose", x, perm=perm, exact=x.exact)


def _extra_axis(m: Maker) -> None:
    x = m.pick()
    if 1 in x.shape and m.choose.random() < 0.6:
        m.add("Squeeze", x, m.ints(x.shape.index(1)), exact=x.exact)
    else:
        m.add("Unsqueeze", x, m.ints(m.choose.randrange(len(x.shape) + 1)), exact=x.exact)


def _slice(m: Maker) -> None:
    x = m.pick(1, 2, 3, 4, 5)
    axes = m.choose.sample(range(len(x.shape)), m.choose.randint(1, len(x.shape)))
    starts, ends, steps = [], [], []
    for axis in axes:
        low, high = sorted(m.choose.sample(range(x.shape[axis] + 1), 2))
        back = m.choose.random() < 0.3
        starts.append(high - 1 if back else low)
        ends.append((low - 1 if low else -1000) if back else m.choose.choice((high, 1000)))
        steps.append(m.choose.choice((1, 1, 2)) * (-1 if back else 1))
    m.add("Slice", x, m.ints(*starts), m.ints(*ends), m.ints(*axes), m.ints(*steps), exact=x.exact)


def _split(m: Maker) -> None:
    x = m.pick(1, 2, 3, 4, 5)
    axis = m.choose.choice([a for a, n in enumerate(x.shape) if n > 1])
    first = m.choose.randint(1, x.shape[axis] - 1)
    sizes = m.ints(first, x.shape[axis] - first)
    m.add("Split", x, sizes, outputs=2, axis=axis, exact=x.exact)


def _concat(m: Maker) -> None:
    x = m.pick(1, 2, 3, 4, 5)
    axis = m.choose.randrange(len(x.shape))
    alike = [
        v for v in m.values
        if v.kind == FLOAT and len(v.shape) == len(x.shape)
        and all(a == b for k, (a, b) in enumerate(zip(v.shape, x.shape, strict=True)) if k != axis)
    ]  # fmt: skip
    reads: list[Value | str] = [m.choose.choice(alike) for _ in range(m.choose.choice((1, 1, 2)))]
    if m.choose.random() < 0.3:
        reads.append(m.weights(*x.shape))
    m.add("Concat", x, *reads, axis=axis)


def _pad(m: Maker) -> None:
    x = m.pick(2, 3, 4, 5)
    mode = m.choose.choice(("constant", "constant", "reflect", "edge"))
    high = 3 if mode != "reflect" else min(3, *x.shape)
    amounts = [m.choose.choice((0, 0, m.choose.randrange(high))) for _ in range(2 * len(x.shape))]
    value = [m.const(0.25)] if mode == "constant" and m.choose.random() < 0.5 else []
    m.add("Pad", x, m.ints(*amounts), *value, mode=mode, exact=x.exact)


def _spread(m: Maker) -> None:
    x = m.pick(1, 2, 3, 4)
    if m.choose.random() < 0.5:
        m.add("Tile", x, m.ints(*(m.choose.choice((1, 1, 2, 3)) for _ in x.shape)), exact=x.exact)
    else:
        shape = [n if n > 1 else m.choose.choice((1, 3)) for n in x.shape]
        m.add("Expand", x, m.ints(*m.choose.choice(([], [2])), *shape), exact=x.exact)


def _gather(m: Maker) -> None:
    x = m.pick(1, 2, 3, 4)
    axis = m.choose.randrange(len(x.shape))
    places = [m.choose.randrange(-x.shape[axis], x.shape[axis]) for _ in range(3)]
    index = m.choose.choice((m.ints(*places), m.const(places[0], np.int64)))
    m.add("Gather", x, index, axis=axis, exact=x.exact)


def _blocks(m: Maker) -> None:
    x = m.pick(4)
    if x.shape[1] % 4 == 0 and m.choose.random() < 0.6:
        mode = m.choose.choice(("DCR", "CRD"))
        m.add("DepthToSpace", x, blocksize=2, mode=mode, exact=x.exact)
    else:
        m.add("SpaceToDepth", x, blocksize=2, exact=x.exact)


def _resize(m: Maker) -> None:
    x = m.pick(3, 4)
    mode = m.choose.choice(("nearest", "linear", "cubic"))
    places = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
    how: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": m.choose.choice(places)}
    if mode == "nearest":
        how["nearest_mode"] = m.choose.choice(("floor", "ceil", "round_prefer_floor"))
    rank = len(x.shape) - 2
    if m.choose.random() < 0.5:
        scales = [1, 1, *(m.choose.choice((0.5, 1.0, 2.0, 3.0)) for _ in range(rank))]
        m.add("Resize", x, "", m.const(scales), **how)
    else:
        sizes = [*x.shape[:2], *(m.choose.randint(1, 9) for _ in range(rank))]
        m.add("Resize", x, "", "", m.ints(*sizes), **how)


def _compare(m: Maker) -> None:
    x = m.pick(exact=True)
    op = m.choose.choice(("Greater", "Less", "GreaterOrEqual", "LessOrEqual", "Equal"))
    m.add(op, x, m.const(m.choose.choice((0.0, 0.25))), kind=BOOL, exact=True)


def _logic(m: Maker) -> None:
    a = m.pick(kind=BOOL)
    op = m.choose.choice(("And", "Or", "Xor", "Not"))
    m.add(op, a, *([] if op == "Not" else [m.pick(kind=BOOL)]), kind=BOOL, exact=True)


def _masked(m: Maker) -> None:
    mask = m.pick(kind=BOOL)
    if m.choose.random() < 0.3:
        return m.add("Cast", mask, to=FLOAT, exact=True)
    m.add("Where", mask, m.pick(), m.choose.choice((m.const(-1.0), m.pick())))


MAKERS: tuple[Callable[[Maker], None], ...] = (
    *[_conv] * 4, *[_unary] * 3, *[_binary] * 4, *[_pool] * 2, *[_products] * 2, *[_reduce] * 2,
    _deconv, _normalize, _guarded, _prelu, _clip, _pooled, _softmax, _reshape, _by_arithmetic,
    _flatten, _transpose, _transpose, _extra_axis, _slice, _split, _concat, _concat, _pad, _spread,
    _gather, _blocks, _resize, _compare, _logic, _masked,
)  # fmt: skip
