"""Operators that take the stored numbers of integers of 8 and 16 bits, whatever their scale:
exactly the numbers of the hosts' kernels."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

from conformance import host
from conformance.cases import Case, Input
from conformance.host import Array
from conformance.models import tflite as models
from conformance.plugin.book import Book
from conformance.test_levels import judged
from tflgpu_plugin.ir import INT16, NUMPY_DTYPES, Quantization

pytestmark = [pytest.mark.adapter, pytest.mark.every_host, pytest.mark.dtype(INT16)]
Made = Iterator[tuple[Case, list[Array]]]
SMALL = ("i8", "u8", INT16, "u16")
NUMBERS = (*SMALL, "bool", "i32", "i64", "u32")
OTHERS = ("bool", "f32", "f16", "i32", "i64", "u32")
SCALES = (None, Quantization((0.013,), (0,)), Quantization((3.7,), (-5,)))


def every(dtype: str) -> Array:
    """Returns all numbers of a type of 8 or 16 bits; those of others around its ends and theirs."""
    if dtype == "bool":
        return np.array([False, True, True])
    if dtype in ("f32", "f16"):
        ends = np.array([0.0, -0.0, 0.5, -0.99, 1.5, 100.7, 126.99])
        return ends.astype(NUMPY_DTYPES[dtype])
    kind = np.iinfo(NUMPY_DTYPES[dtype])
    if kind.bits <= 16:
        return np.arange(kind.min, kind.max + 1).astype(kind.dtype)
    near = [sign * (1 << bit) + k for bit in (0, 7, 8, 15, 16, 24, 30) for k in (-1, 0, 1)
            for sign in (1, -1)]  # fmt: skip
    return np.array([n for n in (*near, 2**31 - 1, -(2**31)) if n >= kind.min], kind.dtype)


def scaled(dtype: str, scale: Quantization | None) -> Quantization | None:
    """Returns the quantization of a tensor of this type. The zero point of 16 bits is 0."""
    if scale is None or dtype not in ("i8", "u8", INT16):
        return None
    zero = 0 if dtype == INT16 else scale.zero_point[0] + 60 * (dtype == "u8")
    return Quantization(scale.scale, (zero,))


def casts(pairs: Any) -> Made:
    for (held, wanted), scale in product(pairs, SCALES):
        stored = every(held)
        given = Input(stored.shape, held, quantization=scaled(held, scale))
        case = Case(f"{held} {wanted} {scale}", "CAST", 1, (given,), "CastOptions", {},
                    output_type=wanted, output_quantization=scaled(wanted, scale))  # fmt: skip
        yield case, [stored]


@pytest.mark.parametrize("dtype", SMALL)
def test_casts_to_small_integers(dtype: str, host_name: str, book: Book) -> None:
    judged("CAST", casts((held, dtype) for held in (*NUMBERS, "f32", "f16")), host_name, book)


@pytest.mark.parametrize("dtype", SMALL)
def test_casts_of_small_integers(dtype: str, host_name: str, book: Book) -> None:
    wanted = [kind for kind in OTHERS if kind != "u32" or dtype[0] == "u"]
    judged("CAST", casts((dtype, kind) for kind in wanted), host_name, book)


@pytest.mark.parametrize("dtype", SMALL)
def test_floats_beyond_a_type(dtype: str, book: Book) -> None:
    """They saturate, and NaN becomes the largest number; older hosts leave that to the CPU."""
    kind = np.iinfo(NUMPY_DTYPES[dtype])
    ends = [float(end) + k for end in (kind.min, kind.max) for k in (-1, -0.5, 0, 0.5, 1)]
    stored = np.array([*ends, 1e9, -1e9, 3e38, np.inf, -np.inf, np.nan], np.float32)
    given = (Input(stored.shape, "f32"),)
    case = Case("beyond", "CAST", 1, given, "CastOptions", {}, output_type=dtype)
    judged("CAST", iter([(case, [stored])]), "ai_edge_litert", book)


def pairs(op: str, dtype: str, version: int) -> Made:
    """Yields all numbers of 8 bits with one another, or random numbers of 16 bits."""
    chance, table = np.random.default_rng(3), "".join(map(str.capitalize, op.split("_")))
    kind = np.iinfo(NUMPY_DTYPES[dtype])
    first = chance.integers(kind.min, kind.max + 1, (64, 64))
    second = chance.integers(kind.min, kind.max + 1, (64, 64)) >> chance.integers(0, kind.bits, 64)
    first[:4, :4], second[:4, :4] = kind.min, np.array([-1, kind.max, kind.min, 1])
    if op.startswith("FLOOR"):  # ai-edge-litert has two answers for the least number by -1
        second[second == 0] = 3
        second[0, 0] = 2
        first[(first == kind.min) & (second == -1)] += 1
    feed = [first.astype(kind.dtype), second.astype(kind.dtype)]
    for scale, row in product(SCALES, (False, True)):
        second = feed[1][:1] if row else feed[1]
        held = scaled(dtype, scale)
        given = (
            Input(feed[0].shape, dtype, quantization=held),
            Input(second.shape, dtype, second if row else None, quantization=held),
        )
        case = Case(f"{dtype} {scale} {row}", op, version, given, f"{table}Options", {},
                    output_type=dtype, output_quantization=held)  # fmt: skip
        yield case, feed[:1] if row else feed


@pytest.mark.parametrize("dtype", ["i8", INT16])
@pytest.mark.parametrize(("op", "version"), [("FLOOR_DIV", 3), ("FLOOR_MOD", 2)])
def test_floored_quotients(op: str, version: int, dtype: str, host_name: str, book: Book) -> None:
    judged(op, pairs(op, dtype, version), host_name, book)


@pytest.mark.parametrize("dtype", SMALL)
@pytest.mark.parametrize("op", ["BITWISE_XOR", "RIGHT_SHIFT"])
def test_bits(op: str, dtype: str, host_name: str, book: Book) -> None:
    judged(op, pairs(op, dtype, 1), host_name, book)


@pytest.mark.parametrize("op", ["BITWISE_XOR", "RIGHT_SHIFT"])
def test_bits_of_unsigned_words(op: str, host_name: str, book: Book) -> None:
    """Numbers beyond int32 are the host's."""
    made = (pair for pair in pairs(op, "u32", 1) if len(pair[1]) > 1)
    positive = ((case, [each & 0x7FFFFFFF for each in feed]) for case, feed in made)
    judged(op, positive, host_name, book)


