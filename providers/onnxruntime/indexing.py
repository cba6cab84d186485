"""Builders for operators that select elements by index, or compute elements from their index."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from tflgpu_plugin.ir import COUNTS, ImpossibleShapeRefusal, needs
from tflgpu_plugin.providers import Builder

from .conditions import CAST, REAL
from .host import DTYPES
from .presence import absent
from .quantize import named
from .rearranging import parts
from .rows import operand
from .windows import transposed

LIKENESS = needs(
    "dtype.unsupported",
    "Both inputs of floats of 8 to 32 bits, bool, or integers of 2 to 64 bits.",
    lambda e: {e.dtype(e.x(0)), e.results[0].dtype} <= {*CAST},
)
ONE_DIAGONAL = needs(
    "shape.unsupported",
    "An input of rank 2 or more, and a single k.",
    lambda e: e.rank() > 1 and (not e.has(1) or prod(e.shape(e.x(1))) == 1),
)
EYE = needs(
    "dtype.unsupported",
    "A matrix, and a result in float32, float16, bool, int32 or int64.",
    lambda e: e.rank() == 2 and _made(e) in REAL,
)
DEPTH = needs(
    "constant.invalid",
    "A depth of at least 1.",
    lambda e: bool(e.value(1).min() > 0),
    kind=ImpossibleShapeRefusal,
)
PLACES = needs(
    "dtype.unsupported",
    "Indices of int32, int64 or float32.",
    lambda e: e.dtype() in (*COUNTS, "f32"),
)
OFF_AND_ON = needs("shape.mismatch", "Two values (off, on).", lambda e: e.shape(e.x(2)) == (2,))
WRITTEN = needs(
    "attribute.unsupported",
    "The mode linear or circular.",
    lambda e: e.text("mode", "linear") in ("linear", "circular"),
)
UNPOOLED = needs(
    "shape.mismatch",
    "Values and indices of equal shape, and a kernel_shape for all axes except the first two.",
    lambda e: (
        e.shape() == e.shape(e.x(1)) and len(e.integers("kernel_shape") or ()) == e.rank() - 2 > 0
    ),
)
# With output_shape, indices refer to the shape without it in ONNX, to output_shape in onnxruntime.
SHAPED_BY_WINDOW = absent("No output_shape.", 2)


def _ahead(e: Builder) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Returns the difference column - row for each element of a matrix of the input's shape."""
    rows, columns = e.shape()[-2:]
    return np.arange(columns) - np.arange(rows)[:, None]


def trilu(e: Builder) -> int:
    """Builds Trilu: keeps the elements on one side of diagonal k, which need not be constant, and
    sets others to 0."""
    upper, ahead, dtype = e.integer("upper", 1), _ahead(e), e.dtype()
    if e.known(e.get(1)) and not e.symbolic:
        k = int(e.value(1).reshape(-1)[0]) if e.has(1) else 0
        kept = e.const(ahead >= k if upper else ahead <= k, np.bool_)
    else:
        side, k = "greater_equal" if upper else "less_equal", e.reshape(e.x(1), (1,))
        kept = e.add(side, e.index(ahead), k, dtype="bool")
    zero = np.int32 if dtype in COUNTS else np.bool_ if dtype == "bool" else None
    return e.add("where", kept, e.x(), e.const([0], zero), dtype=dtype)


def _made(e: Builder) -> str:
    """Returns the dtype of the result of an EyeLike."""
    return named(e, "dtype") if e.integer("dtype") else e.dtype()


def eye(e: Builder) -> int:
    """Builds EyeLike: ones on diagonal k; only shape and type of the input matter."""
    return e.add("cast", e.const(_ahead(e) == e.integer("k"), np.bool_), dtype=_made(e))


def one_hot(e: Builder) -> int:
    """Builds OneHot, whose input 2 holds the values (off, on). Float indices are truncated."""
    indices, dtype = e.x(), e.dtype(e.x(2))
    axis = e.axis(e.integer("axis", -1), e.rank() + 1)
    off, on = parts(e, e.x(2), (1, 1))
    depth = e.index(e.value(1).reshape(-1))
    if e.dtype() == "f32":
        whole = e.add("cast", e.exact(indices), dtype="i32")
        held = e.add("less", e.add("abs", indices), float(1 << 31), dtype="bool")
        indices = e.add("where", held, whole, depth, dtype="i32")  # depth: out of range
    return e.add("one_hot", indices, depth, on, off, dtype=dtype, axis=axis, wraps=True)


