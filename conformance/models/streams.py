"""Runs models that keep variables between runs on a stream of inputs. Their variables, and the
inputs of their last operators, are compared after each run; variables are reset in between."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from conformance import host
from conformance.host import Feed
from conformance.models import model_inputs, real_models, tflite_file
from conformance.models.real_models import Outcome

KEEPS = "ASSIGN_VARIABLE"
RUNS = 64
RESETS = (40,)  # runs before which the variables are reset


def entries() -> list[dict[str, Any]]:
    """Returns the real models that have variables."""
    return [e for e in model_inputs.models() if any(op.startswith(KEEPS) for op in e["ops"])]


def compare(
    entry: Mapping[str, Any], name: str, options: Mapping[str, Any] | None = None
) -> Outcome:
    """Compares every run of a stream with the reference kernels of a host."""
    content = visible(model_inputs.path(entry).read_bytes())
    kernels = host.oracle(content, name)[1]
    given = feeds(entry)
    run = host.run_on_gpu(content, given, name, options, kernels, RESETS)
    expected = host.run_on_cpu(content, given, name, kernels, RESETS)
    comparisons = [
        real_models.compare_run(entry, f"run {number}", wanted, got, [wanted])
        for number, (wanted, got) in enumerate(zip(expected, run.outputs, strict=True))
    ]
    return Outcome(comparisons, run.placement, expected, run.outputs)


def visible(content: bytes) -> bytes:
    """Returns the same model with assigned values, and the inputs of its last operators, as
    outputs."""
    model = tflite_file.schema().ModelT.InitFromPackedBuf(content, 0)
    names = tflite_file.operator_names(model)
    read = {KEEPS: 1, **dict.fromkeys(real_models.FINAL, 0)}
    graph = model.subgraphs[0]
    found = [(names[o.opcodeIndex], o) for o in graph.operators]
    return tflite_file.with_outputs(
        content, [int(o.inputs[read[op]]) for op, o in found if op in read]
    )


def feeds(entry: Mapping[str, Any]) -> list[Feed]:
    """Returns inputs for `RUNS` runs: noise of the full range, of a tenth of it, and silence."""
    random = np.random.default_rng(zlib.crc32(str(entry["file"]).encode()))
    return [
        [_noise(random, value, (1.0, 0.1, 0.0)[number % 7 % 3]) for value in entry["inputs"]]
        for number in range(RUNS)
    ]


def _noise(random: np.random.Generator, value: Mapping[str, Any], loud: float) -> Any:
    kind, shape = np.dtype(value["dtype"]), tuple(value["shape"])
    low, high = (
        (-1.0, 1.0) if kind.kind == "f" else (float(np.iinfo(kind).min), np.iinfo(kind).max + 1.0)
    )
    data = low + (high - low) * loud * random.random(shape)
    return (np.floor(data) if kind.kind in "iu" else data).astype(kind)
