"""Tests the suite's judge: `conformance.wrong` (the step `judge` of `make test-all`) detects a
judge that accepts too much, and its float64 results are those of the host's kernels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from conformance import check, host, tolerance, wrong
from conformance.cases import Case
from conformance.models import tflite as models
from conformance.random import constant_chains, cut_chains
from conformance.references import truth
from tflgpu_plugin.importer import folding, rules

SUMS = next(c for c in check.family_cases("conv") if c.name == "many channels")


@pytest.mark.parametrize("kind", wrong.KINDS)
def test_no_wrong_answer_is_taken(kind: str) -> None:
    found = wrong.count(kind, "conv")
    assert found.fed > 30 and not found.accepted


def test_a_judge_that_takes_too_much_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(tolerance.CLASSES, "accumulate", tolerance.Accuracy(1e5, moved=1e5))
    found = wrong.count("op", "conv")
    assert len(found.accepted) > 10 and "0.1 %" in "".join(found.accepted)


def test_what_differs_from_the_right_answer_is_fed_and_nothing_else() -> None:
    zeros, flags = np.zeros(2, np.float32), np.array([True, False])
    question = wrong.Question("case", [zeros, flags], lambda outputs: False)
    made = list(wrong.answers(question))
    assert {what for what, _ in made} >= {"output 0, element 0", "output 1, zeros"}
    assert all(not all(map(np.array_equal, outputs, question.right)) for _, outputs in made)
    assert "output 0, zeros" not in {what for what, _ in made}


def _feeds(case: Case) -> list[host.Feed]:
    return host.case_feeds(case, 1)


def test_a_reference_that_means_another_thing_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host's kernels are the witness: an equally wrong answer of ours does not pass."""
    model, feeds = models.build(SUMS), _feeds(SUMS)
    expected = host.cached_on_cpu(model, feeds, *host.oracle(model))
    right = truth.REFERENCES["conv_2d"]
    monkeypatch.setitem(truth.REFERENCES, "conv_2d", lambda *a, **k: right(*a, **k) * 1.01)
    got = [[np.float32(array * 1.01) for array in expected[0]]]
    found = check.judge(SUMS, feeds, expected, got)
    assert not found.passed and "the host's own kernels" in found.text


def test_the_condition_is_that_of_a_sum() -> None:
    """The condition of n products, rounded in either direction, is the root of the sum of their
    squares times the root of 2."""
    x, w = SUMS.inputs[:2]
    assert x is not None and w is not None and w.data is not None
    point = replace(SUMS, inputs=(replace(x, shape=(1, 1, 1, 40)), *SUMS.inputs[1:]))
    (feed,) = _feeds(point)
    middle = np.float64(w.data[:, 1, 1])
    wanted = np.sqrt(2 * ((middle * feed[0].reshape(-1)) ** 2).sum(1)) * tolerance.UNIT
    found = truth.of_case(point, [feed]).moved[0][0].reshape(-1)
    assert np.all(found < 4 * wanted) and np.median(found / wanted) > 0.5


def test_places_between_are_where_they_lie_in_onnx() -> None:
    """A ramp gives the coordinates themselves: float32 affects those of TFLite, but not those by
    which onnxruntime is judged, which has another formula."""
    cases = check.family_cases("resize")
    case = next(c for c in cases if c.name == "segmentation_33_to_257_plain")
    ramp = np.zeros((1, 33, 33, 3), np.float32) + np.arange(33, dtype=np.float32)[:, None]
    places = np.minimum(np.arange(257) * 33 / 257, 32)
    exact, rounded = (
        truth.of_case(case, [[ramp]], onnx=onnx).values[0][0][0, 0, :, 0] for onnx in (True, False)
    )
    assert np.abs(exact - places).max() < 1e-12
    assert 1e-7 < np.abs(rounded - places).max() < 1e-5


@pytest.mark.adapter
@pytest.mark.skipif(
    "ai_edge_litert" not in host.installed(), reason="only LiteRT's XNNPACK does so"
)
def test_what_nothing_wrote_is_found_out_where_the_host_is_wrong_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Seed 10 is wrong in LiteRT alone: our nodes read weights that XNNPACK never wrote, if nothing
    is folded and the rule against it is off."""
    model, feeds, left = constant_chains.build(10)
    chosen = {"force": True, "exclude": ",".join(map(str, left))}
    assert cut_chains.worst(model, feeds, "ai_edge_litert", chosen) <= 1
    monkeypatch.setattr(folding, "constants", lambda *given: None)
    left = [rule for rule in rules.RULES if rule is not rules.written_constants]
    monkeypatch.setattr(rules, "RULES", tuple(left))
    assert cut_chains.worst(model, feeds, "ai_edge_litert", chosen) > 100
