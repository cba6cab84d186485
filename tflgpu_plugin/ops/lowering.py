"""The lowering context, through which an op family turns a node into launches. A family's
`lower(low, node)` calls `dispatch` once or more. Tensors may be aliases of others (reshapes); a
temporary is a tensor with a given number of vec4. `memory` assigns offsets later."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from tflgpu_plugin import kernels
from tflgpu_plugin.errors import Unsupported
from tflgpu_plugin.ir.digests import of_array
from tflgpu_plugin.ir.graph import Array, EpilogueOp, Geometry, Graph, Node, Shape, geometry
from tflgpu_plugin.ir.plan import Pack
from tflgpu_plugin.ir.quantization import is_integer
from tflgpu_plugin.ir.symbolic import symbolic
from tflgpu_plugin.ir.target import Target
from tflgpu_plugin.ops.epilogue import spread
from tflgpu_plugin.ops.packing import VECTOR_BYTES, moves, stored_pieces
from tflgpu_plugin.ops.unknown import unflagged

WORKGROUP = 64  # threads, unless a kernel says otherwise
MAX_LOOP_ROUNDS = 65_535  # loop rounds that every driver completes


@dataclass(frozen=True)
class Constant:
    """A packed constant of `vectors` vec4 of float32. When the program is built, `pack` makes it
    from `data`, in one or several consecutive pieces (flat, any shape). `half`: values of the
    model, which may be stored as float16, or as bytes if `data` are small integers of an integer
    type. `int32`: int32 instead of float32."""

    key: tuple[object, ...]
    vectors: int
    pack: Pack = field(compare=False, repr=False)
    data: Array | None = field(default=None, compare=False, repr=False)
    half: bool = False
    int32: bool = False


@dataclass(frozen=True)
class Raw:
    """A buffer in the host's layout: its role (input, output, state) and tensor. Also `CHECK`."""

    role: str
    tensor: int


CHECK = Raw("check", -1)  # a word, not 0 if the host's kernels must repeat the run
Source = int | Constant | Raw


@dataclass(frozen=True)
class Hosted:
    """The location in the host's buffer of an input of the partition (float32) or a transpose of
    it: element [i, j, ...] is at the sum of index * stride, in elements."""

    raw: Raw
    strides: tuple[int, ...]


@dataclass(frozen=True)
class Access:
    """A source, and how a kernel sees it: lanes per element (4, 2, 1; 0: raw u32)."""

    source: Source
    view: int = 4


class Kernel(NamedTuple):
    """A kernel to launch: the file `kernels/<name>.wgsl`, the `parameters` of its uniform block
    (int becomes u32, numpy.int32 i32, float f32) and the `variant` given to its template."""

    name: str
    parameters: Mapping[str, object] = MappingProxyType({})
    variant: Mapping[str, object] = MappingProxyType({})


class Stores(NamedTuple):
    """How a launch stores its results. `fused`: the node's epilogue is applied where the kernel
    stores its first output; false for launches that write a temporary, or a part of an output that
    a later launch completes. `table`: the operand of a first step of `kernels.SUMS`. `copies`: it
    copies its operand unchanged to this vec4 of the result, so the operand may be computed there.
    `takes`: the result is the contiguous part of the operand from this vec4 on, and may stay there.
    `also`: further nodes whose results it stores, with their epilogues."""

    fused: bool = True
    table: Constant | None = None
    copies: int | None = None
    takes: int | None = None
    also: Sequence[Node] = ()


EPILOGUE = Stores()


@dataclass(frozen=True)
class Launch:
    """A recorded dispatch, before memory is assigned."""

    kernel: str
    node: Node
    operands: tuple[tuple[kernels.Operand, Source], ...]
    epilogue: Mapping[str, Sequence[kernels.FusedEpilogueOp]]
    parameters: Mapping[str, object]
    variant: Mapping[str, object]
    workgroups: tuple[int, int, int]
    copies: int | None = None  # the result's vec4 to which the operand is copied, see `Stores`
    takes: int | None = None  # the operand's vec4 at which the result begins, see `Stores`
    form: str = ""  # the form that computes its node (see `ops.forms`)
    when: int | None = None  # 1 in runs that need it, else 0 (None: always 1), see `launches`

    @property
    def reads(self) -> list[Source]:
        return [source for operand, source in self.operands if operand.access != "w"]

    @property
    def writes(self) -> list[Source]:
        return [source for operand, source in self.operands if operand.access != "r"]


