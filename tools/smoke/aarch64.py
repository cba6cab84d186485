"""`make smoke-aarch64`: the wheel for Linux on ARM, installed and run under QEMU's user emulation.

Usage: python tools/smoke/aarch64.py [--cpu NAME] [--seed N] [--jobs N] [--no-suite] [--plant]

Python, the Vulkan loader and Mesa for arm64 come from the archive of the system's own package
sources, hosts from pip; both are unpacked below the user's cache. Each TFLite host and onnxruntime
runs a float, a quantized and a recurrent network, which must agree with this machine's answers and
with the host's CPU kernels there; then runs a sample of conformance over all families of operators.
Reports go to build/smoke-aarch64."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # tools has a conformance, too

import archive
import cpus
from archive import Unavailable

from smoke import foreign, judge, models, sample, scenarios

EMULATOR, ARCHITECTURE = "qemu-aarch64-static", "arm64"
TAG = "manylinux_2_28_aarch64"
TAGS = ("manylinux2014_aarch64", *(f"manylinux_2_{minor}_aarch64" for minor in range(17, 37)))
PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
PACKAGES = (PYTHON, "libvulkan1", "mesa-vulkan-drivers")
LONGEST = 600  # seconds of all models in a host
REPORTS = foreign.ROOT / "build" / "smoke-aarch64"
SUITE = ("conformance", "benchmarks", "pyproject.toml")  # what the tests need of the checkout

# As Linux on ARM has it: QEMU 7.2 shows the file of the machine below, at which onnxruntime and
# ai-edge-litert end.
CPUINFO = """processor\t: {number}
BogoMIPS\t: 100.00
Features\t: {features}
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x{variant}
CPU part\t: 0x{part}
CPU revision\t: {revision}

"""


@dataclass(frozen=True)
class Cpu(cpus.Cpu):
    """The contents of a CPU's /proc/cpuinfo: features, and its vendor's numbers."""

    features: str = ""
    part: str = ""
    variant: int = 0
    revision: int = 0

    def cpuinfo(self, processors: int) -> str:
        return "".join(
            CPUINFO.format(number=number, features=self.features, part=self.part,
                           variant=self.variant, revision=self.revision)
            for number in range(processors)
        )  # fmt: skip


_FIRST = "fp asimd evtstrm aes pmull sha1 sha2 crc32"
_SECOND = "atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp"
# Real ones: QEMU 7.2's own `max` has SME, and the int8 kernels of ai-edge-litert's CPU are 180
# levels off with it (as `max,sme=off` they are right).
CPUS = {
    cpu.name: cpu
    for cpu in (
        Cpu("neoverse-n1", "ASIMDDP", "SVE", features=f"{_FIRST} {_SECOND}", part="d0c",
            variant=3, revision=1),
        Cpu("cortex-a72", "ASIMD", "ASIMDDP", features=f"{_FIRST} cpuid", part="d08", revision=3),
    )
}  # fmt: skip


def system() -> Path:
    """Returns a folder with the packages of the other architecture, made once. Raises
    Unavailable."""
    root = foreign.place("aarch64") / "root"
    stamp = root / "packages.txt"
    if stamp.exists():
        return root
    root.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root.parent) as work:
        files = archive.fetch_foreign(Path(work), PACKAGES, ARCHITECTURE)
        made = Path(work) / "root"
        archive.unpack(files, made)
        (made / "packages.txt").write_text("".join(f"{file.stem}\n" for file in files))
        shutil.rmtree(root, ignore_errors=True)
        made.replace(root)
    return root


def python(cpu: Cpu, folder: Path) -> cpus.Python:
    """Returns the other architecture's Python with our wheel, working in a folder. Raises
    Unavailable."""
    foreign.check(foreign.wheel(TAG))
    qemu, root = cpus.emulator(EMULATOR), system()
    (root / "proc").mkdir(exist_ok=True)
    (root / "proc" / "cpuinfo").write_text(cpu.cpuinfo(os.cpu_count() or 1))
    hosts = scenarios.installed()
    wanted = ["[tflite,tflite-runtime,onnxruntime,conformance]", *foreign.pinned(hosts)]
    site = foreign.installed(TAG, TAGS, wanted, foreign.place("aarch64") / "site")
    kept = foreign.place("aarch64") / cpu.name
    icd = next((root / "usr/share/vulkan/icd.d").glob("lvp_icd.*.json"), None)
    if icd is None:
        raise Unavailable(f"mesa-vulkan-drivers for {ARCHITECTURE} holds no lavapipe.")
    own = {
        "PYTHONHOME": str(root / "usr"),
        "PYTHONPATH": str(site),
        "PYTHONDONTWRITEBYTECODE": "1",
        "VK_ICD_FILENAMES": str(icd),
        "VK_DRIVER_FILES": str(icd),
        "MESA_SHADER_CACHE_DIR": str(kept / "mesa"),
        "XDG_CACHE_HOME": str(kept / "cache"),
        "XDG_RUNTIME_DIR": tempfile.gettempdir(),
        "LP_NUM_THREADS": "0",
    }
    (kept / "mesa").mkdir(parents=True, exist_ok=True)
    start = [qemu, "-cpu", cpu.name, "-L", str(root), str(root / "usr/bin" / PYTHON)]
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("LD_", "TFLGPU_"))}
    return cpus.Python(start, environment | own, folder)


def suite(folder: Path) -> Path:
    """Returns a folder with the tests but without the checkout's package: they import the installed
    wheel."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in SUITE:
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(foreign.ROOT / name)
    return folder


