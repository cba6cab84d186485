"""The table of ONNX operators: what each becomes and which opset versions are read.

A version is that of the operator's definition (the opset that introduced it), as onnxruntime tells
it for every node. A range begins where the definition first has the meaning that the row reads, and
ends with the newest definition known (opset 26). Later definitions add element types.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tflgpu_plugin import ops as internal
from tflgpu_plugin.ir.host_op import Condition, HostOp, operands, table

from . import (
    attention,
    blocks,
    conditions,
    fused,
    matrices,
    quantize,
    quantized,
    rearranging,
    recurrent,
    resizing,
    windows,
)
from . import elementwise as ew

Row = Callable[[Any], Any]


def _row(
    host_op: str, op: str, versions: tuple[int, int], build: Row, takes: str = "value",
    *asked: Condition, gives: str = "", types: str = "", listed: tuple[str, ...] = (),
    bounds: str = "",
) -> HostOp:  # fmt: skip
    """A row; `gives` names the outputs that are supported where not all are, and `listed` the
    editions of the documentation that list what a converter to TFLite makes of the operator."""
    documented = dict.fromkeys(listed, versions)
    outputs = tuple(gives.split()) or None
    return HostOp(
        host_op, op, versions, documented, build, operands(takes), outputs=outputs,
        types=tuple(types.split()), conditions=asked, bounds=bounds,
    )  # fmt: skip


# What quantized operators hold: numbers, and the scales and biases that go with them.
WHOLE = "i8 u8"
WIDE = f"{WHOLE} i16 u16 f32"
SCALED = f"{WHOLE} f32"
SUMS = f"{SCALED} i32"
COUNTS = "i32 i64"  # places, and what is computed with them

# How many operators take their inputs.
TWO, MANY, LAYER = "value value", "value*", "value weights bias?"
AXES, SPLIT = "value axes!?", "value split!?"
NORMED = "value scale bias"
QUANTIZED = "value scale zero_point?"
RESULT = "scale zero_point"
CELL = "value weights! recurrent_weights! biases!? lengths!? state?"
EDGES = "value starts!? ends!? axes!? steps!?"

BOTH, CURRENT = ("2019", "current"), ("current",)  # editions

SELU = (1.67326319217681884765625, 1.05070102214813232421875)  # defaults of Selu-22

_ROWS: tuple[HostOp, ...] = (
    _row("Abs", "abs", (6, 13), ew.unary("abs")),
    _row("Acos", "acos", (7, 22), ew.unary("acos")),
    _row("Acosh", "acosh", (9, 22), ew.unary("acosh")),
    _row("Add", "add", (7, 14), ew.binary("add"), TWO, listed=BOTH),
    _row("Affine", "mul", (1, 1), ew.affine),
    _row("And", "logical_and", (7, 7), ew.binary("logical_and"), TWO, listed=CURRENT),
    _row("ArgMax", "arg_max", (1, 13), ew.argument("arg_max"), types=f"f32 f16 {COUNTS}"),
    _row("ArgMin", "arg_min", (1, 13), ew.argument("arg_min"), types=f"f32 f16 {COUNTS}"),
    _row("Asin", "asin", (7, 22), ew.unary("asin")),
    _row("Asinh", "asinh", (9, 22), ew.unary("asinh")),
    _row("Atan", "atan", (7, 22), ew.unary("atan")),
    _row("Atanh", "atanh", (9, 22), ew.unary("atanh")),
    _row(
        "AveragePool", "average_pool_2d", (7, 22), windows.average_pool, "value",
        *windows.POOL, listed=BOTH,
    ),
    _row(
        "BatchNormalization", "mul", (7, 15), matrices.batch_norm, f"{NORMED} mean variance",
        conditions.INFERENCE,
        gives="value", listed=BOTH,
    ),
    *(
        _row(f"Bitwise{name.capitalize()}", f"bitwise_{name}", (18, 18),
             ew.binary(f"bitwise_{name}"), TWO)
        for name in ("and", "or", "xor")
    ),
    _row("BitwiseNot", "bitwise_not", (18, 18), ew.unary("bitwise_not")),
    _row(
        "Cast", "cast", (6, 25), quantized.cast, "value", conditions.castable,
        types=f"f32 f16 bool {COUNTS}",
    ),
    _row("Ceil", "ceil", (6, 13), ew.unary("ceil")),
    _row("Celu", "celu", (12, 12), ew.unary("celu", alpha=("alpha", 1.0))),
    _row("Clip", "clip", (6, 13), ew.clip, "value low? high?", listed=BOTH),
    _row("Concat", "concat", (4, 13), rearranging.concat, MANY, listed=BOTH),
    _row("Conv", "conv_2d", (1, 22), windows.conv, LAYER, *windows.CONV, listed=BOTH),
    _row(
        "ConvTranspose", "transpose_conv", (1, 22), windows.conv_transpose, LAYER,
        *windows.CONV_TRANSPOSE, listed=BOTH,
    ),
    _row(
        "ConvInteger", "conv_2d", (10, 10), quantized.conv_integer,
        "value weights zero_point? zero_point?", *windows.CONV, types=f"{WHOLE} i32",
    ),
    _row("Cos", "cos", (7, 22), ew.unary("cos")),
    _row("Cosh", "cosh", (9, 22), ew.unary("cosh")),
    _row("Crop", "strided_slice", (1, 1), rearranging.crop),
    _row("CumSum", "cumsum", (11, 14), ew.along("cumsum", "exclusive", "reverse"), "value axis!"),
    _row("DepthToSpace", "depth_to_space", (1, 13), rearranging.blocks("depth_to_space")),
    _row(
        "DequantizeLinear", "dequantize", (10, 25), quantize.dequantize_linear, QUANTIZED,
        conditions.DEQUANTIZED, blocks.along, types=WIDE, listed=BOTH, bounds="opens",
    ),
    _row("Div", "div", (7, 14), ew.binary("div"), TWO),
    _row(
        "Dropout", "reshape", (7, 22), rearranging.same, "value ratio? training_mode!?",
        conditions.NOTHING_DROPPED,
        gives="value", listed=BOTH,
    ),
    _row("DynamicQuantizeLinear", "quantize", (11, 11), quantize.dynamic_quantize, types="f32 u8"),
    _row("Elu", "elu", (6, 22), ew.unary("elu", alpha=("alpha", 1.0))),
    _row("Equal", "equal", (7, 19), ew.relation("equal"), TWO),
    _row("Erf", "erf", (9, 13), ew.unary("erf")),
    _row("Exp", "exp", (6, 13), ew.unary("exp"), listed=CURRENT),
    _row("Expand", "expand", (8, 13), rearranging.expand, "value shape!"),
    _row("Flatten", "reshape", (1, 25), rearranging.flatten, listed=BOTH),
    _row("Floor", "floor", (6, 13), ew.unary("floor")),
    _row("GRU", "gru", (7, 22), recurrent.gru, CELL, *recurrent.GRU),
    _row("Gather", "gather", (1, 13), rearranging.gather, "value index"),
    _row("GatherND", "gather_nd", (11, 13), rearranging.gather_nd, "value index"),
    _row("Gelu", "gelu", (20, 20), ew.gelu),
    _row(
        "Gemm", "fully_connected", (7, 13), matrices.gemm, LAYER, conditions.MATRICES,
        listed=BOTH,
    ),
    _row("GlobalAveragePool", "mean", (1, 22), ew.pool_all("mean"), "value", windows.SPATIAL),
    _row(
        "GlobalMaxPool", "reduce_max", (1, 22), ew.pool_all("reduce_max"), "value",
        windows.SPATIAL,
    ),
    _row("Greater", "greater", (7, 13), ew.relation("greater"), TWO),
    _row("GreaterOrEqual", "greater_equal", (12, 16), ew.relation("greater_equal"), TWO),
    _row(
        "GroupNormalization", "layer_normalization", (18, 21), matrices.group_norm, NORMED,
        conditions.GROUPS,
    ),
    _row(
        "HardSigmoid", "hard_sigmoid", (6, 22),
        ew.unary("hard_sigmoid", alpha=("alpha", 0.2), beta=("beta", 0.5)),
    ),
    _row("HardSwish", "hard_swish", (14, 22), ew.unary("hard_swish")),
    _row("Identity", "reshape", (1, 25), rearranging.same, listed=BOTH),
    _row("ImageScaler", "mul", (1, 1), ew.image_scaler),
    _row(
        "InstanceNormalization", "instance_normalization", (6, 22), matrices.instance_norm, NORMED,
    ),
    _row("IsInf", "is_infinite", (10, 20), ew.infinite),
    _row("IsNaN", "is_nan", (9, 20), ew.relation("is_nan")),
    _row("LRN", "lrn", (1, 13), windows.lrn),
    _row(
        "LSTM", "lstm", (7, 22), recurrent.lstm, f"{CELL} state? peepholes!?", *recurrent.LSTM,
        listed=CURRENT,
    ),
    _row("LayerNormalization", "layer_normalization", (1, 17), matrices.layer_norm, f"{NORMED}?"),
    _row("LeakyRelu", "leaky_relu", (6, 16), ew.unary("leaky_relu", alpha=("alpha", 0.01))),
    _row("Less", "less", (7, 13), ew.relation("less"), TWO),
    _row("LessOrEqual", "less_equal", (12, 16), ew.relation("less_equal"), TWO),
    _row("Log", "log", (6, 13), ew.unary("log")),
    _row("LogSoftmax", "log_softmax", (1, 13), ew.softmax("log_softmax")),
    _row("LpPool", "lp_pool", (2, 22), windows.lp_pool, "value", *windows.POOL),
    _row("MatMul", "matmul", (1, 13), matrices.matmul, TWO),
    _row(
        "MatMulInteger", "matmul", (10, 10), quantized.matmul_integer,
        "value weights zero_point? zero_point?", types=f"{WHOLE} i32",
    ),
    _row("Max", "maximum", (8, 13), ew.variadic("maximum", nan=True), MANY, listed=CURRENT),
    _row(
        "MaxPool", "max_pool_2d", (1, 22), windows.max_pool, "value", *windows.POOL,
        gives="value", listed=BOTH,
    ),
    _row("Mean", "add", (8, 13), ew.average, MANY),
    _row("MeanVarianceNormalization", "reduce_mean_square", (9, 13), matrices.mean_variance),
    _row("Min", "minimum", (8, 13), ew.variadic("minimum", nan=True), MANY, listed=CURRENT),
    _row("Mish", "mish", (18, 22), ew.unary("mish")),
    _row("Mod", "fmod", (10, 13), ew.modulo, TWO, conditions.REMAINDER),
    _row("Mul", "mul", (7, 14), ew.binary("mul"), TWO, listed=BOTH),
    _row("Neg", "neg", (6, 13), ew.unary("neg")),
    _row("Not", "logical_not", (1, 1), ew.unary("logical_not")),
    _row("Or", "logical_or", (7, 7), ew.binary("logical_or"), TWO),
    _row("PRelu", "prelu", (7, 16), ew.prelu, "value slope", listed=BOTH),
    _row(
        "Pad", "pad", (2, 25), quantized.pad, "value pads!? padding_value!? axes!?",
        rearranging.PADS, rearranging.STORED, listed=BOTH,
    ),
    _row("Pow", "pow", (7, 15), ew.power, TWO, conditions.EXPONENTS),
    _row(
        "QLinearConv", "conv_2d", (10, 10), quantized.conv,
        f"{QUANTIZED} weights {RESULT} {RESULT} bias?", *windows.CONV, types=SUMS,
    ),
    _row(
        "QLinearMatMul", "matmul", (10, 21), quantized.matmul, f"{QUANTIZED} {QUANTIZED} {RESULT}",
        types=SCALED,
    ),
    _row(
        "QuantizeLinear", "quantize", (10, 25), quantize.quantize_linear, QUANTIZED,
        conditions.QUANTIZED, blocks.along, types=WIDE, listed=BOTH, bounds="closes",
    ),
    _row("RMSNormalization", "reduce_mean_square", (23, 23), matrices.rms_norm, "value scale"),
    _row("RNN", "rnn", (7, 22), recurrent.rnn, CELL, *recurrent.RNN),
    _row("Reciprocal", "reciprocal", (6, 13), ew.unary("reciprocal")),
    _row("ReduceL1", "reduce_l1", (1, 18), ew.reduction("reduce_l1"), AXES),
    _row("ReduceL2", "reduce_l2", (1, 18), ew.reduction("reduce_l2"), AXES),
    _row("ReduceLogSum", "reduce_log_sum", (1, 18), ew.reduction("reduce_log_sum"), AXES),
    _row(
        "ReduceLogSumExp", "reduce_log_sum_exp", (1, 18), ew.reduction("reduce_log_sum_exp"), AXES,
    ),
    _row("ReduceMax", "reduce_max", (1, 20), ew.reduction("reduce_max"), AXES),
    _row("ReduceMean", "mean", (1, 18), ew.reduction("mean"), AXES),
    _row("ReduceMin", "reduce_min", (1, 20), ew.reduction("reduce_min"), AXES),
    _row("ReduceProd", "reduce_prod", (1, 18), ew.reduction("reduce_prod"), AXES),
    _row("ReduceSum", "reduce_sum", (1, 13), ew.reduction("reduce_sum"), AXES),
    _row("ReduceSumSquare", "reduce_sum_square", (1, 18), ew.reduction("reduce_sum_square"), AXES),
    _row("Relu", "relu", (6, 14), ew.unary("relu"), listed=BOTH),
    _row(
        "Reshape", "reshape", (5, 25), rearranging.reshape, "value shape!", rearranging.KEPT,
        listed=BOTH,
    ),
    _row(
        "Resize", "resize", (10, 19), quantized.resize, "value roi_or_scales!? scales!? sizes!?",
        *resizing.RESIZE, listed=BOTH,
    ),
    _row("ReverseSequence", "reverse_sequence", (10, 10),
         rearranging.indexed("reverse_sequence", batch_axis=1, time_axis=0), "value index"),
    _row("Round", "round", (11, 22), ew.unary("round")),
    _row(
        "Selu", "selu", (6, 22),
        ew.unary("selu", alpha=("alpha", SELU[0]), gamma=("gamma", SELU[1])),
    ),
    _row("Shrink", "shrink", (9, 9), ew.unary("shrink", lambd=("lambd", 0.5), bias=("bias", 0.0))),
    _row("Sigmoid", "logistic", (6, 13), ew.unary("logistic"), listed=BOTH),
    _row("Sign", "sign", (9, 13), ew.unary("sign")),
    _row(
        "SimplifiedLayerNormalization", "reduce_mean_square", (1, 1), matrices.rms_norm,
        "value scale",
    ),
    _row("Sin", "sin", (7, 22), ew.unary("sin")),
    _row("Sinh", "sinh", (9, 22), ew.unary("sinh")),
    _row(
        "Slice", "strided_slice", (1, 13), rearranging.slices, EDGES, rearranging.EDGES,
        listed=BOTH,
    ),
    _row("Softmax", "softmax", (1, 13), ew.softmax("softmax", beta=1.0), listed=BOTH),
    _row("Softplus", "softplus", (1, 22), ew.unary("softplus")),
    _row("Softsign", "softsign", (1, 22), ew.unary("softsign")),
    _row("SpaceToDepth", "space_to_depth", (1, 13), rearranging.blocks("space_to_depth")),
    _row(
        "Split", "strided_slice", (2, 18), rearranging.split, SPLIT, rearranging.AXIS,
        rearranging.divided,
    ),
    _row("Sqrt", "sqrt", (6, 13), ew.unary("sqrt")),
    _row("Squeeze", "reshape", (1, 25), rearranging.squeeze, AXES, rearranging.single),
    _row("Sub", "sub", (7, 14), ew.binary("sub"), TWO, listed=BOTH),
    _row("Sum", "add", (8, 13), ew.variadic("add"), MANY, listed=BOTH),
    _row("Swish", "swish", (24, 24), ew.unary("swish", alpha=("alpha", 1.0))),
    _row("Tan", "tan", (7, 22), ew.unary("tan")),
    _row("Tanh", "tanh", (6, 13), ew.unary("tanh")),
    _row(
        "ThresholdedRelu", "thresholded_relu", (10, 22),
        ew.unary("thresholded_relu", alpha=("alpha", 1.0)),
    ),
    _row("Tile", "tile", (6, 13), rearranging.tile, "value repeats!"),
    _row("TopK", "top_k", (10, 24), ew.top_k, "value count!", types=f"f32 f16 {COUNTS}"),
    _row("Transpose", "transpose", (1, 25), rearranging.transpose, "value", rearranging.ORDERED),
    _row("Unsqueeze", "reshape", (1, 25), rearranging.unsqueeze, AXES, rearranging.NAMED),
    _row(
        "Upsample", "resize", (7, 10), resizing.upsample, "value scales!?", *resizing.UPSAMPLE,
        listed=BOTH,
    ),
    _row("Where", "where", (9, 16), ew.where, "condition value value"),
    _row("Xor", "logical_xor", (7, 7), ew.binary("logical_xor"), TWO),
)  # fmt: skip

CONTRIB = "com.microsoft"
PAIR, ONE = f"{QUANTIZED} {QUANTIZED} {QUANTIZED[6:]}", f"{QUANTIZED} {QUANTIZED[6:]}"


def _contrib(name: str, op: str, build: Row, takes: str, *asked: Condition, **more: Any) -> HostOp:
    """A row of onnxruntime's own operators; its optimization writes some into models it saves."""
    return _row(f"{CONTRIB}:{name}", op, (1, 1), build, takes, *asked, **more)


