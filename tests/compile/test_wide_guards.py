"""Sizes that decide for speed alone leave no guards, on GPUs either: a plan for one extent holds
for far larger and smaller ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.support.net import FIRST, LAST, WINDOW, Net
from tflgpu_plugin import ops
from tflgpu_plugin.compile.template import Values, template
from tflgpu_plugin.ir import Graph, Quantization, Target, Tensor
from tflgpu_plugin.ir.extent import Trace
from tflgpu_plugin.ir.symbolic import integers

TARGETS = {
    "software": Target(software=True, vendor="software", subgroup_size=8),
    "gpu": Target(vendor="amd", subgroup_size=64, least_subgroup=64),
    "nvidia": Target(vendor="nvidia", subgroup_size=32, least_subgroup=32),
}
Build = Callable[[Net, int], int]
MADE, OTHERS = 40, (9, 41, 63, 64, 90, 300)


def attention(net: Net, n: int) -> int:
    q, k, v = (net.input((1, 4, length, 16)) for length in (8, n, n))
    return net.op("attention", q, k, v, scale=0.25)


def prompt(net: Net, n: int) -> int:
    q, k, v = (net.input((1, 4, length, 16)) for length in (n - 6, 50, 50))
    return net.op("attention", q, k, v, scale=0.25)


def rows(net: Net, n: int) -> int:
    return net.op("relu", net.input((6, n)))


def transposed(net: Net, n: int) -> int:
    return net.op("transpose", net.input((2, n, 6)), perm=(0, 2, 1))


def mean(net: Net, n: int) -> int:
    return net.op("mean", net.input((1, n, 8)), net.ints(1), keep_dims=True)


def deep(net: Net, n: int) -> int:
    weights = net.constant(np.zeros((64, 3, 3, 64), np.float32))
    return net.op("conv_2d", net.input((1, n, 7, 64)), weights, None, **WINDOW)


def branches(net: Net, n: int) -> int:
    x = net.input((1, n, 700, 8))
    made = [net.conv(x, 8, 1) for _ in range(2)]
    return net.op("concat", *made, axis=3)


def between(net: Net, n: int) -> int:
    """Returns how many transposes are saved by another layout of the nodes in between; a few bytes
    decide that."""
    x = net.op("transpose", net.input((1, 8, n, 12)), perm=LAST)
    y = net.op("transpose", net.op("relu", x), perm=FIRST)
    return net.op("add", y, net.op("transpose", net.input((1, n, 12, 8)), perm=FIRST))


def resized(net: Net, n: int) -> int:
    """To sizes that follow from the input's."""
    sizes = net.constant(integers([3 * n, n + 5]), "i32")
    how = {"mode": "linear", "coordinates": "half_pixel"}
    return net.op("resize", net.input((1, n, n, 8)), sizes, **how)


