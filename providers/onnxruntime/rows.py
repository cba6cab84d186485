"""How rows of the tables of ONNX operators are written, and the words that they share."""

from __future__ import annotations

from typing import Any

from tflgpu_plugin.ir import Condition, HostOp, operands
from tflgpu_plugin.ops import rows as op_rows
from tflgpu_plugin.ops import unary

from . import narrow
from .declared import Row, declared

# What quantized operators hold: numbers, and the scales and biases that go with them.
WHOLE = "i8 u8"
WIDE = f"{WHOLE} i16 u16 f32"
SCALED = f"{WHOLE} f32"
SUMS = f"{SCALED} i32"
COUNTS = "i32 i64"  # indices, and what is computed with them

# How many operators take their inputs.
TWO, MANY, LAYER = "value value", "value*", "value weights bias?"
AXES, SPLIT = "value axes?", "value split?"
NORMED = "value scale bias"
QUANTIZED = "value scale zero_point?"
RESULT = "scale zero_point"
CELL = "value weights! recurrent_weights! biases!? lengths!? state?"
PLACED = "index value"
EDGES = "value starts? ends? axes? steps?"

BOTH, CURRENT = ("2019", "current"), ("current",)  # editions


def row(
    host_op: str, op: str, versions: tuple[int, int], takes: str = "value", *asked: Condition,
    by: Row | None = None, gives: str = "", types: str = "", listed: tuple[str, ...] = (),
    bounds: str = "", small: bool = False, bfloat16: bool = False,
    rounds: bool = False, fragile: bool = False, **more: Any,
) -> HostOp:  # fmt: skip
    """A row of nodes that are made as `declared` of `more` (numbers of the op have its defaults),
    or `by` a function of their own; `gives` names the outputs that are supported where not all are,
    and `listed` the editions of the documentation that list what a converter to TFLite makes of the
    operator. `small`: also of whole numbers of 8 and 16 bits. `bfloat16`: onnxruntime's CPU
    provider has kernels of that, too, which compute in float32 and round where it `rounds`.
    `fragile`: see HostOp."""
    documented = dict.fromkeys(listed, versions)
    made = by or declared(**dict(unary.PARAMETERS.get(op, ())) | more)
    given = tuple(types.split())
    if small:
        own = op_rows()[op].types
        made, given = narrow.also(made), (*own, *(["f16"] if "f32" in own else []), *narrow.TYPES)
    return HostOp(
        host_op, op, versions, documented, build=made, operands=operands(takes),
        outputs=tuple(gives.split()) or None, types=given, conditions=asked,
        bounds=bounds, bfloat16=bfloat16 or rounds, rounds=rounds, fragile=fragile,
    )  # fmt: skip
