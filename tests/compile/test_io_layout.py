"""Tests I/O layout conversion: tensors that stay in the host's buffer because its layout is the
device's, tensors that are transposed on the way in and out, and inputs that the first convolution
reads in place."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.compile.test_compiler import TARGET, check_sides, conv
from tests.support.evaluate import evaluate
from tests.support.harness import run_graph
from tests.support.net import Net
from tflgpu_plugin.compile import compiler
from tflgpu_plugin.ir import NUMPY_DTYPES, Array, Graph, Node, Quantization, Shape, Tensor

Sizes = tuple[int, int]


def labels(graph: Graph, **tuning: str) -> list[str]:
    plan = compiler.compile(graph, replace(TARGET, tuning=tuning))
    check_sides(plan)
    return [dispatch.label for dispatch in plan.dispatches]


def relu(shape: Shape) -> Graph:
    b = Net()
    x = b.input(shape)
    return b.graph(b.op("relu", x))


def turned(shape: Shape) -> Graph:
    """Returns a graph in NCHW layout around a softmax that needs NHWC."""
    b = Net()
    x = b.input(shape)
    rank = len(shape)
    y = b.op("transpose", x, perm=(0, *range(2, rank), 1))
    y = b.op("softmax", y, beta=1.0)
    y = b.op("transpose", y, perm=(0, rank - 1, *range(1, rank - 1)))
    return b.graph(y)


def turned_conv(shape: Shape) -> Graph:
    """Returns a convolution whose input is in NCHW layout."""
    b = Net()
    x = b.input(shape)
    y = b.op("transpose", x, perm=(0, 2, 3, 1))
    return b.graph(conv(b, y, 8))


def seeded(shape: Shape) -> Array:
    return np.random.default_rng(7).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("shape", [(), (7,), (1, 9), (3, 8), (1, 5, 3, 4), (2, 3, 4)])
def test_storage_in_the_hosts_order_is_the_hosts_buffer(shape: Shape) -> None:
    assert labels(relu(shape)) == ["unary"]


@pytest.mark.parametrize("shape", [(2, 9), (1, 5, 3, 8), (2, 3, 4, 5), (1, 2, 3, 2)])
def test_storage_in_another_order_is_packed(shape: Shape) -> None:
    assert labels(relu(shape)) == ["pack", "unary", "unpack"]


@pytest.mark.parametrize("shape", [(7,), (3, 8), (2, 3, 4), (1, 5, 3, 8)])
def test_storage_of_another_type_than_the_hosts_is_packed(shape: Shape) -> None:
    graph = relu(shape)
    wide = {t: replace(held, host_dtype="f64") for t, held in graph.tensors.items()}
    graph = replace(graph, tensors=wide)
    assert labels(graph) == ["pack", "unary", "unpack"]
    plan = compiler.compile(graph, TARGET)
    ports = (*plan.inputs, *plan.outputs)
    assert {(port.dtype, port.bytes) for port in ports} == {("f64", 8 * int(np.prod(shape)))}


def test_turning_is_part_of_packing() -> None:
    assert labels(turned((1, 8, 5, 6))) == ["gather", "softmax"]


def test_the_first_convolution_reads_the_hosts_buffer() -> None:
    graphs = {"gather": turned_conv((1, 3, 6, 6)), "pack": _conv_of((1, 6, 6, 3))}
    for brought, graph in graphs.items():
        assert labels(graph) == ["conv", "unpack"]
        assert labels(graph, strided_window="never", strided_rows="never") == [
            brought,
            "conv",
            "unpack",
        ]


def test_what_is_made_of_parts_is_made_in_the_hosts_buffer() -> None:
    b = Net()
    x = b.input((1, 8))
    parts = (b.op("relu", x), b.op("tanh", x))
    graph = b.graph(b.op("concat", *parts, axis=1))
    assert labels(graph) == ["unary", "unary"]


def test_two_names_of_one_result_are_two_buffers() -> None:
    graph = _two_names()
    assert labels(graph) == ["unary", "unpack"]


def test_an_input_that_nobody_reads_has_a_buffer() -> None:
    b = Net()
    x, _ = b.input((1, 8)), b.input((1, 8))
    plan = compiler.compile(b.graph(b.op("relu", x)), TARGET)
    assert len(plan.inputs) == 2


def appended(past: Shape, new: Shape, axis: int = 2, extra: str = "") -> Graph:
    """Returns a graph with a cache as output, which attention reads; with `extra`, another op reads
    it, too."""
    b = Net()
    old, more = b.input(past), b.input(new)
    present = b.op("concat", old, more, axis=axis)
    shape = b.shape(present)
    q = b.input((*shape[:2], 3, shape[3]))
    y = b.op("attention", q, present, present, None, None, scale=0.5, empty=0.0)
    return b.graph(y, present, *([b.op(extra, present)] if extra else []))


def written(
    depth: int, moved: bool = False, sizes: Sizes = (9, 2), ends: bool = False, **more: int
) -> Graph:
    """Returns the same with a cache of fixed length, in which new rows replace old ones; `sizes`
    has both lengths."""
    b = Net()
    old, new = (b.input((2, 2, length, depth)) for length in sizes)
    starts = b.input((2,), "i32")
    x = b.op("neg", old) if moved else old
    present = b.op("update_slice", x, new, starts, axis=2, ends=ends, raises=True)
    q = b.input((2, 4, 1, depth))
    y = b.op("attention", q, present, present, None, None, scale=0.5, heads=4, kv_heads=2,
             empty=0.0, **more)  # fmt: skip
    return b.graph(y, present)


def both_appended(
    parts: int = 2, between: str = "", perm: Shape = (0, 2, 1, 3), sum_first: bool = False
) -> Graph:
    """Keys and values of packed queries, keys and values, each appended to a cache. `between` is an
    op whose result the second one appends; new rows have their axes in another order first."""
    b = Net()
    pasts = [[b.input(CACHE) for _ in range(parts - 1)] for _ in range(2)]
    given = [b.input(tuple(TOKEN[axis] for axis in np.argsort(perm))) for _ in range(2)]
    if sum_first:
        given[1] = b.op("add", given[0], given[1], activation="none")
    made = []
    for k, (old, new) in enumerate(zip(pasts, given, strict=True)):
        if between and k:
            new = b.op(between, new)
        made.append(b.op("concat", *old, b.op("transpose", new, perm=perm), axis=2))
    q = b.input((2, 3, 1, 8))
    return b.graph(b.op("attention", q, *made, None, None, scale=0.5, empty=0.0), *made)


CACHE, TOKEN = (2, 3, 5, 8), (2, 3, 1, 8)
APPENDED = {
    "rows": appended(CACHE, TOKEN),
    "heads": appended(CACHE, (2, 1, 5, 8), 1),
    "one head": appended((1, 1, 5, 8), (1, 1, 1, 8)),
    "columns": appended(CACHE, (2, 3, 5, 4), 3),
    "written": written(8),
    "written, few keys": written(8, keys=6),
}
STORED = {
    "half of a vec4": appended((2, 3, 5, 6), (2, 3, 1, 6)),
    "parts of half a vec4": appended((2, 3, 5, 6), (2, 3, 5, 2), 3),
    "read by another": appended(CACHE, TOKEN, extra="neg"),
    "written, half of a vec4": written(6),
    "written, computed": written(8, moved=True),
}


@pytest.mark.parametrize("name", APPENDED)
def test_a_cache_is_made_and_read_in_the_hosts_buffer(name: str) -> None:
    made = labels(APPENDED[name])
    new_rows = ["pack"] * name.startswith("written")
    writes = "update_slice" if new_rows else "concat"
    assert made == [*new_rows, writes, "attention", "unpack"]


def test_few_threads_write_the_zeros_after_new_rows() -> None:
    plan = compiler.compile(written(8, sizes=(320, 1), ends=True), TARGET)
    (launch,) = [made for made in plan.dispatches if made.label == "update_slice"]
    assert launch.groups == (-(-2 * 2 * 20 * 2 // 64), 1, 1)


@pytest.mark.adapter
@pytest.mark.parametrize("sizes", [(9, 1), (40, 1), (40, 7), (64, 4), (330, 2)])
def test_new_rows_and_the_zeros_after_them(sizes: Sizes) -> None:
    _agree(written(8, sizes=sizes, ends=True), 1e-5)


JOINED = {"rows": both_appended(), "early": both_appended(sum_first=True)}
APART = {
    "five parts": both_appended(3),
    "computed between": both_appended(between="neg"),
}


@pytest.mark.parametrize("name", JOINED)
def test_keys_and_values_are_appended_together(name: str) -> None:
    assert labels(JOINED[name])[-3:] == ["concat", "attention", "unpack"]
    assert labels(JOINED[name]).count("concat") == 1


@pytest.mark.parametrize("name", APART)
def test_keys_and_values_that_are_appended_apart(name: str) -> None:
    assert labels(APART[name]).count("concat") > 1
    assert labels(APART[name]).count("unpack") == 1


def test_appended_parts_that_are_moved_by_floats_are_one_launch() -> None:
    """They are fused horizontally: the launches differ only in their operands."""
    found = labels(both_appended(perm=(0, 3, 1, 2)))
    assert found.count("concat") == found.count("unpack") == 1


def test_a_joint_launch_computes_both_nodes() -> None:
    plan = compiler.compile(JOINED["rows"], TARGET)
    (made,) = [dispatch for dispatch in plan.dispatches if dispatch.label == "concat"]
    nodes = JOINED["rows"].nodes
    assert set(made.nodes) >= {node.id for node in nodes if node.op == "concat"}


@pytest.mark.parametrize("name", STORED)
def test_a_cache_that_needs_device_storage_is_converted(name: str) -> None:
    graph = STORED[name]
    assert labels(graph).count("unpack") == len(graph.outputs)


def test_a_cache_that_is_no_output_is_on_the_device() -> None:
    graph = APPENDED["rows"]
    inner = replace(graph, outputs=graph.outputs[:1])
    assert graph.outputs[1] not in compiler.lower(inner, TARGET).hosted
    assert labels(inner)[-3:] == ["concat", "attention", "unpack"]


def test_the_next_value_of_a_state_is_not_made_in_an_output() -> None:
    graph = appended(CACHE, TOKEN)
    made = replace(graph, states=((graph.inputs[0], graph.outputs[1]),), inputs=graph.inputs[1:])
    assert graph.outputs[1] in compiler.lower(graph, TARGET).hosted
    assert graph.outputs[1] not in compiler.lower(made, TARGET).hosted


def _conv_of(shape: Shape) -> Graph:
    b = Net()
    x = b.input(shape)
    return b.graph(conv(b, x, 8))


def _two_names() -> Graph:
    """Returns a graph whose outputs are a tensor, the same tensor reshaped, and the input."""
    b = Net()
    x = b.input((1, 8))
    y = b.op("relu", x)
    z = b.op("reshape", y, shape=(8,))
    return b.graph(y, z)


def _agree(graph: Graph, tolerance: float = 0.0) -> None:
    starts = np.array([5, 0], np.int32)
    given = {t: seeded(graph.shape(t)) if graph.tensors[t].dtype == "f32" else starts
             for t in graph.inputs}  # fmt: skip
    found = run_graph(graph, given)
    for tensor, expected in evaluate(graph, given).items():
        assert np.abs(found[tensor] - expected).max() <= tolerance


@pytest.mark.adapter
@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5, 8, 11])
def test_turned_tensors_keep_their_places(channels: int) -> None:
    for shape in (
        (2, channels, 3, 5),
        (1, channels, 4, 4),
        (3, channels, 7),
        (1, channels, 2, 3, 4),
    ):
        _agree(turned(shape), 1e-6)


@pytest.mark.adapter
@pytest.mark.parametrize("shape", [(), (7,), (1, 9), (3, 8), (1, 5, 3, 4), (2, 3, 4), (2, 9)])
def test_tensors_in_the_hosts_buffer_keep_their_places(shape: Shape) -> None:
    _agree(relu(shape))


@pytest.mark.adapter
@pytest.mark.parametrize(
    "graph", [*APPENDED.values(), *STORED.values(), *JOINED.values(), *APART.values()]
)
def test_caches_keep_their_places(graph: Graph) -> None:
    _agree(graph, 1e-5)


@pytest.mark.adapter
def test_one_result_under_two_names() -> None:
    _agree(_two_names())


@pytest.mark.adapter
def test_an_input_may_be_an_output() -> None:
    b = Net()
    x = b.input((1, 8))
    _agree(b.graph(x, b.op("reshape", x, shape=(8,))))


def convolved(picture: Array, weights: Array) -> Array:
    """Returns 3x3 SAME sums of an image [B, H, W, C] in float64, with a bias of 1 and relu6."""
    height, width = picture.shape[1:3]
    wide = np.pad(picture.astype(np.float64), ((0, 0), (1, 1), (1, 1), (0, 0)))
    sums = sum(
        np.einsum("bhwc,oc->bhwo", wide[:, r : r + height, c : c + width], weights[:, r, c])
        for r in range(3)
        for c in range(3)
    )
    return np.clip(np.asarray(sums) + 1, 0, 6)


def with_weights(graph: Graph, weights: Array) -> Graph:
    filters = next(n.inputs[1] for n in graph.nodes if n.op == "conv_2d")
    assert filters is not None
    tensors = {**graph.tensors, filters: replace(graph.tensors[filters], data=weights)}
    return replace(graph, tensors=tensors)


@pytest.mark.adapter
@pytest.mark.parametrize("channels", [1, 2, 3])
@pytest.mark.parametrize("batch", [1, 2])
def test_a_convolution_of_few_channels(channels: int, batch: int) -> None:
    """It reads from the host's buffer (NHWC and NCHW) and from device storage."""
    weights, picture = seeded((8, 3, 3, channels)), seeded((batch, 7, 5, channels))
    planes = np.ascontiguousarray(picture.transpose(0, 3, 1, 2))
    b = Net()
    x = b.input(picture.shape)
    stored = b.graph(conv(b, b.op("relu", x), 8))
    for graph, given, seen in (
        (_conv_of(picture.shape), picture, picture),
        (turned_conv(planes.shape), planes, picture),
        (stored, picture, np.maximum(picture, 0)),
    ):
        found = run_graph(with_weights(graph, weights), {graph.inputs[0]: given})
        expected = convolved(seen, weights)
        assert np.abs(found[graph.outputs[0]] - expected).max() < 1e-5


