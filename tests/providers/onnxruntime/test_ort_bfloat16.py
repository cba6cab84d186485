"""Tests bfloat16 values that are moved and cast, bit by bit against onnxruntime's CPU kernels;
test_ort_bfloat16_computed.py tests arithmetic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import tflgpu_plugin  # noqa: E402
from tests.support.onnx_models import Array, cpu, node, session  # noqa: E402
from tests.support.onnx_nodes import MS, Node  # noqa: E402
from tests.support.refused import code  # noqa: E402
from tflgpu_plugin.harness.onnx_values import results  # noqa: E402
from tflgpu_plugin.importer.support import support  # noqa: E402
from tflgpu_plugin.ir import Target, bfloat16  # noqa: E402
from tflgpu_plugin.providers.onnxruntime import sequences  # noqa: E402
from tflgpu_plugin.providers.onnxruntime.ops import HOST_OPS  # noqa: E402

BRAIN, FLOAT = onnx.TensorProto.BFLOAT16, onnx.TensorProto.FLOAT
adapter = pytest.mark.adapter
both = pytest.mark.parametrize("optimize", [True, False])
ALL = np.arange(1 << 16, dtype=np.uint16)
CHANCE = np.random.default_rng(5)
ANY = CHANCE.integers(0, 1 << 16, (2, 4, 6)).astype(np.uint16)
# Quiet and signalling NaN, infinities, zeros, subnormal numbers.
ANY[0, 0] = [0x7FC1, 0xFF81, 0xFF80, 0x8000, 0x0001, 0x807F]
# Ties to either side, their neighbours, what rounds up to infinity, subnormal numbers, NaN.
ROUNDED = np.array(
    [0x3F808000, 0x3F818000, 0x3F808001, 0x3F817FFF, 0xBF808000, 0xBF818000, 0x7F7FFFFF, 0x7F7F7FFF,
     0x7F7F8000, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC12345, 0x7F800001, 0xFFFFFFFF, 0x00000001,
     0x00008000, 0x00018000, 0x807FFFFF, 0x007F8000], np.uint32,
).view(np.float32)  # fmt: skip


def kind(array: Array) -> int:
    """Returns the element type of an array; here uint16 stands for the bits of bfloat16."""
    if array.dtype == np.uint16:
        return int(BRAIN)
    return int(onnx.helper.np_dtype_to_tensor_dtype(array.dtype))


def model(
    nodes: Sequence[Any],
    feeds: Mapping[str, Array],
    outputs: Mapping[str, int],
    constants: Mapping[str, Array] | None = None,
    opset: int = 21,
) -> bytes:
    """Returns a model that may also contain operators of onnxruntime's own domain."""
    held = [
        onnx.helper.make_tensor(name, kind(array), array.shape, array.tobytes(), raw=True)
        for name, array in (constants or {}).items()
    ]
    info = onnx.helper.make_tensor_value_info
    inputs = [info(name, kind(array), array.shape) for name, array in feeds.items()]
    made = [info(name, dtype, None) for name, dtype in outputs.items()]
    graph = onnx.helper.make_graph(nodes, "test", inputs, made, held)
    opsets = [onnx.helper.make_opsetid(*one) for one in (("", opset), (MS, 1))]
    proto = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)
    return bytes(proto.SerializeToString())


def same(data: bytes, feeds: Mapping[str, Array], optimize: bool = True, **options: Any) -> Any:
    """Returns our session, after comparing results with the CPU provider bit by bit; asserts that
    our provider ran every node."""
    ours = session(data, optimize=optimize, **options)
    for got, wanted in zip(results(ours, feeds), results(cpu(data, optimize), feeds), strict=True):
        assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_array_equal(got.view(np.uint8), wanted.view(np.uint8))
    tflgpu_plugin.assert_used(ours)
    assert {node.where for node in tflgpu_plugin.report(ours).nodes} == {"gpu"}
    return ours


