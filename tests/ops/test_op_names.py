"""What other rooms must know of an op is a trait of its row: no op's name stands in them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import tflgpu_plugin
from tflgpu_plugin import ops

PACKAGE = Path(tflgpu_plugin.__file__).parent
ROOMS = ("engine.py", "frontend", "compile", "runtime", "ir", "batch", "harness", "cache")
# Tables of meanings and of what loops consist of, and what builds nodes.
TABLES = {"frontend/meanings.py", "frontend/loop_body.py", "frontend/loop_layer.py"}
# Words of other things than ops, and ops that constants are worked out for in a way of their own.
ELSEWHERE = {
    "compile/error_sensitivity.py": {"clip"},
    "compile/tuning.py": {"tile", "split"},
    "frontend/fold.py": {"quantize", "dequantize"},
    "ir/host_op.py": {"mean", "split"},
}


def files() -> list[str]:
    found = []
    for room in ROOMS:
        path = PACKAGE / room
        found += [path] if path.suffix else sorted(path.rglob("*.py"))
    return [str(path.relative_to(PACKAGE)) for path in found]


@pytest.mark.parametrize("name", files())
def test_no_op_is_named(name: str) -> None:
    if name in TABLES:
        pytest.skip("a table of ops")
    tree = ast.parse((PACKAGE / name).read_text())
    words = {
        n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)
    }
    assert words & set(ops.rows()) == ELSEWHERE.get(name, set())
