"""Compares the plans of all conformance cases before and after a change of ops or of the compiler.

    cd CHECKOUT && .venv/bin/python .../tools/plans.py record before.json [FAMILY ...]
    python tools/plans.py compare before.json after.json

`record` runs the code of the folder that it is started in, so one copy of this file serves two
checkouts. A plan counts by its launches, uniforms, weights, buffers and ports; the text of its
kernels and the names of forms do not. `compare` prints each difference and exits with 1 if there
are any.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any

Plans = dict[str, dict[str, dict[str, str]]]  # digest or refusal by family, case and target
FORM = re.compile(r", form='?\w*'?(?=[,)])")  # in the text of a dispatch


def digest(plan: Any) -> str:
    """Returns the digest of a plan without the text of its kernels."""
    from tests.mutation import probe

    ports = (plan.inputs, plan.outputs, plan.states)
    text = FORM.sub("", repr((plan.dispatches, plan.buffers, ports)))
    found = sha256(text.encode() + plan.uniforms)
    for weight in plan.weights:
        found.update(repr((weight.buffer, weight.offset, weight.bytes, weight.half)).encode())
        if weight.bytes <= probe.IMAGE:
            found.update(weight.image().tobytes())
    return found.hexdigest()[:32]


def record(families: Sequence[str]) -> Plans:
    """Returns the plans of these families, or of all."""
    sys.path.insert(0, os.getcwd())
    from tests.mutation import probe
    from tflgpu_plugin import ops

    probe.digest = digest
    every = {row.family for row in ops.rows().values()}
    return {family: json.loads(probe.record(family)) for family in families or sorted(every)}


def differences(before: Plans, after: Plans) -> Iterator[tuple[str, bool]]:
    """Yields a line for each plan of both records, and whether they differ."""
    for family in sorted(before.keys() & after.keys()):
        for case in dict.fromkeys(chain(before[family], after[family])):
            old, new = (record[family].get(case, {}) for record in (before, after))
            for target in dict.fromkeys(chain(old, new)):
                was, now = old.get(target, "no case"), new.get(target, "no case")
                yield f"{family} | {case} | {target} | {was} -> {now}", was != now


def main(command: str, *given: str) -> int:
    if command == "record":
        Path(given[0]).write_text(json.dumps(record(given[1:])))
        return 0
    found = list(differences(*(json.loads(Path(path).read_text()) for path in given)))
    changed = [line for line, differs in found if differs]
    print("\n".join([*changed, f"{len(found)} plans compared, {len(changed)} differ"]))
    return int(bool(changed))


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in ("record", "compare"):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
