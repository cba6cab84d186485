"""AVERAGE_POOL_2D and MAX_POOL_2D: windows that overlap, leave gaps, cover the image and hang over
its edge."""

from __future__ import annotations

from typing import Any

from conformance.cases import Case, Input
from conformance.node_cases import NodeCase

Pair = tuple[int, int]
ALL = ("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D")


def pool(
    name: str,
    shape: tuple[int, ...],
    window: Pair,
    strides: Pair = (1, 1),
    padding: str = "VALID",
    activation: str = "NONE",
    low: float = -1.0,
    high: float = 1.0,
    ops: tuple[str, ...] = ("AVERAGE_POOL_2D", "MAX_POOL_2D"),
    **more: Any,
) -> list[Case]:
    """Returns the same pooling as an average and as a maximum."""
    options = {
        "padding": padding,
        "strideH": strides[0],
        "strideW": strides[1],
        "filterHeight": window[0],
        "filterWidth": window[1],
        "fusedActivationFunction": activation,
    }
    image = Input(shape, low=low, high=high)
    return [
        Case(
            f"{op.split('_')[0].lower()}_{name}", op, 1, (image,), "Pool2DOptions", options, **more
        )
        for op in ops
    ]


CASES = [
    *pool("2x2_stride_2_channels_8", (1, 8, 8, 8), (2, 2), (2, 2)),
    *pool("2x2_stride_2_channels_1", (1, 6, 6, 1), (2, 2), (2, 2)),
    *pool("2x2_stride_2_channels_3_batch_3", (3, 7, 5, 3), (2, 2), (2, 2), ops=ALL),
    *pool("3x3_same_channels_4", (1, 7, 7, 4), (3, 3), padding="SAME"),
    *pool("3x3_same_stride_2_channels_5", (1, 7, 8, 5), (3, 3), (2, 2), "SAME"),
    *pool(
        "3x3_same_stride_2_channels_17_batch_3", (3, 13, 11, 17), (3, 3), (2, 2), "SAME", ops=ALL
    ),
    *pool("5x7_same", (1, 9, 10, 4), (5, 7), padding="SAME", ops=("AVERAGE_POOL_2D",)),
    *pool("2x3_same_stride_3_2", (1, 11, 7, 4), (2, 3), (3, 2), "SAME"),
    *pool("stride_over_window_valid", (1, 11, 13, 4), (2, 2), (3, 4)),
    *pool("stride_over_window_same", (1, 10, 11, 4), (2, 1), (4, 3), "SAME"),
    *pool("window_1x1", (1, 5, 7, 3), (1, 1)),
    *pool("window_1x1_stride_2_same", (1, 5, 7, 3), (1, 1), (2, 2), "SAME"),
    *pool("more_than_a_group", (1, 10, 26, 4), (2, 2), (2, 2)),
    *pool("map_1x1", (3, 1, 1, 5), (1, 1)),
    *pool("map_1x1_window_3_same", (1, 1, 1, 8), (3, 3), (1, 1), "SAME"),
    *pool("window_over_image_same", (1, 4, 3, 5), (9, 7), (1, 1), "SAME"),
    *pool("window_over_image_same_one_place", (1, 4, 3, 5), (9, 7), (4, 3), "SAME"),
    *pool("global_7x7_channels_17", (1, 7, 7, 17), (7, 7), (7, 7)),
    *pool("global_7x7_stride_1_batch_3", (3, 7, 7, 4), (7, 7)),
    *pool("global_3x5_relu", (1, 3, 5, 5), (3, 5), activation="RELU", ops=ALL),
    *pool("global_65x65_channels_3", (1, 65, 65, 3), (65, 65)),
    *pool("global_70001_rows", (1, 70_001, 1, 3), (70_001, 1)),
    *pool("rows_65537", (1, 65_537, 2, 1), (2, 2), (2, 2)),
    *pool("half_of_33x33", (1, 33, 33, 3), (17, 17), (8, 8)),
    *pool("columns_only", (1, 5, 12, 6), (1, 4), (1, 2)),
    *pool("rows_only_same", (1, 12, 5, 6), (5, 1), (3, 1), "SAME"),
    *pool("relu", (1, 6, 6, 5), (2, 2), (2, 2), activation="RELU"),
    *pool("relu6", (1, 6, 6, 5), (2, 2), (1, 1), activation="RELU6", low=-10.0, high=20.0, ops=ALL),
    *pool("relu_n1_to_1", (1, 6, 6, 5), (2, 2), (1, 1), "SAME", "RELU_N1_TO_1", -4.0, 4.0),
    *pool("negative_only", (1, 5, 5, 5), (3, 3), padding="SAME", low=-9.0, high=-8.0),
    *pool("large_magnitude", (1, 5, 5, 3), (2, 2), padding="SAME", low=-1e30, high=1e30),
    *pool("sum_over_65504", (1, 32, 32, 3), (16, 16), (8, 8), low=500.0, high=1000.0),
    *pool("many_channels", (1, 3, 3, 1025), (2, 2)),
    *pool("tanh", (1, 4, 4, 3), (2, 2), activation="TANH", refused=True),
]


