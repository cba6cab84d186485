"""Elementary functions against float64, in units of the last place: over their range and near zero.

The bounds are about twice what lavapipe gives; functions that use the driver's own exponential have
more room."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.support.harness import run_graph
from tests.support.net import Net

pytestmark = pytest.mark.adapter
ERF = np.vectorize(math.erf)

# Range, units, and the function in float64.
FUNCTIONS: dict[str, tuple[float, float, float, Callable[[Any], Any]]] = {
    "log": (1e-30, 1e30, 1.5, np.log),
    "sin": (-1000, 1000, 3, np.sin),
    "cos": (-1000, 1000, 3, np.cos),
    "tan": (-1.5, 1.5, 5, np.tan),
    "asin": (-1, 1, 4, np.arcsin),
    "acos": (-1, 1, 3, np.arccos),
    "atan": (-50, 50, 4, np.arctan),
    "asinh": (-3000, 3000, 4, np.arcsinh),
    "acosh": (1, 3000, 4, np.arccosh),
    "atanh": (-0.999, 0.999, 3, np.arctanh),
    "erf": (-4, 4, 2.5, ERF),
    "exp": (-87, 88, 6, np.exp),
    "tanh": (-9, 9, 8, np.tanh),
    "softplus": (-80, 80, 7, lambda v: np.logaddexp(0, v)),
    "sinh": (-80, 80, 14, np.sinh),
    "cosh": (-80, 80, 14, np.cosh),
    "elu": (-20, 5, 10, lambda v: np.where(v < 0, np.expm1(v), v)),
    "mish": (-30, 30, 14, lambda v: v * np.tanh(np.logaddexp(0, v))),
}


def points(op: str, least: float, most: float) -> Any:
    """Returns points that are evenly spaced over the range, and over magnitudes (for acosh, those
    above 1)."""
    sizes = 10.0 ** np.linspace(-4, np.log10(max(-least, most)), 2048)
    origin = 1.0 if op == "acosh" else 0.0
    found = [np.linspace(least, most, 4096), origin + sizes, origin - sizes]
    return np.clip(np.concatenate(found), least, most).astype(np.float32)


@pytest.mark.parametrize("op", FUNCTIONS)
def test_units_in_the_last_place(op: str) -> None:
    least, most, units, function = FUNCTIONS[op]
    x = points(op, least, most)
    b = Net()
    given = b.input(x.shape)
    made = b.op(op, given)
    got = run_graph(b.graph(made), {given: x})[made]
    wanted = function(x.astype(np.float64))
    seen = np.abs(wanted) > 1e-30
    unit = np.spacing(np.abs(wanted[seen]).astype(np.float32))
    errors = np.abs(got[seen] - wanted[seen]) / unit
    worst = int(errors.argmax())
    assert errors[worst] < units, f"{errors[worst]:.1f} units at {x[seen][worst]!r}"


@pytest.mark.parametrize("op", ["gelu", "gelu_tanh"])
def test_gelu(op: str) -> None:
    """1 + erf cancels far below zero, in hosts as well."""
    x = points(op, -6, 6)
    wide = x.astype(np.float64)
    b = Net()
    given = b.input(x.shape)
    made = b.op(op, given)
    got = run_graph(b.graph(made), {given: x})[made]
    inner = math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3)
    gate = ERF(wide / math.sqrt(2)) if op == "gelu" else np.tanh(inner)
    np.testing.assert_allclose(got, 0.5 * wide * (1 + gate), rtol=4e-7, atol=4e-7)
