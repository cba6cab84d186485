"""Fully connected: x [..., I], weights [O, I] -> [N, O], or x.shape[:-1] + [O] with
`keep_num_dims`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

from tflgpu_plugin.ir import Geometry, Graph, Node, Refusal, Shape, Target
from tflgpu_plugin.ir.heuristics import heuristic
from tflgpu_plugin.ops import byte_products, rounding, row_norms, split_depth, wide_total
from tflgpu_plugin.ops.blocks import Blocks, operands, refuse_epilogue, work
from tflgpu_plugin.ops.decompose import Decomposition
from tflgpu_plugin.ops.forms import Form, Forms, always
from tflgpu_plugin.ops.lowering import MAX_LOOP_ROUNDS, Access, Kernel, Lowering
from tflgpu_plugin.ops.product import Addressing, Product, multiply
from tflgpu_plugin.ops.table import Op, Weights
from tflgpu_plugin.ops.tiles import Tile, choose_tile, loads_ahead, multiplies_bytes, team_of

CHUNK = 1 << 15  # input slices per inner loop; a multiple of what a team loads at once
KEPT = 4  # highest rank of an input with keep_num_dims
MANY_ROWS = 8  # from this number on, rows are treated as the pixels of a 1x1 convolution


def _refuse(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires a weight matrix; an input that divides into rows of its width; no fused tanh."""
    x, weights = operands(graph, node)
    if len(weights) != 2 or 0 in (*x, *weights):
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
    """Flattens the leading dimensions of inputs of higher rank than the kernel supports, and
    restores them after the product."""
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


# ---- forms ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rows:
    """A matrix product: the node's output is its input [`rows`, I] times weights [O, ..., I]
    transposed. `pixels` is the output's extent between batch and channels (rows are batch-major
    over it)."""

    low: Lowering
    node: Node
    rows: int
    pixels: int

    @classmethod
    def of(cls, low: Lowering, node: Node) -> Rows:
        """Returns the matrix product of this node."""
        x, (_, inputs) = operands(low.graph, node)
        return cls(low, node, prod(x) // inputs, low.geometry(node.outputs[0]).spatial)

    @cached_property
    def product(self) -> Product:
        return as_point(self, self.shape)

    @property
    def shape(self) -> Shape:
        """Returns the shape of the weights."""
        return self.low.graph.shape(self.node.operand(1))

    @property
    def x(self) -> Geometry:
        return self.low.geometry(self.node.operand())

    @property
    def flat(self) -> bool:
        """Whether rows of the product are not rows in the input's storage."""
        return self.x.channels != self.shape[-1]


def _multiply_rows(r: Rows) -> None:
    """Records one launch with a thread, or a team of them, per row and slice of outputs."""
    low, node, x, flat = r.low, r.node, r.x, r.flat
    outputs, inputs = r.shape[0], r.shape[-1]
    slices_in = -(-inputs // 4)
    normed = (
        None if flat else row_norms.taken(low, node, r.rows * outputs * inputs, node.operand(1))
    )
    parameters: dict[str, object] = {
        "inputs": inputs,
        "input_slices": slices_in,
        "chunk": CHUNK,
        "x_pixels": x.spatial,
        "x_slices": x.slices,
        "x_channels": x.channels,
        "y_pixels": r.pixels,
        "y_slices": -(-outputs // 4),
        **(normed.parameters if normed else {}),
    }
    given = normed.reads if normed else {"x": Access(node.operand(), view=1 if flat else 4)}
    ahead = 1 if flat else loads_ahead(low.target)
    team = team_of(low.target, slices_in // ahead, -(-outputs // 4) * r.rows)
    lanes = 8 if low.target.software else max(team, low.target.workgroup(32))
    low.loops(node, -(-slices_in // team) + 3 + 2 * slices_in // CHUNK)
    each = lanes // team  # output slices of a workgroup
    for first, last, part in low.stored_parts(node.operand(1), (outputs, inputs), 8):
        slices = -(-(last - first) // 4)
        here = {"outputs": last - first, "slices": slices, "first_slice": first // 4}
        low.dispatch(
            Kernel(
                "fully_connected",
                {**parameters, **here},
                {
                    "team": team,
                    "shuffled": low.target.shuffles,
                    "flat": flat,
                    "lanes": lanes,
                    "ahead": ahead,
                    **(normed.variant if normed else row_norms.PLAIN),
                },
            ),
            node,
            {**given, "w": part},
            {"y": node.outputs[0]},
            (-(-slices // each), r.rows, 1),
        )


@heuristic
def are_many(x: Geometry) -> bool:
    """Whether there are so many rows that the layer is faster as a convolution whose pixels are the
    rows."""
    return x.batch * x.spatial >= MANY_ROWS and (x.spatial == 1 or x.spatial >= MANY_ROWS)


def tiled(low: Lowering, x: Geometry, shape: Shape) -> tuple[Tile, Blocks]:
    """Returns the tile and the weight order of a product whose rows are pixels, for weights [O,
    ..., I]."""
    tile = choose_tile(low.target, -(-shape[0] // 4), x.batch if x.spatial == 1 else x.spatial)
    return tile, Blocks(shape[0], 1, shape[-1], 1, tile.slices)


def as_point(r: Rows, shape: Shape) -> Product:
    """Returns the product as a 1x1 convolution with the same weights, whose pixels are the rows of
    each plane in x's storage."""
    x, slices = r.x, -(-shape[0] // 4)
    planes, plane_rows = (1, r.rows) if x.spatial == 1 else (x.batch, x.spatial)
    tile, blocks = tiled(r.low, x, shape)
    given: dict[str, object] = {
        "y_slice": r.pixels,
        "x_pixel": x.slices if x.spatial == 1 else 1,
        "y_pixel": slices if r.pixels == 1 else 1,
        "w_batch": 0,
    }
    return Product(blocks, tile, Addressing("point", plane_rows, planes, x.spatial, given))


def _rows_are_pixels(r: Rows) -> bool:
    return not r.flat and r.shape[-1] <= MAX_LOOP_ROUNDS


_split: Form[Rows] = split_depth.form(lambda r: (r.low, r.node, r.product))


def _in_bytes(r: Rows) -> tuple[Lowering, Node, Product] | None:
    """Returns the product of many rows; of few, too, where a launch of words in workgroup memory is
    faster than rows of float32."""
    suits = are_many(r.x) or multiplies_bytes(r.low.target)
    return (r.low, r.node, r.product) if _rows_are_pixels(r) and suits else None


PRODUCTS: tuple[Form[Rows], ...] = (
    byte_products.form(_in_bytes),
    replace(_split, suits=lambda r: _rows_are_pixels(r) and are_many(r.x) and _split.suits(r)),
    Form("point", _rows_are_pixels, lambda r: multiply(r.low, r.node, r.product),
         lambda r: are_many(r.x)),
    Form("rows_product", always, _multiply_rows),
)  # fmt: skip


ATTRIBUTES = "activation keep_num_dims rounds_once"
OPS = (
    Op("fully_connected", _refuse, _shapes, Forms(Rows.of, PRODUCTS), "accumulate", work=work,
       kind="product", operands="xx?", decompose=_decompose, fuses=True, output_rows=(1,),
       weights=Weights(flattens=True),
       int16=wide_total.layers(0), accumulates=False, rounding=rounding.MATMUL),
)  # fmt: skip
