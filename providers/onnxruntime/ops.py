"""The table of ONNX operators: what each becomes and which opset versions are read.

A version is that of the operator's definition (the opset that introduced it), as onnxruntime tells
it for every node. A range begins where the definition first has the meaning that the row reads, and
ends with the newest definition known (opset 26). Later definitions add element types.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tflgpu_plugin import ops as internal
from tflgpu_plugin.ir.host_op import Condition, HostOp, operands, table

from . import (
    attention,
    blocks,
    conditions,
    einsum,
    fused,
    grouped,
    indexing,
    matrices,
    narrow,
    quantize,
    quantized,
    rearranging,
    recurrent,
    resizing,
    rotary,
    windows,
)
from . import elementwise as ew
from .declared import Row, declared


def _row(
    host_op: str, op: str, versions: tuple[int, int], takes: str = "value", *asked: Condition,
    by: Row | None = None, gives: str = "", types: str = "", listed: tuple[str, ...] = (),
    bounds: str = "", small: bool = False, **more: Any,
) -> HostOp:  # fmt: skip
    """A row of nodes that are made as `declared` of `more`, or `by` a function of their own;
    `gives` names the outputs that are supported where not all are, and `listed` the editions of the
    documentation that list what a converter to TFLite makes of the operator. `small`: also of whole
    numbers of 8 and 16 bits."""
    documented, row = dict.fromkeys(listed, versions), by or declared(**more)
    given = tuple(types.split())
    if small:
        own = internal.rows()[op].types
        row, given = narrow.also(row), (*own, *(["f16"] if "f32" in own else []), *narrow.TYPES)
    return HostOp(
        host_op, op, versions, documented, row, operands(takes),
        outputs=tuple(gives.split()) or None, types=given, conditions=asked,
        bounds=bounds,
    )  # fmt: skip


# What quantized operators hold: numbers, and the scales and biases that go with them.
WHOLE = "i8 u8"
WIDE = f"{WHOLE} i16 u16 f32"
SCALED = f"{WHOLE} f32"
SUMS = f"{SCALED} i32"
COUNTS = "i32 i64"  # indices, and what is computed with them

# How many operators take their inputs.
TWO, MANY, LAYER = "value value", "value*", "value weights bias?"
AXES, SPLIT = "value axes?", "value split?"
NORMED = "value scale bias"
QUANTIZED = "value scale zero_point?"
RESULT = "scale zero_point"
CELL = "value weights! recurrent_weights! biases!? lengths!? state?"
PLACED = "index value"
EDGES = "value starts? ends? axes? steps?"

BOTH, CURRENT = ("2019", "current"), ("current",)  # editions

SELU = (1.67326319217681884765625, 1.05070102214813232421875)  # defaults of Selu-22

_ROWS: tuple[HostOp, ...] = (
    _row("Abs", "abs", (6, 13), small=True),
    _row("Acos", "acos", (7, 22)),
    _row("Acosh", "acosh", (9, 22)),
    _row("Add", "add", (7, 14), TWO, listed=BOTH, small=True),
    _row("Affine", "mul", (1, 1), by=ew.affine),
    _row("And", "logical_and", (7, 7), TWO, listed=CURRENT),
    _row("ArgMax", "arg_max", (1, 13), by=ew.argument, types=f"f32 f16 {COUNTS}"),
    _row("ArgMin", "arg_min", (1, 13), by=ew.argument, types=f"f32 f16 {COUNTS}"),
    _row("Asin", "asin", (7, 22)),
    _row("Asinh", "asinh", (9, 22)),
    _row("Atan", "atan", (7, 22)),
    _row("Atanh", "atanh", (9, 22)),
    _row(
        "Attention", "attention", (23, 24), "value value value condition? past? past? index?",
        *attention.SCALED_DOT_PRODUCT, by=attention.scaled_dot_product, types="f32 f16 bool",
    ),
    _row(
        "AveragePool", "average_pool_2d", (7, 22), "value", *windows.POOL, image=True,
        derived=windows.pooling, ceil_mode=False, counted=("count_include_pad", False), listed=BOTH,
    ),
    _row(
        "BatchNormalization", "mul", (7, 15), f"{NORMED} mean variance", conditions.INFERENCE,
        by=matrices.batch_norm, gives="value", listed=BOTH,
    ),
    _row("BitwiseAnd", "bitwise_and", (18, 18), TWO, small=True),
    _row("BitwiseNot", "bitwise_not", (18, 18), small=True),
    _row("BitwiseOr", "bitwise_or", (18, 18), TWO, small=True),
    _row("BitwiseXor", "bitwise_xor", (18, 18), TWO, small=True),
    _row(
        "Cast", "cast", (6, 25), "value", conditions.castable, by=quantized.cast,
        types=f"f32 f16 bool {COUNTS} {' '.join(narrow.TYPES)}",
    ),
    _row("CastLike", "cast", (15, 25), "value like", indexing.LIKENESS, by=indexing.cast_like),
    _row("Ceil", "ceil", (6, 13)),
    _row("Celu", "celu", (12, 12), alpha=1.0),
    _row("Clip", "clip", (6, 13), "value low? high?", by=ew.clip, listed=BOTH),
    _row("Concat", "concat", (4, 13), MANY, axis=0, listed=BOTH),
    _row("Conv", "conv_2d", (1, 22), LAYER, *windows.CONV, by=windows.conv, listed=BOTH),
    _row(
        "ConvTranspose", "transpose_conv", (1, 22), LAYER, *windows.CONV_TRANSPOSE,
        by=windows.conv_transpose, listed=BOTH,
    ),
    _row(
        "ConvInteger", "conv_2d", (10, 10), "value weights zero_point? zero_point?", *windows.CONV,
        by=quantized.conv_integer, types=f"{WHOLE} i32",
    ),
    _row("Cos", "cos", (7, 22)),
    _row("Cosh", "cosh", (9, 22)),
    _row("Crop", "strided_slice", (1, 1), by=rearranging.crop),
    _row("CumSum", "cumsum", (11, 14), "value axis", exclusive=False, reverse=False),
    _row("DepthToSpace", "depth_to_space", (1, 13), image=True, block=("blocksize", 1), mode="DCR"),
    _row(
        "DequantizeLinear", "dequantize", (10, 25), QUANTIZED, conditions.DEQUANTIZED, blocks.along,
        by=quantize.dequantize_linear, types=WIDE, listed=BOTH, bounds="opens",
    ),
    _row("Div", "div", (7, 14), TWO, small=True),
    _row(
        "Dropout", "reshape", (7, 22), "value ratio? training_mode!?", conditions.NOTHING_DROPPED,
        by=rearranging.same, gives="value", listed=BOTH,
    ),
    _row(
        "DynamicQuantizeLinear", "quantize", (11, 11), by=quantize.dynamic_quantize, types="f32 u8",
    ),
    _row(
        "Einsum", "matmul", (12, 12), MANY, einsum.EQUATION, by=einsum.einsum, types="f32 f16",
    ),
    _row("Elu", "elu", (6, 22), alpha=1.0),
    _row("Equal", "equal", (7, 19), TWO, makes=("bool",), small=True),
    _row("Erf", "erf", (9, 13)),
    _row("EyeLike", "cast", (9, 22), "value", indexing.EYE, by=indexing.eye),
    _row("Exp", "exp", (6, 13), listed=CURRENT),
    _row("Expand", "expand", (8, 13), "value shape"),
    _row("Flatten", "reshape", (1, 25), by=rearranging.flatten, listed=BOTH),
    _row("Floor", "floor", (6, 13)),
    _row("GRU", "gru", (7, 22), CELL, *recurrent.GRU, by=recurrent.gru),
    _row("Gather", "gather", (1, 13), "value index", axis=0, wraps=True),
    _row("GatherElements", "gather_elements", (11, 13), "value index", axis=0, wraps=True),
    _row("GatherND", "gather_nd", (11, 13), "value index", batch=("batch_dims", 0), wraps=True),
    _row("Gelu", "gelu", (20, 20), by=ew.gelu),
    _row(
        "Gemm", "fully_connected", (7, 13), LAYER, conditions.MATRICES, by=matrices.gemm,
        listed=BOTH,
    ),
    _row("GlobalAveragePool", "mean", (1, 22), "value", windows.SPATIAL, by=ew.pool_all),
    _row("GlobalMaxPool", "reduce_max", (1, 22), "value", windows.SPATIAL, by=ew.pool_all),
    _row("Greater", "greater", (7, 13), TWO, makes=("bool",), small=True),
    _row("GreaterOrEqual", "greater_equal", (12, 16), TWO, makes=("bool",), small=True),
    _row(
        "GroupNormalization", "layer_normalization", (18, 21), NORMED, conditions.GROUPS,
        by=matrices.group_norm,
    ),
    _row("GridSample", "grid_sample", (16, 22), TWO, resizing.IMAGE, by=resizing.grid_sample),
    _row("HardSigmoid", "hard_sigmoid", (6, 22), alpha=0.2, beta=0.5),
    _row("HardSwish", "hard_swish", (14, 22)),
    _row("Hardmax", "one_hot", (1, 13), by=indexing.hardmax, types="f32 f16"),
    _row("Identity", "reshape", (1, 25), by=rearranging.same, listed=BOTH),
    _row("ImageScaler", "mul", (1, 1), by=ew.image_scaler),
    _row(
        "InstanceNormalization", "instance_normalization", (6, 22), NORMED, image=True,
        epsilon=1e-5,
    ),
    _row(
        "IsInf", "is_infinite", (10, 20), makes=("bool",), negative=("detect_negative", 1.0),
        positive=("detect_positive", 1.0),
    ),
    _row("IsNaN", "is_nan", (9, 20), makes=("bool",)),
    _row("LRN", "lrn", (1, 13), image=True, size=1, alpha=1e-4, beta=0.75, bias=1.0),
    _row(
        "LSTM", "lstm", (7, 22), f"{CELL} state? peepholes!?", *recurrent.LSTM, by=recurrent.lstm,
        listed=CURRENT,
    ),
    _row(
        "LayerNormalization", "layer_normalization", (1, 17), f"{NORMED}?", by=matrices.layer_norm,
    ),
    _row("LeakyRelu", "leaky_relu", (6, 16), alpha=0.01),
    _row("Less", "less", (7, 13), TWO, makes=("bool",), small=True),
    _row("LessOrEqual", "less_equal", (12, 16), TWO, makes=("bool",), small=True),
    _row("Log", "log", (6, 13)),
    _row("LogSoftmax", "log_softmax", (1, 13), by=ew.softmax),
    _row("LpNormalization", "lp_normalization", (1, 22), axis=-1, p=2),
    _row(
        "LpPool", "lp_pool", (2, 22), "value", *windows.POOL, image=True, derived=windows.pooling,
        ceil_mode=False, p=2,
    ),
    _row("MatMul", "matmul", (1, 13), TWO, by=matrices.matmul),
    _row(
        "MatMulInteger", "matmul", (10, 10), "value weights zero_point? zero_point?",
        by=quantized.matmul_integer, types=f"{WHOLE} i32",
    ),
    _row("Max", "maximum", (8, 13), MANY, by=ew.pairwise(nan=True), listed=CURRENT, small=True),
    _row(
        "MaxPool", "max_pool_2d", (1, 22), "value", *windows.POOL, image=True,
        derived=windows.pooling, ceil_mode=False, gives="value", listed=BOTH,
    ),
    _row(
        "MaxUnpool", "scatter_new", (9, 22), "value index shape?", indexing.UNPOOLED,
        indexing.SHAPED_BY_WINDOW, by=indexing.max_unpool, types="f32",
    ),
    _row("Mean", "add", (8, 13), MANY, by=ew.average),
    _row("MeanVarianceNormalization", "reduce_mean_square", (9, 13), by=matrices.mean_variance),
    _row("Min", "minimum", (8, 13), MANY, by=ew.pairwise(nan=True), listed=CURRENT, small=True),
    _row("Mish", "mish", (18, 22)),
    _row("Mod", "fmod", (10, 13), TWO, conditions.REMAINDER, by=ew.modulo, small=True),
    _row("Mul", "mul", (7, 14), TWO, listed=BOTH, small=True),
    _row("Neg", "neg", (6, 13), small=True),
    _row("Not", "logical_not", (1, 1)),
    _row(
        "OneHot", "one_hot", (9, 11), "index count! like", indexing.OFF_AND_ON, by=indexing.one_hot,
    ),
    _row("Or", "logical_or", (7, 7), TWO),
    _row("PRelu", "prelu", (7, 16), "value slope", listed=BOTH),
    _row(
        "Pad", "pad", (2, 25), "value pads? padding_value!? axes?", rearranging.PADS,
        rearranging.STORED, by=quantized.numbers_too(rearranging.pad), listed=BOTH,
    ),
    _row("Pow", "pow", (7, 15), TWO, conditions.EXPONENTS, by=ew.power),
    _row(
        "QLinearConv", "conv_2d", (10, 10), f"{QUANTIZED} weights {RESULT} {RESULT} bias?",
        *windows.CONV, by=quantized.over("Conv"), types=SUMS,
    ),
    _row(
        "QLinearMatMul", "matmul", (10, 21), f"{QUANTIZED} {QUANTIZED} {RESULT}",
        by=quantized.over("MatMul", -2, -1), types=SCALED,
    ),
    _row(
        "QuantizeLinear", "quantize", (10, 25), QUANTIZED, conditions.QUANTIZED, blocks.along,
        by=quantize.quantize_linear, types=WIDE, listed=BOTH, bounds="closes",
    ),
    _row("RMSNormalization", "reduce_mean_square", (23, 23), "value scale", by=matrices.rms_norm),
    _row("RNN", "rnn", (7, 22), CELL, *recurrent.RNN, by=recurrent.rnn),
    _row("Reciprocal", "reciprocal", (6, 13)),
    _row("ReduceL1", "reduce_l1", (1, 18), AXES, by=ew.reduction),
    _row("ReduceL2", "reduce_l2", (1, 18), AXES, by=ew.reduction),
    _row("ReduceLogSum", "reduce_log_sum", (1, 18), AXES, by=ew.reduction),
    _row("ReduceLogSumExp", "reduce_log_sum_exp", (1, 18), AXES, by=ew.reduction),
    _row("ReduceMax", "reduce_max", (1, 20), AXES, by=ew.reduction),
    _row("ReduceMean", "mean", (1, 18), AXES, by=ew.reduction),
    _row("ReduceMin", "reduce_min", (1, 20), AXES, by=ew.reduction),
    _row("ReduceProd", "reduce_prod", (1, 18), AXES, by=ew.reduction),
    _row("ReduceSum", "reduce_sum", (1, 13), AXES, by=ew.reduction),
    _row("ReduceSumSquare", "reduce_sum_square", (1, 18), AXES, by=ew.reduction),
    _row("Relu", "relu", (6, 14), listed=BOTH),
    _row(
        "Reshape", "reshape", (5, 25), "value shape", rearranging.KEPT, by=rearranging.reshape,
        listed=BOTH,
    ),
    _row(
        "Resize", "resize", (10, 19), "value roi_or_factors? factors? sizes?", *resizing.RESIZE,
        by=quantized.numbers_too(resizing.resize), listed=BOTH,
    ),
    _row("ReverseSequence", "reverse_sequence", (10, 10), "value index", batch_axis=1, time_axis=0),
    _row(
        "RotaryEmbedding", "mul", (23, 23), "value value value index?", *rotary.ROTARY,
        by=rotary.rotary,
    ),
    _row("Round", "round", (11, 22)),
    _row(
        "Scatter", "scatter_elements", (9, 9), f"value {PLACED}", axis=0, reduction="none",
        wraps=True,
    ),
    _row(
        "ScatterElements", "scatter_elements", (11, 18), f"value {PLACED}", axis=0,
        reduction="none", wraps=True,
    ),
    _row("ScatterND", "scatter_nd", (11, 18), f"value {PLACED}", reduction="none", wraps=True),
    _row("Selu", "selu", (6, 22), alpha=SELU[0], gamma=SELU[1]),
    _row("Shrink", "shrink", (9, 9), lambd=0.5, bias=0.0),
    _row("Sigmoid", "logistic", (6, 13), listed=BOTH),
    _row("Sign", "sign", (9, 13), small=True),
    _row(
        "SimplifiedLayerNormalization", "reduce_mean_square", (1, 1), "value scale",
        by=matrices.rms_norm,
    ),
    _row("Sin", "sin", (7, 22)),
    _row("Sinh", "sinh", (9, 22)),
    _row(
        "Slice", "strided_slice", (1, 13), EDGES, rearranging.EDGES, by=rearranging.slices,
        listed=BOTH,
    ),
    _row("Softmax", "softmax", (1, 13), by=ew.softmax, listed=BOTH),
    _row("Softplus", "softplus", (1, 22)),
    _row("Softsign", "softsign", (1, 22)),
    _row("SpaceToDepth", "space_to_depth", (1, 13), image=True, block=("blocksize", 1), mode="DCR"),
    _row(
        "Split", "strided_slice", (2, 18), SPLIT, rearranging.AXIS, rearranging.divided,
        by=rearranging.split,
    ),
    _row("Sqrt", "sqrt", (6, 13)),
    _row("Squeeze", "reshape", (1, 25), AXES, rearranging.single, by=rearranging.squeeze),
    _row("Sub", "sub", (7, 14), TWO, listed=BOTH, small=True),
    _row("Sum", "add", (8, 13), MANY, by=ew.pairwise(), listed=BOTH),
    _row("Swish", "swish", (24, 24), alpha=1.0),
    _row("Tan", "tan", (7, 22)),
    _row("Tanh", "tanh", (6, 13)),
    _row(
        "TensorScatter", "update_slice", (24, 24), "value value index?", indexing.WRITTEN,
        by=indexing.tensor_scatter, types=f"f32 f16 bool {COUNTS}",
    ),
    _row("ThresholdedRelu", "thresholded_relu", (10, 22), alpha=1.0),
    _row("Tile", "tile", (6, 13), "value repeats"),
    _row(
        "TopK", "top_k", (10, 24), "value count", makes=("", "i64"), axis=-1, largest=1,
        types=f"f32 f16 {COUNTS}",
    ),
    _row("Transpose", "transpose", (1, 25), "value", rearranging.ORDERED, by=rearranging.transpose),
    _row("Trilu", "where", (14, 14), "value count?", indexing.ONE_DIAGONAL, by=indexing.trilu),
    _row("Unsqueeze", "reshape", (1, 25), AXES, rearranging.NAMED, by=rearranging.unsqueeze),
    _row(
        "Upsample", "resize", (7, 10), "value factors?", *resizing.UPSAMPLE, by=resizing.resize,
        listed=BOTH,
    ),
    _row("Where", "where", (9, 16), "condition value value", small=True),
    _row("Xor", "logical_xor", (7, 7), TWO),
)  # fmt: skip

CONTRIB = "com.microsoft"
PAIR, ONE = f"{QUANTIZED} {QUANTIZED} {QUANTIZED[6:]}", f"{QUANTIZED} {QUANTIZED[6:]}"


def _contrib(name: str, op: str, *takes: Any, **more: Any) -> HostOp:
    """A row of onnxruntime's own operators; its optimization writes some into models it saves."""
    return _row(f"{CONTRIB}:{name}", op, (1, 1), *takes, **more)


