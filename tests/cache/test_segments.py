"""Several plans in the same bytes, which share their weights. Without a device."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.support.stored import identities, plan, read, written
from tflgpu_plugin.cache import plan_file, rearranged
from tflgpu_plugin.ir import Plan


def test_weights_that_earlier_segments_have_are_not_written_again() -> None:
    """The second plan has one constant of the first plan, and another constant twice."""
    first = plan()
    one, two = first.weights
    other = replace(two, data=np.zeros(1, np.float32), pack=lambda: np.full(two.bytes, 7, np.uint8))
    second = replace(first, weights=(one, other, replace(other, key=(99, *two.key[1:]))))
    data = written(first) + written(second, written(first))
    held = plan_file.contents(memoryview(data))
    assert [len(segment.images) for segment in held.segments] == [2, 1]
    assert len(held.segments[1].body) == -(-two.bytes // 64) * 64
    for made, found in zip((first, second), plan_file.read(memoryview(data)), strict=True):
        assert found.plan == made and identities(found.plan) == identities(made)
        for ours, theirs in zip(found.plan.weights, made.weights, strict=True):
            assert np.array_equal(ours.image(), theirs.image())
    with pytest.raises(plan_file.Damaged):
        read(written(second, written(first)))  # without what it needs


def layout(name: str, image: Any) -> Plan:
    """Returns the plan with its first constant in another layout, which has these words."""
    weights, k = list(plan().weights), 0
    bytes_of = image.astype(np.uint32).view(np.uint8)
    buffer = replace(plan().buffers[weights[k].buffer], bytes=1 << 16)
    weights[k] = replace(weights[k], key=(*weights[k].key, name), bytes=len(bytes_of),
                         pack=lambda: bytes_of)  # fmt: skip
    buffers = tuple(buffer if k == weights[0].buffer else b for k, b in enumerate(plan().buffers))
    return replace(plan(), weights=tuple(weights), buffers=buffers)


def test_of_a_weight_in_another_order_only_this_order_is_written() -> None:
    words = np.random.default_rng(5).integers(1, 1 << 30, 1024)
    turned = np.pad(words.reshape(32, 32).T, ((0, 0), (0, 2))).reshape(-1)  # with zeros
    mixed = np.random.default_rng(6).permutation(words)
    images = (words, turned, turned[::-1], mixed, words + 1)
    plans = [layout(str(k), image) for k, image in enumerate(images)]
    data = b""
    for one in plans:
        data += written(one, data)
    sizes = [len(segment.body) for segment in plan_file.contents(memoryview(data)).segments]
    assert sizes[1] < 1024 and sizes[2] < 1024 and sizes[3:] == [4096, 4096]
    for found, one in zip(plan_file.read(memoryview(data)), plans, strict=True):
        assert found.plan == one
        assert np.array_equal(found.plan.weights[0].image(), one.weights[0].image())
    held = plan_file.contents(memoryview(data))
    assert held.stored(held.segments[1]).segments == held.segments[:2]


def test_weights_in_another_order_are_looked_for_up_to_a_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = np.arange(1, 1025)
    first, second = layout("all", words), layout("some", words[::-1][:1000])
    sizes = []
    for most in (4000, 3999):
        monkeypatch.setattr(rearranged, "MAX_COMPARED_BYTES", most)
        sizes.append(len(written(second, written(first))))
    assert sizes[0] + 3000 < sizes[1]  # of 4,000 bytes


def test_equal_values_in_another_layout_are_other_weights() -> None:
    (one, _), names = plan().weights, set[str]()
    kinds = [one, replace(one, key=(*one.key, "other")), replace(one, half=True)]
    kinds += [replace(one, bytes=one.bytes - 4), replace(one, data=np.ones(3))]
    for each in kinds:
        whole = replace(each, pack=lambda size=each.bytes: np.zeros(size, np.uint8))
        data = written(replace(plan(), weights=(whole,)))
        names |= plan_file.contents(memoryview(data)).images.keys()
    assert len(names) == len(kinds)


def test_a_file_that_grows_is_read_up_to_its_last_complete_plan() -> None:
    first, second = written(plan()), written(plan())
    for size in {0, 1, 39, 40, 64, len(second) // 2, len(second) - 1}:
        data = memoryview(first + second[:size])
        held = plan_file.contents(data, growing=True)
        assert len(held.segments) == 1 and held.end == len(first)
        if size:
            with pytest.raises(plan_file.Damaged):
                plan_file.contents(data)
    assert len(plan_file.contents(memoryview(first + second), growing=True).segments) == 2
    with pytest.raises(plan_file.Damaged, match="truncated"):
        plan_file.contents(memoryview(first[:-1]), growing=True)


def test_each_plan_checks_all_that_it_takes() -> None:
    data = written(plan())
    data += written(plan(), data)
    others = tuple(replace(w, key=(*w.key, "other")) for w in plan().weights)
    data += written(replace(plan(), weights=others))
    bodies = [segment.body.tobytes() for segment in plan_file.contents(memoryview(data)).segments]
    for place, bad in ((data.index(bodies[0]), [0, 1]), (data.rindex(bodies[2]), [2])):
        spoiled = bytearray(data)
        spoiled[place] ^= 1
        held = plan_file.contents(memoryview(spoiled))
        wrong = []
        for k, segment in enumerate(held.segments):
            try:
                held.stored(segment).check()
            except plan_file.Damaged:
                wrong.append(k)
        assert wrong == bad
