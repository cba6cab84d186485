"""Every stored number of 8 bits through the operators of one tensor, in several scales: the very
numbers of the host's reference kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from conformance import host
from conformance.cases import Case, Input
from conformance.host import Array
from conformance.models import tflite as models
from conformance.plugin.book import Book
from conformance.plugin.record import FAIL, PASS, Record
from conformance.variants.quantized import FIXED, VERSIONS, quantization_of
from tflgpu_plugin.ir.graph import NUMPY_DTYPES, Quantization

pytestmark = pytest.mark.adapter
# The operators, with a function that is near enough to tell the range of their results.
FUNCTIONS: dict[str, Any] = {
    "ABS": np.abs, "ELU": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))), "EXP": np.exp,
    "GELU": lambda x: np.maximum(x, -0.17), "HARD_SWISH": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "LEAKY_RELU": lambda x: np.where(x > 0, x, 0.2 * x), "LOG": np.log, "LOGISTIC": np.tanh,
    "RELU": lambda x: np.maximum(x, 0), "RELU6": lambda x: np.clip(x, 0, 6),
    "RSQRT": lambda x: 1 / np.sqrt(x), "TANH": np.tanh,
}  # fmt: skip
OPTIONS = {"LEAKY_RELU": {"alpha": 0.2}}
TABLES = {"ABS": "AbsOptions", "EXP": "ExpOptions", "GELU": "GeluOptions",
          "HARD_SWISH": "HardSwishOptions", "LEAKY_RELU": "LeakyReluOptions"}  # fmt: skip
POSITIVE = ("LOG", "RSQRT")
SEEDS = range(8)


def levels(op: str, dtype: str, seed: int) -> tuple[Case, Array]:
    """A case over a scale and a zero point by chance, and all numbers that the operator takes."""
    chance, kind = np.random.default_rng(seed), np.iinfo(NUMPY_DTYPES[dtype])
    scale = float(np.float32(chance.uniform(0.01, 0.06)))
    zero = kind.min if op in POSITIVE else int(chance.integers(kind.min + 60, kind.max - 60))
    stored = np.arange(kind.min + (op == "LOG"), kind.max + 1).astype(kind.dtype)
    with np.errstate(all="ignore"):
        results = FUNCTIONS[op]((stored.astype(np.float64) - zero) * scale)
    results = results[np.isfinite(results)]
    made = quantization_of(float(results.min()), float(results.max()), dtype)
    if op in FIXED:
        fixed = FIXED[op][dtype]
        made = Quantization((fixed[0],), (fixed[1],))
    given = Input((1, stored.size), dtype, quantization=Quantization((scale,), (zero,)))
    version = VERSIONS.get(op, 3 if op == "ABS" else 2)
    case = Case(
        f"levels {seed}", op, version, (given,), TABLES.get(op), OPTIONS.get(op, {}),
        output_type=dtype, output_quantization=made,
    )  # fmt: skip
    return case, stored[None]


@pytest.mark.parametrize("op", FUNCTIONS)
def test_every_level(op: str, host_name: str, book: Book) -> None:
    wrong, tried, ran = [], 0, 0
    for dtype in ("i8", "u8"):
        for seed in SEEDS:
            case, stored = levels(op, dtype, seed)
            try:
                model = models.build(case)
                told, kernels = host.oracle(model, host_name)
                ((wanted,),) = host.run_on_cpu(model, [[stored]], told, kernels)
            except (RuntimeError, ValueError):
                continue  # this host has no such kernel
            run = host.run_on_gpu(model, [[stored]], told, None, kernels)
            tried, ran = tried + 1, ran + run.placement.on_gpu
            (found,) = run.outputs[0]
            if not np.array_equal(found, wanted):
                places = np.flatnonzero(found != wanted)
                wrong.append(f"{dtype} {seed}: {len(places)} levels, at {stored[0, places[:4]]}")
    if not tried:
        pytest.skip(f"{host_name} has no kernel of 8 bits for {op}")
    book.add(Record(book.test, "levels", FAIL if wrong or ran < tried else PASS, case=op,
                    host=f"{host_name} {host.version(host_name)}",
                    text="; ".join(wrong) or f"{ran} models"))  # fmt: skip
    assert ran == tried
    assert not wrong, wrong