def _qlinear(name: str, takes: str = ONE, *asked: Condition, types: str = SCALED) -> HostOp:
    """The row of an operator of ONNX as one over quantized tensors."""
    (row,) = (row for row in _ROWS if row.name == name)
    return _contrib(
        f"QLinear{name}", row.op, takes, *asked, *row.conditions, by=quantized.over(name),
        types=types,
    )  # fmt: skip


_CONTRIB_ROWS: tuple[HostOp, ...] = (
    _contrib(
        "Attention", "attention", "value weights bias? mask? past? bias? past?",
        *attention.ATTENTION, by=attention.attention,
    ),
    _contrib("BiasGelu", "gelu", "value bias", by=fused.gelu),
    _contrib(
        "DynamicQuantizeMatMul", "matmul", "value weights scale zero_point? bias?",
        by=quantized.dynamic_matmul, types=SCALED,
    ),
    _contrib(
        "EmbedLayerNormalization", "layer_normalization",
        "index index? value value value? scale bias mask? index?", *attention.EMBEDDING,
        by=attention.embedding,
    ),
    _contrib("FastGelu", "gelu_tanh", "value bias?", by=fused.gelu),
    _contrib(
        "FusedConv", "conv_2d", f"{LAYER} value?", *windows.CONV, conditions.activation,
        by=fused.conv,
    ),
    _contrib(
        "FusedGemm", "fully_connected", LAYER, conditions.MATRICES, conditions.activation,
        by=fused.gemm,
    ),
    _contrib("FusedMatMul", "matmul", TWO, by=fused.matmul),
    _contrib("Gelu", "gelu"),
    _contrib(
        "GroupQueryAttention", "attention",
        "value value? value? past? past? index count! value? value? index? bias? value?",
        *grouped.GROUPED_QUERY, by=grouped.grouped_query,
    ),
    _contrib(
        "MatMulIntegerToFloat", "matmul", "value weights scale scale zero_point? zero_point? bias?",
        by=quantized.matmul_to_float, types=SCALED,
    ),
    _contrib(
        "MatMulNBits", "matmul", "value weights! scales! zero_points!? index? bias?",
        *blocks.N_BITS, by=blocks.matmul_n_bits, types="f32 f16 u8",
    ),
    _contrib(
        "QGemm", "fully_connected", f"{QUANTIZED} weights {RESULT} bias? scale? zero_point?",
        conditions.MATRICES, conditions.SCALE_AND_ZERO_POINT, by=quantized.over("Gemm", 0, 1),
        types=SUMS,
    ),
    _qlinear("Add", PAIR),
    _qlinear("AveragePool", ONE, conditions.CHANNELS_FIRST),
    _contrib("QLinearConcat", "concat", f"{RESULT} value*", by=quantized.concat, types=SCALED),
    _qlinear("GlobalAveragePool", ONE, conditions.CHANNELS_FIRST),
    _qlinear("LeakyRelu"),
    _qlinear("Mul", PAIR),
    _qlinear("Sigmoid"),
    _qlinear("Softmax"),
    _qlinear("Where", f"condition {PAIR}", types=f"bool {SCALED}"),
    _contrib(
        "MultiHeadAttention", "attention",
        "value value? value? bias? mask? bias? past? past? past? past?", *attention.MULTI_HEAD,
        by=attention.multi_head,
    ),
    _contrib("QuickGelu", "swish", alpha=1.702),
    _contrib(
        "RotaryEmbedding", "mul", "value index value value", *rotary.CONTRIB, by=rotary.contrib
    ),
    _contrib(
        "SkipLayerNormalization", "layer_normalization", "value value scale bias? bias?",
        by=fused.skip_layer_norm,
    ),
    _contrib(
        "SkipSimplifiedLayerNormalization", "reduce_mean_square", "value value scale bias?",
        conditions.UNREAD_MEAN, by=fused.skip_rms_norm,
    ),
    _contrib("TransposeMatMul", "matmul", TWO, by=fused.matmul),
)  # fmt: skip

# As ONNX has them, but for element types.
_CONTRIB_ROWS += tuple(
    replace(row, name=f"{CONTRIB}:{row.name}", versions=(1, 1), documented={})
    for row in _ROWS
    if row.bounds
)

HOST_OPS: dict[str, HostOp] = table((*_ROWS, *_CONTRIB_ROWS), internal.rows())
