"""Builds the plugin's nodes from one host node: the functions through which a row of a host's table
reads the node and adds nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from tflgpu_plugin import ops
from tflgpu_plugin.errors import Unsupported
from tflgpu_plugin.importer import folding, offsets
from tflgpu_plugin.importer.doubles import narrowed
from tflgpu_plugin.importer.node_reader import NodeReader
from tflgpu_plugin.importer.support import of_host, of_other_types, type_names
from tflgpu_plugin.importer.tensors import TensorId
from tflgpu_plugin.ir import bfloat16, float8
from tflgpu_plugin.ir.bfloat16 import BFLOAT16
from tflgpu_plugin.ir.extent import Extent
from tflgpu_plugin.ir.float8 import FLOAT8
from tflgpu_plugin.ir.graph import (
    COMPLEX,
    NUMPY_DTYPES,
    Array,
    Node,
    Quantization,
    Shape,
    ShapeError,
    Tensor,
)  # fmt: skip
from tflgpu_plugin.ir.quantization import COUNTS, NUMBERS, STORED, WHOLE, real
from tflgpu_plugin.ir.refusal import ImpossibleShapeRefusal, Refusal, ShapeRefusal
from tflgpu_plugin.ir.symbolic import example, hashed, integer, integers, is_symbolic, symbolic
from tflgpu_plugin.ir.target import Target
from tflgpu_plugin.ops.table import Op

COUNTED = (*STORED, "i16", "u16")  # dtypes of stored numbers


LONGEST = 1 << 12  # least elements of the constant that `counting` slices to a symbolic count


def cast_array(data: Array, dtype: str) -> Array:
    """Returns the data in this dtype: bfloat16 and floats of 8 bits as their bits, and unchanged if
    numpy lacks it."""
    if dtype in FLOAT8:
        return data if data.dtype.kind == "u" else float8.bits(data, dtype, saturates=True)
    if dtype == BFLOAT16:
        return data if data.dtype.kind == "u" else bfloat16.bits(data)
    if symbolic(data) and dtype in COUNTS:
        return data
    return data.astype(NUMPY_DTYPES[dtype]) if dtype in NUMPY_DTYPES else data


def fixed(value: Any) -> Any:
    """Returns an attribute's value with tuples in place of lists and arrays, also nested ones, and
    with Python's numbers in place of numpy's."""
    if hasattr(value, "tolist"):  # isinstance would make a union of types at each call
        value = value.tolist()
    return tuple(fixed(item) for item in value) if isinstance(value, list | tuple) else value


def _moves_integers(row: Op) -> bool:
    """Whether the op moves stored numbers unchanged; padding does not, since it adds real zeros."""
    return bool(row.keeps) and not row.fills


@dataclass
class Builder(NodeReader):
    """Reads a node and adds nodes to the graph. Rows call `add` and return the ids of the node's
    outputs; every shape is inferred on the way."""

    @cached_property
    def attributes(self) -> dict[str, Any]:
        """Returns the attributes of the host's node in the types that ops take."""
        return {name: fixed(value) for name, value in self.host.attributes.items()}

    def const(self, data: Array | Sequence[Any] | float, dtype: Any = None) -> int:
        """Returns a constant tensor of the numpy `dtype` (float32). Equal constants are shared."""
        array = np.asarray(data)
        if symbolic(array):
            items: object = hashed(tuple(array.reshape(-1)))
        else:
            array = np.asarray(data, dtype or np.float32)
            items = array.tobytes()
        named = (array.dtype.str, array.shape, items)
        return self.tensors.constant(named, "constant", lambda: array)

    def index(self, data: Array | Sequence[Any]) -> int:
        """Returns a constant of int32 indices; numbers outside of int32 are clamped."""
        limits = np.iinfo(np.int32)
        wide = integers(data)
        if symbolic(wide):
            return self.const(wide)
        return self.const(np.clip(wide, limits.min, limits.max).astype(np.int32), np.int32)

    def filled(self, shape: Sequence[int], value: float = 0.0) -> int:
        """Returns a tensor of this shape with one value, as float32."""
        if is_symbolic(shape):
            return self.add("expand", value, self.index(shape))
        return self.const(np.full(shape, value))

    def counting(self, count: int, first: int = 0) -> int:
        """Returns `count` consecutive integers as int32. A symbolic number of them is a slice of a
        longer constant."""
        if not is_symbolic((count, first)):
            return self.index(range(first, first + count))
        if not isinstance(count, Extent):
            return self.index([first + k for k in range(count)])
        longest = self.index(range(max(1 << example(first + count).bit_length() + 1, LONGEST)))
        return self.add("slice", longest, self.index([first]), self.index([count]))

    def derived(
        self, tensor: int, *how: Any, make: Callable[[Array], Array], axis: int | None = None
    ) -> int:
        """Returns the constant `make(data)` of the constant `tensor`, made once per `how`, a key
        for the operation. If that only moves elements, `axis` is the new axis of its scales."""
        held = self.tensors.table[tensor]
        data, scaled = held.data, held.quantization
        assert data is not None
        made = self.tensors.constant((tensor, *how), held.name, lambda: make(data))
        if axis is not None and scaled is not None:
            table = self.tensors.table
            table[made] = replace(table[made], quantization=replace(scaled, axis=axis))
        return made

    def scales_axis(self, tensor: int) -> int:
        """Returns the axis of a tensor's scales, 0 when it is not quantized."""
        held = self.tensors.table[tensor].quantization
        return 0 if held is None else held.axis

    def hold(self, tensor: int, quantization: Quantization) -> Quantization:
        """Sets the quantization of a tensor unless it already has one. Returns the tensor's
        quantization."""
        table = self.tensors.table
        held = table[tensor].quantization
        if held is None:
            table[tensor] = replace(table[tensor], quantization=quantization)
        return held or quantization

    def exact(self, tensor: int) -> int:
        """Marks the tensor to stay float32 where others may become float16 (as for positions
        between pixels), and returns it."""
        self.tensors.table[tensor] = replace(self.tensors.table[tensor], keep_f32=True)
        return tensor

    def add(
        self,
        op: str,
        *inputs: int | float | None,
        dtype: str | None = None,
        quantization: Quantization | None = None,
        **attributes: Any,
    ) -> int:
        """Adds a node and returns the id of its first output."""
        (made,) = self.add_many(op, *inputs, dtype=dtype, **attributes)
        if quantization is not None:
            self.hold(made, quantization)
        return made

    def add_many(
        self,
        op: str,
        *given: int | float | None,
        dtype: str | Sequence[str] | None = None,
        **attributes: Any,
    ) -> list[int]:
        """Adds a node and returns the ids of its outputs. `dtype` is the type of all outputs or a
        list of one per output (default: the type of the first input). A float in `given` becomes a
        constant. Raises Unsupported when the op does not take the inputs."""
        row = ops.row(op)
        if row is None:
            raise ValueError(f"There is no op {op!r}.")
        attributes = {name: fixed(value) for name, value in attributes.items()}
        if refusal := row.misuse(attributes, given):
            raise Unsupported(refusal)
        inputs = tuple([self._operand(op, one) for one in row.taken(given)])
        inputs = tuple([t if t is None else self.narrow(t) for t in inputs])
        if self.known_limit:
            return self._worked_out(row, inputs, dtype, attributes)
        if _moves_integers(row):
            inputs = self._alike(inputs)
        for tensor in inputs:
            if tensor is not None:
                self._check_type(row, tensor)
        node = Node(-1, op, inputs, (), attributes)
        shapes = self._shapes(row, node)
        first = self.tensors.table[next(tensor for tensor in inputs if tensor is not None)]
        one = first.dtype if dtype is None else dtype
        kinds = [one] * len(shapes) if isinstance(one, str) else one
        held = first.quantization if row.keeps and real(first) else None
        outputs = tuple(
            self.tensors.add(
                Tensor("", tuple(s), kind, quantization=held if kind == first.dtype else None)
            )
            for s, kind in zip(shapes, kinds, strict=True)
        )
        self.nodes.append(Node(-1, op, inputs, outputs, attributes))
        offsets.note(self.tensors, self.nodes[-1], row)
        return list(outputs)

    def narrow(self, tensor: int) -> int:
        """Returns the float32 constant of a constant of float64 that is computed so; other tensors
        unchanged. Raises Unsupported for one that float32 cannot hold."""
        return narrowed(self.tensors, tensor) if self.doubles else tensor

    def _operand(self, op: str, given: int | float | None) -> int | None:
        """Returns the id of an operand. Raises TypeError for a number that is neither an id of this
        graph nor a float."""
        if given is None or (isinstance(given, TensorId) and given.mark is self.tensors.mark):
            return given
        if isinstance(given, float):
            return self.const(given)
        raise TypeError(
            f"The operand {given!r} of {op} is not a tensor of this graph: write constants as "
            "floats."
        )

    def _worked_out(
        self,
        row: Op,
        inputs: Sequence[int | None],
        dtype: str | Sequence[str] | None,
        attributes: Mapping[str, Any],
    ) -> list[int]:
        """Evaluates the op in numpy and returns its results as constant tensors. Raises Unsupported
        when an input is not constant or the op cannot be evaluated."""
        table = self.tensors.table
        given = [None if t is None else table[t] for t in inputs]
        first = next(tensor for tensor in given if tensor is not None)
        kinds = dtype if dtype is not None and not isinstance(dtype, str) else ()
        one = dtype if isinstance(dtype, str) else first.dtype
        meaning = folding.of_op(row, attributes, one)
        values = [None if t is None else folding.operand(meaning, t) for t in given if meaning]
        missing = any(t is not None and t.data is None for t in given)
        limit = self.known_limit
        found = None if meaning is None or missing else meaning.compute(values, limit)
        all_kinds = kinds or [one] * len(found or ())
        wraps = any(map(folding.may_wrap, found or (), all_kinds))
        if found is None or wraps or len(all_kinds) != len(found):
            raise Unsupported.of(
                "dynamic.value", f"The result of {row.name} is not known before a run."
            )
        pairs = zip(all_kinds, found, strict=True)
        return [
            self.tensors.add(Tensor("", data.shape, kind, cast_array(data, kind)))
            for kind, data in pairs
        ]

    def _alike(self, operands: Sequence[int | None]) -> tuple[int | None, ...]:
        """Returns the operands with one common quantization, if all are 8-bit or all 16-bit
        integers: ONNX moves stored numbers, without their scales. It is that of the computed
        operands, or `NUMBERS` if these differ."""
        table = self.tensors.table
        stored = [t for t in operands if t is not None and table[t].dtype in COUNTED]
        found = {table[t].quantization for t in stored if table[t].data is None} - {None}
        common = (found.pop() if len(found) == 1 else None) or NUMBERS
        again = {t: self._restored(t, common) for t in stored}
        return tuple(None if t is None else again.get(t, t) for t in operands)

    def _restored(self, tensor: int, common: Quantization) -> int:
        """Returns a tensor with the same stored numbers and the quantization `common`."""
        if self.hold(tensor, common) == common:
            return tensor
        held = self.tensors.table[tensor]
        if held.data is not None:
            return self.tensors.add(replace(held, quantization=common))
        return self.add("quantize", self.numbers(tensor), dtype=held.dtype, quantization=NUMBERS)

    def numbers(self, tensor: int) -> int:
        """Returns the stored numbers of an integer tensor, as float32."""
        if self.constant(tensor) is not None:
            return self.derived(tensor, "numbers", make=lambda data: data.astype(np.float32))
        if self.dtype(tensor) == "f32":
            return tensor
        if self.dtype(tensor) in WHOLE:
            return self.add("cast", tensor, dtype="f32")
        held = self.hold(tensor, NUMBERS)
        values = self.add("dequantize", tensor, dtype="f32")
        if (held.scale, held.zero_point) == (NUMBERS.scale, NUMBERS.zero_point):
            return values
        whole = self.add("round", self.add("mul", values, 1 / held.scale[0]))
        return self.add("add", whole, float(held.zero_point[0]))

    def _check_type(self, row: Op, number: int) -> None:
        """Raises Unsupported for a computed operand whose type the op does not take. Constants may
        have any type, since they may be indices; ops that move elements also take stored numbers.
        """
        tensor = self.tensors.table[number]
        if tensor.dtype in COUNTED and _moves_integers(row):
            return
        if row.quantizes and real(tensor):
            return
        if tensor.data is None and not row.takes(tensor.dtype):
            own = of_host(row.types, self.row)
            known = type_names(kind for kind in own if kind != COMPLEX)  # ONNX has none
            raise Unsupported(of_other_types(tensor, self.host.title, known))

    def _shapes(self, row: Op, node: Node) -> list[Shape]:
        try:
            shapes = row.shapes(self.tensors.graph, node)
        except Exception as error:
            # Where other tensors than the node's inputs do not fit, the host may run the node.
            own = {*node.inputs} <= {*self.inputs}
            kind = ImpossibleShapeRefusal if isinstance(error, ShapeError) and own else ShapeRefusal
            plain = Refusal("shape.mismatch", f"{self.host.title}: {error}.")
            reason = self._reason(row, node) or plain
            raise Unsupported(kind(reason.code, reason)) from error
        if any(extent < 0 for shape in shapes for extent in shape):
            sentence = (
                f"The input of {self.host.title} is smaller than the number of elements to select."
            )
            raise Unsupported(ShapeRefusal("shape.window_too_large", sentence))
        return shapes

    def _reason(self, row: Op, node: Node) -> Refusal | None:
        """Returns the op's own reason for not taking the node, or None."""
        try:
            return row.refuse(self.tensors.graph, node, Target())
        except Exception:
            return None

    def sequence(self, elements: Sequence[int]) -> int:
        """Returns a value that is a list of tensors, for which no node is needed."""
        made = self.tensors.add(Tensor("", (), ""))
        self.tensors.sequences[made] = tuple(elements)
        return made

    def stack(self, tensor: int) -> int:
        """Returns a value that is the list of the parts of a tensor along its first axis."""
        made = self.sequence([tensor])
        self.tensors.stacks.add(made)
        return made

    def counted(self, tensor: int, axis: int, count: int) -> int:
        """Marks the tensor as valid only for its first n indices along `axis`, where n is the value
        of the tensor `count` after a run. Returns the tensor."""
        table = self.tensors.table
        table[tensor] = replace(table[tensor], counted=(axis, count))
        self.tensors.bounds.setdefault(count, table[tensor].shape[axis])
        return tensor

    def plus(self, tensor: int, term: int | None) -> int:
        """Returns tensor + term, or the tensor itself if the term is None."""
        return tensor if term is None else self.add("add", tensor, term)

    def times(self, tensor: int, factor: float) -> int:
        """Returns tensor * factor, or the tensor itself if the factor is 1."""
        return tensor if factor == 1 else self.add("mul", tensor, factor)

    def transpose(self, tensor: int, perm: Sequence[int]) -> int:
        """Returns the tensor with permuted axes; constants are transposed here."""
        order = tuple(perm)
        if order == tuple(range(len(order))):
            return tensor
        if self.constant(tensor) is not None:
            axis = order.index(self.scales_axis(tensor)) if order else 0
            make: Callable[[Array], Array] = lambda data: data.transpose(order)  # noqa: E731
            return self.derived(tensor, "transpose", order, make=make, axis=axis)
        return self.add("transpose", tensor, perm=order)

    def channels_last(self, tensor: int) -> int:
        """Returns [N, C, spatial...] as [N, spatial..., C]."""
        rank = self.rank(tensor)
        return self.transpose(tensor, (0, *range(2, rank), 1))

    def channels_first(self, tensor: int) -> int:
        """Returns [N, spatial..., C] as [N, C, spatial...]."""
        rank = self.rank(tensor)
        return self.transpose(tensor, (0, rank - 1, *range(1, rank - 1)))

    def image(self, op: str, x: int, *inputs: int | None, **attributes: Any) -> int:
        """Adds an op that works on [N, spatial..., C] for an input `x` of [N, C, spatial...].
        Returns its output as [N, C, spatial...]."""
        return self.channels_first(self.add(op, self.channels_last(x), *inputs, **attributes))

    def reshape(self, tensor: int, shape: Sequence[int]) -> int:
        """Returns the same elements in another shape (-1 allowed)."""
        return self.add("reshape", tensor, shape=tuple(map(integer, shape)))
