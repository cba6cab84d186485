"""Tests run-time values that are out of range: indices, lengths, positions, numbers of images, and
shapes that do not fit. The error is onnxruntime's, and the next run is on the GPU again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from tests.support.onnx_models import Array, cpu, model, node, session

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.adapter


def floats(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def same(got: Sequence[Array], wanted: Sequence[Array]) -> None:
    for a, b in zip(got, wanted, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def counted(ours: Any) -> tuple[int, int]:
    """Runs on the GPU, and on the host's own kernels."""
    report = tflgpu_plugin.report(ours)
    return report.runs, report.host_runs


def told(one: Any, feeds: Mapping[str, Array]) -> list[Array] | tuple[type, str]:
    """Returns the results of a run, or its error without the node's name."""
    try:
        return list(one.run(None, dict(feeds)))
    except Exception as error:
        return type(error), str(error).split("Status Message:")[-1]


def alike(ours: Any, theirs: Any, feeds: Mapping[str, Array]) -> None:
    """Asserts that one run has the same results, or the same error, in both sessions."""
    got, wanted = told(ours, feeds), told(theirs, feeds)
    if isinstance(wanted, tuple) or isinstance(got, tuple):
        assert got == wanted
    else:
        same(got, wanted)


INDEXED = {
    "Gather": ({}, np.array([0, -5, 4]), np.array([0, 5, 1])),
    "Gather, on the last axis": ({"axis": 1}, np.array([[0, -4]]), np.array([[0, -5]])),
    "GatherElements": ({"axis": 0}, np.array([[0, -5, 4, 1]]), np.array([[0, -6, 4, 1]])),
    "GatherND": ({}, np.array([[0, -4], [4, 1]]), np.array([[0, 4], [4, 1]])),
    "ScatterND": ({}, np.array([[0], [-5], [4]]), np.array([[0], [5], [4]])),
    "ScatterElements": ({"axis": 0}, np.array([[0, -5, 4, 1]]), np.array([[0, -5, 5, 1]])),
    "ScatterElements, on the last axis": (
        {"axis": 1}, np.array([[0, -4, 3]] * 5), np.array([[0, -5, 3]] * 5),
    ),
    "ScatterElements, in a corner": ({"axis": 0}, np.array([[0, -5]]), np.array([[0, 5]])),
}  # fmt: skip


CACHE = {"num_heads": 2, "kv_num_heads": 1, "do_rotary": 1}
ANGLES = {"c": np.cos(floats(6, 8)), "s": np.sin(floats(6, 8))}
PAST = {"q": floats(1, 1, 32), "k": floats(1, 1, 16), "v": floats(1, 1, 16),
        "pk": floats(1, 1, 4, 16), "pv": floats(1, 1, 4, 16)}  # fmt: skip
PROMPT = {"q": floats(1, 3, 32), "k": floats(1, 3, 16), "v": floats(1, 3, 16),
          "pk": floats(1, 1, 4, 16), "pv": floats(1, 1, 4, 16)}  # fmt: skip
