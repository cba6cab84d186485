"""Which checks a file has to pass: the cases of its families, and tests.

In order, quick ones first. A family's files have its name; the rest is listed here.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePath

from tests.mutation.mutants import ROOT


@dataclass(frozen=True)
class Step:
    """`kind` "cases": those of the family `name`, or 8-bit twins. "pytest": the file `name`."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


DENSE = ("conv", "transpose_conv", "fully_connected", "conv_3d")
MOVED = ("transpose", "pad", "strided_slice", "rearrange", "reshape")
# Of files by name (without its end) whose families have other names.
FAMILIES: dict[str, Sequence[str]] = {
    "conv": ("conv", "transpose_conv"),
    "window": ("depthwise", "pool", "conv_3d"),
    "blocks": DENSE,
    "tiles": DENSE,
    "winograd": ("conv",),
    "movement": MOVED,
    "views": MOVED,
    "elementwise": ("unary", "binary"),
    "decompose": ("normalization", "rearrange", "split"),
    "conv_weights": DENSE,
    "winograd_input": ("conv",),
    "winograd_output": ("conv",),
    "gather": MOVED,
    "coordinates": ("binary", "concat", "transpose"),
    "math": ("unary", "binary", "quantized"),
    "common": ("softmax", "fully_connected"),
    "pool_places": ("unpool",),
    "lowering": ("binary", "fully_connected", "softmax"),
    "graph": ("transpose", "binary"),
    "support": ("binary", "pool"),
    "ops/__init__": ("conv", "fully_connected"),
    "kernels/__init__": ("binary", "conv", "softmax", "quantized"),
    "pack": ("binary", "concat", "pool", "quantized"),
    "unpack": ("binary", "concat", "pool", "quantized"),
    "compiler": ("conv", "lstm"),
    "memory": ("lstm",),
    "plan": ("reduce",),
    "io_layout": ("reshape", "concat"),
    "copies": ("concat", "split"),
    "canonical": ("quantization",),
    "requantize": ("quantized",),
    "qdq_fusion": ("quantized",),
    "fake_quantization": ("quantized",),
    "quantization": ("quantized",),
    "dequantize": ("quantized",),
}

