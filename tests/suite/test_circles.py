"""No modules import each other in a circle, not even inside a package, counting imports in
functions and for types."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.imports import circles, imports, modules

ROOT = Path(__file__).resolve().parents[2]
TOPS = ("tflgpu_plugin", "providers", "conformance", "tests", "benchmarks")
# A row of the table of ops holds functions of what asks the table.
TYPES_OF_ROWS = {
    "tflgpu_plugin.ops.table": {"tflgpu_plugin.ops.decompose", "tflgpu_plugin.ops.lowering"}
}


def test_no_modules_are_in_a_circle() -> None:
    graph = dict(imports(modules(ROOT, TOPS)))
    for name, exempt in TYPES_OF_ROWS.items():
        assert exempt <= graph[name]
        graph[name] = graph[name] - exempt
    assert circles(graph) == []


PLANTED = {
    "function": "def late():\n    from tflgpu_plugin.room import b\n    return b\n",
    "relative": "def late():\n    from .b import made\n    return made\n",
    "type": "if TYPE_CHECKING:\n    from tflgpu_plugin.room.b import Made\n",
    "package": "from . import VALUE\n",
    "plain": "import tflgpu_plugin.room.b\n",
}


@pytest.mark.parametrize("kind", PLANTED)
def test_a_circle_in_a_room_is_found(kind: str, tmp_path: Path) -> None:
    room = tmp_path / "tflgpu_plugin/room"
    room.mkdir(parents=True)
    (tmp_path / "tflgpu_plugin/__init__.py").write_text("import os\n")
    (room / "__init__.py").write_text("def made():\n    from . import b\n    return b\n")
    (room / "a.py").write_text(PLANTED[kind])
    (room / "b.py").write_text("from tflgpu_plugin.room.a import late\n")
    (room / "c.py").write_text("from tflgpu_plugin.room import a, b\n")
    found = circles(imports(modules(tmp_path, ["tflgpu_plugin"])))
    both = {"tflgpu_plugin.room.a", "tflgpu_plugin.room.b"}
    assert found == [both | {"tflgpu_plugin.room"} if kind == "package" else both]


def test_a_package_in_another_folder_has_its_installed_name(tmp_path: Path) -> None:
    (tmp_path / "providers/host").mkdir(parents=True)
    (tmp_path / "providers/host/a.py").write_text("from tflgpu_plugin.providers.host import b\n")
    (tmp_path / "providers/host/b.py").write_text("from .a import x\n")
    (found,) = circles(imports(modules(tmp_path, ["providers"])))
    assert found == {"tflgpu_plugin.providers.host.a", "tflgpu_plugin.providers.host.b"}
