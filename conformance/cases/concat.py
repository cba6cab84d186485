"""CONCATENATION: each axis of each rank, channel offsets on and off the slice boundaries, many
inputs, constants."""

from __future__ import annotations

from typing import Any

from conformance.cases import Case, Input, constant, integers, seeded

Shape = tuple[int, ...]


def join(
    name: str,
    axis: int,
    *shapes: Shape,
    fixed: tuple[int, ...] = (),
    dtype: str = "f32",
    **more: Any,
) -> Case:
    """Returns a case; inputs at the positions in `fixed` are constants."""
    given = tuple(
        constant(seeded(*shape, seed=k)) if k in fixed else Input(shape, dtype)
        for k, shape in enumerate(shapes)
    )
    options = {"axis": axis, "fusedActivationFunction": "NONE"}
    return Case(
        name, "CONCATENATION", 1, given, "ConcatenationOptions", options, output_type=dtype, **more
    )


def channels(*extents: int, batch: int = 1) -> list[Shape]:
    return [(batch, 3, 5, extent) for extent in extents]


def pack(name: str, axis: int, count: int, shape: Shape, fixed: tuple[int, ...] = (),
         **more: Any) -> Case:  # fmt: skip
    given = tuple(
        constant(seeded(*shape, seed=k)) if k in fixed else Input(shape) for k in range(count)
    )
    options = {"valuesCount": count, "axis": axis}
    return Case(name, "PACK", 1, given, "PackOptions", options, **more)


CASES = [
    *(pack(f"axis_{axis}", axis, 3, (2, 5, 3)) for axis in range(-1, 3)),
    pack("rank_0", 0, 4, ()),
    pack("rank_1", 1, 5, (7,)),
    pack("rank_4", 4, 2, (2, 3, 5, 4)),
    pack("constants", 1, 3, (4, 6), fixed=(0, 2)),
    pack("one", 0, 1, (3, 4)),
    join("channels_quads", 3, *channels(4, 8, 4)),
    join("channels_last_odd", 3, *channels(8, 4, 5)),
    join("channels_first_odd", 3, *channels(3, 4)),
    join("channels_all_odd", 3, *channels(1, 3, 5, 17)),
    join("channels_within_a_quad", 3, *channels(1, 1, 1)),
    join("channels_fill_a_quad", 3, *channels(1, 2, 1)),
    join("channels_batch_3", 3, *channels(3, 6, batch=3)),
    join("channels_quads_batch_3", 3, *channels(8, 4, batch=3)),
    join("channels_negative_axis", -1, *channels(5, 2)),
    join("channels_after_a_quad", 3, *channels(4, 3, 4)),
    join("height", 1, (2, 3, 5, 5), (2, 1, 5, 5), (2, 4, 5, 5)),
    join("width", 2, (2, 3, 5, 5), (2, 3, 2, 5)),
    join("width_negative_axis", -2, (1, 3, 5, 8), (1, 3, 1, 8)),
    join("batch", 0, (1, 3, 5, 5), (2, 3, 5, 5)),
    join("maps_of_one", 3, (1, 1, 1, 5), (1, 1, 1, 3)),
    join("one_input", 3, (1, 3, 5, 5)),
    join("same_values_twice", 3, *channels(5, 5)),
    join("twelve_inputs", 3, *channels(*range(1, 13))),
    join("nine_inputs_quads", 3, *channels(*[4] * 9)),
    join("rank_1", 0, (5,), (3,), (1,)),
    join("rank_1_quads", 0, (4,), (8,), (3,)),
    join("rank_2_channels", 1, (3, 5), (3, 2)),
    join("rank_2_batch", 0, (3, 5), (2, 5)),
    join("rank_3_channels", 2, (3, 4, 5), (3, 4, 6)),
    join("rank_3_space", 1, (3, 4, 5), (3, 2, 5)),
    join("rank_3_batch", 0, (3, 4, 5), (1, 4, 5)),
    join("rank_5_last", 4, (2, 3, 2, 2, 3), (2, 3, 2, 2, 2)),
    join("rank_5_last_quads", 4, (2, 3, 2, 2, 4), (2, 3, 2, 2, 8)),
    join("rank_5_middle", 2, (2, 3, 2, 2, 3), (2, 3, 1, 2, 3)),
    join("rank_5_first", 0, (1, 3, 1, 1, 3), (2, 3, 1, 1, 3)),
    join("rank_5_first_quads", 0, (1, 3, 2, 2, 3), (1, 3, 2, 2, 3)),
    join("rank_5_tail", 3, (1, 3, 1, 2, 3), (1, 3, 1, 3, 3)),
    join("rank_8_middle", 4, (2, 1, 2, 3, 2, 1, 2, 3), (2, 1, 2, 3, 1, 1, 2, 3)),
    join("rank_8_last", 7, (2, 1, 2, 3, 2, 1, 2, 3), (2, 1, 2, 3, 2, 1, 2, 2)),
    join("constant_first", 3, *channels(3, 5), fixed=(0,)),
    join("constant_between", 3, *channels(4, 4, 4), fixed=(1,)),
    join("constant_rows", 1, (1, 3, 5, 5), (1, 1, 5, 5), fixed=(1,)),
    join("boxes", 1, (1, 1083, 4), (1, 600, 4), (1, 150, 4), (1, 54, 4), (1, 24, 4), (1, 6, 4)),
    join("scores", 1, (1, 1083, 7), (1, 600, 7), (1, 6, 7)),
    join("long", 1, (1, 66_000, 1, 3), (1, 5, 1, 3)),
    join("bool", 2, (2, 3, 5), (2, 3, 2), dtype="bool"),
]  # fmt: skip
CASES += integers(
    CASES,
    {"CONCATENATION": "i32 i64", "PACK": "i32 i64"},
    ("channels_all_odd", "channels_quads", "height", "boxes", "rank_5_middle", "constant_first",
     "axis_1", "constants"),
)  # fmt: skip
