"""python -m benchmarks.cuda: measures seeded networks of torchvision, from host memory to host
memory, through our provider and through PyTorch on the same NVIDIA GPU.

Needs torch with CUDA, torchvision, onnx and onnxruntime in this environment. PyTorch computes in
float32 (TF32 is off), eagerly and as a CUDA graph; every time is the median of `RUNS` runs in
milliseconds, and ours is shown with its largest error relative to onnxruntime's CPU provider."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import onnxruntime as ort
import torch
import torchvision

import tflgpu_plugin

NETWORKS = ("resnet18", "resnet50", "mobilenet_v2")
RUNS, WARM_UP = 30, 5
OURS = "TflGpuExecutionProvider"


def main() -> None:
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    tflgpu_plugin.register()
    picture = torch.rand(1, 3, 224, 224) * 0.5 + 0.4
    print("| network | engine | ms | largest error |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name in NETWORKS:
            network = getattr(torchvision.models, name)(weights=None).eval()
            path = Path(folder) / f"{name}.onnx"
            torch.onnx.export(network, (picture,), path, dynamo=False, opset_version=17)
            for engine, time_taken, error in (
                *_onnx(path, picture.numpy()),
                *_torch(network.cuda(), picture.pin_memory()),
            ):
                print(f"| {name} | {engine} | {time_taken:.2f} | {error} |", flush=True)


def _onnx(path: Path, picture: Any) -> Iterator[tuple[str, float, str]]:
    """Yields the CPU provider's row, then ours in float32 and with values stored as float16."""
    cpu = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    feed = {cpu.get_inputs()[0].name: picture}
    (expected,) = cpu.run(None, feed)
    yield "onnxruntime CPU", _median(lambda: cpu.run(None, feed)), "0"
    for kind, options in (("float32", {}), ("float16", {"is_precision_loss_allowed": "1"})):
        session = ort.InferenceSession(path, providers=[(OURS, options), "CPUExecutionProvider"])
        tflgpu_plugin.assert_used(session)
        (got,) = session.run(None, feed)
        error = np.abs(got - expected).max() / np.abs(expected).max()
        taken = _median(lambda run=session.run: run(None, feed))  # type: ignore[misc]
        yield f"tflgpu, {kind}", taken, f"{error:.1e}"


def _torch(network: Any, picture: Any) -> Iterator[tuple[str, float, str]]:
    with torch.inference_mode():
        eager = _median(lambda: network(picture.cuda(non_blocking=True)).cpu())
        yield "PyTorch CUDA", eager, "-"
        given, graph, stream = picture.cuda(), torch.cuda.CUDAGraph(), torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            network(given)
        torch.cuda.current_stream().wait_stream(stream)
        with torch.cuda.graph(graph):
            result = network(given)

        def replay() -> Any:
            given.copy_(picture, non_blocking=True)
            graph.replay()
            return result.cpu()

        yield "PyTorch CUDA graph", _median(replay), "-"


def _median(run: Callable[[], object]) -> float:
    times = []
    for _ in range(WARM_UP + RUNS):
        start = time.perf_counter()
        run()
        times.append(1e3 * (time.perf_counter() - start))
    return median(times[WARM_UP:])


if __name__ == "__main__":
    main()
