"""Runs a library that makes its own sessions on the GPU, here onnxruntime itself on any model.

    pip install onnxruntime
    python examples/unchanged.py model.onnx

Replace `library` by calls of rapidocr, rembg or your own code: sessions that name no provider, or
the CPU's, get the GPU within the block. For a whole program, type tflgpu exec -- PROGRAM."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import onnxruntime

import tflgpu_plugin


def library(model: str) -> tuple[Any, list[Any]]:
    """Returns a session that names no provider, and its outputs for inputs of ones."""
    session = onnxruntime.InferenceSession(model)
    feeds = {
        given.name: np.ones([n if isinstance(n, int) else 1 for n in given.shape], np.float32)
        for given in session.get_inputs()
    }
    return session, session.run(None, feeds)


def main(model: str) -> None:
    with tflgpu_plugin.preferred():
        session, outputs = library(model)
    print([output.shape for output in outputs])
    print(tflgpu_plugin.report(session))


if __name__ == "__main__":
    main(*sys.argv[1:])
