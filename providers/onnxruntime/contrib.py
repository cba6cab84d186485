"""The table rows of the operators of the com.microsoft domain; onnxruntime's optimizer writes some
of them into the models that it saves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tflgpu_plugin.ir import Condition, HostOp

from . import (
    attention,
    blockwise,
    causal_convolution,
    conditions,
    diffusion,
    experts,
    fused_operators,
    gates,
    grouped_query_attention,
    operand_shapes,
    packed_attention,
    quantized,
    quantized_experts,
    recurrent,
    rotary,
    windows,
)  # fmt: skip
from .rows import LAYER, QUANTIZED, RESULT, SCALED, SUMS, TWO, row

DOMAIN = "com.microsoft"
Q_TABLES = "weights! weights! weights!? weights! weights!"
Q_SCALES = "scale! scale! scale!? scale! scale! " + Q_TABLES.replace("weights", "zero_point")
PAIR, ONE = f"{QUANTIZED} {QUANTIZED} {QUANTIZED[6:]}", f"{QUANTIZED} {QUANTIZED[6:]}"


def _contrib(name: str, op: str, *takes: Any, **more: Any) -> HostOp:
    return row(f"{DOMAIN}:{name}", op, (1, 1), *takes, **{"double": False, **more})


def _qlinear(one: HostOp, takes: str, asked: Sequence[Condition], types: str) -> HostOp:
    """Returns the row of the QLinear (quantized) variant of the ONNX operator `one`, with operands
    `takes`, additional conditions `asked`, and `types`."""
    return _contrib(
        f"QLinear{one.name}", one.op, takes, quantized.single(), *one.conditions, *asked,
        by=quantized.over(one.name), types=types,
    )  # fmt: skip


_ROWS: tuple[HostOp, ...] = (
    _contrib(
        "Attention", "attention", "value weights bias? mask? past? bias? past?",
        *attention.ATTENTION, by=attention.attention,
        ignores=("rotary_embedding_dim",),  # without do_rotary
    ),
    _contrib("BiasAdd", "add", "value bias value", by=diffusion.bias_add),
    _contrib("BiasGelu", "gelu", "value bias", operand_shapes.by_last(1), by=fused_operators.gelu),
    _contrib(
        "BiasSplitGelu", "gelu", "value bias", diffusion.halved, by=diffusion.bias_split_gelu,
    ),
    _contrib(
        "CausalConvWithState", "depthwise_conv_2d", "value weights bias? past?",
        *causal_convolution.CONDITIONS, by=causal_convolution.causal,
    ),
    _contrib(
        "CDist", "squared_distances", "value value", gates.DISTANCES, by=gates.distances,
        types="f32",
    ),
    _contrib(
        "DynamicQuantizeLSTM", "lstm",
        "value weights! recurrent_weights! biases? index? state? state? peepholes? "
        "scale! zero_point! scale! zero_point!",
        *recurrent.DYNAMIC_LSTM, by=quantized.dynamic_lstm, types=SCALED,
        ignores=("hidden_size",),  # which the weights tell
    ),
    _contrib(
        "DynamicQuantizeMatMul", "matmul", "value weights scale zero_point? bias?",
        operand_shapes.by_column(4), by=quantized.dynamic_matmul, types=SCALED,
    ),
    _contrib(
        "EmbedLayerNormalization", "layer_normalization",
        "index index? value value value? scale bias mask? index?", *attention.EMBEDDING,
        by=attention.embedding, ignores=("mask_index_type",),  # as onnxruntime's kernels do
    ),
    _contrib(
        "FastGelu", "gelu_tanh", "value bias?", operand_shapes.by_last(1), by=fused_operators.gelu,
    ),
    _contrib(
        "FusedConv", "conv_2d", f"{LAYER} value?", *windows.CONV, conditions.activation,
        by=fused_operators.conv,
    ),
    _contrib(
        "FusedGemm", "fully_connected", LAYER, conditions.MATRICES, operand_shapes.product(),
        conditions.activation, by=fused_operators.gemm, rowless=True,
    ),
    _contrib("FusedMatMul", "matmul", TWO, by=fused_operators.matmul, rowless=True),
    _contrib(
        "GatherBlockQuantized", "gather_blocks", "weights! index scales! zero_points!?",
        blockwise.table, by=blockwise.gather_block_quantized,
        types="f32 f16 u8 i8",
    ),
    _contrib("GatedAdd", "add", "value value value value?", *gates.ADDED, by=gates.sum_of_gated),
    _contrib(
        "GatedRMSNorm", "reduce_mean_square", "value scale value", *gates.RMS_NORM,
        by=gates.rms_norm,
    ),
    _contrib("Gelu", "gelu"),
    _contrib(
        "GroupNorm", "standardize_groups", "value scale bias", diffusion.grouped, diffusion.SILU,
        by=diffusion.group_norm,
    ),
    _contrib(
        "GroupQueryAttention", "attention",
        "value value? value? past? past? index keys! value? value? index? bias? value?",
        *grouped_query_attention.GROUPED_QUERY, by=grouped_query_attention.grouped_query,
        ignores=("qk_norm_epsilon", "q_norm_epsilon", "k_norm_epsilon",  # of inputs not taken
                 "rotary_interleaved"),  # without do_rotary
    ),
    _contrib(
        "LinearAttentionGate", "softplus", "value bias scale value?", *gates.ATTENTION_GATE,
        by=gates.attention_gate,
    ),
    _contrib(
        "MRotaryEmbedding", "rotary", "value index value value", *rotary.SECTIONED,
        by=rotary.sectioned, ignores=("num_heads",),  # of an input of rank 4
    ),
    _contrib(
        "MatMulIntegerToFloat", "matmul", "value weights scale scale zero_point? zero_point? bias?",
        operand_shapes.by_column(6), by=quantized.matmul_to_float, types=SCALED,
    ),
    _contrib(
        "MatMulNBits", "matmul_blocks", "value weights scales zero_points? index? bias?",
        *blockwise.N_BITS, by=blockwise.matmul_n_bits, types="f32 f16 u8", rowless=True,
        ignores=("accuracy_level",),
    ),
    _contrib(
        "PackedAttention", "attention", "value weights bias index index bias?",
        *packed_attention.ATTENTION, by=packed_attention.attention,
    ),
    _contrib(
        "PackedMultiHeadAttention", "attention", "value value? value? bias? index index bias?",
        *packed_attention.MULTI_HEAD, by=packed_attention.multi_head,
        ignores=("mask_filter_value",),  # without a mask
    ),
    _contrib(
        "QAttention", "attention",
        "value weights bias scale scale mask? zero_point? zero_point? past?",
        *attention.QUANTIZED, by=quantized.q_attention, types=SCALED,
    ),
    _contrib(
        "QEmbedLayerNormalization", "layer_normalization",
        f"index index? {Q_TABLES} mask? {Q_SCALES}", *attention.EMBEDDING,
        by=quantized.q_embedding, types=SCALED,
    ),
    _contrib(
        "QGemm", "fully_connected", f"{QUANTIZED} weights {RESULT} bias? scale? zero_point?",
        conditions.MATRICES, operand_shapes.product(3, 6), conditions.SCALE_AND_ZERO_POINT,
        quantized.single(4, 5), by=quantized.over("Gemm", 0, 1), types=SUMS,
    ),
    _contrib("QLinearConcat", "concat", f"{RESULT} value*", by=quantized.concat, types=SCALED),
    _contrib(
        "MultiHeadAttention", "attention",
        "value value? value? bias? mask? bias? past? past? past? past?", *attention.MULTI_HEAD,
        by=attention.multi_head,
    ),
    _contrib("NhwcConv", "conv_2d", LAYER, *diffusion.CONV, by=diffusion.conv),
    _contrib("QuickGelu", "swish", alpha=1.702),
    _contrib(
        "RotaryEmbedding", "rotary", "value index value value", *rotary.CONTRIB, by=rotary.contrib,
        ignores=("num_heads",),  # which the cosines tell
    ),
    _contrib("ScaledSiLU", "swish", "value scale?", *gates.SILU, by=gates.scaled_silu,
             ignores=("alpha",)),  # which a scale replaces
    _contrib(
        "SkipGroupNorm", "standardize_groups", "value scale bias value bias?", diffusion.grouped,
        diffusion.SILU, diffusion.skipped, by=diffusion.skip_group_norm,
    ),
    _contrib(
        "SkipLayerNormalization", "layer_normalization", "value value scale bias? bias?",
        operand_shapes.skip_shape, operand_shapes.by_last(2, 3, 4),
        by=fused_operators.skip_layer_norm, rounds=True, double=True, rowless=True,
    ),
    _contrib(
        "SkipSimplifiedLayerNormalization", "reduce_mean_square", "value value scale bias?",
        operand_shapes.skip_shape, operand_shapes.by_last(2, 3), conditions.UNREAD_MEAN,
        by=fused_operators.skip_rms_norm,
        rounds=True, double=True, rowless=True,
    ),
    _contrib(
        "MoE", "matmul", "value value weights bias? weights bias? weights? bias?", *experts.MOE,
        by=experts.moe, ignores=experts.IGNORED,
    ),
    _contrib(
        "QMoE", "matmul_blocks",
        "value value weights scale bias? weights scale bias? weights? scale? bias? zero_point? "
        "zero_point? zero_point? value? scale? scale? scale? scale? scale? scale?",
        *quantized_experts.QMOE, by=quantized_experts.qmoe, types="f32 f16 u8",
        ignores=(*experts.IGNORED, "accuracy_level", "normalize_routing_weights"),
    ),
    _contrib("TransposeMatMul", "matmul", TWO, by=fused_operators.matmul, rowless=True),
)  # fmt: skip

# ONNX operators with a QLinear variant: its operands, additional conditions and types.
_QLINEAR: dict[str, tuple[str, Sequence[Condition], str]] = {
    "Add": (PAIR, (), SCALED),
    "AveragePool": (ONE, (conditions.CHANNELS_FIRST, windows.COVERED), SCALED),
    "GlobalAveragePool": (ONE, (conditions.CHANNELS_FIRST,), SCALED),
    "LeakyRelu": (ONE, (), SCALED),
    "Mul": (PAIR, (), SCALED),
    "Sigmoid": (ONE, (), SCALED),
    "Softmax": (ONE, (), SCALED),
    "Where": (f"condition {PAIR}", (), f"bool {SCALED}"),
}


def contributed(standard: Sequence[HostOp]) -> tuple[HostOp, ...]:
    """Returns all rows of com.microsoft, given the `standard` rows of ONNX, from which QLinear
    variants and QuantizeLinear and DequantizeLinear are derived."""
    named = {one.name: one for one in standard}
    quantized_ones = (_qlinear(named[name], *asked) for name, asked in _QLINEAR.items())
    bounds = (
        replace(one, name=f"{DOMAIN}:{one.name}", versions=(1, 1), documented={})
        for one in standard
        if one.bounds
    )
    return (*_ROWS, *quantized_ones, *bounds)
