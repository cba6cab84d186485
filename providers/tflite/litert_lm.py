"""LiteRT-LM (litert-lm-api): language models on this plugin.

Its library has the runtime inside, and an accelerator for GPUs that is linked in. Both find each
other by pointers, which the library exports, so that another accelerator can be put in place before
an engine is made."""

from __future__ import annotations

import ctypes
import importlib.util
import sys
from pathlib import Path

from tflgpu_plugin.providers import native

PACKAGE = "litert_lm"
INSTALL = "pip install litert-lm-api"
ACCELERATOR = "LiteRtStaticLinkedAcceleratorGpuDef"
# They choose tokens in buffers of the accelerator that is linked in. Without them, the CPU does.
SAMPLERS = [f"LiteRtTopK{kind}Sampler_Create_Static" for kind in ("WebGpu", "OpenCl", "Metal")]
LIBRARIES = {"win32": "litert-lm.dll", "darwin": "liblitert-lm.dylib"}


def use() -> None:
    """Makes engines of LiteRT-LM with its GPU backend, from now on and in this process, take this
    plugin. Raises ImportError where LiteRT-LM is not installed or has no place for it."""
    library = ctypes.CDLL(str(_library()))
    try:
        accelerator = ctypes.c_void_p.in_dll(library, ACCELERATOR)
        samplers = [ctypes.c_void_p.in_dll(library, name) for name in SAMPLERS]
    except ValueError as error:
        raise ImportError(
            f"This version of litert-lm-api takes no other accelerator: {error}"
        ) from error
    ours = ctypes.CDLL(str(native.library_path()))
    place = ctypes.byref(ctypes.c_char.in_dll(ours, "LiteRtAcceleratorImpl"))
    accelerator.value = ctypes.cast(place, ctypes.c_void_p).value
    for sampler in samplers:
        sampler.value = None


def _library() -> Path:
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise ImportError(f"LiteRT-LM is not installed: {INSTALL}.")
    found = Path(spec.origin).with_name(LIBRARIES.get(sys.platform, "liblitert-lm.so"))
    if not found.exists():
        raise ImportError(f"This version of litert-lm-api has no {found.name}.")
    return found
