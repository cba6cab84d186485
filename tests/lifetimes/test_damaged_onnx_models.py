"""ONNX models with seeded damage: ours refuses and computes what the CPU provider does, and the
process lives on."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.subprocesses import HANGS, ROOT

pytestmark = pytest.mark.adapter
pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")
SEEDS = 50


def test_damaged_models() -> None:
    """The process may die in the host's own kernels."""
    first, died = 0, 0
    while first < SEEDS:
        command = [sys.executable, "-m", "conformance.mutated_onnx", str(first), str(SEEDS)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=HANGS)
        assert "lease report" not in done.stdout + done.stderr, done.stderr
        if not done.returncode:
            break
        seed, stage = done.stdout.splitlines()[-1].split()[:2]
        assert stage == "cpu", done.stdout[-300:] + done.stderr[-2000:]
        first, died = int(seed) + 1, died + 1
    assert died < 4  # else it is none of the host's


def test_the_damage_is_the_same_every_time() -> None:
    from conformance import mutated_onnx

    assert mutated_onnx.model(7)[:2] == mutated_onnx.model(7)[:2]


# Ends, axes and a shape that are no vectors, and output_padding that is not below the stride.
@pytest.mark.parametrize("seed", [135, 162, 187, 276, 348])
def test_what_the_cpu_provider_refuses_is_refused(seed: int) -> None:
    from conformance import mutated_onnx

    _, data, feed = mutated_onnx.model(seed)
    alone, ours = (mutated_onnx.outcome(data, feed, gpu)[0] for gpu in (False, True))
    assert alone and ours
