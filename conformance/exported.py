"""Runs the models of a folder, and compares what runs on the GPU with the host's CPU kernels:

    python -m conformance.exported FOLDER [--only TEXT] [--reasons] [--record]

Models are run as users run them: default options, full optimization of the graph. Exit status 1
where a model is worse than `expect/exported.json` has it, or is there and not in the folder;
`--record` writes the results into that file instead."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import tflgpu_plugin
from conformance import exported_inputs, exported_table
from conformance.exported_table import REFUSED, RIGHT, WRONG, Row
from conformance.host import Outputs
from conformance.test_graph_cases import worst
from tflgpu_plugin.frontend.reports import GPU, Report
from tflgpu_plugin.harness import hosts, onnx, onnx_values
from tflgpu_plugin.harness.compare import FASTEST

BITS = 1000.0  # times the tolerance: a step of 8 bits is 0.4 % of a range, and sums have several
ARITHMETIC = "Shape arithmetic"  # begins the reason of nodes that hold shapes, not values


@dataclass(frozen=True)
class Found:
    """A model's row of the table, its worst error relative to the tolerance and where, and why
    nodes stay on the CPU, by operator and sentence."""

    name: str
    row: Row
    text: str
    reasons: Mapping[str, int]

    @property
    def route(self) -> str:
        """Returns the exporter and the conversions after it."""
        parts = self.name.split(".")
        return ".".join([self.name.split("_")[0], *parts[1:-1]])


class HostRefuses(Exception):
    """The host does not run this model without the plugin either; the text is the host's."""


Runs = tuple[Report, list[Outputs], list[Outputs]]  # the host's outputs, and ours


def on_onnxruntime(model: Path) -> Runs:
    """Returns the report, and the outputs of the CPU provider and ours for all inputs in turn.
    Raises what onnxruntime raises, and HostRefuses."""
    file, feeds = onnx.read(model), exported_inputs.feeds(model)
    try:
        host = onnx.session(file)
        names = {one.name for one in host.get_inputs()}
        feeds = [{name: a for name, a in given.items() if name in names} for given in feeds]
        expected = [onnx_values.numbers(host.run(None, given)) for given in feeds]
    except Exception as error:  # onnxruntime's exceptions have no common class
        raise HostRefuses(str(error)) from error
    ours = onnx.session(file, {})
    made = [onnx_values.numbers(ours.run(None, given)) for given in feeds]
    return onnx.report(ours), expected, made


def on_tflite(model: Path) -> Runs:
    """Does the same with the newer TFLite host, for which converters write. Raises what `on_tflite`
    raises, and HostRefuses."""
    runner, content = hosts.host(next(reversed(hosts.installed()))), model.read_bytes()
    feeds = exported_inputs.feeds(model)
    delegate = runner.delegate({})
    runs = []
    for delegates in ([], [delegate]):
        try:
            interpreter = runner.interpreter(content, FASTEST, experimental_delegates=delegates)
        except (RuntimeError, ValueError) as error:
            raise error if delegates else HostRefuses(str(error)) from error
        names = [str(detail["name"]) for detail in interpreter.get_input_details()]
        runs.append([hosts.invoked(interpreter, [given[n] for n in names]) for given in feeds])
    return tflgpu_plugin.report(delegate), runs[0], runs[1]


def judged(model: Path) -> Found:
    """Returns the model's row after running it on the host's CPU kernels and on ours. An error of
    its session or run is the state of its row."""
    try:
        report, expected, made = (on_tflite if model.suffix == ".tflite" else on_onnxruntime)(model)
    except HostRefuses as error:
        return Found(model.name, Row(state=REFUSED), _line(error), {})
    except Exception as error:  # of the host or ours: the table goes on
        row = Row(state=f"{type(error).__name__}: {_line(error)}")
        return Found(model.name, row, "", {})
    nodes = [n for n in report.nodes if not (n.reason or "").startswith(ARITHMETIC)]
    reasons = Counter(f"{n.op}: {n.reason}" for n in nodes if n.where != GPU)
    share, where = worst(expected, made)
    share /= BITS if any(few in model.name for few in (".int8", ".int4")) else 1.0
    row = Row(
        nodes=len(nodes),
        gpu=sum(n.where == GPU for n in nodes),
        partitions=len(report.partitions),
        on_host=report.host_runs,
        state=RIGHT if share <= 1 else WRONG,
    )
    text = f"{share:.3f} of tolerance" + (f", {where}" if share > 1 else "")
    return Found(model.name, row, text, reasons)


def _line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:150]


def _by_route(found: Sequence[Found]) -> None:
    for route in dict.fromkeys(one.route for one in found):
        some = [one.row for one in found if one.route == route and one.row.nodes]
        gpu, nodes = sum(row.gpu for row in some), sum(row.nodes for row in some)
        if some:
            print(f"{route:20} {len(some):3} models, {gpu} of {nodes} nodes ({gpu / nodes:.1%})")


def _compared(rows: Mapping[str, Row], only: str, file: Path, record: bool) -> int:
    """Compares the table and returns the exit status; `only` selects models whose names contain
    it."""
    recorded = exported_table.read(file)
    if record:
        others = {name: row for name, row in recorded.items() if only not in name}
        exported_table.write(others | dict(rows), file)
        print(f"Recorded in {file}.")
        return 0
    asked = {name: row for name, row in recorded.items() if only in name}
    comparison = exported_table.compared(asked, rows)
    print(comparison)
    return int(bool(comparison.worse))


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="models whose name contains this")
    parser.add_argument("--reasons", action="store_true", help="why nodes stay on the CPU")
    parser.add_argument("--record", action="store_true", help="keep what is found as the table")
    parser.add_argument("--table", type=Path, default=exported_table.FILE, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    found = []
    for path in sorted(given.folder.iterdir()):
        if path.suffix not in (".onnx", ".tflite") or given.only not in path.name:
            continue
        one = judged(path)
        found.append(one)
        print(f"{one.name:40} {one.row}; {one.text}", flush=True)
    _by_route(found)
    if given.reasons:
        for reason, count in sum((Counter(one.reasons) for one in found), Counter()).most_common():
            print(f"{count:5} {reason}")
    return _compared({one.name: one.row for one in found}, given.only, given.table, given.record)


if __name__ == "__main__":
    sys.exit(main())
