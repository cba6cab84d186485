"""`python -m tests.support.fault_runs` injects faults of the GPU (see `faults`) and prints what
came of each. Without a package from `faulty.build` it builds the library first."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import tflgpu_plugin
from tests.support import faults, faulty, random_faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", default=",".join(faults.CASES))
    parser.add_argument("--kinds", default=",".join(faulty.KINDS[1:]))
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--step", type=int, default=1, help="of the numbers of calls")
    parser.add_argument("--calls", default="", help="before which the device is lost")
    parser.add_argument("--random", type=int, default=0, help="try this many random graphs instead")
    arguments = parser.parse_args()
    if not os.environ.get("TFLGPU_TEST_TREE"):
        with tempfile.TemporaryDirectory() as folder:
            tree = str(faulty.build(Path(folder)))
            more = {"PYTHONPATH": tree, "TFLGPU_TEST_TREE": tree}
            command = [sys.executable, "-m", "tests.support.fault_runs", *sys.argv[1:]]
            return subprocess.run(command, env=os.environ | more).returncode
    tflgpu_plugin.register()
    if arguments.random:
        return faults.ENDED if random_faults.main(arguments.random) else 0
    numbers = range(arguments.first, 1_000_000, arguments.step)
    results = [
        faults.sweep(name, kind, numbers, arguments.calls)
        for name in arguments.cases.split(",")
        for kind in arguments.kinds.split(",")
    ]
    return max(results)


if __name__ == "__main__":
    sys.exit(main())
