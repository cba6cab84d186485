"""Functions and constants that write the rows in the tables of ONNX operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tflgpu_plugin.ir import Condition, HostOp, operands
from tflgpu_plugin.ops import rows as op_rows, unary
from tflgpu_plugin.providers import Builder, Default

from . import batched_handlers, kept_counts, narrow_integers
from .narrow_integers import Row

# Types of quantized operators: of quantized tensors, with those of scales and biases.
WHOLE = "i8 u8"
WIDE = f"{WHOLE} i16 u16 f32"
SCALED = f"{WHOLE} f32"
SUMS = f"{SCALED} i32"
COUNTS = "i32 i64"  # types of indices, and of arithmetic with them

# Operand lists that several operators have, in the notation of `operands`.
TWO, MANY, LAYER = "value value", "value*", "value weights bias?"
AXES = "value axes?"
NORMED = "value scale bias"
QUANTIZED = "value scale zero_point?"
RESULT = "scale zero_point"
CELL = "value weights recurrent_weights biases? index? state?"
UPDATED = "value index updates"
LISTS = ("shape", "count", "repeats")  # roles of operands that are read at import

BOTH, CURRENT = ("2019", "current"), ("current",)  # editions


FACTS = (  # of HostOp
    "bounds", "bfloat16", "narrow", "unsigned", "rounds", "fragile", "uninferred", "identity",
    "rowless", "at_once", "ignores", "keeps_count", "double",
)  # fmt: skip


def row(
    host_op: str, op: str, versions: tuple[int, int], takes: str = "value", *asked: Condition,
    by: Row | None = None, **more: Any,
) -> HostOp:  # fmt: skip
    """Returns the table row of `host_op` with operands `takes` and conditions `asked`. Nodes are
    built by `by`, or by `declared(**more)`. `gives` names the supported outputs if not all are,
    `listed` the editions of the documentation with the TFLite operator that a converter makes of
    this one. `small`: integers of 8 and 16 bits are supported, too. `bfloat16`: so is this type,
    for which onnxruntime's CPU provider has kernels; with `rounds` they compute in float32 and
    round. `narrow`: so are integers of 2 and 4 bits, and floats of 8. `unsigned`: so are uint32 and
    uint64, by default of ops that move elements. `at_once` says how the body of a loop computes it
    in all steps, by default one node of an elementwise op as such. See HostOp for `fragile`,
    `uninferred`, `rowless`, `double` and `keeps_count`, which elementwise ops have by default."""
    listed: tuple[str, ...] = more.pop("listed", ())
    types, gives = more.pop("types", "").split(), more.pop("gives", "").split()
    small = more.pop("small", False)
    facts = {name: more.pop(name) for name in FACTS if name in more}
    facts["bfloat16"] = bool(facts.get("bfloat16") or facts.get("rounds"))
    facts["unsigned"] = bool(facts.get("unsigned", op in op_rows() and op_rows()[op].moves))
    if by is None and op_rows()[op].kind == "elementwise":
        facts.setdefault("at_once", batched_handlers.elementwise)
        facts.setdefault("keeps_count", kept_counts.elementwise)
    made = by or declared(**dict(unary.PARAMETERS.get(op, ())) | more)
    if small:
        own = op_rows()[op].types
        made, types = (
            narrow_integers.also(made),
            [*own, *(["f16"] if "f32" in own else []), *narrow_integers.TYPES],
        )
    return HostOp(
        host_op, op, versions, dict.fromkeys(listed, versions), build=made,
        operands=operands(takes), outputs=tuple(gives) or None, types=tuple(types),
        conditions=asked, **facts,
    )  # fmt: skip


def declared(
    makes: Sequence[str] = (),
    image: bool = False,
    derived: Callable[[Builder], dict[str, Any]] | None = None,
    **defaults: Default | tuple[str, Default],
) -> Row:
    """Returns a builder that adds the row's op with the node's operands. `makes` are the types of
    its results, "" for that of the first value (the default for all). `image`: input 0 is
    transposed from NCHW and the result back. `defaults` maps the op's attributes to defaults, or to
    (the node's name of the attribute, default); `derived` computes further attributes."""
    sources = {name: d if isinstance(d, tuple) else (name, d) for name, d in defaults.items()}

    def row(e: Builder) -> Any:
        roles = e.row.taken
        roles += roles[-1:] * (len(e.inputs) - len(roles))
        inputs = [operand(e, role, t) for role, t in zip(roles, e.inputs, strict=False)]
        named: dict[str, Any] = {name: e.attribute(*source) for name, source in sources.items()}
        named |= derived(e) if derived else {}
        held = e.dtype(inputs[roles.index("value")])
        if image:
            return e.image(e.row.op, e.x(), *inputs[1:], **named)
        made = e.add_many(e.row.op, *inputs, dtype=[d or held for d in makes] or held, **named)
        return made if len(made) > 1 else made[0]

    return row


def operand(e: Builder, role: str, tensor: int | None) -> int | None:
    """Returns `tensor` as ops take it: constant indices, axes and extents become int32."""
    known = None if tensor is None else e.constant(tensor)
    if known is None or role not in (*LISTS, "axis", "index"):
        return tensor
    if role == "axis":
        return e.index([e.axis(int(known.reshape(-1)[0]), e.rank())])
    return e.index(known.reshape(-1) if role in LISTS else known)
