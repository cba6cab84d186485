"""Options and environment of the conformance suite: `pytest conformance/ --adapter NAME --host
tflite`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

# Read by drivers and by our runtime when they load: one thread per worker of a software adapter,
# and pools that start as NaN, so that a kernel which reads what nothing wrote is seen.
os.environ.setdefault("LP_NUM_THREADS", "0")
os.environ.setdefault("TFLGPU_FILL_NAN", "1")

import pytest

from conformance import host
from tflgpu_plugin.runtime import adapter

HOSTS = {"tflite": None, "tflite_runtime": "tflite_runtime", "ai_edge_litert": "ai_edge_litert"}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("conformance")
    group.addoption("--adapter", default=None, help="part of an adapter's name, or its index")
    group.addoption("--host", default="tflite", help=f"one of {', '.join(HOSTS)}")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "adapter: needs a GPU or a software adapter")
    wanted = str(config.getoption("--host"))
    if wanted not in HOSTS:
        raise pytest.UsageError(f"--host cannot be {wanted}; it is one of {', '.join(HOSTS)}")
    try:
        adapter.select(config.getoption("--adapter"))
    except adapter.NoAdapter as error:
        raise pytest.UsageError(str(error)) from error


def pytest_report_header(config: pytest.Config) -> list[str]:
    hosts = ", ".join(f"{name} {host.version(name)}" for name in host.installed())
    return [f"hosts: {hosts or 'none'}; adapter wanted: {config.getoption('--adapter') or 'any'}"]


@pytest.fixture(scope="session")
def host_name(pytestconfig: pytest.Config) -> str:
    """The host to test in, as a module name."""
    wanted = str(pytestconfig.getoption("--host"))
    return HOSTS[wanted] or host.installed()[0]


@pytest.fixture(scope="session")
def options(pytestconfig: pytest.Config) -> Mapping[str, Any]:
    """Delegate options that choose the adapter."""
    adapter = pytestconfig.getoption("--adapter")
    return {"adapter": adapter} if adapter else {}
