"""Tests how a device's calibration is made once, kept, and applied; and that whatever happens
meanwhile leaves the vendor's settings. A function stands for the measurement."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.net import WINDOW, Net
from tests.support.subprocesses import run_python
from tflgpu_plugin import engine, native
from tflgpu_plugin.cache import folders
from tflgpu_plugin.cli import doctor
from tflgpu_plugin.compile import calibration, compiler, microbenchmarks
from tflgpu_plugin.ir import Target
from tflgpu_plugin.ir.calibration import SETTINGS, THREADS, Calibration
from tflgpu_plugin.options import Options
from tflgpu_plugin.registry import Registry
from tflgpu_plugin.runtime import adapter
from tflgpu_plugin.runtime.device import AdapterInfo, Device
from tflgpu_plugin.runtime.program import Instance, Program

INFO = AdapterInfo("GPU", "amd", "driver 1", "Vulkan", "discrete", 1, 2)
FOUND = Calibration({"weights": "memory", "lanes": "64"}, 1 << 13, {"weights": {"memory": 1.5}})

PART = replace(FOUND, state="incomplete", left=("threads", "attention"))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns the folder of the user's cache, which is empty, as is the process's memory."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name in ("TFLGPU_NO_CALIBRATION", "TFLGPU_NO_CACHE"):
        monkeypatch.delenv(name, raising=False)
    another_process(monkeypatch)
    return tmp_path / "tflgpu-plugin" / "calibration"


def another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "calibrations", Registry())


def device(info: AdapterInfo = INFO) -> Device:
    return Device(info, None, Target(vendor=info.vendor))


class Measuring:
    """Stands for a measurement, and counts its calls."""

    def __init__(self, found: Calibration | BaseException = FOUND, seconds: float = 0) -> None:
        self.found, self.seconds, self.calls = found, seconds, 0
        self.earlier: Calibration | None = None

    def __call__(self, device: Device, earlier: Calibration | None) -> Calibration:
        self.calls += 1
        self.earlier = earlier
        time.sleep(self.seconds)
        if isinstance(self.found, BaseException):
            raise self.found
        return self.found


def test_a_device_is_measured_once(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    first, second = Measuring(), Measuring()
    assert calibration.known(INFO) is None
    assert calibration.of(device(), first) == calibration.of(device(), first) == FOUND
    another_process(monkeypatch)
    assert calibration.of(device(), second) == FOUND == calibration.known(INFO)
    assert (first.calls, second.calls) == (1, 0)
    (file,) = home.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "other",
    [{"driver": "driver 2"}, {"name": "G"}, {"features": ("shader-f16",)}, {"backend": "Metal"}],
)
def test_another_driver_is_measured_again(other: dict[str, Any]) -> None:
    calibration.of(device(), Measuring())
    again = Measuring(Calibration(threads=1 << 15))
    assert calibration.of(device(replace(INFO, **other)), again).threads == 1 << 15


def test_other_kernels_are_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    calibration.of(device(), Measuring())
    another_process(monkeypatch)
    monkeypatch.setattr(calibration.fingerprint, "of_plugin", lambda: "another version")
    assert calibration.of(device(), again := Measuring()) == FOUND and again.calls == 1


def test_it_can_be_switched_off(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setenv("TFLGPU_NO_CALIBRATION", "1")
    assert calibration.of(device(), Measuring()) == Calibration(state=calibration.OFF)
    assert calibration.known(INFO) == Calibration(state=calibration.OFF)
    monkeypatch.delenv("TFLGPU_NO_CALIBRATION")
    assert calibration.of(device(), Measuring()) == FOUND, "once it is on again"


def test_software_and_assumed_adapters_are_not_measured() -> None:
    for info in (replace(INFO, kind="software"), replace(INFO, assumed=True)):
        assert calibration.of(device(info)) == Calibration(state=calibration.SOFTWARE)


@pytest.mark.parametrize("how", ["TFLGPU_NO_CACHE", "read-only"])
def test_without_a_folder_nothing_is_measured(
    how: str, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    """Each start would take longer, and might plan otherwise than the one before."""
    if how == "read-only":
        monkeypatch.setattr(folders.os, "access", lambda path, mode: False)
    else:
        monkeypatch.setenv(how, "1")
    measure = Measuring()
    assert calibration.of(device(), measure) == Calibration(state=calibration.UNKEPT)
    assert calibration.known(INFO) == Calibration(state=calibration.UNKEPT) and not measure.calls


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "null", "{", '"x"', "12", '{"tuning": {"weights": "none"}}',
        '{"tuning": {"tile": "4x4"}}', '{"tuning": {"lanes": 64}}', '{"threads": 5}',
        '{"threads": 1e400}', '{"tuning": []}', '{"figures": {"a": {"b": "c"}}}', '{"more": 1}',
        '{"figures": {"a": {"b": -1}}}', '{"state": 5}', '{"left": 5}', '{"left": [5]}',
        '{"begun": "x"}', "{}", "[" * 100_000,
    ],
)  # fmt: skip
def test_other_texts_are_no_calibration(text: str, home: Path) -> None:
    assert calibration.read(text) == (None, 0)
    calibration.of(device(), Measuring())
    (file,) = home.iterdir()
    folders.keep(file, text)
    assert calibration.known(INFO) is None


def test_results_are_read_as_they_were_written() -> None:
    for found in (FOUND, PART, Calibration(state="incomplete"), Calibration(milliseconds=3.5)):
        assert calibration.read(json.dumps(asdict(found))) == (found, 0)


def test_a_device_that_fails_keeps_its_vendors_settings(
    monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    found = calibration.of(device(), Measuring(native.NativeError("The device is lost.")))
    assert not found.tuning and not found.threads and "The device is lost." in found.state
    assert list(home.iterdir()) == [], "the next process tries again"
    another_process(monkeypatch)
    assert calibration.of(device(), Measuring()) == FOUND


def test_defects_are_raised_and_leave_nothing(home: Path) -> None:
    for error in (ZeroDivisionError(), KeyboardInterrupt()):
        with pytest.raises(type(error)):
            calibration.of(device(), Measuring(error))
        assert list(home.iterdir()) == []
    assert calibration.of(device(), Measuring()) == FOUND


ENDS = """
import os
from tests.compile.test_calibration import device
from tflgpu_plugin.compile import calibration
print(calibration.of(device(), lambda device, earlier: os._exit(9)).state)
"""


def test_a_driver_that_ends_the_process_is_tried_twice(home: Path) -> None:
    for status in (9, 9, 0):
        done = run_python(ENDS, status)
    assert done.stdout == f"{calibration.CRASHED}\n"
    assert calibration.known(INFO) == Calibration(state=calibration.CRASHED)


def test_measurements_that_are_left_are_made_by_the_next_process(
    monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    measures = [Measuring(PART), Measuring(PART), Measuring(FOUND), Measuring()]
    for measure, found in zip(measures, (PART, PART, FOUND, FOUND), strict=True):
        assert calibration.of(device(), measure) == calibration.of(device(), measure) == found
        another_process(monkeypatch)
        assert calibration.known(INFO) == found
    assert [measure.calls for measure in measures] == [1, 1, 1, 0]
    assert [measure.earlier for measure in measures] == [None, PART, PART, None]


def test_a_device_that_fails_then_keeps_its_earlier_results(
    monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    calibration.of(device(), Measuring(PART))
    another_process(monkeypatch)
    found = calibration.of(device(), Measuring(native.NativeError("The device is lost.")))
    assert found.tuning == PART.tuning and "The device is lost." in found.state
    assert calibration.known(INFO) == PART
    monkeypatch.setattr(folders, "LOCK_SECONDS", 0.0)
    another_process(monkeypatch)
    with folders.locked(home):
        assert calibration.of(device(), Measuring()) == PART, "another process measures"


def test_a_driver_that_ends_the_process_leaves_earlier_results(
    monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    calibration.of(device(), Measuring(PART))
    for _ in range(calibration.TRIES):
        assert calibration.known(INFO) == PART
        run_python(ENDS, 9)
    another_process(monkeypatch)
    crashed = replace(PART, state=calibration.CRASHED, left=())
    assert calibration.of(device(), Measuring()) == calibration.known(INFO) == crashed


def test_threads_share_one_measurement() -> None:
    measure, found = Measuring(seconds=0.2), list[Calibration]()
    both = [
        threading.Thread(target=lambda: found.append(calibration.of(device(), measure)))
        for _ in range(4)
    ]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert found == [FOUND] * 4 and measure.calls == 1


SLOW = """
import sys, time
from tests.compile.test_calibration import FOUND, device
from tflgpu_plugin.compile import calibration
def measure(device, earlier):
    print("measured", flush=True)
    time.sleep(1)
    return FOUND