def test_division_by_zero_fails(host_name: str) -> None:
    given = (Input((3,), INT16), Input((3,), INT16))
    case = Case("zero", "FLOOR_DIV", 3, given, "FloorDivOptions", {}, output_type=INT16)
    feed = [np.array([1, 2, 3], np.int16), np.array([1, 0, 1], np.int16)]
    said = "failed to invoke" if host_name == "litert" else "ivision by 0"
    for run in (host.run_on_cpu, host.run_on_gpu):
        with pytest.raises(RuntimeError, match=said):
            run(models.build(case), [feed], host_name)


# ---- requantization to and from int32 ------------------------------------------------------------

RATIOS = (1.0, 0.5, 3e-3, 0.37, 2.7e-7, 1.0 / 3, 2.0, 37.3)


def requantized(held: str, wanted: str) -> Made:
    """Yields numbers near both ends of a type, near halves of a level, and by chance."""
    for seed, ratio in enumerate(RATIOS):
        chance, kind = np.random.default_rng(seed), np.iinfo(NUMPY_DTYPES[held])
        most = min(kind.max, int(2**30 / max(ratio, 1)))
        stored = chance.integers(-most, most, 4096) >> chance.integers(0, kind.bits, 4096)
        near = (np.arange(-300, 300) + 0.5) / ratio
        stored[:600] = np.clip(np.rint(near), -most, most)
        stored[600:604] = -most, most, 0, 1
        zeros = [0 if kind == INT16 else int(chance.integers(-9, 9)) for kind in (held, wanted)]
        scale = float(np.float32(chance.uniform(1e-4, 1e-3)))
        made = Quantization((float(np.float32(scale / ratio)),), (zeros[1],))
        given = Input(stored.shape, held, quantization=Quantization((scale,), (zeros[0],)))
        case = Case(f"{held} {wanted} {ratio}", "QUANTIZE", 3, (given,), "QuantizeOptions", {},
                    output_type=wanted, output_quantization=made)  # fmt: skip
        yield case, [stored.astype(kind.dtype)]


