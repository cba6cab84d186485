"""Every number of int16 through the operators of one tensor, and many pairs through those of two,
in several scales: exactly the numbers of the host's reference kernels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from conformance import host
from conformance.cases import Case, Input
from conformance.host import Array
from conformance.models import tflite as models
from conformance.plugin.book import Book
from conformance.test_levels import FUNCTIONS, OPTIONS, TABLES, judged
from conformance.variants.quantized import FIXED, VERSIONS, quantization_of
from tflgpu_plugin.ir import INT16, NUMPY_DTYPES, Quantization
from tflgpu_plugin.providers.tflite.ops import HOST_OPS

pytestmark = [pytest.mark.adapter, pytest.mark.every_host, pytest.mark.dtype(INT16)]
ONE = tuple(op for op in FUNCTIONS if HOST_OPS[op].int16)
STORED = np.arange(-(2**15), 2**15).astype(np.int16)
# Powers of two, for which hosts have kernels of their own, and nearly such.
POWERS = (*(2.0**-k for k in (9, 11, 12, 13)), 2.0**-12 * 1.0004, 2.0**-12 * 1.002)
BY_CHANCE = tuple(map(float, np.random.default_rng(7).uniform(2e-5, 4e-4, 6)))
SCALES = (*POWERS, *BY_CHANCE, 1.0, 0.037, 1e-6, 5.4, 9.25, 1300.0)


def held(scale: float) -> Quantization:
    return Quantization((float(np.float32(scale)),), (0,))


def every(op: str, scale: float) -> tuple[Case, list[Array]]:
    """Returns a case of all numbers in this scale. The result's scale is that of a converter, or
    half of it, so that some results saturate."""
    values = STORED * scale
    with np.errstate(all="ignore"):
        results = FUNCTIONS[op](values[values > 0] if op in ("LOG", "RSQRT") else values)
    results = np.clip(results, -1e4, 1e4)
    made = quantization_of(float(results.min()), float(results.max()), INT16)
    part = 0.5 if scale in BY_CHANCE[::2] else 1.0
    made = held(FIXED[op][INT16][0] if op in FIXED else made.scale[0] * part)
    given = Input((1, STORED.size), INT16, quantization=held(scale))
    version = {"RSQRT": 3, "ABS": 3}.get(op, VERSIONS.get(op, 2))
    case = Case(f"{scale:g}", op, version, (given,), TABLES.get(op), OPTIONS.get(op, {}),
                output_type=INT16, output_quantization=made)  # fmt: skip
    return case, [(np.maximum(STORED, ~STORED) if op == "RSQRT" else STORED)[None]]


@pytest.mark.parametrize("op", ONE)
def test_every_number(op: str, host_name: str, book: Book) -> None:
    judged(op, (every(op, scale) for scale in SCALES), host_name, book)


def test_approximate_gelu(host_name: str, book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "installed", lambda: [host_name])  # the first one has no such kernel
    made = (every("GELU", scale) for scale in SCALES)
    cases = ((replace(case, options={"approximate": True}), feed) for case, feed in made)
    judged("GELU", cases, host_name, book)


@pytest.mark.parametrize("slope", [-0.5, -0.25, -3.0])
def test_negative_slopes(slope: float, host_name: str, book: Book) -> None:
    made = (every("LEAKY_RELU", scale) for scale in (1.0, 0.037, 2.0**-12))
    sloped = (
        (replace(case, options={"alpha": slope}, output_quantization=held(scale)), feed)
        for case, feed in made
        for scale in (2.0**-10, 0.5, 0.037)
    )
    judged("LEAKY_RELU", sloped, host_name, book)


@pytest.mark.parametrize("dtype", ["i8", INT16])
def test_inverse_roots_of_negative_numbers(dtype: str, host_name: str) -> None:
    """Hosts raise where a quantized number is negative. A compiled model's error names the node;
    the words of the kernel are in LiteRT's log."""
    kind = np.iinfo(NUMPY_DTYPES[dtype])
    for least in (0, -1):
        feed = np.array([[least, 1, kind.max]]).astype(kind.dtype)
        case = Case("roots", "RSQRT", 3, (Input((1, 3), dtype, quantization=held(0.01)),),
                    output_type=dtype, output_quantization=held(0.1))  # fmt: skip
        model = models.build(case)
        if not host.registers(model, host_name) or (dtype == INT16 and "runtime" in host_name):
            pytest.skip(f"{host_name} has no such kernel")
        if least:
            said = "only defined for positive"
            ours = r"\(RSQRT\) failed to invoke" if host_name == host.COMPILED else said
            for run, words in ((host.run_on_cpu, said), (host.run_on_gpu, ours)):
                with pytest.raises(RuntimeError, match=words):
                    run(model, [[feed]], host_name)
        else:
            assert host.run_on_gpu(model, [[feed]], host_name).placement.on_gpu == 1


