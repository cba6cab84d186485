"""Guards of exported networks whose shapes change: few plans with symbols hold for all shapes. Each
test prints the guards (pytest -s)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from benchmarks.decoding_models import MODELS
from tests.support.onnx_models import session
from tests.support.traced import traced
from tflgpu_plugin.compile.template import Template

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.adapter

BATCHES = [(n, 3, 96, 96) for n in (1, 2, 4, 8, 16, 3, 32)]
# Only the width differs first, but the model has both sides dynamic.
PICTURES = [(1, 3, 224, 236), *((1, 3, side, side + 8) for side in (224, 320, 480, 96, 640, 320))]
LINES = [(1, 3, 48, width) for width in (100, 140, 90, 170, 240, 85, 300)]


def made(name: str, shapes: Sequence[tuple[int, ...]], patch: Any) -> list[Template]:
    """Returns the templates that a session makes for these shapes."""
    found = traced(patch)
    running = session(MODELS[name]())
    for shape in shapes:
        running.run(None, {"x": np.ones(shape, np.float32)})
    return found


@pytest.mark.parametrize(
    ("name", "shapes", "traced", "most"),
    [("mobilenet", BATCHES, 1, 79), ("recogniser", LINES, 1, 24), ("segmenter", PICTURES, 1, 60)],
)
def test_few_guards(
    name: str, shapes: list[tuple[int, ...]], traced: int, most: int, monkeypatch: Any
) -> None:
    templates = made(name, shapes, monkeypatch)
    for template in templates:
        guards = template.trace.guards
        print(f"{name}: {len(guards)} guards", *guards, sep="\n  ")
        assert not template.trace.fixed
        assert len(guards) <= most
    assert len(templates) <= traced
