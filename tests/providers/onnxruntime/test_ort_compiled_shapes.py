"""The shapes for which a compiled model has plans with symbols, and what becomes a symbol."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support import onnx_models as m
from tflgpu_plugin.cache import plan_file

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.adapter


def padded(batch: Any = "batch", rows: Any = "rows", more: Any = "rows + 1") -> bytes:
    """A row more than x has, and z added to it."""
    nodes = [m.node("Pad", ["x", "pads"], ["y"]), m.node("Add", ["y", "z"], ["w"])]
    inputs = {"x": (batch, rows, 3), "z": (batch, more, 3)}
    pads = {"pads": np.array([0, 0, 0, 0, 1, 0])}
    return m.model(nodes, inputs, {"w": (batch, more, 3)}, pads)


def kept(folder: Path, data: bytes) -> dict[tuple[int, ...], dict[int, int]]:
    """Returns the symbols of each template of the compiled model, by the flat list of shapes."""
    import onnx

    from tests.cache.test_compiled_models import compiled

    m.session(data, force="1")  # registers
    (node,) = onnx.load(compiled(folder, data=data, force="1")).graph.node
    (held,) = (a.s for a in node.attribute if a.name == "ep_cache_context")
    first, *others = plan_file.read(memoryview(held))
    assert "template" not in first.extra
    return {tuple(o.extra["shapes"]): dict(o.extra["template"][0]) for o in others}


def test_each_open_extent_is_also_1_or_2(tmp_path: Path) -> None:
    found = kept(tmp_path, padded())
    assert found == {
        (3, 1, 224, 3, 3, 1, 225, 3): {2: 0, 6: 1},
        (3, 2, 224, 3, 3, 2, 225, 3): {1: 0, 2: 1, 5: 0, 6: 2},
        (3, 1, 1, 3, 3, 1, 2, 3): {6: 0},
    }


def test_extents_that_are_known_are_no_symbols(tmp_path: Path) -> None:
    assert kept(tmp_path, padded(5, "rows", "rows + 1")) == {
        (3, 5, 224, 3, 3, 5, 225, 3): {2: 0, 6: 1},
        (3, 5, 1, 3, 3, 5, 2, 3): {6: 0},
    }


def test_a_model_without_open_extents_has_no_templates(tmp_path: Path) -> None:
    assert kept(tmp_path, padded(5, 7, 8)) == {}
