"""Tests recorders: which runs they hold, and their times."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support import small_models
from tflgpu_plugin import native
from tflgpu_plugin.harness import hosts
from tflgpu_plugin.runtime.recording import now, recorded

pytestmark = pytest.mark.adapter


@pytest.fixture(scope="module")
def interpreter() -> object:
    host = hosts.host()
    delegate = host.delegate({"force": "1"})
    return host.interpreter(small_models.guide(), experimental_delegates=[delegate])


def run(interpreter: object) -> None:
    shape = (1, 8, 8, 3)
    hosts.invoked(interpreter, [np.ones(shape, np.float32)])


def test_times_of_a_run_are_in_order(interpreter: object) -> None:
    begin = now()
    with recorded() as runs:
        run(interpreter)
        run(interpreter)
    assert len(runs) == 2 and runs[0].partition == runs[1].partition > 0
    times = [begin]
    for one in runs:
        times += [one.start, one.submitted, one.finished, one.end]
    assert times == sorted(times) and times[-1] <= now()


def test_every_launch_has_a_label_and_a_time(interpreter: object) -> None:
    with recorded() as runs:
        run(interpreter)
    launches = [*runs[0].launches()]
    labels = [label for label, _, _ in launches]
    assert tuple(labels) == runs[0].labels and any("features" in label for label in labels)
    assert sum(end - begin for _, begin, end in launches) == runs[0].device > 0
    assert launches[-1][2] == runs[0].finished
    assert [begin for _, begin, _ in launches][1:] == [end for _, _, end in launches][:-1]


def test_the_ends_of_a_run_are_two_timestamps(interpreter: object) -> None:
    with recorded(ends_only=True) as runs:
        run(interpreter)
    assert len(runs[0].timestamps) == 2 and runs[0].device > 0


def test_recorders_hold_what_ran_between_their_ends(interpreter: object) -> None:
    with recorded() as outer:
        run(interpreter)
        with recorded() as inner:
            run(interpreter)
        run(interpreter)
    run(interpreter)
    assert len(outer) == 3 and outer[1] == inner[0] and len(inner) == 1


def test_a_session_is_recorded_by_its_number(interpreter: object) -> None:
    """Runs of TFLite belong to no session of onnxruntime."""
    recorder = native.call(native.lib.tg_recorder_create, 1, 0)
    run(interpreter)
    assert native.lib.tg_recorder_stop(recorder) == native.ffi.NULL
    native.lib.tg_recorder_release(recorder)


def test_releasing_a_recorder_ends_it(interpreter: object) -> None:
    native.lib.tg_recorder_release(native.ffi.NULL)
    native.lib.tg_recorder_release(native.call(native.lib.tg_recorder_create, 0, 0))
    run(interpreter)
