"""The native code with the compiler's checks of every memory access and of undefined arithmetic:
its tests once more, in a process of their own, with a library built for that.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutation import sandbox
from tflgpu_plugin import native

pytestmark = pytest.mark.adapter

CHECKS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-O0")
TESTS = ("tests/native/test_runs.py", "tests/native/test_refused_calls.py",
         "tests/native/test_fake_host.py", "tests/native/test_plans.py",
         "tests/providers/onnxruntime/test_ort_counting.py",
         "tests/providers/tflite/test_variables.py",
         "tests/providers/onnxruntime/test_onnxruntime.py",
         "tests/cache/test_compiled_models.py")  # fmt: skip
CHOSEN = (
    "test_runs or refused_calls or fake_host or test_plans or compress or its_room or a_cache "
    "or (variables and input-reference) or one_partition or report_counts"
)
# Names are read as far as there is memory: by a call that tells where it ends.
MEANT = "interceptor_via_fun:tgi_probe_copy\n"
CODE = """
import gc, os, sys, pytest
code = pytest.main(sys.argv[1:])
gc.collect()
os._exit(code)  # drivers and hosts that are taken down are not what is checked
"""


def checked(folder: Path) -> None:
    """Build the library of the package that is imported here, checks included, into a copy of the
    package.
    """
    objects = folder / "objects"
    objects.mkdir()
    for source in sandbox.sources(Path(native.__file__).parent):
        sandbox.compile_one(source, sandbox.made_of(objects, source), CHECKS)
    sandbox.build(folder / "tree", None, objects)
    library = folder / "tree" / sandbox.PACKAGE / "native" / sandbox.LIBRARY
    library.unlink()
    sandbox.link(sorted(objects.glob("*.o")), library, CHECKS[:1])


def preloaded() -> list[str]:
    """The checks' own library, which has to be there before all others, and the one of C++, whose
    exceptions it watches. Skips the test where they are not installed.
    """
    compiler, found = shutil.which("cc"), []
    for name in ("libasan.so", "libstdc++.so.6") if compiler else ():
        said = subprocess.run([compiler or "", f"-print-file-name={name}"], capture_output=True)
        found.append(said.stdout.decode().strip())
    if not found or not all(os.path.isabs(name) for name in found):
        pytest.skip("needs a C compiler (cc) with its address sanitizer: apt install gcc")
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="preloads a library of Linux")
def test_no_access_is_out_of_bounds(tmp_path: Path) -> None:
    library = preloaded()
    checked(tmp_path)
    log, meant = tmp_path / "log", tmp_path / "meant"
    meant.write_text(MEANT)
    options = f"halt_on_error=1:log_path={log}"
    environment = {
        "LD_PRELOAD": " ".join(library),
        "ASAN_OPTIONS": f"{options}:detect_leaks=0:suppressions={meant}",
        "UBSAN_OPTIONS": f"{options}:print_stacktrace=1",
        "PYTHONPATH": str(tmp_path / "tree"),
    }
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