def resizing(name: str, rank: int = 4, dtype: str = "f32", **how: object) -> Build:
    """Returns a graph that resizes the axes between batch and channels to about half their
    extent."""

    def build(net: Net, n: int) -> int:
        axes = rank - 2
        sizes = net.constant(integers([(n + 1) // 2, n // 2 + 1, 5][:axes]), "i32")
        x = net.input((1, *(n + 2, n, 9)[:axes], 8), dtype)
        return net.op("resize", x, sizes, made=Tensor("", (), dtype), **how)

    build.__name__ = f"resizing_{name}"
    return build


def doubled(net: Net, n: int) -> int:
    sizes = net.constant(integers([2 * n, 2 * n]), "i32")
    scale = Quantization((0.1,), (3,), 0)
    x = net.input((1, n, n, 8), "i8", scale)
    made = Tensor("", (), "i8", quantization=scale)
    how = {"align_corners": False, "half_pixel_centers": True}
    return net.op("resize_bilinear", x, sizes, made=made, **how)


def largest(net: Net, n: int) -> int:
    """Returns indices along an axis that is shorter than what a thread loads at once."""
    return net.op(
        "arg_max", net.input((9, n, 5)), net.ints(1), made=Tensor("", (), "i32"), keep_dims=False
    )


def gathered(net: Net, n: int) -> int:
    x, places = net.input((n, 3, 7)), net.input((n, 5), "i32")
    return net.op("gather", x, places, axis=1, batch_dims=1)


def gathered_rows(net: Net, n: int) -> int:
    x, places = net.input((n, 3, 7)), net.input((n, 5, 1), "i32")
    return net.op("gather_nd", x, places, batch_dims=1)


def scattered(net: Net, n: int) -> int:
    """Returns a sum of rows at distinct constant places in a result of open extents."""
    rows = np.arange(3, 60, 3, dtype=np.int32)[:, None]
    extents = net.constant(integers([n + 60, 5]), "i32")
    given = net.constant(rows, "i32"), net.input((len(rows), 5)), extents
    return net.op("scatter_new", *given, reduction="add", raises=True)


def summed(net: Net, n: int) -> int:
    count = net.constant(integers([n]), "i32")
    return net.op("segments", net.input((n + 3, 5)), net.input((n + 3,), "i32"), count,
                  reduction="add")  # fmt: skip


def filled(net: Net, n: int) -> int:
    """Fills a signal up to a constant length, and reflects its ends."""
    sides = net.constant(integers([0, 0, 0, 4000 - n]), "i32")
    whole = net.op("pad", net.input((1, n)), sides, mode="constant")
    return net.op("pad", whole, net.ints(0, 0, 9, 9), mode="reflect")


def repeating(mode: str) -> Build:
    """Returns a graph that pads by others of its elements, and transposes the result."""

    def build(net: Net, n: int) -> int:
        sides = net.ints(0, 0, 2, 1, 3, 3, 0, 0)
        padded = net.op("pad", net.input((1, n, n, 6)), sides, mode=mode)
        return net.op("transpose", padded, perm=FIRST)

    build.__name__ = f"repeating_{mode}"
    return build


CUT = {"coordinates": "tf_crop_and_resize", "roi": (0.1, 0.7, -0.3, 1.2), "mode": "linear"}
RESIZING = (
    resizing("cubic", mode="cubic", exclude_outside=True),
    resizing("symmetric", mode="linear", coordinates="half_pixel_symmetric"),
    resizing("smooth", mode="linear", antialias=True),
    resizing("smooth_scaled", mode="cubic", antialias=True, scales=(0.5, 0.5)),
    resizing("line", rank=3, mode="linear"),
    resizing("volume", rank=5, mode="nearest"),
    resizing("integers", dtype="i32", coordinates="half_pixel_symmetric"),
    resizing("cut", **CUT),
)
REPEATING = tuple(map(repeating, ("edge", "reflect", "symmetric", "wrap")))
GRAPHS: tuple[Build, ...] = (
    attention, prompt, rows, transposed, mean, deep, branches, between, resized, doubled,
    filled, largest, gathered, gathered_rows, scattered, summed,
    *REPEATING, *RESIZING,
)  # fmt: skip


def graph(build: Build, n: int) -> Graph:
    net = Net()
    return net.graph(build(net, n))


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("build", GRAPHS)
def test_a_plan_holds_for_other_sizes(build: Build, target: Target) -> None:
    trace = Trace()
    made = template(graph(build, trace.symbol(0, MADE)), target, trace)
    assert not trace.fixed
    assert [n for n in OTHERS if not made.fits({0: n})] == []


@pytest.mark.parametrize(
    ("op", "weights"), [("depthwise_conv_2d", (1, 5, 5, 64)), ("transpose_conv", (64, 5, 5, 64))]
)
def test_an_input_may_be_smaller_than_the_weights(op: str, weights: tuple[int, ...]) -> None:
    net, trace = Net(), Trace()
    x = net.input((1, trace.symbol(0, 4000), 9, 64))
    y = net.op(op, x, net.constant(np.zeros(weights, np.float32)), None, **WINDOW)
    made = net.graph(y)
    assert ops.rows()[op].refuse(made, made.nodes[0], Target()) is None
    assert Values(trace, {0: 2}).hold(trace.conditions)