def test_bits_are_those_of_the_nearest() -> None:
    """The bits are those of ml_dtypes, which onnx brings; NaN is the quiet one."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    values = CHANCE.integers(0, 1 << 32, 100_000, dtype=np.uint32).view(np.float32)
    values = np.concatenate([values, ROUNDED])
    with np.errstate(all="ignore"):
        wanted = values.astype(ml_dtypes.bfloat16).view(np.uint16)
    np.testing.assert_array_equal(bfloat16.bits(values), wanted)
    numbers = bfloat16.values(ALL)
    np.testing.assert_array_equal(numbers, ALL.view(ml_dtypes.bfloat16).astype(np.float32))
    held = ~np.isnan(numbers)
    np.testing.assert_array_equal(bfloat16.bits(numbers)[held], ALL[held])


@adapter
@pytest.mark.parametrize("shape", [(-1,), (4, -1), (2, 1, 1, -1)])
def test_floats_are_rounded_to_the_nearest(shape: tuple[int, ...]) -> None:
    many = CHANCE.integers(0, 1 << 32, 4000 - len(ROUNDED), dtype=np.uint32).view(np.float32)
    x = np.concatenate([ROUNDED, many]).reshape(shape)
    cast = node("Cast", ["x"], ["y"], to=BRAIN)
    same(model([cast], {"x": x}, {"y": BRAIN}), {"x": x})
    nodes = [node("Cast", ["x"], ["c"], to=BRAIN), node("Cast", ["c"], ["y"], to=FLOAT)]
    same(model(nodes, {"x": x}, {"y": FLOAT}), {"x": x})


@adapter
@pytest.mark.parametrize("to", ["FLOAT", "FLOAT16", "BOOL", "BFLOAT16"])
def test_all_numbers_are_cast(to: str) -> None:
    number = onnx.TensorProto.DataType.Value(to)
    cast = node("Cast", ["x"], ["y"], to=number)
    same(model([cast], {"x": ALL}, {"y": number}), {"x": ALL}, optimize=False)


@adapter
@pytest.mark.parametrize("to", ["INT8", "UINT8", "INT16", "UINT16", "INT32", "INT64"])
def test_whole_numbers_lose_fractions(to: str) -> None:
    """Integers that fit lose their fractions; the CPU's result for others is undefined."""
    values = np.array([0, 1.99, 2.75, 100.5, 127], np.float32)
    signed = np.array([-0.99, -1.5, -128], np.float32)
    x = bfloat16.bits(values if to[0] == "U" else np.concatenate([values, signed]))
    number = onnx.TensorProto.DataType.Value(to)
    cast = node("Cast", ["x"], ["y"], to=number)
    data = model([cast], {"x": x}, {"y": number})
    if to == "UINT16":  # outputs of uint16 are no bits here
        np.testing.assert_array_equal(session(data).run(None, _as_values(x))[0],
                                      np.trunc(bfloat16.values(x)))  # fmt: skip
    else:
        same(data, {"x": x})


def _as_values(x: Array) -> dict[str, Any]:
    import onnxruntime as ort

    return {"x": ort.OrtValue.ortvalue_from_numpy_with_onnx_type(x, BRAIN)}


@adapter
@pytest.mark.parametrize("given", ["int8", "uint8", "int16", "int32", "int64", "bool", "float16"])
def test_others_are_rounded_as_float32(given: str) -> None:
    """Large integers are rounded twice: first to float32."""
    x = CHANCE.integers(-(1 << 31), 1 << 31, 4000)
    x[:2] = (1 << 24) + (1 << 16) + 1, 0x01FE8001
    x = (x % 65_504 - 32_000).astype(given) if given == "float16" else x.astype(given)
    cast = node("Cast", ["x"], ["y"], to=BRAIN)
    same(model([cast], {"x": x}, {"y": BRAIN}), {"x": x})


MOVED: dict[str, tuple[Any, dict[str, Array]]] = {
    "Concat": (node("Concat", ["x", "c"], ["y"], axis=1), {"c": ANY[:, 2:]}),
    "Flatten": (node("Flatten", ["x"], ["y"]), {}),
    "Gather": (node("Gather", ["x", "i"], ["y"], axis=1), {"i": np.array([3, -1, 0])}),
    "GatherElements": (
        node("GatherElements", ["x", "i"], ["y"], axis=2),
        {"i": CHANCE.integers(-6, 6, (2, 4, 9))},
    ),
    "GatherND": (node("GatherND", ["x", "i"], ["y"]), {"i": np.array([[1, 3], [0, 0]])}),
    "Identity": (node("Identity", ["x"], ["y"]), {}),
    "Reshape": (node("Reshape", ["x", "s"], ["y"]), {"s": np.array([8, 6])}),
    "ScatterElements": (
        node("ScatterElements", ["x", "i", "u"], ["y"], axis=1),
        {"i": np.array([[[3] * 6], [[0] * 6]]), "u": ANY[:, :1] ^ 0x8000},
    ),
    "ScatterND": (
        node("ScatterND", ["x", "i", "u"], ["y"]),
        {"i": np.array([[1, 2], [0, 3]]), "u": ANY[0, :2]},
    ),
    "Slice": (
        node("Slice", ["x", "b", "e", "a", "t"], ["y"]),
        {k: np.array([v]) for k, v in zip("beat", (-1, -9, 2, -2), strict=True)},
    ),
    "Squeeze": (node("Squeeze", ["x"], ["y"]), {}),
    "Transpose": (node("Transpose", ["x"], ["y"], perm=[2, 0, 1]), {}),
    "Unsqueeze": (node("Unsqueeze", ["x", "a"], ["y"]), {"a": np.array([1])}),
}


