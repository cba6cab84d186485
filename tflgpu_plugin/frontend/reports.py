"""The report of the nodes that were claimed, refused or given back to the host, and of their runs:
plain data for `report()`, as text or JSON.

Counters come from native code, so that "ran on the GPU" means that it did."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, astuple, dataclass, field, fields, replace
from html import escape
from typing import Any

from tflgpu_plugin.frontend.callers import PerCaller
from tflgpu_plugin.ir import code_of

GPU, CPU, REVERTED = "gpu", "cpu", "reverted"
OLD_KEYS = {"islands": "partitions", "island": "partition"}  # of JSON, for one more version


@dataclass(frozen=True)
class AdapterReport:
    """The adapter that partitions run on; `kind` is discrete, integrated, software or other.
    `index` is that of `tflgpu info`, which distinguishes adapters of equal names. `assumed`: it is
    not here; `tflgpu check --assume-limits` reports what would run on it."""

    name: str
    vendor: str
    driver: str
    backend: str
    kind: str
    software: bool
    index: int = 0
    assumed: bool = False


@dataclass(frozen=True)
class NodeReport:
    """One node of the host's graph. `where` is gpu, cpu, or reverted: the node was claimed, but the
    host has taken it back or has been closed. `reason` is the sentence for a node that is not on
    the GPU, `refusal_code` its code (`ir.refusal.CODES`). `graph` counts the host's subgraphs;
    `code` is the host's number of the operator."""

    id: int
    op: str
    name: str
    where: str
    reason: str | None = None
    graph: int = 0
    code: int | None = None
    refusal_code: str | None = None

    def placed(self, where: str, reason: str | None = None) -> NodeReport:
        """Returns a copy of the node with this place, and a reason where that is not the GPU."""
        code = None if reason is None else code_of(reason)
        sentence = None if reason is None else str(reason)
        return replace(self, where=where, reason=sentence, refusal_code=code)


@dataclass(frozen=True)
class MemoryReport:
    """Bytes of buffers on the device: packed weights, pools for tensors between kernels, inputs,
    outputs and variables (`ports`), the parameters of kernels (`uniforms`), buffers through which
    the host reads and writes others (`staging`), and `tensors` that the host keeps on the GPU.
    Weights that several partitions or sessions share are there, and counted, once."""

    weights: int = 0
    pools: int = 0
    ports: int = 0
    uniforms: int = 0
    staging: int = 0
    tensors: int = 0

    @property
    def total(self) -> int:
        """Returns the sum."""
        return sum(astuple(self))

    def __str__(self) -> str:
        parts = [f"{name} {size:,}" for name, size in asdict(self).items() if size]
        return f"{self.total:,} bytes on the GPU" + (f" ({', '.join(parts)})" if parts else "")


class _OnDevice:
    """A report with device memory."""

    memory: MemoryReport

    @property
    def weight_bytes(self) -> int:
        """Returns the bytes of weights on the device, also of those shared with others."""
        return self.memory.weights

    @property
    def pool_bytes(self) -> int:
        """Returns the bytes of the pools for tensors between kernels."""
        return self.memory.pools


@dataclass(frozen=True)
class PartitionReport(_OnDevice):
    """A partition: nodes that run as one step. They are numbered from 1 in the order in which they
    run; `key` identifies the partition in the process. Bytes and runs are counted since it was
    created: `runs` on the GPU, `host_runs` on the host's own kernels where the GPU could not,
    `failures` that gave no result; `failure` says why the last of these gave none. `milliseconds`
    is the wall time of its last run on the GPU, with that of reading its results on the host, for
    which a run need not wait (none has read those that stay on the GPU); `device_inputs` counts
    inputs that came from another partition without leaving the device. `memory` is what its plans
    hold on the device; of its first plan, `tensor_bytes` are what the tensors in the pools would
    need without sharing, `least_bytes` what any way of sharing needs, `dispatches` how many kernels
    a run launches, `kernels` the names of its pipelines: equal names are the same WGSL."""

    number: int
    nodes: tuple[int, ...]
    live: bool
    runs: int
    host_runs: int
    failures: int
    uploaded_bytes: int
    downloaded_bytes: int
    device_inputs: int
    milliseconds: float
    tensor_bytes: int
    least_bytes: int
    memory: MemoryReport
    graph: int = 0
    kernels: tuple[str, ...] = ()
    dispatches: int = 0
    failure: str = ""
    key: int = field(default=0, repr=False)


