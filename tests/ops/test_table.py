"""Tests claims at each documented version and the one above, in both editions and by default. Both
editions of the GPU delegate documentation are literal lists here, so that the table cannot drift
from them. Versions that a host does not register never reach a delegate; those are checked with
`support.support` on the same node."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from conformance import direct, host
from conformance.cases import Case, all_cases
from conformance.conditions import refusal
from conformance.direct import SINGLE
from conformance.models import tflite as models
from tflgpu_plugin.ir import Target

EDITION_2019 = {
    "ADD": (1, 1),
    "AVERAGE_POOL_2D": (1, 1),
    "CONCATENATION": (1, 1),
    "CONV_2D": (1, 1),
    "DEPTHWISE_CONV_2D": (1, 2),
    "FULLY_CONNECTED": (1, 1),
    "LOGISTIC": (1, 1),
    "MAX_POOL_2D": (1, 1),
    "MUL": (1, 1),
    "PAD": (1, 1),
    "PRELU": (1, 1),
    "RELU": (1, 1),
    "RELU6": (1, 1),
    "RESHAPE": (1, 1),
    "RESIZE_BILINEAR": (1, 1),
    "SOFTMAX": (1, 1),
    "STRIDED_SLICE": (1, 1),
    "SUB": (1, 1),
    "TRANSPOSE_CONV": (1, 1),
}

CURRENT = {
    "ADD": (1, 1),
    "AVERAGE_POOL_2D": (1, 1),
    "CONCATENATION": (1, 1),
    "CONV_2D": (1, 1),
    "DEPTHWISE_CONV_2D": (1, 2),
    "EXP": (1, 1),
    "FULLY_CONNECTED": (1, 1),
    "LOGICAL_AND": (1, 1),
    "LOGISTIC": (1, 1),
    "LSTM": (2, 2),
    "MAX_POOL_2D": (1, 1),
    "MAXIMUM": (1, 1),
    "MINIMUM": (1, 1),
    "MUL": (1, 1),
    "PAD": (1, 1),
    "PRELU": (1, 1),
    "RELU": (1, 1),
    "RELU6": (1, 1),
    "RESHAPE": (1, 1),
    "RESIZE_BILINEAR": (1, 3),
    "SOFTMAX": (1, 1),
    "STRIDED_SLICE": (1, 1),
    "SUB": (1, 1),
    "TRANSPOSE_CONV": (1, 1),
}

# "Enabling quantization allows the appropriate versions": up to the one that carries int8 and
# per-channel tensors by the converter's rules.
QUANTIZED = CURRENT | {
    "ADD": (1, 2),
    "AVERAGE_POOL_2D": (1, 2),
    "CONCATENATION": (1, 2),
    "CONV_2D": (1, 3),
    "DEPTHWISE_CONV_2D": (1, 3),
    "EXP": (1, 2),
    "FULLY_CONNECTED": (1, 4),
    "LOGISTIC": (1, 2),
    "MAX_POOL_2D": (1, 2),
    "MAXIMUM": (1, 2),
    "MINIMUM": (1, 2),
    "MUL": (1, 2),
    "PAD": (1, 2),
    "RELU": (1, 2),
    "RELU6": (1, 2),
    "SOFTMAX": (1, 2),
    "STRIDED_SLICE": (1, 2),
    "SUB": (1, 2),
    "TRANSPOSE_CONV": (1, 2),
}

# The highest versions that the converter of TensorFlow 2.21 writes (its op_version.cc): all nodes
# of an operator have the highest that one of them needs, for whatever type. Others have version 1.
WRITTEN = {
    "CONV_2D": 8, "DEPTHWISE_CONV_2D": 7, "FULLY_CONNECTED": 14, "GATHER": 7, "SIGN": 2, "MUL": 8,
    "MAX_POOL_2D": 3, "AVERAGE_POOL_2D": 3, "TRANSPOSE": 8, "TRANSPOSE_CONV": 5, "LSTM": 5,
    "SPLIT": 4, "SLICE": 7, "UNPACK": 5, "DEQUANTIZE": 8, "QUANTIZE": 5, "ABS": 5, "RELU": 3,
    "STRIDED_SLICE": 8, "RESIZE_BILINEAR": 4, "RESIZE_NEAREST_NEIGHBOR": 4, "MAXIMUM": 4,
    "MINIMUM": 4, "PACK": 4, "TILE": 3, "SQUEEZE": 2, "SPACE_TO_BATCH_ND": 4,
    "BATCH_TO_SPACE_ND": 4, "ADD": 6, "SUB": 5, "GATHER_ND": 5, "DIV": 2, "TANH": 3, "LOGISTIC": 3,
    "EQUAL": 5, "NOT_EQUAL": 4, "LEAKY_RELU": 2, "BATCH_MATMUL": 4, "PAD": 5, "PADV2": 5,
    "CONCATENATION": 5, "SOFTMAX": 3, "MEAN": 3, "MIRROR_PAD": 3, "REDUCE_MAX": 3, "REDUCE_MIN": 3,
    "RELU6": 3, "RSQRT": 3, "UNIDIRECTIONAL_SEQUENCE_LSTM": 5, "ARG_MAX": 3, "ARG_MIN": 3,
    "LESS": 3, "GREATER_EQUAL": 3, "SELECT_V2": 2, "SPACE_TO_DEPTH": 2, "SPLIT_V": 2, "SUM": 2,
    "LOG_SOFTMAX": 2, "GREATER": 2, "LESS_EQUAL": 2, "SQUARED_DIFFERENCE": 2, "DEPTH_TO_SPACE": 2,
    "EXP": 2, "LOG": 2, "REDUCE_PROD": 2, "SQRT": 2, "CAST": 8, "GELU": 2,
}  # fmt: skip

EDITIONS = {"documented-2019": EDITION_2019, "documented": CURRENT}


@pytest.mark.parametrize(
    ("name", "edition"), [("2019", EDITION_2019), ("current", CURRENT), ("quantized", QUANTIZED)]
)
def test_the_table_holds_each_edition(name: str, edition: dict[str, tuple[int, int]]) -> None:
    assert {
        op: form.documented[name] for op, form in SINGLE.items() if name in form.documented
    } == edition


@pytest.mark.parametrize("host_op", SINGLE)
def test_rows_read_what_the_converter_writes(host_op: str) -> None:
    first, last = SINGLE[host_op].versions
    assert first == 1 and last >= WRITTEN.get(host_op, 1)


@cache
def sample(host_op: str) -> Case:
    """Returns a case of this operator for the first row of its lowest version, with float32 tensors
    (LOGICAL_AND: bool) of rank 4 or less."""
    cases = [
        c
        for family in all_cases().values()
        for c in family
        if c.op == host_op and not c.refused and direct.form_of(c) is SINGLE[host_op]
    ]
    return min(cases, key=lambda c: c.version)


def claims(edition: dict[str, tuple[int, int]] | None) -> list[tuple[str, int, bool]]:
    """Returns (operator, version, whether it must be claimed) for both ends of each range and the
    version above; None is the default range."""
    found = []
    for op, form in SINGLE.items():
        allowed = form.versions if edition is None else edition.get(op)
        if allowed is None:
            found.append((op, 1, False))
            continue
        first = max(allowed[0], sample(op).version)
        found += [(op, version, True) for version in sorted({first, allowed[1]})]
        found.append((op, allowed[1] + 1, False))
    return found


CLAIMS = [
    pytest.param(
        setting,
        op,
        version,
        claimed,
        id=f"{setting}-{op}-{version}-{'claimed' if claimed else 'refused'}",
    )
    for setting, edition in [*EDITIONS.items(), ("all", None)]
    for op, version, claimed in claims(edition)
]


@pytest.mark.adapter
@pytest.mark.parametrize(("capabilities", "op", "version", "claimed"), CLAIMS)
def test_claims(capabilities: str, op: str, version: int, claimed: bool) -> None:
    content = models.build(sample(op), version=version)
    name = next((h for h in host.installed() if host.registers(content, h)), None)
    if name is None:
        _ask_capability(capabilities, op, version, claimed)
        return
    report = host.placed(content, name, {"capabilities": capabilities})
    assert report.on_gpu == (1 if claimed else 0), report.sentences
    if not claimed:
        _is_a_sentence(report.sentences[0])


def _ask_capability(capabilities: str, op: str, version: int, claimed: bool) -> None:
    """No host registers this version, so that no interpreter can be built with it."""
    partition = direct.graph(sample(op))
    node = replace(partition.nodes[0], version=version, row=SINGLE[op])
    sentence = refusal(partition, node, Target(), capabilities)
    assert (sentence is None) == claimed
    if sentence is not None:
        _is_a_sentence(sentence)


def _is_a_sentence(text: str) -> None:
    assert text[:1].isupper() and text.endswith("."), text