def node(op: str, name: str, shape: tuple[int, ...], window: tuple[int, ...],
         strides: tuple[int, ...], padding: tuple[int, ...], **more: Any) -> NodeCase:  # fmt: skip
    """Returns a node case of one to three spatial axes."""
    attributes = {"window": window, "strides": strides, "padding": padding, **more}
    taps = 1
    for extent in window:
        taps *= extent
    return NodeCase(name, op, (Input(shape),), attributes, terms=taps)


SIDES = (1, 2, 0, 1)
FORMS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("line", ((2, 9, 5), (3,), (2,), (1, 0)), {}),
    ("line_dilated", ((2, 11, 5), (3,), (1,), (2, 1)), {"dilations": (2,)}),
    ("volume", ((2, 4, 5, 6, 3), (2, 3, 2), (1, 2, 2), (0, 1, 1, 1, 0, 0)), {}),
    ("volume_dilated", ((1, 5, 6, 7, 4), (2, 2, 3), (1, 2, 1), (0,) * 6), {"dilations": (2, 3, 1)}),
    ("sides", ((2, 7, 8, 5), (3, 3), (2, 2), SIDES), {}),
    ("dilated", ((1, 9, 9, 6), (3, 2), (1, 2), SIDES), {"dilations": (2, 3)}),
    ("ceil", ((2, 7, 8, 5), (3, 3), (2, 3), (0, 0, 0, 0)), {"ceil_mode": True}),
    ("ceil_sides", ((1, 8, 7, 5), (3, 2), (2, 2), SIDES), {"ceil_mode": True}),
    ("ceil_last_begins_in_padding", ((1, 4, 4, 3), (1, 1), (3, 2), (0, 1, 0, 1)),
     {"ceil_mode": True}),
    ("ceil_dilated", ((1, 8, 9, 5), (2, 3), (3, 2), (0,) * 4), {"ceil_mode": True,
     "dilations": (2, 2)}),
]  # fmt: skip
NODES = [
    *(node(op, name, *given, **more) for op in ("average_pool_2d", "max_pool_2d", "lp_pool")
      for name, given, more in ((n, g, {**m, "p": 2} if op == "lp_pool" else m)
                                for n, g, m in FORMS)),
    *(node("average_pool_2d", f"{name}_counted", *given, counted=True, **more)
      for name, given, more in FORMS),
    node("average_pool_2d", "whole_counted", (1, 4, 5, 3), (6, 7), (1, 1), (1,) * 4, counted=True),
    node("average_pool_2d", "whole_bare_counted", (1, 4, 5, 3), (4, 5), (1, 1), (0,) * 4,
         counted=True),
    node("lp_pool", "order_1", (1, 7, 8, 5), (3, 2), (2, 2), SIDES, p=1),
    node("lp_pool", "order_3", (1, 7, 8, 5), (3, 2), (2, 2), SIDES, p=3),
    *(
        NodeCase(f"in_padding_{name}_{refused}", op, (Input((1, 4, 5, 3)),),
                 {"window": (2, 3), "strides": (1, 1), "padding": padding}, refused=refused)
        for op in ("average_pool_2d", "max_pool_2d")
        for name, padding, refused in (
            ("top", (2, 0, 0, 0), True), ("top", (1, 0, 0, 0), False),
            ("bottom", (0, 2, 0, 0), True), ("bottom", (0, 1, 0, 0), False),
            ("left", (0, 0, 3, 0), True), ("left", (0, 0, 2, 0), False),
            ("right", (0, 0, 0, 3), True), ("right", (0, 0, 0, 2), False),
        )
    ),
    NodeCase("dilated_over_the_image", "max_pool_2d", (Input((1, 3, 9, 3)),),
             {"window": (2, 2), "strides": (1, 1), "padding": (2, 2, 0, 0), "dilations": (4, 1)},
             refused=True),
]  # fmt: skip
