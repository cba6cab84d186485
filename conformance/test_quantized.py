"""8-bit twins of the float32 cases, through the delegate, against the host's reference kernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from conformance import host, models, quantized_cases
from conformance.cases import Case

CASES = [
    pytest.param(case, id=f"{family}-{case.op}-{case.name}")
    for family, case in quantized_cases.twins()
]


@pytest.mark.adapter
@pytest.mark.parametrize("case", CASES)
def test_case(case: Case, options: Mapping[str, Any]) -> None:
    try:
        twin = quantized_cases.quantize(case)
        model = models.build(twin)
    except ValueError as reason:
        pytest.skip(f"no twin: {reason}")
    name, kernels = host.oracle(model)
    feeds = host.case_feeds(twin, 1)
    try:
        expected = host.cached_on_cpu(model, feeds, name, kernels)
    except (RuntimeError, ValueError) as reason:
        pytest.skip(f"the host refuses this model: {reason}")
    run = host.run_on_gpu(model, feeds, name, options, kernels)
    assert run.placement.on_gpu == 1 and not run.placement.failures, run.placement.sentences
    for wanted, got in zip(expected[0], run.outputs[0], strict=True):
        assert wanted.shape == got.shape and wanted.dtype == got.dtype
        largest, share = quantized_cases.steps_off(wanted, got)
        assert largest <= quantized_cases.FAR, f"{largest} steps off"
        assert share <= quantized_cases.SHARE, f"{share:.2%} of {wanted.size} values are off"
