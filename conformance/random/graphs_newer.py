"""Further operators of random graphs: those whose rows are the newest."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from conformance.random.graphs_maker import Maker

BOUND = ("SQUARE", "SIN", "COS")


def _smooth(m: Maker) -> None:
    """Adds a continuous function of one value, so that rounding errors stay small."""
    op, x = m.choose.choice(("NEG", "SQUARE", "SIN", "COS", "GELU", "LOG_SOFTMAX")), m.pick()
    if op == "GELU":
        m.add(op, [x], "GeluOptions", approximate=m.choose.random() < 0.5)
    # Squares of large numbers, and even more their angles, amplify rounding errors.
    elif op not in BOUND or (x := m.add("TANH", [x]) or -1) >= 0:
        m.add(op, [x])


def _reduction(m: Maker) -> None:
    x, op = m.pick(), m.choose.choice(("SUM", "REDUCE_MAX", "REDUCE_MIN", "MEAN"))
    rank = len(m.shape(x))
    axes = m.integers(*m.choose.sample(range(-rank, 0), m.choose.randint(0, rank)))
    m.add(op, [x, axes], "ReducerOptions", keepDims=m.choose.random() < 0.6)


def _cut(m: Maker) -> None:
    x = m.pick()
    begin = [m.choose.randrange(extent) for extent in m.shape(x)]
    size = [m.choose.choice((-1, 1, n - b)) for n, b in zip(m.shape(x), begin, strict=True)]
    m.add("SLICE", [x, m.integers(*begin), m.integers(*size)], "SliceOptions")


def _repeated(m: Maker) -> None:
    x = m.pick()
    m.add("TILE", [x, m.integers(*(m.choose.choice((1, 1, 1, 2)) for _ in m.shape(x)))])


def _expanded(m: Maker) -> None:
    x = m.pick()
    rank = len(m.shape(x))
    if rank < 5:
        axis = m.model.constant(np.int32(m.choose.randint(-rank - 1, rank)))
        m.add("EXPAND_DIMS", [x, axis], "ExpandDimsOptions")


def _selected(m: Maker) -> None:
    """Adds a selection by a comparison with a number that is unlikely to occur."""
    x, y = m.pick(), m.pick()
    if prod(m.shape(x)) == prod(m.shape(y)) == 1:
        return  # the host makes a scalar of single elements
    op = m.choose.choice(("LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL"))
    kept = len(m.model.operators)
    limit = m.model.constant(np.float32(m.choose.uniform(-1, 1)))
    which = m.model.op(op, [x, limit], dtype="bool")
    if m.choose.random() < 0.3:
        which = m.model.op("LOGICAL_NOT", [which], dtype="bool")
    if m.add("SELECT_V2", [which, x, y], "SelectV2Options") is None:
        del m.model.operators[kept:]


def _product(m: Maker) -> None:
    """Multiplies a tensor with weights, or with its own transpose."""
    x = m.pick()
    inner = (1, *m.shape(x))[-1]
    turned = m.choose.random() < 0.5
    if m.choose.random() < 0.5:
        y = m.add("TANH", [x])
    else:
        shape = (m.choose.choice((1, 3, 4, 5, 8, 16, 17)), inner)
        y = m.weights(*(shape if turned else shape[::-1]))
        turned = turned or shape[0] == inner
    if y is not None:
        m.add("BATCH_MATMUL", [x, y], "BatchMatMulOptions", adjX=False, adjY=turned)


def _batches(m: Maker) -> None:
    x, block = m.pick(4), (m.choose.choice((1, 2, 3)), m.choose.choice((1, 2)))
    _, height, width, _ = m.shape(x)
    amounts = [(1, -(height + 1) % block[0]), (0, -width % block[1])]
    moved = m.add("SPACE_TO_BATCH_ND", [x, m.integers(*block), m.integers(*amounts)])
    if moved is None:
        return
    if m.choose.random() < 0.7:
        inside = m.add("RELU", [moved])
        moved = moved if inside is None else inside
    m.add("BATCH_TO_SPACE_ND", [moved, m.integers(*block), m.integers(*amounts)])


def _difference(m: Maker) -> None:
    x = m.pick()
    m.add("SQUARED_DIFFERENCE", [x, m.pick(like=m.shape(x))], "SquaredDifferenceOptions")


def _spectrum(m: Maker) -> None:
    """Transforms rows, or rows and columns; complex numbers are read in one form, or in all."""
    x, kept = m.pick(), len(m.model.operators)
    if len(m.shape(x)) < 2:
        return
    height, width = m.choose.choice((1, 1, 1, 2, 4)), m.choose.choice((2, 4, 8, 16, 32))
    shape = (*m.shape(x)[:-2], height, width // 2 + 1)
    found = m.model.op("RFFT2D", [x, m.integers(height, width)], "Rfft2dOptions",
                       dtype="c64", shape=shape)  # fmt: skip
    if m.choose.random() < 0.5:
        flat = m.integers(-1, shape[-1])
        found = m.model.op("RESHAPE", [found, flat], dtype="c64")
    results = ("COMPLEX_ABS", "REAL", "IMAG")
    for op in m.choose.choice((results, *((one,) for one in results))):
        if m.add(op, [found]) is None:
            del m.model.operators[kept:]
            return


MAKERS: tuple[Callable[[Maker], None], ...] = (
    *[_smooth] * 3, *[_reduction] * 2, *[_cut] * 2, *[_product] * 2, *[_batches] * 2,
    *(_repeated, _expanded, _selected, _difference, _spectrum),
)  # fmt: skip
