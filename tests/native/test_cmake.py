"""Tests compilers and systems that the build of the native library refuses."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.subprocesses import ROOT

CMAKE = shutil.which("cmake", path=str(Path(sys.executable).parent))


@pytest.mark.skipif(CMAKE is None or not shutil.which("cc"), reason="needs CMake and a compiler")
@pytest.mark.parametrize(("given", "refused"), [("-DMSVC=1", True), ("-DMSVC=0", False)])
def test_msvc_is_refused_with_a_sentence(tmp_path: Path, given: str, refused: bool) -> None:
    source = ROOT / "tflgpu_plugin" / "native"
    done = subprocess.run(
        [str(CMAKE), "-S", str(source), "-B", str(tmp_path), given,
         f"-DPython3_EXECUTABLE={sys.executable}"],
        capture_output=True,
        text=True,
    )  # fmt: skip
    said = " ".join(done.stderr.split())
    assert (done.returncode != 0, "MSVC cannot build this library" in said) == (refused, refused)
