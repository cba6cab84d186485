"""Sequences in reverse: every pair of axes, lengths of 0, 1 and all steps, and lengths that are
inputs of the run."""

from __future__ import annotations

from collections.abc import Sequence

from conformance.cases import Case, Input, constant, integers
from conformance.node_cases import NodeCase

Shape = tuple[int, ...]


def case(name: str, shape: Shape, axes: tuple[int, int], lengths: Sequence[int]) -> NodeCase:
    batch, time = axes
    reads = (Input(shape), constant(tuple(lengths), "i32"))
    return NodeCase(name, "reverse_sequence", reads, {"batch_axis": batch, "time_axis": time})


def host(name: str, shape: Shape, axes: tuple[int, int], lengths: Sequence[int] | None,
         dtype: str = "i32") -> Case:  # fmt: skip
    """Returns a case of the host's operator; without constant lengths they are given at run
    time."""
    batch, time = axes
    told = Input((shape[batch],), dtype, low=0, high=shape[time])
    given = told if lengths is None else constant(tuple(lengths), dtype)
    options = {"seqDim": time, "batchDim": batch}
    table = "ReverseSequenceOptions"
    return Case(name, "REVERSE_SEQUENCE", 1, (Input(shape), given), table, options)


CASES = [
    host("rank_3", (2, 7, 5), (0, 1), (7, 3)),
    host("rank_4", (3, 4, 5, 6), (0, 2), (5, 0, 2), "i64"),
    host("steps_first", (9, 3, 4), (1, 0), (9, 4, 1)),
    host("channels", (3, 4, 6), (0, 2), (6, 5, 1)),
    host("lengths_of_a_run", (4, 9, 5), (0, 1), None),
    host("lengths_of_a_run_64", (4, 9, 5), (0, 1), None, "i64"),
    host("rank_5", (2, 3, 4, 2, 5), (0, 2), (4, 3)),
]
CASES += integers(CASES, {"REVERSE_SEQUENCE": "i32 i64"})
NODES = [
    *(case(f"axes_{b}_{t}", (3, 4, 5, 6), (b, t), [0, 1, 2, 3, 3, 1][: (3, 4, 5, 6)[b]])
      for b in range(4) for t in range(4) if b != t),
    case("rank_2", (3, 9), (0, 1), (9, 4, 0)),
    case("rank_2_steps_first", (9, 3), (1, 0), (9, 4, 1)),
    case("rank_3", (2, 7, 5), (0, 1), (7, 3)),
    case("rank_5", (2, 3, 4, 2, 5), (1, 3), (2, 0, 1)),
    case("rank_6", (2, 3, 2, 2, 2, 5), (5, 1), (3, 2, 1, 0, 3)),
    case("negative_axes", (3, 9, 4), (-3, -2), (9, 8, 7)),
    case("more_than_a_group", (2, 300, 7), (0, 1), (300, 299)),
    NodeCase("bools", "reverse_sequence", (Input((3, 9, 4), "bool"), constant((9, 2, 5), "i32")),
             {"batch_axis": 0, "time_axis": 1}, output_type="bool"),
    NodeCase("too_few_lengths", "reverse_sequence", (Input((3, 4, 5)), constant((1, 2), "i32")),
             {"batch_axis": 0, "time_axis": 1}, refused=True),
]  # fmt: skip
