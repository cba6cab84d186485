"""Samples of `python -m tests.support.fault_runs`: faults of the GPU in the middle of runs, and
while sessions and interpreters are made, end in a right answer or in a sentence."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from conformance import host as hosts
from tests.support import faulty
from tests.support.subprocesses import run_python

pytestmark = [
    pytest.mark.adapter,
    pytest.mark.skipif(
        sys.platform != "linux" or not shutil.which("cc"), reason="needs a C compiler on Linux"
    ),
]
CODE = """
import tflgpu_plugin
from tests.support import faults
tflgpu_plugin.register()
for case, kind, first, step, calls in {samples!r}:
    numbers = range(first, 1000, step)
    for number, call, found in faults.each(case, kind, numbers, calls):
        print(f"{{case}}, {{kind}}: {{found}}")
print(f"checks: {{faults.checks()}}")
"""
BOUNDS = 1  # WGPUShaderRuntimeChecks_BoundsChecks alone: no counters of iterations
# A case, a kind, the first call and the distance of calls, and before which calls a device is lost.
READING = "BufferGetConstMappedRange"
SAMPLES = {
    "sessions": [
        ("session", "loss", 3, 13, ""),
        ("asynchronous", "loss", 9, 24, ""),
        ("tensors", "loss", 5, 17, ""),
        ("tensors", "mapping", 0, 1, ""),
        ("tensors", "buffer", 0, 1, ""),
        ("new shapes", "buffer", 1, 3, ""),
        ("new session", "buffer", 0, 16, ""),
        ("new session", "shader", 3, 4, ""),
        ("new session", "internal", 3, 4, ""),
    ],
    "interpreters": [
        ("small states", "loss", 0, 1, READING),
        ("states", "mapping", 0, 3, ""),
        ("states", "loss", 7, 60, ""),
        ("recorded states", "mapping", 2, 3, ""),
        ("untimed states", "queries", 0, 1, ""),
        ("interpreter", "loss", 4, 23, ""),
        ("new interpreter", "buffer", 0, 7, ""),
        ("new interpreter", "shader", 1, 2, ""),
        ("new interpreter", "pipeline", 0, 3, ""),
    ],
}
MUST = {
    "sessions": {
        "session, loss: right", "asynchronous, loss: right", "tensors, loss: device was lost",
        "tensors, buffer: not enough memory", "tensors, mapping: could not be read back",
        "new session, internal: right",
    },
    "interpreters": {
        "small states, loss: right", "states, loss: device was lost",
        "states, mapping: changed the states on the GPU, and then failed",
        "recorded states, mapping: right", "untimed states, queries: right",
        "interpreter, loss: right", "new interpreter, shader: right",
    },
}  # fmt: skip


RANDOM = """
import tflgpu_plugin
from tests.support import random_faults
tflgpu_plugin.register()
for seed, found in random_faults.sweep(range(14)):
    print(found)
"""
LEAST = """
import tflgpu_plugin
from tests.support import faults
from tflgpu_plugin.runtime import adapter
tflgpu_plugin.register()
limits = dict(adapter.select(None).limits)
assert limits["max-buffer-size"] == 1 << 28, limits
assert limits["max-compute-workgroup-storage-size"] == 1 << 14, limits
for case in faults.CASES.values():
    one = case()
    one.prepare()
    one.work()
    one.check_place()
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return faulty.build(tmp_path_factory.mktemp("faulty"))


@pytest.fixture(autouse=True)
def both_hosts() -> None:
    if not hosts.installed():
        pytest.skip("no TFLite host: pip install -e .[tflite]")
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")


@pytest.mark.parametrize("name", SAMPLES)
def test_a_fault_ends_in_an_answer_or_a_sentence(tree: Path, name: str) -> None:
    done = run_python(CODE.format(samples=SAMPLES[name]), PYTHONPATH=str(tree))
    assert MUST[name] | {f"checks: {BOUNDS}"} <= set(done.stdout.splitlines()), done.stdout


def test_faults_in_random_graphs(tree: Path) -> None:
    done = run_python(RANDOM, PYTHONPATH=str(tree))
    found = [line for line in done.stdout.splitlines() if " at " in line]
    assert len(found) > 9 and sum("at none" not in line for line in found) > 5, found


def test_an_adapter_with_the_least_limits(tree: Path) -> None:
    """The driver's own limits are larger, and an adapter refuses what exceeds those that its device
    asked for."""
    run_python(LEAST, PYTHONPATH=str(tree), TFLGPU_TEST_LIMITS=",".join(faulty.LEAST))
