"""Tests shapes in the TFLite frontend: those known only in a run, and shape arithmetic that is
folded before the first one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from conformance import host as hosts
from conformance.cases.detection import CASES as DETECTIONS
from conformance.models import tflite as models
from tests.support import host_models, shape_models
from tests.support.interpreters import gpu, places, same
from tflgpu_plugin import engine
from tflgpu_plugin.importer.imported import Imported
from tflgpu_plugin.ir import FOLDED, Array, Graph, Refusal, Tensor

HOSTS = hosts.installed()
adapter = pytest.mark.adapter


# ---- shapes that are known only in a run ---------------------------------------------------------


def chain(op: str, value: Array | None) -> Graph:
    """Returns a model in which x and a shape are inputs of `op`, whose result y is the input of
    RELU."""
    tensors = [
        Tensor("x", (2, 3)), Tensor("shape", (2,), "i32", value),
        Tensor("y", (3, 2)), Tensor("z", (3, 2)), Tensor("other", (2, 3)),
    ]  # fmt: skip
    steps = [(op, (0, 1), 2), ("RELU", (2,), 3), ("RELU", (0,), 4)]
    taken = Refusal("host.other_delegate", "It is somewhere else.")
    nodes = [host_models.node(k, name, reads, (made,), refusal=taken)
             for k, (name, reads, made) in enumerate(steps)]  # fmt: skip
    return host_models.imported(host_models.model(tensors, nodes)).graph


@pytest.mark.parametrize(
    ("op", "constant", "unknown"),
    [
        ("RESHAPE", False, True),
        ("RESHAPE", True, False),
        ("ADD", False, False),
        ("WHERE", True, True),
        ("READ_VARIABLE", True, False),
        ("CUSTOM Thing", True, True),
        ("op code #980", True, True),
        ("STABLEHLO_WHILE", True, True),
        ("STABLEHLO_ADD", True, False),
        ("STABLEHLO_COMPOSITE", True, False),
    ],
)
def test_what_is_after_a_computed_shape(op: str, constant: bool, unknown: bool) -> None:
    graph = chain(op, np.array([3, 2], np.int32) if constant else None)
    assert [graph.shape(t) for t in (2, 3)] == [(-1,) if unknown else (3, 2)] * 2
    assert graph.shape(0) == graph.shape(4) == (2, 3)


# ---- shape arithmetic ----------------------------------------------------------------------------


def claimed(model: bytes, host: str, monkeypatch: pytest.MonkeyPatch) -> Graph:
    """Returns the graph that the frontend passes on for this model."""
    graphs: list[Graph] = []
    original = engine.claim

    def claim(found: Imported, *rest: Any, **more: Any) -> engine.Claim:
        graphs.append(found.graph)
        return original(found, *rest, **more)

    with monkeypatch.context() as patch:
        patch.setattr(engine, "claim", claim)
        gpu(model, host, "optimized")
    return graphs[0]


@adapter
@pytest.mark.parametrize("host", HOSTS)
def test_values_are_those_that_the_host_computes(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seeded programs of integers, float32 and bool begin with a SHAPE."""
    seen: set[str] = set()
    for seed in range(40):
        model = shape_models.program(seed)
        graph = claimed(model, host, monkeypatch)
        cpu = hosts.interpreter(model, host, "optimized")  # the reference kernels lack CEIL
        cpu.allocate_tensors()
        cpu.invoke()
        for node in graph.nodes:
            if node.op == FOLDED:
                seen.add(node.host_op)
                for index in node.outputs:
                    wanted, found = cpu.get_tensor(index), graph.constant(index)
                    np.testing.assert_array_equal(found, wanted, f"seed {seed}: {node}")
                    assert found is not None and found.shape == wanted.shape
    assert seen >= shape_models.OPERATORS, shape_models.OPERATORS - seen


@adapter
@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("kernels", ["reference", "default"])
@pytest.mark.parametrize("name", shape_models.RESIZED)
def test_shapes_after_arithmetic_are_known(host: str, kernels: str, name: str) -> None:
    """All nodes that have kernels run on the GPU, for the first and for other input shapes."""
    model = shape_models.RESIZED[name]()
    interpreter, made = gpu(model, host, kernels)
    before = places(made)
    left = {node for node, where in before.items() if where == "cpu"}
    assert left == shape_models.LEFT.get(name, set())
    same(interpreter, model, host)
    for shape in [(1, 9, 7, 3), (2, 4, 4, 3), (1, 9, 7, 3), (1, 6, 5, 3)]:
        for seed, detail in enumerate(interpreter.get_input_details()):
            interpreter.resize_tensor_input(detail["index"], shape)
            interpreter.allocate_tensors()
            same(interpreter, model, host, seed)
            same(interpreter, model, host, seed + 7)
    assert places(made) == before
    partitions = [
        partition for partition in tflgpu_plugin.report(made).partitions if partition.live
    ]
    assert partitions and all(partition.runs and not partition.failures for partition in partitions)


