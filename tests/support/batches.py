"""Models, inputs and results of runs over many inputs."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from conformance.cases import seeded
from conformance.models.tflite import Model
from tests.support import small_models
from tests.support.subprocesses import ROOT
from tflgpu_plugin.batch import parts, run
from tflgpu_plugin.batch.spec import Spec
from tflgpu_plugin.harness.hosts import host, invoked

sys.path.append(str(ROOT / "tools"))

import drivers

Array = npt.NDArray[Any]
SHAPE = (8, 8, 3)


def model(folder: Path, batched: bool = True) -> Path:
    """Writes two convolutions of pictures of 8 x 8; the batch is open, or one."""
    made, shape = Model(), (1, *SHAPE)
    x = made.input("x", shape, signature=(-1, *SHAPE) if batched else None)
    features = small_models.conv(made, x, shape, "first")
    made.output(small_models.conv(made, features, (1, 8, 8, 4), "second", seed=3))
    path = folder / ("open.tflite" if batched else "one.tflite")
    path.write_bytes(made.to_bytes())
    return path


def values(count: int, seed: int = 1) -> Array:
    return np.random.default_rng(seed).uniform(-1, 1, (count, *SHAPE)).astype(np.float32)


def arrays(folder: Path, given: Array) -> Path:
    """Writes a file for each sample."""
    folder.mkdir(exist_ok=True)
    for number, value in enumerate(given):
        np.save(folder / f"{number:04}.npy", value)
    return folder


def ran(model: Path, *inputs: Path, out: Path, batch: int = 4, **more: Any) -> run.Outcome:
    """Runs in this process, unless `workers` say otherwise."""
    said: list[str] = more.pop("said", [])
    progress = more.pop("progress", lambda done, whole: None)
    spec = Spec(model, batch=batch, **more.pop("spec", {}))
    request = run.Request(spec, inputs, out, **more)
    return run.run(request, said.append, progress)


def files(folder: Path) -> dict[str, bytes]:
    """Returns the bytes of the result files."""
    return {path.name: path.read_bytes() for path in sorted(folder.glob("part-*"))}


def results(folder: Path) -> Mapping[str, Array]:
    """Returns the columns of all parts, in order."""
    found = [np.load(path) for path in sorted(folder.glob("part-*.npz"))]
    names = [name for name in found[0].files if name != parts.ADAPTER]
    return {name: np.concatenate([one[name] for one in found]) for name in names}


def on_cpu(model: Path, given: Array) -> Array:
    """Returns the results of the host's own kernels, one input after the other."""
    interpreter = host().interpreter(model.read_bytes())
    return np.concatenate([invoked(interpreter, [one[None]])[0] for one in given])


def as_onnx(folder: Path) -> Path:
    """Writes the same network as an ONNX model, channels last by transposes."""
    from tests.support import onnx_models as onnx

    nodes, constants = [onnx.node("Transpose", ["x"], ["t0"], perm=[0, 3, 1, 2])], {}
    for number, (seed, channels) in enumerate(((1, 3), (3, small_models.FEATURES))):
        weights = seeded(small_models.FEATURES, 3, 3, channels, seed=seed).transpose(0, 3, 1, 2)
        bias = seeded(small_models.FEATURES, seed=seed + 1)
        constants |= {f"w{number}": np.ascontiguousarray(weights), f"b{number}": bias}
        names = [f"t{number}", f"w{number}", f"b{number}"]
        nodes.append(onnx.node("Conv", names, [f"c{number}"], pads=[1, 1, 1, 1]))
        nodes.append(onnx.node("Relu", [f"c{number}"], [f"t{number + 1}"]))
    nodes.append(onnx.node("Transpose", ["t2"], ["second"], perm=[0, 2, 3, 1]))
    path = folder / "open.onnx"
    path.write_bytes(onnx.model(nodes, {"x": ("n", *SHAPE)}, {"second": ("n", 8, 8, 4)}, constants))
    return path


def twice(folder: Path) -> dict[str, str]:
    """Returns variables with which the system's software driver is listed twice; none where there
    is no such driver."""
    try:
        stock = drivers.lavapipe().variables["VK_DRIVER_FILES"]
    except drivers.Unavailable:
        return {}
    both = os.pathsep.join([stock, str(shutil.copy(stock, folder / "again.json"))])
    return {"VK_DRIVER_FILES": both, "VK_ICD_FILENAMES": both}


def user_folder(folder: Path) -> None:
    """Fills the folder of docs/scale-out.md: a model, nine pictures and a file that is not one."""
    from PIL import Image

    from tflgpu_plugin.demo import network

    (folder / "model.tflite").write_bytes(network.to_tflite(network.build()))
    (folder / "pictures").mkdir()
    pixels = np.random.default_rng(1).integers(0, 256, (9, 32, 32, 3), np.uint8)
    for number, one in enumerate(pixels):
        Image.fromarray(one).save(folder / "pictures" / f"{number}.png")
    (folder / "pictures" / "broken.png").write_bytes(b"broken")


def interruptible() -> None:
    """Restores the default handling of Ctrl-C, which a test in the background ignores."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
