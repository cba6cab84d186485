"""float16 in ONNX Runtime: the real models as float16 models, computed in float32, and the float32
models with `is_precision_loss_allowed`, against a simulation of float16 storage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from conformance import half_storage, model_inputs, onnx_half, onnx_host, onnx_models, tolerance
from conformance.host import Outputs
from conformance.real_models import stem

ENTRIES = [e for e in onnx_models.entries() if e["kind"] == "float32"]
LARGE = ("fns_candy",)  # one feed, because half a minute goes by
# The simulation, too, is further from float32 than HALF_MODEL: an early layer adds up large terms
# of both signs.
SENSITIVE = ("yolox_nano",)
# onnxruntime's own error where results are small.
OWN = max(v for (name, _), v in tolerance.HOST_FLOORS.items() if name == onnx_host.NAME)

pytestmark = [
    pytest.mark.adapter,
    pytest.mark.onnxruntime,
    pytest.mark.skipif(not ENTRIES, reason="real ONNX models: ../shared is absent"),
]


def _feeds(entry: Mapping[str, Any]) -> list[onnx_models.Feed]:
    """Without faint noise, for which the largest outputs are small errors themselves."""
    found = [feed for kind, feed in onnx_models.feeds(entry).items() if "noise" not in kind]
    return found[: 1 if stem(entry) in LARGE else None]


def _load(entry: Mapping[str, Any]) -> Any:
    import onnx

    return onnx.load(str(model_inputs.path(entry)))


def _cpu(model: Any) -> Any:
    return onnx_host.session(model.SerializeToString(), cpu=True)


def _arrays(outputs: Any) -> Outputs:
    if any(isinstance(value, list) for value in outputs):
        pytest.skip("its output is a map of classes to scores")
    return [np.asarray(value) for value in outputs]


@pytest.mark.parametrize("entry", ENTRIES, ids=stem)
def test_float16_models(entry: Mapping[str, Any], pytestconfig: pytest.Config) -> None:
    """As many nodes on the GPU as of the float32 model; answers are those of float32 over the same
    weights, rounded once."""
    wanted = pytestconfig.getoption("--adapter", default=None)
    model, half = _load(entry), onnx_half.float16(_load(entry))
    try:
        _cpu(half)
    except Exception as error:  # onnxruntime has no common class for what it raises
        pytest.skip(f"the CPU provider does not load it as float16: {error}")
    full, plain = (
        _cpu(onnx_half.rounded_weights(model)),
        onnx_host.session(half.SerializeToString(), wanted),
    )
    for feed in _feeds(entry)[:1]:
        given = {name: half_storage.rounded(value) for name, value in feed.items()}
        short = {n: v.astype(np.float16) if v.dtype == np.float32 else v for n, v in given.items()}
        expected, got = _arrays(full.run(None, given)), _arrays(plain.run(None, short))
        for k, (want, have) in enumerate(zip(expected, got, strict=True)):
            assert have.dtype == (np.float16 if want.dtype == np.float32 else want.dtype)
            _near(k, want, have)
    whole = onnx_host.session(model.SerializeToString(), wanted)
    assert onnx_host.placement(plain).on_gpu >= onnx_host.placement(whole).on_gpu > 0
    assert onnx_host.placement(plain).failures == 0


def _near(k: int, want: Any, have: Any) -> None:
    """Within the bound of float32, and half a unit in the last place of float16."""
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
    """No error over 1e-2 of an output's largest magnitude, and in the mean at most twice as far
    from float32 as the simulation."""
    model = _load(entry)
    try:
        simulation, full = _cpu(onnx_half.simulation(model)), _cpu(model)
    except Exception as error:
        pytest.skip(f"the CPU provider does not load its simulation: {error}")
    wanted = pytestconfig.getoption("--adapter", default=None)
    ours = onnx_host.session(model.SerializeToString(), wanted, half=True)
    expected, simulated, got = (
        [_arrays(one.run(None, feed)) for feed in _feeds(entry)] for one in (full, simulation, ours)
    )
    assert onnx_host.placement(ours).on_gpu > 0
    found, measure = (half_storage.distance(expected, some) for some in (got, simulated))
    problem = half_storage.wrong(found, measure, stem(entry) in SENSITIVE)
    assert not problem, problem
