"""Builders for the operators of ai.onnx.ml that prepare features: scale and replace them, encode
categories, and join vectors. onnxruntime's kernels take the features of a row from axis 1."""

from __future__ import annotations

from math import isnan, prod
from typing import Any

import numpy as np

from tflgpu_plugin.ir import MAX_FLOAT32, Array, asks, needs
from tflgpu_plugin.providers import Builder

from .indexing import first_largest
from .rearranging import part

MAX_CATEGORIES = 1 << 10  # for which a table of rows with a single 1 is made
MAX_COMPARED = 1 << 24  # pairs of elements and keys: a tensor of 64 MiB
NUMBERS = {"f32": "floats", "i64": "int64s"}  # types of keys and values, by their attributes
INT32 = np.iinfo(np.int32)


def floats(e: Builder, name: str) -> Array:
    """Returns the attribute `name`, a list of floats, empty where it is absent."""
    return np.asarray(e.host.attributes.get(name, ()), np.float32)


def whole(e: Builder, name: str) -> Array:
    """Returns the attribute `name`, a list of integers, empty where it is absent."""
    return np.asarray(e.host.attributes.get(name, ()), np.int64)


def real(e: Builder, tensor: int | None = None) -> int:
    """Returns a tensor (the first input) as float32."""
    x = e.x() if tensor is None else tensor
    return x if e.dtype(x) == "f32" else e.add("cast", x, dtype="f32")


def within_int32(*given: Array) -> bool:
    """Whether all integers are within int32, without its lowest number."""
    return all(bool((abs(array) <= INT32.max).all()) for array in given)


# ---- numbers for each feature --------------------------------------------------------------------


def _for_features(e: Builder, given: Array) -> bool:
    """Whether these are one number for all features, or one for each."""
    single = len(given) == 1 and e.rank() > 0
    return single or (e.rank() in (1, 2) and len(given) == e.shape()[-1])


@asks("attribute.invalid")
def scaled(e: Builder) -> bool:
    """Requires one scale and one offset, or with an input of rank 1 or 2 one of each for every
    feature."""
    scale, offset = floats(e, "scale"), floats(e, "offset")
    return len(scale) == len(offset) and _for_features(e, scale)


def scaler(e: Builder) -> int:
    """Builds Scaler: (x - offset) * scale."""
    moved = e.add("sub", real(e), e.const(floats(e, "offset")))
    return e.add("mul", moved, e.const(floats(e, "scale")))


def _values(e: Builder) -> Array:
    real = e.dtype() == "f32"
    return floats(e, "imputed_value_floats") if real else whole(e, "imputed_value_int64s")


def _imputed(e: Builder) -> Array:
    """Returns the values that replace others: one for each feature, else the first for all."""
    given = _values(e)
    return given if _for_features(e, given) else given[:1]


@asks("attribute.invalid")
def imputed(e: Builder) -> bool:
    """Requires values of the input's type that replace others; integers within int32. With an input
    of rank 3 or more, not as many values as axis 1 is long."""
    given, rank = _imputed(e), e.rank()
    both = len(floats(e, "imputed_value_floats")) and len(whole(e, "imputed_value_int64s"))
    named = "replaced_value_float" if e.dtype() == "f32" else "replaced_value_int64"
    if not len(given) or both or not rank or named not in e.host.attributes:
        return False
    if rank > 2 and len(_values(e)) == e.shape()[1]:
        return False
    replaced = np.asarray([e.integer("replaced_value_int64")])
    return e.dtype() == "f32" or within_int32(given, replaced)


def imputer(e: Builder) -> int:
    """Builds Imputer: replaces each element that equals a given number (or is NaN) with the value
    of its feature."""
    x, given = e.x(), _imputed(e)
    if e.dtype() != "f32":
        replaced = e.index([e.integer("replaced_value_int64")])
        same = e.add("equal", x, replaced, dtype="bool")
        return e.add("where", same, e.index(given), x, dtype="i64")
    number = e.number("replaced_value_float", 0.0)
    same = e.add("is_nan", x, dtype="bool") if isnan(number) else _equal(e, x, number)
    return e.add("where", same, e.const(given), x, dtype="f32")


def _equal(e: Builder, x: int, number: float) -> int:
    return e.add("equal", x, number, dtype="bool")


