"""Rows of host operators: what their operands say, and a node's inputs in the order of the op."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tflgpu_plugin.errors import Unsupported
from tflgpu_plugin.ir.host_op import ROLES, HostOp, Operand, operands, table

ROW = HostOp("Thing", "relu", (2, 5), operands=operands("value weights!? axis! index*?"))


def test_marks_of_operands() -> None:
    assert ROW.operands == (
        Operand("value"),
        Operand("weights", optional=True, constant=True),
        Operand("axis", constant=True),
        Operand("index", optional=True, repeated=True),
    )
    with pytest.raises(ValueError, match="'thing' is no role"):
        operands("value thing?")


def test_what_a_row_knows_of_its_operands() -> None:
    assert ROW.constants == {1: "weights", 2: "axis"}
    assert ROW.indices == (3,) and ROW.deciding == (2,)
    assert ROW.taken == ("value", "weights", "axis", "index")
    assert replace(ROW, order=(2, 0)).taken == ("axis", "value")
    assert HostOp("X", "", (1, 1), operands=operands("value roi_or_scales!")).constants == {
        1: "roi or scales"
    }


def test_roles() -> None:
    """What decides shapes, what the host demands of its own shape, and whole numbers."""
    assert {name for name, role in ROLES.items() if role.whole} == {"index", "mask"}
    decides = {name for name, role in ROLES.items() if role.decides}
    assert decides == {
        *("shape", "axes", "count", "split", "steps", "crops", "pads", "roi_or_scales", "starts"),
        *("ends", "size", "sizes", "begin", "end", "strides", "block", "start", "length", "order"),
        *("repeats", "axis", "paddings"),
    }
    assert {name: role.extents for name, role in ROLES.items() if role.extents} == {
        "channel_bias": "list", "padding_value": "one", "axis": "one", "paddings": "pairs",
        **dict.fromkeys(("size", "sizes", "begin", "end", "strides", "block"), "list"),
        **dict.fromkeys(("start", "length", "order", "repeats"), "axes"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("inputs", "arranged"),
    [
        ((7, 8, 9), (7, 8, 9, None)),
        ((7, None, 9, 10), (7, None, 9, 10)),
        ((7, None, 9, 10, 11, 12), (7, None, 9, 10, 11, 12)),
    ],
)
def test_inputs_are_arranged(inputs: tuple[int | None, ...], arranged: tuple[int, ...]) -> None:
    assert ROW.arranged(inputs) == arranged


def test_inputs_in_another_order() -> None:
    row = HostOp("Thing", "relu", (1, 1), operands=operands("axis! value bias?"), order=(1, 0))
    assert row.arranged((4, 5)) == (5, 4) == row.arranged((4, 5, 6))
    with pytest.raises(Unsupported, match="4 inputs are more than the 3"):
        row.arranged((4, 5, 6, 7))
    with pytest.raises(Unsupported, match="Input 1 of Thing is absent"):
        row.arranged((4,))
    with pytest.raises(Unsupported, match="Input 0 of Thing is absent"):
        row.arranged((None, 5))
    assert HostOp("Nothing", "relu", (1, 1)).arranged(()) == ()
    many = HostOp("Sum", "add", (1, 1), operands=operands("value*"))
    assert many.arranged((1, 2, 3)) == (1, 2, 3) and many.arranged((1,)) == (1,)
    with pytest.raises(Unsupported, match="Input 0 of Sum is absent"):
        many.arranged(())


def test_a_table_has_each_row_once_and_ops_that_there_are() -> None:
    other = replace(ROW, variant="full")
    assert list(table([ROW, other], {"relu": None})) == ["Thing", "Thing (full)"]
    with pytest.raises(ValueError, match="Thing has two rows"):
        table([ROW, ROW], {"relu": None})
    with pytest.raises(ValueError, match="becomes 'relu', which is no op"):
        table([ROW], {})
    assert table([replace(ROW, op="")], {})