# ---- two operands --------------------------------------------------------------------------------

PAIRS = {"ADD": "AddOptions", "SUB": "SubOptions", "MUL": "MulOptions"}
# Scales of the operands and of the result; the last ones are powers of two.
TRIPLES = (
    (1e-4, 1e-4, 2e-4), (1e-4, 3e-5, 1.2e-4), (3e-5, 1e-4, 9e-5), (0.5, 0.25, 1.0),
    (1e-4, 1e-7, 1e-4), (0.017, 2.3, 2.5), (1.0, 1.0, 1.0), (1e-3, 1e-3, 1e-5),
    *(tuple(map(float, each)) for each in np.random.default_rng(8).uniform(1e-5, 1e-3, (12, 3))),
    (2.0**-15, 2.0**-15, 2.0**-15), (2.0**-15, 2.0**-12, 2.0**-12),
    (2.0**-11, 2.0**-15, 2.0**-11), (2.0**-12, 2.0**-13 * 1.0003, 2.0**-12),
)  # fmt: skip


def pair(op: str, number: int, powers: bool) -> tuple[Case, list[Array]]:
    """Returns a case of random numbers, among them the least and the largest."""
    chance, ends = np.random.default_rng(number), np.array([-(2**15), 2**15 - 1, -1, 0, 1])
    feed = [chance.integers(-(2**15), 2**15, (5, 4096)).astype(np.int16) for _ in range(2)]
    feed[0][:, :5], feed[1][:, :5] = ends[:, None], ends[None]
    feed[1][:, 5:1000] >>= 8  # sums and products that do not saturate
    *given, made = (held(scale) for scale in TRIPLES[number])
    activation = ("NONE", "RELU", "RELU6", "RELU_N1_TO_1")[number % 4]
    options: dict[str, Any] = {"fusedActivationFunction": activation}
    options |= {} if op == "MUL" else {"potScaleInt16": powers}
    inputs = tuple(Input(feed[0].shape, INT16, quantization=each) for each in given)
    version = {"ADD": 4, "SUB": 5, "MUL": 4}[op]
    return Case(f"{TRIPLES[number]} {powers}", op, version, inputs, PAIRS[op], options,
                output_type=INT16, output_quantization=made), feed  # fmt: skip


@pytest.mark.parametrize("op", PAIRS)
def test_pairs(op: str, host_name: str, book: Book) -> None:
    judged(op, (pair(op, k, False) for k in range(len(TRIPLES))), host_name, book)


@pytest.mark.parametrize("op", ["ADD", "SUB"])
def test_sums_of_powers_of_two(op: str, host_name: str, book: Book) -> None:
    judged(op, (pair(op, k, True) for k in range(len(TRIPLES) - 4, len(TRIPLES))), host_name, book)


# ---- layers --------------------------------------------------------------------------------------

LAYERS = {
    "FULLY_CONNECTED": (7, "FullyConnectedOptions", {}),
    "CONV_2D": (4, "Conv2DOptions", {"padding": "SAME", "strideW": 1, "strideH": 1}),
    "TRANSPOSE_CONV": (3, "TransposeConvOptions", {"padding": "SAME", "strideW": 2, "strideH": 2}),
    "DEPTHWISE_CONV_2D": (
        5, "DepthwiseConv2DOptions",
        {"padding": "SAME", "strideW": 1, "strideH": 1, "depthMultiplier": 1},
    ),
}  # fmt: skip
SHARES = (1.0, 3.0, 0.02, 1e-3, 0.3)  # of the result's range that the sums fill


