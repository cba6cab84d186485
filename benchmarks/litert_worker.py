"""One engine in its own process: LiteRT's GPU accelerator (WebGPU) at float32. Speaks the protocol
of `benchmarks.engine`.

Runs under the interpreter of LiteRT's own environment, so it imports nothing of ours. The device is
made within the measured time of the first result: LiteRT has no way to make it before.
Usage: litert_worker.py MODEL INPUT.npy OUTPUTS.npz
"""

import importlib.metadata
import json
import os
import sys
import time
from typing import Any, NoReturn

import numpy as np
from ai_edge_litert import compiled_model


def main(model: str, source: str, result: str) -> None:
    image = np.load(source)
    gpu = compiled_model.HardwareAccelerator.GPU
    exact = compiled_model.GpuOptions(enforce_f32=True)
    options = compiled_model.Options(hardware_accelerators=gpu, gpu_options=exact)

    start = time.perf_counter()
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

    values = run()
    first = (time.perf_counter() - start) * 1e3
    np.savez(result, *values)
    engine = f"ai-edge-litert {importlib.metadata.version('ai-edge-litert')} GPU f32"
    print(json.dumps({"engine": engine, "device": "WebGPU", "first_ms": first}), flush=True)
    for line in sys.stdin:
        times = []
        for _ in range(int(line)):
            begin = time.perf_counter()
            run()
            times.append((time.perf_counter() - begin) * 1e3)
        print(json.dumps(times), flush=True)


def say_and_end(reason: str) -> NoReturn:
    """At once, since LiteRT says other things when it is taken down, and the last line counts."""
    print(reason, file=sys.stderr, flush=True)
    os._exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
