"""Inputs of the real models in `../shared`: a picture or sound where the model takes one, and
seeded random values."""

from __future__ import annotations

import json
import os
import wave
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest import SkipTest

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

SHARED = (
    Path(__file__).resolve().parents[3] / "shared"
)  # beside the checkout; tests skip without it
FOLDER = Path(os.environ.get("TFLGPU_MODELS") or SHARED / "models")
ABSENT = (
    "no real models: put .tflite files into ../shared/models, or name a folder of them with "
    "TFLGPU_MODELS"
)
ABSENT_ONNX = "no real ONNX models: ../shared/models has none with a models.json"


@dataclass(frozen=True)
class Source:
    """The source of a model's first input: a file of `../shared/images`, scaled to [low, high]
    (of 0 to 255)."""

    file: str | None = None
    low: float = -1.0
    high: float = 1.0
    integers: bool = False


SIGNED, UNIT, BYTES = (-1.0, 1.0), (0.0, 1.0), (0.0, 255.0)

SOURCES: dict[str, Source] = {
    "deeplabv3_257_mv_gpu": Source("cats_and_dogs.jpg", *SIGNED),
    "deeplabv3_mnv2_dm05_pascal_quant": Source("cats_and_dogs.jpg", *BYTES),
    "face_detection_front": Source("single_face_320.jpeg", *SIGNED),
    "face_detection_short_range": Source("single_face_320.jpeg", *SIGNED),
    "face_landmark_fp16": Source("face.jpg", *UNIT),
    "face_landmark_fp32": Source("face.jpg", *UNIT),
    "hair_segmentation": Source("grace_hopper.jpg", *UNIT),
    "hand_landmark_lite": Source("hand_rock.jpg", *UNIT),
    "iris_landmark": Source("face.jpg", *UNIT),
    "mobilenet_v1_0.25_224_1_default_1": Source("cat_720p.jpg", *SIGNED),
    "mobilenet_v1_0.25_224_quant": Source("cat_720p.jpg", *BYTES),
    "mobilenet_v1_1.0_224_float_from_quant": Source("cat_720p.jpg", *SIGNED),
    "mobilenet_v2_035_96_embedder": Source("owl.jpg", *UNIT),
    "mobilenet_v2_1.0_224_quant": Source("owl.jpg", *BYTES),
    "movenet_single_pose_lightning_ptq": Source("grace_hopper.jpg", *BYTES),
    "palm_detection_lite": Source("hand_rock.jpg", *UNIT),
    "pose_landmark_lite": Source("grace_hopper.jpg", *UNIT),
    "posenet_mobilenet_v1_100_257x257_multi_kpt_float_from_quant": Source(
        "grace_hopper.jpg", *SIGNED
    ),
    "resnet8_cifar_float": Source("cat_720p.jpg", *BYTES),
    "resnet8_cifar_int8": Source("cat_720p.jpg", -128.0, 127.0),
    "selfie_segmentation": Source("grace_hopper.jpg", *UNIT),
    "ssd_mobilenet_v1_coco_float_from_quant": Source("multi_objects.jpg", *SIGNED),
    "ssd_mobilenet_v1_coco_quant_detect": Source("multi_objects.jpg", *BYTES),
    "style_predict_quantized_256": Source("segmentation_image.jpeg", *UNIT),
    "style_transfer_f16_384": Source("city_224.jpeg", *UNIT),
    "style_transfer_quantized_dynamic": Source("city_224.jpeg", *UNIT),
    "text_classification": Source(None, 0, 1000, integers=True),
    "vww_96_float": Source("grace_hopper.jpg", *UNIT),
    "vww_96_int8": Source("grace_hopper.jpg", -128.0, 127.0),
    "yamnet_audio_classifier": Source("yes_1000ms.wav", *SIGNED),
    "yolox_nano_hand_dynamic_range": Source("hand_rock.jpg", *BYTES),
    "yolox_nano_with_post_float32": Source("traffic_0003.bmp", *BYTES),
}

# With custom operators that only the default kernels of newer hosts have; the listing does not tell
# their inputs.
CUSTOM = ("hair_segmentation", "selfie_segmentation")

CLASSIFIERS = (
    "mobilenet_v1_1.0_224_float_from_quant",
    "mobilenet_v1_0.25_224_1_default_1",
    "mobilenet_v1_0.25_224_quant",
    "mobilenet_v2_1.0_224_quant",
    "resnet8_cifar_float",
    "resnet8_cifar_int8",
    "vww_96_float",
    "vww_96_int8",
    "kws_ref_model_float32",
    "kws_ref_model_int8",
    "mnist_lstm_float",
    "mnist_lstm_int8",
    "text_classification",
    "yamnet_audio_classifier",
)


def listing() -> list[dict[str, Any]]:
    """Returns the entries of models.json, and entries for .tflite files beside it that are not
    listed."""
    file = FOLDER / "models.json"
    entries: list[dict[str, Any]] = json.loads(file.read_text()) if file.exists() else []
    known = {entry["file"] for entry in entries}
    others = sorted(found for found in FOLDER.glob("*.tflite") if found.name not in known)
    return entries + [_examined(found) for found in others]


