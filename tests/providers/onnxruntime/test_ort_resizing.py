"""Resize whose sizes are inputs of a run, or follow from open extents: one plan holds for all of
them, and gives the CPU provider's results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from tests.support.onnx_models import Array, cpu, model, node, session
from tests.support.traced import traced
from tflgpu_plugin.ir.extent import Trace
from tflgpu_plugin.providers.onnxruntime import resizing

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.adapter

RUNS = 20
MODE, RULE = "mode", "coordinate_transformation_mode"
RULES = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric")
SMOOTH = {"antialias": 1}
WAYS: dict[str, dict[str, Any]] = {
    **{f"{mode} {rule}": {MODE: mode, RULE: rule} for rule in RULES
       for mode in ("nearest", "linear", "cubic")},
    "for nearest pixels": {MODE: "nearest", RULE: "tf_half_pixel_for_nn"},
    "within the image": {MODE: "cubic", "exclude_outside": 1, "cubic_coeff_a": -0.5},
    **{f"smooth {mode}{' within' * within}": {MODE: mode, **SMOOTH, "exclude_outside": within}
       for mode in ("linear", "cubic") for within in (0, 1)},
}  # fmt: skip
OPSETS = {"linear half_pixel": 13, "cubic align_corners": 11, "nearest asymmetric": 11}


def sizes(chance: np.random.Generator, extents: Sequence[int], how: dict[str, Any]) -> list[int]:
    """Returns sizes to resize to: smaller ones where the host needs that."""
    most = extents if "antialias" in how else [40 if len(extents) < 3 else 11] * len(extents)
    return [int(chance.integers(1, n + 1)) for n in most]


def feeds(extents: Sequence[int], how: dict[str, Any], seed: int = 3) -> Iterator[dict[str, Array]]:
    """Yields images, and sizes that differ from run to run, some of them those of the image."""
    chance = np.random.default_rng(seed)
    for run in range(RUNS):
        x = chance.normal(0.5, 1, (1, 3, *extents)).astype(np.float32)
        made = extents if run == RUNS // 2 else sizes(chance, extents, how)
        yield {"x": x, "a": np.array([1, 3, *made])}


def by_sizes(extents: Sequence[int], how: dict[str, Any], opset: int = 19) -> bytes:
    given = {"x": (1, 3, *extents), "a": (2 + len(extents),)}
    names, held = ["x", "", "", "a"], {}
    if opset < 13:  # inputs are not optional, but may be empty
        names, held = ["x", "none", "none", "a"], {"none": np.zeros(0, np.float32)}
    nodes = [node("Resize", names, ["y"], **how)]
    return model(nodes, given, {"y": None}, held, opset=opset, kinds={"a": np.int64})


def assert_close(got: Array, wanted: Array, how: dict[str, Any]) -> None:
    assert got.shape == wanted.shape
    exact = how[MODE] == "nearest"
    np.testing.assert_allclose(got, wanted, rtol=0, atol=0 if exact else 1e-5)


@pytest.mark.parametrize("name", WAYS)
def test_sizes_of_a_run_have_one_plan(name: str, monkeypatch: Any) -> None:
    how, extents, made = WAYS[name], (16, 21), traced(monkeypatch)
    data = by_sizes(extents, how, OPSETS.get(name, 19))
    ours, theirs = session(data), cpu(data, optimize=False)
    for feed in feeds(extents, how):
        (got,), (wanted,) = ours.run(None, feed), theirs.run(None, feed)
        assert_close(got, wanted, how)
    assert len(made) == 1 and not made[0].trace.fixed


@pytest.mark.parametrize("rule", ["half_pixel", "half_pixel_symmetric"])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("extents", [(16,), (6, 7, 8)], ids=["line", "volume"])
def test_lines_and_volumes_have_few_plans(
    extents: tuple[int, ...], mode: str, rule: str, monkeypatch: Any
) -> None:
    how, made = {MODE: mode, RULE: rule}, traced(monkeypatch)
    data = by_sizes(extents, how)
    ours, theirs = session(data), cpu(data, optimize=False)
    for feed in feeds(extents, how):
        (got,), (wanted,) = ours.run(None, feed), theirs.run(None, feed)
        assert_close(got, wanted, how)
    # Of three sizes, one may be the same in the first runs.
    assert len(made) <= 2 and not made[-1].trace.fixed


def test_integers_have_few_plans(monkeypatch: Any) -> None:
    how, made = {MODE: "nearest", RULE: "half_pixel_symmetric"}, traced(monkeypatch)
    given = {"x": (1, 3, 6, 7, 8), "a": (5,)}
    kinds = {"x": np.int32, "y": np.int32, "a": np.int64}
    resize = node("Resize", ["x", "", "", "a"], ["y"], **how)
    data = model([resize], given, {"y": None}, opset=19, kinds=kinds)
    ours, theirs = session(data), cpu(data, optimize=False)
    for feed in feeds((6, 7, 8), how):
        feed["x"] = (1e8 * feed["x"]).astype(np.int32)
        np.testing.assert_array_equal(ours.run(None, feed)[0], theirs.run(None, feed)[0])
    assert len(made) <= 2 and not made[-1].trace.fixed


SCALED = {
    **{name: WAYS[name] for name in ("nearest asymmetric", "linear half_pixel_symmetric")},
    **{name: WAYS[name] for name in ("cubic half_pixel", "smooth linear", "smooth cubic within")},
    "cut": {MODE: "linear", RULE: "tf_crop_and_resize", "extrapolation_value": 3.5},
    "cut cubic": {MODE: "cubic", RULE: "tf_crop_and_resize"},
}


@pytest.mark.parametrize("scale", [0.7, 0.45, 1.02, 2.5])
@pytest.mark.parametrize("name", SCALED)
def test_images_of_open_extents_are_scaled(name: str, scale: float, monkeypatch: Any) -> None:
    """Float32 decides about the sizes: 10 times 0.7 is 7, though the stored number is less; 40
    times 1.02 is 40, so that the host copies the image."""
    how, made = SCALED[name], traced(monkeypatch)
    if "antialias" in how and scale > 1:
        pytest.skip("the host smoothes axes that shrink only")
    held = {"s": np.array([1, 1, scale, scale], np.float32)}
    held["r"] = np.array([0, 0, 0.1, -0.2, 1, 1, 0.7, 1.3], np.float32)
    region = "r" if "cut" in name else ""
    nodes = [node("Resize", ["x", region, "s"], ["y"], **how)]
    held = {name: value for name, value in held.items() if name in ("s", region)}
    data = model(nodes, {"x": (1, 3, "h", "w")}, {"y": None}, held, opset=19)
    ours, theirs = session(data), cpu(data, optimize=False)
    chance = np.random.default_rng(4)
    for extents in [(10, 20), (40, 50), (51, 40), *chance.integers(3, 90, (RUNS, 2))]:
        feed = {"x": chance.normal(0.5, 1, (1, 3, *extents)).astype(np.float32)}
        (got,), (wanted,) = ours.run(None, feed), theirs.run(None, feed)
        assert_close(got, wanted, how)
    assert len(made) <= (3 if scale == 1.02 else 1)
    assert not any(one.trace.fixed for one in made)


@pytest.mark.parametrize("scale", [0.1, 0.3, 0.45, 0.7, 0.9999, 1.02, 1.2345, 7.77, 640 / 427])
def test_sizes_that_follow_from_scales(scale: float) -> None:
    """The size of an open extent is that of float32 for all extents that the guards accept."""
    trace = Trace()
    made = resizing.scaled_size(trace.symbol(0, 20), scale)
    assert not trace.fixed or scale == 0.9999
    _, most = resizing.as_fraction(scale)
    for extent in range(2, min(most, 9000)):
        told = Trace()
        found = resizing.scaled_size(told.symbol(0, extent), scale)
        wanted = int(np.float32(extent) * np.float32(scale))
        assert (found if isinstance(found, int) else found.value) == wanted
    assert made.value == int(np.float32(20) * np.float32(scale))


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
def test_sizes_that_keep_the_ratio_of_sides(policy: str) -> None:
    """Float32 decides about halves: 37 / 18 * 27 is 55.5 there, but less in float64."""
    how = {MODE: "nearest", RULE: "asymmetric", "axes": [2, 3], "keep_aspect_ratio_policy": policy}
    nodes = [node("Resize", ["x", "", "", "a"], ["y"], **how)]
    given = {"x": (1, 3, "h", "w"), "a": (2,)}
    data = model(nodes, given, {"y": None}, opset=19, kinds={"a": np.int64})
    ours, theirs = session(data), cpu(data, optimize=False)
    chance = np.random.default_rng(8)
    halves = [((27, 18), (12, 37)), ((18, 27), (37, 99))]
    for extents, made in [*halves, *chance.integers(1, 60, (9, 2, 2))]:
        feed = {"x": chance.normal(0.5, 1, (1, 3, *extents)).astype(np.float32)}
        feed["a"] = np.array(made)
        (got,), (wanted,) = ours.run(None, feed), theirs.run(None, feed)
        assert_close(got, wanted, how)


def test_threads_with_sizes_of_their_own(monkeypatch: Any) -> None:
    how, extents, made = WAYS["cubic half_pixel_symmetric"], (16, 21), traced(monkeypatch)
    data = by_sizes(extents, how)
    ours, theirs = session(data), cpu(data, optimize=False)
    every = [list(feeds(extents, how, seed)) for seed in range(4)]

    def run(given: Sequence[dict[str, Array]]) -> list[Array]:
        return [ours.run(None, feed)[0] for feed in given]

    with ThreadPoolExecutor(len(every)) as threads:
        for given, found in zip(every, threads.map(run, every), strict=True):
            for feed, got in zip(given, found, strict=True):
                assert_close(got, theirs.run(None, feed)[0], how)
    assert len(made) == 1
