"""Tests conformance on other CPUs: which tests run, and that their judge is right under
emulation."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "tools"))

import cpus
import drivers

NAMES = [f"conformance/{module}::test[{k}]" for k in range(50)
         for module in ("test_ops.py", *cpus.INTEGERS)]  # fmt: skip


def test_the_integer_part_is_whole() -> None:
    found = cpus.chosen(NAMES, 20, 0)
    others = [name for name in found if "test_ops" in name]
    assert (len(found), len(others)) == (len(cpus.INTEGERS) * 50 + 20, 20)
    assert found == [name for name in NAMES if name in set(found)]
    assert cpus.chosen(NAMES, 20, 1) != found
    assert cpus.chosen(NAMES, 500, 0) == NAMES


def test_every_test_runs_in_one_process() -> None:
    found = cpus.parts(NAMES)
    assert sorted(name for own in found.values() for name in own) == sorted(NAMES)
    assert {part: len(own) for part, own in found.items()} == {
        "onnx": 50, "others": 50, "tflite": 100
    }  # fmt: skip
    assert list(cpus.parts(NAMES[:1])) == ["others"]


@pytest.mark.parametrize(
    ("says", "reason"),
    [
        ("SSE42 AVX2 1e-15", ""),
        ("SSE42 AVX2 AVX512F 1e-15", "shows another CPU"),
        ("SSE42 1e-15", "shows another CPU"),
        ("SSE42 AVX2 0.7", "off by 0.7"),
        ("SSE42 AVX2 nan", "off by nan"),
        ("", "shows another CPU"),
    ],
)
def test_an_emulator_that_would_mislead_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, reason: str
) -> None:
    monkeypatch.setenv("TFLGPU_DRIVERS", str(tmp_path / "drivers"))
    emulator = tmp_path / "emulator"
    emulator.write_text(f"#!/bin/sh\necho {says}\n")
    emulator.chmod(0o755)
    python = cpus.own(str(emulator), "Haswell")
    if not reason:
        return cpus.check(cpus.CPUS["Haswell"], python)
    with pytest.raises(drivers.Unavailable, match=reason):
        cpus.check(cpus.CPUS["Haswell"], python)


@pytest.mark.parametrize("name", cpus.CPUS)
def test_the_judge_is_right_under_emulation(name: str) -> None:
    """QEMU computes some instructions wrongly: numpy, which judges, must not use them."""
    own = drivers.folder() / cpus.PACKAGE / "usr" / "bin" / cpus.EMULATOR
    found = shutil.which(cpus.EMULATOR) or str(own)
    if not Path(found).exists():
        pytest.skip(f"no {cpus.EMULATOR}: `make conformance-cpus` unpacks one")
    cpus.check(cpus.CPUS[name], cpus.own(found, name))
