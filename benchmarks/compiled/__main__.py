"""python -m benchmarks.compiled check: compiles every kernel of the conformance cases with the
compilers of GPUs (--gpus, or two of AMD's) and prints its registers and waves.

python -m benchmarks.compiled translated: translates these kernels to the languages of D3D12 and
Metal, and compiles those for D3D12. With --sample N both take every N-th. check --translated N does
both with one list of kernels, and compiles every N-th for D3D12.

python -m benchmarks.compiled estimates: predicts by a model the time of the seeded networks in
ours, in ncnn and in onnxruntime's WebGPU provider; with --models, of TFLite and ONNX models in ours
and, where an .npz beside an ONNX model has its inputs, in the latter.

python -m benchmarks.compiled recorded: compares estimates of ours with those that recorded.json
holds, and fails where one is slower; --record writes them there."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path

from benchmarks.compiled import models, recorded, translated
from benchmarks.compiled.amd import FAMILIES
from benchmarks.compiled.cost import Code
from benchmarks.compiled.driver import compiled, look
from benchmarks.compiled.gpus import MAKERS, MODELS
from benchmarks.compiled.kernels import of_cases
from benchmarks.compiled.networks import GRAPHS, Estimate, estimates
from benchmarks.compiled.peers import ncnn, webgpu
from benchmarks.compiled.spills import unexpected
from benchmarks.engine import Unavailable
from benchmarks.networks import NETWORKS
from conformance.settings import forced
from tflgpu_plugin.compile import tuning
from tflgpu_plugin.ir import Pipeline
from tflgpu_plugin.ops import FAMILIES as OPS

PEERS = {"ncnn": ncnn, "webgpu": webgpu}
CHECKED = ("navi31", "vega10")  # waves of 32 and 64 lanes; of 64 only


def check(given: argparse.Namespace) -> int:
    """Compiles for each GPU and prints registers and waves of each kernel. Returns 1 when one fails
    or spills that is not known to."""
    for gpu in given.gpus:
        look(gpu)
    amd = [gpu for gpu in given.gpus if gpu in FAMILIES]
    also: Future[int] | None = None
    alike = [amd] * bool(amd) + [[gpu] for gpu in given.gpus if gpu not in FAMILIES]
    with ThreadPoolExecutor(len(given.gpus) + 1) as pool:
        waiting = []  # what is planned is compiled while the next is planned
        for gpus in alike:
            wanted = of_cases(gpus[0], given.sample, given.ops)
            made = [pool.submit(compiled, list(wanted), gpu) for gpu in gpus]
            waiting.append((gpus, wanted, made))
            if given.translated and not also:
                also = pool.submit(_translated, wanted, given.translated)
        tables = [(gpus, wanted, [e.result() for e in made]) for gpus, wanted, made in waiting]
    all_ran = given.sample == 1 and given.ops == OPS
    wrong = [line for each in tables for line in _checked(*each, all_ran)]
    print("\n".join(wrong))
    return 1 if wrong or (also and also.result()) else 0


def _translated(kernels: Mapping[Pipeline, str], sample: int) -> int:
    """Returns 1 if a translation is wrong, 0 if none is or what translates is missing."""
    try:
        return translated.check(kernels, sample)
    except Unavailable as error:
        print(f"NOT RUN: {error}", flush=True)
        return 0


def _checked(
    gpus: Sequence[str],
    wanted: Mapping[Pipeline, str],
    made: Sequence[Sequence[Code | str]],
    all_ran: bool,
) -> list[str]:
    """Prints the table of GPUs that have the same kernels, and returns what is wrong."""
    print(f"{'kernel':30} {'of':34} " + " ".join(f"{name:>18}" for name in gpus))
    print(f"{'':65} " + " ".join(["registers, waves".rjust(18)] * len(gpus)))
    for row in zip(wanted.items(), *made, strict=True):
        (pipeline, where), *found = row
        print(f"{pipeline.name:30} {where:34} " + " ".join(f"{_told(each):>18}" for each in found))
    wrong = []
    for gpu, compiled_for in zip(gpus, made, strict=True):
        print(_summary(gpu, wanted, compiled_for), flush=True)
        pairs = list(zip(wanted.values(), compiled_for, strict=True))
        wrong += [f"{gpu}: {each}" for each in compiled_for if isinstance(each, str)]
        spilled = [
            where.split(",")[0] for where, each in pairs if isinstance(each, Code) and each.spills
        ]
        wrong += unexpected(gpu, spilled, all_ran)
    return wrong


def _told(found: Code | str) -> str:
    if isinstance(found, str):
        return "FAILED"
    spilled = f" {found.spills} SPILLED" if found.spills else ""
    return f"{found.registers}, {found.waves}{spilled}"


def _summary(gpu: str, wanted: Mapping[Pipeline, str], found: Sequence[Code | str]) -> str:
    made = [each for each in found if isinstance(each, Code)]
    failed = [each for each in found if isinstance(each, str)]
    spilled = sum(each.spills > 0 for each in made)
    least = min(zip((e.waves for e in made), (p.label for p in wanted), strict=False), default=(0,))
    return "\n".join([
        f"{gpu}: {len(found)} kernels, {len(failed)} failed, {spilled} spill; at most "
        f"{max((e.registers for e in made), default=0)} registers, "
        f"at least {least[0]} waves per SIMD.",
        *failed[:5],
    ])  # fmt: skip


def table(given: argparse.Namespace) -> int:
    """Prints a table for each maker: a row for each network and setting, and the dispatches that
    take longest."""
    print(
        "Estimated microseconds, share of the peak arithmetic, dispatches with fewer waves than "
        "schedulers; ? where loops of some are unsure, ! where the model does not know some "
        "instructions"
    )
    for gpus in MAKERS.values():
        if wanted := [gpu for gpu in gpus if gpu in given.gpus]:
            _of_maker(wanted, given)
    return 0


def _of_maker(gpus: Sequence[str], given: argparse.Namespace) -> None:
    plain: list[Mapping[str, object]] = [{}, {"half": True}]
    settings = list(plain)
    if given.against:
        chosen = {"tuning": dict(given.against)}
        settings = [other for each in plain for other in ({**each, **chosen}, each)]
    names = [name for name in GRAPHS if not given.networks or name in given.networks]
    found = {gpu: estimates(names, gpu, settings) for gpu in gpus}
    print(f"{'':40} " + " ".join(f"{gpu:>18}" for gpu in found))
    for name in names:
        for k, each_setting in enumerate(settings):
            row = [found[gpu][name, k] for gpu in found]
            print(f"{f'{name}, {_titled(each_setting)}':40} " + " ".join(map(_cell, row)))
            for each in row if given.top else ():
                _kernels(each, given.top)
        for peer in given.peers if name in NETWORKS else ():
            for each_plain in plain:
                ours = [found[gpu][name, settings.index(each_plain)] for gpu in found]
                _peer(name, peer, bool(each_plain), ours)


def _peer(name: str, peer: str, half: bool, ours: Sequence[Estimate]) -> None:
    """Prints a row of estimates, and one of the ratio to ours; or why there is none."""
    theirs: list[Estimate | None] = []
    why = dict[str, str]()
    for each in ours:
        try:
            theirs.append(PEERS[peer](name, each.gpu, half))
        except (Unavailable, subprocess.TimeoutExpired) as error:
            theirs.append(None)
            why[each.gpu] = str(error)
    title = f"{name}, {peer} {'float16' if half else 'float32'}"
    if len(why) < len(ours):
        cells = [_cell(each) if each else f"{'-':>18}" for each in theirs]
        print(f"{title:40} " + " ".join(cells))
        print(f"{'    ours by it':40} " + " ".join(map(_ratio, ours, theirs)), flush=True)
    for reason in dict.fromkeys(why.values()):
        print(f"{title:40} NOT RUN: {reason}")


def _ratio(ours: Estimate, theirs: Estimate | None) -> str:
    """Returns the ratio, "-" where the model does not count all that one of both does."""
    known = theirs is not None and not ours.uncounted and not theirs.uncounted
    return f"{ours.us / theirs.us:18.2f}" if theirs and known else f"{'-':>18}"


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
    marks += "!" * (found.uncounted > 0)
    return f"{found.us:6.0f} {found.share:5.0%} {found.few:2d}/{len(found.dispatches):2d}{marks}"


def _kernels(found: Estimate, most: int) -> None:
    slowest = sorted(found.dispatches, key=lambda each: -each[2].us)[:most]
    for label, made, taken in slowest:
        print(
            f"    {found.gpu} {label:18} {taken.us:7.1f} us, {taken.bound}, {taken.waves} waves "
            f"(a SIMD holds {made.waves}), {made.registers} registers, "
            f"{taken.products / 1e6:.1f} M products{'' if taken.sure else ', loops unsure'}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compiled", description=__doc__)
    parser.add_argument("what", choices=("check", "translated", "estimates", "recorded"))
    parser.add_argument(
        "--gpus", nargs="+", choices=[*MODELS], metavar="NAME", help="as Mesa calls them"
    )
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
    parser.add_argument("--translated", type=int, default=0, metavar="N", help="translates, too")
    parser.add_argument(
        "--ops", nargs="+", choices=OPS, default=OPS, metavar="FAMILY", help="only these"
    )
    parser.add_argument("--record", action="store_true", help="keep what is found as the table")
    parser.add_argument("--models", nargs="+", type=Path, help="TFLite and ONNX files")
    parser.add_argument("--peers", nargs="*", choices=[*PEERS], default=[*PEERS], metavar="NAME")
    given = parser.parse_args()
    few = given.what == "check" or given.models
    given.gpus = given.gpus or (CHECKED if few else [*MODELS])
    try:
        if given.models:
            told = partial(_kernels, most=given.top)
            tuning = dict(given.against or ())
            return models.table(given.models, given.gpus, given.peers, told, tuning)
        if given.what == "recorded":
            return recorded.check(given.gpus, given.record)
        if given.what == "translated":
            return translated.check(of_cases(), given.sample)
        return check(given) if given.what == "check" else table(given)
    except Unavailable as error:
        print(f"NOT RUN: {error}")
        return 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # after an error, DXC's shared library may wait in its destructor without end
