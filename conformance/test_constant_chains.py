"""Chains of constants, cut at random between us and the host, whose own delegate is beside ours:
what it keeps as weights of its own is never read here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from conformance import alone, constant_chains, host

SEEDS, BLOCK = range(168), 24  # the host is asked about a block of models at once
pytestmark = pytest.mark.adapter


@pytest.fixture
def poisoned() -> Iterator[None]:
    """Fresh memory of this process holds large numbers meanwhile."""
    alone.poison(True)
    yield
    alone.poison(False)


@pytest.mark.usefixtures("poisoned")
@pytest.mark.parametrize("seed", SEEDS)
def test_constants_cut_anywhere(
    seed: int, host_name: str, beside: str | None, options: Mapping[str, Any]
) -> None:
    first = seed - seed % BLOCK
    if beside and seed not in alone.sound(host_name, first, first + BLOCK - 1):
        pytest.skip(f"{host_name} beside its own delegate is wrong about this model without us")
    model, feeds, left = constant_chains.build(seed)
    content = model.to_bytes()
    expected = host.cached_on_cpu(content, feeds, host_name, "optimized")
    chosen = {**options, "force": True, "exclude": ",".join(map(str, left))}
    run = host.run_on_gpu(content, feeds, host_name, chosen, beside or "optimized")
    assert run.placement.failures == 0
    assert left or run.placement.on_gpu == run.placement.total
    if beside and not run.placement.on_gpu:
        pytest.skip("everything is left to the host")
    share = alone.far(expected, run.outputs)
    assert share <= 1.0, f"{share:.3g} of what is allowed, {left} on the CPU"
