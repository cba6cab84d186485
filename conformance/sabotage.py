"""Deliberately wrong kernels: proof that the suite can fail, family by family.

`python -m conformance.sabotage [FAMILY...]` prints how many cases of each family catch each defect;
`test_suite.py` asks that at least one does. A defect changes the WGSL of every kernel but those
of the I/O layout conversion, as it is rendered, or the size of its dispatches; nothing outside the
process sees it."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

os.environ.setdefault("LP_NUM_THREADS", "0")
os.environ.setdefault("TFLGPU_FILL_NAN", "1")

from conformance import check, node_cases
from conformance.cases import Case
from conformance.node_cases import NodeCase
from tflgpu_plugin import kernels
from tflgpu_plugin.compile import compiler
from tflgpu_plugin.ir import Target
from tflgpu_plugin.ops import FAMILIES
from tflgpu_plugin.runtime import adapter

IO_LAYOUT = ("pack", "unpack")

Edit = Callable[[str], str]


def _scaled(wgsl: str) -> str:
    """Returns WGSL that stores every value 0.1 % too large, and integers off by 1."""
    wgsl = re.sub(r"(value: vec4f\) \{\n  var v = value);", r"\1 * 1.001;", wgsl)
    wgsl = re.sub(r"(value: vec4i\) \{\n  var v = value);", r"\1 + 1;", wgsl)
    put = r"(fn put_\w+\(i: u32, v: (?:{})\) \{{ \w+\[p\.\w+ \+ i\] = v)"
    wgsl = re.sub(put.format("f32|vec2f"), r"\1 * 1.001", wgsl)
    return re.sub(put.format("i32|vec2i"), r"\1 + 1", wgsl)


def _half(wgsl: str) -> str:
    """Returns WGSL whose stored values keep the ten mantissa bits of a float16."""
    cut = "bitcast<vec4f>(bitcast<vec4u>(value) & vec4u(0xffffe000u))"
    return re.sub(r"(value: vec4f\) \{\n  var v = )value;", rf"\1{cut};", wgsl)


def _last_lane(wgsl: str) -> str:
    """Returns WGSL that loses the last of four channels."""
    return wgsl.replace("epilogue.mask);", "epilogue.mask & vec4<bool>(true, true, true, false));")


def _pad_lanes(wgsl: str) -> str:
    """Returns WGSL whose lanes after the last channel are not zero, which no single operator
    reveals."""
    return re.sub(
        r"select\((vec4.)\(\), v, epilogue\.mask\)", r"select(\1(9), v, epilogue.mask)", wgsl
    )


def _neighbour(wgsl: str) -> str:
    """Returns WGSL that stores the first vector of a tensor one position later."""
    return re.sub(
        r"(fn store_\w+\(i): u32(, epilogue: \w+, value: vec4[fi]\) \{\n)",
        r"\1_: u32\2  let i = select(i_, 1u, i_ == 0u);\n",
        wgsl,
    )


@dataclass(frozen=True)
class Defect:
    """A way to be wrong: an edit of WGSL, or dispatches that are one workgroup short."""

    name: str
    edit: Edit | None = None


DEFECTS = (
    Defect("0.1 % too large", _scaled),
    Defect("half precision", _half),
    Defect("fourth channel lost", _last_lane),
    Defect("first vector misplaced", _neighbour),
    Defect("last workgroup missing"),
)
PAD_LANES = Defect("pad lanes not zero", _pad_lanes)


@contextlib.contextmanager
def injected(defect: Defect) -> Iterator[list[str]]:
    """Plans inside of the block have the defect; the list collects the kernels that were
    changed."""
    render, fold = kernels.render, compiler.folded_groups
    changed: list[str] = []

    def wrong_render(kernel: str, *rest: Any) -> str:
        right = render(kernel, *rest)
        if kernel in IO_LAYOUT or defect.edit is None:
            return right
        wrong = defect.edit(right)
        if wrong != right:
            changed.append(kernel)
        return wrong

    def wrong_fold(
        workgroups: tuple[int, int, int], limit: int
    ) -> tuple[int, tuple[int, int, int]]:
        folded, (x, y, z) = fold(workgroups, limit)
        if max(x, y, z) == 1 or folded:
            return folded, (x, y, z)
        changed.append("workgroups")
        return folded, (x - 1, y, z) if x > 1 else (x, y - 1, z) if y > 1 else (x, y, z - 1)

    vars(kernels)["render"] = wrong_render
    if defect.edit is None:
        compiler.folded_groups = wrong_fold
    try:
        yield changed
    finally:
        kernels.render, compiler.folded_groups = render, fold


@dataclass(frozen=True)
class Caught:
    """How many cases ran a wrong kernel, and how many of them said so. `first` names one."""

    touched: int
    caught: int
    first: str = ""


def hunt(family: str, defect: Defect, wanted: str | None = None, every: bool = False) -> Caught:
    """Runs the family's cases with the defect, until one detects it or, with `every`, all."""
    touched, caught, first = 0, 0, ""
    for name, passes in _trials(family, wanted):
        with injected(defect) as changed:
            good = passes()
        if not changed:
            continue
        touched += 1
        if not good:
            caught, first = caught + 1, first or name
            if not every:
                break
    return Caught(touched, caught, first)


Trial = tuple[str, Callable[[], bool]]


def _trials(family: str, wanted: str | None) -> Iterator[Trial]:
    """Returns names of a family's cases, and whether they pass now."""
    yield from (_case_trial(c, wanted) for c in check.family_cases(family) if not c.refused)
    target = adapter.open_device(adapter.select(wanted)).target
    nodes = node_cases.family_nodes(family)
    yield from (_node_trial(n, target, wanted) for n in nodes if not n.refused)


def _case_trial(case: Case, wanted: str | None) -> Trial:
    return f"{case.op} {case.name}", lambda: check.direct(case, None, wanted).passed


def _node_trial(case: NodeCase, target: Target, wanted: str | None) -> Trial:
    targets = {"": target}
    return f"{case.op} {case.name}", lambda: node_cases.check(case, targets, wanted) is None


def main(families: list[str]) -> int:
    """Prints the table of detections; returns exit status 1 if a family misses a defect that it
    could detect."""
    missed = 0
    print("| family | " + " | ".join(d.name for d in DEFECTS) + " |")
    print("|---|" + "---|" * len(DEFECTS))
    for family in families or FAMILIES:
        found = [hunt(family, defect, every=True) for defect in DEFECTS]
        missed += any(c.touched and not c.caught for c in found)
        cells = " | ".join(f"{c.caught} of {c.touched}" for c in found)
        print(f"| {family} | {cells} |", flush=True)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
