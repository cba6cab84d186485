"""Converts TFLite models to ONNX models, by tf2onnx in a separate environment, cached by content.

`python -m conformance.converted` makes that environment (tensorflow-cpu and tf2onnx, about 1.5 GB
in the user's cache folder); tests convert the models that they need in one batch. Nothing here
imports tensorflow, and no converted model is part of the project."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from conformance import host

REQUIREMENTS = ("tensorflow-cpu==2.21.*", "tf2onnx==1.17.*")
OPSET = 18
WORKER = Path(__file__).with_name("tf2onnx_batch.py")


class NoConverter(RuntimeError):
    """An error for a missing environment of the converter; the text says how to make it."""


def environment() -> Path:
    """Returns the path of the converter's environment: $TFLGPU_TF2ONNX, or a folder in the user's
    cache."""
    given = os.environ.get("TFLGPU_TF2ONNX")
    return Path(given) if given else host.cache_folder().parent / "tf2onnx"


def python() -> Path:
    return environment() / "bin" / "python"


def ready() -> bool:
    return (environment() / "ready").exists()


def make_environment() -> None:
    """Makes the environment if it does not exist. Raises NoConverter with what pip said."""
    with _locked("environment"):
        if ready():
            return
        place = environment()
        print(f"Making {place} for tf2onnx ...", file=sys.stderr, flush=True)
        commands = (
            [sys.executable, "-m", "venv", "--clear", str(place)],
            [str(python()), "-m", "pip", "install", "-q", "--disable-pip-version-check",
             *REQUIREMENTS],
        )  # fmt: skip
        for command in commands:
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                shutil.rmtree(place, ignore_errors=True)
                said = " ".join(done.stderr.split())[-400:]
                raise NoConverter(f"The environment for tf2onnx cannot be made: {said}")
        (place / "ready").write_text("\n".join(REQUIREMENTS))


def convert(models: Mapping[str, bytes]) -> dict[str, bytes | str]:
    """Returns ONNX models by name, or the converter's message for models that it cannot convert.
    Raises NoConverter when a model is not cached and there is no environment."""
    folder = _folder()
    keys = {name: _key(content) for name, content in models.items()}
    with _locked("batch"):
        missing = {k: models[n] for n, k in keys.items() if _found(folder, k) is None}
        if missing:
            _batch(folder, missing)
    found = {name: _found(folder, key) for name, key in keys.items()}
    return {name: value if value is not None else "no answer" for name, value in found.items()}


def _folder() -> Path:
    return host.cache_folder().parent / "converted"


def _key(content: bytes) -> str:
    """Returns a key from content, converter and opset."""
    given = f"{' '.join(REQUIREMENTS)} opset {OPSET} ".encode()
    return hashlib.sha256(given + content).hexdigest()[:32]


def _found(folder: Path, key: str) -> bytes | str | None:
    model, refusal = folder / f"{key}.onnx", folder / f"{key}.txt"
    if model.exists():
        return model.read_bytes()
    return refusal.read_text() if refusal.exists() else None


def _batch(folder: Path, models: Mapping[str, bytes]) -> None:
    if not ready():
        raise NoConverter(
            f"{len(models)} models are not converted yet, and the environment for tf2onnx is "
            "missing: python -m conformance.converted makes it."
        )
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as work:
        for key, content in models.items():
            (Path(work) / f"{key}.tflite").write_bytes(content)
        command = [str(python()), "-I", str(WORKER), work, str(OPSET)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise NoConverter(f"tf2onnx ended early: {' '.join(done.stderr.split())[-300:]}")
        for path in [*Path(work).glob("*.onnx"), *Path(work).glob("*.txt")]:
            path.replace(folder / path.name)


@contextmanager
def _locked(name: str) -> Iterator[None]:
    """Lets one process at a time proceed."""
    place = host.cache_folder().parent / f"{name}.lock"
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def main() -> int:
    try:
        make_environment()
    except NoConverter as error:
        print(error, file=sys.stderr)
        return 1
    print(f"Converting in {environment()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
