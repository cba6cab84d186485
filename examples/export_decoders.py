"""Writes small decoders with seeded weights as ONNX files: a GPT-2, a Llama and a Whisper.

    pip install torch transformers onnx onnxscript
    python examples/export_decoders.py FOLDER

Each is a folder with model.onnx, which has the cache as inputs `past_key_values.0.key` ... and as
outputs `present.0.key` ...; Whisper has encoder_model.onnx beside it. Published models are exported
in the same way, with `from_pretrained` in place of a configuration."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

LAYERS, HEADS, WIDTH, WORDS, LONGEST = 2, 4, 64, 99, 256
FRAMES, BANDS = 100, 80  # of the spectrogram that Whisper hears
# Weights of usual size would make all tokens nearly equal.
SPREAD = {"initializer_range": 0.3}
PLAIN = {"vocab_size": WORDS, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
GPT = {"n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "n_positions": LONGEST}
LLAMA = {"hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
         "num_key_value_heads": 2, "intermediate_size": 96,
         "max_position_embeddings": LONGEST}  # fmt: skip
WHISPER = {"d_model": WIDTH, "encoder_layers": 1, "decoder_layers": LAYERS,
           "encoder_attention_heads": HEADS, "decoder_attention_heads": HEADS,
           "encoder_ffn_dim": 96, "decoder_ffn_dim": 96, "num_mel_bins": BANDS,
           "max_source_positions": FRAMES // 2, "max_target_positions": LONGEST,
           "decoder_start_token_id": 1, "init_std": 0.3}  # fmt: skip


def text_decoder(name: str, settings: Mapping[str, Any]) -> Callable[[Path], None]:
    """Returns what exports the causal model of this name in transformers."""

    def write(folder: Path) -> None:
        import torch
        import transformers

        torch.manual_seed(0)
        config = getattr(transformers, f"{name}Config")(**settings, **PLAIN, **SPREAD)
        model = transformers.AutoModelForCausalLM.from_config(config).eval()

        def step(ids: Any, mask: Any, cache: Any) -> Any:
            made = model(input_ids=ids, attention_mask=mask, past_key_values=cache, use_cache=True)
            return made.logits, made.past_key_values

        heads = getattr(config, "num_key_value_heads", None) or HEADS
        inputs = {"input_ids": torch.ones(2, 3, dtype=torch.int64),
                  "attention_mask": torch.ones(2, 8, dtype=torch.int64)}  # fmt: skip
        _export(step, model, inputs, heads, folder / "model.onnx")

    return write


def whisper(folder: Path) -> None:
    """Exports the encoder, and the decoder, which computes its cross-attention at each step."""
    import torch
    from transformers import WhisperConfig, WhisperForConditionalGeneration
    from transformers.cache_utils import DynamicCache, EncoderDecoderCache

    torch.manual_seed(0)
    model = WhisperForConditionalGeneration(WhisperConfig(**WHISPER, **PLAIN)).eval()

    def step(ids: Any, heard: Any, cache: Any) -> Any:
        both = EncoderDecoderCache(cache, DynamicCache())
        made = model.model.decoder(input_ids=ids, encoder_hidden_states=heard,
                                   past_key_values=both, use_cache=True)  # fmt: skip
        return model.proj_out(made.last_hidden_state), both.self_attention_cache

    inputs = {"input_ids": torch.ones(2, 3, dtype=torch.int64),
              "encoder_hidden_states": torch.ones(2, FRAMES // 2, WIDTH)}  # fmt: skip
    _export(step, model, inputs, HEADS, folder / "model.onnx")

    class Encoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = model.model.encoder

        def forward(self, features: Any) -> Any:
            return self.inner(features).last_hidden_state

    _onnx(Encoder(), (torch.ones(2, BANDS, FRAMES),), ["input_features"],
          ["encoder_hidden_states"], ({0: torch.export.Dim.AUTO},),
          folder / "encoder_model.onnx")  # fmt: skip


def _export(
    step: Callable[..., Any], model: Any, inputs: dict[str, Any], heads: int, path: Path
) -> None:
    """Exports a step: it takes the inputs and a cache, and returns logits and the cache."""
    import torch
    from transformers.cache_utils import DynamicCache

    class Step(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = model

        def forward(self, *given: Any) -> Any:
            fixed, past = given[: len(inputs)], given[len(inputs) :]
            cache = DynamicCache()
            for layer in range(LAYERS):
                cache.update(past[2 * layer], past[2 * layer + 1], layer)
            logits, made = step(*fixed, cache)
            return (logits, *(t for one in made.layers for t in (one.keys, one.values)))

    auto = torch.export.Dim.AUTO
    parts = [f"{layer}.{part}" for layer in range(LAYERS) for part in ("key", "value")]
    past = [torch.randn(2, heads, 5, WIDTH // HEADS) for _ in parts]
    shapes = [{0: auto, 1: auto} if one.ndim == 2 else {0: auto} for one in inputs.values()]
    shapes += [{0: auto, 2: auto} for _ in parts]
    names = [*inputs, *(f"past_key_values.{part}" for part in parts)]
    outputs = ["logits", *(f"present.{part}" for part in parts)]
    _onnx(Step(), (*inputs.values(), *past), names, outputs, (tuple(shapes),), path)


def _onnx(
    module: Any, inputs: Any, names: list[str], outputs: list[str], shapes: Any, path: Path
) -> None:
    import torch

    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module.eval(), inputs, str(path), dynamo=True, external_data=False, verbose=False,
            opset_version=20, input_names=names, output_names=outputs, dynamic_shapes=shapes,
        )  # fmt: skip


KINDS: dict[str, Callable[[Path], None]] = {
    "gpt": text_decoder("GPT2", GPT),
    "llama": text_decoder("Llama", LLAMA),
    "whisper": whisper,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python examples/export_decoders.py", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="+", choices=KINDS, default=[*KINDS])
    given = parser.parse_args(arguments)
    for kind in given.only:
        folder = given.folder / kind
        folder.mkdir(parents=True, exist_ok=True)
        try:
            KINDS[kind](folder)
        except ImportError as error:
            print(f"{error}. pip install torch transformers onnx onnxscript", file=sys.stderr)
            return 2
        print(f"{kind}: {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
