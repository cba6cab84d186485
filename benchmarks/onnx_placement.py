"""python -m benchmarks.onnx_placement MODEL INPUT: prints as JSON how many nodes onnxruntime's
WebGPU provider and its CPU provider ran, by its profile. It runs under the interpreter of the
peer's environment."""

import json
import sys
import tempfile
from collections import Counter
from pathlib import Path

import onnxruntime

from benchmarks.onnx_worker import fed, providers


def main(model: str, source: str) -> None:
    options = onnxruntime.SessionOptions()
    options.enable_profiling = True
    options.log_severity_level = 3
    with tempfile.TemporaryDirectory() as folder:
        options.profile_file_prefix = str(Path(folder) / "profile")
        session = onnxruntime.InferenceSession(model, options, providers=providers("webgpu"))
        session.run(None, fed(session, source))
        events = json.loads(Path(session.end_profiling()).read_text())
    ran = (e["args"]["provider"] for e in events if e["name"].endswith("_kernel_time"))
    print(json.dumps(Counter(ran)))


if __name__ == "__main__":
    main(*sys.argv[1:])
