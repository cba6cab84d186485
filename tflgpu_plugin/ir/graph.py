"""The graph that every host's model is imported into: plain data with checks, copies and a text
dump.

Tensors are keyed by integers (the host's tensor indices; passes add higher ones), nodes are kept in
execution order. Shapes are logical, channels last. The layout of a tensor in device memory follows
from its shape, see `geometry`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

import numpy as np

from tflgpu_plugin.ir.bfloat16 import BFLOAT16
from tflgpu_plugin.ir.float8 import FLOAT8
from tflgpu_plugin.ir.host_op import HostOp
from tflgpu_plugin.ir.packed import PACKED, signed

Shape = tuple[int, ...]
Array = np.ndarray[Any, np.dtype[Any]]

FOLDED = "folded"  # op of a constant-folded node, which does not run: its results are constants
STORE = "store"  # op of a node that reads or writes a variable of the host, and stays with it

SINGLE, DOUBLE = "f32", "f64"  # dtypes of float32, and of float64 that may be computed so
COMPLEX = (
    "c64"  # dtype of complex numbers, which are float32 pairs on the device and never leave it
)

# Not numpy's finfo, which warns where a host flushes subnormal floats to zero.
MAX_FLOAT32, MAX_FLOAT16 = 3.4028234663852886e38, 65_504.0
NUMPY_DTYPES: dict[str, str] = {
    "f32": "float32", "f16": "float16", "f64": "float64", "bool": "bool",
    "i8": "int8", "u8": "uint8", "i16": "int16", "u16": "uint16",
    "i32": "int32", "u32": "uint32", "i64": "int64", "u64": "uint64",
    BFLOAT16: "uint16",  # its bits
    **dict.fromkeys(FLOAT8, "uint8"),  # theirs
    **{name: "int8" if signed(name) else "uint8" for name in PACKED},
}  # fmt: skip
NARROW = (*FLOAT8, *PACKED)  # dtypes of at most 8 bits that numpy lacks ...
BITS_ONLY = (BFLOAT16, *NARROW)  # ... and all that it lacks: other dtypes stand for them in arrays
# The dtype of an array by numpy's name of its type.
NUMPY_NAMES = {held: name for name, held in NUMPY_DTYPES.items() if name not in BITS_ONLY}


def stored_bytes(shape: Shape, dtype: str) -> int:
    """Returns the bytes of a tensor in a host's memory."""
    count = prod(shape)
    if dtype in PACKED:
        return -(-count * PACKED[dtype] // 8)
    return count * np.dtype(NUMPY_DTYPES[dtype]).itemsize


class ShapeError(ValueError):
    """An error for input shapes that are invalid for an operator, on any device."""


class NotConstant(ValueError):
    """An error for an input that is not constant and whose value determines output shapes."""


@dataclass(frozen=True)
class Quantization:
    """Affine quantization: real = scale * (stored - zero_point), with one scale and zero point, or
    one per index along `axis`. `rounding` says how the host requantizes: "fixed_point" (a fixed
    point multiplier, ties away from zero) or "even" (a float32 multiplier, ties to even)."""

    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    axis: int = 0
    rounding: str = "fixed_point"


@dataclass(frozen=True)
class Tensor:
    """A value. `data` is the value of a constant; `variable`: the host keeps the value between
    runs; `keep_f32`: it stays float32 where other tensors may be stored as float16. `counted` is
    (axis, tensor): the extent of the axis is an upper bound, and only the first n indices along it
    are valid, where n is the int32 value of that tensor after a run. `host_dtype` is the type in
    the host's memory, where that is another than `dtype`: float64 that is computed as float32."""

    name: str
    shape: Shape
    dtype: str = "f32"
    data: Array | None = None
    quantization: Quantization | None = None
    variable: bool = False
    keep_f32: bool = False
    counted: tuple[int, int] | None = None
    host_dtype: str = ""

    @property
    def port_dtype(self) -> str:
        """Returns the type in the host's memory."""
        return self.host_dtype or self.dtype

    @property
    def bytes(self) -> int:
        """Returns the bytes in the host's memory."""
        return stored_bytes(self.shape, self.port_dtype)


def paired(tensor: Tensor) -> Tensor:
    """Returns a tensor as the device stores it: a complex one as float32 with a last axis of 2."""
    if tensor.dtype != COMPLEX:
        return tensor
    return replace(tensor, dtype="f32", shape=(*tensor.shape, 2))


@dataclass(frozen=True)
class EpilogueOp:
    """An elementwise op that a kernel applies before it stores its result: `result = op(result,
    operand)`.

    `op` is a key of `kernels.EPILOGUE_OPS`; `tensor` is its second operand (None for unary ops). It
    has the output's shape, one value per channel, or a single value. `parameters` are numbers that
    the op takes (slope, limits); a binary op without a `tensor` has its second operand, one value,
    as the only parameter."""

    op: str
    tensor: int | None = None
    parameters: tuple[float, ...] = ()


@dataclass(frozen=True)
class Node:
    """One operation; a node whose `op` is "" stays with the host. `inputs` has None for an absent
    optional input, and `row` is the operator's row in the host's table. `layout`: the node only
    changes the layout of a tensor, and other nodes do the work of its host node."""

    id: int
    op: str
    inputs: tuple[int | None, ...]
    outputs: tuple[int, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""
    host_op: str = ""
    version: int = 1
    row: HostOp | None = None
    epilogue: tuple[EpilogueOp, ...] = ()
    sources: tuple[
        int, ...
    ] = ()  # ids of the host nodes that passes merged into this one, its own included
    layout: bool = False

    @cached_property
    def reads(self) -> tuple[int, ...]:
        """Returns each tensor that the node or its epilogue reads, in order, once."""
        ids = [t for t in self.inputs if t is not None] + [
            p.tensor for p in self.epilogue if p.tensor is not None
        ]
        return tuple(dict.fromkeys(ids))

    def operand(self, position: int = 0) -> int:
        """Returns the input at this position. Raises ValueError where it is absent."""
        found = self.inputs[position] if position < len(self.inputs) else None
        if found is None:
            raise ValueError(f"node {self.id} ({self.op}) has no input {position}")
        return found


class Geometry(NamedTuple):
    """The layout of a tensor in device memory: `[batch][slices][spatial]` of vec4, whose lanes are
    the four neighbouring channels of a slice (C4, as TFLite's GPU delegate calls it).

    PHWC4 for rank 2 to 5 (channels = last extent, batch = first, spatial = product of the rest);
    row-major for other ranks, which is the same layout with batch = spatial = 1 and every element a
    channel. Lanes past `channels` hold zero."""

    batch: int
    slices: int
    spatial: int
    channels: int

    @property
    def vectors(self) -> int:
        return self.batch * self.slices * self.spatial


def planar(shape: Shape) -> bool:
    """Whether a tensor of this shape is stored by channel planes (PHWC4), not row-major."""
    return 2 <= len(shape) <= 5


def geometry(shape: Shape) -> Geometry:
    """Returns the device layout of a tensor of this logical shape."""
    if planar(shape):
        return Geometry(shape[0], -(-shape[-1] // 4), prod(shape[1:-1]), shape[-1])
    count = prod(shape)
    return Geometry(1, -(-count // 4), 1, count)


class Ids(NamedTuple):
    """The next free ids: the lowest tensor id and the lowest node id that no graph of a model has
    used."""

    tensor: int = 0
    node: int = 0


@dataclass(frozen=True)
class Graph:
    """Nodes in execution order over a tensor table; `inputs` and `outputs` are tensor ids in the
    host's order.

    `ids` are the next free tensor id and node id. Graphs that are derived from this one continue
    from them even when they have fewer tensors or nodes, so that an id identifies the same tensor
    or node for as long as a model lives (None: see `over`).

    `states` are (variable, tensor) pairs: after each run the variable takes the tensor's value.
    `chained` are tensors that nodes compute from constants alone: hosts may keep them as weights of
    their own, and then never write them. `fused` is False where the host gives the plugin every
    node separately (its user wants to read all tensors), and `ordered` is False where the host may
    reorder nodes that read a variable and nodes that assign it."""

    tensors: Mapping[int, Tensor]
    nodes: tuple[Node, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    states: tuple[tuple[int, int], ...] = ()
    chained: tuple[int, ...] = ()
    fused: bool = True
    ordered: bool = True
    ids: Ids | None = field(default=Ids(), compare=False)

    def __post_init__(self) -> None:
        if self.ids is not None:
            tensor = max(self.tensors, default=-1) + 1
            node = max((node.id for node in self.nodes), default=-1) + 1
            known = Ids(max(self.ids.tensor, tensor), max(self.ids.node, node))
            object.__setattr__(self, "ids", known)

    @classmethod
    def over(cls, tensors: Mapping[int, Tensor], *nodes: Node) -> Graph:
        """Returns a graph for functions that only read shapes and constants. `tensors` may still
        grow; `next_ids` raises."""
        return cls(tensors, nodes, (), (), ids=None)

    def next_ids(self) -> Ids:
        """Returns ids for a new tensor and node. Raises ValueError for a graph made by `over`."""
        if self.ids is None:
            raise ValueError("this graph has only shapes and constants and cannot give new ids")
        return self.ids

    def shape(self, tensor: int) -> Shape:
        return self.tensors[tensor].shape

    def constant(self, tensor: int | None) -> Array | None:
        """Returns the value of a constant, or None for any other tensor."""
        return None if tensor is None else self.tensors[tensor].data

    def producers(self) -> dict[int, Node]:
        return {t: node for node in self.nodes for t in node.outputs}

    def consumers(self) -> dict[int, list[Node]]:
        found: dict[int, list[Node]] = {}
        for node in self.nodes:
            for tensor in node.reads:
                found.setdefault(tensor, []).append(node)
        return found

    def needed(self) -> set[int]:
        """Returns the tensors whose value must exist after a run: outputs and new states."""
        return set(self.outputs) | {after for _, after in self.states}

    def with_nodes(self, nodes: list[Node] | tuple[Node, ...], **tensors: Any) -> Graph:
        return replace(self, nodes=tuple(nodes), **tensors)


def counts(tensors: Mapping[int, Tensor], outputs: Iterable[int]) -> tuple[int, ...]:
    """Returns the tensors that hold the number of valid indices of these outputs (see
    `Tensor.counted`), each once."""
    counted = (tensors[t].counted for t in outputs)
    return tuple(dict.fromkeys(each[1] for each in counted if each is not None))


def verify(graph: Graph) -> None:
    """Raises ValueError with a sentence when the graph is not well formed: every tensor is written
    once, before it is read (one without elements need not be written), and every node has its own
    id."""
    made = set(graph.inputs) | {before for before, _ in graph.states}
    there = (
        t for t, tensor in graph.tensors.items() if tensor.data is not None or 0 in tensor.shape
    )
    known = made.union(there)
    numbers: set[int] = set()
    for tensor in (*graph.inputs, *graph.outputs, *(t for pair in graph.states for t in pair)):
        if tensor not in graph.tensors:
            raise ValueError(f"tensor {tensor} is an input, output or state, but not in the graph")
    for node in graph.nodes:
        if node.id in numbers:
            raise ValueError(f"two nodes have the id {node.id}, the second is {node.op}")
        numbers.add(node.id)
        for tensor in node.reads:
            if tensor not in graph.tensors:
                raise ValueError(
                    f"node {node.id} ({node.op}) reads tensor {tensor}, which is not in the graph"
                )
            if tensor not in known:
                raise ValueError(
                    f"node {node.id} ({node.op}) reads tensor {tensor} before anything writes it"
                )
        for tensor in node.outputs:
            if tensor not in graph.tensors:
                raise ValueError(
                    f"node {node.id} ({node.op}) writes tensor {tensor}, which is not in the graph"
                )
            if tensor in made:
                raise ValueError(
                    f"tensor {tensor} is written by two nodes, the second is {node.id} ({node.op})"
                )
            known.add(tensor)
            made.add(tensor)
    for tensor in graph.needed():
        if tensor not in known:
            raise ValueError(f"tensor {tensor} is an output but nothing writes it")


def dump(graph: Graph) -> str:
    """Returns a readable listing: one line per node."""
    lines = [f"inputs {graph.inputs} outputs {graph.outputs} states {graph.states}"]
    for node in graph.nodes:
        reads = ", ".join("-" if t is None else f"%{t}{list(graph.shape(t))}" for t in node.inputs)
        writes = ", ".join(f"%{t}{list(graph.shape(t))}" for t in node.outputs)
        epilogue = "".join(
            f" | {p.op}{p.parameters or ''}" + ("" if p.tensor is None else f" %{p.tensor}")
            for p in node.epilogue
        )
        lines.append(
            f"{node.id:4d} {writes} = {node.op}({reads}) {dict(node.attributes) or ''}{epilogue}"
        )
    return "\n".join(lines)
