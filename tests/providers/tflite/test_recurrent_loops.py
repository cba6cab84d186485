"""Loops that are recurrent layers run as one node, with the results of the hosts' CPU kernels; the
steps of other loops are planned in a row, where they are counted."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from conformance import host as hosts
from tests.support import interpreters
from tests.support.recurrent_loops import STATES, Loop

pytestmark = [pytest.mark.adapter, pytest.mark.parametrize("host", hosts.installed())]
NO_LAYER = "is not a recurrent layer of a known form"


def answers(interpreter: Any, feeds: list[Any]) -> list[Any]:
    return [np.array(value) for value in hosts.invoke(interpreter, [feeds])[0]]


def compared(loop: Loop, host: str, kernels: str = "reference", **options: Any) -> Any:
    """Returns the report of the model, after comparing its results with those of the CPU
    kernels."""
    model = loop.model()
    interpreter, delegate = interpreters.gpu(model, host, kernels, **options)
    for seed in range(2):
        interpreters.same(interpreter, model, host, seed)
    return tflgpu_plugin.report(delegate)


def whole(report: Any) -> bool:
    """Whether all nodes ran as one partition; nodes of the body do not appear."""
    return [node.op for node in report.nodes] == ["WHILE", "FULLY_CONNECTED"] and (
        {node.where for node in report.nodes} == {"gpu"} and report.runs == 2
    )


LAYERS = [
    *(Loop(cell, every=every) for cell in STATES for every in (False, True)),
    *(Loop(cell, batch=3, every=True, seed=2) for cell in STATES),
    *(Loop(cell, fed=True, batch=2) for cell in STATES),
    *(Loop(cell, units=4, features=1, steps=1, every=True) for cell in STATES),
    *(Loop(cell, units=1, biased=False, seed=3) for cell in STATES),
    Loop("lstm", order="ofci"),
    Loop("lstm", order="cfio", every=True, batch=2),
    Loop("lstm", turned=True, every=True),
    Loop("gru", whole=True, every=True),
    Loop("lstm", half=True),
    Loop("rnn", activation="RELU"),
    Loop("rnn", activation="LOGISTIC"),
    Loop("gru", steps=33, units=40, features=24),
    Loop("lstm", steps=8, limit=5),  # the rows after the fifth are for nobody
    *(Loop(cell, scattered=True, every=True) for cell in STATES),
    Loop("lstm", scattered=True, turned=True, fed=True),
]


@pytest.mark.parametrize("loop", LAYERS, ids=str)
def test_a_layer_is_one_node(loop: Loop, host: str) -> None:
    assert whole(compared(loop, host))


@pytest.mark.parametrize("cell", STATES)
def test_beside_the_hosts_own_delegate(cell: str, host: str) -> None:
    assert whole(compared(Loop(cell, every=True), host, "default"))


OTHERS = [
    *(Loop(cell, start=1) for cell in STATES),  # of a sequence that is one longer than that
    Loop("lstm", count=2),
    Loop("gru", every=True, limit=4),  # what the list had before stays in its end
    Loop("gru", wrong="one more"),
    Loop("lstm", wrong="extra"),
    Loop("gru", wrong="extra", every=True),
    Loop("rnn", wrong="extra"),
    Loop("gru", wrong="two"),
    Loop("gru_before", wrong="two"),
    Loop("lstm", crossed=True),
    Loop("lstm", turned=True, crossed=True),
    Loop("rnn", wrong="next row", limit=5),
    Loop("lstm", wrong="sequence"),
    *(Loop(cell, wrong="earlier", every=every) for cell in STATES for every in (False, True)),
    Loop("rnn", wrong="unused"),  # an operator that bodies are not known to have
    Loop("lstm", wrong="other way"),
    Loop("lstm", activation="RELU"),
    Loop("lstm", read=(1,)),
    Loop("rnn", read=(4,)),
]


@pytest.mark.parametrize("loop", OTHERS, ids=str)
def test_the_steps_of_another_loop_are_planned_in_a_row(loop: Loop, host: str) -> None:
    report = compared(loop, host)
    assert whole(report)
    (partition,) = report.partitions
    assert partition.dispatches > loop.steps, "a recurrent layer has fewer"


@pytest.mark.parametrize(
    ("loop", "why"),
    [
        (Loop("rnn", limit=0), "none of its steps has work for the GPU"),
        (Loop("lstm", wrong="extra", steps=40), "launches would take longer than the CPU"),
        (Loop("lstm", wrong="extra", steps=90), "they have more than"),
    ],
    ids=str,
)
def test_another_loop_stays_with_the_host(loop: Loop, why: str, host: str) -> None:
    report = compared(loop, host)
    (node,) = (node for node in report.nodes if node.op == "WHILE")
    assert node.where == "cpu" and node.reason
    assert NO_LAYER in node.reason and why in node.reason, node.reason
    assert len(report.nodes) > 10, "nodes of the body are reported, as the host runs them"


@pytest.mark.parametrize("cell", STATES)
@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf, 3e38])
def test_what_is_not_finite(cell: str, odd: float, host: str) -> None:
    loop = Loop(cell, every=True, batch=2)
    model = loop.model()
    interpreter, delegate = interpreters.gpu(model, host)
    x = np.random.default_rng(0).uniform(-1, 1, loop.carried[-1]).astype(np.float32)
    x[3, 1, 2] = odd
    reference = hosts.interpreter(model, host)
    reference.allocate_tensors()
    for got, wanted in zip(answers(interpreter, [x]), answers(reference, [x]), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=0, atol=4e-6, equal_nan=True)
    assert whole(replaced_runs(tflgpu_plugin.report(delegate)))


def replaced_runs(report: Any) -> Any:
    """Returns a run with the replacement that `whole` asks for."""
    assert report.runs == 1
    return type("Report", (), {"nodes": report.nodes, "runs": 2})


def test_a_model_from_a_file(host: str, tmp_path: Path) -> None:
    path = tmp_path / "loop.tflite"
    path.write_bytes(Loop("gru").model())
    made = interpreters.delegate(host)
    runner = import_module(f"{host}.interpreter")
    interpreter = runner.Interpreter(str(path), experimental_delegates=[made])
    interpreter.allocate_tensors()
    assert [node.where for node in tflgpu_plugin.report(made).nodes] == ["gpu", "gpu"]


def test_options_that_leave_it_to_the_host(host: str) -> None:
    loop = Loop("lstm", every=True)
    assert not whole(compared(loop, host, exclude="WHILE"))
    assert not whole(compared(loop, host, capabilities="documented"))


def test_one_delegate_after_the_other_model(host: str) -> None:
    """Data about one model's graphs are not used for another's."""
    made = interpreters.delegate(host)
    for loop in (Loop("lstm"), Loop("lstm", wrong="extra"), Loop("rnn"), Loop("gru", count=2)):
        model = loop.model()
        interpreter = hosts.interpreter(model, host, experimental_delegates=[made])
        interpreter.allocate_tensors()
        interpreters.same(interpreter, model, host)


def test_a_start_from_what_is_kept(host: str, tmp_path: Path) -> None:
    loop = Loop("gru", every=True)
    for seed in (1, 1, 5):  # the last has other weights
        options = {"serialization_dir": str(tmp_path), "model_token": "loop"}
        assert whole(compared(replace(loop, seed=seed), host, **options))


def test_another_length_fails_with_a_sentence(host: str) -> None:
    interpreter, _ = interpreters.gpu(Loop("rnn").model(), host)
    interpreter.resize_tensor_input(interpreter.get_input_details()[0]["index"], (4, 1, 5))
    with pytest.raises(RuntimeError, match="gather index out of bounds"):
        interpreter.allocate_tensors()
        interpreter.invoke()
