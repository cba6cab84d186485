"""Tests that need an adapter carry the marker `adapter`; without an adapter they are skipped with a
message."""

from __future__ import annotations

import gc
import logging
import os
import sys
from collections.abc import Iterator
from functools import cache
from types import ModuleType
from zlib import crc32

import numpy as np
import pytest
from _pytest import runner

# Software Vulkan: no threads of its own (tests run one process per core).
os.environ.setdefault("LP_NUM_THREADS", "0")
# pytest writes the name of each test to the environment, while threads of drivers may read it; the
# C library does not permit that, and a thread has crashed.
vars(runner)["_update_current_test_var"] = lambda item, when: None


def pytest_configure(config: pytest.Config) -> None:
    from tflgpu_plugin.passes import pipeline, verifier

    pipeline.watchers.put("verifier", verifier.check)
    config.addinivalue_line("markers", "adapter: needs a GPU, or the software adapter lavapipe")
    config.addinivalue_line("markers", "cluster: starts Ray; needs an adapter, too")
    config.addinivalue_line("markers", "wheel: builds and installs the wheel")


def pytest_collection_finish() -> None:
    """Excludes what collection has made, ten thousand tests, from later garbage collections: each
    would take most of a second."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def root_handlers() -> Iterator[None]:
    """Removes handlers that libraries add to the root logger when they log before logging is
    configured: the plugin's messages would go there, also in later tests."""
    before = [*logging.root.handlers]
    yield
    logging.root.handlers[:] = before


@cache
def generators(module: ModuleType) -> list[np.random.Generator]:
    """Returns the random generators of a test module and of the support modules."""
    support = [held for name, held in sys.modules.items() if name.startswith("tests.support.")]
    return [value for each in (module, *support) for value in vars(each).values()
            if isinstance(value, np.random.Generator)]  # fmt: skip


@pytest.fixture(autouse=True)
def random_numbers(request: pytest.FixtureRequest) -> None:
    """Seeds the generators of modules by the test's name: its numbers are the same in each run,
    whichever tests have run before it in this process."""
    for generator in generators(request.module):
        seeded = np.random.default_rng(crc32(request.node.nodeid.encode()))
        generator.bit_generator.state = seeded.bit_generator.state


@pytest.fixture
def not_debugging(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turns defects into refusals, for tests that ask for it, although the settings of the
    conformance suite raise them."""
    monkeypatch.delenv("TFLGPU_DEBUG", raising=False)


@pytest.fixture(params=["reference", "default"])
def resolver(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Selects which kernels run the nodes that are left to the CPU, for tests that ask for it: the
    reference kernels, then the host's default, in which its own delegate runs beside ours."""
    from tests.support import interpreters

    monkeypatch.setattr(interpreters, "beside", request.param)
    return str(request.param)


@cache
def missing_adapter() -> str | None:
    """Returns why there is no adapter, or None if there is one."""
    from tflgpu_plugin.runtime import adapter
    from tflgpu_plugin.runtime.device import NoAdapter

    try:
        adapter.select(None)
    except NoAdapter as error:
        return str(error)
    return None


def pytest_runtest_setup(item: pytest.Item) -> None:
    from tflgpu_plugin import switches

    needs = any(map(item.get_closest_marker, ("adapter", "cluster")))
    if needs and (reason := missing_adapter()):
        if switches.on("TFLGPU_TEST_ADAPTER"):
            pytest.fail(f"no adapter: {reason}")
        pytest.skip(f"no adapter: {reason}")
