"""Tests how constants are uploaded: piece by piece, so that preparing a model needs little more
memory than its weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.support.judged import claimed, resized
from tests.support.measured import measured
from tests.support.subprocesses import run_python
from tflgpu_plugin.ir import Array, Graph, Node, Pack, Quantization, Tensor, Weight, geometry
from tflgpu_plugin.ops import blocks, packing, winograd
from tflgpu_plugin.ops.packing import pack_stored, stored_pieces

# Counted is memory of this process that no file backs, while a partition is planned and
# built; on a software adapter that is the device's memory too. The driver has compiled before.
MEMORY = """
import os, threading
import numpy as np
from benchmarks.networks import NETWORKS
from benchmarks.to_graph import to_graph
from tests.support.harness import device_of
from tests.support.judged import claimed
from tflgpu_plugin.compile import compiler
from tflgpu_plugin.ir.graph import Graph, Node, Tensor
from tflgpu_plugin.runtime import pipelines

def private():
    lines = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return sum(int(lines[name].split()[0]) * 1024 for name in ("RssAnon", "RssShmem"))

def dense():
    side, layers = 2048, 6
    tensors, nodes = {0: Tensor("x", (1, side))}, []
    random = np.random.default_rng(0)
    for k in range(layers):
        weights = random.standard_normal((side, side), np.float32)
        tensors[100 + k] = Tensor(f"w{k}", (side, side), data=weights)
        tensors[k + 1] = Tensor(f"y{k}", (1, side))
        nodes.append(Node(k, "fully_connected", (k, 100 + k), (k + 1,), {"activation": "none"}))
    return Graph(tensors, tuple(nodes), (0,), (layers,))

model, kept = os.environ["TEST_MODEL"], os.environ["TEST_KEPT"]
graph = dense() if model == "dense" else to_graph(NETWORKS[model]())
device = device_of()
pipelines.make(
    compiler.compile(graph, device.target).pipelines, device.handle, device.pipelines, True
)
peak, ended, before = [0], threading.Event(), private()
def watch():
    while not ended.wait(0.001):
        peak[0] = max(peak[0], private())
thread = threading.Thread(target=watch)
thread.start()
(partition,) = claimed(graph, {"serialization_dir": kept} if kept else {}).partitions
ended.set(); thread.join()
print(partition.instance.plan.bytes_of("weights"), max(peak[0], private()) - before)
"""


def pieces(pack: Pack, size: int) -> list[Array]:
    return list(Weight(("test",), 0, 0, size, pack).pieces())


def test_pieces_are_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows, dense weights with groups, and Winograd planes are split every few kilobytes."""
    monkeypatch.setattr(packing, "PACKED_BYTES", 4096)
    random = np.random.default_rng(0)
    rows = random.standard_normal((70, 90)).astype(np.float32)
    shape = geometry(rows.shape)
    found = pieces(lambda: stored_pieces(rows, shape), shape.vectors * 16)
    check(found, pack_stored(rows, shape))
    dense = blocks.Blocks(48, 9, 5, 2, 4)
    data = random.standard_normal((48, 3, 3, 5)).astype(np.float32)
    size = dense.count * dense.block_vectors * 16
    found = pieces(lambda: blocks.pieces(data, dense, 0, dense.count), size)
    check(found, blocks.pack(data, dense, 0, dense.count))
    point = replace(dense, taps=1, groups=1)
    size = winograd.PLANES * point.count * point.block_vectors * 16
    found = pieces(lambda: winograd.transform(data, point), size)
    monkeypatch.setattr(packing, "PACKED_BYTES", 1 << 30)
    check(found, np.stack(list(winograd.transform(data, point))))


def test_transposed_matrices_are_moved_like_others() -> None:
    values = np.random.default_rng(0).standard_normal((150, 3, 70)).astype(np.float32)
    for source in (values, values.T, values.transpose(1, 2, 0), values[::-1], values[:, 0].T):
        to = np.full(source.shape, np.nan, np.float32)
        packing.put(to, source)
        assert np.array_equal(to, source)


def check(found: list[Array], whole: Array) -> None:
    assert len(found) > 2
    assert np.array_equal(np.concatenate(found), whole.reshape(-1).view(np.uint8))


@pytest.mark.parametrize("counts", [(3,), (5,), (2, 3), (3, 3), ()])
def test_another_number_of_bytes_is_an_error(counts: tuple[int, ...]) -> None:
    """The weight expects 4 floats."""

    def pack() -> Iterator[Array]:
        return (np.zeros(count, np.float32) for count in counts)

    with pytest.raises(ValueError, match="not 16"):
        pieces(pack, 16)


@pytest.mark.adapter
@pytest.mark.parametrize("way", ["mapped", "staged", "kept"])
@pytest.mark.parametrize("model", ["dense", "resnet18_224"])
@measured
def test_peak_memory_is_little_more_than_the_weights(model: str, way: str, tmp_path: Path) -> None:
    """Tests a stack of matrices, and a network whose weights grow by Winograd's transform: written
    directly, through staging buffers, and stored in a file and read back."""
    given = {"TEST_MODEL": model, "TEST_KEPT": str(tmp_path / "kept") if way == "kept" else ""}
    if way == "staged":
        given["TFLGPU_NO_MAPPING"] = "1"
    for _ in range(2 if way == "kept" else 1):
        weights, peak = map(int, run_python(MEMORY, **given).stdout.split())
        assert weights > 70e6
        assert weights * 0.9 < peak < weights * 1.3, (weights, peak)


@pytest.mark.adapter
def test_a_claimed_partition_holds_the_constants_of_the_host() -> None:
    """It does not hold values derived from them, which are computed again for other shapes."""
    stored = np.random.default_rng(0).standard_normal((8, 16)).astype(np.float16)
    numbers = np.random.default_rng(1).integers(-100, 100, (8, 8)).astype(np.int8)
    scale = Quantization((0.02,), (0,))
    tensors = {
        0: Tensor("x", (1, 16)),
        1: Tensor("half", (8, 16), "f16", stored),
        2: Tensor("weights", (8, 16)),
        3: Tensor("y", (1, 8)),
        4: Tensor("bytes", (8, 8), "i8", numbers, scale),
        5: Tensor("z", (1, 8)),
    }
    layer = {"activation": "none", "keep_num_dims": True}
    nodes = (
        Node(0, "dequantize", (1,), (2,)),
        Node(1, "fully_connected", (0, 2, None), (3,), layer),
        Node(2, "fully_connected", (3, 4, None), (5,), layer),
    )
    (part,) = claimed(Graph(tensors, nodes, (0,), (5,))).partitions
    held = {t: tensor.data for t, tensor in part.graph.tensors.items()}
    assert held[1] is stored and held[4] is numbers and held[2] is None
    x = np.random.default_rng(2).standard_normal((3, 16)).astype(np.float32)
    wanted = x @ stored.astype(np.float32).T @ (numbers * np.float32(0.02)).T
    for rows, instance in ((1, part), (3, part.build(resized(part.graph, [(3, 16)])))):
        np.testing.assert_allclose(instance.run([x[:rows]])[0], wanted[:rows], rtol=1e-5, atol=1e-5)
