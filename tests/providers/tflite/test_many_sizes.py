"""Models that are resized many times in one interpreter give the host's results at every size."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

import tflgpu_plugin
from conformance import host as hosts
from tests.support import resized_models
from tests.support.interpreters import gpu, same
from tflgpu_plugin.compile.template import Template
from tflgpu_plugin.engine import Partition
from tflgpu_plugin.ir import Graph
from tflgpu_plugin.ir.extent import Trace

PICTURES = [(1, int(h), int(w), 8) for h, w in np.random.default_rng(2).integers(1, 40, (16, 2))]
SAMPLES = [(1, n) for n in (512, 671, 672, 673, 1600, 900, 513, 1232, 5120, 512)]
MODELS: dict[str, tuple[Callable[[], bytes], Sequence[Sequence[int]]]] = {
    "convolutions": (resized_models.pictures, [*PICTURES, *PICTURES[::-3]]),
    "spectrum": (resized_models.melspectrogram, SAMPLES),
}


@pytest.mark.adapter
@pytest.mark.parametrize("host", hosts.installed())
def test_one_template_has_symbols_for_all_open_extents(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although only the width differs when it is made."""
    traced: list[Trace] = []
    usual = Partition.template

    def template(partition: Partition, graph: Graph, trace: Trace) -> Template:
        traced.append(trace)
        return usual(partition, graph, trace)

    monkeypatch.setattr(Partition, "template", template)
    model = resized_models.pictures()
    interpreter, _ = gpu(model, host)
    (given,) = interpreter.get_input_details()
    for height, width in ((20, 20), (20, 24), (31, 17), (9, 40)):
        interpreter.resize_tensor_input(given["index"], (1, height, width, 8))
        interpreter.allocate_tensors()
        same(interpreter, model, host)
    assert len(traced) == 1


@pytest.mark.adapter
@pytest.mark.parametrize("host", hosts.installed())
@pytest.mark.parametrize("name", MODELS)
def test_every_size_gives_what_the_host_gives(host: str, name: str) -> None:
    write, shapes = MODELS[name]
    model = write()
    interpreter, made = gpu(model, host)
    (given,) = interpreter.get_input_details()
    for seed, shape in enumerate(shapes):
        interpreter.resize_tensor_input(given["index"], shape)
        interpreter.allocate_tensors()
        same(interpreter, model, host, seed)
    report = tflgpu_plugin.report(made)
    assert report.count("gpu") == len(report.nodes)
    (partition,) = (one for one in report.partitions if one.live)
    assert partition.runs > 0 and partition.failures == partition.host_runs == 0
