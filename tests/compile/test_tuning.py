"""Tests which settings are tried on the device and kept. A table of times stands for the device."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.compile.test_compiler import TARGET
from tests.support.net import WINDOW, Net
from tflgpu_plugin.compile import compiler, tuning
from tflgpu_plugin.ir import Target

GPU = replace(TARGET, software=False, vendor="amd")


def kept(monkeypatch: pytest.MonkeyPatch, target: Target, faster: str) -> dict[str, str]:
    """Returns the settings that are kept if one setting with this key is twice as fast as all
    others."""

    def planned(graph: Any, target: Target) -> Any:
        return SimpleNamespace(tuning=target.tuning, structure=repr(target.tuning))

    monkeypatch.setattr(tuning, "compiler", SimpleNamespace(compile=planned))
    monkeypatch.setattr(tuning, "create", lambda plan, device, own: plan)
    monkeypatch.setattr(tuning, "Instance", lambda plan: plan)
    monkeypatch.setattr(tuning, "fastest_run", lambda plan: 1.0 if faster in plan.tuning else 2.0)
    return tuning.best_settings(None, None, target)  # type: ignore[arg-type]


def test_the_fastest_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    assert kept(monkeypatch, GPU, "split_k") == {"split_k": "never", "reduce_parts": "never"}
    assert kept(monkeypatch, GPU, "no such") == {}


def test_float32_is_kept_where_float16_is_slower(monkeypatch: pytest.MonkeyPatch) -> None:
    assert kept(monkeypatch, replace(GPU, half=True, native_half=True), "half") == {"half": "never"}
    assert kept(monkeypatch, GPU, "half") == {}  # not allowed: nothing to try


def test_nothing_is_float16_then() -> None:
    b = Net()
    x, weights = b.input((1, 7, 7, 256)), np.ones((256, 1, 1, 256), np.float32)
    y = b.op("conv_2d", x, b.constant(weights), None, **WINDOW)
    graph, target = b.graph(y), replace(GPU, half=True, native_half=True)
    found = [
        {each.half for each in compiler.compile(graph, replace(target, tuning=given)).weights}
        for given in ({}, {"half": "never"})
    ]
    assert found == [{True}, {False}]
