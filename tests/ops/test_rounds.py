"""Software drivers end the loops of a function after 65,535 iterations in total, without an error:
tests that larger ones are refused there, and nowhere else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from conformance import node_cases
from conformance.cases import Input, constant
from conformance.node_cases import NodeCase
from tests.support.refused import refused
from tflgpu_plugin.compile import compiler
from tflgpu_plugin.ir import Target

SOFTWARE = replace(Target(), software=True)
SAME = {"strides": (1, 1), "padding": "valid", "dilations": (1, 1)}


def ones(*shape: int) -> Input:
    return constant(np.ones(shape, np.float32))


def recurrent(op: str, gates: int, steps: int, units: int) -> NodeCase:
    states = [Input((1, units))] * (2 if op == "lstm" else 1)
    reads = (Input((steps, 1, gates * units)), ones(gates * units, units), *states)
    return NodeCase("", op, reads, {}, outputs=len(states) + 1)


def along(op: str, count: int, **attributes: Any) -> NodeCase:
    return NodeCase("", op, (Input((1, count)),), attributes)


def reduced(op: str, shape: tuple[int, ...], *axes: int, **more: Any) -> NodeCase:
    return NodeCase(
        "", op, (Input(shape), constant(list(axes), "i32")), {"keep_dims": False}, **more
    )


def chosen(count: int, wanted: int) -> NodeCase:
    reads = (Input((1, count)), constant([wanted], "i32"))
    return NodeCase("", "top_k", reads, {}, outputs=2, output_types=("f32", "i32"))


def suppressed(count: int, wanted: int, sigma: float | None = None) -> NodeCase:
    limits = (constant(wanted, "i32"), constant(0.5), constant(0.5))
    reads = (Input((count, 4)), Input((count,)), *limits)
    if sigma is None:
        return NodeCase("", "non_max_suppression", reads, {}, outputs=2, output_type="i32")
    return NodeCase("", "soft_non_max_suppression", (*reads, constant(sigma)), {}, outputs=3,
                    output_types=("i32", "f32", "i32"))  # fmt: skip


def detected(boxes: int, columns: int, count: int, each: int | None = None) -> NodeCase:
    given = {"classes": columns, "count": count, "each": each, "least": 0.5, "overlap": 0.5,
             "scales": (1.0,) * 4}  # fmt: skip
    reads = (Input((1, boxes, 4)), Input((1, boxes, columns)), Input((boxes, 4)))
    return NodeCase("", "detections", reads, given, outputs=4)


def pooled(size: int) -> NodeCase:
    given = {**SAME, "window": (size, size)}
    return NodeCase("", "average_pool_2d", (Input((1, size + 1, size + 1, 1)),), given)


def layer(op: str, x: tuple[int, ...], weights: tuple[int, ...], **given: Any) -> NodeCase:
    return NodeCase("", op, (Input(x), ones(*weights), None), given)


def in_blocks(inputs: int) -> NodeCase:
    count = -(-inputs // 16)
    words = constant(np.zeros((1, count, 2)), "i32")
    return NodeCase("", "matmul_blocks", (Input((1, inputs)), words, ones(1, count)),
                    {"bits": 4, "block": 16})  # fmt: skip


def scattered(count: int) -> NodeCase:
    reads = (Input((50,)), Input((count,), "i32", low=0, high=50), Input((count,)))
    return NodeCase("", "scatter_elements", reads, {"axis": 0, "reduction": "add"})


def regions(extent: int) -> NodeCase:
    reads = (Input((1, extent, extent, 1)), Input((1, 4)), Input((1,)))
    return NodeCase("", "roi_align", reads, {"size": (1, 1), "mode": "avg"})


# Just below the bound, and just above: what gave wrong answers before.
BOUNDS = [
    (recurrent("lstm", 4, 120, 256), recurrent("lstm", 4, 123, 256)),
    (recurrent("gru", 3, 700, 64), recurrent("gru", 3, 800, 64)),
    (recurrent("rnn", 1, 2500, 64), recurrent("rnn", 1, 2600, 64)),
    (chosen(4096, 800), chosen(4096, 1000)),
    (suppressed(15_900, 64), suppressed(16_100, 64)),
    (suppressed(12_700, 65), suppressed(12_900, 65)),
    (suppressed(15_900, 64, 0), suppressed(16_100, 64, 0)),
    (suppressed(1970, 10, 0.5), suppressed(1995, 10, 0.5)),
    (detected(25_000, 2, 650), detected(25_000, 2, 670)),
    (detected(512, 2, 6400), detected(512, 2, 6550)),
    (detected(1, 260_000, 1), detected(1, 263_000, 1)),
    (scattered(65_000), scattered(70_000)),
    (pooled(254), pooled(257)),
    (
        layer("conv_2d", (1, 1, 1, 250_000), (1, 1, 1, 250_000), **SAME, activation="none"),
        layer("conv_2d", (1, 3, 3, 30_000), (1, 3, 3, 30_000), **SAME, activation="none"),
    ),
    (
        layer("fully_connected", (1, 250_000), (1, 250_000)),
        layer("fully_connected", (1, 3_000_000), (1, 3_000_000)),
    ),
    (in_blocks(262_000), in_blocks(263_000)),
    (reduced("reduce_max", (1, 4_000_000), 1), reduced("reduce_max", (1, 5_000_000), 1)),
    (along("softmax", 5_500_000, beta=1.0), along("softmax", 6_000_000, beta=1.0)),
    (reduced("cumsum", (1, 2_000_000), 1), reduced("cumsum", (1, 2_200_000), 1)),
    (regions(240), regions(250)),
]


@pytest.mark.parametrize(("below", "above"), BOUNDS, ids=[case.op for case, _ in BOUNDS])
def test_what_takes_more_rounds_is_refused_on_software(below: NodeCase, above: NodeCase) -> None:
    compiler.compile(node_cases.graph(below), SOFTWARE)
    with refused("device.limit"):
        compiler.compile(node_cases.graph(above), SOFTWARE)
    compiler.compile(node_cases.graph(above), Target())
