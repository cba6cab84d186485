"""Shape arithmetic: small values that follow from shapes and constants, worked out with numpy while
a graph is read (Shape -> Gather -> Concat -> Reshape, and the like).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np

from tflgpu_plugin.ir.graph import NUMPY_DTYPES, Array, Shape

from .host import DTYPES
from .snapshot import DEFAULT_DOMAINS, HostNode

LARGEST = 4096  # elements; what is larger is no shape arithmetic
LARGEST_IN_A_RUN = 1 << 24  # of what was shape arithmetic for the shapes of the first plan
LAST = (2**31 - 1, 2**63 - 1)
Inputs = Sequence[Array | None]
Attributes = Mapping[str, Any]


def evaluate(
    node: HostNode, inputs: Inputs, shapes: Sequence[Shape | None], largest: int = LARGEST
) -> tuple[Array, ...] | None:
    """The node's outputs when they follow from known inputs (None: not known) and input shapes;
    None when they do not, when one has more than `largest` elements, or when the node is no shape
    arithmetic.
    """
    if node.domain not in DEFAULT_DOMAINS:
        return None
    try:
        found: Array | list[Array] | None
        if node.op in ("Shape", "Size"):
            found = _of_shape(node, shapes[0] if shapes else None)
        elif node.op in _TABLE and _are_known(node, inputs, largest):
            if _elements(node, inputs) > largest:  # told before there is memory for it
                return None
            found = _TABLE[node.op](inputs, node.attributes, node.version)
        else:
            return None
    except (ValueError, IndexError, TypeError, KeyError, ZeroDivisionError, OverflowError):
        return None  # whoever runs the node will say what is wrong with it
    if found is None:
        return None
    arrays = tuple(np.asarray(array) for array in (found if isinstance(found, list) else [found]))
    return arrays if all(array.size <= largest for array in arrays) else None


def _are_known(node: HostNode, inputs: Inputs, largest: int) -> bool:
    given = [array for name, array in zip(node.inputs, inputs, strict=True) if name is not None]
    small = all(array is not None and array.size <= largest for array in given)
    return bool(given) and small


def _elements(node: HostNode, inputs: Inputs) -> float:
    """Of the result, where inputs may ask for any number of them; 0 for other operators."""
    if node.op in ("ConstantOfShape", "Expand"):
        return float(np.prod(_need(inputs[-1]), dtype=np.float64))
    if node.op == "Tile":
        return _need(inputs[0]).size * float(np.prod(_need(inputs[1]), dtype=np.float64))
    if node.op == "Pad":
        pads = _pads(inputs, node.attributes)
        extents = zip(_need(inputs[0]).shape, pads, strict=True)
        return float(np.prod([float(n + a + b) for n, (a, b) in extents]))
    if node.op == "Range":
        start, limit, delta = (float(_need(array).reshape(())) for array in inputs[:3])
        return (limit - start) / delta
    return 0.0


def _of_shape(node: HostNode, shape: Shape | None) -> Array | None:
    if shape is None:
        return None
    if node.op == "Size":
        return np.array(np.prod(shape, dtype=np.int64))
    first, last = int(node.attributes.get("start", 0)), node.attributes.get("end")
    return np.array(shape[first : None if last is None else int(last)], np.int64)


def _need(array: Array | None) -> Array:
    if array is None:
        raise ValueError("an input is absent")
    return array


def _axes(inputs: Inputs, attributes: Attributes) -> tuple[int, ...] | None:
    """Axes as the second input (from opset 13 on) or as an attribute."""
    if len(inputs) > 1 and inputs[1] is not None:
        return tuple(int(axis) for axis in inputs[1].reshape(-1))
    return tuple(attributes["axes"]) if "axes" in attributes else None


def _unsqueeze(inputs: Inputs, attributes: Attributes, version: int) -> Array:
    axes = _axes(inputs, attributes)
    assert axes is not None
    return np.expand_dims(_need(inputs[0]), axes)


def _squeeze(inputs: Inputs, attributes: Attributes, version: int) -> Array:
    return np.squeeze(_need(inputs[0]), _axes(inputs, attributes))


def _gather(inputs: Inputs, attributes: Attributes, version: int) -> Array:
    axis = int(attributes.get("axis", 0))
    return np.take(_need(inputs[0]), _need(inputs[1]).astype(np.int64), axis=axis)


def _concat(inputs: Inputs, attributes: Attributes, version: int) -> Array:
    return np.concatenate([_need(array) for array in inputs], axis=int(attributes["axis"]))


def _slice(inputs: Inputs, attributes: Attributes, version: int) -> Array:
    data = _need(inputs[0])
    if version < 10:
        names = ("starts", "ends", "axes", "steps")
        given = [None if n not in attributes else list(attributes[n]) for n in names]
    else:
        given = [None if array is None else array.reshape(-1).tolist() for array in inputs[1:]]
        given += [None] * (4 - len(given))
    starts, ends = given[0] or [], given[1] or []
    axes = list(range(len(starts))) if given[2] is None else given[2]
    steps = [1] * len(starts) if given[3] is None else given[3]
    index = [slice(None)] * data.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        extent = data.shape[int(axis)]
        index[int(axis)] = bounded(int(start), int(end), int(step), extent)
    return data[tuple(index)]


def bounded(start: int, end: int, step: int, extent: int) -> slice:
    """Python's slice for one axis of a Slice: bounds count from the end where they are negative,
    and are then clamped, with a negative step to elements that are there (Slice-13; Python would
    begin before the first one). The largest numbers stand for all that is left, backwards, too, as
    in onnxruntime's kernel."""
    if step < 0 and end in LAST:
        end = -extent - 1
    start += extent if start < 0 else 0
    end += extent if end < 0 else 0
    if step > 0:
        return slice(min(max(start, 0), extent), min(max(end, 0), extent), step)
    start, end = min(max(start, 0), extent - 1), min(max(end, -1), extent - 1)
    return slice(start, None if end < 0 else end, step)