def layer(op: str, number: int, deep: int = 24, whole: bool = False) -> tuple[Case, list[Array]]:
    """Returns a layer at random scales, one per channel except for every other fully-connected
    layer. `whole`: all weights are 127 and all values the largest, and sums need 41 bits."""
    chance, (version, table, options) = np.random.default_rng([number, deep]), LAYERS[op]
    shape = {"FULLY_CONNECTED": (64, deep)}.get(op, (1, 8, 8, deep))
    weights = {"FULLY_CONNECTED": (7, deep), "DEPTHWISE_CONV_2D": (1, 3, 3, deep)}.get(
        op, (7, 3, 3, deep)
    )
    feed = chance.integers(-(2**15), 2**15, shape).astype(np.int16)
    feed[..., -3:] >>= 9
    numbers = chance.integers(-127, 128, weights).astype(np.int8)
    if whole:
        feed[:], numbers[:] = 2**15 - 1, 127
    axis = 3 if op == "DEPTHWISE_CONV_2D" else 0
    channels = 1 if op == "FULLY_CONNECTED" and number % 2 else weights[axis]
    scale, *scales = map(float, chance.uniform(1e-5, 1e-3, 1 + channels).astype(np.float32))
    scales = [scale * 9 for scale in scales]
    sums = [float(np.float32(scale * each)) for each in scales]
    reach = 127 * 2**14 * (max(deep, 9) if whole else max(deep, 9) ** 0.5) * max(sums)
    made = held(reach / 2**15 / SHARES[number % len(SHARES)])
    biases = chance.integers(-(2**28), 2**28, weights[axis])
    bias = Input(biases.shape, "i64", biases.astype(np.int64),
                 quantization=Quantization(tuple(sums), (0,) * channels))  # fmt: skip
    inputs: tuple[Input, ...] = (
        Input(shape, INT16, quantization=held(scale)),
        Input(weights, "i8", numbers,
              quantization=Quantization(tuple(scales), (0,) * channels, axis)),
        bias,
    )  # fmt: skip
    if op == "TRANSPOSE_CONV":
        size = Input((4,), "i32", np.array([1, 16, 16, 7], np.int32))
        inputs = (size, inputs[1], inputs[0], bias)
    else:
        options = options | {"fusedActivationFunction": ("NONE", "RELU")[number % 3 == 0]}
    case = Case(f"{number} {deep} {whole}", op, version, inputs, table, options, output_type=INT16,
                output_quantization=made)  # fmt: skip
    bare = op in ("CONV_2D", "DEPTHWISE_CONV_2D") and number % 4 == 0
    return replace(case, inputs=inputs[:2]) if bare else case, [feed]


@pytest.mark.parametrize("op", LAYERS)
def test_layers(op: str, host_name: str, book: Book) -> None:
    judged(op, (layer(op, number) for number in range(20)), host_name, book)


@pytest.mark.parametrize("op", ["FULLY_CONNECTED", "CONV_2D"])
def test_large_sums(op: str, host_name: str, book: Book) -> None:
    """The digits of deep layers have 4 bits."""
    sizes = (300, 2000) if op == "FULLY_CONNECTED" else (130, 200)
    made = (layer(op, number, deep, number % 2 == 0) for deep in sizes for number in range(1, 5))
    judged(op, made, host_name, book)


@pytest.mark.parametrize("op", LAYERS)
def test_totals_beyond_int32(op: str, host_name: str, book: Book) -> None:
    """Scales of the results are so small that totals exceed int32, where hosts wrap around."""
    made = ((share, *layer(op, number)) for share in (1e-3, 1e-6) for number in range(1, 5))
    finer = ((replace(case, output_quantization=held(parameter(case) * share)), feed)
             for share, case, feed in made)  # fmt: skip
    judged(op, finer, host_name, book)


