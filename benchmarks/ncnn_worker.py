"""One engine in its own process: ncnn's Vulkan backend at float32. Speaks the protocol of
`benchmarks.engine`.

Runs under the interpreter of ncnn's own environment, so it imports nothing of the plugin.
The blobs are `in0`, and `out0`, `out1`, ... without a batch, as pnnx names them.
Usage: python -m benchmarks.ncnn_worker PARAM BIN INPUT.npy OUTPUTS.npz"""

import sys
from collections.abc import Callable
from typing import Any

import ncnn
import numpy as np

from benchmarks.serving import serve, timed


def main(param: str, weights: str, source: str, result: str) -> None:
    image = np.load(source)[0]
    if ncnn.get_gpu_count() == 0:
        raise SystemExit("ncnn sees no Vulkan device")
    # The device is made here, outside the measured time, as for every engine.
    ncnn.get_gpu_device(0)

    def start() -> tuple[Callable[[], list[Any]], list[Any]]:
        net = ncnn.Net()
        net.opt.use_vulkan_compute = True
        net.opt.num_threads = 2
        net.opt.use_fp16_packed = net.opt.use_fp16_storage = net.opt.use_fp16_arithmetic = False
        net.opt.use_bf16_storage = False
        if net.load_param(param) or net.load_model(weights):
            sys.exit(1)  # ncnn has said why
        names = [f"out{number}" for number in range(len(net.output_names()))]

        def run() -> list[Any]:
            with net.create_extractor() as extractor:
                extractor.input("in0", ncnn.Mat(image).clone())  # its shaders want aligned planes
                return [np.array(extractor.extract(name)[1]) for name in names]

        return run, run()

    (run, values), first = timed(start)
    device = ncnn.get_gpu_info(0).device_name()
    engine = f"ncnn {ncnn.__version__} Vulkan f32"
    serve(result, engine, device, first, [value[None] for value in values], run)


main(*sys.argv[1:])
