"""3x3 convolution of stride 1 by Winograd's F(4x4, 3x3): 36 products for 16 pixels, not 144.

Three steps after Lavin and Gray (arXiv 1509.09308): the input's 6x6 patches are transformed, 36
matrix products run as 1x1 convolutions, each with its own weights, and the results are transformed
back. The points are 0, plus and minus the square roots of 1/2 and of 2, and infinity. Weights are
transformed here in float64. An infinite or NaN input spoils its patch instead of 3x3 pixels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

import numpy as np

from tflgpu_plugin import kernels
from tflgpu_plugin.ir import Array, Node, Shape, Target
from tflgpu_plugin.ir.heuristics import heuristic
from tflgpu_plugin.ir.symbolic import i32
from tflgpu_plugin.ops.blocks import Blocks, pack
from tflgpu_plugin.ops.convolution import Convolution
from tflgpu_plugin.ops.lowering import Constant, Kernel, Lowering, Source, Stores
from tflgpu_plugin.ops.packing import VECTOR_BYTES, pieces_of
from tflgpu_plugin.ops.product import Addressing, Product, multiply
from tflgpu_plugin.ops.tiles import Tile, choose_tile, rounds
from tflgpu_plugin.ops.window import Span

SIDE = 4  # pixels of one patch along an axis
SIX = 6
PLANES = SIX * SIX
DEEP = 32  # input channels; with fewer terms the rounding of the transforms would show
EPILOGUE = 4  # a thread's constant work, in input slices
INPUT, OUTPUT = 55, 43  # the transforms of 8 patches of one slice
MIN_WINOGRAD_GAIN = 1.3  # three more pipelines must save this factor
# Costs on a nominal GPU in multiply-adds: waiting for the previous launch, a byte of weights (by
# their makers' specifications GPUs do 11 to 15 while they read one from DRAM), and a byte that was
# just written, up to the size of the cache.
LAUNCH, MEMORY_BYTE, CACHE_BYTE, CACHED = 1 << 23, 12, 4, 16 << 20
MAX_WEIGHT_BYTES = 64 << 20  # bytes of a layer's transformed weights, 4 times the original
PAIRS_IN, PAIRS_OUT = 3, 2  # rows per GPU thread, of 6 and of 4
LANES = 16  # workgroup size of transforms on software adapters, where starting one is slow

# Rows: the kernel's polynomial at each point. The points lie around 1 on a logarithmic scale, which
# keeps rounding errors 3 to 4 times smaller than with 1, -1, 2, -2.
ROOT = 2.0**0.5
G = np.array(
    [
        [1, 0, 0],
        [-2 / 3, -ROOT / 3, -1 / 3],
        [-2 / 3, ROOT / 3, -1 / 3],
        [1 / 6, ROOT / 6, 1 / 3],
        [1 / 6, -ROOT / 6, 1 / 3],
        [0, 0, 1],
    ]
)


def patches(rows: Span, columns: Span) -> tuple[int, int]:
    """Returns the numbers of patches along height and width."""
    return -(-rows.positions // SIDE), -(-columns.positions // SIDE)


def suits(c: Convolution) -> bool:
    """Whether this convolution can be computed in this form."""
    if not c.flat or c.x[3] < DEEP or kernels.sums_integers(c.node.epilogue):
        return False
    plain = all(axis.stride == axis.dilation == 1 for axis in c.axes)
    if c.filters[1:3] != (3, 3) or c.groups > 1 or not plain or not c.constant:
        return False
    tile = _tile(c.low.target, _slices(c)[1], _count(c))
    most = c.low.target.storage_bytes
    return all(size <= most for size in _bytes(_count(c), _slices(c), tile))


@heuristic
def pays(c: Convolution) -> bool:
    """Whether this form is expected to be faster."""
    target, count, slices, maps = c.low.target, _count(c), _slices(c), (c.x[0], c.pixels)
    if target.software:
        return _faster_on_software(target, count, maps, slices)
    size = _bytes(count, slices, _tile(target, slices[1], count))
    return size[2] <= MAX_WEIGHT_BYTES and gained(target, count, maps, slices) > 0


def _count(c: Convolution) -> int:
    """Returns the number of patches in all images."""
    rows, columns = c.axes
    return c.x[0] * prod(patches(rows, columns))


def _slices(c: Convolution) -> tuple[int, int]:
    """Returns the numbers of slices of input and output."""
    return -(-c.x[3] // 4), -(-c.filters[0] // 4)


def gained(target: Target, count: int, maps: tuple[int, int], slices: tuple[int, int]) -> int:
    """Returns how many multiply-adds a GPU saves, including those of idle lanes, less those it
    could do during additional memory traffic and two more launches. Arguments: the number of
    patches, `maps` (their number, and the pixels of each), slices of input and output."""
    inputs, products, weights = _bytes(count, slices, _tile(target, slices[1], count))
    saved = 9 * maps[0] * multiplied(target, maps[1], slices)
    saved -= PLANES * multiplied(target, count, slices, PLANES)
    tensors = inputs + products  # each written and read
    moved = 2 * (tensors + max(0, tensors - CACHED)) * CACHE_BYTE
    moved += weights * (PLANES - 9) // PLANES * MEMORY_BYTE
    return saved - moved - 2 * LAUNCH


def _tile(target: Target, outputs: int, count: int) -> Tile:
    """Returns the tile of the products of `count` patches, whose planes fill the GPU together."""
    return choose_tile(target, outputs, count, planes=PLANES)


def multiplied(target: Target, pixels: int, slices: tuple[int, int], planes: int = 1) -> int:
    """Returns the number of multiply-adds of a 1x1 convolution, including those of idle lanes, if
    it is one of this many in a launch."""
    tile = choose_tile(target, slices[1], pixels, planes=planes)
    group = tile.lanes * tile.pixels
    blocks = -(-slices[1] // tile.slices)
    return -(-pixels // group) * group * slices[0] * blocks * tile.slices * 16


def _faster_on_software(
    target: Target, count: int, maps: tuple[int, int], slices: tuple[int, int]
) -> bool:
    """Whether Winograd is faster on software adapters. Compares estimated costs with constants
    measured on lavapipe. The unit is the work of a group of 8 lanes for one pixel per lane, one
    input slice and 8 output slices."""
    depth, outputs = slices
    direct, tile = _products(target, maps[1], outputs)
    products, small = _products(target, count, outputs)
    share = tile.slices / 8  # a thread that makes fewer slices has less to do per pixel
    plain = maps[0] * direct * (9 * depth + EPILOGUE) * share
    ours = PLANES * products * (depth + EPILOGUE) * small.slices / 8
    ours += -(-count // 8) * (INPUT * depth + OUTPUT * outputs)
    return ours * MIN_WINOGRAD_GAIN < plain


def _products(target: Target, pixels: int, outputs: int) -> tuple[int, Tile]:
    tile = choose_tile(target, outputs, pixels)
    return rounds(pixels, tile.pixels) * -(-outputs // tile.slices), tile


def _bytes(count: int, slices: tuple[int, int], tile: Tile) -> tuple[int, int, int]:
    """Returns the size in bytes of the transformed input, products and weights together."""
    blocks = -(-slices[1] // tile.slices)
    vectors = slices[0] * count, slices[1] * count, blocks * tile.slices * slices[0] * 4
    inputs, products, weights = (PLANES * n * VECTOR_BYTES for n in vectors)
    return inputs, products, weights


def lower(c: Convolution) -> None:
    """Records three launches: patches of the input, products, pixels, with [plane][slice][patch]
    between them. On software adapters, which compile large kernels slowly, each transform is two
    launches, one per axis."""
    low, node, x, filters, (rows, columns) = c.low, c.node, c.x, c.filters, c.axes
    high, wide = patches(rows, columns)
    count, depth, outputs = x[0] * high * wide, -(-x[3] // 4), -(-filters[0] // 4)
    transformed = low.temporary(PLANES * depth * count)
    products = low.temporary(PLANES * outputs * count)
    source: Source = node.operand()
    items, plane = (high * wide, x[0] * depth, PAIRS_IN), depth * count
    parameters: dict[str, object] = {"across": wide, "slices": depth}
    parameters |= {"y_slice": count, "y_map": high * wide}
    if low.target.software:
        source = _columns_in(low, node, x, columns, wide)
        line, maps = x[1] * wide, x[0] * depth
        parameters |= {"extent": x[1], "before": i32(rows.before)}
        parameters |= {"line_blocks": SIDE, "column_blocks": 0, "x_line": 0, "x_column": 1}
        parameters |= {"x_outer": maps * line, "x_image": line, "x_step": wide}
        parameters |= {"y_outer": plane, "y_step": SIX * plane}
        items = high * wide, maps, SIX
    else:
        parameters |= {"in_h": x[1], "in_w": x[2], "x_image": x[1] * x[2]}
        parameters |= {"before_h": i32(rows.before), "before_w": i32(columns.before)}
        parameters |= {"y_step": plane}
    _transform(low, node, "winograd_input", (source, transformed), items, parameters)
    _multiply(low, node, (transformed, products), filters, count)
    extent, plane = columns.positions, outputs * count
    parameters = {"across": wide, "slices": outputs, "extent": extent, "block": SIDE}
    parameters |= {"x_map": high * wide, "x_slice": count, "x_step": plane}
    parameters |= {"y_image": rows.positions * extent, "y_line": extent}
    parameters |= {"y_column": SIDE, "y_step": 1}
    items = high * wide, x[0] * outputs, PAIRS_OUT
    if low.target.software:
        products = _columns_out(low, node, products, plane)
        parameters |= {"x_outer": SIX * plane}
        items = rows.positions * wide, x[0] * outputs, 1
    else:
        parameters |= {"lines": rows.positions}
    _transform(low, node, "winograd_output", (products, node.outputs[0]), items, parameters)


def _columns_in(low: Lowering, node: Node, x: Shape, columns: Span, wide: int) -> int:
    """Records the launch that transforms rows; its result is [column][map][slice][row, patch]."""
    depth = -(-x[3] // 4)
    line, maps = x[1] * wide, x[0] * depth
    made = low.temporary(SIX * maps * line)
    parameters: dict[str, object] = {"across": wide, "slices": depth, "extent": x[2]}
    parameters |= {"line_blocks": 0, "column_blocks": SIDE, "before": i32(columns.before)}
    parameters |= {"x_outer": 0, "x_image": x[1] * x[2], "x_line": x[2]}
    parameters |= {"x_column": 0, "x_step": 1}
    parameters |= {"y_outer": 0, "y_map": depth * line, "y_slice": line, "y_step": maps * line}
    _transform(low, node, "winograd_input", (node.operand(), made), (line, maps, 1), parameters)
    return made


def _columns_out(low: Lowering, node: Node, products: int, plane: int) -> int:
    """Records the launch that transforms the columns of the products; its result is
    [row][column][slice][patch]."""
    made, across = low.temporary(SIX * SIDE * plane), SIX * plane
    parameters: dict[str, object] = {"across": across, "slices": 1, "extent": SIDE, "block": 0}
    parameters |= {"x_map": 0, "x_slice": 0, "x_outer": 0, "x_step": across}
    parameters |= {"y_image": 0, "y_line": 0, "y_column": 1, "y_step": across}
    _transform(low, node, "winograd_output", (products, made), (across, 1, 1), parameters)
    return made


def _transform(
    low: Lowering,
    node: Node,
    kernel: str,
    tensors: tuple[Source, Source],
    items: tuple[int, int, int],
    parameters: Mapping[str, object],
) -> None:
    """Records one launch from the first tensor to the second. `items`: items per image, images,
    repetitions."""
    lanes = LANES if low.target.software else low.target.workgroup(32)
    count, images, outer = items
    low.dispatch(
        Kernel(
            kernel,
            {"items": count, **parameters},
            {"lanes": lanes, "whole": not low.target.software},
        ),
        node,
        {"x": tensors[0]},
        {"y": tensors[1]},
        (-(-count // lanes), images, outer),
        stores=Stores(fused=tensors[1] == node.outputs[0]),
    )


def _multiply(
    low: Lowering, node: Node, tensors: tuple[int, int], filters: Shape, count: int
) -> None:
    """Records the 36 products as the batch of one 1x1 convolution."""
    tile = _tile(low.target, -(-filters[0] // 4), count)
    blocks = Blocks(filters[0], 1, filters[3], 1, tile.slices)
    distance = blocks.count * blocks.block_vectors
    parameters: dict[str, object] = {"x_pixel": 1, "y_pixel": 1, "w_batch": distance}
    product = Product(
        blocks,
        tile,
        Addressing("point", count, PLANES, count, parameters),
        source=tensors[0],
        packed=_weights(low, node, blocks),
        target=tensors[1],
        in_parts=True,
    )
    multiply(low, node, product)


def _weights(low: Lowering, node: Node, blocks: Blocks) -> Constant:
    """Returns weights as [plane][block][channel][slice] of vec4 over outputs."""
    vectors = PLANES * blocks.count * blocks.block_vectors
    return low.constant(
        node.operand(1),
        "winograd",
        blocks,
        vectors=vectors,
        pack=lambda data: transform(data, blocks),
    )


def transform(data: Array, blocks: Blocks) -> Iterator[Array]:
    """Transforms weights [O, 3, 3, I]: yields G w G^T as [36, block, channel, slice, 4] float32,
    one plane at a time. It multiplies by the Kronecker square of G, for some outputs at a time, to
    keep float64 copies small."""
    outputs, depth = data.shape[0], data.shape[3]
    taps, both = data.reshape(outputs, 9, depth), np.kron(G, G)
    step = pieces_of(outputs * depth * 4)
    pieces = pieces_of(9 * depth * 8)
    for start in range(0, PLANES, step):
        rows = both[start : start + step]
        planes = np.empty((len(rows), outputs, depth), np.float32)
        for first in range(0, outputs, pieces):
            part = taps[first : first + pieces].astype(np.float64)
            planes[:, first : first + pieces] = (rows @ part).swapaxes(0, 1)
        for plane in planes:
            yield pack(plane, blocks, 0, blocks.count)
