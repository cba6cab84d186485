"""What is kept between runs: never in the way when it cannot be kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from tflgpu_plugin import folders
from tflgpu_plugin.kernels import templates


def test_a_folder_in_the_users_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TFLGPU_NO_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert folders.cache("some") == tmp_path / "tflgpu-plugin" / "some"


def test_none_where_others_can_write(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TFLGPU_NO_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = folders.cache("some")
    assert folder is not None
    folder.chmod(0o777)
    assert folders.cache("some") is None


def test_none_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    assert folders.cache("some") is None


def test_none_where_it_cannot_be_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert folders.cache("some") is None


def test_templates_render_when_their_folder_has_gone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("TFLGPU_NO_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    environment = templates.environment.__wrapped__()
    (tmp_path / "tflgpu-plugin" / "templates").rmdir()
    assert environment.get_template("common.wgsl").render()
