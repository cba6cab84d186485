"""The kernel of reductions, and the forms in which it is launched."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from math import inf, isqrt, prod
from typing import NamedTuple

from tflgpu_plugin.ir.extent import Extent
from tflgpu_plugin.ir.graph import Graph, Node, Shape, planar
from tflgpu_plugin.ir.heuristics import heuristic
from tflgpu_plugin.ir.quantization import is_integer
from tflgpu_plugin.ir.symbolic import always_equal, f32, larger, may_exceed_one, within_factor
from tflgpu_plugin.ir.target import Target
from tflgpu_plugin.ops.axes import Axis, merged
from tflgpu_plugin.ops.forms import Form, always
from tflgpu_plugin.ops.lowering import CHECK, WORKGROUP, Access, Kernel, Lowering, Source, Stores
from tflgpu_plugin.ops.tiles import WAITING_THREADS
from tflgpu_plugin.ops.unknown import UNKNOWN
from tflgpu_plugin.ops.views import row_strides

SHUFFLED_THREADS = 8  # threads that share a result by shuffle ...
MAX_SHUFFLED_ELEMENTS = 1 << 14  # ... up to this many elements: longer sums round worse
AHEAD = 8  # vec4 that a GPU thread loads at once
MAX_THREADS = 256  # per workgroup
MIN_SHARED = 16  # elements of a result from which on several threads share it
MIN_SERIAL = 128  # elements per thread from which on a second launch pays
MIN_PART = 16  # least elements per thread in a part
MAX_GROWTH = 16  # factor by which a symbolic number of elements may differ from that of the trace
ZERO, SUM = "vec4f(0.0)", "a + v"
INFINITE = "vec4f(p.infinity)"
LOWEST = "vec4f(-0x1.fffffep+127f)"


class Reduction(NamedTuple):
    """WGSL of a reduction: the value of an empty one, the step from `a` with element `v`, the
    result from `a`, and a function applied to each element `v` first."""

    start: str
    combine: str
    finish: str = "a"
    each: str = "v"


REDUCTIONS = {
    "mean": Reduction(ZERO, SUM, "quotient(a, p.divisor)"),
    "reduce_sum": Reduction(ZERO, SUM),
    "reduce_prod": Reduction("vec4f(1.0)", "a * v"),
    "reduce_max": Reduction(f"-{INFINITE}", "select(a, v, ((v > a) & !is_nan(a)) | is_nan(v))"),
    "reduce_min": Reduction(INFINITE, "select(a, v, ((v < a) & !is_nan(a)) | is_nan(v))"),
    "reduce_l1": Reduction(ZERO, SUM, each="abs(v)"),
    "reduce_l2": Reduction(ZERO, SUM, "root(a)", "v * v"),
    "reduce_sum_square": Reduction(ZERO, SUM, each="v * v"),
    "reduce_mean_square": Reduction(ZERO, SUM, "quotient(a, p.divisor)", "v * v"),
    "reduce_log_sum": Reduction(ZERO, SUM, "log_exact(a)"),
}
MAXIMUM = Reduction(LOWEST, "max(a, v)")
NONE = "vec4i()"
WHOLE = {
    "reduce_sum": Reduction(NONE, SUM),
    "reduce_prod": Reduction("vec4i(1)", "a * v"),
    "reduce_max": Reduction("vec4i(-2147483647 - 1)", "max(a, v)"),
    "reduce_min": Reduction("vec4i(2147483647)", "min(a, v)"),
    "reduce_l1": Reduction(NONE, SUM, each="abs(v)"),
    "reduce_sum_square": Reduction(NONE, SUM, each="v * v"),
}
GROWING = {*WHOLE} - {"reduce_max", "reduce_min"}  # results may exceed int32
# The product in float of all but zeros: a host that `saturates` multiplies as float64, and gives
# the least integer for infinity times zero.
NOT_ZERO = REDUCTIONS["reduce_prod"]._replace(each="select(v, vec4f(1.0), v == vec4f(0.0))")


def reduced_axes(graph: Graph, node: Node) -> set[int]:
    """Returns the axes to reduce, from 0. Raises ValueError with a sentence if one is out of
    range."""
    rank, value = len(graph.shape(node.operand())), graph.constant(node.inputs[1])
    assert value is not None
    if rank == 0:  # hosts accept any axes of a scalar, and reduce nothing
        return set()
    axes = [int(axis) for axis in value.reshape(-1)]
    for axis in axes:
        if not -rank <= axis < rank:
            raise ValueError(f"Axis {axis} is out of range for an input of rank {rank}.")
    return {axis % rank for axis in axes}


# ---- forms ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reduced:
    """A reduction over these axes of a node's first input, whose elements are viewed in row-major
    order of `shape`."""

    low: Lowering
    node: Node
    reduction: Reduction
    shape: Shape
    axes: frozenset[int]

    @classmethod
    def of(cls, low: Lowering, node: Node) -> Reduced:
        """Returns the reduction of this node."""
        source = node.operand()
        reduction = (WHOLE if is_integer(low.graph.tensors[source]) else REDUCTIONS)[node.op]
        axes = frozenset(reduced_axes(low.graph, node))
        return cls(low, node, reduction, low.graph.shape(source), axes)

    @property
    def image(self) -> bool:
        """Whether exactly the axes between batch and channels are reduced."""
        shape, axes = self.shape, self.axes
        image = {k for k in range(1, len(shape) - 1) if shape[k] > 1} if planar(shape) else set()
        x, out = (self.low.geometry(t) for t in (self.node.operand(), self.node.outputs[0]))
        same = shape == self.low.graph.shape(self.node.operand()) and x[:2] == out[:2]
        return {k for k in axes if shape[k] > 1} == image and same  # batch and slices

    @property
    def count(self) -> int:
        """Returns how many elements are reduced to one result."""
        return prod(self.shape[axis] for axis in self.axes)

    @property
    def vectors(self) -> int:
        return self.low.geometry(self.node.outputs[0]).vectors

    @property
    def near(self) -> Reduction | None:
        """Returns the reduction in float whose results are compared with those of integers: of
        int64, or of int32 where the host `saturates`; else None."""
        given, made = self.node.attributes, self.low.graph.tensors[self.node.outputs[0]]
        asked = given.get("saturates", made.dtype == "i64") and not given.get("unchecked")
        if not (asked and is_integer(made) and self.node.op in GROWING):
            return None
        zeros = self.node.op == "reduce_prod" and given.get("saturates")
        return NOT_ZERO if zeros else REDUCTIONS[self.node.op]


@dataclass(frozen=True)
class _Elements:
    """The elements that a launch combines: the operand, how many per result, how many a workgroup
    takes (`part`; 0: all), and their addresses unless they are an image in order."""

    x: Access
    count: int
    parameters: Mapping[str, object]
    part: int = 0
    inner: bool = False  # they are a row in the storage of the operand


def _elements(r: Reduced) -> _Elements:
    """Returns how a launch reads the elements to reduce: those of an image in order, others each by
    its address."""
    if r.image:
        return _Elements(Access(r.node.operand()), r.count, {})
    return _one_by_one(r)


def _one_by_one(r: Reduced) -> _Elements:
    runs = _runs(r.shape, r.axes)
    x, out = r.low.geometry(r.node.operand()), r.low.geometry(r.node.outputs[0])
    kept, gone = (_three(_alike(runs, reduced)) for reduced in (False, True))
    parameters: dict[str, object] = {
        "channels": out.channels,
        "in_slices": x.slices,
        "in_spatial": x.spatial,
        "in_channels": x.channels,
    }
    if _is_inner(r):
        return _Elements(Access(r.node.operand(), 1), r.count, parameters, inner=True)
    for name, three in (("kept", kept), ("gone", gone)):
        parameters |= {f"{name}_{k}": three[k].extent for k in (1, 2)}
        parameters |= {f"{name}_stride_{k}": three[k].stride for k in range(3)}
    return _Elements(Access(r.node.operand(), 1), r.count, parameters)


def _is_inner(r: Reduced) -> bool:
    """Whether the last axis is reduced, no other one, and is that of the channels in storage."""
    gone = [axis for axis in r.axes if may_exceed_one(r.shape[axis])]
    channels = r.low.geometry(r.node.operand()).channels
    return gone == [len(r.shape) - 1] and always_equal(channels, r.shape[-1])


def _lower_parts(r: Reduced) -> None:
    """Records a launch over parts of the elements, and one over the partial results."""
    part = r.count if r.low.target.prefers("reduce_parts") else _part(r)
    part = part if part < r.count else -(-r.count // 3)
    parts = -(-r.count // part)
    made = r.low.temporary(r.vectors * parts)
    first = replace(r, reduction=r.reduction._replace(finish="a"))
    _reduce(first, replace(_elements(r), part=part), made)
    last = replace(r, reduction=r.reduction._replace(each="v"))
    _reduce(last, _Elements(Access(made), parts, {"divisor": f32(r.count)}))


def _part(r: Reduced) -> int:
    """Returns how many elements of a result a workgroup takes, so that enough threads hide memory
    latency: all, or a multiple of what its threads load in a round."""
    if r.low.target.software or r.count < MIN_SERIAL * WORKGROUP:
        return r.count
    parts = min(WAITING_THREADS // (r.vectors * WORKGROUP), r.count // (MIN_PART * WORKGROUP))
    round_ = WORKGROUP * AHEAD
    return -(-r.count // (max(parts, 1) * round_)) * round_


FORMS: tuple[Form[Reduced], ...] = (
    Form("reduce_parts",
         lambda r: r.count > 1 and not is_integer(r.low.graph.tensors[r.node.operand()]),
         _lower_parts,
         lambda r: _part(r) < r.count),
    Form("reduce_image", lambda r: r.image, lambda r: _reduce(r, _elements(r))),
    Form("reduce_axes", always, lambda r: _reduce(r, _one_by_one(r))),
)  # fmt: skip


def _reduce(r: Reduced, elements: _Elements, made: int | None = None) -> None:
    """Records a launch over the elements of each result or of each part; `made` replaces the node's
    output."""
    low, node, x = r.low, r.node, elements.x
    target, out, length = low.target, low.geometry(node.outputs[0]), elements.part or elements.count
    parts = -(-elements.count // length)
    centred = len(node.inputs) > 2 and x.source == node.operand()
    vectors = out.vectors * parts
    # A length that changes is often short in the first run alone.
    longer = larger(length, MIN_SHARED) if isinstance(length, Extent) else length
    together = lanes(target, longer, vectors)
    threads = wide(target, length, vectors, together, 4 * AHEAD)
    together = threads if threads > WORKGROUP else together
    each = -(-length // together)
    most = 1 if target.software else AHEAD * x.view // 4
    block, ahead = _block(each), min(most, within_factor(each, MAX_GROWTH))
    low.loops(node, each + block + each // block + 18)
    parameters: dict[str, object] = {
        "vectors": vectors,
        "count": elements.count,
        "lanes": together,
        "block": -(-block // ahead) * ahead,
        "divisor": f32(elements.count),
        "infinity": inf,
        "slices": out.slices,
        "spatial": out.spatial,
    }
    if elements.part:
        parameters |= {"parts": parts, "chunk": elements.part}
    parameters |= {"channels": out.channels} if r.near else {}
    marks = node.outputs[0] in low.unflagged
    writes: dict[str, Source | Access] = {"out": node.outputs[0] if made is None else made}
    writes |= {"check": Access(CHECK, 0)} if r.near and not marks else {}
    low.dispatch(
        Kernel(
            "reduce",
            parameters | dict(elements.parameters),
            {
                "near": r.near or (),
                "unknown": UNKNOWN if r.near and marks else "",
                "spatial": x.view == 4,
                "inner": elements.inner,
                "threads": threads,
                "ahead": ahead,
                "parts": elements.part > 0,
                "centred": centred,
                "shared": exchanges(target, length),
                **r.reduction._asdict(),
            },
        ),
        node,
        {"x": x, **({"centre": node.operand(2)} if centred else {})},
        writes,
        (-(-vectors * together // threads), 1, 1),
        stores=Stores(fused=made is None),
    )


def _block(count: int) -> int:
    """Returns the number of iterations of the inner of two loops over `count` elements: about its
    square root, so that both loops are short and the rounding error of sums is small. For a
    symbolic count, the number may be so much too large or small that the error is about twice the
    smallest one."""
    return isqrt(max(within_factor(count, MAX_GROWTH) - 1, 0)) + 1


def exchanges(target: Target, count: int) -> bool:
    """Whether threads of a result exchange values by shuffle. On software adapters a workgroup is
    one CPU thread, so that more than 8 lanes are no faster."""
    return target.software and target.shuffles and count < MAX_SHUFFLED_ELEMENTS


@heuristic
def lanes(target: Target, count: int, results: int) -> int:
    """Returns how many threads share a result of `count` elements: one if it is cheap, a workgroup
    for long ones, and more on GPUs if there are too few results to occupy them."""
    if count < MIN_SHARED:
        return 1
    few = count < (4 if target.software else 2) * WORKGROUP
    found = SHUFFLED_THREADS if few or exchanges(target, count) else WORKGROUP
    while (
        not target.software
        and found < min(WORKGROUP, count / 2)
        and 2 * found * results <= WAITING_THREADS
    ):
        found *= 2
    return found


@heuristic
def wide(target: Target, count: int, results: int, together: int, least: int) -> int:
    """Returns the number of threads of a workgroup: more than usual if few results each have a
    whole workgroup, and each thread still has at least `least` elements; fewer for a single result
    on software drivers, which run all threads one after the other."""
    found = together if target.software and results == 1 and together > 1 else WORKGROUP
    while (
        not target.software
        and together == WORKGROUP
        and found < MAX_THREADS
        and count >= least * found
        and 2 * found * results <= WAITING_THREADS
    ):
        found *= 2
    return found


def _runs(shape: Shape, axes: Collection[int]) -> list[tuple[bool, Axis]]:
    """Merges adjacent axes that are all reduced (true) or all kept, outermost first; axes of extent
    1 are dropped."""
    numbered = enumerate(zip(shape, row_strides(shape), strict=True))
    rows = [(k in axes, (Axis(*axis),)) for k, axis in numbered if may_exceed_one(axis[0])]
    groups = groupby(rows, key=lambda row: row[0])
    together = [(gone, merged([row for _, row in group])) for gone, group in groups]
    return [(gone, axis) for gone, found in together for (axis,) in found]


def alternations(shape: Shape, axes: Collection[int]) -> tuple[int, int]:
    """Returns the number of runs of adjacent axes that are reduced, and of those that are kept."""
    runs = _runs(shape, axes)
    return len(_alike(runs, True)), len(_alike(runs, False))


def _alike(runs: list[tuple[bool, Axis]], reduced: bool) -> list[Axis]:
    return [axis for gone, axis in runs if gone == reduced]


def _three(axes: list[Axis]) -> list[Axis]:
    return [Axis(1)] * (3 - len(axes)) + axes
