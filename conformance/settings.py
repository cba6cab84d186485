"""python -m conformance.settings: every case of the dense families, of depthwise layers and of
attention with every generator setting, and every result of calibration, forced in turn, and as
planned for each vendor's GPUs, against the host's reference kernels.

`--sample N` takes every N-th case, for drivers that compile slowly."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from itertools import product

from conformance import check
from conformance.node_cases import examine, family_nodes
from tflgpu_plugin.ir import Target
from tflgpu_plugin.ir.calibration import SETTINGS, THREADS
from tflgpu_plugin.ops import form_names
from tflgpu_plugin.ops.tiles import STARTS, WEIGHTS
from tflgpu_plugin.runtime import adapter

FAMILIES = (
    "conv",
    "depthwise",
    "transpose_conv",
    "fully_connected",
    "conv_3d",
    "matmul",
    "attention",
)
TILES = ("1x2", "2x2", "4x2", "1x4", "2x4", "4x4", "7x4", "1x8", "2x8", "4x8", "5x8", "7x8")
SWITCHES = tuple(
    {name: how}
    for name, how in (
        *((form, how) for form in form_names() for how in ("always", "never")),
        *((name, value) for name, values in SETTINGS.items() for value in values),
    )
)
# Results of all measurements at once, at both ends.
TOGETHER: tuple[dict[str, str], ...] = (
    {
        "weights": "memory",
        "lanes": "128",
        "ahead": "8",
        "serial": "16",
        "attention_tile": "4x4",
        "byte_products": "always",
    },
    {
        "weights": "global",
        "lanes": "16",
        "ahead": "1",
        "serial": "256",
        "attention_tile": "1x1",
        "byte_products": "always",
    },
)


def forced() -> list[dict[str, str]]:
    """Yields each setting, one at a time; and each tile with each source of weights."""
    return [*({"tile": tile, "weights": kind} for tile, kind in product(TILES, WEIGHTS)), *SWITCHES,
            *TOGETHER]  # fmt: skip


def targets(own: Target) -> dict[str, Target]:
    """Returns the targets to plan for: the device's own, as a software adapter and as a GPU, with
    each setting; and as a GPU of each vendor, with and without products of bytes."""
    found = {}
    for software in (True, False):
        base = replace(own, software=software, vendor="software" if software else "unknown")
        for tuning in forced():
            name = " ".join(f"{key}={value}" for key, value in tuning.items())
            found[f"{'software' if software else 'GPU'} {name}"] = replace(base, tuning=tuning)
    for vendor, tuning in product(STARTS, ({}, {"byte_products": "always"})):
        name = " ".join((vendor, *tuning))
        found[f"GPU {name}"] = replace(base, vendor=vendor, tuning=tuning)
    found["GPU least_subgroup=64"] = replace(base, least_subgroup=64)
    for threads in (THREADS[0], THREADS[-1]):
        found[f"GPU threads={threads}"] = replace(base, threads=threads)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m conformance.settings", description=__doc__)
    parser.add_argument("--adapter", help="part of an adapter's name, or its index")
    parser.add_argument("--sample", type=int, default=1, help="take every N-th case")
    given = parser.parse_args()
    plans = targets(adapter.open_device(adapter.select(given.adapter)).target)
    passed = failed = 0
    for family in FAMILIES:
        cases = [case for case in check.family_cases(family) if not case.refused]
        for case in cases[:: given.sample]:
            result = check.direct(case, plans, given.adapter)
            passed, failed = passed + result.passed, failed + (not result.passed)
            if not result.passed:
                print(f"FAIL {case.op} {case.name}: {result.text}", flush=True)
        for node in [node for node in family_nodes(family) if not node.refused][:: given.sample]:
            problem = examine(node, plans, given.adapter).problem
            passed, failed = passed + (not problem), failed + bool(problem)
            if problem:
                print(f"FAIL {node.op} {node.name}: {problem}", flush=True)
    print(f"{len(plans)} settings: {passed} cases PASS, {failed} FAIL")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
