"""Selects the tests of quick conformance that a smoke test runs: some for each operator, and
thereby for each family."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from tflgpu_plugin.ops import FAMILIES
from tflgpu_plugin.providers.tflite.ops import HOST_OPS

# Modules whose tests are of one operator each: this many of each are taken; and of others, at all.
EACH = {"test_ops.py": 2, "test_quantized.py": 1, "test_onnx_twins.py": 2, "test_hybrid.py": 1,
        "test_nodes.py": 1}  # fmt: skip
SOME = {"test_onnx_quantized.py": 30, "test_onnx_forms.py": 30, "test_graph_cases.py": 20,
        "test_onnx_graph_cases.py": 20}  # fmt: skip


def chosen(names: Sequence[str], seed: int) -> list[str]:
    """Returns tests of all families, in the order of `names`, pytest's identifiers. Raises
    ValueError where a family has none."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for name in names:
        module = name.split("::")[0].rsplit("/", 1)[-1]
        if module in EACH:
            groups.setdefault((module, family(name), operator(name)), []).append(name)
        elif module in SOME:
            groups.setdefault((module,), []).append(name)
    draw, picked = random.Random(seed), set[str]()
    for (module, *_), own in groups.items():
        wanted = EACH.get(module) or SOME[module]
        picked.update(draw.sample(own, min(wanted, len(own))))
    if missing := set(FAMILIES) - {family(name) for name in picked}:
        raise ValueError(f"No test of the sample is of {', '.join(sorted(missing))}.")
    return [name for name in names if name in picked]


def family(name: str) -> str:
    """Returns the family of operators that an identifier names, "" where it names none."""
    return next((word for word in _words(name) if word in FAMILIES), "")


def operator(name: str) -> str:
    """Returns the TFLite operator that it names."""
    return next((word for word in _words(name) if word in HOST_OPS), "")


def _words(name: str) -> list[str]:
    return re.split(r"[\[\]-]", name)[1:]


def parts(names: Sequence[str]) -> dict[str, list[str]]:
    """Returns the parts that run in a process each, longest first: tests of a part share code that
    the emulator translates once."""
    marks = {"nodes": "/test_nodes.py", "single": "/test_ops.py", "onnx": "_onnx_", "others": ""}
    found: dict[str, list[str]] = {part: [] for part in marks}
    for name in names:
        found[next(part for part, mark in marks.items() if mark in name)].append(name)
    return {part: own for part, own in found.items() if own}
