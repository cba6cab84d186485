"""A small graph for each pass, as providers import them: each pass changes at least one, with every
optional operand and quantization that it may meet."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.support.dynamic_ranges import dynamic_layer
from tests.support.net import FIRST, LAST, WINDOW, Net
from tflgpu_plugin.ir import NUMBERS, Graph, Quantization, Tensor
from tflgpu_plugin.ops.views import part

STORED = Quantization((0.05,), (10,))
EVEN = Quantization((0.05,), (10,), rounding="even")


# ---- layouts -------------------------------------------------------------------------------------


def normalized_image() -> Graph:
    """Returns a graph that normalizes images in NCHW with more values than one launch takes, with
    variances about the mean."""
    n = Net()
    x = n.turn(n.input((1, 3, 130, 130)), LAST)
    y = n.op("instance_normalization", x, n.drawn(3), n.drawn(3), epsilon=1e-3)
    return n.graph(n.op("relu", n.turn(y, FIRST)))


def normalized_between_layers() -> Graph:
    n = Net()
    x = n.turn(n.input((1, 4, 130, 128)), LAST)
    y = n.turn(n.conv(x, 4), FIRST)
    y = n.turn(n.op("instance_normalization", n.turn(y, LAST), n.drawn(4), None), FIRST)
    return n.graph(n.turn(n.conv(n.turn(y, LAST), 2), FIRST))


def added_picture() -> Graph:
    """Returns a graph with a constant that must have the layout of the tensor to which it is
    added."""
    n = Net()
    x = n.op("max_pool_2d", n.turn(n.input((1, 3, 7, 7)), LAST), window=(2, 2),
             strides=(1, 1), padding="valid", activation="none")  # fmt: skip
    y = n.binary("add", n.turn(x, FIRST), n.drawn(1, 3, 6, 6))
    y = n.binary("mul", y, n.drawn(3, 1, 1))
    return n.graph(n.turn(n.conv(n.turn(y, LAST)), FIRST))


def means_of_turned() -> Graph:
    """Returns a graph of reductions over one and several axes, with and without keeping them."""
    n = Net()
    x = n.turn(n.op("relu", n.input((2, 5, 6, 4))), FIRST)
    kept = n.op("reduce_max", x, n.ints(-1), keep_dims=True)
    gone = n.op("mean", n.binary("sub", x, kept), n.ints(2, 3), keep_dims=False)
    return n.graph(n.turn(n.binary("sub", x, kept), LAST), gone)


def kept_rows() -> Graph:
    n = Net()
    x = n.dense(n.reshape(n.input((1, 16, 4)), 16, 4), 6)
    return n.graph(n.op("relu", n.reshape(x, 1, 16, 6)))


def steps_behind_a_reshape() -> Graph:
    n = Net()
    x = n.reshape(n.op("tanh", n.input((1, 5, 7, 8))), 1, 35, 8)
    return n.graph(n.op("neg", n.binary("add", x, n.drawn(8))))


def moves_of_moves() -> Graph:
    n = Net()
    x = n.op("space_to_depth", n.conv(n.input((1, 6, 8, 4)), 4), block=2)
    view = part(n.shape(x), 3, 4, 8)
    return n.graph(n.op("relu", n.op("depth_to_space", n.op("view", x, view=view), block=2)))


# ---- layers --------------------------------------------------------------------------------------


def scaled_layer() -> Graph:
    """Returns a layer as a batch normalization leaves it."""
    n = Net()
    y = n.binary("mul", n.conv(n.input((1, 6, 6, 5)), 7, 3), n.drawn(7, low=0.5))
    return n.graph(n.op("sin", n.binary("add", y, n.drawn(7))))


def leaky_layer() -> Graph:
    n = Net()
    return n.graph(n.op("leaky_relu", n.conv(n.input((2, 5, 5, 4)), 6, 3), alpha=0.2))


def two_steps() -> Graph:
    n = Net()
    y = n.binary("add", n.op("relu", n.conv(n.input((1, 5, 5, 4)), 6)), n.drawn(6))
    return n.graph(n.binary("mul", y, n.input((1, 5, 5, 6))))


def padded_layer() -> Graph:
    n = Net()
    widths = n.constant(np.array([[0, 0], [1, 2], [2, 1], [0, 0]], np.int32), "i32")
    return n.graph(n.conv(n.op("pad", n.input((1, 6, 5, 4)), widths), 4, 3, padding="valid"))


def branches() -> Graph:
    """Returns a graph of two layers of one tensor, with different activations."""
    n = Net()
    x = n.op("relu", n.input((1, 5, 5, 6)))
    a, b = (n.conv(x, count, activation="relu") for count in (8, 6))
    return n.graph(n.op("mean", a, n.ints(1, 2), keep_dims=True),
                   n.op("mean", n.conv(b, 5, activation="relu6"), n.ints(1, 2),
                        keep_dims=False))  # fmt: skip


def excited(side: int = 5) -> Graph:
    """Returns a graph of squeeze-and-excitation, and the product with its gates."""
    n = Net()
    x = n.conv(n.input((1, side, side, 12)), 12)
    means = n.op("mean", x, n.ints(1, 2), keep_dims=True)
    gates = n.op("logistic", n.conv(n.op("relu", n.conv(means, 6)), 12))
    return n.graph(n.conv(n.binary("mul", x, gates), 8))


def limits_of_layers() -> Graph:
    n = Net()
    y = n.conv(n.conv(n.input((1, 5, 5, 4)), 6, activation="relu"), 6, activation="relu6")
    return n.graph(y)


def nothing_beside() -> Graph:
    """Returns a graph with a part without elements, and a result without elements."""
    n = Net()
    x, none = n.input((0, 4)), n.input((2, 4))
    y = n.binary("sub", n.op("relu", x), n.number(2.0))
    return n.graph(y, n.op("concat", y, n.op("neg", none), axis=0, activation="none"))


def repeated() -> Graph:
    n = Net()
    x = n.input((2, 4, 6))
    return n.graph(
        n.binary("div", n.op("exp", x), n.binary("add", n.op("exp", x), n.drawn(6, low=1)))
    )


# ---- functions spelled out -----------------------------------------------------------------------


def gated() -> Graph:
    n = Net()
    x = n.conv(n.input((1, 4, 4, 4)))
    cubic = n.binary("add", x, n.binary("mul", n.op("pow", x, n.number(3)), n.number(0.044715)))
    inner = n.op("tanh", n.binary("mul", cubic, n.number((2 / np.pi) ** 0.5)))
    gelu = n.binary("mul", n.binary("mul", x, n.number(0.5)), n.binary("add", inner, n.number(1)))
    return n.graph(n.binary("mul", gelu, n.op("logistic", gelu)))


def squares_of_an_image() -> Graph:
    """Returns a graph of the mean of squared differences from a value per channel."""
    n = Net()
    x = n.input((1, 9, 7, 6))
    mean = n.op("mean", x, n.ints(1, 2), keep_dims=True)
    squares = n.op("squared_difference", x, mean)
    return n.graph(n.op("mean", squares, n.ints(1, 2), keep_dims=True))


def normalized_rows() -> Graph:
    n = Net()
    x = n.input((2, 5, 16))
    d = n.binary("sub", x, n.op("mean", x, n.ints(-1), keep_dims=True))
    squares = n.op("mean", n.binary("mul", d, d), n.ints(-1), keep_dims=True)
    factor = n.op("rsqrt", n.binary("add", squares, n.number(0.1)))
    y = n.binary("mul", n.binary("mul", d, factor), n.drawn(16))
    return n.graph(n.binary("add", y, n.drawn(16)))


def normalized_groups() -> Graph:
    n = Net()
    x = n.turn(n.input((2, 3, 5, 16)), FIRST)
    rows = n.turn(n.reshape(x, 2, 4, 60), (0, 2, 1))
    one, none = n.constant(np.ones(4, np.float32)), n.constant(np.zeros(4, np.float32))
    y = n.op("instance_normalization", rows, one, none, epsilon=1e-3)
    return n.graph(n.reshape(n.turn(y, (0, 2, 1)), 2, 16, 3, 5))


def _product(n: Net, heads: tuple[int, ...], length: int, depth: int) -> list[int]:
    whole, start, made = (1, length, depth * sum(heads)), 0, []
    x = n.input(whole)
    for count in heads:
        made.append(n.op("view", x, view=part(whole, 2, start, count * depth)))
        start += count * depth
    return made


def attended() -> Graph:
    """Returns a graph of attention with a factor and a mask."""
    n = Net()
    q, k, v = (n.turn(n.reshape(n.input((2, 5, 16)), 2, 5, 4, 4), (0, 2, 1, 3)) for _ in range(3))
    scores = n.binary("mul", n.op("matmul", q, k, transpose_b=True), n.number(0.5))
    scores = n.binary("add", scores, n.input((2, 1, 5, 5)))
    shares = n.op("softmax", scores, beta=1.0)
    return n.graph(n.reshape(n.turn(n.op("matmul", shares, v), (0, 2, 1, 3)), 2, 5, 16))


def layers_of_attention() -> Graph:
    """Returns a graph of layers for queries, keys and values, with biases."""
    n = Net()
    x = n.input((1, 5, 12))
    q, k, v = (n.dense(x, 16) for _ in range(3))
    return n.graph(n.op("attention", q, k, v, None, heads=4, scale=0.5, joined=True))


def rotated() -> Graph:
    n = Net()
    shape = (1, 3, 5, 16)
    x, cos, sin = n.input(shape), n.input((1, 1, 5, 16)), n.input((1, 1, 5, 16))
    a, b = (n.op("view", x, view=part(shape, 3, start, 8)) for start in (0, 8))
    crossed = n.op("concat", n.op("neg", b), a, axis=-1, activation="none")
    return n.graph(n.binary("add", n.binary("mul", x, cos), n.binary("mul", crossed, sin)))


def rotated_together() -> Graph:
    """Returns a graph of queries and keys from one product, rotated by the same angles."""
    n = Net()
    q, k, v = _product(n, (4, 2, 2), 5, 8)
    angles = n.input((1, 1, 5, 8)), n.input((1, 1, 5, 8))
    q, k = (n.op("rotary", t, *angles, heads=count, joined=True) for t, count in ((q, 4), (k, 2)))
    return n.graph(n.op("attention", q, k, v, None, heads=4, kv_heads=2, scale=0.5, joined=True))


# ---- quantization --------------------------------------------------------------------------------


def _levels(n: Net, *shape: int, axis: int | None = 0) -> int:
    """Returns an 8-bit constant with a scale per output, or with a single one."""
    scales = n.random.uniform(0.01, 0.03, shape[axis] if axis is not None else 1)
    held = Quantization(tuple(float(s) for s in scales), (0,) * len(scales), axis or 0)
    data = n.random.integers(-100, 128, shape).astype(np.int8)
    return n.constant(data, "i8", quantization=held)


def _whole_bias(n: Net, count: int) -> int:
    return n.constant(n.random.integers(-500, 900, count).astype(np.int32), "i32")


def quantized_layer(activation: str = "relu6", axis: int | None = 0) -> Graph:
    n = Net()
    stored = Tensor("", (), "i8", None, STORED)
    x = n.input((1, 6, 6, 4), dtype="i8", quantization=STORED)
    y = n.op("conv_2d", x, _levels(n, 5, 3, 3, 4, axis=axis), _whole_bias(n, 5), made=stored,
             **WINDOW | {"activation": activation})  # fmt: skip
    z = n.op("add", y, y, made=Tensor("", (), "i8", None, Quantization((0.11,), (-20,))),
             activation="none")  # fmt: skip
    mean = n.op("mean", z, n.ints(1, 2), made=n.tensors[z], keep_dims=True)
    share = Tensor("", (), "i8", None, Quantization((1 / 256,), (-128,)))
    return n.graph(n.op("logistic", z, made=share), mean)


def quantized_functions() -> Graph:
    """Returns a graph of quantized functions, each with its own integer arithmetic."""
    n = Net()
    x = n.input((1, 5, 5, 4), dtype="i8", quantization=STORED)
    made = Tensor("", (), "i8", None, Quantization((0.07,), (-5,)))
    alpha = n.constant(n.random.integers(20, 100, (1, 1, 4)).astype(np.int8), "i8",
                       quantization=Quantization((0.01,), (0,)))  # fmt: skip
    prelu = n.op("prelu", x, alpha, made=made)
    leaky = n.op("leaky_relu", prelu, made=made, alpha=0.3)
    swish = n.op("hard_swish", leaky, made=made)
    less = n.op("sub", swish, leaky, made=made, activation="none")
    return n.graph(n.op("squared_difference", swish, x, made=made), less)


def weights_in_8_bits(axis: int | None = 0) -> Graph:
    """Returns layers over floats, with constants in another layout."""
    n = Net()
    y = n.op("conv_2d", n.input((1, 6, 6, 4)), _levels(n, 5, 3, 3, 4, axis=axis), n.drawn(5),
             **WINDOW)  # fmt: skip
    b = n.turn(_levels(n, 6, 5, axis=axis), (1, 0))
    return n.graph(n.op("matmul", n.reshape(y, 1, 36, 5), b))


def weights_in_16_bits() -> Graph:
    n = Net()
    held = n.constant(n.random.uniform(-0.5, 1, (5, 3, 3, 4)).astype(np.float16), "f16")
    y = n.op("conv_2d", n.input((1, 6, 6, 4)), n.op("dequantize", held), n.drawn(5), **WINDOW)
    return n.graph(y)


def between_levels(op: str = "relu6") -> Graph:
    """Returns a graph of a layer between a dequantize and a quantize, and data movement of its
    result."""
    n = Net()
    stored = Tensor("", (), "u8", None, Quantization((0.04,), (9,), rounding="even"))
    x = n.op("quantize", n.input((1, 6, 6, 4)), made=stored)
    weights = n.op("dequantize", _levels(n, 5, 3, 3, 4))
    y = n.op(op, n.op("conv_2d", n.op("dequantize", x), weights, n.drawn(5), **WINDOW))
    held = Tensor("", (), "u8", None, Quantization((6 / 255,), (0,), rounding="even"))
    y = n.op("dequantize", n.op("quantize", n.turn(y, FIRST), made=held))
    return n.graph(n.op("quantize", n.binary("add", y, y), made=stored))


def whole_numbers_and_back() -> Graph:
    n = Net()
    x = n.input((2, 3, 4), dtype="i8", quantization=NUMBERS)
    return n.graph(n.op("cast", n.op("cast", x, made=Tensor("", (), "i32"))))


def truth_of_whole_numbers(between: str = "bool") -> Graph:
    """Returns a graph with an intermediate type that cannot hold every number."""
    n = Net()
    x = n.input((2, 3, 4), dtype="u8", quantization=NUMBERS)
    held = NUMBERS if between == "i8" else None
    return n.graph(n.op("cast", n.op("cast", x, made=Tensor("", (), between, None, held))))


def padded_between_levels() -> Graph:
    """Returns a graph that pads a quantized image with its zero point."""
    n = Net()
    stored = Tensor("", (), "i8", None, STORED)
    x = n.input((1, 6, 6, 4), dtype="i8", quantization=STORED)
    widths = n.constant(np.array([[0, 0], [1, 2], [2, 1], [0, 0]], np.int32), "i32")
    y = n.op("conv_2d", n.op("pad", x, widths, made=stored), _levels(n, 5, 3, 3, 4),
             _whole_bias(n, 5), made=stored, **WINDOW | {"padding": "valid"})  # fmt: skip
    return n.graph(n.op("transpose", n.op("max_pool_2d", y, made=stored, window=(2, 2),
                        strides=(2, 2), padding="same", activation="none"),
                        made=stored, perm=FIRST))  # fmt: skip


def turned_levels() -> Graph:
    """Returns a graph of quantized layers between transposes, and a constant in the layout of the
    result."""
    n = Net()
    stored = Tensor("", (), "i8", None, STORED)
    other = Tensor("", (), "i8", None, Quantization((0.08,), (-3,)))
    given = n.input((1, 4, 6, 6), dtype="i8", quantization=STORED)
    x = n.op("transpose", given, made=stored, perm=LAST)
    y = n.op("conv_2d", x, _levels(n, 4, 1, 1, 4), _whole_bias(n, 4), made=stored, **WINDOW)
    y = n.op("transpose", y, made=stored, perm=FIRST)
    picture = n.constant(n.random.integers(-20, 128, (1, 4, 6, 6)).astype(np.int8), "i8",
                         quantization=Quantization((0.03,), (4,)))  # fmt: skip
    y = n.op("add", y, picture, made=other, activation="none")
    y = n.op("transpose", y, made=other, perm=LAST)
    return n.graph(n.op("conv_2d", y, _levels(n, 3, 1, 1, 4), None, made=stored, **WINDOW))


GRAPHS: dict[str, Callable[[], Graph]] = {
    "normalized image": normalized_image,
    "normalized between layers": normalized_between_layers,
    "added picture": added_picture,
    "means of turned": means_of_turned,
    "kept rows": kept_rows,
    "steps behind a reshape": steps_behind_a_reshape,
    "moves of moves": moves_of_moves,
    "scaled layer": scaled_layer,
    "leaky layer": leaky_layer,
    "two steps": two_steps,
    "padded layer": padded_layer,
    "branches": branches,
    "excited": excited,
    "excited, of a large map": lambda: excited(40),
    "limits of layers": limits_of_layers,
    "nothing beside": nothing_beside,
    "repeated": repeated,
    "gated": gated,
    "squares of an image": squares_of_an_image,
    "normalized rows": normalized_rows,
    "normalized groups": normalized_groups,
    "attended": attended,
    "layers of attention": layers_of_attention,
    "rotated": rotated,
    "rotated together": rotated_together,
    "quantized layer": quantized_layer,
    "quantized layer, one scale": lambda: quantized_layer("none", None),
    "quantized functions": quantized_functions,
    "weights in 8 bits": weights_in_8_bits,
    "weights in 8 bits, one scale": lambda: weights_in_8_bits(None),
    "weights in 16 bits": weights_in_16_bits,
    "between levels": between_levels,
    "between levels, no limit": lambda: between_levels("sin"),
    "integers and back": whole_numbers_and_back,
    "truth of integers": truth_of_whole_numbers,
    "integers that wrap": lambda: truth_of_whole_numbers("i8"),
    "padded between levels": padded_between_levels,
    "turned levels": turned_levels,
    "quantized over its range": dynamic_layer,
}
