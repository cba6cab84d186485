"""The table of ONNX operators: what each becomes and which opset versions are read.

A version is that of the operator's definition (the opset that introduced it), as onnxruntime tells
it for every node. A range begins where the definition first has the meaning that the row reads, and
ends with the newest definition known (opset 26). Later definitions add element types.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tflgpu_plugin import ops as internal
from tflgpu_plugin.ir.host_op import HostOp

from . import (
    attention,
    blocks,
    fused,
    grids,
    matrices,
    quantized,
    rearranging,
    recurrent,
    resizing,
    windows,
)
from . import elementwise as ew

Row = Callable[[Any], Any]


def _row(
    host_op: str, op: str, versions: tuple[int, int], build: Row, *, outputs: int | None = None,
    types: str = "", indices: tuple[int, ...] = (), **constants: int,
) -> HostOp:  # fmt: skip
    """A row; `constants` maps the names of inputs that must be constant to their positions."""
    names = {position: name.replace("_", " ") for name, position in constants.items()}
    return HostOp(host_op, op, versions, {}, build, names, outputs, tuple(types.split()), indices)


# What quantized operators hold: numbers, and the scales and biases that go with them.
WHOLE = "i8 u8"
WIDE = f"{WHOLE} i16 u16 f32"
GRIDS = f"{WHOLE} f32"
SUMS = f"{GRIDS} i32"
COUNTS = "i32 i64"  # places, and what is computed with them

SELU = (1.67326319217681884765625, 1.05070102214813232421875)  # defaults of Selu-22

_ROWS: tuple[HostOp, ...] = (
    _row("Abs", "abs", (6, 13), ew.unary("abs")),
    _row("Acos", "acos", (7, 22), ew.unary("acos")),
    _row("Acosh", "acosh", (9, 22), ew.unary("acosh")),
    _row("Add", "add", (7, 14), ew.binary("add")),
    _row("Affine", "mul", (1, 1), ew.affine),
    _row("And", "logical_and", (7, 7), ew.binary("logical_and")),
    _row("ArgMax", "arg_max", (1, 13), ew.argument("arg_max"), types="f32 f16 i64"),
    _row("ArgMin", "arg_min", (1, 13), ew.argument("arg_min"), types="f32 f16 i64"),
    _row("Asin", "asin", (7, 22), ew.unary("asin")),
    _row("Asinh", "asinh", (9, 22), ew.unary("asinh")),
    _row("Atan", "atan", (7, 22), ew.unary("atan")),
    _row("Atanh", "atanh", (9, 22), ew.unary("atanh")),
    _row("AveragePool", "average_pool_2d", (7, 22), windows.average_pool),
    _row("BatchNormalization", "mul", (7, 15), matrices.batch_norm, outputs=1),
    _row("Cast", "cast", (6, 25), quantized.cast, types=f"f32 f16 bool {COUNTS}"),
    _row("Ceil", "ceil", (6, 13), ew.unary("ceil")),
    _row("Celu", "celu", (12, 12), ew.unary("celu", alpha=("alpha", 1.0))),
    _row("Clip", "clip", (6, 13), ew.clip),
    _row("Concat", "concat", (4, 13), rearranging.concat),
    _row("Conv", "conv_2d", (1, 22), windows.conv),
    _row("ConvTranspose", "transpose_conv", (1, 22), windows.conv_transpose),
    _row("ConvInteger", "conv_2d", (10, 10), quantized.conv_integer, types=f"{WHOLE} i32"),
    _row("Cos", "cos", (7, 22), ew.unary("cos")),
    _row("Cosh", "cosh", (9, 22), ew.unary("cosh")),
    _row("Crop", "strided_slice", (1, 1), rearranging.crop),
    _row("DepthToSpace", "depth_to_space", (1, 13), rearranging.blocks("depth_to_space")),
    _row("DequantizeLinear", "dequantize", (10, 25), grids.dequantize_linear, types=WIDE),
    _row("Div", "div", (7, 14), ew.divide),
    _row("Dropout", "reshape", (7, 22), rearranging.dropout, outputs=1, ratio=1, training_mode=2),
    _row("DynamicQuantizeLinear", "quantize", (11, 11), grids.dynamic_quantize, types="f32 u8"),
    _row("Elu", "elu", (6, 22), ew.unary("elu", alpha=("alpha", 1.0))),
    _row("Equal", "equal", (7, 19), ew.relation("equal")),
    _row("Erf", "erf", (9, 13), ew.unary("erf")),
    _row("Exp", "exp", (6, 13), ew.unary("exp")),
    _row("Expand", "expand", (8, 13), rearranging.expand, shape=1),
    _row("Flatten", "reshape", (1, 25), rearranging.flatten),
    _row("Floor", "floor", (6, 13), ew.unary("floor")),
    _row("GRU", "gru", (7, 22), recurrent.gru, weights=1, recurrent_weights=2, biases=3, lengths=4),
    _row("Gather", "gather", (1, 13), rearranging.gather, indices=(1,)),
    _row("GatherND", "gather_nd", (11, 13), rearranging.gather_nd, indices=(1,)),
    _row("Gelu", "gelu", (20, 20), ew.gelu),
    _row("Gemm", "fully_connected", (7, 13), matrices.gemm),
    _row("GlobalAveragePool", "mean", (1, 22), ew.pool_all("mean")),
    _row("GlobalMaxPool", "reduce_max", (1, 22), ew.pool_all("reduce_max")),
    _row("Greater", "greater", (7, 13), ew.relation("greater")),
    _row("GreaterOrEqual", "greater_equal", (12, 16), ew.relation("greater_equal")),
    _row("GroupNormalization", "layer_normalization", (18, 21), matrices.group_norm),
    _row(
        "HardSigmoid",
        "hard_sigmoid",
        (6, 22),
        ew.unary("hard_sigmoid", alpha=("alpha", 0.2), beta=("beta", 0.5)),
    ),
    _row("HardSwish", "hard_swish", (14, 22), ew.unary("hard_swish")),
    _row("Identity", "reshape", (1, 25), rearranging.same),
    _row("ImageScaler", "mul", (1, 1), ew.image_scaler),
    _row("InstanceNormalization", "instance_normalization", (6, 22), matrices.instance_norm),
    _row("IsInf", "is_infinite", (10, 20), ew.infinite),
    _row("IsNaN", "is_nan", (9, 20), ew.relation("is_nan")),
    _row("LRN", "lrn", (1, 13), windows.lrn),
    _row(
        "LSTM",
        "lstm",
        (7, 22),
        recurrent.lstm,
        weights=1,
        recurrent_weights=2,
        biases=3,
        lengths=4,
        peepholes=7,
    ),
    _row("LayerNormalization", "layer_normalization", (1, 17), matrices.layer_norm),
    _row("LeakyRelu", "leaky_relu", (6, 16), ew.unary("leaky_relu", alpha=("alpha", 0.01))),
    _row("Less", "less", (7, 13), ew.relation("less")),
    _row("LessOrEqual", "less_equal", (12, 16), ew.relation("less_equal")),
    _row("Log", "log", (6, 13), ew.unary("log")),
    _row("LogSoftmax", "log_softmax", (1, 13), ew.softmax("log_softmax")),
    _row("LpPool", "lp_pool", (2, 22), windows.lp_pool),
    _row("MatMul", "matmul", (1, 13), matrices.matmul),
    _row("MatMulInteger", "matmul", (10, 10), quantized.matmul_integer, types=f"{WHOLE} i32"),
    _row("Max", "maximum", (8, 13), ew.variadic("maximum", nan=True)),
    _row("MaxPool", "max_pool_2d", (1, 22), windows.max_pool, outputs=1),
    _row("Mean", "add", (8, 13), ew.average),
    _row(
        "MeanVarianceNormalization",
        "reduce_mean_square",
        (9, 13),
        matrices.mean_variance,
    ),
    _row("Min", "minimum", (8, 13), ew.variadic("minimum", nan=True)),
    _row("Mish", "mish", (18, 22), ew.unary("mish")),
    _row("Mod", "fmod", (10, 13), ew.modulo),
    _row("Mul", "mul", (7, 14), ew.binary("mul")),
    _row("Neg", "neg", (6, 13), ew.unary("neg")),
    _row("Not", "logical_not", (1, 1), ew.unary("logical_not")),
    _row("Or", "logical_or", (7, 7), ew.binary("logical_or")),
    _row("PRelu", "prelu", (7, 16), ew.prelu),
    _row("Pad", "pad", (2, 25), quantized.pad, pads=1, value=2, axes=3),
    _row("Pow", "pow", (7, 15), ew.power),
    _row("QLinearConv", "conv_2d", (10, 10), quantized.conv, types=SUMS),
    _row("QLinearMatMul", "matmul", (10, 21), quantized.matmul, types=GRIDS),
    _row("QuantizeLinear", "quantize", (10, 25), grids.quantize_linear, types=WIDE),
    _row("RMSNormalization", "reduce_mean_square", (23, 23), matrices.rms_norm),
    _row("RNN", "rnn", (7, 22), recurrent.rnn, weights=1, recurrent_weights=2, biases=3, lengths=4),
    _row("Reciprocal", "reciprocal", (6, 13), ew.unary("reciprocal")),
    _row("ReduceL1", "reduce_l1", (1, 18), ew.reduction("reduce_l1"), axes=1),
    _row("ReduceL2", "reduce_l2", (1, 18), ew.reduction("reduce_l2"), axes=1),
    _row("ReduceLogSum", "reduce_log_sum", (1, 18), ew.reduction("reduce_log_sum"), axes=1),
    _row(
        "ReduceLogSumExp", "reduce_log_sum_exp", (1, 18), ew.reduction("reduce_log_sum_exp"), axes=1
    ),
    _row("ReduceMax", "reduce_max", (1, 20), ew.reduction("reduce_max"), axes=1),
    _row("ReduceMean", "mean", (1, 18), ew.reduction("mean"), axes=1),
    _row("ReduceMin", "reduce_min", (1, 20), ew.reduction("reduce_min"), axes=1),
    _row("ReduceProd", "reduce_prod", (1, 18), ew.reduction("reduce_prod"), axes=1),
    _row("ReduceSum", "reduce_sum", (1, 13), ew.reduction("reduce_sum", 13), axes=1),
    _row(
        "ReduceSumSquare", "reduce_sum_square", (1, 18), ew.reduction("reduce_sum_square"), axes=1
    ),
    _row("Relu", "relu", (6, 14), ew.unary("relu")),
    _row("Reshape", "reshape", (5, 25), rearranging.reshape, shape=1),
    _row("Resize", "resize", (10, 19), quantized.resize, roi_or_scales=1, scales=2, sizes=3),
    _row("Round", "round", (11, 22), ew.unary("round")),
    _row(
        "Selu",
        "selu",
        (6, 22),
        ew.unary("selu", alpha=("alpha", SELU[0]), gamma=("gamma", SELU[1])),
    ),
    _row("Shrink", "shrink", (9, 9), ew.unary("shrink", lambd=("lambd", 0.5), bias=("bias", 0.0))),
    _row("Sigmoid", "logistic", (6, 13), ew.unary("logistic")),
    _row("Sign", "sign", (9, 13), ew.unary("sign")),
    _row("SimplifiedLayerNormalization", "reduce_mean_square", (1, 1), matrices.rms_norm),
    _row("Sin", "sin", (7, 22), ew.unary("sin")),
    _row("Sinh", "sinh", (9, 22), ew.unary("sinh")),
    _row("Slice", "strided_slice", (1, 13), rearranging.slices, starts=1, ends=2, axes=3, steps=4),
    _row("Softmax", "softmax", (1, 13), ew.softmax("softmax", beta=1.0)),
    _row("Softplus", "softplus", (1, 22), ew.unary("softplus")),
    _row("Softsign", "softsign", (1, 22), ew.unary("softsign")),
    _row("SpaceToDepth", "space_to_depth", (1, 13), rearranging.blocks("space_to_depth")),
    _row("Split", "strided_slice", (2, 18), rearranging.split, split=1),
    _row("Sqrt", "sqrt", (6, 13), ew.unary("sqrt")),
    _row("Squeeze", "reshape", (1, 25), rearranging.squeeze, axes=1),
    _row("Sub", "sub", (7, 14), ew.binary("sub")),
    _row("Sum", "add", (8, 13), ew.variadic("add")),
    _row("Swish", "swish", (24, 24), ew.unary("swish", alpha=("alpha", 1.0))),
    _row("Tan", "tan", (7, 22), ew.unary("tan")),
    _row("Tanh", "tanh", (6, 13), ew.unary("tanh")),
    _row(
        "ThresholdedRelu",
        "thresholded_relu",
        (10, 22),
        ew.unary("thresholded_relu", alpha=("alpha", 1.0)),
    ),
    _row("Tile", "tile", (6, 13), rearranging.tile, repeats=1),
    _row("Transpose", "transpose", (1, 25), rearranging.transpose),
    _row("Unsqueeze", "reshape", (1, 25), rearranging.unsqueeze, axes=1),
    _row("Upsample", "resize", (7, 10), resizing.upsample, scales=1),
    _row("Where", "where", (9, 16), ew.where),
    _row("Xor", "logical_xor", (7, 7), ew.binary("logical_xor")),
)

CONTRIB = "com.microsoft"
_CONTRIB_ROWS: tuple[HostOp, ...] = tuple(
    _row(f"{CONTRIB}:{name}", op, (1, 1), build, types=types)
    for name, op, types, build in (
        ("DequantizeLinear", "dequantize", WIDE, grids.dequantize_linear),
        ("DynamicQuantizeMatMul", "matmul", GRIDS, quantized.dynamic_matmul),
        ("MatMulIntegerToFloat", "matmul", GRIDS, quantized.matmul_to_float),
        ("QGemm", "fully_connected", SUMS, quantized.gemm),
        ("QLinearAdd", "add", GRIDS, quantized.pointwise(ew.binary("add"), 2)),
        ("QLinearAveragePool", "average_pool_2d", GRIDS, quantized.average_pool),
        ("QLinearConcat", "concat", GRIDS, quantized.concat),
        ("QLinearGlobalAveragePool", "mean", GRIDS, quantized.global_average_pool),
        (
            "QLinearLeakyRelu",
            "leaky_relu",
            GRIDS,
            quantized.pointwise(ew.unary("leaky_relu", alpha=("alpha", 0.01))),
        ),
        ("QLinearMul", "mul", GRIDS, quantized.pointwise(ew.binary("mul"), 2)),
        ("QLinearSigmoid", "logistic", GRIDS, quantized.pointwise(ew.unary("logistic"))),
        ("QLinearSoftmax", "softmax", GRIDS, quantized.softmax),
        ("QLinearWhere", "where", f"bool {GRIDS}", quantized.where),
        ("QuantizeLinear", "quantize", WIDE, grids.quantize_linear),
    )
)

_STORED = _row(
    f"{CONTRIB}:MatMulNBits", "matmul", (1, 1), blocks.matmul_n_bits,
    types="f32 f16 u8", weights=1, scales=2, zero_points=3,
)  # fmt: skip

_FUSED: tuple[HostOp, ...] = tuple(
    _row(f"{CONTRIB}:{name}", op, (1, 1), build) for name, (op, build) in fused.ROWS.items()
)

_TRANSFORMERS: tuple[HostOp, ...] = (
    _row(f"{CONTRIB}:Attention", "softmax", (1, 1), attention.attention, indices=(attention.MASK,)),
    _row(
        f"{CONTRIB}:EmbedLayerNormalization", "layer_normalization", (1, 1), attention.embedding,
        indices=(0, 1, 8),
    ),
)  # fmt: skip

HOST_OPS: dict[str, HostOp] = {
    row.name: row
    for row in (*_ROWS, *_CONTRIB_ROWS, _STORED, *_FUSED, *_TRANSFORMERS)
    if row.op in internal.rows()
}
