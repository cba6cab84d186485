"""Files that are no models, or would keep their reader busy, are soon refused with a message:
devices and pipes, huge files, overlapping lists, endless numbers, folders of other runs."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from tflgpu_plugin.batch import parts
from tflgpu_plugin.batch.sources import Item
from tflgpu_plugin.cli.commands import main
from tflgpu_plugin.demo import network
from tflgpu_plugin.harness import flatbuffer, hosts, inputs, protobuf
from tflgpu_plugin.harness.inputs import BadInput

CHOOSE_FIRST = ("kernels", "demo")  # look for an adapter before they read a model
SOON = 20.0  # seconds of processor time; what is guarded against takes minutes, or never ends
RESULT = ((0, "a.npy", "it is damaged"),)
COMMANDS = [
    name for name, command in main.commands.items()
    if any(parameter.name == "model" for parameter in command.params)
]  # fmt: skip


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.delenv("TFLGPU_DEBUG", raising=False)
    start = time.process_time()
    yield
    assert time.process_time() - start < SOON


def _endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _huge(path: Path) -> None:
    with path.open("wb") as stream:
        stream.truncate(inputs.MAX_MODEL_BYTES + 1)


MADE: tuple[Callable[[Path], None], ...] = (_endless, os.mkfifo, Path.mkdir, _huge)


@pytest.mark.skipif(os.name != "posix", reason="no such files on this system")
@pytest.mark.parametrize("suffix", [".tflite", ".onnx"])
@pytest.mark.parametrize("make", MADE, ids=["device", "pipe", "folder", "huge"])
@pytest.mark.parametrize(
    "command",
    [
        pytest.param(name, marks=pytest.mark.adapter) if name in CHOOSE_FIRST else name
        for name in COMMANDS
    ],
)
def test_what_is_no_model_file(
    command: str, make: Callable[[Path], None], suffix: str, tmp_path: Path
) -> None:
    path = tmp_path / f"m{suffix}"
    make(path)
    given = {
        "run": [str(path), str(tmp_path / "x.npy"), "--out", str(tmp_path / "out")],
    }
    np.save(tmp_path / "x.npy", np.zeros((1, 4), np.float32))
    result = CliRunner().invoke(main, [command, *given.get(command, [str(path)])])
    assert result.exit_code == 2, result.output
    assert isinstance(result.exception, SystemExit), result.exception
    assert str(path) in result.output.replace("\n", "") or "does not read" in result.output


def test_a_small_file_takes_little_memory(tmp_path: Path) -> None:
    """Machines with a limit on memory read it; a buffer of the largest size took 2 GB."""
    path = tmp_path / "small.tflite"
    path.write_bytes(b"small" * 100)
    tracemalloc.start()
    try:
        assert inputs.content(path) == b"small" * 100
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.skipif(os.name != "posix", reason="no such files on this system")
@pytest.mark.parametrize("make", [_endless, os.mkfifo], ids=["device", "pipe"])
def test_what_is_no_picture_and_no_list_of_labels(
    make: Callable[[Path], None], tmp_path: Path
) -> None:
    path = tmp_path / "x.png"
    make(path)
    with pytest.raises(BadInput, match="not a regular file"):
        inputs.picture(path, (1, 4, 4, 3), np.dtype(np.float32), 0.0, 1.0)
    with pytest.raises(BadInput, match="not a regular file"):
        inputs.labels(path)


# ---- lists without an end ------------------------------------------------------------------------


def _table(*fields: int) -> bytes:
    """Returns a FlatBuffers vtable and its table. Fields are offsets from the start of the table; 0
    means that the field is absent."""
    slots = [4 + 4 * k if offset else 0 for k, offset in enumerate(fields)]
    head = struct.pack(f"<{2 + len(fields)}H", 4 + 2 * len(fields), 4 + 4 * len(fields), *slots)
    head += bytes(-len(head) % 4)
    body = [offset - 4 - 4 * k if offset else 0 for k, offset in enumerate(fields)]
    return head + struct.pack(f"<i{len(fields)}I", len(head), *body)


def overlapping(count: int) -> bytes:
    """Returns a small file that claims to be huge: all its graphs are one graph, all operators of
    that are one operator, all results of that are one list of tensors, and all of these are one
    tensor."""
    # Everything has its place: header, root, list of graphs, graph, list of operators, operator,
    # list of numbers.
    each = 4 + 4 * count
    root, graph, operator = (len(_table(*[99] * n)) for n in (3, 4, 3))
    graphs = 8 + root
    operators = graphs + each + graph
    numbers = operators + each + operator
    at_root = 8 + root - 16
    at_graph = graphs + each + graph - 20
    at_operator = operators + each + operator - 16
    out = struct.pack("<I4s", at_root, b"TFL3") + _table(0, 0, graphs - at_root)
    out += struct.pack(f"<{1 + count}I", count, *(at_graph - graphs - 4 - 4 * k
                                                  for k in range(count)))  # fmt: skip
    out += _table(*(target - at_graph for target in (operators, operators, operators, operators)))
    out += struct.pack(f"<{1 + count}I", count, *(at_operator - operators - 4 - 4 * k
                                                  for k in range(count)))  # fmt: skip
    out += _table(0, numbers - at_operator, numbers - at_operator)
    return out + struct.pack(f"<{1 + count}i", count, *[0] * count)


@pytest.mark.parametrize("read", [flatbuffer.require_model, flatbuffer.activations])
def test_lists_that_overlap(read: Callable[[bytes], object]) -> None:
    flatbuffer.activations(overlapping(1))
    with pytest.raises(ValueError, match="damaged"):
        read(overlapping(2600))


OPENED = """
import random, resource, sys
import numpy as np
# Some files ask for many gigabytes; without a limit, the kernel kills what it likes.
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
from tflgpu_plugin.harness import flatbuffer, hosts
m = flatbuffer.Model()
x, y, z, out = (m.tensor(name, shape) for name, shape in (
    ("x", (1, 4, 4, 1)), ("y", (1, 4, 4, 2)), ("z", (1, 32)), ("out", (1, 32))))
