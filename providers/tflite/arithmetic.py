"""Shape arithmetic: small values that follow from shapes and constants alone, worked out with numpy
(SHAPE -> STRIDED_SLICE -> MUL -> PACK, and the like).

Whole numbers are computed in 64 bits, and a result that its tensor cannot hold is not known, so
that nothing wraps around as it would in the host. float32 steps are those that round alike
everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from tflgpu_plugin.errors import Unsupported
from tflgpu_plugin.ir.graph import NUMPY_DTYPES, Array, Graph, Node, Tensor
from tflgpu_plugin.ops import strided_slice

from . import codes

LARGEST = 4096  # elements; what is larger is no shape arithmetic
SEEDS = {"SHAPE", "RANK"}  # read the shape of their input, never its value
NO_ACTIVATION = 0
HELD = {"i32": "int32", "i64": "int32", "f32": "float32", "bool": "bool"}  # results, by dtype

Attributes = Mapping[str, Any]
Values = Sequence[Array]


class HostNode(Protocol):
    """What is needed of a node of the host."""

    @property
    def host_op(self) -> str: ...
    def params(self, struct: str) -> Any: ...


def attributes(node: HostNode) -> dict[str, Any] | None:
    """What `evaluate` needs of a node's parameters; None when the node is no shape arithmetic."""
    if node.host_op in SEEDS:
        return {}
    rule = TABLE.get(node.host_op)
    if rule is None:
        return None
    try:
        return rule[0](node)
    except Unsupported:
        return None


def evaluate(
    host_op: str, given: Attributes, inputs: Sequence[Tensor | None], outputs: Sequence[Tensor]
) -> list[Tensor] | None:
    """The outputs with their values and shapes, from known inputs (for SEEDS: known shapes);
    None when they do not follow, or their values cannot be held.
    """
    try:
        with np.errstate(all="ignore"):
            arrays = _results(host_op, given, inputs)
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return None  # whoever runs the node will say what is wrong with it
    if arrays is None or len(arrays) != len(outputs):
        return None
    pairs = zip(arrays, outputs, strict=True)
    held = [found for array, tensor in pairs if (found := _held(array, tensor)) is not None]
    return held if len(held) == len(outputs) else None


def _results(
    host_op: str, given: Attributes, inputs: Sequence[Tensor | None]
) -> list[Array] | None:
    if host_op in SEEDS:
        (tensor,) = inputs
        assert tensor is not None
        whole = np.array(tensor.shape, np.int64)
        return [whole if host_op == "SHAPE" else np.array(whole.size)]
    values = [None if t is None else t.data for t in inputs]
    known = [wide(value) for value in values if value is not None and value.size <= LARGEST]
    if len(known) < len(values):
        return None
    found = TABLE[host_op][1](known, given)
    return [np.asarray(array) for array in (found if isinstance(found, list) else [found])]


def wide(value: Array) -> Array:
    return value.astype(np.int64) if value.dtype.kind in "iu" else value


def _held(array: Array, tensor: Tensor) -> Tensor | None:
    """The tensor with this value. int64 becomes int32, as in what the reader makes of constants."""
    kind = HELD.get(tensor.dtype)
    if kind is None or array.size > LARGEST or tensor.quantization is not None:
        return None
    data = array.astype(kind)
    exact = data.dtype.kind == array.dtype.kind and bool(np.array_equal(data, array))
    if not exact or not np.all(np.isfinite(data)):
        return None
    dtype = "i32" if kind == "int32" else tensor.dtype
    return Tensor(tensor.name, data.shape, dtype, data)


# ---- parameters ----------------------------------------------------------------------------------


def _none(node: HostNode) -> dict[str, Any]:
    return {}


def _fields(struct: str, *names: str) -> Callable[[HostNode], dict[str, Any]]:
    def read(node: HostNode) -> dict[str, Any]:
        params = node.params(struct)
        return {name: int(getattr(params, name)) for name in names}

    return read


def _plain(struct: str) -> Callable[[HostNode], dict[str, Any]]:
    """Parameters with a fused activation, of which there must be none."""

    def read(node: HostNode) -> dict[str, Any]:
        if node.params(struct).activation != NO_ACTIVATION:
            raise Unsupported("Shape arithmetic has no activation.")
        return {}

    return read


