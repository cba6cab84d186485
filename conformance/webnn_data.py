"""Tensors and arguments in WebNN's conformance data, as the rustnn project has it in JSON, and
the tolerances that web-platform-tests publishes for operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Description = Mapping[str, Any]  # what JSON has for an operator, a tensor or a graph

TYPES = ("float32", "float16", "int32", "uint32", "int64", "uint64", "int8", "uint8")


class NotConvertible(Exception):
    """The data or ONNX cannot express a case; the sentence says why."""


def numbers(tensor: Description) -> Array:
    """Returns the values of a tensor in the data: one number may stand for all, and text for a
    number that JSON's would round. Raises NotConvertible."""
    kind, shape = tensor["descriptor"]["dataType"], tensor["descriptor"]["shape"]
    if kind not in TYPES:
        raise NotConvertible(f"{kind} is no type of the host")
    data = tensor["data"]
    if not isinstance(data, list):
        return np.full(shape, number(data, kind), kind)
    return np.array([number(one, kind) for one in data], kind).reshape(shape)


def number(value: Any, kind: str) -> Any:
    """Returns a number of the data. Raises NotConvertible where JSON has lost it."""
    if value is None:
        raise NotConvertible("JSON has null for infinities and NaN")
    value = value.removesuffix("n") if isinstance(value, str) else value
    return float(value) if kind.startswith("float") else int(value)


def arguments(operator: Description) -> dict[str, Any]:
    """Returns an operator's arguments by name, those in `options` among them."""
    given: dict[str, Any] = {}
    for one in operator["arguments"]:
        given |= one
    options: dict[str, Any] = given.pop("options", {})
    return given | options


def constants_of(graph: Description) -> set[str]:
    """Returns the names of the inputs that are constants."""
    constants = {name for name, value in graph["inputs"].items() if value.get("constant")}
    return constants if constants < set(graph["inputs"]) else set()


Counts = Callable[[Description], int]


def _terms(graph: Description, times: int, more: int) -> int:
    """Returns a bound for a reduction, from the number of the elements that it reduces to one."""
    (operator,) = graph["operators"]
    given = arguments(operator)
    shape = graph["inputs"][given["input"]]["descriptor"]["shape"]
    axes = given.get("axes", range(len(shape)))
    return times * int(prod(shape[axis] for axis in axes)) + more


def _products(graph: Description) -> int:
    (operator,) = graph["operators"]
    return 2 * int(graph["inputs"][arguments(operator)["a"]]["descriptor"]["shape"][-1])


def _window(graph: Description) -> int:
    """Returns a bound for a convolution, from the size of its sums."""
    (operator,) = graph["operators"]
    given = arguments(operator)
    transposed = operator["name"] == "convTranspose2d"
    axes = given.get("filterLayout", "iohw" if transposed else "oihw")
    shape = graph["inputs"][given["filter"]]["descriptor"]["shape"]
    x = graph["inputs"][given["input"]]["descriptor"]["shape"]
    channels = x[1 if given.get("inputLayout", "nchw") == "nchw" else 3]
    per_group = channels // given.get("groups", 1)
    return 2 * int(per_group) * int(shape[axes.index("h")] * shape[axes.index("w")])


def _softmax(graph: Description) -> int:
    (operator,) = graph["operators"]
    given = arguments(operator)
    return 3 * int(graph["inputs"][given["input"]]["descriptor"]["shape"][given["axis"]]) + 3


# Units in the last place, for float32 and float16; what has no row must be exact.
UNITS: Mapping[str, tuple[int, int] | Counts] = {
    "add": (1, 1), "sub": (1, 1), "mul": (1, 1), "div": (2, 2), "pow": (32, 2), "cast": (1, 1),
    "batchNormalization": (6, 6), "instanceNormalization": (840, 8400), "elu": (18, 18),
    "exp": (32, 1), "sqrt": (1, 1), "hardSigmoid": (2, 2), "hardSwish": (4, 4),
    "leakyRelu": (1, 1), "linear": (2, 2), "sigmoid": (34, 3), "softmax": _softmax,
    "matmul": _products, "conv2d": _window, "convTranspose2d": _window,
    "reduceL1": partial(_terms, times=1, more=0), "reduceL2": partial(_terms, times=2, more=1),
    "reduceLogSum": partial(_terms, times=1, more=18),
    "reduceLogSumExp": partial(_terms, times=2, more=18),
    "reduceMean": partial(_terms, times=1, more=2),
    "reduceProduct": partial(_terms, times=1, more=0),
    "reduceSum": partial(_terms, times=1, more=0),
    "reduceSumSquare": partial(_terms, times=2, more=0),
}  # fmt: skip
# Absolute bounds, where the published ones are.
ABSOLUTE: Mapping[str, tuple[float, float]] = {
    "layerNormalization": (1 / 1024, 1 / 512),
    "log": (1 / 1024, 1 / 1024),
    "tanh": (1 / 1024, 1 / 512),
}


def tolerance(graph: Description) -> tuple[float, int]:
    """Returns an absolute bound and one in units in the last place, of which a result has to keep
    either."""
    (result, *_), (operator,) = graph["expectedOutputs"].values(), graph["operators"]
    half = result["descriptor"]["dataType"] == "float16"
    units = UNITS.get(operator["name"], (0, 0))
    absolute = ABSOLUTE.get(operator["name"], (0.0, 0.0))[half]
    return absolute, units[half] if isinstance(units, tuple) else units(graph)
