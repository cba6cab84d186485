"""Split-K for convolutions of small feature maps: each thread computes the products of a part of
the input channels, so that a GPU has enough threads. A second launch, or that of the next
normalization, adds the partial sums, which stay float32 or integers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tflgpu_plugin import ops
from tflgpu_plugin.ir import Array, Node, Target
from tflgpu_plugin.ir.heuristics import heuristic
from tflgpu_plugin.ir.symbolic import is_one
from tflgpu_plugin.ops.blocks import Blocks, pieces
from tflgpu_plugin.ops.forms import Form, Problem
from tflgpu_plugin.ops.lowering import Constant, Kernel, Launch, Lowering, Stores
from tflgpu_plugin.ops.packing import VECTOR_BYTES
from tflgpu_plugin.ops.product import STAGE, Product, multiply
from tflgpu_plugin.ops.tiles import Tile, larger

# Least iterations of a thread for which another launch pays, and least iterations of a part; the
# same where the product has at most a quarter of the threads that fill the GPU (with subgroups of
# 64 lanes: as many).
MIN_SERIAL, MIN_PART = 256, 32
IDLE, FEW_SERIAL, FEW_PART = 4, 64, 16
MAX_PARTS = 16


def form(made: Callable[[Problem], tuple[Lowering, Node, Product]]) -> Form[Problem]:
    """Returns the split-K form for a family; `made` converts a problem of the family to a
    product."""
    return Form(
        "split_k",
        lambda problem: _divides(*made(problem)) and _parts(*made(problem), forced=True) > 1,
        lambda problem: _lower(*made(problem)),
        lambda problem: _parts(*made(problem)) > 1,
    )


def _divides(low: Lowering, node: Node, product: Product) -> bool:
    """Whether the product is one of constant weights with all input channels."""
    matters = not low.target.software or low.target.prefers("split_k")
    whole = product.blocks.groups <= 1 and is_one(product.address.planes, matters)
    constant = low.graph.constant(node.operand(1)) is not None
    return whole and constant


@heuristic
def _parts(low: Lowering, node: Node, product: Product, forced: bool = False) -> int:
    """Returns how many parts the input channels are split into, a power of two: as many as pay (1:
    no split) or, if `forced`, as many as possible."""
    blocks, tile = product.blocks, product.tile
    if low.target.software and not forced:
        return 1
    serial = blocks.taps * -(-blocks.depth // tile.step)
    threads = -(-product.address.pixels // tile.pixels) * blocks.count
    few = IDLE * threads * 32**2 <= low.target.threads * low.target.workgroup(32) ** 2
    cheap = few or added_by_the_next(low, node)
    # "serial": the iterations that another launch costs on this device, in place of FEW_SERIAL.
    shared = int(low.target.tuning.get("serial", FEW_SERIAL))
    least, left = (FEW_SERIAL, FEW_PART) if cheap else (MIN_SERIAL, MIN_PART)
    least, left = least * shared // FEW_SERIAL, left * shared // FEW_SERIAL
    found = 1
    # Windows are computed tap by tap: loads made at once belong to one tap.
    together = tile.step * (tile.ahead if blocks.taps > 1 and not forced else 1)
    while (
        found < MAX_PARTS
        and blocks.depth % (8 * found) == 0
        and blocks.depth >= 2 * found * together
        and (forced or (threads * found < low.target.threads and serial >= 2 * found * left))
    ):
        found *= 2
    fits = blocks.count * blocks.block_vectors * VECTOR_BYTES <= low.target.storage_bytes
    return found if fits and (forced or serial >= least) else 1


def added_by_the_next(low: Lowering, node: Node) -> bool:
    """Whether the next node adds the partial sums in its own launch (see `taken`)."""
    after = low.following.get(node.outputs[0])
    adds = after is not None and ops.traits(after.op).adds_parts
    return bool(after and adds and after.inputs[0] == node.outputs[0])


def _planned(low: Lowering, node: Node, product: Product) -> tuple[Tile, int]:
    """Returns the tile of each part and the number of parts. A split 1x1 convolution has more
    threads than it needs, so each may compute more pixels, with fewer loads per product."""
    blocks, tile = product.blocks, product.tile
    paying = 1 if low.target.prefers("split_k") else _parts(low, node, product)
    count = paying if paying > 1 else _parts(low, node, product, forced=True)
    if tile.weights == "memory":
        return _staged(low.target, product, count)
    if blocks.taps > 1:
        return tile, count
    for large in larger(low.target, tile, product.address.pixels):
        many = count * large.pixels // tile.pixels
        serial = blocks.depth // (many * large.step)
        if many <= MAX_PARTS and blocks.depth % (4 * many) == 0 and serial >= FEW_PART:
            return large, many
    return tile, count


@heuristic
def _staged(target: Target, product: Product, count: int) -> tuple[Tile, int]:
    """Returns the same where weights are in workgroup memory, which a thread of more pixels reads
    less often per product. It pays if half of the lanes that fill the GPU are left to hide latency,
    or three quarters in float16, whose weights take less to read."""
    blocks, tile, pixels = product.blocks, product.tile, product.address.pixels
    quarters = 3 if target.half and target.tuning.get("half_products") != "never" else 2
    for large in larger(target, tile, pixels):
        many = count * large.pixels // tile.pixels
        whole = many <= MAX_PARTS and blocks.depth % (STAGE * large.step * many) == 0
        many = many if whole else count
        groups = -(-pixels // (large.pixels * large.lanes)) * blocks.count * many
        if groups * large.lanes >= target.threads * quarters // 4:
            return large, many
    return tile, count


def _lower(low: Lowering, node: Node, product: Product) -> None:
    """Records two launches: the parts, as planes of one product, and their sum."""
    tile, count = _planned(low, node, product)
    part = replace(product.blocks, depth=product.blocks.depth // count)
    address = product.address.given(w_batch=part.count * part.block_vectors)
    if address.taps != "point":
        address = address.given(tap_vectors=part.tap_vectors)
    vectors = low.geometry(node.outputs[0]).vectors
    sums, weights = low.temporary(count * vectors), _weights(low, node, part, count)
    address = address._replace(planes=count)
    multiply(low, node, Product(part, tile, address, packed=weights, target=sums, split=True))
    add_parts(low, node, sums, count)


def add_parts(
    low: Lowering, node: Node, sums: int, count: int, table: Constant | None = None
) -> None:
    """Records the launch that adds this many parts, which are one after the other in `sums`.
    `table`: see `Stores`."""
    low.loops(node, count)
    part_size, variant = {"part": low.geometry(node.outputs[0]).vectors}, {"parts": count}
    low.each_vector(
        Kernel("sum_parts", part_size, variant),
        node,
        {"parts": sums},
        writes=("y",),
        stores=Stores(table=table),
    )


def parts(low: Lowering, node: Node, product: Product) -> int:
    """Returns how many parts of a product with constant weights pay (1: no split)."""
    return _parts(low, node, product) if _divides(low, node, product) else 1


def taken(low: Lowering, reader: Node) -> Launch | None:
    """Returns the last launch if it adds the partial sums of a tensor that `reader` reads: the
    launch of the reader can add them itself, with the steps fused into it. Returns None
    otherwise."""
    if not low.launches or low.launches[-1].kernel != "sum_parts":
        return None
    last, x = low.launches[-1].node, reader.operand()
    steps = [low.root(e.tensor) for e in (*last.epilogue, *reader.epilogue) if e.tensor is not None]
    fits = len(steps) + 3 <= low.target.max_storage_buffers  # parts, their sum, the result
    small = not any(each.parameters for each in last.epilogue)  # they need a uniform block
    summed = low.root(last.outputs[0])
    same = low.root(x) == summed and low.geometry(x) == low.geometry(last.outputs[0])
    return low.launches[-1] if fits and small and same and summed not in steps else None


def _weights(low: Lowering, node: Node, part: Blocks, count: int) -> Constant:
    """Returns weights as [part][block][tap][channel][slice] of vec4 over outputs."""

    def pack(data: Array) -> Iterator[Array]:
        for k in range(count):
            channels = data[..., k * part.depth : (k + 1) * part.depth]
            yield from pieces(channels, part, 0, part.count)

    vectors = count * part.count * part.block_vectors
    return low.constant(
        node.operand(1), "split", part, count, vectors=vectors, pack=pack, half=True
    )
