"""Real ONNX models from `../shared`: our provider's answers against the CPU provider.

Every float32 model must agree within 1e-4 of each output's largest magnitude, or four times the
difference between the CPU provider's own optimized and unoptimized runs; a quantized model must
still give the CPU's answer with whatever is taken.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conformance import model_inputs, onnx_host
from conformance.model_inputs import BYTES, SHARED, SIGNED, UNIT

Array = model_inputs.Array
Range = tuple[float, float]

# With at least 95 % of the float nodes on the GPU, in at most 3 islands.
WHOLE = (
    "yolox_nano", "nanodet_m_320", "yunet_n_320", "retinaface_mbnet0.25", "super_resolution",
    "face_detection_short_range",
)  # fmt: skip
SHARE, ISLANDS = 0.95, 3
ARITHMETIC = "Shape arithmetic stays on the CPU"  # begins the reason of nodes that hold no floats


@dataclass(frozen=True)
class Feeding:
    """A model's first input: a picture or sound of `../shared/images` scaled to `values`, in each
    of `shapes` (empty: the model's own)."""

    file: str | None = None
    values: Range = SIGNED
    shapes: tuple[tuple[int, ...], ...] = ()


FEEDS: Mapping[str, Feeding] = {
    "mnist": Feeding(None, BYTES),
    "super_resolution": Feeding(None, UNIT, ((1, 1, 224, 224), (2, 1, 224, 224))),
    "squeezenet_tensor_input": Feeding("daisy.jpg", BYTES, ((1, 3, 227, 227),)),
    "fns_candy": Feeding("city_224.jpeg", BYTES, ((1, 3, 720, 720),)),
    "maui_test_data_model": Feeding("owl.jpg", SIGNED, ((1, 3, 244, 244),)),
    "yolox_nano": Feeding("traffic_0003.bmp", BYTES),
    "nanodet_m_320": Feeding("cats_and_dogs.jpg", (-2.0, 2.5)),
    "yunet_n_320": Feeding("single_face_320.jpeg", BYTES),
    "retinaface_mbnet0.25": Feeding(
        "single_face_320.jpeg", (-120.0, 135.0), ((1, 3, 320, 320), (1, 3, 224, 288))
    ),
    "ppocr_cls_mobile_v2": Feeding(None, SIGNED, ((1, 3, 48, 192), (2, 3, 48, 96))),
    "silero_vad_op18_ifless": Feeding("yes_1000ms.wav", SIGNED, ((1, 576), (3, 576))),
    "face_detection_short_range": Feeding("single_face_320.jpeg", SIGNED),
}


def _entries() -> list[dict[str, Any]]:
    listing = SHARED / "models" / "models.json"
    if not listing.exists():
        return []
    entries: list[dict[str, Any]] = json.loads(listing.read_text())
    return [e for e in entries if e["file"].endswith(".onnx") and e.get("runs_on_cpu", True)]


ENTRIES = _entries()
pytestmark = [
    pytest.mark.adapter,
    pytest.mark.onnxruntime,
    pytest.mark.skipif(not ENTRIES, reason="real ONNX models: ../shared is absent"),
]


def _stem(entry: Mapping[str, Any]) -> str:
    return Path(str(entry["file"])).stem


def _feeds(entry: Mapping[str, Any]) -> list[dict[str, Array]]:
    """For each shape: from a file, where the model has one, and random values."""
    feeding = FEEDS.get(_stem(entry), Feeding())
    own = tuple(entry["inputs"][0]["shape"])
    found = []
    for shape in feeding.shapes or (own,):
        for pictured in (True, False):
            if pictured and not feeding.file:
                continue
            feed = {}
            for value in entry["inputs"]:
                first = value is entry["inputs"][0]
                given = shape if first else _rest(value["shape"], shape)
                feed[value["name"]] = _array(value["dtype"], given, feeding, first and pictured)
            found.append(feed)
    return found


def _rest(own: list[Any], first: tuple[int, ...]) -> tuple[int, ...]:
    """Open extents of further inputs are the batch of the first."""
    return tuple(extent if isinstance(extent, int) else first[0] for extent in own)


def _array(dtype: str, shape: tuple[int, ...], feeding: Feeding, pictured: bool) -> Array:
    if dtype == "tensor(int64)":
        return np.full(shape, 16_000, np.int64)  # a sampling rate
    low, high = feeding.values
    if not pictured:
        values = np.random.default_rng(5).uniform(low, high, shape)
    elif feeding.file and feeding.file.endswith(".wav"):
        values = _sound(shape, SHARED / "images" / feeding.file)
    else:
        pixels = model_inputs.picture(SHARED / "images" / str(feeding.file), (1, *shape[1:]))
        values = np.broadcast_to(pixels / 255.0 * (high - low) + low, shape)
    return values.astype(np.float32)


def _sound(shape: tuple[int, ...], file: Path) -> Array:
    import wave

    with wave.open(str(file)) as sound:
        samples = np.frombuffer(sound.readframes(sound.getnframes()), np.int16) / 32768.0
    return np.resize(samples, shape)


def _session(path: Path, optimize: bool) -> Any:
    """The CPU provider."""
    import onnxruntime as ort

    settings = ort.SessionOptions()
    settings.log_severity_level = 4
    if not optimize:
        settings.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])


