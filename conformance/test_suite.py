"""The suite tests itself: deliberately wrong kernels must be detected in every family."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from conformance import check, host, onnx_host, tolerance
from conformance.plugin.book import Book
from conformance.plugin.record import FAIL, PASS, Record
from conformance.random import graphs as random_graphs
from conformance.sabotage import DEFECTS, PAD_LANES, hunt, injected
from tflgpu_plugin.ops import FAMILIES

pytestmark = pytest.mark.adapter
SEEDS = range(20)  # of random graphs, for what no operator shows alone


@pytest.mark.parametrize("family", FAMILIES)
def test_wrong_kernels_are_caught(family: str, options: Mapping[str, Any], book: Book) -> None:
    """Each defect that affects a kernel of the family makes some case of it fail."""
    missed, touched = [], 0
    for defect in DEFECTS:
        found = hunt(family, defect, options.get("adapter"))
        touched += found.touched
        if not found.touched:
            continue
        text = f"caught by {found.first}" if found.caught else "no case of the family fails"
        outcome = PASS if found.caught else FAIL
        book.add(Record(book.test, "wrong kernel", outcome, family=family, case=defect.name,
                        text=text))  # fmt: skip
        missed += [] if found.caught else [defect.name]
    assert touched, f"no defect touches a kernel of {family}"
    assert not missed, f"{family} does not notice: {', '.join(missed)}"


def test_a_wrong_kernel_fails_through_a_host(host_name: str, options: Mapping[str, Any]) -> None:
    """The procedure of `test_ops` also detects the defect, and passes without it."""
    case = check.family_cases("conv")[0]
    with injected(DEFECTS[0]):
        wrong = check.through_host(case, host_name, options)
    assert not wrong.passed and wrong.share > 1.0, wrong.text
    assert check.through_host(case, host_name, options).passed


def test_lanes_beyond_the_last_channel(host_name: str, options: Mapping[str, Any]) -> None:
    """Some graph detects padding lanes that are not zero: the next node sums them."""
    for seed in SEEDS:
        model, feeds = random_graphs.build(seed)
        content = model.to_bytes()
        expected = host.cached_on_cpu(content, feeds, host_name)
        with injected(PAD_LANES):
            run = host.run_on_gpu(content, feeds, host_name, {**options, "force": True})
        for a, b in zip(expected[0], run.outputs[0], strict=True):
            limit = tolerance.GRAPH * max(tolerance.FAINT, float(np.abs(a).max(initial=0.0)))
            if not float(np.abs(a - b).max(initial=0.0)) <= limit:
                return
    pytest.fail("no random graph notices pad lanes that are not zero")


@pytest.mark.onnxruntime
@pytest.mark.parametrize(
    ("name", "verdict"), [("test_add", "UNCLAIMED"), ("test_cumsum_1d", "CPU PASS")]
)
def test_a_refusal_inside_the_row_is_seen(
    name: str, verdict: str, options: Mapping[str, Any]
) -> None:
    """Our provider must leave out a node test; double is outside of all rows."""
    node_tests = pytest.importorskip("conformance.onnx_node_tests")
    onnx_host.device(options.get("adapter"))
    case = next(case for case in node_tests.cases(name) if case.name == name)
    found = node_tests.run_case(node_tests.load(case), **options, exclude="Add")
    assert found.verdict == verdict, found.reason
