"""The environment variables that the plugin, its tests and its tools read, as rows for `tflgpu env`
and the page docs/options.md. A test fails for one that is read and not listed here."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from tflgpu_plugin import options, switches


@dataclass(frozen=True)
class Variable:
    """A variable. `values` describes its values; `reader` says who reads it: the plugin in any
    program, the plugin while a defect is investigated, the system and its drivers, or the tests and
    tools of the plugin's repository."""

    name: str
    values: str
    reader: str
    meaning: str

    @property
    def internal(self) -> bool:
        """Whether only work on the plugin itself needs it."""
        return self.reader == TOOLS


TOOLS = "tests and tools"
# By reader: values and meaning of each.
_READ_BY = {
    "plugin": {
        "TFLGPU_LOG": (
            "debug, info, warning (the default), error, off",
            "The least level of messages that the logger `tflgpu_plugin` emits.",
        ),
        "TFLGPU_NO_CACHE": (
            "1",
            "Nothing is kept in the user's cache folder: no generated kernels, measured settings "
            "or digests. GPUs are not measured. `serialization_dir` is not affected.",
        ),
        "TFLGPU_NO_CALIBRATION": (
            "1",
            "GPUs are not measured at the first start: kernels have the settings of their vendor.",
        ),
        "TFLGPU_WITHOUT": (
            "names as in the option `without`, separated by commas",
            "Forms and ops that are not used, for drivers that get one wrong: nodes are computed "
            "in other forms, or on the CPU where none is left.",
        ),
        "TFLGPU_ALLOW_SOFTWARE": (
            "1",
            "Software adapters are registered with ONNX Runtime as GPUs, so that its automatic "
            "policies may choose them.",
        ),
        "TFLGPU_D3D12": (
            "1",
            "Adapters of D3D12 are listed in any case, not only where Vulkan has no GPU.",
        ),
        "TFLGPU_DXC": (
            "a path",
            "Microsoft's dxcompiler.dll for D3D12; else one in a folder of PATH.",
        ),
        "TFLGPU_NO_WARM_UP": (
            "1",
            "Drivers finish compiling kernels at the first inference, not while a model is "
            "prepared.",
        ),
        "TFLGPU_PREFER": (
            "1, or options as a JSON object; 0",
            "Sessions and interpreters that name no other provider or delegate use this plugin, "
            "in every Python of the environment. `tflgpu exec` sets it.",
        ),
        "TFLGPU_PREFER_SUMMARY": (
            "text (the default), json, off",
            "The summary that a process with TFLGPU_PREFER writes to stderr at its end.",
        ),
    },
    "plugin, for debugging": {
        "TFLGPU_DEBUG": (
            "1, 2",
            "A defect of the plugin is raised with its traceback instead of becoming a refusal; "
            "2 also prints the nodes before and after each pass.",
        ),
        "TFLGPU_NO_MAPPING": (
            "1",
            "Inputs and outputs are copied through staging buffers even where memory is shared, "
            "as on a discrete GPU.",
        ),
        "TFLGPU_NO_SUBGROUPS": (
            "1",
            "Plans are made as for an adapter without subgroup shuffles.",
        ),
        "TFLGPU_FILL_NAN": (
            "1",
            "Memory for intermediate tensors is filled with NaN before the first run, which "
            "exposes reads of elements that nothing has written.",
        ),
    },
    "system and drivers": {
        "XDG_CACHE_HOME": (
            "a folder",
            "The user's cache on Linux and macOS, else `~/.cache`; LOCALAPPDATA on Windows. "
            "`tflgpu cache info` shows what is in it.",
        ),
        "VK_DRIVER_FILES": (
            "paths of .json files, separated by colons (semicolons on Windows)",
            "The only Vulkan drivers that are used. VK_ICD_FILENAMES is its older name.",
        ),
        "VK_ICD_FILENAMES": ("as VK_DRIVER_FILES", "The older name of VK_DRIVER_FILES."),
        "LP_NUM_THREADS": (
            "an integer",
            "The threads of the software adapter llvmpipe: 0 for none but the program's own.",
        ),
    },
    TOOLS: {
        "TFLGPU_MODELS": (
            "a folder",
            "The folder of real models for tests; else `../shared/models`.",
        ),
        "TFLGPU_WEBNN": (
            "a folder",
            "The folder of WebNN's conformance data for tests; else `../shared/webnn`.",
        ),
        "TFLGPU_DRIVERS": (
            "a folder",
            "The folder where `tools/drivers.py` unpacks drivers; else one in the user's cache.",
        ),
        "TFLGPU_DRIVER_PACKAGE": (
            "a text",
            "The package of the driver, for the head of a conformance report.",
        ),
        "TFLGPU_TF2ONNX": (
            "a folder",
            "The environment with tf2onnx that converts models; else a folder in the user's cache.",
        ),
        "TFLGPU_TEST_ADAPTER": (
            "1",
            "Tests that need an adapter fail without one; else they are skipped.",
        ),
        "TFLGPU_TEST_CACHE": (
            "a folder",
            "The folder for results of reference kernels; else one in the user's cache.",
        ),
        "TFLGPU_TEST_LIMITS": (
            "such as maxBufferSize=268435456, separated by commas",
            "Lower limits of the adapter, in the library that injects faults.",
        ),
        "TFLGPU_TEST_SITE": (
            "a folder",
            "The folder with all other packages for an environment with another onnxruntime.",
        ),
        "TFLGPU_TEST_TREE": (
            "a folder",
            "The copy of the package with the library that injects faults; else one is built.",
        ),
    },
}

VARIABLES = tuple(
    Variable(name, values, reader, meaning)
    for reader, variables in _READ_BY.items()
    for name, (values, meaning) in variables.items()
)


def current() -> list[tuple[Variable, str | None]]:
    """Returns each variable with its value, None where it is not set."""
    return [(variable, os.environ.get(variable.name)) for variable in VARIABLES]


def tell_unknown_values() -> None:
    """Warns of switches that are set to a value that is not known."""
    switches.debugging()
    for variable in VARIABLES:
        if variable.values == "1":
            switches.on(variable.name)


def unknown() -> Iterator[str]:
    """Yields a sentence for each variable with our prefix that is set and that nothing reads."""
    known = {variable.name for variable in VARIABLES}
    for name in sorted(os.environ):
        if name.startswith("TFLGPU_") and name not in known:
            yield f"{name} is set, but nothing reads it.{options.meant(name, known)}"