@pytest.mark.parametrize(("held", "wanted"), [("i32", "i8"), ("i32", INT16), (INT16, "i32")])
def test_requantization(held: str, wanted: str, host_name: str, book: Book) -> None:
    judged("QUANTIZE", requantized(held, wanted), host_name, book)


# ---- rows of a table -----------------------------------------------------------------------------


def rows(dtype: str, constant: bool) -> Made:
    chance = np.random.default_rng(5)
    kind = np.iinfo(NUMPY_DTYPES[dtype])
    table = chance.integers(kind.min, kind.max + 1, (40, 3, 5)).astype(kind.dtype)
    picked = chance.integers(0, 40, 17).astype(np.int32)
    for scale in SCALES[1:]:
        held = scaled(dtype, scale)
        given = (Input((17,), "i32"), Input(table.shape, dtype, table if constant else None,
                                            quantization=held))  # fmt: skip
        yield Case(f"{dtype} {scale}", "EMBEDDING_LOOKUP", 3, given, output_type=dtype,
                   output_quantization=held), [picked, table][: 2 - constant]  # fmt: skip


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("dtype", ["i8", "u8", INT16])
def test_rows(dtype: str, constant: bool, host_name: str, book: Book) -> None:
    judged("EMBEDDING_LOOKUP", rows(dtype, constant), host_name, book)


# ---- operators of one tensor, and of values that are moved ---------------------------------------


def negated(dtype: str) -> Made:
    """Yields all numbers: the least one stays, and hosts do not read zero points."""
    for scale in SCALES:
        held, stored = scaled(dtype, scale), every(dtype)
        given = (Input(stored.shape, dtype, quantization=held),)
        case = Case(f"{dtype} {scale}", "NEG", 1, given, "NegOptions", {}, output_type=dtype,
                    output_quantization=held)  # fmt: skip
        yield case, [stored]


@pytest.mark.parametrize("dtype", ["i8", INT16])
def test_negated_numbers(dtype: str, host_name: str, book: Book) -> None:
    judged("NEG", negated(dtype), host_name, book)


def chosen(dtype: str) -> Made:
    for axis, scale in product((-1, 0), SCALES[1:]):
        held = scaled(dtype, scale)
        given = (
            Input((9,), "i32"), Input((), "i32", np.array(7, np.int32)),
            *(Input((), dtype, quantization=held) for _ in range(2)),
        )  # fmt: skip
        feed = [np.arange(-1, 8, dtype=np.int32)]
        feed += [np.array(n, NUMPY_DTYPES[dtype]) for n in (77, 3)]
        yield Case(f"{dtype} {axis} {scale}", "ONE_HOT", 1, given, "OneHotOptions", {"axis": axis},
                   output_type=dtype, output_quantization=held), feed  # fmt: skip


@pytest.mark.parametrize("dtype", ["i8", "u8"])
def test_one_of_two_numbers(dtype: str, host_name: str, book: Book) -> None:
    judged("ONE_HOT", chosen(dtype), host_name, book)


