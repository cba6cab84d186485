"""Graphs that match the patterns of passes, or nearly do: attention, normalization of rows and
rotary embeddings as exporters write them, and the same with one step changed, which passes must
leave unchanged; also tensors that are moved and concatenated with themselves."""

from __future__ import annotations

from itertools import permutations
from math import prod

import numpy as np

from conformance.random.onnx_gates import gates
from conformance.random.onnx_maker import Maker, Value
from conformance.random.onnx_siblings import siblings

Shape = tuple[int, ...]
LOW = (-np.inf, -1e38, -1e9, -1e4, 0.0)  # the last two are no masks
MAX_JOINED = 200  # of an axis


def likely(m: Maker, share: float) -> bool:
    return m.choose.random() < share


def given(m: Maker, *shape: int, spread: float = 1.0) -> Value:
    """Adds an input of the model, or a constant; numbers are constants."""
    if not shape or likely(m, 0.5):
        return Value(m.weights(*shape, spread=spread), shape)
    return fed(m, *shape)


def fed(m: Maker, *shape: int) -> Value:
    m.inputs.append(Value(m.name("x"), shape))
    return m.inputs[-1]


def turn(m: Maker, x: Value | str, *perm: int) -> str:
    return m.step("Transpose", x, perm=perm)


def attention(m: Maker) -> None:
    """Adds attention whose batches, heads and rows are split and joined in several orders. Scales,
    masks and limits of scores come in any order and have any shape; the softmax is sometimes along
    another axis."""
    pick = m.choose.choice
    batch, heads, rows, depth = (
        pick((1, 1, 2, 3)),
        pick((1, 2, 3, 4)),
        pick((1, 2, 5, 7)),
        pick((4, 8, 5)),
    )
    keys = rows if likely(m, 0.6) else pick((1, 4, 6))
    q, k, v = (_heads(m, batch, heads, n, depth) for n in (rows, keys, keys))
    scores = m.step("MatMul", q, turn(m, k, 0, 1, 3, 2))
    shape = (batch, heads, rows, keys)
    for step in m.choose.choices((_scaled, _scaled, _masked, _masked, _limited), k=pick((1, 2, 3))):
        scores = step(m, scores, shape)
    shares = m.step("Softmax", scores, axis=-1 if likely(m, 0.7) else pick((1, 2)))
    if likely(m, 0.2):
        instead = m.const(0.0 if likely(m, 0.8) else 1.0)
        shares = m.step("Where", m.step("IsNaN", shares), instead, shares)
    if rows == keys and likely(m, 0.07):
        shares = turn(m, shares, 0, 1, 3, 2)
    mixed = m.step("MatMul", shares, v)
    order = pick(((0, 2, 1, 3), (0, 2, 1, 3), (0, 2, 3, 1), (2, 0, 1, 3)))
    outer = (rows, batch) if order[0] == 2 else (batch, rows)
    m.add("Reshape", turn(m, mixed, *order), m.ints(*outer, heads * depth))


def _heads(m: Maker, batch: int, heads: int, rows: int, depth: int) -> str:
    """Adds [batch, heads, rows, depth] from a product or an input, split in some order."""
    x: Value | str = fed(m, batch, rows, 8)
    x = m.step("MatMul", x, m.weights(8, heads * depth, spread=0.6))
    x = m.step("Add", x, m.weights(heads * depth)) if likely(m, 0.6) else x
    form = m.choose.choice(("", "", "", "depth first", "as it lies", "rows first"))
    if form == "depth first":
        return turn(m, m.step("Reshape", x, m.ints(batch, rows, depth, heads)), 0, 3, 1, 2)
    if form == "as it lies":
        return m.step("Reshape", x, m.ints(batch, heads, rows, depth))
    if form == "rows first":
        return turn(m, m.step("Reshape", x, m.ints(rows, batch, heads, depth)), 1, 2, 0, 3)
    return turn(m, m.step("Reshape", x, m.ints(batch, rows, heads, depth)), 0, 2, 1, 3)