def _ours(path: Path, wanted: str | None) -> Any:
    import onnxruntime as ort

    settings = ort.SessionOptions()
    settings.log_severity_level = 4
    settings.add_provider_for_devices([onnx_host.device(wanted)], {})
    made = ort.InferenceSession(str(path), settings, enable_fallback=0)
    made.disable_fallback()
    return made


@pytest.mark.parametrize("entry", ENTRIES, ids=_stem)
def test_agrees_with_the_cpu(entry: Mapping[str, Any], pytestconfig: pytest.Config) -> None:
    import tflgpu_plugin

    path = SHARED / "models" / entry["file"]
    try:
        optimized, plain = _session(path, True), _session(path, False)
    except Exception as error:
        pytest.skip(f"the CPU provider does not load it: {error}")
    ours = _ours(path, pytestconfig.getoption("--adapter", default=None))
    wrong: list[str] = []
    runs = _feeds(entry)
    for feed in runs:
        expected, other = optimized.run(None, feed), plain.run(None, feed)
        for name, got, want, also in zip(
            [value.name for value in ours.get_outputs()],
            ours.run(None, feed), expected, other, strict=True,
        ):  # fmt: skip
            wrong += _differences(name, got, want, also)
    report = tflgpu_plugin.report(ours)
    assert not wrong, "\n".join(wrong)
    assert sum(island.failures for island in report.islands) == 0
    assert {island.runs for island in report.islands if island.graph == 0} <= {len(runs)}
    if _stem(entry) in WHOLE:
        floats = [n for n in report.nodes if not (n.reason or "").startswith(ARITHMETIC)]
        taken = sum(node.where == "gpu" for node in floats)
        assert taken >= SHARE * len(floats), str(report)
        assert len(report.islands) <= ISLANDS, str(report)


def _differences(name: str, got: Any, want: Any, also: Any) -> list[str]:
    """Sentences about one output; classes must be equal."""
    if isinstance(want, list):  # of maps from classes to scores
        got, want, also = ([list(scores.values()) for scores in maps] for maps in (got, want, also))
    got, want, also = map(np.asarray, (got, want, also))
    if want.dtype.kind not in "f":
        return [] if np.array_equal(got, want) else [f"{name} is {got}, not {want}"]
    largest = float(np.abs(want).max(initial=0))
    allowed = max(1e-4 * largest, 4 * float(np.abs(want - also).max(initial=0)))
    found = float(np.abs(got - want).max(initial=0))
    if got.shape == want.shape and found <= allowed:
        return []
    return [f"{name} differs by {found:.3g} where {allowed:.3g} is allowed (largest {largest:.3g})"]
