"""Boosted trees of XGBoost and LightGBM over measurements, as onnxmltools writes them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from .sklearn_models import COLUMNS, measurements, written

SMALL: dict[str, Any] = {"n_estimators": 12, "max_depth": 4, "random_state": 0}
MISSING = 0.1  # of the numbers in the models named so


def models() -> dict[str, Callable[[], Any]]:
    """Returns the function that makes each estimator, by name; XGBoost and LightGBM are needed."""
    import lightgbm
    import xgboost

    quiet = {"verbose": -1}
    return {
        "xgboost_two_classes": lambda: xgboost.XGBClassifier(**SMALL),
        "xgboost_three_classes": lambda: xgboost.XGBClassifier(**SMALL),
        "xgboost_regressor": lambda: xgboost.XGBRegressor(**SMALL),
        "xgboost_missing": lambda: xgboost.XGBRegressor(**SMALL),
        "xgboost_forest": lambda: xgboost.XGBRFRegressor(**SMALL),
        "lightgbm_two_classes": lambda: lightgbm.LGBMClassifier(**SMALL, **quiet),
        "lightgbm_three_classes": lambda: lightgbm.LGBMClassifier(**SMALL, **quiet),
        "lightgbm_regressor": lambda: lightgbm.LGBMRegressor(**SMALL, **quiet),
        "lightgbm_missing": lambda: lightgbm.LGBMRegressor(**SMALL, **quiet),
    }


def routes() -> dict[str, Callable[[Path], None]]:
    """Returns the function that writes each model, with a dynamic batch axis, into a folder, by
    name."""
    return {name: partial(_write, name, build) for name, build in models().items()}


def _write(name: str, build: Callable[[], Any], folder: Path) -> None:
    import onnxmltools
    from onnxmltools.convert.common.data_types import FloatTensorType

    data, target = measurements()
    if name.endswith("missing"):
        data[np.random.default_rng(1).random(data.shape) < MISSING] = np.nan
    chosen = build()
    if name.endswith("classes"):
        parts = [1 / 2] if "two" in name else [1 / 3, 2 / 3]
        target = np.digitize(target, np.quantile(target, parts))
    chosen.fit(data, target)
    convert = getattr(onnxmltools, f"convert_{name.partition('_')[0]}")
    types = [("X", FloatTensorType([None, COLUMNS]))]
    written(name, convert(chosen, initial_types=types, target_opset=15), data, folder)
