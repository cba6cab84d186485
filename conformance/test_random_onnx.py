"""Random ONNX graphs through our provider against the CPU provider, for one or several shapes.

How far a graph may be off follows from itself: how far its answer moves when its inputs do by a few
units in the last place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from conformance import onnx_host, tolerance
from conformance.host import Array, Feed, Outputs
from conformance.plugin.book import Book
from conformance.plugin.record import FAIL, PASS, Record
from conformance.random import onnx_graphs as random_onnx

pytestmark = [pytest.mark.adapter, pytest.mark.onnxruntime]

SEEDS = range(150)
ATTENTION = range(200, 240)  # as many more, of one kind
NEAR = range(400, 640)  # of six kinds by turns
INDEXED = range(random_onnx.INDEXED, random_onnx.INDEXED + 80)


@pytest.mark.parametrize("seed", [*SEEDS, *INDEXED])
def test_graph(seed: int, book: Book, pytestconfig: pytest.Config) -> None:
    _compare(seed, random_onnx.build(seed), book, pytestconfig)


@pytest.mark.parametrize("seed", ATTENTION)
def test_attention(seed: int, book: Book, pytestconfig: pytest.Config) -> None:
    _compare(seed, random_onnx.build_attention(seed), book, pytestconfig)


@pytest.mark.parametrize("seed", NEAR)
def test_near(seed: int, book: Book, pytestconfig: pytest.Config) -> None:
    _compare(seed, random_onnx.build_near(seed), book, pytestconfig)


def _compare(seed: int, made: random_onnx.Made, book: Book, pytestconfig: pytest.Config) -> None:
    cpu = onnx_host.session(made.content, cpu=True)
    feeds = [feed for feed in made.feeds if _run(cpu, feed) is not None]
    expected = onnx_host.invoke(cpu, feeds)
    nudged = [[a * np.float32(1 + tolerance.NUDGE) for a in feed] for feed in feeds]
    moved = onnx_host.invoke(cpu, nudged)
    excluded = ",".join(made.foreign)
    ours = onnx_host.session(made.content, pytestconfig.getoption("--adapter"), exclude=excluded)
    worst = (0.0, "all outputs are equal")
    for k, feed in enumerate(feeds):
        try:
            (got,) = onnx_host.invoke(ours, [feed])
        except Exception as error:  # onnxruntime has no common class for what it raises
            worst = max(worst, (np.inf, f"run {k}: {error}"))
            continue
        worst = max(worst, _worst(k, expected[k], got, moved[k]))
    _close(book, seed, made, worst, onnx_host.placement(ours).on_gpu)


def _run(session: Any, feed: Feed) -> list[Outputs] | None:
    """Runs the model; returns None if the host itself refuses these shapes."""
    try:
        return onnx_host.invoke(session, [feed])
    except Exception:
        return None


def _worst(run: int, expected: Outputs, got: Outputs, moved: Sequence[Array]) -> tuple[float, str]:
    found = (0.0, "all outputs are equal")
    for k, (a, b, c) in enumerate(zip(expected, got, moved, strict=True)):
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            return np.inf, f"run {run} output {k}: {b.dtype}{b.shape}, not {a.dtype}{a.shape}"
        if a.dtype.kind != "f":
            wrong = int((a != b).sum())
            found = max(found, (np.inf if wrong else 0.0, f"run {run} output {k}: {wrong} differ"))
            continue
        error, limit = tolerance.moving(a, b, c)
        found = max(found, (error / limit, f"run {run} output {k}: {error:.3g} of {limit:.3g}"))
    return found


def _close(
    book: Book, seed: int, made: random_onnx.Made, worst: tuple[float, str], on_gpu: int
) -> None:
    share, text = worst
    outcome = PASS if share <= 1.0 else FAIL
    if not on_gpu and not made.foreign and not made.symbolic:
        outcome, text = FAIL, "no node ran on the GPU"
    record = Record("", "random ONNX graph", outcome, case=f"seed {seed}", share=share, text=text,
                    host=onnx_host.label())  # fmt: skip
    book.close(record, made.content)
