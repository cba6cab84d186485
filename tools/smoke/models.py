"""Models of the smoke tests: a float, a quantized and a recurrent network for each host, seeded
and made here, with inputs; and real models where ../shared has them."""

from __future__ import annotations

import json
import logging
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

SHARED = ROOT.parent / "shared" / "models"
FLOAT, QUANTIZED, RECURRENT = "float", "quantized", "recurrent"
# By file: the kind, and the step of each output (0: floats, within `judge.CLOSE` of the largest).
REAL = {
    "kws_ref_model_int8.tflite": (QUANTIZED, 1.0),
    "mnist_lstm_float.tflite": (RECURRENT, 0.0),
    "mnist.onnx": (FLOAT, 0.0),
}
Feeds = Sequence[Sequence[Any]]  # of arrays: run, then place


@dataclass(frozen=True)
class Scenario:
    """A model's file, and the step of its outputs: `step` is the distance of neighbouring levels of
    a quantized one, else 0."""

    name: str
    model: str
    kind: str
    step: float = 0.0


def write(folder: Path, options: dict[str, Any] | None = None) -> tuple[list[Scenario], list[str]]:
    """Writes all models with their inputs into a folder, as `scenarios.py` reads them; returns them
    and a sentence for each that is skipped."""
    folder.mkdir(parents=True, exist_ok=True)
    made, absent = [], []
    for scenario, content, feeds in seeded():
        (folder / scenario.model).write_bytes(content)
        made.append(_fed(folder, scenario, feeds))
    for file, (kind, step) in REAL.items():
        if not (SHARED / file).exists():
            absent.append(f"{file} is left out: ../shared/models has none.")
            continue
        shutil.copy(SHARED / file, folder / file)
        scenario = Scenario(file.replace(".", "-"), file, kind, step)
        made.append(_fed(folder, scenario, _drawn(folder / file)))
    told = {"options": options or {}, "scenarios": [asdict(scenario) for scenario in made]}
    (folder / "scenarios.json").write_text(json.dumps(told, indent=1))
    return made, absent


def _fed(folder: Path, scenario: Scenario, feeds: Feeds) -> Scenario:
    """Writes the inputs."""
    values = {f"{k}.{n}": value for k, feed in enumerate(feeds) for n, value in enumerate(feed)}
    np.savez(folder / f"{scenario.name}.npz", **values)
    return scenario


def _drawn(path: Path) -> Feeds:
    """Returns two seeded inputs of a model file."""
    from tflgpu_plugin.harness import hosts, inputs, onnx

    if path.suffix == ".onnx":
        details = onnx.details(onnx.read(path), path)
    else:
        details = hosts.host().plain(path.read_bytes()).get_input_details()
    return [inputs.make(details, None, 0.0, 1.0, seed) for seed in (1, 2)]


def seeded() -> Iterator[tuple[Scenario, bytes, Feeds]]:
    """Yields three models for TFLite, three for ONNX Runtime."""
    from benchmarks.to_onnx import to_onnx
    from benchmarks.to_tflite import to_tflite
    from conformance.models import seeded as sequences

    net = network()
    pictures = [net.picture(seed) for seed in (1, 2)]
    planar = [np.ascontiguousarray(picture.transpose(0, 3, 1, 2)) for picture in pictures]
    yield Scenario("tflite-float", "float.tflite", FLOAT), to_tflite(net), [[p] for p in pictures]
    yield _tflite_quantized()
    yield _tflite_recurrent()
    yield Scenario("onnx-float", "float.onnx", FLOAT), to_onnx(net), [[p] for p in planar]
    yield _onnx_quantized()
    states = [[sequences.sequence(seed)] for seed in (1, 2)]
    yield Scenario("onnx-lstm", "lstm.onnx", RECURRENT), sequences.recurrent(), states


def network() -> Any:
    """Returns convolutions of three kinds, a residual sum, a downsampling and an upsampling, and a
    classifier."""
    from benchmarks.networks import Network

    net = Network("small", (32, 32, 3))
    x = net.conv("input", 16, 3, 2)
    y = net.conv(net.conv(x, 16, 3, groups=16), 16, 1, activation="")
    x = net.add("relu", net.add("add", x, y, shape=(16, 16, 16)), shape=(16, 16, 16))
    low = net.conv(net.add("max_pool", x, shape=(8, 8, 16), stride=2, window=2), 24, 3)
    up = net.add("resize", low, shape=(16, 16, 24))
    net.head(net.conv(net.add("concat", up, x, shape=(16, 16, 40)), 24, 3), 10)
    return net


def _tflite_quantized() -> tuple[Scenario, bytes, Feeds]:
    """Returns the first random graph in int8 with a convolution, of six operators or more, whose
    answers are bit for bit those of the host's kernels."""
    from conformance.random import quantized
    from conformance.variants.quantized import rule_of

    for seed in count():
        found = quantized.build(seed)
        ops = [operator.op for operator in found[0].operators] if found else []
        if found and len(ops) > 5 and "CONV_2D" in ops and rule_of(*ops) == "exact":
            model, feed = found
            scenario = Scenario("tflite-int8", "int8.tflite", QUANTIZED, 1.0)
            return scenario, model.to_bytes(), [feed, [value[..., ::-1] for value in feed]]
    raise AssertionError


def _tflite_recurrent() -> tuple[Scenario, bytes, Feeds]:
    """Returns a sequence of 20 steps that an LSTM of 24 units reads; the second run continues from
    the state of the first."""
    from conformance import host
    from conformance.cases.lstm import full
    from conformance.models import tflite

    case = full("lstm", 24, inputs=12, batch=1, steps=20)
    content = tflite.build(case)
    return Scenario("tflite-lstm", "lstm.tflite", RECURRENT), content, host.case_feeds(case, 2)


def _onnx_quantized() -> tuple[Scenario, bytes, Feeds]:
    """Returns a chain of convolutions in groups of QuantizeLinear and DequantizeLinear."""
    from conformance.variants import onnx_quantized

    *_, chain = onnx_quantized.networks()
    logging.disable(logging.WARNING)  # advice of the quantizer's
    content = onnx_quantized.quantize(chain, "qdq", ("u8", "i8", True))
    logging.disable(logging.NOTSET)
    (step,) = onnx_quantized.steps(content)
    feeds = [list(chain.feed(seed).values()) for seed in (11, 12)]
    return Scenario("onnx-qdq", "qdq.onnx", QUANTIZED, step), content, feeds
