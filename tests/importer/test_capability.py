"""Tests the one place that decides support: versions, editions, types, shapes, quirks. Each refusal
is a sentence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from conformance.conditions import by_row, seen
from tests.support.one_add import add, ask, quantized
from tests.support.refused import code
from tflgpu_plugin.importer import row_conditions
from tflgpu_plugin.importer.support import Judge
from tflgpu_plugin.ir import FOLDED, Graph, Node, Refusal, Shape, Tensor
from tflgpu_plugin.options import Options
from tflgpu_plugin.providers.tflite import ops

# ---- versions and editions ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "edition", "claimed"),
    [
        (1, "all", True),
        (6, "all", True),
        (7, "all", False),
        (1, "documented", True),
        (2, "documented", False),
        (1, "documented-2019", True),
        (2, "documented-2019", False),
    ],
)
def test_versions(version: int, edition: str, claimed: bool) -> None:
    graph = add(version)
    own = row_conditions.version(seen(graph, graph.nodes[0]))
    reason = own or ask(graph, edition=edition)
    assert (reason is None) == claimed
    if reason:
        assert reason.startswith(f"This is version {version} of ADD. Version")


@pytest.mark.parametrize(("edition", "claimed"), [("all", True), ("documented", False)])
def test_shape_arithmetic_is_no_operation_but_no_listed_one(edition: str, claimed: bool) -> None:
    graph = add(dtype="i32")
    node = replace(graph.nodes[0], op=FOLDED, row=None)
    reason = ask(graph.with_nodes([node]), edition=edition)
    assert (reason is None) == claimed
    assert claimed or code(reason) == "option.capabilities"


def test_an_op_that_an_edition_does_not_list() -> None:
    graph = add()
    node = replace(graph.nodes[0], row=ops.HOST_OPS["MAXIMUM"], host_op="MAXIMUM", op="maximum")
    graph = replace(graph, nodes=(node,))
    assert ask(graph, edition="documented") is None
    reason = ask(graph, edition="documented-2019")
    assert reason == (
        "MAXIMUM is not listed in the 2019 edition of the GPU delegate documentation."
    )


@pytest.mark.parametrize("wrong", ["x", "y", "sum"])
def test_all_values_of_a_node_have_the_type_of_the_first(wrong: str) -> None:
    """Hosts give results this type, whatever the model file states."""
    graph = add()
    assert by_row(graph, graph.nodes[0]) is None
    k = [t.name for t in graph.tensors.values()].index(wrong)
    other = replace(graph, tensors={**graph.tensors, k: replace(graph.tensors[k], dtype="i8")})
    named, given = (wrong, "float32") if k else ("sum", "int8")
    held = "float32" if given == "int8" else "int8"
    assert by_row(other, other.nodes[0]) == (
        f"Tensor {named!r} holds {held} values in the model, but ADD computes {given} values, the "
        "type of its input."
    )


def parts(*dtypes: str) -> Graph:
    """Returns a graph of one SPLIT of x [2, 6] along its second axis."""
    tensors = {
        0: Tensor("x", (2, 6)),
        1: Tensor("axis", (), "i32", np.array(1, np.int32)),
        **{k: Tensor(f"part {k}", (2, 2), dtype) for k, dtype in enumerate(dtypes, 2)},
    }
    attributes = {"count": len(dtypes)}
    row, results = ops.HOST_OPS["SPLIT"], tuple(range(2, 2 + len(dtypes)))
    node = Node(0, "split", (0, 1), results, attributes, "parts", "SPLIT", 2, row)
    return Graph(tensors, (node,), (0,), results)


def test_each_of_any_number_of_results_has_the_type_of_the_input() -> None:
    right, wrong = parts("f32", "f32", "f32"), parts("f32", "f32", "i8")
    assert by_row(right, right.nodes[0]) is None
    reason = by_row(wrong, wrong.nodes[0])
    assert reason is not None and reason.startswith("Tensor 'part 4' holds int8 values")


def padded(shape: Shape = (2, 2), dtype: str = "i32", **more: Any) -> tuple[Graph, Node]:
    """Returns a graph of one PAD of x [3, 4]."""
    data = np.zeros(shape, np.int32)
    tensors = {0: Tensor("x", (3, 4)), 1: Tensor("n", shape, dtype, data), 2: Tensor("y", (3, 4))}
    node = Node(0, "pad", (0, 1), (2,), {}, "y", "PAD", 1, replace(ops.HOST_OPS["PAD"], **more))
    return Graph(tensors, (node,), (0,), (2,)), node


@pytest.mark.parametrize("shape", [(1, 2), (3, 2), (2, 1), (4,), (2, 2, 1)])
def test_hosts_look_at_the_shapes_of_what_tells_shapes(shape: Shape) -> None:
    assert by_row(*padded()) is None
    assert by_row(*padded(shape)) == (
        f"Input 1, 'n', has the shape {list(shape)}, which is not one that PAD takes."
    )


def told(op: str, kind: str, shape: Shape) -> str | None:
    """Returns the refusal of a node of x [3, 4] and a constant of zeros of this shape."""
    tensors = {0: Tensor("x", (3, 4)), 2: Tensor("y", (3, 4)),
               1: Tensor("n", shape, "i32", np.zeros(shape, np.int32))}  # fmt: skip
    node = Node(0, kind, (0, 1), (2,), {"activation": "none"}, "y", op, 1, ops.HOST_OPS[op])
    return by_row(Graph(tensors, (node,), (0,), (2,)), node)


@pytest.mark.parametrize(
    ("op", "kind", "right", "wrong"),
    [
        ("TRANSPOSE", "transpose", [(2,)], [(1,), (3,), (1, 2), ()]),
        ("TILE", "tile", [(2,)], [(1,), (3,), (2, 1)]),
        ("CUMSUM", "cumsum", [(), (1,), (1, 1)], [(2,), (0,), (1, 2)]),
    ],
)
def test_an_element_for_each_axis_or_one(
    op: str, kind: str, right: list[Shape], wrong: list[Shape]
) -> None:
    assert [told(op, kind, shape) for shape in right] == [None] * len(right)
    for shape in wrong:
        assert told(op, kind, shape) == (
            f"Input 1, 'n', has the shape {list(shape)}, which is not one that {op} takes."
        )


def test_small_int64_constants_are_held_as_int32() -> None:
    """They are int32 next to int64 values; no other types count as equal."""
    for one, other, right in (("i64", "i32", True), ("i32", "i64", True), ("i64", "f32", False),
                              ("i32", "bool", False), ("i32", "i16", False)):  # fmt: skip
        graph = add(dtype=one)
        graph = replace(graph, tensors={**graph.tensors, 1: Tensor("y", (2, 3), other)})
        assert (by_row(graph, graph.nodes[0]) is None) == right, (one, other)


@pytest.mark.parametrize(
    ("numbers", "right"),
    [
        ((0, 2**31 - 1), True), ((-(2**31), 0), True), ((0, 2**31), False),
        ((-(2**31) - 1, 0), False), ((-(2**40), 2**40), False), ((), True),
    ],
)  # fmt: skip
def test_constants_of_int64_are_in_the_range_of_int32(numbers: Shape, right: bool) -> None:
    data = np.array([*numbers, *[1] * (3 - len(numbers))] * 2, np.int64).reshape(2, 3)
    graph = add(dtype="i64")
    constant = replace(graph.tensors[1], data=data)
    reason = ask(replace(graph, tensors={**graph.tensors, 1: constant}))
    assert reason == (
        None if right else "The constant 'y' holds int64 numbers outside of the range of int32."
    )


@pytest.mark.parametrize(
    ("listed", "quantized_too", "version", "stored", "claimed"),
    [
        ((2, 3), (2, 4), 4, "i8", True), ((2, 3), (2, 4), 4, "f32", False),
        ((2, 3), (2, 4), 5, "i8", False), ((2, 3), (3, 4), 2, "i8", True),
        ((2, 5), (3, 4), 5, "i8", True), ((2, 3), (1, 3), 1, "i8", True),
        ((2, 3), (1, 3), 1, "f32", False), ((2, 3), (2, 4), 4, "dequantized", True),
        ((2, 3), (5, 6), 4, "i8", True), ((5, 6), (2, 3), 4, "i8", True),
    ],
)  # fmt: skip
def test_versions_of_quantized_tensors_are_further_ones(
    listed: tuple[int, int], quantized_too: tuple[int, int], version: int, stored: str,
    claimed: bool,
) -> None:  # fmt: skip
    """The tensors may be stored in 8 bits, or be constants that were and keep their
    quantization."""
    dtype = "i8" if stored == "i8" else "f32"
    graph = quantized(version, dtype) if stored != "f32" else add(version)
    row = ops.HOST_OPS["ADD"]
    held = replace(row, documented={**row.documented, "current": listed,
                                    "quantized": quantized_too})  # fmt: skip
    graph = graph.with_nodes([replace(graph.nodes[0], row=held)])
    reason = ask(graph, edition="documented")
    assert (reason is None) == claimed, reason


@pytest.mark.parametrize("rows_say", [True, False])
def test_bfloat16_is_for_rows_that_say_so(rows_say: bool) -> None:
    graph = add(dtype="bf16")
    node = replace(graph.nodes[0], row=replace(ops.HOST_OPS["ADD"], bfloat16=rows_say))
    reason = ask(graph.with_nodes([node]))
    assert ("the host has no CPU kernel of ADD" in (reason or "")) != rows_say


def test_parts_of_a_concatenation_may_have_no_elements() -> None:
    tensors = {k: Tensor(f"t{k}", shape) for k, shape in enumerate([(0, 3), (2, 3), (2, 3)])}
    node = Node(0, "concat", (0, 1), (2,), {"axis": 0, "activation": "none"}, "joined")
    assert ask(Graph(tensors, (node,), (0, 1), (2,))) is None


def test_a_row_has_conditions_of_its_own() -> None:
    """The first condition that fails is reported, after all conditions on tensors."""
    one, two = (lambda e, what=what: f"{what} {e.host.name}." for what in ("Not", "Never"))
    assert by_row(*padded(conditions=(one, two))) == "Not y."
    assert by_row(*padded((1, 2), conditions=(one,))) != "Not y."
    assert by_row(*padded(conditions=(lambda *_: None, two))) == "Never y."
    wrong = by_row(*padded(types=("f32",)))
    assert wrong == "Tensor 'n' holds int32 values; PAD is supported for float32."


@pytest.mark.parametrize(
    ("variable", "there", "reason"),
    [
        (True, True, None), (False, True, "The state 'c' is not a variable of the model."),
        (True, False, "Its state is absent."),
    ],
)  # fmt: skip
def test_what_is_kept_between_runs_is_a_variable(
    variable: bool, there: bool, reason: str | None
) -> None:
    tensors = {k: Tensor(name, (1, 4)) for k, name in enumerate(("x", "h", "w", "b", "c"))}
    for k in (1, 4):
        tensors[k] = replace(tensors[k], variable=variable or k == 1)
    tensors |= {k: Tensor("result", (1, 4)) for k in range(5, 9)}
    inputs = (0, 1, 2, 3, 4 if there else None)
    node = Node(0, "lstm_basic", inputs, (5, 6, 7, 8), {}, "y", "LSTM", 1, ops.HOST_OPS["LSTM"])
    found = by_row(Graph(tensors, (node,), (0,), (5,)), node)
    assert found == reason


# ---- types and shapes ---------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "name"), [("f64", "float64"), ("string",) * 2])
def test_types(dtype: str, name: str) -> None:
    assert ask(add(dtype=dtype)) == (
        f"Tensor 'sum' holds {name} values; ADD is supported for float32 or int32 or int64."
    )


def test_logical_and_is_for_bool() -> None:
    graph = add(dtype="bool")
    node = replace(graph.nodes[0], op="logical_and", host_op="LOGICAL_AND", row=None)
    assert ask(replace(graph, nodes=(node,))) is None


@pytest.mark.parametrize(
    ("shape", "wanted"),
    [((1,) * 9, "rank.too_large"), ((1, -1, 3), "dynamic.shape"), ((1,) * 8, None)],
)
def test_shapes(shape: Shape, wanted: str | None) -> None:
    assert code(ask(add(shape=shape))) == wanted


def test_what_has_no_elements() -> None:
    """A node with an empty result has nothing to compute; one with elements needs inputs with
    elements."""
    graph = add(shape=(1, 0, 3))
    assert ask(graph) is None
    tensors = {**graph.tensors, 1: Tensor("axes", (1,), "i32", np.array([1], np.int32))}
    tensors[2] = Tensor("mean", (1, 3))
    mean = replace(graph.nodes[0], op="mean", row=None, attributes={"keep_dims": False})
    reason = ask(replace(graph, tensors=tensors, nodes=(mean,)))
    assert reason == "Tensor 'x' has no elements: its shape is [1, 0, 3]."


@pytest.mark.parametrize("shape", [(), (1,), (2, 3), (1, 2, 3, 4), (1, 2, 3, 4, 5), (2,) * 8])
def test_ranks_that_are_supported(shape: Shape) -> None:
    assert ask(add(shape=shape)) is None


def test_an_output_shape_that_the_inputs_do_not_give() -> None:
    graph = add()
    tensors = dict(graph.tensors) | {2: Tensor("sum", (7, 3))}
    reason = ask(replace(graph, tensors=tensors))
    assert reason is not None and "Tensor 'sum' has shape [7, 3] in the model" in reason


def test_the_providers_sentence_comes_first() -> None:
    graph, refused = add(dtype="string"), {0: Refusal("operator.unknown", "No.")}
    assert Judge().reasons(graph, {}) and not Judge().reasons(graph, refused)
    for name in ("0", "sum", "ADD"):  # but for what the user leaves out
        found = Judge(options=Options(exclude=(name,))).reasons(graph, refused)
        assert [*map(code, found.values())] == ["option.excluded"]


def test_an_unknown_op() -> None:
    graph = add()
    node = replace(graph.nodes[0], op="fancy", host_op="FANCY", row=None)
    assert ask(replace(graph, nodes=(node,))) == "FANCY is not supported."


def test_a_defect_in_a_check_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    from tflgpu_plugin import ops as table

    def broken(*_: object) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.delenv("TFLGPU_DEBUG", raising=False)
    rows = dict(table.rows())
    rows["add"] = replace(rows["add"], refuse=broken)
    monkeypatch.setattr(table, "rows", lambda: rows)
    reason = ask(add())
    assert reason is not None and "ZeroDivisionError('oops')" in reason and "report" in reason


@pytest.mark.parametrize(
    ("extents", "reason"),
    [
        ((2, 5), None),
        ((-1, 3), None),
        ((2, 4), "parts of [2, 4] do not make up 2 of an extent of 7"),
        ((-1, 8), "parts of [-1, 8] do not make up 2 of an extent of 7"),
        ((-1, -1), "parts of [-1, -1] do not make up 2 of an extent of 7"),
        ((-2, 9), "parts of [-2, 9] do not make up 2 of an extent of 7"),
        ((2, 3, 2), "parts of [2, 3, 2] do not make up 2 of an extent of 7"),
        (None, "the extents of the parts must be constants"),
    ],
)
def test_parts_of_a_split(extents: tuple[int, ...] | None, reason: str | None) -> None:
    value = None if extents is None else np.array(extents, np.int32)
    tensors = {
        0: Tensor("x", (1, 7)), 1: Tensor("axis", (), "i32", np.array(1, np.int32)),
        2: Tensor("extents", (2,), "i32", value), 3: Tensor("a", (1, 4)), 4: Tensor("b", (1, 3)),
    }  # fmt: skip
    if extents == (2, 5):
        tensors |= {3: Tensor("a", (1, 2)), 4: Tensor("b", (1, 5))}
    node = Node(0, "split", (0, 1, 2), (3, 4), host_op="SPLIT_V")
    found = ask(Graph(tensors, (node,), (0,), (3, 4)))
    assert found == (None if reason is None else f"split cannot be planned: {reason}.")
