"""Refusals of ops over regions, grids, blocks of numbers and angles: shapes and numbers that do not
fit, beside the last that fits. No device is needed."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.ops.test_op_refusals import asks
from tflgpu_plugin.ir import Tensor

IMAGE, VOLUME = (2, 5, 6, 3), (2, 4, 5, 6, 3)
LINEAR: dict[str, Any] = {"method": "linear", "outside": "zeros"}
CUBIC: dict[str, Any] = {"method": "cubic", "outside": "zeros"}
BINS: dict[str, Any] = {"size": (2, 3), "mode": "avg"}
BLOCKS: dict[str, Any] = {"bits": 4, "block": 32}
TABLE: dict[str, Any] = {**BLOCKS, "width": 64}
NO_IMAGE, NO_GRID = "needs an image of 4 or 5 dimensions", "does not fit an image"
NO_BINS, NO_REGIONS = "bins of .* are not supported", "do not fit numbers of images"


def held(*shape: int, dtype: str = "f32") -> Tensor:
    kind = np.float32 if dtype == "f32" else np.int32
    return Tensor("c", shape, dtype, np.ones(shape, kind))


WORDS, SCALES = held(5, 2, 4, dtype="i32"), held(5, 2)
IDS = Tensor("c", (3,), "i32")

CASES: list[tuple[partial[str | None], str | None]] = [
    (asks("grid_sample", IMAGE, (2, 3, 4, 2), **LINEAR), None),
    (asks("grid_sample", VOLUME, (2, 3, 4, 2, 3), **LINEAR), None),
    (asks("grid_sample", IMAGE, (2, 3, 4, 2), **CUBIC), None),
    (asks("grid_sample", VOLUME, (2, 3, 4, 2, 3), **CUBIC), "with the method cubic"),
    (asks("grid_sample", (2, 5, 3), (2, 3, 1), **LINEAR), NO_IMAGE),
    (asks("grid_sample", (2, 0, 6, 3), (2, 3, 4, 2), **LINEAR), NO_IMAGE),
    (asks("grid_sample", IMAGE, (2, 0, 4, 2), **LINEAR), NO_IMAGE),
    (asks("grid_sample", IMAGE, (2, 3, 2), **LINEAR), NO_GRID),
    (asks("grid_sample", IMAGE, (1, 3, 4, 2), **LINEAR), NO_GRID),
    (asks("grid_sample", IMAGE, (2, 3, 4, 3), **LINEAR), NO_GRID),
    (asks("roi_align", IMAGE, (7, 4), (7,), **BINS), None),
    (asks("roi_align", IMAGE, (7, 4), (7,), **BINS, samples=128), None),
    (asks("roi_align", IMAGE, (7, 4), (7,), **BINS, samples=129), "129 samples"),
    (asks("roi_align", IMAGE, (7, 4), (7,), **BINS, samples=-1), "-1 samples"),
    (asks("roi_align", IMAGE, (7, 4), (7,), size=(2, 0), mode="avg"), NO_BINS),
    (asks("roi_align", (5, 6, 3), (7, 4), (7,), **BINS), NO_BINS),
    (asks("roi_align", (2, 5, 0, 3), (7, 4), (7,), **BINS), NO_BINS),
    (asks("roi_align", IMAGE, (7, 5), (7,), **BINS), NO_REGIONS),
    (asks("roi_align", IMAGE, (7, 4), (6,), **BINS), NO_REGIONS),
    (asks("roi_align", IMAGE, (4,), (), **BINS), NO_REGIONS),
    (asks("roi_align", IMAGE, (0, 4), (0,), **BINS), NO_REGIONS),
    (asks("roi_max_pool", IMAGE, (7, 5), size=(1, 1024)), None),
    (asks("roi_max_pool", IMAGE, (7, 5), size=(1, 1025)), NO_BINS),
    (asks("roi_max_pool", IMAGE, (7, 5), size=(0, 2)), NO_BINS),
    (asks("roi_max_pool", (5, 6, 3), (7, 5), size=(2, 2)), NO_BINS),
    (asks("roi_max_pool", (0, 5, 6, 3), (7, 5), size=(2, 2)), NO_BINS),
    (asks("roi_max_pool", IMAGE, (7, 4), size=(2, 2)), "not of five numbers"),
    (asks("roi_max_pool", IMAGE, (5,), size=(2, 2)), "not of five numbers"),
    (asks("roi_max_pool", IMAGE, (0, 5), size=(2, 2)), "not of five numbers"),
    (asks("matmul_blocks", (3, 64), WORDS, SCALES, **BLOCKS), None),
    (asks("matmul_blocks", (3, 33), WORDS, SCALES, **BLOCKS), None),
    (asks("matmul_blocks", (3, 32), WORDS, SCALES, **BLOCKS), "do not fit 32 inputs"),
    (asks("matmul_blocks", (3, 65), WORDS, SCALES, **BLOCKS), "do not fit 65 inputs"),
    (asks("matmul_blocks", (3, 64), WORDS, held(5, 1), **BLOCKS), "do not fit 64 inputs"),
    (asks("matmul_blocks", (3, 64), WORDS, SCALES, held(5, 2), **BLOCKS), None),
    (asks("matmul_blocks", (3, 64), WORDS, SCALES, held(4, 2), **BLOCKS), "do not fit"),
    (asks("matmul_blocks", (3, 64), WORDS, (5, 2), **BLOCKS), "are constants"),
    (asks("matmul_blocks", (0, 64), WORDS, SCALES, **BLOCKS), "empty tensors"),
    (asks("matmul_blocks", (3, 64), WORDS, SCALES, bits=2, block=32), "2 bits do not fit"),
    (asks("matmul_blocks", (3, 16), held(5, 2, 1, dtype="i32"), SCALES, bits=4, block=8), "4 bits"),
    (asks("gather_blocks", IDS, WORDS, SCALES, **TABLE), None),
    (asks("gather_blocks", held(3, dtype="i32"), WORDS, SCALES, **TABLE), None),
    (asks("gather_blocks", IDS, WORDS, SCALES, held(5, 2), **BLOCKS, width=33), None),
    (asks("gather_blocks", IDS, WORDS, SCALES, **BLOCKS, width=32), "do not fit 32 inputs"),
    (asks("gather_blocks", IDS, WORDS, SCALES, **BLOCKS, width=65), "do not fit 65 inputs"),
    (asks("gather_blocks", IDS, WORDS, SCALES, held(4, 2), **TABLE), "do not fit"),
    (asks("gather_blocks", IDS, WORDS, (5, 2), **TABLE), "are constants"),
    (asks("gather_blocks", IDS, held(0, 2, 4, dtype="i32"), held(0, 2), **TABLE), "empty table"),
    (asks("gather_blocks", held(0, dtype="i32"), WORDS, SCALES, **TABLE), "no rows"),
    (asks("gather_blocks", held(1, 1, 1, 3, dtype="i32"), WORDS, SCALES, **TABLE), None),
    (asks("gather_blocks", held(1, 1, 1, 1, 3, dtype="i32"), WORDS, SCALES, **TABLE), "4, not 5"),
    (asks("gather_blocks", (3,), WORDS, SCALES, **TABLE), "use int32 or int64"),
    (asks("rotary", (1, 2, 3, 8), (3, 8), (3, 8)), None),
    (asks("rotary", (1, 2, 3, 8), (3, 4), (3, 4), paired=True), None),
    (asks("rotary", (1, 2, 3, 8), (3, 6), (3, 6)), None),
    (asks("rotary", (1, 2, 3, 8), (3, 7), (3, 7)), "do not fit"),
    (asks("rotary", (1, 2, 3, 8), (3, 10), (3, 10)), "do not fit"),
    (asks("rotary", (1, 2, 3, 8), (3, 8), (1, 8)), "do not fit"),
    (asks("rotary", (1, 2, 3, 8), (1, 1, 1, 3, 8), (1, 1, 1, 3, 8)), "do not fit"),
    (asks("rotary", (1, 2, 0, 8), (1, 8), (1, 8)), "empty input"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(CASES)))
def test_what_does_not_fit_is_refused(number: int) -> None:
    ask, wanted = CASES[number]
    sentence = ask()
    if wanted is None:
        assert sentence is None, sentence
    else:
        assert sentence is not None and re.search(wanted, sentence), sentence
