"""Reads one host node: the functions through which a row of a host's table asks for operands,
attributes and shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tflgpu_plugin import ops
from tflgpu_plugin.errors import Unsupported
from tflgpu_plugin.importer import offsets
from tflgpu_plugin.importer.imported import Table
from tflgpu_plugin.importer.model import DEFAULT_DOMAINS, HostNode, Value
from tflgpu_plugin.importer.tensors import Tensors
from tflgpu_plugin.ir.graph import Array, Node, Shape
from tflgpu_plugin.ir.host_op import HostOp
from tflgpu_plugin.ir.refusal import ImpossibleShapeRefusal
from tflgpu_plugin.ir.symbolic import integer, symbolic
from tflgpu_plugin.ops.table import Op

Default = bool | int | float | str  # the type of an attribute


@dataclass
class NodeReader:
    """A node of the host, its row in the host's `table`, and the `values` of the host's model.
    `inputs` are tensor ids (None: absent), `nodes` are those that the row has added so far.
    `scaled`: the extents of the result are products with scales, as in Resize. The host's shape
    inference may be off by one, since onnxruntime rounds them differently there and in the kernel
    (float32(50/7) * 7 is 50 in float32 and 49.9999995 in float64). `misinferred`: the host's shape
    inference gives an entirely different shape. `widened`: inputs of bfloat16 were cast to float32
    for the row. `captured` are the tensors of outer values that the node's bodies read, by their
    keys. `count` is the tensor with the count of the inputs, if the node preserves it (see
    `importer.counts`). With a nonzero `known_limit`, the row adds no nodes, and every result must
    be a constant of at most that many elements, computed from known values. `doubles`: the host's
    node has values of float64, which are computed as float32."""

    host: HostNode
    row: HostOp
    tensors: Tensors
    inputs: Sequence[int | None]
    table: Table
    values: Mapping[str, Value] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    scaled: bool = False
    misinferred: bool = False
    widened: bool = False
    known_limit: int = 0
    captured: Mapping[str, int] = field(default_factory=dict)
    count: int | None = None
    doubles: bool = False

    def has(self, position: int) -> bool:
        """Whether the input is present."""
        return self.get(position) is not None

    def x(self, position: int = 0) -> int:
        """Returns the tensor id of an input that must be present."""
        found = self.inputs[position]
        assert found is not None
        return found

    def get(self, position: int) -> int | None:
        """Returns the tensor id of an input, or None when it is absent."""
        return self.inputs[position] if position < len(self.inputs) else None

    def of(self, role: str) -> Shape:
        """Returns the shape of the first input whose operand has this role."""
        return self.shape(self.x(self.row.taken.index(role)))

    def shape(self, tensor: int | None = None) -> Shape:
        """Returns the shape of a tensor, or of the first input."""
        return self.tensors.table[self.x() if tensor is None else tensor].shape

    def rank(self, tensor: int | None = None) -> int:
        return len(self.shape(tensor))

    def dtype(self, tensor: int | None = None) -> str:
        """Returns the dtype of a tensor, or of the first input."""
        return self.tensors.table[self.x() if tensor is None else tensor].dtype

    def constant(self, tensor: int) -> Array | None:
        """Returns the value of a tensor when it is known before the model runs, else None."""
        return self.tensors.table[tensor].data

    def known(self, *tensors: int | None) -> bool:
        """Whether the inputs at these positions, if present, are constants."""
        return all(t is None or self.constant(t) is not None for t in tensors)

    def counted_axis(self, position: int = 0) -> int | None:
        """Returns the axis of an input along which a run counts its elements, else None."""
        tensor = self.get(position)
        held = None if tensor is None else self.tensors.table[tensor].counted
        return None if held is None else held[0]

    def computed(self, position: int) -> bool:
        """Whether a run computes the value of an input that is not known from more than a few
        integers, so that no host tells it before."""
        return self.tensors.computed is None or self.x(position) in self.tensors.computed

    def elements(self, tensor: int) -> tuple[int, ...] | None:
        """Returns the tensors of a sequence; None for a tensor, or where they are not known."""
        return self.tensors.sequences.get(tensor)

    def distance(self, start: int, end: int) -> int | None:
        """Returns by how much the integer `end` exceeds `start` in every run, None if that depends
        on the run."""
        return offsets.distance(self.tensors, start, end)

    @property
    def symbolic(self) -> bool:
        """Whether a known input depends on symbolic extents."""
        known = (self.constant(t) for t in self.inputs if t is not None)
        return any(data is not None and symbolic(data) for data in known)

    def value(self, position: int) -> Array:
        """Returns the value of an input that the row's `constants` name, known before a run."""
        found = self.constant(self.x(position))
        assert found is not None
        return found

    def optional(self, position: int) -> Array | None:
        """Returns the known value of an input, or None when it is absent."""
        return self.value(position) if self.has(position) else None

    def integer(self, name: str, default: int = 0) -> int:
        return int(self.host.attributes.get(name, default))

    def number(self, name: str, default: float) -> float:
        return float(self.host.attributes.get(name, default))

    def integers(self, name: str) -> tuple[int, ...] | None:
        found = self.host.attributes.get(name)
        return None if found is None else tuple(map(integer, found))

    def listed(self, name: str, position: int) -> tuple[int, ...] | None:
        """Returns integers that are the constant input at `position`, or in older versions of an
        operator the attribute `name`."""
        given = self.optional(position)
        return self.integers(name) if given is None else tuple(map(integer, given.reshape(-1)))

    def scalar(self, position: int, name: str, default: float) -> float:
        """Returns a number that is the constant input at `position`, or in older versions of an
        operator the attribute `name`."""
        given = self.optional(position)
        return (
            self.number(name, default) if given is None or not given.size else float(given.flat[0])
        )

    def text(self, name: str, default: str) -> str:
        found = self.host.attributes.get(name)
        text = found if isinstance(found, str | None) else bytes(found).decode(errors="replace")
        return default if text is None else text

    def attribute(self, name: str, default: Default) -> Default:
        """Returns an attribute, which must have the type of its default; an axis is counted from
        the front of the first input."""
        if name == "axis":
            return self.axis(self.integer(name, int(default)), self.rank())
        if isinstance(default, str):
            return self.text(name, default)
        return type(default)(self.host.attributes.get(name, default))

    def axis(self, value: int, rank: int) -> int:
        """Returns an axis counted from the front. Raises Unsupported when it is out of range."""
        if not -rank <= value < max(rank, 1):
            raise Unsupported(
                ImpossibleShapeRefusal(
                    "attribute.invalid", f"Axis {value} is out of range for rank {rank}."
                )
            )
        return value % rank if rank else 0

    @property
    def op(self) -> Op:
        """Returns the row of the op that the node's own row names."""
        return ops.rows()[self.row.op]

    @property
    def results(self) -> list[Value]:
        """Returns the present outputs, as the model states them."""
        return [self.values[key] for key in self.host.writes]

    @property
    def version(self) -> int:
        return self.host.version

    def wants(self, position: int) -> bool:
        """Whether anything reads this output."""
        return position < len(self.host.outputs) and self.host.outputs[position] is not None

    def run(
        self, name: str, *inputs: int | None, attributes: Mapping[str, Any] | None = None
    ) -> Any:
        """Runs the builder of the ONNX operator `name` for these inputs and returns its result. The
        node's own attributes are used unless others are given. The operator has the node's version;
        for a node of another domain, the attribute `opset` or else the newest version."""
        row, host = self.table.rows[name], self.host
        given = host.attributes if attributes is None else attributes
        newest = host.version if host.domain in DEFAULT_DOMAINS else row.versions[1]
        seen = replace(host, attributes=given, version=int(given.get("opset", newest)))
        assert row.build is not None
        return row.build(replace(self, host=seen, row=row, inputs=inputs))
