"""Tests Loop, Scan and If whose steps are known before a run: they become the nodes of their
bodies. Every comparison is with the CPU provider on the same model and input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from tests.support import onnx_models as m
from tflgpu_plugin.importer.unrolled import Steps

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.adapter
SHAPE = [2, 3]
Constants = Mapping[str, m.Array]


def info(name: str, shape: Sequence[int | str] | None = (), kind: Any = np.float32) -> Any:
    from onnx import helper

    return helper.make_tensor_value_info(
        name, helper.np_dtype_to_tensor_dtype(np.dtype(kind)), shape
    )


def graph(
    nodes: Sequence[Any],
    given: Sequence[Any],
    made: Sequence[Any],
    constants: Constants | None = None,
) -> Any:
    from onnx import helper, numpy_helper

    held = [numpy_helper.from_array(value, name) for name, value in (constants or {}).items()]
    return helper.make_graph(nodes, "body", given, made, held)


def steps(
    nodes: Sequence[Any], given: Sequence[Any], made: Sequence[Any], **more: Constants
) -> Any:
    """Returns the body of a Loop; one that computes no condition goes on."""
    goes = (
        []
        if any("goes" in node.output for node in nodes)
        else [m.node("Identity", ["c"], ["goes"])]
    )
    begin = [info("i", (), np.int64), info("c", (), np.bool_)]
    return graph([*nodes, *goes], [*begin, *given], [info("goes", (), np.bool_), *made], **more)


def checked(data: bytes, *feeds: Mapping[str, m.Array], **options: Any) -> dict[str, str]:
    """Compares the model for all inputs; returns where the nodes of each operator run."""
    ours, theirs = m.session(data, **options), m.cpu(data)
    for given in feeds:
        m.compare(ours, theirs, given)
    report = tflgpu_plugin.report(ours)
    assert not report.host_runs
    return {node.op: node.where for node in report.nodes}


def tanh(shape: Sequence[int | str] = SHAPE) -> Any:
    """Returns the body of a Loop that computes a2 = tanh(a * w + x), which is also a row."""
    nodes = [
        m.node("Mul", ["a", "w"], ["t"]), m.node("Add", ["t", "x"], ["u"]),
        m.node("Tanh", ["u"], ["a2"]), m.node("Identity", ["a2"], ["s"]),
    ]  # fmt: skip
    return steps(nodes, [info("a", shape)], [info("a2", shape), info("s", shape)])


W = np.full(SHAPE, 0.5, np.float32)


def test_a_loop_with_values_of_the_graph_around_it() -> None:
    """The body reads a constant and an input of the outer graph, and returns all its rows."""
    nodes = [m.node("Loop", ["m", "", "b"], ["y", "ys"], body=tanh())]
    outputs = {"y": SHAPE, "ys": [4, *SHAPE]}
    data = m.model(nodes, {"b": SHAPE, "x": SHAPE}, outputs, {"m": np.array(4), "w": W})
    given = {"b": m.values(2, 3), "x": m.values(2, 3)}
    assert checked(data, given) == {"Loop": "gpu"}
    assert checked(data, given, force=1)["Loop"] == "cpu"  # its nodes are forced, step by step


def swapping(nodes: Sequence[Any], first: str, second: str, count: int) -> bytes:
    """Returns a model of a Loop over two values, of which a step returns `first` and `second`."""
    made = [info(first, SHAPE), info(second, SHAPE)]
    body = steps(nodes, [info("p", SHAPE), info("q", SHAPE)], made)
    outer = [
        m.node("Relu", ["x"], ["r"]),
        m.node("Loop", ["m", "", "x", "r"], ["y", "z"], body=body),
        m.node("Sub", ["y", "z"], ["o"]),
    ]
    constants = {"m": np.array(count), "three": np.array(3)}
    read = {"m"} | ({"three"} if nodes else set())
    return m.model(outer, {"x": SHAPE}, {"o": SHAPE}, {k: constants[k] for k in sorted(read)})


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_a_step_that_swaps_two_values(count: int) -> None:
    found = checked(swapping([], "q", "p", count), {"x": m.values(2, 3)})
    assert found == {"Relu": "gpu", "Loop": "gpu", "Sub": "gpu"}


def test_a_condition_that_ends_a_loop_early() -> None:
    nodes = [
        m.node("Cast", ["i"], ["f"], to=1), m.node("Add", ["p", "f"], ["q2"]),
        m.node("Identity", ["q"], ["p2"]), m.node("Less", ["i", "three"], ["goes"]),
    ]  # fmt: skip
    found = checked(swapping(nodes, "p2", "q2", 9), {"x": m.values(2, 3)})
    assert found["Loop"] == "gpu" and "Less" not in found


def test_a_loop_without_a_step_that_returns_rows_stays() -> None:
    nodes = [m.node("Loop", ["m", "", "b"], ["y", "ys"], body=tanh())]
    constants = {"m": np.array(0), "w": W}
    data = m.model(nodes, {"b": SHAPE, "x": SHAPE}, {"y": SHAPE, "ys": None}, constants)
    found = checked(data, {"b": m.values(2, 3), "x": m.values(2, 3)})
    assert found["Loop"] == "cpu"


@pytest.mark.parametrize("size", ["condition", "count"])
def test_a_number_of_steps_that_only_a_run_knows_stays(size: str) -> None:
    node = m.node("Tanh", ["a"], ["a2"])
    more = [
        m.node("ReduceSum", ["a"], ["sum"], keepdims=0),
        m.node("Less", ["sum", "top"], ["goes"]),
    ]
    nodes = [node, *(more if size == "condition" else [])]
    body = steps(nodes, [info("a", SHAPE)], [info("a2", SHAPE)])
    inputs: dict[str, m.Shape] = {"x": SHAPE}
    constants: dict[str, m.Array] = {"top": np.float32(0)} if size == "condition" else {}
    if size == "count":
        inputs["m"] = []
    else:
        constants["m"] = np.array(5)
    outer = [m.node("Relu", ["x"], ["r"]), m.node("Loop", ["m", "", "r"], ["y"], body=body)]
    data = m.model(outer, inputs, {"y": SHAPE}, constants, kinds={"m": np.int64})
    given = {"x": m.values(2, 3)} | ({"m": np.array(3)} if size == "count" else {})
    session = m.session(data)
    m.compare(session, m.cpu(data), given)
    (told,) = (n.reason or "" for n in tflgpu_plugin.report(session).nodes if n.op == "Loop")
    assert told.endswith("the number of steps is only known in a run.")


@pytest.mark.parametrize(
    ("nodes", "count", "reason"),
    [(1, 600, "more than 512 steps"), (3, 400, "more than 1024 nodes")],
)
def test_a_loop_of_too_many_steps_stays(nodes: int, count: int, reason: str) -> None:
    names = ["a", *(f"t{k}" for k in range(nodes))]
    made = [m.node("Tanh", [a], [b]) for a, b in pairwise(names)]
    body = steps(made, [info("a", SHAPE)], [info(names[-1], SHAPE)])
    outer = [m.node("Loop", ["m", "", "x"], ["y"], body=body)]
    session = m.session(m.model(outer, {"x": SHAPE}, {"y": SHAPE}, {"m": np.array(count)}))
    (told,) = (n.reason or "" for n in tflgpu_plugin.report(session).nodes if n.op == "Loop")
    assert reason in told


@pytest.mark.parametrize("count", [100, 500, 1000])
def test_a_loop_that_stays_is_not_imported_step_by_step(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    imported: list[object] = []
    usual = Steps.imported

    def watched(self: Steps, *given: Any) -> Any:
        imported.append(given)
        return usual(self, *given)

    monkeypatch.setattr(Steps, "imported", watched)
    names = ["a", *(f"t{k}" for k in range(6))]
    nodes = [m.node("Tanh", [a], [b]) for a, b in pairwise(names)]
    body = steps(nodes, [info("a", SHAPE)], [info("t5", SHAPE)])
    outer = [m.node("Loop", ["m", "", "x"], ["y"], body=body)]
    session = m.session(m.model(outer, {"x": SHAPE}, {"y": SHAPE}, {"m": np.array(count)}))
    (told,) = (n.reason or "" for n in tflgpu_plugin.report(session).nodes if n.op == "Loop")
    assert "would take longer" in told or "more than" in told
    assert len(imported) <= 2


def test_bodies_of_siblings_that_write_the_same_names_are_reported() -> None:
    """A loop in one branch becomes its nodes, the other stays."""
    made = {}
    for op, limit in (("Tanh", "two"), ("Exp", "m")):
        nodes = [m.node(op, ["a"], ["b"])]
        body = steps(nodes, [info("a", SHAPE)], [info("b", SHAPE)])
        loop = [m.node("Loop", [limit, "", "r"], ["y"], body=body)]
        made[op] = graph(loop, [], [info("y", SHAPE)])
    outer = [
        m.node("Sqrt", ["x"], ["r"]),
        m.node("If", ["c"], ["z"], then_branch=made["Tanh"], else_branch=made["Exp"]),
    ]
    inputs: dict[str, Any] = {"x": SHAPE, "c": [], "m": []}
    kinds = {"c": np.bool_, "m": np.int64}
    data = m.model(outer, inputs, {"z": SHAPE}, {"two": np.array(2)}, kinds=kinds)
    session, reference = m.session(data), m.cpu(data)
    for c in (True, False):
        m.compare(
            session, reference, {"x": m.values(*SHAPE) ** 2, "c": np.array(c), "m": np.array(3)}
        )
    ops = [node.op for node in tflgpu_plugin.report(session).nodes]
    assert "Exp" in ops and "Tanh" not in ops and ops.count("Loop") == 2


def test_a_loop_in_a_loop_reads_values_of_both() -> None:
    inner = graph(
        [m.node("Mul", ["e", "r"], ["f"]), m.node("Add", ["f", "a"], ["g"]),
         m.node("Identity", ["c2"], ["goes2"])],
        [info("j", (), np.int64), info("c2", (), np.bool_), info("e", SHAPE)],
        [info("goes2", (), np.bool_), info("g", SHAPE)],
    )  # fmt: skip
    nodes = [m.node("Loop", ["two", "", "a"], ["b"], body=inner), m.node("Tanh", ["b"], ["a2"])]
    body = steps(nodes, [info("a", SHAPE)], [info("a2", SHAPE)])
    outer = [m.node("Relu", ["x"], ["r"]), m.node("Loop", ["m", "", "x"], ["y"], body=body)]
    constants = {"m": np.array(3), "two": np.array(2)}
    data = m.model(outer, {"x": SHAPE}, {"y": SHAPE}, constants)
    assert checked(data, {"x": m.values(2, 3)}) == {"Relu": "gpu", "Loop": "gpu"}


def test_a_constant_of_a_body_hides_one_of_the_graph_around_it() -> None:
    own = {"k": np.full(SHAPE, 3, np.float32)}
    nodes = [m.node("Tanh", ["a"], ["t"]), m.node("Add", ["t", "k"], ["a2"])]
    body = steps(nodes, [info("a", SHAPE)], [info("a2", SHAPE)], constants=own)
    outer = [m.node("Loop", ["m", "", "x"], ["y"], body=body), m.node("Add", ["y", "k"], ["z"])]
    constants = {"m": np.array(3), "k": np.full(SHAPE, 7, np.float32)}
    data = m.model(outer, {"x": SHAPE}, {"z": SHAPE}, constants)
    assert checked(data, {"x": m.values(2, 3)}) == {"Loop": "gpu", "Add": "gpu"}


def test_extents_of_a_run_in_a_body() -> None:
    shape = ["n", 3]
    body = steps([m.node("Tanh", ["a"], ["a2"])], [info("a", shape)], [info("a2", shape)])
    outer = [m.node("Relu", ["x"], ["r"]), m.node("Loop", ["m", "", "r"], ["y"], body=body)]
    data = m.model(outer, {"x": shape}, {"y": shape}, {"m": np.array(3)})
    feeds = [{"x": m.values(n, 3)} for n in (2, 5, 2, 7)]
    assert checked(data, *feeds) == {"Relu": "gpu", "Loop": "gpu"}


@pytest.mark.parametrize("local", [False, True])
def test_a_run_on_the_hosts_kernels_has_the_bodies(local: bool) -> None:
    """Integers beyond int32 make a run the host's, which needs the loop as a model."""
    large = {"k": np.array([3, 1000, 100000])}
    nodes = [m.node("Mul", ["a", "k"], ["a2"])]
    given, made = [info("a", [3], np.int64)], [info("a2", [3], np.int64)]
    body = steps(nodes, given, made, constants=large if local else {})
    outer = [m.node("Loop", ["m", "", "x"], ["y"], body=body)]
    kinds = {"x": np.int64, "y": np.int64}
    constants = {"m": np.array(3)} | ({} if local else large)
    data = m.model(outer, {"x": [3]}, {"y": [3]}, constants, kinds=kinds)
    ours, theirs = m.session(data), m.cpu(data)
    for x in (np.array([1, 2, 0]), np.array([1, 2, 300])):
        m.compare(ours, theirs, {"x": x})
    report = tflgpu_plugin.report(ours)
    assert report.host_runs == 1 and {node.where for node in report.nodes} == {"gpu"}


