"""python -m tests.support.compiled_models STEP FOLDER: compiles FOLDER/model.onnx in every way that
this onnxruntime has, or loads what it finds compiled there, and compares each with the CPU provider
on the original. For tests of one binary in several onnxruntimes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

import tflgpu_plugin
from tflgpu_plugin.harness import onnx


def settings(**entries: str) -> Any:
    """Returns session options with our first device, and entries ("__" stands for ".")."""
    return onnx.ours(onnx.settings(logs=onnx.FATAL, **entries))


def compare(session: Any, original: Path, expected: Any = None) -> list[Any]:
    """Returns the outputs, which must be the CPU provider's and equal `expected`."""
    cpu = onnx.opened(original, onnx.settings())
    random = np.random.default_rng(5)
    feeds = {
        value.name: random.uniform(-1, 1, value.shape).astype(np.float32)
        for value in cpu.get_inputs()
    }
    tflgpu_plugin.assert_used(session)
    ours = session.run(None, feeds)
    for got, wanted in zip(ours, cpu.run(None, feeds), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())
    for got, wanted in zip(ours, expected or ours, strict=True):
        np.testing.assert_array_equal(got, wanted)
    return list(ours)


def by_session(folder: Path) -> list[Any]:
    """Compiles a model while a session is created (embedded, with an external file, or with the
    host's choice of a path); returns the outputs."""
    original, outputs = folder / "model.onnx", None
    for mode, name in (("1", "embedded"), ("0", "beside"), ("0", "")):
        path = {"ep__context_file_path": str(folder / f"{name}_ctx.onnx")} if name else {}
        made = settings(ep__context_enable="1", ep__context_embed_mode=mode, **path)
        session = ort.InferenceSession(str(original), made, enable_fallback=0)
        outputs = compare(session, original, outputs)
    assert outputs
    return outputs


def by_compiler(folder: Path) -> None:
    """Compiles with ModelCompiler, if it exists: from and to a file, from and to memory."""
    original = folder / "model.onnx"
    for embed in (False, True):
        compiler = ort.ModelCompiler(
            settings(), str(original), embed_compiled_data_into_model=embed
        )
        compiler.compile_to_file(str(folder / f"compiler{embed}_ctx.onnx"))
        compiler = ort.ModelCompiler(
            settings(), original.read_bytes(), embed_compiled_data_into_model=embed
        )
        (folder / f"memory{embed}_ctx.onnx").write_bytes(compiler.compile_to_bytes())


def load(folder: Path) -> None:
    """Runs every compiled model by itself, while the original is moved away."""
    original, away = folder / "model.onnx", folder / "away.onnx"
    for path in sorted(folder.glob("*_ctx.onnx")):
        original.rename(away)
        session = onnx.opened(path, onnx.settings(logs=onnx.FATAL), {})
        away.rename(original)
        compare(session, original)
        print(path.name)


def main() -> None:
    step, folder = sys.argv[1], Path(sys.argv[2])
    tflgpu_plugin.register()
    if step == "compile":
        by_session(folder)
        if hasattr(ort, "ModelCompiler"):
            by_compiler(folder)
    else:
        load(folder)
    print("done", ort.__version__)


if __name__ == "__main__":
    main()
