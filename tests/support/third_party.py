"""Models of one or two nodes in a table of a third party, as hosts of others hand them over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tflgpu_plugin import providers
from tflgpu_plugin.engine import Partition
from tflgpu_plugin.importer.imported import Imported
from tflgpu_plugin.importer.model import HostModel, HostNode, Value
from tflgpu_plugin.importer.support import Judge
from tflgpu_plugin.ir import operands

TABLE = providers.Table({"twice": providers.HostOp("twice", "add", (1, 1),
                                                   operands=operands("value value"))})  # fmt: skip
Keys = tuple[str | None, ...]


def node(number: int, reads: Keys, made: str) -> HostNode:
    return HostNode(number, "twice", "", 1, made, reads, (made,), attributes={"activation": "none"})


def model(*nodes: HostNode, **values: Value) -> HostModel:
    """Returns a model of these nodes over the values "a" to "d": float32 of two elements, unless
    given."""
    return HostModel(nodes, {n: Value(n, "f32", (2,)) for n in "abcd"} | values, ("c",))


def image(kernel: tuple[int, int] = (3, 3)) -> dict[str, Value]:
    """Returns an image of 4 x 4 pixels and a kernel of ones, the values "a" and "b"."""
    ones = np.ones((1, *kernel, 1), np.float32)
    return {"a": Value("a", "f32", (1, 4, 4, 1)), "b": Value("b", "f32", ones.shape, ones)}


def imported(
    op: str, takes: str, keys: Keys, values: Mapping[str, Value], judge: Judge | None = None,
    **attributes: Any,
) -> Imported:  # fmt: skip
    """Imports one node whose row becomes `op`, with operands as the words of `takes`. It reads the
    values of these keys and makes "c"."""
    row = providers.HostOp("twice", op, (1, 1), operands=operands(takes), bfloat16=True)
    made = {"c": Value("c", "f32", None)} | values
    given = HostModel((replace(node(0, keys, "c"), attributes=attributes),), made, ("c",))
    facts = providers.Facts(judge=judge or Judge())
    return providers.import_(given, providers.Table({"twice": row}), facts)


def partition(
    op: str, takes: str, keys: Keys, values: Mapping[str, Value], **attributes: Any
) -> Partition:
    """Returns the partition of one node, as `imported` reads it. Needs an adapter."""
    forced = providers.judge({"force": True})
    (made,) = providers.claim(imported(op, takes, keys, values, forced, **attributes)).partitions
    return made


def refusal(op: str, takes: str, **attributes: Any) -> Any:
    """Returns the refusal of a node that becomes this op, of images or matrices, or ""."""
    matrix = np.ones((2, 2), np.float32)
    values = {"a": Value("a", "f32", (2, 2)), "b": Value("b", "f32", (2, 2), matrix)}
    if any(name in op for name in ("conv", "pool", "space")):
        values["a"] = image()["a"]
    if "conv" in op:
        values = image()
    keys = ("a", *["b"] * (len(takes.split()) - 1))
    return imported(op, takes, keys, values, **attributes).refusals.get(0, "")


def built(build: Any) -> Any:
    """Returns the refusal of the second node of a model, whose row has this builder, or ""."""
    row = providers.HostOp("plus", "add", (1, 1), operands=operands("value"), build=build)
    first, second = node(0, ("a", "a"), "b"), replace(node(1, ("b",), "c"), op="plus")
    table = providers.Table({**TABLE.rows, "plus": row})
    return providers.import_(model(first, second), table).refusals.get(1, "")
