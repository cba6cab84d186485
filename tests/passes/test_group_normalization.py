"""Tests the pass that recognizes group normalization. No adapter is needed."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support import evaluate
from tests.support.net import ShapedNet
from tflgpu_plugin.ir import Graph
from tflgpu_plugin.ops import normalization
from tflgpu_plugin.passes.fuse.group_normalization import fuse_group_normalization

GROUPS, CHANNELS, SIZE = 4, 16, (3, 5)


def spelled(n: ShapedNet, form: str = "", batch: int = 2) -> int:
    """Returns the normalization as torch writes it, of an image whose channels come first."""
    channels = 12 if form == "uneven" else CHANNELS
    x = n.input((batch, *SIZE, channels))
    first = x if form == "not turned" else n.turn(x, (0, 3, 1, 2))
    count = int(np.prod(SIZE)) * channels // GROUPS
    if form == "active":
        first = n.same("relu", first)
    rows = n.turn(n.reshape(first, (batch, GROUPS, count)), (0, 2, 1))
    scale, bias = np.ones(GROUPS, np.float32), np.zeros(GROUPS, np.float32)
    scale[1] = 2 if form == "scale" else 1
    bias[1] = 2 if form == "bias" else 0
    given = (n.input((GROUPS,)), None) if form == "told" else (n.constant(scale), n.constant(bias))
    y = n.same("instance_normalization", rows, *given, epsilon=1e-3)
    y = n.same("relu", y) if form == "between" else y
    y = n.turn(y, (0, 1, 2) if form == "stays" else (0, 2, 1))
    return n.reshape(y, (batch, channels, *SIZE))


def compared(graph: Graph) -> list[str]:
    """Returns the ops that are left."""
    return evaluate.compared(graph, fuse_group_normalization(graph))


@pytest.mark.parametrize("batch", [1, 2])
def test_groups_of_whole_slices(batch: int) -> None:
    n = ShapedNet()
    assert compared(n.graph(spelled(n, batch=batch))) == ["standardize_groups", "transpose"]


def test_any_groups_of_a_tensor_that_takes_long_to_move(monkeypatch: pytest.MonkeyPatch) -> None:
    """12 channels in 4 groups."""
    n = ShapedNet()
    graph = n.graph(spelled(n, "uneven"))
    monkeypatch.setattr(normalization, "MANY_VALUES", 2 * 3 * 5 * 12)
    assert compared(graph) == ["standardize_groups", "transpose"]
    monkeypatch.setattr(normalization, "MANY_VALUES", 2 * 3 * 5 * 12 + 1)
    assert "instance_normalization" in compared(graph)


def test_channels_that_come_first_are_turned() -> None:
    """Earlier nodes stay, and the new transposes cancel those around them."""
    n = ShapedNet()
    assert compared(n.graph(spelled(n, "active"))) == [
        "transpose", "relu", "transpose", "standardize_groups", "transpose",
    ]  # fmt: skip


@pytest.mark.parametrize("further", [False, True])
def test_a_line_of_pixels(further: bool) -> None:
    """A line of pixels, as before attention, keeps three axes; the image is further away."""
    n, (height, width) = ShapedNet(), SIZE
    x = n.input((2, CHANNELS, *SIZE) if further else (2, CHANNELS, height * width))
    line = n.reshape(x, (2, CHANNELS, height * width)) if further else x
    rows = n.turn(n.reshape(line, (2, GROUPS, height * width * CHANNELS // GROUPS)), (0, 2, 1))
    y = n.same("instance_normalization", rows, None, None, epsilon=1e-3)
    y = n.reshape(n.turn(y, (0, 2, 1)), (2, CHANNELS, height * width))
    moved = ["reshape"] * further
    assert compared(n.graph(y)) == [*moved, "transpose", "standardize_groups", "transpose"]


def test_groups_of_one_channel_stay() -> None:
    n = ShapedNet()
    x = n.input((2, GROUPS, 15))
    y = n.same("instance_normalization", n.turn(x, (0, 2, 1)), None, None, epsilon=1e-3)
    graph = n.graph(n.turn(y, (0, 2, 1)))
    assert fuse_group_normalization(graph) == graph


@pytest.mark.parametrize(
    "form", ["uneven", "not turned", "scale", "bias", "told", "between", "stays"]
)
def test_others_stay(form: str) -> None:
    n = ShapedNet()
    graph = n.graph(spelled(n, form))
    assert fuse_group_normalization(graph) == graph


def test_what_is_read_in_between_stays() -> None:
    n = ShapedNet()
    y = spelled(n)
    graph = n.graph(y, n.nodes[-2].outputs[0])
    assert fuse_group_normalization(graph) == graph
