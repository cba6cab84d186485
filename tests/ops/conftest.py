"""Fixtures that tests of all kernels share."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tests.support.case_kernels import pipelines


@pytest.fixture(scope="session")
def launched(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], set[str]]:
    """Returns a function for the labels of the kernels that the cases of a family launch. The
    processes of a test run share them, since planning all cases takes most of a minute."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent  # of all workers of this run

    def labels(family: str) -> set[str]:
        told = folder / f"launched-{family}"
        if not told.exists():
            own = folder / f"launched-{family}-{os.getpid()}"
            own.write_text("\n".join(sorted({pipeline.label for pipeline in pipelines(family)})))
            own.replace(told)
        return set(told.read_text().split())

    return labels
