"""Single ONNX operators by chance through our provider, against the CPU provider. What the host
does not run is passed over, and what we refuse; the rest must agree."""

from __future__ import annotations

import numpy as np
import pytest

from conformance import onnx_host, tolerance
from conformance.plugin.book import Book
from conformance.plugin.record import FAIL, PASS, Record
from conformance.random import values
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
    """Returns the error relative to the tolerance; None if the host or the plugin does not run
    it."""
    model = single.to_bytes()
    feeds = values.feeds(np.random.default_rng(1), [[single.shape]] * 2)
    nudged = [[a * np.float32(1 + tolerance.NUDGE) for a in feed] for feed in feeds]
    try:
        expected, moved = (onnx_host.run_on_cpu(model, each) for each in (feeds, nudged))
    except Exception:  # onnxruntime has no common class for what it raises
        return None
    run = onnx_host.run_on_gpu(model, feeds, wanted)
    if not run.placement.on_gpu:
        return None
    worst = 0.0
    for (wanted_one,), (got,), (other,) in zip(expected, run.outputs, moved, strict=True):
        if wanted_one.shape != got.shape:
            return np.inf
        error, limit = tolerance.moving(wanted_one, got, other)
        worst = max(worst, error / limit)
    return worst
