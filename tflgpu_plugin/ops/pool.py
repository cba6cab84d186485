"""Pooling of one to three spatial axes, x [B, ..., C]: `average_pool_2d`, `max_pool_2d`,
`root_mean_square_pool_2d` and `lp_pool` (p): window, strides, padding; dilations (default 1),
ceil_mode, counted (default off).

`padding` is "same", "valid" or (before, after) of each axis in order. An average divides by the
number of elements inside the image, as in tensorflow/lite/kernels/internal/reference/pooling.h, or
with `counted` inside the padded image. For `ceil_mode` see `window.spans`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import lcm, prod
from typing import NamedTuple

import numpy as np

from tflgpu_plugin.ir import Graph, Node, Refusal, Shape, Target
from tflgpu_plugin.ops import rounding, window
from tflgpu_plugin.ops.decompose import Decomposition, lower_decomposed
from tflgpu_plugin.ops.forms import Form, Forms
from tflgpu_plugin.ops.lowering import MAX_LOOP_ROUNDS, Kernel, Lowering
from tflgpu_plugin.ops.reduce_forms import (
    FORMS as REDUCED,
    MAXIMUM,
    REDUCTIONS,
    SUM,
    ZERO,
    Reduced,
    Reduction,
)  # fmt: skip
from tflgpu_plugin.ops.table import AVERAGED, MOVED, Int16, Op, Rounding
from tflgpu_plugin.ops.unary import LIMITS
from tflgpu_plugin.ops.window import Span

NORM = Reduction(
    ZERO, SUM, "pow_exact(a, vec4f(1.0 / p.order))", "pow_exact(abs(v), vec4f(p.order))"
)
# Sums of this many int16 numbers: two roundings of float32 then have an error of less than 1/2.
MAX_INT16_AREA = 127
ONE = Span(1, 1, 1, 1, 0, 1)  # stands for an absent axis


def refuse(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires 3 to 5 dimensions; at least one element of the image in every window."""
    shape, kernel = graph.shape(node.operand()), node.attributes["window"]
    if len(shape) not in (3, 4, 5) or len(kernel) != len(shape) - 2:
        said = f"Pooling with a window of {list(kernel)} does not fit rank {len(shape)}."
        return Refusal("rank.unsupported", said)
    if prod(shape) == 0:
        return Refusal("shape.empty", f"An input of {list(shape)} has no elements.")
    if node.attributes.get("activation", "none") not in ("none", *LIMITS):  # hosts ignore others
        said = f"Pooling takes no {node.attributes['activation']} activation."
        return Refusal("activation.unsupported", said)
    if node.attributes.get("counted") and node.attributes["padding"] == "same":
        return Refusal("attribute.unsupported", "Padding that is counted must be given as numbers.")
    if refusal := window.refuse_window(shape, kernel, node.attributes):
        return refusal
    found = _spans(graph, node)
    if not all(map(_meets, found)):
        return Refusal("shape.unsupported", "A window lies entirely in the padding.")
    if not _whole(node, found) and max(map(_longest, found)) > MAX_LOOP_ROUNDS:
        said = f"A window longer than {MAX_LOOP_ROUNDS:,} elements must cover the whole image."
        return Refusal("shape.too_large", said)
    return None


def shapes(graph: Graph, node: Node) -> list[Shape]:
    """Returns the output's shape, [B, positions ..., C]."""
    shape = graph.shape(node.operand())
    return [(shape[0], *(s.positions for s in _spans(graph, node)), shape[-1])]


class Pool(NamedTuple):
    """A pooling node and its window along each axis."""

    low: Lowering
    node: Node
    spans: tuple[Span, ...]

    @classmethod
    def of(cls, low: Lowering, node: Node) -> Pool:
        """Returns the pooling of this node."""
        return cls(low, node, tuple(_spans(low.graph, node)))


def _as_reduction(pool: Pool) -> Reduced | None:
    """Returns the reduction that pools a single window over the image, else None."""
    if not _whole(pool.node, pool.spans):
        return None
    shape = pool.low.graph.shape(pool.node.operand())
    reduction = REDUCTIONS["mean"] if pool.node.op == "average_pool_2d" else MAXIMUM
    return Reduced(pool.low, pool.node, reduction, shape, frozenset(range(1, len(shape) - 1)))


def _lower_windows(pool: Pool) -> None:
    """Records one launch over all windows."""
    low, node, found = pool.low, pool.node, list(pool.spans)
    average, counted = node.op == "average_pool_2d", bool(node.attributes.get("counted"))
    axes = [ONE] * (3 - len(found)) + found
    depth, height, width = (span.kernel for span in axes)
    low.loops(node, depth * (2 + height * (2 + width)) + 1)
    after = [0] * (3 - len(found)) + [_after(node, k) for k in range(len(found))]
    parameters: dict[str, object] = {
        **window.parameters(axes),
        **{f"after_{letter}": last for letter, last in zip("dhw", after, strict=True)},
    }
    reduction = _reduction(node)
    if "p.order" in reduction.each:
        parameters["order"] = float(node.attributes["p"])
    low.each_vector(
        Kernel(
            "pool",
            parameters,
            {"average": average, "counted": average and counted, **reduction._asdict()},
        ),
        node,
        {"x": node.operand()},
    )


