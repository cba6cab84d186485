"""python -m tests.support.cached_run: runs one model through the delegate or the provider in a
fresh process, for tests of the cache between processes.

Takes a JSON object (host, model, options, shapes) and prints one: digests of the outputs, how often
something was planned or measured, the largest difference to the host's own kernels, and the nodes
that stayed on the CPU."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

import tflgpu_plugin
from conformance import host as hosts
from tests.support import interpreters, onnx_models
from tflgpu_plugin.compile import compiler, tuning
from tflgpu_plugin.frontend.reports import GPU

counts: dict[str, int] = {}


def count(module: Any, name: str) -> None:
    """Counts calls of this function from now on."""
    function: Callable[..., Any] = getattr(module, name)

    def counted(*args: Any, **named: Any) -> Any:
        counts[name] = counts.get(name, 0) + 1
        return function(*args, **named)

    counts[name] = 0
    setattr(module, name, counted)


def tflite(model: bytes, given: Any) -> tuple[Any, list[tuple[Any, Any]]]:
    """Returns (report, pairs of our output and the host's), for each shape in turn."""
    ours, made = interpreters.gpu(model, given["host"], **given["options"])
    theirs = hosts.interpreter(model, given["host"])
    found = []
    for shape in given["shapes"] or [None]:
        for one in (ours, theirs):
            if shape:
                one.resize_tensor_input(one.get_input_details()[0]["index"], shape)
            one.allocate_tensors()
        values = [feed(detail["shape"], detail["dtype"]) for detail in theirs.get_input_details()]
        results = (hosts.invoke(one, [values])[0] for one in (ours, theirs))
        found += list(zip(*results, strict=True))
    return tflgpu_plugin.report(made), found


def feed(shape: Any, dtype: Any) -> Any:
    """Returns values between -1 and 1, or all that 8 bits can hold."""
    random = np.random.default_rng(1)
    if np.dtype(dtype).kind == "f":
        return random.uniform(-1, 1, shape).astype(dtype)
    return random.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype)


def onnx(model: bytes, given: Any) -> tuple[Any, list[tuple[Any, Any]]]:
    """Returns the same for sessions; `shapes` are those of the only input."""
    ours, theirs = onnx_models.session(model, **given["options"]), onnx_models.cpu(model)
    found = []
    for shape in given["shapes"]:
        feeds = {"x": feed(shape, np.float32)}
        found += list(zip(ours.run(None, feeds), theirs.run(None, feeds), strict=True))
    return tflgpu_plugin.report(ours), found


def main() -> None:
    given = json.loads(sys.argv[1])
    count(compiler, "assembly")  # of plans and of templates
    count(tuning, "best_settings")
    model = Path(given["model"]).read_bytes()
    report, pairs = (onnx if given["host"] == "onnxruntime" else tflite)(model, given)
    outputs = [sha256(np.ascontiguousarray(ours).data).hexdigest() for ours, _ in pairs]
    away = [float(np.abs(a.astype(np.float64) - b).max()) for a, b in pairs]
    print(
        json.dumps(
            {
                "outputs": outputs,
                "planned": counts["assembly"],
                "measured": counts["best_settings"],
                "away": max(away),
                "cpu": [node.name for node in report.nodes if node.where != GPU],
            }
        )
    )


if __name__ == "__main__":
    main()
