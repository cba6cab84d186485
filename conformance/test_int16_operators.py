"""Operators of int16 beyond those of test_int16.py: products of matrices, sums (also of int8),
square roots, slopes, interpolation, choices and comparisons. Exactly the numbers of the hosts'
kernels."""

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
from conformance.test_int16 import SCALES, STORED, held
from conformance.test_levels import judged
from tflgpu_plugin.ir import INT16, NUMPY_DTYPES, Quantization

pytestmark = [pytest.mark.adapter, pytest.mark.every_host, pytest.mark.dtype(INT16)]
Made = Iterator[tuple[Case, list[Array]]]


def stored(chance: np.random.Generator, shape: tuple[int, ...], dtype: str = INT16) -> Array:
    """Returns random numbers of a type, the least and the largest among them."""
    kind = np.iinfo(NUMPY_DTYPES[dtype])
    made = np.asarray(chance.integers(kind.min, kind.max + 1, shape), kind.dtype)
    made.reshape(-1)[:2] = (kind.min, kind.max)[: made.size]
    return made


# ---- products of matrices ------------------------------------------------------------------------

MATRICES: tuple[Any, ...] = (
    ((3, 7, 64), (3, 64, 9), {}), ((2, 3, 5, 40), (2, 3, 33, 40), {"adjY": True}),
    ((40, 6), (40, 5), {"adjX": True}), ((4, 1, 6, 17), (5, 17, 4), {}),
    ((1, 1, 1024), (1, 1024, 3), {}), ((5, 1), (1, 4), {}), ((3, 8, 300), (300, 20), {}),
)  # fmt: skip


def product(number: int, constant: int | None = None, same: bool = False) -> Any:
    """Returns a product with random scales. One operand may be constant; with `same`, all numbers
    are the largest."""
    first, second, options = MATRICES[number % len(MATRICES)]
    chance = np.random.default_rng([number, constant or 0])
    feed = [stored(chance, shape) for shape in (first, second)]
    if same:
        feed = [np.full_like(each, 2**15 - 1 - number) for each in feed]
    scales = [float(np.float32(scale)) for scale in chance.uniform(1e-5, 1e-3, 2)]
    depth = first[-2 if "adjX" in options else -1]
    reach = float(np.prod(scales)) * 2**30 * (depth if same else depth**0.5)
    made = held(reach / 2**15 * float(chance.uniform(0.1, 2)))
    given = [
        Input(each.shape, INT16, each if k == constant else None, quantization=held(scale))
        for k, (each, scale) in enumerate(zip(feed, scales, strict=True))
    ]
    case = Case(f"{number} {constant}", "BATCH_MATMUL", 4, tuple(given), "BatchMatMulOptions",
                {"adjX": False, "adjY": False} | options, output_type=INT16,
                output_quantization=made)  # fmt: skip
    return case, [each for k, each in enumerate(feed) if k != constant]


@pytest.mark.parametrize("constant", [None, 0, 1])
def test_products(constant: int | None, host_name: str, book: Book) -> None:
    judged("BATCH_MATMUL", (product(k, constant) for k in range(14)), host_name, book)


def test_products_of_the_largest(host_name: str, book: Book) -> None:
    judged("BATCH_MATMUL", (product(k, None, True) for k in range(7)), host_name, book)


def test_attention(host_name: str) -> None:
    """A softmax between two products stays what hosts compute."""
    model = models.Model()
    sizes = {"q": (2, 5, 24), "k": (2, 9, 24), "v": (2, 9, 8)}
    given = [model.input(name, shape, INT16) for name, shape in sizes.items()]
    for tensor in given:
        model.tensors[tensor].quantization = held(1e-4)
    options = {"adjX": False, "adjY": True}
    scores = model.op("BATCH_MATMUL", given[:2], "BatchMatMulOptions", options, shape=(2, 5, 9),
                      dtype=INT16, version=4)  # fmt: skip
    shares = model.op("SOFTMAX", [scores], "SoftmaxOptions", {"beta": 1.0}, shape=(2, 5, 9),
                      dtype=INT16, version=3)  # fmt: skip
    result = model.op("BATCH_MATMUL", [shares, given[2]], "BatchMatMulOptions",
                      {"adjX": False, "adjY": False}, shape=(2, 5, 8), dtype=INT16,
                      version=4)  # fmt: skip
    for tensor, scale in ((scores, 2e-3), (shares, 2.0**-15), (result, 1.1e-4)):
        model.tensors[tensor].quantization = held(scale)
    model.output(result)
    feed = [stored(np.random.default_rng(len(name)), shape) for name, shape in sizes.items()]
    data = model.to_bytes()
    if not host.registers(data, host_name):
        pytest.skip(f"{host_name} has no such kernels")
    run = host.run_on_gpu(data, [feed], host_name)
    ((wanted,),) = host.run_on_cpu(data, [feed], host_name)
    np.testing.assert_array_equal(run.outputs[0][0], wanted)
    assert run.placement.on_gpu == 3


