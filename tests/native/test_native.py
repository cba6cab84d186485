"""Tests the shared library without an adapter: exports, name, layouts, refusals."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tflgpu_plugin import native, providers

EXPORTS = [Path(native.__file__).parent / "core" / name for name in ("tflgpu.h", "recorder.h")]
PLUGIN = {
    "tflite_plugin_create_delegate", "tflite_plugin_destroy_delegate",
    "CreateEpFactories", "ReleaseEpFactory", "LiteRtAcceleratorImpl",
}  # fmt: skip

# Layouts of LP64 hosts: tflite-runtime 2.14 and LiteRT 2.3.
SIZES = {
    "tgl_tensor": 112,
    "tgl_node": 80,
    "tgl_registration": 88,
    "tgl_delegate": 56,
    "tgl_partition": 32,
    "tgl_context": 200,
    "tgl_affine": 24,
    "tgl_conv_params": 24,
    "tgl_depthwise_params": 28,
    "tgl_transpose_conv_params": 16,
    "tgl_pool_params": 40,
    "tgl_fully_connected_params": 12,
    "tgl_concatenation_params": 8,
    "tgl_reshape_params": 36,
    "tgl_resize_params": 2,
    "tgl_strided_slice_params": 24,
    "tgl_lstm_params": 20,
    "tgl_reduce_params": 1,
}
OFFSETS = {
    ("tgl_tensor", "dims"): 16,
    ("tgl_tensor", "allocation"): 32,
    ("tgl_tensor", "handle"): 72,
    ("tgl_tensor", "is_variable"): 77,
    ("tgl_tensor", "quantization_params"): 88,
    ("tgl_context", "tensors"): 16,
    ("tgl_context", "replace_nodes"): 64,
    ("tgl_context", "preview_partitions"): 152,
    ("tgl_context", "acquire_subgraph"): 184,
    ("tgl_node", "params"): 40,
    ("tgl_fully_connected_params", "keep_num_dims"): 8,
    ("tgl_strided_slice_params", "offset"): 20,
}


class Elf:
    """A minimal ELF64 reader for names, so that the test needs no binutils."""

    def __init__(self, path: Path) -> None:
        self.bytes = path.read_bytes()
        start, size, count = (
            *struct.unpack_from("<Q", self.bytes, 40),
            *struct.unpack_from("<HH", self.bytes, 58),
        )
        self.sections = [
            struct.unpack_from("<IIQQQQIIQQ", self.bytes, start + i * size) for i in range(count)
        ]

    def entries(self, kind: int, layout: str) -> tuple[list[Any], bytes]:
        """Returns the records of the section of this type, and the string table that the section
        names."""
        section = next(s for s in self.sections if s[1] == kind)
        strings = self.sections[section[6]]
        data = self.bytes[section[4] : section[4] + section[5]]
        return list(struct.iter_unpack(layout, data)), self.bytes[strings[4] :]

    @staticmethod
    def text(strings: bytes, offset: int) -> str:
        return strings[offset : strings.index(b"\0", offset)].decode()

    def symbols(self, *, defined: bool) -> set[str]:
        records, strings = self.entries(11, "<IBBHQQ")
        return {self.text(strings, r[0]) for r in records[1:] if (r[3] != 0) == defined}

    def dynamic(self, tag: int) -> list[str]:
        records, strings = self.entries(6, "<qQ")
        return [self.text(strings, value) for found, value in records if found == tag]


@pytest.fixture(scope="module")
def elf() -> Elf:
    if sys.platform != "linux":
        pytest.skip("reads an ELF file")
    return Elf(native.library_path())


def declared() -> set[str]:
    text = "".join(file.read_text() for file in EXPORTS)
    return set(re.findall(r"\b(tg_\w+)\(", text)) - {"tg_abi_version()"}


def test_soname_is_the_name_that_load_delegate_takes(elf: Elf) -> None:
    assert elf.dynamic(14) == ["tflgpu"]


def test_exports_are_the_header_and_the_plugin_entry_points(elf: Elf) -> None:
    assert elf.symbols(defined=True) == declared() | PLUGIN


def test_links_only_the_c_library(elf: Elf) -> None:
    libraries = {name.split(".so")[0] for name in elf.dynamic(1)}
    assert libraries <= {"libc", "libpthread", "libdl", "ld-linux-x86-64"}


def test_asks_for_no_newer_c_library_than_wgpu(elf: Elf) -> None:
    """A wheel of this build fits every Linux that wgpu's wheel (manylinux_2_28) fits."""
    versions = re.findall(rb"GLIBC_2\.(\d+)", elf.bytes)
    assert versions and max(map(int, versions)) <= 28


def test_imports_nothing_of_python_tflite_or_wgpu(elf: Elf) -> None:
    foreign = ("Py", "_Py", "TfLite", "LiteRt", "wgpu", "vk")
    assert not [name for name in elf.symbols(defined=False) if name.startswith(foreign)]


@pytest.mark.parametrize("name", SIZES)
def test_size(name: str) -> None:
    assert native.ffi.sizeof(name) == SIZES[name]


@pytest.mark.parametrize("name, member", OFFSETS)
def test_offset(name: str, member: str) -> None:
    assert native.ffi.offsetof(name, member) == OFFSETS[name, member]


def test_version() -> None:
    assert native.load().tg_abi_version() == 7


def test_binding_names_the_library_that_is_not_there() -> None:
    code = (
        "from tflgpu_plugin import native as n\n"
        "try: n.call(n.lib.tg_bind_wgpu, b'/no/such.so')\n"
        "except n.NativeError as e: print(e)\n"
    )
    assert "/no/such.so cannot be loaded" in run(code)


