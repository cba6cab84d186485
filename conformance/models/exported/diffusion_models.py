"""Networks of `diffusers`, and networks of `transformers` for audio, or images with text."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .transformer_models import BOTH, HEARD, SMALL, T5, WORDS, Recipe, built, plain


def diffusers(name: str, settings: dict[str, Any], **shapes: Any) -> Recipe:
    def recipe() -> tuple[Any, dict[str, Any]]:
        import torch

        torch.manual_seed(0)
        module = getattr(import_module("diffusers"), name)(**settings)
        given = {k: torch.tensor(s) if isinstance(s, list) else torch.rand(*s)
                 for k, s in shapes.items()}  # fmt: skip
        return plain(module.eval(), given), given

    return recipe


def heard(name: str, head: str, settings: dict[str, Any], part: str = "", **shapes: Any) -> Recipe:
    def recipe() -> tuple[Any, dict[str, Any]]:
        import torch

        module = built(name, head, settings)
        module = module.get_submodule(part) if part else module
        ranges = {int: (3, 90), bool: (0, 2)}  # of words, of labels
        given = {k: torch.randint(*ranges[s[0]], s[1:]) if s[0] in ranges else torch.rand(*s)
                 for k, s in shapes.items()}  # fmt: skip
        return plain(module, given), given

    return recipe


DOWN = {"block_out_channels": (16, 32), "layers_per_block": 1, "norm_num_groups": 8}
WHISPER = BOTH | {"num_mel_bins": 16, "max_source_positions": 32, "max_target_positions": 32,
                  "vocab_size": 99, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
                  "decoder_start_token_id": 1, "use_cache": False}  # fmt: skip
RECIPES: dict[str, Recipe] = {
    "unet_2d": diffusers(
        "UNet2DModel", DOWN | {"sample_size": 16, "in_channels": 3, "out_channels": 3,
        "down_block_types": ("DownBlock2D", "AttnDownBlock2D"),
        "up_block_types": ("AttnUpBlock2D", "UpBlock2D"), "attention_head_dim": 8},
        sample=(1, 3, 16, 16), timestep=[7]),
    "unet_2d_condition": diffusers(
        "UNet2DConditionModel", DOWN | {"sample_size": 16, "cross_attention_dim": 32,
        "attention_head_dim": 4,
        "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
        "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D")},
        sample=(1, 4, 16, 16), timestep=[7], encoder_hidden_states=(1, 8, 32)),
    "autoencoder_kl": diffusers(
        "AutoencoderKL", DOWN | {"down_block_types": ("DownEncoderBlock2D",) * 2,
        "up_block_types": ("UpDecoderBlock2D",) * 2, "latent_channels": 4},
        sample=(1, 3, 32, 32)),
    "dit": diffusers(
        "DiTTransformer2DModel",
        {"num_attention_heads": 4, "attention_head_dim": 8, "num_layers": 2, "sample_size": 8,
         "in_channels": 4, "out_channels": 4, "norm_num_groups": 8, "num_embeds_ada_norm": 10},
        hidden_states=(1, 4, 8, 8), timestep=[7], class_labels=[3]),
    "whisper_encoder": heard("Whisper", "Model", WHISPER, "encoder", input_features=(1, 16, 64)),
    "whisper": heard("Whisper", "ForConditionalGeneration", WHISPER, input_features=(1, 16, 64),
                      decoder_input_ids=(int, 1, 6)),
    "wav2vec2": heard("Wav2Vec2", "ForCTC", SMALL | HEARD | {"vocab_size": 40,
                       "num_feat_extract_layers": 3}, input_values=(1, 1600)),
    "hubert": heard("Hubert", "Model", SMALL | HEARD | {"num_feat_extract_layers": 3},
                     input_values=(1, 1600)),
    "clip": heard("CLIP", "Model", {"text_config": SMALL | WORDS, "vision_config": SMALL | {
                   "image_size": 32, "patch_size": 8}, "projection_dim": 24},
                   input_ids=(int, 1, 9), pixel_values=(1, 3, 32, 32)),
    "siglip": heard("Siglip", "Model", {"text_config": SMALL | WORDS, "vision_config": SMALL | {
                     "image_size": 32, "patch_size": 8}},
                     input_ids=(int, 1, 9), pixel_values=(1, 3, 32, 32)),
    "t5": heard("T5", "Model", T5,
                 input_ids=(int, 1, 12), decoder_input_ids=(int, 1, 6)),
    "umt5": heard("UMT5", "Model", T5, input_ids=(int, 1, 12), decoder_input_ids=(int, 1, 6)),
    "wavlm": heard("WavLM", "Model", SMALL | HEARD | {"num_feat_extract_layers": 3},
                    input_values=(1, 1600)),
    "bart": heard("Bart", "Model", BOTH | {"vocab_size": 99, "max_position_embeddings": 64,
                   "use_cache": False}, input_ids=(int, 1, 12), decoder_input_ids=(int, 1, 6)),
    "blip_vision": heard("BlipVision", "Model", SMALL | {"image_size": 32, "patch_size": 8},
                          pixel_values=(1, 3, 32, 32)),
}  # fmt: skip
