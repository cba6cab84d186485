"""Tests invalid calls of the native library: each is refused with its sentence, the last valid one
is accepted, and state is unchanged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from tflgpu_plugin import native
from tflgpu_plugin.ir import Array
from tflgpu_plugin.runtime import adapter
from tflgpu_plugin.runtime.device import create

pytestmark = pytest.mark.adapter

SIZE = 64  # bytes of a tensor: 16 numbers
STORAGE, UNIFORM, COPIED = 1, 2, 4 | 8  # TG_BUFFER_...
TWICE = """
struct Params { factor: f32 }
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@group(0) @binding(2) var<uniform> p: Params;
@compute @workgroup_size(16)
fn main(@builtin(global_invocation_id) id: vec3u) { y[id.x] = p.factor * x[id.x]; }
"""
SUM = TWICE.replace(
    "@binding(2) var<uniform> p: Params", "@binding(2) var<storage, read> z: array<f32>"
)
SUM = SUM.replace("p.factor *", "z[id.x] +")


def device() -> Any:
    """Returns a new device on the best adapter."""
    opened = adapter.open_device(adapter.select(None))
    return create(opened.info, sorted(opened.target.features))


DEVICES: list[Any] = []


def other() -> Any:
    """Returns a second device, for all tests of the module."""
    if not DEVICES:
        DEVICES.append(device())
    return DEVICES[0]


@pytest.fixture(scope="module", autouse=True)
def let_go() -> Iterator[None]:
    yield
    DEVICES.clear()


def buffer(of: Any, size: int = SIZE, usage: int = STORAGE | COPIED) -> Any:
    made = native.call(native.lib.tg_buffer_create, of, size, usage, native.lib.TG_POOL)
    return native.ffi.gc(made, native.lib.tg_buffer_release)


def pipeline(of: Any, wgsl: str = TWICE, kinds: str = "rwu") -> Any:
    made = native.call(native.lib.tg_pipeline_create, of, wgsl.encode(), kinds.encode())
    return native.ffi.gc(made, native.lib.tg_pipeline_release)


def write(to: Any, values: Any, offset: int = 0) -> None:
    data = np.ascontiguousarray(values)
    place = native.ffi.cast("void *", data.ctypes.data)
    native.call(native.lib.tg_buffer_write, to, offset, place, data.nbytes)


@dataclass(frozen=True)
class Spec:
    """The parts of a replay with one launch that computes y from x; each part can be replaced."""

    device: Any
    pipeline: Any
    bindings: tuple[Any, ...]
    uniforms: Any
    inputs: tuple[tuple[Any, int], ...]
    outputs: tuple[tuple[Any, int], ...]
    states: tuple[tuple[Any, int], ...] = ()
    groups: tuple[int, int, int] = (1, 1, 1)
    first: int = 0
    newer: int = 0
    kept: list[Any] = field(default_factory=list)

    def make(self) -> Any:
        ffi = native.ffi
        spec, launch = ffi.new("tg_replay_spec *"), ffi.new("tg_dispatch_spec[]", 1)
        launch[0].pipeline, launch[0].first_binding = self.pipeline, self.first
        launch[0].x, launch[0].y, launch[0].z = self.groups
        bindings = ffi.new("tg_buffer *[]", [each or ffi.NULL for each in self.bindings])
        spec.version = native.lib.tg_abi_version() + self.newer
        spec.uniforms = self.uniforms or ffi.NULL
        spec.dispatches, spec.dispatch_count = launch, 1
        spec.bindings, spec.binding_count = bindings, len(self.bindings)
        self.kept.extend((launch, bindings))
        for name in ("inputs", "outputs", "states"):
            given = ffi.new("tg_port_spec[]", [tuple(port) for port in getattr(self, name)])
            setattr(spec, name, given)
            setattr(spec, name[:-1] + "_count", len(getattr(self, name)))
            self.kept.append(given)
        made = native.call(native.lib.tg_replay_create, self.device, spec)
        return ffi.gc(made, native.lib.tg_replay_release)


def read(spec: Spec, of: Any, size: int = SIZE) -> Array:
    """Reads a buffer as the output of a plan that was not run."""
    data = np.zeros(size, np.uint8)
    replay = replace(spec, outputs=((of, size),)).make()
    native.call(native.lib.tg_replay_read_output, replay, 0, host(data), size)
    return data


@pytest.fixture
def spec() -> Spec:
    mine = adapter.open_device(adapter.select(None)).handle
    x, y, uniforms = buffer(mine), buffer(mine), buffer(mine, 256, UNIFORM | COPIED)
    write(uniforms, np.float32([2.0, *[0.0] * 63]))
    ports = ((x, SIZE),), ((y, SIZE),)
    return Spec(mine, pipeline(mine), (x, y, None), uniforms, *ports)


def most() -> int:
    """Returns the adapter's limit of workgroups in one dimension."""
    return adapter.open_device(adapter.select(None)).target.max_groups


