"""Tests the lines of a report as text."""

from __future__ import annotations

import json
from dataclasses import replace

from tflgpu_plugin.frontend.reports import (
    CPU,
    GPU,
    AdapterReport,
    MemoryReport,
    NodeReport,
    PartitionReport,
    Report,
    with_old_keys,
)
from tflgpu_plugin.ir import Refusal

ONE = PartitionReport(
    number=1, nodes=(0,), live=True, runs=0, host_runs=0, failures=0, uploaded_bytes=0,
    downloaded_bytes=0, device_inputs=0, milliseconds=0.0, tensor_bytes=16, least_bytes=8,
    memory=MemoryReport(4096, 8, 300), dispatches=1,
)  # fmt: skip


def line(partition: PartitionReport) -> str:
    return str(Report(None, partitions=(partition,))).splitlines()[1].strip()


def test_nothing_is_told_of_a_run_that_has_not_been() -> None:
    assert line(ONE) == (
        "partition 1: 1 node, 1 dispatch, 0 runs, 4,096 bytes of weights, 8 of tensors "
        "(16 without sharing, 8 at least), 0 sent, 0 fetched"
    )


def test_memory_is_told_by_what_it_is_for() -> None:
    held, all_held = MemoryReport(4096, 8, 300, staging=4), MemoryReport(8192, 16, 600, 1, 2, 3)
    report = Report(None, (), (ONE,), held, all_held)
    assert str(report).splitlines()[2] == (
        "  memory: 4,408 bytes on the GPU (weights 4,096, pools 8, ports 300, staging 4); "
        "the process has 8,814"
    )
    assert str(MemoryReport()) == "0 bytes on the GPU"
    found = json.loads(report.to_json())
    assert (found["weight_bytes"], found["pool_bytes"]) == (4096, 8)
    assert found["partitions"][0]["memory"]["ports"] == 300
    assert found["partitions"][0]["weight_bytes"] == 4096 == ONE.weight_bytes
    assert found["partitions"][0]["pool_bytes"] == 8 == ONE.pool_bytes
    assert found["memory"] == {"weights": 4096, "pools": 8, "ports": 300, "uniforms": 0,
                               "staging": 4, "tensors": 0}  # fmt: skip
    assert found["process_memory"]["tensors"] == 3


def test_one_and_several() -> None:
    once = replace(ONE, runs=1, milliseconds=1.5, failures=1, live=False)
    assert "1 run, 1 failure, last 1.50 ms, " in line(once)
    assert line(once).endswith(", no longer in use")
    why = replace(once, failure="It is lost.")
    assert "1 run, 1 failure (It is lost.), last 1.50 ms, " in line(why)
    more = replace(once, nodes=(0, 1), dispatches=3, runs=2, host_runs=4, failures=5)
    assert "2 nodes, 3 dispatches, 2 runs, 4 on the host's kernels, 5 failures, " in line(more)


def test_codes_of_refusals_are_in_the_json_and_not_in_the_text() -> None:
    node = NodeReport(0, "ADD", "sum", CPU)
    refused = node.placed(CPU, Refusal("dtype.unsupported", "It is complex."))
    others = node.placed(CPU, "A host of its own says so."), refused.placed(GPU)
    report = Report(None, (refused, *others))
    told = [(one["reason"], one["refusal_code"]) for one in json.loads(report.to_json())["nodes"]]
    assert told == [
        ("It is complex.", "dtype.unsupported"),
        ("A host of its own says so.", "other"),
        (None, None),
    ]
    assert type(refused.reason) is str and "dtype.unsupported" not in str(report)


def test_the_deprecated_name_of_partitions_is_kept() -> None:
    report = Report(None, partitions=(ONE,))
    found = json.loads(report.to_json())
    assert found["islands"] == found["partitions"] and found["partitions"][0]["number"] == 1
    assert report.islands == report.partitions
    assert with_old_keys([{"partition": 1}]) == [{"partition": 1, "island": 1}]


def test_a_notebook_shows_one_line_or_tables() -> None:
    """The repr is one line however many nodes there are. Texts of models are not markup."""
    adapter = AdapterReport("A <GPU>", "v", "d", "Vulkan", "discrete", False)
    away = NodeReport(1, "Add", "b", CPU, "It is <complex> & more.")
    nodes = (NodeReport(0, "Relu", "a", GPU), *[away] * 500)
    ran = replace(ONE, runs=3, host_runs=2, failures=1, milliseconds=1.5)
    report = Report(adapter, nodes, (ran,))
    assert repr(report) == "<Report: 1 of 501 nodes on the GPU in 1 partition, A <GPU> (Vulkan)>"
    page = report._repr_html_()
    assert page.startswith(
        "<p>1 of 501 nodes on the GPU in 1 partition, A &lt;GPU&gt; (Vulkan)</p>"
    )
    cells = "".join(f"<td>{cell}</td>" for cell in (1, 1, 1, 3, 2, 1, "1.50", "4,096", 8))
    assert f"<th>bytes of tensors</th></tr><tr>{cells}</tr></table>" in page
    why = "It is &lt;complex&gt; &amp; more."
    assert page.endswith(f"<tr><td>500</td><td>Add</td><td>{why}</td></tr></table>")
    assert page.count("<table>") == 2 and Report(None)._repr_html_().count("<table>") == 0
    assert "<td></td><td>4,096</td>" in Report(None, (), (ONE,))._repr_html_()  # no last run
