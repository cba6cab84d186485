"""Plans with symbols release their memory when they are replaced or end."""

from __future__ import annotations

import gc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.native.test_symbols import Make, device, started
from tests.support import native_plans
from tests.support.fake_host import OK, X
from tests.support.measured import measured
from tests.support.symbolic_plans import ROOM, copying
from tflgpu_plugin import native
from tflgpu_plugin.ir import Buffer, Plan
from tflgpu_plugin.runtime.program import native_symbols

pytestmark = pytest.mark.adapter
__all__ = ["device", "started"]
STATUS = Path("/proc/self/status")
LARGE, ROUNDS = 4 << 20, 20  # bytes of uniforms; plans


def large(made: Plan) -> Plan:
    """Returns the plan with many more uniforms, which no kernel reads."""
    data = made.uniforms.ljust(LARGE, b"\1")
    return replace(made, uniforms=data, buffers=(Buffer("uniforms", LARGE), *made.buffers[1:]))


def held() -> int:
    gc.collect()
    lines = dict(line.split(":", 1) for line in STATUS.read_text().splitlines())
    return sum(int(lines[name].split()[0]) * 1024 for name in ("RssAnon", "RssShmem"))


@pytest.mark.skipif(not STATUS.exists(), reason="reads how much memory a process of Linux holds")
@measured
def test_memory_of_plans_that_are_replaced_is_released(started: Make) -> None:
    running: Any = started(copying(), change=large)
    for step in range(4 + ROUNDS):
        if step == 4:
            before = held()
        running.shape(X, (8,))
        running.build(0, running.kernels[0])  # in place of the one before
        assert running.prepare() == [OK] and not running.invoke()
        assert running.run(9) and running.run(10) and running.run(8)
        running.refusal = b"It is too large."
        running.shape(X, (ROOM + 1,))
        assert running.prepare() == [OK]
        running.refusal = b""
    assert held() - before < ROUNDS * LARGE / 4


@pytest.mark.skipif(not STATUS.exists(), reason="reads how much memory a process of Linux holds")
@measured
def test_memory_of_symbols_that_are_refused_is_released(started: Make) -> None:
    running: Any = started(copying(), change=large)
    made = running.made
    tables = copying()
    tables.guards.append(("zero", 0))
    wrong = replace(made.plan, symbols=tables.made())
    before = held()
    for _ in range(ROUNDS):
        with pytest.raises(native.NativeError, match="refuse its own shapes"):
            native_plans.add(running.kernels[0], [1, 8], [1, 72], made.replay,
                             symbols=native_symbols(wrong))  # fmt: skip
    assert held() - before < ROUNDS * LARGE / 4
