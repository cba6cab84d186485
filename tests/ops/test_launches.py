"""Tests how many workgroups ops are launched with: as many as their results need, and no more.
Superfluous ones give right but slow results. No device is needed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.ops.test_layer_refusals import PLANE, SAME, held, stored
from tests.ops.test_op_refusals import POOL, Told, graph_of
from tests.support.refused import refused
from tflgpu_plugin.ir import Target, Tensor
from tflgpu_plugin.ir.extent import Trace
from tflgpu_plugin.ops import io_layout, rows
from tflgpu_plugin.ops.lowering import Lowering, Raw

GPU, CPU = Target(), Target(software=True)
SHUFFLES = Target(software=True, subgroup_size=8)
Groups = tuple[int, int, int]


def launched(target: Target, op: str, *given: Any, **more: Any) -> list[Groups]:
    """Returns the workgroups of each launch of one node."""
    return [launch.workgroups for launch in lowered(target, op, *given, **more).launches]


def lowered(target: Target, op: str, *given: Any, **more: Any) -> Lowering:
    graph = graph_of(op, *given, **more)
    (node,) = graph.nodes
    shapes = rows()[op].shapes(graph, node)
    results = {
        t: replace(graph.tensors[t], shape=tuple(shape))
        for t, shape in zip(node.outputs, shapes, strict=True)
    }
    low = Lowering(replace(graph, tensors={**graph.tensors, **results}), target)
    rows()[op].lower(low, node)
    return low


# 2 batches, 420 pixels, 3 slices: 2,520 vec4, 40 workgroups of 64 threads, one each.
X = (2, 20, 21, 9)
CORNERS = {"align_corners": False, "half_pixel_centers": False}
EPSILON = {"epsilon": 1e-5}
BETA, KEEP = {"beta": 1.0}, {"keep_dims": True}
BLOCKS, IN_BLOCKS = (held(30, 3, 2), held(30, 3)), {"bits": 4, "block": 16}
LSTM = ((3, 5), (3, 6), held(24, 11), held(24), (3, 6))


@pytest.mark.parametrize(
    ("op", "given", "more", "groups"),
    [
        ("relu", (X,), {}, [(40, 1, 1)]),
        ("add", (X, (9,)), {}, [(40, 1, 1)]),
        ("lrn", (X,), {"size": 5}, [(40, 1, 1)]),
        ("transpose", (X,), {"perm": (0, 2, 1, 3)}, [(40, 1, 1)]),
        ("reverse_sequence", (X, [2, 1]), {"batch_axis": 0, "time_axis": 1}, [(40, 1, 1)]),
        ("range_sum", ((30, 90), [0, 4, 9], [4, 9, 30]), {}, [(2, 1, 1)]),  # 3 x 23 results
        ("softmax", (X,), BETA, [(14, 1, 1)]),  # 840 pixels
        ("standardize", (X,), EPSILON, [(14, 1, 1)]),
        ("standardize", ((2, 5, 64),), EPSILON, [(2, 1, 1)]),  # 8 threads for a row
        ("standardize_groups", ((2, 8, 8, 64),), EPSILON | {"groups": 4}, [(8, 1, 1)]),
        ("standardize_groups", ((2, 2, 4, 9),), EPSILON | {"groups": 9}, [(1, 1, 1)]),
        ("mean", (X, [0]), KEEP, [(20, 1, 1)]),  # a thread for 2 elements: 1,260 results
        ("mean", ((2, 16, 21, 9), [1]), KEEP, [(16, 1, 1)]),  # 8 threads for 16: 126 results
        ("mean", (X, [1, 2]), KEEP, [(6, 1, 1)]),  # a workgroup for 420: 6 results
        ("mean", ((2, 15, 9), [1]), KEEP, [(1, 1, 1)]),  # a thread for 15: 6 results
        ("mean", ((8, 16, 9), [1]), KEEP, [(3, 1, 1)]),  # 8 threads for 16: 24 results
        ("mean", ((8, 256, 9), [1]), KEEP, [(24, 1, 1)]),
        ("max_pool_2d", (X,), POOL, [(10, 1, 1)]),  # 2 x 3 x 100 results
        ("resize", (X, [40, 30]), {}, [(113, 1, 1)]),  # 2 x 3 x 1,200 results
        ("cumsum", (X, [1]), {}, [(16, 1, 1)]),  # 8 threads for 20: 126 lines
        ("pick", (X, Told("i32", 5, 1)), {"axis": 2}, [(10, 1, 1)]),
        ("max_unpool", (X, Told("i32", *X)), {"window": (2, 2)}, [(158, 1, 1)]),
        ("concat", (X, X), {"axis": 1}, [(79, 1, 1)]),  # of both
        ("concat", (X,) * 5, {"axis": 1}, [(119, 1, 1), (79, 1, 1)]),  # of three and of two
        # 840 x 9 lanes, then 840 x 7: these make the last slice whole
        ("concat", (X, (2, 20, 21, 6)), {"axis": 3}, [(119, 1, 1), (92, 1, 1)]),
        # A thread for 4 rows of a slice: 15 x 23 = 345
        ("matmul", ((3, 60, 21), (3, 21, 90)), {}, [(6, 3, 1)]),
        ("matmul_blocks", ((5, 48), *BLOCKS), IN_BLOCKS, [(1, 3, 1)]),  # a thread for 2 rows
        ("gather_blocks", (Told("i32", 70), *BLOCKS), {**IN_BLOCKS, "width": 45}, [(14, 1, 1)]),
        ("lstm_basic", LSTM, {"results": 2}, [(6, 1, 1)]),  # 3 batches, 2 slices of units
        (
            "lstm",
            ((4, 3, 24), held(24, 6), (3, 6), (3, 6)),
            {"results": 3},
            [(3, 1, 1)],  # a workgroup per batch
        ),
    ],
)
@pytest.mark.parametrize("target", [GPU, CPU], ids=["gpu", "cpu"])
def test_as_many_as_results_need(
    target: Target, op: str, given: Any, more: dict[str, Any], groups: list[Groups]
) -> None:
    assert launched(target, op, *given, **more) == groups


@pytest.mark.parametrize(("target", "count"), [(GPU, 128), (CPU, 256)])
def test_from_a_length_on_a_workgroup_shares_a_sum(target: Target, count: int) -> None:
    for short, groups in ((1, 300), (0, 2400)):
        given = (800, count - short, 9), [1]
        assert launched(target, "mean", *given, keep_dims=True) == [(groups, 1, 1)]


@pytest.mark.parametrize(
    ("batch", "count", "lanes"),
    [
        (8, 127, 64), (8, 128, 64), (8, 64, 32), (8, 16, 8), (8, 15, 1),
        (170, 127, 32),  # 510 results: 64 threads each would be over 2 ** 14
        (342, 127, 8), (341, 127, 16),
    ],
)  # fmt: skip
def test_gpus_share_few_results_among_more_threads(batch: int, count: int, lanes: int) -> None:
    (launch,) = lowered(GPU, "mean", (batch, count, 9), [1], keep_dims=True).launches
    assert launch.parameters["lanes"] == lanes


def test_few_long_sums_are_shared_by_shuffle_up_to_a_length() -> None:
    for count, groups in ((16, 1), (256, 1), ((1 << 14) - 1, 1), (1 << 14, 6)):
        given = (2, count, 9), [1]
        assert launched(SHUFFLES, "mean", *given, keep_dims=True) == [(groups, 1, 1)]


def test_threads_of_software_drivers_without_a_result_do_not_run() -> None:
    for count, threads in ((1, 8), (9, 64)):
        (launch,) = lowered(SHUFFLES, "mean", (count, 130, 4), [1], keep_dims=True).launches
        assert (launch.parameters["lanes"], launch.variant["threads"]) == (8, threads)


def test_a_length_that_grows_is_summed_by_several_threads() -> None:
    """It is the first of many, which may be short."""
    for length, together in ((9, 1), (Trace().symbol(0, 9), 8)):
        (launch,) = lowered(SHUFFLES, "reduce_sum", (1, length), [1], keep_dims=True).launches
        assert launch.parameters["lanes"] == together


def test_sums_of_the_last_axis_are_addressed_without_divisions() -> None:
    for shape, axes, inner in (((5, 33), [1], 1), ((2, 3, 5, 6), [-1], 1), ((5, 33), [0], 0),
                               ((2, 5, 33), [1, 2], 0), ((2, 33, 1), [1], 0)):  # fmt: skip
        (launch,) = lowered(SHUFFLES, "reduce_sum", shape, axes, keep_dims=True).launches
        assert launch.variant["inner"] == inner


@pytest.mark.parametrize(
    ("op", "given", "more", "gpu", "cpu"),
    [
        # 23 slices of outputs by 4 teams of 8 threads and by 8 threads; 3 rows
        ("fully_connected", ((3, 21), held(90, 21)), {}, [(6, 3, 1)], [(3, 3, 1)]),
        # From 8 rows on, pixels of a tile: 30 by 32 threads of one pixel, by 8 of 8; 23 slices in
        # blocks of 2 and of 4
        ("fully_connected", ((30, 24), held(90, 24)), {}, [(1, 12, 1)], [(1, 6, 1)]),
        # 420 pixels, likewise; 5 slices; 2 batches
        ("conv_2d", (X, held(18, 3, 3, 9)), SAME, [(14, 3, 2)], [(7, 2, 2)]),
        ("conv_2d", (X, held(18, 1, 1, 9)), SAME, [(14, 3, 2)], [(7, 2, 2)]),
        # 9 taps of 12 channels for 3 blocks of 2 slices, 2 blocks of 4, are put in order before
        (
            "conv_2d",
            (X, (18, 3, 3, 9)),
            SAME,
            [(11, 1, 1), (14, 3, 2)],
            [(14, 1, 1), (7, 2, 2)],
        ),
        # 1,200 pixels; 3 slices, which a thread of the CPU makes together; 2 batches
        ("resize_bilinear", (X, [40, 30]), CORNERS, [(19, 3, 2)], [(19, 1, 2)]),
        # 4 phases of 420 pixels in 2 batches
        (
            "transpose_conv",
            (X, held(18, 3, 3, 9)),
            {**SAME, "strides": (2, 2)},
            [(14, 3, 8)],
            [(7, 2, 8)],
        ),
        # 2 x 2 phases of 4 x 64 places
        (
            "transpose_conv",
            ((1, 4, 64, 8), held(8, 2, 2, 8)),
            {**SAME, "strides": (2, 2)},
            [(8, 1, 4)],
            [(4, 1, 4)],
        ),
        # 3 slices, 2 batches: 11 pairs of columns by 5 groups of 4 rows, 2 of 10
        ("depthwise_conv_2d", (X, held(1, 3, 3, 9)), SAME, [(4, 3, 2)], [(3, 3, 2)]),
        # 4 pixels a thread
        ("depthwise_conv_2d", (X, held(1, 5, 5, 9)), SAME, [(4, 3, 2)], [(14, 3, 2)]),
        # 18 x 19 pixels, 4 neighbours of one row a thread: 18 x 5
        ("depthwise_conv_2d", (X, held(1, 3, 4, 9)), PLANE, [(3, 3, 2)], [(12, 3, 2)]),
        # 5 slices, 2 pixels a thread
        ("depthwise_conv_2d", (X, held(1, 3, 3, 18)), SAME, [(7, 5, 2)], [(27, 5, 2)]),
    ],
)
def test_layers_with_weights(
    op: str, given: Any, more: dict[str, Any], gpu: list[Groups], cpu: list[Groups]
) -> None:
    assert launched(GPU, op, *given, **more) == gpu
    assert launched(CPU, op, *given, **more) == cpu


def test_a_sequence_keeps_a_gpu_busy_by_threads_and_loads() -> None:
    """Its workgroup is the only one; with 6 units, weights are two vec4."""
    given = (4, 3, 24), held(24, 6), (3, 6), (3, 6)
    for target, threads, ahead, own in ((GPU, 256, 2, 1), (CPU, 128, 1, 8)):
        variant = lowered(target, "lstm", *given, results=3).launches[0].variant
        assert (variant["threads"], variant["ahead"], variant["own"]) == (threads, ahead, own)


def test_threads_of_software_drivers_make_fewer_rows_where_they_read_more() -> None:
    def own(op: str, gates: int, *more: Any) -> Any:
        given = (4, 3, 6 * gates), held(6 * gates, 6), (3, 6), *more
        return lowered(CPU, op, *given, results=3 if more else 2).launches[0].variant["own"]

    lstm = own("lstm", 4, (3, 6)), own("lstm", 4, (3, 6), None, None, None, None)
    extra = (held(3, 6),), (None, held(6, 6)), (None, None, None, held(2, 24))
    assert (own("rnn", 1), *lstm, own("gru", 3)) == (8, 8, 8, 4)
    assert [own("lstm", 4, (3, 6), *each) for each in extra] == [4, 4, 4]


def test_the_other_direction_begins_at_half_of_the_batch() -> None:
    given = (4, 6, 5), held(10, 5), (6, 5)
    low = lowered(GPU, "rnn", *given, results=2, directions=2)
    assert low.launches[0].variant["both"]
    assert low.launches[0].workgroups == (6, 1, 1)
    assert low.launches[0].parameters["backward"] == 3
    graph = graph_of("rnn", *given, results=2, directions=2)
    assert rows()["rnn"].work(graph, graph.nodes[0]) == 4 * 6 * 5 * 5


def test_stored_numbers_are_interpolated_where_they_mean_the_same() -> None:
    for x, y, how in (
        (stored(*X), stored(2, 40, 30, 9), "i8"),
        (stored(*X), stored(2, 40, 30, 9, scale=0.25), ""),
        (stored(*X), Tensor("y", (2, 40, 30, 9)), ""),
        (Tensor("x", X), Tensor("y", (2, 40, 30, 9)), ""),
    ):
        low = lowered(GPU, "resize_bilinear", x, [40, 30], results=[y], **CORNERS)
        assert low.launches[0].variant["whole"] == how


def test_elements_of_the_last_axis_are_picked_from_one_part() -> None:
    """The four lanes of a thread would be in several parts."""
    small = replace(GPU, max_binding_bytes=11_000)
    table, pixels = held(301, 37), Told("i32", 5, 1)
    assert len(launched(small, "pick", table, pixels, axis=0)) == 5  # 160 bytes a row, 68 rows each
    for axis, width in ((1, 1), (0, 2)):
        with refused("device.limit"):
            launched(small, "pick", table, Told("i32", 5, width), axis=axis)


@pytest.mark.parametrize(("shape", "whole"), [((2, 5, 8), True), ((2, 5, 7), False), ((7,), True)])
def test_four_lanes_that_are_neighbours_move_together(shape: tuple[int, ...], whole: bool) -> None:
    low = Lowering(graph_of("relu", shape, results=[Tensor("y", shape)]), GPU)
    (node,) = low.graph.nodes
    io_layout.pack(low, node, Raw("state", 0), 0)
    io_layout.unpack(low, node, 0, Raw("state", 0))
    assert [launch.variant["whole"] for launch in low.launches] == [whole] * 2
    assert [launch.workgroups for launch in low.launches] == [(1, 1, 1)] * 2


@pytest.mark.parametrize(
    ("target", "x", "filters", "strided"),
    [
        (GPU, (1, 8, 8, 3), (8, 3, 3, 3), False),
        (CPU, (1, 8, 8, 3), (8, 3, 3, 3), True),
        (CPU, (1, 8, 8, 3), (8, 1, 1, 3), False),
        (CPU, (1, 8, 8, 3), (8, 1, 2, 3), True),
        (CPU, (1, 8, 8, 4), (8, 3, 3, 4), False),
        (CPU, (1, 8, 8, 2), (8, 3, 3, 1), False),  # groups
        (replace(GPU, tuning={"strided_window": "always"}), (1, 8, 8, 3), (8, 1, 1, 3), True),
        (
            replace(CPU, tuning={"strided_window": "never", "strided_rows": "never"}),
            (1, 8, 8, 3),
            (8, 3, 3, 3),
            False,
        ),
    ],
)
def test_few_channels_are_read_one_by_one(
    target: Target, x: Any, filters: Any, strided: bool
) -> None:
    """A vec4 of channels would be multiplied with its empty lanes."""
    (launch,) = lowered(target, "conv_2d", x, held(*filters), **SAME).launches
    assert launch.variant["strided"] == strided
    if strided:  # between batches, rows and channels, in floats
        assert launch.variant["taps"] != "point"
        found = [launch.parameters[name] for name in ("x_batch", "x_row", "x_pixel", "x_slice")]
        assert found == [256, 32, 4, 1]


@pytest.mark.parametrize(
    ("x", "filters", "more", "taps"),
    [
        ((2, 6, 6, 8), (8, 1, 1, 8), SAME, "point"),
        ((2, 6, 6, 8), (8, 1, 1, 8), SAME | {"strides": (2, 2)}, "window"),
        ((2, 1, 6, 8), (8, 1, 1, 8), SAME | {"strides": (2, 1)}, "window"),
        ((2, 6, 6, 8), (8, 1, 1, 8), PLANE | {"padding": (1, 0, 0, 0)}, "window"),
        ((2, 6, 6, 8), (8, 1, 1, 8), PLANE | {"padding": (0, 1, 0, 0)}, "window"),
        ((2, 6, 6, 8), (8, 1, 3, 8), SAME, "window"),
        ((2, 1, 1, 8), (8, 1, 1, 4), SAME, "point"),  # groups are no matrix product
    ],
)
def test_what_is_a_convolution_of_points(
    x: Any, filters: Any, more: dict[str, Any], taps: str
) -> None:
    (launch,) = lowered(GPU, "conv_2d", x, held(*filters), **more).launches
    assert launch.kernel == "conv" and launch.variant["taps"] == taps


def test_one_place_is_a_product_with_a_matrix() -> None:
    for x, more in (((3, 1, 1, 8), SAME), ((3, 1, 1, 8), SAME | {"strides": (2, 2)})):
        (launch,) = lowered(GPU, "conv_2d", x, held(8, 1, 1, 8), **more).launches
        assert launch.kernel == "fully_connected"


@pytest.mark.parametrize(
    ("source", "result", "expression"),
    [
        ("i32", "f32", "vec4f(v)"),
        ("f32", "i32", "whole_part(v)"),
        ("i32", "bool", "bool_as_f32(!(v == vec4i()))"),
        ("f32", "bool", "bool_as_f32(!(v == vec4f()))"),
    ],
)
def test_a_cast_is_one_launch(source: str, result: str, expression: str) -> None:
    y = Tensor("y", X, result)
    (launch,) = lowered(GPU, "cast", Tensor("x", X, source), results=[y]).launches
    assert launch.variant["expression"] == expression


@pytest.mark.parametrize(
    ("target", "team", "shuffled"),
    [(GPU, 8, False), (replace(GPU, subgroup_size=32), 8, True), (CPU, 1, False),
     (SHUFFLES, 8, True)],
)  # fmt: skip
def test_rows_of_weights_are_shared_by_teams_of_threads(
    target: Target, team: int, shuffled: bool
) -> None:
    """GPUs without shuffles add the sums of a team in workgroup memory; on software adapters that
    is slower than a thread for each row."""
    plan = lowered(target, "fully_connected", (3, 21), held(90, 21))
    (launch,) = plan.launches
    assert (launch.variant["team"], launch.variant["shuffled"]) == (team, shuffled)


@pytest.mark.parametrize(
    ("rows", "inputs", "outputs", "wanted"),
    [
        (1, 1024, 1000, (64, 64, 250)),  # a thread has 4 iterations, which it loads at once
        (1, 512, 1000, (32, 32, 250)),
        (3, 1024, 1000, (16, 32, 125)),  # 12,000 threads nearly fill the GPU
        (1, 1024, 6000, (8, 32, 375)),
        (1, 96, 8, (8, 32, 1)),
    ],
)
def test_few_rows_have_larger_teams_on_gpus(
    rows: int, inputs: int, outputs: int, wanted: tuple[int, int, int]
) -> None:
    """Threads of a team and of a workgroup, and workgroups of a row."""
    (launch,) = lowered(GPU, "fully_connected", (rows, inputs), held(outputs, inputs)).launches
    found = launch.variant["team"], launch.variant["lanes"], launch.workgroups[0]
    assert found == wanted and launch.workgroups[1] == rows
    (launch,) = lowered(SHUFFLES, "fully_connected", (rows, inputs), held(8, inputs)).launches
    assert launch.variant["team"] == 8
