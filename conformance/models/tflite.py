"""TFLite models built in memory: `build` for one case, `Model` for a few ops joined together. No
TensorFlow needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from conformance import host as hosts
from conformance.cases import Case, Input
from conformance.models import sparse
from conformance.models.sparse import Sparse
from conformance.models.tflite_file import schema
from tflgpu_plugin.ir import NUMPY_DTYPES, NUMPY_NAMES, Quantization

Array = npt.NDArray[Any]
Shape = tuple[int, ...]

SCHEMA_TYPES = {
    "f32": "FLOAT32", "f16": "FLOAT16", "f64": "FLOAT64", "bool": "BOOL",
    "i8": "INT8", "u8": "UINT8", "i16": "INT16", "u16": "UINT16",
    "i32": "INT32", "u32": "UINT32", "i64": "INT64", "u64": "UINT64", "resource": "RESOURCE",
    "c64": "COMPLEX64", "bf16": "BFLOAT16",
}  # fmt: skip

# Which enum of the schema holds the value names of an option field.
ENUMS = {
    "padding": "Padding",
    "fusedActivationFunction": "ActivationFunctionType",
    "kernelType": "LSTMKernelType",
    "weightsFormat": "FullyConnectedOptionsWeightsFormat",
    "mode": "MirrorPadMode",
    "inDataType": "TensorType",
    "outDataType": "TensorType",
    "outputType": "TensorType",
}

# The parameters of MediaPipe's custom operators are C structs of int32, as they lie in memory.
STRUCTS = {
    "TfLiteTransposeConvParams": ("padding", "strideW", "strideH"),
    "TfLitePoolParams": ("padding", "strideW", "strideH", "filterWidth", "filterHeight",
                         "fusedActivationFunction", "", ""),
}  # fmt: skip
FLEXBUFFER = "FlexBuffer"  # the options of a custom operator, a map of numbers
NUMBERS = {"SAME": 1, "VALID": 2, "NONE": 0, "RELU": 1}

# Operators whose later outputs are the host's scratch, and how many of the first are results.
VISIBLE = {"LSTM": 2}


@dataclass
class _Tensor:
    name: str
    shape: Shape
    dtype: str
    data: Array | None = None
    variable: bool = False
    signature: Shape | None = None
    computed: bool = False
    quantization: Quantization | None = None
    sparse: Sparse | None = None


@dataclass
class _Operator:
    op: str
    version: int
    inputs: list[int]
    outputs: list[int]
    options_type: str | None
    options: Mapping[str, Any]
    intermediates: list[int] = field(default_factory=list)


@dataclass
class Model:
    """Builds a .tflite: tensors are named by the integers that the methods return.

    >>> model = Model()
    >>> x = model.input("x", (1, 8, 8, 3))
    >>> y = model.op("RELU", [x], shape=(1, 8, 8, 3))
    >>> model.output(y)
    >>> content = model.to_bytes()"""

    tensors: list[_Tensor] = field(default_factory=list)
    operators: list[_Operator] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)

    def input(
        self, name: str, shape: Sequence[int], dtype: str = "f32", signature: Shape | None = None
    ) -> int:
        """Adds a tensor that the user feeds. `signature` has -1 for extents that may change."""
        self.inputs.append(self._add(_Tensor(name, tuple(shape), dtype, signature=signature)))
        return self.inputs[-1]

    def constant(self, data: Any, name: str = "", dtype: str | None = None) -> int:
        """Adds a constant; its dtype is that of the array unless `dtype` (a name of `NUMPY_DTYPES`)
        is given."""
        array = np.ascontiguousarray(np.asarray(data, NUMPY_DTYPES[dtype] if dtype else None))
        array = array.reshape(np.shape(data))  # ascontiguousarray makes a scalar one-dimensional
        kind = dtype or _dtype_name(array)
        return self._add(_Tensor(name or f"constant_{len(self.tensors)}", array.shape, kind, array))

    def sparse(self, data: Array, sparse: Sparse, name: str = "") -> int:
        """Adds a constant in the sparse form that `sparse` describes (see
        `conformance.models.sparse.encode`)."""
        made = self.constant(data, name)
        self.tensors[made].sparse = sparse
        return made

    def variable(self, name: str, shape: Sequence[int], dtype: str = "f32") -> int:
        """Adds state that the interpreter keeps between runs, initially zero."""
        return self._add(_Tensor(name, tuple(shape), dtype, variable=True))

    def op(
        self,
        op: str,
        inputs: Sequence[int | None],
        options_type: str | None = None,
        options: Mapping[str, Any] | None = None,
        *,
        shape: Sequence[int] = (),
        dtype: str = "f32",
        version: int = 1,
        name: str = "",
    ) -> int:
        """Adds an operator with one output and returns that tensor. `op` is a BuiltinOperator name,
        or "CUSTOM name" (with a struct of `STRUCTS` or `FLEXBUFFER` for options)."""
        results = self.multi_op(
            op,
            inputs,
            options_type,
            options,
            shapes=[shape],
            dtypes=[dtype],
            version=version,
            name=name,
        )
        return results[0]

    def multi_op(
        self,
        op: str,
        inputs: Sequence[int | None],
        options_type: str | None = None,
        options: Mapping[str, Any] | None = None,
        *,
        shapes: Sequence[Sequence[int]],
        dtypes: Sequence[str] | None = None,
        version: int = 1,
        name: str = "",
    ) -> list[int]:
        """Adds an operator with one output per entry of `shapes` and returns these tensors."""
        base = name or f"{op.lower()}_{len(self.operators)}"
        results = [
            self._add(_Tensor(base if k == 0 else f"{base}:{k}", tuple(shape), kind, computed=True))
            for k, (shape, kind) in enumerate(
                zip(shapes, dtypes or ["f32"] * len(shapes), strict=True)
            )
        ]
        reads = [-1 if t is None else t for t in inputs]
        self.operators.append(
            _Operator(op, version, reads, results, options_type, dict(options or {}))
        )
        return results

    def output(self, *tensors: int) -> None:
        """Marks tensors as outputs of the model, in order."""
        self.outputs += tensors

    def intermediate(self, quantization: Any) -> None:
        """Adds an intermediate tensor, of which only the quantization counts, to the last node."""
        kind = "f32" if quantization is None else "i8"
        held = _Tensor("intermediate", (), kind, quantization=quantization)
        self.operators[-1].intermediates.append(self._add(held))

    def _add(self, tensor: _Tensor) -> int:
        self.tensors.append(tensor)
        return len(self.tensors) - 1

    def to_bytes(self) -> bytes:
        """Returns the flatbuffer."""
        builder = import_module("flatbuffers").Builder(1 << 16)
        builder.Finish(self.unpacked().Pack(builder), b"TFL3")
        return bytes(builder.Output())

    def unpacked(self) -> Any:
        s = schema()
        model, graph = s.ModelT(), s.SubGraphT()
        model.version, model.description = 3, b"built for tests"
        buffers = [s.BufferT()]
        graph.tensors = [_pack_tensor(t, buffers) for t in self.tensors]
        graph.inputs, graph.outputs = list(self.inputs), list(self.outputs)
        graph.name = b"main"
        keys = list(dict.fromkeys((o.op, o.version) for o in self.operators))
        model.operatorCodes = [_operator_code(op, version) for op, version in keys]
        graph.operators = [_pack_operator(o, keys.index((o.op, o.version))) for o in self.operators]
        model.subgraphs, model.buffers = [graph], buffers
        return model

    def infer_shapes(self, host: str | None = None) -> None:
        """Replaces the shapes of computed tensors by those that the host's CPU kernels find.

        Raises ValueError with the host's words when it refuses the model."""
        for tensor, shape in zip(self.tensors, hosts.shapes(self.to_bytes(), host), strict=False):
            if tensor.computed and shape is not None:
                tensor.shape = shape


