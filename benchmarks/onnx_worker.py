"""One engine in its own process: onnxruntime on its CPU provider, on ours, or on WebGPU.

Speaks the protocol of `benchmarks.engine`. May run under the interpreter of a peer's environment,
so it imports nothing of ours but the plugin when that is what is measured. Imports and the creation
of the device are outside the measured time.
Usage: python -m benchmarks.onnx_worker cpu|gpu|webgpu MODEL INPUT OUTPUTS.npz, where INPUT is an
array (.npy) for the only input, or arrays by their inputs' names (.npz)."""

import importlib
import sys
from typing import Any

import numpy as np
import onnxruntime

from benchmarks.serving import serve, timed

THREADS = 2
NAMES = {
    "cpu": f"CPU, {THREADS} threads",
    "gpu": "tflgpu",
    "webgpu": "WebGPU",
}
WEBGPU = "WebGpuExecutionProvider"


def main(kind: str, model: str, source: str, result: str) -> None:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    options.log_severity_level = 3
    device = open_device() if kind == "gpu" else NAMES[kind].split(",")[0]

    def start() -> tuple[Any, dict[str, Any], Any]:
        session = onnxruntime.InferenceSession(model, options, providers=providers(kind))
        inputs = fed(session, source)
        return session, inputs, session.run(None, inputs)

    (session, inputs, values), first = timed(start)
    if kind == "webgpu" and session.get_providers()[0] != WEBGPU:
        raise SystemExit("onnxruntime fell back to its CPU provider")
    if kind == "gpu":
        import tflgpu_plugin

        tflgpu_plugin.assert_used(session)
    engine = f"onnxruntime {onnxruntime.__version__} {NAMES[kind]}"
    serve(result, engine, device, first, values, lambda: session.run(None, inputs))


def fed(session: Any, source: str) -> dict[str, Any]:
    """Returns the inputs of a session, by name, from the file."""
    given, names = np.load(source), [one.name for one in session.get_inputs()]
    return {names[0]: given} if source.endswith(".npy") else {name: given[name] for name in names}


def providers(kind: str) -> list[str]:
    if kind == "gpu":
        import tflgpu_plugin

        return [tflgpu_plugin.get_ep_name()]
    return ["CPUExecutionProvider"] if kind == "cpu" else [WEBGPU, "CPUExecutionProvider"]


def open_device() -> Any:
    """Imports everything, registers our provider and opens the device that it uses; returns the
    adapter's name."""
    import tflgpu_plugin

    importlib.import_module("tflgpu_plugin.providers.onnxruntime.ep")
    from tflgpu_plugin.runtime import adapter

    tflgpu_plugin.register()
    info = adapter.select(None)
    adapter.open_device(info)
    return info.name


if __name__ == "__main__":
    main(*sys.argv[1:])