def models() -> list[dict[str, Any]]:
    """Returns the TFLite entries that run on the CPU of some installed host; empty where there are
    no models."""
    found = [e for e in listing() if e["file"].endswith(".tflite")]
    newer = find_spec("ai_edge_litert") is not None
    return [
        e if e["inputs"] else {**e, "inputs": _inputs(e)}
        for e in found
        if e.get("runs_on_cpu") or (newer and Path(str(e["file"])).stem in CUSTOM)
    ]


def _examined(file: Path) -> dict[str, Any]:
    """Returns an entry, as in models.json, for a file that is not listed there."""
    from conformance import host
    from conformance.models.tflite_file import schema

    content = file.read_bytes()
    kinds = {value: name for name, value in vars(schema().TensorType).items() if name.isupper()}
    graph = schema().ModelT.InitFromPackedBuf(content, 0).subgraphs[0]
    types = [kinds[tensor.type] for tensor in graph.tensors]
    return {
        "file": file.name,
        "kind": _kind(types, [types[o.outputs[0]] for o in graph.operators]),
        "nodes": len(graph.operators),
        "inputs": [
            {"name": t.name.decode(), "shape": [int(n) for n in t.shape],
             "dtype": kinds[t.type].lower()}
            for t in (graph.tensors[k] for k in graph.inputs)
        ],
        "runs_on_cpu": any(host.registers(content, name, "optimized") for name in host.installed()),
    }  # fmt: skip


def _kind(types: list[str], results: list[str]) -> str:
    """Returns the listing's name for a model's number types, by all its tensors and results."""
    for kind in ("INT8", "UINT8"):
        if results.count(kind) > len(results) / 2:
            return kind.lower()
    if "INT8" in types:
        return "dynamic-range"
    return "float16" if "FLOAT16" in types else "float32"


def _inputs(entry: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns names, shapes and types of the inputs as stated by the model."""
    from conformance.models.tflite_file import schema

    graph = schema().ModelT.InitFromPackedBuf(path(entry).read_bytes(), 0).subgraphs[0]
    tensors = [graph.tensors[t] for t in graph.inputs]
    return [
        {"name": t.name.decode(), "shape": [int(n) for n in t.shape], "dtype": "float32"}
        for t in tensors
    ]


def path(entry: Mapping[str, Any]) -> Path:
    """Raises SkipTest, by which pytest skips a test, where the folder lacks a model that it
    lists."""
    found = FOLDER / str(entry["file"])
    if not found.exists():
        raise SkipTest(f"{found.name} is not in {FOLDER}")
    return found


def feeds(entry: Mapping[str, Any]) -> dict[str, list[Array]]:
    """Returns inputs by kind: "picture" (also for a sound) where the model takes one, and
    "random"."""
    stem = Path(str(entry["file"])).stem
    source = SOURCES.get(stem, Source())
    found = {}
    if source.file and (SHARED / "images" / source.file).exists():
        found["picture"] = _arrays(entry, source, pictured=True)
    found["random"] = _arrays(entry, source, pictured=False)
    return found


def _arrays(entry: Mapping[str, Any], source: Source, pictured: bool) -> list[Array]:
    arrays = []
    for position, value in enumerate(entry["inputs"]):
        kind, shape = np.dtype(value["dtype"]), tuple(value["shape"])
        if pictured and position == 0:
            data = _recorded(shape, source)
        else:
            low, high = (source.low, source.high) if position == 0 else (-1.0, 1.0)
            if kind.kind in "iu" and position == 0 and (low, high) == SIGNED:
                low, high = np.iinfo(kind).min, np.iinfo(kind).max
            seed = [zlib.crc32(str(entry["file"]).encode()), position]
            data = np.random.default_rng(seed).uniform(low, high, shape)
        whole = kind.kind in "iu" or source.integers
        arrays.append((np.floor(data) if whole else data).astype(kind))
    return arrays


def _recorded(shape: tuple[int, ...], source: Source) -> npt.NDArray[np.float64]:
    assert source.file is not None
    file = SHARED / "images" / source.file
    if file.suffix == ".wav":
        return np.resize(sound(file), shape)
    return picture(file, shape) / 255.0 * (source.high - source.low) + source.low


def sound(file: Path) -> npt.NDArray[np.float64]:
    """Returns the samples of a recording, in the range [-1, 1)."""
    with wave.open(str(file)) as recording:
        frames = recording.readframes(recording.getnframes())
    return np.frombuffer(frames, np.int16) / 32768.0


def picture(file: Path, shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
    """Returns an image in the shape of an input, [1, H, W, 3] or [1, 3, H, W], with values from 0
    to 255."""
    from PIL import Image

    planar = shape[1] == 3
    height, width = shape[2:4] if planar else shape[1:3]
    with Image.open(file) as image:
        pixels = np.asarray(image.convert("RGB").resize((width, height)), np.float64)
    if not planar and shape[3] == 4:  # the fourth is the mask of the picture before
        pixels = np.concatenate([pixels, np.zeros((height, width, 1))], 2)
    return (pixels.transpose(2, 0, 1) if planar else pixels)[None]