def _cast(inputs: Inputs, attributes: Attributes, version: int) -> Array | None:
    dtype = DTYPES.get(int(attributes["to"]))
    return None if dtype is None else _need(inputs[0]).astype(NUMPY_DTYPES[dtype])


def _reshape(inputs: Inputs, attributes: Attributes, version: int) -> Array:
    data, wanted = _need(inputs[0]), [int(extent) for extent in _need(inputs[1])]
    if not attributes.get("allowzero", 0):
        wanted = [data.shape[k] if extent == 0 else extent for k, extent in enumerate(wanted)]
    return data.reshape(wanted)


def _divide(a: Array, b: Array) -> Array:
    """Integers are divided towards zero, as the host does."""
    if a.dtype.kind == "f":
        return np.asarray(a / b)
    quotient = np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))
    return np.asarray(quotient, a.dtype)


def _remainder(inputs: Inputs, attributes: Attributes, version: int) -> Array:
    """With the sign of the divisor, or with fmod that of the dividend (Mod-13)."""
    function = np.fmod if attributes.get("fmod", 0) else np.mod
    return np.asarray(function(_need(inputs[0]), _need(inputs[1])))


def _constant_of_shape(inputs: Inputs, attributes: Attributes, version: int) -> Array:
    shape = tuple(int(extent) for extent in _need(inputs[0]).reshape(-1))
    value = attributes.get("value")
    fill = np.zeros(1, np.float32) if value is None else value.reshape(-1)
    return np.full(shape, fill[0], fill.dtype)


def _range(inputs: Inputs, attributes: Attributes, version: int) -> Array:
    start, limit, delta = (_need(array).reshape(())[()] for array in inputs[:3])
    return np.arange(start, limit, delta, dtype=_need(inputs[0]).dtype)


