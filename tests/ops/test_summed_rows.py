"""Tests normalizations that add up the partial sums of the preceding product, which is stored if
another op reads it."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from tests.support.net import Net
from tflgpu_plugin.compile import compiler, precision
from tflgpu_plugin.ir import Array, Graph, Target
from tflgpu_plugin.runtime import adapter
from tflgpu_plugin.runtime.program import Instance, Program

TARGET = Target(vendor="amd", tuning={"split_k": "always"})
KEPT = {"keep_num_dims": True, "activation": "none"}
EPSILON = 1e-3


def layers(
    channels: int, *, rows: int = 20, between: str = "", around: bool = False, centred: bool = True
) -> tuple[Graph, Array, Array]:
    """Returns the graph normalization(x + residual), where residual, also an output, has the first
    channels of x, and its weights and biases. `between`: an op after the product; `around`: the
    product is added to its normalization."""
    random = np.random.default_rng(channels)
    w = random.standard_normal((channels, 32)).astype(np.float32)
    bias = random.standard_normal(channels).astype(np.float32)
    shape = (1, rows, channels)
    b = Net()
    x, residual = b.input((1, rows, 32)), b.input(shape)
    made = b.op("fully_connected", x, b.constant(w), b.constant(bias), **KEPT)
    made = b.op("add", made, residual)
    if between:
        made = b.op(between, made, **{"alpha": 0.1} if between == "leaky_relu" else {})
    y = b.op("standardize", made, epsilon=EPSILON, centred=centred)
    if around:
        y = b.op("add", y, made)
    return b.graph(y, made), w, bias


def labels(graph: Graph, target: Target = TARGET) -> list[str]:
    return [d.label for d in compiler.compile(graph, target).dispatches if "pack" not in d.label]


def test_the_normalization_after_a_split_product_adds_up() -> None:
    assert labels(layers(64)[0]) == ["conv", "normalization"]
    assert labels(layers(64, between="relu")[0]) == ["conv", "normalization"]
    alone = replace(TARGET, tuning={"split_k": "never"})
    assert labels(layers(64)[0], alone) == ["conv", "normalization"]


def test_a_launch_of_its_own_adds_up_where_it_must() -> None:
    """The epilogue has parameters, there are too few buffers, or the normalization's own epilogue
    reads the sum."""
    apart = ["conv", "sum_parts", "normalization"]
    assert labels(layers(64, between="leaky_relu")[0]) == apart
    assert labels(layers(64, around=True)[0]) == apart
    assert labels(layers(64)[0], replace(TARGET, max_storage_buffers=5)) == [
        "conv",
        "normalization",
    ]
    assert labels(layers(64)[0], replace(TARGET, max_storage_buffers=4)) == apart


def held(channels: int, target: Target, rows: int) -> int:
    """Returns how many vec4 of a row a thread keeps in registers."""
    plan = compiler.compile(layers(channels, rows=rows)[0], target)
    (wgsl,) = (p.wgsl for p in plan.pipelines if p.label == "normalization")
    return len(re.findall(r"var x\d", wgsl))


@pytest.mark.parametrize(
    ("channels", "most"),
    [(8, 2), (32, 8), (60, 15), (256, 8), (508, 16), (512, 2), (4096, 16), (4100, 0)],
)
def test_threads_keep_short_rows(channels: int, most: int) -> None:
    rows = 1025 if channels < 4096 else 129
    assert held(channels, TARGET, rows) == most
    assert held(channels, replace(TARGET, software=True), rows) == 0


@pytest.mark.parametrize(("channels", "most"), [(508, 2), (4096, 4), (4100, 5), (16_388, 0)])
def test_more_threads_share_a_row_where_these_are_few(channels: int, most: int) -> None:
    assert held(channels, TARGET, rows=33) == most


@pytest.mark.adapter
@pytest.mark.parametrize("channels", [5, 40, 100, 768, 1100])
@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("software", [True, False])
@pytest.mark.parametrize("refused", [True, False])
def test_answers(channels: int, centred: bool, software: bool, refused: bool) -> None:
    """If the form is refused, a separate launch adds up the parts."""
    graph, w, bias = layers(channels, rows=9, centred=centred)
    device = adapter.open_device(adapter.select(None))
    target = replace(device.target, software=software, vendor="amd", tuning={"split_k": "always"})
    target = replace(target, without=frozenset({"normalize_sums"} if refused else ()))
    plan = compiler.compile(graph, target)
    assert ("sum_parts" in [d.label for d in plan.dispatches]) == refused
    assert ("normalize_sums" in [d.form for d in plan.dispatches]) != refused
    random = np.random.default_rng(1)
    x = random.standard_normal((1, 9, 32)).astype(np.float32)
    residual = random.standard_normal((1, 9, channels)).astype(np.float32)
    got, summed = Instance(Program(plan, device.handle, device.pipelines)).run([x, residual])
    wanted = x.astype(np.float64) @ w.T + bias + residual
    np.testing.assert_allclose(summed, wanted, rtol=1e-5, atol=1e-5)
    off = wanted - wanted.mean(-1, keepdims=True) if centred else wanted
    spread = np.sqrt((off**2).mean(-1, keepdims=True) + EPSILON)
    np.testing.assert_allclose(got, off / spread, rtol=1e-5, atol=1e-5)


@pytest.mark.adapter
@pytest.mark.parametrize("channels", [768, 1100])
@pytest.mark.parametrize("software", [True, False])
@pytest.mark.parametrize("kept", ["native", "words"])
def test_sums_in_float16(
    channels: int, software: bool, kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is no larger than with a separate launch, which stores the intermediate sum."""
    monkeypatch.setattr(precision, "CACHED_VECTORS", 0)
    device = adapter.open_device(adapter.select(None))
    if kept == "native" and "shader-f16" not in device.target.features:
        pytest.skip("this adapter has no shader-f16")
    graph, w, bias = layers(channels, rows=50)
    graph = replace(graph, outputs=graph.outputs[:1])
    random = np.random.default_rng(1)
    x = random.standard_normal((1, 50, 32)).astype(np.float32)
    residual = random.standard_normal((1, 50, channels)).astype(np.float32)
    wanted = x.astype(np.float64) @ w.T + bias + residual
    off = wanted - wanted.mean(-1, keepdims=True)
    wanted = off / np.sqrt((off**2).mean(-1, keepdims=True) + EPSILON)
    errors = []
    for split in ("always", "never"):
        target = replace(device.target, software=software, vendor="amd", half=True,
                         tuning={"split_k": split, "half": kept})  # fmt: skip
        plan = compiler.compile(graph, target)
        (wgsl,) = (p.wgsl for p in plan.pipelines if p.label == "normalization")
        assert ("f16" if kept == "native" else "halves(") in wgsl
        (got,) = Instance(Program(plan, device.handle, device.pipelines)).run([x, residual])
        errors.append(np.abs(got - wanted).max())
    assert errors[0] <= 1.05 * errors[1] < 3e-3
