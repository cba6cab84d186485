"""Shapes change from run to run in one session: each run gives the CPU provider's result, also
after a plan with symbols was made for other shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from tests.support.onnx_models import compare, cpu, model, node, session, values
from tests.support.traced import traced

pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.adapter


def run_all(data: bytes, shapes: Sequence[Sequence[int]]) -> Any:
    """Runs a session on inputs `x` of these shapes, one after another, and returns it."""
    ours, theirs = session(data), cpu(data)
    for shape in shapes:
        compare(ours, theirs, {"x": values(*shape)})
    return ours


def test_an_extent_that_becomes_one_changes_the_rank() -> None:
    nodes = [node("Squeeze", ["x"], ["s"]), node("Relu", ["s"], ["y"])]
    data = model(nodes, {"x": ("a", "b", "c")}, {"y": None})
    run_all(data, [(5, 1, 7), (6, 1, 9), (8, 1, 3), (1, 1, 5), (4, 1, 1), (1, 1, 7)])


def test_an_extent_that_becomes_zero_is_planned() -> None:
    data = model([node("Relu", ["x"], ["y"])], {"x": ("a", "b")}, {"y": None})
    ours = run_all(data, [(5, 7), (6, 9), (8, 3), (0, 3), (4, 3), (0, 5), (3, 0)])
    (partition,) = tflgpu_plugin.report(ours).partitions
    assert (partition.runs, partition.host_runs) == (7, 0)


def _on_the_gpu(ours: Any) -> bool:
    """Whether no run of the only partition ended on the host's kernels."""
    (partition,) = tflgpu_plugin.report(ours).partitions
    return partition.runs > 0 and not partition.host_runs


WIDE, COLUMN = values(8, 6), values(8)
OF_ROWS: dict[str, tuple[str, Sequence[str], dict[str, Any]]] = {
    "Gemm": ("Gemm", ["x", "w", "b"], {}),
    "MatMul": ("MatMul", ["x", "w"], {}),
    "LayerNormalization": ("LayerNormalization", ["x", "s"], {}),
    "Softmax": ("Softmax", ["x"], {}),
    "LogSoftmax": ("LogSoftmax", ["x"], {}),
    "RMSNormalization": ("RMSNormalization", ["x", "s"], {}),
    "FusedMatMul": ("FusedMatMul", ["x", "w"], {"domain": "com.microsoft"}),
    "SkipLayerNormalization": (
        "SkipLayerNormalization", ["x", "x", "s"], {"domain": "com.microsoft"}),
}  # fmt: skip


@pytest.mark.parametrize("name", OF_ROWS)
def test_no_rows(name: str) -> None:
    """An expert of a mixture gets no tokens in some runs."""
    op, given, more = OF_ROWS[name]
    held = {"w": WIDE, "b": values(6), "s": COLUMN}
    nodes = [node(op, given, ["y"], **more), node("Tanh", ["x"], ["t"])]
    data = model(nodes, {"x": ("rows", 8)}, {"y": None, "t": None},
                 {key: a for key, a in held.items() if key in given}, opset=23)  # fmt: skip
    assert _on_the_gpu(run_all(data, [(5, 8), (0, 8), (7, 8), (3, 8), (0, 8), (9, 8)]))


@pytest.mark.parametrize("kind", [np.float32, np.int64])
def test_padding_of_nothing(kind: type) -> None:
    """A row that is moved to the right by one loses its last element, which may be all of it."""
    nodes = [
        node("Slice", ["x", "zero", "last", "one"], ["s"]),
        node("Pad", ["s", "pads", "filling"], ["p"]),
        node("Equal", ["x", "p"], ["e"]), node("Cast", ["e"], ["y"], to=1),
    ]  # fmt: skip
    held = {"zero": np.array([0]), "last": np.array([-1]), "one": np.array([1]),
            "pads": np.array([0, 1, 0, 0]), "filling": np.array(3, kind)}  # fmt: skip
    data = model(nodes, {"x": ("n", "m")}, {"y": None, "p": None}, held,
                 kinds={"x": kind, "p": kind})  # fmt: skip
    ours, theirs = session(data), cpu(data)
    for n, m in ((2, 5), (3, 1), (1, 8), (2, 1), (4, 4)):
        compare(ours, theirs, {"x": (values(n, m) * 4).astype(kind)})
    assert _on_the_gpu(ours)