# ---- sums ----------------------------------------------------------------------------------------


def sums(dtype: str, seeds: int = 12) -> Made:
    """Yields sums along some axes, into scales that are larger, smaller or the same, far from the
    middle of the range so that they have a sign."""
    axes = ((1,), (0, 2), (0, 1, 2), (2,), (-1, 0), (1, 1))
    for seed in range(seeds):
        chance, kind = np.random.default_rng(seed), np.iinfo(NUMPY_DTYPES[dtype])
        feed = stored(chance, (7, 40, 9), dtype)
        feed[:, 20:] = kind.max - np.abs(feed[:, 20:]) // 9
        scale = float(np.float32(chance.uniform(1e-3, 1e-2)))
        zeros = (0, 0) if dtype == INT16 else tuple(map(int, chance.integers(-90, 90, 2)))
        made = float(np.float32(scale * (1.0, 300.0, 37.0, 0.3)[seed % 4]))
        listed = np.array(axes[seed % 6], np.int32)
        given = (Input(feed.shape, dtype, quantization=Quantization((scale,), zeros[:1])),
                 Input(listed.shape, "i32", listed))  # fmt: skip
        yield Case(f"{seed}", "SUM", 2, given, "ReducerOptions", {"keepDims": seed % 3 == 0},
                   output_type=dtype,
                   output_quantization=Quantization((made,), zeros[1:])), [feed]  # fmt: skip


def ties(dtype: str) -> Made:
    """Yields sums of which many are halves of a level."""
    for seed, part in enumerate((30, 10, 6, 4, 18)):
        chance = np.random.default_rng(seed)
        feed = chance.integers(-100, 100, (9, 6 + seed, 64)).astype(NUMPY_DTYPES[dtype])
        axis = Input((1,), "i32", np.array([1], np.int32))
        zeros = (0, 0) if dtype == INT16 else (7 - seed * 11, -5)
        scale = float(np.float32(0.01)), float(np.float32(part * 0.01))
        given = (Input(feed.shape, dtype, quantization=Quantization(scale[:1], zeros[:1])), axis)
        yield Case(f"ties {part}", "SUM", 2, given, "ReducerOptions", {"keepDims": True},
                   output_type=dtype,
                   output_quantization=Quantization(scale[1:], zeros[1:])), [feed]  # fmt: skip


@pytest.mark.parametrize("dtype", ["i8", INT16])
def test_ties_of_sums(dtype: str, host_name: str, book: Book) -> None:
    if (dtype, host_name) == (INT16, "tflite_runtime"):
        pytest.skip("tflite_runtime adds up int16 in 16 bits")
    judged("SUM", ties(dtype), host_name, book)


@pytest.mark.parametrize("dtype", ["i8", INT16])
def test_sums(dtype: str, host_name: str, book: Book) -> None:
    if (dtype, host_name) != (INT16, "tflite_runtime"):
        return judged("SUM", sums(dtype), host_name, book)
    case, feed = next(sums(dtype))
    run = host.run_on_gpu(models.build(case), [feed], host_name)
    assert run.placement.sentences == ("SUM with sums of int16 in 16 bits is not supported.",)


# ---- numbers of one tensor -----------------------------------------------------------------------


def roots() -> Made:
    for number, scale in enumerate(SCALES):
        largest = (32767 * scale) ** 0.5 / 32767
        made = held(largest * (1.0, 0.5, 1.31)[number % 3])
        case = Case(f"{scale:g}", "SQRT", 2, (Input((1, STORED.size), INT16,
                    quantization=held(scale)),), output_type=INT16,
                    output_quantization=made)  # fmt: skip
        yield case, [np.maximum(STORED, 0)[None]]


def test_square_roots(host_name: str, book: Book) -> None:
    judged("SQRT", roots(), host_name, book)


def sloped(number: int, shape: tuple[int, ...]) -> tuple[Case, list[Array]]:
    chance = np.random.default_rng(number)
    slopes = stored(chance, shape, "i8")
    scales = [float(np.float32(scale)) for scale in chance.uniform(1e-4, 1e-2, 2)]
    made = held(scales[0] * float(chance.uniform(0.4, 2)))
    given = (Input((4, 6, 5), INT16, quantization=held(scales[0])),
             Input(shape, "i8", slopes, quantization=held(scales[1])))  # fmt: skip
    case = Case(f"{number}", "PRELU", 1, given, output_type=INT16, output_quantization=made)
    return case, [stored(chance, (4, 6, 5))]