@dataclass(frozen=True)
class TensorReport:
    """Tensors that the host keeps on the GPU, of all sessions of the process: `bytes` are in use,
    `kept_bytes` are free and kept for reuse; `device_bytes` are the GPU buffers of both.
    `uploaded_bytes` and `downloaded_bytes` have moved between the host and the GPU outside of runs.
    """

    bytes: int
    most_bytes: int
    kept_bytes: int
    device_bytes: int
    uploaded_bytes: int
    downloaded_bytes: int

    def __str__(self) -> str:
        return (
            f"  tensors of all sessions: {self.bytes:,} bytes in use, {self.kept_bytes:,} kept for "
            f"reuse, {self.device_bytes:,} in GPU buffers, {self.uploaded_bytes:,} sent, "
            f"{self.downloaded_bytes:,} fetched"
        )


@dataclass(frozen=True, repr=False)
class Report(_OnDevice):
    """The report of one delegate or session. `tensors` is None unless the host can keep tensors on
    the GPU. `memory` is the device memory of its partitions, `process_memory` that of the whole
    process."""

    adapter: AdapterReport | None
    nodes: tuple[NodeReport, ...] = ()
    partitions: tuple[PartitionReport, ...] = ()
    memory: MemoryReport = MemoryReport()
    process_memory: MemoryReport = MemoryReport()
    tensors: TensorReport | None = None

    def count(self, where: str) -> int:
        """Returns how many nodes have this place: gpu, cpu or reverted."""
        return sum(node.where == where for node in self.nodes)

    @property
    def runs(self) -> int:
        """Returns how many partition runs succeeded, over all partitions."""
        return sum(partition.runs for partition in self.partitions)

    @property
    def host_runs(self) -> int:
        """Returns how many partition runs used the host's own kernels, where the GPU could not run
        them."""
        return sum(partition.host_runs for partition in self.partitions)

    @property
    def islands(self) -> tuple[PartitionReport, ...]:
        """Returns `partitions` (deprecated name, removed in the next version)."""
        return self.partitions

    def to_json(self) -> str:
        """Returns the report as a JSON object, totals included."""
        totals = {name: self.count(name) for name in (GPU, CPU, REVERTED)}
        memory = _sizes(self)
        partitions = [asdict(partition) | _sizes(partition) for partition in self.partitions]
        for partition in partitions:
            del partition["key"]
        found = asdict(self) | {"partitions": partitions, "totals": totals} | memory
        return json.dumps(with_old_keys(found), indent=2)

    def __repr__(self) -> str:
        return f"<Report: {self._summary()}>"

    def _repr_html_(self) -> str:
        """Returns the report as a notebook shows it: tables of the partitions, and of the reasons
        for nodes on the CPU."""
        partitions = _html(PARTITION_HEAD, map(_partition_cells, self.partitions))
        reasons = _html(("nodes", "operator", "on the CPU because"), self._reasons())
        return f"<p>{escape(self._summary())}</p>{partitions}{reasons}"

    def __str__(self) -> str:
        tensors = [str(self.tensors)] if self.tensors and self.tensors.bytes else []
        lines = [self._summary(), *map(_partition_line, self.partitions), self._memory()]
        reasons = [f"  on the CPU: {n} x {op}: {reason}" for n, op, reason in self._reasons()]
        return "\n".join([*lines, *tensors, *reasons])

    def _memory(self) -> str:
        return f"  memory: {self.memory}; the process has {self.process_memory.total:,}"

    def _summary(self) -> str:
        adapter = (
            f"{self.adapter.name} ({self.adapter.backend})" if self.adapter else "no adapter yet"
        )
        live = sum(partition.live for partition in self.partitions)
        partitions = "1 partition" if live == 1 else f"{live} partitions"
        text = f"{self.count(GPU)} of {len(self.nodes)} nodes on the GPU in {partitions}, {adapter}"
        reverted = self.count(REVERTED)
        return f"{text}; {reverted} taken back by the host or closed with it" if reverted else text

    def _reasons(self) -> list[tuple[int, str, str | None]]:
        """Returns how many nodes of each operator are on the CPU for each reason."""
        counted = Counter((n.op, n.reason) for n in self.nodes if n.where == CPU)
        return [(count, op, reason) for (op, reason), count in counted.items()]


