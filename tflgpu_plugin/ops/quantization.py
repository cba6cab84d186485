"""`dequantize(x)` and `quantize(x)`, between float32 and 8 bits or between two 8-bit grids.

On the device a quantized tensor holds real values, so dequantizing moves nothing, and quantizing
puts values on the result's grid: round to nearest and saturate. Halves go away from zero, as in
tensorflow/lite/kernels/internal/reference/quantize.h, or to even multiples of the
scale, as in the definition of QuantizeLinear; the result's quantization says which.

`cast(x)` between floats, bool and whole numbers in integer types; fractions are cut off.
"""

from __future__ import annotations

from tflgpu_plugin.ir import quantization
from tflgpu_plugin.ir.graph import EpilogueOp, Graph, Node
from tflgpu_plugin.ir.target import Target
from tflgpu_plugin.ops import quantized
from tflgpu_plugin.ops.decompose import Decomposition, lower_decomposed
from tflgpu_plugin.ops.elementwise import lower_step
from tflgpu_plugin.ops.lowering import Lowering
from tflgpu_plugin.ops.table import Op, same_shape


def step(graph: Graph, node: Node) -> EpilogueOp:
    """The fused step that does what a quantize node does; attribute `parameters` holds its numbers
    once other steps may have been fused behind it (then the output is another tensor).
    """
    if "parameters" in node.attributes:
        numbers = node.attributes["parameters"]
        return EpilogueOp("fake_quant" if len(numbers) > 3 else "fake_quant_even", None, numbers)
    source, result = graph.tensors[node.operand()], graph.tensors[node.outputs[0]]
    if quantization.even(result):
        return to_even(quantization.grid(result))
    parts = 1.0
    if quantization.quantized(source):
        ratio = quantization.parameters(source)[0] / quantization.parameters(result)[0]
        parts = quantization.fraction(ratio)
    return EpilogueOp("fake_quant", None, (*quantization.grid(result), parts, 0.0))


def to_even(grid: quantization.Grid) -> EpilogueOp:
    """The step that puts values on a grid, halves on even multiples of its scale."""
    return EpilogueOp("fake_quant_even", None, tuple(grid))


def refuse_dequantize(graph: Graph, node: Node, target: Target) -> str | None:
    """Int8 and uint8 quantized as a whole; as a constant also float16, int32, and per channel."""
    source, result = graph.tensors[node.operand()], graph.tensors[node.outputs[0]]
    if result.dtype != "f32":
        return f"Dequantizing gives float32, not {result.dtype}."
    if result.data is None and source.data is None and not quantization.real(source):
        return f"Tensor {source.name!r} holds {source.dtype} values that only a run tells."
    return None


def refuse_quantize(graph: Graph, node: Node, target: Target) -> str | None:
    """To int8 or uint8, quantized as a whole."""
    source, result = graph.tensors[node.operand()], graph.tensors[node.outputs[0]]
    if not quantization.real(result):
        return f"Quantizing to {result.dtype} is not supported; use int8 or uint8."
    if source.dtype != "f32" and not quantization.quantized(source):
        return f"Quantizing {source.dtype} is not supported; use float32, int8 or uint8."
    return None


def lower_dequantize(low: Lowering, node: Node) -> None:
    if low.graph.constant(node.outputs[0]) is None:
        low.alias(node.outputs[0], node.operand())


def lower_quantize(low: Lowering, node: Node) -> None:
    lower_step(low, node, step(low.graph, node))


def refuse_cast(graph: Graph, node: Node, target: Target) -> str | None:
    """Between floats and whole numbers that float32 holds and that are not quantized; from bool."""
    source, result = graph.tensors[node.operand()], graph.tensors[node.outputs[0]]
    for tensor in (source, result):
        grid = tensor.quantization if quantization.real(tensor) else None
        if grid and (set(grid.scale), set(grid.zero_point)) != ({1.0}, {0}):
            return (
                f"Tensor {tensor.name!r} is quantized, and a cast takes its stored numbers; "
                "only those of tensors that are not quantized are supported."
            )
    whole = quantization.real(source), quantization.real(result)
    if result.dtype in FLOATS or (source.dtype in (*FLOATS, "bool") and whole[1]) or all(whole):
        return None
    return f"Casting {source.dtype} to {result.dtype} is not supported."


def decompose_cast(steps: Decomposition, node: Node) -> bool:
    """Nothing moves but towards integers, where a truncation comes first."""
    x = node.operand()
    source, result = steps.editor.tensors[x], steps.editor.tensors[node.outputs[0]]
    if result.dtype in FLOATS and quantization.real(source):
        steps.last("dequantize", x)
    elif result.dtype in (*FLOATS, source.dtype) or source.dtype == "bool":
        steps.last("reshape", x, None, shape=source.shape)
    elif source.dtype in FLOATS:
        size = steps.add("floor", steps.add("abs", x))
        steps.last("quantize", steps.add("mul", steps.add("sign", x), size))
    else:
        steps.last("quantize", steps.add("reshape", x, None, shape=source.shape))
    return True


def _epilogue(graph: Graph, node: Node, position: int) -> EpilogueOp | None:
    return step(graph, node)


TYPES = ("f32", "i8", "u8")
FLOATS = ("f32", "f16")

OPS = (
    Op("dequantize", refuse_dequantize, same_shape, lower_dequantize, "exact",
       types=(*TYPES, "f16"), max_rank=8, kind="elementwise", follows="elementwise"),
    Op("quantize", refuse_quantize, same_shape, lower_quantize, "elementwise", types=TYPES,
       fuses=True, max_rank=8, kind="elementwise", follows="elementwise", as_epilogue=_epilogue),
    Op("cast", refuse_cast, same_shape, lower_decomposed, "exact", types=("f32", "bool"),
       max_rank=8, kind="elementwise", follows="elementwise", decompose=decompose_cast),
    *quantized.ROWS,
)  # fmt: skip
