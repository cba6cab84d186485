"""A process that has used the device and released it ends at once: no call counts as in
progress."""

from __future__ import annotations

import pytest

from tests.support.subprocesses import run_python

pytestmark = pytest.mark.adapter

CODE = """
import gc, time
import numpy as np
from tests.support.harness import run_graph
from tests.compile.test_compiler import residual
from tflgpu_plugin import native

graph = residual()
(x,) = graph.inputs
for _ in range(2):
    run_graph(graph, {x: np.ones(graph.shape(x), np.float32)})
    gc.collect()
start = time.monotonic()
native.lib.tg_close()  # waits up to ten seconds for calls that are under way
assert time.monotonic() - start < 5
"""


def test_nothing_is_under_way_when_all_is_released() -> None:
    run_python(CODE)
