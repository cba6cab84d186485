"""The GPUs that kernels are compiled for, by name: families of AMD, and devices of other makers."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.compiled import adreno, amd, apple, intel, nvidia
from benchmarks.compiled.cost import Gpu
from benchmarks.compiled.devices import DEVICES
from tflgpu_plugin.ir import Target

AMD = Target("null", "amd", subgroup_size=64, features=frozenset({"subgroup"}))
MAKERS: dict[str, dict[str, Gpu]] = {
    "AMD": {**amd.FAMILIES}, "Intel": {**intel.GPUS}, "NVIDIA": {**nvidia.GPUS},
    "Apple": {**apple.GPUS}, "Qualcomm": {**adreno.GPUS},
}  # fmt: skip
MODELS: dict[str, Gpu] = {name: gpu for gpus in MAKERS.values() for name, gpu in gpus.items()}


def model(gpu: str) -> Gpu:
    return MODELS[gpu]


def target(gpu: str) -> Target:
    """Returns the target that kernels are planned for."""
    if gpu in DEVICES:
        return DEVICES[gpu].target
    family = amd.FAMILIES[gpu]
    return replace(AMD, least_subgroup=min(family.issue), native_half=family.halves)
