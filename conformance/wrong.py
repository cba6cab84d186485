"""python -m conformance.wrong: feeds wrong answers to the suite's own judge, case by case, and says
how many it took. Without a device: the right answers are the host's, or numpy's.

Zeros, all values 0.1 % too large, and single wrong elements: what differs from the right answer in
its type must be refused."""

from __future__ import annotations

import os
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from conformance import check, host, node_cases, tolerance
from conformance.cases import Case
from conformance.host import Feed
from conformance.models import tflite as models
from conformance.variants import hybrid as hybrid_cases, quantized as quantized_cases
from tflgpu_plugin.ir import Array
from tflgpu_plugin.ops import FAMILIES

PLACES = 3  # single elements that are made wrong, one after the other
PART = 1e-2  # of the root mean square of a tensor: how wrong
TOO_LARGE = 1e-3

Judge = Callable[[list[Array]], bool]  # whether it takes these outputs


class Question(NamedTuple):
    """The right outputs of a case, and who judges others. `steps`: how many levels the
    row of an 8-bit op allows."""

    case: str
    right: list[Array]
    takes: Judge
    steps: int = 0


class Count(NamedTuple):
    """How many wrong answers a judge was fed, and which it took."""

    fed: int
    accepted: list[str]


def ask(questions: Iterator[Question]) -> Count:
    """Feeds every wrong answer to every judge."""
    fed, accepted = 0, []
    for question in questions:
        for what, outputs in answers(question):
            fed += 1
            if question.takes(outputs):
                accepted.append(f"{question.case}: {what}")
    return Count(fed, accepted)


def answers(question: Question) -> Iterator[tuple[str, list[Array]]]:
    """Yields (what is wrong, outputs) for each output; omits changes that do not alter the answer
    in the tensor's type."""
    right = question.right
    for k, array in enumerate(right):
        for what, made in _variants(array, question):
            if not np.array_equal(made, array, equal_nan=array.dtype.kind == "f"):
                yield f"output {k}, {what}", [*right[:k], made, *right[k + 1 :]]


def _variants(array: Array, question: Question) -> Iterator[tuple[str, Array]]:
    if not array.size:
        return
    exact = array.dtype.kind == "f" or not question.steps
    if exact or np.abs(array.astype(np.int32)).max() > question.steps:
        yield "zeros", np.zeros_like(array)
    if array.dtype.kind == "f":
        with np.errstate(over="ignore", invalid="ignore"):
            yield (
                "0.1 % too large",
                (array.astype(np.float64) * (1 + TOO_LARGE)).astype(array.dtype),
            )
    random = np.random.default_rng(zlib.crc32(question.case.encode()))
    for place in random.choice(array.size, min(PLACES, array.size), replace=False):
        made = array.copy()
        made.reshape(-1)[place] = _other(array, made.reshape(-1)[place], question.steps + 1)
        yield f"element {place}", made


def _other(array: Array, value: Any, steps: int) -> Any:
    """Returns another number of the type: integers this many steps off, floats off by a fraction of
    the tensor's magnitude."""
    if array.dtype.kind == "b":
        return not value
    if array.dtype.kind in "iu":
        room = int(value) + steps <= np.iinfo(array.dtype).max
        return int(value) + (steps if room else -steps)
    finite = array[np.isfinite(array)].astype(np.float64)
    size = float(np.abs(finite).max(initial=0.0)) or 1.0
    typical = size * float(np.sqrt(np.mean((finite / size) ** 2))) if finite.size else 0.0
    return float(value) + (PART * typical or 1.0) if np.isfinite(value) else 0.0


def operators(family: str) -> Iterator[Question]:
    """Returns the cases that run in TFLite, and in ONNX Runtime as converted models and twins."""
    for case in check.family_cases(family):
        if not case.refused:
            model, feeds = models.build(case), host.case_feeds(case, 1)
            expected = host.cached_on_cpu(model, feeds, *host.oracle(model))
            yield _question(case, feeds, expected)


def hybrid(family: str) -> Iterator[Question]:
    """Returns dynamic-range twins."""
    for own, case in hybrid_cases.twins():
        feeds = host.case_feeds(case, 1)
        if own == family:
            try:
                _, wide = hybrid_cases.build(case)
                expected = host.cached_on_cpu(wide, feeds, *host.oracle(wide))
            except (RuntimeError, ValueError):  # no host has this model
                continue
            yield _question(case, feeds, expected)


def _question(case: Case, feeds: Sequence[Feed], expected: Sequence[list[Array]]) -> Question:
    allowed = check.bounds(case, feeds)

    def takes(outputs: list[Array]) -> bool:
        return check.judge(case, feeds, expected, [outputs], allowed=allowed).passed

    return Question(f"{case.op} {case.name}", expected[0], takes)


def nodes(family: str) -> Iterator[Question]:
    """Returns cases of single internal ops."""
    for case in node_cases.family_nodes(family):
        if not case.refused:
            values = node_cases.feeds(case)
            right, allowed = node_cases.expected(case, values), node_cases.bounds(case, values)

            def takes(outputs: list[Array], right: Any = right, allowed: Any = allowed) -> bool:
                each = zip(right, outputs, allowed, strict=True)
                return all(tolerance.compare(*one).passed for one in each)

            yield Question(f"{case.op} {case.name}", right, takes)


def quantized(family: str) -> Iterator[Question]:
    """Returns twins in 8 bits."""
    for own, case in quantized_cases.twins():
        if own != family:
            continue
        try:
            twin = quantized_cases.quantize(case)
            model, feeds = models.build(twin), host.case_feeds(twin, 1)
            (right,) = host.cached_on_cpu(model, feeds, *host.oracle(model))
        except (RuntimeError, ValueError):  # no host has this model
            continue

        def takes(outputs: list[Array], twin: Any = twin, right: Any = right) -> bool:
            return quantized_cases.judge(twin, right, outputs).passed

        steps, _ = tolerance.IN_8_BITS[quantized_cases.rule_of(case.op)]
        yield Question(f"{case.op} {case.name}", right, takes, steps)


KINDS = {"op": operators, "node": nodes, "8-bit weights": hybrid, "8 bits": quantized}


def count(kind: str, family: str) -> Count:
    """Returns the count of one kind of cases of a family."""
    return ask(KINDS[kind](family))


def main() -> int:
    """Returns the exit status: 0 when no wrong answer was taken."""
    jobs = [(kind, family) for kind in KINDS for family in FAMILIES]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        counts = list(pool.map(count, *zip(*jobs, strict=True)))
    for kind in KINDS:
        own = [c for c, job in zip(counts, jobs, strict=True) if job[0] == kind]
        print(f"{kind}: {sum(c.fed for c in own)} wrong answers")
        for text in (text for c in own for text in c.accepted):
            print(f"  taken: {text}")
    fed, taken = sum(c.fed for c in counts), sum(len(c.accepted) for c in counts)
    print(f"wrong answers accepted: {taken} of {fed}")
    return int(taken > 0 or not fed)


if __name__ == "__main__":
    sys.exit(main())
