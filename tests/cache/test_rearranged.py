"""Tests orders of words: which ones are found between two weights, and which stored ones are
refused."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from tflgpu_plugin.cache import codec, rearranged

WORDS = np.arange(1, 1025, dtype="<u4")
SOURCE = memoryview(WORDS.tobytes())


def stored(*places: int) -> memoryview:
    steps = np.diff(places, prepend=0).astype("<i4")
    return memoryview(zlib.compress(steps.tobytes()))


def test_words_in_another_order_come_back() -> None:
    for wanted in (WORDS[::-1], np.pad(WORDS.reshape(32, 32).T, 1).reshape(-1), WORDS[32:],
                   np.zeros(1024, "<u4")):  # fmt: skip
        image = np.ascontiguousarray(wanted, "<u4").view(np.uint8)
        text = rearranged.order(image, SOURCE)
        assert text is not None and len(text) * rearranged.SMALLER <= len(image)
        again = rearranged.arranged(memoryview(text), SOURCE, len(image))
        assert again.dtype == np.uint8 and np.array_equal(again, image)


def test_other_words_have_no_order() -> None:
    assert rearranged.order(np.full(64, 9999, "<u4").view(np.uint8), SOURCE) is None
    assert rearranged.order(np.full(64, 1 << 31, "<u4").view(np.uint8), SOURCE) is None
    assert rearranged.order(WORDS.view(np.uint8)[:255], SOURCE) is None
    assert rearranged.order(WORDS.view(np.uint8), SOURCE[:255]) is None


def test_an_order_that_is_as_large_as_the_words_is_not_stored() -> None:
    mixed = np.random.default_rng(2).permutation(WORDS)
    assert rearranged.order(mixed.view(np.uint8), SOURCE) is None


@pytest.mark.parametrize(
    ("text", "size", "reason"),
    [
        (memoryview(b"no zlib"), 8, "not valid"),
        (memoryview(zlib.compress(b"123")), 4, "not valid"),
        (stored(1, 2), 4, "not valid"),
        (stored(1, 2, 3), 8, "not valid"),
        (stored(1, 2), 12, "does not fit"),
        (stored(), 0, "does not fit"),
        (stored(-1, 2), 8, "does not fit"),
        (stored(1, 1025), 8, "does not fit"),
        (memoryview(zlib.compress(bytes(1 << 20))), 8, "not valid|does not fit"),
    ],
)
def test_a_hostile_order_is_damage(text: memoryview, size: int, reason: str) -> None:
    with pytest.raises(codec.Damaged, match=reason):
        rearranged.arranged(text, SOURCE, size)


def test_the_last_word_is_in_range() -> None:
    found = rearranged.arranged(stored(1024, 0), SOURCE, 8)
    assert found.view("<u4").tolist() == [1024, 0]
