"""The table of ONNX operators for the importer, with a reason for each operator that always stays
on the CPU."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tflgpu_plugin.importer.importer import import_
from tflgpu_plugin.ir import Array, Refusal, Shape
from tflgpu_plugin.providers import Facts, Imported, Table

from . import conditions, contrib, ops, sequences
from .names import EP_NAME
from .snapshot import Snapshot

TAKEN = (
    "onnxruntime has given it to {}, which the session lists first. List " + EP_NAME + " before it."
)
# Operators that stay on the CPU, by the reason.
REASONS = {
    "It makes random numbers, which would not be the host's.": "Bernoulli Multinomial RandomNormal "
    "RandomNormalLike RandomUniform RandomUniformLike",
    "It works on strings.": "RegexFullMatch StringConcat StringNormalizer StringSplit "
    "TfIdfVectorizer",
    sequences.SEQUENCES: "Optional OptionalGetElement OptionalHasElement SequenceMap",
    "It makes maps from labels to numbers.": "ai.onnx.ml:ZipMap",
    "It decodes a compressed image.": "ImageDecoder",
}
LEFT = {
    name: Refusal("operator.host_only", reason)
    for reason, names in REASONS.items()
    for name in names.split()
}


TABLE = Table(
    ops.HOST_OPS, ops.CPU_OPS, conditions.EVERY, (conditions.filled,), LEFT, TAKEN, "opset",
    frozenset({contrib.DOMAIN}), asks_runs=True,
)  # fmt: skip


def read(
    snapshot: Snapshot,
    shapes: Mapping[str, Shape],
    symbols: Mapping[str, int] | None = None,
    arithmetic: Collection[int] | None = None,
    run_values: Mapping[str, Array] | None = None,
) -> Imported:
    """Returns the imported graph of `snapshot`; `Facts` documents the other parameters."""
    return import_(snapshot, TABLE, Facts(shapes, symbols, arithmetic, run_values or {}))