def test_device_needs_binding() -> None:
    code = (
        "from tflgpu_plugin import native as n\n"
        "try: n.call(n.lib.tg_device_create, n.ffi.NULL, n.ffi.NULL, 0)\n"
        "except n.NativeError as e: print(e)\n"
    )
    assert "tg_bind_wgpu" in run(code)


def test_releases_accept_null() -> None:
    for kind in ("device", "buffer", "pipeline", "replay", "kernel"):
        getattr(native.load(), f"tg_{kind}_release")(native.ffi.NULL)


def test_unknown_delegate_pointer_is_no_delegate() -> None:
    assert native.load().tg_tflite_delegate_number(native.ffi.cast("void *", 0x1234)) == 0


def test_kernel_needs_a_delegate_of_ours() -> None:
    spec = native.ffi.new("tg_kernel_spec *")
    with pytest.raises(native.NativeError, match="not a delegate of tflgpu"):
        native.call(native.load().tg_kernel_create, native.ffi.cast("void *", 0x1234), spec)


def run(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


CREATE = """
import ctypes
from tflgpu_plugin import native as n
library = ctypes.PyDLL(str(n.library_path()))
library.tflite_plugin_create_delegate.restype = ctypes.c_void_p
texts = []
report = ctypes.CFUNCTYPE(None, ctypes.c_char_p)(lambda text: texts.append(text.decode()))
def create(**options):
    keys = (ctypes.c_char_p * len(options))(*[k.encode() for k in options])
    values = (ctypes.c_char_p * len(options))(*[v.encode() for v in options.values()])
    # Hosts pass the count as an int, so the upper half of the register may be anything.
    return library.tflite_plugin_create_delegate(
        keys, values, ctypes.c_size_t(len(options) + (7 << 32)), report)
def destroy(delegate):
    library.tflite_plugin_destroy_delegate(ctypes.c_void_p(delegate))
"""


def test_create_and_destroy() -> None:
    code = (
        CREATE
        + """
seen = []
@n.ffi.callback("int64_t(char const *const *, char const *const *, size_t, tg_error *)")
def make(keys, values, count, err):
    seen.append({n.ffi.string(keys[i]): n.ffi.string(values[i]) for i in range(count)})
    if count: return 41
    err.text = b"no options"; return 0
callbacks = n.ffi.new("tg_tflite_callbacks *"); callbacks.create = make
n.lib.tg_tflite_set_callbacks(callbacks)
delegate = create(one="1", two="2")
assert seen == [{b"one": b"1", b"two": b"2"}], seen
number = n.lib.tg_tflite_delegate_number
assert number(n.ffi.cast("void *", delegate)) == 41
destroy(delegate)
assert number(n.ffi.cast("void *", delegate)) == 0
assert create() is None and texts == ["no options"], texts
destroy(None)
n.lib.tg_tflite_set_callbacks(n.ffi.NULL)
assert create(one="1") is None and "import tflgpu_plugin" in texts[1], texts
print("fine")
"""
    )
    assert "fine" in run(code)


STAND_IN = """
import importlib.util, sys
class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "tflgpu_plugin": return importlib.util.spec_from_file_location(name, FILE)
sys.meta_path.insert(0, Finder)
"""


def test_library_loaded_by_itself_imports_the_package(tmp_path: Path) -> None:
    """`tflgpu enable` relies on this: create imports tflgpu_plugin (here a stand-in) once."""
    package = tmp_path / "tflgpu_plugin.py"
    package.write_text("print('imported')\n")
    create = CREATE.replace("from tflgpu_plugin import native as n\n", "")
    create = create.replace("n.library_path()", "LIBRARY")
    names = f"FILE = {str(package)!r}\nLIBRARY = {str(native.library_path())!r}\n"
    out = run(names + STAND_IN + create + "print(create(), create(), texts)\n")
    assert out.startswith("imported\nNone None ")
    assert "import tflgpu_plugin before load_delegate" in out


def test_clearing_the_callbacks_waits_for_the_one_in_flight() -> None:
    ffi, lib = native.ffi, native.load()
    entered, leave = threading.Event(), threading.Event()

    @ffi.callback("int64_t(char const *const *, char const *const *, size_t, tg_error *)")  # type: ignore[untyped-decorator, unused-ignore]
    def make(*_: Any) -> int:
        entered.set()
        leave.wait(10)
        return 1

    callbacks = ffi.new("tg_tflite_callbacks *")
    callbacks.create = make
    lib.tg_tflite_set_callbacks(callbacks)
    import ctypes

    library = ctypes.CDLL(str(native.library_path()))
    library.tflite_plugin_create_delegate.restype = ctypes.c_void_p
    made: list[int] = []
    maker = threading.Thread(
        target=lambda: made.append(
            library.tflite_plugin_create_delegate(None, None, ctypes.c_size_t(0), None)
        )
    )
    clearer = threading.Thread(target=lambda: lib.tg_tflite_set_callbacks(ffi.NULL))
    maker.start()
    assert entered.wait(10)
    clearer.start()
    clearer.join(0.1)
    assert clearer.is_alive()
    leave.set()
    clearer.join(10)
    maker.join(10)
    assert not clearer.is_alive() and made[0]
    library.tflite_plugin_destroy_delegate(ctypes.c_void_p(made[0]))
    providers.find("tflite").connect()  # for the tests that come after
