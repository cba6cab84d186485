"""Routes from scikit-learn, XGBoost and LightGBM to ONNX."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from . import boosted_models, sklearn_models


def routes() -> dict[str, Callable[[Path], None]]:
    """Returns the function that writes each model into a folder, by the model's name."""
    return sklearn_models.routes() | boosted_models.routes()
