"""Decoders whose cache grows by each token: every step gives what the CPU provider gives, at every
length, also where lengths come again, jump or shrink."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from conformance.models import decoders
from tests.support.onnx_models import Array, cpu, session

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.adapter

ONE, TWO = decoders.Size(layers=1), decoders.Size(layers=2)
GROUPED = decoders.Size(layers=1, heads=4, width=64)
TOLERANCE = 1e-5  # of the largest magnitude of a result
LONGEST = 32  # prompt
BUFFER = 64  # length of a cache that does not grow


@dataclass
class Pair:
    """The same decoder on our provider and on the CPU's, each with the cache that it made."""

    ours: Any
    theirs: Any
    seen: Array  # attention_mask of all tokens so far
    caches: list[Sequence[Array]]
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(5))

    @property
    def length(self) -> int:
        """How many tokens are in the cache."""
        return self.seen.shape[1]

    def clear(self, batch: int, cache: Sequence[Array]) -> None:
        """Begins texts after this cache, which has no tokens."""
        self.seen, self.caches = np.ones((batch, 0), np.int64), [cache, cache]

    def step(self, tokens: int, hidden: int = 0) -> None:
        """Runs random tokens, the first of the last row hidden, and compares all results."""
        batch = len(self.seen)
        new = np.ones((batch, tokens), np.int64)
        new[-1, :hidden] = 0
        ids = self.random.integers(0, ONE.words, (batch, tokens))
        self.seen = np.hstack([self.seen, new])
        made = [
            one.run(None, decoders.fed(ids, self.seen, cache))
            for one, cache in zip((self.ours, self.theirs), self.caches, strict=True)
        ]
        self.caches = [results[1:] for results in made]
        for got, wanted in zip(*made, strict=True):
            assert got.shape == wanted.shape
            kept = np.s_[:, :, : self.length] if got.ndim == 4 else np.s_[:]
            allowed = TOLERANCE * np.abs(wanted[kept]).max()
            difference = np.abs(got[kept] - wanted[kept]).max()
            assert difference <= allowed, (self.length, tokens, difference, allowed)

    def keep(self, length: int) -> None:
        """Forgets the tokens after the first ones."""
        self.seen = self.seen[:, :length]
        self.caches = [[part[:, :, :length] for part in cache] for cache in self.caches]

    def assert_on_gpu(self) -> None:
        """Every node of the session ran on the GPU, in one partition, in each of its runs."""
        report = tflgpu_plugin.report(self.ours)
        assert report.count("gpu") == len(report.nodes)
        (partition,) = report.partitions
        assert partition.runs > 0 and partition.host_runs == 0


def _pair(write: Callable[[decoders.Size], bytes], size: decoders.Size) -> Pair:
    data = write(size)
    return Pair(session(data), cpu(data), np.ones((1, 0), np.int64), [])


def test_200_tokens() -> None:
    pair = _pair(decoders.gpt, ONE)
    pair.clear(1, decoders.empty(ONE, 1))
    for _ in range(200):
        pair.step(1)
    pair.assert_on_gpu()


def test_two_texts_of_which_one_is_shorter() -> None:
    """The shorter text is padded in front: its first tokens see nothing at all."""
    pair = _pair(decoders.gpt, TWO)
    pair.clear(2, decoders.empty(TWO, 2))
    pair.step(9, hidden=4)
    for _ in range(60):
        pair.step(1)
    pair.assert_on_gpu()


def test_prompts_of_all_lengths_and_a_token_after_each() -> None:
    pair = _pair(decoders.gpt, ONE)
    for tokens in range(1, LONGEST + 1):
        batch = 1 + tokens % 2
        pair.clear(batch, decoders.empty(ONE, batch))
        pair.step(tokens, hidden=tokens // 3)
        pair.step(1)
    pair.assert_on_gpu()


def test_lengths_that_jump_shrink_and_come_again() -> None:
    """Speculative decoding does this, and a new conversation in one session."""
    pair = _pair(decoders.gpt, ONE)
    pair.clear(1, decoders.empty(ONE, 1))
    for kept, tokens in ((0, 1), (1, 31), (2, 5), (7, 1), (3, 5), (8, 1), (9, 100), (108, 3),
                         (50, 1), (51, 1), (17, 32), (49, 1), (0, 7), (7, 1)):  # fmt: skip
        pair.keep(kept)
        pair.step(tokens)
    pair.assert_on_gpu()


@pytest.mark.parametrize("batch", [1, 2])
def test_a_cache_of_fixed_length(batch: int) -> None:
    """Only the mask grows, up to the length of the cache."""
    pair = _pair(decoders.grouped, GROUPED)
    pair.clear(batch, decoders.empty(GROUPED, batch, BUFFER, GROUPED.heads // 2))
    pair.step(7)
    while pair.length < BUFFER:
        pair.step(1)
    pair.assert_on_gpu()