assert calibration.of(device(), measure) == FOUND
"""


def test_processes_share_one_measurement() -> None:
    done = list[Any]()
    both = [threading.Thread(target=lambda: done.append(run_python(SLOW))) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert sorted(each.stdout for each in done) == ["", "measured\n"]


def test_what_is_forced_stays() -> None:
    target = Target(tuning={"weights": "global", "tile": "4x4"}, threads=77)
    found = FOUND.applied(target)
    assert found.tuning == {"weights": "global", "lanes": "64", "tile": "4x4"}
    assert found.threads == 1 << 13 and Calibration().applied(target) == target


def test_plans_have_the_results(monkeypatch: pytest.MonkeyPatch) -> None:
    """The device's own target, by which stored and compiled models are known, stays as it is."""
    monkeypatch.setattr(calibration, "of", lambda device: FOUND)
    opened = device()
    found = engine.target_of(opened, Options())
    assert found.tuning == FOUND.tuning and found.threads == FOUND.threads
    assert opened.target.tuning == {} and opened.target.threads == Target.threads


def test_info_shows_the_figures() -> None:
    figures = {"weights": {"global": 2.5, "memory": 1.0}, "launches": {"launch": 3.0}}
    found = Calibration({"weights": "memory", "serial": "32"}, 1 << 13,
                        figures | {"threads": {"8192": 9.0}}, "incomplete")  # fmt: skip
    assert doctor.measured_lines(asdict(found)) == [
        "incomplete",
        "weights (global 2.5, memory 1 us): memory",
        "launches (launch 3 us): 32",
        "threads (8192 9 us): 8192",
    ]
    assert doctor.measured_lines(asdict(Calibration(figures=figures)))[0] == (
        "weights (global 2.5, memory 1 us)"
    )


