"""Tests that plans for many targets at once are those of the compiler for each."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from conformance.cases import all_cases
from conformance.direct import graph
from conformance.planned import plans
from conformance.variants import half
from tests.support.case_kernels import TARGETS
from tflgpu_plugin.compile import compiler
from tflgpu_plugin.errors import Unsupported
from tflgpu_plugin.ir import Target

REFUSING = Target(name="refusing", without=frozenset({"softmax"}))


@pytest.mark.parametrize("family", ["conv", "softmax", "attention"])
def test_plans_are_those_of_the_compiler(family: str) -> None:
    targets = (*TARGETS, REFUSING, Target(name="after it"))
    for case in [case for case in all_cases()[family] if not case.refused][:4]:
        whole = graph(case)
        for target, found in zip(targets, plans(whole, targets), strict=True):
            with half.everything() if target.half else nullcontext():
                try:
                    assert found == compiler.compile(whole, target)
                except Unsupported as refused:
                    assert isinstance(found, Unsupported) and str(found) == str(refused)
