"""Decides whether a node can run on a target: `support()` returns None or a refusal, and no other
code decides this.

The decision follows from data of other modules: the provider's row (versions, documented editions),
the op's row (types, constraint) and `ir.quirks` (ops that a driver computes wrongly, or that the
user refuses)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tflgpu_plugin import ops
from tflgpu_plugin.errors import defect
from tflgpu_plugin.importer.model import Value
from tflgpu_plugin.ir.bfloat16 import BFLOAT16
from tflgpu_plugin.ir.graph import BITS_ONLY, FOLDED, NARROW, Graph, Node, Tensor
from tflgpu_plugin.ir.host_op import HostOp
from tflgpu_plugin.ir.quantization import (
    COUNTS,
    INT32,
    STORED,
    UNSIGNED,
    WHOLE,
    alike,
    is_int16,
    is_integer,
    real,
)  # fmt: skip
from tflgpu_plugin.ir.refusal import Refusal
from tflgpu_plugin.ir.symbolic import in_range
from tflgpu_plugin.ir.target import Target
from tflgpu_plugin.ir.types import type_name
from tflgpu_plugin.ops.table import Op
from tflgpu_plugin.options import Options
from tflgpu_plugin.passes.empty_results import idle
from tflgpu_plugin.passes.quant.dequantize import Made, folded

EDITIONS = {"documented": "current", "documented-2019": "2019"}
QUANTIZED = ("i8", "u8", "i16")
INDEX = "i32"
MAX_RANK = 8  # as in TFLite's kernels for any rank


def support(
    graph: Graph, node: Node, target: Target, edition: str = "all", quantized: bool = True
) -> Refusal | None:
    """Returns None when `node` of `graph` can run on `target`, else a sentence that says why not.

    `edition` is a value of the option `capabilities`: "all", or an edition of the documentation
    ("documented", "documented-2019"), whose version ranges then hold instead of the kernels' own.
    `quantized` is false when the user does not want 8-bit tensors on the GPU."""
    if node.op == FOLDED:
        return None if edition == "all" else _unlisted(node, edition)
    op = ops.rows().get(node.op)
    if op is None:
        return Refusal("operator.unknown", f"{_name(node)} is not supported.")
    return (
        _refuse_edition(graph, node, edition)
        or _refuse_unlisted(graph, node, edition)
        or _refuse_types(graph, node, op, quantized)
        or _refuse_rescaling(graph, node)
        or _refuse_int16(graph, node, op)
        or _refuse_bias(graph, node)
        or _refuse_shapes(graph, node)
        or _refuse_by_op(graph, node, op, target)
        or ops.refused(graph, node, target)
    )


@dataclass(frozen=True)
class Judge:
    """Decides which nodes of a graph can run on a target with the user's `options`. `made` caches
    dequantized constants, which the graphs of one model share."""

    target: Target = field(default_factory=Target)
    options: Options = field(default_factory=Options)
    made: Made = field(default_factory=dict, compare=False, repr=False)

    def reasons(self, graph: Graph, refused: Mapping[int, Refusal]) -> dict[int, Refusal]:
        """Returns by id why nodes cannot run. Nodes that are `refused` already are judged again
        only by the option exclude."""
        found: dict[int, Refusal] = {}
        excluded = {*self.options.exclude}
        asked = self.target, self.options.capabilities, self.options.quantized
        for node in graph.nodes:
            if excluded and excluded & {node.name, node.host_op, str(node.id)}:
                left_out = f"{_name(node)} is excluded by the option exclude."
                found[node.id] = Refusal("option.excluded", left_out)
            elif node.id not in refused and (reason := support(graph, node, *asked)):
                found[node.id] = reason
        return found


def _name(node: Node) -> str:
    return node.host_op or node.op or node.name or f"node {node.id}"


def _held(tensor: Tensor | Value) -> str:
    return f"Tensor {tensor.name!r} holds {type_name(tensor.dtype)} values"


def _values(graph: Graph, node: Node) -> Iterable[Tensor]:
    """Yields the outputs, and the inputs without those that hold shapes, axes or sizes: int32 and
    int64 inputs after the first one, or after the weights."""
    for tensor in node.outputs:
        yield graph.tensors[tensor]
    weights = 1 if ops.weights(node) else 0
    for position, index in enumerate(node.inputs):
        if index is not None and (position <= weights or graph.tensors[index].dtype not in COUNTS):
            yield graph.tensors[index]


def _refuse_edition(graph: Graph, node: Node, edition: str) -> Refusal | None:
    row = node.row
    if row is None or edition == "all" or folded(graph, node):  # a folded node does not run
        return None
    allowed = row.documented.get(EDITIONS[edition])
    if allowed is None:
        return _unlisted(node, edition)
    if allowed[0] <= node.version <= allowed[1]:
        return None
    # Constants that were dequantized keep their quantization.
    if any(t.dtype in QUANTIZED or t.quantization is not None for t in _values(graph, node)):
        first, last = row.documented.get("quantized", allowed)
        allowed = (min(first, allowed[0]), max(last, allowed[1]))
        if allowed[0] <= node.version <= allowed[1]:
            return None
    return unversioned("version", node.version, row.name, allowed, _listed(edition))


def unversioned(
    word: str, version: int, name: str, allowed: tuple[int, int], where: str = ""
) -> Refusal:
    """Returns the refusal of the operator `name` in a version outside of the range `allowed`.
    `word` is the host's word for a version, and `where` ends the sentence."""
    first, last = allowed
    span = f"{first} is" if first == last else f"{first} to {last} are"
    subject = word.capitalize() if first == last else f"{word.capitalize()}s"
    sentence = f"This is {word} {version} of {name}. {subject} {span} supported{where}."
    return Refusal("version.unsupported", sentence)


