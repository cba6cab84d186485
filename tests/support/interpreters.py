"""Interpreters with the delegate, for tests of the TFLite frontend."""

from __future__ import annotations

from typing import Any

import numpy as np

import tflgpu_plugin
from conformance import host as hosts


def delegate(host: str, **options: Any) -> Any:
    return hosts.load_delegate(host, options)


beside = "reference"  # the kernels of what is left to the CPU; the fixture `resolver` changes them


def gpu(model: bytes, host: str, kernels: str | None = None, **options: Any) -> tuple[Any, Any]:
    """Returns (an allocated interpreter, its delegate)."""
    made = delegate(host, **options)
    interpreter = hosts.interpreter(model, host, kernels or beside, experimental_delegates=[made])
    interpreter.allocate_tensors()
    return interpreter, made


def feeds(interpreter: Any, seed: int = 0) -> list[Any]:
    random = np.random.default_rng(seed)
    return [
        random.uniform(-1, 1, detail["shape"]).astype(detail["dtype"])
        for detail in interpreter.get_input_details()
    ]


def same(
    interpreter: Any, model: bytes, host: str, seed: int = 0, kernels: str = "reference"
) -> None:
    """The outputs are those of the host's own kernels, at the interpreter's shapes."""
    reference = hosts.interpreter(model, host, kernels)
    for detail in interpreter.get_input_details():
        reference.resize_tensor_input(detail["index"], detail["shape"])
    reference.allocate_tensors()
    values = feeds(interpreter, seed)
    ours, theirs = (hosts.invoke(i, [values])[0] for i in (interpreter, reference))
    for got, wanted in zip(ours, theirs, strict=True):
        assert got.shape == wanted.shape
        np.testing.assert_allclose(
            got, wanted, rtol=0, atol=2e-6 * max(1, np.abs(wanted).max(initial=0))
        )


def places(made: Any) -> dict[str, str]:
    """Returns where each node is, by its name."""
    return {node.name: node.where for node in tflgpu_plugin.report(made).nodes}
