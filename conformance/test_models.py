"""Real models from `../shared`: the delegate's answers against the host's reference kernels.

Every float32 and float16 model must agree within 1e-4 of each output's largest magnitude, or four
times the host's own difference between optimized and reference kernels; so must dynamic-range
models, with the same model over float32 weights where the nodes ran here. 99 % of the outputs of
int8 and uint8 models are within two steps, and the class is the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from conformance import host, tolerance
from conformance.host import Outputs
from conformance.models import model_inputs, real_models, split_models, streams, tflite_file
from conformance.models.real_models import INTEGER
from conformance.plugin.book import Book
from conformance.plugin.record import FAIL, PASS, Record
from conformance.variants import quantized as quantized_cases

MODELS = model_inputs.models()
DETECTORS = {"ssd_mobilenet_v1_coco_float_from_quant"}

# Nodes on the GPU of models in 16 and 8 bits. What is left: operators without a row, and nodes
# after a shape that is known only in a run.
QUANTIZED = {
    "pose_detection_fp16": 291, "face_detection_full_range_sparse": 388,
    "mobilenet_v1_0.25_224_quant": 31, "mobilenet_v2_1.0_224_quant": 65,
    "mobilenet_v2_035_96_embedder": 66, "ssd_mobilenet_v1_coco_quant_detect": 64,
    "deeplabv3_mnv2_dm05_pascal_quant": 72, "movenet_single_pose_lightning_ptq": 157,
    "face_detection_short_range": 164, "face_landmark_fp16": 210, "palm_detection_lite": 232,
    "hand_landmark_lite": 167, "pose_landmark_lite": 283, "style_transfer_f16_384": 272,
    "style_transfer_quantized_dynamic": 200, "style_predict_quantized_256": 66,
    "yolox_nano_hand_dynamic_range": 615, "resnet8_cifar_int8": 16, "vww_96_int8": 31,
    "kws_ref_model_float32": 13, "kws_ref_model_int8": 13, "ad01_int8": 10, "mnist_lstm_int8": 4,
    "yamnet_audio_classifier": 47, "selfie_segmentation": 246, "mww_okay_nabu": 36,
}  # fmt: skip
NEARLY_ALL = 0.95  # of the nodes of operators that have a row
DYNAMIC_RANGE = [
    pytest.param(e, id=real_models.stem(e)) for e in MODELS if e["kind"] == "dynamic-range"
]

pytestmark = [
    pytest.mark.adapter,
    pytest.mark.skipif(not MODELS, reason=model_inputs.ABSENT),
]


def _runs() -> list[Any]:
    found = []
    for entry in MODELS:
        stem = real_models.stem(entry)
        everywhere = (*real_models.DOCUMENTED, *model_inputs.CUSTOM)
        hosts = host.installed() if stem in everywhere else host.installed()[:1]
        found += [pytest.param(entry, name, id=f"{stem}-{name}") for name in hosts]
    return found


@pytest.mark.parametrize(("entry", "name"), _runs())
def test_agrees_with_the_cpu(
    entry: Mapping[str, Any], name: str, options: Mapping[str, Any], book: Book
) -> None:
    outcome = real_models.compare(entry, name, options)
    stem = real_models.stem(entry)
    share, text = max((c.share, c.text) for c in outcome.comparisons)
    verdict = FAIL if outcome.placement.failures or not share <= 1.0 else PASS
    where = f"{name} {host.version(name)}"
    book.add(Record(book.test, "model", verdict, host=where, case=stem, share=share, text=text))
    assert outcome.placement.failures == 0
    assert not outcome.mixed
    wanted_nodes = QUANTIZED.get(real_models.stem(entry), 1 if entry["kind"] == "float32" else 0)
    assert outcome.placement.on_gpu >= wanted_nodes, outcome.placement.sentences
    if entry["kind"] != "float32":
        taken, rows = outcome.placement.eligible
        assert taken >= NEARLY_ALL * rows, outcome.placement.sentences
    if entry["kind"] == "float32":
        assert outcome.placement.on_gpu > 0, outcome.placement.sentences
    assert len(outcome.placement.runs) == outcome.placement.partitions
    assert set(outcome.placement.runs) <= {len(outcome.comparisons)}
    wrong = [c.text for c in outcome.comparisons if not c.share <= 1.0]
    assert not wrong, "\n".join(wrong)
    for wanted, got in zip(outcome.expected, outcome.got, strict=True):
        if stem in model_inputs.CLASSIFIERS:
            assert real_models.top_class(wanted) == real_models.top_class(got)
        if stem in DETECTORS:
            _same_boxes(wanted, got)


@pytest.mark.parametrize("name", host.installed())
@pytest.mark.parametrize("entry", [pytest.param(e, id=real_models.stem(e)) for e in MODELS])
def test_agrees_as_users_run_it(
    entry: Mapping[str, Any], name: str, options: Mapping[str, Any], book: Book
) -> None:
    """The host's own delegate runs beside ours, as by default. If nothing is left for it,
    `test_agrees_with_the_cpu` has tested the same."""
    content = model_inputs.path(entry).read_bytes()
    if not host.registers(content, name, "default") and not tflite_file.custom_operators(content):
        pytest.skip(f"{name} lacks an operator of this model")
    if name == host.installed()[0]:
        place = host.placed(content, name, options, "default")
        assert place.failures == 0 and place.on_gpu > 0
        if place.on_gpu == place.total and place.partitions == 1:
            return
    outcome = real_models.compare(entry, name, options, beside="default", most=1)
    share, text = max((c.share, c.text) for c in outcome.comparisons)
    verdict = FAIL if outcome.placement.failures or not share <= 1.0 else PASS
    where, case = f"{name} {host.version(name)}", f"{real_models.stem(entry)} beside XNNPACK"
    book.add(Record(book.test, "model", verdict, host=where, case=case, share=share, text=text))
    assert outcome.placement.failures == 0 and outcome.placement.on_gpu > 0
    assert share <= 1.0, text


@pytest.mark.parametrize("name", host.installed())
@pytest.mark.parametrize(
    "entry", [pytest.param(e, id=real_models.stem(e)) for e in streams.entries()]
)
def test_a_stream_agrees(
    entry: Mapping[str, Any], name: str, options: Mapping[str, Any], book: Book
) -> None:
    """Results are compared in each run, including variables; all nodes that compute are one
    partition."""
    outcome = streams.compare(entry, name, options)
    share, text = max((c.share, c.text) for c in outcome.comparisons)
    place, case = outcome.placement, f"{real_models.stem(entry)} stream"
    verdict = FAIL if place.failures or not share <= 1.0 else PASS
    where = f"{name} {host.version(name)}"
    book.add(Record(book.test, "model", verdict, host=where, case=case, share=share, text=text))
    assert place.runs == (streams.RUNS,) and place.failures == 0
    assert place.eligible[0] == place.eligible[1] == QUANTIZED[real_models.stem(entry)]
    assert len(outcome.comparisons) == streams.RUNS
    wrong = [c.text for c in outcome.comparisons if not c.share <= 1.0]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "entry", [pytest.param(e, id=real_models.stem(e)) for e in MODELS if e["kind"] in INTEGER]
)
def test_every_node_of_integer_models(entry: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    """Each node runs alone, with its input from a run of the model, and is judged by the rule of
    its op's row."""
    content = model_inputs.path(entry).read_bytes()
    name, kernels = host.oracle(content)
    if kernels != "reference":
        pytest.skip("the reference kernels lack an operator of this model")
    feed, *_ = model_inputs.feeds(entry).values()
    wrong = []
    for number, part in enumerate(split_models.parts(content, feed, name)):
        run = host.run_on_gpu(part.content, [part.feed], name, options)
        expected = host.cached_on_cpu(part.content, [part.feed], name)
        for wanted, got in zip(expected[0], run.outputs[0], strict=True):
            if wanted.dtype.kind not in "iu" or not run.placement.on_gpu:
                continue
            verdict = tolerance.in_8_bits(quantized_cases.rule_of(part.op), wanted, got)
            if not verdict.passed:
                off = float((wanted != got).mean())
                wrong.append(f"node {number}, {part.op}: {off:.2%} of values, {verdict}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("entry", DYNAMIC_RANGE)
def test_half_of_a_dynamic_range_model(
    entry: Mapping[str, Any], options: Mapping[str, Any]
) -> None:
    """Every other node with 8-bit weights is left to the CPU."""
    name = host.installed()[0]
    left = sorted(split_models.hybrid(model_inputs.path(entry).read_bytes()))[::2]
    excluded = {"exclude": ",".join(str(node) for node in left)}
    outcome = real_models.compare(entry, name, {**options, **excluded})
    assert outcome.mixed and outcome.placement.failures == 0
    assert outcome.placement.gpu_nodes and not outcome.placement.gpu_nodes.intersection(left)
    wrong = [c.text for c in outcome.comparisons if not c.share <= 1.0]
    assert not wrong, "\n".join(wrong)


def test_hybrid_kernels_of_the_cpu_amplify_one_bit() -> None:
    """This explains the wider bound of models of which they compute a part: on the CPU alone, with
    the unchanged file, a one-bit change of an input changes the result by more than a hundred times
    the tolerance of float32 models."""
    found = [e for e in MODELS if real_models.stem(e) == "style_transfer_quantized_dynamic"]
    if not found:
        pytest.skip("style_transfer_quantized_dynamic is not among the models")
    content, (feed, *_) = (
        model_inputs.path(found[0]).read_bytes(),
        model_inputs.feeds(found[0]).values(),
    )
    name = host.installed()[0]
    feeds = [feed, real_models.nudged(feed, 0)]
    (wanted,), (got,) = real_models.reference(content, feeds, name, "reference")
    assert np.abs(wanted - got).max() > 100 * tolerance.MODEL * np.abs(wanted).max()


def _same_boxes(wanted: Outputs, got: Outputs) -> None:
    """Whether classes and counts are equal, and box corners nearly equal."""
    np.testing.assert_array_equal(wanted[1], got[1])
    np.testing.assert_array_equal(wanted[3], got[3])
    np.testing.assert_allclose(wanted[0], got[0], atol=tolerance.BOX)


@pytest.mark.parametrize("name", host.installed())
@pytest.mark.parametrize("stem", (*real_models.DOCUMENTED, *model_inputs.CUSTOM))
def test_documented_models_run_on_the_gpu(stem: str, name: str, options: Mapping[str, Any]) -> None:
    """The file is unchanged and every node is in one partition, even for models with operators that
    the host lacks."""
    entry = next((e for e in MODELS if real_models.stem(e) == stem), None)
    if entry is None:
        pytest.skip("not among the models, or no installed host has its operators")
    placement = host.placed(model_inputs.path(entry).read_bytes(), name, options)
    assert placement.total == placement.on_gpu == entry["nodes"], placement.sentences
    assert placement.partitions == 1
