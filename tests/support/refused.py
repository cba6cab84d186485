"""Why something was refused, by its code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tflgpu_plugin.errors import BuildError, Unsupported
from tflgpu_plugin.ir import code_of


def code(reason: str | None) -> str | None:
    """Returns the code of a refusal, None where there is none."""
    return None if reason is None else code_of(reason)


@contextmanager
def refused(wanted: str) -> Iterator[pytest.ExceptionInfo[Unsupported | BuildError]]:
    """Asserts that the block refuses a node, with this code."""
    with pytest.raises((Unsupported, BuildError)) as caught:
        yield caught
    assert caught.value.sentence.code == wanted, caught.value
