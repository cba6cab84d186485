"""Tests that every row is complete: lowering, shape function, cases, tolerance, kernel, a form in a
host; and that nothing is superfluous. No device is needed; the host's CPU interpreter computes the
shapes of the cases."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pytest

from conformance.cases import Case, all_cases
from conformance.direct import SINGLE, graph
from conformance.node_cases import family_nodes
from conformance.references.nodes import REFERENCES
from conformance.tolerance import CLASSES
from tflgpu_plugin import kernels, ops
from tflgpu_plugin.ir import COMPLEX, NUMPY_DTYPES
from tflgpu_plugin.ops import evaluation
from tflgpu_plugin.ops.table import KINDS

ROOT = Path(kernels.__file__).parent.parent
ROWS = ops.rows()
Launched = Callable[[str], set[str]]  # the labels of the kernels that a family's cases launch

# Families whose kernel file has another name, and why.
KERNELS_OF: dict[str, set[str]] = {}

# Kernel files that families do not launch by themselves: the I/O layout conversion, and templates
# for import.
SUPPORT_KERNELS = {"bytes", "common", "floats", "int16", "math", "numbers", "pack", "unpack"}


# Why rows have no meaning in numpy (`Op.meaning`, or views), by kind or name: constants over which
# they stand are left to the host.
NO_MEANING: Mapping[str, set[str]] = {
    "Each host sums products, and the elements of a window, in its own order.": {
        *("product", "window"),
    },
    "It is made of other ops.": {"composite"},
    "Hosts choose between equal values, each in its own way.": {"choice"},
    "Each host rounds this function of floats in its own way.": {
        *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "celu", "cos", "cosh", "elu"),
        *("erf", "exp", "gelu", "gelu_tanh", "hard_sigmoid", "hard_swish", "hypot", "log"),
        *("logistic", "mish", "rsqrt", "selu", "sin", "sinh", "softplus", "softsign", "swish"),
        *("tan", "tanh"),
    },
    "Each host adds the values that it reduces in an order of its own.": {
        *("cumprod", "decision_trees", "mean_of_groups", "mean_square_of_groups", "reduce_l1"),
        *(
            "reduce_l2",
            "reduce_log_sum",
            "reduce_mean_square",
            "reduce_sum_square",
            "segments",
            "softmax",
        ),
        *("squared_distances", "standardize", "standardize_groups"),
    },
    "It is worked out from scales, in a way of its own (`importer.folding`).": {
        *("dequantize", "quantize"),
    },
    "Only passes make it, after constants have been folded.": {
        *("checked", "digit", "dynamic_quantize", "even_sum", "from_bfloat16", "lookup", "pick"),
        *("quantized_hard_swish", "softmax_place", "softmax_share", "wide_product", "wide_total"),
        *("quantized_leaky_relu", "quantized_prelu", "quantized_squared_difference"),
        "quantized_quotient",
        *("quantized_sum", "int16_product", "int16_sum", "times_factor", "to_bfloat16"),
    },
    "No exporter is known to write it over constants.": {
        *("batch_to_space", "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "dilate"),
        *("gather_elements", "is_infinite", "is_nan", "leaky_relu", "left_shift", "max_unpool"),
        *("range_max", "range_mean", "range_min", "range_sum"),
        *("prelu", "relu", "relu6", "relu_n1_to_1", "reverse_sequence", "right_shift", "shrink"),
        *("space_to_batch", "squared_difference", "thresholded_relu", "update_slice"),
    },
}


@pytest.mark.parametrize("name", ROWS)
def test_row_has_a_meaning_or_a_reason(name: str) -> None:
    row = ROWS[name]
    reasons = [why for why, names in NO_MEANING.items() if names & {name, row.kind}]
    assert len(reasons) == (not evaluation.known(row)), f"{name}: {reasons or 'no meaning'}"


def test_every_reason_is_that_of_a_row() -> None:
    assert set().union(*NO_MEANING.values()) <= {*ROWS, *KINDS}


@cache
def accepted(family: str) -> list[Case]:
    return [case for case in all_cases()[family] if not case.refused]


@pytest.mark.parametrize("name", ROWS)
def test_row_is_complete(name: str) -> None:
    row = ROWS[name]
    assert callable(row.refuse) and callable(row.shapes) and callable(row.lower)
    assert row.accuracy in CLASSES, (
        f"{name} has accuracy {row.accuracy}; classes are {list(CLASSES)}"
    )
    assert row.types and set(row.types) <= {*NUMPY_DTYPES, COMPLEX}, f"{name} has types {row.types}"
    assert inspect.getdoc(inspect.getmodule(row.lower)), f"family {row.family} has no docstring"


@pytest.mark.parametrize("name", ROWS)
def test_row_states_its_traits(name: str) -> None:
    """A row states the traits of its kind; a missing one would be wrong unseen."""
    row = ROWS[name]
    assert row.kind in KINDS, f"{name} is of the kind {row.kind!r}; kinds are {KINDS}"
    stated = {
        "product": row.accumulates is not None,
        "reduction": row.accumulates is not None,
        "movement": row.keeps in ("first", "any") or row.states or name == "max_unpool",
        "elementwise": row.follows == "elementwise",
        "composite": row.decompose is not None,
    }
    assert stated.get(row.kind, True), f"a {row.kind} says more than {name} does, see ops/table.py"
    assert row.accuracy not in ("accumulate", "reduction") or row.accumulates is not None, (
        f"{name} sums: may results be larger than float16 holds (accumulates)?"
    )
    assert not row.limits or (row.as_epilogue and row.accuracy == "exact")
    assert not row.weights or (row.kind == "product" and row.rounding)
    chooses = row.unknown == "chooses"
    assert (
        not row.same_quantization
        or chooses
        or row.kind in (*("window", "reduction", "choice", "composite"),)
    )


@pytest.mark.parametrize("name", ROWS)
def test_row_has_cases(name: str) -> None:
    """The cases are operators of a host, single nodes with a meaning in numpy, or 8-bit twins from
    which passes make the op."""
    if made := ROWS[name].stands_for:
        assert all(ROWS[op].quantize and test_row_has_cases(op) is None for op in made)
        return
    nodes = [case for case in family_nodes(ROWS[name].family) if case.op == name]
    assert nodes or name in {form.op for form in SINGLE.values()}, f"nothing tests {name}"
    assert not nodes or name in REFERENCES, f"numpy is not told what {name} means"


def test_every_reference_is_of_an_op() -> None:
    assert set(REFERENCES) <= set(ROWS)


@pytest.mark.parametrize("host_op", SINGLE)
def test_form_names_an_op(host_op: str) -> None:
    form = SINGLE[host_op]
    assert form.op in ROWS, f"{host_op} becomes {form.op}, which is not in the table"
    assert form.versions[0] <= form.versions[1]
    for edition, (first, last) in form.documented.items():
        assert first <= last, f"{host_op} has the range {first} to {last} in the edition {edition}"


@pytest.mark.parametrize("host_op", SINGLE)
def test_form_has_cases(host_op: str) -> None:
    family = ROWS[SINGLE[host_op].op].family
    assert any(case.op == host_op for case in accepted(family)), (
        f"no case of {family} is a {host_op}"
    )


@pytest.mark.parametrize("family", ops.FAMILIES)
def test_family_has_cases_and_kernels(family: str, launched: Launched) -> None:
    names = [(case.op, case.name) for case in all_cases()[family]]
    names += [(case.op, case.name) for case in family_nodes(family)]
    assert len(set(names)) == len(names), "two cases of one op have the same name"
    own = launched(family) - SUPPORT_KERNELS
    assert own, f"no case of {family} launches a kernel"
    missing = [name for name in own if not (ROOT / "kernels" / f"{name}.wgsl").exists()]
    assert not missing


def test_every_kernel_file_is_launched(launched: Launched) -> None:
    all_launched = {label for family in ops.FAMILIES for label in launched(family)}
    files = {path.stem: path.read_text() for path in (ROOT / "kernels").glob("*.wgsl")}
    named = {name for text in files.values() for name in re.findall(r'"([\w%]+)\.wgsl"', text)}
    patterns = [name.replace("%s", "*") for name in named]  # `%s`: the variant says which
    imported = {stem for stem in files if any(fnmatch(stem, each) for each in patterns)}
    assert set(files) - all_launched - imported - SUPPORT_KERNELS == set()


@pytest.mark.parametrize("family", ops.FAMILIES)
def test_shape_functions_agree_with_the_host(family: str) -> None:
    wrong = []
    for case in accepted(family):
        partition = graph(case)
        node = partition.nodes[0]
        wanted = [partition.shape(tensor) for tensor in node.outputs]
        got = [tuple(shape) for shape in ROWS[node.op].shapes(partition, node)]
        if got != wanted:
            wrong.append(f"{case.op} {case.name}: the host has {wanted}, the shape function {got}")
    assert not wrong, "\n".join(wrong)
