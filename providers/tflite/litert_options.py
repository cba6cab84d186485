"""The options for GPUs of LiteRT's CompiledModel, as options of this plugin.

A program gives them as `GpuOptions`, and the runtime hands them over as TOML: one `key = value` per
line, with text that is not escaped."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tflgpu_plugin import providers

LINE = re.compile(r"^\s*([\w.-]+)\s*=\s*(.*?)\s*$", re.MULTILINE)
FLOAT32, TEXTURES, WEBGPU = 2, 2, 2  # values of precision, buffer_storage_type and backend

# Options that ask for nothing, or for what this plugin does anyway: it waits for the end of each
# run, keeps one copy of constants that models share, and works with buffers.
NOTHING = {
    "benchmark_mode", "enable_constant_tensors_sharing", "hint_waiting_for_completion",
    "kernel_batch_size", "num_threads_to_compile", "num_threads_to_upload",
    "serialize_program_cache", "wait_for_weights_conversion_complete",
}  # fmt: skip
WHY = {
    "allow_src_quantized_fc_conv_ops": "quantized models run with the arithmetic of the CPU's "
    "kernels. The option enable_quantized_inference=False leaves them to the CPU",
    "backend": "adapters are those of Vulkan, Metal and D3D12",
    "buffer_storage_type": "tensors are in buffers, not in textures",
    "enable_infinite_float_capping": "infinities stay what they are on the CPU",
    "prefer_texture_weights": "weights are in buffers, not in textures",
}

told = providers.Once()


def values(text: str) -> Iterator[tuple[str, Any]]:
    """Yields the keys and values in the runtime's text; a value is a bool, an int or a string."""
    for key, value in LINE.findall(text):
        if value in ("true", "false"):
            yield key, value == "true"
        elif re.fullmatch(r"-?\d+", value):
            yield key, int(value)
        else:
            yield key, value[1:-1] if value[:1] == value[-1:] == '"' else value


def translated(text: str) -> dict[str, str]:
    """Returns the plugin's options for those in the runtime's text. Those without an effect here
    are named in a warning, once."""
    given, found = dict(values(text)), dict[str, str]()
    if precision := given.pop("precision", 0):
        found["is_precision_loss_allowed"] = str(int(precision != FLOAT32))
    if device := given.pop("preferred_device_substr", ""):
        found["adapter"] = device
    folder, token = given.pop("serialization_dir", ""), given.pop("model_cache_key", "")
    if folder:
        found["serialization_dir"] = folder
        found |= {"model_token": token} if token else {}
    for key, value in given.items():
        if value and not _is_met(key, value):
            _tell(key)
    return found


def _is_met(key: str, value: Any) -> bool:
    """Whether a run does what this option asks for."""
    if key == "buffer_storage_type":
        return bool(value != TEXTURES)
    return key in NOTHING or (key, value) in {("backend", WEBGPU), ("wait_type", 1)}


def _tell(key: str) -> None:
    why = WHY.get(key, "tflgpu has nothing that corresponds to it")
    text = f"WARNING: tflgpu: LiteRT's GPU option {key} has no effect here: {why}."
    if told.first(text):
        providers.log.say(text)
