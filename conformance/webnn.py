"""WebNN's conformance data, as the rustnn project has it in JSON, through the provider.

    python -m conformance.webnn [FOLDER] [--filter TEXT] [--json FILE] [--show]

FOLDER is `tests/wpt_data/conformance` of a copy of github.com/rustnn/rustnn, else TFLGPU_WEBNN or
`../shared/webnn`. Cases become ONNX models (`webnn_models`) and are judged as ONNX's node tests
are, within the tolerances that web-platform-tests publishes for WebNN. NOT CONVERTED is what the
data or ONNX cannot express. BEYOND INT32 is a case with integers beyond those of the device:
onnxruntime's own kernels compute it or, where there are none, the run fails with a sentence.
TOO LARGE is one with more bytes than the adapter binds."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from conformance import onnx_node_tests as node_tests
from conformance.models.model_inputs import SHARED
from conformance.onnx_node_tests import Case, Outcome
from conformance.webnn_data import (
    Description,
    NotConvertible,
    constants_of,
    numbers,
    tolerance,
)
from conformance.webnn_models import model

FOLDER = Path(os.environ.get("TFLGPU_WEBNN") or SHARED / "webnn")
ABSENT = (
    "no WebNN data: name the folder tests/wpt_data/conformance of a copy of "
    "github.com/rustnn/rustnn with TFLGPU_WEBNN"
)
NOT_CONVERTED, BEYOND, TOO_LARGE = "NOT CONVERTED", "BEYOND INT32", "TOO LARGE"
VERDICTS = (*node_tests.VERDICTS, BEYOND, TOO_LARGE, NOT_CONVERTED)
# Of such a run, and of a constant.
SAID = (node_tests.ON_HOST.format(1), "beyond int32", "outside of the range of int32")
BINDS = "over this adapter's binding limit"


def cases(folder: Path, wanted: str = "") -> Iterator[Case | Outcome]:
    """Yields the cases whose name contains `wanted`, or the outcome of one that cannot be
    converted."""
    for path in sorted(folder.glob("*.json")):
        content = json.loads(path.read_text())
        for test in content["tests"]:
            name = f"{content['operation']}: {test['name']}"
            if wanted in name:
                yield _case(name, test["graph"])


def _case(name: str, graph: Description) -> Case | Outcome:
    try:
        made = model(graph)
        constants = constants_of(graph)
        values = {k: numbers(v) for k, v in graph["inputs"].items() if k not in constants}
        expected = [numbers(value) for value in graph["expectedOutputs"].values()]
    except NotConvertible as error:
        return Outcome(name, NOT_CONVERTED, 0, 0, str(error))
    absolute, units = tolerance(graph)
    return Case(name, made, [([*values.values()], expected)], 0.0, absolute, units)


def operator(case: str) -> str:
    """Returns the operator in a case's name."""
    return case.partition(":")[0]


def beyond(case: Case) -> bool:
    """Whether integers of the case are beyond those of the device, which are int32."""
    most = np.iinfo(np.int32)
    for inputs, outputs in case.sets:
        for value in (*inputs, *outputs):
            if value.dtype.kind in "iu" and value.size:
                if int(value.max()) > most.max or int(value.min()) < most.min:
                    return True
    return False


def run_case(case: Case | Outcome, **options: Any) -> Outcome:
    """Runs one case on a fresh session."""
    if isinstance(case, Outcome):
        return case
    found = node_tests.run_case(case, **options)
    said = any(text in found.reason for text in SAID)
    if found.verdict in ("FAIL", "UNCLAIMED") and said and beyond(case):
        return replace(found, verdict=BEYOND)
    if found.verdict == "UNCLAIMED" and BINDS in found.reason:
        return replace(found, verdict=TOO_LARGE)
    return found


def run(folder: Path, wanted: str = "", **options: Any) -> Iterator[Outcome]:
    """Yields the outcomes of all cases, one after the other."""
    import tflgpu_plugin

    tflgpu_plugin.register()
    for case in cases(folder, wanted):
        yield run_case(case, **options)


def table(outcomes: list[Outcome]) -> str:
    """Returns the number of cases of each operator with each verdict."""
    there = [verdict for verdict in VERDICTS if any(o.verdict == verdict for o in outcomes)]
    rows = [("operator", *there)]
    for name in dict.fromkeys(operator(one.case) for one in outcomes):
        own = [one.verdict for one in outcomes if operator(one.case) == name]
        rows.append((name, *(str(own.count(verdict) or "") for verdict in there)))
    wide = max(len(row[0]) for row in rows)
    return "\n".join(
        row[0].ljust(wide) + "".join(cell.rjust(len(head) + 2) for cell, head in
                                     zip(row[1:], there, strict=True)) for row in rows
    )  # fmt: skip


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER, help="the JSON files")
    node_tests.add_arguments(parser)
    chosen = parser.parse_args(given)
    if not any(chosen.folder.glob("*.json")):
        print(ABSENT)
        return 1
    outcomes = node_tests.shown(run(chosen.folder, chosen.filter), chosen)
    print(table(outcomes))
    print(node_tests.counted(outcomes, VERDICTS))
    return int(any(one.verdict == "FAIL" for one in outcomes))


if __name__ == "__main__":
    sys.exit(main())