# ---- on the device -------------------------------------------------------------------------------


def convolution() -> Any:
    b = Net()
    rng = np.random.default_rng(3)
    x = b.input((1, 9, 7, 64))
    w = b.constant(rng.normal(size=(40, 3, 3, 64)).astype(np.float32))
    return b.graph(b.op("conv_2d", x, w, None, **WINDOW))


def answered(graph: Any, tuning: Mapping[str, str], threads: int) -> Any:
    opened = adapter.open_device(adapter.select(None))
    own = replace(opened.target, software=False, vendor="unknown")
    target = Calibration(tuning, threads).applied(own)
    plan = compiler.compile(graph, target)
    rng = np.random.default_rng(4)
    x = rng.normal(size=plan.inputs[0].shape).astype(np.float32)
    return Instance(Program(plan, opened.handle, opened.pipelines)).run([x])[0]


@pytest.mark.adapter
def test_wrong_settings_of_a_device_change_no_results() -> None:
    """Whatever a clock says, it only chooses among settings that are right."""
    graph = convolution()
    right = answered(graph, {}, 0)
    rng = np.random.default_rng(5)
    drawn: Callable[[], dict[str, str]] = lambda: {  # noqa: E731
        name: str(rng.choice(values)) for name, values in SETTINGS.items()
    }
    for threads in (THREADS[0], THREADS[-1]):
        for _ in range(2):
            np.testing.assert_allclose(answered(graph, drawn(), threads), right, atol=2e-4)


MEASURES = """
import sys
from dataclasses import replace
from tflgpu_plugin.compile import calibration, microbenchmarks
from tflgpu_plugin.runtime import adapter
device = adapter.open_device(adapter.select(None))
device.target = replace(device.target, software=False, vendor="unknown")
found = calibration.of(device, microbenchmarks.measure)
print(found.milliseconds, len(found.left))
assert found.state == "" or found.state.startswith("incomplete"), found
assert not found.left or found.state, found
assert calibration.of(device, None) == found or device.info.software
"""


@pytest.mark.adapter
def test_a_device_is_measured_in_a_process_of_its_own() -> None:
    said = [run_python(MEASURES).stdout]
    while int(said[-1].split()[1]):  # each process makes at least one measurement
        assert len(said) <= len(microbenchmarks.MEASUREMENTS)
        said.append(run_python(MEASURES).stdout)
    assert run_python(MEASURES).stdout == said[-1], "kept"
