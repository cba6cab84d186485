"""Tests that the import hook of the .pth files sees imports of hosts and leaves modules
unchanged."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest


def test_a_module_keeps_its_own_loader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The module shows its own loader during and after the import, and a failing import raises the
    module's own error."""
    import tflgpu_startup as startup

    told: list[str] = []
    monkeypatch.setattr(startup, "after_import", told.append)
    monkeypatch.setattr(startup, "HOSTS", {"fine_host": "", "broken_host": "", "absent_host": ""})
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "fine_host.py").write_text("seen = type(__loader__), type(__spec__.loader)\n")
    (tmp_path / "broken_host.py").write_text("raise KeyError('mine')\n")
    startup.watch()
    startup.watch()
    assert sys.meta_path.count(startup.import_finder) == 1
    found = find_spec("fine_host")
    assert found and found.loader and "seen" in found.loader.get_source("fine_host")  # type: ignore[attr-defined]
    import fine_host  # type: ignore[import-not-found]

    assert isinstance(fine_host, ModuleType) and told == ["fine_host"]
    assert [kind.__name__ for kind in fine_host.seen] == ["SourceFileLoader"] * 2
    for name, error in (("broken_host", KeyError), ("absent_host", ModuleNotFoundError)):
        with pytest.raises(error):
            __import__(name)
    assert told == ["fine_host"]