def _concatenation(node: HostNode) -> dict[str, Any]:
    return _plain("tgl_concatenation_params")(node) | {
        "axis": int(node.params("tgl_concatenation_params").axis)
    }


def _squeeze(node: HostNode) -> dict[str, Any]:
    params = node.params("tgl_squeeze_params")
    return {"axes": tuple(int(params.dims[k]) for k in range(params.count))}


def _cast(node: HostNode) -> dict[str, Any]:
    return {"dtype": codes.dtype(int(node.params("tgl_cast_params").out_type))}


def _strided(node: HostNode) -> dict[str, Any]:
    masks = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
    return _fields("tgl_strided_slice_params", *masks, "offset")(node)


# ---- values --------------------------------------------------------------------------------------


def _sliced(values: Values, given: Attributes) -> Array:
    data, *bounds = values
    tensors = {0: Tensor("", data.shape)}
    tensors |= {k: Tensor("", b.shape, "i32", b) for k, b in enumerate(bounds, 1)}
    node = Node(0, "strided_slice", (0, 1, 2, 3), (), given)
    found = strided_slice.plan(Graph(tensors, (), (), ()), node)
    places = [np.zeros(1, np.int64)] * data.ndim
    for source, at in found.fixed.items():
        places[source] = np.array([at])
    for axis in found.axes:
        if axis.source is not None:
            places[axis.source] = axis.start + axis.step * np.arange(axis.extent)
    return np.asarray(data[np.ix_(*places)]).reshape(found.shape)


def _slice(values: Values, given: Attributes) -> Array:
    data, begin, size = values
    index = []
    for start, count, extent in zip(begin, size, data.shape, strict=True):
        stop = extent if count == -1 else start + count
        if not 0 <= start <= stop <= extent:
            raise ValueError("the slice leaves its tensor")
        index.append(slice(start, stop))
    return data[tuple(index)]


def _gather(values: Values, given: Attributes) -> Array:
    data, indices = values
    if given["batch_dims"] or np.any(indices < 0):
        raise ValueError("such a gather is no shape arithmetic")
    return np.take(data, indices, axis=given["axis"])


def _pack(values: Values, given: Attributes) -> Array:
    return np.stack(values, axis=given["axis"])


def _unpack(values: Values, given: Attributes) -> list[Array]:
    return list(np.moveaxis(values[0], given["axis"], 0))


def _split(values: Values, given: Attributes) -> list[Array]:
    axis, data = values
    return list(np.split(data, given["count"], axis=int(axis.reshape(-1)[0])))


def _concat(values: Values, given: Attributes) -> Array:
    return np.concatenate(values, axis=given["axis"])


def _divide(a: Array, b: Array) -> Array:
    """Whole numbers are divided towards zero, as the host's C++ does."""
    if a.dtype.kind == "f":
        return np.asarray(a / b)
    if np.any(b == 0):
        raise ValueError("hosts do not divide by 0")
    return np.asarray(np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b)))


