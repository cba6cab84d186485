"""`attention(q, k, v, mask | None, lengths | None): scale, softcap, causal, past, window, heads,
kv_heads, keys, joined, empty, mends`: softmax(scale * q k' + mask) v of each head, without a matrix
of scores in memory.

q is [batch, heads, queries, depth], k [batch, kv_heads, keys, depth] and v [batch, kv_heads, keys,
width]. Each may instead have rank 3, [batch, length, heads * depth or width], where the attributes
give the number of heads (default 1). The result has rank 3 if `joined` (default: if q has), and the
width of v. Consecutive heads of q share a head of k and v.

Only the first `keys` (default: all) of k and v are read. `softcap` (default 0: none) limits scores
before the mask is added; the mask broadcasts to [batch, heads, queries, keys]. `lengths` (int32) is
the number of keys of each batch. With `causal`, query i sees the last `window` (default 0: all)
keys up to i + past (default 0); with past=None the last query is at the last key of its batch. A
query that sees no key gets the value `empty` (default NaN): all its keys are masked by -inf or
also, if `empty` is a number, by the lowest float32. With `mends`, a query with a NaN score gets
`empty` too, and the lowest float32 does not mask; but where a value of v is NaN or infinite, such a
query's result is NaN, as that of a product with shares of 0 would be."""

from __future__ import annotations

from math import isnan, nan, prod
from typing import NamedTuple

import numpy as np

from tflgpu_plugin.ir import MAX_FLOAT32, Graph, Node, Refusal, Shape, Target, quantization
from tflgpu_plugin.ir.graph import ShapeError
from tflgpu_plugin.ir.heuristics import heuristic
from tflgpu_plugin.ir.symbolic import i32
from tflgpu_plugin.kernels import variants
from tflgpu_plugin.ops.decompose import Decomposition
from tflgpu_plugin.ops.elementwise import spreads
from tflgpu_plugin.ops.forms import Form, Forms, always
from tflgpu_plugin.ops.host_order import by_vectors
from tflgpu_plugin.ops.lowering import MAX_LOOP_ROUNDS, WORKGROUP, Access, Kernel, Lowering
from tflgpu_plugin.ops.movement import vector_strides
from tflgpu_plugin.ops.table import Op, unplanned
from tflgpu_plugin.ops.tiles import hiding_threads

MASK, LENGTHS = 3, 4
LANES = 8  # threads of a team, which share rows
MAX_PARTS = 4  # slices of the result per thread
MAX_SUMS = 32  # vec4 of the result per thread, over all its rows
GPU_SUMS = 8  # the same on GPUs, so that registers allow several waves
# Slices of keys that GPUs load at once, by vendor (others 1): by Mesa's compilers more would spill
# registers, above all with 4 rows of heads of 64.
AHEAD = {"amd": 4, "nvidia": 2, "unknown": 2}
AHEAD_ALONE = {"intel": 4, "nvidia": 4, "apple": 4}  # for tiles of one row: fewer registers
SPILL_HALVES = ("intel",)  # vendors whose compiler spills registers for that many in float16
# Vendors on whose GPUs the conversion of keys and values from float16, for each tile of rows, takes
# longer than reading float32.
FLOAT_KEYS = ("nvidia",)
MAX_ROWS = 4  # on GPUs: they use less than half of the registers
SOFTWARE_ROWS = 8
BLOCK = 32  # keys
MAX_THREADS, WORKGROUP_BYTES = 256, 16_384  # of a workgroup, on every device


def _operands(node: Node) -> list[int]:
    """Returns q, k and v."""
    return [node.operand(position) for position in range(3)]


def _heads(node: Node) -> tuple[int, int, int]:
    """Returns the numbers of heads of q, k and v."""
    count = int(node.attributes.get("heads", 1))
    return count, *(int(node.attributes.get("kv_heads", count)),) * 2


def with_heads(shape: Shape, heads: int) -> Shape:
    """Returns the shape as [batch, heads, length, depth]; it may be given as [batch, length, heads
    * depth]. Raises ValueError if neither fits."""
    if len(shape) == 3 and heads and shape[2] % heads == 0:
        return shape[0], heads, shape[1], shape[2] // heads
    if len(shape) != 4:
        raise ValueError(f"{list(shape)} has no {heads} heads")
    return shape


