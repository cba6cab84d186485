"""Random ONNX graphs whose integers decide shapes and are data, too: each run of a session has the
answer of the CPU provider, or an error where that has one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from conformance import onnx_host
from conformance.plugin.book import Book
from conformance.plugin.record import FAIL, PASS, Record
from conformance.random import run_values

pytestmark = [pytest.mark.adapter, pytest.mark.onnxruntime]
SEEDS = 12


def _answer(session: Any, feed: Any) -> Sequence[Any] | None:
    try:
        return onnx_host.invoke(session, [feed])[0]
    except Exception:
        return None


def _alike(ours: Sequence[Any] | None, theirs: Sequence[Any] | None) -> bool:
    if ours is None or theirs is None:
        return ours is theirs
    return all(
        a.shape == b.shape and a.dtype == b.dtype and np.allclose(a, b, 1e-5, 1e-5)
        for a, b in zip(ours, theirs, strict=True)
    )


@pytest.mark.parametrize("seed", range(SEEDS))
def test_graphs(seed: int, book: Book, pytestconfig: pytest.Config) -> None:
    made = run_values.made(seed)
    theirs = onnx_host.session(made.content, cpu=True)
    ours = onnx_host.session(made.content, pytestconfig.getoption("--adapter"))
    ours.disable_fallback()
    feeds = [[*feed.values()] for feed in made.feeds]
    wrong = [k for k, feed in enumerate(feeds)
             if not _alike(_answer(ours, feed), _answer(theirs, feed))]  # fmt: skip
    partitions = tflgpu_plugin.report(ours).partitions
    tried = sum(partition.runs + partition.failures for partition in partitions)
    text = f"runs {wrong}: {[made.feeds[k] for k in wrong]}" if wrong else "all runs"
    book.add(Record(book.test, "random run values", FAIL if wrong else PASS, case=str(seed),
                    host=onnx_host.label(), text=text[:400]))  # fmt: skip
    assert not wrong, text
    assert tried, "no run was tried on the GPU"
