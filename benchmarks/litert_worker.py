"""One engine in its own process: LiteRT's GPU accelerator (WebGPU) at float32. Speaks the protocol
of `benchmarks.engine`.

Runs under the interpreter of LiteRT's own environment, so it imports nothing of the plugin. The
device is made within the measured time of the first result: LiteRT has no way to make it before.
Usage: python -m benchmarks.litert_worker MODEL INPUT.npy OUTPUTS.npz"""

import importlib.metadata
import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
from ai_edge_litert import compiled_model

from benchmarks.serving import serve, timed


def main(model: str, source: str, result: str) -> None:
    image = np.load(source)
    gpu = compiled_model.HardwareAccelerator.GPU
    exact = compiled_model.GpuOptions(enforce_f32=True)
    options = compiled_model.Options(hardware_accelerators=gpu, gpu_options=exact)

    def start() -> tuple[Callable[[], list[Any]], list[Any]]:
        try:
            compiled = compiled_model.CompiledModel.from_file(model, options=options)
        except RuntimeError as error:
            say_and_end(str(error).splitlines()[-1].strip("└ "))
        if not compiled.is_fully_accelerated():
            say_and_end("LiteRT left nodes to the CPU")
        (signature,) = compiled.get_signature_list()
        shapes = [d["shape"] for d in compiled.get_output_tensor_details(signature).values()]
        given, results = compiled.create_input_buffers(0), compiled.create_output_buffers(0)

        def run() -> list[Any]:
            given[0].write(image)
            compiled.run_by_index(0, given, results)
            return [
                buffer.read(int(np.prod(shape)), np.float32).reshape(shape)
                for buffer, shape in zip(results, shapes, strict=True)
            ]

        return run, run()

    (run, values), first = timed(start)
    engine = f"ai-edge-litert {importlib.metadata.version('ai-edge-litert')} GPU f32"
    serve(result, engine, "WebGPU", first, values, run)


def say_and_end(reason: str) -> NoReturn:
    """Ends at once, since LiteRT prints other lines when it is torn down, and the last line
    counts."""
    print(reason, file=sys.stderr, flush=True)
    os._exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
