"""Tests traits of ops beyond those of their kinds: losing a trait does not give a wrong answer in
any case, but an additional launch, float16 overflow, or a layout that stays."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tflgpu_plugin import ops
from tflgpu_plugin.ops.table import Op
from tflgpu_plugin.passes.quant.int16 import REWRITES

RECURRENT = {"lstm_basic", "lstm", "gru", "rnn"}
SUMS = {f"reduce_{name}" for name in ("sum", "prod", "l1", "l2", "log_sum", "max", "min")}
SUMS |= {"mean", "reduce_sum_square", "reduce_mean_square"}
OF_GROUPS = {"mean_of_groups", "mean_square_of_groups"}
SCATTERS = {"scatter_elements", "scatter_nd", "scatter_new", "segments"}
SPECTRA = {"rfft", "complex_abs", "hypot"}
SUPPRESSION = "non_max_suppression"
LAYERS = {"conv_2d", "depthwise_conv_2d", "conv_3d", "transpose_conv", "fully_connected"}


def where(said: Callable[[Op], Any], kind: str = "") -> set[str]:
    """Returns the ops of one kind for which this trait of the row is set."""
    return {name for name, row in ops.rows().items() if said(row) and kind in ("", row.kind)}


def of_kind(kind: str) -> set[str]:
    return where(lambda row: True, kind)


@pytest.mark.parametrize(
    ("kind", "fusing"),
    [
        (
            "elementwise",
            of_kind("elementwise")
            - {"checked", "dequantize", "cast", "softmax_place", "softmax_share"},
        ),
        (
            "product",
            LAYERS
            | {"matmul", "matmul_blocks", "gather_blocks", "attention", "rotary", "squeeze_excite"},
        ),
        ("window", of_kind("window")),
        (
            "reduction",
            SUMS
            | OF_GROUPS
            | {"softmax", "standardize", "standardize_groups", "decision_trees"}
            | {"squared_distances", "range_sum", "range_mean", "range_max", "range_min"},
        ),
        (
            "movement",
            {
                "max_unpool",
                "reverse_sequence",
                "transpose",
                "view",
                "tile",
                "expand",
                "reverse",
                "gather",
            }
            | {"depth_to_space", "space_to_depth", "strided_slice", "slice", "pad"}
            | {"resize_nearest"},
        ),
        ("choice", set()),
        ("composite", set()),
    ],
)
def test_what_takes_steps_behind_it(kind: str, fusing: set[str]) -> None:
    assert where(lambda row: row.fuses, kind) == fusing


def test_what_may_pass_float16() -> None:
    sums = SUMS | OF_GROUPS | SCATTERS | {"cumsum", "cumprod", "reduce_log_sum_exp"} | SPECTRA
    sums |= {"decision_trees", "squared_distances"}
    sums |= {"range_sum", "range_mean", "range_max", "range_min"}
    assert where(lambda row: row.accumulates) == sums
    small = {"softmax", "lstm_full", "instance_normalization", "layer_normalization"}
    small |= {"average_pool_2d", "lp_pool", "resize", "resize_bilinear", "grid_sample"}
    small |= {
        "recurrent_layer",
        "rnn_basic",
        "roi_align",
        "bidirectional_lstm",
        "bidirectional_rnn",
        "svdf",
        "wide_product",
        "wide_total",
        "standardize",
        "standardize_groups",
        "add_n",
        "lp_normalization",
        "root_mean_square_pool_2d",
        "dynamic_quantize",
    }
    assert where(lambda row: row.accumulates is False) == small | of_kind("product")


def test_whose_elements_results_are() -> None:
    assert where(lambda row: row.keeps == "any") == {
        *("maximum", "minimum", "concat", "stack", "update_slice")
    }
    moved = of_kind("movement") - {"concat", "stack", "max_unpool", "update_slice"}
    assert where(lambda row: row.keeps == "first") == moved | {"max_pool_2d"}


def test_how_ops_take_permuted_axes() -> None:
    follows = {name: row.follows for name, row in ops.rows().items() if row.follows}
    wanted = dict.fromkeys(SUMS, "reduced") | dict.fromkeys(of_kind("elementwise"), "elementwise")
    assert follows == wanted | {"softmax": "last", "standardize": "last", "concat": "axis"}
    assert where(lambda row: row.views is not None) == of_kind("movement") - {
        *("concat", "stack", "space_to_batch", "batch_to_space", "gather_nd", "pick"),
        *("gather_elements", "update_slice"),
        *("max_unpool", "reverse_sequence", "dilate"),
    }


def test_what_takes_heads_where_they_lie() -> None:
    assert where(lambda row: row.by_head) == {"attention", "rotary"}


def test_what_multiplies_the_channels_that_it_reads() -> None:
    assert where(lambda row: row.gated is not None) == {"conv_2d"}
    assert where(lambda row: row.averages is not None) == {"mean", "average_pool_2d"}


def _made_by(name: str, row: Op) -> bool:
    return row.int16 is not None and row.int16.rewrite == name


def test_how_int16_is_computed() -> None:
    names = {row.int16.rewrite for row in ops.rows().values() if row.int16} - {""}
    assert names == {*REWRITES}
    made = {name: where(partial(_made_by, name)) for name in names}
    assert made["layer"] == LAYERS - {"conv_3d"}
    assert made["table"] == {"exp", "gelu", "log", "logistic", "rsqrt", "sqrt", "tanh"}
    assert made["table"] == where(lambda row: row.int16 and row.int16.table)
    assert made["mean"] == {"mean"} and made["average"] == {"average_pool_2d"}
    assert made["shares"] == {"softmax"} and made["product"] == {"matmul"}
    assert made["sum"] == {"reduce_sum"} == where(lambda row: row.int16 and row.int16.bytes)


def test_what_becomes_of_errors() -> None:
    assert where(lambda row: row.errors.averages) == {
        *(
            "squeeze_excite",
            "average_pool_2d",
            "range_mean",
            "range_sum",
            "mean",
            "reduce_sum",
            "reduce_sum_square",
            "reduce_mean_square",
        ),
        *OF_GROUPS,
    }
    moved = of_kind("movement") - {"stack", "gather_nd", "pick", "gather_elements"}
    resized = {"max_pool_2d", "resize_bilinear", "resize", "grid_sample", "roi_align"}
    resized |= {"roi_max_pool"}
    assert where(lambda row: row.errors.keeps_magnitude) == moved | resized
    found = {"detections", "chosen_boxes"}
    assert where(lambda row: row.errors.choice == 1) == {"max_pool_argmax", "top_k"} | found
    assert where(lambda row: row.errors.choice == 0) == {
        *(SUPPRESSION, f"soft_{SUPPRESSION}", "nonzero", "nonzero_places")
    }
    assert where(lambda row: row.errors.choice not in (0, 1, None)) == set()
    assert where(lambda row: row.errors.relative) == {"log"}
    assert where(lambda row: row.errors.normalizes) == {"standardize", "standardize_groups"}
    assert where(lambda row: row.errors.bounded) == {"tanh", "logistic", "hard_sigmoid"}
    # Values have both signs; half of the gates are closed for one sign.
    assert where(lambda row: row.errors.passes == 0.5) == {
        *("relu", "relu6", "leaky_relu", "thresholded_relu", "prelu", "quantized_prelu", "elu"),
        *("selu", "celu", "swish", "hard_swish", "softplus", "mish", "gelu", "gelu_tanh"),
        *("quantized_leaky_relu", "quantized_hard_swish", "lookup"),
    }
    assert where(lambda row: row.errors.passes not in (0.5, 1.0)) == set()


def test_what_holds_in_8_bits() -> None:
    alike = {"average_pool_2d", "resize_bilinear", "reduce_max", "reduce_min", "top_k", "where"}
    alike.add("one_hot")
    assert where(lambda row: row.same_quantization) == alike


def test_weights_and_states() -> None:
    found = {name: row.weights for name, row in ops.rows().items() if row.weights}
    first = dict.fromkeys(("conv_2d", "conv_3d"), (0, False, False))
    assert found == first | {
        "depthwise_conv_2d": (-1, False, False),
        "fully_connected": (0, True, False),
        "transpose_conv": (0, False, True),
    }
    assert where(lambda row: row.padding) == {"conv_2d", "depthwise_conv_2d"}
    states = {name: row.states for name, row in ops.rows().items() if row.states}
    layers = {"lstm_basic": ((1, 0), (4, 1)), "lstm_full": ((18, -2), (19, -1))}
    layers["bidirectional_lstm"] = ((35, -4), (36, -3), (37, -2), (38, -1))
    layers["bidirectional_rnn"] = ((4, -2), (8, -1))
    assert states == layers | dict.fromkeys(("rnn_basic", "svdf"), ((4, -1),))


def test_what_other_rooms_ask() -> None:
    rows = ops.rows().items()
    assert {name: row.arranges for name, row in rows if row.arranges} == {
        "reshape": "shape", "transpose": "order",
    }  # fmt: skip
    assert {name: row.numbers_places for name, row in rows if row.numbers_places} == {
        "max_pool_argmax": "makes", "max_unpool": "takes",
    }  # fmt: skip
    assert where(lambda row: row.joins) == {"concat"}
    assert where(lambda row: row.fills) == {"pad"}
    assert where(lambda row: row.converts) == {"cast", "from_float8", "to_float8"}
    assert {name: row.quantizes for name, row in rows if row.quantizes} == {
        "quantize": "to", "dequantize": "from",
    }  # fmt: skip
    assert where(lambda row: row.errors.floors) == {"clip"}
    assert where(lambda row: row.errors.keeps_ratios) == {"pow"}
