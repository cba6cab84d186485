"""python -m benchmarks.compiled.webgpu_worker MODEL INPUTS.npz: runs a network twice in
onnxruntime's WebGPU provider on the null device that the environment names, whose layer records the
dispatches, and prints how many dispatches came before the second run. It runs under the interpreter
of the provider's own environment."""

import os
import sys
from pathlib import Path

import onnxruntime

from benchmarks.onnx_worker import WEBGPU, fed


def main(model: str, source: str) -> None:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=[WEBGPU])
    if session.get_providers()[0] != WEBGPU:
        sys.exit("onnxruntime fell back to its CPU provider")
    inputs = fed(session, source)
    session.run(None, inputs)
    told = Path(os.environ["NULL_DEVICE_TRACE"]) / "dispatches-0"
    before = len(told.read_text().splitlines())
    session.run(None, inputs)
    print(before, flush=True)
    os._exit(0)  # nothing is put away: a null device has no queue to wait for


main(*sys.argv[1:])
