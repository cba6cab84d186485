"""Tests messages: they go through the logger "tflgpu_plugin", by default unchanged to stderr."""

from __future__ import annotations

import logging

import pytest

import tflgpu_plugin
from tests.support.small_models import CPU_OP
from tests.support.subprocesses import run_python
from tflgpu_plugin import log

SAY = """
from tflgpu_plugin import log
log.say("WARNING: look out")
log.say("tflgpu: by the way", log.INFO)
log.say("tflgpu: in detail", log.DEBUG)
"""
WARNED, INFORMED = "WARNING: look out\n", "tflgpu: by the way\n"
DETAILED = "tflgpu: in detail\n"
SETUP = "import logging\n"
FULL = """
import sys
class Full:
    def write(self, text): raise OSError(28, "No space left on device")
    def flush(self): pass
sys.stderr = Full()
"""


@pytest.mark.parametrize(
    ("first", "level", "said"),
    [
        ("", "", WARNED),
        ("", "info", WARNED + INFORMED),
        ("", "DEBUG", WARNED + INFORMED + DETAILED),
        ("", "off", ""),
        (SETUP, "", WARNED),
        (SETUP, "error", ""),
        (SETUP + "logging.getLogger('tflgpu_plugin').setLevel('DEBUG')\n", "error",
         WARNED + INFORMED + DETAILED),
        ("import tflgpu_plugin as t; t.set_log_level('info')\n", "", WARNED + INFORMED),
        ("import tflgpu_plugin as t; t.set_log_level('off')\n", "debug", ""),
        ("import sys; sys.stderr = None\n", "", ""),
        (FULL, "", ""),
        ("import sys; sys.stderr = open('/dev/null', 'w'); sys.stderr.close()\n", "", ""),
    ],
)  # fmt: skip
def test_what_is_said_on_stderr(first: str, level: str, said: str) -> None:
    done = run_python(first + SAY, TFLGPU_LOG=level)
    assert (done.stdout, done.stderr) == ("", said)


def test_a_program_with_its_own_log_gets_records() -> None:
    code = "import logging, sys\n" + (
        "logging.basicConfig(format='%(name)s|%(levelname)s|%(message)s', stream=sys.stdout)\n"
    )
    done = run_python(code + SAY)
    assert (done.stdout, done.stderr) == ("tflgpu_plugin|WARNING|look out\n", "")


def test_a_level_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="The levels are: debug, info, warning, error, off"):
        tflgpu_plugin.set_log_level("loud")
    assert all(getattr(logging, name.upper(), 60) == level for name, level in log.LEVELS.items())


@pytest.mark.adapter
def test_a_program_without_logging_pays_nothing_for_it() -> None:
    """Neither the import nor the first warning imports logging."""
    run_python("""
import sys
import tflgpu_plugin
assert "logging" not in sys.modules
from tflgpu_plugin.frontend import messages
from tflgpu_plugin.runtime import adapter
messages.software(adapter.select())
assert "logging" not in sys.modules
""")


@pytest.mark.adapter
def test_what_became_of_a_model() -> None:
    """Level info logs the totals, debug each node that stays on the CPU and why."""
    code = """
from conformance import host
from tests.support import small_models
made = host.interpreter(small_models.two_partitions(), None, "reference",
    experimental_delegates=[host.load_delegate()])
made.allocate_tensors()
"""
    said = run_python(code, TFLGPU_LOG="debug")
    assert "tflgpu: 3 of 4 nodes go to the GPU, in 2 partitions" in said.stderr
    assert f"tflgpu: {CPU_OP} 'd' stays on the CPU: " in said.stderr
    assert "tflgpu: " not in run_python(code, TFLGPU_LOG="error").stderr
    assert not said.stdout


def test_a_level_that_is_none_is_told_once() -> None:
    code = "from tflgpu_plugin import log; log.say('one'); import logging; log.say('two')"
    said = run_python(code, TFLGPU_LOG="loud").stderr.splitlines()
    assert said[0].startswith("WARNING: tflgpu: TFLGPU_LOG is 'loud'. It takes: debug, info,")
    assert said[1:] == ["one", "two"]
