"""Tests bfloat16 arithmetic as in onnxruntime's CPU kernels: computed in float32 and rounded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import tflgpu_plugin  # noqa: E402
from conformance import tolerance  # noqa: E402
from conformance.references import truth  # noqa: E402
from tests.providers.onnxruntime.test_ort_bfloat16 import (  # noqa: E402
    ALL,
    BRAIN,
    CHANCE,
    FLOAT,
    both,
    model,
    same,
)
from tests.support.onnx_models import Array, cpu, node, session  # noqa: E402
from tests.support.onnx_nodes import MS, Node  # noqa: E402
from tflgpu_plugin.harness.onnx_values import results  # noqa: E402
from tflgpu_plugin.ir import bfloat16  # noqa: E402
from tflgpu_plugin.providers.onnxruntime.ops import HOST_OPS  # noqa: E402

adapter = pytest.mark.adapter
BOOL = onnx.TensorProto.BOOL
ROWS, COLUMNS, EPSILON = 40, 130, 1e-5
SKIPPED = ("SkipLayerNormalization", "SkipSimplifiedLayerNormalization")
EACH: dict[str, Any] = {
    "IsInf": {},
    "IsInf-positive": {"detect_negative": 0},
    "IsNaN": {},
    "Sign": {},
}


def some(*shape: int, around: float = 0.0) -> Array:
    return bfloat16.bits(CHANCE.normal(around, 3, shape).astype(np.float32))


INPUTS = {
    "x": some(ROWS, 1, COLUMNS, around=1.0),
    "skip": some(ROWS, 1, COLUMNS),
    "scale": some(COLUMNS),
    "bias": some(COLUMNS),
    "added": some(COLUMNS),
}


def test_every_row_is_run() -> None:
    listed = {name for name, row in HOST_OPS.items() if row.rounds}
    each = {name.partition("-")[0] for name in EACH}
    skipped = {f"{MS}:{name}" for name in SKIPPED}
    assert listed == each | skipped | {"LayerNormalization", "SimplifiedLayerNormalization"}


@adapter
@both
@pytest.mark.parametrize("name", EACH)
def test_each_number(name: str, optimize: bool) -> None:
    """All numbers are tried. The kernel gives NaN a sign of 0."""
    op = name.partition("-")[0]
    one = node(op, ["x"], ["y"], **EACH[name])
    made = BRAIN if op == "Sign" else BOOL
    same(model([one], {"x": ALL}, {"y": made}), {"x": ALL}, optimize)


@adapter
def test_the_sign_of_constants() -> None:
    """The host leaves it in the model or folds it; float32 NaN stays NaN."""
    held = np.array([0x7FC0, 0xFF81, 0x8000, 0x0001, 0xFF80, 0x4000], np.uint16)
    nodes = [node("Sign", ["k"], ["s"]), node("Concat", ["x", "s"], ["y"], axis=0)]
    data = model(nodes, {"x": held}, {"y": BRAIN}, {"k": held})
    for optimize in (True, False):
        same(data, {"x": held}, optimize)
    x = bfloat16.values(held)
    plain = model([node("Sign", ["x"], ["y"])], {"x": x}, {"y": FLOAT})
    (got,) = session(plain).run(None, {"x": x})
    np.testing.assert_array_equal(got, np.sign(x))


@adapter
def test_no_precision_is_lost() -> None:
    """Values beyond 65,504 are not infinite."""
    x = bfloat16.bits((CHANCE.normal(size=(1, 64, 64, 16)) * 1e30).astype(np.float32))
    nodes = [
        node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]),
        node("IsInf", ["t"], ["y"]),
        node("Sign", ["t"], ["z"]),
    ]
    data = model(nodes, {"x": x}, {"y": BOOL, "z": BRAIN})
    same(data, {"x": x}, is_precision_loss_allowed=1)


# ---- layers --------------------------------------------------------------------------------------


def normalized(x: Array, scale: Array, bias: Array | None, epsilon: float = EPSILON) -> list[Array]:
    """Returns x normalized along the last axis, the mean and the inverse standard deviation;
    without a bias the mean is not subtracted."""
    mean = np.zeros(()) if bias is None else x.mean(-1, keepdims=True)
    inverse = 1 / np.sqrt(np.square(x - mean).mean(-1, keepdims=True) + epsilon)
    y = (x - mean) * inverse * scale + (0.0 if bias is None else bias)
    return [y, inverse] if bias is None else [y, mean, inverse]


def skipped(
    x: Array, skip: Array, added: Array, scale: Array, bias: Array | None = None
) -> list[Array]:
    """Returns the layer's results; the host rounds the sum only where it is an output."""
    total = x + skip + added
    return [normalized(total, scale, bias)[0], total]