def binarizer(e: Builder) -> int:
    """Builds Binarizer: 1 for numbers above the threshold, else 0. NaN fails the run."""
    above = e.add("greater", e.x(), e.number("threshold", 0.0), dtype="bool")
    place = e.add("cast", above, dtype="i32")
    unknown = e.add("is_nan", e.x(), dtype="bool")
    place = e.add("where", unknown, e.index([2]), place, dtype="i32")
    return e.add("gather", e.const([0.0, 1.0]), place, axis=0, raises=True)


NORM = needs(
    "rank.unsupported",
    "An input of rank 1 or 2, and the norm MAX, L1 or L2.",
    lambda e: e.rank() in (1, 2) and e.text("norm", "MAX") in ("MAX", "L1", "L2"),
)


def normalizer(e: Builder) -> int:
    """Builds Normalizer: divides each row by its norm, except where that is 0. The host squares
    int32 in int32, which wraps around, and so does its magnitude of the least number."""
    x, norm, axis = real(e), e.text("norm", "MAX"), e.index([e.rank() - 1])
    if norm == "L2":  # as in the host: the root of each share, with the sign of the number
        squares = _in_type(e, "square", x)
        size = e.add("reduce_sum", squares, axis, keep_dims=True)
        share = e.add("sqrt", e.add("div", squares, size))
        negative = e.add("less", x, 0.0, dtype="bool")
        y = e.add("where", negative, e.add("neg", share), share, dtype="f32")
    else:
        op = "reduce_sum" if norm == "L1" else "reduce_max"
        parts = _in_type(e, "abs", x) if norm == "L1" else or_lowest(e, x)
        size = e.add(op, parts, axis, keep_dims=True)
        y = e.add("div", x, size)
    return e.add("where", _equal(e, size, 0.0), x, y, dtype="f32")


def _in_type(e: Builder, op: str, x: int) -> int:
    """Returns a function of each input in float32, computed in int32 if that is its type; `x` is
    the input in float32."""
    if e.dtype() != "i32":
        return e.add(op, x)
    return e.add("cast", e.add(op, e.x(), dtype="i32"), dtype="f32")


def or_lowest(e: Builder, x: int) -> int:
    """Returns `x` with the lowest number in place of NaN, which the host's maximum passes over."""
    unknown = e.add("is_nan", x, dtype="bool")
    return e.add("where", unknown, -MAX_FLOAT32, x, dtype="f32")


# ---- categories ----------------------------------------------------------------------------------


@asks("attribute.invalid")
def categories(e: Builder) -> bool:
    """Requires distinct categories (cats_int64s) within int32, an input of rank 2 at most, and,
    where zeros is 0, at most 1,024 categories."""
    given = whole(e, "cats_int64s")
    few = len(given) <= MAX_CATEGORIES or e.integer("zeros", 1) != 0
    distinct = 0 < len(given) == len({*given.tolist()})
    return e.rank() <= 2 and few and distinct and within_int32(given)


def one_hot_encoder(e: Builder) -> int:
    """Builds OneHotEncoder: 1 at the category of an element, else 0. With zeros = 0, an element
    that equals no category fails the run."""
    given, x = whole(e, "cats_int64s"), e.x()
    number = x if e.dtype() == "i64" else e.add("cast", x, dtype="i64")
    each = e.reshape(number, (*e.shape(), 1))
    same = e.add("cast", e.add("equal", each, e.index(given), dtype="bool"), dtype="f32")
    if e.integer("zeros", 1):
        return same
    many = len(given)
    place = first_largest(e, same, e.rank(), "i32")
    found = e.add("gather", e.index(given), place, axis=0)
    known = e.add("equal", found, number, dtype="bool")
    row = e.add("where", known, place, e.index([many]), dtype="i32")
    return e.add("gather", e.const(np.eye(many)), row, axis=0, raises=True)


def _listed(e: Builder, what: str) -> tuple[str, Array]:
    """Returns the type of a LabelEncoder's keys or values ("" unless it is float32 or int64), and
    the numbers."""
    for dtype, suffix in NUMBERS.items():
        if (given := e.host.attributes.get(f"{what}_{suffix}")) is not None:
            return dtype, np.asarray(given, np.float32 if dtype == "f32" else np.int64)
    given = e.host.attributes.get(f"{what}_tensor")
    held = np.asarray(() if given is None else given).reshape(-1)
    return {"float32": "f32", "int64": "i64"}.get(held.dtype.name, ""), held


