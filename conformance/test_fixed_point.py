"""Operators whose hosts compute integers of 8 and 16 bits in fixed point, over all pairs of numbers
of 8 bits: exactly the numbers of the hosts' kernels, also where numbers that differ compare equal,
and where a quotient is not the nearest number. So are inputs that CONCATENATION requantizes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest

from conformance.cases import Case, Input
from conformance.host import Array
from conformance.plugin.book import Book
from conformance.test_levels import judged
from tflgpu_plugin.ir import INT16, NUMPY_DTYPES, Quantization

pytestmark = [pytest.mark.adapter, pytest.mark.every_host, pytest.mark.dtype(INT16)]
Made = Iterator[tuple[Case, list[Array]]]
BYTES = ("i8", "u8")
# Scales of operands and result, and zero points; those of 16 bits are 0.
SCALES = (
    ((0.013, 3), (0.013, 3), (0.05, 7)),
    ((0.001, 0), (0.002, 0), (0.01, 0)),
    ((0.0007, 30), (0.011, -20), (0.003, -8)),
    ((0.3, 7), (0.99, -1), (0.1, 4)),
    ((1e-5, -9), (2e-5, 9), (0.7, 0)),
)


def held(dtype: str, scale: float, zero: int) -> Quantization:
    return Quantization((scale,), (0 if dtype == INT16 else zero + 128 * (dtype == "u8"),))


def numbers(dtype: str) -> list[Array]:
    """Returns all pairs of numbers of 8 bits; of 16 bits, random ones of all sizes."""
    kind = np.iinfo(NUMPY_DTYPES[dtype])
    if kind.bits == 8:
        grid = np.meshgrid(*[np.arange(kind.min, kind.max + 1)] * 2)
        return [each.astype(kind.dtype) for each in grid]
    chance = np.random.default_rng(7)
    made = [chance.integers(kind.min, kind.max + 1, (256, 256)) for _ in range(2)]
    return [(n >> chance.integers(0, 16, n.shape)).astype(kind.dtype) for n in made]


def compared(op: str, dtype: str, several: bool) -> Made:
    """Yields numbers of 8 bits; those of 16 bits have `several` scales or one."""
    for a, b, _ in SCALES:
        for constant in (False, True):
            feed = numbers(dtype)
            if dtype == INT16:  # numbers near each other
                chance = np.random.default_rng(8).integers(-60, 60, feed[0].shape)
                near = feed[0] + chance
                feed[1] = np.clip(near, -(2**15), 2**15 - 1).astype(np.int16)
                b = b if several else a
            second = feed[1][:, :1]
            given = (
                Input(feed[0].shape, dtype, quantization=held(dtype, *a)),
                Input(second.shape if constant else feed[1].shape, dtype,
                      second if constant else None, quantization=held(dtype, *b)),
            )  # fmt: skip
            case = Case(f"{a} {b} {constant}", op, 2, given, output_type="bool")
            yield case, feed[:1] if constant else feed


@pytest.mark.parametrize("dtype", [*BYTES, INT16])
@pytest.mark.parametrize(
    "op", ["EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL"]
)
def test_comparisons(op: str, dtype: str, host_name: str, book: Book) -> None:
    several = op in ("EQUAL", "NOT_EQUAL") and host_name != "tflite_runtime"
    judged(op, compared(op, dtype, several), host_name, book)


def quotients(dtype: str, activation: str) -> Made:
    for a, b, y in SCALES:
        feed = numbers(dtype)
        zero = held(dtype, *b).zero_point[0]
        feed[1][feed[1] == zero] += 1  # C++ leaves quotients by 0 undefined
        given = tuple(Input(feed[0].shape, dtype, quantization=held(dtype, *one)) for one in (a, b))
        options = {"fusedActivationFunction": activation}
        case = Case(f"{a} {b} {y}", "DIV", 2, given, "DivOptions", options, output_type=dtype,
                    output_quantization=held(dtype, *y))  # fmt: skip
        yield case, feed


@pytest.mark.parametrize("activation", ["NONE", "RELU6"])
@pytest.mark.parametrize("dtype", [*BYTES, INT16])
def test_quotients(dtype: str, activation: str, host_name: str, book: Book) -> None:
    judged("DIV", quotients(dtype, activation), host_name, book)


def joined() -> Made:
    """Yields inputs with another scale than the result, for which the exact results of many numbers
    are halves, of some, and of none."""
    every = np.arange(256, dtype=np.uint8).reshape(1, 256)
    wanted = ((0.02, 130), (0.02, 3), (0.0371, 9), (1.0, 9), (0.03, 0))
    for (scale, zero), result in product(((0.01, 130), (0.5, 7), (0.01, 0)), wanted):
        given = tuple(
            Input(every.shape, "u8", quantization=Quantization((one,), (point,)))
            for one, point in ((scale, zero), result)
        )
        case = Case(f"{scale} {zero} {result}", "CONCATENATION", 2, given, "ConcatenationOptions",
                    {"axis": 1}, output_type="u8",
                    output_quantization=Quantization((result[0],), (result[1],)))  # fmt: skip
        yield case, [every, every]


def test_requantized_inputs(host_name: str, book: Book) -> None:
    judged("CONCATENATION", joined(), host_name, book)


def of_constants(op: str, dtype: str) -> Made:
    """Yields operators of stored numbers that are constants, which become float32 before a run."""
    kind = NUMPY_DTYPES[dtype]
    stored = np.arange(np.iinfo(kind).min, np.iinfo(kind).max + 1).astype(kind).reshape(16, -1)
    versions = {"LOGISTIC": 3, "MEAN": 3, "QUANTIZE": 2}
    for (scale, zero), result in product(((0.02, 9), (0.5, 7)), ((0.04, 3), (0.013, 100), (1, 0))):
        given = [Input(stored.shape, dtype, stored, quantization=held(dtype, scale, zero))]
        made = Quantization((1 / 32768,), (0,)) if op == "LOGISTIC" else held(dtype, *result)
        options: dict[str, object] = {"keepDims": True} if op == "MEAN" else {}
        given += [Input((1,), "i32", np.array([1], np.int32))] if op == "MEAN" else []
        yield Case(f"{scale} {result}", op, versions[op], tuple(given),
                   "ReducerOptions" if options else None, options, output_type=dtype,
                   output_quantization=made), []  # fmt: skip


@pytest.mark.parametrize(
    ("op", "dtype"),
    [("QUANTIZE", "i8"), ("QUANTIZE", "u8"), ("QUANTIZE", INT16), ("LOGISTIC", INT16),
     ("MEAN", "i8"), ("MEAN", INT16)])  # fmt: skip
def test_constants(op: str, dtype: str, host_name: str, book: Book) -> None:
    judged(op, of_constants(op, dtype), host_name, book)