@pytest.mark.parametrize(
    "how",
    [{}, {"scan_input_directions": [1]}, {"scan_output_directions": [1]}, {"scan_output_axes": [1]},
     {"scan_input_axes": [-1], "scan_output_axes": [-1]}],
)  # fmt: skip
def test_a_scan(how: dict[str, Any]) -> None:
    size = 2 if "scan_input_axes" in how else 3
    nodes = [
        m.node("Add", ["h", "row"], ["t"]), m.node("Tanh", ["t"], ["h2"]),
        m.node("Mul", ["h2", "row"], ["o"]),
    ]  # fmt: skip
    body = graph(
        nodes, [info("h", [size]), info("row", [size])], [info("h2", [size]), info("o", [size])]
    )
    outer = [m.node("Scan", ["h0", "x"], ["y", "ys"], body=body, num_scan_inputs=1, **how)]
    data = m.model(outer, {"h0": [size], "x": SHAPE}, {"y": [size], "ys": None})
    assert checked(data, {"h0": m.values(size), "x": m.values(2, 3)}) == {"Scan": "gpu"}


def test_a_branch_that_shapes_decide() -> None:
    """Bodies that only arrange elements are not taken by themselves; If is, for each shape."""
    shape = ["n", 3]
    same = graph([m.node("Identity", ["r"], ["o1"])], [], [info("o1", None)])
    other = graph([m.node("Transpose", ["r"], ["o2"])], [], [info("o2", None)])
    outer = [
        m.node("Relu", ["x"], ["r"]), m.node("Shape", ["x"], ["sizes"]),
        m.node("Gather", ["sizes", "zero"], ["n"]), m.node("Equal", ["n", "two"], ["c"]),
        m.node("If", ["c"], ["y"], then_branch=same, else_branch=other),
        m.node("Exp", ["y"], ["z"]),
    ]  # fmt: skip
    constants = {"zero": np.array(0), "two": np.array(2)}
    data = m.model(outer, {"x": shape}, {"z": None}, constants)
    session, reference = m.session(data), m.cpu(data)
    for n in (2, 5, 2):
        m.compare(session, reference, {"x": m.values(n, 3)})


