"""DYNAMIC_UPDATE_SLICE: parts on each axis and on several, starts outside; batches as nodes, also
with nothing after the part."""

from __future__ import annotations

from typing import Any

from conformance.cases import Case, Input, constant, integers
from conformance.node_cases import NodeCase

Shape = tuple[int, ...]


def part(name: str, shape: Shape, update: Shape, starts: Any = None, dtype: str = "f32") -> Case:
    """Returns a case whose starts are given at run time, some before the first element and some too
    near the last one."""
    told = Input((len(shape),), "i32", low=-2, high=max(shape) + 2)
    given = (Input(shape, dtype), Input(update, dtype), constant(starts, "i32") if starts else told)
    return Case(name, "DYNAMIC_UPDATE_SLICE", 1, given, "DynamicUpdateSliceOptions", {},
                output_type=dtype)  # fmt: skip


CASES = [
    *(
        part(f"axis_{k}", (3, 4, 5, 6), (*(3, 4, 5, 6)[:k], 2, *(3, 4, 5, 6)[k + 1 :]))
        for k in range(4)
    ),
    part("every_axis", (3, 4, 5, 6), (2, 1, 3, 4)),
    part("two_axes", (3, 4, 5, 8), (3, 2, 5, 3)),
    part("whole", (3, 5), (3, 5)),
    part("rank_1", (300,), (70,)),
    part("rank_5", (2, 3, 2, 3, 5), (2, 1, 2, 2, 5)),
    part("constant", (6, 5), (2, 5), (3, 0)),
    part("constant_outside", (6, 5), (2, 3), (5, -3)),
    part("bool", (4, 5), (2, 2), dtype="bool"),
]
CASES += integers(CASES, {"DYNAMIC_UPDATE_SLICE": "i32 i64"}, ("every_axis", "axis_2"))


def batches(name: str, shape: Shape, count: int, axis: int, **more: Any) -> NodeCase:
    update = (*shape[:axis], count, *shape[axis + 1 :])
    starts = Input(shape[:1], "i32", low=-3, high=shape[axis] + 3)
    refused = bool(more.pop("refused", False))
    given = (Input(shape), Input(update), starts)
    return NodeCase(name, "update_slice", given, {"axis": axis, **more}, refused=refused)


def heads(name: str, shape: Shape, length: int, **more: Any) -> NodeCase:
    """Returns a case whose updates have their heads side by side."""
    batch, count, positions, depth = shape
    starts = Input((batch,), "i32", low=-3, high=positions + 3)
    given = (Input(shape), Input((batch, length, count * depth)), starts)
    refused = bool(more.pop("refused", False))
    attributes = {"axis": 2, "heads": count, **more}
    return NodeCase(name, "update_slice", given, attributes, refused=refused)


NODES = [
    *(batches(f"{name}_axis_{axis}", (3, 4, 5, 6), 3, axis, circular=name == "circular")
      for axis in (1, 2, 3) for name in ("linear", "circular")),
    *(batches(f"ends_axis_{axis}", (3, 4, 5, 6), 2, axis, ends=True) for axis in (1, 2, 3)),
    batches("ends_one", (3, 4, 70, 8), 1, 2, ends=True),
    batches("whole_circles", (3, 4, 5), 5, 2, circular=True),
    batches("rank_2", (3, 9), 4, 1),
    batches("rank_6", (2, 2, 1, 3, 2, 5), 2, 3, circular=True),
    *(heads(f"heads_{length}", (2, 3, 9, 8), length, ends=length == 1) for length in (1, 4)),
    heads("heads_ends", (2, 2, 70, 12), 5, ends=True),
    heads("heads_of_few_values", (2, 3, 9, 6), 4, refused=True),
    batches("of_the_batch", (3, 4), 2, 0, refused=True),
    NodeCase("too_large", "update_slice", (Input((3, 4)), Input((4, 4)), Input((2,), "i32")),
             refused=True),
]  # fmt: skip