def first_largest(e: Builder, x: int, axis: int, dtype: str) -> int:
    """Returns the index of the first of the largest elements along an axis, without the axis."""
    return e.add("arg_max", x, e.index([axis]), dtype=dtype, keep_dims=False, last=False)


def hardmax(e: Builder) -> int:
    """Builds Hardmax: 1 at the first maximum along `axis`, else 0; before opset 13 the maximum is
    over `axis` and all axes after it."""
    shape = e.shape()
    axis = e.axis(e.integer("axis", -1 if e.version >= 13 else 1), len(shape))
    after = axis + 1 if e.version >= 13 else len(shape)
    rows = (prod(shape[:axis]), prod(shape[axis:after]), prod(shape[after:]))
    x = e.reshape(e.x(), rows)
    first = first_largest(e, x, 1, "i32")
    values = e.const([1]), e.const([0])
    depth = e.index([rows[1]])
    made = e.add("one_hot", first, depth, *values, dtype=e.dtype(), axis=1, wraps=False)
    return e.reshape(made, shape)


def cast_like(e: Builder) -> int:
    """Builds CastLike: a cast to the type of input 1, whose values are not read."""
    number = next(number for number, dtype in DTYPES.items() if dtype == e.results[0].dtype)
    made: int = e.run(
        "Cast", e.x(), attributes={"to": number, "saturate": e.integer("saturate", 1)}
    )
    return made


def tensor_scatter(e: Builder) -> int:
    """Builds TensorScatter, which writes from index 0 on unless write_indices are given."""
    starts = e.x(2) if e.has(2) else e.index([0] * e.shape()[0])
    axis, circular = e.attribute("axis", -2), e.text("mode", "linear") == "circular"
    return e.add("update_slice", e.x(0), e.x(1), starts, axis=axis, circular=circular, raises=True)


def max_unpool(e: Builder) -> int:
    """Builds MaxUnpool: scatters the values to their indices in the flattened result."""
    shape = e.shape()
    result = (*shape[:2], *transposed(e)[0])
    indices, x = e.reshape(e.x(1), (prod(shape), 1)), e.reshape(e.x(0), (prod(shape),))
    flat = e.index([prod(result)])
    y = e.add("scatter_new", indices, x, flat, dtype=e.dtype(), reduction="none", raises=True)
    return e.reshape(y, result)


def span(e: Builder) -> int:
    """Returns how many numbers a Range has in every run, 0 if their number depends on the run."""
    step, distance = int(e.value(2).reshape(())), e.distance(e.x(0), e.x(1))
    return max(-(-distance // step), 0) if distance and step else 0


def numbers(e: Builder) -> int:
    """Builds a Range whose start is known only in a run."""
    steps = e.index(np.arange(span(e)) * int(e.value(2).reshape(())))
    return e.add("add", e.reshape(e.x(), (1,)), steps)


FEATURES = needs(
    "shape.unsupported",
    "At least one axis, and at least one index.",
    lambda e: e.rank() > 0 < prod(e.shape(e.x(1))),
)


def features(e: Builder) -> int:
    """Builds ArrayFeatureExtractor: gathers from the last axis; a vector is one row."""
    x, many = e.x(), prod(e.shape(e.x(1)))
    if e.rank() == 1:
        x = e.reshape(x, (1, *e.shape()))
    places = e.reshape(e.x(1), (many,))
    return e.add("gather", x, places, axis=e.rank(x) - 1, raises=True)


def updated(e: Builder) -> int:
    """Builds a scatter; one that writes nothing returns its first input."""
    data, indices, updates = (e.shape(e.x(k)) for k in range(3))
    places, wanted, along = indices, indices, "axis" in e.op.attributes
    if indices and not along:  # the last axis holds coordinates
        places = indices[:-1]
        wanted = (*places, *data[indices[-1] :])
    if 0 in places and updates == wanted:  # places without elements must be checked
        return e.x()
    given, how = (e.x(), operand(e, "index", e.x(1)), e.x(2)), e.text("reduction", "none")
    more: dict[str, Any] = {"axis": e.axis(e.integer("axis"), e.rank())} if along else {}
    return e.add(e.row.op, *given, reduction=how, wraps=True, raises=True, **more)
