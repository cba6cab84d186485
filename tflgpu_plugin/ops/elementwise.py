"""Shared by elementwise families: numpy broadcasting, and the launch of an expression over a vec4
of two or three operands. `kernels/binary.wgsl` loads an operand in place (stored like the output),
or by slices (an affine index; lane 0 is broadcast if the operand has one channel)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from math import prod

from tflgpu_plugin import ops
from tflgpu_plugin.ir import (
    UNSIGNED,
    EpilogueOp,
    Graph,
    Node,
    Refusal,
    Shape,
    ShapeError,
    geometry,
)
from tflgpu_plugin.ir.symbolic import always_equal, equal_by_example
from tflgpu_plugin.ops.axes import Axis, merged
from tflgpu_plugin.ops.decompose import Decomposition
from tflgpu_plugin.ops.epilogue import spread
from tflgpu_plugin.ops.lowering import Access, Kernel, Lowering
from tflgpu_plugin.ops.movement import MAX_AXES, vector_strides
from tflgpu_plugin.ops.unknown import CHOOSES, UNKNOWN, where_unknown

NAMES = "abc"  # operands in the kernel
VALUES = "vew"  # their values in an expression


def broadcast(*shapes: Shape) -> Shape:
    """Returns the common shape, aligned from the right. Raises ShapeError if there is none."""
    rank = max(map(len, shapes))
    found = []
    for extents in zip(*(_ranked(shape, rank) for shape in shapes), strict=True):
        longer = _distinct(extents)
        if len(longer) > 1:
            longer = [extent for extent in longer if extent != 1]
        if any(extent != longer[0] for extent in longer[1:]):
            listed = " and ".join(str(list(shape)) for shape in shapes)
            raise ShapeError(f"shapes {listed} cannot be broadcast together")
        found.append(longer[0] if longer else 1)
    return tuple(found)


def _distinct(extents: Sequence[int]) -> list[int]:
    """Returns the extents that may differ from 1, without those that surely equal others."""
    found: list[int] = []
    for extent in extents:
        if not any(always_equal(extent, other) for other in (1, *found)):
            found.append(extent)
    return found


def spreads(given: Shape, shape: Shape) -> bool:
    """Whether a tensor of one shape broadcasts to another."""
    pairs = zip(given[::-1], shape[::-1], strict=False)
    return len(given) <= len(shape) and all(n in (1, extent) for n, extent in pairs)


def shapes(graph: Graph, node: Node) -> list[Shape]:
    return [broadcast(*(graph.shape(tensor) for tensor in operands(node)))]


def broadcast_refusal(graph: Graph, node: Node) -> Refusal | None:
    """Refuses inputs that do not broadcast together."""
    try:
        shapes(graph, node)
    except ValueError as error:
        return Refusal("shape.mismatch", f"{node.op}: {error}.")
    return None


def _together(shape: Shape, operands: Sequence[Shape]) -> list[slice]:
    """Returns ranges of adjacent axes of the result that can be merged: along the axes of a range,
    each operand either has all elements or is broadcast."""
    ranked = [_ranked(operand, len(shape)) for operand in operands]
    long = [k for k, extent in enumerate(shape) if extent != 1]
    alike = groupby(long, key=lambda k: [extents[k] == 1 for extents in ranked])
    starts = [next(group) for _, group in alike]
    return [slice(a, b) for a, b in zip([0, *starts[1:]], [*starts[1:], len(shape)], strict=True)]


def decompose_spread(steps: Decomposition, node: Node) -> bool:
    """Merges axes with the same broadcasting if there are more than the kernel supports."""
    shape, given = steps.shape(node.outputs[0]), operands(node)
    shapes = [steps.shape(tensor) for tensor in given]
    spread = any(prod(s) != 1 and not _in_place(s, shape) for s in shapes)
    if len(shape) <= MAX_AXES or not spread:
        return False
    groups = _together(shape, shapes)
    if len(groups) > MAX_AXES:
        wide = [steps.add("expand", tensor, steps.indices(shape)) for tensor in given]
        steps.last(node.op, *wide, **node.attributes)
        return True
    inputs = [
        steps.reshape(tensor, [prod(_ranked(operand, len(shape))[group]) for group in groups])
        for tensor, operand in zip(given, shapes, strict=True)
    ]
    made = steps.editor.tensor((), like=node.outputs[0])
    steps.put(made, node.op, *inputs, **node.attributes)
    steps.last("reshape", made, None, shape=shape)
    return True


def lower_pair(
    low: Lowering,
    node: Node,
    expression: str,
    numbers: Mapping[str, object] | None = None,
    checked: str = "",
    refused: str = "",
) -> None:
    """Records a launch of `expression` on the inputs, broadcast to the output: WGSL over their vec4
    `v`, `e` and, with three inputs, `w`. `numbers` are further parameters that it uses. `checked`
    and `refused` are conditions over the same variables (a vec4 of bool) that flag the run as
    failed where they are true in lanes that hold channels."""
    shape = low.graph.shape(node.outputs[0])
    reads: dict[str, Access] = {}
    modes: list[str] = []
    spread: dict[str, Shape] = {}
    for name, tensor in zip(NAMES, operands(node), strict=False):
        operand = low.graph.shape(tensor)
        modes.append("same" if _in_place(operand, shape) else "slice")
        reads[name] = Access(low.stored(tensor))
        if modes[-1] == "slice":
            spread[name] = operand
    rank, parameters = _slice_strides(shape, spread) if spread else (0, {})
    parameters |= numbers or {}
    expression, checked = _with_unknown(low, node, expression, checked)
    flags = bool(checked or refused)
    parameters |= {"channels": low.geometry(node.outputs[0]).channels} if flags else {}
    variant = {
        "operands": list(zip(NAMES, VALUES, modes, strict=False)),
        "rank": rank,
        "expression": expression,
        "checked": checked,
        "refused": refused,
    }
    low.each_vector(
        Kernel("binary", parameters, variant),
        node,
        reads,
        writes=("y",),
        checked=flags,
    )


def _with_unknown(low: Lowering, node: Node, expression: str, checked: str) -> tuple[str, str]:
    """Returns the expression and its check, extended for int64 operands or results that may be the
    special value of a number beyond int32 (see `ops.unknown`)."""
    given = [value for value, t in zip(VALUES, operands(node), strict=False) if t in low.unflagged]
    made, chooses = node.outputs[0] in low.unflagged, ops.rows()[node.op].unknown == CHOOSES
    if chooses:
        return expression, where_unknown([expression]) if given and not made else checked
    if not made or not (given or checked):
        return expression, checked
    bad = " | ".join(filter(None, (where_unknown(given), checked and f"({checked})")))
    return f"select({expression}, {UNKNOWN}, {bad})", ""


def overflow(low: Lowering, node: Node, whole: str) -> str:
    """Returns a WGSL condition that is true where this integer expression exceeds int32, or is
    negative and the type is unsigned; "" if hosts compute in int32, too."""
    dtype = low.graph.tensors[node.outputs[0]].dtype
    if dtype not in ("i64", *UNSIGNED):
        return ""
    near = re.sub(r"\b([ve])\b", r"vec4f(\1)", whole)
    beyond = f"beyond_int32({near}, {whole})"
    return f"{beyond} | (({whole}) < vec4i())" if dtype in UNSIGNED else beyond


def lower_step(low: Lowering, node: Node, step: EpilogueOp) -> None:
    """Records a launch that copies the first input and applies a fused step to it."""
    stepped = replace(node, epilogue=(step, *node.epilogue))
    low.each_vector(
        Kernel("unary"),
        stepped,
        {"x": low.stored(node.operand())},
        writes=("y",),
    )


def pair_epilogue(
    first: str | None, second: str | None
) -> Callable[[Graph, Node, int], EpilogueOp | None]:
    """Returns the rule that converts a node with two operands to a fused step. The step's name is
    `first` if the producer's value is the first operand, `second` if it is the second; None means
    that it cannot be fused."""

    def rule(graph: Graph, node: Node, position: int) -> EpilogueOp | None:
        name = f"{node.op}_nan" if node.attributes.get("nan") else (first, second)[position]
        other = node.inputs[1 - position]
        if name is None or other is None or spread(graph, other, node.outputs[0]) is None:
            return None
        value = graph.constant(other)
        if value is None or value.size != 1:
            return EpilogueOp(name, other)
        single = float(value.reshape(-1)[0])  # a parameter, which needs no buffer
        return EpilogueOp(name, None, (single,))

    return rule


def operands(node: Node) -> list[int]:
    """Returns the inputs of an elementwise node. Raises ValueError if one is absent."""
    found = [tensor for tensor in node.inputs if tensor is not None]
    if len(found) != len(node.inputs) or len(found) > len(NAMES):
        raise ValueError(f"node {node.id} ({node.op}) has {len(found)} operands")
    return found


def _ranked(shape: Shape, rank: int) -> Shape:
    return (1,) * (rank - len(shape)) + shape


def _in_place(operand: Shape, shape: Shape) -> bool:
    """Whether an operand is stored exactly like the output."""
    same = equal_by_example(_ranked(operand, len(shape)), shape)
    return same and equal_by_example(geometry(operand), geometry(shape))


def _steps(operand: Shape, shape: Shape, strides: Sequence[int]) -> list[int]:
    """Returns the operand's stride along each axis of the output, 0 along axes where it is
    broadcast."""
    lead = len(shape) - len(operand)
    own = [0] * lead + list(strides)
    return [
        0 if extent == 1 else step
        for extent, step in zip(_ranked(operand, len(shape)), own, strict=True)
    ]


def _slice_strides(shape: Shape, spread: Mapping[str, Shape]) -> tuple[int, dict[str, object]]:
    """Returns the number of axes that the kernel loops over, and its parameters: the extents, and
    each operand's strides."""
    if len(shape) > MAX_AXES:  # row-major: only a single value is broadcast
        one_value: dict[str, object] = {f"{name}_k0": 0 for name in spread}
        return 1, one_value | {"d0": 1} | {f"{name}_spread": 1 for name in spread}
    # Slowest in device storage first: batch, channel slices, space.
    rank = len(shape)
    order = range(rank) if rank < 2 else (0, rank - 1, *range(1, rank - 1))
    slices = -(-shape[-1] // 4) if shape else 1
    extents = [slices if k == len(shape) - 1 else shape[k] for k in order]
    own = [_steps(operand, shape, vector_strides(operand)) for operand in spread.values()]
    rows = [
        tuple(Axis(extent, steps[k]) for steps in own)
        for extent, k in zip(extents, order, strict=True)
    ]
    axes = merged(rows) or [(Axis(1),) * len(spread)]
    found: dict[str, object] = {f"d{k}": row[0].extent for k, row in enumerate(axes)}
    for number, (name, operand) in enumerate(spread.items()):
        found |= {f"{name}_k{k}": row[number].stride for k, row in enumerate(axes)}
        one = bool(shape) and (not operand or (operand[-1] == 1 and shape[-1] != 1))
        found[f"{name}_spread"] = int(one)
    return len(axes), found
