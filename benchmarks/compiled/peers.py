"""Estimates for other engines: the engine itself selects kernels for the null device, whose layer
records its pipelines and dispatches."""

from __future__ import annotations

import subprocess
import tempfile
from math import prod
from pathlib import Path

import numpy as np

from benchmarks import peers
from benchmarks.compiled.cost import Code, Cost, cost
from benchmarks.compiled.devices import DEVICES
from benchmarks.compiled.driver import command, environment, read
from benchmarks.compiled.gpus import model as model_of
from benchmarks.compiled.networks import Estimate
from benchmarks.compiled.spirv import Module, ran
from benchmarks.engine import ROOT, Unavailable
from benchmarks.networks import NETWORKS
from benchmarks.to_ncnn import to_ncnn
from benchmarks.to_onnx import to_onnx

MAX_SECONDS = 300


def ncnn(name: str, gpu: str, half: bool) -> Estimate:
    """Returns the estimate of a network in ncnn, in float32 or in its float16. Raises
    Unavailable."""
    python, network = peers.environment("ncnn"), NETWORKS[name]()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        files = to_ncnn(network, folder)
        np.save(folder / "in.npy", np.ascontiguousarray(network.picture().transpose(0, 3, 1, 2)))
        given = (*files, folder / "in.npy", int(half))
        worker = [str(python), "-m", "benchmarks.compiled.ncnn_worker", *map(str, given)]
        return _traced(worker, folder, gpu)


def webgpu(name: str, gpu: str, half: bool) -> Estimate:
    """Returns the estimate of a network in onnxruntime's WebGPU provider, in float32. Raises
    Unavailable."""
    if half:
        raise Unavailable("its models are float32")
    if gpu in DEVICES:
        raise Unavailable("its uniform buffers can be read on null devices of AMD only")
    network = NETWORKS[name]()
    with tempfile.TemporaryDirectory() as made:
        model = Path(made) / "model.onnx"
        model.write_bytes(to_onnx(network))
        planes = np.ascontiguousarray(network.picture().transpose(0, 3, 1, 2))
        np.savez(model.with_suffix(".npz"), input=planes)
        return webgpu_model(model, gpu)


def webgpu_model(model: Path, gpu: str) -> Estimate:
    """Returns the estimate of an ONNX model in onnxruntime's WebGPU provider, with its inputs
    beside it (.npz). Raises Unavailable."""
    given = str(model.resolve()), str(model.resolve().with_suffix(".npz"))
    worker = "-m", "benchmarks.compiled.webgpu_worker"
    with tempfile.TemporaryDirectory() as made:
        return _traced([str(peers.environment("webgpu")), *worker, *given], Path(made), gpu)


def _traced(worker: list[str], folder: Path, gpu: str) -> Estimate:
    """Returns the trace of what a worker dispatches after as many dispatches as it prints."""
    (folder / "device").mkdir()
    variables = environment(gpu, folder / "device") | {"NULL_DEVICE_TRACE": str(folder)}
    done = subprocess.run(
        command(gpu, worker), cwd=ROOT, env=variables, text=True, capture_output=True,
        timeout=MAX_SECONDS,
    )  # fmt: skip
    if done.returncode:
        last = (done.stderr.strip() or f"status {done.returncode}").splitlines()[-1]
        raise Unavailable(f"it ended: {last}")
    lines = (folder / "dispatches-0").read_text().splitlines()
    return Estimate(gpu, [_dispatch(folder, line, gpu)
                          for line in lines[int(done.stdout.splitlines()[-1]) :]])  # fmt: skip


def _dispatch(folder: Path, line: str, gpu: str) -> tuple[str, Code, Cost]:
    number, x, y, z, pushed, *held = line.split()
    told = read((folder / f"pipeline-{number}").read_text(errors="replace"))
    made = model_of(gpu).code(*told)
    constants = {int(name.split()[1]): value for name, value in made.numbers.items()
                 if name.startswith("constant ")}  # fmt: skip
    module = Module((folder / f"module-{made.numbers['module']}").read_bytes(), constants)
    extent, uniforms = [int(x), int(y), int(z)], dict(map(_uniform, held))
    run = ran(module, extent, bytes.fromhex(pushed), made.lanes, uniforms)
    taken = cost(made, model_of(gpu), run.loops, prod(extent), run.threads, run.products)
    return f"pipeline {number}", made, taken


def _uniform(text: str) -> tuple[tuple[int, int], bytes]:
    """Parses SET.BINDING=CONTENT of a uniform buffer."""
    place, _, content = text.partition("=")
    first, second = map(int, place.split("."))
    return (first, second), bytes.fromhex(content)
