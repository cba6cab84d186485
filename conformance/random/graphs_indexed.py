"""Further operators of random graphs: those that select and place elements by indices, and small
layers of newer rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from conformance.random.graphs_maker import Maker


def _ranked(m: Maker) -> int:
    """Returns a tensor with at least one axis."""
    return m.choose.choice([t for t in m.tensors if m.shape(t)][-5:])


def _gathered(m: Maker) -> None:
    x = _ranked(m)
    rank = len(m.shape(x))
    width = m.choose.randint(max(1, rank - 3), rank)
    rows = [m.numbers.integers(0, extent, (3, 2)) for extent in m.shape(x)[:width]]
    m.add("GATHER_ND", [x, m.integers(*np.stack(rows, -1))], "GatherNdOptions")


def _gathered_by_batch(m: Maker) -> None:
    x = _ranked(m)
    shape = m.shape(x)
    axis = m.choose.randrange(1, max(2, len(shape)))
    if len(shape) > 1:
        rows = m.integers(*m.numbers.integers(0, shape[axis], (shape[0], 3)))
        m.add("GATHER", [x, rows], "GatherOptions", version=5, axis=axis, batchDims=1)


def _scattered(m: Maker) -> None:
    """Adds a scatter of rows, some of them to the same index."""
    x = _ranked(m)
    count, *rest = m.shape(x)
    places = m.integers(*m.numbers.integers(0, count + 2, (count, 1)))
    m.add("SCATTER_ND", [places, x, m.integers(count + 2, *rest)], "ScatterNdOptions")


def _segments(m: Maker) -> None:
    x = _ranked(m)
    ids = m.numbers.integers(0, 3, m.shape(x)[0])
    kind = m.choose.choice(("Sum", "Max", "Min"))
    total = m.model.constant(np.int32(3))
    made = m.add(f"UNSORTED_SEGMENT_{kind.upper()}", [x, m.integers(*ids),
                 total], f"UnsortedSegment{kind}Options")  # fmt: skip
    if made is not None and kind != "Sum":  # the ends of float32 where a segment has nothing
        m.tensors.remove(made)
        m.add("TANH", [made])


def _updated(m: Maker) -> None:
    x = _ranked(m)
    shape = m.shape(x)
    part = m.weights(*(m.choose.randint(1, n) for n in shape))
    start = m.integers(*(m.choose.randint(-1, n) for n in shape))
    m.add("DYNAMIC_UPDATE_SLICE", [x, part, start], "DynamicUpdateSliceOptions")


def _summed(m: Maker) -> None:
    x = m.pick()
    m.add("ADD_N", [x, *(m.pick(like=m.shape(x)) for _ in range(2))], "AddNOptions")


def _angle(m: Maker) -> None:
    """Adds an angle that is not close to a point where the function jumps."""
    x = m.pick()
    low = m.add("LOGISTIC", [x])
    if low is not None:
        m.add("ATAN2", [m.pick(like=m.shape(x)), low], "ATan2Options")


def _turned(m: Maker) -> None:
    x = _ranked(m)
    axis = m.choose.randrange(len(m.shape(x)))
    m.add("REVERSE_V2", [x, m.integers(axis)], "ReverseV2Options")


def _spread(m: Maker) -> None:
    x = _ranked(m)
    wanted = [m.choose.choice((2, 3)) if n == 1 else n for n in m.shape(x)]
    m.add("BROADCAST_TO", [x, m.integers(*wanted)], "BroadcastToOptions", version=2)


def _unit(m: Maker) -> None:
    x = _ranked(m)
    m.add("L2_NORMALIZATION", [x], "L2NormOptions", fusedActivationFunction="NONE")


def _pooled(m: Maker) -> None:
    size = m.choose.choice((2, 3))
    m.add("L2_POOL_2D", [m.pick(4)], "Pool2DOptions", filterWidth=size, filterHeight=size,
          **m.window())  # fmt: skip


def _near(m: Maker) -> None:
    m.add("LOCAL_RESPONSE_NORMALIZATION", [m.pick(4)], "LocalResponseNormalizationOptions",
          radius=m.choose.choice((1, 2)), bias=1.0, alpha=0.5, beta=0.75)  # fmt: skip


def _cut_off(m: Maker) -> None:
    m.add("RELU_0_TO_1", [m.pick()])


def _rows_kept(m: Maker) -> None:
    x = _ranked(m)
    inputs, outputs = m.shape(x)[-1], m.choose.choice((1, 4, 7, 16))
    options = {"keepNumDims": True, "fusedActivationFunction": m.choose.choice(("NONE", "RELU"))}
    reads = [x, m.weights(outputs, inputs), m.weights(outputs)]
    m.add("FULLY_CONNECTED", reads, "FullyConnectedOptions", version=5, **options)


MAKERS: tuple[Callable[[Maker], None], ...] = (
    _gathered, _gathered_by_batch, _scattered, _segments, _updated, _summed, _angle, _turned,
    _spread, _unit, _pooled, _near, _cut_off, _rows_kept,
)  # fmt: skip
