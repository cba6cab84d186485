"""Values of a SPIR-V shader: integers, conditions, and results computed from them; None for an
unknown value. Opcodes: SPIR-V 1.6, section 3.49, and GLSL.std.450, section 2."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

WORD = 0xFFFFFFFF
CONSTRUCT, EXTRACT, INSERT, SELECT = 80, 81, 82, 169
Value = Any  # int, bool, {position: Value} of a composite, (root, path) of a pointer, or None


def _signed(value: int) -> int:
    return value - (1 << 32) if value >> 31 else value


def _divide(a: int, b: int) -> int:
    a, b = _signed(a), _signed(b)
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _of_signed(how: Callable[[int, int], Any]) -> Callable[[int, int], Any]:
    return lambda a, b: how(_signed(a), _signed(b))


BINARY: dict[int, Callable[[Any, Any], Any]] = {
    128: operator.add, 130: operator.sub, 132: operator.mul, 134: operator.floordiv, 135: _divide,
    137: operator.mod, 138: lambda a, b: _signed(a) - _signed(b) * _divide(a, b),
    139: _of_signed(operator.mod), 164: operator.eq, 165: operator.ne,
    166: lambda a, b: a or b, 167: lambda a, b: a and b, 170: operator.eq, 171: operator.ne,
    172: operator.gt, 173: _of_signed(operator.gt), 174: operator.ge, 175: _of_signed(operator.ge),
    176: operator.lt, 177: _of_signed(operator.lt), 178: operator.le, 179: _of_signed(operator.le),
    194: lambda a, b: a >> (b & 31), 195: lambda a, b: _signed(a) >> (b & 31),
    196: lambda a, b: a << (b & 31), 197: operator.or_, 198: operator.xor, 199: operator.and_,
}  # fmt: skip
UNARY: dict[int, Callable[[Any], Any]] = {
    83: lambda a: a, 113: lambda a: a, 114: lambda a: a, 124: lambda a: a, 126: operator.neg,
    168: operator.not_, 200: operator.invert,
}  # fmt: skip
GLSL: dict[int, Callable[..., Any]] = {
    5: lambda a: abs(_signed(a)), 38: min, 39: lambda a, b: min(_signed(a), _signed(b)), 41: max,
    42: lambda a, b: max(_signed(a), _signed(b)), 44: lambda a, low, high: min(max(a, low), high),
    45: lambda a, low, high: min(max(_signed(a), _signed(low)), _signed(high)),
}  # fmt: skip


def computed(code: int, given: Sequence[int], get: Callable[[int], Value]) -> Value:
    """Returns the result of an instruction without memory; None where it is not known."""
    if code in BINARY or code in UNARY:
        how = BINARY.get(code) or UNARY[code]
        return each(how, [get(name) for name in given])
    if code == SELECT:
        which, yes, no = (get(name) for name in given[:3])
        if isinstance(which, dict):
            return {k: at_path(yes if w else no, [k]) if w is not None else None
                    for k, w in which.items()}  # fmt: skip
        return None if which is None else yes if which else no
    if code == CONSTRUCT:
        return dict(enumerate(get(name) for name in given))
    if code == EXTRACT:
        return at_path(get(given[0]), given[1:])
    if code == INSERT:
        return with_part(get(given[1]), given[2:], get(given[0]))
    return None


def each(how: Callable[..., Any], values: Sequence[Value]) -> Value:
    """Component by component; integers have 32 bits."""
    if any(isinstance(value, dict) for value in values):
        keys = next(v for v in values if isinstance(v, dict))
        if not all(isinstance(value, dict) for value in values):
            return None
        return {k: each(how, [value.get(k) for value in values]) for k in keys}
    if any(value is None or isinstance(value, tuple) for value in values):
        return None
    try:
        made = how(*values)
    except ZeroDivisionError:
        return None
    return made if isinstance(made, bool) else int(made) & WORD


def at_path(value: Value, path: Sequence[int | None]) -> Value:
    for step in path:
        value = value.get(step) if isinstance(value, dict) and step is not None else None
    return value


def with_part(value: Value, path: Sequence[int | None], part: Value) -> Value:
    if not path:
        return part
    made = dict(value) if isinstance(value, dict) else {}
    if path[0] is not None:
        made[path[0]] = with_part(made.get(path[0]), path[1:], part)
    return made
