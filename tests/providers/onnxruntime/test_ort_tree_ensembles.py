"""Tests decision trees of ai.onnx.ml against the CPU provider: comparisons, missing numbers,
reductions, functions of scores, and the special cases of two classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.classical_models import (
    MODES,
    Trees,
    assert_same,
    model,
    reason,
    unknown_rows,
)
from tests.support.onnx_models import Array, cpu, places, session

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.adapter

TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO")


def base(count: int) -> list[float]:
    return [float(x) for x in np.random.default_rng(9).normal(0, 0.1, count).astype(np.float32)]


def regressor(
    targets: int, trees: int = 5, depth: int = 4, features: int = 5, dense: bool = True,
    modes: Any = MODES, rows: Any = "n", **more: Any,
) -> bytes:  # fmt: skip
    grower = Trees(trees + depth, features, modes)
    for tree in range(trees):
        grower.grow(tree, depth, range(targets) if dense else [tree % targets])
    given = grower.attributes("target") | more
    given = {name: value for name, value in given.items() if value is not None}
    return model("TreeEnsembleRegressor", [(rows, features)], n_targets=targets, **given)


@pytest.mark.parametrize("mode", MODES)
def test_comparisons(mode: str) -> None:
    assert_same(regressor(1, modes=[mode]), unknown_rows(1, 40, 5))


def test_trees_that_say_nothing_about_missing_numbers() -> None:
    assert_same(regressor(1, nodes_missing_value_tracks_true=None), unknown_rows(1, 40, 5))


@pytest.mark.parametrize("targets", [1, 5])
@pytest.mark.parametrize("function", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_reductions(targets: int, function: str) -> None:
    more = {} if function == "SUM" else {"base_values": base(targets)}
    data = regressor(targets, aggregate_function=function, **more)
    assert_same(data, unknown_rows(2, 20, 5))


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("targets", [1, 3])
def test_functions_of_scores(name: str, targets: int) -> None:
    data = regressor(targets, trees=7, dense=False, post_transform=name)
    assert_same(data, unknown_rows(3, 20, 5))


def test_shape_that_an_exporter_states_wrongly() -> None:
    data = regressor(3, version=1, states={"y": ("n", 1)})
    assert_same(data, unknown_rows(2, 20, 5), unknown_rows(3, 7, 5))


@pytest.mark.parametrize(("trees", "rows"), [(90, 1), (90, 3), (200, 60), (3, 1000)])
def test_many_trees_and_rows(trees: int, rows: int) -> None:
    data = regressor(1, trees, depth=3)
    for count in (rows, 1):
        assert_same(data, unknown_rows(rows, count, 5))


def test_a_target_that_no_leaf_is_for() -> None:
    """The host then shows 0, whatever the base value is."""
    grower = Trees(3, 5)
    for tree in range(3):
        grower.grow(tree, 3, [0, 2])
    given = grower.attributes("target")
    for function in ("SUM", "MIN"):
        data = model("TreeEnsembleRegressor", [(9, 5)], n_targets=3, base_values=base(3),
                     aggregate_function=function, **given)  # fmt: skip
        assert_same(data, unknown_rows(4, 9, 5))


def classifier(
    labels: list[int], trees: int = 5, dense: bool = True, only: int | None = None,
    positive: bool = False, dtype: str = "f32", **more: Any,
) -> bytes:  # fmt: skip
    grower = Trees(trees, 5)
    for tree in range(trees):
        about = range(len(labels)) if dense else [tree % len(labels)]
        about = about if only is None else [only]
        grower.grow(tree, 3, about)
    given = grower.attributes("class") | more
    if positive:
        given["class_weights"] = [abs(x) for x in given["class_weights"]]
    return model("TreeEnsembleClassifier", [("n", 5)], "lz", dtype, makes={"l": "i64"},
                 classlabels_int64s=labels, **given)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "dtype", "labels"),
    [
        ("NONE", "f32", [0, 1, 2]),
        ("SOFTMAX", "i32", [7, -3, 12, 4, 5]),
        ("LOGISTIC", "i64", [*range(9)]),
        ("SOFTMAX_ZERO", "f32", [3, 2, 1]),
        ("LOGISTIC", "f32", [6]),
    ],
)
@pytest.mark.parametrize("dense", [True, False])
def test_many_classes(name: str, dtype: str, labels: list[int], dense: bool) -> None:
    more = {"base_values": base(len(labels))} if dense else {}
    data = classifier(labels, 11, dense, dtype=dtype, post_transform=name, **more)
    assert_same(data, unknown_rows(5, 20, 5, dtype))


@pytest.mark.parametrize("count", [0, 1, 2])
@pytest.mark.parametrize("only", [None, 0, 1])
def test_two_classes(count: int, only: int | None) -> None:
    more = {"base_values": base(count)} if count else {}
    for k, (name, positive) in enumerate((("NONE", False), ("LOGISTIC", False), ("NONE", True))):
        labels = [[0, 1], [7, -3]][k % 2]
        data = classifier(labels, only=only, positive=positive, post_transform=name, **more)
        assert_same(data, unknown_rows(6, 20, 5))


def test_scores_that_versions_of_the_host_compute_differently() -> None:
    data = classifier([0, 1], only=0, positive=True, post_transform="LOGISTIC")
    assert "LOGISTIC" in reason(data)
    assert "PROBIT" in reason(classifier([0, 1], only=0, post_transform="PROBIT"))


def test_classes_that_only_some_runs_are_about() -> None:
    grower = Trees(8, 5)
    grower.grow(0, 4, [0])
    given = grower.attributes("class")
    for k in range(0, len(given["class_ids"]), 2):
        given["class_ids"][k] = 1 + k // 2 % 2
    data = model("TreeEnsembleClassifier", [("n", 5)], "lz", makes={"l": "i64"},
                 classlabels_int64s=[0, 1, 2], **given)  # fmt: skip
    assert "every run" in reason(data)
    zeros = [0.0] * 3  # base values give every class a number
    covered = model("TreeEnsembleClassifier", [("n", 5)], "lz", makes={"l": "i64"},
                    classlabels_int64s=[0, 1, 2], base_values=zeros, **given)  # fmt: skip
    assert_same(covered, unknown_rows(7, 30, 5))


def wrong(name: str, change: Any) -> bytes:
    grower = Trees(5, 5)
    for tree in range(3):
        grower.grow(tree, 3, [0])
    given = grower.attributes("target")
    given[name] = change(given[name])
    return model("TreeEnsembleRegressor", [(4, 5)], n_targets=1, **given)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("nodes_treeids", lambda ids: [*ids[:-1], 0]),
        ("nodes_values", lambda values: [float("nan")] * len(values)),
        ("nodes_featureids", lambda ids: [9] * len(ids)),
        ("target_weights", lambda values: [float("nan")] * len(values)),
    ],
)
def test_trees_that_are_left_to_the_host(name: str, change: Any) -> None:
    """The host may refuse such a model; if it does not, it computes it."""
    try:
        said = reason(wrong(name, change))
    except Exception as error:
        assert "onnxruntime" in str(error).lower()
    else:
        assert "rees" in said


def newer(
    comparisons: Array, targets: int = 2, function: int = 1, transform: int = 0, **more: Any
) -> bytes:
    """Returns a TreeEnsemble of two trees: three nodes and four leaves, and one node and two."""
    held = onnx.numpy_helper.from_array
    given: dict[str, Any] = {
        "n_targets": targets, "aggregate_function": function, "post_transform": transform,
        "tree_roots": [0, 3], "nodes_featureids": [0, 1, 2, 1],
        "nodes_modes": held(comparisons.astype(np.uint8)),
        "nodes_splits": held(np.array([0, 1, -1, 2], np.float32)),
        "nodes_truenodeids": [1, 0, 2, 4], "nodes_falsenodeids": [2, 1, 3, 5],
        "nodes_trueleafs": [0, 1, 1, 1], "nodes_falseleafs": [0, 1, 1, 1],
        "nodes_missing_value_tracks_true": [1, 0, 1, 0],
        "leaf_targetids": [0, 0, 0, 0, 1, 1] if targets == 2 else [0] * 6,
        "leaf_weights": held(np.array([1, 2, -3, 4, 5, -6], np.float32) / 4),
    }  # fmt: skip
    return model("TreeEnsemble", [("n", 3)], version=5, **given | more)


@pytest.mark.parametrize("mode", [0, 1, 4])
def test_newer_form(mode: int) -> None:
    data = newer(np.array([mode, 5 - mode, mode, 0]))
    assert_same(data, unknown_rows(8, 30, 3))


@pytest.mark.parametrize("function", range(4))
def test_newer_reductions(function: int) -> None:
    for targets, transform in ((1, 0), (2, 3)):
        data = newer(np.zeros(4), targets, function, transform)
        assert_same(data, unknown_rows(9, 30, 3))


def test_sets() -> None:
    members = np.array([1, -2, np.nan, 0, 3, -1, np.nan], np.float32)
    data = newer(np.array([6, 0, 6, 3]), membership_values=onnx.numpy_helper.from_array(members))
    assert_same(data, unknown_rows(10, 60, 3))


def test_functions_that_the_host_numbers_in_its_own_way() -> None:
    for transform in (1, 2):
        assert "post_transform" in reason(newer(np.zeros(4), transform=transform))


def between(classes: int, **more: Any) -> bytes:
    """Returns a Scaler, a classifier, and a Normalizer of its scores."""
    from onnx import TensorProto, helper

    grower = Trees(11, 5, MODES[:1])
    for tree in range(6):
        grower.grow(tree, 4, range(classes))
    given = grower.attributes("class") | more
    domain = "ai.onnx.ml"
    nodes = [
        helper.make_node("Scaler", ["x"], ["a"], domain=domain, scale=[1.5] * 5, offset=[0.1] * 5),
        helper.make_node("TreeEnsembleClassifier", ["a"], ["l", "z"], domain=domain, **given),
        helper.make_node("Normalizer", ["z"], ["y"], domain=domain, norm="L1"),
    ]
    label = TensorProto.STRING if "classlabels_strings" in given else TensorProto.INT64
    kinds = {"l": label, "y": TensorProto.FLOAT}
    graph = helper.make_graph(
        nodes, "test", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 5])],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in kinds.items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(domain, 3)]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    return bytes(made.SerializeToString())


def test_what_reads_scores_beside_labels_that_are_texts() -> None:
    data = between(3, classlabels_strings=["a", "b", "c"])
    x = np.random.default_rng(12).normal(size=(9, 5)).astype(np.float32)
    ours = session(data)
    where = places(ours)
    assert where["ai.onnx.ml:TreeEnsembleClassifier"] == "cpu"
    assert where["ai.onnx.ml:Normalizer"] == "gpu"
    got, wanted = (s.run(None, {"x": x}) for s in (ours, cpu(data)))
    assert (got[0] == wanted[0]).all()
    np.testing.assert_allclose(got[1], wanted[1], atol=1e-5)


def test_features_keep_their_precision_where_others_need_not() -> None:
    """A feature that is rounded takes another path through a tree."""
    data = between(3, classlabels_int64s=[0, 1, 2])
    x = np.random.default_rng(13).normal(size=(40_000, 5)).astype(np.float32)
    ours = session(data, is_precision_loss_allowed=1)
    got, wanted = (s.run(None, {"x": x}) for s in (ours, cpu(data)))
    assert set(places(ours).values()) == {"gpu"} and (got[0] == wanted[0]).all()
    np.testing.assert_allclose(got[1], wanted[1], atol=2e-3)
