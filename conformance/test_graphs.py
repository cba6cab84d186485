"""Random graphs through the delegate against the host's reference kernels, each twice with other
data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from conformance import host, tolerance
from conformance.models.tflite import Model
from conformance.random import graphs as random_graphs, quantized as random_quantized
from conformance.variants import quantized as quantized_cases

SEEDS = range(120)


@pytest.mark.adapter
@pytest.mark.parametrize("seed", range(random_graphs.CHOOSING + 60))
def test_random_graph(
    seed: int, host_name: str, beside: str | None, options: Mapping[str, Any]
) -> None:
    model, feeds = random_graphs.build(seed)
    content = model.to_bytes()
    name, kernels = host.oracle(content, host_name)
    if not host.registers(content, host_name, kernels):
        pytest.skip(f"{host_name} is older than an operator of this graph")
    expected = host.cached_on_cpu(content, feeds, name, kernels)
    chosen = {**options, "force": True, "exclude": ",".join(random_graphs.ON_THE_CPU)}
    run = host.run_on_gpu(content, feeds, host_name, chosen, beside or kernels)
    place = run.placement
    foreign = sum(o.op in random_graphs.ON_THE_CPU for o in model.operators)
    assert place.on_gpu == place.total - foreign, place.sentences
    assert place.failures == 0 and set(place.runs) <= {len(feeds)}
    for wanted, got in zip(expected, run.outputs, strict=True):
        for tensor, a, b in zip(model.outputs, wanted, got, strict=True):
            assert a.shape == b.shape
            wide, found = a.astype(np.float64), b.astype(np.float64)
            error = float(np.abs(wide - found).max())
            largest = max(tolerance.FAINT, float(np.abs(wide).max()))
            assert error <= tolerance.GRAPH * largest, f"tensor {tensor} of\n{_listing(model)}"


@pytest.mark.adapter
@pytest.mark.dtype("i8")
@pytest.mark.parametrize("seed", SEEDS)
def test_random_quantized_graph(
    seed: int, host_name: str, beside: str | None, options: Mapping[str, Any]
) -> None:
    """Graphs agree as full-integer models, in levels of the outputs."""
    found = random_quantized.build(seed)
    if found is None:
        pytest.skip("an operator of this graph has no int8 kernel in the host")
    model, feed = found
    content = model.to_bytes()
    (expected,) = host.cached_on_cpu(content, [feed], *host.oracle(content, host_name))
    chosen = {**options, "force": True}
    run = host.run_on_gpu(content, [feed], host_name, chosen, beside or "reference")
    assert run.placement.on_gpu == run.placement.total, run.placement.sentences
    rule = quantized_cases.rule_of(*(o.op for o in model.operators))
    for tensor, a, b in zip(model.outputs, expected, run.outputs[0], strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        if rule == "exact":
            known = _of_a_host(content, feed, model.outputs.index(tensor), b)
            assert known.all(), f"tensor {tensor}, {(~known).sum()} values, of\n{_listing(model)}"
        largest, share = quantized_cases.steps_off(a, b)
        text = f"tensor {tensor}, {largest} steps off, of\n{_listing(model)}"
        assert largest <= quantized_cases.GRAPH_FAR, text
        assert share <= quantized_cases.GRAPH_SHARE, text


def _of_a_host(content: bytes, feed: host.Feed, output: int, got: host.Array) -> host.Array:
    """Returns which elements are equal to those of a host's reference kernels: one version computes
    the factors of fully connected layers in float32, another in float64."""
    runs = [host.cached_on_cpu(content, [feed], name)[0][output] for name in host.installed()]
    found: host.Array = np.logical_or.reduce([got == run for run in runs])
    return found


def _listing(model: Model) -> str:
    def shown(tensor: int) -> str:
        return f"%{tensor}{list(model.tensors[tensor].shape)}"

    return "\n".join(
        f"{shown(o.outputs[0])} = {o.op}({', '.join(map(shown, o.inputs))}) {dict(o.options)}"
        for o in model.operators
    )