def _sizes(one: Report | PartitionReport) -> dict[str, int]:
    return {"weight_bytes": one.weight_bytes, "pool_bytes": one.pool_bytes}


def _partition_line(one: PartitionReport) -> str:
    state = "" if one.live else ", no longer in use"
    elsewhere = f", {one.host_runs} on the host's kernels" if one.host_runs else ""
    failures = f", {many(one.failures, 'failure')}" if one.failures else ""
    failures += f" ({one.failure})" if one.failure else ""
    last = f", last {one.milliseconds:.2f} ms" if one.runs else ""
    return (
        f"  partition {one.number}: {many(len(one.nodes), 'node')}, "
        f"{many(one.dispatches, 'dispatch', 'dispatches')}, "
        f"{many(one.runs, 'run')}{elsewhere}{failures}{last}, "
        f"{one.weight_bytes:,} bytes of weights, {one.pool_bytes:,} of tensors "
        f"({one.tensor_bytes:,} without sharing, {one.least_bytes:,} at least), "
        f"{one.uploaded_bytes:,} sent, {one.downloaded_bytes:,} fetched{state}"
    )


PARTITION_HEAD = (
    "partition", "nodes", "dispatches", "runs", "runs on the host's kernels", "failures", "last ms",
    "bytes of weights", "bytes of tensors",
)  # fmt: skip


def _partition_cells(one: PartitionReport) -> tuple[object, ...]:
    counted = one.number, len(one.nodes), one.dispatches, one.runs, one.host_runs, one.failures
    last = f"{one.milliseconds:.2f}" if one.runs else ""
    return *counted, last, f"{one.weight_bytes:,}", f"{one.pool_bytes:,}"


def _html(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Returns a table, or nothing where it has no rows."""

    def line(tag: str, cells: Iterable[object]) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(str(c))}</{tag}>" for c in cells) + "</tr>"

    body = "".join(line("td", row) for row in rows)
    return f"<table>{line('th', head)}{body}</table>" if body else ""


def of_adapter(info: Any) -> AdapterReport:
    """Returns the fields of a report from the description of an adapter."""
    return AdapterReport(**{each.name: getattr(info, each.name) for each in fields(AdapterReport)})


def many(count: int, one: str, more: str = "") -> str:
    return f"{count} {one if count == 1 else more or one + 's'}"


_newest: PerCaller[Callable[[], Report]] = PerCaller()


def with_old_keys(found: Any) -> Any:
    """Returns JSON data with the keys `islands` and `island` beside `partitions` and `partition`:
    deprecated names, removed in the next version."""
    if isinstance(found, dict):
        seen = {key: with_old_keys(value) for key, value in found.items()}
        return seen | {old: seen[new] for old, new in OLD_KEYS.items() if new in seen}
    return [with_old_keys(one) for one in found] if isinstance(found, list | tuple) else found


def remember(source: Callable[[], Report]) -> None:
    """Sets `source` as the function that returns the report of the graph that this thread last gave
    to any frontend."""
    _newest.set(source)


def newest() -> Report | None:
    """Returns the present report of the graph that this thread last gave to any frontend, or None
    without such a graph."""
    source = _newest.get()
    return source() if source else None
