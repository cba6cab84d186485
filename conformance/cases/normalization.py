"""Normalizations over images, channels, groups of them and several axes, with and without scale and
bias, and with a mean that is much larger than the standard deviation."""

from __future__ import annotations

from conformance.cases import Case, Input, constant, seeded
from conformance.node_cases import NodeCase

Shape = tuple[int, ...]


def log_softmax(name: str, shape: Shape, low: float = -5.0, high: float = 5.0) -> Case:
    return Case(name, "LOG_SOFTMAX", 1, (Input(shape, low=low, high=high),), "LogSoftmaxOptions")


def unit(name: str, shape: Shape, low: float = -5.0, high: float = 5.0) -> Case:
    values = Input(shape, low=low, high=high)
    options = {"fusedActivationFunction": "NONE"}
    return Case(name, "L2_NORMALIZATION", 1, (values,), "L2NormOptions", options)


CASES = [
    *(unit(f"channels_{c}", (3, c)) for c in (1, 2, 5, 8, 17, 300)),
    unit("rank_1", (7,)),
    unit("rank_4", (1, 5, 3, 21)),
    unit("below_the_least", (3, 5), -1e-8, 1e-8),
    unit("zeros", (2, 5), 0.0, 0.0),
    *(log_softmax(f"channels_{c}", (3, c)) for c in (1, 2, 5, 8, 17, 1001)),
    log_softmax("rank_1", (7,)),
    log_softmax("rank_3", (2, 5, 3)),
    log_softmax("rank_4", (1, 9, 7, 21), -10.0, 10.0),
    log_softmax("rank_5", (2, 1, 3, 2, 9)),
    log_softmax("large", (3, 17), -500.0, 500.0),
    log_softmax("equal", (2, 6), 5.0, 5.0),
]


def instance(name: str, shape: Shape, low: float = -2.0, high: float = 3.0) -> NodeCase:
    """Returns a node case with scale and bias per channel."""
    scales = constant(seeded(shape[-1])), constant(seeded(shape[-1], seed=2))
    return NodeCase(name, "instance_normalization", (Input(shape, low=low, high=high), *scales),
                    {"epsilon": 1e-3}, terms=8)  # fmt: skip


def layer(name: str, shape: Shape, axis: int, given: int = 2, largest: float = 3) -> NodeCase:
    """Returns a node case with those of scale and bias that are in `given`."""
    scales = [Input(shape[axis:], low=0.5, high=2.0), Input(shape[axis:])][:given]
    return NodeCase(name, "layer_normalization", (Input(shape, low=-2, high=largest), *scales),
                    {"axis": axis, "epsilon": 1e-5}, terms=8)  # fmt: skip


def rows(name: str, shape: Shape, low: float = -2.0, high: float = 3.0,
         **attributes: object) -> NodeCase:  # fmt: skip
    """Returns a node case of single rows."""
    return NodeCase(name, "standardize", (Input(shape, low=low, high=high),),
                    {"epsilon": 1e-5} | attributes, terms=8)  # fmt: skip


def groups(name: str, shape: Shape, count: int, low: float = -2.0, high: float = 3.0,
           refused: bool = False, **attributes: object) -> NodeCase:  # fmt: skip
    """Returns a node case of groups of channels."""
    return NodeCase(name, "standardize_groups", (Input(shape, low=low, high=high),),
                    {"epsilon": 1e-5, "groups": count} | attributes, terms=8,
                    refused=refused)  # fmt: skip


