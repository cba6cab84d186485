"""Programs and instances. A Program is a Plan on a device, with pipelines and packed weights that
instances share. An Instance is a partition of an interpreter or session, with its buffers, ports
and state. Both only have references to native objects, which are reference-counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tflgpu_plugin import native, switches, threads
from tflgpu_plugin.ir import (
    NUMPY_DTYPES,
    PACKED,
    Array,
    Buffer,
    Plan,
    Port,
    Weight,
    contents,
    packed,
)
from tflgpu_plugin.registry import KeyLocks
from tflgpu_plugin.runtime import pipelines
from tflgpu_plugin.runtime.device import Device
from tflgpu_plugin.runtime.pipelines import Pipelines

# TG_BUFFER_* of native/tflgpu.h
STORAGE, UNIFORM, COPY_SRC, COPY_DST, HOST_READ, HOST_WRITE, FILL_FIRST = 1, 2, 4, 8, 16, 32, 64
USAGE = {
    "weights": STORAGE | COPY_DST | FILL_FIRST,
    "uniforms": UNIFORM | STORAGE | COPY_DST,
    "pool": STORAGE | COPY_DST,
    "input": STORAGE | COPY_DST | HOST_WRITE,
    "output": STORAGE | COPY_SRC | HOST_READ,
    "shared": STORAGE | COPY_SRC | COPY_DST | HOST_READ,
    "state": STORAGE | COPY_SRC | COPY_DST | HOST_READ,
    "check": STORAGE | COPY_SRC | COPY_DST,
}
KINDS = {"weights": "WEIGHTS", "uniforms": "UNIFORMS", "pool": "POOL", "check": "POOL"}  # TG_*
NAN_WORD = 0x7FC0_0000
_turns: KeyLocks[bytes] = KeyLocks()  # of threads that make equal weights
SYMBOL_TABLES = {  # of Symbols, and the types of their rows
    "places": "tg_place", "constants": "int64_t", "formulas": "tg_formula", "guards": "tg_guard",
    "words": "tg_word", "groups": "tg_group", "sizes": "tg_size", "extents": "tg_place",
}  # fmt: skip


def _owned(handle: Any, release: str) -> Any:
    return native.ffi.gc(handle, getattr(native.lib, release))


def create_buffer(device: Any, size: int, role: str) -> Any:
    kind = getattr(native.lib, f"TG_{KINDS.get(role, 'PORT')}")
    made = native.call(native.lib.tg_buffer_create, device, max(16, size), USAGE[role], kind)
    return _owned(made, "tg_buffer_release")


def write_buffer(buffer: Any, offset: int, data: bytes | Array) -> None:
    view = native.ffi.from_buffer(data)
    native.call(native.lib.tg_buffer_write, buffer, offset, view, len(view))


def create(
    plan: Plan,
    device: Device,
    warm: bool = False,
    check: Callable[[], None] | None = None,
    origin: bytes = b"",
) -> Program:
    """Returns a new program. The driver compiles while constants are packed and uploaded. `origin`:
    see Program. Raises PipelineError, native.NativeError, or the error of `check`, which tests
    whether plan and constants may be used."""
    compiling = pipelines.begin(
        plan.pipelines, device.handle, device.pipelines, warm, device.helper()
    )
    checking = threads.begin(check, "check") if check else None
    try:
        return Program(plan, device.handle, device.pipelines, compiling, checking, origin)
    finally:
        compiling.wait()  # nothing goes on after an error
        if checking:
            checking.wait()


class Program:
    """A plan's pipelines, and its weights on the device. Programs share pipelines of the same code,
    and weights of the same bytes, for as long as one of their instances exists. The values of
    the plan's constants are not kept.

    `shared_pipelines` is a cache for the programs of one device. `compiling` waits for the
    pipelines, when somebody makes them already, and `checking` until the constants may be used.
    Weights are shared only with programs of the same `origin`. Raises PipelineError or
    native.NativeError."""

    def __init__(
        self,
        plan: Plan,
        device: Any,
        shared_pipelines: Pipelines | None = None,
        compiling: Callable[[], list[Any]] | None = None,
        checking: Callable[[], None] | None = None,
        origin: bytes = b"",
    ) -> None:
        self.device, self.checking, self.origin = device, checking or (lambda: None), origin
        cache = shared_pipelines or Pipelines()
        self.weights = self._weights(plan)
        self.checking()
        made = compiling() if compiling else None
        self.pipelines = made or pipelines.make(plan.pipelines, device, cache, False)
        self.plan = plan.without_constants()

    def _weights(self, plan: Plan) -> dict[int, Any]:
        """Returns the buffers of weights by their numbers."""
        held, found = plan.weights_by_buffer(), dict[int, Any]()

        def make(index: int) -> None:
            found[index] = self._buffer(plan.buffers[index], held[index])

        worth = sum(plan.buffers[index].bytes for index in held) >= threads.WORTH
        threads.share(make, held, "pack", threads.MAX_THREADS if worth else 1)
        return found

    def _buffer(self, buffer: Buffer, weights: Sequence[Weight]) -> Any:
        """Returns the buffer with these weights that the device has already, or a new one."""
        lib = native.lib
        key = contents(weights, self.origin)
        with _turns.of(key):
            if found := lib.tg_buffer_find(self.device, key):
                return _owned(found, "tg_buffer_release")
            made = create_buffer(self.device, buffer.bytes, buffer.role)
            for weight in weights:
                end = weight.offset
                for piece in weight.pieces():
                    write_buffer(made, end, piece)
                    end += piece.nbytes
            self.checking()
            native.call(lib.tg_buffer_filled, made, key)
        return made


@dataclass
class Instance:
    """A partition that can run: its own pools, input and output buffers, and state, with a shared
    Program. `labels` name its launches in profiles, one per line."""

    program: Program
    labels: str = ""
    replay: Any = None
    buffers: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        plan, device = self.program.plan, self.program.device
        for index, buffer in enumerate(plan.buffers):
            held = self.program.weights.get(index)
            self.buffers.append(held or create_buffer(device, buffer.bytes, buffer.role))
            if buffer.role == "uniforms":
                write_buffer(self.buffers[-1], 0, plan.uniforms)
            if buffer.role == "pool" and switches.on("TFLGPU_FILL_NAN"):
                native.call(native.lib.tg_buffer_fill, self.buffers[-1], NAN_WORD)
                write_buffer(self.buffers[-1], 0, bytes(buffer.zeros))
        self.replay = self._create_replay()

    @property
    def plan(self) -> Plan:
        return self.program.plan

    def release(self) -> None:
        """Releases the native objects. Objects that native code has taken over live as long as it
        uses them. The plan is kept."""
        self.replay, self.buffers = None, []
        self.program.weights, self.program.pipelines = {}, []

    @property
    def output_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Returns the shapes for native code: without outputs that are counts, and with -1 - k for
        an extent that is the k-th count."""
        counts = self.plan.counts
        found = []
        for place, port in enumerate(self.plan.outputs):
            shape = list(port.shape)
            if port.counted is not None:
                shape[port.counted[0]] = -1 - counts.index(port.counted[1])
            if place not in counts:
                found.append(tuple(shape))
        return tuple(found)

    def _create_replay(self) -> Any:
        plan, ffi = self.plan, native.ffi
        bindings, launches = list[Any](), list[tuple[Any, ...]]()
        for made in plan.dispatches:
            pipeline = self.program.pipelines[made.pipeline]
            sizes = *made.groups, made.optional
            launches.append((pipeline, len(bindings), made.uniform_offset, *sizes))
            bindings += [self.buffers[number] for number in made.buffers]
        dispatches = ffi.new("tg_dispatch_spec[]", launches)
        labels = ffi.new("char[]", self.labels.encode())
        keep = [ffi.new("tg_buffer *[]", bindings), dispatches, labels]
        spec = ffi.new("tg_replay_spec *")
        spec.version, spec.labels = native.lib.tg_abi_version(), labels
        for buffer, held in zip(plan.buffers, self.buffers, strict=True):
            if buffer.role in ("uniforms", "check"):  # one of each at most
                setattr(spec, buffer.role, held)
        spec.dispatches, spec.dispatch_count = dispatches, len(plan.dispatches)
        spec.bindings, spec.binding_count = keep[0], len(bindings)
        for name in ("inputs", "outputs", "states"):
            ports = getattr(plan, name)
            given = [(self.buffers[port.buffer], port.bytes) for port in ports]
            array = ffi.new("tg_port_spec[]", given)
            keep.append(array)
            setattr(spec, name, array)
            setattr(spec, f"{name[:-1]}_count", len(ports))
        handle = native.call(native.lib.tg_replay_create, self.program.device, spec)
        return _owned(handle, "tg_replay_release")

    def run(
        self,
        inputs: Sequence[Array],
        states: Sequence[Array] = (),
        options: Any = None,
        given: Sequence[Array] | None = None,
    ) -> list[Array]:
        """Runs one inference with arrays in port order (host layout, exact shapes). Returns new
        arrays, or the `given` outputs.

        `states` are updated in place; they must be C-contiguous arrays of the ports' dtypes.
        `options` are native ones (tg_run_options *)."""
        plan, outputs = self.plan, list(given or self.new_outputs())
        arrays = [_as_port(array, port) for array, port in zip(inputs, plan.inputs, strict=True)]
        made = [_memory(array, port) for array, port in zip(outputs, plan.outputs, strict=True)]
        try:
            native.call(
                native.lib.tg_replay_run, self.replay, self.native_ports(arrays),
                self.native_ports(made), self.native_ports(list(states)),
                options or native.ffi.NULL,
            )  # fmt: skip
        finally:
            native.deliver_log()
        for array, held, port in zip(outputs, made, plan.outputs, strict=True):
            if held is not array:
                numbers = packed.unpack(held, PACKED[port.dtype], packed.signed(port.dtype))
                array[...] = numbers[: array.size].reshape(array.shape)
        return outputs

    def new_outputs(self) -> list[Array]:
        """Returns arrays for the outputs of a run."""
        return [np.empty(port.shape, NUMPY_DTYPES[port.dtype]) for port in self.plan.outputs]

    def native_ports(self, arrays: Sequence[Array]) -> Any:
        """Returns native ports (tg_port[]) that refer to the memory of these arrays."""
        ffi = native.ffi
        ports = ffi.new("tg_port[]", max(1, len(arrays)))
        for port, array in zip(ports, arrays, strict=False):
            port.host, port.bytes = ffi.cast("void *", array.ctypes.data), array.nbytes
        return ports

    def counters(self) -> Any:
        """Returns native counters: runs, failures, uploaded_bytes, downloaded_bytes and
        last_nanoseconds."""
        counters = native.ffi.new("tg_counters *")
        native.lib.tg_replay_counters(self.replay, counters)
        return counters


