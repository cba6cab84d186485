"""Chains of large matrices as model files, and what a host takes to get one ready.

`python -m tests.support.large_models make KIND PATH` writes a model; `cpu` or `gpu` instead of
`make` makes an interpreter or a session of it on a host's own kernels or through our plugin, runs
it once, and prints a JSON object: bytes that the process grew by at most, CPU seconds until it was
ready, and a sum over the result, and those that it has grown by in the end. KIND is tflite, half
(the same with weights in float16), onnx, or external (ONNX with its weights in a file beside it).
"""

from __future__ import annotations

import gc
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tflgpu_plugin.ir import Array

SIDE, LAYERS = 5120, 4
BYTES = LAYERS * SIDE * SIDE * 4  # 419 MB
TFLITE = ("tflite", "half")
Ready = Callable[[str, bool], Callable[[Array], Array]]


def matrices(side: int, layers: int) -> Iterator[Array]:
    """Yields seeded matrices, all different; products keep the magnitude of their operands."""
    random = np.random.default_rng(0)
    base = random.standard_normal((side, side), np.float32) / np.float32(side**0.5)
    return (np.roll(base, 7 * k, axis=0) for k in range(layers))


def make(kind: str, path: Path, side: int = SIDE, layers: int = LAYERS) -> None:
    """Writes a model of this kind."""
    if kind in TFLITE:
        path.write_bytes(_tflite(side, layers, kind == "half"))
    else:
        _onnx(path, kind == "external", side, layers)


def _tflite(side: int, layers: int, half: bool) -> bytes:
    from conformance.models.tflite import Model

    model = Model()
    x = model.input("x", (1, side))
    for matrix in matrices(side, layers):
        weights = model.constant(matrix.astype(np.float16) if half else matrix)
        if half:
            weights = model.op("DEQUANTIZE", [weights], "DequantizeOptions", {}, shape=matrix.shape)
        x = model.op(
            "FULLY_CONNECTED", [x, weights], "FullyConnectedOptions",
            {"fusedActivationFunction": "RELU"}, shape=(1, side),
        )  # fmt: skip
    model.output(x)
    return model.to_bytes()


def _onnx(path: Path, external: bool, side: int, layers: int) -> None:
    from onnx import TensorProto, helper, save

    values, nodes, x = [], [], "x"
    for k, matrix in enumerate(matrices(side, layers)):
        tensor = helper.make_tensor(
            f"w{k}", TensorProto.FLOAT, matrix.shape, matrix.tobytes(), True
        )
        values.append(tensor)
        nodes.append(helper.make_node("MatMul", [x, f"w{k}"], [f"h{k}"]))
        nodes.append(helper.make_node("Relu", [f"h{k}"], [f"y{k}"]))
        x = f"y{k}"
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, side]) for n in ("x", x)]
    graph = helper.make_graph(nodes, "large", ends[:1], ends[1:], values)
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )  # as old hosts read it
    save(model, path, save_as_external_data=external, location=f"{path.name}.data")


def _interpreter(path: str, gpu: bool) -> Callable[[Array], Array]:
    from tflgpu_plugin.harness import hosts

    host = hosts.host()
    delegates = [host.delegate()] if gpu else []
    interpreter = host.plain(Path(path), experimental_delegates=delegates)
    interpreter.allocate_tensors()
    return lambda x: np.asarray(hosts.invoked(interpreter, [x])[0])


def _session(path: str, gpu: bool) -> Callable[[Array], Array]:
    import tflgpu_plugin
    from tflgpu_plugin.harness import onnx

    session = onnx.opened(path, onnx.settings(), {} if gpu else None)
    if gpu:
        tflgpu_plugin.assert_used(session)
    return lambda x: np.asarray(session.run(None, {"x": x})[0])


def resident() -> int:
    """Returns bytes of this process in memory, mapped files included."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines["VmRSS"].split()[0]) * 1024


def measure(kind: str, path: str, small: str, gpu: bool) -> dict[str, Any]:
    """Returns the memory that the large model needs, measured after everything has been loaded for
    a small one."""
    ready: Ready = _interpreter if kind in TFLITE else _session
    ready(small, gpu)(np.zeros((1, 64), np.float32))
    before, peak, ended = resident(), [0], threading.Event()

    def watch() -> None:
        while not ended.wait(0.002):
            peak[0] = max(peak[0], resident())

    watching = threading.Thread(target=watch)
    watching.start()
    start = time.process_time()
    run = ready(path, gpu)
    seconds = time.process_time() - start
    result = run(np.random.default_rng(1).standard_normal((1, SIDE)).astype(np.float32))
    ended.set()
    watching.join()
    gc.collect()
    kept, total = resident() - before, float(np.abs(result).sum())
    return {"bytes": peak[0] - before, "kept": kept, "cpu_seconds": seconds, "sum": total}


def main(arguments: list[str]) -> None:
    what, kind, path = arguments
    small = Path(path).with_name(f"small-{Path(path).name}")
    if what == "make":
        make(kind, Path(path))
        make(kind, small, 64, 1)
    else:
        print(json.dumps(measure(kind, path, str(small), what == "gpu")))


if __name__ == "__main__":
    main(sys.argv[1:])
