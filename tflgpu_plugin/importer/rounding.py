"""bfloat16 where the host's kernels compute in float32 and round what comes of it: the row of
float32, between casts."""

from __future__ import annotations

from collections.abc import Sequence

from tflgpu_plugin.importer.builder import Builder
from tflgpu_plugin.ir import BFLOAT16, bfloat16


def widen(e: Builder) -> None:
    """Inputs of bfloat16 become float32."""
    given = e.inputs
    e.inputs = [None if t is None else _float32(e, t) for t in given]
    e.widened = e.inputs != [*given]


def _float32(e: Builder, tensor: int) -> int:
    if e.dtype(tensor) != BFLOAT16:
        return tensor
    if e.known(tensor):
        return e.derived(tensor, "float32", make=bfloat16.values)
    return e.exact(e.add("cast", tensor, dtype="f32"))


def rounded(
    e: Builder, made: Sequence[int | None], dtypes: Sequence[str | None]
) -> list[int | None]:
    """The outputs, rounded where the host has bfloat16; others, like means, stay float32."""
    wanted = [*dtypes, *[None] * (len(made) - len(dtypes))]
    return [t if t is None or dtype != BFLOAT16 else e.add("cast", e.exact(t), dtype=BFLOAT16)
            for t, dtype in zip(made, wanted, strict=False)]  # fmt: skip
