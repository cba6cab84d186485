"""Nodes in a loop that the host runs are launched at every step: their partitions are claimed if
each of them pays, and the host runs the rest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from conformance import host as hosts
from tests.support import interpreters, loop_models, onnx_models as m
from tests.support.recurrent_loops import Loop
from tflgpu_plugin import native
from tflgpu_plugin.errors import HostError
from tflgpu_plugin.providers.tflite import loops

STEPS = "would be launched at every step of a loop"


def _where(report: Any, reason: str = STEPS) -> tuple[set[str], set[str]]:
    """Returns the operators on the GPU, and those that stay on the CPU for this reason."""
    return (
        {node.op for node in report.nodes if node.where == "gpu"},
        {node.op for node in report.nodes if reason in (node.reason or "")},
    )


@pytest.mark.adapter
@pytest.mark.parametrize("host", hosts.installed())
@pytest.mark.parametrize("kernels", ["reference", "default"])
def test_a_small_body_stays_with_the_host(host: str, kernels: str) -> None:
    model = loop_models.around(16)
    interpreter, delegate = interpreters.gpu(model, host, kernels, exclude="WHILE")
    interpreters.same(interpreter, model, host)
    taken, left = _where(tflgpu_plugin.report(delegate))
    assert not taken and left >= {"FULLY_CONNECTED", "TANH"}


@pytest.mark.adapter
@pytest.mark.parametrize("host", hosts.installed())
def test_force_takes_it_all_the_same(host: str) -> None:
    model = loop_models.around(16)
    interpreter, delegate = interpreters.gpu(model, host, force=1, exclude="WHILE")
    interpreters.same(interpreter, model, host)
    report = tflgpu_plugin.report(delegate)
    assert {"FULLY_CONNECTED", "TANH"} <= _where(report)[0]
    assert report.runs >= 2


@pytest.mark.adapter
@pytest.mark.parametrize("host", hosts.installed())
def test_a_body_with_work_enough_is_taken(host: str) -> None:
    model = loop_models.around(2200)
    interpreter, delegate = interpreters.gpu(model, host, exclude="WHILE")
    interpreters.same(interpreter, model, host)
    assert _where(tflgpu_plugin.report(delegate))[0] >= {"FULLY_CONNECTED", "TANH"}


@pytest.mark.adapter
@pytest.mark.parametrize("host", hosts.installed())
@pytest.mark.parametrize("kind", ["lstm", "gru"])
@pytest.mark.parametrize("every", [False, True])
def test_steps_of_a_layer_that_is_left_to_the_host_launch_nothing(
    host: str, kind: str, every: bool
) -> None:
    """The 20 small nodes in the body of a Keras layer launch nothing."""
    model = Loop(kind, steps=9, every=every).model()
    for more, launches in (({}, 0), ({"force": 1}, 9)):
        interpreter, delegate = interpreters.gpu(model, host, "default", exclude="WHILE", **more)
        interpreters.same(interpreter, model, host)
        report = tflgpu_plugin.report(delegate)
        assert report.runs >= launches and (launches or report.runs <= 1), str(report)


@pytest.mark.adapter
@pytest.mark.parametrize("host", hosts.installed())
def test_a_branch_is_no_loop(host: str) -> None:
    model = loop_models.branching(16)
    interpreter, delegate = interpreters.gpu(model, host, exclude="IF")
    interpreters.same(interpreter, model, host)
    assert _where(tflgpu_plugin.report(delegate))[0] == {"FULLY_CONNECTED", "TANH"}


@pytest.mark.adapter
@pytest.mark.parametrize("host", hosts.installed())
def test_a_branch_in_a_loop_is_run_at_every_step(host: str) -> None:
    model = loop_models.around(16, branch=True)
    interpreter, delegate = interpreters.gpu(model, host, exclude="WHILE,IF")
    interpreters.same(interpreter, model, host)
    taken, left = _where(tflgpu_plugin.report(delegate))
    assert not taken and left >= {"FULLY_CONNECTED", "TANH"}


def _looped(op: str, units: int) -> bytes:
    """Returns a model of a layer in a Loop or Scan over three steps, or in both branches of an
    If."""
    helper = pytest.importorskip("onnx").helper
    kinds = {"f": 1, "i": 7, "b": 9}

    def info(name: str, kind: str, shape: list[int]) -> Any:
        return helper.make_tensor_value_info(name, kinds[kind], shape)

    layer = [m.node("MatMul", ["h", "w"], ["u"]), m.node("Tanh", ["u"], ["v"])]
    state, result = info("h", "f", [1, units]), info("v", "f", [1, units])
    if op == "Loop":
        given = [info("i", "i", []), info("c", "b", []), state]
        kept = [m.node("Identity", ["c"], ["d"])]
        body = helper.make_graph([*layer, *kept], "body", given, [info("d", "b", []), result])
        outer = m.node("Loop", ["n", "", "x"], ["y"], body=body)
    elif op == "Scan":
        given = [state, info("s", "f", [1, units])]
        used = [m.node("Add", ["v", "s"], ["o"])]
        results = [result, info("o", "f", [1, units])]
        body = helper.make_graph([*layer, *used], "body", given, results)
        outer = m.node("Scan", ["x", "all"], ["y", "ys"], body=body, num_scan_inputs=1)
    else:
        bare = [m.node("MatMul", ["x", "w"], ["u"]), m.node("Tanh", ["u"], ["v"])]
        body = helper.make_graph(bare, "body", [], [result])
        outer = m.node("If", ["t"], ["y"], then_branch=body, else_branch=body)
    weights = np.random.default_rng(0).standard_normal((units, units)).astype(np.float32) / units
    constants = {"w": weights, "n": np.array(3), "t": np.array(True)}
    constants["all"] = np.ones((3, 1, units), np.float32)
    used_here = set(outer.input) | {"w"}
    constants = {name: value for name, value in constants.items() if name in used_here}
    return m.model([outer], {"x": (1, units)}, {"y": (1, units)}, constants)


@pytest.mark.adapter
@pytest.mark.parametrize(
    ("op", "units", "taken"),
    [("Loop", 16, False), ("Scan", 16, False), ("Loop", 2200, True), ("If", 16, True)],
)
def test_bodies_of_onnx_models(op: str, units: int, taken: bool) -> None:
    pytest.importorskip("onnxruntime")
    data = _looped(op, units)
    kept = {} if taken else {"exclude": op}
    ours, theirs = m.session(data, optimize=False, **kept), m.cpu(data, optimize=False)
    m.compare(ours, theirs, {"x": m.values(1, units)})
    found, left = _where(tflgpu_plugin.report(ours))
    assert ({"MatMul", "Tanh"} <= found) == taken
    assert ({"MatMul", "Tanh"} <= left) == (not taken)
    if not taken:
        forced = m.session(data, optimize=False, force=1)
        m.compare(forced, theirs, {"x": m.values(1, units)})
        assert {"MatMul", "Tanh"} <= _where(tflgpu_plugin.report(forced))[0]


@pytest.mark.parametrize("own", [True, False])
def test_graphs_that_are_looked_into_are_given_back(own: bool) -> None:
    """All graphs are returned, except the one that is being claimed."""
    ffi, released = native.ffi, list[int]()
    mine, other = ffi.new("tgl_context *"), ffi.new("tgl_context *")
    empty = ffi.new("tgl_ints *")

    @ffi.callback("int32_t(tgl_context *, int32_t, tgl_context **)")
    def acquire(_: Any, number: int, found: Any) -> int:
        found[0] = mine if own else other
        return number

    @ffi.callback("int32_t(tgl_context *, int32_t)")
    def release(_: Any, number: int) -> int:
        released.append(number)
        return 0

    @ffi.callback("int32_t(tgl_context *, tgl_ints **)")
    def plan(_: Any, found: Any) -> int:
        found[0] = empty
        return 0

    assert not loops.is_repeated(ffi, mine)  # an older host shows no other graph
    mine.acquire_subgraph, mine.release_subgraph = acquire, release
    mine.get_execution_plan = other.get_execution_plan = plan
    assert not loops.is_repeated(ffi, mine)
    assert released == ([] if own else [0])
    with pytest.raises(HostError, match="did not return graph 3"):
        with loops.opened(ffi, mine, 3):
            pass
