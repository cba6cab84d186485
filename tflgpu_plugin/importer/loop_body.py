"""Expresses what the body of a loop computes by the values that the loop carries from step to step:
sums of products with constant weights ("linear"), functions and products of these, counters, and
lists in which each step writes a row.

A body is refused (Unsupported, with a sentence) unless every node is recognized. Equal expressions
have equal numbers, so that the analysis takes time in proportion to the body's nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np

from tflgpu_plugin import ops
from tflgpu_plugin.errors import Unsupported
from tflgpu_plugin.importer.loop_values import (
    Below,
    Carried,
    Counter,
    Listed,
    Numbers,
    Piece,
    Slab,
    Vector,
)  # fmt: skip
from tflgpu_plugin.ir import Graph, Node, Shape, Tensor
from tflgpu_plugin.ops.axes import Axis
from tflgpu_plugin.ops.gate_functions import BASIC_FUNCTIONS
from tflgpu_plugin.ops.views import View
from tflgpu_plugin.passes.quant.dequantize import dequantized

MAX_NODES = 256  # limit of the nodes of a body
MAX_NUMBERS = 8  # elements of a constant from which indices or extents are computed
OTHERWISE = "This loop is not a recurrent layer of a known form: {}."


def otherwise(why: str) -> Unsupported:
    """Returns the refusal of a loop; `why` ends its sentence."""
    return Unsupported.of("loop.unsupported", OTHERWISE.format(why))


@dataclass
class Forms:
    """The expressions that a body computes: `made` lists them, each as a tuple of a name and
    operands, and `numbers` maps such a tuple to its position in the list. `values` holds the values
    of the body's tensors (`loop_values`)."""

    tensors: dict[int, Tensor]
    values: dict[int, Any] = field(default_factory=dict)
    made: list[tuple[Any, ...]] = field(default_factory=list)
    numbers: dict[tuple[Any, ...], int] = field(default_factory=dict)

    def form(self, *parts: Any) -> int:
        """Returns the number of an expression, given by its name and operands."""
        found = self.numbers.setdefault(parts, len(self.made))
        if found == len(self.made):
            self.made.append(parts)
        return found

    def pair(self, name: str, a: int, b: int) -> int:
        """Returns the number of a commutative expression."""
        return self.form(name, *sorted((a, b)))

    def run(self, body: Graph, given: Sequence[Tensor]) -> list[Any]:
        """Returns the values of the body's outputs for a loop that carries tensors of the types and
        shapes of `given`."""
        if len(body.nodes) > MAX_NODES or len(given) != len(body.inputs):
            raise otherwise(
                f"it has {len(body.nodes)} nodes (at most {MAX_NODES}) and {len(body.inputs)} "
                f"inputs for {len(given)} values"
            )
        for k, (index, tensor) in enumerate(zip(body.inputs, given, strict=True)):
            held = self.tensors[index]
            if held.dtype != tensor.dtype or held.data is not None or index in self.values:
                raise otherwise(f"the type or shape of its value {k} changes")
            self.tensors[index] = replace(held, shape=tensor.shape)
            counter = tensor.dtype in ("i32", "i64") and prod(tensor.shape) == 1
            self.values[index] = Numbers((Counter(k),)) if counter else Carried(k)
        for node in body.nodes:
            handler = HANDLERS.get(node.op)
            if handler is None:
                raise otherwise(f"it has {node.host_op or node.op}")
            written = [self.tensors[t].data is not None for t in node.outputs]
            if any(written) or any(t in self.values for t in node.outputs):
                raise otherwise("it writes a tensor twice")
            handler(self, node)
        return [self.value(index) for index in body.outputs]

    def value(self, index: int) -> Any:
        """Returns the value of a tensor: Numbers for an integer constant of up to 8 elements, None
        for another constant."""
        if index not in self.values:
            data = self.tensors[index].data
            if data is None:
                raise otherwise(f"no node writes {self.tensors[index].name!r}")
            if data.dtype.kind == "i" and data.size <= MAX_NUMBERS:
                return Numbers(tuple(int(n) for n in data.reshape(-1)))
        return self.values.get(index)

    def vector(self, index: int) -> Vector:
        """Returns the value of a tensor as rows of floats, also if it is carried. Raises
        Unsupported for any other value."""
        found = self.value(index)
        tensor = self.tensors[index]
        if isinstance(found, Carried) and tensor.dtype == "f32" and len(tensor.shape) == 2:
            return Vector(self.form("state", found.position), *tensor.shape)
        if not isinstance(found, Vector):
            raise otherwise(f"{tensor.name!r} is not a vector of a step")
        return found

    def put(self, node: Node, form: int, rows: int, width: int) -> None:
        """Sets a node's only output to rows of `form`, after the node's fused activation."""
        activation = node.attributes.get("activation", "none")
        if activation != "none":
            form = self.function(activation, form)
        shape = self.shapes(node)[0]
        if prod(shape) != rows * width:
            raise otherwise(f"{node.host_op} makes {list(shape)}")
        self.values[node.outputs[0]] = Vector(form, rows, width)

    def function(self, name: str, form: int) -> int:
        if name not in BASIC_FUNCTIONS:
            raise otherwise(f"it has the activation {name}")
        return self.form(name, form)

    def shapes(self, node: Node) -> list[Shape]:
        """Infers the shapes of a node's outputs, sets them on the tensors, and returns them."""
        try:
            found = ops.rows()[node.op].shapes(Graph.over(self.tensors, node), node)
        except ValueError as error:
            raise otherwise(str(error)) from error
        for index, shape in zip(node.outputs, found, strict=True):
            self.tensors[index] = replace(self.tensors[index], shape=tuple(shape))
        return [tuple(shape) for shape in found]

    def linear(self, *slabs: Slab) -> int:
        """Returns the number of the linear expression that is the sum of `slabs`."""
        return self.form("linear", *sorted(slabs, key=lambda slab: (slab.tensor, slab.start)))

    def parts(self, name: str, form: int | None) -> tuple[Any, ...]:
        """Returns the operands of an expression of this name, () for any other expression."""
        found, *parts = self.made[form] if form is not None else ("",)
        return tuple(parts) if found == name else ()

    def slabs(self, form: int | None) -> tuple[Slab, ...]:
        """Returns the summands of a linear expression, () for any other expression."""
        return self.parts("linear", form)

    def cut(self, form: int, start: int, stop: int) -> int:
        """Returns the number of the expression for columns `start` to `stop` of `form`, which is
        linear or a function of a linear expression."""
        name, *parts = self.made[form]
        if name in BASIC_FUNCTIONS and self.slabs(parts[0]):
            return self.form(name, self.cut(parts[0], start, stop))
        if name != "linear":
            raise otherwise("it takes columns of a value that is not a sum of products")
        return self.linear(
            *(s._replace(start=s.start + start, stop=s.start + stop) for s in self.slabs(form))
        )


