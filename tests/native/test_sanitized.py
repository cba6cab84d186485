"""Runs the tests of the native code again with the compiler's sanitizers, in a separate process
with a library built for that."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutation import sandbox
from tests.support import sanitized

pytestmark = pytest.mark.adapter

TESTS = ("tests/native/test_runs.py", "tests/native/test_refused_calls.py",
         "tests/native/test_fake_host.py", "tests/native/test_plans.py",
         "tests/native/test_symbols.py", "tests/native/test_symbol_tables.py",
         "tests/providers/onnxruntime/test_ort_counting.py",
         "tests/providers/onnxruntime/test_ort_growing_counts.py",
         "tests/providers/tflite/test_variables.py",
         "tests/providers/onnxruntime/test_onnxruntime.py",
         "tests/cache/test_compiled_models.py")  # fmt: skip
CHOSEN = (
    "test_runs or refused_calls or fake_host or test_plans or test_symbol or compress or its_room "
    "or room_that or a_cache or (variables and input-reference) or one_partition or report_counts"
)
CODE = """
import gc, os, sys, pytest
code = pytest.main(sys.argv[1:])
gc.collect()
os._exit(code)  # drivers and hosts that are taken down are not what is checked
"""


@pytest.mark.skipif(sys.platform != "linux", reason="preloads a library of Linux")
def test_no_access_is_out_of_bounds(tmp_path: Path) -> None:
    checks = sanitized.CHECKS["address"]
    try:
        environment = sanitized.environment(tmp_path, checks)
    except sanitized.NotThere as reason:
        pytest.skip(str(reason))
    sanitized.build(tmp_path, checks)
    tests = ("-x", "-q", "-s", "-p", "no:cacheprovider", "-p", "no:xdist", *TESTS, "-k", CHOSEN)
    done = subprocess.run(
        [sys.executable, "-c", CODE, *tests],
        env=os.environ | environment,
        cwd=sandbox.ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    said = "".join(path.read_text() for path in tmp_path.glob("log*"))
    assert not said, said[:4000]
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
