"""Decides which tensors and constants are stored as float16, if the user allows it, and which
integer constants are stored as bytes, without loss.

This is about storage between kernels; arithmetic stays float32, except for sums chosen by
`half_products`. Stored as float32 are values that float16 would make wrong rather than less
precise: integers, state kept between runs, sums (results of reductions may exceed 65,504 or be
differences of large numbers), intermediate results of composite ops such as normalizations,
operands written one float at a time, and scratch memory with partial sums. So are the values to
which outputs are most sensitive (`error_sensitivity`), until the rest is tolerable; inputs of
logarithms, for which the smallest values matter as much as the largest; and values with nothing to
gain: small ones, inputs and outputs of the partition, which are read or written once, and those
whose conversion takes longer than reading float32 (`Lowering.keep_f32`)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TypeVar

import numpy as np

from tflgpu_plugin import ops
from tflgpu_plugin.compile import error_sensitivity
from tflgpu_plugin.ir import MAX_FLOAT16, Array, Graph, Pack
from tflgpu_plugin.ops.lowering import Constant, Lowering, Source

MIN_NORMAL_FLOAT16 = 2.0**-14  # smaller ones lose precision
CACHED_VECTORS = 4096  # vec4 (64 KiB of float32), fit in any cache
FLOATS = ("f32", "f16", "bool")  # dtypes of tensors that hold floats on the device

# Rounding to float16 has a relative error of about 2^-12, root mean square. BEARABLE limits the sum
# of these errors at an output, by `error_sensitivity`. It is an estimate: 31 of 36 real models
# have up to 0.06, and none of them is off by over 1e-2 of an output's largest value; the other
# five, three of which are, have 0.5 to 5e5.
ROUNDING, BEARABLE = 2.0**-12, 0.1
HARMLESS = 20 * ROUNDING  # as 400 roundings that reach the outputs unchanged

Name = TypeVar("Name")
Memory = Callable[[Source], Source]
Size = Callable[[int], int]


def halves(
    low: Lowering, memory: Memory, size: Size, small: Collection[object] = ()
) -> set[object]:
    """Returns keys (see `key`) of sources to store as float16. `memory` gives the memory that holds
    a source, `size` its vec4. `small`: constants that may be float16 however small they are."""
    logged = before_logs(low.graph)
    kept = *float32_tensors(low.graph, logged), *low.homes, *low.keep_f32
    float32 = {key(memory(tensor)) for tensor in kept}
    found: dict[object, Source] = {}
    for launch in low.launches:
        sums = ops.traits(launch.node.op).accumulates
        rows = {s.operand for some in launch.epilogue.values() for s in some if s.spread == "rows"}
        for operand, given in launch.operands:
            source = memory(given)
            found[key(source)] = source
            written = operand.access != "r"
            raw = operand.view == 0 or (written and operand.view != 4)
            if raw or operand.name in rows or (written and sums):
                float32.add(key(source))
    float32 |= {name for name in found if isinstance(name, tuple) and name[0] in logged}
    may = {
        name: source
        for name, source in found.items()
        if name not in float32 and may_be_half(source, size, name in small)
    }
    narrow = set(may) - unbearable(low, memory, may)
    return narrow | {t for t, source in low.copied.items() if key(memory(source)) in narrow}


def unbearable(low: Lowering, memory: Memory, narrow: Mapping[object, Source]) -> set[object]:
    """Returns the sources that must stay float32: the most sensitive ones, until the errors of the
    others add up to at most BEARABLE at the outputs. If all errors together are n times BEARABLE,
    the limit is BEARABLE / n instead, but at least HARMLESS: the larger the estimate, the more
    single elements deviate from the mean. Infinite errors do not count in n."""
    sensitivities = error_sensitivity.sensitivities(low.graph) if narrow else {}
    found = {
        name: sensitivities.get(name[0], 0.0) if isinstance(name, tuple) else 0.0 for name in narrow
    }
    for tensor, sensitivity in sensitivities.items():
        name = key(memory(tensor)) if low.graph.constant(tensor) is None else None
        if name in found:  # the tensor, or the one that contains it
            found[name] = max(found[name], sensitivity)
    return {name for name in worst(found) if not exact_in_half(narrow[name])}


def worst(found: Mapping[Name, float]) -> Iterator[Name]:
    """Yields the names with the largest sensitivities; these tensors stay float32."""
    ordered = sorted(found, key=found.__getitem__)
    errors = ROUNDING * np.sqrt(np.cumsum([found[name] for name in ordered]))
    total = max((*errors[np.isfinite(errors)][-1:], BEARABLE))
    allowed = max(BEARABLE / total * BEARABLE, HARMLESS)
    return (name for name, error in zip(ordered, errors, strict=True) if error > allowed)


def byte_constants(low: Lowering) -> dict[object, float]:
    """Returns the keys of integer constants to store in bytes, each with the integer that a byte of
    0 stands for."""
    found: dict[object, float] = {}
    other: set[object] = set()
    for launch in low.launches:
        for operand, given in launch.operands:
            source = low.root(given)
            if isinstance(source, Constant):
                fours = operand.view == 4 and operand.access == "r"
                least = least_number(source) if fours else None
                if least is None:
                    other.add(source.key)
                else:
                    found[source.key] = least
    return {name: least for name, least in found.items() if name not in other}


def least_number(source: Constant) -> float | None:
    """Returns the integer that a byte of 0 stands for: the least one of a constant, or 0 if that is
    less, because padding is 0."""
    data = source.data
    if not source.half or data is None or data.dtype.kind not in "iu" or data.dtype.itemsize > 2:
        return None
    least, most = int(data.min(initial=0)), int(data.max(initial=0))
    return float(least) if most - least < 256 else None


def bytes_from(pack: Pack, low: float) -> Iterator[Array]:
    """Yields a packed constant of integers as bytes counted from `low`, piece by piece."""
    packed = pack()
    for piece in (packed,) if isinstance(packed, np.ndarray) else packed:
        yield np.asarray(piece - np.float32(low)).astype(np.uint8)


def key(source: Source) -> object:
    """Returns the identity of memory: a tensor's id, a constant's key."""
    return source.key if isinstance(source, Constant) else source


def inputs_and_outputs(graph: Graph) -> set[int]:
    """Returns the tensors that a host writes or reads."""
    return {*graph.inputs, *graph.outputs}


def before_logs(graph: Graph) -> set[int]:
    """Returns the tensors and constants from which the input of a logarithm is computed by sums,
    products and roots: for example a magnitude spectrum, the signal, and the waves of its Fourier
    transform. A sum has rounding errors in proportion to its largest term, and underflow loses
    small values entirely; the logarithm exposes both. Functions that saturate end the search."""
    found: set[int] = set()
    for node in reversed(graph.nodes):
        inside = not found.isdisjoint(node.outputs)
        for each in reversed(node.epilogue):
            inside = _goes_on(each.op, inside)
            if inside and each.tensor is not None:
                found.add(each.tensor)
        if _goes_on(node.op, inside):
            found |= {*node.reads}
    return found


def _goes_on(op: str, inside: bool) -> bool:
    """Whether the search for inputs of logarithms continues to the inputs of this op; `inside` says
    whether its result is such an input."""
    row = ops.traits(op)
    saturates = row.errors.bounded or (
        row.accuracy == "transcendental" and not row.errors.keeps_ratios
    )
    return row.errors.relative or (inside and not saturates)


def float32_tensors(graph: Graph, logged: set[int]) -> set[int]:
    """Returns the tensors that must stay float32, and with them everything in the same memory."""
    kept = logged | {t for pair in graph.states for t in pair} | inputs_and_outputs(graph)
    kept |= {
        t for t, tensor in graph.tensors.items() if tensor.dtype not in FLOATS or tensor.keep_f32
    }
    return {tensor for tensor in kept if graph.constant(tensor) is None}


def exact_in_half(source: Source) -> bool:
    """Whether a source is a constant whose values are all exact in float16."""
    data = source.data if isinstance(source, Constant) else None
    return data is not None and bool(np.array_equal(data.astype(np.float16), data))


def may_be_half(source: Source, size: Size, small: bool = False) -> bool:
    if isinstance(source, Constant):
        large = source.half and (small or source.vectors >= CACHED_VECTORS)
        return large and source.data is not None and representable(source.data)
    return isinstance(source, int) and source >= 0 and size(source) >= CACHED_VECTORS


def representable(data: Array) -> bool:
    """Whether all values are floats in range and the largest is a normal float16: the error is then
    at most 2^-11 of the largest value."""
    if data.dtype.kind not in "fb":
        return False  # integers, which may be indices
    largest = float(np.max(np.abs(data), initial=0.0))
    return largest == 0.0 or MIN_NORMAL_FLOAT16 <= largest <= MAX_FLOAT16
