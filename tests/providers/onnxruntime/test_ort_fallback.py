"""Tests runs that the GPU cannot do: onnxruntime's own kernels do them, with the same result or
error as a CPU session, and the next run is on the GPU again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from tests.support.onnx_models import EP, Array, cpu, model, node, quiet, session
from tflgpu_plugin import engine
from tflgpu_plugin.errors import BuildError
from tflgpu_plugin.ir import Graph, Node, Refusal, quirks

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.adapter

WEIGHTS = np.random.default_rng(2).standard_normal((4, 5)).astype(np.float32)
LARGE_REFUSED = "Planted: more than a thousand elements."
LARGE = np.random.default_rng(4).standard_normal((64, 96)).astype(np.float32)


def floats(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


@dataclass(frozen=True)
class Case:
    """A model whose first feed runs on the GPU, and whose `later` feeds do not."""

    nodes: Sequence[Any]
    first: Mapping[str, Array]
    later: Sequence[Mapping[str, Array]]
    shapes: Mapping[str, Sequence[int | str]] = field(default_factory=dict)
    constants: Mapping[str, Array] = field(default_factory=dict)
    outputs: Sequence[str] = ("y",)
    kinds: Mapping[str, Any] = field(default_factory=dict)
    opset: int = 17
    sentence: str = ""

    def data(self) -> bytes:
        shapes = {name: self.shapes.get(name, data.shape) for name, data in self.first.items()}
        kinds = {name: data.dtype for name, data in self.first.items()} | dict(self.kinds)
        given = dict(self.constants)
        outputs = dict.fromkeys(self.outputs)
        return model(self.nodes, shapes, outputs, given, self.opset, kinds)


CASES = {
    "a shape that is refused": Case(
        [node("Relu", ["x"], ["r"]), node("ReduceMax", ["r"], ["y"], axes=[1])],
        {"x": floats(1, 8)}, [{"x": floats(1, 2000)}, {"x": floats(2, 3000)}], {"x": ("n", "m")},
        sentence=LARGE_REFUSED,
    ),
    "a resized batch": Case(
        [node("Resize", ["x", "", "", "s"], ["y"], mode="nearest")],
        {"x": floats(1, 2, 3, 4), "s": np.array([1, 2, 6, 8])},
        [{"x": floats(1, 2, 3, 4), "s": np.array([2, 2, 3, 4])}], sentence="batch and channels",
    ),
    "a number beyond int32": Case(
        [node("Add", ["a", "a"], ["y"])], {"a": np.array([1, 2])}, [{"a": np.array([2**31, 3])}],
        kinds={"y": np.int64}, sentence="beyond int32",
    ),
    "a constant that stays outside of the model": Case(
        [node("MatMul", ["x", "w"], ["p"]), node("TopK", ["p", "k"], ["y", "i"], axis=0)],
        {"x": floats(40, 64)}, [{"x": floats(3000, 64)}], {"x": ("n", 64)},
        {"w": LARGE, "k": np.array([30])}, ("y", "i"), {"i": np.int64}, sentence=LARGE_REFUSED,
    ),
}  # fmt: skip


@pytest.fixture(autouse=True)
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulates a driver that computes every operator wrongly if an axis has more than a thousand
    elements."""
    row = quirks.Quirk("", "", LARGE_REFUSED)
    monkeypatch.setattr(
        quirks.Quirk, "applies", lambda _, name, graph, node, target: is_large(graph, node)
    )
    monkeypatch.setattr(quirks, "QUIRKS", [row])


def is_large(graph: Graph, node: Node) -> bool:
    return any(extent > 1000 for tensor in node.reads for extent in graph.shape(tensor))


