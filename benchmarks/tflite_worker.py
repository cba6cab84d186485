"""One engine in its own process: a TFLite host, on its CPU kernels (XNNPACK) or through the
delegate.

Speaks the protocol of `benchmarks.engine`. Imports and the creation of the device are outside the
measured time. Usage: python -m benchmarks.tflite_worker HOST cpu|gpu|half MODEL INPUT.npy
OUTPUTS.npz ("half" is the delegate with float16 storage).
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from tflgpu_plugin.harness import hosts

THREADS = 2


def main(host_name: str, kind: str, model: str, source: str, result: str) -> None:
    host = hosts.host(host_name)
    content, image = Path(model).read_bytes(), np.load(source)
    device = "CPU" if kind == "cpu" else _open_device()
    options = {"is_precision_loss_allowed": 1} if kind == "half" else {}

    start = time.perf_counter()
    more: dict[str, Any] = {}
    if kind != "cpu":
        more = {"experimental_delegates": [host.delegate(options)]}
    interpreter = host.interpreter(content, threads=THREADS, **more)
    hosts.feed(interpreter, [image])
    interpreter.invoke()
    values = hosts.outputs(interpreter)
    first = (time.perf_counter() - start) * 1e3

    np.savez(result, *values)
    kernels = f"XNNPACK, {THREADS} threads" if kind == "cpu" else "tflgpu"
    hello = {"engine": f"{host.name} {host.version} {kernels}", "device": device, "first_ms": first}
    print(json.dumps(hello), flush=True)
    for line in sys.stdin:
        print(json.dumps([_timed(interpreter, image) for _ in range(int(line))]), flush=True)


def _timed(interpreter: Any, image: Any) -> float:
    """Milliseconds from a picture in host memory to the output in host memory."""
    start = time.perf_counter()
    hosts.feed(interpreter, [image])
    interpreter.invoke()
    hosts.outputs(interpreter)
    return (time.perf_counter() - start) * 1e3


def _open_device() -> str:
    """Import everything and open the device that the delegate uses; returns the adapter's name."""
    for module in ("engine", "providers.tflite.delegate"):
        importlib.import_module(f"tflgpu_plugin.{module}")
    from tflgpu_plugin.runtime import adapter

    info = adapter.select(None)
    adapter.open_device(info)
    return info.name


if __name__ == "__main__":
    main(*sys.argv[1:])
