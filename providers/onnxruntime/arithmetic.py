"""ONNX operators without a kernel here, whose results are computed before a run."""

from __future__ import annotations

from tflgpu_plugin.ir import HostOp, table
from tflgpu_plugin.providers import arithmetic

from .rows import row

CPU_OPS: dict[str, HostOp] = table(
    (
        row("ConstantOfShape", "", (9, 28), "shape!", by=arithmetic.fill),
        row("Range", "", (11, 28), "starts! ends! steps!", by=arithmetic.steps),
        row("Shape", "", (1, 28), by=arithmetic.shape, bfloat16=True),
        row("Size", "", (1, 28), by=arithmetic.size, bfloat16=True),
    )
)
