"""ONNX operators without a kernel here, whose results are computed before a run, from shapes or
constants."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from tflgpu_plugin.errors import Unsupported
from tflgpu_plugin.importer import meanings
from tflgpu_plugin.importer.builder import Builder
from tflgpu_plugin.ir.graph import Array
from tflgpu_plugin.ir.host_op import HostOp, table
from tflgpu_plugin.ops import evaluation

from .rows import row


def shape(e: Builder) -> int:
    """Returns the extents of the axes from `start` to `end`, as int64."""
    end = e.host.attributes.get("end")
    listed = e.shape()[e.integer("start") : None if end is None else int(end)]
    return e.const(np.array(listed, np.int64), np.int64)


def size(e: Builder) -> int:
    """Returns the number of elements, as int64."""
    return e.const(np.array(prod(e.shape()), np.int64), np.int64)


def fill(e: Builder) -> int:
    """Returns a tensor of the given shape, filled with one value."""
    return _made(e, meanings.fill, e.value(0), e.host.attributes.get("value"))


def steps(e: Builder) -> int:
    """Returns the numbers from start to end, by a step."""
    return _made(e, meanings.steps, *(e.value(k) for k in range(3)))


def _made(e: Builder, meaning: Callable[..., Array], *values: Array | None) -> int:
    try:
        made = meaning(*values, limit=e.known_limit)
    except evaluation.FAILURES as error:
        raise Unsupported.of(
            "dynamic.value", f"What {e.host.title} gives is not known before a run."
        ) from error
    return e.const(made, made.dtype)


CPU_OPS: dict[str, HostOp] = table(
    (
        row("ConstantOfShape", "", (9, 28), "shape!", by=fill),
        row("Range", "", (11, 28), "starts! ends! steps!", by=steps),
        row("Shape", "", (1, 28), by=shape, bfloat16=True),
        row("Size", "", (1, 28), by=size, bfloat16=True),
    ),
    {},
)