def answers(python: cpus.Python, given: Path, into: Path, hosts: Sequence[str]) -> bool:
    """Makes a Python run the models in these hosts, and returns whether it ended well. Its output
    goes to a file; where it crashed or timed out, answers are missing, which the judge reports."""
    into.mkdir(parents=True, exist_ok=True)
    command = [*python.start, str(Path(scenarios.__file__)), str(given), str(into), *hosts]
    told = into / f"{'-'.join(hosts)}.txt"
    with told.open("w") as output:
        try:
            status = subprocess.run(
                command, cwd=python.folder, env=python.environment, stdout=output, stderr=output,
                timeout=LONGEST,
            ).returncode  # fmt: skip
        except subprocess.TimeoutExpired:
            status = -1
    if status:
        print(f"{', '.join(hosts)}: exit status {status}\n{told.read_text()}", flush=True)
    return not status


def run(options: argparse.Namespace, folder: Path) -> bool:
    """Runs all models and the sample of conformance, and returns whether all is right. Raises
    Unavailable."""
    cpu, hosts = CPUS[options.cpu], scenarios.installed()
    start, given = time.monotonic(), folder / "models"
    shutil.rmtree(folder, ignore_errors=True)
    there = python(cpu, suite(folder / "suite"))
    cpus.check(cpu, there)
    _, absent = models.write(given)
    here = cpus.Python([sys.executable], {**os.environ, "LP_NUM_THREADS": "0"})
    answers(here, given, folder / "x86-64", hosts)
    if options.plant:
        print(f"Spoiled: {judge.spoil(folder / 'x86-64')}", flush=True)
    names = [] if options.no_suite else sample.chosen(cpus.tests(), options.seed)
    shards = [
        cpus.Shard(cpu.name, own, folder / "conformance" / part)
        for part, own in sample.parts(names).items()
    ]
    print(f"{', '.join(hosts)} and {len(names)} tests as {cpu.name}", flush=True)
    with ThreadPoolExecutor(options.jobs) as pool:
        tests = [pool.submit(shard.run, there) for shard in shards]
        runs = [pool.submit(answers, there, given, folder / "aarch64", [h]) for h in hosts]
        states = [each.result() for each in tests]
        ended = [each.result() for each in runs]
    verdicts = judge.judge(given, folder / "x86-64", folder / "aarch64", hosts)
    for shard, state in zip(shards, states, strict=True):
        if state:
            cpus.tell(shard)
    kept = [shard for shard in shards if (shard.folder / "report.json").exists()]
    counts = cpus.merged(kept, folder / "conformance" / "aarch64") if kept else ""
    spent = os.times()
    seconds = time.monotonic() - start, spent.children_user + spent.children_system
    text = report(cpu, verdicts, absent, names, counts, seconds)
    (folder / "report.md").write_text(text)
    print(text)
    return passed(verdicts, ended, states)


def passed(verdicts: Sequence[judge.Verdict], ended: Sequence[bool], states: Sequence[int]) -> bool:
    """Whether every model agrees, every Python ended well, and so did every process of tests."""
    wrong = [verdict for verdict in verdicts if verdict.wrong]
    return bool(verdicts) and not wrong and all(ended) and not any(states)


def report(
    cpu: Cpu,
    verdicts: Sequence[judge.Verdict],
    absent: Sequence[str],
    names: Sequence[str],
    counts: str,
    seconds: tuple[float, float],
) -> str:
    """Returns the page of a run: the tested system, date, method and results."""
    wheel = foreign.wheel(TAG)
    families = {sample.family(name) for name in names} - {""}
    packages = (foreign.place("aarch64") / "root" / "packages.txt").read_text().split()
    used = [p for p in packages if p.split("_")[0] in (*PACKAGES, "libc6")]
    cases = f"{len(names)} tests of {len(families)} families: {counts}." if names else "Not run."
    lines = [
        f"{time.strftime('%Y-%m-%d', time.gmtime())}, `make smoke-aarch64`: {seconds[0]:.0f} s, "
        f"{seconds[1]:.0f} s of CPU time on {os.cpu_count()} cores.",
        "",
        f"* {wheel.name}, {wheel.stat().st_size:,} bytes, as {cpu.name} in {emulated()}",
        f"* {', '.join(used)}",
        "",
        judge.table(verdicts),
        "Differences are shares of what is allowed: of floats "
        f"{judge.CLOSE:g} of the largest output, of levels one step.",
        *absent,
        "",
        f"Conformance: {cases}",
    ]
    return "\n".join(lines) + "\n"


def emulated() -> str:
    """Returns the emulator with its version."""
    command = [cpus.emulator(EMULATOR), "-version"]
    said = subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
    return said[0] if said else EMULATOR


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cpu", default=next(iter(CPUS)), choices=CPUS)
    parser.add_argument("--seed", type=int, default=0, help="of the sample of conformance")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at a time")
    parser.add_argument("--reports", type=Path, default=REPORTS)
    parser.add_argument("--no-suite", action="store_true", help="models only")
    parser.add_argument("--plant", action="store_true", help="spoil an expected answer: must fail")
    options = parser.parse_args(arguments)
    try:
        return int(not run(options, options.reports.resolve()))
    except Unavailable as reason:
        print(reason, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
