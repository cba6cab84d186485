"""Tests the operators of ai.onnx.ml that prepare features, and linear models, against the CPU
provider."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.classical_models import KINDS, assert_same, model, reason, unknown_rows
from tests.support.onnx_models import Shape, cpu, session

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.adapter

TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


def sized(shape: Shape) -> list[int]:
    return [3 if isinstance(extent, str) else int(extent or 1) for extent in shape]


def drawn(dtype: str, shape: Shape, seed: int = 0) -> Any:
    random = np.random.default_rng(seed)
    if dtype == "f32":
        return random.normal(0, 3, sized(shape)).astype(np.float32)
    return random.integers(-3, 4, sized(shape)).astype(KINDS[dtype])


def numbers(count: int, seed: int = 1) -> list[float]:
    return [float(x) for x in np.random.default_rng(seed).normal(size=count)]


@pytest.mark.parametrize(
    ("dtype", "shape", "count"), [("f32", (4, 5), 5), ("i32", (5,), 1), ("i64", ("n", 5), 5)]
)
def test_scaler(dtype: str, shape: Shape, count: int) -> None:
    data = model("Scaler", [shape], dtype=dtype, scale=numbers(count), offset=numbers(count, 2))
    assert_same(data, drawn(dtype, shape))


def test_scaler_of_images() -> None:
    """With three axes, the host takes the numbers of features along axis 1."""
    single = model("Scaler", [(2, 5, 5)], scale=[2.0], offset=[0.5])
    assert_same(single, drawn("f32", (2, 5, 5)))
    assert "rank 1 or 2" in reason(model("Scaler", [(2, 5, 5)], scale=[1.0] * 5, offset=[0.0] * 5))


@pytest.mark.parametrize(
    ("norm", "dtype", "shape"),
    [("MAX", "f32", (4, 5)), ("L1", "i64", ("n", 5)), ("L2", "i32", (5,)), ("L2", "f32", (4, 5))],
)
def test_normalizer(norm: str, dtype: str, shape: Shape) -> None:
    x = drawn(dtype, shape)
    x.reshape(-1, 5)[-1] = 0
    data = model("Normalizer", [shape], dtype=dtype, norm=norm)
    assert_same(data, x, -np.abs(x))


@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
def test_normalizer_of_large_integers(norm: str) -> None:
    """Squares of int32 wrap around in the host, and so does the magnitude of the least number."""
    least, most = -(2**31), 2**31 - 1
    rows = [[least, 1, 2], [least, 0, 0], [most, 1, 0], [50_000, -70_000, 3], [most, most, least]]
    x = np.array(rows, np.int32)
    assert_same(model("Normalizer", [(5, 3)], dtype="i32", norm=norm), x)


@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
def test_normalizer_of_nan(norm: str) -> None:
    x = drawn("f32", (4, 5))
    x[0, 1], x[2, 0], x[3] = np.nan, np.nan, np.nan
    assert_same(model("Normalizer", [(4, 5)], norm=norm), x)


@pytest.mark.parametrize("replaced", [np.nan, 0.0, 2.0])
def test_imputer(replaced: float) -> None:
    for count, shape in ((1, (4, 5)), (5, ("n", 5)), (3, (4, 5)), (5, (5,)), (1, (2, 2, 5))):
        given = {"imputed_value_floats": numbers(count), "replaced_value_float": replaced}
        x = np.resize(unknown_rows(3, 4, 5), sized(shape)).astype(np.float32)
        assert_same(model("Imputer", [shape], **given), x)
    assert "rank 3" in reason(model("Imputer", [(2, 5, 5)], **given | {
        "imputed_value_floats": numbers(5)}))  # fmt: skip


def test_imputer_of_integers() -> None:
    for count in (1, 5):
        given = {"imputed_value_int64s": [*range(10, 10 + count)], "replaced_value_int64": 2}
        data = model("Imputer", [("n", 5)], dtype="i64", makes={"y": "i64"}, **given)
        assert_same(data, drawn("i64", (4, 5)))
    data = model("Imputer", [(4, 5)], dtype="i64", makes={"y": "i64"},
                 imputed_value_int64s=[1 << 40], replaced_value_int64=2)  # fmt: skip
    assert "int32" in reason(data)


def test_binarizer() -> None:
    data = model("Binarizer", [("n", 5)], threshold=1.0)
    x = np.nan_to_num(unknown_rows(5, 4, 5), nan=1.0)
    assert_same(data, x)
    x[1, 1] = np.nan  # fails in the host, too
    for provider in (cpu(data), session(data)):
        with pytest.raises(Exception, match="NaN"):
            provider.run(None, {"x0": x})


@pytest.mark.parametrize("dtype", ["f32", "i64"])
@pytest.mark.parametrize("zeros", [0, 1])
def test_one_hot_encoder(dtype: str, zeros: int) -> None:
    for shape in ((4, 5), (6,), ("n", 2)):
        data = model("OneHotEncoder", [shape], dtype=dtype, cats_int64s=[2, 0, 1, 3], zeros=zeros)
        x = np.random.default_rng(2).integers(0, 4, sized(shape)).astype(KINDS[dtype])
        assert_same(data, x)
        x.flat[1] = 9
        if zeros:
            assert_same(data, x)
            assert_same(data, (x - np.float32(0.7)).astype(KINDS[dtype]))
            continue
        for provider in (cpu(data), session(data)):
            with pytest.raises(Exception, match="Unknown Category"):
                provider.run(None, {"x0": x})


def test_categories_that_are_far_off() -> None:
    data = model("OneHotEncoder", [(1, 5)], cats_int64s=[2, 0, 1, 3], zeros=1)
    assert_same(data, np.array([[np.nan, 1e10, -1e10, np.inf, 2.9]], np.float32))
    assert "istinct" in reason(model("OneHotEncoder", [(1, 5)], cats_int64s=[2, 2]))


KEYS = {"f32": [5.5, 3.0, float("nan"), 3.0, 0.0, 1e30], "i64": [5, 3, 9, 3, -1, 0]}
VALUES = {"f32": [0.25, 1.25, 2.25, 3.25, 4.25, 5.25], "i64": [*range(10, 16)]}
LISTS = {"f32": "floats", "i64": "int64s"}


@pytest.mark.parametrize("kind", LISTS)
@pytest.mark.parametrize("made", LISTS)
@pytest.mark.parametrize("version", [2, 4])
def test_label_encoder(kind: str, made: str, version: int) -> None:
    given = {f"keys_{LISTS[kind]}": KEYS[kind], f"values_{LISTS[made]}": VALUES[made]}
    choices = np.array([*KEYS[kind], 77, 88], KINDS[kind])
    for shape, more in (((), {}), (("n", 5), {"default_float": 0.5, "default_int64": 44})):
        x = np.random.default_rng(4).choice(choices, sized(shape)).astype(KINDS[kind])
        data = model("LabelEncoder", [shape], dtype=kind, version=version,
                     makes={"y": made}, **given, **more)  # fmt: skip
        assert_same(data, [np.asarray(x)])


def test_label_encoder_of_tensors() -> None:
    held = onnx.numpy_helper.from_array
    data = model(
        "LabelEncoder", [(6,)], dtype="i64", version=4, keys_tensor=held(np.array([3, 5, 3])),
        values_tensor=held(np.array([1.5, 2.5, 3.5], np.float32)),
        default_tensor=held(np.array([-1.5], np.float32)),
    )  # fmt: skip
    assert_same(data, np.array([3, 4, 5, 6, 3, 0]))


@pytest.mark.parametrize("version", [2, 4])
def test_label_encoder_of_nan_alone(version: int) -> None:
    given = {"keys_floats": [float("nan")], "values_int64s": [3], "makes": {"y": "i64"}}
    data = model("LabelEncoder", [(3,)], version=version, **given)
    assert_same(data, np.array([1, np.nan, 2], np.float32))


@pytest.mark.parametrize("dtype", KINDS)
def test_feature_vectorizer(dtype: str) -> None:
    for sizes, shapes in (
        ([2, 3], [(4, 2), (4, 3)]), ([3, 2], [("n", 2), ("n", 5)]), ([5], [(5,)]),
        ([2, 2], [(4, 2, 2), (4, 1)]),
    ):  # fmt: skip
        data = model("FeatureVectorizer", shapes, dtype=dtype, inputdimensions=sizes)
        assert_same(data, [drawn(dtype, shape) for shape in shapes])


@pytest.mark.parametrize("name", TRANSFORMS)
def test_linear_regressor(name: str) -> None:
    scale = 0.02 if name == "PROBIT" else 1.0
    for count, shape in ((1, (4, 5)), (5, ("n", 5)), (2, (5,))):
        weights = [scale * x for x in numbers(5 * count)]
        given = {"targets": count, "coefficients": weights, "post_transform": name}
        shifts = [0.5 + 0.1 * scale * x for x in numbers(count, 3)]
        data = model("LinearRegressor", [shape], intercepts=shifts, **given)
        assert_same(data, drawn("f32", shape), tolerance=1e-3 if scale < 1 else 2e-5)
    if name == "NONE":
        assert_same(model("LinearRegressor", [shape], **given), drawn("f32", shape))


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("dtype", KINDS)
def test_linear_classifier(name: str, dtype: str) -> None:
    scale = 0.02 if name == "PROBIT" else 1.0
    for count, labels in ((2, [7, -3]), (5, [0, 1, 2, 3, 4]))[:: 1 if dtype == "f32" else 2]:
        data = model(
            "LinearClassifier", [("n", 5)], "lz", dtype, makes={"l": "i64"},
            coefficients=[scale * x for x in numbers(5 * count)], post_transform=name,
            intercepts=[0.5 + 0.1 * scale * x for x in numbers(count, 3)], classlabels_ints=labels,
        )  # fmt: skip
        assert_same(data, drawn(dtype, (9, 5)), tolerance=1e-3 if scale < 1 else 2e-5)


def of_one_class(name: str, labels: list[int]) -> bytes:
    return model(
        "LinearClassifier", [(9, 5)], "lz", makes={"l": "i64"}, coefficients=numbers(5),
        intercepts=[0.1], classlabels_ints=labels, post_transform=name,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["NONE", "SOFTMAX", "SOFTMAX_ZERO"])
def test_classifier_of_one_class(name: str) -> None:
    for labels in ([0, 1], [7, -3]):
        assert_same(of_one_class(name, labels), drawn("f32", (9, 5)))


@pytest.mark.parametrize("name", ["LOGISTIC", "PROBIT"])
def test_classifier_that_versions_of_the_host_compute_differently(name: str) -> None:
    assert "no PROBIT" in reason(of_one_class(name, [0, 1]))


def test_labels_that_are_texts() -> None:
    from onnx import helper

    data = of_one_class("NONE", [0, 1])
    loaded = onnx.load_from_string(data)
    node = loaded.graph.node[0]
    kept = [a for a in node.attribute if a.name != "classlabels_ints"]
    del node.attribute[:]
    node.attribute.extend([*kept, helper.make_attribute("classlabels_strings", ["a", "b"])])
    loaded.graph.output[0].type.tensor_type.elem_type = 8
    assert "integers" in reason(loaded.SerializeToString())
