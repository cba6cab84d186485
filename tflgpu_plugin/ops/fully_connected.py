"""Fully connected: x [..., I], weights [O, I] -> [N, O].

With keep_num_dims the result is x.shape[:-1] + [O].
"""

from __future__ import annotations

from functools import partial
from math import prod

from tflgpu_plugin.ir import Geometry, Graph, Node, Refusal, Shape, Target
from tflgpu_plugin.ops import rounding, split_depth
from tflgpu_plugin.ops.blocks import Blocks, convolve, operands, refuse_epilogue, work
from tflgpu_plugin.ops.decompose import Decomposition
from tflgpu_plugin.ops.lowering import MAX_LOOP_ROUNDS, Access, Lowering, Source
from tflgpu_plugin.ops.table import Op, Weights
from tflgpu_plugin.ops.tiles import Tile, choose_tile, loads_ahead

CHUNK = 1 << 15  # input slices per inner loop; a multiple of the 8 lanes that split them
KEPT = 4  # dimensions
MANY_ROWS = 8  # from here on rows are treated as the pixels of a 1x1 convolution


def _refuse(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """A weight matrix; no fused tanh."""
    x, weights = operands(graph, node)
    if len(weights) != 2 or min(prod(x), prod(weights)) < 1:
        return Refusal(
            "shape.unsupported", f"Weights of shape {list(weights)} are not a matrix with elements."
        )
    outputs, inputs = weights
    if prod(x) % inputs:
        return Refusal(
            "shape.mismatch", f"{prod(x)} input elements do not divide into rows of {inputs}."
        )
    if node.attributes.get("keep_num_dims"):
        if not x or x[-1] != inputs:
            said = f"An input of shape {list(x)} does not end with the {inputs} inputs of a row."
            return Refusal("shape.mismatch", said)
    return refuse_epilogue(graph, node, outputs)


def _shapes(graph: Graph, node: Node) -> list[Shape]:
    x, (outputs, inputs) = operands(graph, node)
    if node.attributes.get("keep_num_dims"):
        return [(*x[:-1], outputs)]
    return [(prod(x) // inputs, outputs)]


def _decompose(steps: Decomposition, node: Node) -> bool:
    """More dimensions than rows have in memory are joined, and parted again."""
    weights, *bias = node.inputs[1:]
    shape = steps.shape(node.operand())
    if not node.attributes.get("keep_num_dims") or len(shape) <= KEPT:
        return False
    rows = steps.reshape(node.operand(), (prod(shape[:-1]), shape[-1]))
    given = {**node.attributes, "keep_num_dims": False}
    made = steps.editor.tensor((), like=node.outputs[0])
    steps.put(made, "fully_connected", rows, weights, *bias, **given)
    steps.last("reshape", made, None, shape=steps.shape(node.outputs[0]))
    return True


def _lower(low: Lowering, node: Node) -> None:
    x, (_, inputs) = operands(low.graph, node)
    rows = prod(x) // inputs
    multiply_rows(low, node, rows=rows, pixels=low.geometry(node.outputs[0]).spatial)


def multiply_rows(low: Lowering, node: Node, *, rows: int, pixels: int) -> None:
    """The node's output = its input [rows, I] times weights [O, ..., I] transposed.

    `pixels` is the output's extent between batch and channels (rows are batch-major over it).
    """
    source, weights = node.operand(), node.operand(1)
    shape = low.graph.shape(weights)
    outputs, inputs = shape[0], shape[-1]
    x = low.geometry(source)
    flat = x.channels != inputs
    if are_many(x) and not flat and inputs <= MAX_LOOP_ROUNDS:
        multiply_many(low, node, shape, rows, pixels)
        return
    parameters: dict[str, object] = {
        "inputs": inputs,
        "input_slices": -(-inputs // 4),
        "chunk": CHUNK,
        "x_pixels": x.spatial,
        "x_slices": x.slices,
        "x_channels": x.channels,
        "y_pixels": pixels,
        "y_slices": -(-outputs // 4),
    }
    shared = low.target.shuffles
    lanes = 8 if low.target.software else low.target.workgroup(32)
    slices_in = -(-inputs // 4)
    ahead = 1 if flat else loads_ahead(low.target)
    low.loops(node, (-(-slices_in // 8) if shared else slices_in) + 3 + 2 * slices_in // CHUNK)
    each = lanes // 8 if shared else lanes  # output slices of a workgroup
    for first, last, part in low.stored_parts(weights, (outputs, inputs), 8):
        slices = -(-(last - first) // 4)
        low.dispatch(
            "fully_connected",
            node,
            reads={"x": Access(source, view=1 if flat else 4), "w": part},
            writes={"y": node.outputs[0]},
            workgroups=(-(-slices // each), rows, 1),
            parameters={
                **parameters,
                "outputs": last - first,
                "slices": slices,
                "first_slice": first // 4,
            },
            variant={"shared": shared, "flat": flat, "lanes": lanes, "ahead": ahead},
        )


def are_many(x: Geometry) -> bool:
    """Whether rows in this storage make a plane for `multiply_many`."""
    return x.batch * x.spatial >= MANY_ROWS and (x.spatial == 1 or x.spatial >= MANY_ROWS)


def tiled(low: Lowering, x: Geometry, shape: Shape) -> tuple[Tile, Blocks]:
    """How `multiply_many` goes about weights of this shape [O, ..., I], and their order."""
    tile = choose_tile(low.target, -(-shape[0] // 4), x.batch if x.spatial == 1 else x.spatial)
    return tile, Blocks(shape[0], 1, shape[-1], 1, tile.slices)


def multiply_many(
    low: Lowering, node: Node, shape: Shape, rows: int, pixels: int, packed: Source | None = None
) -> None:
    """The same as a 1x1 convolution whose pixels are the rows of each plane of x's storage, with
    weights of this shape [O, ..., I]: the node's, or those `packed` as `tiled` has them."""
    x, slices = low.geometry(node.operand()), -(-shape[0] // 4)
    planes, plane_rows = (1, rows) if x.spatial == 1 else (x.batch, x.spatial)
    tile, blocks = tiled(low, x, shape)
    given: dict[str, object] = {
        "y_slice": pixels,
        "x_pixel": x.slices if x.spatial == 1 else 1,
        "y_pixel": slices if pixels == 1 else 1,
        "w_batch": 0,
    }
    launched = partial(convolve, kernel="conv", packed=packed) if packed else split_depth.lower
    launched(
        low, node, blocks, tile, taps="point", pixels=plane_rows, planes=planes, x_slice=x.spatial,
        parameters=given,
    )  # fmt: skip


ATTRIBUTES = "activation keep_num_dims rounds_once"
OPS = (
    Op("fully_connected", _refuse, _shapes, _lower, "accumulate", work=work, kind="product",
       operands=3, decompose=_decompose, fuses=True,
       weights=Weights(flattens=True), accumulates=False, rounding=rounding.MATMUL),
)  # fmt: skip