HEADS = {"q": floats(2, 1, 2, 8), "k": floats(2, 1, 5, 8), "v": floats(2, 1, 5, 8)}
PLACED: dict[str, tuple[Any, Any, Any, Any, Any]] = {
    # attributes, what it reads before, the index inside and outside, what it reads after
    "ReverseSequence": (
        {"time_axis": 0, "batch_axis": 1}, {"x": floats(4, 3)}, np.array([0, 2, 4]),
        np.array([1, 5, 2]), {},
    ),
    "ReverseSequence, below": (
        {"time_axis": 0, "batch_axis": 1}, {"x": floats(4, 3)}, np.array([0, 2, 4]),
        np.array([1, -1, 2]), {},
    ),
    "Div": ({}, {"x": np.array([5, -7, 0], np.int32)}, np.array([2, -3, 1], np.int32),
            np.array([2, 0, 1], np.int32), {}),
    "Div, of int8": ({}, {"x": np.array([5, -7, 0], np.int8)}, np.array([2, -3, 1], np.int8),
                     np.array([2, 0, 1], np.int8), {}),
    "Mod": ({}, {"x": np.array([[5, -7, 0]])}, np.array([2]), np.array([0]), {}),
    "Mod, of C": ({"fmod": 1}, {"x": np.array([[5, -7, 0]])}, np.array([[2], [3]]),
                  np.array([[2], [0]]), {}),
    "MaxUnpool": (
        {"kernel_shape": [2, 2], "strides": [2, 2]}, {"x": floats(1, 1, 2, 2)},
        np.array([[[[0, 3], [8, 10]]]]), np.array([[[[0, 3], [8, 16]]]]), {},
    ),
    "RoiAlign": (
        {"output_height": 2, "output_width": 2},
        {"x": floats(2, 1, 8, 8), "r": np.array([[0, 0, 4, 4], [1, 1, 6, 6]], np.float32)},
        np.array([0, 1]), np.array([0, 2]), {},
    ),
    "RoiAlign, of no finite region": (
        {"output_height": 2, "output_width": 2}, {"x": floats(2, 1, 8, 8)},
        np.array([[0, 0, 4, 4], [1, 1, 6, 6]], np.float32),
        np.array([[0, 0, 4, 4], [1, 1, np.inf, 6]], np.float32), {"b": np.array([0, 1])},
    ),
    "MaxRoiPool": (
        {"pooled_shape": [2, 2]}, {"x": floats(2, 1, 8, 8)},
        np.array([[0, 0, 0, 4, 4], [1, 1, 1, 6, 6]], np.float32),
        np.array([[0, 0, 0, 4, 4], [2, 1, 1, 6, 6]], np.float32), {},
    ),
    "TensorScatter": (
        {}, {"x": floats(2, 1, 4, 3), "u": floats(2, 1, 1, 3)}, np.array([0, 3]),
        np.array([0, 4]), {},
    ),
    "ArrayFeatureExtractor": ({}, {"x": floats(3, 4)}, np.array([0, 3]), np.array([0, 4]), {}),
    "com.microsoft.RotaryEmbedding": (
        {}, {"x": floats(1, 2, 3, 8)}, np.array([[0, 1, 5]]), np.array([[0, 1, 6]]),
        {"c": floats(6, 4), "s": floats(6, 4)},
    ),
    "com.microsoft.RotaryEmbedding, from the first": (
        {}, {"x": floats(1, 2, 3, 8)}, np.array([3]), np.array([4]),
        {"c": floats(6, 4), "s": floats(6, 4)},
    ),
    "com.microsoft.GroupQueryAttention": (
        CACHE, PAST, np.array([[4]], np.int32), np.array([[5]], np.int32),
        {"t": np.array([5], np.int32), **ANGLES},
    ),
    "com.microsoft.GroupQueryAttention, below": (
        CACHE, PAST, np.array([[0]], np.int32), np.array([[-1]], np.int32),
        {"t": np.array([5], np.int32), **ANGLES},
    ),
    "com.microsoft.GroupQueryAttention, of a prompt": (
        CACHE, PROMPT, np.array([[2]], np.int32), np.array([[4]], np.int32),
        {"t": np.array([3], np.int32), **ANGLES},
    ),
    "com.microsoft.GroupQueryAttention, of a prompt, below": (
        CACHE, PROMPT, np.array([[1]], np.int32), np.array([[-1]], np.int32),
        {"t": np.array([3], np.int32), **ANGLES},
    ),
    "Attention": (
        {}, {**HEADS, "m": np.ones((2, 5), bool), "": None, "-": None}, np.array([5, 0]),
        np.array([6, 3]), {},
    ),
    "Attention, below": (
        {}, {**HEADS, "m": np.ones((2, 5), bool), "": None, "-": None}, np.array([1, 3]),
        np.array([-1, 3]), {},
    ),
    "com.microsoft.Attention": (
        {"num_heads": 2}, {"x": floats(2, 4, 6), "w": floats(6, 12), "b": floats(12)},
        np.array([6, 3], np.int32), np.array([-1, 3], np.int32), {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PLACED)
def test_a_place_outside_is_an_error_of_onnxruntime(name: str) -> None:
    """The values are lengths, positions and numbers of images that are given at run time."""
    attributes, before, inside, outside, constants = PLACED[name]
    data = placed(name.split(",")[0], attributes, before, inside, constants)
    ours, theirs = session(data, optimize=False), cpu(data, optimize=False)
    assert {n.where for n in tflgpu_plugin.report(ours).nodes} == {"gpu"}
    given = {name: data for name, data in before.items() if data is not None}
    assert isinstance(told(theirs, {**given, "i": outside}), tuple)
    for index in (inside, outside, inside):
        alike(ours, theirs, {**given, "i": index})
    assert counted(ours) == (2, 0)


def placed(
    operator: str, attributes: Any, before: Any, index: Any, constants: Any, fixed: bool = True
) -> bytes:
    """Returns a model of this operator alone, which reads `i` after `before`. Unless `fixed`, all
    extents are dynamic."""
    from onnx import helper, numpy_helper

    domain, _, name = operator.rpartition(".")
    domain = "ai.onnx.ml" if name == "ArrayFeatureExtractor" else domain
    kinds = helper.np_dtype_to_tensor_dtype
    made = [f"y{k}" for k in range(3 if name == "GroupQueryAttention" else 1)]
    given = [t if before.get(t, index) is not None else "" for t in [*before, "i"]]
    nodes = [helper.make_node(name, [*given, *constants], made, domain=domain, **attributes)]
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info(
            t, kinds(x.dtype), x.shape if fixed else [f"{t}{k}" for k in range(x.ndim)])
         for t, x in {**before, "i": index}.items() if x is not None],
        [helper.make_empty_tensor_value_info(y) for y in made],
        [numpy_helper.from_array(x, t) for t, x in constants.items()],
    )  # fmt: skip
    newest = 24 if name in ("TensorScatter", "Attention") else 18
    opsets = [helper.make_opsetid("", newest), helper.make_opsetid("com.microsoft", 1),
              helper.make_opsetid("ai.onnx.ml", 1)]  # fmt: skip
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    return bytes(model.SerializeToString())


