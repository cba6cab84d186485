"""Tests the kernels that GPUs take for weights in blocks and for quantization over a range, on an
adapter that may be a software one: teams of 8 to 64 threads, words that are loaded at once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from conformance.node_cases import NodeCase, examine, family_nodes, graph
from tflgpu_plugin.ir import Target
from tflgpu_plugin.ops.lowering import Lowering
from tflgpu_plugin.ops.matmul_blocks import FORMS
from tflgpu_plugin.runtime import adapter

CASES = [
    case
    for family in ("matmul_blocks", "dynamic_quantize")
    for case in family_nodes(family)
    if not case.refused
]
LONG = {case.name: case for case in CASES if case.name.startswith("long")}


@pytest.mark.adapter
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.op}-{case.name}")
def test_kernels_of_gpus_are_right(case: NodeCase) -> None:
    own = adapter.open_device(adapter.select(None)).target
    gpu = replace(own, software=False, vendor="unknown")
    plans = {"GPU": gpu, "GPU without shuffles": replace(gpu, subgroup_size=0)}
    assert not examine(case, plans, None).problem


def variant(target: Target, name: str) -> dict[str, object]:
    case = graph(LONG[name])
    low = Lowering(case, target)
    FORMS(low, case.nodes[0])
    return dict(low.launches[-1].variant)


@pytest.mark.parametrize(
    ("name", "team", "words"),
    [
        ("long_whole", 64, 4),
        ("long_whole_rows", 64, 4),
        ("long_whole_bits_8", 32, 8),
        ("long", 64, 0),
        ("long_rows", 32, 0),
        ("long_rows_bits_8", 64, 0),
    ],
)
def test_long_rows_have_large_teams(name: str, team: int, words: int) -> None:
    """Words are loaded at once if inputs fill all units, and if registers hold them."""
    found = variant(Target(software=False, vendor="amd", subgroup_size=64), name)
    assert (found["team"], found["words"]) == (team, words)


def test_software_adapters_have_small_teams_and_load_word_by_word() -> None:
    found = variant(Target(software=True, subgroup_size=8), "long_whole")
    assert (found["team"], found["words"]) == (8, 0)