def test_a_branch_whose_nodes_need_equal_extents() -> None:
    """Sizes that are guessed for the model fit nodes of its bodies, too: state and rows of a branch
    have the same number of rows, in two inputs with open extents. The nodes of the branch are not
    taken by themselves."""
    cell = [m.node("Gather", ["state", "one"], ["h"]),
            m.node("Concat", ["x", "h"], ["o1"], axis=1)]  # fmt: skip
    other = graph([m.node("Concat", ["x", "x"], ["o2"], axis=1)], [], [info("o2", None)])
    outer = [
        m.node("Shape", ["state"], ["sizes"]), m.node("Gather", ["sizes", "zero"], ["n"]),
        m.node("Equal", ["n", "two"], ["c"]),
        m.node("If", ["c"], ["y"], then_branch=graph(cell, [], [info("o1", None)]),
               else_branch=other),
        m.node("MatMul", ["y", "v"], ["z"]),
    ]  # fmt: skip
    constants = {"zero": np.array(0), "one": np.array(1), "two": np.array(2), "v": m.values(6, 4)}
    data = m.model(outer, {"x": ["rows", 3], "state": [2, "lines", 3]}, {"z": None}, constants)
    feeds = [{"x": m.values(n, 3), "state": m.values(2, n, 3)} for n in (1, 5, 2)]
    assert {*checked(data, *feeds).values()} == {"gpu"}


