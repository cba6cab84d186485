"""Decoders in the form of onnxruntime-genai's builder: a prompt, and a token after it."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from .transformer_models import SHARED, TEXT, built

NAMES = ("Llama", "Qwen2", "Qwen3", "Mistral", "Gemma", "SmolLM3",
         "Gemma3", "Lfm2")  # fmt: skip
PRECISIONS = ("fp32", "int4")
SEEN = 12  # tokens of the prompt
MORE = (1, 20, 33)  # tokens before one, beside those


def routes() -> dict[str, Callable[[Path], None]]:
    """Returns the function that writes each model into a folder, by the model's name."""
    return {
        f"genai_{name.lower()}.{precision}": partial(_write, name, precision)
        for name in NAMES
        for precision in PRECISIONS
    }


def _tokenizer() -> Any:
    """Makes a tokenizer whose words are their numbers, which only the builder needs."""
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    words = models.WordLevel({str(k): k for k in range(99)}, unk_token="0")
    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer(words), eos_token="2", pad_token="0")


def _write(name: str, precision: str, folder: Path) -> None:
    import onnx

    with tempfile.TemporaryDirectory() as kept:
        built(name, *TEXT[name]).save_pretrained(kept)
        _tokenizer().save_pretrained(kept)
        builder = [sys.executable, "-m", "onnxruntime_genai.models.builder", "-i", kept]
        to = ["-o", kept + "/made", "-c", kept + "/cache", "-p", precision, "-e", "cpu"]
        subprocess.run(builder + to, check=True, capture_output=True)
        model = onnx.load(kept + "/made/model.onnx")
    for step, past, tokens in (("prompt", 0, SEEN), ("token", SEEN, 1)):
        path = folder / f"genai_{name.lower()}.{precision}.{step}.onnx"
        onnx.save(model, path)
        np.savez(path.with_suffix(".npz"), **_inputs(model, past, tokens))
    for k, past in enumerate(MORE):
        np.savez(path.with_suffix(f".{k}.npz"), **_inputs(model, past, 1))


def _inputs(model: Any, past: int, tokens: int) -> dict[str, Any]:
    """Returns the generator's inputs after `past` tokens: ids, a mask of ones, keys and values, and
    states of convolutions, whose shape the model states but for the batch."""
    random = np.random.default_rng(0)
    found: dict[str, Any] = {}
    for value in model.graph.input:
        if value.name.startswith("past"):
            heads, width = SHARED["num_key_value_heads"], SHARED["head_dim"]
            stated = [axis.dim_value or 1 for axis in value.type.tensor_type.shape.dim]
            shape = (1, heads, past, width) if len(stated) == len("bhsd") else stated
            found[value.name] = random.normal(size=shape).astype(np.float32)
        elif value.name == "attention_mask":
            found[value.name] = np.ones((1, past + tokens), np.int64)
        elif value.name == "position_ids":
            found[value.name] = np.arange(past, past + tokens, dtype=np.int64)[None]
        else:
            found[value.name] = random.integers(3, 99, (1, tokens))
    return found
