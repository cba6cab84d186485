"""What the row of a node makes of it: nodes, or constants where it is evaluated. bfloat16 is
float32 between casts where the host's kernels compute in that and round what comes of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tflgpu_plugin.errors import Unsupported
from tflgpu_plugin.importer import row_conditions
from tflgpu_plugin.importer.builder import Builder
from tflgpu_plugin.ir import BFLOAT16, Condition, Tensor, bfloat16
from tflgpu_plugin.ops import evaluation


def build(e: Builder) -> list[int | None]:
    """The outputs, by the node's row. Raises Unsupported."""
    assert e.row.build is not None
    if e.row.rounds:
        _widen(e)
    found: Any = e.row.build(e)
    made = [*found] if isinstance(found, list | tuple) else [found]
    if not e.row.rounds:
        return made
    return _rounded(e, made, [None if k is None else e.values[k].dtype for k in e.host.outputs])


def evaluate(e: Builder, asked: Iterable[Condition]) -> list[Tensor] | None:
    """The outputs as constants, None where they are none, or the node does not meet what is asked
    of it."""
    try:
        made = None if row_conditions.unmet(asked, e) else build(e)
    except (Unsupported, *evaluation.FAILURES):
        return None
    if made is None or not all(t is not None and e.known(t) for t in made):
        return None
    return [e.tensors.table[t] for t in made if t is not None]


def _widen(e: Builder) -> None:
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


def _rounded(
    e: Builder, made: Sequence[int | None], dtypes: Sequence[str | None]
) -> list[int | None]:
    """The outputs, rounded where the host has bfloat16; others, like means, stay float32."""
    wanted = [*dtypes, *[None] * (len(made) - len(dtypes))]
    return [t if t is None or dtype != BFLOAT16 else e.add("cast", e.exact(t), dtype=BFLOAT16)
            for t, dtype in zip(made, wanted, strict=False)]  # fmt: skip
