"""Tests the lines of a report as text."""

from __future__ import annotations

import json
from dataclasses import replace

from tflgpu_plugin.frontend.reports import (
    CPU,
    GPU,
    NodeReport,
    PartitionReport,
    Report,
    with_old_keys,
)
from tflgpu_plugin.ir import Refusal

ONE = PartitionReport(
    number=1, nodes=(0,), live=True, runs=0, host_runs=0, failures=0, uploaded_bytes=0,
    downloaded_bytes=0, device_inputs=0, milliseconds=0.0, weight_bytes=4096, pool_bytes=8,
    tensor_bytes=16, least_bytes=8, dispatches=1,
)  # fmt: skip


def line(partition: PartitionReport) -> str:
    return str(Report(None, partitions=(partition,))).splitlines()[1].strip()


def test_nothing_is_told_of_a_run_that_has_not_been() -> None:
    assert line(ONE) == (
        "partition 1: 1 node, 1 dispatch, 0 runs, 4,096 bytes of weights, 8 of tensors "
        "(16 without sharing, 8 at least), 0 sent, 0 fetched"
    )


def test_one_and_several() -> None:
    once = replace(ONE, runs=1, milliseconds=1.5, failures=1, live=False)
    assert "1 run, 1 failure, last 1.50 ms, " in line(once)
    assert line(once).endswith(", no longer in use")
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