def parameter(case: Case) -> float:
    assert case.output_quantization is not None
    return case.output_quantization.scale[0]


@pytest.mark.parametrize("op", ["FULLY_CONNECTED", "TRANSPOSE_CONV"])
def test_layers_without_a_bias(op: str, host_name: str, book: Book) -> None:
    """In tflite-runtime their sums have 32 bits, and the host keeps them."""
    made = (layer(op, number) for number in range(1, 5))
    bare = ((replace(case, inputs=case.inputs[:-1]), feed) for case, feed in made)
    if host_name != "tflite_runtime":
        return judged(op, bare, host_name, book)
    for case, feed in bare:
        run = host.run_on_gpu(models.build(case), [feed], host_name)
        assert run.placement.sentences == (
            f"{op} needs a bias of int64 for int16, whose sums have 64 bits.",
        )


# ---- averages ------------------------------------------------------------------------------------

WINDOWS = ((25, 5), (1, 127), (8, 8), (3, 3), (11, 11))


def averages(op: str, window: tuple[int, int], number: int) -> tuple[Case, list[Array]]:
    """Returns windows of numbers on one side of zero: near the largest, or near ties."""
    chance, (high, wide) = np.random.default_rng(number), window
    feed = chance.integers(2**15 - 1 - 9**number, 2**15, (32, high, wide, 5)).astype(np.int16)
    feed[::2] = ~feed[::2]
    given = Input(feed.shape, INT16, quantization=held(7e-5))
    options: dict[str, Any] = {"padding": "VALID", "strideW": 1, "strideH": 1}
    options |= {"filterWidth": wide, "filterHeight": high, "fusedActivationFunction": "NONE"}
    if op == "MEAN":
        axes = Input((2,), "i32", np.array([1, 2], np.int32))
        made = held(7e-5 * (1 + number / 7))
        return Case(f"{window}", op, 2, (given, axes), "ReducerOptions", {"keepDims": True},
                    output_type=INT16, output_quantization=made), [feed]  # fmt: skip
    return Case(f"{window}", op, 3, (given,), "Pool2DOptions", options, output_type=INT16,
                output_quantization=held(7e-5)), [feed]  # fmt: skip


@pytest.mark.parametrize("op", ["AVERAGE_POOL_2D", "MEAN"])
def test_averages(op: str, host_name: str, book: Book) -> None:
    made = (averages(op, window, number) for window in WINDOWS for number in range(1, 5))
    judged(op, made, host_name, book)


# ---- softmax -------------------------------------------------------------------------------------

BETAS, DEPTHS = (1.0, 0.3, 2.0), (5, 1000, 17, 1)


def shares(number: int, largest: bool = False) -> tuple[Case, list[Array]]:
    """Returns rows of numbers that lie close together, far apart, and at both ends."""
    chance, depth = np.random.default_rng(number), DEPTHS[number % 4]
    feed = chance.integers(-(2**15), 2**15, (64, depth)).astype(np.int16)
    feed[::3] >>= 8
    feed[1], feed[2, -1:] = 2**15 - 1, -(2**15)
    usual, large = (3e-4, 2.0**-12, 1e-5, 2e-3, 0.1), (5.5, 7.2, 16.0, 99.0, 2345.0)
    scale = (large if largest else usual)[number % 5]
    given = Input(feed.shape, INT16, quantization=held(scale))
    return Case(f"{number}", "SOFTMAX", 3, (given,), "SoftmaxOptions",
                {"beta": BETAS[number % 3]}, output_type=INT16,
                output_quantization=held(2.0**-15)), [feed]  # fmt: skip


@pytest.mark.parametrize("largest", [False, True], ids=["usual scales", "large scales"])
def test_softmax(largest: bool, host_name: str, book: Book) -> None:
    """With large scales, differences wrap around in the hosts' int32."""
    made = (shares(number, largest) for number in range(20))
    judged("SOFTMAX", made, host_name, book)