def _fully_connected(forms: Forms, node: Node) -> None:
    x, weights = forms.vector(node.operand()), forms.tensors[node.operand(1)]
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    matrix = weights.data is not None and weights.dtype == "f32" and len(weights.shape) == 2
    if not matrix or weights.shape[1] != x.width:
        raise otherwise("its weights are not a constant matrix")
    rows = weights.shape[0]
    slabs = [Slab(node.operand(1), 0, rows, x.form)]
    if bias is not None:
        slabs.append(_added(forms, bias, rows))
    forms.put(node, forms.linear(*slabs), x.rows, rows)


def _added(forms: Forms, index: int, width: int) -> Slab:
    """Returns a bias, a constant of `width` floats that is added to each row, as a summand."""
    tensor = forms.tensors[index]
    fits = prod(tensor.shape) == width and tensor.shape[-1:] in ((), (width,))
    if tensor.data is None or tensor.dtype != "f32" or not fits:
        raise otherwise(f"{tensor.name!r} is not a bias")
    return Slab(index, 0, width)


def _both(forms: Forms, node: Node) -> tuple[Any, Any]:
    """Returns the values of the two operands of a node."""
    return forms.value(node.operand()), forms.value(node.operand(1))


def _add(forms: Forms, node: Node) -> None:
    match _both(forms, node):
        case (Numbers((Counter() as counter,)), Numbers((int() as more,))) | (
            Numbers((int() as more,)),
            Numbers((Counter() as counter,)),
        ):
            count = counter._replace(more=counter.more + more)
            forms.values[node.outputs[0]] = Numbers((count,))
            return
        case Numbers(), Numbers():
            raise otherwise("its counter is not increased by a constant")
    at = next((k for k in range(2) if forms.tensors[node.operand(k)].data is not None), None)
    if at is not None:
        x = forms.vector(node.operand(1 - at))
        slabs = forms.slabs(x.form)
        if not slabs:
            raise otherwise("it adds a constant to a value that is not a sum of products")
        form = forms.linear(*slabs, _added(forms, node.operand(at), x.width))
        return forms.put(node, form, x.rows, x.width)
    x, y = _alike(forms, node)
    slabs, others = forms.slabs(x.form), forms.slabs(y.form)
    form = forms.linear(*slabs, *others) if slabs and others else forms.pair("add", x.form, y.form)
    return forms.put(node, form, x.rows, x.width)


