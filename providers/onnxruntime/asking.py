"""Conditions that several rows have, with a text of their own for the page of operators."""

from __future__ import annotations

from tflgpu_plugin.ir import Condition, needs


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
