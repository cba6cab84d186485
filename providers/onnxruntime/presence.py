"""Conditions on the presence of attributes, inputs and outputs; `page` is the text for the page of
operators."""

from __future__ import annotations

from tflgpu_plugin.ir import Condition, needs


def unset(page: str, *attributes: str) -> Condition:
    """Returns the condition that these attributes are absent or 0."""
    return needs("attribute.unsupported", page, lambda e: not any(map(e.integer, attributes)))


def absent(page: str, *positions: int) -> Condition:
    """Returns the condition that these inputs are absent."""
    return needs("input.unsupported", page, lambda e: not any(map(e.has, positions)))


def together(page: str, first: int, second: int) -> Condition:
    """Returns the condition that both inputs are present, or neither."""
    return needs("input.missing", page, lambda e: e.has(first) == e.has(second))


def unread(page: str, output: int) -> Condition:
    """Returns the condition that nothing reads this output."""
    return needs("output.unsupported", page, lambda e: not e.wants(output))