_GRAPHS = ("conformance/test_graph_cases.py", "conformance/test_onnx_graph_cases.py")
_PASSES = ("tests/test_passes.py", "tests/test_random_islands.py", *_GRAPHS)
_TFLITE = (
    "tests/test_reader.py",
    "tests/test_places.py",
    "tests/test_shapes.py",
    "tests/test_refusals.py",
    "tests/test_constants.py",
    "tests/test_delegate.py",
    "tests/test_variables.py",
    "tests/test_tflite_blocks.py",
    "conformance/test_versions.py",
    "conformance/test_constant_chains.py",
    "conformance/test_graph_cases.py",
    "conformance/test_hybrid.py",
)
_ONNX = (
    "tests/test_ort_reader.py",
    "tests/test_ort_integers.py",
    "tests/test_ort_folding.py",
    "tests/test_ort_arithmetic.py",
    "tests/test_ort_extents.py",
    "tests/test_ort_gemm.py",
    "tests/test_ort_node_tests.py",
    "tests/test_ort_reductions.py",
    "conformance/test_random_operators.py",
    "tests/test_ort_models.py",
    "tests/test_ort_saved.py",
    "tests/test_onnxruntime.py",
    "conformance/test_onnx_graph_cases.py",
    "conformance/test_onnx_twins.py",
    "conformance/test_constant_chains.py",
    "conformance/test_random_onnx.py",
)
_OPS = ("tests/test_passes.py", "tests/test_merge.py", "tests/test_compiler.py")
_NATIVE = (
    "tests/test_exit.py",
    "tests/test_native.py",
    "tests/test_runs.py",
    "tests/test_sanitized.py",
    "tests/test_threads.py",
    "tests/test_onnxruntime.py",
    "tests/test_variables.py",
)
_CACHE = (
    "tests/test_stored.py",
    "tests/test_cache.py",
    "tests/test_folders.py",
    "tests/test_compiled_models.py",
    "tests/test_damaged.py",
)
# Tests of files by name, after their families; else those of their room.
TESTS: dict[str, Sequence[str]] = {
    "math": (
        "tests/test_function_accuracy.py",
        "tests/test_large_arguments.py",
        "tests/test_nan.py",
        "tests/test_half.py",
        "tests/test_fixed_point.py",
        "tests/test_stored_steps.py",
        "tests/test_ort_integers.py",
    ),
    "pack": (
        "tests/test_border.py",
        "tests/test_ort_integers.py",
        "tests/test_half.py",
        "tests/test_quantization.py",
    ),
    "unpack": (
        "tests/test_border.py",
        "tests/test_ort_integers.py",
        "tests/test_half.py",
        "tests/test_quantization.py",
    ),
    "kernels/__init__": (
        "tests/test_compiler.py",
        "tests/test_half.py",
        "tests/test_quantization.py",
    ),
    "memory": ("tests/test_memory.py", "tests/test_compiler.py"),
    "io_layout": ("tests/test_border.py", "tests/test_half.py", "tests/test_transposes.py"),
    "compiler": ("tests/test_compiler.py", "tests/test_half.py", "tests/test_partition.py"),
    "partition": ("tests/test_partition.py", "tests/test_delegate.py"),
    "support": ("tests/test_capability.py", "tests/test_refusals.py"),
    "precision": ("tests/test_half.py", "tests/test_noise.py"),
    "error_sensitivity": ("tests/test_noise.py", "tests/test_half.py"),
    "copies": ("tests/test_compiler.py", "tests/test_passes.py"),
    "graph": ("tests/test_graph.py",),
    "requantize": (
        "tests/test_fixed_point.py",
        "tests/test_quantization.py",
        "tests/test_ort_quantized.py",
        "conformance/test_onnx_quantized.py",
    ),
    "qdq_fusion": ("tests/test_quantization.py", "tests/test_ort_quantized.py"),
    "fake_quantization": ("tests/test_quantization.py", "tests/test_ort_quantized.py"),
    "quantization": ("tests/test_quantization.py", "tests/test_ort_quantized.py"),
    "dequantize": ("tests/test_quantization.py", *_PASSES),
    "patterns": ("tests/test_recompose.py", *_PASSES),
    "transposes": ("tests/test_transposes.py", *_PASSES),
    "join_moves": ("tests/test_views.py", "tests/test_transposes.py", *_PASSES),
    "views": ("tests/test_views.py",),
    "movement": ("tests/test_views.py",),
    "propagate": ("tests/test_transposes.py", *_PASSES),
    "blocks": ("tests/test_split_weights.py",),
    "conv_weights": ("tests/test_split_weights.py",),
    "fully_connected": ("tests/test_split_weights.py",),
    "concat": ("tests/test_pad_lanes.py",),
    "pick": ("tests/test_split_weights.py",),
    "recurrent": ("tests/test_ort_recurrent.py",),
    "ops": ("tests/test_docs.py", *_TFLITE, *_ONNX),
    "integer_range": ("tests/test_counts.py", *_TFLITE, *_ONNX),
    "fold": ("tests/test_constant_operators.py", *_TFLITE, *_ONNX),
    "subgraph": _TFLITE,
    "symbolic_shapes": _ONNX,
    "stored_numbers": ("tests/test_stored_steps.py", "tests/test_fixed_point.py"),  # of ops
    "grids": ("tests/test_ort_quantized.py", "conformance/test_onnx_quantized.py"),
    "units": ("tests/test_ort_quantized.py", "conformance/test_onnx_quantized.py"),
    "quantized": ("tests/test_ort_quantized.py", "conformance/test_onnx_quantized.py"),
    "device": (*_NATIVE, "tests/test_survival.py"),
    "context": ("tests/test_compiled_models.py",),
    "ort_context": ("tests/test_compiled_models.py",),
    "ort_ep": ("tests/test_onnxruntime.py", "tests/test_ort_lifetimes.py"),
    "ort_run": (
        "tests/test_onnxruntime.py",
        "tests/test_ort_lifetimes.py",
        "tests/test_ort_models.py",
    ),
}
ROOMS = {
    "passes": _PASSES,
    "tflite": _TFLITE,
    "onnxruntime": _ONNX,
    "native": _NATIVE,
    "cache": _CACHE,
}


