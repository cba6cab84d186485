"""`tflgpu check MODEL`: reports which nodes of a .tflite or .onnx model run on the GPU here, from a
real interpreter or session, without an inference."""

from __future__ import annotations

import json
import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO, Any, NamedTuple

import click

import tflgpu_plugin
from tflgpu_plugin import engine
from tflgpu_plugin.cli.advice import Advice, advise
from tflgpu_plugin.cli.shared import megabytes
from tflgpu_plugin.frontend.reports import (
    CPU,
    GPU,
    MemoryReport,
    NodeReport,
    PartitionReport,
    Report,
    many,
)
from tflgpu_plugin.harness import hosts, inputs, onnx, protobuf, subjects
from tflgpu_plugin.options import parse
from tflgpu_plugin.runtime import adapter
from tflgpu_plugin.runtime.device import AdapterInfo, feature_numbers

ASSUMED = "device.assumed"
CONSTANT = "Constant"  # a node that onnxruntime turns into an initializer
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
class Required:
    """How many nodes must run on the GPU: a number or a percentage, as in `text`."""

    text: str
    number: int
    percentage: bool

    @classmethod
    def read(cls, text: str) -> Required:
        """Returns what "all", a percentage or a number requires. Raises BadInput for others."""
        number = "100%" if text == "all" else text
        digits, percentage = number.removesuffix("%"), "%" in number
        most = 100 if percentage else 10**9
        if not digits.isdecimal() or len(digits) > 9 or int(digits) > most:
            raise inputs.BadInput(f"--require takes all, 90% or a number of nodes, not {text!r}.")
        return cls(text, int(digits), percentage)

    def of(self, total: int) -> int:
        """Returns the required number of nodes, of this many."""
        return -(-self.number * total // 100) if self.percentage else self.number


@dataclass(frozen=True)
class Check:
    """The model, the host, and the delegate's report."""

    model: str
    host: str
    report: Report
    problem: str = ""  # why the host cannot run the remaining nodes
    chosen_shapes: Mapping[str, list[int]] = field(default_factory=dict)  # of dynamic extents
    advice: tuple[Advice, ...] | None = None  # None unless it was asked for

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
        more = {"problem": self.problem, "chosen_shapes": dict(self.chosen_shapes)}
        if self.advice is not None:
            found["advice"] = [asdict(one) for one in self.advice]
        return found | {name: value for name, value in more.items() if value}

    def lacks(self, required: Required) -> str:
        """Returns a sentence if fewer nodes run on the GPU than required, else ""."""
        count, total = self.report.count(GPU), len(self.report.nodes)
        if count >= required.of(total):
            return ""
        return f"{count} of {total} nodes run on the GPU, and {required.text} must."


def check(
    path: Path,
    options: Mapping[str, str],
    host_name: str | None = None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    optimized: bool = True,
    advised: bool = False,
) -> Check:
    """Prepares the model with the delegate, or makes a session with the provider, and returns the
    report. With `shapes` of inputs, all dynamic extents are fixed; `optimized`: with onnxruntime's
    own optimizations; `advised`: with advice for the model.

    Raises NoHost, BadInput, OptionError, NoAdapter, or what the host raises for a damaged model."""
    if not advised:
        return _checked(path, options, host_name, shapes, optimized)
    with engine.watch() as built:
        found = _checked(path, options, host_name, shapes, optimized)
        return replace(found, advice=tuple(advise(built, found.report)))


def _checked(
    path: Path,
    options: Mapping[str, str],
    host_name: str | None,
    shapes: Mapping[str, tuple[int, ...]] | None,
    optimized: bool,
) -> Check:
    given, chosen = inputs.Given(shapes=shapes or {}), dict[str, list[int]]()
    if subjects.is_onnx(path, host_name):
        onnx_model = onnx.read(path)
        engine.judge(parse(options))
        if shapes:
            fixed_onnx = subjects.opened_onnx(path, given).fixed()
            onnx_model, chosen = fixed_onnx.model, dict(fixed_onnx.chosen_shapes)
        with _quiet():
            report = onnx.report(onnx.session(onnx_model, options, optimized))
        return Check(path.name, onnx.host(), on_assumed(report), "", chosen)
    host, problem = hosts.host(host_name), ""
    model = inputs.model(path)
    engine.judge(parse(options))
    if shapes:
        fixed = subjects.opened_tflite(path, host_name, given).fixed()
        model, chosen = fixed.content, dict(fixed.chosen_shapes)
    with _quiet():
        delegate = host.delegate(options)
        interpreter = host.made(model, experimental_delegates=[delegate])
        try:
            host.allocate(interpreter)
        except hosts.Lacking as lacking:
            problem = str(lacking)
        report = tflgpu_plugin.report(delegate)
    del interpreter
    return Check(path.name, host.title, on_assumed(report), problem, chosen)


def assumed(text: str) -> AdapterInfo:
    """Returns the adapter to assume: "default" has what every WebGPU adapter has; a file is the
    output of `tflgpu info --json`, or one of the adapters in it. Raises BadInput."""
    if text == "default":
        name = "WebGPU's default limits"
        return AdapterInfo(name, "unknown", "", "Vulkan", "other", 0, 0, assumed=True)
    content = inputs.content(Path(text), "file of limits")
    try:
        found = json.loads(content)
        one = found["adapters"][0] if "adapters" in found else found
        name, vendor, driver, backend, kind = (
            str(one[key]) for key in ("name", "vendor", "driver", "backend", "kind")
        )
        limits = tuple((str(key), int(value)) for key, value in one["limits"].items())
        features = tuple(key for key in one["features"] if key in feature_numbers())
    except KeyError as error:
        raise inputs.BadInput(
            f"{text} has no adapter as `tflgpu info --json` prints it (it has no {error.args[0]})."
        ) from error
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise inputs.BadInput(
            f"{text} has no adapter as `tflgpu info --json` prints it ({inputs.one_line(error)})."
        ) from error
    return AdapterInfo(name, vendor, driver, backend, kind, 0, 0, features, limits, assumed=True)


def on(limits: str | None) -> AbstractContextManager[None]:
    """Returns a context with an assumed adapter, if one is named. Raises BadInput."""
    return nullcontext() if limits is None else adapter.assumed(assumed(limits))


def on_assumed(report: Report) -> Report:
    """Returns the report as it would be if nodes had been claimed for an assumed adapter."""
    groups: dict[tuple[int, str], list[int]] = {}
    for node in report.nodes:
        if node.refusal_code == ASSUMED:
            groups.setdefault((node.graph, node.reason or ""), []).append(node.id)
    if not groups:
        return report
    partitions = [
        PartitionReport(k, tuple(ids), False, 0, 0, 0, 0, 0, 0, 0.0, 0, 0, MemoryReport(), graph)
        for k, ((graph, _), ids) in enumerate(groups.items(), 1)
    ]
    nodes = (n.placed(GPU) if n.refusal_code == ASSUMED else n for n in report.nodes)
    return replace(report, nodes=tuple(nodes), partitions=tuple(partitions))


def annotated(path: Path, report: Report) -> bytes:
    """Returns a copy of an ONNX model with the placement of each node of its graph as metadata.
    Raises BadInput for a report of other nodes (onnxruntime's optimizations change the graph)."""
    model = inputs.content(path)
    numbers = {(p.graph, n): p.number for p in report.partitions for n in p.nodes}
    operators = protobuf.operators(model)
    wanted = [name for name in operators if name != CONSTANT]
    for graph in {node.graph for node in report.nodes}:
        nodes = sorted((one for one in report.nodes if one.graph == graph), key=lambda one: one.id)
        if [one.op.rpartition(".")[2] for one in nodes] == wanted:
            rest = iter(nodes)
            notes = [{} if name == CONSTANT else _note(next(rest), numbers) for name in operators]
            return protobuf.with_notes(model, notes)
    said = f"{onnx.HOST} replaces nodes of {path} by others, so that it cannot be annotated."
    raise inputs.BadInput(said)


def _note(node: NodeReport, numbers: Mapping[tuple[int, int], int]) -> dict[str, str]:
    if node.where != GPU:
        return {"tflgpu": "CPU", "tflgpu reason": node.reason or ""}
    number = numbers.get((node.graph, node.id))
    return {"tflgpu": "GPU" if number is None else f"GPU, partition {number}"}


def lines(found: Check) -> list[str]:
    """Returns the report as lines for a reader."""
    report = found.report
    text = [f"{found.model} in {found.host}"]
    if sentence := inputs.shapes_sentence(found.chosen_shapes):
        text.append(sentence)
    if report.adapter:
        text.append(
            f"adapter: {report.adapter.name}, {report.adapter.backend}, {report.adapter.kind}"
        )
    count, partitions = report.count(GPU), many(len(report.partitions), "partition")
    text.append(f"{count} of {len(report.nodes)} nodes run on the GPU, in {partitions}")
    for one in report.partitions:
        if report.adapter and report.adapter.assumed:  # nothing was built
            text.append(f"  partition {one.number}: {many(len(one.nodes), 'node')}")
            continue
        sizes = f"weights {megabytes(one.weight_bytes)}, tensors {megabytes(one.pool_bytes)}"
        text.append(f"  partition {one.number}: {many(len(one.nodes), 'node')}, {sizes}")
    if count < len(report.nodes):
        text.append("The rest stays on the CPU:")
    for operator, _, reason, nodes in found.reasons:
        text.append(f"  {operator} ({many(nodes, 'node')}): {reason}")
    if found.advice is not None:
        text.append("Advice:" if found.advice else "No advice: the model suits GPUs as it is.")
        text += [f"  {one.line()}" for one in found.advice]
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
