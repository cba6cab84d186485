"""Decodes greedily with a cache that grows by a token at each step, and compares the tokens with
those of onnxruntime's CPU provider.

    pip install torch transformers onnx onnxscript
    python examples/generate.py                     # small models of export_decoders.py
    python examples/generate.py --model FOLDER      # your own model

A folder has the decoder as optimum exports it (model.onnx or decoder_model_merged.onnx, with the
cache as `past_key_values...` and `present...`) and, for speech, encoder_model.onnx. Status 1: the
tokens differ."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

import tflgpu_plugin

DECODERS = ("decoder_model_merged.onnx", "model.onnx", "decoder_model.onnx")
ENCODER = "encoder_model.onnx"
TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16}
KINDS = ("gpt", "llama", "whisper")
PROMPT = (5, 17, 42, 7)
OURS, CPU = "TflGpuExecutionProvider", "CPUExecutionProvider"


class Unusable(Exception):
    """The folder's model cannot be decoded; the text says why."""


def session(path: Path, provider: str) -> Any:
    """Returns a session of the model. Raises Unusable."""
    options = ort.SessionOptions()
    options.log_severity_level = 3
    try:
        made = ort.InferenceSession(path, options, providers=[provider, CPU][provider == CPU :])
        if provider == OURS:
            tflgpu_plugin.assert_used(made)
    except Exception as error:  # onnxruntime's exceptions have no common class
        raise Unusable(f"{path}: {error}") from error
    return made


@dataclass(frozen=True)
class Text:
    """The tokens of each row, the milliseconds of each step, and the session."""

    tokens: np.ndarray[Any, Any]
    times: Sequence[float]
    session: Any


def decoded(folder: Path, provider: str, prompt: Sequence[int], count: int, batch: int) -> Text:
    """Returns the tokens that follow the prompt. Raises Unusable."""
    path = next((folder / name for name in DECODERS if (folder / name).exists()), None)
    if path is None:
        raise Unusable(f"{folder} has no decoder: {', '.join(DECODERS)}")
    decoder, fixed = session(path, provider), heard(folder, provider, batch)
    inputs = {one.name: one for one in decoder.get_inputs()}
    if "input_ids" not in inputs or not any(name.startswith("past") for name in inputs):
        raise Unusable(f"{path} has no input_ids, or no cache: export it with past key values")
    cache = {name: empty(one, batch) for name, one in inputs.items() if name.startswith("past")}
    rows = np.stack([np.roll(np.array(prompt, np.int64), row) for row in range(batch)])
    new, times = rows, []
    for step in range(count):
        feed = {"input_ids": new, **fixed, **lengths(rows, new, step)}
        start = time.perf_counter()
        results = run(decoder, {n: feed[n] for n in feed if n in inputs}, cache, provider)
        times.append((time.perf_counter() - start) * 1e3)
        for name in cache:
            if step == 0 or ".encoder." not in name:  # what the encoder gives stays
                cache[name] = results[name.replace("past_key_values", "present")]
        new = results["logits"].numpy()[:, -1:].argmax(-1)
        rows = np.hstack([rows, new])
    return Text(rows[:, len(prompt) :], times, decoder)


def run(decoder: Any, feed: dict[str, Any], cache: dict[str, Any], provider: str) -> dict[str, Any]:
    """Returns the outputs of a step by name; the cache stays where the provider keeps it. Raises
    Unusable."""
    binding = decoder.io_binding()
    for name, array in feed.items():
        binding.bind_cpu_input(name, array)
    for name, value in cache.items():
        binding.bind_ortvalue_input(name, value)
    names = [one.name for one in decoder.get_outputs()]
    for name in names:
        binding.bind_output(name, "gpu" if provider == OURS and name != "logits" else "cpu")
    try:
        decoder.run_with_iobinding(binding)
    except Exception as error:  # onnxruntime's exceptions have no common class
        raise Unusable(f"{provider} cannot run a step: {error}") from error
    return dict(zip(names, binding.get_outputs(), strict=True))


def empty(given: Any, batch: int) -> Any:
    """Returns a cache without tokens for this input [batch, heads, past, width]."""
    _, heads, _, width = given.shape
    if not isinstance(heads, int) or not isinstance(width, int):
        raise Unusable(f"{given.name} has a dynamic number of heads, or a dynamic width")
    array = np.zeros((batch, heads, 0, width), TYPES[given.type])
    return ort.OrtValue.ortvalue_from_numpy(array)


def lengths(rows: Any, new: Any, step: int) -> dict[str, Any]:
    """Returns the inputs that tell how many tokens there are."""
    places = np.arange(rows.shape[1] - new.shape[1], rows.shape[1], dtype=np.int64)
    return {
        "attention_mask": np.ones_like(rows),
        "position_ids": np.tile(places, (len(rows), 1)),
        "use_cache_branch": np.array([step > 0]),
    }


def heard(folder: Path, provider: str, batch: int) -> dict[str, Any]:
    """Returns what the encoder makes of a seeded spectrogram, nothing where there is no encoder."""
    if not (folder / ENCODER).exists():
        return {}
    encoder = session(folder / ENCODER, provider)
    (given,) = encoder.get_inputs()
    shape = [batch, *(n if isinstance(n, int) else 3000 for n in given.shape[1:])]
    features = np.random.default_rng(0).normal(size=shape).astype(TYPES[given.type])
    return {"encoder_hidden_states": encoder.run(None, {given.name: features})[0]}


def compared(folder: Path, given: argparse.Namespace) -> bool:
    """Prints the tokens and times of both providers; returns whether the tokens are the same."""
    texts = {
        provider: decoded(folder, provider, given.prompt, given.tokens, given.batch)
        for provider in (OURS, CPU)
    }
    ours, cpu = texts[OURS], texts[CPU]
    same = bool(np.array_equal(ours.tokens, cpu.tokens))
    report = tflgpu_plugin.report(ours.session)
    print(f"{folder.name}: {' '.join(map(str, ours.tokens[0]))}")
    for provider, text in texts.items():
        times = text.times[1:] or text.times
        print(f"  {provider}: {np.median(times):.1f} ms a token")
    print(f"  {report.count('gpu')} of {len(report.nodes)} nodes on the GPU; ", end="")
    print("the same tokens" if same else f"the CPU's tokens differ: {cpu.tokens[0]}")
    return same


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python examples/generate.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--model", type=Path, help="the folder of an exported decoder")
    parser.add_argument("--kind", nargs="+", choices=KINDS, default=KINDS, help="of small models")
    parser.add_argument("--prompt", nargs="+", type=int, default=PROMPT, help="token ids")
    parser.add_argument("--tokens", type=int, default=30)
    parser.add_argument("--batch", type=int, default=1)
    given = parser.parse_args(arguments)
    tflgpu_plugin.register()
    try:
        if given.model:
            return int(not compared(given.model, given))
        with tempfile.TemporaryDirectory() as folder:
            return int(not all([compared(path, given) for path in written(folder, given.kind)]))
    except Unusable as error:
        print(error, file=sys.stderr)
        return 2


def written(folder: str, kinds: Sequence[str]) -> list[Path]:
    """Returns the folders of small models, which are exported now. Raises Unusable."""
    exporter = Path(__file__).with_name("export_decoders.py")
    done = subprocess.run([sys.executable, str(exporter), folder, "--only", *kinds])
    if done.returncode:
        raise Unusable("Or decode your own model: --model FOLDER")
    return [Path(folder) / kind for kind in kinds]


if __name__ == "__main__":
    sys.exit(main())
