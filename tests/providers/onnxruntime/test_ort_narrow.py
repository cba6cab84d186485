"""Tests unquantized integers of 8 and 16 bits, which wrap around when they are stored. Results
equal those of numpy's types, and of the CPU provider if it has a kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.providers.onnxruntime.test_ort_integers import build
from tests.support.onnx_models import Array, cpu, node, places, session
from tests.support.onnx_nodes import Node

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.adapter

KINDS = ("uint8", "int8", "uint16", "int16")


def numbers(kind: str, count: int, seed: int) -> Array:
    """Returns numbers of the complete range, its ends included."""
    limits = np.iinfo(kind)
    found = np.random.default_rng(seed).integers(limits.min, limits.max, (2, count), endpoint=True)
    found[0, :4] = (limits.min, limits.max, limits.max, 0)
    return found.astype(kind)


CASES: dict[str, tuple[dict[str, Any], Callable[..., Array]]] = {
    "Add": ({}, np.add), "Sub": ({}, np.subtract), "Mul": ({}, np.multiply),
    "Max": ({}, np.maximum), "Min": ({}, np.minimum), "Mod": ({}, np.mod),
    "Less": ({}, np.less), "GreaterOrEqual": ({}, np.greater_equal), "Equal": ({}, np.equal),
    "BitwiseAnd": ({}, np.bitwise_and), "BitwiseXor": ({}, np.bitwise_xor),
}  # fmt: skip


def answer(data: bytes, feeds: dict[str, Array]) -> Array:
    """Returns our answer, and asserts that the whole model is on the GPU."""
    ours = session(data)
    assert {*places(ours).values()} == {"gpu"}
    return np.asarray(ours.run(None, feeds)[0])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("op", CASES)
def test_arithmetic(op: str, kind: str) -> None:
    attributes, meaning = CASES[op]
    a, b = numbers(kind, 40, 1), numbers(kind, 40, 2)
    if op == "Mod":
        b = np.where(b == 0, 1, b).astype(kind)
    data = build([node(op, ["a", "b"], ["y"], **attributes)], {"a": a, "b": b}, ["y"])
    got = answer(data, {"a": a, "b": b})
    wanted = meaning(a, b)
    assert got.dtype == wanted.dtype
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ends", [(3, 90), (90, 3), (3, None), (None, 90), (None, None)])
def test_limits(kind: str, ends: tuple[int | None, int | None]) -> None:
    """Values above the upper limit become that limit, whatever the lower one is."""
    a, (low, high) = numbers(kind, 40, 1), ends
    held = {n: np.array(v, kind) for n, v in (("low", low), ("high", high)) if v is not None}
    reads = ["a", *(name if name in held else "" for name in ("low", "high"))]
    got = answer(build([node("Clip", reads, ["y"])], {"a": a}, ["y"], held), {"a": a})
    wanted = a if low is None else np.maximum(a, np.array(low, kind))
    wanted = wanted if high is None else np.minimum(wanted, np.array(high, kind))
    assert got.dtype == kind
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("kind", ["uint8", "uint16"])
@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
def test_shifts(kind: str, direction: str) -> None:
    bits = np.iinfo(kind).bits
    a, b = numbers(kind, 40, 1), np.resize(np.arange(bits + 1), (2, 40)).astype(kind)
    data = build(
        [node("BitShift", ["a", "b"], ["y"], direction=direction)], {"a": a, "b": b}, ["y"]
    )
    wide = a.astype(np.int64) << b if direction == "LEFT" else a.astype(np.int64) >> b
    np.testing.assert_array_equal(answer(data, {"a": a, "b": b}), wide.astype(kind))


@pytest.mark.parametrize(
    ("kind", "other"), [("uint8", "int8"), ("int8", "uint8"), ("uint16", "int16"),
                        ("int16", "uint16"), ("int8", "int8"), ("bool", "uint8"), ("bool", "int8")]
)  # fmt: skip
def test_bits_as_another_type(kind: str, other: str) -> None:
    from onnx import helper

    a = numbers(kind, 40, 3) if kind != "bool" else numbers("uint8", 40, 3) > 99
    one = node("BitCast", ["a"], ["y"], to=helper.np_dtype_to_tensor_dtype(np.dtype(other)))
    got = answer(build([one], {"a": a}, ["y"], opset=26), {"a": a})
    assert got.dtype == other
    np.testing.assert_array_equal(got, a.view(other))


@pytest.mark.parametrize(
    ("kind", "to", "runs"),
    [("u8", 3, True), ("i8", 5, False), ("u16", 5, True), ("bool", 2, True), ("u8", 9, False),
     ("f32", 6, False), ("u16", 10, False), ("i8", 0, False)],
)  # fmt: skip
def test_bits_of_which_types(kind: str, to: int, runs: bool) -> None:
    one = Node("BitCast", (kind, (3,)), to=to, version=26)
    assert runs == (one.reason == "")


@pytest.mark.parametrize("kind", KINDS)
def test_a_constant_and_a_choice(kind: str) -> None:
    a, held = numbers(kind, 24, 3), numbers(kind, 24, 4)
    nodes = [node("Less", ["a", "held"], ["c"]), node("Where", ["c", "a", "held"], ["y"])]
    got = answer(build(nodes, {"a": a}, ["y"], {"held": held}), {"a": a})
    np.testing.assert_array_equal(got, np.minimum(a, held))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("given", ["float32", "int32", "int64", "bool", *KINDS])
def test_casts(given: str, kind: str) -> None:
    """Fractions are truncated, and so are bits that do not fit; only floats in range are
    converted."""
    from onnx import helper

    if given == "bool":
        x = np.array([[True, False, True]])
    elif given == "float32":
        limits = np.iinfo(kind)
        x = np.linspace(limits.min, limits.max, 37, dtype=np.float32).reshape(1, -1)
    else:
        x = np.concatenate([numbers(kind, 12, 5), numbers("int16", 12, 6)], 1).astype(given)
    wanted = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    data = build([node("Cast", ["x"], ["y"], to=wanted)], {"x": x}, ["y"])
    got = answer(data, {"x": x})
    assert got.dtype == np.dtype(kind)
    np.testing.assert_array_equal(got, x.astype(kind))
    np.testing.assert_array_equal(got, cpu(data).run(None, {"x": x})[0])
