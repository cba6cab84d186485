"""Every node case of every family, on the plans of several kinds of adapter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from conformance.node_cases import check, family_nodes
from conformance.test_variants import _targets
from tflgpu_plugin.ops import FAMILIES


@pytest.mark.adapter
@pytest.mark.parametrize("family", FAMILIES)
def test_nodes(family: str, options: Mapping[str, Any]) -> None:
    wanted = options.get("adapter")
    targets = _targets(wanted)
    wrong = []
    for case in family_nodes(family):
        if sentence := check(case, targets, wanted):
            wrong.append(f"{case.op} {case.name}: {sentence}")
    assert not wrong, "\n".join(wrong)