def test_the_condition_of_a_branch_that_a_run_decides_stays_on_the_cpu() -> None:
    """onnxruntime reads it there: the GPU runs only the chosen branch."""
    row = [f"v{k}" for k in range(12)]
    branches = [
        graph([m.node(op, [a], [b]) for a, b in pairwise(["x", *row])], [], [info(row[-1], None)])
        for op in ("Tanh", "Sigmoid")
    ]
    outer = [
        m.node("Equal", ["rate", "wanted"], ["c"]),
        m.node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1]),
    ]
    given, constants = {"x": SHAPE, "rate": []}, {"wanted": np.array(16_000)}
    data = m.model(outer, given, {"y": None}, constants, kinds={"rate": np.int64})
    feeds = [{"x": m.values(2, 3), "rate": np.array(rate)} for rate in (16_000, 8_000, 16_000)]
    placed = checked(data, *feeds)
    assert (placed["Equal"], placed["Tanh"], placed["Sigmoid"]) == ("cpu", "gpu", "gpu")


def test_names_to_exclude_may_be_in_any_graph(capfd: pytest.CaptureFixture[str]) -> None:
    """onnxruntime passes bodies before the graph around them."""
    inside = {
        f"{name}_branch": graph([m.node(op, ["t"], [name])], [], [info(name, SHAPE)])
        for name, op in (("then", "Exp"), ("else", "Relu"))
    }
    nodes = [m.node("Tanh", ["x"], ["t"]), m.node("If", ["c"], ["y"], **inside)]
    data = m.model(nodes, {"x": SHAPE, "c": ()}, {"y": SHAPE}, kinds={"c": np.bool_})
    session = m.session(data, exclude="t,then,none", force=1)
    (said,) = (line for line in capfd.readouterr().err.splitlines() if "exclude" in line)
    assert "the option exclude names 'none', which is neither" in said
    assert m.places(session) == {"Tanh": "cpu", "If": "cpu", "Exp": "cpu", "Relu": "gpu"}
