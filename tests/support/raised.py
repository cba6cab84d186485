"""Cases of the conformance suite with one integer raised beyond every extent: an option, an
attribute, or an element of a constant that holds shapes, axes, bounds or counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from conformance import direct, node_cases
from conformance.cases import Case, Input, all_cases
from conformance.node_cases import NodeCase, family_nodes
from tflgpu_plugin.ir import Graph
from tflgpu_plugin.ops import FAMILIES, rows

FAR = 1 << 20
NEAR = 1 << 14  # beyond extents as well, but hosts hold paddings in 16 bits
SAMPLE = 4  # cases for each number of an operator
LISTS = ("i32", "i64")  # constants of these types that are short say what to do

AnyCase = Case | NodeCase


@cache
def raised(value: int) -> dict[str, list[tuple[str, AnyCase]]]:
    """Returns by family the attributes that have this value ("CONV_2D strideH of ..."), each with a
    case. For each number of an operator there are a few cases from all over the list."""
    found = {}
    for family, cases in all_cases().items():
        by_number: dict[str, list[tuple[str, AnyCase]]] = {}
        for case in (*cases, *family_nodes(family)):
            for number, changed in () if case.refused else _changes(case, value):
                by_number.setdefault(f"{case.op} {number}", []).append(
                    (f"{case.op} {number} of {case.name!r}", changed)
                )
        found[family] = [
            one for listed in by_number.values() for one in listed[:: -(-len(listed) // SAMPLE)]
        ]
    return {family: found[family] for family in FAMILIES}


def graph(case: AnyCase) -> Graph:
    """Returns the case as a graph of one node. Raises whatever hosts and shape functions raise for
    invalid attributes."""
    return direct.graph(case) if isinstance(case, Case) else node_cases.graph(case)


def _changes(case: AnyCase, to: int) -> Iterator[tuple[str, AnyCase]]:
    values = {value.dtype for value in case.inputs if value is not None and value.data is None}
    product = isinstance(case, NodeCase) and rows()[case.op].kind == "product"
    for k, value in enumerate(case.inputs):
        if value is None or product:  # whose constants are weights
            continue
        if value.dtype in values or value.quantization:  # an operand like others, or a bias
            continue
        for number, changed in _raised_constant(value, to):
            inputs = (*case.inputs[:k], changed, *case.inputs[k + 1 :])
            yield f"input {k}[{number}]", replace(case, inputs=inputs)
    if isinstance(case, NodeCase):
        for name, attributes in _raised_options(case.attributes, to):
            yield name, replace(case, attributes=attributes)
    elif not case.op.startswith("CUSTOM"):  # whose shapes a host tells that computes for seconds
        for name, options in _raised_options(case.options, to):
            yield name, replace(case, options=options)


def _raised_constant(value: Input, to: int) -> Iterator[tuple[int, Input]]:
    if value.data is None or value.dtype not in LISTS or value.data.size > 16:
        return
    for k in range(value.data.size):
        data = value.data.copy()
        data.reshape(-1)[k] = to
        yield k, replace(value, data=data)


def _raised_options(options: Mapping[str, Any], to: int) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, value in options.items():
        if type(value) is int:
            yield name, {**options, name: to}
        for k, entry in enumerate(value) if isinstance(value, list | tuple) else ():
            if type(entry) is int:
                yield f"{name}[{k}]", {**options, name: (*value[:k], to, *value[k + 1 :])}