@pytest.mark.parametrize("shape", [(5,), (6, 5), (1, 1, 1), (4, 6, 5)])
def test_slopes(shape: tuple[int, ...], host_name: str, monkeypatch: pytest.MonkeyPatch,
                book: Book) -> None:  # fmt: skip
    monkeypatch.setattr(host, "installed", lambda: [host_name])  # the first one has no such kernel
    judged("PRELU", (sloped(number, shape) for number in range(8)), host_name, book)


def test_slopes_of_int16_are_the_hosts() -> None:
    """ai-edge-litert reads their bytes."""
    given = tuple(Input((5,), INT16, quantization=held(0.1)) for _ in range(2))
    case = Case("slopes", "PRELU", 1, given, output_type=INT16, output_quantization=held(0.1))
    run = host.run_on_gpu(models.build(case), [[np.ones(5, np.int16)] * 2], "ai_edge_litert")
    assert run.placement.sentences == ("PRELU of int16 does not take slopes of int16.",)


def test_the_square_root_of_a_negative_number_fails(host_name: str) -> None:
    case = next(roots())[0]
    model = models.build(case)
    if not host.registers(model, host_name):
        pytest.skip(f"{host_name} has no such kernel")
    for run in (host.run_on_cpu, host.run_on_gpu):
        with pytest.raises(RuntimeError, match="only defined for non-negative"):
            run(model, [[np.full((1, STORED.size), -1, np.int16)]], host_name)


def interpolated(shape: tuple[int, ...], size: tuple[int, int]) -> Made:
    for seed, (corners, centers) in enumerate(((False, False), (True, False), (False, True))):
        feed = stored(np.random.default_rng(seed), shape)
        feed[..., -1] //= 1 << 12  # halves occur
        listed = Input((2,), "i32", np.array(size, np.int32))
        options = {"alignCorners": corners, "halfPixelCenters": centers}
        yield Case(f"{shape} {size} {seed}", "RESIZE_BILINEAR", 4,
                   (Input(shape, INT16, quantization=held(0.01)), listed), "ResizeBilinearOptions",
                   options, output_type=INT16, output_quantization=held(0.01)), [feed]  # fmt: skip


@pytest.mark.parametrize(
    ("shape", "size"),
    [((2, 5, 7, 6), (10, 14)), ((1, 16, 16, 3), (7, 9)), ((1, 1, 3, 4), (4, 1)),
     ((3, 8, 8, 5), (8, 33))],
)  # fmt: skip
def test_interpolation(shape: Any, size: Any, host_name: str, book: Book) -> None:
    judged("RESIZE_BILINEAR", interpolated(shape, size), host_name, book)


@pytest.mark.parametrize(("op", "table", "options"), [
    ("LEAKY_RELU", "LeakyReluOptions", {"alpha": 0.3}), ("QUANTIZE", "QuantizeOptions", {}),
])  # fmt: skip
def test_interpolation_whose_result_is_computed_with(
    op: str, table: str, options: dict[str, Any], host_name: str
) -> None:
    """A step that the kernel fuses reads the numbers that hosts store between the two."""
    model, shape, size = models.Model(), (1, 2, 3, 4), (1, 4, 5, 4)
    x, listed = model.input("x", shape, INT16), model.constant(np.array(size[1:3], np.int32))
    centers = {"alignCorners": False, "halfPixelCenters": True}
    y = model.op("RESIZE_BILINEAR", [x, listed], "ResizeBilinearOptions", centers, shape=size,
                 dtype=INT16, version=3)  # fmt: skip
    result = model.op(op, [y], table, options, shape=size, dtype=INT16, version=2)
    for tensor, scale in ((x, 2.0**-13), (y, 2.0**-13), (result, 1.7 * 2.0**-13)):
        model.tensors[tensor].quantization = held(scale)
    model.output(result)
    chance = np.random.default_rng(5)
    feeds = [[chance.integers(16000, 32000, shape).astype(np.int16)] for _ in range(200)]
    data = model.to_bytes()
    if not host.registers(data, host_name):
        pytest.skip(f"{host_name} has no such kernels")
    run = host.run_on_gpu(data, feeds, host_name)
    np.testing.assert_array_equal(run.outputs, host.run_on_cpu(data, feeds, host_name))
    assert run.placement.on_gpu == 2


# ---- two tensors ---------------------------------------------------------------------------------


def compared(op: str, version: int, scale: Quantization | None) -> Made:
    for shapes in (((4, 9), (4, 9)), ((3, 1, 5), (7, 1)), ((6,), ())):
        feed = [np.asarray(9000 * np.random.default_rng(k).integers(-3, 3, each), np.int16)
                for k, each in enumerate(shapes)]  # fmt: skip
        given = tuple(Input(each, INT16, quantization=scale) for each in shapes)
        yield Case(f"{op} {shapes}", op, version, given, output_type="bool"), feed


