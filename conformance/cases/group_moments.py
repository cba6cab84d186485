"""Means of groups of channels: groups of whole slices and of parts of them, one channel, all."""

from __future__ import annotations

from conformance.cases import Case, Input
from conformance.node_cases import NodeCase

Shape = tuple[int, ...]
CASES: list[Case] = []


def both(name: str, shape: Shape, groups: int, refused: bool = False) -> list[NodeCase]:
    """Returns two node cases: the mean, and the mean square of differences from another tensor."""
    x, of = Input(shape, low=-2.0, high=3.0), {"groups": groups}
    centre = Input((shape[0], *(1,) * (len(shape) - 2), groups), low=-2.0, high=3.0)
    return [
        NodeCase(name, "mean_of_groups", (x,), of, terms=64, refused=refused),
        NodeCase(name, "mean_square_of_groups", (x, None, centre), of, terms=64, refused=refused),
    ]


NODES = [
    *(case for c, groups in ((12, 3), (12, 6), (20, 2), (9, 3), (5, 5), (7, 1), (60, 6))
      for case in both(f"{c}_channels_{groups}", (2, 5, 7, c), groups)),
    *both("line", (3, 40, 30), 3),
    *both("volume", (2, 3, 4, 5, 18), 3),
    *both("large", (1, 61, 67, 30), 3),
    *both("uneven", (2, 5, 7, 12), 5, refused=True),
    *both("no_image", (3, 8), 2, refused=True),
]  # fmt: skip
