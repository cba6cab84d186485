"""Parts of models: which nodes they have, and that they keep all that these need."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conformance import host as hosts
from conformance.cases import all_cases
from conformance.models import sparse, tflite as models
from conformance.models.tflite_file import schema
from tests.support import variable_models
from tests.support.onnx_models import model, node
from tflgpu_plugin.harness import flatbuffer, flatbuffer_part, parts, protobuf_part

FLOAT = 1  # number of the element type in ONNX

# x -> a -> b, and c from b, a constant k of the node that makes it, and the input y; d is not read
NODES = [(["x"], ["a"]), (["a"], ["b", "d"]), ([], []), (["w"], ["k"]), (["b", "k", "y"], ["c"])]
VARYING = {"x", "y", "a", "b", "c", "d"}


@pytest.mark.parametrize(
    ("sources", "result", "inputs", "kept"),
    [
        (["b"], "c", {"b", "y"}, [2, 3, 4]),
        (["b", "y"], "c", {"b", "y"}, [2, 3, 4]),
        (["a"], "c", {"a", "y"}, [1, 2, 3, 4]),
        ([], "c", {"x", "y"}, [0, 1, 2, 3, 4]),
        (["c"], "c", {"x", "y"}, [0, 1, 2, 3, 4]),
        (["d", "k"], "c", {"x", "y"}, [0, 1, 2, 3, 4]),
        (["x"], "a", {"x"}, [0, 2]),
    ],
)
def test_the_nodes_of_a_part(
    sources: list[str], result: str, inputs: set[str], kept: list[int]
) -> None:
    taken, places = parts.part(NODES, VARYING, sources, result)
    assert ({*taken}, places) == (inputs, kept) and len(taken) == len(inputs)


def test_no_input_is_also_a_result_of_the_part() -> None:
    nodes = [(["x"], ["a", "b"]), (["b"], ["c"]), (["a", "c"], ["d"])]
    taken, places = parts.part(nodes, {"x", "a", "b", "c", "d"}, {"b"}, "d")
    assert (taken, places) == (["x"], [0, 1, 2])


def test_what_comes_before() -> None:
    assert parts.before(NODES, ["c", "x"]) == {"b", "k", "y", "x"}
    assert parts.before(NODES, ["a"]) == {"x"}


def everything(content: bytes) -> tuple[bytes, Any, Any]:
    """Returns the part of a TFLite model that has all of its operators, and both unpacked."""
    made = schema().ModelT
    before = made.InitFromPackedBuf(content)
    graph = before.subgraphs[0]
    kept = range(len(graph.operators or []))
    copied = flatbuffer_part.part(content, kept, graph.inputs, graph.outputs)
    flatbuffer.require_model(copied)
    return copied, before, made.InitFromPackedBuf(copied)


def same(left: Any, right: Any) -> bool:
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, np.ndarray):
        return left.tobytes() == right.tobytes() and left.dtype == right.dtype
    if hasattr(left, "__dict__"):
        return type(left) is type(right) and all(
            same(value, vars(right)[name]) for name, value in vars(left).items()
        )
    return bool(left == right)


def assert_same(before: Any, after: Any) -> None:
    for name in ("version", "operatorCodes", "subgraphs", "buffers", "description"):
        assert same(getattr(before, name), getattr(after, name)), name


def first_cases() -> dict[str, Any]:
    """Returns the first case of each operator that a TFLite host has."""
    found: dict[str, Any] = {}
    for family in all_cases().values():
        for case in family:
            if not case.refused:
                found.setdefault(case.op, case)
    return found


@pytest.mark.parametrize("op", sorted(first_cases()))
def test_operators_are_copied_whole(op: str) -> None:
    _, before, after = everything(models.build(first_cases()[op]))
    assert_same(before, after)


def test_sparse_constants_and_other_subgraphs_are_copied_whole() -> None:
    made = models.Model()
    x = made.input("x", (1, 8))
    dense = np.arange(128, dtype="f4").reshape(16, 8) * (np.arange(8) % 4 == 0)
    stored = made.sparse(dense, sparse.encode(dense, blocks={1: 4}), "stored")
    weights = made.op("DENSIFY", [stored], "DensifyOptions", {}, shape=dense.shape)
    made.op("FULLY_CONNECTED", [x, weights, -1], "FullyConnectedOptions", {}, shape=(1, 16))
    for content in (made.to_bytes(), variable_models.in_a_branch(), variable_models.streaming()):
        _, before, after = everything(content)
        assert_same(before, after)


def compressed(kind: str) -> bytes:
    """Returns a model whose sparse constant lists places in items of this kind."""
    made, s = models.Model(), schema()
    x = made.input("x", (1, 8))
    dense = np.where(np.arange(128) % 3, np.arange(128, dtype="f4"), 0).reshape(16, 8)
    stored = made.sparse(dense, sparse.encode(dense, csr=[1]), "stored")
    weights = made.op("DENSIFY", [stored], "DensifyOptions", {}, shape=dense.shape)
    y = made.op("FULLY_CONNECTED", [x, weights, -1], "FullyConnectedOptions", {}, shape=(1, 16))
    made.output(y)
    whole = s.ModelT.InitFromPackedBuf(made.to_bytes())
    (level,) = (
        one for tensor in whole.subgraphs[0].tensors if tensor.sparsity
        for one in tensor.sparsity.dimMetadata if one.arraySegments
    )  # fmt: skip
    for name in ("arraySegments", "arrayIndices"):
        numbers = getattr(s, f"{kind}T")()
        numbers.values = [*getattr(level, name).values]
        setattr(level, name, numbers)
        setattr(level, f"{name}Type", getattr(s.SparseIndexVector, kind))
    return packed(whole)


def packed(whole: Any) -> bytes:
    flatbuffers = pytest.importorskip("flatbuffers")
    builder = flatbuffers.Builder(0)
    builder.Finish(whole.Pack(builder), b"TFL3")
    return bytes(builder.Output())


@pytest.mark.parametrize("kind", ["Uint8Vector", "Uint16Vector", "Int32Vector"])
def test_places_in_sparse_constants_are_copied_whole(kind: str) -> None:
    content = compressed(kind)
    copied, before, after = everything(content)
    assert_same(before, after)
    assert len(copied) <= len(content) + 400  # with no byte behind the lists
    if not hosts.installed():
        pytest.skip("no TFLite host")
    feed = [[np.ones((1, 8), "f4")]]
    found = [hosts.run_on_cpu(one, feed)[0][0] for one in (content, copied)]
    np.testing.assert_array_equal(*found)


def behind(values: Sequence[np.ndarray[Any, Any]]) -> bytes:
    """Returns a model of two convolutions whose constants are behind all tables, as in files of
    more than 2 GB."""
    made, s = flatbuffer.Model(), schema()
    x, y, z = (made.tensor(name, (1, 4, 4, 64)) for name in "xyz")
    weights = [made.tensor(name, each.shape, each) for name, each in zip("vw", values, strict=True)]
    bias = made.tensor("bias", (64,), np.zeros(64, "f4"))
    options = {"padding": flatbuffer.SAME, "stride_w": 1, "stride_h": 1, "multiplier": 1}
    made.operator("DEPTHWISE_CONV_2D", [x, weights[0], bias], [y], **options)
    made.operator("DEPTHWISE_CONV_2D", [y, weights[1], bias], [z], **options)
    whole = s.ModelT.InitFromPackedBuf(made.serialize([x], [z], "two"))
    data = {}
    for number, buffer in enumerate(whole.buffers):
        if buffer.data is not None:
            data[number], buffer.data = bytes(buffer.data), None
            buffer.offset, buffer.size = 2, 2  # so that the packed numbers have places
    size = len(packed(whole))
    content = bytearray()
    for number, each in data.items():
        buffer = whole.buffers[number]
        buffer.offset, buffer.size = size + len(content), len(each)
        content += each + bytes(-len(each) % 16)
    tables = packed(whole)
    assert len(tables) == size
    return tables + bytes(content)


def test_constants_behind_all_tables_are_copied() -> None:
    large = np.arange(64 * 9, dtype="f4").reshape(1, 3, 3, 64)
    content = behind([large, 2 * large])
    flatbuffer.require_model(content)
    second = flatbuffer_part.part(content, [1], [1], [2])
    flatbuffer.require_model(second)
    assert (large * 2).tobytes() in second and large.tobytes() not in second
    with pytest.raises(ValueError, match="damaged or cut short"):
        flatbuffer.require_model(content[:-64])
    with pytest.raises(ValueError, match="damaged or cut short"):
        flatbuffer_part.part(content[:-300], [0, 1], [0], [2])
    if not hosts.installed():
        pytest.skip("no TFLite host")
    x = np.random.default_rng(0).standard_normal((1, 4, 4, 64)).astype("f4")
    (whole,) = hosts.run_on_cpu(content, [[x]])[0]
    (middle,) = hosts.run_on_cpu(flatbuffer_part.part(content, [0], [0], [1]), [[x]])[0]
    (last,) = hosts.run_on_cpu(second, [[middle]])[0]
    np.testing.assert_array_equal(last, whole)


def test_constants_in_other_files_are_a_sentence() -> None:
    s = schema()
    made = flatbuffer.Model()
    x, y = made.tensor("x", (1, 4)), made.tensor("y", (1, 4))
    made.operator("SOFTMAX", [x], [y], beta=1.0)
    whole = s.ModelT.InitFromPackedBuf(made.serialize([x], [y], "one"))
    if not hasattr(whole.subgraphs[0].tensors[0], "externalBuffer"):
        pytest.skip("the schema has no constants in other files")
    whole.subgraphs[0].tensors[0].externalBuffer = 1
    with pytest.raises(ValueError, match="constants in other files"):
        flatbuffer_part.part(packed(whole), [0], [0], [1])


def test_a_part_of_a_tflite_model_has_no_values_of_others() -> None:
    made = flatbuffer.Model()
    x, y, z = (made.tensor(name, (1, 4, 4, 64)) for name in "xyz")
    large = np.arange(64 * 9, dtype="f4").reshape(1, 3, 3, 64)
    weights = [
        made.tensor(name, large.shape, large * scale) for name, scale in (("v", 1), ("w", 2))
    ]
    bias = made.tensor("bias", (64,), np.zeros(64, "f4"))
    options = {"padding": flatbuffer.SAME, "stride_w": 1, "stride_h": 1, "multiplier": 1}
    made.operator("DEPTHWISE_CONV_2D", [x, weights[0], bias], [y], **options)
    made.operator("DEPTHWISE_CONV_2D", [y, weights[1], bias], [z], **options)
    content = made.serialize([x], [z], "two")
    assert flatbuffer_part.operators(content) == [([0, 3, 5], [1]), ([1, 4, 5], [2])]
    second = flatbuffer_part.part(content, [1], [y], [z])
    assert flatbuffer_part.operators(second) == [([1, 4, 5], [2])]
    assert (large * 2).tobytes() in second and large.tobytes() not in second
    after = schema().ModelT.InitFromPackedBuf(second).subgraphs[0]
    assert ([*after.inputs], [*after.outputs]) == ([y], [z])


def test_a_damaged_tflite_model_is_a_sentence() -> None:
    made = flatbuffer.Model()
    x, y = made.tensor("x", (1, 4)), made.tensor("y", (1, 4))
    made.operator("SOFTMAX", [x], [y], beta=1.0)
    content = made.serialize([x], [y], "one")
    for take in (flatbuffer_part.operators, lambda data: flatbuffer_part.part(data, [0], [x], [y])):
        with pytest.raises(ValueError, match="damaged or cut short"):
            take(content[: len(content) // 2])


def loop() -> bytes:
    """Returns an ONNX model whose If reads `w` and `a` from inside its branches only."""
    onnx = pytest.importorskip("onnx")
    helper = onnx.helper
    port = helper.make_tensor_value_info("r", onnx.TensorProto.FLOAT, None)
    then = helper.make_graph([node("Add", ["a", "w"], ["r"])], "then", [], [port])
    other = helper.make_graph([], "other", [], [helper.make_tensor_value_info("a", 1, None)])
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("If", ["c"], ["y"], then_branch=then, else_branch=other),
        node("Mul", ["y", "v"], ["z"]),
    ]
    constants = {"w": np.full((2, 3), 5, "f4"), "v": np.full((2, 3), 7, "f4")}
    return model(nodes, {"x": (2, 3), "c": ()}, {"z": (2, 3)}, constants)


def test_a_part_of_an_onnx_model_has_what_its_branches_read(tmp_path: Path) -> None:
    content = loop()
    onnx = pytest.importorskip("onnx")
    relu, branch, mul = protobuf_part.nodes(content)
    assert relu == (["x"], ["a"]) and mul == (["y", "v"], ["z"])
    assert {*branch[0]} == {"c", "a", "w", "r"} and branch[1] == ["y"]
    made = protobuf_part.part(content, [1], {"a": (FLOAT, (2, 3)), "c": (9, ())}, ["y"], tmp_path)
    graph = onnx.load_from_string(made).graph
    assert [one.op_type for one in graph.node] == ["If"]
    assert [one.name for one in graph.initializer] == ["w"]
    assert [one.name for one in graph.output] == ["y"] and not graph.value_info
    kinds = [one.type.tensor_type for one in graph.input]
    assert [one.elem_type for one in kinds] == [FLOAT, 9]
    assert [[d.dim_value for d in one.shape.dim] for one in kinds] == [[2, 3], []]


@pytest.mark.parametrize("offset", [None, 64])
def test_constants_in_other_files_are_copied(tmp_path: Path, offset: int | None) -> None:
    onnx = pytest.importorskip("onnx")
    values = np.arange(6, dtype="f4").reshape(2, 3)
    made = onnx.load_from_string(model([node("Add", ["x", "w"], ["y"])], {"x": (2, 3)},
                                       {"y": (2, 3)}, {"w": values}))  # fmt: skip
    (weights,) = made.graph.initializer
    file = b"\xff" * (offset or 0) + values.tobytes()
    (tmp_path / "weights.bin").write_bytes(file + (b"\xff" * 8 if offset else b""))
    onnx.external_data_helper.set_external_data(
        weights, "weights.bin", offset, values.nbytes if offset else None
    )
    weights.ClearField("raw_data")
    copied = protobuf_part.part(
        made.SerializeToString(), [0], {"x": (FLOAT, (2, 3))}, ["y"], tmp_path
    )
    (found,) = onnx.load_from_string(copied).graph.initializer
    assert found.data_location == onnx.TensorProto.DEFAULT and not found.external_data
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(found), values)
