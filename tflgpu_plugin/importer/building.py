"""Runs the `build` function of a node's row, which returns nodes or, where all inputs are known,
constants. Where a host computes bfloat16 in float32, inputs are cast to float32 and results back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tflgpu_plugin.errors import Unsupported
from tflgpu_plugin.importer import row_conditions
from tflgpu_plugin.importer.attributes import Attributes
from tflgpu_plugin.importer.builder import Builder
from tflgpu_plugin.ir import BFLOAT16, Condition, Tensor, bfloat16
from tflgpu_plugin.ops import evaluation


def build(e: Builder) -> list[int | None]:
    """Returns the tensors of the node's outputs. Raises Unsupported."""
    assert e.row.build is not None
    if e.row.rounds:
        _widen(e)
    found: Any = e.row.build(e)
    _refuse_unread(e)
    made = [*found] if isinstance(found, list | tuple) else [found]
    if not e.row.rounds:
        return made
    return _rounded(e, made, [None if k is None else e.values[k].dtype for k in e.host.outputs])


def _refuse_unread(e: Builder) -> None:
    """Raises Unsupported for a node with an attribute whose meaning the row does not know."""
    if not isinstance(e.host.attributes, Attributes):
        return
    for name in e.host.attributes.unread():
        if name not in e.row.ignores:
            said = f"The attribute {name} of {e.row.name} is not supported."
            raise Unsupported.of("attribute.unsupported", said)


def evaluate(e: Builder, asked: Iterable[Condition]) -> list[Tensor] | None:
    """Returns the outputs as constants; None if one is not constant, or a condition of `asked` does
    not hold. Raises Unsupported for an operator of which no row has an op: it can only be
    evaluated."""
    try:
        made = None if row_conditions.unmet(asked, e) else build(e)
    except Unsupported:
        if not e.row.op and not e.symbolic and e.host.title not in e.table.rows:
            raise
        return None
    except evaluation.FAILURES:
        return None
    if made is None or not all(t is not None and e.known(t) for t in made):
        return None
    return [e.tensors.table[t] for t in made if t is not None]


def _widen(e: Builder) -> None:
    """Casts inputs of bfloat16 to float32."""
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
    """Returns the outputs `made`, cast to bfloat16 where that is the host's type in `dtypes`.
    Others, such as means, stay float32."""
    wanted = [*dtypes, *[None] * (len(made) - len(dtypes))]
    return [t if t is None or dtype != BFLOAT16 else e.add("cast", e.exact(t), dtype=BFLOAT16)
            for t, dtype in zip(made, wanted, strict=False)]  # fmt: skip
