"""Squeeze-and-excitation in one launch: the means of a map's channels, and two dense layers that
compute a gate per channel (J. Hu and others, "Squeeze-and-Excitation Networks", 2018, equations 2
and 3).

`squeeze_excite(x [B, ..., C], w [H, 1, 1, C], bias [H]|None, v [D, 1, 1, H])` -> gates [B, 1, 1, D]
and the second layer's input [B, 1, 1, H]. `inner`: names and parameters of the steps after the
first layer and its bias; those after the second are the epilogue."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from tflgpu_plugin.ir import EpilogueOp, Graph, Node, Refusal, Shape, Target
from tflgpu_plugin.ir.symbolic import f32
from tflgpu_plugin.ops.blocks import Blocks, pack
from tflgpu_plugin.ops.lowering import Constant, Kernel, Lowering, Source, Stores
from tflgpu_plugin.ops.table import AVERAGED, Op

THREADS, SOFTWARE_THREADS = 256, 8
AHEAD, MAP_AHEAD = 4, 8  # loads that a GPU thread makes at once
# Work of one workgroup that takes about as long as two more launches: vec4 of a map and of the
# weights, and channels, which are in workgroup memory.
MAX_VECTORS, MAX_CHANNELS = 1 << 13, 1024
WEIGHTS, BIAS, SECOND = 1, 2, 3


def fits(x: Shape, inner: int, outputs: int) -> bool:
    """Whether one workgroup is fast enough for it."""
    slices = -(-x[-1] // 4)
    vectors = slices * prod(x[1:-1]) + inner * -(-(x[-1] + outputs) // 4)
    return max(x[-1], inner) <= MAX_CHANNELS and vectors <= MAX_VECTORS


def _extents(graph: Graph, node: Node) -> tuple[Shape, Shape, Shape]:
    """Returns the shapes of x and of both weights."""
    x, first, second = (graph.shape(node.operand(k)) for k in (0, WEIGHTS, SECOND))
    return x, first, second


def _refuse(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires constant weights that fit each other and are small enough for one workgroup."""
    x, first, second = _extents(graph, node)
    constant = all(graph.constant(node.operand(k)) is not None for k in (WEIGHTS, SECOND))
    fitting = first[1:] == (1, 1, x[-1]) and second[1:] == (1, 1, first[0])
    if not constant or not fitting or len(x) != 4 or prod(x) == 0:
        said = f"Weights of {list(first)} and {list(second)} do not fit {list(x)}."
        return Refusal("shape.mismatch", said)
    if fits(x, first[0], second[0]):
        return None
    return Refusal("shape.too_large", f"An input of {list(x)} is too large for one workgroup.")


def _shapes(graph: Graph, node: Node) -> list[Shape]:
    x, first, second = _extents(graph, node)
    return [(x[0], 1, 1, second[0]), (x[0], 1, 1, first[0])]


def _lower(low: Lowering, node: Node) -> None:
    """Records one launch with a workgroup per batch."""
    shape, first, second = _extents(low.graph, node)
    x, software = low.geometry(node.operand()), low.target.software
    threads = SOFTWARE_THREADS if software else THREADS
    inner, outs = -(-first[0] // 4), -(-second[0] // 4)
    parts = [(x.slices, x.spatial), (inner, x.slices), (outs, inner)]
    lanes = [_lanes(threads, results, count) for results, count in parts]
    low.loops(node, sum(
        -(-results * each // threads) * (-(-count // each) + each.bit_length() + 2) + 1
        for (results, count), each in zip(parts, lanes, strict=True)
    ))  # fmt: skip
    reads: dict[str, Source] = {
        "x": node.operand(),
        "w": _weights(low, node, WEIGHTS, first),
        "v": _weights(low, node, SECOND, second),
    }  # fmt: skip
    bias = node.inputs[BIAS]
    steps = [EpilogueOp(name, None, numbers) for name, numbers in node.attributes["inner"]]
    steps = [*([] if bias is None else [EpilogueOp("add", bias)]), *steps]
    low.dispatch(
        Kernel(
            "squeeze_excite",
            {
                "slices": x.slices,
                "spatial": x.spatial,
                "divisor": f32(x.spatial),
                "inner_slices": inner,
                "out_slices": outs,
                **dict(zip(("map_lanes", "inner_lanes", "out_lanes"), lanes, strict=True)),
            },
            {
                "threads": threads,
                "ahead": 1 if software else AHEAD,
                "map_ahead": 1 if software else MAP_AHEAD,
                "means": MAX_CHANNELS // 4,
                "inner": MAX_CHANNELS // 4,
            },
        ),
        node,
        reads,
        {"y": node.outputs[0], "inner": node.outputs[1]},
        (shape[0], 1, 1),
        stores=Stores(also=(replace(node, outputs=node.outputs[1:], epilogue=tuple(steps)),)),
    )


def _lanes(threads: int, results: int, count: int) -> int:
    """Returns how many lanes compute one result together, a power of two, for this number of
    results, each of `count` terms."""
    found = 1
    while found < min(threads, count) and (found < 8 or 2 * found * results <= threads):
        found *= 2
    return found


def _weights(low: Lowering, node: Node, position: int, shape: Shape) -> Constant:
    blocks = Blocks(shape[0], 1, shape[-1], 1, 1)
    return low.constant(
        node.operand(position),
        "squeeze_excite",
        vectors=blocks.count * blocks.block_vectors,
        pack=lambda data: pack(data, blocks, 0, blocks.count),
    )


def _work(graph: Graph, node: Node) -> int:
    x, first, second = _extents(graph, node)
    return prod(x) + x[0] * (prod(first) + prod(second))


ATTRIBUTES = "inner!"
OPS = (
    Op("squeeze_excite", _refuse, _shapes, _lower, "accumulate", work=_work, kind="product",
       fuses=True, operands="xx??", accumulates=False, errors=AVERAGED),
)  # fmt: skip