@adapter
@pytest.mark.usefixtures("resolver")
@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("name", shape_models.FED)
def test_values_of_a_run_are_never_taken_for_constants(host: str, name: str) -> None:
    """Nodes that compute them from a few integers run on the CPU, those that read them do not."""
    model = shape_models.FED[name]()
    interpreter, made = gpu(model, host)
    where = places(made)
    assert where["large"] == where["last"] == "gpu"
    assert {node for node, place in where.items() if place == "cpu"} == (
        set() if name == "fed" else {"shape", "hw", "twice", "size"}
    )
    reference = hosts.interpreter(model, host)
    reference.allocate_tensors()
    for factor in (2, 3, 1):
        feed = [np.full(d["shape"], 0.5, np.float32) for d in interpreter.get_input_details()[:1]]
        feed.append(np.full((2,), factor, np.int32))
        feed[0][0, 0, 0, 0] = factor
        got, wanted = (hosts.invoke(i, [feed])[0] for i in (interpreter, reference))
        for ours, theirs in zip(got, wanted, strict=True):
            assert ours.shape == theirs.shape
            np.testing.assert_allclose(ours, theirs, atol=1e-5)


@adapter
@pytest.mark.usefixtures("resolver")
@pytest.mark.parametrize("host", HOSTS)
def test_what_the_cpu_reads_stays_there(host: str) -> None:
    """A node on the GPU has its own copy."""
    model = shape_models.shared()
    interpreter, made = gpu(model, host)
    assert places(made) == {"features": "gpu", "shape": "cpu", "large": "gpu"} | dict.fromkeys(
        ("hw", "twice", "size"), "cpu"
    )
    codes = {node.name: node.refusal_code for node in tflgpu_plugin.report(made).nodes}
    assert codes["size"] == "constant.on_cpu"
    same(interpreter, model, host)


@adapter
def test_editions_of_the_documentation_list_no_shape_arithmetic() -> None:
    model = shape_models.RESIZED["in the middle"]()
    interpreter, made = gpu(model, HOSTS[0], capabilities="documented")
    assert places(made)["shape"] == "cpu"
    reasons = {node.name: node.reason for node in tflgpu_plugin.report(made).nodes}
    assert reasons["shape"] == (
        "SHAPE is not listed in the current edition of the GPU delegate documentation."
    )
    same(interpreter, model, HOSTS[0])


@adapter
@pytest.mark.usefixtures("resolver")
@pytest.mark.parametrize("host", HOSTS)
def test_shapes_without_a_plan_are_told_all_the_same(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The nodes after it can be prepared."""
    model = shape_models.RESIZED["around the CPU"]()
    interpreter, _ = gpu(model, host)
    shape = [2, 8, 6, 3]

    def refuse(self: engine.Partition, graph: Graph, *extra: Any) -> engine.Instance:
        raise engine.BuildError(self.nodes, Refusal("device.limit", "It is too large."))

    with monkeypatch.context() as patch:
        for function in ("build", "template"):
            patch.setattr(engine.Partition, function, refuse)
        interpreter.resize_tensor_input(0, shape)
        interpreter.allocate_tensors()
        same(interpreter, model, host)
    by_name = {detail["name"]: detail["shape"] for detail in interpreter.get_tensor_details()}
    assert list(by_name["between"]) == [2, 16, 12, 4]
    interpreter.resize_tensor_input(0, [1, 6, 5, 3])
    interpreter.allocate_tensors()
    same(interpreter, model, host)


@adapter
@pytest.mark.parametrize("host", HOSTS)
def test_a_custom_operator_whose_shapes_the_file_does_not_tell(host: str) -> None:
    """Published detectors are like this: the host infers the shapes when it prepares the node."""
    case = next(c for c in DETECTIONS if c.name == "no_background")
    feeds = hosts.case_feeds(case, 1)
    run = hosts.run_on_gpu(models.build(case, shapes=[()] * 4), feeds, host)
    assert (run.placement.on_gpu, run.placement.total) == (1, 1), run.placement.sentences
    wanted = hosts.run_on_cpu(models.build(case), feeds, host)
    for ours, cpu in zip(run.outputs[0], wanted[0], strict=True):
        np.testing.assert_allclose(ours, cpu, rtol=1e-5, atol=1e-6)


@adapter
@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("kernels", ["reference", "default"])
def test_plans_of_earlier_shapes_are_kept(host: str, kernels: str) -> None:
    """The host creates a new kernel for each resize, which takes over the last eight plans."""
    model = shape_models.RESIZED["in the middle"]()
    with engine.watch() as built:
        interpreter, _ = gpu(model, host, kernels)
        for round_number in range(3):
            for side in (4, 5, 6, 7):
                for detail in interpreter.get_input_details():
                    interpreter.resize_tensor_input(detail["index"], (1, side, side, 3))
                interpreter.allocate_tensors()
                same(interpreter, model, host, side)
            if round_number == 0:
                first = len(built)
    assert first > 1 and len(built) == first
