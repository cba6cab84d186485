"""What of the models in a folder runs on the GPU, and how far it is from the host's CPU kernels:

    python -m conformance.exported FOLDER [--only TEXT] [--reasons]

Models are run as users run them: default options, full optimization of the graph.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tflgpu_plugin
from conformance.host import Outputs
from conformance.test_graph_cases import worst
from tflgpu_plugin.frontend.reports import GPU, Report
from tflgpu_plugin.harness import hosts, onnx
from tflgpu_plugin.harness.compare import FASTEST

BITS = 1000.0  # times the tolerance: a step of 8 bits is 0.4 % of a range, and sums have several
ARITHMETIC = "Shape arithmetic"  # begins the reason of nodes that hold shapes, not values


@dataclass(frozen=True)
class Found:
    """One model: nodes that hold values, those on the GPU, partitions, the worst error as a share
    of the tolerance, and why nodes stay, by operator and sentence."""

    name: str
    nodes: int
    taken: int
    partitions: int
    share: float
    where: str
    reasons: Mapping[str, int]

    @property
    def route(self) -> str:
        """The exporter and what came after it."""
        parts = self.name.split(".")
        return ".".join([self.name.split("_")[0], *parts[1:-1]])


def fed(model: Path) -> dict[str, Any]:
    """The inputs that the exporter left beside the model, or beside that which it was made of."""
    named = (model.with_suffix(".npz"), model.with_name(model.name.split(".")[0] + ".npz"))
    return dict(np.load(next(path for path in named if path.exists())))


def on_onnxruntime(model: Path) -> tuple[Report, Outputs, Outputs]:
    """The report, and what the CPU provider and ours make of the inputs. Raises what onnxruntime
    raises."""
    file, inputs = onnx.read(model), fed(model)
    host, ours = onnx.session(file), onnx.session(file, {})
    names = {one.name for one in host.get_inputs()}
    given = {name: array for name, array in inputs.items() if name in names}
    expected, made = ([np.asarray(a) for a in s.run(None, given)] for s in (host, ours))
    return onnx.report(ours), expected, made


class HostRefuses(Exception):
    """The host does not run this model without us either; the text is its own."""


def on_tflite(model: Path) -> tuple[Report, Outputs, Outputs]:
    """The same with the newer TFLite host, as converters write for that. Raises what it raises, and
    HostRefuses."""
    runner, content = hosts.host(next(reversed(hosts.installed()))), model.read_bytes()
    inputs = fed(model)
    delegate = runner.delegate({})
    made = []
    for delegates in ([], [delegate]):
        try:
            interpreter = runner.interpreter(content, FASTEST, experimental_delegates=delegates)
        except (RuntimeError, ValueError) as error:
            raise error if delegates else HostRefuses(str(error)) from error
        given = [inputs[str(detail["name"])] for detail in interpreter.get_input_details()]
        made.append(hosts.invoked(interpreter, given))
    return tflgpu_plugin.report(delegate), made[0], made[1]


def judged(model: Path) -> Found:
    """The model on the host's CPU kernels and on ours. Raises what the host raises."""
    report, expected, made = (on_tflite if model.suffix == ".tflite" else on_onnxruntime)(model)
    nodes = [n for n in report.nodes if not (n.reason or "").startswith(ARITHMETIC)]
    reasons = Counter(f"{n.op}: {n.reason}" for n in nodes if n.where != GPU)
    taken = sum(n.where == GPU for n in nodes)
    share, where = worst([expected], [made])
    share /= BITS if any(few in model.name for few in (".int8", ".int4")) else 1.0
    return Found(model.name, len(nodes), taken, len(report.islands), share, where, reasons)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="models whose name contains this")
    parser.add_argument("--reasons", action="store_true", help="why nodes stay on the CPU")
    given = parser.parse_args()
    found, failed = [], 0
    for path in sorted(given.folder.iterdir()):
        if path.suffix not in (".onnx", ".tflite") or given.only not in path.name:
            continue
        try:
            one = judged(path)
        except HostRefuses as error:
            print(f"{path.name:40} the host alone does not run it: {str(error)[:120]}")
            continue
        except Exception as error:  # of the host or ours: the table goes on
            failed += 1
            print(f"{path.name:40} {type(error).__name__}: {str(error).splitlines()[0][:150]}")
            continue
        found.append(one)
        wrong = "" if one.share <= 1 else f"  WRONG {one.where}"
        print(f"{one.name:40} {one.taken:4} of {one.nodes:4} nodes, {one.partitions:2} partitions, "
              f"{one.share:.3f} of tolerance{wrong}", flush=True)  # fmt: skip
    for route in dict.fromkeys(one.route for one in found):
        some = [one for one in found if one.route == route]
        taken, nodes = sum(one.taken for one in some), sum(one.nodes for one in some)
        print(f"{route:20} {len(some):3} models, {taken} of {nodes} nodes ({taken / nodes:.1%})")
    if given.reasons:
        for reason, count in sum((Counter(one.reasons) for one in found), Counter()).most_common():
            print(f"{count:5} {reason}")
    return int(failed > 0 or any(not one.share <= 1 for one in found))


if __name__ == "__main__":
    sys.exit(main())
