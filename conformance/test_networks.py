"""Networks with seeded weights, built by code, in each host against its own CPU kernels, within
1e-4 of an output's largest magnitude. They replace real models on machines that have none."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import pytest

from benchmarks.networks import NETWORKS, Network
from conformance import host, onnx_host, tolerance
from conformance.host import Feed, Outputs, Placement
from conformance.models import real_models, seeded
from tflgpu_plugin.demo import network as demo

SEEDS = (1, 2)

pytestmark = pytest.mark.adapter


@cache
def described(name: str) -> Network:
    return NETWORKS[name]()


def in_tflite(name: str) -> tuple[bytes, list[Feed]]:
    """Returns a network as a TFLite file, with inputs; the input of its softmax is an output."""
    from benchmarks.to_tflite import to_tflite

    if name == "demo":
        content, pictures = demo.to_tflite(demo.build()), [demo.picture(seed) for seed in SEEDS]
    else:
        net = described(name)
        content, pictures = to_tflite(net), [net.picture(seed) for seed in SEEDS]
    return real_models.before_final(content), [[picture] for picture in pictures]


def in_onnx(name: str) -> tuple[bytes, list[Feed]]:
    """Returns the same as an ONNX file, or a network over a sequence."""
    from benchmarks.to_onnx import to_onnx

    if name in seeded.NETWORKS:
        return seeded.NETWORKS[name](), [[seeded.sequence(seed)] for seed in SEEDS]
    net = described(name)
    pictures = [net.picture(seed).transpose(0, 3, 1, 2) for seed in SEEDS]
    return to_onnx(net), [[np.ascontiguousarray(picture)] for picture in pictures]


@pytest.mark.parametrize("name", ["demo", *NETWORKS])
def test_in_tflite(
    name: str, host_name: str, beside: str | None, options: Mapping[str, Any]
) -> None:
    content, feeds = in_tflite(name)
    expected = host.cached_on_cpu(content, feeds, host_name, "optimized")
    run = host.run_on_gpu(content, feeds, host_name, options, beside or "reference")
    agrees(expected, run.outputs, run.placement)


@pytest.mark.onnxruntime
@pytest.mark.parametrize("name", [*NETWORKS, *seeded.NETWORKS])
def test_in_onnxruntime(name: str, pytestconfig: pytest.Config) -> None:
    content, feeds = in_onnx(name)
    expected = onnx_host.run_on_cpu(content, feeds)
    run = onnx_host.run_on_gpu(content, feeds, pytestconfig.getoption("--adapter", default=None))
    agrees(expected, run.outputs, run.placement)


def agrees(expected: list[Outputs], got: list[Outputs], placement: Placement) -> None:
    """Asserts that every node ran here, every output is right, and two inputs give two results."""
    assert placement.on_gpu == placement.total, placement.sentences
    assert placement.failures == 0 and set(placement.runs) == {len(SEEDS)}
    for feed, (wanted, found) in enumerate(zip(expected, got, strict=True)):
        for k, (one, two) in enumerate(zip(wanted, found, strict=True)):
            allowed = tolerance.MODEL * float(np.abs(one).max())
            compared = real_models.measure(f"input {feed}", k, one, two, allowed)
            assert compared.share <= 1, compared.text
    assert not np.array_equal(expected[0][0], expected[1][0])