FORMS = Forms(
    Pool.of,
    (
        *(form.adapted(_as_reduction) for form in REDUCED),
        Form(
            "pool", lambda pool: max(map(_longest, pool.spans)) <= MAX_LOOP_ROUNDS, _lower_windows
        ),
    ),
)


def _reduction(node: Node) -> Reduction:
    """Returns the reduction by which the kernel combines the elements of a window. For an average
    this is the sum, which is divided later."""
    if node.op == "lp_pool":
        named = {1.0: "reduce_l1", 2.0: "reduce_l2"}.get(float(node.attributes["p"]))
        return REDUCTIONS[named] if named else NORM
    return REDUCTIONS["reduce_sum"] if node.op == "average_pool_2d" else MAXIMUM


def _spans(graph: Graph, node: Node) -> list[Span]:
    return window.spans(graph.shape(node.operand()), node.attributes["window"], node.attributes)


def _after(node: Node, axis: int) -> int:
    padding = node.attributes["padding"]
    return 0 if isinstance(padding, str) else int(padding[2 * axis + 1])


def _meets(s: Span) -> bool:
    """Whether the window covers at least one element of the input at every position."""
    if s.dilation == 1:
        return s.before < s.kernel and (s.positions - 1) * s.stride - s.before < s.extent
    corner = np.arange(s.positions) * s.stride - s.before
    begin = np.maximum(0, (s.dilation - 1 - corner) // s.dilation)
    end = np.minimum(s.kernel, -((corner - s.extent) // s.dilation))
    return bool((begin < end).all())


def _longest(s: Span) -> int:
    return min(s.kernel, s.extent)


def _whole(node: Node, found: Sequence[Span]) -> bool:
    """Whether the window has a single position, at which it covers the whole image."""
    if node.op == "lp_pool" or (node.attributes.get("counted") and not _bare(node)):
        return False
    return all(
        s.positions == 1 and s.dilation == 1 and s.kernel - s.before >= s.extent for s in found
    )


def _bare(node: Node) -> bool:
    padding = node.attributes["padding"]
    return padding == "valid" or not (isinstance(padding, str) or any(padding))


def _averages(graph: Graph, node: Node) -> bool:
    return len(graph.shape(node.operand())) == 4 and _whole(node, _spans(graph, node))


def decompose_root(steps: Decomposition, node: Node) -> bool:
    """Computes the square root of the average of squares, then the activation."""
    attributes = {**node.attributes, "activation": "none"}
    mean = steps.add("average_pool_2d", steps.add("square", node.operand()), **attributes)
    activation = node.attributes.get("activation", "none")
    if activation == "none":
        steps.last("sqrt", mean)
    else:
        steps.last(activation, steps.add("sqrt", mean))
    return True


def _work(graph: Graph, node: Node) -> int:
    return prod(shapes(graph, node)[0]) * prod(map(_longest, _spans(graph, node)))


def _parts(graph: Graph, node: Node) -> tuple[float, ...]:
    """Returns a number n such that averages are multiples of 1 / n of a step: the least common
    multiple of all window sizes. If float32 cannot hold it, returns a power of two that removes
    rounding errors, or 1 if windows are so large that averages near a tie would be rounded to
    it."""
    counts = [prod(lengths) for lengths in product(*map(_lengths, _spans(graph, node)))]
    found = lcm(*counts)
    if found <= rounding.MAX_PARTS:
        return (float(found),)
    return (rounding.WEIGHTS if 4 * max(counts) <= rounding.WEIGHTS else 1.0,)


def _refuse_int16(graph: Graph, node: Node) -> Refusal | None:
    """Refuses averages of int16 over so many pixels that float32 cannot tell all ties apart."""
    counts = [prod(lengths) for lengths in product(*map(_lengths, _spans(graph, node)))]
    if lcm(*counts) <= MAX_INT16_AREA:
        return None
    said = f"In int16, windows whose sizes divide up to {MAX_INT16_AREA} are supported."
    return Refusal("quantization.unsupported", said)


def _lengths(span: Span) -> set[int]:
    starts = (k * span.stride - span.before for k in range(span.positions))
    return {min(s + span.kernel, span.extent) - max(s, 0) for s in starts}


WINDOWS = "window[n]! strides[n]! padding[2n]!=same|valid dilations[n] ceil_mode"
ATTRIBUTES = {
    "average_pool_2d": f"{WINDOWS} activation counted", "max_pool_2d": f"{WINDOWS} activation",
    "root_mean_square_pool_2d": f"{WINDOWS} activation", "lp_pool": f"{WINDOWS} p!",
}  # fmt: skip
OPS = (
    Op("average_pool_2d", refuse, shapes, FORMS, "reduction", work=_work, kind="window", fuses=True,
       accumulates=False, errors=AVERAGED, same_quantization=True, averages=_averages,
       rounding=Rounding(_parts, stored=True), int16=Int16("average", _refuse_int16)),
    Op("max_pool_2d", refuse, shapes, FORMS, "exact", work=_work, kind="window", fuses=True,
       keeps="first", errors=MOVED),
    Op("root_mean_square_pool_2d", refuse, shapes, lower_decomposed, "reduction", work=_work,
       kind="composite", decompose=decompose_root, accumulates=False),
    Op("lp_pool", refuse, shapes, FORMS, "reduction", work=_work, kind="window", fuses=True,
       accumulates=False),
)  # fmt: skip
