"""Random ONNX graphs of integers through our provider, exactly: numpy says what they must be, or
for numbers of 8 and 16 bits the CPU provider node by node; it is the second witness of both."""

from __future__ import annotations

import numpy as np
import pytest

from conformance import onnx_host
from conformance.plugin.book import Book
from conformance.plugin.record import FAIL, PASS, Record
from conformance.random import integers, moved

pytestmark = [pytest.mark.adapter, pytest.mark.onnxruntime]
BUILDERS = {"whole": integers.build, "stored": moved.build}
GROUP, GROUPS = 12, 10  # graphs in a test, tests


@pytest.mark.parametrize("group", range(GROUPS))
@pytest.mark.parametrize("name", BUILDERS)
def test_graphs(name: str, group: int, book: Book, pytestconfig: pytest.Config) -> None:
    wanted, wrong, on_gpu, total = pytestconfig.getoption("--adapter"), [], 0, 0
    for seed in range(group * GROUP, (group + 1) * GROUP):
        made = BUILDERS[name](seed)
        (theirs,) = onnx_host.run_on_cpu(made.content, [made.feeds])
        run = onnx_host.run_on_gpu(made.content, [made.feeds], wanted, ",".join(made.foreign))
        on_gpu, total = on_gpu + run.placement.on_gpu, total + run.placement.total
        for k, (a, b, c) in enumerate(zip(made.expected, run.outputs[0], theirs, strict=True)):
            if not (a.dtype == b.dtype and np.array_equal(a, b) and np.array_equal(a, c)):
                wrong.append(f"seed {seed} output {k}")
    text = f"{on_gpu} of {total} nodes on the GPU"
    outcome = FAIL if wrong or on_gpu < total // 2 else PASS
    book.add(Record(book.test, "random integers", outcome, case=f"{name} {group}",
                    host=onnx_host.label(), text="; ".join(wrong)[:400] or text))  # fmt: skip
    assert not wrong
    assert on_gpu >= total // 2, text
