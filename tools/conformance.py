"""`make conformance`: runs the suite on every available driver, with a report for each.

Usage: python tools/conformance.py [--drivers NAME,...] [--reports DIR] [PYTEST ARGUMENTS]

Drivers are those of tools/drivers.py; by default the three software drivers, and before them the
system's own where it has a GPU. Reports go to DIR/<driver>, by default build/conformance/<driver>.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

import drivers

ROOT = Path(__file__).resolve().parents[1]
GPU = "import sys; from tflgpu_plugin.runtime import adapter; sys.exit(adapter.select().software)"


def has_gpu() -> bool:
    """Whether the system's best adapter is a hardware one."""
    return subprocess.run([sys.executable, "-c", GPU], stderr=subprocess.DEVNULL).returncode == 0


def make_converter(more: list[str]) -> None:
    """Makes the environment of tf2onnx, unless it is not wanted; without it its tests are
    skipped."""
    if "quick" not in more:
        subprocess.run([sys.executable, "-m", "conformance.converted"], cwd=ROOT)


def run(driver: drivers.Driver, reports: Path, more: list[str]) -> int:
    """Runs the suite on one driver; returns pytest's exit status."""
    parallel = ["-n", str(os.cpu_count() or 1)]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "conformance"]
    command += [*parallel, "--strict", "--dtype", "all"]
    command += ["--report", str(reports / driver.name), *more]
    environment = driver.environment()
    if driver.name != "system":
        environment["LP_NUM_THREADS"] = "0"
    return subprocess.run(command, cwd=ROOT, env=environment).returncode


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--drivers", default="", help=f"of {', '.join(drivers.DRIVERS)}")
    parser.add_argument("--reports", type=Path, default=ROOT / "build" / "conformance")
    options, more = parser.parse_known_args(arguments)
    names = [name for name in options.drivers.split(",") if name]
    names = names or [*(["system"] if has_gpu() else []), *drivers.SOFTWARE]
    if unknown := [name for name in names if name not in drivers.DRIVERS]:
        parser.error(f"no driver {unknown[0]}; the drivers are {', '.join(drivers.DRIVERS)}")
    make_converter(more)
    lines, bad = [], 0
    for name in names:
        print(f"\n== {name}", flush=True)
        start = time.monotonic()
        try:
            status = run(drivers.DRIVERS[name](), options.reports.resolve(), more)
            said = "ok" if status == 0 else "FAIL"
        except drivers.Unavailable as reason:
            status, said = 1, f"not run: {reason}"
        bad += status != 0
        lines.append(f"{name:<20} {said}  [{time.monotonic() - start:.0f} s]")
    print("\n== Drivers\n" + "\n".join(lines))
    print(f"Reports: {options.reports}")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
