"""DynamicQuantizeLinear as it is built for ONNX, over a tensor of a graph by hand."""

from __future__ import annotations

from tests.support.net import Net
from tflgpu_plugin.ir import NUMBERS, Graph, Quantization, Tensor


class DynamicNet(Net):
    """A graph that quantizes `x` over the range of its values: `scale`, `zero` and `stored`."""

    def __init__(
        self, shape: tuple[int, ...], axes: tuple[int, ...] = (0, 1), steps: float = 255.0
    ) -> None:
        super().__init__()
        self.x, one, none = self.input(shape), self.number(1.0), self.number(0.0)
        ends = [self.op(f"reduce_{end}", self.x, self.ints(*axes), keep_dims=False)
                for end in ("min", "max")]  # fmt: skip
        low, high = self.op("minimum", ends[0], none), self.op("maximum", ends[1], none)
        width = self.op("div", self.op("sub", high, low), self.number(steps))
        flat = self.retyped(self.op("equal", width, none), "bool")
        self.scale = self.op("where", flat, one, width)
        self.zero = self.op("round", self.op("div", self.op("neg", low), self.scale))
        whole = self.op("round", self.op("div", self.x, self.scale))
        self.stored = self.op("add", whole, self.zero)

    def in_bytes(self, x: int, held: Quantization = NUMBERS, dtype: str = "u8") -> int:
        """Returns a tensor that is stored in 8 bits, dequantized."""
        made = Tensor("", (), dtype, None, held)
        return self.op("dequantize", self.op("quantize", x, made=made))

    def differences(self) -> int:
        return self.op("sub", self.in_bytes(self.stored), self.in_bytes(self.zero))


def dynamic_layer() -> Graph:
    """Returns a graph of a layer over integers, multiplied by the scales of input and weights."""
    n = DynamicNet((3, 8))
    numbers, scales = n.differences(), n.op("mul", n.scale, n.drawn(5, low=0.5))
    return n.graph(n.op("mul", n.dense(numbers, 5), scales))
