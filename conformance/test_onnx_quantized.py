"""Quantized ONNX models through our provider: every node is ours, and each value within a step of
exact integer arithmetic (three steps for one value in a thousand), and of the CPU provider's
kernels where these are exact on this CPU."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from conformance import onnx_host, tolerance
from conformance.models import onnx_blocks
from conformance.plugin.book import Book
from conformance.plugin.record import FAIL, PASS, REFUSED, Record
from conformance.references import integers
from conformance.variants import onnx_quantized
from conformance.variants.onnx_quantized import KINDS, Network
from conformance.variants.quantized import FAR, NEAR, SHARE
from tflgpu_plugin import ops
from tflgpu_plugin.harness import onnx
from tflgpu_plugin.importer.rules import INCOMPLETE
from tflgpu_plugin.providers.onnxruntime.ops import HOST_OPS

pytestmark = [pytest.mark.adapter, pytest.mark.onnxruntime]
NETWORKS = list(onnx_quantized.networks())
DYNAMIC = [
    network
    for network in NETWORKS
    if network.op in ("Conv", "MatMul", "Gemm", "chain") and len(network.inputs) == 1
]
BLOCKS = list(onnx_blocks.models())
CONTRIBUTED = list(onnx_quantized.contributed())


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Silences the advice that the quantizer logs."""
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


def sessions(model: bytes, wanted: str | None, optimize: bool, **options: str) -> tuple[Any, Any]:
    """Returns our session and one of the CPU provider, which does not round activations of 16 bits
    to 8 for products with weights of 8 (MatMulNBits, which onnxruntime's optimizer writes)."""
    both = [
        onnx.settings(optimize, logs=onnx.FATAL, session__qdq_matmulnbits_accuracy_level="1")
        for _ in range(2)
    ]
    ours = onnx.opened(model, both[0], options, onnx_host.place(wanted))
    return ours, onnx.opened(model, both[1])


def _steps_off(got: Any, expected: Any, scale: float) -> tuple[float, str]:
    """Returns the error relative to the tolerance, and a sentence."""
    assert got.shape == expected.shape and got.dtype == expected.dtype
    steps = np.round(np.abs(got.astype(np.float64) - expected) / scale)
    off = float((steps > NEAR).mean())
    text = f"{steps.max():.0f} steps off, {off:.2%} of {steps.size} by more than one"
    return max(float(steps.max()) / FAR, off / SHARE), text


def _cases() -> Iterator[Any]:
    """Yields (family of the operator, network, types), marked with the type of activations."""
    for network in NETWORKS:
        form = HOST_OPS.get(network.op)
        family = ops.rows()[form.op].family if form else network.op
        for kind in KINDS:
            name = f"{network.name}-{'-'.join(map(str, kind))}"
            yield pytest.param(family, network, kind, id=name, marks=pytest.mark.dtype(kind[0]))


@pytest.mark.parametrize("optimize", [True, False], ids=["optimized", "plain"])
@pytest.mark.parametrize(("family", "network", "kind"), list(_cases()))
def test_network(
    family: str,
    network: Network,
    kind: Any,
    optimize: bool,
    book: Book,
    pytestconfig: pytest.Config,
) -> None:
    """Runs the network in each format of the quantizer."""
    wanted = pytestconfig.getoption("--adapter", default=None)
    who: dict[str, Any] = {
        "test": "", "kind": "8 bits", "op": network.op, "family": family, "dtype": kind[0],
        "host": onnx_host.label(), "judge": integers.judge(),
    }  # fmt: skip
    for form in network.written(kind):
        model = onnx_quantized.quantize(network, form, kind)
        ours, theirs = sessions(model, wanted, optimize)
        feed = network.feed(onnx_quantized.SAMPLES + 1)
        (got,) = ours.run(None, feed)
        case = f"{network.name} {form} {' '.join(map(str, kind))}"
        placed = onnx_host.placement(ours)
        if placed.on_gpu != placed.total or placed.failures:
            text = " ".join(placed.sentences)
            book.close(Record(**who, case=case, outcome=REFUSED, text=text), model)
        (scale,) = onnx_quantized.steps(model)
        found = [
            _steps_off(got, expected, scale)
            for (expected,) in integers.witnesses(model, feed, theirs)
        ]
        share, text = max(found)
        outcome = PASS if share <= 1 else FAIL
        book.close(Record(**who, case=case, outcome=outcome, share=share, text=text), model)


