"""Networks of `transformers`, by the names of their configurations: two layers, narrow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any

Recipe = Callable[[], tuple[Any, dict[str, Any]]]  # a module of torch and its inputs

SMALL = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
         "intermediate_size": 96}  # fmt: skip
SEEN = {"image_size": 64, "patch_size": 16}
WORDS = {"vocab_size": 99, "max_position_embeddings": 64}
SHARED = {"num_key_value_heads": 2, "head_dim": 16, "pad_token_id": 0, "bos_token_id": 1,
          "eos_token_id": 2}  # fmt: skip
BOTH = {"d_model": 64, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
        "decoder_attention_heads": 4, "encoder_ffn_dim": 96, "decoder_ffn_dim": 96}  # fmt: skip
STAGES = {"depths": [1, 1, 2, 1], "hidden_sizes": [16, 32, 48, 64]}
HEARD = {"conv_dim": (16, 16, 16), "conv_stride": (5, 2, 2), "conv_kernel": (10, 3, 2),
         "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4}  # fmt: skip
T5 = {"d_model": 64, "d_kv": 16, "d_ff": 96, "num_layers": 2, "num_heads": 4, "vocab_size": 99,
      "use_cache": False}  # fmt: skip
SEGMENTED = {"depths": [1, 1, 1, 1], "hidden_sizes": [16, 32, 40, 64],
             "num_attention_heads": [1, 2, 5, 8]}  # fmt: skip

TEXT: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "Bert": ("Model", SMALL | WORDS),
    "Roberta": ("ForMaskedLM", SMALL | WORDS),
    "Electra": ("ForTokenClassification", SMALL | WORDS | {"embedding_size": 32}),
    "Albert": ("ForSequenceClassification", SMALL | WORDS | {"embedding_size": 32}),
    "DistilBert": ("ForQuestionAnswering", WORDS | {"dim": 64, "n_layers": 2, "n_heads": 4,
                   "hidden_dim": 96}),
    "MPNet": ("Model", SMALL | WORDS),
    "DebertaV2": ("Model", SMALL | WORDS | {"relative_attention": True, "pos_att_type": ["p2c",
                  "c2p"], "position_buckets": 16, "norm_rel_ebd": "layer_norm"}),
    "ModernBert": ("Model", SMALL | WORDS | {"pad_token_id": 0, "global_attn_every_n_layers": 2}),
    "XLMRoberta": ("Model", SMALL | WORDS),
    "MobileBert": ("Model", SMALL | WORDS | {"embedding_size": 32, "intra_bottleneck_size": 32,
                   "num_feedforward_networks": 2}),
    "FNet": ("Model", SMALL | WORDS),
    "SqueezeBert": ("Model", SMALL | WORDS | {"embedding_size": 64}),
    "GPT2": ("LMHeadModel", {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 99,
             "n_positions": 64}),
    "GPTNeoX": ("ForCausalLM", SMALL | WORDS),
    "OPT": ("ForCausalLM", SMALL | WORDS | {"ffn_dim": 96, "word_embed_proj_dim": 64}),
    "Bloom": ("ForCausalLM", {"hidden_size": 64, "n_layer": 2, "n_head": 4, "vocab_size": 99}),
    "Llama": ("ForCausalLM", SMALL | WORDS | SHARED),
    "Mistral": ("ForCausalLM", SMALL | WORDS | SHARED | {"sliding_window": 8}),
    "Qwen2": ("ForCausalLM", SMALL | WORDS | SHARED),
    "Qwen3": ("ForCausalLM", SMALL | WORDS | SHARED),
    "Phi": ("ForCausalLM", SMALL | WORDS | SHARED),
    "Phi3": ("ForCausalLM", SMALL | WORDS | SHARED),
    "Gemma": ("ForCausalLM", SMALL | WORDS | SHARED),
    "Gemma2": ("ForCausalLM", SMALL | WORDS | SHARED | {"sliding_window": 8}),
    "Falcon": ("ForCausalLM", SMALL | WORDS),
    "SmolLM3": ("ForCausalLM", SMALL | WORDS | SHARED),
    "Olmo2": ("ForCausalLM", SMALL | WORDS | SHARED),
    "Gemma3": ("ForCausalLM", SMALL | WORDS | SHARED | {"sliding_window": 8, "layer_types": [
               "sliding_attention", "full_attention"]}),
    "Lfm2": ("ForCausalLM", SMALL | WORDS | SHARED | {"layer_types": ["conv", "full_attention"],
             "block_auto_adjust_ff_dim": False}),
    "T5": ("EncoderModel", T5),
    "UMT5": ("EncoderModel", T5),
    "Deberta": ("Model", SMALL | WORDS | {"relative_attention": True, "pos_att_type": ["p2c",
                "c2p"]}),
}  # fmt: skip
CACHED = ("GPT2", "GPTNeoX", "OPT", "Llama", "Mistral", "Qwen3", "Phi", "Gemma2",
          "Gemma3")  # fmt: skip
CONFIGS = {"Gemma3": "Gemma3Text"}  # of models whose configuration has another name
IMAGES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "ViT": ("ForImageClassification", SMALL | SEEN),
    "DeiT": ("ForImageClassification", SMALL | SEEN),
    "Beit": ("ForImageClassification", SMALL | SEEN),
    "Dinov2": ("Model", SMALL | SEEN | {"mlp_ratio": 2}),
    "DINOv3ViT": ("Model", SMALL | SEEN | {"num_register_tokens": 4}),
    "DINOv3ConvNext": ("Model", STAGES | {"image_size": 64}),
    "Swin": ("ForImageClassification", {"image_size": 64, "patch_size": 4, "embed_dim": 16,
             "depths": [1, 1, 2], "num_heads": [2, 2, 4], "window_size": 4}),
    "Swinv2": ("ForImageClassification", {"image_size": 64, "patch_size": 4, "embed_dim": 16,
               "depths": [1, 1, 2], "num_heads": [2, 2, 4], "window_size": 4}),
    "ConvNext": ("ForImageClassification", STAGES),
    "ConvNextV2": ("ForImageClassification", STAGES),
    "ResNet": ("ForImageClassification", STAGES | {"embedding_size": 16}),
    "RegNet": ("ForImageClassification", STAGES | {"embedding_size": 16, "groups_width": 8}),
    "MobileNetV1": ("ForImageClassification", {"depth_multiplier": 0.25, "image_size": 64}),
    "MobileNetV2": ("ForImageClassification", {"depth_multiplier": 0.35, "image_size": 64}),
    "MobileViT": ("ForImageClassification", {"image_size": 64, "hidden_sizes": [32, 48, 64],
                  "neck_hidden_sizes": [8, 16, 24, 32, 40, 48, 64]}),
    "EfficientNet": ("ForImageClassification", {"image_size": 64, "width_coefficient": 0.5,
                     "depth_coefficient": 0.3, "hidden_dim": 640}),
    "PoolFormer": ("ForImageClassification", {"depths": [1, 1, 1, 1], "hidden_sizes": [16, 32, 40,
                   64]}),
    "Segformer": ("ForSemanticSegmentation", SEGMENTED | {"decoder_hidden_size": 32,
                  "num_encoder_blocks": 4}),
    "Yolos": ("ForObjectDetection", SMALL | {"image_size": [64, 64], "patch_size": 16,
              "num_detection_tokens": 8}),
    "Swin2SR": ("ForImageSuperResolution", {"embed_dim": 24, "depths": [2], "num_heads": [4],
                "window_size": 8, "upscale": 2, "image_size": 32}),
    "Levit": ("ForImageClassification", {"image_size": 64, "hidden_sizes": [32, 48, 64],
                         "num_attention_heads": [2, 3, 4], "depths": [1, 1, 1]}),
    "GLPN": ("ForDepthEstimation", SEGMENTED | {"decoder_hidden_size": 16}),
}  # fmt: skip


def built(name: str, head: str, settings: Mapping[str, Any]) -> Any:
    """Returns the seeded network in evaluation mode."""
    import torch

    transformers = import_module("transformers")
    torch.manual_seed(0)
    config = getattr(transformers, f"{CONFIGS.get(name, name)}Config")(**settings)
    return getattr(transformers, name + head)(config).eval()


def plain(module: Any, names: Iterable[str], **fixed: Any) -> Any:
    """Returns the module with inputs in this order and a tuple of tensors as its result."""
    import torch

    class Plain(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = module

        def forward(self, *given: Any) -> Any:
            named = dict(zip(names, given, strict=True))
            made = self.inner(**named, **fixed, return_dict=False)
            tensors = [t for t in made if isinstance(t, torch.Tensor)]
            return tensors[0] if len(tensors) == 1 else tuple(tensors)

    return Plain().eval()


def text(name: str, shape: Mapping[str, Any] | None = None, length: int = 16) -> Recipe:
    """Returns tokens of this shape, if given, instead of the small one; the last are masked where
    the model sees what follows."""

    def recipe() -> tuple[Any, dict[str, Any]]:
        import torch

        head, small = TEXT[name]
        settings = small if shape is None else shape
        causal = head in ("ForCausalLM", "LMHeadModel")
        tokens = torch.randint(3, 99, (1, length))
        mask = torch.ones_like(tokens)
        mask[:, length - 3 :] = int(causal)
        inputs = {"input_ids": tokens} | ({} if name == "FNet" else {"attention_mask": mask})
        fixed = {"use_cache": False} if causal else {}
        return plain(built(name, head, settings), inputs, **fixed), inputs

    return recipe


def cached(name: str) -> Recipe:
    """Returns a recipe for one token after others, whose keys and values are inputs and outputs."""

    def recipe() -> tuple[Any, dict[str, Any]]:
        import torch

        head, settings = TEXT[name]
        inner = built(name, head, settings)
        layers = inner.config.num_hidden_layers
        heads = getattr(inner.config, "num_key_value_heads", None) or 4

        class Step(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.inner = inner

            def forward(self, token: Any, mask: Any, *past: Any) -> Any:
                cache = import_module("transformers").DynamicCache()
                for k in range(layers):
                    cache.update(past[2 * k], past[2 * k + 1], k)
                made = self.inner(input_ids=token, attention_mask=mask, past_key_values=cache,
                                  use_cache=True)  # fmt: skip
                kept = made.past_key_values.layers
                return (made.logits, *(t for one in kept for t in (one.keys, one.values)))

        inputs = {"token": torch.randint(3, 99, (1, 1)), "mask": torch.ones(1, 13, dtype=int)}
        past = {f"past_{n}": torch.randn(1, heads, 12, 16) for n in range(2 * layers)}
        return Step().eval(), inputs | past

    return recipe


def image(name: str, shape: Mapping[str, Any] | None = None, size: int = 64) -> Recipe:
    """Returns an image of this shape, if given, instead of the small one."""

    def recipe() -> tuple[Any, dict[str, Any]]:
        import torch

        head, small = IMAGES[name]
        settings = small if shape is None else shape
        extent = 32 if name == "Swin2SR" else size
        inputs = {"pixel_values": torch.rand(1, 3, extent, extent)}
        return plain(built(name, head, settings), inputs), inputs

    return recipe


RECIPES: dict[str, Recipe] = (
    {f"text_{name.lower()}": text(name) for name in TEXT}
    | {f"image_{name.lower()}": image(name) for name in IMAGES}
    | {f"cached_{name.lower()}": cached(name) for name in CACHED}
)  # fmt: skip
