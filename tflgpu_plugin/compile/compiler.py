"""Compiles a partition's graph to a Plan: passes, lowering, memory, pipelines. Needs no device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NoReturn

import numpy as np

from tflgpu_plugin import kernels
from tflgpu_plugin.compile import byte_storage, copies, half_products, memory, precision
from tflgpu_plugin.compile.launches import lower
from tflgpu_plugin.errors import Unsupported, blaming
from tflgpu_plugin.ir.extent import Extent, Trace
from tflgpu_plugin.ir.graph import Graph, Node, geometry, paired
from tflgpu_plugin.ir.plan import Buffer, Dispatch, Pipeline, Plan, Port, Weight
from tflgpu_plugin.ir.quantization import is_integer
from tflgpu_plugin.ir.symbolic import Word, example, symbolic
from tflgpu_plugin.ir.target import Target
from tflgpu_plugin.ops.levels import Level
from tflgpu_plugin.ops.lowering import CHECK, Constant, Launch, Lowering, Raw, Source
from tflgpu_plugin.passes import pipeline

VECTOR = 16  # bytes of a vec4
OWN_BUFFER = 1 << 16  # bytes from which a constant gets a separate buffer
ZEROS = 16  # vec4 of padding before the tensors of a pool, at least a cache line
ALL_LANES = 0xFFFF_FFFF
UNIFORMS = 0  # the number of the buffer of uniforms


def compile(graph: Graph, target: Target) -> Plan:
    """Plans a partition. Raises Unsupported with the node that cannot run on this target."""
    return assembly(graph, target).plan()


def assembly(graph: Graph, target: Target, trace: Trace | None = None) -> Assembly:
    """Returns a partition after passes and lowering, with shapes in `trace`. Raises Unsupported
    like `compile`."""
    rewritten = pipeline.run(graph, target)
    return Assembly(graph, rewritten, lower(rewritten, target, trace), trace=trace)


@dataclass
class Assembly:
    """Turns recorded launches into a Plan. `original` is the graph before passes, with the plan's
    ports."""

    original: Graph
    graph: Graph
    low: Lowering
    buffers: list[Buffer] = field(default_factory=list)
    raw: dict[Raw, int] = field(default_factory=dict)
    weights: dict[tuple[object, ...], Weight] = field(default_factory=dict)
    pipelines: dict[Pipeline, int] = field(default_factory=dict)
    views: copies.Views = field(default_factory=copies.Views)
    halves: set[object] = field(default_factory=set)  # keys of sources stored as float16
    products: dict[int, int] = field(default_factory=dict)  # see `half_products.chosen`
    powers: dict[object, int] = field(default_factory=dict)  # see `half_products.chosen`
    levels: dict[object, Level] = field(default_factory=dict)  # see `byte_storage.levels`
    lows: dict[object, float] = field(default_factory=dict)  # see `precision.byte_constants`
    trace: Trace | None = None
    words: list[tuple[int, Any]] = field(default_factory=list)  # see `Template`
    symbolic_constants: dict[object, int] = field(default_factory=dict)  # vec4 in UNIFORMS

    def plan(self) -> Plan:
        target = self.low.target
        sizes = {t: geometry(tensor.shape).vectors for t, tensor in self.graph.tensors.items()}
        sizes |= self.low.sizes
        homes = self.low.homes
        limit = target.storage_bytes // VECTOR
        launches, root = self.low.launches, self.low.root
        self.low.launches, self.views = copies.elide(launches, root, sizes, homes, limit)
        sizes |= self.views.grown
        self.levels = byte_storage.levels(self.low, self._memory)
        if target.half and target.halves != "never":
            self._choose_halves(sizes)
        self.lows = precision.byte_constants(self.low)
        for names, share in ((self.halves, 2), (self.levels, 4)):
            for tensor in names:
                if isinstance(tensor, int):
                    sizes[tensor] = -(-sizes[tensor] // share)
        reads = [self._tensors(launch.reads) for launch in self.low.launches]
        writes = [self._tensors(launch.writes) for launch in self.low.launches]
        self._check_written(reads, writes)
        lives = memory.lives(reads, writes, sizes)
        self.alive = {tensor: life for tensor, life in lives.items() if tensor not in homes}
        for tensor, life in lives.items():
            if life.size * VECTOR > target.storage_bytes:
                self._refuse_size(life.size * VECTOR, self._writer(tensor))
        alive = {t: replace(life, size=example(life.size)) for t, life in self.alive.items()}
        self._allocate(*memory.assign(alive, memory.conflicts(reads, writes), limit), limit)
        self._place_raw()
        self._place_weights()
        blocks, dispatches = bytearray(), []
        for place, launch in enumerate(self.low.launches):
            with blaming(launch.node):
                dispatches.append(self._dispatch(place, launch, len(blocks)))
            blocks += self.block
        return Plan(
            tuple(self.pipelines),
            tuple(self.buffers),
            tuple(self.weights.values()),
            bytes(blocks).ljust(self.buffers[UNIFORMS].bytes, b"\0"),
            tuple(dispatches),
            tuple(self._port("input", t) for t in self.original.inputs),
            tuple(self._port("output", t) for t in self.original.outputs),
            tuple(self._port("state", before) for before, _ in self.original.states),
            sum(life.size for life in alive.values()) * VECTOR,
            memory.lower_bound(alive) * VECTOR,
        )

    def _allocate(
        self, found: Mapping[int, memory.Allocation], sizes: Sequence[int], limit: int
    ) -> None:
        """Adds the buffers of uniforms and pools; offsets in them are symbolic if shapes are."""
        self._buffer("uniforms", max(1, len(self.low.launches)) * kernels.UNIFORM_BYTES)
        self.pools = [self._pool(size, limit) for size in sizes]
        self.chosen = {tensor: one.pool for tensor, one in found.items()}
        self.allocations = dict(found)
        if trace := self.trace:
            for t, one in found.items():
                offset = trace.symbol(("offset", t), one.offset, 0)
                self.allocations[t] = memory.Allocation(one.pool, offset)

    def _refuse_size(self, size: int, node: Node) -> NoReturn:
        """Raises Unsupported for a tensor of this many bytes, which the node makes or reads."""
        raise Unsupported.of(
            "device.limit",
            f"A tensor of {size:,} bytes is over this adapter's binding limit of "
            f"{self.low.target.storage_bytes:,}.",
            node.id,
            *node.sources,
        )

    def _choose_halves(self, sizes: dict[int, int]) -> None:
        """Chooses what is stored as float16 and what is summed in it (with small weights, too)."""
        able = half_products.candidates(self.low, self._memory)
        small = {w.key for _, w in able.values() if w.vectors < precision.CACHED_VECTORS}
        stored = precision.halves(self.low, self._memory, sizes.__getitem__, small)
        self.products = half_products.chosen(self.low, able, stored)
        scaled: dict[object, int] = {
            able[place][1].key: power for place, power in self.products.items()
        }
        wide = half_products.widened(self.low, self.products) | (small - scaled.keys())
        self.halves, self.powers = stored - wide, scaled

    def _memory(self, source: Source) -> Source:
        """Returns the source that holds this one: the enclosing tensor of one inside another."""
        root = self.low.root(source)
        return self.views.find(root)[0] if isinstance(root, int) else root

    def _half(self, source: Source) -> bool:
        return bool(self.halves) and precision.key(self._memory(source)) in self.halves

    def _is_int32(self, source: Source) -> bool:
        """Whether the values of a source are stored as int32."""
        if isinstance(source, int):
            tensor = self.low.copied.get(source, source)
            own = tensor >= 0 and is_integer(self.graph.tensors[tensor])
            return own or tensor in self.low.integers
        return isinstance(source, Constant) and source.int32

    def _low(self, source: Source) -> float | None:
        """Returns the integer that a byte of 0 stands for; None unless stored in bytes."""
        root = self.low.root(source) if self.lows else source
        return self.lows.get(root.key) if isinstance(root, Constant) else None

    def _level(self, source: Source) -> Level | None:
        """Returns what a byte of a source stands for; None unless it is a tensor in bytes."""
        return self.levels.get(precision.key(self._memory(source))) if self.levels else None

    def _tensors(self, sources: Sequence[Source]) -> list[int]:
        roots = [root for source in sources if isinstance(root := self.low.root(source), int)]
        return [self.views.find(root)[0] for root in roots]

    def _check_written(self, reads: list[list[int]], writes: list[list[int]]) -> None:
        """Raises ValueError for a launch that reads a tensor before it is written."""
        written: set[int] = set()
        for launch, read, write in zip(self.low.launches, reads, writes, strict=True):
            if not written.issuperset(read):
                raise ValueError(
                    f"{launch.kernel} of node {launch.node.id} reads a tensor before it is written"
                )
            written.update(write)

    def _writer(self, tensor: int) -> Node:
        """Returns the first node that writes a tensor, or else the first that reads it."""
        for attribute in ("writes", "reads"):
            for launch in self.low.launches:
                if launch.node.id >= 0 and tensor in self._tensors(getattr(launch, attribute)):
                    return launch.node
        return self.graph.nodes[0]

    def _pool(self, size: int, limit: int) -> int:
        """Adds a pool of this many vec4, preceded by zeros (padding for GPUs) if these fit."""
        zeros = 0 if self.low.target.software or size + ZEROS > limit else ZEROS
        return self._buffer("pool", (size + zeros) * VECTOR, zeros * VECTOR)

    def _buffer(self, role: str, size: int, zeros: int = 0) -> int:
        self.buffers.append(Buffer(role, -(-size // VECTOR) * VECTOR, zeros))
        return len(self.buffers) - 1

    def _place_raw(self) -> None:
        """Adds a buffer for every port, also for inputs that no kernel reads."""
        shared = self.low.shared
        ports = [Raw("input", tensor) for tensor in self.original.inputs if tensor not in shared]
        ports += [Raw("output", tensor) for tensor in self.original.outputs]
        ports += [Raw("state", before) for before, _ in self.original.states]
        for raw in ports:
            if raw not in self.raw:
                size = paired(self.original.tensors[raw.tensor]).bytes
                if size > self.low.target.storage_bytes and (node := self._at_port(raw)):
                    self._refuse_size(size, node)
                self.raw[raw] = self._buffer(raw.role, size)
        for given, made in shared.items():
            one = self.raw[Raw("output", made)]
            self.buffers[one] = replace(self.buffers[one], role="shared")
            self.raw[Raw("input", given)] = one
        if any(CHECK in launch.writes for launch in self.low.launches):
            self.raw[CHECK] = self._buffer(CHECK.role, VECTOR)

    def _at_port(self, raw: Raw) -> Node | None:
        """Returns the node that makes an output, or the first that reads an input or state."""
        if raw.role == "output":
            return self.graph.producers().get(raw.tensor)
        return next((node for node in self.graph.nodes if raw.tensor in node.reads), None)

    def _place_weights(self) -> None:
        """Places constants. Each large one gets a separate buffer, which other plans can share. The
        others follow one another in common buffers, none of which exceeds the binding limit."""
        limit, end, number = self.low.target.storage_bytes, 0, -1
        for launch in self.low.launches:
            for _, raw in launch.operands:
                source = self.low.root(raw)
                if not isinstance(source, Constant) or source.key in self.weights:
                    continue
                if source.data is not None and symbolic(source.data):
                    self._place_symbolic(source)
                    continue
                half, low = self._half(source), self._low(source)
                size = source.vectors * (VECTOR // 2 if half else VECTOR)
                pack, name = source.pack, source.key
                if power := self.powers.get(name):
                    pack, name = partial(half_products.shifted, pack, power), (*name, power)
                if low is not None:
                    size, pack = source.vectors * 4, partial(precision.bytes_from, source.pack, low)
                end = -(-end // self._aligned) * self._aligned
                if size >= OWN_BUFFER:
                    where = self._buffer("weights", size), 0
                else:
                    if number < 0 or end + size > limit:
                        number, end = self._buffer("weights", 0), 0
                    where = number, end
                    end += -(-size // VECTOR) * VECTOR
                    self.buffers[number] = Buffer("weights", end)
                self.weights[source.key] = Weight(
                    _plain(name), *where, size, pack, source.data, half=half
                )

    def _place_symbolic(self, source: Constant) -> None:
        """Places a constant of symbolic integers behind the uniforms, which are written again when
        the numbers change. Its `pack` gives the index of each, from 1."""
        if source.key in self.symbolic_constants:
            return
        assert source.data is not None
        numbers, size = source.data.reshape(-1), source.vectors * VECTOR
        start, kind = self.buffers[UNIFORMS].bytes, "i32" if source.int32 else "f32"
        packed = Weight((), UNIFORMS, 0, size, source.pack).image()
        places = packed.view(np.int32 if source.int32 else np.float32).astype(np.int64)
        found = ((4 * k, numbers[n - 1]) for k, n in enumerate(places) if n)
        self.words += [(start + at, Word(number, kind)) for at, number in found]
        self.symbolic_constants[source.key] = start // VECTOR
        self.buffers[UNIFORMS] = replace(self.buffers[UNIFORMS], bytes=start + size)

    @property
    def _aligned(self) -> int:
        """The alignment of constants in bytes: on GPUs, and for tables of layers of bytes, eight
        vec4."""
        small = self.low.target.software and not self.low.in_bytes
        return VECTOR if small else VECTOR * kernels.EIGHT

    def _eights(self, source: Source) -> bool:
        """Whether kernels can read a source in arrays of eight vec4: a constant in a WGSL type."""
        words = self._half(source) and self.low.target.halves != "native"
        constant = isinstance(self.low.root(source), Constant) and self._low(source) is None
        return constant and not words and not self.low.target.software

    def _locate(self, raw: Source) -> tuple[int, int]:
        """Returns (buffer, offset in vec4 of its storage) of a source."""
        source = self.low.root(raw)
        if isinstance(source, Raw):
            return self.raw[source], 0
        each = 2 if self._half(source) else 1  # stored vec4 per 16 bytes
        if isinstance(source, Constant) and source.key in self.symbolic_constants:
            return UNIFORMS, self.symbolic_constants[source.key]
        if isinstance(source, Constant):
            weight = self.weights[source.key]
            each = each if self._low(source) is None else 4
            return weight.buffer, weight.offset // VECTOR * each
        outer, inside = self.views.find(source)
        if outer in self.low.homes:
            return self.raw[self.low.homes[outer]], inside
        found = self.allocations[outer]
        zeros = self.buffers[self.pools[found.pool]].zeros // VECTOR
        each = each if self._level(source) is None else 4
        return self.pools[found.pool], (zeros + found.offset) * each + inside

    def _dispatch(self, place: int, launch: Launch, offset: int) -> Dispatch:
        located = [self._locate(source) for _, source in launch.operands]
        folded, groups = folded_groups(launch.workgroups, self.low.target.max_groups)
        if launch.when is not None:
            if not all(count > 0 for count in groups):
                raise ValueError("a launch without workgroups")  # the comparisons leave guards
            groups = (groups[0] * launch.when, *groups[1:])
        parameters: dict[str, Any] = {}
        for (operand, source), (_, start) in zip(launch.operands, located, strict=True):
            parameters[f"off_{operand.name}"] = start * (4 // operand.view if operand.view else 4)
            if operand.access != "r" and operand.view == 4:
                parameters[f"channels_{operand.name}"] = self._channels(source)
            if (low := self._low(source)) is not None:
                parameters[f"low_{operand.name}"] = low
            if (level := self._level(source)) is not None:
                made = {f"pad_{operand.name}": level.padding}
                raw = byte_storage.is_raw(self.low, operand, source)
                parameters |= made if raw else level.parameters(operand.name)
        if folded:
            gx, gy, gz = launch.workgroups
            parameters |= {"folded": folded, "groups_x": gx, "groups_y": gy}
            parameters["groups_total"] = gx * gy * gz
        if place in self.products:
            launch = half_products.in_float16(launch, self.products[place])
        variant = dict(launch.variant)
        if variant.get("eights"):
            weights = next(source for operand, source in launch.operands if operand.name == "w")
            variant["eights"] = self._eights(weights)
        # A fixed order, so that launches that differ in nothing else share a pipeline.
        parameters = dict(sorted((parameters | dict(launch.parameters)).items()))
        self.block = kernels.parameter_words(parameters)
        for k, value in enumerate(parameters.values()):
            if isinstance(value, Extent | Word):
                self.words.append((offset + 4 * k, value))
        operands = [
            replace(
                operand,
                half=self._half(source),
                native=self._half(source) and self.low.target.halves == "native",
                bytes=self._low(source) is not None,
                levels=self._level(source) is not None,
                int32=self._is_int32(source),
                zeros=self.buffers[buffer].zeros > 0
                and (self._is_zero(source) or byte_storage.is_raw(self.low, operand, source)),
                pads=not self._is_zero(source) and byte_storage.is_raw(self.low, operand, source),
                pairs=self.low.target.software and self.low.target.pairs,
            )
            for (operand, source), (buffer, _) in zip(launch.operands, located, strict=True)
        ]
        wgsl = kernels.render(launch.kernel, operands, parameters, launch.epilogue, variant)
        if not self.low.target.unpacks:
            wgsl = kernels.without_unpack(wgsl)
        kinds = "u" + "".join("r" if operand.access == "r" else "w" for operand in operands)
        pipeline = Pipeline(launch.kernel, wgsl, kinds)
        index = self.pipelines.setdefault(pipeline, len(self.pipelines))
        buffers = (UNIFORMS, *(buffer for buffer, _ in located))
        nodes = launch.node.sources or ((launch.node.id,) if launch.node.id >= 0 else ())
        optional = launch.when is not None
        return Dispatch(launch.kernel, index, buffers, offset, groups, nodes, launch.form, optional)

    def _is_zero(self, source: Source) -> bool:
        """Whether bytes of 0 before a tensor stand for 0."""
        return (level := self._level(source)) is None or level.zero == 0

    def _channels(self, source: Source) -> int:
        if isinstance(source, int) and source >= 0:
            return geometry(self.graph.shape(source)).channels
        return ALL_LANES

    def _port(self, role: str, tensor: int) -> Port:
        value, buffer = paired(self.original.tensors[tensor]), self.raw[Raw(role, tensor)]
        port = Port(tensor, value.name, value.shape, value.port_dtype, buffer, value.bytes)
        if role != "output" or (told := self.original.tensors[tensor].counted) is None:
            return port
        return replace(port, counted=(told[0], self.original.outputs.index(told[1])))


def _plain(key: tuple[object, ...]) -> tuple[object, ...]:
    """Converts a key to numbers and strings, which a plan can store."""
    return tuple(part if isinstance(part, (int, str)) else repr(part) for part in key)


def folded_groups(workgroups: tuple[int, int, int], limit: int) -> tuple[int, tuple[int, int, int]]:
    """Returns (groups in x if folded, else 0; groups to dispatch, within the limit per axis)."""
    if all(count <= limit for count in workgroups):
        return 0, workgroups
    total = workgroups[0] * workgroups[1] * workgroups[2]
    rows = -(-total // limit)
    width = -(-total // rows)
    return width, (width, rows, 1)
