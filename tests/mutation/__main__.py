"""python -m tests.mutation: seeded mutants of our code, and which of them no check sees.

The last lines tell, for each area, how many were made, killed, shown to be equivalent, and
survived. The exit status is 1 when more than --allowed percent survive."""

from __future__ import annotations

import argparse
import os
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from math import inf

from tests.mutation import equivalent, mutants
from tests.mutation.mutants import AREAS, Mutant
from tests.mutation.runner import Outcome, Runner


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--count", type=int, default=300, help="how many mutants, of all areas")
    parser.add_argument("--sample", action="store_true", help="30, as make test-all has them")
    parser.add_argument("--seed", type=int, default=12)
    parser.add_argument("--area", action="append", choices=list(AREAS), help="only these")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--part", default="1/1", help="K/N: every N-th, from the K-th on")
    parser.add_argument("--file", help="only mutants of files whose name holds this")
    parser.add_argument("--line", type=int, help="only those of this line, and all of them")
    parser.add_argument("--seconds", type=float, default=inf, help="begin none after so long")
    parser.add_argument("--thorough", action="store_true", help="run every case that may differ")
    parser.add_argument("--own", action="store_true", help="only the checks of a mutant's file")
    parser.add_argument("--allowed", type=float, default=0.0, help="percent that may survive")
    parser.add_argument("--list", action="store_true", help="show the mutants, run none")
    given = parser.parse_args(arguments)
    chosen = _chosen(given)
    if given.list:
        print("\n".join(map(str, chosen)))
        return 0
    known = [mutant for mutant in chosen if equivalent.reason(mutant)]
    start, outcomes = time.monotonic(), list[Outcome]()

    def done(outcome: Outcome) -> None:
        if outcome.how == "survived" and equivalent.of_speed(outcome.mutant):
            known.append(outcome.mutant)
            return
        outcomes.append(outcome)
        mark = f"{outcome.how:<9} {outcome.seconds:5.1f} s"
        print(f"{mark} {outcome.mutant.file}:{outcome.mutant.line}  {outcome.by[:110]}", flush=True)
        if outcome.how in ("survived", "broken"):
            print(f"    - {outcome.mutant.before}\n    + {outcome.mutant.after}", flush=True)
            print(outcome.by if outcome.how == "broken" else "", end="")

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    last = not (given.own or given.sample)
    runner = Runner(given.jobs, given.thorough, given.seconds, last)
    try:
        if reason := runner.missing():
            print(f"NOT RUN: {reason.splitlines()[-1]}")
            return 0
        runner.run([mutant for mutant in chosen if mutant not in set(known)], done)
    finally:
        runner.close()
    return _report(outcomes, known, given.allowed, time.monotonic() - start)


def _chosen(given: argparse.Namespace) -> list[Mutant]:
    if given.line:
        every = [Mutant(a, f, e) for a in AREAS for f in mutants.files(a) for e in mutants.edits(f)]
        return [m for m in every if given.file in m.file and m.line == given.line]
    count = 30 if given.sample else given.count
    found = mutants.sample(count, given.seed, given.area or ())
    number, of = map(int, given.part.split("/"))
    return [m for m in found if not given.file or given.file in m.file][number - 1 :: of]


def _report(
    outcomes: Sequence[Outcome], known: Sequence[Mutant], allowed: float, seconds: float
) -> int:
    survivors = [o for o in outcomes if o.how in ("survived", "broken")]
    if survivors:
        print("\nSurvivors:")
    for outcome in survivors:
        print(outcome.mutant)
    counts = {how: Counter(o.mutant.area for o in outcomes if o.how == how)
              for how in ("killed", "survived", "broken", "stillborn")}  # fmt: skip
    counts["equivalent"] = mutants.counted(known)
    shown = ("killed", "equivalent", "survived")
    print(f"\n{'area':<10}{'made':>6}" + "".join(f"{how:>12}" for how in shown))
    counts["survived"] += counts["broken"]
    whole = Counter[str]()
    for area in AREAS:
        row = {how: counts[how][area] for how in shown}
        made = sum(row.values())
        if made:
            print(f"{area:<10}{made:>6}" + "".join(f"{row[how]:>12}" for how in shown))
        whole.update(row | {"made": made})
    print(f"{'all':<10}{whole['made']:>6}" + "".join(f"{whole[how]:>12}" for how in shown))
    still = sum(counts["stillborn"].values())
    share = 100 * len(survivors) / max(whole["made"], 1)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = used.ru_utime + used.ru_stime
    print(f"{share:.1f} % survived; {still} more were no programs; "
          f"{seconds:.0f} s, {spent:.0f} s of processors.")  # fmt: skip
    return int(share > allowed)


if __name__ == "__main__":
    sys.exit(main())
