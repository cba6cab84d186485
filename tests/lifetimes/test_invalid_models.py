"""Model files for which the host's CPU kernels fail with an error: with the plugin they also fail,
or the node stays with the host. The host's own prepare, which would detect the error, does not run
for claimed nodes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from conformance import host as hosts, mutated
from conformance.cases import all_cases
from conformance.models import tflite as models, tflite_file
from tests.support.interpreters import delegate
from tests.support.subprocesses import ROOT
from tflgpu_plugin import report

HOSTS = hosts.installed()
pytestmark = [
    pytest.mark.adapter,
    pytest.mark.skipif(not HOSTS, reason="no TFLite host: pip install -e .[tflite]"),
]


def constant(model: Any) -> Any:
    """Returns the first constant of the model."""
    graph = model.subgraphs[0]
    return next(t for t in graph.tensors if mutated.data_of(model, t) is not None)


def reshaped(*shape: int) -> Callable[[Any], None]:
    def change(model: Any) -> None:
        constant(model).shape = np.array(shape, np.int32)

    return change


def option(name: str, value: Any) -> Callable[[Any], None]:
    def change(model: Any) -> None:
        setattr(model.subgraphs[0].operators[0].builtinOptions, name, value)

    return change


def typed(position: int, kind: int) -> Callable[[Any], None]:
    def change(model: Any) -> None:
        graph = model.subgraphs[0]
        graph.tensors[graph.operators[0].inputs[position]].type = kind

    return change


def scaled(model: Any) -> None:
    quantization = tflite_file.schema().QuantizationParametersT()
    quantization.scale = np.array([0.1], np.float32)
    quantization.zeroPoint = np.array([0], np.int64)
    model.subgraphs[0].tensors[0].quantization = quantization


def without_inputs(count: int) -> Callable[[Any], None]:
    def change(model: Any) -> None:
        operator = model.subgraphs[0].operators[0]
        operator.inputs = operator.inputs[: len(operator.inputs) - count]

    return change


def without_state(model: Any) -> None:
    graph = model.subgraphs[0]
    states = [k for k, tensor in enumerate(graph.tensors) if tensor.isVariable]
    inputs = graph.operators[0].inputs
    graph.operators[0].inputs = np.array([-1 if k in states else k for k in inputs], np.int32)


def without_outputs(model: Any) -> None:
    model.subgraphs[0].operators[0].outputs = np.array([], np.int32)
    model.subgraphs[0].outputs = np.array([0], np.int32)


BOOL, INT8 = 6, 9
# By the operator, whose first case is changed.
INVALID = [
    ("PAD", "paddings of other axes", reshaped(2, 4)),
    ("STRIDED_SLICE", "bounds that are no vector", reshaped(1, 4)),
    ("STRIDED_SLICE", "no strides", without_inputs(1)),
    ("TRANSPOSE", "an order that is no vector", reshaped(1, 4)),
    ("UNPACK", "another number of results", option("num", -1)),
    ("PACK", "another number of values", option("valuesCount", 7)),
    ("PACK", "a scale of float32 values", scaled),
    ("SPLIT", "another number of results", option("numSplits", 9)),
    ("UNIDIRECTIONAL_SEQUENCE_LSTM", "a clip below 0", option("projClip", -1.0)),
    ("UNIDIRECTIONAL_SEQUENCE_LSTM", "no state", without_state),
    ("BIDIRECTIONAL_SEQUENCE_LSTM", "two results, merged", option("mergeOutputs", True)),
    ("BIDIRECTIONAL_SEQUENCE_RNN", "one result, apart", option("mergeOutputs", False)),
    ("BIDIRECTIONAL_SEQUENCE_RNN", "no state", without_state),
    ("CONCATENATION", "values of several types", typed(1, BOOL)),
    ("PACK", "values of several types", typed(1, INT8)),
    ("REDUCE_PROD", "a scale of float32 values", scaled),
    ("ARG_MAX", "no result", without_outputs),
]


def invalid(op: str, change: Callable[[Any], None]) -> bytes:
    case = next(c for cases in all_cases().values() for c in cases if c.op == op and not c.refused)
    model = mutated.read(models.build(case))
    change(model)
    return mutated.written(model)


@pytest.mark.parametrize(
    ("op", "what", "change"), INVALID, ids=[f"{o}: {w}" for o, w, _ in INVALID]
)
def test_the_hosts_error_stays(
    op: str, what: str, change: Callable[[Any], None], capfd: pytest.CaptureFixture[str]
) -> None:
    data = invalid(op, change)
    errors = []
    for made in ([], [delegate(HOSTS[0], force=1)]):
        with pytest.raises((ValueError, RuntimeError)) as caught:
            cpu = hosts.interpreter(data, HOSTS[0], experimental_delegates=made)
            cpu.allocate_tensors()
            cpu.invoke()
        errors.append(str(caught.value))
        assert not made or not report(made[0]).count("gpu")
    assert (
        errors[0].split("(")[0] == errors[1].split("(")[0]
    )  # the numbers in it are not printed well
    assert "report" not in capfd.readouterr().err


SEEDS = range(120)


def test_mutated_models() -> None:
    """Single operators have seeded damage; the process may die in the host's own kernels."""
    first, died = SEEDS.start, 0
    while first < SEEDS.stop:
        command = [
            sys.executable,
            "-m",
            "conformance.mutated",
            HOSTS[0],
            str(first),
            str(SEEDS.stop),
        ]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200)
        assert "lease report" not in done.stdout + done.stderr, done.stderr
        if not done.returncode:
            break
        seed, stage = done.stdout.splitlines()[-1].split()[:2]
        assert stage == "cpu", done.stdout[-500:] + done.stderr[-3000:]
        first, died = int(seed) + 1, died + 1
    assert died < 10  # else it is none of the host's


def test_a_mutation_is_the_same_every_time() -> None:
    import_module("flatbuffers")
    assert mutated.model(7)[1] == mutated.model(7)[1]
