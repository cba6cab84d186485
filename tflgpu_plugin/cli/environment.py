"""The environment variables that the plugin, its tests and its tools read, as rows for the page
docs/options.md. A test fails for one that is in the tree and not here.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Variable:
    """`values` says what it may be; `reader` who reads it: the plugin in any program, the plugin
    while a defect is looked for, or the tests and tools of its repository.
    """

    name: str
    values: str
    reader: str
    meaning: str


# By who reads them: what each may be, and what it means.
_READ_BY = {
    "plugin": {
        "TFLGPU_LOG": (
            "debug, info, warning (the default), error, off",
            "Messages of this level and above are told, through the logger `tflgpu_plugin`.",
        ),
        "TFLGPU_NO_CACHE": (
            "1",
            "Nothing is kept in the user's cache folder: no generated kernels, measured settings "
            "or digests. `serialization_dir` is another matter.",
        ),
        "TFLGPU_ALLOW_SOFTWARE": (
            "1",
            "ONNX Runtime is told that a software adapter is a GPU, so that its automatic "
            "policies may choose it.",
        ),
        "TFLGPU_NO_WARM_UP": (
            "1",
            "Drivers finish compiling kernels at the first inference, not while a model is "
            "prepared.",
        ),
        "TFLGPU_PREFER": (
            "1, or options as a JSON object; 0",
            "Sessions and interpreters that name no other provider or delegate get this plugin, "
            "in every Python of the environment. `tflgpu exec` sets it.",
        ),
        "TFLGPU_PREFER_SUMMARY": (
            "text (the default), json, off",
            "What is written to stderr at the end of a process with TFLGPU_PREFER.",
        ),
    },
    "plugin, to search for a defect": {
        "TFLGPU_DEBUG": (
            "1, 2",
            "A defect of the plugin is raised with its traceback where it would become a refusal "
            "or be left out; 2 also tells which nodes there are before and after each pass.",
        ),
        "TFLGPU_NO_MAPPING": (
            "1",
            "Inputs and outputs are copied through staging buffers also where memory is shared, "
            "as on a discrete GPU.",
        ),
        "TFLGPU_NO_SUBGROUPS": (
            "1",
            "Plans are made as for an adapter without subgroup shuffles.",
        ),
        "TFLGPU_FILL_NAN": (
            "1",
            "Memory for intermediate tensors is filled with NaN before the first run, so that "
            "what reads an element that nothing wrote is seen.",
        ),
    },
    "tests and tools": {
        "TFLGPU_MODELS": (
            "a folder",
            "The real models that are compared; else `../shared/models`.",
        ),
        "TFLGPU_DRIVERS": (
            "a folder",
            "Where `tools/drivers.py` unpacks drivers; else a folder in the user's cache.",
        ),
        "TFLGPU_DRIVER_PACKAGE": (
            "a text",
            "The package that the driver came from, for the head of a conformance report.",
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
            "Where results of reference kernels are kept; else a folder in the user's cache.",
        ),
        "TFLGPU_TEST_SITE": (
            "a folder",
            "Where an environment with another onnxruntime finds everything else.",
        ),
    },
}

VARIABLES = tuple(
    Variable(name, values, reader, meaning)
    for reader, variables in _READ_BY.items()
    for name, (values, meaning) in variables.items()
)
