"""Decoders with a growing cache: every step gives the CPU provider's result, at every length, also
with lengths that repeat, jump or shrink, and with the cache on the CPU and on the GPU."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from conformance.models import decoders
from tests.support.decoding import BoundSide, Pair, Side, half_pair, pair
from tests.support.onnx_models import session

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.adapter

ONE, TWO = decoders.Size(layers=1), decoders.Size(layers=2)
GROUPED = decoders.Size(layers=1, heads=4, width=64)
LONGEST = 32  # prompt
BUFFER = 64  # length of a cache that does not grow
FIXED = ((decoders.grouped, 1), (decoders.grouped, 2), (decoders.scattered, 2))
HALVES = {
    "gpt": decoders.gpt,
    "grouped": decoders.grouped,
    "4 bits": partial(decoders.grouped, bits=4),
    "attended": decoders.attended,
    "scattered": decoders.scattered,
}
APART = partial(decoders.grouped, bits=4, apart=True)
SIDES = {"cpu": Side, "gpu": BoundSide}


@pytest.mark.parametrize("where", SIDES)
def test_200_tokens(where: str) -> None:
    both = pair(decoders.gpt, TWO, SIDES[where])
    both.begin(1, decoders.empty(TWO, 1))
    for _ in range(200):
        both.step(1)
    both.assert_on_gpu()


# The launches of the plan of any length, with alternatives for one token and for several.
@pytest.mark.parametrize(
    ("write", "heads", "most"),
    [
        (decoders.gpt, 4, 8),
        (decoders.grouped, 2, 10),
        (partial(decoders.grouped, apart=True), 2, 10),
        (partial(decoders.grouped, bits=4), 2, 15),
        (APART, 2, 15),
    ],
)
def test_launches_that_a_layer_adds(write: Any, heads: int, most: int) -> None:
    """A launch that is added for each layer costs each token more than its work."""
    counts = []
    for layers in (2, 3):
        size = decoders.Size(layers=layers, heads=4, width=64)
        both = pair(write, size)
        both.begin(1, decoders.empty(size, 1, BUFFER if heads == 2 else 0, heads))
        both.step(1)
        (partition,) = tflgpu_plugin.report(both.ours.session).partitions
        counts.append(partition.dispatches)
    assert counts[1] - counts[0] <= most


@pytest.mark.parametrize(("batch", "lengths"), [(1, (5, 1, 1, 3, 1)), (2, (1, 1, 1))])
def test_products_that_are_joined(batch: int, lengths: tuple[int, ...]) -> None:
    """Three products of blocks are one for a single text, at every length."""
    both = pair(APART, GROUPED)
    both.begin(batch, decoders.empty(GROUPED, batch, BUFFER, GROUPED.heads // 2))
    for tokens in lengths:
        both.step(tokens)
    both.assert_on_gpu()


@pytest.mark.parametrize("where", SIDES)
def test_two_texts_of_which_one_is_shorter(where: str) -> None:
    """The shorter text is padded at the front: its first tokens attend to nothing."""
    both = pair(decoders.gpt, TWO, SIDES[where])
    both.begin(2, decoders.empty(TWO, 2))
    both.step(9, hidden=4)
    for _ in range(40):
        both.step(1)
    both.assert_on_gpu()


def test_prompts_of_all_lengths_and_a_token_after_each() -> None:
    both = pair(decoders.gpt, ONE)
    for tokens in range(1, LONGEST + 1):
        batch = 1 + tokens % 2
        both.begin(batch, decoders.empty(ONE, batch))
        both.step(tokens, hidden=tokens // 3)
        both.step(1)
    both.assert_on_gpu()


@pytest.mark.parametrize("where", SIDES)
def test_lengths_that_jump_shrink_and_come_again(where: str) -> None:
    """This happens in speculative decoding, and with a new conversation in one session."""
    both = pair(decoders.gpt, ONE, SIDES[where])
    both.begin(1, decoders.empty(ONE, 1))
    for kept, tokens in ((0, 1), (1, 31), (2, 5), (7, 1), (3, 5), (8, 1), (9, 100), (108, 3),
                         (50, 1), (51, 1), (17, 32), (49, 1), (0, 7), (7, 1)):  # fmt: skip
        both.keep(kept)
        both.step(tokens)
    both.assert_on_gpu()


@pytest.mark.parametrize("where", SIDES)
def test_conversations_take_turns_in_one_session(where: str) -> None:
    """Each conversation has its own cache, which runs of the others do not change."""
    first = pair(decoders.gpt, ONE, SIDES[where])
    sides = [(SIDES[where](first.ours.session), Side(first.theirs.session)) for _ in range(3)]
    talks = [first, *(Pair(*both, first.words) for both in sides)]
    for batch, talk in enumerate(talks, 1):
        talk.begin(batch, decoders.empty(ONE, batch))
    random = np.random.default_rng(1)
    for _ in range(40):
        talks[random.integers(len(talks))].step(int(random.integers(1, 4)))
    first.assert_on_gpu()


def test_one_session_reads_the_prompt_and_another_goes_on() -> None:
    """The cache is passed from one session to the other on the GPU."""
    both, other = pair(decoders.gpt, ONE, BoundSide), session(decoders.gpt(ONE))
    both.begin(1, decoders.empty(ONE, 1))
    both.step(12)
    both.ours.session = other
    for _ in range(6):
        both.step(1)
    both.assert_on_gpu()


@pytest.mark.parametrize("where", SIDES)
def test_attention_that_has_a_cache(where: str) -> None:
    both = pair(decoders.attended, GROUPED, SIDES[where])
    both.begin(2, decoders.empty(GROUPED, 2))
    both.step(5)
    for _ in range(30):
        both.step(1)
    both.step(7)
    both.assert_on_gpu()


@pytest.mark.parametrize("side", [Side, BoundSide, partial(BoundSide, in_place=True)],
                         ids=["cpu", "gpu", "in place"])  # fmt: skip
@pytest.mark.parametrize(("write", "batch"), FIXED)
def test_a_cache_of_fixed_length(write: Any, batch: int, side: Any) -> None:
    """Only the mask grows, up to the length of the cache."""
    both = pair(write, GROUPED, side)
    heads = GROUPED.heads if write == decoders.scattered else GROUPED.heads // 2
    both.begin(batch, decoders.empty(GROUPED, batch, BUFFER, heads))
    both.step(30)
    while both.length < BUFFER:
        both.step(1)
    both.assert_on_gpu()


@pytest.mark.parametrize("write", HALVES)
def test_decoders_of_float16(write: str) -> None:
    both = half_pair(HALVES[write], GROUPED)
    length = BUFFER if write in ("grouped", "4 bits", "scattered") else 0
    heads = GROUPED.heads // 2 if write in ("grouped", "4 bits") else GROUPED.heads
    both.begin(1, decoders.empty(GROUPED, 1, length, heads))
    both.step(5)
    for _ in range(10):
        both.step(1)
    both.assert_on_gpu()
