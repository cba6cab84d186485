"""Tests the traffic of constants in the cost model of GPUs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.compiled.amd import RDNA, Made
from benchmarks.compiled.constants import Constants
from benchmarks.compiled.cost import cost
from benchmarks.compiled.gpus import target
from benchmarks.compiled.networks import GRAPHS
from benchmarks.compiled.rounds import Loop
from tflgpu_plugin.compile import compiler
from tflgpu_plugin.ir import Plan

NUMBERS = {"Lanes": 32, "VGPRs": 12, "Spilled VGPRs": 0, "Spilled SGPRs": 0,
           "Subgroups per SIMD": 16}  # fmt: skip
LOADS = """
BB0:
\tglobal_load_dwordx4 v[0:3], v[4:5], off
\ts_endpgm
"""


def plan(network: str, gpu: str, half: bool = False) -> Plan:
    return compiler.compile(GRAPHS[network](), replace(target(gpu), half=half))


@pytest.mark.parametrize("gpu", ["navi31", "tu102", "polaris10"])
@pytest.mark.parametrize("half", [False, True])
def test_each_constant_of_a_network_is_read_by_one_dispatch(gpu: str, half: bool) -> None:
    made = plan("mobilenet_v1_224", gpu, half)
    constants = Constants(made)
    read = [constants.bytes_read(each) for each in made.dispatches]
    assert sum(read) == sum(each.bytes for each in made.weights)
    largest = max(range(len(read)), key=read.__getitem__)
    assert read[largest] >= 1024 * 1024 * (2 if half else 4)  # the last dense layer over 1,024


def test_float16_halves_what_is_read() -> None:
    sizes = []
    for half in (False, True):
        made = plan("bert_base_layer_128", "tu102", half)
        constants = Constants(made)
        sizes.append(sum(constants.bytes_read(each) for each in made.dispatches))
    assert sizes[1] == pytest.approx(sizes[0] / 2, rel=0.01)


def test_constants_take_the_time_that_dram_needs() -> None:
    made, gpu = Made(NUMBERS, LOADS), replace(RDNA, dram=500)
    waves = 100_000
    constants = waves * 32 * 16
    few = cost(made, gpu, [], waves, 32)
    found = cost(made, gpu, [], waves, 32, constants=constants)
    assert found.us == pytest.approx(constants / 500e3)
    assert (few.bound, found.bound) == ("memory", "DRAM")
    assert cost(made, replace(gpu, dram=1000), [], waves, 32, constants=constants).us < found.us


def test_no_more_constants_are_read_than_loads_can_read() -> None:
    made, gpu = Made(NUMBERS, LOADS), replace(RDNA, dram=1)
    table = cost(made, gpu, [], 10, 32, constants=10**9)  # a gather of 320 rows of a large table
    assert table.us == pytest.approx(10 * 32 * 16 / 1e3)
    assert cost(made, gpu, [Loop(1, 1, 2)], 10, 32, constants=64).us < table.us
