"""Nine networks of today, each tiny and in the smallest shape that was published, with seeded
weights: what `make bench-today` measures."""

from __future__ import annotations

from . import detector_models, diffusion_models, torch_models
from .transformer_models import RECIPES, Recipe, image, text

# Shapes: bert-tiny of google-research/bert, deit-tiny-patch16-224, whisper-tiny, distilgpt2, mit-b0
# (at 256 pixels), convnext-tiny-224, YOLO11n (at 320 pixels), ddpm-cifar10-32. What is not named
# here is the default of the configuration, which is that of the published model.
BERT = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2,
        "intermediate_size": 512}  # fmt: skip
DEIT = {"hidden_size": 192, "num_attention_heads": 3, "intermediate_size": 768}
DDPM = {"sample_size": 32, "block_out_channels": (128, 256, 256, 256), "layers_per_block": 2,
        "attention_head_dim": None, "downsample_padding": 0, "flip_sin_to_cos": False,
        "freq_shift": 1, "norm_eps": 1e-6, "norm_num_groups": 32,
        "down_block_types": ("DownBlock2D", "AttnDownBlock2D", "DownBlock2D", "DownBlock2D"),
        "up_block_types": ("UpBlock2D", "UpBlock2D", "AttnUpBlock2D", "UpBlock2D")}  # fmt: skip

# Base models: bert-base at 128 tokens, vit-base-patch16-224, the encoder of whisper-base.
WHISPER = {f"{side}_{name}": value for side in ("encoder", "decoder")
           for name, value in (("layers", 6), ("attention_heads", 8), ("ffn_dim", 2048))
           } | {"d_model": 512}  # fmt: skip


def encoders() -> dict[str, Recipe]:
    """Returns three larger encoders, for which `make encoder-estimates` estimates the time."""
    heard = diffusion_models.heard
    return {
        "bert-base": text("Bert", {}, 128),
        "vit-b16": image("ViT", {}, 224),
        "whisper-base": heard("Whisper", "Model", WHISPER, "encoder", input_features=(1, 80, 3000)),
    }


def networks() -> dict[str, tuple[Recipe, Recipe]]:
    """Returns the tiny and the published network, by name."""
    torch = torch_models.networks()
    return {
        "bert": (RECIPES["text_bert"], text("Bert", BERT, 128)),
        "deit": (RECIPES["image_deit"], image("DeiT", DEIT, 224)),
        "whisper-encoder": (
            diffusion_models.RECIPES["whisper_encoder"],
            diffusion_models.heard("Whisper", "Model", {}, "encoder", input_features=(1, 80, 3000)),
        ),
        "gpt2": (RECIPES["text_gpt2"], text("GPT2", {"n_layer": 6}, 64)),
        "segformer": (RECIPES["image_segformer"], image("Segformer", {}, 256)),
        "convnext": (RECIPES["image_convnext"], image("ConvNext", {}, 224)),
        "yolo11n": (detector_models.RECIPES["yolo11"], detector_models.yolo11(0.25, 320)),
        "diffusion-unet": (
            diffusion_models.RECIPES["unet_2d"],
            diffusion_models.diffusers(
                "UNet2DModel", DDPM, sample=(1, 3, 32, 32), timestep=[7]),
        ),
        "lstm-tagger": (torch["lstm_tagger"], torch["lstm_tagger_published"]),
    }  # fmt: skip
