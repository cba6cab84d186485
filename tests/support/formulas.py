"""Graphs written as formulas: arithmetic of values adds nodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tests.support.net import Net
from tflgpu_plugin.ir import Array, Shape


@dataclass(frozen=True)
class Value:
    """A tensor of a graph under construction."""

    n: Net
    tensor: int

    @property
    def shape(self) -> Shape:
        return self.n.shape(self.tensor)

    def op(self, op: str, *operands: Value | Array | float | None, **attributes: object) -> Value:
        given = [None if each is None else self._tensor(each) for each in operands]
        return Value(self.n, self.n.op(op, self.tensor, *given, **attributes))

    def binary(self, op: str, other: Value | Array | float) -> Value:
        return self.op(op, other, activation="none")

    def mean(self, *axes: int) -> Value:
        return self.op("mean", np.array(axes, np.int32), keep_dims=True)

    def _tensor(self, given: Value | Array | float) -> int:
        if isinstance(given, Value):
            return given.tensor
        return self.n.constant(given) if isinstance(given, np.ndarray) else self.n.number(given)

    def __add__(self, other: Value | Array | float) -> Value:
        return self.binary("add", other)

    def __sub__(self, other: Value | Array | float) -> Value:
        return self.binary("sub", other)

    def __mul__(self, other: Value | Array | float) -> Value:
        return self.binary("mul", other)

    def __truediv__(self, other: Value | Array | float) -> Value:
        return self.binary("div", other)

    def __neg__(self) -> Value:
        return self.op("neg")
