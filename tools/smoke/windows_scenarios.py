"""Scenarios of Windows, in the Python that runs this file; `windows.py` calls it.

Usage: python windows_scenarios.py SCENARIO FOLDER

The folder is filled by `models.py`, has "open.onnx" and its weights, and holds a folder whose name
no code page has. A scenario raises where something is wrong, and prints a sentence."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

PROVIDER = "TflGpuExecutionProvider"
OPTIONS = {"adapter": "llvmpipe"}
STRANGE = "Modelle für 用户 😀"  # two alphabets, and a sign beyond 16 bits
OPEN, WEIGHTS = "open.onnx", "weights.bin"  # any number of rows; both matrices are mapped
WIDTH = 160
STATUS = 7


def session(model: Path, gpu: bool = True, **settings: str) -> Any:
    """Returns a session on our provider alone, or on the CPU's. Settings have "__" for a point."""
    import onnxruntime

    import tflgpu_plugin

    tflgpu_plugin.register()
    options = onnxruntime.SessionOptions()
    for key, value in settings.items():
        options.add_session_config_entry(key.replace("__", "."), value)
    ours: list[Any] = [(PROVIDER, OPTIONS)] if gpu else []
    made = onnxruntime.InferenceSession(
        str(model), options, providers=[*ours, "CPUExecutionProvider"]
    )
    if gpu:
        tflgpu_plugin.assert_used(made)
    return made


def answer(made: Any, feed: Any) -> Any:
    """Returns the first output."""
    return made.run(None, {made.get_inputs()[0].name: feed})[0]


def same(got: Any, wanted: Any) -> None:
    np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-5 * float(np.abs(wanted).max()))


def first_input(folder: Path, name: str) -> Any:
    with np.load(folder / f"{name}.npz") as held:
        return held["0.0"]


def moved(folder: Path, *names: str) -> list[Path]:
    """Returns copies of files in the folder with the strange name."""
    place = folder / STRANGE
    place.mkdir(exist_ok=True)
    return [Path(shutil.copy(folder / name, place)) for name in names]


def devices(folder: Path) -> str:
    """Registering; adapters, and the devices that are registered with onnxruntime."""
    import onnxruntime

    import tflgpu_plugin
    from tflgpu_plugin.runtime import adapter

    tflgpu_plugin.register()
    names = [device.ep_name for device in onnxruntime.get_ep_devices()]
    assert PROVIDER in names, names
    found = [f"{each.name} ({each.backend}, {each.kind})" for each in adapter.adapters()]
    assert any("llvmpipe" in name and "Vulkan" in name for name in found), found
    return f"Devices {', '.join(names)}; adapters {', '.join(found)}."


def paths(folder: Path) -> str:
    """Runs a model in the strange folder, with its weights in a file, which is mapped by its
    path."""
    from tflgpu_plugin.providers.onnxruntime import external

    mapped: list[Path] = []
    original = external.Files.mapped_file

    def watched(self: Any, name: str) -> Any:
        found = original(self, name)
        mapped.append(self.folder / name)
        return found

    external.Files.mapped_file = watched  # type: ignore[method-assign]
    model, weights = moved(folder, OPEN, WEIGHTS)
    ours, theirs = session(model), session(model, gpu=False)
    for rows in (1, 3, 9):
        x = np.random.default_rng(rows).standard_normal((rows, WIDTH)).astype(np.float32)
        same(answer(ours, x), answer(theirs, x))
    assert {path.resolve() for path in mapped} == {weights.resolve()}, mapped
    return f"{model.parent.name!a}: {len(mapped)} constants are mapped, three shapes agree."


