"""python -m benchmarks.compiled check: compiles every kernel of the conformance cases with AMD's
compiler and prints its registers and waves.

python -m benchmarks.compiled translated: translates these kernels to the languages of D3D12 and
Metal, and compiles those for D3D12 (every N-th with --sample N).

python -m benchmarks.compiled estimates: predicts by a model the time of the seeded networks in
ours, in ncnn and in onnxruntime's WebGPU provider; with --models, of TFLite and ONNX models in ours
and, where an .npz beside an ONNX model has its inputs, in the latter."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from benchmarks.compiled import models, translated
from benchmarks.compiled.cost import FAMILIES, GHZ, UNITS, Made
from benchmarks.compiled.driver import compiled, look
from benchmarks.compiled.kernels import of_cases
from benchmarks.compiled.networks import GRAPHS, Estimate, estimates
from benchmarks.compiled.peers import ncnn, webgpu
from benchmarks.engine import Unavailable
from benchmarks.networks import NETWORKS
from conformance.settings import forced
from tflgpu_plugin.compile import tuning
from tflgpu_plugin.ir import Pipeline

PEERS = {"ncnn": ncnn, "webgpu": webgpu}
CHECKED = ("navi31", "vega10")  # waves of 32 and 64 lanes; of 64 only


def check(given: argparse.Namespace) -> int:
    """Compiles for each family and prints registers and waves of each kernel. Returns 1 when one
    fails or spills."""
    for family in given.families:
        look(family)
    wanted = of_cases()
    with ThreadPoolExecutor() as pool:
        made = list(pool.map(lambda family: compiled(list(wanted), family), given.families))
    print(f"{'kernel':30} {'of':34} " + " ".join(f"{name:>18}" for name in given.families))
    print(f"{'':65} " + " ".join(["registers, waves".rjust(18)] * len(given.families)))
    wrong = 0
    for row in zip(wanted.items(), *made, strict=True):
        (pipeline, where), *found = row
        print(f"{pipeline.name:30} {where:34} " + " ".join(f"{_told(each):>18}" for each in found))
        wrong += sum(isinstance(each, str) or each.spills > 0 for each in found)
    for family, found in zip(given.families, made, strict=True):
        print(_summary(family, wanted, found))
    return 1 if wrong else 0


def _told(found: Made | str) -> str:
    if isinstance(found, str):
        return "FAILED"
    spilled = f" {found.spills} SPILLED" if found.spills else ""
    return f"{found.registers}, {found.waves}{spilled}"


def _summary(family: str, wanted: Mapping[Pipeline, str], found: Sequence[Made | str]) -> str:
    made = [each for each in found if isinstance(each, Made)]
    failed = [each for each in found if isinstance(each, str)]
    spilled = sum(each.spills > 0 for each in made)
    least = min(zip((e.waves for e in made), (p.label for p in wanted), strict=False))
    return "\n".join([
        f"{family}: {len(found)} kernels, {len(failed)} failed, {spilled} spill; at most "
        f"{max(e.registers for e in made)} registers, at least {least[0]} waves per SIMD.",
        *failed[:5],
    ])  # fmt: skip


def table(given: argparse.Namespace) -> int:
    """Prints a row for each network and setting, and the dispatches that take longest."""
    plain: list[Mapping[str, object]] = [{}, {"half": True}]
    settings = list(plain)
    if given.against:
        chosen = {"tuning": dict(given.against)}
        settings = [other for each in plain for other in ({**each, **chosen}, each)]
    names = [name for name in GRAPHS if not given.networks or name in given.networks]
    found = {family: estimates(names, family, settings) for family in given.families}
    print(
        f"Estimated microseconds on {UNITS} compute units at {GHZ} GHz, share of the peak "
        "arithmetic, dispatches with fewer waves than SIMDs; ? where loops of some are unsure"
    )
    print(f"{'':40} " + " ".join(f"{family:>18}" for family in found))
    for name in names:
        for k, each_setting in enumerate(settings):
            row = [found[family][name, k] for family in found]
            print(f"{f'{name}, {_titled(each_setting)}':40} " + " ".join(map(_cell, row)))
            for each in row if given.top else ():
                _kernels(each, given.top)
        for peer in given.peers if name in NETWORKS else ():
            for setting in plain:
                ours = [found[family][name, settings.index(setting)] for family in found]
                _peer(name, peer, bool(setting), ours)
    return 0


def _peer(name: str, peer: str, half: bool, ours: Sequence[Estimate]) -> None:
    """Prints a row of estimates, and one of the ratio to ours; or why there is none."""
    title = f"{name}, {peer} {'float16' if half else 'float32'}"
    try:
        theirs = [PEERS[peer](name, each.family, half) for each in ours]
    except (Unavailable, subprocess.TimeoutExpired) as error:
        print(f"{title:40} NOT RUN: {error}")
        return
    print(f"{title:40} " + " ".join(map(_cell, theirs)))
    ratios = [f"{a.us / b.us:.2f}" for a, b in zip(ours, theirs, strict=True)]
    print(f"{'    ours by it':40} " + " ".join(f"{ratio:>18}" for ratio in ratios))


def setting(text: str) -> tuple[str, str]:
    """Returns KEY=VALUE as a pair. Raises ArgumentTypeError for a setting that selects no kernel.
    Numbers may be any."""
    known: dict[str, set[str]] = {}
    for each in (*forced(), *tuning.GPU):
        for name, value in each.items():
            known.setdefault(name, set()).add(value)
    name, _, value = text.partition("=")
    if name not in known:
        raise argparse.ArgumentTypeError(f"{text}: the settings are {', '.join(sorted(known))}.")
    if value not in known[name] and not value[:1].isdigit():
        values = ", ".join(sorted(known[name]))
        raise argparse.ArgumentTypeError(f"{text}: the values of {name} are {values}.")
    return name, value


def _titled(setting: Mapping[str, object]) -> str:
    words = ["float16 storage" if setting.get("half") else "float32"]
    chosen = setting.get("tuning")
    words += [f"{k}={v}" for k, v in chosen.items()] if isinstance(chosen, dict) else []
    return ", ".join(words)


def _cell(found: Estimate) -> str:
    marks = " SPILLS" * (found.spills > 0) + "?" * (found.unsure > 0)
    return f"{found.us:6.0f} {found.share:5.0%} {found.few:2d}/{len(found.dispatches):2d}{marks}"


def _kernels(found: Estimate, most: int) -> None:
    slowest = sorted(found.dispatches, key=lambda each: -each[2].us)[:most]
    for label, made, taken in slowest:
        print(
            f"    {found.family} {label:18} {taken.us:7.1f} us, {taken.bound}, {taken.waves} waves "
            f"(a SIMD holds {made.waves}), {made.registers} registers, "
            f"{taken.products / 1e6:.1f} M products{'' if taken.sure else ', loops unsure'}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compiled", description=__doc__)
    parser.add_argument("what", choices=("check", "translated", "estimates"))
    parser.add_argument("--families", nargs="+", metavar="NAME", help="of GPUs, as RADV calls them")
    parser.add_argument("--networks", nargs="+", choices=[*GRAPHS], help="only these")
    parser.add_argument(
        "--against",
        nargs="+",
        metavar="KEY=VALUE",
        type=setting,
        help="estimates with these settings, too",
    )
    parser.add_argument("--top", type=int, default=0, help="slowest dispatches that are shown")
    parser.add_argument("--sample", type=int, default=1, metavar="N", help="compile every N-th")
    parser.add_argument("--models", nargs="+", type=Path, help="TFLite and ONNX files")
    parser.add_argument("--peers", nargs="*", choices=[*PEERS], default=[*PEERS], metavar="NAME")
    given = parser.parse_args()
    few = given.what == "check" or given.models
    given.families = given.families or (CHECKED if few else [*FAMILIES])
    try:
        if given.models:
            told = partial(_kernels, most=given.top)
            return models.table(given.models, given.families, given.peers, told)
        if given.what == "translated":
            return translated.check(of_cases(), given.sample)
        return check(given) if given.what == "check" else table(given)
    except Unavailable as error:
        print(f"NOT RUN: {error}")
        return 0


if __name__ == "__main__":
    sys.exit(main())
