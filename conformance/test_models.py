"""Real models from `../shared`: the delegate's answers against the host's reference kernels.

Every float32 model must agree within 1e-4 of each output's largest magnitude, or four times the
host's own difference between optimized and reference kernels; other models must still give the
CPU's answer with whatever is delegated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from conformance import host, model_inputs, real_models, tolerance
from conformance.book import Book
from conformance.host import Outputs
from conformance.record import FAIL, PASS, Record

MODELS = model_inputs.models()
DETECTORS = {
    "ssd_mobilenet_v1_coco_float_from_quant": 1
}  # nodes that stay on the CPU: post-processing

pytestmark = [
    pytest.mark.adapter,
    pytest.mark.skipif(not MODELS, reason="real models: ../shared is absent"),
]


def _runs() -> list[Any]:
    found = []
    for entry in MODELS:
        stem = real_models.stem(entry)
        hosts = host.installed() if stem in real_models.DOCUMENTED else host.installed()[:1]
        found += [pytest.param(entry, name, id=f"{stem}-{name}") for name in hosts]
    return found


@pytest.mark.parametrize(("entry", "name"), _runs())
def test_agrees_with_the_cpu(
    entry: Mapping[str, Any], name: str, options: Mapping[str, Any], book: Book
) -> None:
    outcome = real_models.compare(entry, name, options)
    stem = real_models.stem(entry)
    worst = max(outcome.comparisons, key=lambda c: c.share)
    where = f"{name} {host.version(name)}"
    failed = outcome.placement.failures or not worst.share <= 1.0
    verdict = FAIL if failed else PASS
    book.add(Record(book.test, "model", verdict, host=where, case=stem, share=worst.share,
                    text=worst.text))  # fmt: skip
    assert outcome.placement.failures == 0
    if entry["kind"] == "float32":
        assert outcome.placement.on_gpu > 0, outcome.placement.sentences
    assert len(outcome.placement.runs) == outcome.placement.islands
    assert set(outcome.placement.runs) <= {len(outcome.comparisons)}
    wrong = [c.text for c in outcome.comparisons if not c.share <= 1.0]
    assert not wrong, "\n".join(wrong)
    for wanted, got in zip(outcome.expected, outcome.got, strict=True):
        if stem in model_inputs.CLASSIFIERS:
            assert real_models.top_class(wanted) == real_models.top_class(got)
        if stem in DETECTORS:
            _same_boxes(wanted, got)


def _same_boxes(wanted: Outputs, got: Outputs) -> None:
    """Classes and counts are equal, box corners nearly."""
    np.testing.assert_array_equal(wanted[1], got[1])
    np.testing.assert_array_equal(wanted[3], got[3])
    np.testing.assert_allclose(wanted[0], got[0], atol=tolerance.BOX)


@pytest.mark.parametrize("name", host.installed())
@pytest.mark.parametrize("stem", real_models.DOCUMENTED)
def test_documented_models_run_on_the_gpu(stem: str, name: str, options: Mapping[str, Any]) -> None:
    """The unchanged file, every node in one island (but the post-processing of the detector)."""
    entry = next(e for e in MODELS if real_models.stem(e) == stem)
    placement = host.placed(model_inputs.path(entry).read_bytes(), name, options)
    left = DETECTORS.get(stem, 0)
    assert placement.total == entry["nodes"]
    assert placement.on_gpu == entry["nodes"] - left, placement.sentences
    assert placement.islands == 1