def _floor_divide(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f" or np.any(b == 0):
        raise ValueError("only whole numbers are divided here")
    return np.asarray(a // b)


def _modulo(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f" or np.any(b == 0):
        raise ValueError("only whole numbers are divided here")
    return np.asarray(a % b)


def _to(values: Values, given: Attributes) -> Array:
    kind, data = given["dtype"], values[0]
    if kind not in HELD or not np.all(np.abs(data) < 2.0**31):
        raise ValueError("such a cast is no shape arithmetic")
    return np.asarray(wide(data.astype(NUMPY_DTYPES[kind])))


def _range(values: Values, given: Attributes) -> Array:
    start, limit, delta = (value.reshape(())[()] for value in values)
    if values[0].dtype.kind == "f" or delta == 0 or abs((limit - start) / delta) > LARGEST:
        raise ValueError("such a range is no shape arithmetic")
    return np.arange(start, limit, delta)


def _fill(values: Values, given: Attributes) -> Array:
    dims, value = values
    if np.prod(dims, dtype=np.float64) > LARGEST:
        raise ValueError("too many elements")
    return np.full(tuple(int(d) for d in dims), value.reshape(())[()])


def _reshaped(values: Values, given: Attributes) -> Array:
    data, shape = values  # the host goes by its parameters when the shape is no vector
    if shape.ndim != 1:
        raise ValueError("a shape is a vector")
    return data.reshape(tuple(int(extent) for extent in shape))


def _squeezed(values: Values, given: Attributes) -> Array:
    return np.squeeze(values[0], given["axes"] or None)


def _expanded(values: Values, given: Attributes) -> Array:
    data, axis = values
    return np.expand_dims(data, int(axis.reshape(-1)[0]))


def _reduced(function: Callable[..., Any]) -> Callable[[Values, Attributes], Array]:
    def run(values: Values, given: Attributes) -> Array:
        data, axes = values
        if data.dtype.kind == "f":
            raise ValueError("sums of floats depend on their order")
        places = tuple(int(axis) for axis in axes.reshape(-1))
        # Python's integers: what 64 bits cannot hold is an error, not another number.
        found = function(data.astype(object), axis=places, keepdims=bool(given["keep_dims"]))
        return np.asarray(found).astype(np.int64)

    return run


def _binary(function: Callable[[Array, Array], Any]) -> Callable[[Values, Attributes], Array]:
    return lambda values, given: np.asarray(function(values[0], values[1]))


def _unary(function: Callable[[Array], Any]) -> Callable[[Values, Attributes], Array]:
    return lambda values, given: np.asarray(function(values[0]))


def _select(values: Values, given: Attributes) -> Array:
    return np.where(values[0], values[1], values[2])


_Rule = tuple[Callable[[HostNode], dict[str, Any]], Callable[[Values, Attributes], Any]]
_add, _mul = _plain("tgl_add_params"), _plain("tgl_mul_params")
_keep = _fields("tgl_reduce_params", "keep_dims")
TABLE: dict[str, _Rule] = {
    "STRIDED_SLICE": (_strided, _sliced), "SLICE": (_none, _slice),
    "GATHER": (_fields("tgl_gather_params", "axis", "batch_dims"), _gather),
    "PACK": (_fields("tgl_pack_params", "axis"), _pack),
    "UNPACK": (_fields("tgl_pack_params", "axis"), _unpack),
    "SPLIT": (_fields("tgl_split_params", "count"), _split),
    "CONCATENATION": (_concatenation, _concat),
    "ADD": (_add, _binary(np.add)), "SUB": (_add, _binary(np.subtract)),
    "MUL": (_mul, _binary(np.multiply)), "DIV": (_mul, _binary(_divide)),
    "FLOOR_DIV": (_none, _binary(_floor_divide)), "FLOOR_MOD": (_none, _binary(_modulo)),
    "MAXIMUM": (_none, _binary(np.maximum)), "MINIMUM": (_none, _binary(np.minimum)),
    "NEG": (_none, _unary(np.negative)), "ABS": (_none, _unary(np.abs)),
    "FLOOR": (_none, _unary(np.floor)), "CEIL": (_none, _unary(np.ceil)),
    "EQUAL": (_none, _binary(np.equal)), "NOT_EQUAL": (_none, _binary(np.not_equal)),
    "LESS": (_none, _binary(np.less)), "LESS_EQUAL": (_none, _binary(np.less_equal)),
    "GREATER": (_none, _binary(np.greater)),
    "GREATER_EQUAL": (_none, _binary(np.greater_equal)),
    "SELECT_V2": (_none, _select), "CAST": (_cast, _to), "RANGE": (_none, _range),
    "FILL": (_none, _fill), "RESHAPE": (_none, _reshaped), "SQUEEZE": (_squeeze, _squeezed),
    "EXPAND_DIMS": (_none, _expanded), "REDUCE_PROD": (_keep, _reduced(np.prod)),
    "SUM": (_keep, _reduced(np.sum)), "REDUCE_MAX": (_keep, _reduced(np.max)),
    "REDUCE_MIN": (_keep, _reduced(np.min)),
}  # fmt: skip
