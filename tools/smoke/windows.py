"""`make smoke-windows`: the wheel for Windows x64, installed and run in CPython under Wine.

Usage: python tools/smoke/windows.py [--seed N] [--no-suite] [--plant]

Wine, a display without a screen, Python for Windows (`wine.py`) and both hosts are fetched by name
and unpacked below the user's cache. Each host runs a float, a quantized and a recurrent network on
llvmpipe, through Wine's Vulkan, which must agree with this machine's answers and with the host's
CPU kernels there; then comes what is Windows' own (`windows_scenarios.py`), the command `tflgpu`,
and a sample of conformance. Reports go to build/smoke-windows."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # tools has a conformance, too

import cpus
import drivers
from archive import Unavailable

from smoke import aarch64, foreign, judge, models, sample, windows_scenarios, wine

HOSTS = ("ai-edge-litert", "onnxruntime")
HOST = ("--host", "ai_edge_litert")  # of conformance
# These use fcntl.flock, which Windows does not have.
UNIX = ("/test_onnx_twins.py", "/test_onnx_converted.py")
# Wine 8 lacks a function of the C library that numpy 2 needs.
REQUIREMENTS = ("[conformance]", *foreign.pinned(HOSTS), "numpy==1.26.4")
REPORTS = foreign.ROOT / "build" / "smoke-windows"
LONGEST = 180  # seconds of a process
OPTIONS = windows_scenarios.OPTIONS


@dataclass(frozen=True)
class Check:
    """One process there: its name, the arguments of Python, its exit status, and what its
    output must pass."""

    name: str
    arguments: tuple[str, ...]
    status: int = 0
    right: Callable[[str], bool] = bool


@dataclass(frozen=True)
class Found:
    """The result of a check: its output and, unless it is right, why not."""

    check: Check
    said: str
    seconds: float
    wrong: str = ""

    def row(self) -> str:
        state = self.wrong or "right"
        return f"| {self.check.name} | {told(self.said)} | {self.seconds:.0f} s | {state} |"


def own_words(said: str) -> str:
    """Returns a process's output without log lines of ours and of the hosts."""
    lines = said.splitlines()
    return "\n".join(line for line in lines if not line.startswith(("WARNING:", "INFO:")))


def told(said: str) -> str:
    """Returns the last line of a process's output, without paths of this machine."""
    words = own_words(said)
    line = "JSON" if words.startswith("{") else words.rstrip().rpartition("\n")[2]
    return re.sub(r"Z:\\\S*\\smoke\\windows", "...", line).replace("|", "/")[:200]


def checks(folder: Path) -> list[Check]:
    """Returns all checks, each after those whose files it needs."""
    script = str(Path(windows_scenarios.__file__))

    def own(name: str, again: bool = False, status: int = 0) -> Check:
        label = name.replace("_", " ") + (", again" if again else "")
        return Check(label, (script, name, str(folder)), status)

    def command(*words: str, right: Callable[[str], bool] = bool) -> Check:
        shown = " ".join(word.removeprefix(f"{folder}/") for word in words)
        return Check(f"tflgpu {shown}", ("-m", "tflgpu_plugin.cli", *words), right=right)

    status = windows_scenarios.STATUS
    adapter = ("-o", f"adapter={OPTIONS['adapter']}")
    found = [own(name) for name in ("devices", "paths", "compile_models", "compiled_models")]
    for name in ("caches", "strange_caches"):
        found += [own(name), own(name, again=True)]
    found += [own("exit_onnxruntime", status=status), own("exit_litert", status=status)]
    found.append(command("info", "--json", right=usable))
    for model in ("float.onnx", "float.tflite"):
        path = str(folder / model)
        found.append(command("check", path, *adapter, "--json", right=on_gpu))
        found.append(command("bench", path, *adapter, "--runs", "5", "--json", right=close))
    return [*found, command("enable"), own("enabled"), command("disable")]


