"""Pipelines of scikit-learn over measurements, as skl2onnx writes them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

ROWS, COLUMNS, CLASSES = 120, 8, 3


def pipelines() -> dict[str, Callable[[], Any]]:
    """Returns the function that builds each pipeline, by name; scikit-learn is needed."""
    from sklearn import (
        cluster,
        decomposition,
        ensemble,
        impute,
        linear_model,
        naive_bayes,
        neighbors,
        neural_network,
        pipeline,
        preprocessing,
        svm,
        tree,
    )

    joined, scaled = pipeline.make_pipeline, preprocessing.StandardScaler
    return {
        "logistic": lambda: joined(scaled(), linear_model.LogisticRegression()),
        "ridge": lambda: joined(preprocessing.MinMaxScaler(), linear_model.Ridge()),
        "polynomial": lambda: joined(preprocessing.PolynomialFeatures(2),
                                     linear_model.LinearRegression()),
        "mlp_classifier": lambda: joined(scaled(), neural_network.MLPClassifier((16,),
                                         max_iter=60, random_state=0)),
        "mlp_regressor": lambda: joined(scaled(), neural_network.MLPRegressor(hidden_layer_sizes=
                                        (16, 8), activation="tanh", max_iter=60, random_state=0)),
        "pca_svc": lambda: joined(scaled(), decomposition.PCA(4), svm.SVC(random_state=0)),
        "svr": lambda: joined(scaled(), svm.SVR()),
        "forest": lambda: ensemble.RandomForestClassifier(8, max_depth=4, random_state=0),
        "boosted": lambda: ensemble.GradientBoostingRegressor(n_estimators=8, random_state=0),
        "tree": lambda: tree.DecisionTreeClassifier(max_depth=4, random_state=0),
        "extra_trees": lambda: ensemble.ExtraTreesRegressor(8, max_depth=5, random_state=0),
        "imputed": lambda: joined(impute.SimpleImputer(), preprocessing.Normalizer(),
                                  linear_model.LogisticRegression()),
        "binned": lambda: joined(preprocessing.Binarizer(threshold=0.2),
                                 linear_model.LinearRegression()),
        "nu_svc": lambda: joined(scaled(), svm.NuSVC(kernel="poly", random_state=0)),
        "svc_of_two": lambda: joined(scaled(), svm.SVC(random_state=0)),
        "nearest": lambda: joined(scaled(), neighbors.KNeighborsClassifier(3)),
        "bayes": lambda: naive_bayes.GaussianNB(),
        "kmeans": lambda: joined(scaled(), cluster.KMeans(3, n_init=2, random_state=0)),
    }  # fmt: skip


def routes() -> dict[str, Callable[[Path], None]]:
    """Returns the function that writes each model, with a dynamic batch axis, into a folder, by
    name."""
    return {f"sklearn_{name}": partial(_write, name, build) for name, build in pipelines().items()}


def measurements() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Returns rows of measurements, and a number for each."""
    random = np.random.default_rng(0)
    data = random.normal(size=(ROWS, COLUMNS)).astype(np.float32)
    return data, (data[:, :3] @ [1.0, 0.5, -1.0]) + data[:, 3] ** 2


def written(name: str, model: Any, data: np.ndarray[Any, Any], folder: Path) -> None:
    """Writes a model, and two sets of inputs for it, into a folder."""
    path = folder / f"{name}.onnx"
    path.write_bytes(model.SerializeToString())
    np.savez(path.with_suffix(".npz"), X=data[:9])
    np.savez(path.with_suffix(".0.npz"), X=data[:1])


def _write(name: str, build: Callable[[], Any], folder: Path) -> None:
    from skl2onnx import to_onnx
    from sklearn.base import is_regressor

    data, target = measurements()
    chosen = build()
    parts = [1 / 2] if name.endswith("two") else [1 / 3, 2 / 3]
    classes = np.digitize(target, np.quantile(target, parts))
    chosen.fit(data, target if is_regressor(chosen) else classes)
    model = to_onnx(chosen, data[:1], target_opset={"": 20, "ai.onnx.ml": 3})
    written(f"sklearn_{name}", model, data, folder)
