"""Every case of every family, through the delegate in one host, against that host's reference
kernels.

A case passes when its node ran on the adapter (counted by native code) and every value is within
tolerance; a case marked `refused` passes when the node stayed on the CPU with a sentence that says
why.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from conformance import check, host
from conformance.cases import Case, all_cases

CASES = [
    pytest.param(family, case, id=f"{family}-{case.op}-{case.name}")
    for family, cases in all_cases().items()
    for case in cases
]


@pytest.mark.adapter
@pytest.mark.parametrize(("family", "case"), CASES)
def test_case(family: str, case: Case, host_name: str, options: Mapping[str, Any]) -> None:
    try:
        result = check.through_host(case, host_name, options)
    except check.HostRefuses as refusal:
        if host_name == host.installed()[0]:
            raise  # a case has to be a model that some host runs
        pytest.skip(str(refusal))
    again = f"python -m conformance.try_case {family} {case.name}"
    assert result.passed, f"{case.op} {dict(case.options)}: {result.text}\nagain: {again}"
