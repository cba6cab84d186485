"""Variables of TFLite models: the host keeps them, in its order, and nodes that compute with them
run on the GPU, whatever shape they get in a run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from conformance import host as hosts
from tests.support import variable_models
from tests.support.interpreters import gpu, places
from tests.support.small_models import CPU_OP, binary, conv
from tests.support.variable_models import FEATURES, ONE, SHAPE, Stateful
from tflgpu_plugin.importer import rules
from tflgpu_plugin.providers.tflite import snapshot
from tflgpu_plugin.providers.tflite.host_node import RawNode

HOSTS = hosts.installed()
HELD = ("VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE", "CALL_ONCE")
RESET = "reset"
CPU = {"growing": {CPU_OP}, "in a branch": {"IF"}}
SEQUENCES: dict[str, list[Any]] = {
    "in a branch": [None] * 4,
    "streaming": [None] * 8 + [(1, 3, 5, FEATURES), None, (1, 9, 5, FEATURES), RESET, None],
    "again": [None] * 3 + [RESET, None, None],
    "growing": [None] * 12 + [RESET, None],
    "of the input": [None, (1, 9, 7, FEATURES), None, RESET, None, (1, 2, 3, FEATURES), SHAPE],
}
FIXED = ("streaming", "again", "in a branch")  # shapes of variables do not change

pytestmark = pytest.mark.adapter


def agree(interpreter: Any, model: bytes, host: str, sequence: Iterable[Any]) -> None:
    """Asserts that the outputs of each run are those of the host's reference kernels. A step of the
    sequence resizes the input, resets the variables, or does neither, before its run."""
    reference = hosts.interpreter(model, host)
    reference.allocate_tensors()
    random = np.random.default_rng(3)
    for number, step in enumerate(sequence):
        for one in (interpreter, reference):
            if step == RESET:
                one.reset_all_variables()
            elif step is not None:
                one.resize_tensor_input(one.get_input_details()[0]["index"], step)
                one.allocate_tensors()
        details = reference.get_input_details()
        feed = [random.uniform(-1, 1, d["shape"]).astype(np.float32) for d in details]
        ours, theirs = (hosts.invoke(one, [feed])[0] for one in (interpreter, reference))
        for got, wanted in zip(ours, theirs, strict=True):
            assert got.shape == wanted.shape, f"run {number}"
            largest = max(1, np.abs(wanted).max(initial=0))
            np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-5 * largest)


def left(made: Any) -> set[str]:
    """Returns the operators of nodes on the CPU, without those that only read and write
    variables."""
    nodes = tflgpu_plugin.report(made).nodes
    return {node.op for node in nodes if node.where == "cpu"}.difference(HELD)


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("kernels", ["reference", "optimized", "default"])
@pytest.mark.parametrize("name", variable_models.MODELS)
def test_variables_keep_their_values_and_shapes(host: str, kernels: str, name: str) -> None:
    if (host, kernels) == ("ai_edge_litert", "default") and name not in FIXED:
        pytest.skip("its XNNPACK keeps the first shape and writes past the end, also without us")
    model = variable_models.MODELS[name]()
    interpreter, made = gpu(model, host, kernels, force=1)
    assert left(made) == CPU.get(name, set())
    agree(interpreter, model, host, SEQUENCES[name])
    partitions = [
        partition for partition in tflgpu_plugin.report(made).partitions if partition.live
    ]
    assert partitions and all(partition.runs and not partition.failures for partition in partitions)


@pytest.mark.parametrize("host", HOSTS)
def test_what_variables_feed_and_take_is_one_partition(host: str) -> None:
    """The partition is kept although it computes little, because the host's variables are on both
    sides of it."""
    _, made = gpu(variable_models.streaming(), host)
    report = tflgpu_plugin.report(made)
    assert [len(partition.nodes) for partition in report.partitions] == [8]
    reasons = {node.op: node.reason for node in report.nodes if node.where == "cpu"}
    assert reasons["READ_VARIABLE"] == "It copies a variable of the model, which the host keeps."


@pytest.mark.parametrize("host", HOSTS)
def test_interpreters_of_one_model_have_variables_of_their_own(host: str) -> None:
    """Also with one delegate; memory may be allocated again between runs, and one of them reset."""
    model, made = variable_models.streaming(), hosts.load_delegate(host)
    ours = [hosts.interpreter(model, host, experimental_delegates=[made]) for _ in range(2)]
    theirs = [hosts.interpreter(model, host) for _ in range(2)]
    for one in (*ours, *theirs):
        one.allocate_tensors()
    random = np.random.default_rng(5)
    for step in range(12):
        which, feed = step % 3 // 2, random.uniform(-1, 1, (1, 2, 5, FEATURES)).astype(np.float32)
        for one in (ours[which], theirs[which]):
            if step == 5:
                one.allocate_tensors()
            if step == 7:
                one.reset_all_variables()
        (got,), (wanted,) = (hosts.invoke(one[which], [[feed]])[0] for one in (ours, theirs))
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-5, err_msg=f"run {step}")
    assert left(made) == set()


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("early", [False, True])
def test_a_run_that_raises_assigns_nothing_that_its_partition_computes(
    host: str, early: bool
) -> None:
    """An assignment after the node that raises is not done by the host, either. One before it is
    done by the host alone."""
    model = variable_models.picking(early)
    interpreter, made = gpu(model, host, force=1)
    assert left(made) == set()
    reference = hosts.interpreter(model, host)
    reference.allocate_tensors()
    pair, same = (interpreter, reference), []
    for index in (0, 1, 99, 2, 3):
        feed = [np.full(SHAPE, 0.5, np.float32), np.array([index], np.int32)]
        if index == 99:
            for one in pair:
                with pytest.raises(RuntimeError, match="out of bounds"):
                    hosts.invoke(one, [feed])
            continue
        (got,), (wanted,) = (hosts.invoke(one, [feed])[0] for one in pair)
        same.append(np.allclose(got, wanted, rtol=0, atol=1e-5))
    assert same == [True, True, not early, not early]


@pytest.mark.parametrize("host", HOSTS)
def test_the_order_of_a_host_that_fuses_no_nodes(host: str) -> None:
    model = variable_models.again()
    made = hosts.load_delegate(host)
    interpreter = hosts.interpreter(
        model, host, experimental_delegates=[made], experimental_preserve_all_tensors=True
    )
    interpreter.allocate_tensors()
    assert left(made) == set()
    agree(interpreter, model, host, SEQUENCES["again"])


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("exclude", ["", "ABS", "CONCATENATION", "SPLIT_V,ADD"])
def test_seeded_programs(host: str, exclude: str) -> None:
    """Reads and assignments are in random order, shapes change from run to run, and other nodes are
    for the CPU."""
    options = {"force": 1} | ({"exclude": exclude} if exclude else {})
    for seed in range(12):
        model = variable_models.program(seed)
        interpreter, made = gpu(model, host, "reference", **options)
        steps = [None, None, (1, 1 + seed % 4, 2, FEATURES), None, RESET, None]
        agree(interpreter, model, host, steps)
        assert left(made) <= {*exclude.split(",")}
        partitions = tflgpu_plugin.report(made).partitions
        assert partitions and all(
            partition.runs and not partition.failures for partition in partitions
        )


@pytest.mark.parametrize("host", HOSTS)
def test_a_shape_that_cannot_be_built_fails_in_invoke(host: str, resolver: str) -> None:
    """The error is a sentence, as long as the variable has this shape."""
    if (host, resolver) == ("ai_edge_litert", "default"):
        pytest.skip("its XNNPACK keeps the first shape of a variable, also without us")
    model = Stateful()
    x = model.input("x", ONE)
    handle = model.store("v", SHAPE)
    zero = model.constant(np.zeros(ONE, np.float32))
    value = binary(model, "ADD", model.read(handle, loose=True), zero, ONE, "value")
    model.output(conv(model, value, ONE, "features"))
    model.assign(handle, x)
    content = model.to_bytes()
    interpreter, made = gpu(content, host)
    assert places(made)["features"] == "gpu"
    interpreter.resize_tensor_input(0, (1,) * 6)
    interpreter.allocate_tensors()
    interpreter.invoke()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="failed to prepare"):
            interpreter.invoke()
    interpreter.resize_tensor_input(0, ONE)
    interpreter.allocate_tensors()
    with pytest.raises(RuntimeError, match="failed to prepare"):
        interpreter.invoke()
    reference = hosts.interpreter(content, host)
    reference.allocate_tensors()
    feed = [np.full(ONE, 2, np.float32)]
    (got,), (wanted,) = (hosts.invoke(one, [feed] * 2)[1] for one in (interpreter, reference))
    np.testing.assert_allclose(got, wanted, rtol=1e-6)


@pytest.mark.parametrize("host", HOSTS)
def test_a_host_that_does_not_keep_the_order(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is claimed from it: it might read before it assigns."""
    original = snapshot.read_node

    def unmarked(*given: Any) -> RawNode:
        return replace(original(*given), has_side_effect=False)

    monkeypatch.setattr(snapshot, "read_node", unmarked)
    _, made = gpu(variable_models.again(), host)
    report = tflgpu_plugin.report(made)
    assert report.count("gpu") == 0
    assert {node.reason for node in report.nodes if node.op not in HELD} == {rules.UNORDERED}
