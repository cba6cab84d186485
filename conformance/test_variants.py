"""Every case on the plans that other adapters would get: without shuffles, tiles of hardware GPUs,
folded grids.

One adapter sees one choice of kernels only. Shuffles are in aligned groups of 8 lanes and so are
right for every subgroup size that is a multiple of 8; where this adapter has none, only plain plans
run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from conformance import check
from tflgpu_plugin.ops import FAMILIES
from tflgpu_plugin.runtime import adapter
from tflgpu_plugin.target import Target

FEW_GROUPS = 7  # of a grid's dimension, so that small cases fold their grids as huge ones do


def _targets(wanted: str | None) -> dict[str, Target]:
    own = adapter.open_device(adapter.select(wanted)).target
    plain = replace(own, subgroup_size=0)
    hardware = replace(own, vendor="unknown", software=False)
    software = replace(own, vendor="software", software=True)
    return {
        "as on hardware": hardware,
        "as on a software adapter": software,
        "without shuffles": plain,
        "as on hardware without shuffles": replace(hardware, subgroup_size=0),
        "as on a software adapter without shuffles": replace(software, subgroup_size=0),
        "with folded grids": replace(own, max_groups=FEW_GROUPS),
        "with weights in memory": replace(own, tuning={"weights": "memory"}),
        "as on NVIDIA": replace(hardware, vendor="nvidia"),
        "as on Apple": replace(hardware, vendor="apple"),
        "with Winograd": replace(own, tuning={"winograd": "always"}),
        "with Winograd as on hardware": replace(hardware, tuning={"winograd": "always"}),
    }


@pytest.mark.adapter
@pytest.mark.parametrize("family", FAMILIES)
def test_other_plans(family: str, options: Mapping[str, Any]) -> None:
    wanted = options.get("adapter")
    targets = _targets(wanted)
    cases = [case for case in check.family_cases(family) if not case.refused]
    wrong = []
    for case in cases:
        result = check.direct(case, targets, wanted)
        if not result.passed:
            wrong.append(f"{case.op} {case.name}: {result.text}")
    assert not wrong, "\n".join(wrong)
