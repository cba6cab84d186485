"""Ranges whose ends are inputs of a run have one plan and the results of the host's reference
kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from conformance import host as hosts
from conformance.models.tflite import Model
from tests.support.interpreters import places
from tests.support.run_values import NAMES, RUNS, added, assert_same, on_gpu, reference, runs
from tests.support.traced import traced
from tflgpu_plugin.ir import Array

pytestmark = [pytest.mark.adapter, pytest.mark.parametrize("host", hosts.installed())]


def number(value: int, kind: type = np.int32) -> Array:
    return np.array(value, kind)


RANGES: dict[str, tuple[Callable[[int], Sequence[Array]], Sequence[Array]]] = {
    "count": (lambda k: [number(0), number(3 + 5 * k % 23), number(1)], []),
    "from below 0": (lambda k: [number(k % 5 - 2), number(9 + k % 7)], [number(2)]),
    "down": (lambda k: [number(9 + k % 7)], [number(-2), number(-2)]),
    "in 64 bits": (
        lambda k: [number(1 + k % 3, np.int64), number(5 + k, np.int64)], [number(1, np.int64)],
    ),
}  # fmt: skip


def ranged(name: str) -> bytes:
    """Returns a model of tanh of a range."""
    values, held = RANGES[name]
    model, feed = Model(), values(0)
    dtype = NAMES[feed[0].dtype]
    given = [model.input(f"x{k}", v.shape, NAMES[v.dtype]) for k, v in enumerate(feed)]
    given += [model.constant(value) for value in held]
    (found,) = added(model, "RANGE", given, 1, "RangeOptions", (dtype,))
    kinds = {"inDataType": "INT32" if dtype == "i32" else "INT64", "outDataType": "FLOAT32"}
    (real,) = added(model, "CAST", [found], 1, "CastOptions", **kinds)
    model.output(*added(model, "TANH", [real], 1))
    return model.to_bytes()


@pytest.mark.parametrize("name", RANGES)
def test_ranges_have_one_plan(host: str, name: str, monkeypatch: Any) -> None:
    (values, _), model, templates = RANGES[name], ranged(name), traced(monkeypatch)
    if name == "in 64 bits" and host == "tflite_runtime":
        pytest.skip("tflite-runtime has ranges of int32 and float32 only")
    interpreter, made = on_gpu(model, host)
    assert set(places(made).values()) == {"gpu"}
    for run in range(RUNS):
        assert_same(interpreter, model, host, values(run))
    assert runs(made) == {(RUNS, 0, 0)}
    assert len(templates) == 1 and not templates[0].trace.fixed


def test_ranges_that_are_empty_or_wrong(host: str) -> None:
    model = ranged("count")
    interpreter, _ = on_gpu(model, host)
    for first, last, by in ((0, 5, 1), (3, 3, 1), (2, 9, 3), (0, 6000, 1), (9, 2, -1), (0, 7, 1)):
        assert_same(interpreter, model, host, [number(first), number(last), number(by)])
    for wrong in ((0, 5, 0), (0, 5, -1)):
        with pytest.raises(RuntimeError):
            reference(model, host, [number(n) for n in wrong])
        with pytest.raises(RuntimeError):
            hosts.invoke(interpreter, [[number(n) for n in wrong]])
        assert_same(interpreter, model, host, [number(1), number(8), number(2)])
