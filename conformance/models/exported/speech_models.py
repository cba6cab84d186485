"""Networks of `transformers` that speak: narrow, and without noise, which would be another in each
run. Their random numbers are still drawn, and multiplied by zero or not used."""

from __future__ import annotations

from typing import Any

from .transformer_models import Recipe, built, plain

UPSAMPLED = {"upsample_initial_channel": 32, "upsample_rates": [4, 4],
             "upsample_kernel_sizes": [8, 8], "resblock_kernel_sizes": [3, 5],
             "resblock_dilation_sizes": [[1, 3], [1, 3]]}  # fmt: skip
VITS = UPSAMPLED | {
    "vocab_size": 38, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
    "window_size": 4, "ffn_dim": 48, "spectrogram_bins": 65, "flow_size": 32,
    "prior_encoder_num_flows": 2, "prior_encoder_num_wavenet_layers": 2,
    "posterior_encoder_num_wavenet_layers": 2, "duration_predictor_num_flows": 2,
    "depth_separable_num_layers": 2, "noise_scale": 0.0, "noise_scale_duration": 0.0,
}  # fmt: skip
SPEECH_T5 = {
    "hidden_size": 32, "encoder_layers": 2, "encoder_attention_heads": 4, "encoder_ffn_dim": 48,
    "decoder_layers": 2, "decoder_attention_heads": 4, "decoder_ffn_dim": 48,
    "speech_decoder_prenet_units": 16, "speech_decoder_prenet_layers": 2,
    "speech_decoder_postnet_units": 16, "speech_decoder_postnet_layers": 3, "num_mel_bins": 20,
    "speaker_embedding_dim": 16, "speech_decoder_prenet_dropout": 0.0,
}  # fmt: skip


def vits() -> tuple[Any, dict[str, Any]]:
    import torch

    given = {"input_ids": torch.arange(1, 17)[None]}
    return plain(built("Vits", "Model", VITS), given), given


def speech_t5() -> tuple[Any, dict[str, Any]]:
    import torch

    given = {"input_ids": torch.arange(4, 20)[None], "decoder_input_values": torch.rand(1, 6, 20),
             "speaker_embeddings": torch.rand(1, 16)}  # fmt: skip
    network = built("SpeechT5", "ForTextToSpeech", SPEECH_T5)
    return plain(network, given, use_cache=False), given


def vocoder() -> tuple[Any, dict[str, Any]]:
    import torch

    network = built("SpeechT5HifiGan", "", UPSAMPLED | {"model_in_dim": 20})
    given = {"spectrogram": torch.rand(12, 20)}
    return network, given


RECIPES: dict[str, Recipe] = {
    "speech_vits": vits, "speech_t5": speech_t5, "speech_hifigan": vocoder,
}  # fmt: skip
