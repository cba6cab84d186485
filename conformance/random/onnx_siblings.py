"""Several convolutions of one tensor, as in detectors and in blocks with branches. Most have one
window and one activation, so that passes join them, and some have others. Results are read
directly, concatenated, moved, or read by the host."""

from __future__ import annotations

from conformance.random.onnx_maker import Maker, Value

WIDTHS = (1, 2, 3, 4, 4, 5, 8, 8, 12)
ACTIVATIONS = ("", "Relu", "Sigmoid", "LeakyRelu", "HardSigmoid", "Elu")


def siblings(m: Maker) -> None:
    pick = m.choose.choice
    batch, depth = pick((1, 1, 1, 1, 2)), pick((3, 4, 8, 12))
    image = pick(((1, 1), (5, 5), (7, 4), (13, 9)))
    fed = Value(m.name("x"), (batch, depth, *image))
    m.inputs.append(fed)
    x = Value(m.step("Sin", fed), fed.shape)
    usual = _kind(m)
    made = [
        _convolved(m, x, pick(WIDTHS), *(usual if m.choose.random() < 0.8 else _kind(m)))
        for _ in range(pick((2, 2, 3, 4)))
    ]
    for value in made:
        _read(m, x, value, made)


def _kind(m: Maker) -> tuple[int, int, str]:
    """Returns a window, its stride, and what follows it."""
    return m.choose.choice((1, 1, 3)), m.choose.choice((1, 1, 2)), m.choose.choice(ACTIVATIONS)


def _convolved(m: Maker, x: Value, width: int, kernel: int, stride: int, then: str) -> Value:
    _, depth, *image = x.shape
    filters = m.weights(width, depth, kernel, kernel, spread=(2 / (depth * kernel * kernel)) ** 0.5)
    bias = [m.weights(width)] if m.choose.random() < 0.8 else []
    pads, strides = [kernel // 2] * 4, [stride] * 2
    y = m.step("Conv", x, filters, *bias, pads=pads, strides=strides)
    if m.choose.random() < 0.1:
        y = m.step("Mul", y, m.weights(width, 1, 1))
    y = m.step(then, y) if then else y
    return Value(y, (x.shape[0], width, *((extent - 1) // stride + 1 for extent in image)))


def _read(m: Maker, x: Value, value: Value, made: list[Value]) -> None:
    """Makes these values, or their readers' results, outputs of the model."""
    form = m.choose.choice(("layer", "layer", "first", "last", "moved", "flat", "sum", "own"))
    width, image = value.shape[1], value.shape[2:]
    if form == "layer":
        made_of_it = _convolved(m, value, m.choose.choice(WIDTHS), 3, 1, "Relu")
        m.values.append(made_of_it)
    elif form in ("first", "last"):
        on = _convolved(m, made[0], m.choose.choice((4, 8, 3)), 3, 1, "Relu")
        other = Value(m.step("Cos", on), on.shape)
        parts = [value, other] if form == "first" else [other, value]
        if other.shape[2:] == image:
            joined = m.step("Concat", *parts, axis=1)
            shape = (x.shape[0], width + other.shape[1], *image)
            m.values.append(_convolved(m, Value(joined, shape), 4, 1, 1, ""))
    elif form == "moved":
        m.values.append(Value(m.step("Transpose", value, perm=[0, 2, 3, 1]), value.shape))
    elif form == "flat":
        m.values.append(Value(m.step("Reshape", value, m.ints(0, -1)), (x.shape[0], -1)))
    elif form == "sum":
        m.values.append(Value(m.step("Add", value, m.step("Neg", value)), value.shape))
    if form == "own" or not m.values:
        m.values.append(value)