def native_symbols(plan: Plan) -> Any:
    """Returns the symbols of a plan for native code (tg_symbols *), NULL without any."""
    ffi, symbols = native.ffi, plan.symbols
    if symbols is None:
        return ffi.NULL
    made, held = ffi.new("tg_symbols *"), list[Any]()
    for name, kind in SYMBOL_TABLES.items():
        table = getattr(symbols, name)
        held.append(ffi.from_buffer(f"{kind}[]", table))
        setattr(made, name, held[-1])
        setattr(made, f"{name[:-1]}_count", len(table))
    held.append(ffi.from_buffer(plan.uniforms))
    made.uniforms, made.uniform_bytes = held[-1], len(plan.uniforms)
    made.symbol_count = symbols.count
    return ffi.gc(made, lambda _: held.clear())  # it holds the memory of the tables


def _as_port(array: Array, port: Any) -> Array:
    """Returns the array in the port's dtype. Raises ValueError where this dtype cannot represent
    its numbers, or for another shape."""
    given, kind = np.asarray(array), np.dtype(NUMPY_DTYPES[port.dtype])
    converted = _converted(given, kind)
    if converted is None:
        raise ValueError(
            f"input {port.name or port.tensor} holds {given.dtype} numbers that {kind}, which "
            "this plan takes, does not represent"
        )
    ready = np.asarray(converted, order="C")  # a scalar stays one
    if ready.shape != tuple(port.shape):
        raise ValueError(
            f"input {port.name or port.tensor} has shape {ready.shape}; "
            f"this plan takes {tuple(port.shape)}"
        )
    return packed.pack(ready.reshape(-1), PACKED[port.dtype]) if port.dtype in PACKED else ready


def _memory(array: Array, port: Port) -> Array:
    """Returns the memory for an output: the array, or that of packed numbers."""
    return np.empty(port.bytes, np.uint8) if port.dtype in PACKED else array


def _converted(given: Array, kind: Any) -> Array | None:
    """Returns the numbers in dtype `kind`, floats rounded; None where it cannot represent them.

    Finite numbers beyond the range of a float dtype do not become infinity, which would be another
    mask for a softmax. Integers of 8 and 16 bits are numbers of a quantized tensor, or bits of a
    bfloat16, so that a float is never one of them, whatever its value."""
    if given.dtype == kind:
        return given
    stored = kind.kind in "iu" and kind.itemsize < 4
    if given.dtype.kind not in ("iu" if stored else "biuf"):
        return None
    with np.errstate(all="ignore"):
        found = given.astype(kind)
    same = np.isinf(found) == np.isinf(given) if kind.kind == "f" else found == given
    return found if np.all(same) else None