def usable(said: str) -> bool:
    """Whether `tflgpu info` sees both hosts and llvmpipe."""
    found = json.loads(said)
    names = [f"{adapter['name']}, {adapter['backend']}" for adapter in found["adapters"]]
    seen = any("llvmpipe" in name and "Vulkan" in name for name in names)
    return bool(found["usable"]) and seen and found["hosts"].keys() >= set(HOSTS)


def on_gpu(said: str) -> bool:
    """Whether `tflgpu check` has every node on the GPU."""
    nodes = json.loads(said)["report"]["nodes"]
    return bool(nodes) and all(node["where"] == "gpu" for node in nodes)


def close(said: str) -> bool:
    """Whether `tflgpu bench` timed both engines, with outputs that agree."""
    found = json.loads(said)
    timings = [timing["median_ms"] for timing in found["timings"]]
    return len(timings) == 2 and min(timings) > 0 and found["difference"] < judge.CLOSE


def run_check(python: cpus.Python, check: Check) -> Found:
    """Runs the check in a process of its own, which is ended when it takes too long."""
    start = time.monotonic()
    with subprocess.Popen(
        [*python.start, *check.arguments], cwd=python.folder, env=python.environment,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as process:  # fmt: skip
        try:
            output, _ = process.communicate(timeout=LONGEST)
        except subprocess.TimeoutExpired:
            process.kill()
            return Found(check, "", LONGEST, f"not done after {LONGEST} s")
    said = output.decode("cp1252", "replace").replace("\r\n", "\n")
    return Found(check, said, time.monotonic() - start, reason(check, process.returncode, said))


def reason(check: Check, status: int, said: str) -> str:
    """Returns what is wrong with a process that ended so, "" if nothing is."""
    if status != check.status:
        return f"exit status {status}, not {check.status}"
    try:
        right = check.right(own_words(said))
    except (ValueError, KeyError, TypeError) as error:
        return f"its output cannot be read: {error!r:.100}"
    return "" if right else "its output is not right"


def unchanged(found: Sequence[Found]) -> list[str]:
    """Returns the checks whose second process wrote files that the first had cached."""
    pairs = pairwise(found)
    said = [(second.check.name, told(first.said), told(second.said)) for first, second in pairs
            if second.check.name == f"{first.check.name}, again"]  # fmt: skip
    return [f"{name}: files were written again" for name, one, two in said if one != two or not one]


def make_models(folder: Path) -> list[str]:
    """Makes all models of this smoke test; returns a sentence for each that is left out."""
    from benchmarks.networks import Network
    from benchmarks.to_tflite import to_tflite

    _, absent = models.write(folder, dict(OPTIONS))
    net = Network("large", (256, 256, 32))
    net.head(net.conv(net.conv("input", 64, 3), 64, 3), 10)
    (folder / "large.tflite").write_bytes(to_tflite(net))
    open_model(folder)
    return absent


def open_model(folder: Path) -> None:
    """Writes a model of two matrices, whose weights are in a file beside it; any number of rows."""
    import onnx
    from onnx import helper, numpy_helper

    width = windows_scenarios.WIDTH
    draw = np.random.default_rng(0)
    held = [
        numpy_helper.from_array(draw.normal(0, width**-0.5, (width, width)).astype("f4"), name)
        for name in ("a", "b")
    ]
    nodes = [helper.make_node("MatMul", ["x", "a"], ["h"]),
             helper.make_node("Relu", ["h"], ["r"]),
             helper.make_node("MatMul", ["r", "b"], ["y"])]  # fmt: skip
    x, y = (helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, ["rows", width]) for n in "xy")
    graph = helper.make_graph(nodes, "open", [x], [y], held)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save_model(
        made, folder / windows_scenarios.OPEN, save_as_external_data=True,
        location=windows_scenarios.WEIGHTS, size_threshold=0,
    )  # fmt: skip


