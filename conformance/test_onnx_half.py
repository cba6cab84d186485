"""float16 in ONNX Runtime: the real models as float16 models, computed in float32, and the float32
models with `is_precision_loss_allowed`, against a simulation of float16 storage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from conformance import onnx_host, tolerance
from conformance.models import model_inputs
from conformance.models.real_models import stem
from conformance.variants import half_models, half_storage, onnx_half
from conformance.variants.half_models import arrays, cpu, feeds, load

ENTRIES = half_models.onnx_entries()
# onnxruntime's own error where results are small.
OWN = max(v for (name, _), v in tolerance.HOST_FLOORS.items() if name == onnx_host.NAME)

pytestmark = [
    pytest.mark.adapter,
    pytest.mark.onnxruntime,
    pytest.mark.skipif(not ENTRIES, reason=model_inputs.ABSENT_ONNX),
]


@pytest.mark.parametrize("entry", ENTRIES, ids=stem)
def test_float16_models(entry: Mapping[str, Any], pytestconfig: pytest.Config) -> None:
    """The GPU gets as many nodes as of the float32 model; results are those of float32 over the
    same weights, rounded once."""
    wanted = pytestconfig.getoption("--adapter", default=None)
    model, half = load(entry), onnx_half.float16(load(entry))
    try:
        cpu(half)
    except Exception as error:  # onnxruntime has no common class for what it raises
        pytest.skip(f"the CPU provider does not load it as float16: {error}")
    full, plain = (
        cpu(onnx_half.rounded_weights(model)),
        onnx_host.session(half.SerializeToString(), wanted),
    )
    for feed in feeds(entry)[:1]:
        given = {name: half_storage.rounded(value) for name, value in feed.items()}
        short = {n: v.astype(np.float16) if v.dtype == np.float32 else v for n, v in given.items()}
        expected, got = arrays(full.run(None, given)), arrays(plain.run(None, short))
        for k, (want, have) in enumerate(zip(expected, got, strict=True)):
            assert have.dtype == (np.float16 if want.dtype == np.float32 else want.dtype)
            _near(k, want, have)
    whole = onnx_host.session(model.SerializeToString(), wanted)
    assert onnx_host.placement(plain).on_gpu >= onnx_host.placement(whole).on_gpu > 0
    assert onnx_host.placement(plain).failures == 0


def _near(k: int, want: Any, have: Any) -> None:
    """Whether the difference is within the bound of float32 plus half a unit in the last place of
    float16."""
    if want.dtype.kind != "f":
        np.testing.assert_array_equal(want, have)
        return
    true, found = want.astype(np.float64), have.astype(np.float64)
    rounding = np.maximum(np.abs(true) * 2.0**-11, tolerance.HALF_SUBNORMAL)
    allowed = tolerance.MODEL * (np.abs(true).max(initial=0.0) or 1.0) + rounding + OWN
    worst = float((np.abs(true - found) / allowed).max(initial=0.0))
    assert worst <= 1.0, f"output {k} {list(want.shape)}: {worst:.2f} of what is allowed"


@pytest.mark.parametrize("entry", ENTRIES, ids=stem)
def test_float16_storage(entry: Mapping[str, Any], pytestconfig: pytest.Config) -> None:
    """The largest error is at most 1e-2 of an output's largest magnitude. The largest and the mean
    error are at most twice those of the simulation."""
    wanted = pytestconfig.getoption("--adapter", default=None)
    try:
        outcome = half_models.onnx(entry, wanted)
    except half_models.Unmeasured as reason:
        pytest.skip(str(reason))
    assert outcome.placement.on_gpu > 0
    problem = half_storage.wrong(outcome.found, outcome.measure)
    assert not problem, problem