def _refuse_unlisted(graph: Graph, node: Node, edition: str) -> Refusal | None:
    """Refuses integers and types that numpy lacks, which no edition of the documentation
    lists."""
    for tensor in _values(graph, node) if edition != "all" else ():
        if is_integer(tensor) or tensor.dtype in BITS_ONLY:
            sentence = f"{_held(tensor)}, which {_name(node)} is not listed for{_listed(edition)}."
            return Refusal("option.capabilities", sentence)
    return None


def _listed(edition: str) -> str:
    return f" in the {EDITIONS[edition]} edition of the GPU delegate documentation"


def _unlisted(node: Node, edition: str) -> Refusal:
    return Refusal("option.capabilities", f"{_name(node)} is not listed{_listed(edition)}.")


def without_kernel(tensor: Tensor, row: HostOp | None) -> Refusal | None:
    """Returns the refusal of a tensor of uint32, uint64 or a type that numpy lacks if the row does
    not list the type: the host may have no such kernel for the operator, or another answer."""
    if tensor.dtype in UNSIGNED and row is not None and not row.unsigned:
        types = row.types or ops.rows()[row.op].types
        return of_other_types(tensor, row.name, type_names(of_host(types, row)))
    if row is None or not _lacking(tensor.dtype, row):
        return None
    said = f"{_held(tensor)}, for which the host has no CPU kernel of {row.name}."
    return Refusal("dtype.unsupported", said)


def _lacking(dtype: str, row: HostOp) -> bool:
    """Whether numpy lacks the type and the row lists no kernel for it."""
    return not row.bfloat16 if dtype == BFLOAT16 else dtype in NARROW and not row.narrow


def of_host(types: Iterable[str], row: HostOp | None) -> tuple[str, ...]:
    """Returns the types of an op without those of bits only for which the host has no kernel."""
    return tuple(kind for kind in types if row is None or not _lacking(kind, row))


def takes_int16(row: HostOp | None) -> bool:
    """Whether a row takes quantized int16."""
    return row is not None and row.int16


