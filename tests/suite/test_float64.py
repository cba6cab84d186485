"""Tests the judge of real ONNX models: its own operators against ONNX's node tests, and what it
accepts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from conformance import onnx_node_tests, tolerance  # noqa: E402
from conformance.models import onnx_models  # noqa: E402
from conformance.references import float64  # noqa: E402
from tests.support.onnx_models import cpu, model, node  # noqa: E402

PREFIXES = (
    "test_basic_conv_", "test_conv_with_", "test_convtranspose", "test_batchnorm_epsilon_cpu",
    "test_batchnorm_example_cpu", "test_resize_upsample_", "test_resize_downsample_",
)  # fmt: skip
# Tests of Resize: one is not needed; one has align_corners with a size of 2.4, unlike any host.
ABSENT = (
    "antialias",
    "axes",
    "not_larger",
    "not_smaller",
    "_scales_linear_align_corners",
    "downsample_scales_cubic_align_corners",
)
CASES = [
    case for case in onnx_node_tests.cases()
    if case.name.startswith(PREFIXES) and not any(word in case.name for word in ABSENT)
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_operators_give_onnx_answers(case: object) -> None:
    loaded = onnx_node_tests.load(case)
    for inputs, outputs in loaded.sets:
        names = [value.name for value in loaded.model.graph.input]
        found = float64.evaluate(loaded.model, dict(zip(names, inputs, strict=True)))
        for got, wanted in zip(found, outputs, strict=True):
            assert got.dtype == np.float64
            np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


def test_there_are_cases() -> None:
    assert len(CASES) >= 30


def _early(shape: Sequence[int], kind: str) -> bytes:
    """Returns operators for which ONNX has no tests, as ONNX Runtime defines them, and a transposed
    convolution to an output shape."""
    random = np.random.default_rng(1)
    weights = random.standard_normal((4, 2, 3, 3)).astype(np.float32)
    return model(
        [
            node("ImageScaler", ["x"], ["a"], bias=[1.0, -2.0, 0.5, 3.0], scale=2.0),
            node("Crop", ["a"], ["b"], border=[1, 0, 2, 1]),
            node("Affine", ["b"], ["c"], alpha=0.5, beta=-1.0),
            node("ConvTranspose", ["c", "w"], ["y"], strides=[2, 2],
                 output_shape=shape, auto_pad=kind),
        ],
        {"x": (1, 4, 7, 9)}, {"y": None}, {"w": weights}, opset=7,
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("shape", [[14, 13], [12, 11]])
def test_early_operators_give_the_answers_of_the_cpu(shape: Sequence[int], kind: str) -> None:
    data = _early(shape, kind)
    x = np.random.default_rng(2).standard_normal((1, 4, 7, 9)).astype(np.float32)
    (got,) = float64.evaluate(onnx.load_model_from_string(data), {"x": x})
    (wanted,) = cpu(data).run(None, {"x": x})
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


def test_the_judge_is_heard_where_the_provider_is_off() -> None:
    """The provider is 1e-3 from the true value, and its two runs agree: a result that is no further
    from the true value on the other side passes, one that is further does not."""
    truth = np.linspace(-1, 1, 9)
    cpu_answer = (truth + 1e-3).astype(np.float32)
    for error, passes in ((0.0, True), (-0.9e-3, True), (-1.1e-3, False), (-1.0, False)):
        got = (truth + error).astype(np.float32)
        found = onnx_models.judge("feed", 0, cpu_answer, got, cpu_answer, lambda: [truth])
        assert (found.share <= 1) == passes
        assert not passes or "float64" in found.text
    close = truth.astype(np.float32)  # the provider is right: the judge lends nothing
    wrong = (truth + 2 * tolerance.MODEL).astype(np.float32)
    assert onnx_models.judge("feed", 0, close, wrong, close, lambda: [truth]).share > 1
    alone = onnx_models.judge("feed", 0, cpu_answer, truth.astype(np.float32), cpu_answer, None)
    assert alone.share > 1


def test_classes_must_be_equal() -> None:
    labels = np.array(["cat", "dog"])
    assert onnx_models.judge("feed", 0, labels, labels, labels, None).share == 0
    assert onnx_models.judge("feed", 0, labels, labels[::-1], labels, None).share > 1
