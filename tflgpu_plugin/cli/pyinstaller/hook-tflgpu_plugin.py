"""Lists the files of this package that a frozen program needs and no import statement names: the
shared library, kernels, providers (entry points), modules that are imported by name, and wgpu's
library."""

# ruff: noqa: N999  (PyInstaller says what hooks are called)

from PyInstaller.utils.hooks import (
    collect_data_files,
    collect_dynamic_libs,
    collect_submodules,
    copy_metadata,
)

# Subpackages that programs import by a statement, which PyInstaller follows.
NAMED = ("batch", "cli", "demo", "harness")


def _is_needed(name: str) -> bool:
    return [*name.split("."), ""][1] not in NAMED


binaries = collect_dynamic_libs("tflgpu_plugin")
# The sources, too: cached plans are identified by their digest.
datas = collect_data_files("tflgpu_plugin", include_py_files=True)
datas += copy_metadata("tflgpu-plugin")
hiddenimports = [
    *collect_submodules("tflgpu_plugin", filter=_is_needed),
    "_cffi_backend",
    "tflgpu_startup",
    "wgpu",  # its own hook brings its library
]