@adapter
@pytest.mark.parametrize("opset", [13, 21, 25])
@pytest.mark.parametrize("name", MOVED)
def test_what_moves_keeps_every_bit(name: str, opset: int) -> None:
    one, constants = MOVED[name]
    data = model([one], {"x": ANY}, {"y": BRAIN}, constants, opset)
    same(data, {"x": ANY}, optimize=False)


def test_every_row_is_run() -> None:
    listed = {name for name, row in HOST_OPS.items() if row.bfloat16 and not row.rounds}
    older = {"Scatter"}  # of opset 9, which has no bfloat16: ScatterElements, too
    apart = {"BitCast", "Cast", "CastLike", "Split", "TensorScatter"}
    bodies = {"If", "Loop", "Scan"}  # made of the rows of their nodes
    lists = {row.name for row in sequences.ROWS}  # no nodes, or Split and Concat
    assert listed == MOVED.keys() | apart | older | bodies | lists


@adapter
def test_what_is_cast_as_another() -> None:
    x = {"x": ROUNDED, "like": ANY[0]}
    both = [node("CastLike", ["x", "like"], ["y"]), node("CastLike", ["like", "x"], ["z"])]
    same(model(both, x, {"y": BRAIN, "z": FLOAT}), x)


@adapter
@both
def test_bits_as_those_of_whole_numbers(optimize: bool) -> None:
    """All bit patterns are tried, including NaN and subnormal numbers."""
    number = onnx.TensorProto.DataType.Value
    nodes = [
        node("BitCast", ["x"], ["signed"], to=number("INT16")),
        node("BitCast", ["x"], ["same"], to=BRAIN),
        node("BitCast", ["x"], ["plain"], to=number("UINT16")),
        node("BitCast", ["plain"], ["back"], to=BRAIN),
        node("BitCast", ["i"], ["of_signed"], to=BRAIN),
    ]
    feeds = {"x": ALL, "i": ALL[::-1].view(np.int16)}
    made = {"signed": number("INT16"), **dict.fromkeys(("same", "back", "of_signed"), BRAIN)}
    same(model(nodes, feeds, made, opset=26), feeds, optimize)
    half = Node("BitCast", ("bf16", (3,)), to=number("FLOAT16"))
    assert half.reason.startswith(
        "BitCast needs a cast between int8 and uint8, among int16, uint16 and bf"
    )


@adapter
def test_parts_and_a_cache() -> None:
    split = node("Split", ["x"], ["y", "z"], axis=1, num_outputs=2)
    same(model([split], {"x": ANY}, {"y": BRAIN, "z": BRAIN}), {"x": ANY})
    feeds = {"x": ANY[None], "u": ANY[None, :, :1]}
    one = node("TensorScatter", ["x", "u"], ["y"])
    same(model([one], feeds, {"y": BRAIN}, opset=24), feeds)


CHAIN = [
    node("Cast", ["x"], ["a"], to=BRAIN),
    node("Transpose", ["a"], ["b"], perm=[0, 2, 1]),
    node("Gather", ["b", "i"], ["c"], axis=1),
    node("Concat", ["c", "k"], ["d"], axis=2),
    node("Cast", ["d"], ["y"], to=FLOAT),
]


@adapter
@both
def test_a_chain(optimize: bool) -> None:
    x = CHANCE.normal(size=(2, 10, 6)).astype(np.float32)
    x.reshape(-1)[: len(ROUNDED)] = ROUNDED
    constants = {"i": np.array([5, 0, 3]), "k": ANY[:, :3, :2]}
    data = model(CHAIN, {"x": x}, {"y": FLOAT, "b": BRAIN}, constants)
    ours = same(data, {"x": x}, optimize)
    assert len(tflgpu_plugin.report(ours).nodes) == 5


@adapter
@both
def test_constants(optimize: bool) -> None:
    """Results of constants are folded where the host does not fold them."""
    nodes = [
        node("Cast", ["k"], ["f"], to=FLOAT),
        node("Cast", ["f"], ["b"], to=BRAIN),
        node("ConstantOfShape", ["s"], ["n"],
             value=onnx.helper.make_tensor("v", BRAIN, [1], b"\x81\x7f", raw=True)),
        node("Transpose", ["m"], ["t"]),
        node("Concat", ["x", "b", "n", "t"], ["y"], axis=0),
    ]  # fmt: skip
    # The host drops casts there and back, which then leave NaN as it is.
    held = np.where((ANY[0] & 0x7F80) == 0x7F80, 0x3F81, ANY[0]).astype(np.uint16)
    constants = {"k": held[:, :4], "m": ANY[0, :, :4], "s": np.array([2, 4])}
    data = model(nodes, {"x": ANY[1, :, :4]}, {"y": BRAIN}, constants)
    same(data, {"x": ANY[1, :, :4]}, optimize)


