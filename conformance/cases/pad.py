"""PAD, PADV2, MIRROR_PAD, DILATE, STABLEHLO_PAD: each axis alone, whole and broken channel
slices, values, ranks 1 to 6."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from conformance.cases import Case, Input, constant, integers
from conformance.node_cases import NodeCase

Pairs = Sequence[tuple[int, int]]


def pad(
    name: str, shape: tuple[int, ...], paddings: Pairs, value: float | None = None, **more: Any
) -> Case:
    """Returns a case of PAD, or of PADV2 if there is a value."""
    given = [Input(shape), constant(np.array(paddings, np.int32).reshape(-1, 2), "i32")]
    version = 4 if len(shape) > 4 else 1
    if value is None:
        return Case(name, "PAD", version, tuple(given), "PadOptions", {}, **more)
    given.append(constant(np.float32(value)))
    return Case(name, "PADV2", version, tuple(given), "PadV2Options", {}, **more)


def space(height: tuple[int, int], width: tuple[int, int]) -> Pairs:
    return [(0, 0), height, width, (0, 0)]


def mirror(name: str, shape: tuple[int, ...], paddings: Pairs, mode: str) -> Case:
    given = (Input(shape), constant(np.array(paddings, np.int32).reshape(-1, 2), "i32"))
    return Case(name, "MIRROR_PAD", 1, given, "MirrorPadOptions", {"mode": mode})


def dilate(name: str, shape: tuple[int, ...], *steps: int, value: float = 0.0) -> Case:
    made = tuple((n - 1) * k + 1 for n, k in zip(shape, steps, strict=True))
    given = (Input(shape), constant(steps, "i32"), constant(np.float32(value)))
    return Case(name, "DILATE", 1, given, "DilateOptions", {}, shapes=(made,))


def stablehlo(
    name: str, shape: tuple[int, ...], paddings: Pairs, value: float = 0.0,
    inside: tuple[int, ...] = (), **more: Any,
) -> Case:  # fmt: skip
    """Returns the same as a case of STABLEHLO_PAD, with parameters."""
    low, high = zip(*paddings, strict=True)
    options = {"edgePaddingLow": list(low), "edgePaddingHigh": list(high),
               "interiorPadding": list(inside or [0] * len(shape))}  # fmt: skip
    given = (Input(shape), constant(np.float32(value)))
    return Case(name, "STABLEHLO_PAD", 1, given, "StablehloPadOptions", options, **more)


CASES = [
    stablehlo("stablehlo_space", (1, 5, 7, 8), space((1, 0), (2, 3))),
    stablehlo("stablehlo_every_axis", (2, 3, 5, 5), [(1, 1), (2, 0), (0, 2), (1, 2)], -2.5),
    stablehlo("stablehlo_rank_1", (5,), [(3, 2)], 1.5),
    stablehlo("stablehlo_rank_6", (2, 1, 3, 2, 1, 5), [(0, 1)] * 6, 1.5),
    stablehlo("stablehlo_nothing", (3, 5), [(0, 0)] * 2),
    stablehlo("stablehlo_cut", (3, 5), [(0, 0), (-1, 2)], refused=True),
    stablehlo("stablehlo_between", (3, 5), [(0, 0)] * 2, 0.0, (0, 1), refused=True),
    pad("space", (1, 5, 7, 8), space((1, 1), (1, 1))),
    pad("space_odd_batch_3", (3, 5, 7, 5), space((2, 0), (0, 3))),
    pad("space_three_channels", (1, 5, 7, 3), space((0, 1), (0, 1))),
    pad("from_1x1", (1, 1, 1, 17), space((3, 2), (1, 4))),
    pad("batch", (2, 3, 3, 5), [(1, 2), (0, 0), (0, 0), (0, 0)]),
    pad("channels_after", (1, 3, 5, 5), [(0, 0), (0, 0), (0, 0), (0, 6)]),
    pad("channels_before", (1, 3, 5, 5), [(0, 0), (0, 0), (0, 0), (3, 0)]),
    pad("channels_before_a_quad", (1, 3, 5, 5), [(0, 0), (0, 0), (0, 0), (4, 0)]),
    pad("channels_quads", (2, 3, 5, 8), [(0, 0), (0, 0), (0, 0), (8, 4)]),
    pad("residual_channels", (1, 4, 4, 3), [(0, 0), (0, 0), (0, 0), (0, 5)]),
    pad("every_axis", (2, 3, 5, 5), [(1, 1), (2, 0), (0, 2), (1, 2)]),
    pad("every_axis_quads", (2, 3, 5, 5), [(1, 0), (2, 1), (0, 2), (4, 3)]),
    pad("nothing", (1, 3, 5, 5), [(0, 0)] * 4),
    pad("rank_1", (5,), [(3, 2)]),
    pad("rank_1_quad", (8,), [(4, 4)]),
    pad("rank_2", (3, 5), [(1, 0), (2, 3)]),
    pad("rank_2_quad", (3, 5), [(1, 0), (4, 3)]),
    pad("rank_3", (3, 5, 7), [(1, 0), (0, 2), (3, 3)]),
    pad("rank_3_space", (3, 5, 7), [(0, 0), (1, 2), (0, 0)]),
    pad("rank_5", (2, 3, 2, 2, 3), [(0, 1), (1, 0), (0, 0), (2, 1), (1, 1)]),
    pad("long", (1, 65_537, 1, 1), space((1, 2), (0, 0))),
    pad("value_space", (1, 5, 7, 5), space((1, 1), (2, 1)), 2.5),
    pad("value_channels", (1, 3, 5, 5), [(0, 0), (0, 0), (0, 0), (4, 3)], -1.5),
    pad("value_zero", (1, 3, 5, 5), [(0, 0), (0, 0), (0, 0), (4, 3)], 0.0),
    pad("value_infinite", (1, 3, 5, 5), space((1, 1), (1, 1)), -np.inf),
    pad("value_rank_5", (2, 3, 2, 2, 3), [(0, 1), (1, 0), (0, 0), (2, 1), (1, 1)], 7.0),
    *(mirror(f"{mode.lower()}_space", (1, 6, 7, 5), space((2, 1), (0, 3)), mode)
      for mode in ("REFLECT", "SYMMETRIC")),
    mirror("reflect_rank_2", (5, 9), [(1, 0), (2, 3)], "REFLECT"),
    mirror("reflect_channels", (2, 3, 3, 6), [(0, 0), (0, 0), (0, 0), (2, 1)], "REFLECT"),
    mirror("symmetric_batch", (3, 2, 2, 4), [(1, 1), (0, 0), (0, 0), (0, 0)], "SYMMETRIC"),
    mirror("nothing", (1, 3, 3, 4), space((0, 0), (0, 0)), "REFLECT"),
    dilate("space", (1, 4, 5, 8), 1, 2, 3, 1),
    dilate("space_odd_batch_3", (3, 4, 5, 5), 1, 3, 2, 1, value=-1.5),
    dilate("channels", (1, 3, 2, 5), 1, 1, 1, 2),
    dilate("every_axis", (2, 3, 2, 5), 2, 3, 1, 4, value=2.5),
    dilate("nothing", (2, 3, 2, 5), 1, 1, 1, 1, value=3.0),
    dilate("rank_1", (7,), 5),
    dilate("rank_2", (3, 5), 2, 1, value=np.inf),
    dilate("rank_5", (2, 1, 3, 2, 3), 2, 3, 1, 2, 1),
    dilate("one_element", (1, 1), 4, 4),
]  # fmt: skip
CASES += integers(
    CASES, dict.fromkeys(("PAD", "PADV2", "MIRROR_PAD", "DILATE", "STABLEHLO_PAD"), "i32 i64")
)

NODES = [
    *(NodeCase(f"{mode}_{name}", "pad", (Input(shape), constant(amounts, "i32"), None),
               {"mode": mode})
      for mode in ("reflect", "symmetric", "edge", "wrap")
      for name, shape, amounts in (
          ("image", (2, 5, 7, 5), ((0, 0), (2, 1), (3, 4), (0, 0))),
          ("channels", (2, 5, 7, 5), ((0, 0), (0, 0), (0, 0), (2, 3))),
          ("row", (9,), ((3, 2),)),
          ("nothing", (3, 4), ((0, 0), (0, 0))))),
    *(NodeCase(f"rank_8_{mode}", "pad", (Input((2, 3, 1, 2, 2, 1, 3, 5)), constant(
               ((0, 0), (0, 0), (0, 0), (1, 1), (0, 0), (0, 0), (0, 0), (2, 1)), "i32"), None),
               {"mode": mode}) for mode in ("constant", "edge")),
    *(NodeCase(f"dilated_{name}", "dilate", (Input(shape), constant(steps, "i32"),
               constant(np.float32(value))))
      for name, shape, steps, value in (
          ("image", (2, 5, 7, 5), (1, 2, 3, 1), 0.0),
          ("every_axis", (2, 3, 2, 5), (2, 3, 1, 4), -1.5),
          ("nothing", (3, 4), (1, 1), 2.0))),
    NodeCase("too_wide", "pad", (Input((3, 4)), constant(((3, 0), (0, 0)), "i32"), None),
             {"mode": "reflect"}, refused=True),
]  # fmt: skip
