"""MEAN in 8 bits gives exactly the numbers of the reference kernels: over every set of axes, on
finer, coarser and equal scales."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from conformance import host
from conformance.cases import Case
from conformance.cases.reduce import mean
from conformance.models import tflite as models
from conformance.plugin.book import Book
from conformance.plugin.record import FAIL, PASS, Record
from conformance.test_ops import describe
from tflgpu_plugin.ir import Quantization

pytestmark = pytest.mark.adapter

SHAPES: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((1, 7, 7, 5), (1, 2)), ((2, 3, 5, 4), (1, 2)), ((1, 56, 56, 2), (1, 2)), ((3, 40), (1,)),
    ((2, 3, 4, 5), (3,)), ((2, 3, 4, 5), (0,)), ((2, 6, 5), (0, 2)), ((4, 4, 4), (0, 1, 2)),
    ((5, 3, 2, 2), (2,)), ((1, 1, 1, 9), (1, 2)), ((2, 1200), (1,)), ((7, 6), (-2,)),
)  # fmt: skip
RATIOS = (1.0, 0.07, 0.6, 1.9, 300.0)  # of the result's step to the input's
RUNS = 3


def cases() -> Iterator[Case]:
    """Returns cases with random scales and zero points, each shape with scales of every ratio."""
    for k, (shape, axes) in enumerate(SHAPES):
        for j, ratio in enumerate(RATIOS):
            dtype, keep = ("i8", "u8")[(j + k) % 2], bool((j + k) // 2 % 2)
            name = f"{'x'.join(map(str, shape))} over {axes} keep {keep} ratio {ratio}"
            chance = np.random.default_rng(zlib.crc32(name.encode()))
            least = -128 if dtype == "i8" else 0
            scale = float(np.float32(chance.uniform(0.001, 0.1)))
            step = scale if ratio == 1.0 else float(np.float32(scale * ratio))
            zeros = [int(z) for z in chance.integers(least, least + 256, 2)]
            zeros[1] = zeros[0] if ratio == 1.0 else zeros[1]
            made = mean(name, shape, axes, keep, least, least + 256)
            image, constant = made.inputs
            assert image is not None
            image = replace(image, dtype=dtype, quantization=Quantization((scale,), (zeros[0],)))
            yield replace(
                made, inputs=(image, constant), output_type=dtype, version=2,
                output_quantization=Quantization((step,), (zeros[1],)),
            )  # fmt: skip


CASES = [
    pytest.param(case, id=case.name, marks=pytest.mark.dtype(case.output_type)) for case in cases()
]


@pytest.mark.parametrize("case", CASES)
def test_mean(case: Case, host_name: str, options: Mapping[str, Any], book: Book) -> None:
    model, feeds = models.build(case), host.case_feeds(case, RUNS)
    expected = host.cached_on_cpu(model, feeds, host_name, "reference")
    run = host.run_on_gpu(model, feeds, host_name, options)
    assert run.placement.on_gpu == 1 and not run.placement.failures, run.placement.sentences
    pairs = list(zip(expected, run.outputs, strict=True))
    wrong = sum(int((a[0] != b[0]).sum()) for a, b in pairs)
    count = sum(a[0].size for a, _ in pairs)
    who = describe("8 bits", "reduce", case, host_name) | {"dtype": case.output_type}
    text = f"{wrong} of {count} numbers differ"
    record = Record(**who, outcome=FAIL if wrong else PASS, share=float(wrong), text=text)
    book.close(record, model)
