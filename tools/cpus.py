"""`make conformance-cpus`: runs quick conformance as other kinds of CPUs, under QEMU's user
emulation.

Usage: python tools/cpus.py [--cpus NAME,...] [--sample N] [--seed N] [--reports DIR] [--jobs N]

The entire integer part and a sample of the other cases run as each CPU: x86 without VNNI, where
onnxruntime's 8-bit products saturate, and without AVX, where llvmpipe has 128 bits. The emulator is
the system's qemu-x86_64-static or one unpacked beside the system, as drivers are."""

from __future__ import annotations

import argparse
import os
import platform
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import drivers

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

EMULATOR, PACKAGE = "qemu-x86_64-static", "qemu-user-static"
NOISE = f"{EMULATOR}: warning: TCG doesn't support requested feature"
LEAST = "QEMU 7.2 or later is needed"
INTEGERS = (
    "test_quantized.py",
    "test_quantized_means.py",
    "test_onnx_quantized.py",
)  # modules of the integer part
MODELS = "::test_models["  # tests of whole ones
PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--dtype", "all")
SEEN = "from conformance import host; print(host.cpu())"
# The judge's float64 beside the C library's: the largest relative difference of any function.
WORST = """
import math, numpy
x = numpy.linspace(0.03, 3.0, 199)
names = "cos cosh exp expm1 log log1p sin sinh sqrt tan tanh".split()
pairs = [(getattr(numpy, n)(x), [getattr(math, n)(v) for v in x]) for n in names]
print(max(float(abs(a / numpy.array(b) - 1).max()) for a, b in pairs))
"""
CLOSE = 1e-13


@dataclass(frozen=True)
class Cpu:
    """A CPU of QEMU's list: the features that it must have and must not have, in numpy's words.
    `without` are features that numpy, the reference, must not use because QEMU computes them
    wrongly."""

    name: str
    has: str
    lacks: str
    without: str = ""


# QEMU 7.2 takes index 0 for every element that a gather finds by ymm4, as numpy's tanh for FMA3
# does; of the code in the hosts', the driver's and LLVM's files none does so.
CPUS = {
    cpu.name: cpu
    for cpu in (
        Cpu("Haswell", has="AVX2", lacks="AVX512F", without="FMA3"),
        Cpu("Denverton", has="SSE42", lacks="AVX"),
    )
}


def emulator(name: str = EMULATOR) -> str:
    """Returns the path of one of QEMU's user emulators. Raises Unavailable."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise drivers.Unavailable("Other CPUs are emulated on Linux on x86-64 only.")
    if found := shutil.which(name):
        return found
    place = drivers.folder() / PACKAGE
    package = drivers.unpacked(place, PACKAGE, alone=True)
    path = place / "usr" / "bin" / name
    if not path.exists():
        raise drivers.Unavailable(f"{package} holds no {name}.")
    return str(path)


@dataclass(frozen=True)
class Python:
    """A Python under emulation: its command, folder and environment."""

    start: Sequence[str]
    environment: Mapping[str, str]
    folder: Path = ROOT


def own(qemu: str, cpu: str) -> Python:
    """Returns this environment's Python as another CPU."""
    python = os.path.realpath(sys.executable)
    return Python([qemu, "-cpu", cpu, "-0", sys.executable, python], environment(cpu))


def environment(cpu: str) -> dict[str, str]:
    """Returns the environment, with a cache for each CPU: drivers' code fits one only."""
    kept = drivers.folder().parent / "cpus" / cpu
    kept.mkdir(parents=True, exist_ok=True)
    own = {"LP_NUM_THREADS": "0", "MESA_SHADER_CACHE_DIR": str(kept)}
    own["GALLIVM_PERF"] = "nopt"  # llvmpipe's code is made in half the time, of the same kernels
    if without := CPUS[cpu].without:
        own["NPY_DISABLE_CPU_FEATURES"] = without
    return {**os.environ, **own, "XDG_RUNTIME_DIR": tempfile.gettempdir()}


def check(cpu: Cpu, python: Python) -> None:
    """Raises Unavailable when programs do not see this CPU, or the reference would be wrong on
    it."""
    done = subprocess.run(
        [*python.start, "-c", SEEN + WORST], cwd=python.folder, env=python.environment,
        capture_output=True, text=True,
    )  # fmt: skip
    *words, worst = done.stdout.split() or ["inf"]
    if cpu.has not in words or cpu.lacks in words:
        told = done.stdout or done.stderr
        raise drivers.Unavailable(f"-cpu {cpu.name} shows another CPU ({LEAST}): {told}")
    if not float(worst) <= CLOSE:
        raise drivers.Unavailable(
            f"-cpu {cpu.name}: numpy's functions in float64 are off by {worst}"
        )