def build(case: Case, shapes: Sequence[Shape] | None = None, version: int | None = None) -> bytes:
    """Returns the single-op .tflite of a case. Output shapes come from `shapes`, or from one run of
    the host's CPU kernels. `version` writes another op version than the case's into the model;
    shapes are still found with the case's version."""
    model = single(case, shapes)
    if shapes is None:
        model.infer_shapes()
    if version is not None:
        model.operators[0].version = version
    return model.to_bytes()


def single(case: Case, shapes: Sequence[Shape] | None = None) -> Model:
    """Returns the model of a case; without `shapes`, the shapes of its outputs are unknown."""
    model = Model()
    tensors = [None if i is None else _case_input(model, i, k) for k, i in enumerate(case.inputs)]
    made = shapes or case.shapes or [()] * case.outputs
    results = model.multi_op(
        case.op, tensors, case.options_type, case.options, version=case.version, name="output",
        shapes=made, dtypes=list(case.types),
    )  # fmt: skip
    for k, value in zip(tensors, case.inputs, strict=True):
        if k is not None and value is not None:
            model.tensors[k].quantization = value.quantization
    for k, dtype in zip(results, case.types, strict=True):
        if dtype == case.types[0]:  # others are indices
            model.tensors[k].quantization = case.output_quantization
    for quantization in case.intermediates:
        model.intermediate(quantization)
    model.output(*results[: VISIBLE.get(case.op)])
    return model


