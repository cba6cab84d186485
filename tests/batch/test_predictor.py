"""Tests `Predictor`, the class for users' own programs: which adapter it selects, and what it
refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conformance import host as hosts
from tests.support import batches
from tflgpu_plugin.batch import Predictor
from tflgpu_plugin.batch.model import BadInput
from tflgpu_plugin.runtime.adapter import adapters

pytestmark = [
    pytest.mark.adapter,
    pytest.mark.skipif(not hosts.installed(), reason="no TFLite host: pip install -e .[tflite]"),
]


@pytest.mark.parametrize("given", ["0", "0,0", " 0, ", "all", "", ["0"], [0], ()])
def test_adapters_are_a_list_or_a_text_with_commas(given: Any, tmp_path: Path) -> None:
    predictor = Predictor(batches.model(tmp_path), adapters=given, batch=2)
    found = predictor.report().adapter
    assert found and found.index == 0
    assert predictor.adapter == ("0" if given else None)


def test_a_text_is_no_list_of_letters(tmp_path: Path) -> None:
    """A string is not taken for a list of one-letter names, each of which would match many
    adapters."""
    names = " ".join(one.name.lower() for one in adapters())
    wrong = "xyzzy"
    assert wrong not in names
    for given in (wrong, [wrong], f"{wrong},0"):
        with pytest.raises((ValueError, RuntimeError), match=f"No adapter matches '{wrong}'"):
            Predictor(batches.model(tmp_path), adapters=given)
    part = names[1:4]
    assert Predictor(batches.model(tmp_path), adapters=part, batch=2).adapter == part


def test_what_cannot_be_used_is_a_sentence(tmp_path: Path) -> None:
    model = batches.model(tmp_path)
    for given, text in (({"batch": -1}, "batch is 0 or more"), ({"std": 0}, "std is more than 0")):
        with pytest.raises(BadInput, match=text):
            Predictor(model, **given)
    predictor = Predictor(model, batch=2)
    for batch in (5, None, [np.zeros(3)]):
        with pytest.raises(BadInput, match="A batch has columns by their names"):
            predictor(batch)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="the data lacks the model's input x: it has none"):
        predictor({})