def tests(*more: str) -> list[str]:
    """Returns the identifiers of quick conformance, with more arguments of pytest."""
    collected = subprocess.run(
        [sys.executable, *PYTEST, "-m", "quick", "--collect-only", *more, "conformance"],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    found = [line for line in collected.stdout.splitlines() if "::" in line]
    if collected.returncode or not found:
        raise SystemExit(f"The suite cannot be collected:\n{collected.stdout}{collected.stderr}")
    return found


def chosen(names: Sequence[str], sample: int, seed: int) -> list[str]:
    """Returns the integer part, and a sample of the other cases, in the order of the suite. Real
    models are not included: one of them can take as long as all cases."""
    own = [name for name in names if name.split("::")[0].endswith(INTEGERS)]
    others = [name for name in names if name not in set(own) and MODELS not in name]
    picked = {*own, *random.Random(seed).sample(others, min(sample, len(others)))}
    return [name for name in names if name in picked]


def parts(names: Sequence[str]) -> dict[str, list[str]]:
    """Returns the parts that run in a process each, longest first. Tests of a part share most code
    that they run, of which QEMU keeps 128 MiB translated: when these are full it starts anew."""
    found: dict[str, list[str]] = {"onnx": [], "others": [], "tflite": []}
    for name in names:
        module = name.split("::")[0]
        host = "onnx" if "_onnx_" in module else "tflite"
        found[host if module.endswith(INTEGERS) else "others"].append(name)
    return {part: own for part, own in found.items() if own}


@dataclass(frozen=True)
class Shard:
    """Tests that one process runs as one CPU."""

    cpu: str
    names: Sequence[str]
    folder: Path

    def run(self, python: Python) -> int:
        """Returns pytest's exit status; its output and report are in the folder."""
        self.folder.mkdir(parents=True, exist_ok=True)
        listed = self.folder / "tests.txt"
        listed.write_text("\n".join(self.names))
        command = [*python.start, *PYTEST, "--report", str(self.folder), f"@{listed}"]
        with (self.folder / "output.txt").open("w") as output:
            done = subprocess.run(
                command, cwd=python.folder, env=python.environment, stdout=output, stderr=output
            )
        return done.returncode


def merged(shards: Sequence[Shard], folder: Path) -> str:
    """Merges the reports of all processes of a CPU and returns the counts in words."""
    from conformance import report
    from conformance.plugin.record import OUTCOMES
    from conformance.results import Report

    parts = [report.read(shard.folder / "report.json") for shard in shards]
    header = parts[0].header
    header = replace(header, machine=f"{header.machine}, as {shards[0].cpu} in QEMU")
    records = [record for part in parts for record in part.records]
    whole = Report(header, records, sum(part.seconds for part in parts))
    report.write(whole, folder)
    counts = whole.counts()
    return ", ".join(f"{counts[o]} {o}" for o in OUTCOMES if counts[o])


def tell(shard: Shard) -> None:
    """Prints the output of a process that failed."""
    lines = (shard.folder / "output.txt").read_text().splitlines()
    print("\n".join(line for line in lines if not line.startswith(NOISE)), flush=True)


def run(qemu: str, cpus: Sequence[str], names: Sequence[str], reports: Path, jobs: int) -> int:
    """Runs all tests as all CPUs; returns how many processes failed."""
    shards = [
        Shard(cpu, some, reports / cpu / part)
        for part, some in parts(names).items()
        for cpu in cpus
    ]
    for cpu in cpus:
        shutil.rmtree(reports / cpu, ignore_errors=True)
    with ThreadPoolExecutor(jobs) as pool:
        states = list(pool.map(lambda shard: shard.run(own(qemu, shard.cpu)), shards))
    lines = []
    for cpu in cpus:
        of_it = [(s, state) for s, state in zip(shards, states, strict=True) if s.cpu == cpu]
        for shard, state in of_it:
            if state:
                tell(shard)
        whole = [shard for shard, _ in of_it if (shard.folder / "report.json").exists()]
        counts = merged(whole, reports / cpu) if whole else "no report"
        said = "FAIL" if any(state for _, state in of_it) else "ok"
        lines.append(f"{cpu:<12} {said}  {counts}")
    print("\n== CPUs\n" + "\n".join(lines))
    return sum(state != 0 for state in states)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cpus", default=",".join(CPUS), help=f"of {', '.join(CPUS)}")
    parser.add_argument("--sample", type=int, default=300, help="cases beside the integer part")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at a time")
    parser.add_argument("--reports", type=Path, default=ROOT / "build" / "conformance-cpus")
    options = parser.parse_args(arguments)
    cpus = [name for name in options.cpus.split(",") if name]
    if unknown := [name for name in cpus if name not in CPUS]:
        parser.error(f"no CPU {unknown[0]}; the CPUs are {', '.join(CPUS)}")
    start = time.monotonic()
    try:
        qemu = emulator()
        for name in cpus:
            check(CPUS[name], own(qemu, name))
    except drivers.Unavailable as reason:
        print(reason, file=sys.stderr)
        return 1
    names = chosen(tests(), options.sample, options.seed)
    print(
        f"{len(names)} tests as {', '.join(cpus)}, {options.jobs} processes at a time", flush=True
    )
    failed = run(qemu, cpus, names, options.reports.resolve(), options.jobs)
    spent = os.times()
    seconds = spent.children_user + spent.children_system
    wall = time.monotonic() - start
    print(f"Reports: {options.reports}  [{wall:.0f} s, {seconds:.0f} s of CPU time]")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
