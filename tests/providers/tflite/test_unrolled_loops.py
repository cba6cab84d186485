"""The steps of a loop that counts are planned in a row: one partition, one launch for all of them,
with the results of the hosts' CPU kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from conformance import host as hosts
from conformance.models.tflite import Model
from tests.support import interpreters, loop_models
from tests.support.conv_loops import ConvLoop

pytestmark = [pytest.mark.adapter, pytest.mark.parametrize("host", hosts.installed())]


def report(model: bytes, host: str, kernels: str = "reference", **options: Any) -> Any:
    """Returns the report of two runs with the results of the CPU kernels."""
    interpreter, delegate = interpreters.gpu(model, host, kernels, **options)
    for seed in range(2):
        interpreters.same(interpreter, model, host, seed)
    return tflgpu_plugin.report(delegate)


@pytest.mark.parametrize("kernels", ["reference", "default"])
@pytest.mark.parametrize(
    "loop", [ConvLoop(), ConvLoop(steps=7, size=5, written=False), ConvLoop(steps=1)], ids=str
)
def test_a_convolutional_lstm_is_one_partition(loop: ConvLoop, kernels: str, host: str) -> None:
    found = report(loop.model(), host, kernels)
    assert {node.op: node.where for node in found.nodes} == {"WHILE": "gpu", "MEAN": "gpu"}
    (partition,) = found.partitions
    assert partition.runs == 2 and partition.nodes == (0, 1)


def test_weights_of_a_body_are_there_once(host: str) -> None:
    loops = [ConvLoop(steps=n, filters=16, written=False) for n in (1, 6)]
    few, many = (report(loop.model(), host).partitions[0].memory.weights for loop in loops)
    assert few > 64 * 9 * 18 * 4 > many - few


def test_a_loop_around_a_layer(host: str) -> None:
    found = report(loop_models.around(16), host)
    assert {node.op: node.where for node in found.nodes} == {"WHILE": "gpu"}


@pytest.mark.parametrize("kernels", ["reference", "default"])
@pytest.mark.parametrize(
    ("model", "op"),
    [(loop_models.nested(16, deep=4), "WHILE"), (loop_models.choosing(16), "WHILE"),
     (loop_models.around(16, branch=True), "WHILE"), (loop_models.branching(16), "IF"),
     (loop_models.passing(16), "WHILE")],
    ids=["four loops", "both branches", "a branch", "a branch alone", "a counter that passes"],
)  # fmt: skip
def test_loops_and_branches_in_loops(model: bytes, op: str, kernels: str, host: str) -> None:
    """Their graphs are planned with the counters of all loops around them, and hold no node of
    their own."""
    found = report(model, host, kernels)
    assert {node.where for node in found.nodes} == {"gpu"}
    assert {node.op for node in found.nodes} <= {op, "FULLY_CONNECTED"}
    assert len(found.partitions) == 1


def test_a_branch_that_a_run_chooses(host: str) -> None:
    found = report(loop_models.choosing(16, asked=True), host, force=1)
    left = {node.op: node.reason for node in found.nodes if node.where == "cpu"}
    assert left["IF"] == "It cannot be planned in advance: its condition is only known in a run."


def test_a_number_of_steps_that_a_run_gives(host: str) -> None:
    model = ConvLoop(counted=False).model()
    interpreter, delegate = interpreters.gpu(model, host)
    (x, _), results = interpreters.feeds(interpreter), []
    for limit in (1, 3):
        feeds = [x, np.array(limit, np.int32)]
        reference = hosts.interpreter(model, host)
        reference.allocate_tensors()
        pair = [hosts.invoke(i, [feeds])[0] for i in (interpreter, reference)]
        for got, wanted in zip(*pair, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=0, atol=4e-6)
        results.append(np.array(pair[0][0]))
    assert not np.array_equal(*results)
    node = next(n for n in tflgpu_plugin.report(delegate).nodes if n.op == "WHILE")
    assert node.where == "cpu" and "is only known in a run" in str(node.reason)


def test_a_start_from_the_cache(host: str, tmp_path: Path) -> None:
    loop = ConvLoop()
    for _ in range(2):
        found = report(loop.model(), host, serialization_dir=str(tmp_path), model_token="loop")
        assert found.count("gpu") == 2


def swapping() -> bytes:
    """Returns a loop of two steps that swaps two of its values."""
    check, body, main = Model(), Model(), Model()
    number = check.input("number", (), "i32")
    check.input("a", (1, 4)), check.input("b", (1, 4))
    limit = check.constant(np.int32(2))
    check.output(check.op("LESS", [number, limit], "LessOptions", {}, dtype="bool"))
    number, a, b = body.input("number", (), "i32"), body.input("a", (1, 4)), body.input("b", (1, 4))
    one = body.constant(np.int32(1))
    sums = {"fusedActivationFunction": "NONE"}
    more = body.op("ADD", [number, one], "AddOptions", sums, dtype="i32")
    body.output(more, b, a)
    given = [main.input(name, (1, 4)) for name in ("x", "y")]
    graphs = {"condSubgraphIndex": 1, "bodySubgraphIndex": 2}
    made = main.multi_op(
        "WHILE", [main.constant(np.int32(0)), *given], "WhileOptions", graphs,
        shapes=[(), (1, 4), (1, 4)], dtypes=["i32", "f32", "f32"],
    )  # fmt: skip
    main.output(*made[1:])
    return loop_models.packed(main, check, body)


def test_values_that_a_step_moves_stay_with_the_host(host: str) -> None:
    """Hosts copy the results of a step one by one, so that a swap gives one value twice."""
    node = next(n for n in report(swapping(), host).nodes if n.op == "WHILE")
    assert node.where == "cpu" and "moves a value" in str(node.reason)


@pytest.mark.parametrize("dtype", ["f32", "i32", "bool"])
def test_a_branch_over_constants(dtype: str, host: str) -> None:
    """It is computed before a run, as its nodes are."""
    found = report(loop_models.constant_branch(dtype), host)
    assert {node.where for node in found.nodes if node.op != "LOGICAL_NOT"} == {"gpu"}
