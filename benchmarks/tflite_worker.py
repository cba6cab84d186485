"""One engine in its own process: a TFLite host, on its CPU kernels (XNNPACK) or through the
delegate.

Speaks the protocol of `benchmarks.engine`. Imports and the creation of the device are outside the
measured time. Usage: python -m benchmarks.tflite_worker HOST cpu|gpu|half MODEL INPUT.npy
OUTPUTS.npz ("half" is the delegate with float16 storage)."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.serving import serve, timed
from tflgpu_plugin.harness import hosts

THREADS = 2


def main(host_name: str, kind: str, model: str, source: str, result: str) -> None:
    host = hosts.host(host_name)
    content, image = Path(model).read_bytes(), np.load(source)
    device = "CPU" if kind == "cpu" else _open_device()
    options = {"is_precision_loss_allowed": 1} if kind == "half" else {}

    def start() -> tuple[Any, Any]:
        given = [] if kind == "cpu" else [host.delegate(options)]
        interpreter = host.interpreter(content, threads=THREADS, experimental_delegates=given)
        return interpreter, hosts.invoked(interpreter, [image])

    (interpreter, values), first = timed(start)
    kernels = f"XNNPACK, {THREADS} threads" if kind == "cpu" else "tflgpu"
    engine = f"{host.title} {kernels}"
    serve(result, engine, device, first, values, lambda: hosts.invoked(interpreter, [image]))


def _open_device() -> str:
    """Imports everything and opens the device that the delegate uses; returns the adapter's
    name."""
    for module in ("engine", "providers.tflite.delegate"):
        importlib.import_module(f"tflgpu_plugin.{module}")
    from tflgpu_plugin.runtime import adapter

    info = adapter.select(None)
    adapter.open_device(info)
    return info.name


if __name__ == "__main__":
    main(*sys.argv[1:])