def _refuse_types(graph: Graph, node: Node, op: Op, quantized: bool) -> Refusal | None:
    states, types, known = _states(graph, node), op.types, folded(graph, node)
    for index in node.inputs:
        if index is not None and (reason := out_of_range(graph.tensors[index])):
            return reason
    for tensor in _values(graph, node):
        if reason := without_kernel(tensor, node.row):
            return reason
        takes = op.stored or "f32" in types
        scaled = takes and not known and (tensor.dtype in STORED or real(tensor))
        whole = tensor.dtype == "i16" and (
            "i16" in types or any(tensor is state for state in states)
        )
        if is_int16(tensor) and not (whole or known or takes_int16(node.row)):
            return _of_other_bits(tensor, node.row)
        if scaled or whole:
            if reason := _refuse_quantized(tensor, quantized or tensor.dtype in COUNTS):
                return reason.reworded(f"{_held(tensor)}{reason}")
            continue
        if op.takes(tensor.dtype):
            continue
        if tensor.dtype in QUANTIZED and "f32" in types:
            return _of_other_bits(tensor, node.row)
        return of_other_types(tensor, _name(node), type_names(of_host(types, node.row)))
    return None


def _of_other_bits(tensor: Tensor, row: HostOp | None) -> Refusal:
    """Returns the refusal of int16, or of 8 bits without a scale, where float32 or other quantized
    types are supported."""
    if takes_int16(row) and tensor.quantization is None:
        return _unscaled().reworded(f"{_held(tensor)}{_unscaled()}")
    sentence = f"{_held(tensor)}; quantized tensors must be int8 or uint8."
    return Refusal("dtype.unsupported", sentence)


def _unscaled() -> Refusal:
    return Refusal("quantization.missing", " that are not quantized: it has no scale.")


def of_other_types(tensor: Tensor | Value, operator: str, types: Iterable[str]) -> Refusal:
    """Returns the refusal of a tensor that has none of these types (named as `type_name` does)."""
    sentence = f"{_held(tensor)}; {operator} is supported for {' or '.join(types)}."
    return Refusal("dtype.unsupported", sentence)


def type_names(types: Iterable[str]) -> list[str]:
    """Returns the names of an op's types for people; int64 follows int32 (computed alike)."""
    shown = [kind for name in types for kind in ((name, "i64") if name == "i32" else (name,))]
    return [type_name(name) for name in dict.fromkeys(shown)]


def out_of_range(tensor: Tensor) -> Refusal | None:
    """Returns the refusal of a constant with integers outside of int32, the type in which they are
    computed."""
    data = tensor.data
    if tensor.dtype not in WHOLE or data is None or not data.size:
        return None
    if in_range(data, INT32.min, INT32.max):
        return None
    held = type_name(tensor.dtype)
    sentence = f"The constant {tensor.name!r} holds {held} numbers outside of the range of int32."
    return Refusal("constant.out_of_range", sentence)


def _states(graph: Graph, node: Node) -> list[Tensor]:
    """Returns the tensors of the node's state that it reads, and those that it writes."""
    pairs = ops.rows()[node.op].states
    if not pairs:
        return []
    found = [node.inputs[k] for k, _ in pairs if k < len(node.inputs)]
    found += [
        node.outputs[k] for _, k in pairs if k in range(-len(node.outputs), len(node.outputs))
    ]
    return [graph.tensors[t] for t in found if t is not None]


def _refuse_quantized(tensor: Tensor, wanted: bool) -> Refusal | None:
    """Returns the refusal of a quantized tensor, worded as the end of the sentence "Tensor X holds
    Y values ...". `wanted`: the user allows quantized tensors."""
    if not wanted:
        return Refusal("option.quantized", " and the option enable_quantized_inference is off.")
    if tensor.quantization is None:
        return _unscaled()
    if is_int16(tensor) and any(tensor.quantization.zero_point):
        return Refusal("quantization.unsupported", " with a zero point, which must be 0.")
    if tensor.data is None and len(tensor.quantization.scale) > 1:
        sentence = " computed at run time with a scale per channel; only constants may have that."
        return Refusal("quantization.unsupported", sentence)
    if not all(0.0 < scale < math.inf for scale in tensor.quantization.scale):
        sentence = f" with the scale {tensor.quantization.scale[0]}, which must be positive."
        return Refusal("quantization.unsupported", sentence)
    return None