w, b = m.tensor("w", (2, 1, 1, 1), np.ones(2, "f4")), m.tensor("b", (2,), np.zeros(2, "f4"))
m.operator("CONV_2D", [x, w, b], [y], padding=0, stride_w=1, stride_h=1)
m.operator("RESHAPE", [y, m.tensor("shape", (2,), np.array([1, 32], np.int32))], [z])
m.operator("SOFTMAX", [z], [out], beta=1.0)
model, host, found = m.serialize([x], [out], "small"), hosts.host(sys.argv[1]), [0, 0, 0]
for seed in range(600):
    draw, damaged = random.Random(seed), bytearray(model)
    for _ in range(draw.choice((1, 1, 2, 4))):
        value = draw.choice((0, 1, 127, 128, 255, draw.randrange(256)))
        damaged[draw.randrange(len(model))] = value
    try:
        flatbuffer.require_model(bytes(damaged))
    except ValueError:
        found[0] += 1
        continue
    try:
        host.plain(bytes(damaged)).allocate_tensors()
        found[1] += 1
    except (RuntimeError, ValueError, MemoryError):
        found[2] += 1
print(*found)
"""


@pytest.mark.parametrize("name", hosts.installed())
def test_hosts_do_not_crash_on_what_is_read_first(name: str) -> None:
    """tflite-runtime does not verify files: one of thirty such files crashed the process."""
    done = subprocess.run(
        [sys.executable, "-c", OPENED, name], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert min(map(int, done.stdout.split())) > 20


def test_models_are_read_as_before() -> None:
    content = network.to_tflite(network.build())
    flatbuffer.require_model(content)
    assert flatbuffer.activations(flatbuffer.with_outputs(content, [3])) == flatbuffer.activations(
        content
    )


def test_numbers_without_an_end() -> None:
    for content in (b"\x80" * (1 << 22), b"\x3a" + b"\xff" * (1 << 22)):
        with pytest.raises(ValueError, match="damaged"):
            protobuf.computed(content)


# ---- folders of other runs -----------------------------------------------------------------------


FOREIGN = ["", "null", "[]", "7",
           '"text"', '{"failed": 1}', "[" * 100_000, "\udc80", '{"items": 1}',
           '{"failed": [[1]], "items": 1}', '{"failed": [["x", 1, 2]], "items": 1}']  # fmt: skip


def begun(path: Path) -> parts.Folder:
    folder = parts.Folder(path, parts.NPZ)
    folder.begin({"a": 1}, resume=False)
    return folder


@pytest.mark.parametrize("text", FOREIGN, ids=range(len(FOREIGN)))
def test_files_of_other_runs(text: str, tmp_path: Path) -> None:
    folder, content = begun(tmp_path / "out"), text.encode(errors="surrogateescape")
    (folder.path / "_failed-00000000.json").write_bytes(content)
    with pytest.raises(BadInput, match="choose another folder"):
        folder.done()
    with pytest.raises(BadInput, match="choose another folder"):
        list(folder.failures([0]))
    (folder.path / parts.MANIFEST).write_bytes(content)
    with pytest.raises(BadInput, match="choose another folder"):
        folder.begin({"a": 1}, resume=True)


@pytest.mark.skipif(os.name != "posix", reason="no pipes on this system")
@pytest.mark.parametrize("make", [_endless, os.mkfifo], ids=["device", "pipe"])
def test_pipes_in_a_folder(make: Callable[[Path], None], tmp_path: Path) -> None:
    folder = begun(tmp_path / "out")
    make(folder.path / "_failed-00000000.json")
    with pytest.raises(BadInput, match="choose another folder"):
        folder.done()
    (folder.path / parts.MANIFEST).unlink()
    make(folder.path / parts.MANIFEST)
    with pytest.raises(BadInput, match="choose another folder"):
        folder.begin({"a": 1}, resume=True)


def test_parts_of_other_names(tmp_path: Path) -> None:
    folder = begun(tmp_path / "out")
    (folder.path / "part-first.npz").write_bytes(b"")
    with pytest.raises(BadInput, match="part-first"):
        folder.done()


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="no links on this system")
def test_a_planted_link_is_not_followed(tmp_path: Path) -> None:
    folder, victim = begun(tmp_path / "out"), tmp_path / "victim"
    victim.write_text("mine")
    result = folder.file(0)
    planted = result.with_name(f".{result.name}.{os.getpid()}.unfinished")
    planted.symlink_to(victim)
    rows = [[np.zeros(2, np.float32)]]
    made = parts.Results(0, [Item(0, "a", None)], rows, ["y"], "gpu")
    folder.keep(parts.packed(made, parts.NPZ))
    assert victim.read_text() == "mine"
    assert result.is_file() and not planted.exists()


def test_what_is_kept_is_read_again(tmp_path: Path) -> None:
    folder = begun(tmp_path / "out")
    failures = [parts.Failure(*one) for one in RESULT]
    folder.keep(parts.Packed(0, 1, b"", failures, "gpu"))
    assert folder.done() == {0}
    assert list(folder.failures([0, 1])) == failures
    told = json.loads((folder.path / "_failed-00000000.json").read_text())
    assert told[parts.ITEMS] == 1
