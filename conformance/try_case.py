"""Runs cases of a family and prints how they compare: `python -m conformance.try_case FAMILY [PART
OF A NAME]`.

`--direct` goes through a one-node graph instead of a host's interpreter; `--fail-fast` stops at the
first difference."""

from __future__ import annotations

import argparse
import os
import sys
import traceback

os.environ.setdefault("LP_NUM_THREADS", "0")

from conformance import check
from conformance.cases import Case
from tflgpu_plugin.ops import FAMILIES


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit status: 0 when every case is as it must be."""
    parser = argparse.ArgumentParser(prog="python -m conformance.try_case", description=__doc__)
    parser.add_argument("family")
    parser.add_argument("name", nargs="?", default="", help="only cases whose name holds this")
    parser.add_argument("--direct", action="store_true", help="a one-node graph, no interpreter")
    parser.add_argument("--host", default=None, help="tflite_runtime or ai_edge_litert")
    parser.add_argument("--fail-fast", action="store_true")
    parser.add_argument("--verbose", action="store_true", help="print tracebacks")
    chosen = parser.parse_args(arguments)
    if not chosen.direct and not check.delegate_works():
        print("the delegate cannot be loaded yet: running one-node graphs (--direct)")
        chosen.direct = True
    try:
        cases = [c for c in check.family_cases(chosen.family) if chosen.name in c.name]
    except ModuleNotFoundError:
        parser.error(f"no family {chosen.family} with cases; families: {', '.join(FAMILIES)}")
    failed = 0
    for case in cases:
        passed = _try(case, chosen)
        failed += not passed
        if failed and chosen.fail_fast:
            break
    print(f"{chosen.family}: {len(cases)} cases, {failed} failed")
    return 1 if failed or not cases else 0


def _try(case: Case, chosen: argparse.Namespace) -> bool:
    try:
        result = check.direct(case) if chosen.direct else check.through_host(case, chosen.host)
    except Exception as error:  # a broken kernel must not end the run
        if chosen.verbose:
            traceback.print_exc()
        result = check.Result(case, False, f"{type(error).__name__}: {error}")
    print(
        f"{'ok  ' if result.passed else 'FAIL'} {case.op:18s} {case.name:40s} {result.text}",
        flush=True,
    )
    return result.passed


if __name__ == "__main__":
    sys.exit(main())
