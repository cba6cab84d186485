"""python -m benchmarks.planning: measures processor time until a session of a large model is ready.

The model has layers of attention with seeded weights, as exporters write them, up to a number of
nodes; onnxruntime does not optimize them. Sessions of ours, after one that is not counted, beside
one on the CPU provider, whose time is included in ours."""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

import tflgpu_plugin
from tflgpu_plugin.harness import onnx

LENGTH, WIDTH, HEADS = 16, 64, 4


class Model:
    """Nodes and constants of a model; results are identified by name."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.chance = np.random.default_rng(0)

    def op(self, op: str, *inputs: Any, **attributes: Any) -> str:
        """Adds a node of named results and arrays."""
        from onnx import helper

        made = f"t{len(self.nodes)}"
        names = [i if isinstance(i, str) else self._constant(i) for i in inputs]
        self.nodes.append(helper.make_node(op, names, [made], **attributes))
        return made

    def _constant(self, value: Any) -> str:
        from onnx import numpy_helper

        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def dense(self, x: str) -> str:
        weights = self.chance.normal(0, 0.1, (WIDTH, WIDTH)).astype(np.float32)
        return self.op("Add", self.op("MatMul", x, weights), np.zeros(WIDTH, np.float32))

    def heads(self, x: str, perm: list[int]) -> str:
        split = self.op("Reshape", x, np.array([1, LENGTH, HEADS, WIDTH // HEADS]))
        return self.op("Transpose", split, perm=perm)

    def layer(self, x: str) -> str:
        """Adds a layer of 27 nodes."""
        q, k, v = (self.heads(self.dense(x), p) for p in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]))
        scores = self.op("Mul", self.op("MatMul", q, k), np.float32(0.25))
        y = self.op("MatMul", self.op("Softmax", scores, axis=-1), v)
        y = self.op("Transpose", y, perm=[0, 2, 1, 3])
        y = self.dense(self.op("Reshape", y, np.array([1, LENGTH, WIDTH])))
        scale, bias = np.ones(WIDTH, np.float32), np.zeros(WIDTH, np.float32)
        y = self.op("LayerNormalization", self.op("Add", y, x), scale, bias)
        return self.op("Tanh", self.op("Add", self.op("Relu", self.dense(y)), y))

    def file(self, nodes: int) -> onnx.File:
        from onnx import TensorProto, helper

        y = "x"
        while len(self.nodes) < nodes:
            y = self.layer(y)
        x, out = (
            helper.make_tensor_value_info(n, TensorProto.FLOAT, (1, LENGTH, WIDTH))
            for n in ("x", y)
        )
        graph = helper.make_graph(self.nodes, "layers", [x], [out], self.constants)
        opsets = [helper.make_opsetid("", 17)]
        made = helper.make_model(graph, opset_imports=opsets, ir_version=9)
        return onnx.File(made.SerializeToString())


def seconds(file: onnx.File, options: dict[str, Any] | None) -> tuple[float, Any]:
    """Returns processor time of all threads, and the session."""
    start = time.process_time()
    session = onnx.session(file, options, optimized=False)
    return time.process_time() - start, session


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=3000)
    given = parser.parse_args()
    model = Model()
    file = model.file(given.nodes)
    _, session = seconds(file, {})
    taken = tflgpu_plugin.report(session).count("gpu")
    ours = ", ".join(f"{seconds(file, {})[0]:.2f}" for _ in range(3))
    host = min(seconds(file, None)[0] for _ in range(3))
    print(f"{taken} of {len(model.nodes)} nodes on the GPU; {ours} s, the host alone {host:.2f} s")


if __name__ == "__main__":
    main()