@pytest.mark.parametrize("name", INDEXED)
def test_an_index_outside_is_an_error_of_onnxruntime(name: str) -> None:
    more, inside, outside = INDEXED[name]
    operator = name.split(",")[0]
    scatters = operator.startswith("Scatter")
    nodes = [
        node("Relu", ["x"], ["r"]),
        node(operator, ["r", "i", "u"] if scatters else ["r", "i"], ["y"], **more),
    ]
    updates = {"u": floats(3, 4) if operator == "ScatterND" else floats(*inside.shape)}
    updates = updates if scatters else {}
    shapes = {"x": (5, 4), "i": inside.shape} | {name: u.shape for name, u in updates.items()}
    data = model(nodes, shapes, {"y": None}, kinds={"i": np.int64})
    ours, theirs = session(data, optimize=False), cpu(data, optimize=False)
    assert {n.where for n in tflgpu_plugin.report(ours).nodes} == {"gpu"}
    for feed in (inside, outside, inside):
        alike(ours, theirs, {"x": floats(5, 4), "i": feed, **updates})
    assert counted(ours) == (2, 0)


EMPTY: dict[str, tuple[Any, Any, Any]] = {  # attributes, what it reads, and a place outside
    "Gather": ({"axis": 1}, {"x": floats(0, 3)}, np.array([7])),
    "Gather, of nothing": ({"axis": 0}, {"x": floats(3, 0)}, np.array([7])),
    "ScatterND": ({}, {"x": floats(3, 0)}, np.array([[7]])),
    "ScatterElements": ({"axis": 1}, {"x": floats(0, 3)}, np.zeros((1, 3), np.int64)),
    "ReverseSequence": (
        {"time_axis": 0, "batch_axis": 1}, {"x": floats(4, 3, 0)}, np.array([0, 5, 1]),
    ),
    "ArrayFeatureExtractor": ({}, {"x": floats(0, 3)}, np.array([3])),
    "com.microsoft.RotaryEmbedding": ({}, {"x": floats(1, 0, 3, 8)}, np.array([[0, 1, 99]])),
    "GridSample": ({}, {"x": floats(1, 1, 4, 4)}, floats(0, 2, 2, 2)),
    "GlobalAveragePool": ({}, {}, floats(1, 0, 5, 5)),
    "ArgMax": ({"axis": -1}, {}, floats(0, 3)),
}  # fmt: skip


