"""Tests the form of the library's path that onnxruntime for Windows accepts, on any system."""

from __future__ import annotations

import codecs
import ctypes
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tflgpu_plugin import native

PLAIN, SHORT = Path("C:/Users/Jürgen/tflgpu.dll"), "C:/Users/JRG~1/tflgpu.dll"
STRANGE = Path("C:/Users/用户/tflgpu.dll")


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Returns a stand-in for Windows with a code page; it has short paths as long as `names` is not
    empty."""
    names = {str(STRANGE): SHORT}

    def short(path: str, room: Any, size: int) -> int:
        assert size >= 1 << 15
        room.value = names.get(path, "")
        return len(room.value)

    kernel = SimpleNamespace(GetShortPathNameW=short)
    monkeypatch.setattr(ctypes, "windll", SimpleNamespace(kernel32=kernel), raising=False)

    def search(name: str) -> codecs.CodecInfo | None:
        return codecs.lookup("cp1252") if name == "mbcs" else None

    codecs.register(search)
    yield names
    codecs.unregister(search)


def test_a_sign_beyond_the_code_page_has_the_short_name_taken(windows: dict[str, str]) -> None:
    assert native.in_code_page(STRANGE) == Path(SHORT)
    assert native.in_code_page(PLAIN) == PLAIN


def test_without_short_names_the_path_stays(windows: dict[str, str]) -> None:
    windows.clear()
    assert native.in_code_page(STRANGE) == STRANGE
