"""LiteRT-LM generates on this plugin what it generates on its CPU."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import peers
from tests.support import language_model
from tests.support.subprocesses import ROOT
from tflgpu_plugin.providers.tflite import litert_lm

FOLDER = ROOT / "build" / "peers" / "litert-lm"
MAKE = "python -c 'from benchmarks import peers; peers.environment(\"litert-lm\")' installs it"
with_it = pytest.mark.skipif(not (FOLDER / "ready").exists(), reason=MAKE)


@pytest.fixture(scope="module")
def packages() -> Path:
    return next(peers.environment("litert-lm").parents[1].glob("lib/*/site-packages"))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, packages: Path) -> Path:
    sys.path.append(str(packages))
    try:
        return language_model.packed(tmp_path_factory.mktemp("language_model"))
    finally:
        sys.path.remove(str(packages))


BEGIN = "import sys; sys.path.append(sys.argv.pop(1))"
RUN = f"{BEGIN}; from tests.support import language_model; language_model.main()"


def said(packages: Path, *given: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(packages), *given], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


@with_it
@pytest.mark.adapter
@pytest.mark.parametrize("activations", ["", "fp32"])
def test_a_language_model_says_the_same_as_on_the_cpu(
    packages: Path, model: Path, activations: str
) -> None:
    """LiteRT-LM takes scores as float16, unless its activations are float32."""
    wanted = said(packages, "CPU", str(model))
    got = said(packages, "GPU", str(model), *([activations] if activations else []))
    assert wanted["nodes"] == "0"
    assert got["nodes"] == "29 of 29"
    assert got["runs"][1] > 40
    words = wanted["text"].split()
    assert len(words) > 40
    assert len(set(words)) > 3
    assert got["text"] == wanted["text"]


def test_without_litert_lm_it_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(litert_lm, "PACKAGE", "no_such_package")
    with pytest.raises(ImportError, match="LiteRT-LM is not installed: pip install litert-lm-api"):
        litert_lm.use()
    monkeypatch.setattr(litert_lm, "PACKAGE", "json")
    with pytest.raises(ImportError, match=r"has no .*litert-lm"):
        litert_lm.use()