def _scaled(m: Maker, scores: str, shape: Shape) -> str:
    if likely(m, 0.75):
        return m.step(
            m.choose.choice(("Mul", "Div")), scores, m.const(m.choose.choice((0.35, 2, -1)))
        )
    return m.step("Mul", scores, given(m, *m.choose.choice(((), (shape[1], 1, 1), (shape[3],)))))


def _masked(m: Maker, scores: str, shape: Shape) -> str:
    """Adds something to all scores, or to those along one or two axes."""
    kept = [n if likely(m, 0.6) else 1 for n in shape][m.choose.choice((0, 0, 1, 2, 3)) :]
    if likely(m, 0.3):
        return m.step("Add", scores, given(m, *kept))
    seen = m.numbers.uniform(size=kept) < 0.5
    if likely(m, 0.8):
        seen[..., 0] = True
    low = m.choose.choice(LOW)
    if likely(m, 0.4):
        return m.step("Add", scores, m.const(np.where(seen, 0, low)))
    hides = likely(m, 0.5)
    mask, instead = m.const(seen ^ hides, np.bool_), m.const(low)
    return m.step("Where", mask, *((instead, scores) if hides else (scores, instead)))


def _limited(m: Maker, scores: str, shape: Shape) -> str:
    limit = m.choose.choice((2.0, 5.0))
    inner = m.step("Tanh", m.step("Div", scores, m.const(limit)))
    return m.step("Mul", inner, m.const(limit if likely(m, 0.8) else 2 * limit))


def normalization(m: Maker) -> None:
    """Adds differences from the mean, or values, multiplied or divided by a function of the mean of
    squares; sometimes of another axis, with another power, or of other values."""
    width = m.choose.choice((4, 6, 8, 12, 20, 64))
    shape = (
        m.choose.choice((1, 2, 3)),
        *[m.choose.randint(1, 5)] * m.choose.choice((0, 1, 2)),
        width,
    )
    axis = len(shape) - 1 if likely(m, 0.85) else m.choose.randrange(len(shape))
    x = fed(m, *shape)

    def mean(value: Value | str) -> str:
        if m.opset >= 18:
            return m.step("ReduceMean", value, m.ints(axis), keepdims=1)
        return m.step("ReduceMean", value, axes=[axis], keepdims=1)

    def vector() -> Value:
        return given(m, *m.choose.choice(((width,), (1, width), (1,), ())))

    centred: Value | str = m.step("Sub", x, mean(x)) if likely(m, 0.6) else x
    squares = m.step("Mul", centred, centred)
    if likely(m, 0.4):
        squares = m.step("Pow", centred, m.const(2 if likely(m, 0.9) else 4))
    spread = m.step("Sqrt", m.step("Add", mean(squares), m.const(m.choose.choice((1e-5, 0.1)))))
    over: Value | str = centred if likely(m, 0.9) else x
    if likely(m, 0.4):
        y = m.step("Div", over, spread)
    else:
        one = m.const(1.0 if likely(m, 0.8) else 1.01)
        factor = m.step("Div", one, spread) if likely(m, 0.5) else m.step("Reciprocal", spread)
        factor = m.step("Mul", factor, vector()) if likely(m, 0.4) else factor
        y = m.step("Mul", *((over, factor) if likely(m, 0.5) else (factor, over)))
    y = m.step("Mul", y, vector()) if likely(m, 0.5) else y
    m.add("Add", y, vector())