def _alike(forms: Forms, node: Node) -> tuple[Vector, Vector]:
    """Returns the two operands of a node. Raises Unsupported unless they have the same size, since
    broadcasting is not supported."""
    x, y = (forms.vector(node.operand(k)) for k in range(2))
    if (x.rows, x.width) != (y.rows, y.width):
        raise otherwise(f"{node.host_op} broadcasts its operands")
    return x, y


def _mul(forms: Forms, node: Node) -> None:
    x, y = _alike(forms, node)
    forms.put(node, forms.pair("mul", x.form, y.form), x.rows, x.width)


def _sub(forms: Forms, node: Node) -> None:
    """Sets the output to 1 - x, the only subtraction that is supported."""
    one = forms.tensors[node.operand()].data
    if one is None or one.dtype != np.float32 or one.size != 1 or one.reshape(-1)[0] != 1:
        raise otherwise("it subtracts from a value other than 1")
    x = forms.vector(node.operand(1))
    forms.put(node, forms.form("rest", x.form), x.rows, x.width)


def _function(forms: Forms, node: Node) -> None:
    x = forms.vector(node.operand())
    forms.put(node, forms.function(node.op, x.form), x.rows, x.width)


def _gather(forms: Forms, node: Node) -> None:
    """Sets the output to the row of a carried sequence at a counter."""
    sequence, along = forms.tensors[node.operand()], node.attributes
    rows = len(sequence.shape) == 3 and sequence.dtype == "f32"
    single = along["axis"] == 0 and not along.get("batch_dims")
    match _both(forms, node):
        case Carried(position), Numbers((Counter() as counter,)) if rows and single:
            forms.put(node, forms.form("row", position, counter), *sequence.shape[1:])
        case _:
            raise otherwise("it does not go through a sequence row by row")


def _moved(forms: Forms, node: Node) -> None:
    """Sets the outputs of an op that moves elements: to the reshaped operand, or to columns of its
    rows."""
    given = forms.value(node.operand())
    if isinstance(given, Numbers) and ops.arranges(node) == "shape":
        forms.values[node.outputs[0]] = given
        return
    x = forms.vector(node.operand())
    shapes, views = forms.shapes(node), ops.rows()[node.op].views
    assert views is not None
    found = views(Graph.over(forms.tensors, node), node)
    for index, shape, view in zip(node.outputs, shapes, found, strict=True):
        width = prod(shape) // x.rows
        columns = View(shape, (Axis(x.rows, x.width), Axis(width, 1)), view.offset)
        if view.key != columns.key:
            raise otherwise(f"{node.host_op} moves other elements than columns")
        if x.rows > 1 and shape[-1] != width:
            raise otherwise(f"{node.host_op} makes {list(shape)}")
        whole = width == x.width
        form = x.form if whole else forms.cut(x.form, view.offset, view.offset + width)
        forms.values[index] = Vector(form, x.rows, width)