def _case_input(model: Model, value: Input, position: int) -> int:
    name = f"input_{position}"
    if value.data is not None:
        return model.constant(value.data, name, value.dtype)
    if value.variable:
        return model.variable(name, value.shape, value.dtype)
    return model.input(name, value.shape, value.dtype)


def _dtype_name(array: Array) -> str:
    return NUMPY_NAMES[array.dtype.name]


def _pack_tensor(tensor: _Tensor, buffers: list[Any]) -> Any:
    s = schema()
    packed = s.TensorT()
    packed.name, packed.shape = tensor.name.encode(), list(tensor.shape)
    packed.type = getattr(s.TensorType, SCHEMA_TYPES[tensor.dtype])
    packed.hasRank, packed.isVariable = True, tensor.variable
    if tensor.signature is not None:
        packed.shapeSignature = list(tensor.signature)
    if tensor.quantization is not None:
        packed.quantization = _pack_quantization(tensor.quantization)
    data = tensor.data
    if tensor.sparse is not None:
        packed.sparsity, data = sparse.pack(s, tensor.sparse), tensor.sparse.values
    if data is not None:
        buffer = s.BufferT()
        buffer.data = np.frombuffer(data.tobytes(), np.uint8)
        packed.buffer = len(buffers)
        buffers.append(buffer)
    return packed


def _pack_quantization(quantization: Quantization) -> Any:
    packed = schema().QuantizationParametersT()
    packed.scale, packed.zeroPoint = list(quantization.scale), list(quantization.zero_point)
    packed.quantizedDimension = quantization.axis
    return packed


def _operator_code(op: str, version: int) -> Any:
    s = schema()
    code = s.OperatorCodeT()
    if op.startswith("CUSTOM "):
        number, code.customCode = s.BuiltinOperator.CUSTOM, op.removeprefix("CUSTOM ").encode()
    else:
        number = getattr(s.BuiltinOperator, op)
    code.builtinCode, code.deprecatedBuiltinCode, code.version = number, min(number, 127), version
    return code


def _pack_operator(operator: _Operator, code: int) -> Any:
    s = schema()
    packed = s.OperatorT()
    packed.opcodeIndex = code
    packed.inputs, packed.outputs = list(operator.inputs), list(operator.outputs)
    packed.intermediates = operator.intermediates or None
    if operator.options_type == FLEXBUFFER:
        given = import_module("flatbuffers.flexbuffers").Dumps(dict(operator.options))
        packed.customOptions = np.frombuffer(bytes(given), np.uint8)
    elif operator.options_type in STRUCTS:
        packed.customOptions = np.frombuffer(_struct(operator), np.uint8)
    elif operator.options_type:
        given = getattr(s, f"{operator.options_type}T")()
        for name, value in _options(given, operator):
            setattr(given, name, value)
        more = "" if hasattr(s.BuiltinOptions, operator.options_type) else "2"  # of newer operators
        number = getattr(getattr(s, f"BuiltinOptions{more}"), operator.options_type)
        setattr(packed, f"builtinOptions{more}Type", number)
        setattr(packed, f"builtinOptions{more}", given)
    return packed


def _struct(operator: _Operator) -> bytes:
    """Returns the options of a custom operator; absent ones are 0."""
    given = [operator.options.get(name, 0) for name in STRUCTS[operator.options_type or ""]]
    return np.array([NUMBERS.get(value, value) for value in given], "<i4").tobytes()


def _options(target: Any, operator: _Operator) -> Iterable[tuple[str, Any]]:
    for name, value in operator.options.items():
        if not hasattr(target, name):
            known = ", ".join(sorted(vars(target)))
            raise ValueError(f"{operator.options_type} has no field {name}; it has: {known}")
        if isinstance(value, str):
            value = getattr(getattr(schema(), ENUMS[name]), value)
        yield name, value
