"""Both sides of every advertised boundary: each version of each operator, the version after it,
each type, and types that no row has.

A version that no installed host has in its registry cannot be run there; it is NOT-CONVERTIBLE."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pytest

from conformance import check, conditions, direct, host, node_cases, tolerance
from conformance.cases import Case, all_cases
from conformance.direct import SINGLE, graph
from conformance.models import tflite as models
from conformance.plugin.book import Book
from conformance.plugin.record import FAIL, NOT_CONVERTIBLE, REFUSED, Record
from conformance.test_ops import describe, record_of
from tflgpu_plugin import ops
from tflgpu_plugin.importer import support
from tflgpu_plugin.runtime import adapter

FOREIGN = "f64"  # a type of values that no row has
NEED_NON_FINITE = {"is_infinite", "is_nan"}  # all their cases are given an infinity or NaN
# Types of a row that its operator cannot have in any TFLite host; the other frontend has them. Of
# bfloat16 no interpreter takes or gives an array.
ELSEWHERE = {
    *(("SPLIT", "bool"), ("SPLIT_V", "bool")),
    *(("SPACE_TO_BATCH_ND", "bool"), ("BATCH_TO_SPACE_ND", "bool"), ("PACK", "bool")),
    *(("CAST", "bf16"), ("CAST", "c64")),
    *((op, "i32") for op in ("RELU", "RELU6", "RELU_N1_TO_1", "SIGN", "SQUARE")),
}


@dataclass(frozen=True)
class Version:
    """One version of an operator, in the smallest of its cases. `name` is the name of the case."""

    op: str
    version: int
    family: str
    name: str
    output_type: str = "f32"


@cache
def first_case(host_op: str) -> Case | None:
    """Returns the first case of the operator that its row accepts, or None."""
    family = ops.rows()[SINGLE[host_op].op].family
    found = [c for c in all_cases()[family] if c.op == host_op and not c.refused]
    return found[0] if found else None


def _versions() -> list[Any]:
    return [
        pytest.param(case := Version(op, v, ops.rows()[form.op].family, f"version {v}"),
                     id=f"{case.op}-{v}")
        for op, form in SINGLE.items()
        for v in range(form.versions[0], form.versions[1] + 1)
    ]  # fmt: skip


@pytest.mark.adapter
@pytest.mark.parametrize("case", _versions())
def test_version_runs(
    case: Version, host_name: str, options: Mapping[str, Any], book: Book
) -> None:
    """An advertised version runs on the GPU and is right."""
    simple = first_case(case.op)
    assert simple is not None, f"{case.op} has no case"
    who = describe("version", case.family, simple, host_name)
    who |= {"case": case.name, "version": case.version}
    model = models.build(simple, version=case.version)
    if not any(host.registers(model, host_name, kernels) for kernels in host.KERNELS):
        text = f"{host_name} does not have version {case.version} of {case.op}"
        return book.close(Record(**who, outcome=NOT_CONVERTIBLE, text=text))
    result = check.through_host(simple, host_name, options, version=case.version)
    book.close(record_of(result, who), model)


@pytest.mark.adapter
@pytest.mark.parametrize("host_op", SINGLE)
def test_next_version_is_refused(host_op: str, host_name: str, book: Book) -> None:
    """The version after the last advertised one is refused, in a sentence with the range."""
    simple = first_case(host_op)
    assert simple is not None
    version = SINGLE[host_op].versions[1] + 1
    sentence = _support(replace(simple, version=version))
    _control(book, simple, host_name, f"version {version}", version, sentence)


@pytest.mark.adapter
@pytest.mark.parametrize("host_op", SINGLE)
def test_foreign_type_is_refused(host_op: str, host_name: str, book: Book) -> None:
    """A type that the row does not have is refused."""
    simple = first_case(host_op)
    assert simple is not None
    one = graph(simple)
    node = one.nodes[0]
    values = {*node.outputs, *node.inputs[:1]} - {None}
    tensors = {k: replace(t, dtype=FOREIGN) if k in values else t for k, t in one.tensors.items()}
    sentence = support.support(replace(one, tensors=tensors), node, _target())
    _control(book, simple, host_name, f"type {FOREIGN}", simple.version, sentence)


def _control(
    book: Book, simple: Case, host_name: str, name: str, version: int, sentence: str | None
) -> None:
    family = ops.rows()[SINGLE[simple.op].op].family
    who = describe("control", family, simple, host_name) | {"case": name, "version": version}
    if sentence is None or not sentence.endswith("."):
        text = "not refused with a sentence, but the row does not advertise it"
        return book.close(Record(**who, outcome=FAIL, text=f"{text}: {sentence}"))
    book.close(Record(**who, outcome=REFUSED, text=sentence, expected_refusal=True))


def _support(case: Case) -> str | None:
    """Returns the plugin's verdict on a case at its version; the graph has the shapes of version
    1."""
    known = direct.graph(replace(case, version=_simple_version(case)))
    node = replace(known.nodes[0], version=case.version)
    return conditions.refusal(known, node, _target())


def _simple_version(case: Case) -> int:
    simple = first_case(case.op)
    return simple.version if simple else 1


def _target() -> Any:
    return adapter.open_device(adapter.select()).target


@pytest.mark.parametrize("host_op", SINGLE)
def test_row_is_complete(host_op: str) -> None:
    """Every type of a row has a case, and its accuracy class has a tolerance."""
    host_row = SINGLE[host_op]
    row = ops.rows()[host_row.op]
    types = set(row.types) & set(host_row.types or row.types)
    cases = [c for c in all_cases()[row.family] if c.op == host_op and not c.refused]
    found = {dtype for c in cases for dtype in c.types}
    inputs = [c.inputs for c in cases]
    nodes = [c for c in node_cases.family_nodes(row.family) if c.op == row.name and not c.refused]
    inputs += [c.inputs for c in nodes]
    found |= {value.dtype for given in inputs for value in given if value is not None}
    found |= {dtype for op, dtype in ELSEWHERE if op == host_op}
    assert found >= types, f"{host_op} has cases for {found}, its row has {types}"
    assert row.accuracy in tolerance.CLASSES
    assert callable(row.shapes) and callable(row.lower)


@pytest.mark.parametrize("family", ops.FAMILIES)
def test_family_has_cases(family: str) -> None:
    """Every op of a family is the subject of a case that must run, but for those that stand for
    another over 8 bits."""
    found = {SINGLE[c.op].op for c in all_cases()[family] if not c.refused}
    found |= {c.op for c in node_cases.family_nodes(family) if not c.refused}
    rows = {n for n, row in ops.rows().items() if row.family == family and not row.stands_for}
    missing = rows - found - (NEED_NON_FINITE if tolerance.FINITE_ONLY else set())
    assert not missing, f"no case of {', '.join(sorted(missing))} in conformance/cases/{family}.py"
