"""Models whose shapes depend on values of a run, and how their results are compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import tflgpu_plugin
from conformance import host as hosts
from conformance.models.tflite import Model
from tests.support.interpreters import gpu
from tflgpu_plugin.ir import Array

X = np.random.default_rng(2).uniform(-1, 1, (24, 30)).astype(np.float32)
IMAGE = np.random.default_rng(3).uniform(-1, 1, (1, 8, 9, 3)).astype(np.float32)
RUNS = 16
NAMES = {np.dtype(np.float32): "f32", np.dtype(np.int32): "i32", np.dtype(np.int64): "i64"}


def ints(*numbers: int, kind: type = np.int32) -> Array:
    return np.array(numbers, kind)


VERSIONS = {"RESIZE_BILINEAR": 3, "BROADCAST_TO": 2}


def added(
    model: Model, op: str, inputs: Sequence[int | None], rank: int, options: str = "",
    dtypes: Sequence[str] = ("f32",), **given: Any,
) -> list[int]:  # fmt: skip
    """Adds an operator and returns its results, of which the model states nothing but the rank."""
    made = model.multi_op(op, inputs, options or None, given, shapes=[(1,) * rank] * len(dtypes),
                          dtypes=dtypes, version=VERSIONS.get(op, 1))  # fmt: skip
    for tensor in made:
        model.tensors[tensor].signature = (-1,) * rank
    return made


def pairs(*numbers: int) -> Array:
    return ints(*numbers).reshape(-1, 2)


@dataclass(frozen=True)
class Case:
    """A model of one operator, whose inputs are x and `values(k)` in run k, and the constants
    `held`. RUNS of them may make at most `plans` plans."""

    op: str
    values: Callable[[int], Sequence[Array]]
    plans: int
    x: Array | None = field(default_factory=lambda: X)
    held: Sequence[Array] = ()
    options: str = ""
    given: Mapping[str, Any] = field(default_factory=dict)
    rank: int = 2
    dtypes: Sequence[str] = ("f32",)
    newer: bool = False  # tflite-runtime lacks the operator
    templates: int = 1  # that are traced; other plans only have larger buffers

    def feed(self, run: int) -> list[Array]:
        return [*([] if self.x is None else [self.x]), *self.values(run)]

    def model(self) -> bytes:
        model, feed = Model(), self.feed(0)
        inputs = [model.input(f"x{k}", v.shape, NAMES[v.dtype]) for k, v in enumerate(feed)]
        inputs += [model.constant(value) for value in self.held]
        found, *others = added(
            model, self.op, inputs, self.rank, self.options, self.dtypes, **self.given
        )
        model.output(*added(model, "TANH", [found], self.rank), *others)
        return model.to_bytes()


SHAPES = [(24, 30), (30, 24), (72, 10), (-1, 16), (60, 12), (12, -1), (360, 2), (8, 90)]
CASES = {
    "reshape": Case("RESHAPE", lambda k: [ints(*SHAPES[k % 8])], 8, options="ReshapeOptions",
                    templates=5),
    "reshape to another rank": Case(
        "RESHAPE", lambda k: [ints(2, -1, (3, 4, 5, 6, 8, 9)[k % 6])], 4, rank=3,
        options="ReshapeOptions", templates=2,
    ),
    "slice": Case("SLICE", lambda k: [ints(k % 5, k % 7), ints(3 + k % 9, 5 + k % 11)], 5),
    "slice to the end": Case("SLICE", lambda k: [ints(k % 5, k), ints(-1, 9)], 4),
    "window": Case("SLICE", lambda k: [ints(k, k + 9)], 3, held=[ints(4, 5)]),
    "slice in 64 bits": Case(
        "SLICE", lambda k: [ints(k % 5, k, kind=np.int64), ints(4 + k % 3, 5, kind=np.int64)], 5,
    ),
    "strided slice": Case(
        "STRIDED_SLICE", lambda k: [ints(k % 5, k % 7 - 20), ints(8 + k % 9, 24 + k % 11)], 6,
        held=[ints(1, 1)], options="StridedSliceOptions",
    ),
    "steps": Case(
        "STRIDED_SLICE", lambda k: [ints(0, k), ints(20, 30), ints(1 + k % 3, 1)], 12,
        options="StridedSliceOptions",
    ),
    "row": Case(
        "STRIDED_SLICE", lambda k: [ints(k), ints(k + 1)], 3, held=[ints(1)], rank=1,
        options="StridedSliceOptions", given={"shrinkAxisMask": 1},
    ),
    "pad": Case("PAD", lambda k: [pairs(k % 4, k % 5, k % 3, k % 7)], 5),
    "pad with a value": Case(
        "PADV2", lambda k: [pairs(k % 4, k % 5, k % 3, k % 7)], 5, held=[np.full(1, 2.5, "f4")],
    ),
    "mirrored pad": Case(
        "MIRROR_PAD", lambda k: [pairs(k % 4, 1, 0, k % 3)], 6, options="MirrorPadOptions",
        given={"mode": "REFLECT"},
    ),
    "dilations": Case(
        "DILATE", lambda k: [ints(1 + k % 4, 1 + k % 5)], 6, held=[np.float32(2.5)],
        options="DilateOptions", newer=True, templates=3,
    ),
    "tile": Case("TILE", lambda k: [ints(1 + k % 4, 1 + k % 5)], 7),
    "largest": Case(
        "TOPK_V2", lambda k: [np.array(1 + k, np.int32)], 8, options="TopKV2Options",
        dtypes=("f32", "i32"),
    ),
    "image": Case(
        "RESIZE_BILINEAR", lambda k: [ints(4 + k, 5 + 2 * k)], 12, x=IMAGE, rank=4,
        options="ResizeBilinearOptions", given={"halfPixelCenters": True},
    ),
    "nearest pixels": Case(
        "RESIZE_NEAREST_NEIGHBOR", lambda k: [ints(4 + k, 5 + 2 * k)], 8, x=IMAGE, rank=4,
        options="ResizeNearestNeighborOptions",
    ),
    "nearest corners": Case(
        "RESIZE_NEAREST_NEIGHBOR", lambda k: [ints(1 + 5 * k % 19, 2 + 7 * k % 23)], 8,
        x=IMAGE, rank=4, options="ResizeNearestNeighborOptions", given={"alignCorners": True},
    ),
    "nearest middles": Case(
        "RESIZE_NEAREST_NEIGHBOR", lambda k: [ints(1 + 5 * k % 19, 2 + 7 * k % 23)], 8,
        x=IMAGE, rank=4, options="ResizeNearestNeighborOptions", given={"halfPixelCenters": True},
    ),
    "broadcast": Case(
        "BROADCAST_TO", lambda k: [ints(2 + k % 9, 30)], 8, x=X[:1], options="BroadcastToOptions",
    ),
    "fill": Case(
        "FILL", lambda k: [ints(2 + k % 9, 3 + k % 7), np.array(k - 3.5, np.float32)], 9, x=None,
        options="FillOptions",
    ),
    "depth": Case(
        "ONE_HOT", lambda k: [np.array(3 + k, np.int32)], 9, x=np.arange(9, dtype=np.int32),
        held=[np.float32(1), np.float32(-2)], options="OneHotOptions", given={"axis": -1},
    ),
    "axis": Case(
        "MEAN", lambda k: [ints(k % 2)], 2, options="ReducerOptions", given={"keepDims": True},
    ),
    "crops": Case(
        "BATCH_TO_SPACE_ND", lambda k: [ints(2, 2), pairs(k % 3, k % 2, k % 4, 0)], 2,
        x=np.tile(IMAGE, (4, 1, 1, 1)), rank=4,
    ),
    "parts": Case(
        "SPLIT_V", lambda k: [ints(3 + k, 27 - k)], 9, held=[np.array(1, np.int32)],
        options="SplitVOptions", given={"numSplits": 2}, dtypes=("f32", "f32"),
    ),
    "a part and the rest": Case(
        "SPLIT_V", lambda k: [ints(-1, 1 + k)], 9, held=[np.array(0, np.int32)],
        options="SplitVOptions", given={"numSplits": 2}, dtypes=("f32", "f32"),
    ),
}  # fmt: skip


def reference(model: bytes, host: str, feed: Sequence[Array]) -> Any:
    """Returns the results of the host's reference kernels. Each run has an interpreter of its own:
    hosts keep shapes of an earlier run."""
    cpu = hosts.interpreter(model, host, "reference")
    cpu.allocate_tensors()
    return hosts.invoke(cpu, [feed])[0]


def assert_same(interpreter: Any, model: bytes, host: str, feed: Sequence[Array]) -> None:
    ours, theirs = hosts.invoke(interpreter, [feed])[0], reference(model, host, feed)
    for got, wanted in zip(ours, theirs, strict=True):
        assert got.shape == wanted.shape and got.dtype == wanted.dtype
        np.testing.assert_allclose(got, wanted, atol=1e-5)


def on_gpu(model: bytes, host: str, **options: Any) -> Any:
    return gpu(model, host, force=1, **options)


def runs(made: Any) -> set[tuple[int, int, int]]:
    """Returns (runs on the GPU, on the host's kernels, failures) of each partition in use."""
    found = (one for one in tflgpu_plugin.report(made).partitions if one.live)
    return {(one.runs, one.host_runs, one.failures) for one in found}
