"""`tflgpu check MODEL`: reports which nodes of a .tflite or .onnx model run on the GPU here, from a
real interpreter or session, without an inference."""

from __future__ import annotations

import json
import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

import click

import tflgpu_plugin
from tflgpu_plugin import engine
from tflgpu_plugin.cli.shared import megabytes
from tflgpu_plugin.frontend.reports import CPU, GPU, Report, many
from tflgpu_plugin.harness import hosts, inputs, onnx, subjects
from tflgpu_plugin.options import parse

# Prefixes of lines about options, not about the model.
ABOUT_OPTIONS = ("WARNING: tflgpu: the option ", "tflgpu: nothing can be stored in ")


class Reason(NamedTuple):
    """The reason why nodes of an operator stay on the CPU: a code, a sentence, and the number of
    nodes."""

    operator: str
    refusal_code: str
    reason: str
    nodes: int


@dataclass(frozen=True)
class Check:
    """The model, the host, and the delegate's report."""

    model: str
    host: str
    report: Report
    problem: str = ""  # why the host cannot run the remaining nodes

    @property
    def reasons(self) -> list[Reason]:
        """Returns the reasons of nodes on the CPU, the most frequent first."""
        away = (node for node in self.report.nodes if node.where == CPU)
        counted = Counter((n.op, n.refusal_code or "", n.reason or "") for n in away)
        return [Reason(*reason, count) for reason, count in counted.most_common()]

    def as_json(self) -> dict[str, Any]:
        reasons = [one._asdict() for one in self.reasons]
        report: dict[str, Any] = json.loads(self.report.to_json())
        found = {"model": self.model, "host": self.host, "reasons": reasons, "report": report}
        return found | ({"problem": self.problem} if self.problem else {})


def check(path: Path, options: Mapping[str, str], host_name: str | None = None) -> Check:
    """Prepares the model with the delegate, or makes a session with the provider, and returns the
    report.

    Raises NoHost, BadInput, OptionError, NoAdapter, or what the host raises for a damaged model."""
    if subjects.is_onnx(path, host_name):
        onnx_model = onnx.read(path)
        engine.judge(parse(options))
        with _quiet():
            report = onnx.report(onnx.session(onnx_model, options))
        return Check(path.name, onnx.host(), report)
    host, problem = hosts.host(host_name), ""
    model = inputs.model(path)
    engine.judge(parse(options))
    with _quiet():
        delegate = host.delegate(options)
        interpreter = host.made(model, experimental_delegates=[delegate])
        try:
            host.allocate(interpreter)
        except hosts.Lacking as lacking:
            problem = str(lacking)
        report = tflgpu_plugin.report(delegate)
    del interpreter
    return Check(path.name, host.title, report, problem)


def lines(found: Check) -> list[str]:
    """Returns the report as lines for a reader."""
    report = found.report
    text = [f"{found.model} in {found.host}"]
    if report.adapter:
        text.append(
            f"adapter: {report.adapter.name}, {report.adapter.backend}, {report.adapter.kind}"
        )
    count, partitions = report.count(GPU), many(len(report.partitions), "partition")
    text.append(f"{count} of {len(report.nodes)} nodes run on the GPU, in {partitions}")
    for one in report.partitions:
        sizes = f"weights {megabytes(one.weight_bytes)}, tensors {megabytes(one.pool_bytes)}"
        text.append(f"  partition {one.number}: {many(len(one.nodes), 'node')}, {sizes}")
    if count < len(report.nodes):
        text.append("The rest stays on the CPU:")
    for operator, _, reason, nodes in found.reasons:
        text.append(f"  {operator} ({many(nodes, 'node')}): {reason}")
    return [*text, found.problem] if found.problem else text


@contextmanager
def _quiet() -> Iterator[None]:
    """Captures native stderr during the check, since the refusals are in the report. Lines about
    options are written afterwards."""
    try:
        kept = os.dup(2)
    except OSError:  # there is none
        yield
        return
    with _sink() as sink:
        os.dup2(sink.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            sink.seek(0)
            for line in sink.read().decode(errors="replace").splitlines():
                if line.startswith(ABOUT_OPTIONS):
                    click.echo(line, err=True)


def _sink() -> IO[bytes]:
    """Returns a file that is deleted when it is closed; one that discards its data where none can
    be made."""
    try:
        return tempfile.TemporaryFile()
    except OSError:
        return open(os.devnull, "w+b")
