"""python -m benchmarks.compiled.ncnn_worker PARAM BIN INPUT.npy HALF: runs a network once in ncnn
on the null device that the environment names, whose layer records the dispatches; prints how many
dispatches came before the run. It runs under the interpreter of ncnn's own environment."""

import os
import sys
from pathlib import Path

import ncnn
import numpy as np


def main(param: str, weights: str, source: str, half: str) -> None:
    net = ncnn.Net()
    net.opt.use_vulkan_compute = True
    for name in ("fp16_packed", "fp16_storage", "fp16_arithmetic"):
        setattr(net.opt, f"use_{name}", half == "1")
    net.opt.use_bf16_storage = False
    if net.load_param(param) or net.load_model(weights):
        sys.exit(1)  # ncnn has said why
    told = Path(os.environ["NULL_DEVICE_TRACE"]) / "dispatches-0"
    before = len(told.read_text().splitlines()) if told.exists() else 0
    extractor = net.create_extractor()
    extractor.input("in0", ncnn.Mat(np.load(source)[0]).clone())
    extractor.extract("out0")
    print(before, flush=True)
    os._exit(0)  # nothing is put away: a null device has no queue to wait for


main(*sys.argv[1:])