def same(got: Sequence[Array], wanted: Sequence[Array]) -> None:
    for one, other in zip(got, wanted, strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def counted(ours: Any) -> tuple[int, int, int]:
    """Runs on the GPU, on the host's kernels, and failures."""
    found = tflgpu_plugin.report(ours)
    return found.runs, found.host_runs, sum(one.failures for one in found.partitions)


@pytest.mark.parametrize("name", CASES)
def test_what_cannot_run_here_runs_on_the_kernels_of_onnxruntime(
    name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    case = CASES[name]
    ours, theirs = session(case.data(), optimize=False), cpu(case.data(), optimize=False)
    assert {n.where for n in tflgpu_plugin.report(ours).nodes} == {"gpu"}
    for feed in (case.first, *case.later, case.first, *case.later, case.first):
        same(ours.run(None, feed), theirs.run(None, feed))
    assert counted(ours) == (3, 2 * len(case.later), 0)
    said = capfd.readouterr().err
    assert said.count("onnxruntime's own CPU kernels") == 1  # once for a reason
    assert case.sentence in said
    assert f"{2 * len(case.later)} on the host's kernels" in str(tflgpu_plugin.report(ours))


def refuse(*_: Any) -> Any:
    raise BuildError((), Refusal("device.limit", "This is refused."))


def no_memory(*_: Any) -> Any:
    raise MemoryError


def defective(*_: Any) -> Any:
    raise RuntimeError("a defect")


@pytest.mark.parametrize("planted", [refuse, no_memory, defective])
def test_a_build_that_fails_is_a_run_on_the_kernels_of_onnxruntime(
    planted: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = [node("MatMul", ["x", "w"], ["m"]), node("Relu", ["m"], ["y"])]
    data = model(nodes, {"x": ("n", 4)}, {"y": None}, {"w": WEIGHTS})
    ours, theirs = session(data), cpu(data)
    monkeypatch.delenv("TFLGPU_DEBUG", raising=False)
    for function in ("planned", "template"):
        monkeypatch.setattr(engine.Partition, function, planted)
    for rows in (1, 3, 3):
        same(ours.run(None, {"x": floats(rows, 4)}), theirs.run(None, {"x": floats(rows, 4)}))
    assert counted(ours) == (1, 2, 0)
    monkeypatch.undo()
    same(ours.run(None, {"x": floats(7, 4)}), theirs.run(None, {"x": floats(7, 4)}))
    assert counted(ours) == (2, 2, 0)


def test_a_default_that_is_replaced_is_a_run_on_the_kernels_of_onnxruntime() -> None:
    from onnx import TensorProto, helper, numpy_helper

    nodes = [node("MatMul", ["x", "w"], ["m"]), node("Relu", ["m"], ["y"])]
    values = [helper.make_tensor_value_info("x", TensorProto.FLOAT, (2, 4)),
              helper.make_tensor_value_info("w", TensorProto.FLOAT, ("k", "n"))]  # fmt: skip
    made = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "g", values, made, [numpy_helper.from_array(WEIGHTS, "w")])
    opset = [helper.make_opsetid("", 17)]
    data = helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()
    ours, theirs = session(data), cpu(data)
    for other in ({}, {"w": 2 * WEIGHTS}, {"w": WEIGHTS[:, :2].copy()}, {}):
        feed = {"x": floats(2, 4), **other}
        same(ours.run(None, feed), theirs.run(None, feed))
    assert counted(ours) == (2, 2, 0)


def test_errors_of_the_model_are_those_of_onnxruntime() -> None:
    nodes = [node("Relu", ["x"], ["r"]), node("Add", ["r", "w"], ["y"])]
    data = model(nodes, {"x": ("n", "k")}, {"y": None}, {"w": WEIGHTS})
    ours, theirs = session(data, optimize=False), cpu(data, optimize=False)
    said = []
    for one in (ours, theirs):
        with pytest.raises(Exception) as raised:
            one.run(None, {"x": floats(3, 5)})
        said.append((type(raised.value), str(raised.value).split("Status Message:")[-1]))
    assert said[0] == said[1]
    same(ours.run(None, {"x": floats(4, 5)}), theirs.run(None, {"x": floats(4, 5)}))
    assert counted(ours) == (1, 0, 1)


def test_operators_of_other_domains_fall_back_too() -> None:
    from onnx import helper

    asked = helper.make_node("FusedMatMul", ["x", "w"], ["m"], domain="com.microsoft", alpha=0.5)
    nodes = [asked, node("TopK", ["m", "k"], ["y", "i"], axis=0)]
    data = model(nodes, {"x": ("n", 4)}, {"y": None, "i": None},
                 {"w": WEIGHTS, "k": np.array([30])}, kinds={"i": np.int64})  # fmt: skip
    import onnx

    proto = onnx.load_from_string(data)
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    data = proto.SerializeToString()
    ours, theirs = session(data, optimize=False), cpu(data, optimize=False)
    for rows in (40, 3000, 40):
        same(ours.run(None, {"x": floats(rows, 4)}), theirs.run(None, {"x": floats(rows, 4)}))
    assert counted(ours) == (2, 1, 0)


def test_constants_beside_the_model_are_memory_of_the_partition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A packed copy of 4-bit numbers would be freed before the session reads it."""
    import onnx
    from onnx import TensorProto, helper

    from tflgpu_plugin.providers.onnxruntime import partition_model as made

    nodes = [
        node("DequantizeLinear", ["w", "s"], ["d"]),
        node("Mul", ["x", "d"], ["m"]),
        node("Add", ["m", "c"], ["y"]),
    ]
    inputs = {"x": ("n", *LARGE.shape), "s": ()}
    proto = onnx.load_from_string(model(nodes, inputs, {"y": None}, {"c": LARGE}, opset=21))
    proto.ir_version = 10
    numbers = np.random.default_rng(3).integers(-8, 8, LARGE.size)
    packed = helper.make_tensor("w", TensorProto.INT4, LARGE.shape, numbers)
    proto.graph.initializer.append(packed)
    kept: list[tuple[str, bool]] = []
    stays = made.stays_outside

    def noted(value: Any, data: Array) -> bool:
        kept.append((value.name, stays(value, data)))
        return kept[-1][1]

    monkeypatch.setattr(made, "stays_outside", noted)
    data = proto.SerializeToString()
    ours, theirs = session(data, optimize=False), cpu(data, optimize=False)
    for rows in (2, 1001, 1001):
        feed = {"x": floats(rows, *LARGE.shape), "s": np.array(0.1, np.float32)}
        same(ours.run(None, feed), theirs.run(None, feed))
    assert counted(ours) == (1, 2, 0)
    assert sorted(kept) == [("c", True), ("w", False)]


def test_branches_fall_back_each_for_itself() -> None:
    """Branches read constants of the outer graph."""
    from onnx import TensorProto, helper, numpy_helper

    def branch(name: str, weights: Array) -> Any:
        nodes = [
            node("MatMul", ["x", f"{name}w"], [f"{name}m"]),
            node("Relu", [f"{name}m"], [f"{name}r"]),
            node("MatMul", [f"{name}r", "outer"], [f"{name}y"]),
        ]
        made = [helper.make_tensor_value_info(f"{name}y", TensorProto.FLOAT, None)]
        held = [numpy_helper.from_array(weights, f"{name}w")]
        return helper.make_graph(nodes, name, [], made, held)

    branches = {
        "then_branch": branch("a", floats(4, 4)),
        "else_branch": branch("b", 2 * floats(4, 4)),
    }
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ("n", 4)),
             helper.make_tensor_value_info("c", TensorProto.BOOL, ())]  # fmt: skip
    made = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    held = [numpy_helper.from_array(WEIGHTS, "outer")]  # of the graph around
    graph = helper.make_graph([node("If", ["c"], ["y"], **branches)], "g", given, made, held)
    opset = [helper.make_opsetid("", 17)]
    data = helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()
    ours, theirs = session(data, optimize=False, force="1"), cpu(data, optimize=False)
    for rows in (3, 2000, 4):
        for chosen in (True, False):
            feed = {"x": floats(rows, 4), "c": np.array(chosen)}
            same(ours.run(None, feed), theirs.run(None, feed))
    assert counted(ours) == (4, 2, 0)


def test_a_lost_device_leaves_answers() -> None:
    """The test runs in a separate process, because others share the device."""
    from tests.support.subprocesses import run_python

    done = run_python("""
import numpy as np, tflgpu_plugin
from tests.support.onnx_models import add_relu, cpu, session
from tflgpu_plugin import native
from tflgpu_plugin.runtime import adapter
data = add_relu()
ours, theirs = session(data), cpu(data)
feed = {"x": np.random.default_rng(1).standard_normal((2, 3, 5)).astype(np.float32)}
for lost in (False, True, True):
    if lost: native.lib.tg_device_mark_lost(adapter.open_device(adapter.select(None)).handle)
    np.testing.assert_allclose(ours.run(None, feed)[0], theirs.run(None, feed)[0], atol=1e-6)
found = tflgpu_plugin.report(ours)
assert (found.runs, found.host_runs) == (1, 2), str(found)
""")
    assert done.returncode == 0, done.stderr


def test_threads_that_fall_back_at_once_have_their_answers() -> None:
    case = CASES["a number beyond int32"]
    ours, theirs = session(case.data(), optimize=False), cpu(case.data(), optimize=False)
    said: list[str] = []

    def work(start: int) -> None:
        for k in range(start, start + 20):
            feed = {"a": np.array([2**31 * (k % 2), k])}
            try:
                same(ours.run(None, feed), theirs.run(None, feed))
            except Exception as error:
                said.append(repr(error))

    threads = [threading.Thread(target=work, args=(100 * k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not said
    assert counted(ours) == (40, 40, 0)


def test_reports_tell_of_a_session_that_onnxruntime_has_made_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If the host's own kernels cannot be used either, Python's onnxruntime moves the session to
    the CPU permanently."""
    import onnxruntime

    from tflgpu_plugin.providers.onnxruntime import ep

    data = model([node("Relu", ["x"], ["y"])], {"x": ("n",)}, {"y": None})
    tflgpu_plugin.register()
    ours = onnxruntime.InferenceSession(data, quiet(), providers=[EP, "CPUExecutionProvider"])
    ours.run(None, {"x": floats(5)})
    tflgpu_plugin.assert_used(ours)
    monkeypatch.setattr(ep, "hand_over", refuse)
    ours.run(None, {"x": floats(2000)})
    assert ours.get_providers() == ["CPUExecutionProvider"]
    with pytest.raises(AssertionError, match=r"has moved this session .* This is refused\."):
        tflgpu_plugin.assert_used(ours)
    found = tflgpu_plugin.report(ours)
    assert [(n.where, n.reason) for n in found.nodes] == [("reverted", "This is refused.")]
    other = onnxruntime.InferenceSession(data, quiet(), providers=["CPUExecutionProvider"])
    with pytest.raises(TypeError):
        tflgpu_plugin.report(other)


def test_a_partition_whose_results_nobody_reads() -> None:
    """onnxruntime runs no session without outputs, and there is nothing to do."""
    nodes = [
        node("Flatten", ["x"], ["a"], axis=1),
        node("Tile", ["a", "twice"], ["b"]),
        node("Mul", ["b", "a"], ["c"]),
        node("Flatten", ["c"], ["d"]),
        node("Gather", ["d", "rows"], ["unread"], axis=0),
        node("LayerNormalization", ["x", "one", "zero"], ["y"]),
    ]
    constants = {
        "twice": np.array([1, 2]), "rows": np.array([0, -1, 0]),
        "one": np.ones(4, np.float32), "zero": np.zeros(4, np.float32),
    }  # fmt: skip
    data = model(nodes, {"x": ["n", "m", 4]}, {"y": None}, constants)
    x = np.zeros((17, 0, 4), np.float32)
    (got,), (wanted,) = (made(data).run(None, {"x": x}) for made in (session, cpu))
    assert got.shape == wanted.shape == x.shape


def test_a_batch_of_nothing_in_convolutions_that_are_added() -> None:
    """onnxruntime's optimizer must know the rank of the partition's inputs."""
    nodes = [
        node("Conv", ["x", "w"], ["a"]), node("Conv", ["a", "w"], ["b"]),
        node("Add", ["a", "b"], ["c"]), node("Conv", ["c", "w"], ["y"]),
    ]  # fmt: skip
    shape = ("n", 48, "h", "k")
    data = model(nodes, {"x": shape}, {"y": shape}, {"w": floats(48, 48, 1, 1)})
    (made,) = session(data).run(None, {"x": np.zeros((0, 48, 8, 8), np.float32)})
    assert made.shape == (0, 48, 8, 8)
