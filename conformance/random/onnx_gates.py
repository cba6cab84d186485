"""Blocks of mobile networks: activations that are spelled out, and maps that are multiplied by a
gate per channel, which follows from the map's own means, in front of a convolution. Mostly as
exporters write them, sometimes with another number, order, reader or window."""

from __future__ import annotations

from conformance.random.onnx_maker import Maker, Value

WIDTHS = (3, 4, 6, 8, 12, 16, 20)
IMAGES = ((1, 1), (5, 5), (7, 4), (13, 9), (16, 16))
LIMITED = ("HardSigmoid", "Sigmoid", "spelled", "spelled", "Tanh", "Exp", "")


def gates(m: Maker) -> None:
    """Adds one such block, or two in sequence."""
    pick = m.choose.choice
    width = pick(WIDTHS)
    x = Value(m.name("x"), (pick((1, 1, 1, 2)), width, *pick(IMAGES)))
    m.inputs.append(x)
    for _ in range(pick((1, 1, 2))):
        x = _block(m, x)
    m.values.append(x)


def _block(m: Maker, x: Value) -> Value:
    pick, width = m.choose.choice, x.shape[1]
    grown = m.step("Conv", x, m.weights(width, 1, 3, 3, spread=0.5), m.weights(width),
                   pads=[1] * 4, group=width)  # fmt: skip
    active = Value(_active(m, grown), x.shape)
    gate = _gate(m, active)
    scaled = m.step("Mul", *((active, gate) if m.choose.random() < 0.8 else (gate, active)))
    if m.choose.random() < 0.15:  # somebody else reads it, too
        m.values.append(Value(scaled, x.shape))
    outputs, window = pick(WIDTHS), pick((1, 1, 1, 1, 3))
    stride = pick((1, 1, 1, 1, 2))
    filters = m.weights(outputs, width, window, window, spread=(3 / (width * window**2)) ** 0.5)
    y = m.step("Conv", scaled, filters, m.weights(outputs), pads=[window // 2] * 4,
               strides=[stride] * 2)  # fmt: skip
    shape = (x.shape[0], outputs, *((n - 1) // stride + 1 for n in x.shape[2:]))
    if shape == x.shape and m.choose.random() < 0.7:
        y = m.step("Add", x, y)
    return Value(_active(m, y) if m.choose.random() < 0.5 else y, shape)


def _gate(m: Maker, x: Value) -> str:
    """Makes a gate of the means of all channels, by two small layers."""
    pick, width = m.choose.choice, x.shape[1]
    if m.choose.random() < 0.5:
        means = m.step("GlobalAveragePool", x)
    elif m.opset < 18:
        means = m.step("ReduceMean", x, axes=pick(([2, 3], [-2, -1], [-1, 2])))
    else:
        means = m.step("ReduceMean", x, m.ints(2, 3))
    inner = pick((1, 2, 4, 8))
    first = m.weights(inner, width, 1, 1, spread=(3 / width) ** 0.5)
    hidden = m.step("Conv", means, first, m.weights(inner))
    hidden = m.step("Relu", hidden) if m.choose.random() < 0.6 else _active(m, hidden)
    raw = m.step(
        "Conv", hidden, m.weights(width, inner, 1, 1), *([m.weights(width)] * pick((0, 1)))
    )
    kind = pick(LIMITED)
    if kind == "spelled":
        return _sixth(m, _limited(m, raw))
    return m.step(kind, m.step("Tanh", raw) if kind == "Exp" else raw) if kind else raw


def _active(m: Maker, x: Value | str) -> str:
    """Adds x clip(x + 3, 0, 6) / 6 in one of the forms in which it is written, or another
    function."""
    kind = m.choose.choice(("after", "after", "before", "sigmoid", "Relu", "HardSwish", "swish"))
    if kind == "Relu":
        return m.step("Relu", x)
    if kind == "HardSwish" and m.opset >= 14:
        return m.step("HardSwish", x)
    if kind == "swish":
        return m.step("Mul", x, m.step("Sigmoid", x))
    if kind == "sigmoid":
        slope = m.choose.choice((1 / 6, 1 / 6, 0.2))
        return m.step("Mul", x, m.step("HardSigmoid", x, alpha=slope, beta=0.5))
    limited = _limited(m, x)
    if kind == "before":
        return m.step("Mul", x, _sixth(m, limited))
    return _sixth(m, m.step("Mul", *((x, limited) if m.choose.random() < 0.5 else (limited, x))))


def _limited(m: Maker, x: Value | str) -> str:
    above = m.const(m.choose.choice((3.0, 3.0, 3.0, 2.5)))
    plus = m.step("Add", *((x, above) if m.choose.random() < 0.7 else (above, x)))
    return m.step("Clip", plus, m.const(0.0), m.const(m.choose.choice((6.0, 6.0, 6.0, 5.0))))


def _sixth(m: Maker, x: str) -> str:
    if m.choose.random() < 0.5:
        return m.step("Div", x, m.const(m.choose.choice((6.0, 6.0, 6.0, 4.0))))
    return m.step("Mul", x, m.const(m.choose.choice((1 / 6, 1 / 6, 0.25))))
