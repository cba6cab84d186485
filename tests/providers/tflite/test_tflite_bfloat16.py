"""Tests bfloat16 in the TFLite frontend, between casts: numpy has no such type, so that no
interpreter accepts or returns it. Results equal those of ai-edge-litert's kernels, bit by bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from conformance import host as hosts
from conformance.models.tflite import Model
from tests.support.interpreters import gpu
from tflgpu_plugin import report
from tflgpu_plugin.providers.tflite.ops import HOST_OPS

HOST = "ai_edge_litert"
pytestmark = [
    pytest.mark.adapter,
    pytest.mark.skipif(HOST not in hosts.installed(), reason="no other host has bfloat16"),
]
SHAPE = (3, 4, 6)
# Ties, what rounds up to infinity, subnormal numbers, NaN of either sign with a payload.
SPECIAL = [0x3F808000, 0x3F818000, 0x3F808001, 0x7F7FFFFF, 0x80000000, 0x7F800000, 0xFF800000,
           0x7FC12345, 0xFF800001, 0x00000001, 0x00018000, 0x807FFFFF]  # fmt: skip
NAMES = {
    "f32": "FLOAT32", "bf16": "BFLOAT16", "i32": "INT32", "i64": "INT64", "bool": "BOOL",
}  # fmt: skip
Move = Callable[[Model, int], tuple[int, Any]]


def values() -> Any:
    found = np.random.default_rng(3).normal(0, 50, SHAPE).astype(np.float32)
    found.reshape(-1)[: len(SPECIAL)] = np.array(SPECIAL, np.uint32).view(np.float32)
    return found


def cast(model: Model, x: int, held: str, wanted: str, shape: Any = SHAPE) -> int:
    types = {"inDataType": NAMES[held], "outDataType": NAMES[wanted]}
    return model.op("CAST", [x], "CastOptions", types, shape=shape, dtype=wanted, version=7)


def moved(op: str, shape: Any, *more: Any, table: str = "", **options: Any) -> Any:
    """Returns an operator over bfloat16 values of shape `of`, its further constants, and its
    options."""
    version, of = options.pop("version", 1), options.pop("of", SHAPE)

    def add(model: Model, x: int) -> tuple[int, Any]:
        if of != SHAPE:
            x = model.op("RESHAPE", [x], "ReshapeOptions", {"newShape": list(of)}, shape=of,
                         dtype="bf16")  # fmt: skip
        reads = [x, *(model.constant(np.array(n, np.int32)) for n in more)]
        made = model.op(op, reads, table or None, options, shape=shape, dtype="bf16",
                        version=version)  # fmt: skip
        return made, shape

    return pytest.param(add, id=op)


def written(model: Model, x: int) -> tuple[int, Any]:
    part = model.constant(np.array([[[0x7FC1, 0x8001, 0xFF80]]], np.uint16), dtype="bf16")
    reads = [x, part, model.constant(np.array([1, 2, 3], np.int32))]
    made = model.op("DYNAMIC_UPDATE_SLICE", reads, "DynamicUpdateSliceOptions", {}, shape=SHAPE,
                    dtype="bf16", version=2)  # fmt: skip
    return made, SHAPE


def joined(model: Model, x: int) -> tuple[int, Any]:
    held = np.array([[[0x7FC1, 0x8001, 0xFF80, 1, 0x3F80, 0xBF81]]] * 3, np.uint16)
    reads = [x, model.constant(held, dtype="bf16")]
    made = model.op("CONCATENATION", reads, "ConcatenationOptions", {"axis": 1}, shape=(3, 5, 6),
                    dtype="bf16")  # fmt: skip
    return made, (3, 5, 6)


def padded(model: Model, x: int) -> tuple[int, Any]:
    table = model.constant(np.array([[0, 0], [1, 0], [0, 2]], np.int32))
    reads = [x, table, model.constant(np.array([0x3F81], np.uint16), dtype="bf16")]
    made = model.op("PADV2", reads, "PadV2Options", {}, shape=(3, 5, 8), dtype="bf16")
    return made, (3, 5, 8)


def unpacked(model: Model, x: int) -> tuple[int, Any]:
    options = {"num": 3, "axis": 0}
    made = model.multi_op("UNPACK", [x], "UnpackOptions", options, shapes=[(4, 6)] * 3,
                          dtypes=["bf16"] * 3)  # fmt: skip
    return made[1], (4, 6)


MOVES = [
    moved("RESHAPE", (6, 12), table="ReshapeOptions", newShape=[6, 12]),
    moved("TRANSPOSE", (6, 3, 4), (2, 0, 1), table="TransposeOptions", version=4),
    moved("GATHER", (2, 4, 6), (2, 0), table="GatherOptions", axis=0),
    moved("GATHER_ND", (2, 6), ((2, 1), (0, 3)), table="GatherNdOptions"),
    moved("STRIDED_SLICE", (2, 2, 6), (0, 0, 0), (2, 4, 6), (1, 2, 1), table="StridedSliceOptions"),
    moved("SLICE", (1, 4, 5), (1, 0, 1), (1, 4, 5), table="SliceOptions"),
    moved("EXPAND_DIMS", (1, *SHAPE), 0, table="ExpandDimsOptions"),
    moved("TILE", (3, 8, 6), (1, 2, 1), table="TileOptions"),
    moved("REVERSE_V2", SHAPE, (1,), table="ReverseV2Options"),
    moved("PAD", (3, 6, 6), ((0, 0), (1, 1), (0, 0)), table="PadOptions"),
    moved("MIRROR_PAD", (3, 6, 6), ((0, 0), (1, 1), (0, 0)), table="MirrorPadOptions", mode=0),
    moved("BROADCAST_TO", (2, *SHAPE), (2, *SHAPE), table="BroadcastToOptions", version=2),
    moved("SPACE_TO_BATCH_ND", (6, 2, 6), (2,), ((0, 0),), table="SpaceToBatchNDOptions"),
    moved("BATCH_TO_SPACE_ND", (1, 12, 6), (3,), ((0, 0),), table="BatchToSpaceNDOptions"),
    moved(
        "RESIZE_NEAREST_NEIGHBOR",
        (1, 6, 8, 6),
        (6, 8),
        table="ResizeNearestNeighborOptions",
        of=(1, *SHAPE),
    ),
    moved("SQUEEZE", (3, 4, 6), table="SqueezeOptions", squeezeDims=[0], of=(1, *SHAPE)),
    pytest.param(written, id="DYNAMIC_UPDATE_SLICE"),
    pytest.param(joined, id="CONCATENATION"),
    pytest.param(padded, id="PADV2"),
    pytest.param(unpacked, id="UNPACK"),
]


def test_every_row_has_a_model() -> None:
    listed = {name for name, row in HOST_OPS.items() if row.bfloat16}
    assert listed == {move.id for move in MOVES} | {"CAST"}


def same(model: bytes, given: Any, everything: bool = True) -> Any:
    """Returns our results, after comparing them with the host's bit by bit."""
    cpu = hosts.interpreter(model, HOST)
    ours, made = gpu(model, HOST, force=1)
    results = []
    for interpreter in (cpu, ours):
        interpreter.allocate_tensors()
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], given)
        interpreter.invoke()
        results.append(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]))
    assert results[0].dtype == results[1].dtype
    np.testing.assert_array_equal(*(r.view(f"u{r.dtype.itemsize}") for r in results))
    assert ({node.where for node in report(made).nodes} == {"gpu"}) == everything
    return made


