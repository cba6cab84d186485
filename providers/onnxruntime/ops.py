"""The table of ONNX operators: what each becomes and which opset versions are read.

A version is that of the operator's definition (the opset that introduced it), as onnxruntime tells
it for every node. A range begins where the definition first has the meaning that the row reads, and
ends with the newest definition known (opset 26). Later definitions add element types.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tflgpu_plugin import ops as internal
from tflgpu_plugin.graph import Form

from . import elementwise as ew
from . import matrices, rearranging, windows

Row = Callable[[Any], Any]


def _row(host_op: str, op: str, versions: tuple[int, int], build: Row) -> Form:
    return Form(host_op, op, versions, {}, build)


_ROWS: tuple[Form, ...] = (
    _row("Add", "add", (7, 14), ew.binary("add")),
    _row("AveragePool", "average_pool_2d", (7, 22), windows.average_pool),
    _row("And", "logical_and", (7, 7), ew.binary("logical_and")),
    _row("BatchNormalization", "mul", (7, 15), matrices.batch_normalization),
    _row("Cast", "reshape", (6, 25), ew.cast),
    _row("Clip", "maximum", (6, 13), ew.clip),
    _row("Concat", "concat", (4, 13), rearranging.concat),
    _row("Conv", "conv_2d", (1, 22), windows.conv),
    _row("ConvTranspose", "transpose_conv", (1, 22), windows.conv_transpose),
    _row("Dropout", "reshape", (7, 22), rearranging.dropout),
    _row("Exp", "exp", (6, 13), ew.unary("exp")),
    _row("Flatten", "reshape", (1, 25), rearranging.flatten),
    _row("Gemm", "fully_connected", (7, 13), matrices.gemm),
    _row("GlobalAveragePool", "mean", (1, 22), ew.pool_all("mean")),
    _row("Identity", "reshape", (1, 25), rearranging.same),
    _row("MatMul", "fully_connected", (1, 13), matrices.matmul),
    _row("Max", "maximum", (8, 13), ew.variadic("maximum")),
    _row("MaxPool", "max_pool_2d", (1, 22), windows.max_pool),
    _row("Mean", "add", (8, 13), ew.average),
    _row("Min", "minimum", (8, 13), ew.variadic("minimum")),
    _row("Mul", "mul", (7, 14), ew.binary("mul")),
    _row("PRelu", "prelu", (7, 16), ew.prelu),
    _row("Pad", "pad", (2, 25), rearranging.pad),
    _row("ReduceMean", "mean", (1, 18), ew.reduction("mean")),
    _row("Relu", "relu", (6, 14), ew.unary("relu")),
    _row("Reshape", "reshape", (5, 25), rearranging.reshape),
    _row("Sigmoid", "logistic", (6, 13), ew.unary("logistic")),
    _row("Slice", "strided_slice", (1, 13), rearranging.slices),
    _row("Softmax", "softmax", (1, 13), ew.softmax),
    _row("Split", "strided_slice", (2, 18), rearranging.split),
    _row("Squeeze", "reshape", (1, 25), rearranging.squeeze),
    _row("Sub", "sub", (7, 14), ew.binary("sub")),
    _row("Sum", "add", (8, 13), ew.variadic("add")),
    _row("Tanh", "tanh", (6, 13), ew.unary("tanh")),
    _row("Transpose", "transpose", (1, 25), rearranging.transpose),
    _row("Unsqueeze", "reshape", (1, 25), rearranging.unsqueeze),
)

FORMS: dict[str, Form] = {form.host_op: form for form in _ROWS if form.op in internal.table()}
