"""Facts about operators stand in their rows: no module outside the tables lists names of ops."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
import tflgpu_plugin.providers.onnxruntime.ops
import tflgpu_plugin.providers.tflite.ops

from conformance.node_cases import family_nodes
from tflgpu_plugin import ops

ROOT = Path(__file__).resolve().parents[2]
NAMES = {
    *ops.rows(),
    *tflgpu_plugin.providers.tflite.ops.HOST_OPS,
    *tflgpu_plugin.providers.onnxruntime.ops.HOST_OPS,
}
TABLES = (
    "tflgpu_plugin/ops/",
    "providers/tflite/ops.py",
    "providers/onnxruntime/",  # one module for each group of rows
)
ALLOWED = {
    "tflgpu_plugin/kernels/__init__.py": "the table of epilogue steps, most of which are ops, too",
    "tflgpu_plugin/frontend/meanings.py": "the table of what operators mean in numpy",
    "tflgpu_plugin/frontend/loop_body.py": "the table of what operators mean in a loop's body",
    "tflgpu_plugin/harness/flatbuffer.py": "writes the demo's network, whose operators it lists",
}


def modules() -> list[str]:
    files = [p for room in ("tflgpu_plugin", "providers") for p in (ROOT / room).rglob("*.py")]
    names = sorted(str(path.relative_to(ROOT)) for path in files)
    return [name for name in names if not name.startswith(TABLES) and name not in ALLOWED]


def lists(module: str) -> Iterator[list[str]]:
    """Literal collections in which two names or more are those of ops."""
    for node in ast.walk(ast.parse((ROOT / module).read_text())):
        parts: list[ast.expr | None] = []
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            parts = [*node.elts]
        elif isinstance(node, ast.Dict):
            parts = node.keys
        texts = [part.value for part in parts if isinstance(part, ast.Constant)]
        found = [text for text in texts if isinstance(text, str) and text in NAMES]
        if len(found) > 1:
            yield found


@pytest.mark.parametrize("module", modules())
def test_no_module_lists_names_of_ops(module: str) -> None:
    found = list(lists(module))
    assert not found, f"put these facts into the rows: {found}"


def test_few_modules_are_allowed_to() -> None:
    assert len(ALLOWED) <= 5 and all(any(lists(module)) for module in ALLOWED)


def test_a_choice_is_one_of_the_outputs() -> None:
    chosen = {name: row for name, row in ops.rows().items() if row.errors.choice is not None}
    assert chosen
    for name, row in chosen.items():
        cases = [c for c in family_nodes(row.family) if c.op == name and not c.refused]
        assert cases and all(0 <= (row.errors.choice or 0) < case.outputs for case in cases)
