"""The table rows of the operators of the ai.onnx.ml domain: what exporters make of models of
scikit-learn, XGBoost and LightGBM."""

from __future__ import annotations

from typing import Any

from tflgpu_plugin.ir import HostOp

from . import features, indexing, linear_models, scores, support_vectors, tree_ensembles
from .rows import MANY, row

DOMAIN = "ai.onnx.ml"
NUMBERS = "f32 i32 i64"
TREES = "value", scores.ROWS, tree_ensembles.whole_trees, tree_ensembles.covered


def _row(name: str, op: str, versions: tuple[int, int], *takes: Any, **more: Any) -> HostOp:
    return row(f"{DOMAIN}:{name}", op, versions, *takes, **more)


ROWS: tuple[HostOp, ...] = (
    _row(
        "ArrayFeatureExtractor", "gather", (1, 1), "value index", indexing.FEATURES,
        by=indexing.features,
    ),
    _row("Binarizer", "greater", (1, 1), by=features.binarizer, types="f32", double=False),
    _row(
        "FeatureVectorizer", "concat", (1, 1), MANY, features.joined,
        by=features.feature_vectorizer, types=NUMBERS, uninferred=True,
    ),
    _row("Imputer", "where", (1, 1), "value", features.imputed, by=features.imputer,
         types="f32 i64", double=False, uninferred=True),
    _row("LabelEncoder", "gather", (2, 4), "value", features.encoded, by=features.label_encoder,
         types="f32 i64"),
    _row(
        "LinearClassifier", "fully_connected", (1, 1), "value", scores.ROWS, scores.TRANSFORM,
        scores.labelled("classlabels_ints"), linear_models.classes, by=linear_models.classifier,
        types=NUMBERS,
    ),
    _row(
        "LinearRegressor", "fully_connected", (1, 1), "value", scores.ROWS, scores.TRANSFORM,
        linear_models.fitting, by=linear_models.regressor, types="f32", double=False,
        uninferred=True,
    ),
    _row("Normalizer", "div", (1, 1), "value", features.NORM, by=features.normalizer,
         types=NUMBERS, uninferred=True),
    _row(
        "OneHotEncoder", "one_hot", (1, 1), "value", features.categories,
        by=features.one_hot_encoder, types="f32 i64",
    ),
    _row(
        "SVMClassifier", "fully_connected", (1, 1), "value", scores.ROWS, scores.TRANSFORM,
        scores.labelled(support_vectors.LABELS), support_vectors.decided,
        support_vectors.classifying, by=support_vectors.classifier, types=NUMBERS,
        uninferred=True,
    ),
    _row(
        "SVMRegressor", "fully_connected", (1, 1), "value", scores.ROWS,
        support_vectors.regressing, by=support_vectors.regressor, types="f32", double=False,
        uninferred=True,
    ),
    _row("Scaler", "mul", (1, 1), "value", features.scaled, by=features.scaler, types=NUMBERS,
         uninferred=True),
    _row("TreeEnsemble", "decision_trees", (5, 5), *TREES, by=tree_ensembles.regressor,
         types="f32"),
    _row(
        "TreeEnsembleClassifier", "decision_trees", (1, 3), "value", scores.ROWS,
        scores.labelled(tree_ensembles.LABELS), *TREES[2:], by=tree_ensembles.classifier,
        types=NUMBERS, uninferred=True,
    ),
    # skl2onnx states [n, 1] for trees of several targets.
    _row("TreeEnsembleRegressor", "decision_trees", (1, 3), *TREES, by=tree_ensembles.regressor,
         types="f32", uninferred=True),
)  # fmt: skip
