"""Tests decisions about storage as float16 or as bytes. No device is needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from tflgpu_plugin.compile import error_sensitivity, precision
from tflgpu_plugin.compile.precision import CACHED_VECTORS
from tflgpu_plugin.ir import Array, EpilogueOp, Graph, Node, Target, Tensor
from tflgpu_plugin.ops.lowering import Access, Constant, Kernel, Lowering, Raw, Source

SHAPE = (1, 64, 64, 16)


def constant(data: Any, vectors: int = CACHED_VECTORS, half: bool = True) -> Constant:
    return Constant((1, "rows"), vectors, lambda: data, data, half)


# ---- bytes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "least"),
    [
        (constant(np.int16([3, 258])), None),  # zero fills it up: 259 numbers
        (constant(np.int16([0, 255])), 0.0),
        (constant(np.int16([1, 255])), 0.0),
        (constant(np.int16([0, 256])), None),
        (constant(np.int16([-128, 127])), -128.0),
        (constant(np.int16([-128, 128])), None),
        (constant(np.int8([-3, -2])), -3.0),
        (constant(np.uint8([7, 200])), 0.0),
        (constant(np.int16([])), 0.0),
        (constant(np.int32([0, 1])), None),
        (constant(np.float16([0, 1])), None),
        (constant(np.int16([0, 1]), half=False), None),
        (constant(None), None),
    ],
)
def test_constants_of_256_numbers_at_most_are_bytes(given: Constant, least: float | None) -> None:
    assert precision.least_number(given) == least


def test_bytes_are_counted_from_the_least() -> None:
    low = -3.0
    (whole,) = precision.bytes_from(lambda: np.float32([-3, 0, 252]), low)
    assert whole.dtype == np.uint8 and list(whole) == [0, 3, 255]
    pieces = precision.bytes_from(lambda: iter([np.float32([-3]), np.float32([1, 2])]), low)
    assert [list(piece) for piece in pieces] == [[0], [4, 5]]


def lowering(
    *launches: tuple[Source, int, str], data: Mapping[int, Array] | None = None
) -> Lowering:
    """Returns a lowering with launches that each read, or write, one operand in this view."""
    tensors = {k: Tensor(str(k), SHAPE, data=(data or {}).get(k)) for k in range(6)}
    node = Node(0, "relu", (4,), (5,))
    low = Lowering(Graph(tensors, (node,), (4,), (5,)), Target())
    for source, view, access in launches:
        given = {"x": Access(source, view)}
        sides = (given, {"out": 5}) if access == "r" else ({"x": 4}, {"out": Access(source, view)})
        low.dispatch(Kernel("unary"), node, *sides, (1, 1, 1))
    return low


@pytest.mark.parametrize(
    ("views", "stored"),
    [((4,), True), ((4, 4), True), ((1,), False), ((4, 1), False), ((1, 4), False)],
)
def test_bytes_are_read_four_at_once_everywhere(views: tuple[int, ...], stored: bool) -> None:
    given = constant(np.int16([-5, 5]))
    found = precision.byte_constants(lowering(*((given, view, "r") for view in views)))
    assert found == ({given.key: -5.0} if stored else {})


# ---- float16 -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "size", "may"),
    [
        (3, CACHED_VECTORS, True), (0, CACHED_VECTORS, True), (3, CACHED_VECTORS - 1, False),
        (-2, CACHED_VECTORS, False), (Raw("input", 3), CACHED_VECTORS, False),
        (constant(np.float32([1, 2])), 0, True),
        (constant(np.float32([1, 2]), CACHED_VECTORS - 1), 0, False),
        (constant(np.float32([1, 2]), half=False), 0, False),
        (constant(np.float32([1, 1e6])), 0, False), (constant(None), 0, False),
    ],
)  # fmt: skip
def test_what_is_large_and_holds_values_may_be_stored_so(
    source: Source, size: int, may: bool
) -> None:
    assert precision.may_be_half(source, lambda tensor: size) == may


def test_the_largest_number_has_all_its_digits_in_float16() -> None:
    for largest, right in (
        (65504.0, True),
        (65505.0, False),
        (2.0**-14, True),
        (0.99 * 2.0**-14, False),
    ):
        assert precision.representable(np.float32([0, -largest])) == right
        assert precision.representable(np.float32([largest, 0])) == right
    assert precision.representable(np.float32([]))


def test_exact_is_what_float16_has_all_of() -> None:
    assert precision.exact_in_half(constant(np.float32([1, 0.5, -2048])))
    assert not precision.exact_in_half(constant(np.float32([1, 0.1])))
    assert not precision.exact_in_half(constant(None)) and not precision.exact_in_half(3)


def graph(*nodes: tuple[str, tuple[int, ...], int], **steps: EpilogueOp) -> Graph:
    """Returns a graph of nodes over tensors of one shape; 0 is the input, and `steps` are the fused
    epilogue ops of each op."""
    made = tuple(
        Node(k, op, inputs, (output,), epilogue=(steps[op],) if op in steps else ())
        for k, (op, inputs, output) in enumerate(nodes)
    )
    numbers = {t for node in made for t in (*node.reads, *node.outputs)} | {0}
    return Graph({t: Tensor(str(t), SHAPE) for t in numbers}, made, (0,), (made[-1].outputs[0],))


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (graph(("abs", (0,), 1), ("log", (1,), 2)), {0, 1}),
        (graph(("abs", (0,), 1), ("neg", (1,), 2)), set()),
        (graph(("tanh", (0,), 1), ("log", (1,), 2)), {1}),
        (graph(("exp", (0,), 1), ("log", (1,), 2)), {1}),
        (graph(("pow", (0, 7), 1), ("log", (1,), 2)), {0, 7, 1}),
        (graph(("log", (0,), 1), ("abs", (1,), 2)), {0}),
        (graph(("abs", (0,), 1), ("neg", (0,), 3), ("log", (1,), 2)), {0, 1}),
        (graph(("abs", (0,), 1), ("neg", (1,), 2), neg=EpilogueOp("log")), {0, 1}),
        (graph(("abs", (0,), 1), ("log", (1,), 2), abs=EpilogueOp("mul", 8)), {0, 1, 8}),
        (graph(("abs", (0,), 1), ("log", (1,), 2), abs=EpilogueOp("tanh")), {1}),
    ],
)
def test_what_a_logarithm_is_taken_of(given: Graph, found: set[int]) -> None:
    """Tensors whose logarithm is taken later, through sums, products and roots, up to a saturating
    function."""
    assert precision.before_logs(given) == found


def test_tensors_that_stay_float32() -> None:
    tensors = {k: Tensor(str(k), SHAPE) for k in range(8)}
    tensors[2] = Tensor("numbers", SHAPE, "i32")
    tensors[3] = Tensor("wide", SHAPE, keep_f32=True)
    tensors[4] = Tensor("constant", SHAPE, "i32", np.zeros(SHAPE, np.int32))
    tensors[5] = Tensor("yes or no", SHAPE, "bool")
    nodes = (Node(0, "add", (0, 6), (7,)),)
    made = Graph(tensors, nodes, (0,), (1,), ((6, 7),))
    assert precision.float32_tensors(made, set()) == {0, 1, 2, 3, 6, 7}
    assert precision.float32_tensors(made, {5, 4}) == {0, 1, 2, 3, 5, 6, 7}


@pytest.mark.parametrize(
    ("errors", "stay"),
    [
        ({1: 0.06, 2: 0.07}, set()),  # together 0.092
        ({1: 0.06, 2: 0.081}, {2}),  # 0.1008: then 0.0992 is left
        ({1: 0.06, 2: 0.09, 3: np.inf}, {2, 3}),
        ({3: np.inf}, {3}),
        ({1: 0.0049, 2: 1.0}, {2}),  # of ten times as much one tenth is left: 0.01
        ({1: 0.0101, 2: 1.0}, {1, 2}),
        ({1: 0.0048, 2: 9.0}, {2}),  # but 20 roundings in any case
        ({1: 0.0050, 2: 9.0}, {1, 2}),
        ({}, set()),
    ],
)
def test_as_much_is_stored_so_as_outputs_bear(
    errors: dict[int, float], stay: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If storing all candidates would cause too much error, fewer are stored, in proportion."""
    found = {t: (error / 2.0**-12) ** 2 for t, error in errors.items()}
    monkeypatch.setattr(error_sensitivity, "sensitivities", lambda graph: found)
    low = lowering()
    assert precision.unbearable(low, lambda source: source, {t: t for t in errors}) == stay


def test_a_tensor_in_another_counts_for_that(monkeypatch: pytest.MonkeyPatch) -> None:
    large = (1 / precision.ROUNDING) ** 2
    monkeypatch.setattr(error_sensitivity, "sensitivities", lambda graph: {1: large, 2: 0.0})
    found = precision.unbearable(lowering(), lambda source: 2 if source == 1 else source, {2: 2})
    assert found == {2}


def test_constants_of_an_op_count_by_their_tensor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Constants that float16 represents exactly are exempt."""
    data = np.float32([1.0, 0.1])
    held = {1: data, 2: np.float32([1.0, 0.5])}
    large = (1 / precision.ROUNDING) ** 2
    monkeypatch.setattr(
        error_sensitivity, "sensitivities", lambda graph: dict.fromkeys(held, large)
    )
    low = lowering(data=held)
    narrow = {(t, "rows"): Constant((t, "rows"), 9, lambda: data, held[t], True) for t in held}
    assert precision.unbearable(low, lambda source: source, narrow) == {(1, "rows")}
    other = {("table",): Constant(("table",), 9, lambda: data, data, True)}
    assert precision.unbearable(low, lambda source: source, other) == set()
