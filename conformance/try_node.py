"""Runs node cases of a family and prints what is wrong: `python -m conformance.try_node FAMILY
[PART OF AN OP OR NAME]`."""

from __future__ import annotations

import os
import sys
import traceback

os.environ.setdefault("LP_NUM_THREADS", "0")
os.environ.setdefault("TFLGPU_FILL_NAN", "1")

from conformance import node_cases
from conformance.test_variants import variant_targets


def main(arguments: list[str]) -> int:
    """Returns the exit status: 0 when every case is as it must be."""
    family, part = arguments[0], (arguments[1] if len(arguments) > 1 else "")
    targets = variant_targets(None)
    cases = [c for c in node_cases.family_nodes(family) if part in f"{c.op} {c.name}"]
    failed = 0
    for case in cases:
        try:
            sentence = node_cases.check(case, targets)
        except Exception as error:  # a broken kernel must not end the run
            traceback.print_exc()
            sentence = f"{type(error).__name__}: {error}"
        if sentence:
            failed += 1
            print(f"FAIL {case.op:18s} {case.name:32s} {sentence}", flush=True)
    print(f"{family}: {len(cases)} node cases, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
