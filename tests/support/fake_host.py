"""A TFLite host written in Python, for situations that no real one produces: a context with four
tensors, whose delegate claims kernels that double a tensor."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.native.test_refused_calls import Spec, host
from tests.support import native_plans
from tflgpu_plugin import native
from tflgpu_plugin.ir import Array
from tflgpu_plugin.native import library_path

OK, NO_HANDLE, DYNAMIC, ARENA, CUSTOM = 0, -1, 4, 2, 6
NODES = (7, 5)
X, Y, Z, V = range(4)  # tensors: y is made of x, and z of y; v is only looked at


def ints(values: tuple[int, ...]) -> Any:
    made = native.ffi.new("tgl_ints *", {"size": len(values), "data": list(values)})
    return made


@dataclass
class Host:
    """A context with four tensors, whose delegate claims one kernel for each of `makes`."""

    spec: Spec
    makes: tuple[tuple[int, int], ...] = ((X, Y),)
    stays: bool = False
    shape_only: tuple[int, ...] = ()
    values: tuple[int, ...] = ()
    states: tuple[int, ...] = ()
    keeps_states: bool = False
    explicit: bool = True
    refusal: bytes = b""
    status: int = OK
    inits: bool = True
    twice: bool = False  # it asks for each kernel a second time
    said: list[str] = field(default_factory=list)
    resized: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)
    built: list[int] = field(default_factory=list)
    kept: list[Any] = field(default_factory=list)
    kernels: list[Any] = field(default_factory=list)
    nodes: list[Any] = field(default_factory=list)
    again: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        ffi = native.ffi
        self.data = [np.zeros(16, np.float32) for _ in range(4)]
        self.tensors, self.context = ffi.new("tgl_tensor[4]"), ffi.new("tgl_context *")
        for k, name in enumerate((b"x", b"y", b"z", b"v")):
            tensor = self.tensors[k]
            tensor.name = self.keep(ffi.new("char[]", name))
            tensor.handle, tensor.allocation = NO_HANDLE, ARENA
            self.shape(k, (16,))
        self.context.tensors, self.context.tensor_count = self.tensors, 4
        self._functions()
        self.delegate = self._delegate()

    def keep(self, thing: Any) -> Any:
        self.kept.append(thing)
        return thing

    def shape(self, k: int, extents: tuple[int, ...]) -> None:
        """Gives a tensor these extents, and memory for them."""
        self.data[k] = np.zeros(extents, np.float32)
        tensor = self.tensors[k]
        tensor.dims, tensor.bytes = self.keep(ints(extents)), self.data[k].nbytes
        tensor.data = host(self.data[k])

    def _functions(self) -> None:
        ffi, context = native.ffi, self.context

        @ffi.callback("int32_t(tgl_context *, tgl_tensor *, int32_t, int32_t const *)")
        def explicit(_: Any, tensor: Any, rank: int, shape: Any) -> int:
            return self._resize(tensor, tuple(shape[0:rank]))

        @ffi.callback("int32_t(tgl_context *, tgl_tensor *, tgl_ints *)")
        def resize(_: Any, tensor: Any, dims: Any) -> int:
            status = self._resize(tensor, tuple(dims.data[0 : dims.size]))
            ctypes.CDLL(None).free(ctypes.c_void_p(int(ffi.cast("uintptr_t", dims))))
            return status

        @ffi.callback("void(tgl_context *, char *, char *, char *)")
        def report(_: Any, form: Any, prefix: Any, text: Any) -> None:
            assert ffi.string(form) == b"%s%s\n"
            self.said.append((ffi.string(prefix) + ffi.string(text)).decode())

        @ffi.callback("int32_t(tgl_context *, tgl_padded_registration, tgl_ints *, tgl_delegate *)")
        def replace_nodes(_: Any, given: Any, nodes: Any, delegate: Any) -> int:
            self.claimed = list(nodes.data[0 : nodes.size])
            self.registration = self.keep(ffi.new("tgl_registration *", given.known))
            for k in range(len(self.makes)) if self.inits else ():
                mine = self.keep(ints(NODES[::-1] if k == 0 else (9,)))
                part = self.keep(ffi.new("tgl_partition *", {"delegate": delegate, "nodes": mine}))
                node = self.keep(ffi.new("tgl_node *"))
                node.user_data = given.known.init(context, ffi.cast("char *", part), 0)
                if self.twice:
                    self.again.append(given.known.init(context, ffi.cast("char *", part), 0))
                self.nodes.append(node)
                self.tensors[self.makes[k][1]].delegate = delegate
            return self.status

        context.resize_tensor = self.keep(resize)
        if self.explicit:
            context.resize_tensor_explicit = self.keep(explicit)
        context.report_error = ffi.cast(ffi.typeof(context.report_error), self.keep(report))
        context.replace_nodes = self.keep(replace_nodes)

    def _resize(self, tensor: Any, shape: tuple[int, ...]) -> int:
        k = next(k for k in range(4) if native.ffi.addressof(self.tensors, k) == tensor)
        self.resized.append((k, shape))
        self.shape(k, shape)
        return self.status

    def _delegate(self) -> Any:
        ffi = native.ffi

        @ffi.callback("int64_t(char const *const *, char const *const *, size_t, tg_error *)")
        def create(*_: Any) -> int:
            return int(native.lib.tg_next_number())

        @ffi.callback("int(int64_t, void *, void *, tg_error *)")
        def prepare(_: int, delegate: Any, context: Any, err: Any) -> int:
            try:
                self._claim(delegate, context)
            except native.NativeError as error:
                err.text = str(error).encode()
                return 0
            return 1

        @ffi.callback("int(int64_t, tg_kernel *, int32_t *, size_t, tg_error *)")
        def build(number: int, kernel: Any, shapes: Any, count: int, err: Any) -> int:
            self.built.append(number)
            if self.refusal:
                err.text = self.refusal
                return 0
            self.build(number, kernel)
            return 1

        callbacks = self.keep(ffi.new("tg_tflite_callbacks *"))
        callbacks.create, callbacks.prepare, callbacks.build = map(
            self.keep, (create, prepare, build)
        )
        native.lib.tg_tflite_set_callbacks(callbacks)
        library = ctypes.CDLL(str(library_path()))
        library.tflite_plugin_create_delegate.restype = ctypes.c_void_p
        made = library.tflite_plugin_create_delegate(None, None, ctypes.c_size_t(0), None)
        assert made
        self.destroy = lambda: library.tflite_plugin_destroy_delegate(ctypes.c_void_p(made))
        return ffi.cast("tgl_delegate *", made)

    def _claim(self, delegate: Any, context: Any) -> None:
        ffi = native.ffi
        for number, (source, target) in enumerate(self.makes):
            lists = {
                "node": list(NODES) if number == 0 else [9], "input": [source], "output": [target],
                "shape_only": [*self.shape_only, *self.values], "state": list(self.states),
                "value": list(self.values),
            }  # fmt: skip
            given = ffi.new("tg_kernel_spec *", {"number": number})
            given.keeps_states = self.keeps_states
            for name, values in lists.items():
                setattr(given, f"{name}_list", self.keep(ffi.new("int32_t[]", values)))
                setattr(given, f"{name}_count", len(values))
            given.stays = self.keep(ffi.new("uint8_t[]", [self.stays and number == 0]))
            made = native.call(native.lib.tg_kernel_create, delegate, given)
            self.kernels.append(ffi.gc(made, native.lib.tg_kernel_release))
        every = ffi.new("tg_kernel *[]", self.kernels)
        native.call(native.lib.tg_tflite_claim, context, delegate, every, len(self.kernels))

    def build(self, number: int, kernel: Any) -> None:
        """Hands a kernel its plan for the present shapes."""
        source = self.data[self.makes[number][0]]
        shape = [source.ndim, *source.shape]
        looked = [self.data[k] for k in self.shape_only]
        more = [n for each in looked for n in (each.ndim, *each.shape)]
        native_plans.add(kernel, [*shape, *more], shape, self.spec.make())

    # ---- what a host does ----

    def apply(self) -> int:
        return int(self.delegate.prepare(self.context, self.delegate))

    def prepare(self) -> list[int]:
        return [int(self.registration.prepare(self.context, node)) for node in self.nodes]

    def invoke(self, k: int = 0) -> str:
        """Returns the error of a run; empty where it succeeds."""
        before = len(self.said)
        failed = self.registration.invoke(self.context, self.nodes[k])
        assert bool(failed) == (len(self.said) > before)
        return self.said[-1] if failed else ""

    def fetch(self, k: int, handle: int | None = None) -> str:
        """Copies a tensor's bytes from the device; returns the host's status."""
        tensor = native.ffi.addressof(self.tensors, k)
        handle = tensor.handle if handle is None else handle
        before = len(self.said)
        failed = self.delegate.copy_from_handle(self.context, self.delegate, handle, tensor)
        assert bool(failed) == (len(self.said) > before)
        return self.said[-1] if failed else ""

    def show(self, k: int) -> Array:
        """Returns the host's memory of a variable as a program sees it."""
        memory = self.tensors[k].data
        native.call(native.lib.tg_tflite_show_state, memory, self.tensors[k].bytes)
        return self.data[k]

    def free(self, k: int = 0) -> None:
        self.registration.free(self.context, self.nodes[k].user_data)

    def state(self, k: int = 0) -> Any:
        found = native.ffi.new("tg_partition_state *")
        kernel = native.ffi.cast("tg_partition *", self.kernels[k])
        native.lib.tg_partition_get_state(kernel, found)
        return found