SHAPES = [(), (7,), (1, 9), (3, 8), (1, 5, 3, 4), (2, 3, 4), (2, 9), (1, 2, 3, 2), (2, 3, 5, 7)]
QUANTIZATIONS = {
    "i8": Quantization((0.37,), (-5,)),
    "u8": Quantization((0.004,), (200,)),
    "i16": Quantization((0.5,), (-300,), rounding="even"),
    "u16": Quantization((0.01,), (40_000,), rounding="even"),
}


@pytest.mark.adapter
@pytest.mark.parametrize("dtype", ["f32", "f16", "bool", "i32", "i64", *QUANTIZATIONS])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_type_comes_in_and_goes_out(dtype: str, shape: Shape) -> None:
    """Types are unchanged on the way in and out, also for device storage that a kernel has
    written."""
    quantization, chance = QUANTIZATIONS.get(dtype), np.random.default_rng(len(shape))
    kind, count = np.dtype(NUMPY_DTYPES[dtype]), int(np.prod(shape))
    if dtype in ("f32", "f16"):
        given = chance.standard_normal(count).astype(kind)
    elif dtype == "bool":
        given = chance.integers(0, 2, count).astype(kind)
    else:
        limits = np.iinfo(np.int32 if dtype == "i64" else kind)
        least, most = limits.min + (dtype == "i64"), limits.max  # whose negative is one as well
        given = chance.integers(least, most + 1, count).astype(kind)
        given[:2] = (least, most)[:count]
    given = given.reshape(shape)
    tensors = {k: Tensor(f"t{k}", shape, dtype, quantization=quantization) for k in range(3)}
    copied = Node(0, "reshape", (0, None), (1,), {"shape": shape})
    graph = Graph(tensors, (copied,), (0,), (1,))
    np.testing.assert_array_equal(run_graph(graph, {0: given})[1], given)
    if dtype != "bool":
        made = (Node(0, "neg", (0,), (1,)), Node(1, "neg", (1,), (2,)))
        between = Tensor("t1", shape, dtype if dtype in ("i32", "i64") else "f32")
        graph = Graph({**tensors, 1: between}, made, (0,), (2,))
        np.testing.assert_array_equal(run_graph(graph, {0: given})[2], given)