def compile_models(folder: Path) -> str:
    """Compiles models in the strange folder: one contains its plan, one has it in a file, and one
    is at the default path."""
    (model,) = moved(folder, "float.onnx")
    for name, embed in (("held", "1"), ("beside", "0"), ("", "0")):
        given = {"ep__context_enable": "1", "ep__context_embed_mode": embed}
        if name:
            given["ep__context_file_path"] = str(model.with_name(f"{name}_ctx.onnx"))
        session(model, **given)
    found = sorted(path.name for path in model.parent.glob("*_ctx*"))
    wanted = ["beside_ctx.onnx", "float_ctx.onnx", "held_ctx.onnx"]
    assert [name for name in found if name.endswith(".onnx")] == wanted, found
    assert sum(name.endswith(".bin") for name in found) == 2, found
    model.unlink()
    return f"{', '.join(found)}."


def compiled_models(folder: Path) -> str:
    """Runs these in another process and without the original."""
    x = first_input(folder, "onnx-float")
    wanted = answer(session(folder / "float.onnx", gpu=False), x)
    models = sorted((folder / STRANGE).glob("*_ctx.onnx"))
    for model in models:
        same(answer(session(model), x), wanted)
    return f"{len(models)} agree."


def caches(folder: Path) -> str:
    """Caches are where Windows keeps them."""
    return kept(folder, Path(os.environ["LOCALAPPDATA"]))


def strange_caches(folder: Path) -> str:
    """Checks the same for a user with a strange name."""
    local = folder / STRANGE / "AppData"
    os.environ["LOCALAPPDATA"] = str(local)
    return kept(folder, local)


def kept(folder: Path, local: Path) -> str:
    """Returns the files of our cache, plans among them, after a model has run; with the times of
    writing, which the next process must not change."""
    place = local / "tflgpu-plugin"
    OPTIONS["serialization_dir"] = str(place / "own")
    answer(session(folder / "float.onnx"), first_input(folder, "onnx-float"))
    assert list(place.glob("own/*.tflgpu")) and list(place.glob("kernels/*.wgsl"))
    assert not (Path.home() / ".cache" / "tflgpu-plugin").exists()
    files = [path for path in place.rglob("*") if path.is_file()]
    written = sum(path.stat().st_mtime_ns for path in files) % 10**12
    shown = place.relative_to(folder) if place.is_relative_to(folder) else place
    return f"{str(shown)!a}: {len(files)} files, written {written}."


def exit_onnxruntime(folder: Path) -> str:
    """Ends the process with its status while a thread is in a run."""
    made = session(folder / OPEN)
    x = np.ones((1 << 15, WIDTH), np.float32)
    return left_behind(lambda: answer(made, x))


def exit_litert(folder: Path) -> str:
    """Does the same in the other host."""
    from ai_edge_litert.interpreter import Interpreter, load_delegate

    import tflgpu_plugin

    delegate = load_delegate("tflgpu", OPTIONS)
    made = Interpreter(str(folder / "large.tflite"), experimental_delegates=[delegate])
    made.allocate_tensors()
    assert tflgpu_plugin.report(delegate).count("gpu")
    return left_behind(made.invoke)


def left_behind(run: Callable[[], Any]) -> str:
    """Ends the process while a thread runs, after a message."""
    run()
    start = time.perf_counter()
    run()
    took = time.perf_counter() - start
    assert took > 0.1, f"a run of {took:.3f} s is too short to be met"
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    time.sleep(took / 2)
    assert thread.is_alive()
    print(f"In a run of {took:.1f} s, status {STATUS}.", flush=True)
    sys.exit(STATUS)


def enabled(folder: Path) -> str:
    """Runs a program that does not import the plugin, after `tflgpu enable`."""
    from ai_edge_litert.interpreter import Interpreter, load_delegate

    assert "tflgpu_plugin" in sys.modules
    delegate = load_delegate("tflgpu", OPTIONS)
    made = Interpreter(str(folder / "float.tflite"), experimental_delegates=[delegate])
    made.allocate_tensors()
    return "load_delegate('tflgpu') without an import."


SCENARIOS = {
    function.__name__: function
    for function in (devices, paths, compile_models, compiled_models, caches,
                     strange_caches, exit_onnxruntime, exit_litert, enabled)
}  # fmt: skip


def main(arguments: list[str]) -> None:
    name, folder = arguments
    print(SCENARIOS[name](Path(folder)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
