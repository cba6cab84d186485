"""Single ONNX operators by chance through our provider, against the CPU provider. What the host
does not run is passed over, and what we refuse; the rest must agree."""

from __future__ import annotations

import numpy as np
import pytest

from conformance import onnx_host, tolerance
from conformance.plugin.book import Book
from conformance.plugin.record import FAIL, PASS, Record
from conformance.random.operators import FOUND, GROUPS, Chance, Single

pytestmark = [pytest.mark.adapter, pytest.mark.onnxruntime]
DRAWS = 100


@pytest.mark.parametrize("group", range(len(GROUPS)), ids=lambda k: GROUPS[k].__name__)
def test_draws(group: int, book: Book, pytestconfig: pytest.Config) -> None:
    chance = Chance(group)
    drawn = [GROUPS[group](chance) for _ in range(DRAWS)]
    _check(book, GROUPS[group].__name__, drawn, pytestconfig.getoption("--adapter"))


def test_what_was_wrong_once(book: Book, pytestconfig: pytest.Config) -> None:
    _check(book, "wrong once", list(FOUND), pytestconfig.getoption("--adapter"), least=2)


def _check(
    book: Book, name: str, drawn: list[Single], wanted: str | None, least: int = DRAWS // 4
) -> None:
    ran, wrong, worst = 0, [], 0.0
    for single in drawn:
        share = _share(single, wanted)
        if share is None:
            continue
        ran, worst = ran + 1, max(worst, share)
        wrong += [f"{single}: {share:.3g} of the tolerance"] if not share <= 1.0 else []
    text = f"{ran} of {len(drawn)} ran on the GPU"
    outcome = FAIL if wrong or ran < least else PASS
    book.add(Record(book.test, "random operators", outcome, case=name, share=worst,
                    host=onnx_host.label(), text="; ".join(wrong)[:400] or text))  # fmt: skip
    assert not wrong, "\n".join(wrong)
    assert ran >= least, text


def _share(single: Single, wanted: str | None) -> float | None:
    """The error over the tolerance; None when the host or we do not run it."""
    model = single.to_bytes()
    numbers = np.random.default_rng(1)
    feed = [numbers.uniform(-1, 1, single.shape).astype(np.float32)]
    nudged = [a * np.float32(1 + tolerance.NUDGE) for a in feed]
    try:
        (expected,), (moved,) = (onnx_host.run_on_cpu(model, [f]) for f in (feed, nudged))
    except Exception:  # onnxruntime has no common class for what it raises
        return None
    run = onnx_host.run_on_gpu(model, [feed], wanted)
    if not run.placement.on_gpu:
        return None
    (got,) = run.outputs
    if expected[0].shape != got[0].shape:
        return np.inf
    error, limit = tolerance.moving(expected[0], got[0], moved[0])
    return error / limit
