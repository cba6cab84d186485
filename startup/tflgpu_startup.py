"""Runs when Python starts: a .pth file in the same folder imports it. It calls the plugin after a
host has been imported, and costs other programs almost nothing.

`tflgpu_startup.pth` comes with the package and takes effect if TFLGPU_PREFER is set; `tflgpu
enable` writes another .pth file. No error here may end a program, so every failure is a warning."""

from __future__ import annotations

import atexit
import os
import sys
from typing import Any

# The first module of each host, and the provider that serves it.
HOSTS = {
    "onnxruntime": "onnxruntime",
    "ai_edge_litert.interpreter": "tflite",
    "ai_edge_litert.compiled_model": "tflite",
    "tflite_runtime.interpreter": "tflite",
    "tensorflow.lite.python.interpreter": "tflite",
}
GPU_BY_NAME = {"ai_edge_litert.compiled_model"}  # where programs ask for a GPU, not for a provider
EXECUTED = "TFLGPU_EXECUTED"  # the id of the process that `tflgpu exec` has replaced itself with
summarized = False  # this process will report at its end what became of its models
enabled: set[str] = set()  # providers that `tflgpu enable` has switched on in this environment


def enable(*providers: str) -> None:
    """Makes the bare name `load_delegate("tflgpu")` work and LiteRT's CompiledModel take our
    accelerator for the GPU ("tflite"), and registers the execution provider as soon as onnxruntime
    is imported ("onnxruntime")."""
    enabled.update(providers)
    watch()


def watch() -> None:
    """Calls the plugin after each import of a host. Further calls do nothing."""
    if import_finder not in sys.meta_path:
        sys.meta_path.insert(0, import_finder)
        if os.environ.get(EXECUTED) == str(os.getpid()):
            atexit.register(_ended)


class _Finder:
    """An import finder that returns the spec that the other finders find, with a loader that calls
    the plugin after the import."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in HOSTS:
            return None
        for finder in sys.meta_path[:]:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec = find and find(name, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader)
                return spec
        return None


class _Loader:
    """A loader that calls the plugin after the import. It puts the original loader in its place
    before the module runs, so that the module never sees this one."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: Any) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        after_import(module.__name__)


import_finder: Any = _Finder()


def after_import(name: str) -> None:
    try:
        import tflgpu_plugin
        from tflgpu_plugin import preference

        if HOSTS[name] in enabled and HOSTS[name] == "onnxruntime":
            tflgpu_plugin.register()
        preference.imported(name, enabled=name in GPU_BY_NAME and HOSTS[name] in enabled)
    except ModuleNotFoundError as error:
        if error.name != "tflgpu_plugin":  # which has been uninstalled
            _warn(error)
    except Exception as error:
        _warn(error)


def _ended() -> None:
    """Reports that the program has made no model, unless another report is made."""
    if summarized or os.environ.get(EXECUTED) != str(os.getpid()):
        return
    try:
        from tflgpu_plugin import preference

        preference.ended_without_models()
    except Exception as error:
        _warn(error)


def _warn(error: Exception) -> None:
    if sys.stderr is not None:
        print(f"WARNING: tflgpu-plugin cannot be used here: {error}", file=sys.stderr)