def layer(op: str) -> tuple[Any, Any, list[str], dict[str, int]]:
    """Returns the node, its reference, the inputs of the reference, and the types of the node's
    outputs."""
    plain = "Simplified" in op
    bias = [] if plain else ["bias"]
    if op in SKIPPED:
        made, reads = {"y": BRAIN, "total": BRAIN}, ["x", "skip", "scale", *bias, "added"]
        one = node(op, reads, ["y", "", "", "total"], domain=MS, epsilon=EPSILON)
        return one, skipped, ["x", "skip", "added", "scale", *bias], made
    reads = ["x", "scale", *bias]
    made = {"y": BRAIN} | ({} if plain else {"mean": FLOAT}) | {"inverse": FLOAT}
    by: Any = (lambda x, scale: normalized(x, scale, None)) if plain else normalized
    return node(op, reads, list(made), epsilon=EPSILON), by, reads, made


def bounds(by: Any, values: Sequence[Array]) -> list[tolerance.Bound]:
    real = [bfloat16.values(value).astype(np.float64) for value in values]
    measured = truth.measure(lambda change: [by(*map(change, real))], COLUMNS)
    pairs = zip(measured.values[0], measured.moved[0], strict=True)
    return [tolerance.bound("reduction", *pair, COLUMNS) for pair in pairs]


def fits(got: Array, allowed: tolerance.Bound) -> None:
    if got.dtype == np.uint16:
        assert not tolerance.in_bfloat16(got, allowed)
        return
    assert allowed.truth is not None
    verdict = tolerance.compare(allowed.truth.astype(np.float32), got, allowed)
    assert verdict.passed, verdict


def on_ours(data: bytes, feeds: Mapping[str, Array], optimize: bool) -> list[Any]:
    ours = session(data, optimize=optimize)
    found = results(ours, feeds)
    tflgpu_plugin.assert_used(ours)
    assert {node.where for node in tflgpu_plugin.report(ours).nodes} == {"gpu"}
    return found


LAYERS = ("LayerNormalization", "SimplifiedLayerNormalization", *SKIPPED)


@adapter
@both
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("op", LAYERS)
def test_layers(op: str, known: bool, optimize: bool) -> None:
    """Scale and bias are constants, or come from outside of the partition; mean and deviation stay
    float32."""
    one, by, reads, made = layer(op)
    inner = {name: INPUTS[name] for name in reads if name in ("scale", "bias", "added") and known}
    feeds = {name: INPUTS[name] for name in reads if name not in inner}
    data = model([one], feeds, made, inner, 17)
    wanted = results(cpu(data, optimize), feeds)
    allowed = bounds(by, [INPUTS[name] for name in reads])
    for got, told, bound in zip(on_ours(data, feeds, optimize), wanted, allowed, strict=True):
        assert (got.dtype, got.shape) == (told.dtype, told.shape)
        fits(told, bound)
        fits(got, bound)


@adapter
@pytest.mark.parametrize("op", LAYERS)
def test_the_first_result_alone(op: str) -> None:
    one, by, reads, _ = layer(op)
    alone = node(op, list(one.input), ["y"], domain=one.domain, epsilon=EPSILON)
    feeds = {name: INPUTS[name] for name in reads}
    (got,) = on_ours(model([alone], feeds, {"y": BRAIN}), feeds, True)
    fits(got, bounds(by, list(feeds.values()))[0])


