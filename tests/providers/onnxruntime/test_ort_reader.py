"""Tests imported ONNX graphs without onnxruntime: what nodes, shapes and shape arithmetic
become."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.support.onnx_arithmetic import worked_out
from tflgpu_plugin import ops as internal
from tflgpu_plugin.importer import symbols
from tflgpu_plugin.importer.imported import Imported
from tflgpu_plugin.importer.importer import FIRST_EXTRA
from tflgpu_plugin.importer.model import HostNode, Value
from tflgpu_plugin.ir import verify
from tflgpu_plugin.providers.onnxruntime import ops
from tflgpu_plugin.providers.onnxruntime.grouping import Grouping
from tflgpu_plugin.providers.onnxruntime.reader import TABLE, read
from tflgpu_plugin.providers.onnxruntime.snapshot import Snapshot

Given = tuple[str, Sequence[str], Sequence[str], Mapping[str, Any]]


def snapshot(
    nodes: Sequence[Given],
    shapes: Mapping[str, Sequence[int | str] | None],
    constants: Mapping[str, Any] | None = None,
    versions: Mapping[str, int] | None = None,
    outputs: Sequence[str] = ("y",),
) -> Snapshot:
    """Returns a snapshot; values without a shape have unknown rank, and versions are the newest
    unless given."""
    values = {name: Value(name, "f32", None) for _, ins, outs, _ in nodes for name in (*ins, *outs)}
    for name, shape in shapes.items():
        values[name] = Value(name, "f32", None if shape is None else tuple(shape))
    for name, data in (constants or {}).items():
        array = np.asarray(data)
        kind = {"f": "f32", "i": "i64", "b": "bool"}[array.dtype.kind]
        values[name] = Value(name, kind, array.shape, array)
    return Snapshot(
        tuple(
            HostNode(
                k, op, "", _version(op, versions or {}), f"n{k}", tuple(ins), tuple(outs), (), a
            )
            for k, (op, ins, outs, a) in enumerate(nodes)
        ),
        values,
        tuple(outputs),
    )


def _version(op: str, versions: Mapping[str, int]) -> int:
    return versions.get(op, ops.HOST_OPS[op].versions[1] if op in ops.HOST_OPS else 13)


def one(
    op: str, shape: Sequence[int], *constants: Any, version: int = 0, **attributes: Any
) -> Imported:
    """Returns the import of a node whose first input has this shape."""
    names = [f"c{k}" for k in range(len(constants))]
    absent = {name for name, value in zip(names, constants, strict=True) if value is None}
    made = snapshot(
        [(op, ["x", *names], ["y"], attributes)],
        {"x": shape},
        {n: c for n, c in zip(names, constants, strict=True) if c is not None},
        {op: version} if version else None,
    )
    nodes = tuple(
        replace(node, inputs=tuple(None if n in absent else n for n in node.inputs))
        for node in made.nodes
    )
    return read(replace(made, nodes=nodes), {})


def result(reading: Imported) -> tuple[int, ...]:
    assert not reading.refusals, reading.refusals
    verify(reading.graph)
    return reading.graph.shape(reading.ids["y"])


F = np.float32


@pytest.mark.parametrize(
    ("reading", "expected"),
    [
        (one("Conv", (1, 3, 9, 8), np.ones((4, 3, 3, 3), F)), (1, 4, 7, 6)),
        (one("Conv", (1, 3, 9, 8), np.ones((4, 3, 3, 3), F), auto_pad=b"SAME_UPPER",
             strides=(2, 2)), (1, 4, 5, 4)),
        (one("Conv", (1, 4, 9), np.ones((4, 1, 3), F), group=4, pads=(1, 2)), (1, 4, 10)),
        (one("Conv", (2, 4, 9, 9), np.ones((6, 2, 3, 3), F), group=2, dilations=(2, 3)),
         (2, 6, 5, 3)),
        (one("ConvTranspose", (1, 3, 4, 5), np.ones((3, 2, 3, 3), F), strides=(2, 2),
             pads=(1, 1, 1, 1), output_padding=(1, 1)), (1, 2, 8, 10)),
        (one("ConvTranspose", (1, 3, 4, 5), np.ones((3, 2, 4, 4), F), strides=(2, 2),
             output_shape=(9, 11)), (1, 2, 9, 11)),
        (one("ConvTranspose", (1, 3, 4, 5), np.ones((3, 2, 4, 4), F), strides=(2, 2),
             output_shape=(1, 2, 9, 11)), (1, 2, 9, 11)),
        (one("MaxPool", (1, 3, 8, 8), kernel_shape=(3, 3), strides=(2, 2), ceil_mode=1),
         (1, 3, 4, 4)),
        (one("AveragePool", (1, 3, 8, 8), kernel_shape=(3, 3), pads=(1, 1, 1, 1),
             count_include_pad=1), (1, 3, 8, 8)),
        (one("AveragePool", (1, 3, 6), kernel_shape=(3,), strides=(2,), ceil_mode=1,
             count_include_pad=1, pads=(1, 1)), (1, 3, 4)),
        (one("MaxPool", (1, 3, 6, 7, 8), kernel_shape=(2, 2, 2), dilations=(2, 1, 1)),
         (1, 3, 4, 6, 7)),
        (one("Conv", (1, 2, 5, 6, 7), np.ones((3, 2, 3, 3, 3), F)), (1, 3, 3, 4, 5)),
        (one("ConvTranspose", (1, 4, 4, 5), np.ones((4, 3, 2, 2), F), group=2, dilations=(2, 1)),
         (1, 6, 6, 6)),
        (one("LRN", (1, 3, 4, 4), size=3), (1, 3, 4, 4)),
        (one("GlobalAveragePool", (2, 3, 8, 8)), (2, 3, 1, 1)),
        (one("Gemm", (4, 3), np.ones((3, 5), F), np.ones(5, F)), (4, 5)),
        (one("Gemm", (3, 4), np.ones((5, 3), F), transA=1, transB=1, alpha=0.5), (4, 5)),
        (one("MatMul", (2, 4, 3), np.ones((3, 5), F)), (2, 4, 5)),
        (one("Slice", (5, 6), [1, -1], [100, -100], [0, 1], [2, -2]), (2, 3)),
        (one("Slice", (5, 6), [-9], [-9], [0], [-1]), (1, 6)),
        (one("Slice", (5, 6), [9], [3], [0]), (0, 6)),
        (one("Slice", (5, 6), version=1, starts=(1,), ends=(-1,), axes=(1,)), (5, 4)),
        (one("Pad", (2, 3), [0, 1, 0, -1], F(5)), (2, 3)),
        (one("Pad", (2, 3), version=2, pads=(1, 0, 0, 2), value=0.5), (3, 5)),
        (one("Softmax", (2, 3, 4, 5), axis=1), (2, 3, 4, 5)),
        (one("Softmax", (2, 3, 4), version=11, axis=1), (2, 3, 4)),
        (one("ReduceMean", (2, 3, 4), version=13, axes=(-1,), keepdims=0), (2, 3)),
        (one("ReduceMean", (2, 3, 4), [0, 2]), (1, 3, 1)),
        (one("Unsqueeze", (2, 3), [0, -1]), (1, 2, 3, 1)),
        (one("Squeeze", (1, 2, 1), version=11), (2,)),
        (one("Reshape", (2, 3, 4), [0, -1]), (2, 12)),
        (one("Flatten", (2, 3, 4), axis=2), (6, 4)),
        (one("Transpose", (2, 3, 4)), (4, 3, 2)),
        (one("Clip", (2, 3), F(0), F(6)), (2, 3)),
        (one("Sum", (2, 3), np.ones((1, 3), F), np.ones((4, 1, 1), F)), (4, 2, 3)),
        (one("BatchNormalization", (2, 3, 4), *[np.ones(3, F)] * 4), (2, 3, 4)),
        (one("Identity", (2, 3)), (2, 3)),
        (one("Resize", (1, 3, 4, 5), None, np.array([1, 1, 2, 1.5], F)), (1, 3, 8, 7)),
        (one("Resize", (1, 3, 4, 5), None, np.array([], F), [1, 3, 7, 9]), (1, 3, 7, 9)),
        (one("Resize", (1, 4, 5, 3), None, None, [1, 7, 9, 3]), (1, 7, 9, 3)),
        (one("Resize", (1, 3, 4, 5), None, None, [8, 20], axes=(2, 3),
             keep_aspect_ratio_policy=b"not_larger"), (1, 3, 8, 10)),
        (one("Resize", (1, 3, 4, 5), np.array([1, 1, 2, 0.5], F), version=10, mode=b"linear"),
         (1, 3, 8, 2)),
        (one("Gather", (2, 3, 4), np.array([[0, -1]]), axis=1), (2, 1, 2, 4)),
        (one("DepthToSpace", (1, 8, 2, 3), blocksize=2, mode=b"CRD"), (1, 2, 4, 6)),
        (one("Expand", (2, 1), [3, 1, 4]), (3, 2, 4)),
        (one("Tile", (2, 3), [2, 1]), (4, 3)),
        (one("Split", (4, 3), version=11, split=(4,)), (4, 3)),
        (one("GroupNormalization", (2, 6, 4), np.ones(6, F), np.ones(6, F), num_groups=3),
         (2, 6, 4)),
        (one("Crop", (1, 3, 8, 9), border=(1, 2, 3, 4)), (1, 3, 2, 5)),
    ],
)  # fmt: skip
def test_nodes_are_read_with_their_shapes(reading: Imported, expected: tuple[int, ...]) -> None:
    assert result(reading) == expected


@pytest.mark.parametrize(
    ("reading", "sentence"),
    [
        (one("Nonsense", (2, 3)), "not in the table"),
        (one("Add", (2, 3), np.ones(3, F), version=6), "opset 6"),
        (one("Conv", (1, 3, 9, 8), np.ones((4, 2, 3, 3), F)), "do not match 1 groups"),
        (one("MaxPool", (1, 3, 9, 8), kernel_shape=(20, 3)), "output dimension is negative"),
        # An error of the host must not become an empty result, nor a cropped result a complete one.
        (one("Conv", (1, 3, 2, 8), np.ones((4, 3, 3, 3), F)), "is larger than its padded input"),
        (one("Conv", (1, 3, 0, 8), np.ones((4, 3, 1, 1), F)), "is larger than its padded input"),
        (
            one("MaxPool", (1, 3, 2, 8), kernel_shape=(3, 1), strides=(2, 1)),
            "Implementations disagree",
        ),
        (one("AveragePool", (1, 3, 0, 8), kernel_shape=(1, 1)), "may be empty"),
        (one("Reshape", (2, 3), [5, -1]), "do not fit"),
        (one("Softmax", (2, 3), axis=2), "Axis 2 is out of range"),
    ],
)
def test_what_cannot_be_read_gets_a_sentence(reading: Imported, sentence: str) -> None:
    (reason,) = reading.refusals.values()
    assert sentence in reason


@pytest.mark.parametrize(
    ("reading", "sentence"),
    [
        (one("Split", (), version=13), "an input of rank 1 or more"),
        (one("Unsqueeze", (2, 3), [1, -3]), "each named once"),
        (one("Unsqueeze", (2, 3), version=11), "each named once"),
        (one("ConvTranspose", (1, 3, 4, 5), np.ones((3, 2, 3, 3), F), output_padding=(1,)),
         "output_padding must be 2 numbers of at least 0"),
        (one("ConvTranspose", (1, 3, 4, 5), np.ones((3, 2, 3, 3), F), output_shape=(9,)),
         "output_shape must be 2 numbers of at least 0"),
        (one("LSTM", (4, 1, 3), np.ones((1, 8, 3), F), np.ones((1, 8, 2), F), None, None, None,
             None, np.ones((1, 5), F)), "matching shapes"),
        (one("Resize", (1, 1, 0, 2), None, None, [1, 1, 2, 2]), "sizes of an empty input"),
        (one("DequantizeLinear", (2, 3)), "Input 1 of DequantizeLinear is absent"),
        (one("DequantizeLinear", (2, 1, 3), np.ones(3, F)), "3 scales do not match axis 1"),
        (one("Resize", (1, 1, 2, 2), None, np.array([1, 1, 0, 2], F)), "a positive scale"),
    ],
)  # fmt: skip
def test_a_malformed_node_does_not_stop_the_reading(reading: Imported, sentence: str) -> None:
    """Each is refused separately, with what is missing."""
    (reason,) = reading.refusals.values()
    assert sentence in reason


@pytest.mark.parametrize(
    ("version", "extent", "parts"),
    [(13, 6, (2, 2, 2)), (13, 7, None), (13, 0, (0, 0, 0)), (18, 7, (3, 3, 1)), (18, 4, None)],
)
def test_equal_parts_are_those_of_the_host(
    version: int, extent: int, parts: tuple[int, ...] | None
) -> None:
    outputs = ("a", "b", "c")
    made = snapshot([("Split", ["x"], outputs, {})], {"x": (extent,)}, None, {"Split": version},
                    outputs)  # fmt: skip
    reading = read(made, {})
    if parts is None:
        assert "equal parts" in reading.refusals[0]
    else:
        assert tuple(reading.graph.shape(reading.ids[name])[0] for name in outputs) == parts


def test_every_row_leads_to_an_op() -> None:
    for name, form in ops.HOST_OPS.items():
        assert form.name == name and form.op in internal.rows() and form.build
        assert 1 <= form.versions[0] <= form.versions[1] <= 28


def test_inserted_nodes_name_their_source() -> None:
    reading = one("Conv", (1, 3, 9, 8), np.ones((4, 3, 3, 3), F))
    assert [node.op for node in reading.graph.nodes] == ["transpose", "conv_2d", "transpose"]
    assert all(node.sources == (0,) for node in reading.graph.nodes)
    assert [node.id for node in reading.graph.nodes] == [FIRST_EXTRA, FIRST_EXTRA + 1, 0]


def test_constants_are_transposed_here() -> None:
    weights = np.arange(2 * 3 * 2 * 2, dtype=F).reshape(2, 3, 2, 2)
    reading = one("Conv", (1, 3, 4, 4), weights)
    conv = reading.graph.nodes[1]
    held = reading.graph.constant(conv.inputs[1])
    np.testing.assert_array_equal(held, weights.transpose(0, 2, 3, 1))


CHAIN: list[Given] = [
    ("Relu", ["x"], ["a"], {}),
    ("Shape", ["a"], ["s"], {}),
    ("Gather", ["s", "zero"], ["n"], {}),
    ("Unsqueeze", ["n", "axes"], ["n1"], {}),
    ("Concat", ["n1", "rest"], ["t"], {"axis": 0}),
    ("Reshape", ["a", "t"], ["r"], {}),
    ("Tanh", ["r"], ["y"], {}),
]
CHAIN_CONSTANTS = {"zero": np.array(0), "axes": np.array([0]), "rest": np.array([-1])}


def chain(extra: Sequence[Given] = (), outputs: Sequence[str] = ("y",)) -> Snapshot:
    taken = snapshot([*CHAIN, *extra], {"x": ("n", 3, "w")}, CHAIN_CONSTANTS, outputs=outputs)
    integers = {n: replace(taken.values[n], dtype="i64") for n in ("s", "n", "n1", "t")}
    return replace(taken, values={**taken.values, **integers})


def test_shape_arithmetic_is_worked_out() -> None:
    for shape in ((2, 3, 5), (7, 3, 1)):
        reading = read(chain(), {"x": shape})
        assert result(reading) == (shape[0], 3 * shape[2])
        assert reading.arithmetic == {1, 2, 3, 4}


def test_open_extents_are_guessed() -> None:
    reading = symbols.import_dynamic(chain(), TABLE)
    assert reading.dynamic and reading.graph.shape(reading.ids["x"]) == (1, 3, 224)


def test_shape_arithmetic_goes_with_its_partition() -> None:
    taken = chain()
    reading = symbols.import_dynamic(taken, TABLE)
    grouping = Grouping(taken, reading, reading.dynamic)
    (group,) = grouping.group([node.id for node in reading.graph.nodes])
    assert grouping.members[frozenset(group)] == {0, 1, 2, 3, 4, 5, 6}
    part = grouping.extract(reading.graph, group)
    assert part.inputs == (reading.ids["x"],) and part.outputs == (reading.ids["y"],)


def test_shape_arithmetic_that_others_need_stays_out() -> None:
    """The arithmetic and, since shapes are dynamic, the nodes that need its result stay on the
    CPU."""
    taken = chain([("Nonsense", ["t"], ["z"], {})], outputs=("y", "z"))
    reading = symbols.import_dynamic(taken, TABLE)
    grouping = Grouping(taken, reading, reading.dynamic)
    kept = [node.id for node in reading.graph.nodes if node.id not in reading.refusals]
    members = {m for group in grouping.group(kept) for m in grouping.members[frozenset(group)]}
    assert 4 not in members and 5 not in members and 0 in members


def test_unknown_rank_is_refused() -> None:
    taken = snapshot([("Relu", ["x"], ["y"], {})], {"x": None})
    reading = symbols.import_dynamic(taken, TABLE)
    assert "only known when the model runs" in reading.refusals[0]


def test_a_contradiction_with_the_model_is_refused() -> None:
    taken = snapshot([("Relu", ["x"], ["y"], {})], {"x": (2, 3), "y": (2, 4)})
    assert "but the inputs give [2, 3]" in read(taken, {}).refusals[0]


def test_known_results_follow_the_operators() -> None:
    def run(op: str, *inputs: Any, version: int = 0, **attributes: Any) -> Any:
        names = tuple(f"i{k}" for k in range(len(inputs)))
        node = HostNode(0, op, "", version or _version(op, {}), "", names, ("o",), (), attributes)
        found = worked_out(node, [np.asarray(value) for value in inputs])
        assert found is not None, op
        return found[0].tolist()

    assert run("Div", [-7, 7], [2, 2]) == [-3, 3]
    assert run("Slice", [1, 2, 3, 4], [-1], [-9], [0], [-1]) == [4, 3, 2, 1]
    assert run("Slice", [1, 2, 3, 4], [-9], [-9], [0], [-1]) == [1]
    assert run("Slice", [1, 2, 3, 4], version=9, starts=(1,), ends=(3,)) == [2, 3]
    assert run("Cast", [1.9, -1.9], to=7) == [1, -1]
    assert run("Range", 1, 7, 2) == [1, 3, 5]
    assert run("Reshape", [[1, 2], [3, 4]], [0, 1, -1]) == [[[1, 2]], [[3, 4]]]
    assert run("ConstantOfShape", [2], value=np.array([7])) == [7, 7]
    assert run("Shape", np.zeros((2, 3, 4)), start=-2) == [3, 4]
    assert run("ReduceProd", [2, 3], [0], keepdims=0) == 6
    assert run("Squeeze", [[5]], [0]) == [5]
    assert run("Pad", [[2, 1]], [1, 0, 0, 2]) == [[0, 0, 0, 0], [2, 1, 0, 0]]
    assert run("Pad", [[2, 1]], [1, 2], 7, [-1]) == [[7, 2, 1, 7, 7]]
    assert run("Pad", [2, 1], version=2, pads=(0, 1)) == [2, 1, 0]


def test_too_large_a_result_is_not_shape_arithmetic() -> None:
    node = HostNode(0, "ConstantOfShape", "", 9, "", ("i",), ("o",))
    assert worked_out(node, [np.array([100, 100])]) is None
    node = HostNode(0, "Pad", "", 13, "", ("i", "p"), ("o",))
    assert worked_out(node, [np.array([1, 2]), np.array([0, 1 << 40])]) is None


def test_pads_of_shape_arithmetic() -> None:
    """Pads in any mode are evaluated as for run-time tensors."""
    node = HostNode(0, "Pad", "", 13, "", ("i", "p"), ("o",), (), {"mode": b"reflect"})
    given = [np.array([1, 2]), np.array([0, 1])]
    assert [a.tolist() for a in worked_out(node, given) or ()] == [[1, 2, 1]]
    constant = replace(node, attributes={"mode": b"constant"})
    assert [a.tolist() for a in worked_out(constant, given) or ()] == [[1, 2, 0]]
    cut = [given[0], np.array([0, -1])]
    assert [a.tolist() for a in worked_out(constant, cut) or ()] == [[1]]


def is_convex(taken: Snapshot, group: frozenset[int]) -> bool:
    """Whether no path leaves the group and comes back to it."""
    writer = {name: node.id for node in taken.nodes for name in node.writes}
    tainted: set[int] = set()  # outside, and after the group
    for node in taken.nodes:
        before = {writer[name] for name in node.reads if name in writer}
        if node.id in group:
            if before & tainted:
                return False
        elif before & (group | tainted):
            tainted.add(node.id)
    return True


@pytest.mark.parametrize("seed", range(40))
def test_groups_are_convex(seed: int) -> None:
    """The graphs are random, with unsupported nodes and shape arithmetic in between."""
    chance = random.Random(seed)
    nodes: list[Given] = []
    floats, shapes_ = ["x"], []
    for k in range(chance.randint(5, 40)):
        kind = chance.random()
        out = f"v{k}"
        if kind < 0.5:
            nodes.append(("Add", [chance.choice(floats), chance.choice(floats)], [out], {}))
            floats.append(out)
        elif kind < 0.65:
            nodes.append(("Nonsense", [chance.choice(floats)], [out], {}))
            floats.append(out)
        elif kind < 0.8 or not shapes_:
            nodes.append(("Shape", [chance.choice(floats)], [out], {}))
            shapes_.append(out)
        else:
            nodes.append(("Reshape", [chance.choice(floats), chance.choice(shapes_)], [out], {}))
            floats.append(out)
    shape: tuple[int | str, ...] = (2, 3) if seed % 2 else ("n", 3)
    known = {"x": shape} | {f: shape for f in floats[1:]}
    taken = snapshot(nodes, known, outputs=chance.sample(floats, min(2, len(floats))))
    for name in shapes_:
        assert isinstance(taken.values, dict)
        taken.values[name] = Value(name, "i64", (2,))
    reading = symbols.import_dynamic(taken, TABLE)
    verify(reading.graph)
    grouping = Grouping(taken, reading, reading.dynamic)
    kept = [node.id for node in reading.graph.nodes if node.id not in reading.refusals]
    seen: set[int] = set()
    for group in grouping.group(kept):
        members = grouping.members[frozenset(group)]
        assert is_convex(taken, members) and not members & seen
        seen |= members
        made = {n for node in taken.nodes if node.id in members for n in node.writes}
        outside = {n for node in taken.nodes if node.id not in members for n in node.reads}
        part = grouping.extract(reading.graph, group)
        wanted = made & (outside | set(taken.outputs))
        assert {reading.graph.tensors[t].name for t in part.outputs} == wanted
        verify(part)
