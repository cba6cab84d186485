"""Compares real ONNX models with ONNX Runtime's CPU provider: their inputs, and the tolerances.

A float32 output passes within 1e-4 of its largest magnitude, or four times the difference between
the provider's own optimized and unoptimized runs. Outside that, either answer may be the worse one,
so it is compared with the model evaluated in float64: it must be within the same bound, or no
further from it than the provider's answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from conformance import onnx_host
from conformance.host import Placement
from conformance.models import model_inputs, real_models
from conformance.models.model_inputs import BYTES, SHARED, SIGNED, UNIT, Array
from conformance.models.real_models import Comparison
from tflgpu_plugin.harness import onnx

Range = tuple[float, float]
Feed = dict[str, Array]
Truth = Callable[[], list[Any]]


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


@dataclass(frozen=True)
class Outcome:
    """A model's comparisons, one per feed, where its nodes ran, and our report of the session."""

    comparisons: list[Comparison]
    placement: Placement
    report: Any


def entries() -> list[dict[str, Any]]:
    """Returns the ONNX entries of models.json that run on the CPU; empty if there is none."""
    found = [e for e in model_inputs.listing() if e["file"].endswith(".onnx")]
    return [e for e in found if e.get("runs_on_cpu", True)]


# ---- what they are fed ---------------------------------------------------------------------------


def feeds(entry: Mapping[str, Any]) -> dict[str, Feed]:
    """Returns for each shape an image or sound, if the model takes one, and random values of the
    same range. Also noise from 0 to 1, whatever the range: for most models it is so faint that
    variances and class scores come close to zero."""
    feeding = FEEDS.get(real_models.stem(entry), Feeding())
    shapes = feeding.shapes or (tuple(entry["inputs"][0]["shape"]),)
    found = {}
    for shape in shapes:
        if feeding.file and (SHARED / "images" / feeding.file).exists():
            found[f"picture {list(shape)}"] = _feed(entry, shape, _recorded(shape, feeding))
        found[f"random {list(shape)}"] = _feed(entry, shape, _random(5, shape, feeding.values))
    if feeding.values != UNIT:
        found["noise in 0 to 1"] = _feed(entry, shapes[0], _random(5, shapes[0], UNIT))
    return found


def _feed(entry: Mapping[str, Any], shape: tuple[int, ...], first: Array) -> Feed:
    """Returns further inputs: a sampling rate, or random values."""
    feed = {entry["inputs"][0]["name"]: first}
    for value in entry["inputs"][1:]:
        # Open extents of further inputs are the batch of the first.
        own = tuple(n if isinstance(n, int) else shape[0] for n in value["shape"])
        whole = value["dtype"] == "tensor(int64)"
        feed[value["name"]] = np.full(own, 16_000, np.int64) if whole else _random(5, own, SIGNED)
    return feed


def _random(seed: int, shape: tuple[int, ...], values: Range) -> Array:
    return np.random.default_rng(seed).uniform(*values, shape).astype(np.float32)


def _recorded(shape: tuple[int, ...], feeding: Feeding) -> Array:
    file = SHARED / "images" / str(feeding.file)
    if file.suffix == ".wav":
        return np.resize(model_inputs.sound(file), shape).astype(np.float32)
    low, high = feeding.values
    pixels = model_inputs.picture(file, (1, *shape[1:])) / 255.0 * (high - low) + low
    return np.broadcast_to(pixels, shape).astype(np.float32)


# ---- how far apart they may be -------------------------------------------------------------------


def session(path: Path, optimize: bool = True) -> Any:
    """Returns a session on the CPU provider. Raises what onnxruntime raises if it does not load the
    model."""
    return onnx.opened(path, onnx.settings(optimize, logs=onnx.FATAL))


def ours(path: Path, wanted: str | None = None) -> Any:
    """Returns a session on our provider, on the adapter that `wanted` names, with default options
    and no fallback."""
    return onnx.opened(path, onnx.settings(logs=onnx.FATAL), {}, onnx_host.place(wanted))


def compare(entry: Mapping[str, Any], wanted: str | None = None) -> Outcome:
    """Runs a model of models.json on all its feeds and compares every output. Raises what
    onnxruntime raises if its CPU provider does not load it."""
    import tflgpu_plugin

    path = model_inputs.path(entry)
    cpu, plain, gpu = session(path), session(path, optimize=False), ours(path, wanted)
    comparisons = []
    for kind, feed in feeds(entry).items():
        expected, own, got = (_arrays(one.run(None, feed)) for one in (cpu, plain, gpu))
        truth = _truth(entry, path, feed)
        judged = [
            judge(kind, k, *three, truth)
            for k, three in enumerate(zip(expected, got, own, strict=True))
        ]
        comparisons.append(max(judged, key=lambda c: c.share))
    return Outcome(comparisons, onnx_host.placement(gpu), tflgpu_plugin.report(gpu))


def _arrays(outputs: list[Any]) -> list[Array]:
    """Returns arrays; a list of maps from classes to scores becomes one array, in the order of the
    classes."""
    return [
        np.array([[scores[c] for c in sorted(scores)] for scores in value])
        if isinstance(value, list) else np.asarray(value)
        for value in outputs
    ]  # fmt: skip


def _truth(entry: Mapping[str, Any], path: Path, feed: Feed) -> Truth | None:
    """Returns the outputs in float64, computed on first use. For 8-bit numbers they are the
    provider's: such models have no judge."""
    if entry["kind"] != "float32":
        return None

    @cache
    def outputs() -> list[Any]:
        import onnx

        from conformance.references import float64

        return float64.evaluate(onnx.load(str(path)), feed)

    return outputs


def judge(kind: str, k: int, expected: Array, got: Array, own: Array,
          truth: Truth | None) -> Comparison:  # fmt: skip
    """Judges output k, given the answers of the provider and of ours, the provider's without
    optimizations, and all outputs in float64. Classes must be equal."""
    if expected.dtype.kind != "f":
        wrong = not np.array_equal(expected, got)
        text = f"{kind}, output {k} is {got}, not {expected}"
        return Comparison(kind, float(wrong), np.inf if wrong else 0.0, text)
    allowed = real_models.allowed(expected, own)
    found = real_models.measure(kind, k, expected, got, allowed)
    if found.share <= 1 or truth is None:
        return found
    true = np.asarray(truth()[k])
    lost = np.abs(true - expected) if true.shape == expected.shape else np.zeros(1)
    allowed = max(allowed, float(lost.max(initial=0)))
    judged = real_models.measure(f"{kind} against float64", k, true, got, allowed)
    return min(found, judged, key=lambda c: c.share)
