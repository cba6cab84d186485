"""A pytest plugin that runs a share of the tests: `-p tools.share --share 1/5` runs a fifth of
them, and `--share 2-5/5` the others. A test's name decides in which part it is."""

from __future__ import annotations

import re
from zlib import crc32

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--share", default="1/1", metavar="FIRST[-LAST]/PARTS")


def parts(text: str) -> tuple[range, int]:
    """Returns the selected parts, counted from 0, and how many there are."""
    found = re.fullmatch(r"(\d+)(?:-(\d+))?/(\d+)", text)
    if not found:
        raise pytest.UsageError(f"--share is {text!r}; write it as 1/5 or 2-5/5")
    first, last, count = int(found[1]), int(found[2] or found[1]), int(found[3])
    if not 1 <= first <= last <= count:
        raise pytest.UsageError(f"--share {text}: there are only parts 1 to {count}")
    return range(first - 1, last), count


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    chosen, count = parts(config.getoption("--share"))
    left = [item for item in items if crc32(item.nodeid.encode()) % count not in chosen]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if crc32(item.nodeid.encode()) % count in chosen]
