"""Whole numbers in integer tensors: which ones the device may hold as float32, exactly.

Indices and their arithmetic (ARG_MAX, FLOOR_DIV, MUL, SUB, PACK, CAST) stay below 2^24 where this
can be told from the graph; only then do such nodes run here. Integers of the user are taken where
nothing but conversion to float32, or picking elements by them, is done with them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import inf

import numpy as np

from tflgpu_plugin.graph import Node, Tensor
from tflgpu_plugin.quantization import MOVES, NUMBERS

EXACT = 1 << 24  # float32 has every whole number up to here
INTEGERS = ("i32", "i64")
PLAIN = ("i8", "u8", "i16", "i32")
FIRST_CONSTANT = 1 << 29  # ids of float32 copies of constants: beyond those of any host
ARGUMENTS = ("arg_max", "arg_min")
JOINED = ("concat", "stack")  # every input is a value
INDEXED = {"gather": 1, "gather_nd": 1, "cast": 0}  # input that is only read as a number

Range = tuple[float, float]
ARITHMETIC: dict[str, Callable[[Range, Range], Range | None]] = {
    "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "sub": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "mul": lambda a, b: _ends(a, b),
    "floor_div": lambda a, b: (a[0] // b[1], a[1] // b[0]) if a[0] >= 0 and b[0] >= 1 else None,
}


def _ends(a: Range, b: Range) -> Range:
    products = [x * y for x in a for y in b]
    return min(products), max(products)


def settle(nodes: Sequence[Node], tensors: dict[int, Tensor]) -> list[Node]:
    """The nodes, in order, over tensors that are marked as whole numbers where they may be held
    so; `tensors` is changed."""
    walk = _Walk(tensors)
    found = [walk.visit(node) for node in nodes]
    _mark_read_only(found, tensors)
    return found


class _Walk:
    def __init__(self, tensors: dict[int, Tensor]) -> None:
        self.tensors = tensors
        self.ranges: dict[int, Range] = {}
        self.copies: dict[int, int] = {}

    def visit(self, node: Node) -> Node:
        if node.refusal is not None or not node.outputs:
            return node
        results = [self.tensors[t] for t in node.outputs]
        whole = all(r.dtype in INTEGERS and r.quantization is None for r in results)
        if not whole:
            text = "FLOOR_DIV is supported for integers that are known to be below 2^24."
            return replace(node, refusal=text) if node.op == "floor_div" else node
        limits = self._limits(node)
        if limits is None:
            return node
        for t in node.outputs:
            self.tensors[t] = replace(self.tensors[t], quantization=NUMBERS)
            self.ranges[t] = limits
        inputs = [self._copied(t) if k in _values(node) else t for k, t in enumerate(node.inputs)]
        return replace(node, inputs=tuple(inputs))

    def _limits(self, node: Node) -> Range | None:
        """The range of a node's results, None where it is not known or too wide."""
        given = [self._range(node.inputs[k]) for k in _values(node)]
        if node.op in ARGUMENTS:
            return 0, max(self.tensors[node.inputs[0] or 0].shape, default=0)
        if node.op == "cast":
            x = self.tensors[node.inputs[0] or 0]
            return (-inf, inf) if x.dtype == "f32" else given[0]
        known = [limits for limits in given if limits is not None]
        if len(known) < len(given) or not known:
            return None
        if node.op in ARITHMETIC and len(known) == 2:
            found = ARITHMETIC[node.op](*known)
            return found if found and max(map(abs, found)) <= EXACT else None
        if node.op in MOVES:
            return min(low for low, _ in known), max(high for _, high in known)
        return None

    def _range(self, tensor: int | None) -> Range | None:
        if tensor is None:
            return None
        data = self.tensors[tensor].data
        if data is not None and data.dtype.kind in "iu" and data.size:
            limits = float(data.min()), float(data.max())
            return limits if max(map(abs, limits)) <= EXACT else None
        return self.ranges.get(tensor)

    def _copied(self, tensor: int | None) -> int | None:
        """A constant as float32."""
        held = None if tensor is None else self.tensors[tensor]
        if tensor is None or held is None or held.data is None or held.dtype == "f32":
            return tensor
        if tensor not in self.copies:
            self.copies[tensor] = FIRST_CONSTANT + len(self.copies)
            copy = replace(held, dtype="f32", data=held.data.astype(np.float32))
            self.tensors[self.copies[tensor]] = copy
        return self.copies[tensor]


def _values(node: Node) -> range:
    """Positions of the inputs that are values, not indices."""
    if node.op in JOINED:
        return range(len(node.inputs))
    return range(2 if node.op in ARITHMETIC else 1)


def _mark_read_only(nodes: Sequence[Node], tensors: dict[int, Tensor]) -> None:
    """Integers from outside that are only converted, or only indices."""
    made = {t for node in nodes if node.refusal is None for t in node.outputs}
    readers: dict[int, list[Node]] = {}
    for node in nodes:
        for read in node.reads:
            readers.setdefault(read, []).append(node)
    for index, reading in readers.items():
        held = tensors[index]
        plain = held.dtype in PLAIN and held.quantization is None and held.data is None
        if index in made or not plain:
            continue
        if all(_reads_number(node, index, tensors) for node in reading):
            tensors[index] = replace(held, quantization=NUMBERS)


def _reads_number(node: Node, tensor: int, tensors: Mapping[int, Tensor]) -> bool:
    place = INDEXED.get(node.op)
    if node.refusal is not None or place is None or node.inputs[place] != tensor:
        return False
    return node.op != "cast" or tensors[node.outputs[0]].dtype == "f32"