def _split(inputs: Inputs, attributes: Attributes, version: int) -> list[Array] | None:
    data, axis = _need(inputs[0]), int(attributes.get("axis", 0))
    given = inputs[1] if len(inputs) > 1 else attributes.get("split")
    if given is None:
        if "num_outputs" not in attributes:  # how many outputs there are is not known here
            return None
        each = -(-data.shape[axis] // int(attributes["num_outputs"]))
        given = [each] * int(attributes["num_outputs"])
    cuts = np.cumsum([int(extent) for extent in given])[:-1]
    return list(np.split(data, cuts, axis=axis))


def _reduced(function: Callable[..., Any]) -> Callable[[Inputs, Attributes, int], Array]:
    def run(inputs: Inputs, attributes: Attributes, version: int) -> Array:
        data, keep = _need(inputs[0]), bool(attributes.get("keepdims", 1))
        axes = _axes(inputs, attributes) or None
        if axes is None and attributes.get("noop_with_empty_axes", 0):
            return data
        return np.asarray(function(data, axis=axes, keepdims=keep)).astype(data.dtype)

    return run


def _unary(function: Callable[[Array], Array]) -> Callable[[Inputs, Attributes, int], Array]:
    return lambda inputs, attributes, version: function(_need(inputs[0]))


def _binary(
    function: Callable[[Array, Array], Array],
) -> Callable[[Inputs, Attributes, int], Array]:
    return lambda inputs, attributes, version: function(_need(inputs[0]), _need(inputs[1]))


def _all(
    function: Callable[[Array, Array], Array],
) -> Callable[[Inputs, Attributes, int], Array]:
    """Of any number of inputs."""
    return lambda inputs, attributes, version: reduce(function, map(_need, inputs))


def _power(inputs: Inputs, attributes: Attributes, version: int) -> Array:
    base = _need(inputs[0])
    return np.power(base, _need(inputs[1])).astype(base.dtype)


def _flatten(inputs: Inputs, attributes: Attributes, version: int) -> Array:
    data, axis = _need(inputs[0]), int(attributes.get("axis", 1))
    return data.reshape(int(np.prod(data.shape[: axis if axis >= 0 else axis + data.ndim])), -1)


def _tile(inputs: Inputs, attributes: Attributes, version: int) -> Array | None:
    data, repeats = _need(inputs[0]), [int(n) for n in _need(inputs[1])]
    if len(repeats) != data.ndim:
        return None
    return np.tile(data, repeats)


def _clip(inputs: Inputs, attributes: Attributes, version: int) -> Array | None:
    if version < 11:  # limits are attributes, and values floats: no shape arithmetic
        return None
    data, low, high = (*inputs, None, None)[:3]
    found = data if low is None else np.maximum(_need(data), low)
    return _need(found) if high is None else np.minimum(_need(found), high)


def _cumulated(inputs: Inputs, attributes: Attributes, version: int) -> Array | None:
    if attributes.get("exclusive", 0) or attributes.get("reverse", 0):
        return None
    data = _need(inputs[0])
    return np.cumsum(data, axis=int(_need(inputs[1]).reshape(())), dtype=data.dtype)


def _scattered(inputs: Inputs, attributes: Attributes, version: int) -> Array | None:
    """ScatterND: what an assignment to a part of a shape becomes."""
    if attributes.get("reduction", b"none") != b"none":
        return None
    data, places, updates = (_need(array) for array in inputs)
    found = data.copy()
    found[tuple(np.moveaxis(places, -1, 0))] = updates
    return found


def _gathered(inputs: Inputs, attributes: Attributes, version: int) -> Array | None:
    if attributes.get("batch_dims", 0):
        return None
    return np.asarray(_need(inputs[0])[tuple(np.moveaxis(_need(inputs[1]), -1, 0))])


def _transpose(inputs: Inputs, attributes: Attributes, version: int) -> Array:
    return np.transpose(_need(inputs[0]), attributes.get("perm"))


def _expand(inputs: Inputs, attributes: Attributes, version: int) -> Array:
    data, shape = _need(inputs[0]), tuple(int(extent) for extent in _need(inputs[1]))
    return np.broadcast_to(data, np.broadcast_shapes(data.shape, shape))


def _pads(inputs: Inputs, attributes: Attributes) -> list[tuple[int, int]]:
    """How many places come before and behind each axis of the first input of a Pad."""
    given = inputs[1] if len(inputs) > 1 else np.array(attributes.get("pads", ()), np.int64)
    pads, rank = _need(given).reshape(-1).astype(np.int64), _need(inputs[0]).ndim
    axes = range(rank) if len(inputs) < 4 or inputs[3] is None else inputs[3].reshape(-1)
    starts, ends = pads.reshape(2, len(axes))
    found = [(0, 0)] * rank
    for axis, before, behind in zip(axes, starts, ends, strict=True):
        found[int(axis)] = int(before), int(behind)
    return found


def _pad(inputs: Inputs, attributes: Attributes, version: int) -> Array | None:
    pads = _pads(inputs, attributes)
    if attributes.get("mode", b"constant") != b"constant" or min(map(min, pads), default=0) < 0:
        return None
    value = inputs[2] if len(inputs) > 2 and inputs[2] is not None else np.zeros(1)
    if version < 11:
        value = np.array([attributes.get("value", 0.0)])
    return np.pad(_need(inputs[0]), pads, constant_values=value.reshape(-1)[0])


def _where(inputs: Inputs, attributes: Attributes, version: int) -> Array:
    return np.where(_need(inputs[0]), _need(inputs[1]), _need(inputs[2]))


_TABLE: dict[str, Callable[[Inputs, Attributes, int], Array | list[Array] | None]] = {
    "Add": _binary(np.add), "Sub": _binary(np.subtract), "Mul": _binary(np.multiply),
    "Div": _binary(_divide), "Equal": _binary(np.equal), "Less": _binary(np.less),
    "Greater": _binary(np.greater), "And": _binary(np.logical_and), "Or": _binary(np.logical_or),
    "Min": _all(np.minimum), "Max": _all(np.maximum), "Sum": _all(np.add),
    "Not": _unary(np.logical_not),
    "Neg": _unary(np.negative), "Abs": _unary(np.abs), "Floor": _unary(np.floor),
    "Ceil": _unary(np.ceil), "Sqrt": _unary(np.sqrt), "Identity": _unary(np.asarray),
    "Unsqueeze": _unsqueeze, "Squeeze": _squeeze, "Gather": _gather, "Concat": _concat,
    "Slice": _slice, "Cast": _cast, "Reshape": _reshape, "ConstantOfShape": _constant_of_shape,
    "Range": _range, "Split": _split, "Transpose": _transpose, "Expand": _expand,
    "Where": _where, "ReduceProd": _reduced(np.prod), "ReduceSum": _reduced(np.sum),
    "ReduceMax": _reduced(np.max), "ReduceMin": _reduced(np.min), "Mod": _remainder,
    "ReduceMean": _reduced(np.mean), "Xor": _binary(np.logical_xor), "Pow": _power,
    "Sign": _unary(np.sign), "Round": _unary(np.round), "Flatten": _flatten, "Tile": _tile,
    "Clip": _clip, "CumSum": _cumulated, "ScatterND": _scattered, "GatherND": _gathered,
    "Pad": _pad,
    "NonZero": _unary(lambda data: np.array(np.nonzero(np.atleast_1d(data)), np.int64)),
    "LessOrEqual": _binary(np.less_equal), "GreaterOrEqual": _binary(np.greater_equal),
}  # fmt: skip