def _slice(forms: Forms, node: Node) -> None:
    """Sets the output to the rows of a carried list before a counter, or from it on; for other
    operands, to columns."""
    held = forms.value(node.operand())
    if not isinstance(held, Carried) or len(forms.tensors[node.operand()].shape) == 2:
        return _moved(forms, node)
    whole = forms.tensors[node.operand()].shape[1:]
    match forms.value(node.operand(1)), forms.value(node.operand(2)):
        case Numbers((0, *starts)), Numbers((Counter() as counter, *extents)):
            before = True
        case Numbers((Counter() as counter, *starts)), Numbers((-1, *extents)):
            before = False
        case _:
            raise otherwise("it slices a list other than at a counter")
    full = [n if n != -1 else extent for n, extent in zip(extents, whole, strict=False)]
    if any(starts) or len(starts) != len(whole) or len(extents) != len(whole) or full != [*whole]:
        raise otherwise("it slices a list other than at a counter")
    forms.values[node.outputs[0]] = Piece(held.position, counter, before)


def _concat(forms: Forms, node: Node) -> None:
    """Sets the output to a carried list with one row replaced, or to concatenated numbers."""
    parts = [forms.value(index) for index in node.reads]
    if len(parts) != len(node.inputs) or node.attributes.get("activation", "none") != "none":
        raise otherwise("it concatenates values other than a list with one new row")
    if all(isinstance(part, Numbers) for part in parts):
        forms.values[node.outputs[0]] = Numbers(tuple(n for part in parts for n in part.entries))
        return
    match parts:
        case [Piece(position, counter, True), _, Piece() as high] if node.attributes["axis"] == 0:
            rest = Piece(position, counter._replace(more=counter.more + 1), False)
            if high == rest:
                return _put_row(forms, node, position, counter, node.operand(1))
    raise otherwise("it concatenates values other than a list with one new row")


def _update_slice(forms: Forms, node: Node) -> None:
    """Sets the output to a carried list with one row replaced."""
    rank = len(forms.tensors[node.operand()].shape)
    match forms.value(node.operand()), forms.value(node.operand(2)):
        case Carried(position), Numbers((Counter() as counter, *rest)) if not any(rest):
            if 1 + len(rest) == rank:
                return _put_row(forms, node, position, counter, node.operand(1))
    raise otherwise("it replaces more than one row of a list")


def _put_row(forms: Forms, node: Node, position: int, counter: Counter, row: int) -> None:
    x = forms.vector(row)
    if forms.tensors[row].shape != (1, x.rows, x.width):
        raise otherwise("it writes a value that is not a row into a list")
    forms.values[node.outputs[0]] = Listed(position, counter, x.form)


def _dequantize(forms: Forms, node: Node) -> None:
    """Sets the output to a float16 constant, widened to float32."""
    source, result = forms.tensors[node.operand()], forms.tensors[node.outputs[0]]
    if source.dtype != "f16" or source.data is None:
        raise otherwise("it dequantizes numbers that are not floats")
    made = replace(result, shape=source.shape, data=dequantized(source))
    forms.tensors[node.outputs[0]] = made


def _less(forms: Forms, node: Node) -> None:
    match _both(forms, node):
        case Numbers((Counter() as counter,)), Numbers((int() as limit,)):
            forms.values[node.outputs[0]] = Below(frozenset({(counter, limit)}))
        case _:
            raise otherwise("its condition is not a comparison of a counter with a constant")


def _and(forms: Forms, node: Node) -> None:
    match _both(forms, node):
        case Below(limits), Below(more):
            forms.values[node.outputs[0]] = Below(limits | more)
        case _:
            raise otherwise("its condition is not a comparison of a counter with a constant")


HANDLERS: Mapping[str, Callable[[Forms, Node], None]] = {
    "fully_connected": _fully_connected, "add": _add, "mul": _mul, "sub": _sub,
    **dict.fromkeys(BASIC_FUNCTIONS, _function), "gather": _gather, "reshape": _moved,
    "split": _moved, "strided_slice": _moved, "slice": _slice, "concat": _concat,
    "update_slice": _update_slice, "dequantize": _dequantize, "less": _less, "logical_and": _and,
}  # fmt: skip
