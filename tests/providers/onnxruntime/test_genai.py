"""Decoders in onnxruntime-genai give the tokens of its CPU provider."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from conformance.models import decoders
from examples import chat
from tests.support.onnx_models import EP

og = pytest.importorskip("onnxruntime_genai")
pytest.importorskip("onnx")
pytestmark = pytest.mark.adapter

SIZE = decoders.Size(layers=2, width=64, heads=4, words=99)
WEIGHTS = {"float32": 32, "int4": 4}
PROMPTS = (1, 2, 7, 16, 31, 32)


@pytest.fixture(params=WEIGHTS)
def models(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Any, Any]:
    """Returns the same model on our provider and on the CPU provider."""
    chat.library()  # once in a process
    (tmp_path / "model.onnx").write_bytes(decoders.grouped(SIZE, WEIGHTS[request.param]))
    (tmp_path / "genai_config.json").write_text(json.dumps(decoders.genai_settings(SIZE)))
    config = og.Config(str(tmp_path))
    config.append_provider(EP)
    return og.Model(config), og.Model(str(tmp_path))


def _generator(model: Any, batch: int) -> Any:
    settings = og.GeneratorParams(model)
    settings.set_search_options(max_length=80, min_length=80, batch_size=batch)
    return og.Generator(model, settings)


def _tokens(generator: Any, said: Any, count: int) -> Sequence[Any]:
    """Returns the tokens that follow these."""
    generator.append_tokens(said)
    made = []
    for _ in range(count):
        generator.generate_next_token()
        made.append(generator.get_next_tokens().tolist())
    return made


def _said(batch: int, count: int) -> Any:
    shape = batch, count
    return np.random.default_rng(count).integers(3, SIZE.words, shape).astype(np.int32)


@pytest.mark.parametrize("batch", [1, 3])
def test_tokens_after_prompts_of_many_lengths(models: tuple[Any, Any], batch: int) -> None:
    for count in PROMPTS:
        said = _said(batch, count)
        ours, theirs = (_tokens(_generator(model, batch), said, 4) for model in models)
        assert ours == theirs
    report = tflgpu_plugin.last_report()
    assert report.count("gpu") == len(report.nodes)
    (partition,) = report.partitions
    assert partition.runs == 4 * len(PROMPTS) and partition.host_runs == 0


def test_a_conversation_goes_on_in_the_same_cache(models: tuple[Any, Any]) -> None:
    generators = [_generator(model, 1) for model in models]
    for count in (5, 1, 9, 2):
        said = _said(1, count)
        ours, theirs = (_tokens(generator, said, 6) for generator in generators)
        assert ours == theirs


def test_a_conversation_is_cut_back(models: tuple[Any, Any]) -> None:
    generators = [_generator(model, 1) for model in models]
    made = [_tokens(generator, _said(1, 8), 12) for generator in generators]
    for generator in generators:
        generator.rewind_to(10)
    made += [_tokens(generator, _said(1, 3), 12) for generator in generators]
    assert made[0] == made[1] and made[2] == made[3]
