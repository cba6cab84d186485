"""Whether the table of ONNX operators promises to run a node, judged from the row alone.

The suite asks this of every node test that was refused: inside its row a refusal is a failure. The
judgement shares nothing with the plugin but the rows that `tflgpu ops` shows; types and shapes come
from onnx's own inference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, defs, helper, numpy_helper

from tflgpu_plugin.cli import tables
from tflgpu_plugin.importer.support import MAX_RANK
from tflgpu_plugin.ir import HostOp
from tflgpu_plugin.providers.onnxruntime.ops import HOST_OPS

NAMES: dict[int, str] = {
    TensorProto.FLOAT: "f32", TensorProto.FLOAT16: "f16", TensorProto.BOOL: "bool",
    TensorProto.INT8: "i8", TensorProto.UINT8: "u8", TensorProto.INT16: "i16",
    TensorProto.UINT16: "u16", TensorProto.INT32: "i32",
    TensorProto.INT64: "i64", TensorProto.BFLOAT16: "bf16", TensorProto.UINT32: "u32",
    TensorProto.UINT64: "u64",
    TensorProto.FLOAT8E4M3FN: "f8e4m3fn", TensorProto.FLOAT8E4M3FNUZ: "f8e4m3fnuz",
    TensorProto.FLOAT8E5M2: "f8e5m2", TensorProto.FLOAT8E5M2FNUZ: "f8e5m2fnuz",
    TensorProto.INT4: "int4", TensorProto.UINT4: "uint4", TensorProto.INT2: "int2",
    TensorProto.UINT2: "uint2",
}  # fmt: skip
DOMAINS = ("", "ai.onnx")
INDICES = ("i32", "i64")


@dataclass(frozen=True)
class Judgement:
    """The judgement on one node that has a row. `outside` says which of the row's limits the node
    exceeds; empty: the row promises to run it."""

    op: str
    outside: str


def judge(model: Any) -> list[Judgement]:
    """Returns a judgement for every node of the model (an onnx ModelProto) whose operator has a
    row."""
    facts = _Facts.of(model)
    found = []
    for node in facts.graph.node:
        if node.domain in DOMAINS and node.op_type in HOST_OPS:
            found.append(Judgement(node.op_type, facts.outside(node, HOST_OPS[node.op_type])))
    return found


def output_type(model: Any) -> str:
    """Returns the short name of the type of the model's first output, "other" where no row has
    it."""
    outputs = model.graph.output
    return NAMES.get(outputs[0].type.tensor_type.elem_type, "other") if outputs else "other"


def open_constants(model: Any) -> dict[str, str]:
    """Returns inputs of the model that rows require to be constants, with the names of their
    roles."""
    given = {value.name for value in model.graph.input}
    given -= {value.name for value in model.graph.initializer}
    found: dict[str, str] = {}
    for node in model.graph.node:
        form = HOST_OPS.get(node.op_type) if node.domain in DOMAINS else None
        for position, role in (form.planned if form else {}).items():
            if position < len(node.input) and node.input[position] in given:
                found[node.input[position]] = role
    return found


def with_constants(model: Any, values: Mapping[str, np.ndarray[Any, Any]]) -> Any:
    """Returns the model with these of its inputs made constants."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    kept = [value for value in made.graph.input if value.name not in values]
    del made.graph.input[:]
    made.graph.input.extend(kept)
    for name, value in values.items():
        made.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
    return made


@dataclass(frozen=True)
class _Facts:
    """Facts about a model's values without running it. `known` values follow from constants and
    shapes."""

    graph: Any
    opsets: Mapping[str, int]
    types: Mapping[str, int]
    shapes: Mapping[str, tuple[int, ...] | None]
    known: frozenset[str]

    @classmethod
    def of(cls, model: Any) -> _Facts:
        try:
            graph = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
        except Exception:  # node tests of errors: what is declared has to do
            graph = model.graph
        types: dict[str, int] = {}
        shapes: dict[str, tuple[int, ...] | None] = {}
        for info in (*graph.input, *graph.output, *graph.value_info):
            tensor = info.type.tensor_type
            types[info.name] = tensor.elem_type  # 0 for what is no tensor
            shapes[info.name] = _shape(tensor)
        for value in graph.initializer:
            types[value.name], shapes[value.name] = value.data_type, tuple(value.dims)
        opsets = {o.domain: o.version for o in model.opset_import}
        return cls(graph, opsets, types, shapes, frozenset(_known(graph)))

    def outside(self, node: Any, form: HostOp) -> str:
        """Returns which limit of its row the node exceeds."""
        since = self._since(node)
        if not form.versions[0] <= since <= form.versions[1]:
            return f"version {since}, the row has {form.versions[0]} to {form.versions[1]}"
        if set(node.output) <= self.known:
            return "what follows from shapes and constants is left to the host"
        for position, role in form.constants.items():
            name = node.input[position] if position < len(node.input) else ""
            if name and name not in self.known:
                return f"the row asks for a constant {role}"
        if form.outputs is not None and any(node.output[len(form.outputs) :]):
            return f"{len(node.output)} outputs, the row has {len(form.outputs)}"
        indices = [node.input[k] for k in form.indices if k < len(node.input)]
        for name in filter(None, indices):
            if NAMES.get(self.types.get(name, 0)) not in INDICES:
                return f"indices of another type than {' or '.join(INDICES)}"
        apart = {*form.planned, *form.indices}
        names = [n for k, n in enumerate(node.input) if n and k not in apart]
        return next(filter(None, map(self._value(form), [*names, *filter(None, node.output)])), "")

    def _since(self, node: Any) -> int:
        opset = self.opsets.get(node.domain, self.opsets.get("", self.opsets.get("ai.onnx", 1)))
        return int(defs.get_schema(node.op_type, opset, node.domain).since_version)

    def _value(self, form: HostOp) -> Any:
        types = tables.onnx_types(form)

        def outside(name: str) -> str:
            kind = self.types.get(name, 0)
            if NAMES.get(kind) not in types:
                word = helper.tensor_dtype_to_string(kind) if kind else "no tensor"
                held = word.removeprefix("TensorProto.")
                return f"{held}, the row has {', '.join(types)}"
            shape = self.shapes.get(name)
            if shape is None:
                return "a shape that is known only in a run"
            if len(shape) > MAX_RANK:
                return f"rank {len(shape)}, rows have up to {MAX_RANK}"
            return ""

        return outside


def _shape(tensor: Any) -> tuple[int, ...] | None:
    """Returns the shape of a type, None where an extent is open."""
    if not tensor.HasField("shape"):
        return None
    extents = [d.dim_value if d.HasField("dim_value") else -1 for d in tensor.shape.dim]
    return None if -1 in extents else tuple(extents)


def _known(graph: Any) -> set[str]:
    """Returns the names of values that follow from constants and shapes alone."""
    known = {value.name for value in graph.initializer}
    for node in graph.node:
        inputs = {name for name in node.input if name}
        if node.op_type in ("Constant", "Shape", "Size") or (inputs and inputs <= known):
            known |= set(node.output)
    return known
