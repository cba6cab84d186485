"""Blocks of several operators for `random_onnx`, as networks and exporters write them: attention,
residuals, recurrence, slices of one tensor joined again, masks and sizes that follow from shapes,
products of two computed tensors, and bodies of control flow that read what is around them."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from conformance.random.onnx_maker import FLOAT, Maker, Value

MAX_STEPS = 8  # steps of a sequence
WHOLE = 1 << 20  # the end of a slice that goes to the end
LARGEST_FILTER = 600


def attention(m: Maker) -> None:
    """Adds attention: heads are split, multiplied and joined again."""
    x = m.pick(3)
    width = x.shape[2]
    heads = m.choose.choice([n for n in range(1, width + 1) if width % n == 0])

    def head() -> str:
        value: Value | str = x
        if m.choose.random() < 0.7:
            value = m.step("MatMul", x, m.weights(width, width, spread=(3 / width) ** 0.5))
        parts = m.step("Reshape", value, m.ints(0, 0, heads, width // heads))
        return m.step("Transpose", parts, perm=[0, 2, 1, 3])

    batch, length, _ = x.shape
    together = m.choose.random() < 0.4  # as one batch
    query, key, value = head(), head(), head()
    if together:
        one = m.ints(batch * heads, length, width // heads)
        query, key, value = (m.step("Reshape", part, one) for part in (query, key, value))
    key = m.step("Transpose", key, perm=[0, 2, 1] if together else [0, 1, 3, 2])
    before = m.choose.random() < 0.5
    query, key = (_times(m, part) if before else part for part in (query, key))
    scores = m.step("MatMul", query, key)
    scores = scores if before else _times(m, scores)
    if m.choose.random() < 0.6:
        scores = _masked(m, scores, length)
    shares = m.step("Softmax", scores, axis=-1)
    if m.choose.random() < 0.3:
        shares = m.step("Where", m.step("IsNaN", shares), m.const(0.0), shares)
    mixed = m.step("MatMul", shares, value)
    if together:
        mixed = m.step("Reshape", mixed, m.ints(batch, heads, length, width // heads))
    m.add("Reshape", m.step("Transpose", mixed, perm=[0, 2, 1, 3]), m.ints(0, 0, width))


def _times(m: Maker, part: str) -> str:
    return m.step(m.choose.choice(("Mul", "Div")), part, m.const(m.choose.choice((0.5, -0.7, 2.0))))


def _masked(m: Maker, scores: str, length: int) -> str:
    """Adds scores of which some are masked, but not all of any query."""
    seen = (m.numbers.uniform(size=(length, length)) < 0.6) | np.eye(length, dtype=bool)
    low = m.choose.choice((-np.inf, np.finfo(np.float32).min))
    form = m.choose.choice(("Add", "seen", "hidden"))
    if form == "Add":
        return m.step("Add", scores, m.const(np.where(seen, 0, low)))
    if form == "seen":
        return m.step("Where", m.const(seen, np.bool_), scores, m.const(low))
    return m.step("Where", m.const(~seen, np.bool_), m.const(low), scores)


def _places(m: Maker) -> None:
    """Adds a rotary embedding: pairs are elements of both halves of a head, or neighbours."""
    x = m.pick(3)
    batch, length, width = x.shape
    depths = [n for n in (8, 16, 24, 4, 6) if width % n == 0]
    if not depths:
        raise IndexError("no heads")
    depth = m.choose.choice(depths)
    parts = m.step("Reshape", x, m.ints(batch, length, width // depth, depth))
    heads = m.step("Transpose", parts, perm=[0, 2, 1, 3])
    angles = m.numbers.uniform(-3, 3, (length, depth))
    cos, sin = m.const(np.cos(angles)), m.const(np.sin(angles))
    last, half = m.ints(3), depth // 2
    if m.choose.random() < 0.6:
        a = m.step("Slice", heads, m.ints(0), m.ints(half), last)
        b = m.step("Slice", heads, m.ints(half), m.ints(WHOLE), last)
        crossed = m.step("Concat", m.step("Neg", b), a, axis=3)
    else:
        a = m.step("Slice", heads, m.ints(0), m.ints(WHOLE), last, m.ints(2))
        b = m.step("Slice", heads, m.ints(1), m.ints(WHOLE), last, m.ints(2))
        pair = [m.step("Unsqueeze", t, m.ints(-1)) for t in (m.step("Neg", b), a)]
        whole = m.ints(batch, width // depth, length, depth)
        crossed = m.step("Reshape", m.step("Concat", *pair, axis=4), whole)
    turned = m.step("Add", m.step("Mul", heads, cos), m.step("Mul", crossed, sin))
    m.add("Reshape", m.step("Transpose", turned, perm=[0, 2, 1, 3]), m.ints(batch, length, width))


def _residual(m: Maker) -> None:
    """Adds a layer with its activation and a gate, plus its input."""
    x = m.pick(4)
    channels = x.shape[1]
    spread = (1 / (3 * channels)) ** 0.5
    y = m.step("Conv", x, m.weights(channels, channels, 3, 3, spread=spread), pads=[1] * 4)
    if m.choose.random() < 0.5:
        y = m.step(m.choose.choice(("Relu", "LeakyRelu", "Sigmoid", "HardSwish")), y)
    if m.choose.random() < 0.5:
        pooled = m.step("GlobalAveragePool", y)
        gate = m.step("Conv", pooled, m.weights(channels, channels, 1, 1))
        y = m.step("Mul", y, m.step("Sigmoid", gate))
    terms: tuple[Value | str, Value | str] = (x, y)
    m.add("Add", *(terms[::-1] if m.choose.random() < 0.5 else terms))


def _recurrent(m: Maker) -> None:
    x = m.pick(3)
    if x.shape[0] > MAX_STEPS:
        raise IndexError("too long")
    op, gates = m.choose.choice((("LSTM", 4), ("GRU", 3), ("RNN", 1)))
    direction = m.choose.choice(("forward", "reverse", "bidirectional"))
    ways, units = 1 + (direction == "bidirectional"), m.choose.choice((1, 3, 4, 5, 8))
    reads: list[Value | str] = [x, m.weights(ways, gates * units, x.shape[2], spread=0.5),
             m.weights(ways, gates * units, units, spread=0.5)]  # fmt: skip
    if m.choose.random() < 0.7:
        reads.append(m.weights(ways, 2 * gates * units))
    outputs = m.choose.randint(1, 3 if op == "LSTM" else 2)
    m.add(op, *reads, outputs=outputs, hidden_size=units, direction=direction)


def _slices_joined(m: Maker) -> None:
    """Adds slices of one tensor, some of them changed, joined again."""
    x = m.pick(1, 2, 3, 4, 5)
    axis = m.choose.choice([a for a, n in enumerate(x.shape) if n > 1])
    parts: list[Value | str] = [x] if m.choose.random() < 0.3 else []
    for _ in range(m.choose.randint(2, 4)):
        low, high = sorted(m.choose.sample(range(x.shape[axis] + 1), 2))
        part = m.step("Slice", x, m.ints(low), m.ints(high), m.ints(axis))
        change = m.choose.choice(("", "", "Relu", "Neg", "Sigmoid"))
        parts.append(m.step(change, part) if change else part)
    m.add("Concat", *parts, axis=axis)


def _quarters_joined(m: Maker) -> None:
    """Adds the four subsets of every other row and column, joined."""
    x = m.pick(4)
    places = [(row, column) for row in (0, 1) for column in (0, 1)]
    ends, axes, steps = m.ints(WHOLE, WHOLE), m.ints(2, 3), m.ints(2, 2)
    parts = [m.step("Slice", x, m.ints(*place), ends, axes, steps) for place in places]
    m.add("Concat", *parts, axis=1, exact=x.exact)


def _shuffle(m: Maker) -> None:
    """Adds a channel shuffle: the groups' channels alternate."""
    x = m.pick(4)
    _, channels, height, width = x.shape
    groups = m.choose.choice([n for n in range(1, channels + 1) if channels % n == 0])
    parts = m.step("Reshape", x, m.ints(0, groups, channels // groups, height, width))
    turned = m.step("Transpose", parts, perm=[0, 2, 1, 3, 4])
    m.add("Reshape", turned, m.ints(0, -1, height, width), exact=x.exact)


def _turned_there_and_back(m: Maker) -> None:
    """Adds an operator between a transpose and its inverse."""
    x = m.pick(2, 3, 4)
    perm = m.choose.sample(range(len(x.shape)), len(x.shape))
    kept = [x.shape[p] if m.choose.random() < 0.6 else 1 for p in perm]
    other = m.weights(*kept[m.choose.randrange(len(kept)) :])
    y = m.step(m.choose.choice(("Add", "Mul")), m.step("Transpose", x, perm=perm), other)
    m.add("Transpose", y, perm=[perm.index(axis) for axis in range(len(perm))])


def _less_its_mean(m: Maker) -> None:
    x = m.pick(2, 3, 4)
    axes = sorted(m.choose.sample(range(len(x.shape)), m.choose.randint(1, len(x.shape))))
    mean = m.step("ReduceMean", x, m.ints(*axes)) if m.opset >= 18 else m.step(
        "ReduceMean", x, axes=axes)  # fmt: skip
    m.add(m.choose.choice(("Sub", "Mul", "Add")), x, mean)


def _normalized(m: Maker) -> None:
    """Adds rows, or other axes, divided by the root of their mean square, with or without
    subtracting the mean."""
    x = m.pick(2, 3, 4)
    axis = m.choose.choice((-1, -1, 1))

    def mean(value: Value | str) -> str:
        if m.opset >= 18:
            return m.step("ReduceMean", value, m.ints(axis))
        return m.step("ReduceMean", value, axes=[axis])

    d: Value | str = m.step("Sub", x, mean(x)) if m.choose.random() < 0.5 else x
    variance = m.step("Add", mean(m.step("Mul", d, d)), m.const(0.05))
    root = m.step("Sqrt", variance)
    if m.choose.random() < 0.5:
        return m.add("Div", d, root)
    pair = d, m.step("Mul", m.step("Reciprocal", root), m.weights(x.shape[-1]))
    m.add("Mul", *(pair[::-1] if m.choose.random() < 0.5 else pair))


def _groups(m: Maker) -> None:
    """Adds a normalization of groups of channels in torch's form."""
    x = m.pick(3, 4)
    channels = x.shape[1]
    count = m.choose.choice([n for n in (1, 2, 3, channels) if channels % n == 0])
    rows = m.step("Reshape", x, m.ints(x.shape[0], count, -1))
    scale, bias = m.const(np.ones(count)), m.const(np.zeros(count))
    y = m.step("InstanceNormalization", rows, scale, bias, epsilon=0.05)
    y = m.step("Reshape", y, m.ints(*x.shape))
    m.add("Mul", y, m.weights(channels, *[1] * (len(x.shape) - 2)))


def _product_of_two(m: Maker) -> None:
    x, y = m.pick(2, 3, 4), m.pick(2, 3, 4)
    right: Value | str = y
    if y.shape[-2] != x.shape[-1]:
        order = [*range(len(y.shape) - 2), len(y.shape) - 1, len(y.shape) - 2]
        right = m.step("Transpose", y, perm=order)
    m.add("MatMul", x, m.step("Mul", right, m.const(0.3)))


def _computed_filter(m: Maker) -> None:
    x = m.pick(3, 4)
    filters = m.pick(len(x.shape))
    if filters.shape[1] != x.shape[1] or prod(filters.shape) > LARGEST_FILTER:
        raise IndexError("does not fit")
    m.add("Conv", x, filters, pads=[m.choose.choice((0, 1, 2)) for _ in x.shape[2:] * 2])


def _resized_by_shape(m: Maker) -> None:
    x = m.pick(4)
    shape = m.step("Shape", x)
    twice = m.step("Mul", m.step("Slice", shape, m.ints(2), m.ints(4)), m.ints(2))
    sizes = m.step("Concat", m.step("Slice", shape, m.ints(0), m.ints(2)), twice, axis=0)
    m.add("Resize", x, "", "", sizes, mode="linear")


def _half_by_shape(m: Maker) -> None:
    x = m.pick(2, 3, 4)
    axis = m.choose.randrange(len(x.shape))
    extent = m.step("Gather", m.step("Shape", x), m.ints(axis), axis=0)
    half = m.step("Div", extent, m.ints(2))
    bounds = m.choose.choice(((half, extent), (m.ints(0), half)))
    m.add("Slice", x, *bounds, m.ints(axis), exact=x.exact)


def _filled_by_shape(m: Maker) -> None:
    x = m.pick(1, 2, 3, 4)
    value = numpy_helper.from_array(np.array([m.choose.choice((0.0, 1.0, 0.5))], np.float32))
    filled = m.step("ConstantOfShape", m.step("Shape", x), value=value)
    m.add(m.choose.choice(("Add", "Mul", "Sub")), x, filled)


def _whole_numbers(m: Maker) -> None:
    x = m.pick(exact=True)
    scaled = m.step("Mul", x, m.const(4.0))
    op = m.choose.choice(("Floor", "Ceil", "Round", "Sign", "Cast"))
    if op == "Cast":
        kind = m.choose.choice((TensorProto.INT32, TensorProto.INT64))
        return m.add("Cast", m.step("Cast", scaled, to=kind), to=FLOAT, exact=True)
    m.add(op, scaled, exact=True)


def _branches(m: Maker) -> None:
    """Adds an If whose branches read values of the outer graph."""
    x = m.pick()

    def body(op: str) -> object:
        name = m.name("inner")
        made = helper.make_tensor_value_info(name, FLOAT, None)
        return helper.make_graph([helper.make_node(op, [x.name], [name])], "body", [], [made])

    flag = m.const(m.choose.random() < 0.5, np.bool_)
    m.add("If", flag, then_branch=body("Relu"), else_branch=body("Neg"))


BLOCKS: tuple[Callable[[Maker], None], ...] = (
    *[attention] * 2, _places, *[_residual] * 2, *[_slices_joined] * 2, *[_product_of_two] * 2,
    _recurrent, _quarters_joined, _shuffle, _turned_there_and_back, _less_its_mean,
    _computed_filter, _normalized, _groups, _resized_by_shape, _half_by_shape, _filled_by_shape,
    _whole_numbers, _branches,
)  # fmt: skip