@pytest.mark.parametrize("move", MOVES)
def test_what_moves(move: Move) -> None:
    model = Model()
    y, shape = move(model, cast(model, model.input("x", SHAPE), "f32", "bf16"))
    model.output(cast(model, y, "bf16", "f32", shape))
    same(model.to_bytes(), values())


@pytest.mark.parametrize("dtype", ["i32", "i64", "bool"])
def test_casts_to_and_from_other_types(dtype: str) -> None:
    """Casts agree for numbers that both types represent, and for some that bfloat16 rounds."""
    given = np.arange(72, dtype=np.float32).reshape(SHAPE)
    given *= 1 if dtype == "bool" else 4001
    for types in (["bf16", dtype], [dtype, "bf16"]):
        model = Model()
        x = cast(model, model.input("x", SHAPE), "f32", types[0])
        model.output(cast(model, cast(model, x, *types), types[1], "f32"))
        same(model.to_bytes(), given)


def test_weights_of_bfloat16() -> None:
    """A cast of a constant is folded before the run."""
    model = Model()
    held = model.constant(np.array([0x3F81, 0x0001, 0xC0A3, 0x7F80, 0x8000, 0x4049], np.uint16),
                          dtype="bf16")  # fmt: skip
    real = cast(model, held, "bf16", "f32", (6,))
    x = model.input("x", SHAPE)
    model.output(model.op("MAXIMUM", [x, real], "MaximumMinimumOptions", {}, shape=SHAPE))
    same(model.to_bytes(), np.random.default_rng(1).normal(size=SHAPE).astype(np.float32))


def test_what_the_host_chooses_by_a_condition_stays_there() -> None:
    model = Model()
    x = cast(model, model.input("x", SHAPE), "f32", "bf16")
    which = model.constant(np.arange(72).reshape(SHAPE) % 2 > 0)
    y = model.op("SELECT_V2", [which, x, x], "SelectV2Options", {}, shape=SHAPE, dtype="bf16")
    model.output(cast(model, y, "bf16", "f32"))
    made = same(model.to_bytes(), values(), everything=False)
    (left,) = (node for node in report(made).nodes if node.where == "cpu")
    assert (left.op, left.refusal_code) == ("SELECT_V2", "dtype.unsupported")
