"""The table of ONNX operators: the op of each, and the range of opset versions that is supported.

A version is the opset that introduced the operator's definition; onnxruntime reports it for every
node. A range begins with the first definition of the meaning that the row implements, and ends with
the newest one known (opset 28). Later definitions only add element types."""

from __future__ import annotations

from tflgpu_plugin.ir import HostOp, table
from tflgpu_plugin.providers import arithmetic

from . import (
    blockwise,
    classical,
    conditions,
    control_flow,
    counted_results,
    einsum,
    elementwise as ew,
    image_regions,
    indexing,
    matmul_norm,
    narrow_integers,
    operand_shapes,
    quantize,
    quantized,
    rearranging,
    recurrent,
    resizing,
    rotary,
    rows,
    scaled_attention,
    spectral,
    windows,
)  # fmt: skip
from .contrib import contributed
from .rows import AXES, BOTH, CELL, COUNTS, CURRENT, LAYER, MANY, NORMED, TWO, UPDATED, row

_ROWS: tuple[HostOp, ...] = (
    row("Abs", "abs", (6, 13), small=True),
    row("Acos", "acos", (7, 22)),
    row("Acosh", "acosh", (9, 22)),
    row("Add", "add", (7, 14), TWO, listed=BOTH, small=True, unsigned=True),
    row("Affine", "mul", (1, 1), by=ew.affine),
    row(
        "AffineGrid", "matmul", (20, 20), "value shape!", *resizing.TURNED, by=resizing.affine_grid,
    ),
    row("And", "logical_and", (7, 7), TWO, listed=CURRENT),
    row("ArgMax", "arg_max", (1, 13), by=ew.argument, types=f"f32 f16 {COUNTS}"),
    row("ArgMin", "arg_min", (1, 13), by=ew.argument, types=f"f32 f16 {COUNTS}"),
    row("Asin", "asin", (7, 22)),
    row("Asinh", "asinh", (9, 22)),
    row("Atan", "atan", (7, 22)),
    row("Atanh", "atanh", (9, 22)),
    row(
        "Attention", "attention", (23, 24), "value value value condition? past? past? index?",
        *scaled_attention.ATTENTION, by=scaled_attention.attention, types="f32 f16 bool",
        fragile=True,
    ),
    row(
        "AveragePool", "average_pool_2d", (7, 22), "value", *windows.POOL, image=True,
        derived=windows.pooling, ceil_mode=False, counted=("count_include_pad", False), listed=BOTH,
    ),
    row(
        "BatchNormalization", "mul", (7, 15), f"{NORMED} mean variance", conditions.INFERENCE,
        operand_shapes.by_channel(1, 2, 3, 4), by=matmul_norm.batch_norm, gives="value",
        listed=BOTH,
    ),
    row(
        "BitCast", "cast", (26, 26), "value", narrow_integers.as_wide, by=narrow_integers.bit_cast,
        types=f"bool {' '.join(narrow_integers.TYPES)}", bfloat16=True,
    ),
    row(
        "BitShift", "left_shift", (11, 28), TWO, by=narrow_integers.also(ew.bit_shift),
        types="i8 u8 i16 u16 i32",
    ),
    row("BitwiseAnd", "bitwise_and", (18, 18), TWO, small=True, unsigned=True),
    row("BitwiseNot", "bitwise_not", (18, 18), small=True),
    row("BitwiseOr", "bitwise_or", (18, 18), TWO, small=True, unsigned=True),
    row("BitwiseXor", "bitwise_xor", (18, 18), TWO, small=True, unsigned=True),
    row(
        "Cast", "cast", (6, 28), "value", conditions.castable, by=quantized.cast,
        types=f"f32 f16 bool {COUNTS} {' '.join(narrow_integers.TYPES)}", bfloat16=True,
        unsigned=True,
    ),
    row(
        "CastLike", "cast", (15, 25), "value like", indexing.LIKENESS, by=indexing.cast_like,
        bfloat16=True,
    ),
    row("Ceil", "ceil", (6, 13)),
    row("Celu", "celu", (12, 28)),
    row(
        "Clip", "clip", (6, 13), "value low? high?", by=narrow_integers.also(ew.clip), listed=BOTH,
        types=f"f32 f16 {COUNTS} {' '.join(narrow_integers.TYPES)}", unsigned=True,
    ),
    row(
        "Col2Im", "reduce_sum", (18, 18), "value shape! shape!", *image_regions.COLUMNS,
        by=image_regions.col2im, types="f32 f16",
    ),
    row(
        "Compress", "gather", (9, 28), "value condition", counted_results.in_bounds,
        by=counted_results.compress,
    ),
    row("Concat", "concat", (4, 13), MANY, axis=0, listed=BOTH, bfloat16=True),
    row("Conv", "conv_2d", (1, 22), LAYER, *windows.CONV, by=windows.conv, listed=BOTH),
    row(
        "ConvTranspose", "transpose_conv", (1, 22), LAYER, *windows.CONV_TRANSPOSE,
        by=windows.conv_transpose, listed=BOTH,
    ),
    row(
        "ConvInteger", "conv_2d", (10, 10), "value weights zero_point? zero_point?", *windows.CONV,
        quantized.single(), by=quantized.conv_integer, types=f"{rows.WHOLE} i32",
    ),
    row("Cos", "cos", (7, 22)),
    row("Cosh", "cosh", (9, 22)),
    row("Crop", "strided_slice", (1, 1), by=rearranging.crop),
    row("CumProd", "cumprod", (26, 26), "value axis", exclusive=False, reverse=False),
    row("CumSum", "cumsum", (11, 14), "value axis", exclusive=False, reverse=False),
    row(
        "DFT", "matmul", (17, 20), "value count? axis?", *spectral.TRANSFORMED, by=spectral.dft,
    ),
    row(
        "DeformConv", "conv_2d", (19, 22), "value weights value bias? value?",
        *windows.DEFORM_CONV, by=windows.deform_conv,
    ),
    row("DepthToSpace", "depth_to_space", (1, 28), image=True, block=("blocksize", 1), mode="DCR"),
    row(
        "Det", "reduce_sum", (11, 22), "value", matmul_norm.SQUARE, by=matmul_norm.det,
        types="f32 f16",
    ),
    row(
        "DequantizeLinear", "dequantize", (10, 28), rows.QUANTIZED, conditions.DEQUANTIZED,
        blockwise.along, by=quantize.dequantize_linear, types=rows.WIDE, listed=BOTH,
        bounds="opens",
    ),
    row("Div", "div", (7, 14), TWO, derived=ew.raises, small=True, unsigned=True),
    row(
        "Dropout", "reshape", (7, 22), "value ratio? training_mode!?", conditions.NOTHING_DROPPED,
        by=rearranging.same, gives="value", listed=BOTH,
    ),
    row(
        "DynamicQuantizeLinear", "quantize", (11, 11), by=quantize.dynamic_quantize, types="f32 u8",
    ),
    row(
        "Einsum", "matmul", (12, 28), MANY, einsum.readable, by=einsum.einsum, types="f32 f16",
        fragile=True,
    ),
    row("Elu", "elu", (6, 22)),
    row("Equal", "equal", (7, 19), TWO, makes=("bool",), small=True, unsigned=True),
    row("Erf", "erf", (9, 13)),
    row("EyeLike", "cast", (9, 22), "value", indexing.EYE, by=indexing.eye),
    row("Exp", "exp", (6, 13), listed=CURRENT),
    row("Expand", "expand", (8, 13), "value shape"),
    row("Flatten", "reshape", (1, 25), by=rearranging.flatten, listed=BOTH, bfloat16=True),
    row("Floor", "floor", (6, 13)),
    row("GRU", "gru", (7, 22), CELL, *recurrent.GRU, by=recurrent.gru, fragile=True),
    row(
        "Gather", "gather", (1, 13), "value index", axis=0, wraps=True, raises=True, bfloat16=True,
    ),
    row(
        "GatherElements", "gather_elements", (11, 13), "value index", axis=0, wraps=True,
        raises=True, bfloat16=True,
    ),
    row(
        "GatherND", "gather_nd", (11, 13), "value index", batch=("batch_dims", 0), wraps=True,
        raises=True, bfloat16=True,
    ),
    row("Gelu", "gelu", (20, 20), by=ew.gelu),
    row(
        "Gemm", "fully_connected", (7, 13), LAYER, conditions.MATRICES, operand_shapes.product(),
        by=matmul_norm.gemm, listed=BOTH,
    ),
    row("GlobalAveragePool", "mean", (1, 22), "value", windows.SPATIAL, by=ew.pool_all),
    row(
        "GlobalLpPool", "reduce_l2", (2, 22), "value", windows.SPATIAL, conditions.NORM,
        by=ew.lp_pool_all,
    ),
    row("GlobalMaxPool", "reduce_max", (1, 22), "value", windows.SPATIAL, by=ew.pool_all),
    row("Greater", "greater", (7, 13), TWO, makes=("bool",), small=True, unsigned=True),
    row(
        "GreaterOrEqual", "greater_equal", (12, 16), TWO, makes=("bool",), small=True,
        unsigned=True,
    ),
    row(
        "GroupNormalization", "layer_normalization", (18, 21), NORMED, conditions.GROUPS,
        by=matmul_norm.group_norm,
    ),
    row("GridSample", "grid_sample", (16, 22), TWO, resizing.SAMPLED, by=resizing.grid_sample),
    row("HardSigmoid", "hard_sigmoid", (6, 22)),
    row("HardSwish", "hard_swish", (14, 22)),
    row("Hardmax", "one_hot", (1, 13), by=indexing.hardmax, types="f32 f16"),
    row("Identity", "reshape", (1, 25), by=rearranging.same, listed=BOTH, bfloat16=True),
    row("If", "reshape", (1, 25), "condition", control_flow.repeated, by=control_flow.branch,
        bfloat16=True),
    row("ImageScaler", "mul", (1, 1), by=ew.image_scaler),
    row(
        "InstanceNormalization", "instance_normalization", (6, 22), NORMED,
        operand_shapes.by_channel(1, 2), image=True, fragile=True, epsilon=1e-5,
    ),
    row(
        "IsInf", "is_infinite", (10, 20), makes=("bool",), negative=("detect_negative", 1.0),
        positive=("detect_positive", 1.0), rounds=True,
    ),
    row("IsNaN", "is_nan", (9, 20), makes=("bool",), rounds=True),
    row("LRN", "lrn", (1, 13), image=True, size=1, alpha=1e-4, beta=0.75, bias=1.0),
    row(
        "LSTM", "lstm", (7, 22), f"{CELL} state? peepholes!?", *recurrent.LSTM, by=recurrent.lstm,
        listed=CURRENT, fragile=True,
    ),
    row(
        "LayerNormalization", "layer_normalization", (1, 17), f"{NORMED}?",
        operand_shapes.scale_and_bias,
        by=matmul_norm.layer_norm, rounds=True,
    ),
    row("LeakyRelu", "leaky_relu", (6, 16)),
    row("Less", "less", (7, 13), TWO, makes=("bool",), small=True, unsigned=True),
    row("LessOrEqual", "less_equal", (12, 16), TWO, makes=("bool",), small=True, unsigned=True),
    row("Log", "log", (6, 13)),
    row("Loop", "reshape", (1, 25), "value? condition? value*", control_flow.repeated,
        by=control_flow.loop, bfloat16=True),
    row("LogSoftmax", "log_softmax", (1, 13), by=ew.over_axis()),
    row("LpNormalization", "lp_normalization", (1, 22), axis=-1, p=2),
    row(
        "LpPool", "lp_pool", (2, 22), "value", *windows.POOL, image=True, derived=windows.pooling,
        ceil_mode=False, p=2,
    ),
    row("MatMul", "matmul", (1, 13), TWO, by=matmul_norm.matmul),
    row(
        "MatMulInteger", "matmul", (10, 10), "value weights zero_point? zero_point?",
        by=quantized.matmul_integer, types=f"{rows.WHOLE} i32",
    ),
    row(
        "Max", "maximum", (6, 13), MANY, by=ew.pairwise(nan=True), listed=CURRENT, small=True,
        unsigned=True,
    ),
    row(
        "MaxPool", "max_pool_2d", (1, 22), "value", *windows.POOL, image=True,
        derived=windows.pooling, ceil_mode=False, gives="value", listed=BOTH,
    ),
    row(
        "MaxRoiPool", "roi_max_pool", (1, 22), TWO, image_regions.BINS,
        by=image_regions.max_roi_pool,
    ),
    row(
        "MaxUnpool", "scatter_new", (9, 22), "value index shape?", indexing.UNPOOLED,
        indexing.SHAPED_BY_WINDOW, by=indexing.max_unpool, types="f32",
    ),
    row("Mean", "add", (6, 13), MANY, by=ew.average),
    row("MeanVarianceNormalization", "reduce_mean_square", (9, 13), by=matmul_norm.mean_variance),
    row(
        "Min", "minimum", (6, 13), MANY, by=ew.pairwise(nan=True), listed=CURRENT, small=True,
        unsigned=True,
    ),
    row("Mish", "mish", (18, 22)),
    row(
        "Mod", "fmod", (10, 28), TWO, conditions.REMAINDER, by=ew.modulo, small=True,
        unsigned=True,
    ),
    row("Mul", "mul", (7, 14), TWO, listed=BOTH, small=True, unsigned=True),
    row("Neg", "neg", (6, 13), small=True),
    row(
        "NonZero", "nonzero", (9, 13), "value", counted_results.RANKED, by=counted_results.nonzero,
        types=f"f32 f16 bool {COUNTS} {' '.join(narrow_integers.TYPES)}",
    ),
    row(
        "NonMaxSuppression", "chosen_boxes", (10, 28),
        "value value count? threshold? threshold?", counted_results.choice,
        by=counted_results.chosen_boxes,
    ),
    row("Not", "logical_not", (1, 1)),
    row(
        "OneHot", "one_hot", (9, 28), "index count! like", indexing.DEPTH, indexing.OFF_AND_ON,
        by=indexing.one_hot,
    ),
    row("Or", "logical_or", (7, 7), TWO),
    row("PRelu", "prelu", (7, 16), "value slope", listed=BOTH),
    row(
        "Pad", "pad", (2, 25), "value pads? padding_value!? axes?", rearranging.PADS,
        rearranging.cropped, rearranging.STORED, by=quantized.numbers_too(rearranging.pad),
        listed=BOTH,
    ),
    row("Pow", "pow", (7, 15), TWO, conditions.EXPONENTS, by=ew.power),
    row(
        "QLinearConv", "conv_2d", (10, 10),
        f"{rows.QUANTIZED} weights {rows.RESULT} {rows.RESULT} bias?", *windows.CONV,
        quantized.single(4, 5), by=quantized.over("Conv"), types=rows.SUMS,
    ),
    row(
        "QLinearMatMul", "matmul", (10, 21), f"{rows.QUANTIZED} {rows.QUANTIZED} {rows.RESULT}",
        quantized.single(4, 5), quantized.by_column, by=quantized.over("MatMul", -2, -1),
        types=rows.SCALED,
    ),
    row(
        "QuantizeLinear", "quantize", (10, 28), rows.QUANTIZED, conditions.QUANTIZED,
        blockwise.along,
        by=quantize.quantize_linear, types=rows.WIDE, listed=BOTH, bounds="closes",
    ),
    row("RMSNormalization", "reduce_mean_square", (23, 23), "value scale",
        operand_shapes.scale_and_bias,
        by=matmul_norm.rms_norm),
    row("RNN", "rnn", (7, 22), CELL, *recurrent.RNN, by=recurrent.rnn),
    row("Range", "add", (11, 28), "value value delta!", indexing.SPANNED, by=indexing.numbers,
        types="i64"),
    row("Reciprocal", "reciprocal", (6, 13)),
    row("ReduceL1", "reduce_l1", (1, 18), AXES, rearranging.FLAT, by=ew.reduction),
    row("ReduceL2", "reduce_l2", (1, 18), AXES, rearranging.FLAT, by=ew.reduction),
    row("ReduceLogSum", "reduce_log_sum", (1, 28), AXES, rearranging.FLAT, by=ew.reduction),
    row("ReduceLogSumExp", "reduce_log_sum_exp", (1, 28), AXES, rearranging.FLAT, by=ew.reduction),
    row("ReduceMax", "reduce_max", (1, 20), AXES, rearranging.FLAT, by=ew.reduction),
    row("ReduceMean", "mean", (1, 18), AXES, rearranging.FLAT, by=ew.reduction),
    row("ReduceMin", "reduce_min", (1, 20), AXES, rearranging.FLAT, by=ew.reduction),
    row("ReduceProd", "reduce_prod", (1, 18), AXES, rearranging.FLAT, by=ew.reduction),
    row("ReduceSum", "reduce_sum", (1, 13), AXES, rearranging.FLAT, by=ew.reduction),
    row("ReduceSumSquare", "reduce_sum_square", (1, 18), AXES, rearranging.FLAT, by=ew.reduction),
    row("Relu", "relu", (6, 14), listed=BOTH),
    row(
        "Reshape", "reshape", (5, 25), "value shape", rearranging.FLAT, rearranging.KEPT,
        rearranging.left_open, by=rearranging.reshape, listed=BOTH, bfloat16=True,
    ),
    row(
        "Resize", "resize", (10, 19), "value roi_or_factors? factors? sizes?", *resizing.RESIZE,
        by=quantized.numbers_too(resizing.resize), listed=BOTH,
    ),
    row("ReverseSequence", "reverse_sequence", (10, 28), "value index", batch_axis=1, time_axis=0,
        raises=True),
    row(
        "RotaryEmbedding", "rotary", (23, 23), "value value value index?", rotary.ROTARY,
        by=rotary.rotary,
    ),
    row(
        "RoiAlign", "roi_align", (10, 22), "value value index", image_regions.REGIONS,
        by=image_regions.roi_align,
    ),
    row("Round", "round", (11, 22)),
    row("Scan", "reshape", (9, 25), "value*", control_flow.repeated, by=control_flow.scan,
        bfloat16=True),
    row(
        "Scatter", "scatter_elements", (9, 9), UPDATED, by=indexing.updated, bfloat16=True,
    ),
    row(
        "ScatterElements", "scatter_elements", (11, 18), UPDATED,
        by=indexing.updated, bfloat16=True,
    ),
    row(
        "ScatterND", "scatter_nd", (11, 18), UPDATED, by=indexing.updated, bfloat16=True,
    ),
    row("Selu", "selu", (6, 22)),
    row("Shrink", "shrink", (9, 9)),
    row("Sigmoid", "logistic", (6, 13), listed=BOTH),
    row("Sign", "sign", (9, 13), by=ew.sign, small=True, unsigned=True, rounds=True),
    row(
        "SimplifiedLayerNormalization", "reduce_mean_square", (1, 1), "value scale",
        operand_shapes.scale_and_bias, by=matmul_norm.rms_norm, rounds=True,
    ),
    row("Sin", "sin", (7, 22)),
    row("Sinh", "sinh", (9, 22)),
    row(
        "Slice", "strided_slice", (1, 13), "value starts? ends? axes? steps?", rearranging.FLAT,
        rearranging.edged, by=rearranging.slices, listed=BOTH, bfloat16=True,
    ),
    row("Softmax", "softmax", (1, 13), by=ew.over_axis(beta=1.0), listed=BOTH),
    row("Softplus", "softplus", (1, 22)),
    row("Softsign", "softsign", (1, 22)),
    row("SpaceToDepth", "space_to_depth", (1, 28), image=True, block=("blocksize", 1), mode="DCR"),
    row(
        "Split", "strided_slice", (2, 18), "value split?", rearranging.AXIS, rearranging.divided,
        by=rearranging.split, bfloat16=True,
    ),
    row("Sqrt", "sqrt", (6, 13)),
    row("Squeeze", "reshape", (1, 25), AXES, rearranging.single, by=rearranging.squeeze,
        bfloat16=True),
    row("STFT", "matmul", (17, 17), "value count value? count?", spectral.framed,
        by=spectral.stft, fragile=True),
    row("Sub", "sub", (7, 14), TWO, listed=BOTH, small=True, unsigned=True),
    row("Sum", "add", (6, 13), MANY, by=ew.pairwise(), listed=BOTH),
    row("Swish", "swish", (24, 24)),
    row("Tan", "tan", (7, 22)),
    row("Tanh", "tanh", (6, 13)),
    row(
        "TensorScatter", "update_slice", (24, 24), "value value index?", indexing.WRITTEN,
        by=indexing.tensor_scatter, types=f"f32 f16 bool {COUNTS}", bfloat16=True,
    ),
    row("ThresholdedRelu", "thresholded_relu", (10, 22)),
    row("Tile", "tile", (6, 13), "value repeats"),
    row(
        "TopK", "top_k", (10, 24), "value count", makes=("", "i64"), axis=-1, largest=True,
        types=f"f32 f16 {COUNTS}",
    ),
    row("Transpose", "transpose", (1, 25), "value", rearranging.ORDERED, by=rearranging.transpose,
        bfloat16=True),
    row("Trilu", "where", (14, 14), "value count?", indexing.ONE_DIAGONAL, by=indexing.trilu,
        fragile=True),
    row("Unique", "nonzero", (11, 28), "value", counted_results.sortable, by=counted_results.unique,
        types="f32 i64", fragile=True),
    row("Unsqueeze", "reshape", (1, 25), AXES, rearranging.named, by=rearranging.unsqueeze,
        bfloat16=True),
    row(
        "Upsample", "resize", (7, 10), "value factors?", *resizing.UPSAMPLE, by=resizing.resize,
        listed=BOTH,
    ),
    row("Where", "where", (9, 16), "condition value value", small=True, unsigned=True),
    row("Xor", "logical_xor", (7, 7), TWO),
)  # fmt: skip

HOST_OPS: dict[str, HostOp] = table((*_ROWS, *contributed(_ROWS), *classical.ROWS))

# Operators without a kernel here: their results are computed before a run.
CPU_OPS: dict[str, HostOp] = table(
    (
        row("ConstantOfShape", "", (9, 28), "shape!", by=arithmetic.fill),
        row("Range", "", (11, 28), "first! limit! delta!", by=arithmetic.steps),
        row("Shape", "", (1, 28), by=arithmetic.shape, bfloat16=True),
        row("Size", "", (1, 28), by=arithmetic.size, bfloat16=True),
    )
)