def _default(e: Builder, dtype: str) -> Any:
    """Returns the value that LabelEncoder gives to elements that equal no key."""
    given = e.host.attributes.get("default_tensor")
    if given is not None and np.size(given):
        return np.asarray(given).reshape(-1)[0]
    return e.number("default_float", -0.0) if dtype == "f32" else e.integer("default_int64", -1)


@asks("attribute.invalid")
def encoded(e: Builder) -> bool:
    """Requires keys of the input's type and as many values, both of float32 or int64; integers
    within int32; keys of float64 that differ in float32, too; an input of rank 7 at most; at most
    16,777,216 comparisons (elements times keys)."""
    (kind, keys), (made, values) = _listed(e, "keys"), _listed(e, "values")
    if not made or kind != e.dtype() or not 0 < len(keys) == len(values) or e.rank() > 7:
        return False
    if e.doubles and len(np.unique(keys)) < len(keys):
        return False
    held = [a for a in (keys, values, np.asarray([_default(e, made)])) if a.dtype.kind == "i"]
    return within_int32(*held) and prod(e.shape()) * len(keys) <= MAX_COMPARED


def label_encoder(e: Builder) -> int:
    """Builds LabelEncoder: maps each element that equals a key to the key's value. NaN is a key
    from version 4 on."""
    (_, keys), (made, values) = _listed(e, "keys"), _listed(e, "values")
    firsts = np.unique(keys, return_index=True)[1]  # of equal keys, the first one counts
    keys, values = keys[sorted(firsts)], values[sorted(firsts)]
    missing = np.isnan(keys) & (e.version >= 4)
    known, x = keys[~missing], e.x()
    number = e.index if made == "i64" else e.const
    default = number([_default(e, made)])
    y = _looked_up(e, known, number(values[~missing]), default, made) if len(known) else None
    if not missing.any():
        assert y is not None
        return y
    of_nan, nothing = number(values[missing][:1]), default if y is None else y
    unknown = e.add("is_nan", x, dtype="bool")
    return e.reshape(e.add("where", unknown, of_nan, nothing, dtype=made), e.shape())


def _looked_up(e: Builder, keys: Array, values: int, default: int, dtype: str) -> int:
    """Returns the value of the key that each element equals, or the default."""
    x = e.x()
    held = e.index(keys) if e.dtype() == "i64" else e.const(keys)
    each = e.reshape(x, (*e.shape(), 1))
    same = e.add("cast", e.add("equal", each, held, dtype="bool"), dtype="f32")
    place = first_largest(e, same, e.rank(), "i32")
    found = e.add("equal", e.add("gather", held, place, axis=0), x, dtype="bool")
    value = e.add("gather", values, place, axis=0, dtype=dtype)
    return e.reshape(e.add("where", found, value, default, dtype=dtype), e.shape())


# ---- vectors -------------------------------------------------------------------------------------


def _rows(shape: Any) -> tuple[int, int]:
    """Returns how many rows an input of this shape has, and their length."""
    return (1, shape[0]) if len(shape) == 1 else (shape[0], prod(shape[1:]))


@asks("shape.mismatch")
def joined(e: Builder) -> bool:
    """Requires a number of features for each input (inputdimensions), and inputs with as many
    rows."""
    shapes = [e.shape(e.x(k)) for k in range(len(e.inputs))]
    sizes = e.integers("inputdimensions") or ()
    if len(sizes) != len(shapes) or any(not shape for shape in shapes) or min(sizes) < 1:
        return False
    return len({_rows(shape)[0] for shape in shapes}) == 1


def feature_vectorizer(e: Builder) -> int:
    """Builds FeatureVectorizer: joins vectors, each cut or filled with zeros to its length."""
    parts = []
    for k, size in enumerate(e.integers("inputdimensions") or ()):
        rows, length = _rows(e.shape(e.x(k)))
        given = e.reshape(real(e, e.x(k)), (rows, length))
        if length > size:
            given = part(e, given, 0, size, 1)
        parts.append(given)
        if length < size:
            parts.append(e.filled((rows, size - length)))
    return e.add("concat", *parts, axis=1) if len(parts) > 1 else parts[0]