@adapter
def test_rows_of_special_numbers() -> None:
    """NaN and infinities are in separate rows, as are equal, subnormal and large numbers."""
    x = np.ones((6, 8), np.float32)
    x[0, 3], x[1, 0], x[2, 7] = np.nan, np.inf, -np.inf
    x[4, ::2], x[5, ::2] = 1e-40, 1e15
    feeds = {"x": bfloat16.bits(x), "scale": some(8), "bias": some(8)}
    one, _, _, _ = layer("LayerNormalization")
    alone = node(one.op_type, list(feeds), ["y"])
    data = model([alone], feeds, {"y": BRAIN})
    (got,), (wanted,) = on_ours(data, feeds, True), results(cpu(data), feeds)
    nan = np.isnan(bfloat16.values(wanted))
    np.testing.assert_array_equal(np.isnan(bfloat16.values(got)), nan)
    assert nan[:3].all() and not nan[3:].any()
    apart = np.abs(got.astype(np.int32) - wanted)[~nan]
    assert apart.max() <= 1  # where a tie is between


@adapter
@both
def test_a_block_of_a_network(optimize: bool) -> None:
    """Data movement and computation are in one partition."""
    nodes = [
        node("Cast", ["f"], ["x"], to=BRAIN),
        node("SkipLayerNormalization", ["x", "skip", "scale", "bias"], ["n"], domain=MS),
        node("Transpose", ["n"], ["t"], perm=[2, 1, 0]),
        node("IsNaN", ["t"], ["missing"]),
        node("Cast", ["t"], ["y"], to=FLOAT),
    ]
    feeds = {"f": bfloat16.values(INPUTS["x"])}
    constants = {name: INPUTS[name] for name in ("skip", "scale", "bias")}
    data = model(nodes, feeds, {"y": FLOAT, "missing": BOOL}, constants, 21)
    got, missing = on_ours(data, feeds, optimize)
    values = [INPUTS[name] for name in ("x", "skip", "scale", "bias")]
    (bound,) = bounds(lambda x, k, s, b: normalized(x + k, s, b, 1e-12)[:1], values)
    fits(bfloat16.bits(got.transpose(2, 1, 0)), bound)
    np.testing.assert_array_equal(bfloat16.values(bfloat16.bits(got)), got)
    assert not missing.any()


def test_the_bound_knows_a_wrong_rounding() -> None:
    """Half of the truncated, unrounded results are outside the bound."""
    values = CHANCE.normal(size=1000)
    allowed = tolerance.Bound(4.0, 0.0, truth=values)
    near = bfloat16.bits(values.astype(np.float32))
    cut = (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    assert not tolerance.in_bfloat16(near, allowed)
    assert " of 1000 are off, at (" in tolerance.in_bfloat16(cut, allowed)
    assert tolerance.in_bfloat16(near[:9], allowed) == "expected [1000], got [9]"
    nan = tolerance.Bound(4.0, 0.0, truth=np.array([np.nan, np.inf]))
    assert not tolerance.in_bfloat16(np.array([0xFFC0, 0x7F80], np.uint16), nan)
    assert tolerance.in_bfloat16(np.array([0x7F80, 0x7F80], np.uint16), nan)


@pytest.mark.parametrize(("op", "kinds"), [("IsNaN", ["bool"]), ("Sign", ["bf16"])])
def test_what_is_read(op: str, kinds: list[str]) -> None:
    """Casts read the device's storage, and a row of float32 between."""
    graph = Node(op, ("bf16", (3,)), kinds=kinds).read().graph
    assert graph.nodes[0].op == "cast" and len({node.sources for node in graph.nodes}) == 1
    assert graph.tensors[graph.nodes[0].outputs[0]].keep_f32
    assert graph.tensors[graph.outputs[0]].dtype == kinds[0]
