"""A random graph under construction."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from conformance.models.tflite import Model, Shape

MAX_ELEMENTS = 40_000  # elements of a tensor
ACTIVATIONS = ("NONE", "NONE", "RELU", "RELU6", "RELU_N1_TO_1")
# Results are elements of the inputs, or these with another sign.
EXACT = {
    *("RESHAPE", "TRANSPOSE", "STRIDED_SLICE", "SLICE", "GATHER", "GATHER_ND", "CONCATENATION"),
    *("SPACE_TO_DEPTH", "DEPTH_TO_SPACE", "SQUEEZE", "EXPAND_DIMS", "TILE", "REVERSE_V2", "PAD"),
    *("MIRROR_PAD", "RELU", "RELU6", "MAXIMUM", "MINIMUM", "MAX_POOL_2D", "NEG", "ABS"),
}


@dataclass
class Maker:
    """A model under construction; `tensors` are the values that later operators may read, `exact`
    those of them that were computed without rounding."""

    seed: int
    model: Model = field(default_factory=Model)
    tensors: list[int] = field(default_factory=list)
    exact: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.choose = random.Random(self.seed)
        self.numbers = np.random.default_rng(self.seed)

    def shape(self, tensor: int) -> Shape:
        return self.model.tensors[tensor].shape

    def pick(self, rank: int | None = None, like: Shape | None = None, but: int = -1) -> int:
        """Returns a tensor, usually a recent one: of this rank, or of the shape `like` except on
        the axis `but`."""
        fitting = [t for t in self.tensors if rank is None or len(self.shape(t)) == rank]
        if like is not None:
            fitting = [t for t in fitting if _fits(self.shape(t), like, but)]
        recent = fitting[-5:] if self.choose.random() < 0.7 else fitting
        return self.choose.choice(recent)

    def weights(self, *shape: int) -> int:
        """Returns a constant for which sums of products have a standard deviation of about 1."""
        scale = (3.0 / max(1, prod(shape[1:]))) ** 0.5 if len(shape) > 1 else 1.0
        return self.model.constant(self.numbers.uniform(-scale, scale, shape).astype(np.float32))

    def integers(self, *values: Any) -> int:
        return self.model.constant(np.asarray(values, np.int32))

    def add(
        self,
        op: str,
        inputs: Sequence[int],
        table: str | None = None,
        version: int = 1,
        **options: Any,
    ) -> int | None:
        """Adds an operator; returns None if the host refuses it or its result is empty or too
        large."""
        return next(iter(self.many(op, inputs, table, version=version, **options)), None)

    def many(
        self,
        op: str,
        inputs: Sequence[int],
        table: str | None = None,
        dtypes: Sequence[str] = ("f32",),
        version: int = 1,
        **options: Any,
    ) -> list[int]:
        """Does the same for several results of these types; returns an empty list in place of
        None."""
        model, shapes = self.model, [()] * len(dtypes)
        results = model.multi_op(
            op, inputs, table, options, shapes=shapes, dtypes=dtypes, version=version
        )
        model.outputs = [*results]
        try:
            model.infer_shapes()
        except ValueError:
            model.operators.pop()
            return []
        made = [self.shape(t) for t in results]
        if any(min(shape, default=1) < 1 or prod(shape) > MAX_ELEMENTS for shape in made):
            model.operators.pop()
            for t in results:
                model.tensors[t].shape = ()
            return []
        self.tensors += [t for t, kind in zip(results, dtypes, strict=True) if kind == "f32"]
        known = (t in self.exact or model.tensors[t].data is not None for t in inputs)
        if op in EXACT and all(known):
            self.exact.update(results)
        return results

    def add_parts(self, x: int, axis: int, count: int) -> None:
        """Adds a SPLIT into `count` equal parts."""
        shape = list(self.shape(x))
        shape[axis] //= count
        reads, options = [self.model.constant(np.int32(axis)), x], {"numSplits": count}
        self.tensors += self.model.multi_op(
            "SPLIT", reads, "SplitOptions", options, shapes=[shape] * count
        )

    def window(self) -> dict[str, Any]:
        stride = self.choose.choice((1, 1, 1, 2, 3))
        return {
            "padding": self.choose.choice(("SAME", "SAME", "VALID")),
            "strideW": stride,
            "strideH": stride,
            "fusedActivationFunction": self.choose.choice(ACTIVATIONS),
        }


def _fits(shape: Shape, like: Shape, but: int) -> bool:
    return len(shape) == len(like) and all(
        a == b for axis, (a, b) in enumerate(zip(shape, like, strict=True)) if axis != but
    )
