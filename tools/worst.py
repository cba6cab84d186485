"""`make conformance-worst`: runs conformance on a driver that is as inexact as WGSL permits.

Usage: python tools/worst.py [--modes NAME,...] [--sample N] [--seed N] [--reports DIR] [--jobs N]
                             [-- PYTEST ARGUMENTS]

A Vulkan layer (tools/worst_driver) rewrites every shader for the system's lavapipe: quotients,
roots and exponentials are off by what WGSL allows, products are fused with sums or grouped
differently, subnormal numbers are zero, choices between two floats drop NaN, no operation makes an
infinity or NaN, comparisons with NaN are true, remainders of negative integers differ; subgroups
have 4, 8 or 16 lanes. In each mode the quick part, the networks and the real models run, or those
that the mode is about; with --sample this many of these tests."""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import drivers

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
SOURCES = ROOT / "tools" / "worst_driver"
MODELS = tuple(
    f"conformance/test_{name}.py"
    for name in ("models", "networks", "onnx_models", "onnx_quantized_models")
)
PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--dtype", "all")


QUANTIZED = ("quant", "int8", "uint8", "integer", "ptq", "-i8", "-u8")


@dataclass(frozen=True)
class Mode:
    """How inexact the driver is made: `words` are settings of the layer, `bits` the width of
    llvmpipe's vectors (32 bits per lane). Tests whose names contain a word of `without` are
    skipped, because they need what the mode takes away, and so are those without a word of `about`,
    if there are any. `settings` are answers of calibration. With `finite_only`, cases with an
    infinity or NaN are skipped, too, and so are elements whose expected value is an infinity or
    NaN: kernels guarantee these only on drivers that support them."""

    words: str
    bits: int = 256
    without: tuple[str, ...] = ()
    about: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    finite_only: bool = False


MODES = {
    "low": Mode("down,regroup"),
    "high": Mode("up,fused"),
    "random": Mode("seed=1,flush,smaller,signs"),
    "finite": Mode("seed=2,finite", finite_only=True),
    "4-lanes": Mode("seed=3", bits=128),
    "16-lanes": Mode("seed=4", bits=512),
    # Which of several NaN ArgMax takes costs a comparison more for each element, so it is not kept.
    "unordered": Mode("unordered", without=("[arg]",)),
    "bytes": Mode("seed=5", about=QUANTIZED, settings=("byte_products=always",)),
}


def environment(mode: Mode) -> dict[str, str]:
    """Returns variables of a process whose Vulkan driver is the system's lavapipe, made inexact.
    Raises Unavailable."""
    from benchmarks import layers
    from benchmarks.engine import Unavailable

    kept = drivers.folder().parent / "worst"
    kept.mkdir(parents=True, exist_ok=True)
    try:
        library = layers.build(SOURCES)
    except Unavailable as reason:
        raise drivers.Unavailable(str(reason)) from reason
    own = {
        "WORST_DRIVER": mode.words,
        "LP_NATIVE_VECTOR_WIDTH": str(mode.bits),
        "LP_NUM_THREADS": "0",
        "MESA_SHADER_CACHE_DIR": str(kept),
        "TFLGPU_NO_CACHE": "1",
    } | judged(mode)
    return drivers.lavapipe().environment() | layers.variables(library) | own


def judged(mode: Mode) -> dict[str, str]:
    """Returns variables that select which answers the suite judges in this mode."""
    return {"CONFORMANCE_FINITE_ONLY": "1"} if mode.finite_only else {}


def tests(mode: Mode, *which: str) -> list[str]:
    """Returns the identifiers of these tests in a mode."""
    done = subprocess.run(
        [*PYTEST, "--collect-only", *which],
        cwd=ROOT,
        env=os.environ | judged(mode),
        capture_output=True,
        text=True,
    )
    found = [line for line in done.stdout.splitlines() if "::" in line]
    if done.returncode or not found:
        raise SystemExit(f"The suite cannot be collected:\n{done.stdout}{done.stderr}")
    return found


def chosen(mode: Mode, names: Sequence[str], sample: int, seed: int) -> list[str]:
    """Returns the tests of a mode, or a sample of them, in the order of the suite."""
    left = [
        name
        for name in names
        if not any(word in name.lower() for word in mode.without)
        and (not mode.about or any(word in name.lower() for word in mode.about))
    ]
    if not sample:
        return left
    picked = set(random.Random(seed).sample(left, min(sample, len(left))))
    return [name for name in left if name in picked]


@dataclass(frozen=True)
class Outcome:
    """The result of a mode: pytest's exit status, its last line, and the seconds."""

    status: int
    counts: str
    seconds: float

    def __str__(self) -> str:
        return f"{'FAIL' if self.status else 'ok':<5} {self.counts}  [{self.seconds:.0f} s]"


def kept(words: Sequence[str]) -> list[str]:
    """Returns the arguments of pytest that determine the identifiers of tests: the hosts."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--host")
    given, _ = parser.parse_known_args(words)
    return ["--host", given.host] if given.host else []


def run(
    mode: Mode, names: Sequence[str], folder: Path, jobs: int, words: Sequence[str] = ()
) -> Outcome:
    """Runs these tests in a mode, with a report in the folder and these words for pytest. Raises
    Unavailable."""
    folder.mkdir(parents=True, exist_ok=True)
    listed = folder / "tests.txt"
    listed.write_text("\n".join(names))
    forced = [f"--setting={each}" for each in mode.settings]
    command = [*PYTEST, *words, *forced, "-n", str(jobs), "--report", str(folder), f"@{listed}"]
    start, last = time.monotonic(), ""
    with subprocess.Popen(
        command, cwd=ROOT, env=environment(mode), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            last = line if re.search(r" in [\d.]+s", line) else last
    counts = re.sub(r" in [\d.]+s.*", "", last.strip(" =\n"))
    return Outcome(process.returncode, counts or "no summary", time.monotonic() - start)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--modes", default=",".join(MODES), help=f"of {', '.join(MODES)}")
    parser.add_argument("--sample", type=int, default=0, help="tests of each mode, 0 for all")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at a time")
    parser.add_argument("--reports", type=Path, default=ROOT / "build" / "conformance-worst")
    parser.add_argument(
        "tests", nargs="*", help="pytest's arguments instead of the quick part and the models"
    )
    options = parser.parse_args(arguments)
    modes = [name for name in options.modes.split(",") if name]
    if unknown := [name for name in modes if name not in MODES]:
        parser.error(f"no mode {unknown[0]}; the modes are {', '.join(MODES)}")
    wanted = [options.tests] if options.tests else [["-m", "quick", "conformance"], MODELS]
    outcomes = dict[str, Outcome]()
    try:
        for name in modes:
            print(f"\n== {name}: {MODES[name].words}, {MODES[name].bits // 32} lanes", flush=True)
            names = [test for which in wanted for test in tests(MODES[name], *which)]
            some = chosen(MODES[name], list(dict.fromkeys(names)), options.sample, options.seed)
            folder = options.reports.resolve() / name
            outcomes[name] = run(MODES[name], some, folder, options.jobs, kept(options.tests))
    except drivers.Unavailable as reason:
        print(f"NOT RUN: {reason}")
        return 0
    print("\n== Modes")
    print("\n".join(f"{name:<9} {outcome}" for name, outcome in outcomes.items()))
    return int(any(outcome.status for outcome in outcomes.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
