"""The lowering context: what an op family calls to turn a node into dispatches. Records, decides
nothing about ops.

A family's `lower(low, node)` calls `dispatch` once or more. Tensors may be aliased (a reshape that
moves nothing), temporaries are tensors of a given number of vec4. Offsets in memory are filled in
later by `memory`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

from tflgpu_plugin import kernels
from tflgpu_plugin.errors import Unsupported
from tflgpu_plugin.ir.graph import Array, EpilogueOp, Geometry, Graph, Node, Shape, geometry
from tflgpu_plugin.ir.plan import Pack
from tflgpu_plugin.ir.quantization import is_integer
from tflgpu_plugin.ir.target import Target
from tflgpu_plugin.ops.epilogue import spread
from tflgpu_plugin.ops.packing import VECTOR_BYTES, stored_pieces
from tflgpu_plugin.ops.unknown import unflagged

WORKGROUP = 64  # threads, where a kernel says nothing else
MAX_LOOP_ROUNDS = 65_535  # that every driver runs to the end


@dataclass(frozen=True)
class Constant:
    """A packed constant: `vectors` vec4 of float32, made by `pack` (flat, any shape) from `data`
    when the program is built, in one piece or in several, one after another. `half`: these are
    values of the model, float16 will do for them; bytes will where `data` are small integers
    of an integer type. `whole`: int32 in place of float32."""

    key: tuple[object, ...]
    vectors: int
    pack: Pack = field(compare=False, repr=False)
    data: Array | None = field(default=None, compare=False, repr=False)
    half: bool = False
    whole: bool = False


@dataclass(frozen=True)
class Raw:
    """A buffer in the host's layout: role input, output or state, and the tensor it
    carries. Or the one of `CHECK`."""

    role: str
    tensor: int


CHECK = Raw("check", -1)  # a word that is not 0 after a run that the host's kernels must do
Source = int | Constant | Raw


@dataclass(frozen=True)
class Hosted:
    """Where an input of the partition (float32), or a transpose of one, lies in the host's buffer:
    element [i, j, ...] at the sum of index * stride, in elements."""

    raw: Raw
    strides: tuple[int, ...]


@dataclass(frozen=True)
class Access:
    """A source, and how a kernel sees it: lanes per element (4, 2, 1; 0 = raw u32)."""

    source: Source
    view: int = 4


@dataclass(frozen=True)
class Kernel:
    """A kernel to launch: the file `kernels/<name>.wgsl`, the `parameters` of its uniform block
    (int becomes u32, numpy.int32 i32, float f32) and the `variant` that its template gets."""

    name: str
    parameters: Mapping[str, object] = field(default_factory=dict)
    variant: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Stores:
    """How a launch stores its results. If `fused`, the node's epilogue is applied where the kernel
    stores the node's first output; a launch that writes a temporary, or part of an output that a
    later launch completes, is not. `copies`: it copies its operand as it lies to that vec4 of the
    result, so that the operand may be put there from the start. `takes`: the result lies in the
    operand from that vec4 on, and may stay there. `also` lists nodes whose results it stores as
    well, with their epilogues."""

    fused: bool = True
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
    copies: int | None = None  # it copies its whole operand, in order, to this vec4 of its result
    takes: int | None = None  # its whole result is, in order, its operand from this vec4 on
    form: str = ""  # the way in which its node is computed (see `ops.forms`)

    @property
    def reads(self) -> list[Source]:
        return [source for operand, source in self.operands if operand.access != "w"]

    @property
    def writes(self) -> list[Source]:
        return [source for operand, source in self.operands if operand.access != "r"]


@dataclass
class Lowering:
    """Collects the launches of one partition. `sizes` holds vec4 counts of temporaries, `aliases`
    output -> input, or -> a host buffer that is the tensor's storage as it lies; `homes` names
    the host buffers in which tensors are made. `hosted` tells which tensors can be read from the
    host's buffer as well, `turned` which graph outputs are channels-first copies of what tensors.
    `copied` maps a temporary to the tensor whose elements it holds as they are. `form` is that of
    the node being lowered."""

    graph: Graph
    target: Target
    launches: list[Launch] = field(default_factory=list)
    sizes: dict[int, int] = field(default_factory=dict)
    aliases: dict[int, int | Raw] = field(default_factory=dict)
    homes: dict[int, Raw] = field(default_factory=dict)
    hosted: dict[int, Hosted] = field(default_factory=dict)
    turned: dict[int, int] = field(default_factory=dict)
    copied: dict[int, int] = field(default_factory=dict)
    form: str = ""

    @cached_property
    def following(self) -> dict[int, Node]:
        """The node that is lowered next, by the first output of the one before."""
        return {node.outputs[0]: after for node, after in pairwise(self.graph.nodes)}

    @cached_property
    def unflagged(self) -> frozenset[int]:
        """Tensors that may hold a number beyond int32."""
        return unflagged(self.graph)

    def geometry(self, tensor: int) -> Geometry:
        return geometry(self.graph.shape(tensor))

    def temporary(self, vectors: int, copied: int | None = None) -> int:
        """A scratch tensor of this many vec4; returns its id. `copied`: what it holds is taken
        from this tensor as it is, so that it is stored like it."""
        tensor = -2 - len(self.sizes)
        self.sizes[tensor] = vectors
        if copied is not None:
            self.copied[tensor] = copied
        return tensor

    def alias(self, output: int, source: int | Raw) -> None:
        """Makes `output` the same storage as `source` (same geometry, nothing moves)."""
        self.aliases[output] = source

    def root(self, source: Source) -> Source:
        """Through aliases to the storage that holds a tensor; constants become packed
        constants."""
        while isinstance(source, int) and source in self.aliases:
            source = self.aliases[source]
        if isinstance(source, int) and source >= 0 and self.graph.constant(source) is not None:
            return self.stored(source)
        return source

    def drop_unread(self) -> None:
        """Forget launches whose results nobody reads. Raises Unsupported, with the node, for a
        constant that cannot be packed."""
        read: set[Source] = set()
        kept = []
        for launch in reversed(self.launches):
            written = [self.root(source) for source in launch.writes]
            needed = read.union(self.homes)
            results = [root for root in written if root != CHECK]
            if all(isinstance(root, int) and root not in needed for root in results):
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
        whole: bool = False,
    ) -> Constant:
        """The constant `tensor` in another layout; `how` names the layout and its parameters
        (equal keys are shared). Large ones are best packed in pieces of about `PACKED_BYTES` bytes.
        `half`, `whole`: see `Constant`."""
        data = self.graph.constant(tensor)
        assert data is not None
        limit = self.target.storage_bytes
        if vectors * VECTOR_BYTES > limit:
            raise Unsupported.of(
                "device.limit",
                f"A constant of {vectors * VECTOR_BYTES:,} bytes is over this adapter's binding "
                f"limit of {limit:,}.",
            )
        return Constant((tensor, *how), vectors, lambda: pack(data), data, half, whole)

    def stored(self, tensor: int) -> Source:
        """A tensor as a kernel operand in device storage: itself, or its value packed when it is a
        constant."""
        if self.graph.constant(tensor) is None:
            return tensor
        return self._constant_rows(tensor, geometry(self.graph.shape(tensor)), "stored")

    def stored_parts(
        self, tensor: int, shape: Shape, step: int = 1
    ) -> Iterator[tuple[int, int, Source]]:
        """(first, last, source): the rows of a tensor, seen under a planar shape, in device
        storage. A constant is split where it is over the binding limit, at multiples of `step`."""
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
        """(first, last) of so many units, as many of this size in bytes as one binding holds, a
        multiple of `step`. Raises Unsupported where it holds none: `what` is over its limit, whose
        number is `told`."""
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
        """A constant in device storage, or, seen under a shape, its rows from one to another."""
        held = is_integer(self.graph.tensors[tensor])
        kind = "int32" if held else "float32"

        def pack(data: Array) -> Iterator[Array]:
            if rows is not None:
                shape, first, last = rows
                data = data.reshape(shape)[first:last]
            pieces = stored_pieces(data, part, kind)
            return (piece.view("uint8") for piece in pieces) if held else pieces

        return self.constant(
            tensor, *how, vectors=part.vectors, pack=pack, half=not held, whole=held
        )

    def loops(self, node: Node, rounds: int) -> None:
        """Records the rounds of a thread, all loops together. Raises Unsupported where a software
        driver would end them: Mesa's counts the rounds of a whole function, for each loop the one
        that ends it, too, and says nothing."""
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
        """Records a launch of a kernel in so many workgroups per dimension."""
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
            step = self._fuse(each, k, of, operands)
            epilogue.setdefault(stored[of.outputs[0]], []).append(step)
            values = zip(step.fields, each.parameters, strict=True)
            parameters |= {name: float(value) for name, value in values}
        for operand, _ in operands:
            if operand.name == "p":
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
        which gets the output's layout in the parameters vectors, spatial and slices. `writes`
        names the node's outputs in the kernel; a `checked` launch may flag the run."""
        out = self.geometry(node.outputs[0])
        extents = {"vectors": out.vectors, "spatial": out.spatial, "slices": out.slices}
        made: dict[str, Source | Access] = dict(zip(writes, node.outputs, strict=False))
        self.dispatch(
            replace(kernel, parameters={**extents, **kernel.parameters}),
            node,
            reads,
            {**made, **({"check": Access(CHECK, 0)} if checked else {})},
            (-(-out.vectors // WORKGROUP), 1, 1),
            stores,
        )

    def _fuse(
        self, each: EpilogueOp, k: int, node: Node, operands: list[tuple[kernels.Operand, Source]]
    ) -> kernels.FusedEpilogueOp:
        fields = tuple(f"epilogue{k}_{i}" for i in range(len(each.parameters)))
        if each.tensor is None:
            return kernels.FusedEpilogueOp(each.op, fields=fields)
        name = f"fused{k}"
        operands.append((kernels.Operand(name), self.stored(each.tensor)))
        how = spread(self.graph, each.tensor, node.outputs[0]) or "same"
        return kernels.FusedEpilogueOp(
            each.op, name, "rows" if each.op in kernels.ROWS else how, fields
        )


def _access(source: Source | Access) -> Access:
    return source if isinstance(source, Access) else Access(source)