def updated(dtype: str) -> Made:
    for scale in SCALES[1:]:
        held, chance = scaled(dtype, scale), np.random.default_rng(6)
        kind = np.iinfo(NUMPY_DTYPES[dtype])
        feed = [chance.integers(kind.min, kind.max + 1, shape).astype(kind.dtype)
                for shape in ((7, 5), (3, 5))]  # fmt: skip
        given = (
            *(Input(data.shape, dtype, quantization=held) for data in feed), Input((2,), "i32"),
        )  # fmt: skip
        yield Case(f"{dtype} {scale}", "DYNAMIC_UPDATE_SLICE", 2, given, output_type=dtype,
                   output_quantization=held), [*feed, np.array([2, 0], np.int32)]  # fmt: skip


@pytest.mark.parametrize("dtype", ["i8", "u8"])
def test_updated_slices(dtype: str, host_name: str, book: Book) -> None:
    judged("DYNAMIC_UPDATE_SLICE", updated(dtype), host_name, book)


# ---- sums at indices -----------------------------------------------------------------------------


def scattered(dtype: str, constant: bool) -> Made:
    """Yields updates at indices of which some are equal, so that sums wrap around, and none are."""
    kind = np.iinfo(NUMPY_DTYPES[dtype])
    for (count, shape, width), scale in product(
        ((9, (4, 5), 1), (60, (7, 3), 2), (21, (40, 6), 1), (1, (1, 1), 2)), SCALES
    ):
        chance, held = np.random.default_rng(count), scaled(dtype, scale)
        rows = chance.integers(0, shape[:width], (count, width)).astype(np.int32)
        if count < shape[0]:
            rows[:, 0] = chance.permutation(shape[0])[:count]
        feed = chance.integers(kind.min, kind.max + 1, (count, *shape[width:])).astype(kind.dtype)
        given = (
            Input(rows.shape, "i32", rows if constant else None),
            Input(feed.shape, dtype, quantization=held),
            Input((len(shape),), "i32", np.array(shape, np.int32)),
        )
        case = Case(f"{dtype} {count} {scale}", "SCATTER_ND", 1, given, output_type=dtype,
                    output_quantization=held)  # fmt: skip
        yield case, [feed] if constant else [rows, feed]


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("dtype", ["i8", "u8"])
def test_sums_at_indices(dtype: str, constant: bool, host_name: str, book: Book) -> None:
    judged("SCATTER_ND", scattered(dtype, constant), host_name, book)


# ---- products ------------------------------------------------------------------------------------


def products(dtype: str) -> Made:
    """Yields products whose scales keep them in range, let them wrap around, and let most be 0;
    along first, last and several axes."""
    kind = np.iinfo(NUMPY_DTYPES[dtype])
    shapes = (((5, 7), (0,)), ((3, 4, 6), (-1, 0)), ((2, 9, 5), (1,)), ((6, 3), (1, 0)),
              ((700, 3), (0,)), ((2, 3, 4, 5), (3, 1)))  # fmt: skip
    for seed, ((shape, axes), reach) in enumerate(product(shapes, (0.7, 1.0, 1.4, 30.0, 0.01))):
        chance = np.random.default_rng(seed)
        feed = chance.integers(kind.min, kind.max + 1, shape).astype(kind.dtype)
        feed.reshape(-1)[:2] = kind.min, kind.max
        zeros = (0, 0) if dtype == INT16 else tuple(map(int, chance.integers(-90, 90, 2)))
        scale = float(np.float32(reach / kind.max * 1.7))  # 1: as large after a step as before
        made = float(np.float32(chance.uniform(0.5, 2) / kind.max))
        listed = np.array(axes, np.int32)
        given = (Input(shape, dtype, quantization=Quantization((scale,), zeros[:1])),
                 Input(listed.shape, "i32", listed))  # fmt: skip
        case = Case(f"{dtype} {seed}", "REDUCE_PROD", 2, given, "ReducerOptions",
                    {"keepDims": seed % 3 == 0}, output_type=dtype,
                    output_quantization=Quantization((made,), zeros[1:]))  # fmt: skip
        yield case, [feed]


@pytest.mark.parametrize("dtype", ["i8", INT16])
def test_products_of_numbers(dtype: str, host_name: str, book: Book) -> None:
    judged("REDUCE_PROD", products(dtype), host_name, book)
