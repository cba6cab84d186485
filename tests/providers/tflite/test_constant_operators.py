"""Tests every operator that is folded over constants against the host's own kernels, bit by bit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from conformance import host as hosts
from conformance.models import sparse
from conformance.models.tflite import Model
from tests.support import host_models
from tests.support.interpreters import gpu, same
from tflgpu_plugin import engine, native, ops as internal
from tflgpu_plugin.importer.imported import Imported
from tflgpu_plugin.ir import FOLDED, Array, Graph, HostOp, Quantization, Tensor
from tflgpu_plugin.ops import evaluation
from tflgpu_plugin.providers.tflite import ops
from tflgpu_plugin.providers.tflite.host_node import RawNode

HOSTS = hosts.installed()
pytestmark = [pytest.mark.adapter, pytest.mark.parametrize("host", HOSTS)]
RANDOM = np.random.default_rng(0)
HERE = Quantization((0.05,), (3,))
CHANNELS = Quantization((0.05, 0.02, 0.3), (0, 0, 0), 2)
NONE = {"fusedActivationFunction": "NONE"}


def real(*shape: int) -> Array:
    return RANDOM.normal(0, 3, shape).astype(np.float32)


def whole(*shape: int, kind: str = "int32") -> Array:
    return RANDOM.integers(-50, 50, shape).astype(kind)


def ints(*values: int) -> Array:
    return np.array(values, np.int32)


X, N, B = real(2, 4, 3), whole(2, 4, 3), whole(2, 4, 3, kind="int8")
TRUE = RANDOM.random((2, 4, 3)) < 0.5
EVERY_F16 = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
FINITE = EVERY_F16[np.isfinite(EVERY_F16)]


@dataclass(frozen=True)
class Case:
    """An operator over constants; `scaled` is the quantization of inputs that have one."""

    op: str
    inputs: tuple[Array, ...]
    options: tuple[str | None, dict[str, Any]] = (None, {})
    version: int = 1
    scaled: tuple[Quantization | None, ...] = ()
    result: Quantization | None = None
    dtypes: tuple[str, ...] = ("f32",)
    sparse: bool = field(default=False)

    @property
    def name(self) -> str:
        held = "-".join(a.dtype.name for a in self.inputs[:1])
        return (
            f"{self.op} {held}{' per channel' if CHANNELS in (*self.scaled, self.result) else ''}"
        )


def cast(given: Array, before: str, after: str, dtype: str) -> Case:
    options = ("CastOptions", {"inDataType": before, "outDataType": after})
    return Case("CAST", (given,), options, dtypes=(dtype,))


def moved(op: str, *more: Array, options: Any = (None, {}), parts: int = 1) -> list[Case]:
    """Returns an operator that moves float32, int32 and int8."""
    found = []
    for value, dtype, version in ((X, "f32", 1), (N, "i32", 1), (B, "i8", 2)):
        scaled = (HERE,) if dtype == "i8" else ()
        version = {"RESHAPE": 1, "EXPAND_DIMS": 1, "BROADCAST_TO": 2}.get(op, version)
        inputs = (more[0], value) if op == "SPLIT" else (value, *more)
        given = (None, *scaled) if op == "SPLIT" else scaled
        found.append(Case(op, inputs, options, version, given, scaled[0] if scaled else None,
                          (dtype,) * parts))  # fmt: skip
    return found


def binary(op: str, table: str | None, *dtypes: str) -> list[Case]:
    pairs = {"f32": (X, real(3)), "i32": (N, np.abs(whole(3)) + 1)}
    options = (table, NONE) if table else (None, {})
    return [Case(op, pairs[kind], options, dtypes=(kind,)) for kind in dtypes]


def compared(op: str) -> list[Case]:
    close = np.where(TRUE, X, real(2, 4, 3))
    return [Case(op, (X, close), dtypes=("bool",)), Case(op, (N, N[::-1]), dtypes=("bool",))]


def reduced(op: str) -> Case:
    few = whole(2, 3) % 5 + 1
    return Case(op, (few, ints(1)), ("ReducerOptions", {"keepDims": True}), dtypes=("i32",))


def decided(op: str) -> Case:
    return Case(op, (TRUE, ints(1)), ("ReducerOptions", {}), dtypes=("bool",))


TWO = {"numSplits": 2}
SLICED = ("StridedSliceOptions", {"beginMask": 1, "endMask": 1, "shrinkAxisMask": 4})
CASES: list[Case] = [
    Case("DENSIFY", (X * TRUE,), ("DensifyOptions", {}), sparse=True),
    Case("DEQUANTIZE", (FINITE,), version=3),
    Case("DEQUANTIZE", (B,), version=2, scaled=(HERE,)),
    Case("DEQUANTIZE", (B,), version=5, scaled=(CHANNELS,)),
    Case("DEQUANTIZE", (B.view(np.uint8),), scaled=(HERE,)),
    Case("DEQUANTIZE", (whole(9, kind="int16"),), version=3, scaled=(Quantization((0.1,), (0,)),)),
    Case("QUANTIZE", (X,), result=HERE, dtypes=("i8",)),
    Case("QUANTIZE", (np.linspace(-10, 10, 401, dtype=np.float32),), result=HERE, dtypes=("i8",)),
    Case("QUANTIZE", (X,), result=HERE, dtypes=("u8",)),
    Case("BITCAST", (N,), ("BitcastOptions", {}), dtypes=("i32",)),
    cast(X, "FLOAT32", "INT32", "i32"), cast(N, "INT32", "FLOAT32", "f32"),
    cast(N, "INT32", "INT8", "i8"), cast(X, "FLOAT32", "BOOL", "bool"),
    cast(TRUE, "BOOL", "FLOAT32", "f32"), cast(N.astype(np.int64), "INT64", "INT32", "i32"),
    *moved("RESHAPE", ints(4, -1)),
    *moved("TRANSPOSE", ints(2, 0, 1)),
    *moved("EXPAND_DIMS", ints(1), options=("ExpandDimsOptions", {})),
    *moved("SLICE", ints(0, 1, 0), ints(2, 2, -1)),
    *moved("STRIDED_SLICE", ints(0, 3, 1), ints(2, 0, 2), ints(1, -2, 1), options=SLICED),
    *moved("TILE", ints(2, 1, 3))[:2],
    *moved("BROADCAST_TO", ints(3, 2, 4, 3))[:2],
    *moved("GATHER", ints(2, 0), options=("GatherOptions", {"axis": 2})),
    *moved("PAD", np.array([(0, 1), (2, 0), (0, 0)], np.int32))[:2],
    *moved("REVERSE_V2", ints(1))[:2],
    *moved("SPLIT", ints(1), options=("SplitOptions", TWO), parts=2),
    *moved("SPLIT_V", ints(1, 3), ints(1), options=("SplitVOptions", TWO), parts=2)[:2],
    *moved("UNPACK", options=("UnpackOptions", {"num": 2, "axis": 0}), parts=2)[:2],
    Case("SQUEEZE", (X[:1],), ("SqueezeOptions", {"squeezeDims": [0]})),
    Case("PACK", (X, -X), ("PackOptions", {"valuesCount": 2, "axis": 2})),
    Case("CONCATENATION", (X, -X), ("ConcatenationOptions", {"axis": 1, **NONE})),
    Case("CONCATENATION", (B, B), ("ConcatenationOptions", {"axis": 1, **NONE}), 2, (HERE, HERE),
         HERE, ("i8",)),
    *binary("ADD", "AddOptions", "f32", "i32"), *binary("SUB", "SubOptions", "f32", "i32"),
    *binary("MUL", "MulOptions", "f32", "i32"), *binary("DIV", "DivOptions", "f32", "i32"),
    *binary("MAXIMUM", None, "f32", "i32"), *binary("MINIMUM", None, "f32", "i32"),
    *(Case(f"STABLEHLO_{op}", (X, X[::-1])) for op in ("ADD", "MULTIPLY", "MAXIMUM", "MINIMUM")),
    *binary("FLOOR_DIV", None, "i32"), *binary("FLOOR_MOD", None, "i32"),
    *compared("EQUAL"), *compared("NOT_EQUAL"), *compared("LESS"), *compared("LESS_EQUAL"),
    *compared("GREATER"), *compared("GREATER_EQUAL"),
    Case("SELECT_V2", (TRUE, X, -X)), Case("SELECT", (TRUE, X, -X)),
    Case("EMBEDDING_LOOKUP", (ints(1, 0, 1), X)),
    *(Case(op, (X,)) for op in ("NEG", "ABS", "FLOOR", "CEIL", "SQUARE", "RELU_0_TO_1")),
    Case("SQRT", (np.abs(X),)),
    Case("ROUND", (np.linspace(-4, 4, 33, dtype=np.float32),)),
    *(Case(op, (TRUE, TRUE[::-1]), dtypes=("bool",)) for op in ("LOGICAL_AND", "LOGICAL_OR")),
    Case("LOGICAL_NOT", (TRUE,), dtypes=("bool",)),
    Case("FILL", (ints(3, 5), np.float32(2.5))),
    Case("RANGE", tuple(np.int32(k) for k in (3, 20, 4)), dtypes=("i32",)),
    *map(reduced, ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD")),
    *map(decided, ("REDUCE_ANY", "REDUCE_ALL")),
    Case("POW", (whole(2, 3) % 5, ints(3)), dtypes=("i32",)),
    Case("BROADCAST_ARGS", (ints(3, 1), ints(4, 1, 5)), dtypes=("i32",)),
    *(
        Case("WHERE", (where,), dtypes=("i64",))
        for where in (TRUE, TRUE[0, 0], X * TRUE, N, ~TRUE & TRUE)
    ),
    Case("SIGN", (X,)),
    *(
        Case("RESIZE_NEAREST_NEIGHBOR", (real(1, 3, 4, 2), ints(*size)),
             ("ResizeNearestNeighborOptions", options), version=3)
        for size, options in (
            ((7, 5), {}), ((2, 9), {"alignCorners": True}), ((5, 6), {"halfPixelCenters": True}),
        )
    ),
    Case("SCATTER_ND", (ints(3, 1).reshape(2, 1), X, ints(5, 4, 3)), ("ScatterNdOptions", {})),
    Case("SCATTER_ND", (ints(0, 1, 2, 0).reshape(2, 2), N[0, :2], ints(4, 2, 3)),
         ("ScatterNdOptions", {}), dtypes=("i32",)),
    Case("GATHER_ND", (X, ints(1, 0, 0, 3).reshape(2, 2))),
    Case("PADV2", (X, np.array([(0, 1), (2, 0), (0, 0)], np.int32), np.float32(2.5))),
    Case("DEPTH_TO_SPACE", (real(1, 2, 2, 8),), ("DepthToSpaceOptions", {"blockSize": 2})),
    Case("SPACE_TO_DEPTH", (real(1, 4, 2, 3),), ("SpaceToDepthOptions", {"blockSize": 2})),
]  # fmt: skip


def build(case: Case) -> tuple[Model, list[int]]:
    """Returns the case with a further sum of its input, which is computed at run time."""
    model = Model()
    given = []
    for k, value in enumerate(case.inputs):
        made = model.sparse(value, sparse.encode(value, csr=[2])) if case.sparse else -1
        given.append(model.constant(value) if made < 0 else made)
        model.tensors[given[-1]].quantization = dict(enumerate(case.scaled)).get(k)
    outputs = model.multi_op(case.op, given, *case.options, shapes=[()] * len(case.dtypes),
                             dtypes=case.dtypes, version=case.version)  # fmt: skip
    for index in outputs:
        model.tensors[index].quantization = case.result
    x = model.input("x", (4,))
    model.output(model.op("ADD", [x, x], "AddOptions", NONE, shape=(4,)), *outputs)
    return model, outputs


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_as_the_host_computes(case: Case, host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, outputs = build(case)
    told = hosts.oracle(model.to_bytes(), host)
    if not hosts.registers(model.to_bytes(), *told):
        pytest.skip(f"{host} does not have {case.op}")
    model.infer_shapes(host)
    seen: list[Graph] = []
    claim = engine.claim

    def watched(found: Imported, *given: Any, **more: Any) -> engine.Claim:
        seen.append(found.graph)
        return claim(found, *given, **more)

    monkeypatch.setattr(engine, "claim", watched)
    content = model.to_bytes()
    gpu(content, host, told[1])
    feed = [np.zeros(4, np.float32)]
    _, *wanted = hosts.run_on_cpu(content, [feed], *told)[0]
    (maker,) = (node for node in seen[0].nodes if outputs[0] in node.outputs)
    if case.op != "DEQUANTIZE":
        assert maker.op == FOLDED
        for index, expected in zip(outputs, wanted, strict=True):
            found = seen[0].constant(index)
            assert found is not None and found.shape == expected.shape
            np.testing.assert_array_equal(found, expected)
        return
    found = seen[0].constant(outputs[0])
    np.testing.assert_array_equal(found, wanted[0])


def test_padding_of_stored_numbers(host: str) -> None:
    """The host pads with zero points, not zeros."""
    model = Model()
    stored = model.constant(B)
    widths = model.constant(np.array([(0, 1), (1, 0), (0, 0)], np.int32))
    made = model.op("PAD", [stored, widths], shape=(3, 5, 3), dtype="i8", version=2)
    for index in (stored, made):
        model.tensors[index].quantization = HERE
    x = model.input("x", (3, 5, 3))
    real_made = model.op("DEQUANTIZE", [made], shape=(3, 5, 3), version=2)
    model.output(model.op("ADD", [x, real_made], "AddOptions", NONE, shape=(3, 5, 3)))
    interpreter, _ = gpu(model.to_bytes(), host)
    same(interpreter, model.to_bytes(), host)


@pytest.mark.parametrize(
    ("op", "inputs"),
    [
        ("FILL", (ints(1 << 20, 1 << 20), ints(1))),
        ("TILE", (ints(1, 2), ints(1 << 30))),
        ("BROADCAST_TO", (ints(1), ints(1 << 20, 1 << 20))),
        ("PAD", (ints(1), ints(0, 1 << 30).reshape(1, 2))),
        ("EQUAL", (np.zeros((1 << 16, 1), np.int32), np.zeros((1, 1 << 16), np.int32))),
        ("LOGICAL_AND", (np.zeros((1 << 16, 1), bool), np.zeros((1, 1 << 16), bool))),
        ("GATHER", (np.zeros((1, 1 << 16), np.int32), np.zeros(1 << 16, np.int32))),
        ("FLOOR_MOD", (ints(1), ints(0))),
        ("MAXIMUM", (np.float32([1]), np.float32([np.nan]))),
        ("CAST", (np.float32([3e9]),)),
    ],
)
def test_what_is_not_worked_out(op: str, inputs: tuple[Array, ...], host: str) -> None:
    """Results far larger than their parts, or on which hosts disagree, are not folded."""
    params = native.ffi.new("char[64]")
    kinds = {"i": "i32", "b": "bool", "f": "f32"}
    given = [Tensor("", a.shape, kinds[a.dtype.kind], a) for a in inputs]
    results = {"EQUAL": "bool", "CAST": "i32"}
    result = Tensor("", (), results.get(op, given[-1].dtype))
    tensors = dict(enumerate([*given, result]))
    places = (*range(len(given)),)
    raw = RawNode(native.ffi, 0, 0, op, 1, places, (len(given),), params, tensors)
    row = ops.HOST_OPS.get(op)
    attributes = row.parameters(raw) if row and row.parameters else {}
    node = host_models.node(0, op, places, (len(given),), attributes)
    found = host_models.imported(host_models.model([*given, result], [node]))
    assert found.graph.nodes[0].op != FOLDED and found.graph.constant(len(given)) is None


def _is_known(row: HostOp) -> bool:
    """Whether its results are folded from constants."""
    op = internal.row(row.op)
    return evaluation.known(op) if op else row.build is not None and not row.of_shapes


def test_every_operator_has_a_case(host: str) -> None:
    """Every operator that can be folded has a case; mirrored padding, for example, cannot, and an
    IF is what its branch is (test_unrolled_loops.py)."""
    rows = {**ops.HOST_OPS, **ops.CPU_OPS}
    known = {name for name, row in rows.items() if _is_known(row)}
    assert known | {"DEQUANTIZE", "QUANTIZE"} <= {case.op for case in CASES} | {
        "CUMSUM",
        "IF",
        "MIRROR_PAD",
        "STABLEHLO_PAD",
    }