_CONTRIB_ROWS: tuple[HostOp, ...] = (
    _contrib(
        "Attention", "softmax", attention.attention,
        "value weights bias? mask? past? bias? past*?", *attention.ATTENTION,
    ),
    _contrib("BiasGelu", "gelu", fused.gelu("gelu"), "value bias"),
    _contrib(
        "DequantizeLinear", "dequantize", quantize.dequantize_linear, QUANTIZED,
        conditions.DEQUANTIZED, blocks.along, types=WIDE, bounds="opens",
    ),
    _contrib(
        "DynamicQuantizeMatMul", "matmul", quantized.dynamic_matmul,
        "value weights scale zero_point? bias?", types=SCALED,
    ),
    _contrib(
        "EmbedLayerNormalization", "layer_normalization", attention.embedding,
        "index index? value value value? scale bias mask? index?", *attention.EMBEDDING,
    ),
    _contrib("FastGelu", "gelu_tanh", fused.gelu("gelu_tanh"), "value bias?"),
    _contrib(
        "FusedConv", "conv_2d", fused.conv, f"{LAYER} value?", *windows.CONV,
        conditions.activation,
    ),
    _contrib(
        "FusedGemm", "fully_connected", fused.gemm, LAYER, conditions.MATRICES,
        conditions.activation,
    ),
    _contrib("FusedMatMul", "matmul", fused.matmul, TWO),
    _contrib("Gelu", "gelu", fused.gelu("gelu", biased=False), "value"),
    _contrib(
        "MatMulIntegerToFloat", "matmul", quantized.matmul_to_float,
        "value weights scale scale zero_point? zero_point? bias?", types=SCALED,
    ),
    _contrib(
        "MatMulNBits", "matmul", blocks.matmul_n_bits,
        "value weights! scales! zero_points!? index? bias?", *blocks.N_BITS,
        types="f32 f16 u8",
    ),
    _contrib(
        "QGemm", "fully_connected", quantized.gemm,
        f"{QUANTIZED} weights {RESULT} bias? scale? zero_point?", conditions.MATRICES,
        conditions.SCALE_AND_ZERO_POINT, types=SUMS,
    ),
    _contrib("QLinearAdd", "add", quantized.pointwise(ew.binary("add"), 2), PAIR, types=SCALED),
    _contrib(
        "QLinearAveragePool", "average_pool_2d", quantized.pointwise(windows.average_pool), ONE,
        conditions.CHANNELS_FIRST, *windows.POOL, types=SCALED,
    ),
    _contrib("QLinearConcat", "concat", quantized.concat, f"{RESULT} value*", types=SCALED),
    _contrib(
        "QLinearGlobalAveragePool", "mean", quantized.pointwise(ew.pool_all("mean")), ONE,
        conditions.CHANNELS_FIRST, windows.SPATIAL, types=SCALED,
    ),
    _contrib(
        "QLinearLeakyRelu", "leaky_relu",
        quantized.pointwise(ew.unary("leaky_relu", alpha=("alpha", 0.01))), ONE, types=SCALED,
    ),
    _contrib("QLinearMul", "mul", quantized.pointwise(ew.binary("mul"), 2), PAIR, types=SCALED),
    _contrib(
        "QLinearSigmoid", "logistic", quantized.pointwise(ew.unary("logistic")), ONE, types=SCALED
    ),
    _contrib("QLinearSoftmax", "softmax", quantized.softmax, ONE, types=SCALED),
    _contrib(
        "QLinearWhere", "where", quantized.where, f"condition {PAIR}", types=f"bool {SCALED}"
    ),
    _contrib(
        "QuantizeLinear", "quantize", quantize.quantize_linear, QUANTIZED, conditions.QUANTIZED,
        blocks.along,
        types=WIDE, bounds="closes",
    ),
    _contrib("QuickGelu", "swish", fused.quick_gelu, "value"),
    _contrib(
        "SkipLayerNormalization", "layer_normalization", fused.skip_layer_norm,
        "value value scale bias? bias?",
    ),
    _contrib(
        "SkipSimplifiedLayerNormalization", "reduce_mean_square", fused.skip_rms_norm,
        "value value scale bias?", conditions.UNREAD_MEAN,
    ),
    _contrib("TransposeMatMul", "matmul", fused.matmul, TWO),
)  # fmt: skip

HOST_OPS: dict[str, HostOp] = table((*_ROWS, *_CONTRIB_ROWS), internal.rows())
