"""Networks of `transformers` for detection, segmentation, depth, and images with text, in the
variants that are published today; narrow."""

from __future__ import annotations

from typing import Any

from .diffusion_models import heard
from .transformer_models import BOTH, SEEN, SMALL, WORDS, Recipe

DETECTOR: dict[str, Any] = {
    "d_model": 32, "encoder_hidden_dim": 32, "encoder_in_channels": [32, 48, 64],
    "encoder_ffn_dim": 48, "encoder_attention_heads": 4, "decoder_in_channels": [32, 32, 32],
    "decoder_ffn_dim": 48, "decoder_attention_heads": 4, "decoder_layers": 2, "num_queries": 12,
    "num_denoising": 0, "num_labels": 7,
}  # fmt: skip
RESNET = {"model_type": "rt_detr_resnet", "embedding_size": 16, "hidden_sizes": [16, 32, 48, 64],
          "depths": [1, 1, 1, 1], "layer_type": "basic",
          "out_features": ["stage2", "stage3", "stage4"]}  # fmt: skip
HGNET = {"model_type": "hgnet_v2", "stem_channels": [3, 8, 16], "hidden_sizes": [16, 32, 48, 64],
         "depths": [1, 1, 1, 1], "embedding_size": 16, "stage_in_channels": [16, 16, 32, 48],
         "stage_mid_channels": [8, 8, 16, 16], "stage_out_channels": [16, 32, 48, 64],
         "stage_num_blocks": [1, 1, 1, 1], "stage_downsample": [False, True, True, True],
         "stage_light_block": [False, False, True, True], "stage_kernel_size": [3, 3, 5, 5],
         "stage_numb_of_layers": [2, 2, 2, 2],
         "out_features": ["stage2", "stage3", "stage4"]}  # fmt: skip
DINOV2 = SMALL | {"model_type": "dinov2", "image_size": 56, "patch_size": 14, "mlp_ratio": 2,
                  "num_hidden_layers": 4, "reshape_hidden_states": False,
                  "out_indices": [1, 2, 3, 4]}  # fmt: skip
HIERA = {"model_type": "sam2_hiera_det_model", "hidden_size": 16, "num_attention_heads": 1,
         "image_size": [64, 64], "blocks_per_stage": [1, 1, 2, 1], "embed_dim_per_stage": [16, 32,
         64, 128], "num_attention_heads_per_stage": [1, 2, 4, 8], "window_size_per_stage": [4, 2, 4,
         2], "global_attention_blocks": [3],
         "window_positional_embedding_background_size": [4, 4]}  # fmt: skip
SAM2_VISION = {"backbone_config": HIERA, "backbone_channel_list": [128, 64, 32, 16],
               "backbone_feature_sizes": [[16, 16], [8, 8], [4, 4]],
               "fpn_hidden_size": 32}  # fmt: skip
SAM2 = {"vision_config": SAM2_VISION | {"model_type": "sam2_vision_model"},
        "prompt_encoder_config": {"hidden_size": 32, "image_size": 64},
        "mask_decoder_config": {"hidden_size": 32, "mlp_dim": 48, "num_attention_heads": 4,
                                "iou_head_hidden_dim": 32}}  # fmt: skip
DAVIT = {"model_type": "florence_vision", "depths": [1, 1, 1, 1], "embed_dim": [16, 32, 32, 64],
         "num_heads": [2, 4, 4, 8], "num_groups": [2, 4, 4, 8], "window_size": 4,
         "projection_dim": 64}  # fmt: skip
FLORENCE = {"vision_config": DAVIT, "image_token_id": 98, "text_config": BOTH | {
            "model_type": "bart", "vocab_size": 99, "max_position_embeddings": 64,
            "use_cache": False}}  # fmt: skip

RECIPES: dict[str, Recipe] = {
    "rtdetr": heard("RTDetr", "ForObjectDetection", DETECTOR | {"backbone_config": RESNET},
                     pixel_values=(1, 3, 64, 64)),
    "rtdetrv2": heard("RTDetrV2", "ForObjectDetection", DETECTOR | {"backbone_config": RESNET},
                       pixel_values=(1, 3, 64, 64)),
    "dfine": heard("DFine", "ForObjectDetection", DETECTOR | {"backbone_config": HGNET},
                    pixel_values=(1, 3, 64, 64)),
    "depth_anything": heard("DepthAnything", "ForDepthEstimation", {"backbone_config": DINOV2,
                             "reassemble_hidden_size": 64, "neck_hidden_sizes": [16, 24, 32, 48],
                             "fusion_hidden_size": 24, "head_hidden_size": 16},
                             pixel_values=(1, 3, 56, 56)),
    "sam2_encoder": heard("Sam2Vision", "Model", SAM2_VISION, pixel_values=(1, 3, 64, 64)),
    "sam2": heard("Sam2", "Model", SAM2, pixel_values=(1, 3, 64, 64), input_points=(1, 1, 2, 2),
                   input_labels=(bool, 1, 1, 2)),
    "siglip2": heard("Siglip", "Model", {"text_config": SMALL | WORDS, "vision_config":
                      SMALL | SEEN | {"hidden_act": "gelu_pytorch_tanh"}},
                      input_ids=(int, 1, 9), pixel_values=(1, 3, 64, 64)),
    "florence2_vision": heard("Florence2", "ForConditionalGeneration", FLORENCE,
                               "model.vision_tower", hidden_states=(1, 3, 64, 64)),
}  # fmt: skip