Change = Callable[[Spec], Spec]
REFUSED: dict[str, tuple[str, Change]] = {
    **{
        f"too many groups along {'xyz'[k]}": (
            "Dispatch 0 has .* workgroups; the adapter's limit is",
            lambda s, k=k: replace(s, groups=tuple(most() + 1 if n == k else 1 for n in range(3))),
        )
        for k in range(3)
    },
    "fewer bindings": (
        "Dispatch 0 has more bindings than the plan",
        lambda s: replace(s, first=1),
    ),
    "a pipeline of another device": (
        "The pipeline of dispatch 0 belongs to another device",
        lambda s: replace(s, pipeline=pipeline(other())),
    ),
    "a binding of another device": (
        "Dispatch 0 binds a buffer of another device",
        lambda s: replace(s, bindings=(s.bindings[0], buffer(other()), None)),
    ),
    "no buffer": (
        "Dispatch 0 has no buffer at binding 1",
        lambda s: replace(s, bindings=(s.bindings[0], None, None)),
    ),
    "no uniforms": (
        "Dispatch 0 has no buffer at binding 2",
        lambda s: replace(s, uniforms=None),
    ),
    "one buffer to read and to write": (
        r"Dispatch 0 binds one buffer for reading and writing \(bindings 0 and 1\)",
        lambda s: replace(s, bindings=(s.bindings[0], s.bindings[0], None)),
    ),
    "another version": (
        r"The plan was made for version \d+ of the native library, which has version",
        lambda s: replace(s, newer=1),
    ),
    "uniforms of another device": (
        "The uniform buffer belongs to another device",
        lambda s: replace(s, uniforms=buffer(other(), 256, UNIFORM | COPIED)),
    ),
    **{
        f"{name} of another device": (
            f"The buffer of {name} 0 belongs to another device",
            lambda s, name=name: replace(s, **{f"{name}s": ((buffer(other()), SIZE),)}),
        )
        for name in ("input", "output", "state")
    },
    **{
        f"{name} in too small a buffer": (
            f"The buffer of {name} 0 is smaller than its tensor",
            lambda s, name=name: replace(s, **{f"{name}s": ((buffer(s.device), SIZE + 1),)}),
        )
        for name in ("input", "output", "state")
    },
}  # fmt: skip
TAKEN: dict[str, Change] = {
    "as it is": lambda s: s,
    "as many groups as there can be": lambda s: replace(s, groups=(most(), 1, 1)),
    "groups of none": lambda s: replace(s, groups=(1, 0, 1)),
    "bindings before": lambda s: replace(s, bindings=(None, *s.bindings), first=1),
    "one buffer read twice": lambda s: replace(
        s, pipeline=pipeline(s.device, SUM, "rwr"), bindings=(*s.bindings[:2], s.bindings[0])
    ),
    "a smaller tensor": lambda s: replace(s, inputs=((s.bindings[0], SIZE - 3),)),
    "a state": lambda s: replace(s, states=((buffer(s.device), SIZE),)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_plan_that_does_not_fit_is_refused(spec: Spec, name: str) -> None:
    sentence, change = REFUSED[name]
    with pytest.raises(native.NativeError, match=sentence):
        change(spec).make()
    run(spec.make(), np.arange(16, dtype=np.float32))


@pytest.mark.parametrize("name", TAKEN)
def test_a_plan_that_fits_is_taken(spec: Spec, name: str) -> None:
    assert TAKEN[name](spec).make()


# ---- runs ----------------------------------------------------------------------------------------


def ports(**of: Any) -> Any:
    made = native.ffi.new("tg_port[]", 1)
    for name, value in {"bytes": SIZE, **of}.items():
        setattr(made[0], name, value)
    return made


def host(data: Array) -> Any:
    return native.ffi.cast("void *", data.ctypes.data)


def run(replay: Any, x: Array, **options: Any) -> Array:
    """Checks that the output is twice the input."""
    y = np.zeros(16, np.float32)
    given = native.ffi.new("tg_run_options *", options) if options else native.ffi.NULL
    inputs, outputs = ports(host=host(x)), ports(host=host(y))
    native.call(native.lib.tg_replay_run, replay, inputs, outputs, native.ffi.NULL, given)
    np.testing.assert_array_equal(y, 2 * x)
    return y


def test_a_run_without_data_or_with_that_of_another_device_is_refused(spec: Spec) -> None:
    replay, x = spec.make(), np.ones(16, np.float32)
    foreign, y = buffer(other()), np.zeros(16, np.float32)
    for inputs, outputs, sentence in (
        (ports(), ports(host=host(y)), "Input 0 of the partition has no data"),
        (ports(device=foreign), ports(host=host(y)), "Input 0 .* is on another GPU device"),
        (ports(host=host(x)), ports(device=foreign), "Output 0 .* is on another GPU device"),
    ):
        null = native.ffi.NULL
        with pytest.raises(native.NativeError, match=sentence):
            native.call(native.lib.tg_replay_run, replay, inputs, outputs, null, null)
    run(replay, x)
    counters = native.ffi.new("tg_counters *")
    native.lib.tg_replay_counters(replay, counters)
    assert (counters.runs, counters.failures) == (1, 3)
    assert counters.uploaded_bytes == counters.downloaded_bytes == SIZE


@pytest.mark.parametrize("size", [0, SIZE - 4, SIZE + 4])
@pytest.mark.parametrize("place", ["host", "device"])
def test_a_run_with_tensors_of_another_size_is_refused(spec: Spec, place: str, size: int) -> None:
    """It is refused before anything is read or written."""
    replay, null = spec.make(), native.ffi.NULL
    x, y = np.ones(16, np.float32), np.zeros(16, np.float32)
    for inputs, outputs, sentence in (
        ({"bytes": size}, {}, f"Input 0 of the partition has {size} bytes, but its plan has 64"),
        ({}, {"bytes": size}, f"Output 0 of the partition has {size} bytes, but its plan has 64"),
    ):
        given = {"host": host(x)} if place == "host" else {"device": buffer(spec.device)}
        made = {"host": host(y)} if place == "host" else {"device": buffer(spec.device)}
        call = ports(**given, **inputs), ports(**made, **outputs)
        with pytest.raises(native.NativeError, match=sentence):
            native.call(native.lib.tg_replay_run, replay, *call, null, null)
    assert not y.any()
    run(replay, x)


def test_inputs_and_outputs_may_lie_in_buffers_of_the_device(spec: Spec) -> None:
    replay, null = spec.make(), native.ffi.NULL
    x = np.arange(32, dtype=np.float32)
    given, made = buffer(spec.device, 2 * SIZE), buffer(spec.device, 2 * SIZE)
    write(given, x)
    write(made, np.full(32, 7, np.float32))
    inputs, outputs = ports(device=given, offset=SIZE), ports(device=made, offset=SIZE // 2)
    native.call(native.lib.tg_replay_run, replay, inputs, outputs, null, null)
    found = read(spec, made, 2 * SIZE).view(np.float32)
    np.testing.assert_array_equal(found, [*[7] * 8, *(2 * x[16:]), *[7] * 8])


def test_an_output_is_read_as_it_is_or_not_at_all(spec: Spec) -> None:
    replay, x, y = spec.make(), np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
    null = native.ffi.NULL
    native.call(native.lib.tg_replay_run, replay, ports(host=host(x)), ports(), null, null)
    call = native.lib.tg_replay_read_output
    with pytest.raises(native.NativeError, match="There is no output 1"):
        native.call(call, replay, 1, host(y), SIZE)
    for size in (0, SIZE - 1, SIZE + 1):
        with pytest.raises(native.NativeError, match=f"Output 0 has 64 bytes .* {size} are asked"):
            native.call(call, replay, 0, host(y), size)
    assert not y.any()
    native.call(call, replay, 0, host(y), SIZE)
    np.testing.assert_array_equal(y, 2 * x)


# ---- buffers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("usage", [STORAGE | COPIED, STORAGE | COPIED | 64])
def test_bytes_outside_of_a_buffer_are_refused(spec: Spec, usage: int) -> None:
    """This includes buffers that are mapped for their first use, and ends within a word."""
    made, values = buffer(spec.device, SIZE - 2, usage), np.arange(16, dtype=np.uint32)
    for offset, size, sentence in (
        (2, 4, "multiples of 4"), (0, 6, "multiples of 4"),
        (0, SIZE + 4, "Bytes 0 to 68 lie outside a buffer of 64 bytes"),
        (SIZE, 4, "Bytes 64 to 68"), (SIZE + 4, 0, "Bytes 68 to 68"),
        (8, SIZE - 4, "Bytes 8 to 68"),
        ((1 << 64) - 4, 8, "lie outside"),
    ):  # fmt: skip
        with pytest.raises(native.NativeError, match=sentence):
            native.call(
                native.lib.tg_buffer_write, made, offset, host(np.zeros(32, np.uint32)), size
            )
    write(made, values)
    write(made, values[:2] + 100, SIZE - 8)
    write(made, values[:0], SIZE)
    native.call(native.lib.tg_buffer_filled, made, native.ffi.NULL)
    found = read(spec, made, SIZE - 2)
    wanted = np.uint32([*values[:14], 100, 101]).view(np.uint8)[: SIZE - 2]
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("size", [4, 62, 1 << 20, (1 << 20) + 4, (5 << 20) + 8])
def test_a_buffer_is_filled_to_its_end(spec: Spec, size: int) -> None:
    made = buffer(spec.device, size)
    native.call(native.lib.tg_buffer_fill, made, 0x7FC01234)
    assert set(read(spec, made, size)[: size // 4 * 4].view(np.uint32)) == {0x7FC01234}


@pytest.mark.parametrize("size", [(4 << 20) - 4, 4 << 20, (9 << 20) + 4])
def test_what_is_written_in_slices_is_all_there(spec: Spec, size: int) -> None:
    made = buffer(spec.device, size + 8)
    native.call(native.lib.tg_buffer_fill, made, 9)
    values = np.random.default_rng(3).integers(0, 1 << 32, size // 4, np.uint32)
    write(made, values, 4)
    found = read(spec, made, size + 8).view(np.uint32)
    assert found[0] == found[-1] == 9
    np.testing.assert_array_equal(found[1:-1], values)


# ---- pipelines -----------------------------------------------------------------------------------


def test_pipelines_of_other_bindings_are_refused(spec: Spec) -> None:
    for kinds in ("rwx", "r" * 33, "rw u"):
        with pytest.raises(native.NativeError, match="is not a list of at most 32 bindings"):
            pipeline(spec.device, TWICE, kinds)
