"""The environment variables that the plugin, its tests and its tools read, as rows for the page
docs/options.md. A test fails for one that is read and not listed here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Variable:
    """A variable. `values` describes its values; `reader` says who reads it: the plugin in any
    program, the plugin while a defect is investigated, or the tests and tools of its repository."""

    name: str
    values: str
    reader: str
    meaning: str


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
            "or digests. `serialization_dir` is not affected.",
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
    "tests and tools": {
        "TFLGPU_MODELS": (
            "a folder",
            "The folder of real models for tests; else `../shared/models`.",
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
        "TFLGPU_TEST_SITE": (
            "a folder",
            "The folder with all other packages for an environment with another onnxruntime.",
        ),
    },
}

VARIABLES = tuple(
    Variable(name, values, reader, meaning)
    for reader, variables in _READ_BY.items()
    for name, (values, meaning) in variables.items()
)
