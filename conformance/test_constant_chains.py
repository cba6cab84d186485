"""Tests chains of constants that are cut at random between the plugin and the host, whose own
delegate runs beside it: what that keeps as its weights is never read here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from conformance import alone, host
from conformance.host import Feed
from conformance.models.tflite import Model
from conformance.random import constant_chains, cut_chains

SEEDS, BLOCK = range(168), 24  # the host is asked about a block of models at once
pytestmark = [
    pytest.mark.adapter,
    pytest.mark.filterwarnings("ignore:.*preserve_all_tensors"),
]


@pytest.fixture
def poisoned() -> Iterator[None]:
    """Makes new memory of this process contain large numbers while the block runs."""
    alone.poison(True)
    yield
    alone.poison(False)


@pytest.mark.usefixtures("poisoned")
@pytest.mark.parametrize("seed", SEEDS)
def test_constants_cut_anywhere(
    seed: int, host_name: str, beside: str | None, options: Mapping[str, Any]
) -> None:
    first = seed - seed % BLOCK
    sound = alone.verdicts(host_name, first, first + BLOCK - 1)[seed - first] if beside else "right"
    if sound == alone.CRASH:
        pytest.skip(f"{host_name} beside its own delegate ends the process without us")
    model, feeds, left = constant_chains.build(seed)
    chosen = {**options, "force": True, "exclude": ",".join(map(str, left))}
    if sound == alone.WRONG:  # without us, too: then what our nodes make of what they are given
        share = cut_chains.worst(model, feeds, host_name, chosen)
    else:
        share = _whole(model, feeds, left, host_name, beside, chosen)
    assert share <= 1.0, f"{share:.3g} of what is allowed, {left} on the CPU"


def _whole(
    model: Model, feeds: list[Feed], left: list[int], name: str, beside: str | None,
    chosen: Mapping[str, Any],
) -> float:  # fmt: skip
    """Returns the largest error of the model's outputs."""
    content = model.to_bytes()
    expected = host.cached_on_cpu(content, feeds, name, "optimized")
    delegate = host.load_delegate(name, chosen)
    kernels = beside or "optimized"
    made = host.interpreter(content, name, kernels, experimental_delegates=[delegate])
    made.allocate_tensors()
    found = alone.invoke(made, feeds)
    placement = host.placement(delegate)
    assert placement.failures == 0
    assert left or placement.on_gpu == placement.total
    if beside and not placement.on_gpu:
        pytest.skip("everything is left to the host")
    return alone.far(expected, found)
