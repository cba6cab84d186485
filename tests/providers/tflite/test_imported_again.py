"""Tests models that a host resizes, or whose graphs are nested, through the importer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from conformance import host as hosts
from conformance.models.tflite import Model
from tests.support.interpreters import gpu, places, same
from tests.support.loop_models import nested

HOSTS = hosts.installed()
pytestmark = [pytest.mark.adapter, pytest.mark.parametrize("host", HOSTS)]
PLAIN = {"fusedActivationFunction": "NONE"}


def test_an_open_extent_may_be_none(host: str) -> None:
    model = Model()
    x = model.input("x", (0, 8), signature=(-1, 8))
    y = model.op("RELU", [x], shape=(0, 8), name="relu")
    model.output(model.op("TANH", [y], shape=(0, 8), name="tanh"))
    _, made = gpu(model.to_bytes(), host)
    assert set(places(made).values()) == {"gpu"}


def test_a_loop_in_a_loop_is_one_partition(host: str) -> None:
    model = nested(16)
    interpreter, made = gpu(model, host)
    report = tflgpu_plugin.report(made)
    assert [node.op for node in report.nodes] == ["FULLY_CONNECTED", "WHILE", "FULLY_CONNECTED"]
    assert [partition.nodes for partition in report.partitions] == [(0, 1, 2)]
    same(interpreter, model, host)


def test_loops_that_are_too_deep_stay_with_the_host(host: str) -> None:
    """The nodes before them run on the GPU."""
    model = nested(16, deep=9)
    interpreter, made = gpu(model, host)
    assert places(made)["pre"] == "gpu"
    outer = next(node for node in tflgpu_plugin.report(made).nodes if node.op == "WHILE")
    assert (outer.where, outer.refusal_code) == ("cpu", "loop.unsupported")
    same(interpreter, model, host)


def same_for_rows(interpreter: Any, content: bytes, host: str) -> None:
    """Asserts that results equal those of the CPU for several numbers of rows."""
    place = interpreter.get_input_details()[0]["index"]
    for rows in (2, 5, 3):
        interpreter.resize_tensor_input(place, (rows, 3))
        interpreter.allocate_tensors()
        same(interpreter, content, host, rows)


def test_a_state_of_an_open_signature_keeps_its_shape(host: str) -> None:
    units, memory, width = 4, 3, 5
    model = Model()
    x = model.input("x", (1, width), signature=(-1, width))
    weights = [model.constant(np.ones((units, n), np.float32)) for n in (width, memory)]
    state = model.variable("state", (1, units * memory))
    model.tensors[state].signature = (-1, units * memory)
    options = {"rank": 1, **PLAIN}
    y = model.op("SVDF", [x, *weights, None, state], "SVDFOptions", options, shape=(1, units))
    model.output(model.op("TANH", [y], shape=(1, units)))
    z = model.input("z", (1, 8, 8, 4), signature=(-1, -1, -1, 4))
    model.output(model.op("TANH", [z], shape=(1, 8, 8, 4)))
    interpreter, made = gpu(model.to_bytes(), host)
    place = interpreter.get_input_details()[1]["index"]
    for side in (16, 8):
        interpreter.resize_tensor_input(place, (1, side, side, 4))
        interpreter.allocate_tensors()
        interpreter.invoke()
    live = [one for one in tflgpu_plugin.report(made).partitions if one.live]
    assert live and all(one.runs and not one.host_runs for one in live)


def widened() -> tuple[Model, int, int]:
    """Returns a model, its input x [-1, 3] and float32 values that DEQUANTIZE makes of float16."""
    model = Model()
    x = model.input("x", (2, 3), signature=(-1, 3))
    half = model.constant(np.full((1, 3), 0.5, np.float16))
    return model, x, model.op("DEQUANTIZE", [half], shape=(1, 3), version=3, name="wide")


def test_a_node_that_reads_constants_alone_stays_out_of_partitions(
    host: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """The CPU computes a value from constants; the partition that reads it takes it as an input."""
    model, x, wide = widened()
    ones = model.constant(np.ones((1, 3), np.float32))
    condition = model.constant(np.array([[True, False, True]]))
    chosen = model.op("SELECT_V2", [condition, ones, wide], shape=(1, 3), name="chosen")
    model.output(model.op("ADD", [x, chosen], "AddOptions", PLAIN, shape=(2, 3), name="sum"))
    content = model.to_bytes()
    interpreter, made = gpu(content, host, exclude="chosen", force=True)
    same_for_rows(interpreter, content, host)
    assert places(made)["chosen"] == "cpu"
    assert "failed inside" not in capfd.readouterr().err


def test_a_value_of_constants_that_two_partitions_read_comes_in_by_one(
    host: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """EXP of constants is not folded: the first partition computes it, and the second reads it."""
    model, x, wide = widened()
    grown = model.op("EXP", [wide], shape=(1, 3), name="grown")
    first = model.op("MUL", [x, grown], "MulOptions", PLAIN, shape=(2, 3), name="first")
    between = model.op("ABS", [first], shape=(2, 3), name="between")
    model.output(
        model.op("MUL", [between, grown], "MulOptions", PLAIN, shape=(2, 3), name="second")
    )
    content = model.to_bytes()
    interpreter, made = gpu(content, host, exclude="between", force=True)
    same_for_rows(interpreter, content, host)
    assert places(made)["first"] == places(made)["second"] == "gpu"
    assert "failed inside" not in capfd.readouterr().err


def test_float16_weights_of_several_partitions_stay_what_they_are(host: str) -> None:
    """One node converts them to float32, in the first partition or on the CPU."""
    model = Model()
    x = model.input("x", (2, 3), signature=(-1, 3))
    half = model.constant(np.float16([[0.5, -2, 3]]))
    wide = model.op("DEQUANTIZE", [half], shape=(1, 3), version=3, name="wide")
    first = model.op("MUL", [x, wide], "MulOptions", PLAIN, shape=(2, 3), name="first")
    between = model.op("ABS", [first], shape=(2, 3), name="between")
    model.output(model.op("MUL", [between, wide], "MulOptions", PLAIN, shape=(2, 3), name="second"))
    content = model.to_bytes()
    for left in ("between", "between,first", "between,wide"):
        interpreter, made = gpu(content, host, exclude=left, force=True)
        same_for_rows(interpreter, content, host)
        assert places(made)["second"] == "gpu"