def rotary(m: Maker) -> None:
    """Adds a rotary embedding of all values of a head, or of the first ones, by angles of several
    shapes; sometimes the wrong half is negated, or the halves are exchanged."""
    pick = m.choose.choice
    batch, heads, rows, depth = (
        pick((1, 1, 2)),
        pick((1, 2, 3)),
        pick((1, 4, 5)),
        pick((8, 16, 4, 6)),
    )
    x = _heads(m, batch, heads, rows, depth)
    width = depth if depth % 4 or likely(m, 0.7) else depth // 2
    half, angled = width // 2, width if likely(m, 0.6) else width // 2
    shape = pick(((1, 1, rows, angled), (rows, angled), (batch, 1, rows, angled), (angled,)))
    cos, sin = given(m, *shape), given(m, *shape)

    def cut(value: str, start: int, end: int) -> str:
        return m.step("Slice", value, m.ints(start), m.ints(end), m.ints(3))

    turned = cut(x, 0, width) if width < depth else x
    a, b = cut(turned, 0, half), cut(turned, half, width)
    if angled == width:
        sides = [m.step("Neg", b), a] if likely(m, 0.7) else [b, m.step("Neg", a)]
        crossed = m.step("Mul", m.step("Concat", *sides, axis=3), sin)
        y = m.step("Add", m.step("Mul", turned, cos), crossed)
    else:
        first = m.step("Sub", m.step("Mul", a, cos), m.step("Mul", b, sin))
        second = m.step("Add", m.step("Mul", b, cos), m.step("Mul", a, sin))
        y = m.step("Concat", *((first, second) if likely(m, 0.8) else (second, first)), axis=-1)
    if width < depth:
        rest = cut(x, width, depth)
        y = m.step("Concat", *((y, rest) if likely(m, 0.8) else (rest, y)), axis=3)
    if likely(m, 0.5):
        y = m.step("Concat", given(m, batch, heads, 3, depth).name, y, axis=2)
    m.add("Identity" if likely(m, 0.3) else "Relu", y)


def joins(m: Maker) -> None:
    """Adds tensors that are moved, and concatenated with each other and with themselves, in any
    order of axes."""
    x = fed(m, *[m.choose.choice((1, 2, 3, 4, 8, 12)) for _ in range(m.choose.choice((2, 3, 4)))])
    found = [x, Value(m.step("Relu", x), x.shape)]
    for _ in range(m.choose.randint(3, 7)):
        value = m.choose.choice(found)
        made = _moved(m, value) if likely(m, 0.5) else _joined(m, value, found)
        if max(made.shape) <= MAX_JOINED and prod(made.shape) <= 20_000:
            found.append(made)
    for value in found[-2:]:
        m.add("Neg", value)


def _moved(m: Maker, x: Value) -> Value:
    axis = m.choose.randrange(len(x.shape))
    before, extent, after = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
    form = m.choose.choice(("turn", "split", "cut", "back", "new"))
    if form == "turn":
        perm = m.choose.sample(range(len(x.shape)), len(x.shape))
        return Value(turn(m, x, *perm), tuple(x.shape[k] for k in perm))
    if form == "split" and extent % 2 == 0 and len(x.shape) < 5:
        shape = (*before, 2, extent // 2, *after)
        return Value(m.step("Reshape", x, m.ints(*shape)), shape)
    if form == "new" and len(x.shape) < 5:
        shape = (*before, 1, *x.shape[axis:])
        return Value(m.step("Reshape", x, m.ints(*shape)), shape)
    if form == "back":
        back = m.ints(extent - 1), m.ints(-extent - 1), m.ints(axis), m.ints(-1)
        return Value(m.step("Slice", x, *back), x.shape)
    start = m.choose.randrange(0, extent, 4 if extent > 4 else 1)
    ends = m.ints(start), m.ints(extent), m.ints(axis)
    return Value(m.step("Slice", x, *ends), (*before, extent - start, *after))


def _joined(m: Maker, x: Value, found: list[Value]) -> Value:
    """Adds the concatenation of x and other values that fit, if possible with their axes in another
    order."""
    axis = m.choose.randrange(len(x.shape))
    rest = [*x.shape[:axis], *x.shape[axis + 1 :]]
    parts = [x]
    for _ in range(m.choose.randint(1, 3)):
        other = m.choose.choice([v for v in found if len(v.shape) == len(x.shape)])
        for perm in m.choose.sample(list(permutations(range(len(x.shape)))), 6 if rest[1:] else 2):
            shape = tuple(other.shape[k] for k in perm)
            if [*shape[:axis], *shape[axis + 1 :]] == rest:
                parts.append(Value(turn(m, other, *perm), shape))
                break
    m.choose.shuffle(parts)
    extent = sum(part.shape[axis] for part in parts)
    made = m.step("Concat", *parts, axis=axis)
    return Value(made, (*x.shape[:axis], extent, *x.shape[axis + 1 :]))


NEAR = (attention, normalization, rotary, joins, siblings, gates)