# Tests that take long; those that a file needs are named above.
SLOW = {
    f"tests/test_{name}.py"
    for name in (
        "attributes",
        "cache",
        "cli",
        "compiled_models",
        "demo",
        "docs",
        "large_models",
        "lifetimes",
        "measure",
        "one_process",
        "ort_attributes",
        "planted",
        "wheel",
        "totality",
        "shader_lint",
        "table",
        "advertised",
    )
}


@cache
def _texts() -> dict[str, str]:
    return {f"tests/{p.name}": p.read_text() for p in sorted((ROOT / "tests").glob("test_*.py"))}


def _importing(file: str) -> list[str]:
    """Tests that have the name of a Python file, and those that import it."""
    path = PurePath(file)
    if path.suffix != ".py" or path.stem == "__init__":
        return []
    room = ".".join(path.parent.parts).replace("providers", "tflgpu_plugin.providers")
    room, name = re.escape(room), re.escape(path.stem)
    whole = rf"{room}\.{name}\b|from {room} import [^\n]*\b{name}\b"
    named = [f"tests/test_{prefix}{path.stem}.py" for prefix in ("", "ort_")]
    importing = [test for test, text in _texts().items() if re.search(whole, text)]
    found = dict.fromkeys([*named, *importing])
    return [test for test in found if test not in SLOW and (ROOT / test).exists()]


def steps(file: str) -> list[Step]:
    """What is checked of a file, quick things first."""
    path = PurePath(file)
    name, room = path.stem, path.parent.name
    whole = next((part for part in ("passes", "native") if part in path.parts), room)
    if whole == "native" and room == "ort":
        name = f"ort_{name}"
    room = whole
    key = f"{room}/__init__" if name == "__init__" else name
    mine: Sequence[str] = ()
    if room in ("ops", "kernels", "ir", "compile", "frontend", "passes"):
        mine = FAMILIES.get(key, (name,) if room in ("ops", "kernels") else ())
    if file == "providers/onnxruntime/recurrent.py" or room not in ("ops", "kernels"):
        tests = TESTS.get(key, ROOMS.get(room, ()))
    else:
        usual = _OPS if room == "ops" else ()
        tests = TESTS.get(key if key != "quantized" else "stored_numbers", usual)
    tests = tuple(dict.fromkeys((*_importing(file), *tests)))
    found = [Step("cases", family) for family in mine]
    return found + [Step("pytest", test) for test in tests if (ROOT / test).exists()]


def missing_adapter() -> bool:
    """Whether there is none; says why."""
    from tests.conftest import missing_adapter

    if reason := missing_adapter():
        print(reason)
    return reason is not None


def record(family: str, folder: Path) -> None:
    """What `passes` compares cases with."""
    from tests.mutation import probe

    made = folder / f"{family}.json.new"
    made.write_text(probe.record(family))
    made.replace(folder / f"{family}.json")


def passes(step: Step, file: str, folder: Path, thorough: bool, red: Sequence[str]) -> bool:
    """Run one step in this process, in which a mutant of the file is in place; `red` tests fail
    without one."""
    if step.kind == "cases":
        from tests.mutation import probe

        return probe.passes(
            step.name, folder / f"{step.name}.json", thorough, file.endswith(".wgsl")
        )
    return _pytest(step.name, *(f"--deselect={test}" for test in red))


def _pytest(*arguments: str) -> bool:
    import pytest

    sys.stdout.flush()
    options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=line"]
    if arguments[0].startswith("conformance"):
        options += ["--dtype", "all", "-m", "quick"]
    else:
        options += ["-m", "not wheel"]
    code = int(pytest.main([*options, *arguments]))
    if code == pytest.ExitCode.NO_TESTS_COLLECTED and "-k" in arguments:
        return True
    return code == pytest.ExitCode.OK