def split(graph: Graph, node: Node) -> tuple[Shape, Shape, Shape]:
    """Returns the shapes of q, k and v as [batch, heads, length, depth]. Raises ValueError if they
    do not fit together."""
    given = zip(_operands(node), _heads(node), strict=True)
    q, k, v = (with_heads(graph.shape(tensor), heads) for tensor, heads in given)
    if (keys := node.attributes.get("keys")) is not None:
        if keys > k[2]:
            raise ShapeError(f"{list(k)} has fewer than {keys} keys")
        k, v = ((*shape[:2], keys, shape[3]) for shape in (k, v))
    divided = q[1] % k[1] == 0 if k[1] else q[1] == 0
    if not (q[0] == k[0] == v[0] and q[3] == k[3] and k[1:3] == v[1:3] and divided):
        raise ShapeError(f"{list(q)}, {list(k)} and {list(v)} do not fit")
    return q, k, v


def _parts(width: int) -> tuple[int, int]:
    """Returns the number of slices of the result that a thread computes, and the number of passes
    (the y axis of the launch) that cover all slices of this width."""
    slices = -(-width // 4)
    times = -(-slices // (LANES * MAX_PARTS))
    return -(-slices // (LANES * times)), times


def shapes(graph: Graph, node: Node) -> list[Shape]:
    q, _, v = split(graph, node)
    if not node.attributes.get("joined", len(graph.shape(node.operand())) == 3):
        return [(*q[:3], v[3])]
    return [(q[0], q[2], q[1] * v[3])]


def lasts(keys: int, depth: int) -> bool:
    """Whether the loops of a thread have few enough rounds that no driver ends them early."""
    return -(-keys // 32) * (-(-depth // 4) + 64) <= MAX_LOOP_ROUNDS


def refuse(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires queries, keys and values of the same heads; a mask that broadcasts to the scores."""
    reason = unplanned("Attention", shapes, graph, node)
    if reason:
        return reason
    q, k, v = split(graph, node)
    if 0 in (*q, *k, *v):
        return Refusal("shape.empty", "Attention over empty tensors is not supported.")
    if target.software and not lasts(k[2], k[3]):
        said = f"Attention over {k[2]:,} keys needs more loop rounds than this driver completes."
        return Refusal("device.limit", said)
    mask = node.inputs[MASK] if len(node.inputs) > MASK else None
    if mask is not None:
        if quantization.is_integer(graph.tensors[mask]):
            return Refusal(
                "dtype.unsupported", "A mask of integers is not supported; cast it to float32."
            )
        given, whole = graph.shape(mask), (*q[:3], k[2])
        if not given or not spreads(given, whole):
            said = f"A mask of shape {list(given)} does not fit scores of {list(whole)}."
            return Refusal("shape.mismatch", said)
    return None


# ---- forms ---------------------------------------------------------------------------------------


class Attention(NamedTuple):
    """An attention node with the shapes of q, k and v as [batch, heads, length, depth]."""

    low: Lowering
    node: Node
    q: Shape
    k: Shape
    v: Shape

    @classmethod
    def of(cls, low: Lowering, node: Node) -> Attention:
        """Returns the attention of this node."""
        return cls(low, node, *split(low.graph, node))

    @property
    def rows(self) -> int:
        """Returns the number of query rows, over all query heads, that share a head of keys."""
        return self.q[1] // self.k[1] * self.q[2]

    @property
    def outer(self) -> int:
        """Returns the number of batches, times that of heads of keys, times that of passes over the
        result's slices."""
        return self.k[1] * self.q[0] * _parts(self.v[3])[1]

    @property
    def together(self) -> int:
        """Returns the number of rows in a tile."""
        return _rows(self.low.target, self.rows, _parts(self.v[3])[0], self.outer)

    @property
    def teams(self) -> int:
        """Returns how many teams of 8 threads share the keys of a tile; 1 if sharing does not
        pay."""
        tiles, parts = -(-self.rows // self.together), _parts(self.v[3])[0]
        return _teams(self.low.target, tiles * self.outer, self.k[2], self.together, parts)


def _operands_of(a: Attention) -> tuple[dict[str, Access], dict[str, object]]:
    """Returns the operands, and the kernel parameters with their strides."""
    low, node = a.low, a.node
    mask, lengths = (*node.inputs[MASK:], None, None)[:2]
    reads, parameters = dict[str, Access](), steps_of("y", low.graph.shape(node.outputs[0]), a.q[1])
    for name, tensor, heads in zip("qkv", _operands(node), (a.q[1], *a.k[1:2] * 2), strict=True):
        source, strides = by_vectors(low, tensor)
        reads[name] = Access(source)
        parameters |= steps_of(name, low.graph.shape(tensor), heads, strides)
    if mask is not None:
        reads["m"] = Access(low.stored(mask))
        parameters |= spread_steps("m", low.graph.shape(mask))
        parameters["m_slices"] = -(-low.graph.shape(mask)[-1] // 4)
    if lengths is not None:
        reads["lengths"] = Access(low.stored(lengths), 1)
    return reads, parameters


def _scores(a: Attention) -> dict[str, object]:
    """Returns the kernel parameters of the scores."""
    q, k, v, attributes = a.q, a.k, a.v, a.node.attributes
    past, cap = attributes.get("past", 0), float(attributes.get("softcap", 0.0))
    window, empty = int(attributes.get("window", 0)), float(attributes.get("empty", nan))
    found: dict[str, object] = {
        "queries": q[2], "keys": k[2], "kv_heads": k[1], "sharing": q[1] // k[1], "rows": a.rows,
        "slices": -(-q[3] // 4), "v_slices": -(-v[3] // 4),
        "scale": float(attributes["scale"]), "empty": empty,
        "nothing": -np.inf if isnan(empty) or attributes.get("mends") else -MAX_FLOAT32,
        "causal": int(bool(attributes.get("causal"))), "ends": int(past is None),
        "past": i32(past or 0),
        "window": np.int32(window if window > 0 else np.iinfo(np.int32).max // 2),
    }  # fmt: skip
    return found | ({"softcap": cap} if cap else {})


@heuristic
def _are_many(tiles: int) -> bool:
    return tiles > 1


def _lower(a: Attention, teams: int) -> None:
    """Records one launch over tiles of rows, per batch and head of keys; `teams` share the keys."""
    low, target, count = a.low, a.low.target, a.together
    (reads, parameters), (parts, times) = _operands_of(a), _parts(a.v[3])
    tiles = -(-a.rows // count)
    if target.vendor in FLOAT_KEYS and _are_many(tiles):
        low.keep_f32.update(_operands(a.node)[1:])
    groups = tiles * a.k[1] * a.q[0]
    lanes = WORKGROUP if target.software else max(target.workgroup(32), LANES * teams)
    parameters |= _scores(a)
    parameters |= {"tiles": tiles, "together": count, "groups": groups, "batches": a.q[0]}
    low.dispatch(
        Kernel(
            "attention",
            parameters,
            variants.Attention(
                lanes=lanes,
                rows=count,
                parts=parts,
                masked="m" in reads,
                lengths="lengths" in reads,
                softcap="softcap" in parameters,
                mends=bool(a.node.attributes.get("mends")),
                shared=target.shuffles,
                teams=teams,
                ahead=most_ahead(target, count, parts, _wanted(target, count)),
            )._asdict(),
        ),
        a.node,
        reads,
        {"y": a.node.outputs[0]},
        (-(-groups * LANES * teams // lanes), times, 1),
    )


FORMS = Forms(
    Attention.of,
    (
        Form("attention_teams", lambda a: a.low.target.teams,
             lambda a: _lower(a, max(2, a.teams)), lambda a: a.teams > 1),
        Form("attention_tiles", always, lambda a: _lower(a, 1)),
    ),
)  # fmt: skip


@heuristic
def _rows(target: Target, rows: int, parts: int, outer: int) -> int:
    """Returns how many rows, a power of two, share the keys that a thread loads, for `outer` heads
    and batches. It is smaller on GPUs that would otherwise have idle threads."""
    most = MAX_SUMS if target.software else GPU_SUMS
    if not target.shuffles:
        most = MAX_SUMS // 4  # without shuffles each row costs another load
    count = starting(target)[0]
    while count > 1 and (
        count >= 2 * rows
        or count * parts > most
        or (not target.software and -(-rows // count) * outer * LANES < hiding_threads(target))
    ):
        count //= 2
    return count


def starting(target: Target) -> tuple[int, int]:
    """Returns the most rows of a tile, and the most slices of keys that are loaded at once.
    `target.tuning` may force "attention_tile" (ROWSxSLICES) on GPUs."""
    if target.software:
        return SOFTWARE_ROWS, 1
    if forced := target.tuning.get("attention_tile"):
        rows, ahead = forced.split("x")
        return int(rows), int(ahead)
    return MAX_ROWS, AHEAD.get(target.vendor, 1)


def _wanted(target: Target, rows: int) -> int:
    """Returns how many slices of keys are loaded at once, if registers suffice."""
    alone = rows == 1 and not target.software and "attention_tile" not in target.tuning
    usual = starting(target)[1]
    if alone and target.half and target.vendor in SPILL_HALVES:
        return usual
    return AHEAD_ALONE.get(target.vendor, usual) if alone else usual


def most_ahead(target: Target, rows: int, parts: int, wanted: int) -> int:
    """Returns how many slices of keys are loaded at once, of those that are `wanted`: fewer where
    the registers of several rows would leave a SIMD with subgroups of 64 lanes a single wave."""
    if target.software or target.least_subgroup < 64:
        return wanted
    if rows * parts >= GPU_SUMS:
        return 1
    return max(wanted // 2, 1) if rows > 1 else wanted


@heuristic
def _teams(target: Target, tiles: int, keys: int, rows: int, parts: int) -> int:
    """Returns how many teams of 8 threads share the keys of a tile: a power of two, above 1 if the
    tiles leave most of a GPU idle, each team still has a block of keys, and what the teams exchange
    fits into workgroup memory."""
    found, hiding = 1, hiding_threads(target)
    if target.software:
        return found
    exchanged = 2 * 4 + 16 * parts + (0 if target.shuffles else (4 + 16) * rows)  # bytes, a thread
    most = min(MAX_THREADS, WORKGROUP_BYTES // exchanged) // LANES
    while 2 * found <= most and tiles * LANES * found < hiding and keys >= 2 * BLOCK * found:
        found *= 2
    return found


def steps_of(
    name: str, shape: Shape, heads: int, strides: tuple[int, ...] = ()
) -> dict[str, object]:
    """Returns the strides in vec4 of batches, heads, rows and slices; for the result also the
    number of slices of a head. `strides` are the strides of the tensor's axes, by default those in
    device storage."""
    strides = strides or vector_strides(shape)
    if len(shape) == 4:
        batch, head, row, slice_ = strides
        first = 0
    else:
        batch, row, slice_ = strides
        first = -(-shape[2] // heads // 4)
        head = first * slice_
    found = {"batch": batch, "head": head, "row": row, "slice": slice_}
    if name == "y":
        found["first"] = first
    return {f"{name}_{what}": step for what, step in found.items()}


def spread_steps(name: str, shape: Shape) -> dict[str, object]:
    """Returns the strides of `steps_of` for a tensor that broadcasts to all heads: 0 along
    broadcast axes."""
    strides = vector_strides(shape)
    outer = [0 if e == 1 else s for e, s in zip(shape[:-1], strides[:-1], strict=True)]
    batch, head, row = ([0] * 3 + outer)[-3:]
    found = {"batch": batch, "head": head, "row": row, "slice": strides[-1]}
    return {f"{name}_{what}": step for what, step in found.items()}


def decompose(steps: Decomposition, node: Node) -> bool:
    """Moves heads that do not begin at a vec4 to a separate axis, and expands a mask to all
    keys."""
    q, k, v = split(steps.graph, node)
    mask = node.inputs[MASK] if len(node.inputs) > MASK else None
    short = mask is not None and steps.shape(mask)[-1:] != k[2:3]
    given = (*_operands(node), node.outputs[0])
    held = zip(given, (q, k, v, (*q[:3], v[3])), strict=True)
    packed = any(len(steps.shape(t)) == 3 and s[1] > 1 and s[3] % 4 != 0 for t, s in held)
    if not (short or packed):
        return False
    if short:
        assert mask is not None
        shape = (*steps.shape(mask)[:-1], k[2])
        mask = steps.add("expand", mask, steps.indices(shape))
    attributes = {**node.attributes}
    inputs = [*node.inputs[:3], mask, *node.inputs[LENGTHS:]]
    if not packed:
        steps.last("attention", *inputs, **attributes)
        return True
    for position, (tensor, shape) in enumerate(zip(_operands(node), (q, k, v), strict=True)):
        if len(steps.shape(tensor)) == 3:
            batch, heads, _, depth = shape
            split_ = steps.reshape(tensor, (batch, -1, heads, depth))
            inputs[position] = steps.add("transpose", split_, perm=(0, 2, 1, 3))
    made = steps.add("attention", *inputs, **attributes | {"joined": False})
    if len(steps.shape(node.outputs[0])) == 3:
        turned = steps.add("transpose", made, perm=(0, 2, 1, 3))
        steps.last("reshape", turned, None, shape=shapes(steps.graph, node)[0])
    return True


def _work(graph: Graph, node: Node) -> int:
    q, k, v = split(graph, node)
    return prod(q[:3]) * k[2] * (q[3] + v[3])


ATTRIBUTES = "causal empty heads joined keys kv_heads mends past? scale! softcap window"
OPS = (
    Op("attention", refuse, shapes, FORMS, "accumulate", types=("f32", "i32"), work=_work,
       kind="product", by_head=True, takes_rows=3, fuses=True, decompose=decompose,
       accumulates=False, operands="xxx??"),
)  # fmt: skip
