"""Cases by op family, one file each: intentional lists of single-op models, without expected values
(the host is the oracle).

A case is written in the terms of the TFLite schema; `conformance.models.tflite` builds it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from conformance import tolerance
from tflgpu_plugin.ir import NUMPY_DTYPES, Quantization
from tflgpu_plugin.ops import FAMILIES


@dataclass(frozen=True)
class Input:
    """One input tensor. `data` makes it a constant; otherwise each run feeds seeded values in
    [low, high), rounded to multiples of `step` where there is one.

    `variable` marks state of the interpreter (zero at first). dtype is a name of
    `graph.NUMPY_DTYPES`."""

    shape: tuple[int, ...]
    dtype: str = "f32"
    data: npt.NDArray[Any] | None = None
    low: float = -1.0
    high: float = 1.0
    variable: bool = False
    step: float = 0.0
    quantization: Quantization | None = None


@dataclass(frozen=True)
class Case:
    """A single-op TFLite model: `op` and `options` as the schema names them (BuiltinOperator and
    the options table, for example "CONV_2D", "Conv2DOptions", {"padding": "SAME", "strideH": 2,
    "strideW": 2, "fusedActivationFunction": "RELU6"}; enum values are given by name). `outputs`
    counts output tensors (shapes come from the host, or are stated in `shapes` where the host takes
    those of a custom operator from the model), all of `output_type` or each of its
    own. None in `inputs` is an absent optional input. `intermediates` are the quantizations of
    tensors that the operator names besides (None: not quantized). `refused`: the table must say no
    (a control case). `runs`: one after the other, over what variables keep."""

    name: str
    op: str
    version: int
    inputs: tuple[Input | None, ...]
    options_type: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    outputs: int = 1
    output_type: str = "f32"
    refused: bool = False
    output_quantization: Quantization | None = None
    shapes: tuple[tuple[int, ...], ...] = ()
    output_types: tuple[str, ...] = ()
    runs: int = 2
    intermediates: tuple[Quantization | None, ...] = ()

    @property
    def types(self) -> tuple[str, ...]:
        """Returns the type of each output."""
        return self.output_types or (self.output_type,) * self.outputs


def seeded(*shape: int, seed: int = 1, scale: float = 1.0) -> npt.NDArray[np.float32]:
    """Returns reproducible constant data, uniform in [-scale, scale)."""
    return np.random.default_rng([seed, *shape]).uniform(-scale, scale, shape).astype(np.float32)


def constant(array: Any, dtype: str = "f32") -> Input:
    """Returns a constant input with this value."""
    data = np.asarray(array, NUMPY_DTYPES[dtype])
    return Input(data.shape, dtype, data)


def in_8_bits(
    case: Case, dtype: str = "i8", zero: int = 17, axis: int | None = 0, version: int = 3
) -> Case:
    """Returns a layer in 8 bits: int8 with a scale for each filter along an axis of the weights, or
    with one scale (None), or uint8 with zero points of input, weights and result. All integers
    occur; results have a spread of 50 levels. `version` is the least of an operator with int8."""
    x, filters, bias = (value.shape for value in case.inputs if value is not None)
    limits, (count,) = np.iinfo(NUMPY_DTYPES[dtype]), bias
    unsigned, random = dtype == "u8", np.random.default_rng([7, *filters])
    unit, several = 0.0625, axis is not None and not unsigned
    scales = unit * (random.uniform(0.5, 2.0, count).astype(np.float32) if several else 1)
    weights = random.integers(limits.min, limits.max + 1, filters).astype(NUMPY_DTYPES[dtype])
    vector = random.integers(-3000, 3000, count).astype(np.int32)
    each = tuple(float(scale) for scale in np.reshape(scales, -1))
    zeros, sums = (120 if unsigned else 0,) * len(each), tuple(unit * scale for scale in each)
    values = (
        Input(
            x, dtype, None, limits.min, limits.max + 1, quantization=Quantization((unit,), (zero,))
        ),
        Input(filters, dtype, weights, quantization=Quantization(each, zeros, axis or 0)),
        Input(bias, "i32", vector, quantization=Quantization(sums, (0,) * len(sums))),
    )
    terms = weights.size // count
    spread = float(np.float32(unit * unit * 74 * 74 * terms**0.5 / 50))
    result = Quantization((spread,), (132 if unsigned else 5,))
    return replace(case, version=max(case.version, 1 if unsigned else version), inputs=values,
                   output_type=dtype, output_quantization=result)  # fmt: skip


MIN_INT32, ABOVE_INT32 = -(2**31), 2**31  # the least int32, and the first number above all


def integers(
    cases: Iterable[Case],
    types: Mapping[str, str],
    names: Collection[str] = (),
    low: int = MIN_INT32,
    high: int = ABOVE_INT32,
) -> list[Case]:
    """Returns the cases with these names (none: all cases) with integers from `low` to `high`: what
    is float32 in them becomes int32 or int64, as `types` says for each host operator."""
    found = []
    for case in cases:
        if case.refused or (names and case.name not in names):
            continue
        for dtype in types.get(case.op, "").split():
            given = tuple(_whole(value, dtype, low, high) for value in case.inputs)
            results = tuple(dtype if kind == "f32" else kind for kind in case.types)
            found.append(replace(case, name=f"{case.name}_{dtype}", inputs=given,
                                 output_type=results[0], output_types=results))  # fmt: skip
    return found


def _whole(value: Input | None, dtype: str, low: int, high: int) -> Input | None:
    """Returns an input of integers, or None. Constants are never 0; other tests cover divisors of
    0."""
    if value is None or value.dtype != "f32":
        return value
    if value.data is None:
        return replace(value, dtype=dtype, low=low, high=high)
    numbers = np.random.default_rng(value.data.size).integers(1, min(high, 1 << 26), value.shape)
    return constant(numbers * np.where(numbers % 2, 1, -1), dtype)


def listed(family: str, name: str) -> list[Any]:
    """Returns the list `name` in a family's file; empty when there is no such list or file, which
    `test_versions` reports. For drivers without infinities and NaN, only cases without these."""
    try:
        module = import_module(f"{__name__}.{family}")
    except ModuleNotFoundError as error:
        if error.name != f"{__name__}.{family}":
            raise
        return []
    found = list(getattr(module, name, ()))
    return [case for case in found if _finite(case)] if tolerance.FINITE_ONLY else found


def _finite(case: Any) -> bool:
    """Whether every float that a case is given is finite."""
    data = (value.data for value in case.inputs if value is not None)
    given = (array for array in data if array is not None and array.dtype.kind == "f")
    return all(bool(np.isfinite(array).all()) for array in given)


def all_cases() -> dict[str, list[Case]]:
    """Returns cases by family; every family module has a list `CASES` or `NODES`."""
    return {family: listed(family, "CASES") for family in FAMILIES}
