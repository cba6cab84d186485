"""How rows ask something of a node: by functions whose docstrings say what it needs, and in the
forms that several rows have."""

from __future__ import annotations

from collections.abc import Callable

from tflgpu_plugin.ir import Condition, Refusal, needs
from tflgpu_plugin.providers import Builder

Answer = Callable[[Builder], bool]


def asks(
    code: str, sentence: str = "", kind: type[Refusal] = Refusal
) -> Callable[[Answer], Condition]:
    """Decorates a function that answers whether a node has what its docstring says, and makes a
    condition of it, as `needs` does."""
    return lambda met: needs(code, " ".join(str(met.__doc__).split()), met, sentence, kind)


def unset(page: str, *attributes: str) -> Condition:
    """These attributes are absent, or 0."""
    return needs("attribute.unsupported", page, lambda e: not any(map(e.integer, attributes)))


def absent(page: str, *positions: int) -> Condition:
    """These inputs are absent."""
    return needs("input.unsupported", page, lambda e: not any(map(e.has, positions)))


def together(page: str, first: int, second: int) -> Condition:
    """Both inputs are there, or none."""
    return needs("input.missing", page, lambda e: e.has(first) == e.has(second))


def unread(page: str, output: int) -> Condition:
    """Nobody asks for this output."""
    return needs("output.unsupported", page, lambda e: not e.wants(output))
