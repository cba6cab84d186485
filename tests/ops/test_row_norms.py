"""Tests normalization in the launch of the product that reads its result."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support.harness import device_of, run_graph
from tests.support.net import Net
from tflgpu_plugin.compile import compiler
from tflgpu_plugin.ir import Array, Target
from tflgpu_plugin.runtime.program import Instance, Program

EPSILON, OUTPUTS, BLOCK = 1e-5, 10, 16
RNG = np.random.default_rng(11)
GPU = Target(name="plain")


def normed(n: Net, x: int, gains: bool, centred: bool = False, wide: bool = True) -> int:
    made = n.op("standardize", x, epsilon=EPSILON, centred=centred)
    if not gains:
        return made
    return n.binary("mul", made, n.drawn(*((n.shape(x)[-1],) if wide else n.shape(x))))


def blocks(n: Net, x: int, bits: int) -> tuple[int, Array]:
    """Adds a product with weights in blocks; returns its result and the weights as float64."""
    depth = n.shape(x)[-1]
    count, each = -(-depth // BLOCK), 32 // bits
    words = RNG.integers(-(2**31), 2**31, (OUTPUTS, count, BLOCK // each)).astype(np.int32)
    scales = RNG.uniform(0.1, 1, (OUTPUTS, count)).astype(np.float32)
    y = n.op("matmul_blocks", x, n.constant(words), n.constant(scales), bits=bits, block=BLOCK)
    levels = (words.astype(np.int64)[..., None] >> bits * np.arange(each)) % 2**bits
    numbers = (levels.reshape(OUTPUTS, count, BLOCK) - 2 ** (bits - 1)) * scales[..., None]
    return y, numbers.reshape(OUTPUTS, -1)[:, :depth]


def wanted(x: Array, gains: Array | float, weights: Array, added: Array | float = 0.0) -> Array:
    x = x.astype(np.float64)
    made = x / np.sqrt(np.mean(x * x, -1, keepdims=True) + EPSILON) * gains + added
    return made @ weights.astype(np.float64).T


def run(n: Net, y: int, values: Array, target: Target) -> Array:
    """Returns the result of a plan without a launch for the normalization."""
    plan, device = compiler.compile(n.graph(y), target), device_of()
    assert "normalization" not in [dispatch.label for dispatch in plan.dispatches]
    (found,) = Instance(Program(plan, device.handle, device.pipelines)).run([values], [])
    return found


def labels(n: Net, *outputs: int, target: Target = GPU) -> list[str]:
    return [d.label for d in compiler.compile(n.graph(*outputs), target).dispatches]


def targets() -> list[Target]:
    own = device_of().target
    gpu = replace(own, software=False, vendor="unknown")
    return [own, replace(own, subgroup_size=0), gpu, replace(gpu, subgroup_size=0)]


@pytest.mark.adapter
@pytest.mark.parametrize("gains", [False, True])
@pytest.mark.parametrize("bits", [32, 8, 4])
@pytest.mark.parametrize("shape", [(1, 1100), (1, 3, 33), (3, 2, 50)])
def test_products_normalize_their_input(shape: tuple[int, ...], bits: int, gains: bool) -> None:
    n = Net()
    x = n.input(shape)
    made = normed(n, x, gains)
    factors = n.tensors[n.nodes[-1].inputs[1]].data if gains else 1.0
    if bits == 32:
        y = n.dense(made, OUTPUTS)
        weights, bias = (n.tensors[t].data for t in n.nodes[-1].inputs[1:])
    else:
        (y, weights), bias = blocks(n, made, bits), np.float32(0.0)
    assert weights is not None and factors is not None and bias is not None
    values = RNG.uniform(-0.5, 3, shape).astype(np.float32)
    expected = wanted(values, factors, weights) + bias
    for target in targets():
        found = run(n, y, values, target)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


@pytest.mark.adapter
@pytest.mark.parametrize(("gains", "added"), [(0, 0), (1, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize("shape", [(1, 1100), (1, 3, 33), (3, 2, 50)])
def test_products_subtract_the_mean_of_their_input(
    shape: tuple[int, ...], gains: bool, added: bool
) -> None:
    """The mean is a thousand times the spread: from sums of squares alone, none would be left."""
    n = Net()
    made = normed(n, n.input(shape), bool(gains), centred=True)
    factors = n.tensors[n.nodes[-1].inputs[1]].data if gains else np.float32(1.0)
    made = n.binary("add", made, n.drawn(shape[-1])) if added else made
    summands = n.tensors[n.nodes[-1].inputs[1]].data if added else np.float32(0.0)
    y = n.dense(made, OUTPUTS)
    weights, bias = (n.tensors[t].data for t in n.nodes[-1].inputs[1:])
    assert weights is not None and bias is not None
    assert factors is not None and summands is not None
    values = RNG.uniform(999, 1001, shape).astype(np.float32)
    centred = values.astype(np.float64) - values.mean(-1, keepdims=True, dtype=np.float64)
    expected = wanted(centred, factors, weights, summands) + bias
    for target in targets():
        if target.teams:
            found = run(n, y, values, target)
            tolerance = 2e-3 * np.abs(expected).max()
            np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)


@pytest.mark.adapter
@pytest.mark.parametrize("bits", [32, 8, 4])
def test_an_infinite_gain_of_the_last_channel_is_counted_once(bits: int) -> None:
    """Threads beyond the last slice of a row must not multiply by the gains of that slice."""
    n = Net()
    gains = np.ones(36, np.float32)
    gains[-1] = np.inf
    made = n.binary("mul", n.op("standardize", n.input((1, 36)), epsilon=EPSILON, centred=False),
                    n.constant(gains))  # fmt: skip
    y = n.dense(made, OUTPUTS) if bits == 32 else blocks(n, made, bits)[0]
    for target in targets():
        found = run(n, y, np.ones((1, 36), np.float32), target)
        assert np.isinf(found).any() and (bits < 32 or np.isinf(found).all())


@pytest.mark.adapter
def test_infinite_weights_and_a_bias_have_a_launch() -> None:
    """The weights times the bias, infinite or NaN, are no summand for an infinite product."""
    weights = np.ones((4, 16), np.float32)
    weights[1, 2] = np.inf
    for bias in (0.0, -0.5):
        n = Net()
        x = n.input((1, 16))
        made = n.op("standardize", x, epsilon=EPSILON, centred=False)
        made = n.binary("add", made, n.constant(np.full(16, bias, np.float32)))
        y = n.op("fully_connected", made, n.constant(weights), None, keep_num_dims=True,
                 activation="none")  # fmt: skip
        found = run_graph(n.graph(y), {x: np.ones((1, 16), np.float32)})[y]
        assert np.array_equal(np.isposinf(found), [[False, True, False, False]])


def test_products_of_one_normalization_need_no_launch_for_it() -> None:
    n = Net()
    made = normed(n, n.input((1, 64)), True)
    (one, other), more = (n.dense(made, 4) for _ in range(2)), n.op("exp", made)
    assert labels(n, one, other).count("fully_connected") == 2
    assert "normalization" not in labels(n, one, other)
    assert "normalization" in labels(n, one, more)
    assert labels(n, one, made).count("normalization") == 1


@pytest.mark.parametrize("case", ["wide", "other", "many", "turned", "blocks"])
def test_other_normalizations_have_a_launch(case: str) -> None:
    """Factors of each element; another step; a convolution's many rows; rows that are not those of
    the normalization; a mean before weights in blocks."""
    n = Net()
    x = n.input((1, 64, 16) if case == "many" else (1, 3, 16))
    made = normed(n, x, True, case == "blocks", case != "wide")
    made = n.op("exp", made) if case == "other" else made
    made = n.reshape(made, 2, 24) if case == "turned" else made
    y = blocks(n, made, 4)[0] if case == "blocks" else n.dense(made, 8)
    assert "normalization" in labels(n, y)


@pytest.mark.parametrize(
    ("target", "width", "apart"),
    [
        (Target(software=True, subgroup_size=8), 256, False),
        (Target(software=True, subgroup_size=8), 512, True),
        (GPU, 16384, False),
        (GPU, 32768, True),
    ],
)
def test_long_products_have_a_launch(target: Target, width: int, apart: bool) -> None:
    """There the work that the product repeats takes longer than a launch."""
    n = Net()
    found = labels(n, n.dense(normed(n, n.input((1, width)), True), 512), target=target)
    assert ("normalization" in found) == apart


def test_no_more_buffers_than_an_adapter_binds() -> None:
    for most, apart in ((5, False), (4, True)):
        n = Net()
        y = n.dense(normed(n, n.input((1, 64)), True), 8)
        target = replace(GPU, max_storage_buffers=most)
        assert ("normalization" in labels(n, y, target=target)) == apart
