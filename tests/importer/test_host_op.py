"""Tests rows of host operators: what they say of operands, and a node's inputs in the order of the
op."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from tflgpu_plugin.importer.imported import Table
from tflgpu_plugin.ir import ROLES, HostOp, Operand, ShapeRefusal, code_of, needs, operands, table

ROW = HostOp("Thing", "relu", (2, 5), operands=operands("value weights!? axis! index*?"))


def test_marks_of_operands() -> None:
    assert ROW.operands == (
        Operand("value"),
        Operand("weights", optional=True, constant=True),
        Operand("axis", constant=True),
        Operand("index", optional=True, repeated=True),
    )
    with pytest.raises(ValueError, match="'thing' is not a role"):
        operands("value thing?")


def test_what_a_row_knows_of_its_operands() -> None:
    assert ROW.constants == {1: "weights", 2: "axis"}
    assert ROW.indices == (3,) and ROW.deciding == (2,)
    assert ROW.taken == ("value", "weights", "axis", "index")
    assert replace(ROW, order=(2, 0)).taken == ("axis", "value")
    assert HostOp("X", "", (1, 1), operands=operands("value roi_or_factors!")).constants == {
        1: "roi or factors"
    }
    assert replace(ROW, operands=operands("value axis mask!")).planned == {1: "axis", 2: "mask"}


def test_roles() -> None:
    """Roles name operands that decide shapes, that must have the host's shape, and that are
    integers."""
    assert {name for name, role in ROLES.items() if role.integer} == {"index", "mask"}
    decides = {name for name, role in ROLES.items() if role.decides}
    assert decides == {
        *("shape", "axes", "count", "split", "steps", "crops", "pads", "roi_or_factors", "starts"),
        *("ends", "size", "sizes", "begin", "end", "strides", "block", "start", "length", "order"),
        *("repeats", "axis", "paddings", "factors", "first", "limit", "delta"),
        *("extents", "keys", "kernel", "ratio", "training_mode"),
    }
    assert {name for name, role in ROLES.items() if role.typed} == {"value", "slope", "updates"}
    assert {name for name, role in ROLES.items() if role.clamps} == {"starts", "ends", "steps"}
    assert {name: role.extents for name, role in ROLES.items() if role.extents} == {
        "channel_bias": "list", "padding_value": "one", "axis": "one", "paddings": "pairs",
        "threshold": "one",
        **dict.fromkeys(("size", "sizes", "split", "begin", "end", "strides", "block"), "list"),
        **dict.fromkeys(("start", "length", "order", "repeats"), "axes"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("inputs", "arranged"),
    [
        ((7, 8, 9), (7, 8, 9, None)),
        ((7, None, 9, 10), (7, None, 9, 10)),
        ((7, None, 9, 10, 11, 12), (7, None, 9, 10, 11, 12)),
        ((7, 8, None, None, None, None), (7, 8, None, None)),
    ],
)
def test_inputs_are_arranged(inputs: tuple[int | None, ...], arranged: tuple[int, ...]) -> None:
    assert ROW.arranged(inputs) == arranged


def test_inputs_in_another_order() -> None:
    row = HostOp("Thing", "relu", (1, 1), operands=operands("axis! value bias?"), order=(1, 0))
    assert row.arranged((4, 5)) == (5, 4) == row.arranged((4, 5, 6))
    assert row.arranged((4,)) == (None, 4) and row.arranged(()) == (None, None)
    assert HostOp("Nothing", "relu", (1, 1)).arranged(()) == ()
    many = HostOp("Sum", "add", (1, 1), operands=operands("value*"))
    assert many.arranged((1, 2, 3)) == (1, 2, 3) and many.arranged((1,)) == (1,)


def test_inputs_that_lack_something() -> None:
    row = HostOp("Thing", "relu", (1, 1), operands=operands("axis! value bias?"), order=(1, 0))
    assert row.lacking((4, 5)) is row.lacking((4, 5, None)) is row.lacking((4, 5, 6)) is None
    more = row.lacking((4, 5, 6, 7))
    assert more == "4 inputs are more than the 3 that are supported."
    assert row.lacking((4, 5, None, None, None)) is None, "the host may write absent ones"
    assert row.lacking((4,)) == "Input 1 of Thing is absent."
    assert row.lacking((None, 5)) == "Input 0 of Thing is absent."
    assert HostOp("Nothing", "relu", (1, 1)).lacking(()) is None
    many = HostOp("Sum", "add", (1, 1), operands=operands("value value*"))
    assert many.lacking((1, 2, 3)) is many.lacking((1, 2)) is None
    assert many.lacking((1,)) == "Input 1 of Sum is absent."
    assert many.lacking((1, 2, None)) == "Input 2 of Sum is absent."
    assert HostOp("Max", "add", (1, 1), operands=operands("value*")).lacking(()) is not None


def test_more_inputs_may_have_a_row_of_their_own() -> None:
    longer = HostOp("Thing", "elu", (1, 1), operands=operands("value value value?"))
    row = HostOp("Thing", "relu", (1, 1), operands=operands("value value"), longer=longer)
    assert [row.form(k).op for k in (1, 2, 3, 4)] == ["relu", "relu", "elu", "elu"]
    assert longer.form(9) is longer


def test_what_is_needed_is_said_once() -> None:
    node = SimpleNamespace(row=ROW)
    one = needs("shape.unsupported", "A pair.", lambda e: e.count == 2)
    assert one.__doc__ == "A pair." and one(SimpleNamespace(row=ROW, count=2)) is None
    assert one(SimpleNamespace(row=ROW, count=3)) == "Thing needs a pair."
    lacking = needs("input.unsupported", "No pairs.", lambda node: False)(node)
    assert lacking == "Thing with pairs is not supported."
    assert code_of(str(lacking)) == "other" and lacking.code == "input.unsupported"
    said = needs("shape.empty", "A pair.", lambda node: False, "{0} has none.", ShapeRefusal)(node)
    assert (
        said == "Thing has none." and isinstance(said, ShapeRefusal) and said.code == "shape.empty"
    )


def test_a_table_has_each_row_once_and_ops_that_there_are() -> None:
    assert list(table([ROW])) == ["Thing"]
    with pytest.raises(ValueError, match="Thing has two rows"):
        table([ROW, ROW])
    longer = replace(ROW, op="add", longer=replace(ROW, op="nonsense"))
    with pytest.raises(ValueError, match="becomes 'nonsense', which is not an op"):
        Table(table([longer]))