@pytest.mark.parametrize("scale", [None, held(0.013)], ids=["numbers", "quantized"])
@pytest.mark.parametrize(("op", "version"), [("EQUAL", 4), ("LESS", 3), ("GREATER_EQUAL", 3)])
def test_comparisons(op: str, version: int, scale: Any, host_name: str, book: Book) -> None:
    judged(op, compared(op, version, scale), host_name, book)


def test_numbers_of_two_scales_are_the_hosts(host_name: str) -> None:
    """tflite-runtime compares stored numbers, ai-edge-litert all but those of EQUAL and
    NOT_EQUAL."""
    given = tuple(Input((5,), INT16, quantization=held(scale)) for scale in (0.1, 0.2))
    case = Case("scales", "LESS", 3, given, output_type="bool")
    feed = [np.arange(5).astype(np.int16)] * 2
    run = host.run_on_gpu(models.build(case), [feed], host_name)
    assert run.placement.on_gpu == 0 and "one scale" in run.placement.sentences[0]


def chosen(op: str) -> Made:
    for which, first, second in (((2, 6), (2, 6), (2, 6)), ((2, 1), (2, 6), (6,))):
        if op == "SELECT" and which != first:
            continue
        chance = np.random.default_rng(len(second))
        feed = [chance.integers(0, 2, which).astype(bool), stored(chance, first),
                stored(chance, second)]  # fmt: skip
        given = (Input(which, "bool"), *(Input(each, INT16, quantization=held(0.02))
                                         for each in (first, second)))  # fmt: skip
        yield Case(f"{which}", op, 1, given, f"{'Select' if op == 'SELECT' else 'SelectV2'}Options",
                   output_type=INT16, output_quantization=held(0.02)), feed  # fmt: skip


@pytest.mark.parametrize("op", ["SELECT", "SELECT_V2"])
def test_choices(op: str, host_name: str, book: Book) -> None:
    judged(op, chosen(op), host_name, book)


def largest(dtype: str) -> Made:
    """Yields choices of the largest numbers, of which some are equal."""
    for shape, count in (((3, 21), 4), ((300,), 5), ((2, 3, 700), 9), ((4, 9), 9)):
        feed = stored(np.random.default_rng(count), shape, dtype)
        feed.reshape(-1)[5:9] = np.iinfo(feed.dtype).max
        point = Quantization((3e-4,), (0 if dtype == INT16 else 7,))
        given = (Input(shape, dtype, quantization=point),
                 Input((), "i32", np.asarray(count, np.int32)))  # fmt: skip
        case = Case(f"{shape}", "TOPK_V2", 3 if dtype == INT16 else 2, given, "TopKV2Options",
                    outputs=2, output_types=(dtype, "i32"), output_quantization=point)  # fmt: skip
        yield case, [feed]


@pytest.mark.parametrize("dtype", ["i8", "u8", INT16])
def test_largest_numbers(dtype: str, host_name: str, book: Book) -> None:
    judged("TOPK_V2", largest(dtype), host_name, book)


def test_largest_numbers_of_another_scale_stay(host_name: str) -> None:
    """Hosts move stored numbers whatever their scale."""
    case, feed = next(largest(INT16))
    model = models.build(replace(case, output_quantization=Quantization((6e-4,), (0,))))
    assert host.run_on_gpu(model, [feed], host_name).placement.on_gpu == 0


def updated(dtype: str) -> Made:
    """Yields updates of parts, at starts of which some are outside."""
    for shape, part in (((3, 4, 5), (2, 4, 1)), ((9,), (4,)), ((2, 3, 5, 6), (1, 3, 2, 6))):
        chance = np.random.default_rng(len(shape))
        starts = chance.integers(-1, 4, len(shape)).astype(np.int32)
        feed = [stored(chance, shape, dtype), stored(chance, part, dtype), starts]
        given = (*(Input(each, dtype, quantization=held(0.02)) for each in (shape, part)),
                 Input(starts.shape, "i32"))  # fmt: skip
        yield Case(f"{shape}", "DYNAMIC_UPDATE_SLICE", 6, given, "DynamicUpdateSliceOptions",
                   output_type=dtype, output_quantization=held(0.02)), feed  # fmt: skip


@pytest.mark.parametrize("dtype", ["i8", INT16])
def test_updates(dtype: str, host_name: str, book: Book) -> None:
    judged("DYNAMIC_UPDATE_SLICE", updated(dtype), host_name, book)