@adapter
def test_what_is_computed_of_constants() -> None:
    """No host has kernels for these; the result is folded."""
    nodes = [node("Neg", ["k"], ["n"]), node("Concat", ["x", "n"], ["y"], axis=0)]
    held = bfloat16.bits(np.array([1.5, -3e38, 0, 7], np.float32))
    data = model(nodes, {"x": ANY[0, 0]}, {"y": BRAIN}, {"k": held})
    (got,) = results(session(data, optimize=False), {"x": ANY[0, 0]})
    np.testing.assert_array_equal(got, np.concatenate([ANY[0, 0], held ^ 0x8000]))


@adapter
def test_whole_numbers_beyond_float16() -> None:
    """All digits are kept in conversions, whatever precision may be lost."""
    x = CHANCE.integers(-(1 << 30), 1 << 30, (1, 64, 64, 16)).astype(np.int32)
    nodes = [
        node("Cast", ["x"], ["a"], to=BRAIN),
        node("Transpose", ["a"], ["b"], perm=[0, 3, 1, 2]),
        node("Cast", ["b"], ["y"], to=onnx.TensorProto.INT32),
    ]
    data = model(nodes, {"x": x}, {"y": onnx.TensorProto.INT32, "b": BRAIN})
    same(data, {"x": x}, is_precision_loss_allowed=1)


@adapter
def test_no_precision_is_lost() -> None:
    """Values beyond 65,504 survive, which float16 storage would limit."""
    x = (CHANCE.normal(size=(1, 64, 64, 16)) * 1e30).astype(np.float32)
    nodes = [
        node("Cast", ["x"], ["a"], to=BRAIN),
        node("Transpose", ["a"], ["b"], perm=[0, 3, 1, 2]),
        node("Slice", ["b", "from", "to"], ["c"]),
        node("Concat", ["c", "b"], ["d"], axis=1),
        node("Transpose", ["d"], ["e"], perm=[0, 2, 3, 1]),
        node("Cast", ["e"], ["y"], to=FLOAT),
    ]
    constants = {"from": np.array([0, 1]), "to": np.array([1, 9])}
    data = model(nodes, {"x": x}, {"y": FLOAT}, constants)
    same(data, {"x": x}, is_precision_loss_allowed=1)


@adapter
def test_a_plan_that_is_kept(tmp_path: Path) -> None:
    data = model([MOVED["Transpose"][0]], {"x": ANY}, {"y": BRAIN})
    for _ in range(2):
        kept = {"serialization_dir": str(tmp_path), "model_token": "bfloat16"}
        same(data, {"x": ANY}, **kept)
    assert any(tmp_path.rglob("*"))


def test_no_documentation_lists_it() -> None:
    graph = Node("Transpose", ("bf16", (3, 4)), kinds=["bf16"]).read().graph
    (one,) = graph.nodes
    assert support(graph, one, Target()) is None
    graph = Node("Concat", ("bf16", (3, 4)), kinds=["bf16"]).read().graph
    reason = support(graph, graph.nodes[0], Target(), "documented")
    assert code(reason) == "option.capabilities"


@pytest.mark.parametrize("op", ["Add", "Relu", "Abs", "Shrink", "Not"])
def test_what_computes_is_refused(op: str) -> None:
    one = Node(op, *[("bf16", (3,))] * (2 if op == "Add" else 1))
    assert one.reason.endswith(f"bfloat16 values, for which the host has no CPU kernel of {op}.")


@pytest.mark.parametrize("op", ["Tile", "Expand", "Pad", "DepthToSpace", "Trilu"])
def test_what_the_host_has_no_kernel_of_is_refused(op: str) -> None:
    more = () if op == "DepthToSpace" else (np.array([1, 1, 1, 1]),)
    one = Node(op, ("bf16", (1, 4, 2, 2)), *more, blocksize=2)
    assert one.code == "dtype.unsupported"


@pytest.mark.parametrize(("reduction", "runs"), [("none", True), ("add", False), ("max", False)])
def test_what_is_scattered_is_not_combined(reduction: str, runs: bool) -> None:
    one = Node("ScatterND", ("bf16", (3, 4)), np.array([[1]]), ("bf16", (1, 4)), version=18,
               kinds=["bf16"], reduction=reduction.encode())  # fmt: skip
    graph = one.read().graph
    reason = support(graph, graph.nodes[0], Target())
    assert (reason is None) == runs, reason