@dataclass
class Lowering:
    """Collects the launches of a partition. `sizes`: vec4 counts of temporaries. `aliases`: output
    -> input, or -> a host buffer that stores the tensor as it is. `homes`: host buffers in which
    tensors are computed. `hosted`: tensors also in the host's buffer. `turned`: outputs that are
    channels-first copies, and of what. `shared`: inputs with the buffer of an output. `copied`,
    `in_bytes`: temporaries with the elements of a tensor, in its storage or in bytes. `integers`:
    temporaries of int32. `keep_f32`: tensors that a kernel reads faster as float32."""

    graph: Graph
    target: Target
    launches: list[Launch] = field(default_factory=list)
    sizes: dict[int, int] = field(default_factory=dict)
    aliases: dict[int, int | Raw] = field(default_factory=dict)
    homes: dict[int, Raw] = field(default_factory=dict)
    hosted: dict[int, Hosted] = field(default_factory=dict)
    turned: dict[int, int] = field(default_factory=dict)
    shared: dict[int, int] = field(default_factory=dict)
    copied: dict[int, int] = field(default_factory=dict)
    in_bytes: dict[int, int] = field(default_factory=dict)
    integers: set[int] = field(default_factory=set)
    keep_f32: set[int] = field(default_factory=set)
    form: str = ""

    @cached_property
    def following(self) -> dict[int, Node]:
        """Returns, for each node, the node that is lowered after it. The key is the first output of
        the earlier node."""
        return {node.outputs[0]: after for node, after in pairwise(self.graph.nodes)}

    @cached_property
    def unflagged(self) -> frozenset[int]:
        """Returns tensors that may hold a number beyond int32."""
        return unflagged(self.graph)

    def geometry(self, tensor: int) -> Geometry:
        return geometry(self.graph.shape(tensor))

    def temporary(self, vectors: int, copied: int | None = None, int32: bool = False) -> int:
        """Returns the id of a new temporary with this many vec4. `copied`: a tensor whose elements
        it holds unchanged, so that both have one storage type. `int32`: it holds int32."""
        tensor = -2 - len(self.sizes)
        self.sizes[tensor] = vectors
        self.integers |= {tensor} if int32 else set()
        if copied is not None:
            self.copied[tensor] = copied
        return tensor

    def alias(self, output: int, source: int | Raw) -> None:
        """Makes `output` share the storage of `source` (same geometry, nothing is moved)."""
        self.aliases[output] = source

    def root(self, source: Source) -> Source:
        """Returns the source that stores a tensor: aliases are followed, constants are packed."""
        while isinstance(source, int) and source in self.aliases:
            source = self.aliases[source]
        if isinstance(source, int) and source >= 0 and self.graph.constant(source) is not None:
            return self.stored(source)
        return source

    def drop_unread(self) -> None:
        """Removes launches whose results nothing reads. Raises Unsupported, which names the node,
        for a constant that cannot be packed."""
        read: set[Source] = set()
        kept = []
        for launch in reversed(self.launches):
            written = [self.root(source) for source in launch.writes]
            results = [root for root in written if root != CHECK]
            if all(isinstance(t, int) and t not in read and t not in self.homes for t in results):
                continue
            try:
                read |= {self.root(source) for source in launch.reads}
            except Unsupported as refused:
                node = launch.node
                raise Unsupported(refused.sentence, node.id, *node.sources) from refused
            kept.append(launch)
        self.launches = kept[::-1]

    def constant(
        self,
        tensor: int,
        *how: object,
        vectors: int,
        pack: Callable[[Array], Array | Iterable[Array]],
        half: bool = False,
        int32: bool = False,
    ) -> Constant:
        """Returns the constant `tensor` in another layout. `how` names the layout and all other
        values that `pack` depends on: constants with equal keys and equal data are shared, also
        between models. Large ones should be packed in pieces of about `PACKED_BYTES` bytes. `half`,
        `int32`: see `Constant`."""
        data = self.graph.constant(tensor)
        assert data is not None
        limit = self.target.storage_bytes
        if vectors * VECTOR_BYTES > limit:
            raise Unsupported.of(
                "device.limit",
                f"A constant of {vectors * VECTOR_BYTES:,} bytes is over this adapter's binding "
                f"limit of {limit:,}.",
            )
        if symbolic(data):
            places = np.arange(1, data.size + 1, dtype=np.int32).reshape(data.shape)
            made = Constant((tensor, *how), vectors, lambda: pack(places), data, False, int32)
            moved = replace(made, pack=lambda: pack(places + places.size))
            if moves(made.pack, moved.pack, (vectors, int32), places.size):
                return made  # see `Assembly._place_symbolic`
            data = data.astype(np.int64)  # guards that the numbers stay
        return Constant((tensor, *how), vectors, lambda: pack(data), data, half, int32)

    def digest(self, tensor: int | None) -> str:
        """Returns a digest of the values of a constant, "" for None, for keys of constants that are
        packed from several."""
        data = self.graph.constant(tensor)
        return "" if data is None else of_array(data).hex()

    def stored(self, tensor: int) -> Source:
        """Returns a tensor as an operand in device storage; a constant is packed."""
        if self.graph.constant(tensor) is None:
            return tensor
        return self._constant_rows(tensor, geometry(self.graph.shape(tensor)), "stored")

    def stored_parts(
        self, tensor: int, shape: Shape, step: int = 1
    ) -> Iterator[tuple[int, int, Source]]:
        """Yields (first, last, source) of a tensor's rows in device storage, viewed in a planar
        shape. A constant above the binding limit is split at multiples of `step` rows."""
        rows = shape[0]
        if self.graph.constant(tensor) is None:
            yield 0, rows, tensor
            return
        row = geometry((1, *shape[1:])).vectors * VECTOR_BYTES
        what = f"{step} rows of {row:,} bytes are"
        for first, last in self.fitting(rows, row, what, step, told=True):
            part = geometry((last - first, *shape[1:]))
            how = ("rows", *shape, first, last)
            yield first, last, self._constant_rows(tensor, part, *how, rows=(shape, first, last))

    def fitting(
        self, count: int, unit: int, what: str, step: int = 1, told: bool = False
    ) -> Iterator[tuple[int, int]]:
        """Divides `count` units of `unit` bytes into ranges (first, last) that fit a binding, each
        a multiple of `step` units. Raises Unsupported if no range fits: `what` begins the message,
        which states the limit if `told`."""
        limit = self.target.storage_bytes
        most = limit // unit // step * step
        if most == 0:
            number = f" of {limit:,}" if told else ""
            said = f"{what} over this adapter's binding limit{number}."
            raise Unsupported.of("device.limit", said)
        for first in range(0, count, most):
            yield first, min(first + most, count)

    def _constant_rows(
        self, tensor: int, part: Geometry, *how: object, rows: tuple[Shape, int, int] | None = None
    ) -> Constant:
        """Returns a constant in device storage or, viewed in a shape, a range of its rows."""
        held = is_integer(self.graph.tensors[tensor])
        kind = "int32" if held else "float32"

        def pack(data: Array) -> Iterator[Array]:
            if rows is not None:
                shape, first, last = rows
                data = data.reshape(shape)[first:last]
            pieces = stored_pieces(data, part, kind)
            return (piece.view("uint8") for piece in pieces) if held else pieces

        return self.constant(
            tensor, *how, kind, vectors=part.vectors, pack=pack, half=not held, int32=held
        )

    def loops(self, node: Node, rounds: int) -> None:
        """Checks the rounds of a thread's loops. Raises Unsupported where a software driver would
        silently end them: Mesa counts all rounds of a function, with one more for each loop."""
        if self.target.software and rounds > MAX_LOOP_ROUNDS:
            raise Unsupported.of(
                "device.limit",
                f"{node.op} would take {rounds:,} rounds of loops in a thread; this software "
                f"driver ends them after {MAX_LOOP_ROUNDS:,}.",
                node.id,
            )

    def dispatch(
        self,
        kernel: Kernel,
        node: Node,
        reads: Mapping[str, Source | Access],
        writes: Mapping[str, Source | Access],
        workgroups: tuple[int, int, int],
        stores: Stores = EPILOGUE,
    ) -> None:
        """Records a launch of a kernel with this number of workgroups per dimension."""
        operands = [
            (kernels.Operand(name, access, _access(a).view), _access(a).source)
            for access, given in (("r", reads), ("w", writes))
            for name, a in given.items()
        ]
        epilogue: dict[str, list[kernels.FusedEpilogueOp]] = {}
        stored = {_access(a).source: name for name, a in writes.items()}
        parameters = dict(kernel.parameters)
        steps = [(of, each) for of in (node, *stores.also) for each in of.epilogue]
        for k, (of, each) in enumerate(steps if stores.fused else ()):
            table = stores.table if each.op in kernels.SUMS else None
            step = self._fuse(each, k, of, operands, table)
            epilogue.setdefault(stored[of.outputs[0]], []).append(step)
            parameters |= zip(step.fields, kernels.parameters(each), strict=True)
        if any(operand.name == "p" for operand, _ in operands):
            raise ValueError("operand name 'p' is taken by the parameters")
        if len(operands) > self.target.max_storage_buffers:
            raise Unsupported.of(
                "device.limit",
                f"{len(operands)} buffers in one kernel are more than this adapter's "
                f"{self.target.max_storage_buffers}.",
                node.id,
            )
        self.launches.append(
            Launch(
                kernel.name,
                node,
                tuple(operands),
                epilogue,
                parameters,
                dict(kernel.variant),
                workgroups,
                stores.copies,
                stores.takes,
                self.form,
            )
        )

    def each_vector(
        self,
        kernel: Kernel,
        node: Node,
        reads: Mapping[str, Source | Access],
        writes: Sequence[str] = ("out",),
        checked: bool = False,
        stores: Stores = EPILOGUE,
    ) -> None:
        """Records a launch of one thread per vec4 of the node's first output (each_vector.wgsl),
        whose layout is in the parameters vectors, spatial and slices. `writes` names the node's
        outputs in the kernel; a `checked` launch may flag the run."""
        out = self.geometry(node.outputs[0])
        extents = {"vectors": out.vectors, "spatial": out.spatial, "slices": out.slices}
        made: dict[str, Source | Access] = dict(zip(writes, node.outputs, strict=False))
        self.dispatch(
            kernel._replace(parameters={**extents, **kernel.parameters}),
            node,
            reads,
            {**made, **({"check": Access(CHECK, 0)} if checked else {})},
            (-(-out.vectors // WORKGROUP), 1, 1),
            stores,
        )

    def _fuse(
        self, each: EpilogueOp, k: int, node: Node, operands: list[tuple[kernels.Operand, Source]],
        table: Source | None,
    ) -> kernels.FusedEpilogueOp:  # fmt: skip
        fields = tuple(f"epilogue{k}_{i}" for i in range(len(each.parameters)))
        if each.tensor is None:
            return kernels.FusedEpilogueOp(each.op, fields=fields)
        name = f"fused{k}"
        source = self.stored(each.tensor) if table is None else table
        operands.append((kernels.Operand(name, eights=table is not None), source))
        how = spread(self.graph, each.tensor, node.outputs[0]) or "same"
        return kernels.FusedEpilogueOp(
            each.op, name, "rows" if each.op in kernels.ROWS else how, fields
        )


def _access(source: Source | Access) -> Access:
    return source if isinstance(source, Access) else Access(source)