def test_extents_with_one_replaced() -> None:
    """TorchScript's index_copy scatters an extent into a list of extents, to which it expands."""
    nodes = [
        node("Shape", ["x"], ["all"]), node("Shape", ["p"], ["few"]),
        node("ScatterElements", ["all", "axis", "few"], ["extents"]),
        node("Unsqueeze", ["p", "others"], ["at"]), node("Expand", ["at", "extents"], ["e"]),
        node("ScatterElements", ["x", "e", "u"], ["y"], axis=1),
    ]  # fmt: skip
    held = {"axis": np.array([1]), "others": np.array([0, 2])}
    data = model(nodes, {"x": ("n", "m", 3), "p": ("k",), "u": ("n", "k", 3)}, {"y": None}, held,
                 kinds={"p": np.int64})  # fmt: skip
    ours, theirs, chance = session(data), cpu(data), np.random.default_rng(3)
    for n, m, k in ((2, 9, 2), (1, 7, 3), (3, 20, 1), (2, 9, 9)):
        places = chance.permutation(m)[:k]
        compare(ours, theirs, {"x": values(n, m, 3), "p": places, "u": values(n, k, 3) + 4})
    assert {found.where for found in tflgpu_plugin.report(ours).nodes} == {"gpu"}
    assert _on_the_gpu(ours)


def test_normalizations_of_nothing_on_the_kernels_of_onnxruntime() -> None:
    """InstanceNormalization of the host reads the first element even where there is none, and the
    tensor may have no address."""
    nodes = [
        node("Reshape", ["x", "groups"], ["r"]), node("Shape", ["x"], ["all"]),
        node("InstanceNormalization", ["r", "s", "b"], ["i"]), node("Reshape", ["i", "all"], ["j"]),
        node("Conv", ["j", "w"], ["y"], pads=[1, 1, 1, 1]),
    ]  # fmt: skip
    held = {"groups": np.array([0, 2, -1]), "s": values(2), "b": values(2), "w": values(2, 4, 3, 3)}
    ours = session(model(nodes, {"x": ("n", 4, "h", "w")}, {"y": None}, held))
    assert {found.where for found in tflgpu_plugin.report(ours).nodes} == {"gpu"}
    rows = onnxruntime.OrtValue.ortvalue_from_shape_and_type([2, 4, 0, 6], np.float32)
    assert not rows.data_ptr()
    for _ in range(2):
        with pytest.raises(Exception, match="Conv"):
            ours.run_with_ort_values(["y"], {"x": rows})
    assert ours.run(None, {"x": values(2, 4, 5, 6)})[0].shape == (2, 2, 5, 6)


def test_sizes_of_resize_that_follow_from_the_shape() -> None:
    nodes = [
        node("Shape", ["x"], ["extents"]),
        node("Mul", ["extents", "times"], ["sizes"]),
        node("Resize", ["x", "", "", "sizes"], ["y"], mode="linear"),
    ]
    data = model(nodes, {"x": ("a", "b", "c", "d")}, {"y": None}, {"times": np.array([1, 1, 1, 2])})
    run_all(data, [(1, 3, 2, 3), (2, 4, 3, 2), (3, 2, 2, 3), (4, 5, 3, 3), (5, 5, 3, 3)])


