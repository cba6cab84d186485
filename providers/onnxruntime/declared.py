"""Rows that are a declaration: the op of the row takes the node's operands, each as its role asks,
and attributes by name and default."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tflgpu_plugin.providers import Builder, Default

Row = Callable[[Builder], Any]
LISTS = ("shape", "count", "repeats")  # roles of what is read when a node is


def declared(
    makes: Sequence[str] = (),
    image: bool = False,
    derived: Callable[[Builder], dict[str, Any]] | None = None,
    **defaults: Default | tuple[str, Default],
) -> Row:
    """`makes` are the types of results, "" for that of the first value (which all have unless they
    are given). An `image` has its channels first in ONNX. `defaults` are the op's attributes, with
    what they are where the node has none, or with the node's name for each and that; `derived`
    works out others."""
    sources = {name: d if isinstance(d, tuple) else (name, d) for name, d in defaults.items()}

    def row(e: Builder) -> Any:
        roles = e.row.taken
        roles += roles[-1:] * (len(e.inputs) - len(roles))
        inputs = [_operand(e, role, t) for role, t in zip(roles, e.inputs, strict=False)]
        named: dict[str, Any] = {name: e.attribute(*source) for name, source in sources.items()}
        named |= derived(e) if derived else {}
        held = e.dtype(inputs[roles.index("value")])
        if image:
            return e.image(e.row.op, e.x(), *inputs[1:], **named)
        made = e.add_many(e.row.op, *inputs, dtype=[d or held for d in makes] or held, **named)
        return made if len(made) > 1 else made[0]

    return row


def _operand(e: Builder, role: str, tensor: int | None) -> int | None:
    """An input as ops take it: what positions and extents are is known to them as int32."""
    known = None if tensor is None else e.constant(tensor)
    if known is None or role not in (*LISTS, "axis", "index"):
        return tensor
    if role == "axis":
        return e.index([e.axis(int(known.reshape(-1)[0]), e.rank())])
    return e.index(known.reshape(-1) if role in LISTS else known)