NODES = [
    *(groups(f"{count}_of_{c}", (2, 5, 7, c), count)
      for c, count in ((8, 1), (8, 2), (8, 8), (24, 3), (24, 6), (4, 1), (1, 1), (3, 3), (17, 17))),
    *(groups(f"groups_rank_{len(shape)}", shape, 2)
      for shape in ((3, 8), (2, 70, 16), (2, 3, 2, 5, 16))),
    groups("groups_long", (2, 32, 32, 32), 2),
    groups("groups_alone_long", (1, 60, 64, 5), 5),
    groups("groups_large_mean", (2, 16, 16, 8), 2, 100.0, 101.0),
    groups("groups_alone_large_mean", (2, 16, 16, 5), 5, 100.0, 101.0),
    groups("groups_epsilon", (2, 5, 7, 8), 2, epsilon=3.0),
    groups("groups_uneven", (2, 5, 7, 12), 2, refused=True),
    groups("groups_too_long", (1, 60, 64, 8), 1, refused=True),
    groups("groups_of_large_tensors", (1, 64, 65, 30), 3),
    groups("groups_of_large_tensors_large_mean", (2, 64, 64, 24), 4, 100.0, 101.0),
    groups("groups_long_in_large_tensors", (1, 64, 64, 16), 2),
    groups("groups_too_many", (1, 5, 8), 3, refused=True),
    *(rows(f"channels_{c}", (2, 3, c)) for c in (1, 2, 3, 4, 5, 63, 64, 77, 260, 1030)),
    *(rows(f"not_centred_{c}", (2, 3, c), centred=False) for c in (1, 3, 4, 77, 1030)),
    *(rows(f"rank_{len(shape)}", shape)
      for shape in ((7, 12), (2, 3, 5, 12), (2, 3, 2, 3, 12))),
    rows("many", (3, 70, 24)),
    rows("large_mean", (2, 5, 100), 100.0, 101.0),
    rows("large_mean_not_centred", (2, 5, 100), 100.0, 101.0, centred=False),
    rows("epsilon", (2, 5, 100), epsilon=3.0),
    rows("faint", (2, 5, 100), -1e-6, 1e-6, epsilon=1e-12),
    rows("squares_over_65504", (2, 5, 100), -1000.0, 1000.0),
    NodeCase("rank_1", "standardize", (Input((5,)),), {"epsilon": 0.0}, refused=True),
    *(instance(f"image_channels_{c}", (2, 5, 7, c)) for c in (1, 3, 4, 17)),
    instance("rank_3", (2, 9, 5)),
    instance("rank_5", (2, 3, 2, 4, 5)),
    instance("large_mean", (1, 16, 16, 5), 100.0, 101.0),
    instance("image_longer_than_a_row", (2, 131, 127, 5)),
    instance("image_longer_than_a_row_large_mean", (1, 129, 131, 3), 100.0, 101.0),
    layer("channels", (2, 3, 5, 12), -1),
    layer("two_axes", (2, 3, 5, 12), 2),
    layer("all_but_batch", (2, 3, 5, 12), 1),
    layer("rank_2", (3, 77), -1),
    layer("scale_only", (2, 5, 9), -1, 1),
    layer("bare", (2, 5, 9), -1, 0),
    layer("squares_over_65504", (2, 5, 100), -1, largest=1000),
    instance("squares_over_65504", (1, 16, 16, 5), -1000.0, 1000.0),
    *(NodeCase(f"axis_{axis}", "log_softmax", (Input((2, 5, 3, 6), low=-5, high=5),),
               {"axis": axis}) for axis in (-1, 0, 1)),
    NodeCase("large", "log_softmax", (Input((3, 17), low=-500, high=500),), {"axis": 1}),
    *(NodeCase(f"axis_{axis}_p_{p}", "lp_normalization", (Input((2, 5, 3, 6), low=-5, high=5),),
               {"axis": axis, "p": p}, terms=6) for axis in (-1, 1, 2) for p in (1, 2)),
    layer("rank_8", (2, 3, 1, 2, 2, 1, 3, 5), -1),
    layer("three_axes_of_rank_6", (2, 3, 2, 2, 3, 5), -3),
    NodeCase("rank_7", "log_softmax", (Input((2, 3, 1, 2, 2, 1, 5), low=-5, high=5),),
             {"axis": 4}),
    NodeCase("p_3", "lp_normalization", (Input((2, 5)),), {"axis": -1, "p": 3}, refused=True),
    NodeCase("no_fit", "layer_normalization", (Input((2, 5, 9)), Input((5,))), {"axis": -1},
             refused=True),
]  # fmt: skip
