"""`make sanitize`: the native library under ThreadSanitizer, AddressSanitizer and UBSan.

Usage: python tools/sanitize.py [--checks NAME,...] [--works NAME,...] [--seconds N]

For each of them the library is built into a copy of the package, Python loads it, and threads make
sessions and interpreters and run new shapes at once; then tests of runs and lifetimes follow. The
table counts reports about our code and, for information, those about other libraries, which
lack these checks. Only reads that are meant to fail are left out (tests/support/sanitized.py)."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.support import sanitized  # noqa: E402

SHOWN = 3  # reports
PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist")
TESTS = {
    "runs": ("tests/native/test_runs.py", "tests/native/test_plans.py",
             "tests/native/test_symbols.py", "tests/native/test_symbol_tables.py",
             "tests/native/test_fake_host.py", "tests/native/test_refused_calls.py"),
    # Not how much memory is held: sanitizers keep what was freed.
    "lifetimes": ("tests/lifetimes/test_lifetimes.py", "tests/lifetimes/test_ort_lifetimes.py",
                  "-k", "not memory"),
    "tensors": ("tests/providers/onnxruntime/test_ort_device_memory.py",
                "tests/lifetimes/test_ort_tensors.py"),
    "gone devices": ("tests/lifetimes/test_gone_devices.py", "tests/lifetimes/test_survival.py",
                     "-k", "gone or destroyed"),
}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--checks", default=",".join(sanitized.CHECKS))
    parser.add_argument("--seconds", type=int, default=60, help="of the threads")
    parser.add_argument("--works", default="threads," + ",".join(TESTS))
    arguments = parser.parse_args()
    failed = False
    print(f"{'checks':8} {'work':14} {'ours':>5} {'others':>7} {'status':>7} {'seconds':>8}")
    for name in arguments.checks.split(","):
        with tempfile.TemporaryDirectory(prefix="tflgpu-sanitize-") as folder:
            try:
                sanitized.build(Path(folder), sanitized.CHECKS[name])
                environment = sanitized.environment(Path(folder), sanitized.CHECKS[name])
            except sanitized.NotThere as reason:
                print(f"{name}: {reason}")
                return 1
            for work in arguments.works.split(","):
                seconds = str(arguments.seconds)
                threads = ("-m", "tests.support.soak", "--seconds", seconds)
                call = threads if work == "threads" else (*PYTEST, *TESTS[work])
                failed |= run(name, work, call, Path(folder), environment)
    return int(failed)


def run(
    name: str, work: str, call: Sequence[str], folder: Path, environment: dict[str, str]
) -> bool:
    """Prints a line about one kind of work and returns whether it failed."""
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, *call],
        env=os.environ | environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    ours, others = sanitized.reports(folder)
    spent = time.monotonic() - start
    counts = f"{len(ours):5} {len(others):7} {done.returncode:7} {spent:8.0f}"
    print(f"{name:8} {work:14} {counts}", flush=True)
    for text in ours[:SHOWN]:
        print(text)
    if done.returncode:
        print(done.stdout[-3000:], done.stderr[-1000:])
    for path in folder.glob("log*"):
        path.unlink()
    return bool(ours) or done.returncode != 0


if __name__ == "__main__":
    sys.exit(main())