def _refuse_rescaling(graph: Graph, node: Node) -> Refusal | None:
    """Refuses nodes of ops that move stored numbers when inputs and output are quantized
    differently, unless the host rescales the inputs (attribute `rescales`)."""
    row = ops.rows()[node.op]
    if not (row.keeps or row.same_quantization) or node.attributes.get("rescales"):
        return None
    result = graph.tensors[node.outputs[0]]
    for tensor in _values(graph, node) if real(result) else ():
        if tensor.quantization is not None and not alike(tensor, result):
            return Refusal(
                "quantization.mismatch",
                f"Tensors {tensor.name!r} and {result.name!r} are quantized differently; "
                f"{_name(node)} needs equal scales and zero points.",
            )
    return None


def _refuse_int16(graph: Graph, node: Node, op: Op) -> Refusal | None:
    """Returns the op's own refusal of a node over int16."""
    if op.int16 is None or not is_int16(graph.tensors[node.outputs[0]]):
        return None
    return op.int16.refuse(graph, node)


def _refuse_bias(graph: Graph, node: Node) -> Refusal | None:
    """Refuses a bias of integers that is not constant: it becomes another before a run."""
    bias = ops.bias(node)
    if bias is None or not is_integer(graph.tensors[bias]) or graph.constant(bias) is not None:
        return None
    name, kind = graph.tensors[bias].name, type_name(graph.tensors[bias].dtype)
    sentence = f"Bias {name!r} holds {kind} values that are only known when the model runs."
    return Refusal("dynamic.value", sentence)


def _refuse_shapes(graph: Graph, node: Node) -> Refusal | None:
    for tensor in _values(graph, node):
        rank = len(tensor.shape)
        if rank > MAX_RANK:
            sentence = (
                f"Tensor {tensor.name!r} has rank {rank}; ranks up to {MAX_RANK} are supported."
            )
            return Refusal("rank.too_large", sentence)
        if any(extent < 0 for extent in tensor.shape):
            sentence = f"Tensor {tensor.name!r} has a shape that is only known when the model runs."
            return Refusal("dynamic.shape", sentence)
        if 0 in tensor.shape and not _takes_empty(graph, node):
            sentence = f"Tensor {tensor.name!r} has no elements: its shape is {list(tensor.shape)}."
            return Refusal("shape.empty", sentence)
    return None


def _takes_empty(graph: Graph, node: Node) -> bool:
    """Whether the node may have tensors without elements: it concatenates inputs, or has nothing to
    do. If there are indices that must be checked (attribute `raises`), the host runs it, as no
    launch would."""
    if ops.traits(node.op).joins:
        return True
    indices = next((t for t in node.inputs[1:] if t is not None), None)
    some = indices is not None and 0 not in graph.shape(indices)
    checked = node.attributes.get("raises") and some
    return idle(graph, node) and not checked


def _refuse_by_op(graph: Graph, node: Node, op: Op, target: Target) -> Refusal | None:
    """Returns the refusal of the op's own constraint, or of a host's output shape that is not the
    inferred one: then a value determines it at run time."""
    try:
        empty = idle(graph, node)
        asked = not empty or all(0 not in graph.shape(tensor) for tensor in node.reads)
        if asked and (reason := op.refuse(graph, node, target)):
            return reason  # hosts raise errors for some numbers that give empty results
        shapes = op.shapes(graph, node)
    except Exception as error:  # a defect of this plugin must not crash the host
        if empty and isinstance(error, ValueError):  # the refusal that `refuse` would have returned
            return Refusal("shape.mismatch", f"{_name(node)} cannot be planned: {error}.")
        return defect(error, f"Checking {_name(node)}")
    for index, shape in zip(node.outputs, shapes, strict=False):
        tensor = graph.tensors[index]
        if tensor.shape != tuple(shape):
            return Refusal(
                "shape.contradiction",
                f"Tensor {tensor.name!r} has shape {list(tensor.shape)} in the model, but the "
                f"inputs give {list(shape)}; shapes must be known before the model runs.",
            )
    return None