@pytest.mark.parametrize("name", EMPTY)
def test_results_without_elements_are_those_of_onnxruntime(name: str) -> None:
    """No launch reads the index: the host's own kernels do such runs. Shapes are dynamic."""
    attributes, before, outside = EMPTY[name]
    operator = name.split(",")[0]
    constants = {"c": floats(6, 4), "s": floats(6, 4)} if "Rotary" in name else {}
    if operator.startswith("Scatter"):
        x = before["x"]
        shape = outside.shape if operator == "ScatterElements" else (1, *x.shape[1:])
        constants = {"u": floats(*shape)}
    data = placed(operator, attributes, before, outside, constants, fixed=False)
    alike(session(data, optimize=False), cpu(data, optimize=False), {**before, "i": outside})


UNFIT: dict[str, tuple[Any, Any, Any, list[Any]]] = {
    # attributes, what it reads before, a value that fits, and others
    "Pad": (
        {},
        {"x": floats(3, 4)},
        np.array([1, 0, -1, 2]),
        [np.array(pads) for pads in ([5, 0, -5, 0], [1, 0, -4, 0], [0, 6, 0, -5], [-4, 0, 1, 0])],
    ),
    "Pad, edges": (
        {"mode": "edge"},
        {"x": floats(3, 4)},
        np.array([1, 0, -1, 2]),
        [np.array(pads) for pads in ([5, 0, -5, 0], [0, 6, 0, -5], [-2, 0, -1, 0])],
    ),
    "Reshape": ({}, {"x": floats(0, 3, 4)}, np.array([0, 12]), [np.array([0, -1])]),
    "Tile": ({}, {"x": floats(0, 3)}, np.array([2, 3]), [np.array([2, -1])]),
    "OneHot": ({}, {"x": np.array([1, 2, 0])}, np.array([3]), [np.array([0]), np.array([-1])]),
}


@pytest.mark.parametrize("name", UNFIT)
def test_shapes_that_do_not_fit_are_answered_as_by_onnxruntime(name: str) -> None:
    attributes, before, first, others = UNFIT[name]
    constants = {"v": np.array([0, 1], np.float32)} if name == "OneHot" else {}
    data = placed(name.split(",")[0], attributes, before, first, constants)
    ours, theirs = session(data, optimize=False), cpu(data, optimize=False)
    for value in (first, *others, first):
        alike(ours, theirs, {**before, "i": value})
    assert counted(ours)[0] == 2


def test_constants_that_divide_by_zero_are_refused_by_onnxruntime() -> None:
    data = placed("Div", {}, {}, np.array([5, 6], np.int32), {"d": np.array([1, 0], np.int32)})
    for make in (session, cpu):
        with pytest.raises(Exception, match="division by zero"):
            make(data, optimize=False).run(None, {"i": np.array([5, 6], np.int32)})


@pytest.mark.parametrize("operator", ["ReduceSum", "ReduceProd", "ReduceSumSquare", "ReduceL1"])
def test_sums_of_int32_saturate(operator: str) -> None:
    data = placed(operator, {}, {}, np.zeros((2, 4), np.int32), {})
    ours, theirs = session(data, optimize=False), cpu(data, optimize=False)
    for number in (7, 2**30, -(2**30), 3):
        alike(ours, theirs, {"i": np.full((2, 4), number, np.int32)})
    assert counted(ours) == (2, 2)


def test_squares_of_int32_saturate_without_axes() -> None:
    attributes = {"noop_with_empty_axes": 1}
    data = placed("ReduceSumSquare", attributes, {}, np.zeros((2, 4), np.int32), {})
    ours, theirs = session(data, optimize=False), cpu(data, optimize=False)
    for number in (7, 1 << 20, -(1 << 20), 3):
        alike(ours, theirs, {"i": np.full((2, 4), number, np.int32)})
