"""The description of a convolution that its forms share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from tflgpu_plugin import ops
from tflgpu_plugin.ir import Node, Shape
from tflgpu_plugin.ops.blocks import Blocks, operands, windows
from tflgpu_plugin.ops.lowering import Lowering, Source
from tflgpu_plugin.ops.product import Addressing, Product
from tflgpu_plugin.ops.tiles import Tile, choose_tile
from tflgpu_plugin.ops.window import Span, parameters


@dataclass(frozen=True)
class Convolution:
    """A convolution: shapes of the input and the weights (filters first), and the window along each
    axis between batch and channels. If images have one column, rows and columns are exchanged
    (`transposed`), because kernels share loads along rows."""

    low: Lowering
    node: Node
    x: Shape
    filters: Shape
    axes: tuple[Span, ...]
    transposed: bool = False

    @classmethod
    def of(cls, low: Lowering, node: Node) -> Convolution:
        """Returns the convolution of this node."""
        x, filters = operands(low.graph, node)
        axes = tuple(windows(low.graph, node))
        if len(axes) == 2 and x[2] == filters[2] == axes[1].positions == 1 == axes[1].stride:
            x, filters = (x[0], 1, x[1], x[3]), (filters[0], 1, filters[1], filters[3])
            return cls(low, node, x, filters, axes[::-1], transposed=True)
        return cls(low, node, x, filters, axes)

    @property
    def flat(self) -> bool:
        """Whether it is 2-D, not 3-D."""
        return len(self.axes) == 2

    @property
    def columns(self) -> Span:
        return self.axes[-1]

    @cached_property
    def groups(self) -> int:
        return self.x[-1] // self.filters[-1]

    @cached_property
    def taps(self) -> int:
        return prod(self.filters[1:-1])

    @property
    def slices(self) -> int:
        """Returns the number of output slices of a group."""
        return -(-(self.filters[0] // self.groups) // 4)

    @cached_property
    def x_pixels(self) -> int:
        return prod(self.x[1:-1])

    @cached_property
    def pixels(self) -> int:
        return prod(axis.positions for axis in self.axes)

    @property
    def single(self) -> bool:
        """Whether each output pixel depends on one input pixel, and none on padding."""
        return self.taps == 1 and not any(axis.before for axis in self.axes)

    @property
    def point(self) -> bool:
        """Whether each output pixel depends only on the input pixel at the same position."""
        here = all(axis.stride == 1 for axis in self.axes)
        return self.single and here and self.x_pixels == self.pixels

    @property
    def constant(self) -> bool:
        """Whether the weights are constant."""
        return self.low.graph.constant(self.node.inputs[1]) is not None

    @property
    def gated(self) -> bool:
        return ops.gates(self.node) is not None

    @cached_property
    def singles(self) -> tuple[Source, tuple[int, ...]]:
        """Returns the source of the input as single floats, if possible the host's buffer, and the
        strides of batches, rows, pixels and channels."""
        source, (_, high, wide, _) = self.node.operand(), self.x
        if hosted := self.low.hosted.get(source):
            batch, row, pixel, channel = hosted.strides
            return hosted.raw, (batch, pixel, row, channel) if self.transposed else hosted.strides
        return source, (4 * high * wide, 4 * wide, 4, 1)

    @property
    def few(self) -> bool:
        """Whether the input has fewer than 4 channels, so that its vec4 have empty lanes."""
        return self.flat and self.x[3] < 4 and self.filters[3] == self.x[3]

    def blocks(self, tile: Tile) -> Blocks:
        """Returns the block order of the weights for this tile."""
        return Blocks(self.filters[0], self.taps, self.filters[-1], self.groups, tile.slices)

    @cached_property
    def at_point(self) -> Product:
        return self._product("point")

    @cached_property
    def at_window(self) -> Product:
        return self._product("window", self.axes, self.columns.kernel)

    @cached_property
    def at_volume(self) -> Product:
        """Returns a product over three axes; an image is a volume with a depth of 1."""
        deep = (Span(1, 1, 1, 1, 0, 1),) if self.flat else ()
        return self._product("volume", (*deep, *self.axes))

    def _product(self, taps: str, axes: Sequence[Span] = (), width: int = 1) -> Product:
        """Returns a product whose input is addressed in the way that `taps` names, with the
        parameters of the window along these axes (none for "point")."""
        tile = choose_tile(self.low.target, self.slices, self.pixels)
        blocks = self.blocks(tile)
        given: dict[str, object] = {"x_pixel": 1, "y_pixel": 1, "w_batch": 0}
        if axes:
            given = {"tap_vectors": blocks.tap_vectors, **parameters(axes)}
        address = Addressing(taps, self.pixels, self.x[0], self.x_pixels, given, width=width)
        return Product(blocks, tile, address)