@pytest.mark.dtype("i8", "u8")
@pytest.mark.parametrize("optimize", [True, False], ids=["optimized", "plain"])
@pytest.mark.parametrize("weights", ["i8", "u8"])
@pytest.mark.parametrize("network", DYNAMIC, ids=lambda network: network.name)
def test_dynamic_ranges(
    network: Network, weights: str, optimize: bool, book: Book, pytestconfig: pytest.Config
) -> None:
    for per_channel in (False, True):
        model = onnx_quantized.quantize_dynamic(network, weights, per_channel)
        case = f"{network.name} dynamic {weights} {'per channel' if per_channel else 'whole'}"
        _same(case, model, network.feed(7), optimize, book, pytestconfig)


@pytest.mark.dtype("i8", "u8")
@pytest.mark.parametrize(("name", "model", "feed"), CONTRIBUTED, ids=[c[0] for c in CONTRIBUTED])
def test_contributed(
    name: str, model: bytes, feed: Any, book: Book, pytestconfig: pytest.Config
) -> None:
    _same(name, model, feed, True, book, pytestconfig)


@pytest.mark.dtype("i8", "u8")
@pytest.mark.parametrize(("name", "model", "feed"), BLOCKS, ids=[c[0] for c in BLOCKS])
def test_blocks(
    name: str, model: bytes, feed: Any, book: Book, pytestconfig: pytest.Config
) -> None:
    """The model is not optimized: otherwise the host has float32 weights, too, and does not round
    activations."""
    _same(f"blocks {name}", model, feed, False, book, pytestconfig)


def _same(
    case: str, model: bytes, feed: Any, optimize: bool, book: Book, pytestconfig: pytest.Config
) -> None:
    """Asserts that all nodes are on the GPU, with the witnesses' results: float32 or stored
    numbers."""
    ours, theirs = sessions(model, pytestconfig.getoption("--adapter", default=None), optimize)
    (got,) = ours.run(None, feed)
    placed = onnx_host.placement(ours)
    assert placed.on_gpu == placed.total and not placed.failures, placed.sentences
    share = 0.0
    for (expected,) in integers.witnesses(model, feed, theirs):
        assert got.shape == expected.shape and got.dtype == expected.dtype
        largest = tolerance.FLOAT_PART * np.abs(expected).max()
        allowed = float(largest if expected.dtype.kind == "f" else NEAR)
        error = float(np.abs(got.astype(np.float64) - expected).max())
        share = max(share, error / allowed)
    outcome = PASS if share <= 1 else FAIL
    record = Record(
        "", "8 bits", outcome, case=case, host=onnx_host.label(), share=share,
        text=f"{share:.2g} of the tolerance", judge=integers.judge(),
    )  # fmt: skip
    book.close(record, model)


@pytest.mark.dtype("u8")
@pytest.mark.parametrize(
    ("options", "left"),
    [({"enable_quantized_inference": "0"}, ""), ({"exclude": "Conv", "force": "1"}, "Conv")],
    ids=["off", "excluded"],
)
@pytest.mark.parametrize("form", onnx_quantized.FORMATS)
def test_what_stays_on_the_cpu(
    form: str, options: dict[str, str], left: str, pytestconfig: pytest.Config
) -> None:
    """All quantized nodes, or the entire groups of the named nodes, stay on the CPU; the results
    are equal."""
    (network,) = (network for network in NETWORKS if network.op == "chain")
    model = onnx_quantized.quantize(network, form, KINDS[1])
    wanted = pytestconfig.getoption("--adapter", default=None)
    ours, theirs = sessions(model, wanted, True, **options)
    placed, feed = onnx_host.placement(ours), network.feed(7)
    if not left:
        assert placed.on_gpu == 0
    elif form == "qdq":  # the other format has no node of this name
        assert 0 < placed.on_gpu < placed.total and INCOMPLETE in " ".join(placed.sentences)
    (got,), (expected,) = ours.run(None, feed), theirs.run(None, feed)
    (scale,) = onnx_quantized.steps(model)
    assert np.abs(got - expected).max() <= (NEAR + 0.5) * scale
