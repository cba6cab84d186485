"""Tests ONNX operators that select or place elements by indices: results equal the CPU's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.providers.onnxruntime.test_ort_integers import check
from tests.support.onnx_models import Array, assert_same, model, node, places as on
from tests.support.onnx_nodes import Node

pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.adapter

KINDS = [np.float32, np.float16, np.int32, np.int64, np.bool_]


def held(*shape: int, kind: type = np.float32) -> Array:
    """Returns values of any type, some negative; floats include some that a product would
    change."""
    numbers = np.random.default_rng(len(shape)).integers(-7, 7, shape).astype(kind)
    if kind is np.float32:
        numbers.reshape(-1)[:3] = np.inf, -np.inf, np.nan
    return numbers


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("upper", [0, 1])
def test_trilu(kind: type, upper: int) -> None:
    one = node("Trilu", ["x", "k"], ["y"], upper=upper)
    for k in (-7, -1, 0, 2, 9):
        check([one], {"x": held(2, 4, 7, kind=kind)}, ["y"], {"k": np.int64(k)})
        check([one], {"x": held(2, 4, 7, kind=kind), "k": np.int64([k])}, ["y"])


def test_trilu_of_the_main_diagonal() -> None:
    check([node("Trilu", ["x"], ["y"])], {"x": held(9, 5)}, ["y"])


@pytest.mark.parametrize("dtype", [0, 1, 6, 7])
def test_eye_like(dtype: int) -> None:
    more: dict[str, Any] = {"dtype": dtype} if dtype else {}
    for k in (-2, 0, 3):
        check([node("EyeLike", ["x"], ["y"], k=k, **more)], {"x": held(4, 6)}, ["y"])


@pytest.mark.parametrize("kind", [np.float32, np.int64])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_one_hot(kind: type, axis: int) -> None:
    index = np.array([[0, 4, -5], [-1, 7, -6]])
    values, depth = np.array([3, 0], kind), np.array([5], np.int64)
    one = node("OneHot", ["i", "d", "v"], ["y"], axis=axis)
    check([one], {"i": index, "v": values}, ["y"], {"d": depth})
    check([one], {"i": index}, ["y"], {"d": depth, "v": values})
    check([one], {"i": index, "v": values, "d": depth}, ["y"])


@pytest.mark.parametrize("told", [False, True])
def test_one_hot_of_floats(told: bool) -> None:
    """Indices and a depth are truncated."""
    whole = np.array([0, 0, 2, -1, 4, 3, -4, -5, 4, -4, np.nan, np.inf, 1e30, -1e30], np.float32)
    index = whole + np.array([0.5, -0.5, 0.7, -0.9] + [0] * 4 + [0.3, -0.9] + [0] * 4, np.float32)
    held_, fed = {"d": np.array(4.7, np.float32)}, {"i": whole, "v": np.array([3, 0], np.float32)}
    one = node("OneHot", ["i", "d", "v"], ["y"], axis=0)
    given, constant = (fed | held_, {}) if told else (fed, held_)
    check([one], given, ["y"], constant)
    if tuple(map(int, ort.__version__.split(".")[:2])) >= (1, 32):  # before, they are out of range
        check([one], given | {"i": index}, ["y"], constant)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_hardmax_takes_the_first_maximum(axis: int) -> None:
    x = np.random.default_rng(3).integers(0, 3, (3, 4, 5)).astype(np.float32)
    check([node("Hardmax", ["x"], ["y"], axis=axis)], {"x": x}, ["y"])


@pytest.mark.parametrize("opset", [1, 11, 12, 13])
@pytest.mark.parametrize("axis", [None, 0, 1, 2])
def test_hardmax_before_13_is_of_all_axes_from_one_on(opset: int, axis: int | None) -> None:
    x = np.random.default_rng(3).integers(0, 3, (3, 4, 5)).astype(np.float32)
    x[1] = -np.arange(20).reshape(4, 5)
    given = {} if axis is None else {"axis": axis}
    data = model([node("Hardmax", ["x"], ["y"], **given)], {"x": x.shape}, {"y": x.shape},
                 opset=opset)  # fmt: skip
    ours = assert_same(data, {"x": x}, 0)
    assert on(ours) == {"Hardmax": "gpu"}


def test_cast_like() -> None:
    for given in KINDS:
        for wanted in KINDS:
            feeds = {"x": held(3, 5, kind=given), "as": np.ones(2, wanted)}
            feeds["x"][~np.isfinite(feeds["x"])] = 3  # of which a cast is not defined
            check([node("CastLike", ["x", "as"], ["y"])], feeds, ["y"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather_elements(kind: type, axis: int) -> None:
    x, chance = held(4, 5, 6, kind=kind), np.random.default_rng(axis + 1)
    shape = {0: (9, 5, 3), 1: (4, 2, 6), -1: (3, 4, 7)}[axis]
    index = chance.integers(-x.shape[axis], x.shape[axis], shape)
    one = node("GatherElements", ["x", "i"], ["y"], axis=axis)
    check([one], {"x": x, "i": index}, ["y"])
    check([one], {"x": x, "i": index.astype(np.int32)}, ["y"])
    check([one], {"x": x}, ["y"], {"i": index})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reduction", ["none", "add", "mul", "min", "max"])
def test_scatter_elements_and_nd(kind: type, reduction: str) -> None:
    """Duplicates are applied in the order of the updates; sums of int64 are computed by the
    host."""
    ours = not (kind is np.int64 and reduction in ("add", "mul"))
    if reduction != "none" and kind in (np.bool_, np.float16):
        return  # of which the host has no kernel, or we have none
    more: dict[str, Any] = {} if reduction == "none" else {"reduction": reduction}
    chance = np.random.default_rng(7)
    x, updates = (chance.integers(-3, 3, (4, 5, 3)).astype(kind) for _ in range(2))
    index = chance.integers(-5, 5, (3, 5, 2))
    one = node("ScatterElements", ["x", "i", "u"], ["y"], axis=1, **more)
    feeds = {"x": x, "i": index, "u": updates[:3, :, :2].copy()}
    check([one], feeds, ["y"], on_cpu=() if ours else ["ScatterElements"])
    index = chance.integers(-4, 4, (2, 3, 2))
    one = node("ScatterND", ["x", "i", "u"], ["y"], **more)
    feeds = {"x": x, "i": index, "u": chance.integers(-3, 3, (2, 3, 3)).astype(kind)}
    check([one], feeds, ["y"], on_cpu=() if ours else ["ScatterND"])


@pytest.mark.parametrize("count", [3, 40])
def test_scatters_of_constant_indices(count: int) -> None:
    chance = np.random.default_rng(count)
    index = {"i": chance.integers(-5, 5, (count, 2))}
    one = node("ScatterND", ["x", "i", "u"], ["y"])
    check([one], {"x": held(5, 5, 6), "u": held(count, 6)}, ["y"], index)
    index = {"i": chance.integers(-5, 5, (2, count, 3))}
    one = node("ScatterElements", ["x", "i", "u"], ["y"], axis=1)
    check([one], {"x": held(4, 5, 6), "u": held(2, count, 3)}, ["y"], index)


@pytest.mark.parametrize("pads", [[0, 0, 0, 0], [1, 0, 0, 1]])
def test_max_unpool(pads: list[int]) -> None:
    """Some indices are equal: the last value counts."""
    chance = np.random.default_rng(1)
    size = 2 * 3 * (8 - pads[0]) * (10 - pads[3])
    feeds = {"x": chance.normal(size=(2, 3, 4, 5)).astype(np.float32),
             "i": chance.integers(0, size, (2, 3, 4, 5))}  # fmt: skip
    one = node("MaxUnpool", ["x", "i"], ["y"], kernel_shape=[2, 2], strides=[2, 2], pads=pads)
    check([one], feeds, ["y"])


@pytest.mark.parametrize("kind", [np.float32, np.int32, np.int64])
@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize(
    ("shape", "places"),
    [((3, 4, 7), [6, 0, 0, 2]), ((5, 7), [[1, 6]]), ((7,), [3, 2]), ((3, 7), [4])],
)
def test_array_feature_extractor(
    kind: type, told: bool, shape: tuple[int, ...], places: Any
) -> None:
    """The operator of another domain runs, with constant or run-time indices."""
    from onnx import TensorProto, helper, numpy_helper

    x, at = held(*shape, kind=np.int64).astype(kind), np.array(places, np.int64)
    one = helper.make_node("ArrayFeatureExtractor", ["x", "at"], ["y"], domain="ai.onnx.ml")
    number = helper.np_dtype_to_tensor_dtype(x.dtype)
    inputs = [helper.make_tensor_value_info("x", number, shape)]
    if told:
        inputs.append(helper.make_tensor_value_info("at", TensorProto.INT64, at.shape))
    graph = helper.make_graph(
        [one], "test", inputs, [helper.make_tensor_value_info("y", number, None)],
        [] if told else [numpy_helper.from_array(at, "at")],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    feeds = {"x": x, "at": at} if told else {"x": x}
    ours = assert_same(bytes(made.SerializeToString()), feeds, 0.0)
    assert set(on(ours).values()) == {"gpu"}


def test_array_feature_extractor_asks_for_an_axis_and_places() -> None:
    op = "ai.onnx.ml:ArrayFeatureExtractor"
    assert not Node(op, (3, 7), ("i64", (2,))).reason
    for x, at in (((), (2,)), ((3, 7), (0,))):
        assert Node(op, x, ("i64", at)).code == "shape.unsupported"


@pytest.mark.parametrize("opset", [7, 10, 11, 12, 13, 22])
@pytest.mark.parametrize("kind", [np.float32, np.float16])
@pytest.mark.parametrize("shape", [(2, 3), ()])
def test_mask_of_dropout(opset: int, kind: type, shape: tuple[int, ...]) -> None:
    """The mask of an inference: of floats in opset 7, of bools since then, and true since 12."""
    x = held(*shape, kind=np.int32).astype(kind)
    made = np.dtype(kind if opset < 10 else np.bool_)
    kinds = {"x": x.dtype, "y": x.dtype, "mask": made}
    data = model([node("Dropout", ["x"], ["y", "mask"])], {"x": x.shape},
                 dict.fromkeys(("y", "mask"), x.shape), opset=opset, kinds=kinds)  # fmt: skip
    ours = assert_same(data, {"x": x}, 0)
    assert on(ours) == {"Dropout": "gpu"}