@pytest.mark.parametrize("places", [(), (5,)], ids=["one each", "several each"])
def test_rows_of_each_image_have_one_plan(places: tuple[int, ...], monkeypatch: Any) -> None:
    nodes = [node("GatherND", ["x", "i"], ["y"], batch_dims=1)]
    data = model(nodes, {"x": ("n", "m", 6), "i": ("n", *places, 1)}, {"y": None},
                 kinds={"i": np.int64})  # fmt: skip
    ours, theirs, made = session(data), cpu(data), traced(monkeypatch)
    chance = np.random.default_rng(5)
    for n, m in ((3, 4), (5, 7), (2, 9), (8, 3), (17, 5), (4, 4)):
        indices = chance.integers(-m, m, (n, *places, 1))
        compare(ours, theirs, {"x": values(n, m, 6), "i": indices})
    assert len(made) == 1 and not made[0].trace.fixed


@pytest.mark.parametrize("axis", [1, 2])
@pytest.mark.parametrize("last", [0, 1])
def test_places_of_the_largest_have_one_plan(axis: int, last: int, monkeypatch: Any) -> None:
    how = {"axis": axis, "select_last_index": last}
    data = model([node("ArgMax", ["x"], ["y"], **how)], {"x": ("n", "m", "l")}, {"y": None},
                 kinds={"y": np.int64})  # fmt: skip
    ours, theirs, made = session(data), cpu(data), traced(monkeypatch)
    for shape in ((3, 2, 5), (5, 7, 3), (2, 90, 4), (8, 3, 33), (4, 5, 6)):
        x = np.round(3 * values(*shape))  # of equal elements, the first or the last counts
        compare(ours, theirs, {"x": x.astype(np.float32)})
    assert len(made) <= 2 and not any(one.trace.fixed for one in made)


@pytest.mark.parametrize("op", ["ScatterND", "ScatterElements"])
@pytest.mark.parametrize("wide", [0, 2])
def test_constant_places_have_one_plan(op: str, wide: int, monkeypatch: Any) -> None:
    """They are more than the kernel searches where all extents are known."""
    chance, of_elements = np.random.default_rng(6), op == "ScatterElements"
    rows = chance.permutation(np.arange(-9, 9))[:, None]
    shape = (18, 5 - wide) if of_elements else (18, 1)
    held = {"i": np.broadcast_to(rows, shape), "u": values(18, shape[1] if of_elements else 5)}
    data = model([node(op, ["x", "i", "u"], ["y"])], {"x": ("n", 5)}, {"y": None}, held)
    ours, theirs, made = session(data), cpu(data), traced(monkeypatch)
    for n in (19, 23, 18, 40, 33, 31):
        compare(ours, theirs, {"x": values(n, 5)})
    assert len(made) == 1 and not made[0].trace.fixed


@pytest.mark.parametrize("how", [{}, {"inverse": 1}, {"onesided": 1}])
def test_transforms_of_open_lengths(how: dict[str, int], monkeypatch: Any) -> None:
    """Each length has a matrix of its own, and so a plan."""
    parts = 1 if how.get("onesided") else 2
    nodes = [node("DFT", ["x", "", "axis"], ["y"], **how)]
    data = model(nodes, {"x": ("n", "m", parts)}, {"y": None}, {"axis": np.int64(1)}, opset=20)
    ours, theirs, made = session(data), cpu(data), traced(monkeypatch)
    for n, m in ((3, 8), (3, 12), (4, 9), (7, 9), (5, 20), (9, 8)):
        compare(ours, theirs, {"x": values(n, m, parts)})
    assert made


def test_nothing_is_left_of_a_longer_row() -> None:
    """Kernels read the last elements of a row as a vector. What follows them in it is not what an
    earlier run had there."""
    data = model([node("Pad", ["x", "pads"], ["y"])], {"x": [1, "m"]}, {"y": [2, "l"]},
                 {"pads": np.array([1, 0, 0, 2], np.int64)})  # fmt: skip
    ours, theirs = session(data), cpu(data)
    for length in (7, 6, 3, 5, 2, 9, 11, 1):
        compare(ours, theirs, {"x": values(1, length)})
