"""Values stored as float16: every case of every family, and whole models against a simulation."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

from conformance import host, tolerance
from conformance.cases import Case
from conformance.models import model_inputs, real_models, tflite as models
from conformance.plugin.book import Book
from conformance.plugin.record import FAIL, PASS, Record
from conformance.test_ops import describe, record_of
from conformance.variants import half as half_cases, half_models, half_storage
from tflgpu_plugin.ops import FAMILIES

FLOATS = half_models.tflite_entries()

# Models in 8 bits from end to end: their numbers are whole, and float16 has the weights.
WHOLE = ("mobilenet_v1_0.25_224_quant", "resnet8_cifar_int8", "vww_96_int8", "kws_ref_model_int8")
INTEGERS = [e for e in model_inputs.models() if real_models.stem(e) in WHOLE]

CASES = [
    pytest.param(family, case, id=f"{family}-{case.op}-{case.name}")
    for family, case in half_cases.cases()
]


pytestmark = [pytest.mark.adapter, pytest.mark.dtype("f16")]


@pytest.mark.parametrize(("family", "case"), CASES)
def test_case(family: str, case: Case, pytestconfig: pytest.Config, book: Book) -> None:
    who: dict[str, Any] = describe("op", family, case, host.installed()[0]) | {"dtype": "f16"}
    try:
        cpu = half_cases.reference(case)
    except (RuntimeError, ValueError) as error:
        pytest.skip(f"no CPU kernels take this model: {error}")
    wanted = pytestconfig.getoption("--adapter", default=None)
    book.close(record_of(half_cases.run(family, case, cpu, wanted), who), models.build(case))


@pytest.mark.parametrize("family", [f for f in FAMILIES if half_cases.nodes(f)])
def test_nodes(family: str, pytestconfig: pytest.Config, book: Book) -> None:
    """Normalizations, reductions above 65,504 and similar nodes are compared with numpy in
    float64."""
    wanted, wrong = pytestconfig.getoption("--adapter", default=None), []
    for case in half_cases.nodes(family):
        verdict = half_cases.run_node(family, case, wanted)
        outcome = PASS if verdict.passed else FAIL
        book.add(Record(
            book.test, "node", outcome, dtype="f16", op=case.op, family=family, host="numpy",
            case=case.name, text=str(verdict), share=verdict.share, ulp=verdict.ulp,
        ))  # fmt: skip
        if not verdict.passed:
            wrong.append(f"{case.op} {case.name}: {verdict}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.skipif(not FLOATS, reason=model_inputs.ABSENT)
@pytest.mark.parametrize("native", [False, True], ids=["words", "native"])
@pytest.mark.parametrize("entry", [pytest.param(e, id=real_models.stem(e)) for e in FLOATS])
def test_models(
    entry: Mapping[str, Any], native: bool, options: Mapping[str, Any], book: Book
) -> None:
    """The error is at most 1e-2 of an output's largest magnitude. The largest and the mean error
    are at most twice those of a simulation of float16 storage. Products are also summed in float16
    where GPUs would do so."""
    with half_cases.as_on_gpus(options.get("adapter")) if native else nullcontext():
        outcome = half_models.tflite(entry, options)
    assert outcome.placement.on_gpu > 0 and not outcome.placement.failures
    found, measure = outcome.found, outcome.measure
    problem = half_storage.wrong(found, measure)
    share = found.mean / (tolerance.HALF_SIMULATED * measure.mean or 1.0)
    book.add(Record(
        book.test, "model", FAIL if problem else PASS, dtype="f16", case=real_models.stem(entry),
        host=outcome.host, share=share, text=problem,
    ))  # fmt: skip
    assert not problem, problem


@pytest.mark.skipif(not INTEGERS, reason=model_inputs.ABSENT)
@pytest.mark.parametrize("entry", [pytest.param(e, id=real_models.stem(e)) for e in INTEGERS])
def test_integer_models(entry: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    """Integer results are equal, whatever is stored as float16."""
    content = model_inputs.path(entry).read_bytes()
    name, kernels = host.oracle(content)
    feeds = list(model_inputs.feeds(entry).values())
    full, half = (
        host.run_on_gpu(content, feeds, name, {**options, **extra}, kernels)
        for extra in ({}, half_models.ALLOWED)
    )
    assert half.placement.on_gpu == entry["nodes"]
    for wanted, got in zip(full.outputs, half.outputs, strict=True):
        for a, b in zip(wanted, got, strict=True):
            np.testing.assert_array_equal(a, b)