def run(options: argparse.Namespace, folder: Path) -> bool:
    """Runs everything, and returns whether all is right. Raises Unavailable."""
    start, given = time.monotonic(), folder / "models"
    shutil.rmtree(folder, ignore_errors=True)
    aarch64.suite(folder / "suite")
    absent = make_models(given)
    here = cpus.Python([sys.executable], {**os.environ, "LP_NUM_THREADS": "0"})
    ended = [aarch64.answers(here, given, folder / "x86-64", HOSTS)]
    if options.plant:
        print(f"Spoiled: {judge.spoil(folder / 'x86-64')}", flush=True)
    with wine.session() as display:
        there = wine.python(display, REQUIREMENTS, folder / "suite")
        for old in wine.leftovers():
            shutil.rmtree(old, ignore_errors=True)
        ended.append(aarch64.answers(there, given, folder / "windows", HOSTS))
        found = [run_check(there, check) for check in checks(given)]
        shards = [] if options.no_suite else suite(options.seed, folder)
        chosen = {
            "PYTEST_ADDOPTS": f"{' '.join(HOST)} --adapter {OPTIONS['adapter']}",
            "TFLGPU_TEST_CACHE": str(foreign.place("windows") / "references"),
        }
        tests = replace(there, environment={**there.environment, **chosen})
        states = [shard.run(tests) for shard in shards]
    verdicts = judge.judge(given, folder / "x86-64", folder / "windows", HOSTS)
    for each in found:
        if each.wrong:
            print(f"{each.check.name}: {each.wrong}\n{each.said}", flush=True)
    for shard, state in zip(shards, states, strict=True):
        if state:
            cpus.tell(shard)
    again = unchanged(found)
    kept = [shard for shard in shards if (shard.folder / "report.json").exists()]
    counts = cpus.merged(kept, folder / "conformance" / "windows") if kept else ""
    spent = os.times()
    seconds = time.monotonic() - start, spent.children_user + spent.children_system
    text = report(verdicts, found, [*absent, *again], shards, counts, seconds)
    (folder / "report.md").write_text(text)
    print(text)
    right = aarch64.passed(verdicts, ended, states)
    return right and not again and bool(found) and not any(each.wrong for each in found)


def suite(seed: int, folder: Path) -> list[cpus.Shard]:
    """Returns the sample of conformance that Linux on ARM runs, too, without tests that Windows
    cannot run."""
    names = [name for name in cpus.tests(*HOST) if not any(unix in name for unix in UNIX)]
    parts = sample.parts(sample.chosen(names, seed))
    return [cpus.Shard("Wine", own, folder / "conformance" / part) for part, own in parts.items()]


def report(
    verdicts: Sequence[judge.Verdict],
    found: Sequence[Found],
    notes: Sequence[str],
    shards: Sequence[cpus.Shard],
    counts: str,
    seconds: tuple[float, float],
) -> str:
    """Returns the page of a run: the tested system, date, method and results."""
    wheel = foreign.wheel(wine.TAG)
    names = [name for shard in shards for name in shard.names]
    families = {sample.family(name) for name in names} - {""}
    cases = f"{len(names)} tests of {len(families)} families: {counts}." if names else "Not run."
    lines = [
        f"{time.strftime('%Y-%m-%d', time.gmtime())}, `make smoke-windows`: {seconds[0]:.0f} s, "
        f"{seconds[1]:.0f} s of CPU time on {os.cpu_count()} cores.",
        "",
        f"* {wheel.name}, {wheel.stat().st_size:,} bytes",
        f"* {drivers.unpacked(foreign.place('windows') / wine.WINE, wine.WINE)}, "
        f"{drivers.lavapipe().package}, {', '.join(wine.PYTHON)}",
        "",
        judge.table(verdicts),
        "Differences are shares of what is allowed: of floats "
        f"{judge.CLOSE:g} of the largest output, of levels one step.",
        "",
        "| what | last line | took | |",
        "|---|---|---|---|",
        *(each.row() for each in found),
        "",
        *notes,
        "",
        f"Conformance: {cases}",
    ]
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of the sample of conformance")
    parser.add_argument("--reports", type=Path, default=REPORTS)
    parser.add_argument("--no-suite", action="store_true", help="no conformance")
    parser.add_argument("--plant", action="store_true", help="spoil an expected answer: must fail")
    options = parser.parse_args(arguments)
    try:
        return int(not run(options, options.reports.resolve()))
    except Unavailable as reason:
        print(reason, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
