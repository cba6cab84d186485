"""Evaluates names of extents that are expressions of other names, such as "past + 1"."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping

HUGE = 1 << 24  # extents and tensors of this many elements or more are not guessed

_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv, ast.Div: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip


def value(name: str, symbols: Mapping[str, int]) -> int | None:
    """Returns the value of `name` as an expression ("past + 1") with these `symbols`. Returns None
    unless it is an expression, of known symbols, whose value is from 1 to 2^24 - 1."""
    try:
        found = _number(ast.parse(name.strip(), mode="eval").body, symbols)
    except (SyntaxError, ValueError, KeyError, ZeroDivisionError, RecursionError, MemoryError):
        return None
    return found if 0 < found < HUGE else None


def _number(tree: ast.expr, symbols: Mapping[str, int]) -> int:
    if isinstance(tree, ast.Name):
        return symbols[tree.id]
    if isinstance(tree, ast.Constant) and type(tree.value) is int:
        return tree.value
    if isinstance(tree, ast.BinOp) and type(tree.op) in _OPERATORS:
        return _OPERATORS[type(tree.op)](_number(tree.left, symbols), _number(tree.right, symbols))
    raise ValueError
