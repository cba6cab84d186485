"""Op names appear in the tables only. Other modules ask for a trait of the op's row, and none of
them lists op names."""

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
PACKAGE = ROOT / "tflgpu_plugin"
ROOMS = (
    *("engine.py", "frontend", "importer", "compile", "runtime", "ir", "batch"),
    *("harness", "cache"),
)
# Tables of what loops consist of, and what builds nodes.
TABLES = {
    *("importer/loop_body.py", "importer/loop_layer.py"),
    *("importer/builder.py", "importer/rounding.py"),
}
# Words of other things than ops, and ops that constants are worked out for in a way of their own.
ELSEWHERE = {
    "compile/error_sensitivity.py": {"clip"},
    "compile/tuning.py": {"tile", "split"},
    "importer/folding.py": {"quantize", "dequantize"},
    "importer/plain.py": {"dequantize"},
    "ir/host_op.py": {"mean", "split"},
}


def files() -> list[str]:
    found = []
    for room in ROOMS:
        path = PACKAGE / room
        found += [path] if path.suffix else sorted(path.rglob("*.py"))
    names = [str(path.relative_to(PACKAGE)) for path in found]
    return [name for name in names if name not in TABLES]


@pytest.mark.parametrize("name", files())
def test_no_op_is_named(name: str) -> None:
    tree = ast.parse((PACKAGE / name).read_text())
    words = {
        n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)
    }
    assert words & set(ops.rows()) == ELSEWHERE.get(name, set())


# ---- names of hosts' operators, too -------------------------------------------------------------

NAMES = {
    *ops.rows(),
    *tflgpu_plugin.providers.tflite.ops.HOST_OPS,
    *tflgpu_plugin.providers.onnxruntime.ops.HOST_OPS,
}
LISTS = (
    "tflgpu_plugin/ops/",
    "providers/tflite/ops.py",
    "providers/onnxruntime/",  # one module for each group of rows
)
ALLOWED = {
    "tflgpu_plugin/kernels/__init__.py": "the table of epilogue steps, most of which are ops, too",
    "tflgpu_plugin/importer/loop_body.py": "the table of what operators mean in a loop's body",
    "tflgpu_plugin/harness/flatbuffer.py": "writes the demo's network, whose operators it lists",
}


def modules() -> list[str]:
    files = [p for room in ("tflgpu_plugin", "providers") for p in (ROOT / room).rglob("*.py")]
    names = sorted(str(path.relative_to(ROOT)) for path in files)
    return [name for name in names if not name.startswith(LISTS) and name not in ALLOWED]


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
