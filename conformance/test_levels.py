"""Every stored number of 8 bits through the operators of one tensor, in several scales: exactly the
numbers of the host's reference kernels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
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
from tflgpu_plugin.ir import NUMPY_DTYPES, Quantization

# Hosts do not compute factors alike, so that each is tried.
pytestmark = [pytest.mark.adapter, pytest.mark.every_host]
# The operators, with a function that is near enough to tell the range of their results.
FUNCTIONS: dict[str, Any] = {
    "ABS": np.abs, "ELU": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))), "EXP": np.exp,
    "GELU": lambda x: np.maximum(x, -0.17), "HARD_SWISH": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "LEAKY_RELU": lambda x: np.where(x > 0, x, 0.2 * x), "LOG": np.log, "LOGISTIC": np.tanh,
    "RELU": lambda x: np.maximum(x, 0), "RELU6": lambda x: np.clip(x, 0, 6),
    "RELU_0_TO_1": lambda x: np.clip(x, 0, 1), "RELU_N1_TO_1": lambda x: np.clip(x, -1, 1),
    "RSQRT": lambda x: 1 / np.sqrt(x), "TANH": np.tanh,
}  # fmt: skip
OPTIONS = {"LEAKY_RELU": {"alpha": 0.2}}
TABLES = {"ABS": "AbsOptions", "EXP": "ExpOptions", "GELU": "GeluOptions",
          "HARD_SWISH": "HardSwishOptions", "LEAKY_RELU": "LeakyReluOptions"}  # fmt: skip
SEEDS = range(8)


def levels(op: str, dtype: str, seed: int) -> tuple[Case, Array]:
    """Returns a case with a random scale and zero point, and all numbers that the operator
    takes."""
    chance, kind = np.random.default_rng(seed), np.iinfo(NUMPY_DTYPES[dtype])
    scale = float(np.float32(chance.uniform(0.01, 0.06)))
    positive = op == "RSQRT" or (op == "LOG" and seed % 2)
    zero = kind.min if positive else int(chance.integers(kind.min + 60, kind.max - 60))
    stored = np.arange(kind.min, kind.max + 1).astype(kind.dtype)
    with np.errstate(all="ignore"):
        results = FUNCTIONS[op]((stored.astype(np.float64) - zero) * scale)
    results = results[np.isfinite(results)]
    made = quantization_of(float(results.min()), float(results.max()), dtype)
    if op in FIXED:
        fixed = FIXED[op][dtype]
        made = Quantization((fixed[0],), (fixed[1],))
    given = Input((1, stored.size), dtype, quantization=Quantization((scale,), (zero,)))
    version = VERSIONS.get(op, 3 if op == "ABS" else 1 if "_TO_1" in op else 2)
    case = Case(
        f"levels {seed}", op, version, (given,), TABLES.get(op), OPTIONS.get(op, {}),
        output_type=dtype, output_quantization=made,
    )  # fmt: skip
    return case, stored[None]


def judged(op: str, cases: Iterator[tuple[Case, list[Array]]], name: str, book: Book) -> None:
    """Runs these cases with these stored numbers in a host, and records what differs. A host takes
    all cases of a type or none, so that no case is left out unseen."""
    wrong, tried, ran = [], 0, 0
    taken, refused = set[str](), set[str]()
    for case, feed in cases:
        types = " ".join((*(str(value.dtype) for value in case.inputs if value), case.output_type))
        try:
            model = models.build(case)
            told, kernels = host.oracle(model, name)
            (wanted,) = host.run_on_cpu(model, [feed], told, kernels)
        except (RuntimeError, ValueError):
            refused.add(types)  # this host has no such kernel
            continue
        taken.add(types)
        run = host.run_on_gpu(model, [feed], told, None, kernels)
        tried, ran = tried + 1, ran + run.placement.on_gpu
        for found, right in zip(run.outputs[0], wanted, strict=True):
            if not np.array_equal(found, right):
                places = np.flatnonzero(found != right)
                wrong.append(f"{case.output_type} {case.name}: {len(places)} at {places[:4]}")
    assert not taken & refused
    if not tried:
        pytest.skip(f"{name} has no kernel of 8 bits for {op}")
    book.add(Record(book.test, "levels", FAIL if wrong or ran < tried else PASS, case=op,
                    host=f"{name} {host.version(name)}",
                    text="; ".join(wrong) or f"{ran} models"))  # fmt: skip
    assert ran == tried
    assert not wrong, wrong


@pytest.mark.parametrize("op", FUNCTIONS)
def test_every_level(op: str, host_name: str, book: Book) -> None:
    made = (levels(op, dtype, seed) for dtype in ("i8", "u8") for seed in SEEDS)
    judged(op, ((case, [stored]) for case, stored in made), host_name, book)


def test_hard_swish_of_large_scales(host_name: str, book: Book) -> None:
    """Intermediate numbers saturate."""
    made = (levels("HARD_SWISH", dtype, seed) for dtype in ("i8", "u8") for seed in (1, 2))
    held = Quantization((3000.0,), (127,))
    large = (
        replace(
            case, inputs=(replace(case.inputs[0], quantization=held),), output_quantization=held
        )
        for case, _ in made
        if case.inputs[0] is not None
    )
    judged("HARD_SWISH", ((case, [_all(case)]) for case in large), host_name, book)


def _all(case: Case) -> Array:
    kind = np.iinfo(NUMPY_DTYPES[case.output_type])
    return np.arange(kind.min, kind.max + 1).astype(kind.dtype)[None]


# ---- results that are halves of a level ----------------------------------------------------------

# Scales of the input and of the result, between which halves lie on numbers exactly.
RATIOS = ((0.5, 1.0), (0.25, 1.0), (1.0, 4.0), (0.75, 1.0), (0.375, 0.5), (1.0, 64.0), (2.0, 1.0))
# Random scales, at which a float32 product may be rounded to a tie that it is not.
CHANCE = np.random.default_rng(0).uniform((0.005, -2), (0.5, 9), (12, 2))
BY_CHANCE = tuple((float(scale), float(scale * 2**power)) for scale, power in CHANCE)
HALVED: dict[
    str, tuple[int, str | None, dict[str, Any]]
] = {  # operators, with their version, options and options' table
    "QUANTIZE": (1, None, {}),
    "MUL": (2, "MulOptions", {}),
    "BATCH_MATMUL": (2, "BatchMatMulOptions", {"adjX": False, "adjY": False}),
    "ADD": (2, "AddOptions", {}),
    "SUB": (2, "SubOptions", {}),
    "FULLY_CONNECTED": (4, "FullyConnectedOptions", {}),
    "CONV_2D": (3, "Conv2DOptions", {"padding": "VALID", "strideW": 1, "strideH": 1}),
    "RELU": (2, None, {}),
    "ABS": (3, "AbsOptions", {}),
    "LEAKY_RELU": (2, "LeakyReluOptions", {"alpha": 0.5}),
}


def halves(op: str, dtype: str, ratio: tuple[float, float], zero: int) -> tuple[Case, list[Array]]:
    """Returns a case of all stored numbers times one, or by each other, between these scales. Zero
    points are `zero` above the middle, and for the result as much below it."""
    version, table, options = HALVED[op]
    kind = np.iinfo(NUMPY_DTYPES[dtype])
    middle = (kind.min + kind.max + 1) // 2
    stored = np.arange(kind.min, kind.max + 1).astype(kind.dtype)
    held = Quantization((ratio[0],), (middle + zero,))
    made = Quantization((ratio[1],), (middle - zero,))
    shape = (256, 1, 1, 1) if op == "CONV_2D" else (256, 1)
    inputs, feed = [Input(shape, dtype, quantization=held)], [stored.reshape(shape)]
    if op in ("MUL", "BATCH_MATMUL", "ADD", "SUB"):
        inputs.append(Input((1, 256), dtype, quantization=Quantization((1.0,), (middle,))))
        feed.append(stored[None])
    if op in ("FULLY_CONNECTED", "CONV_2D"):
        one = np.full(shape[1:] if op == "FULLY_CONNECTED" else (1, 1, 1, 1), middle + 1)
        weights = one.astype(kind.dtype).reshape((1,) * len(shape))
        whole, sums = Quantization((1.0,), (middle,)), Quantization((ratio[0],), (0,))
        inputs.append(Input(weights.shape, dtype, weights, quantization=whole))
        inputs.append(Input((1,), "i32", np.zeros(1, np.int32), quantization=sums))
    return Case(f"{ratio} {zero}", op, version, tuple(inputs), table, options, output_type=dtype,
                output_quantization=made), feed  # fmt: skip


@pytest.mark.parametrize("op", HALVED)
def test_halves_of_levels(op: str, host_name: str, book: Book) -> None:
    """Fixed-point arithmetic rounds twice, and differently for negative numbers."""
    made = (
        halves(op, dtype, ratio, zero)
        for dtype in ("i8", "u8")
        for ratio in (*RATIOS, *BY_CHANCE)
        for zero in (0, 10, -40)
    )
    judged(op, made, host_name, book)


@pytest.mark.parametrize("slope", [-0.5, -0.25, -3.0])
def test_negative_slopes(slope: float, host_name: str, book: Book) -> None:
    """Some hosts multiply by a negative slope, others negate products."""
    made = (
        halves("LEAKY_RELU", dtype, ratio, zero)
        for dtype in ("i8", "u8")
        for ratio in RATIOS
        for zero in (0, 10)
    )
    sloped = ((replace(case, options={"alpha": slope}), feed) for case, feed in made)
    judged("LEAKY_RELU", sloped, host_name, book)


# ---- factors -------------------------------------------------------------------------------------

# The reciprocal scales of both operands, and the level of the largest result. Hosts compute the
# requantization factor in float32, in float64, or in a mix; at these scales the three differ.
LAYERS, PRODUCTS = ((161, 189, 117), (211, 286, 92)), ((258, 198, 80), (41, 24, 54))
LARGEST = 1 << 14  # of the integers that are multiplied


def factors(
    op: str, dtype: str, scales: tuple[int, int, int], fed: bool
) -> tuple[Case, list[Array]]:
    """Returns a case of all products of two 8-bit numbers; for a layer, all sums 127 a + b. Weights
    are constants, or inputs if `fed`."""
    version, table, options = HALVED[op]
    kind = np.iinfo(NUMPY_DTYPES[dtype])
    middle = (kind.min + kind.max + 1) // 2
    x, w = (np.float32(1 / parts) for parts in scales[:2])
    held, other = Quantization((float(x),), (middle,)), Quantization((float(w),), (0,))
    y = Quantization((float(np.float32(float(x) * float(w) * LARGEST / scales[2])),), (middle,))
    stored = np.arange(kind.min, kind.max + 1).astype(kind.dtype)
    if op in ("MUL", "BATCH_MATMUL"):
        other = replace(other, zero_point=(middle,))
        inputs = [Input((256, 1), dtype, quantization=held),
                  Input((1, 256), dtype, quantization=other)]  # fmt: skip
        feed = [stored[:, None], stored[None]]
    else:
        other = replace(other, zero_point=(middle if dtype == "u8" else 0,))
        shape = (1, 256, 256, 2) if op == "CONV_2D" else (1 << 16, 2)
        weights = (np.array([127, 1]) + other.zero_point[0]).astype(kind.dtype)
        weights = weights.reshape((1, 1, 1, 2) if op == "CONV_2D" else (1, 2))
        sums = Quantization((float(x * w),), (0,))
        inputs = [Input(shape, dtype, quantization=held),
                  Input(weights.shape, dtype, None if fed else weights, quantization=other),
                  Input((1,), "i32", np.zeros(1, np.int32), quantization=sums)]  # fmt: skip
        feed = [np.stack(np.meshgrid(stored, stored), -1).reshape(shape), weights][: 1 + fed]
    return Case(str(scales), op, version, tuple(inputs), table, options, output_type=dtype,
                output_quantization=y), feed  # fmt: skip


@pytest.mark.parametrize(
    ("op", "chosen", "fed"),
    [("FULLY_CONNECTED", LAYERS, False), ("FULLY_CONNECTED", LAYERS, True),
     ("CONV_2D", LAYERS, False), ("MUL", PRODUCTS, True), ("BATCH_MATMUL", PRODUCTS, True)],
)  # fmt: skip
def test_factors(
    op: str, chosen: tuple[tuple[int, int, int], ...], fed: bool, host_name: str, book: Book
) -> None:
    made = (factors(op, dtype, scales, fed) for dtype in ("i8", "u8") for scales in chosen)
    judged(op, made, host_name, book)
