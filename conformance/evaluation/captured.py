"""Captures the graphs from which partitions of a model are planned, without planning: nothing is
built, and the host runs the model on its CPU kernels."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from conformance import host, onnx_host
from tflgpu_plugin.compile import compiler
from tflgpu_plugin.errors import Unsupported
from tflgpu_plugin.harness import onnx
from tflgpu_plugin.ir import Graph, Refusal
from tflgpu_plugin.passes.quant.dequantize import widen

ONLY_READ = Refusal("option.excluded", "Only its graph is wanted.")


@contextmanager
def captured() -> Iterator[list[Graph]]:
    """Yields the list of graphs that would be planned while the context is entered, in order."""
    found: list[Graph] = []

    def compile(graph: Graph, target: Any) -> None:
        found.append(_owned(graph))
        raise Unsupported(ONLY_READ, *(node.id for node in graph.nodes))

    with mock.patch.object(compiler, "compile", compile):
        yield found


def _owned(graph: Graph) -> Graph:
    """Returns the graph over float32 constants that it owns, on which parts of ops are evaluated;
    the host's constants are freed with its model."""
    graph = widen(graph)
    tensors = {
        t: held if held.data is None else replace(held, data=np.array(held.data))
        for t, held in graph.tensors.items()
    }
    return replace(graph, tensors=tensors)


def of_tflite(content: bytes, host_name: str | None = None, **options: Any) -> list[Graph]:
    """Returns a TFLite model's graphs. Raises ValueError or RuntimeError if the host refuses it."""
    with captured() as found:
        delegate = host.load_delegate(host_name, {"force": True, **options})
        made = host.interpreter(
            content, *host.oracle(content, host_name), experimental_delegates=[delegate]
        )
        made.allocate_tensors()
    return found


def of_onnx(model: bytes | Path, exclude: str = "") -> list[Graph]:
    """Returns the graphs of an ONNX model, not optimized. Raises what onnxruntime raises."""
    options = {"force": "1"} | ({"exclude": exclude} if exclude else {})
    settings = onnx.settings(optimized=False, threads=1, logs=onnx.FATAL)
    with captured() as found:
        onnx.opened(model, settings, options, onnx_host.place(None))
    return found
