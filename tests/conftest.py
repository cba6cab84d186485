"""Marks: `adapter` for tests that need a GPU or a software adapter, `wheel` for those that build."""

from __future__ import annotations

from functools import cache

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "adapter: needs a GPU or a software adapter")
    config.addinivalue_line(
        "markers", "wheel: builds the wheel, needs a compiler and a package index"
    )


@cache
def _reason() -> str:
    """Why there is no adapter; empty when there is one."""
    from tflgpu_plugin.runtime import adapter

    try:
        adapter.select(None)
    except adapter.NoAdapter as error:
        return str(error)
    return ""


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("adapter") and _reason():
        pytest.skip(_reason())
