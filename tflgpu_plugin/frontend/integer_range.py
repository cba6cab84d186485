"""Whole numbers in integer tensors: which ones the device may hold as float32, exactly.

Indices and their arithmetic (ArgMax, Div, Mul, Sub, Concat, Cast) stay below 2^24 where this can be
told from the graph; only then do such nodes run here. Integers of which nothing is known may be
rounded where all that becomes of them, moved or not, is a float or a place to pick elements from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf, prod
from typing import NamedTuple

import numpy as np

from tflgpu_plugin import ops
from tflgpu_plugin.frontend.support import TYPE_NAMES
from tflgpu_plugin.ir.graph import FOLDED, NUMPY_DTYPES, Node, Tensor
from tflgpu_plugin.ir.quantization import COUNTS, NUMBERS

EXACT = 1 << 24  # float32 has every whole number up to here
SMALL = ("i8", "u8", "i16")  # float32 holds them all
PLAIN = (*SMALL, *COUNTS)
FIRST_CONSTANT = 1 << 29  # ids of float32 copies of constants: beyond those of any host
SUMS = ("reduce_sum", "cumsum")
INDEXED = {"gather": 1, "gather_nd": 1, "reverse_sequence": 1}  # input that is only read as places
JOINED = ("concat", "stack")  # every input is a value
RELATIONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")

Range = tuple[float, float]
ROUNDED: Range = (-inf, inf)  # nothing is known: what is held may be the nearest float32
CUT: Range = (-(2.0**63), 2.0**63)  # float32 without its fraction


def _ends(a: Range, b: Range) -> Range:
    products = [x * y for x in a for y in b]
    return min(products), max(products)


def _natural(a: Range, b: Range) -> bool:
    """Quotients and remainders are the same however a host rounds."""
    return a[0] >= 0 and b[0] >= 1


ARITHMETIC: dict[str, Callable[[Range, Range], Range | None]] = {
    "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "sub": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "mul": _ends,
    "floor_div": lambda a, b: (a[0] // b[1], a[1] // b[0]) if _natural(a, b) else None,
    "fmod": lambda a, b: (0, min(a[1], b[1] - 1)) if _natural(a, b) else None,
    "maximum": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "minimum": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
}
VALUES = {"where": (1, 2)} | dict.fromkeys((*ARITHMETIC, *RELATIONS), (0, 1))
ZEROS = {"pad", "space_to_batch"}  # which are not among the inputs
# Ops whose results are among their inputs.
MOVED = {name for name, row in ops.rows().items() if row.keeps} - {*ZEROS, *ARITHMETIC}
MOVED |= {"where", "reduce_max", "reduce_min"}
READERS = {
    *MOVED,
    *ARITHMETIC,
    *RELATIONS,
    *INDEXED,
    "cast",
    "neg",
    *SUMS,
}  # all that may read such numbers


class Settled(NamedTuple):
    """Nodes in order, and the ranges of what is marked as whole numbers."""

    nodes: list[Node]
    ranges: Mapping[int, Range]


def annotate(
    nodes: Sequence[Node],
    tensors: dict[int, Tensor],
    outputs: Iterable[int] = (),
    known: Mapping[int, Range] | None = None,
) -> Settled:
    """The nodes over tensors that are marked as whole numbers where they may be held so; `tensors`
    is changed. `outputs` are those of the graph. `known` are ranges that the graph around this one
    told.
    """
    known = known or {}
    strict = set(outputs) - {t for t, limits in known.items() if limits == ROUNDED}
    for node in reversed(nodes):
        strict.update(t for t in node.reads if not _reads_number(node, t, tensors, strict))
    walk = _Walk(tensors, strict, known)
    return Settled([walk.visit(node) for node in nodes], walk.ranges)


def _reads_number(node: Node, tensor: int, tensors: Mapping[int, Tensor], strict: set[int]) -> bool:
    """The node gives the same for this input and for the float32 nearest to it."""
    if node.refusal is not None or tensor not in node.inputs:
        return False
    places = {k for k, t in enumerate(node.inputs) if t == tensor}
    index = INDEXED.get(node.op)
    if places == {index}:
        source = tensors[node.inputs[0] or 0].shape
        return max(source, default=0) <= EXACT
    result = tensors[node.outputs[0]].dtype
    if node.op == "cast" and result not in COUNTS:
        return result in ("f32", "f16")
    if node.op == "cast" and tensors[tensor].dtype in SMALL:
        return True
    moved = (node.op in MOVED or node.op == "cast") and result in COUNTS
    return moved and places <= set(_values(node)) and strict.isdisjoint(node.outputs)


def _values(node: Node) -> Sequence[int]:
    """Positions of the inputs that are values, not indices."""
    if node.op in JOINED:
        return range(len(node.inputs))
    return VALUES.get(node.op, (0,))


class _Walk:
    def __init__(
        self, tensors: dict[int, Tensor], strict: set[int], known: Mapping[int, Range]
    ) -> None:
        self.tensors, self.strict, self.known = tensors, strict, known
        self.ranges: dict[int, Range] = {}
        self.copies: dict[int, int] = {}

    def visit(self, node: Node) -> Node:
        for tensor in node.reads:
            self._take(tensor)
        if node.refusal is not None or not node.outputs or node.op == FOLDED:
            return node
        row = ops.row(node.op)
        if row and row.errors.choice is not None:  # an index beside values
            index = node.outputs[row.errors.choice]
            if self.tensors[index].dtype in COUNTS and self.tensors[index].quantization is None:
                self._mark(index, (0, max(self.tensors[node.inputs[0] or 0].shape, default=0)))
        results = [self.tensors[t] for t in node.outputs]
        if all(r.dtype in COUNTS and r.quantization is None for r in results):
            return self._whole(node)
        if node.op == "floor_div":
            return replace(node, refusal="FLOOR_DIV is supported for integers that are known to "
                           "be below 2^24.")  # fmt: skip
        if node.op not in RELATIONS:
            return node
        read = self._unheld(node)
        return replace(node, refusal=_sentence(node, read)) if read else self._copied(node)

    def _take(self, tensor: int) -> None:
        """Mark an integer that nothing here has made, or that a node on the CPU makes."""
        held = self.tensors[tensor]
        if held.dtype in PLAIN and held.quantization is None and held.data is None:
            limits = ROUNDED if held.dtype in COUNTS else _all_of(held.dtype)
            self._mark(tensor, self.known.get(tensor, limits))

    def _mark(self, tensor: int, limits: Range) -> None:
        self.tensors[tensor] = replace(self.tensors[tensor], quantization=NUMBERS)
        self.ranges[tensor] = limits

    def _whole(self, node: Node) -> Node:
        limits = self._limits(node)
        if limits is None or (limits == ROUNDED and not self.strict.isdisjoint(node.outputs)):
            return replace(node, refusal=_sentence(node, self._unheld(node)))
        for t in node.outputs:
            self._mark(t, limits)
        return self._copied(node)

    def _unheld(self, node: Node) -> Tensor | None:
        """The first integer value that float32 may not hold."""
        for k in _values(node):
            tensor = node.inputs[k] if k < len(node.inputs) else None
            if tensor is not None and self.tensors[tensor].dtype in COUNTS:
                if self._range(tensor) in (None, ROUNDED):
                    return self.tensors[tensor]
        return None

    def _limits(self, node: Node) -> Range | None:
        """The range of a node's results, None where it is not known or too wide."""
        row = ops.row(node.op)  # none of what only fetches a value of the host's
        if row and row.kind == "choice":
            return 0, max(self.tensors[node.inputs[0] or 0].shape, default=0)
        if node.op == "cast":
            return self._cast(node)
        if node.op == "quantize" and "bound" in node.attributes:  # of sums of whole numbers
            bound = float(node.attributes["bound"])
            if bound <= EXACT:
                return -bound, bound
            return ROUNDED
        given = [self._range(node.inputs[k]) for k in _values(node) if k < len(node.inputs)]
        known = [limits for limits in given if limits is not None]
        if len(known) < len(given) or not known:
            return None
        if node.op in ARITHMETIC and len(known) == 2:
            found = ARITHMETIC[node.op](*known)
            return found if found and max(map(abs, found)) <= EXACT else None
        if node.op in MOVED:
            return min(low for low, _ in known), max(high for _, high in known)
        low, high = known[0]
        if node.op == "neg":
            return -high, -low
        if node.op in SUMS:
            shape, made = (self.tensors[t].shape for t in (node.reads[0], node.outputs[0]))
            terms = prod(shape) // max(prod(made), 1) if made != shape else max(shape, default=1)
            bound = max(abs(low), abs(high)) * terms
            return (-bound, bound) if bound <= EXACT else None
        return None

    def _cast(self, node: Node) -> Range | None:
        source, result = self.tensors[node.inputs[0] or 0], self.tensors[node.outputs[0]]
        if source.dtype == "bool":
            return 0, 1
        if source.dtype in ("f32", "f16"):  # without its fraction it is a float as well
            return CUT
        limits = self._range(node.inputs[0])
        narrower = source.dtype == "i64" and result.dtype == "i32"
        return ROUNDED if narrower and limits == CUT else limits

    def _range(self, tensor: int | None) -> Range | None:
        if tensor is None:
            return None
        data = self.tensors[tensor].data
        if data is not None and data.dtype.kind in "iu" and data.size:
            limits = float(data.min()), float(data.max())
            return limits if max(map(abs, limits)) <= EXACT else None
        return self.ranges.get(tensor)

    def _copied(self, node: Node) -> Node:
        """The node with copies of its constant values as float32; their data stay whole numbers, so
        that none are stored with less precision."""
        places = set(_values(node))
        inputs = (self._copy(t) if k in places else t for k, t in enumerate(node.inputs))
        return replace(node, inputs=tuple(inputs))

    def _copy(self, tensor: int | None) -> int | None:
        held = None if tensor is None else self.tensors[tensor]
        if tensor is None or held is None or held.data is None or held.dtype not in PLAIN:
            return tensor
        if tensor not in self.copies:
            self.copies[tensor] = FIRST_CONSTANT + len(self.copies)
            copy = replace(held, dtype="f32", data=held.data.astype(np.int32))
            self.tensors[self.copies[tensor]] = copy
        return self.copies[tensor]


def _all_of(dtype: str) -> Range:
    limits = np.iinfo(NUMPY_DTYPES[dtype])
    return limits.min, limits.max


def _sentence(node: Node, held: Tensor | None) -> str:
    name = node.host_op or node.op
    limit = "integers that are known to be below 2^24, which float32 holds exactly"
    if held is None:
        return f"{name} of integers is supported for {limit}."
    kind = TYPE_NAMES[held.dtype]
    return f"Tensor {held.name!r} holds {kind} values; {name} is supported for floats and {limit}."
