"""Assembles complete WGSL from a kernel file: a preamble (uniform block, bindings, accessors,
epilogue), then the body.

A kernel file (`kernels/<family>.wgsl`) holds the body only, in WGSL with the additions of `unroll`.
A body may use:

* `p.<name>`: the dispatch's parameters. Each operand adds `p.off_<name>`, and a written one
  `p.channels_<name>`.
* `load_<name>(i)`: element i of a read operand, counted in views: a vec4f, vec2f, f32 or u32,
  or for int32 a vec4i, vec2i or i32.
* `place_<name>(i, inside)`: the address of element i or, unless `inside`, of padding.
  `stride_<name>(n, inside)`: the distance between two addresses whose elements are n apart.
* `padded_<name>(place, inside)`: the element at such an address, or zero.
* `vector_<name>`, `scalar_<name>`: the types of an operand's vec4 and of its elements.
* `put_<name>(i, v)`: writes element i of an operand whose view is not vec4, without epilogue and
  lane mask.
* `epilogue_<name>(q)`: the per-channel operands of the epilogue and the lane mask of slice q. A
  kernel calls it once for each slice.
* `store_<name>(i, epilogue, v)`: applies the epilogue, zeroes the padding lanes and writes vec4 i.
  If a kernel uses its result (`= store_<name>(...)`), that is the value before rounding to float16.
* `group_id(wid)`: the workgroup's id in the dispatch, also if the dispatch is folded because it has
  more groups than the device allows.

Nothing else accesses memory, so that storage types are handled here only. An operand stored as
float16 is packed in pairs into words (see `unpack2x16float`; a function replaces it on devices
without it), and kernels see float32. Stored values are rounded to nearest, halves to even, and
clamped to 65504, the largest float16; infinities and NaN are kept. If a device itself rounds to
float16 in that way (`Target.native_half`), the buffer is an array of f16, and a kernel may load it
without conversion: `half_<name>(i)`, `padded_half_<name>(place, inside)`.

Where software drivers load a word of each thread after the other, whatever its size, operands that
are only read are arrays of words of 64 bits (`Target.pairs`).

A tensor of 8 bits may be stored in bytes: a vec4 is a word, and kernels see the values that it
represents. `bytes_<name>(i)` is the word of vec4 i, `padded_bytes_<name>(place, inside)` the one at
an address or that of padding, `p.pad_<name>`; `masked_bytes_<name>(i, outside)` is the one of vec4
i, or of padding if all bits of `outside` are set.

A kernel may read a constant as an array of arrays of eight vec4 (its variant `eights` says whether
that is possible): `eight_<name>(i)` is the index of the array that begins with element i, a
multiple of 8, and `load_eight_<name>(eight, n)` and `half_eight_<name>(eight, n)` are its elements.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache

import numpy as np

from tflgpu_plugin.ir.extent import Extent
from tflgpu_plugin.ir.symbolic import Word, example
from tflgpu_plugin.kernels import accessors
from tflgpu_plugin.kernels.accessors import EIGHT, Operand
from tflgpu_plugin.kernels.bodies import Variant, body
from tflgpu_plugin.kernels.epilogue import (
    EPILOGUE_OPS,
    ROWS,
    SUMS,
    FusedEpilogueOp,
    expression,
    filled,
    pairwise,
    parameter_count,
    parameters,
    sums_integers,
)
from tflgpu_plugin.kernels.horizontal_fusion import SECOND_OPERANDS, fused

__all__ = (
    "EIGHT",
    "EPILOGUE_OPS",
    "ROWS",
    "SUMS",
    "FusedEpilogueOp",
    "Operand",
    "expression",
    "filled",
    "pairwise",
    "parameter_count",
    "parameters",
    "sums_integers",
)

UNIFORM_BYTES = 256

LIBRARY = ("math", "numbers", "int16", "floats", "bytes")  # files whose functions kernels call
_FUNCTION = re.compile(r"^fn (\w+)", re.MULTILINE)
_CALL = re.compile(r"\b(\w+)\(")
_ACCESS = re.compile(r"\b(?:load|store|put|half|bytes|padded)_\w+\(")
_COMMENT = re.compile(r"//[^\n]*\n")

Parameters = Mapping[str, int | float | np.int32 | Word]


def parameter_type(value: int | float | np.int32 | Word) -> str:
    """Returns the WGSL type of a parameter: u32 for int, i32 for numpy int32, f32 for float."""
    if isinstance(value, Word):
        return value.kind
    if isinstance(value, np.int32):
        return "i32"
    return "u32" if isinstance(value, int | Extent) else "f32"


def parameter_words(parameters: Parameters) -> bytes:
    """Returns the uniform block: one 32-bit word per parameter in order, padded to 256 bytes."""
    block = b"".join(map(_word, parameters.values()))
    if len(block) > UNIFORM_BYTES:
        raise ValueError(
            f"a uniform block of {len(block)} bytes does not fit its slot of {UNIFORM_BYTES}"
        )
    return block.ljust(UNIFORM_BYTES, b"\0")


def _word(value: int | float | np.int32 | Word) -> bytes:
    """Returns a parameter as a word; negative integers in two's complement, as WGSL computes."""
    number = example(value)
    if parameter_type(value) == "f32":
        return np.array(number, "<f4").tobytes()
    return (int(number) % 2**32).to_bytes(4, "little")


def render(
    kernel: str,
    operands: Sequence[Operand],
    parameters: Parameters,
    epilogue: Mapping[str, Sequence[FusedEpilogueOp]],
    variant: Mapping[str, object],
) -> str:
    """Returns complete WGSL of `kernels/<kernel>.wgsl` for these operands, parameter names and
    types, and epilogue."""
    given = tuple((name, frozen(value)) for name, value in variant.items())
    fields = tuple((name, parameter_type(value)) for name, value in parameters.items())
    steps = tuple((name, tuple(each)) for name, each in epilogue.items())
    return _rendered(kernel, tuple(operands), fields, steps, given)


@lru_cache(256)  # layers of a model share kernels
def _rendered(
    kernel: str,
    operands: tuple[Operand, ...],
    fields: tuple[tuple[str, str], ...],
    epilogue: tuple[tuple[str, tuple[FusedEpilogueOp, ...]], ...],
    variant: Variant,
) -> str:
    main = _body(kernel, variant)
    common = body("common", (("folded", "folded" in dict(fields)),))
    preamble = _preamble(operands, fields, main)
    stores = accessors.stores(operands, dict(epilogue), main)
    own = "\n".join([*accessors.types(operands, main), *stores])
    functions = _called(_calls(preamble + own) | _calls_of_body(main))
    return "\n".join([preamble, common, *functions, own, main])


def loads(kernel: str, variant: Mapping[str, object], name: str) -> bool:
    """Whether the body of a kernel reads this operand."""
    given = tuple((key, frozen(value)) for key, value in variant.items())
    return f"load_{name}(" in _body(kernel, given)


def accesses(kernel: str, variant: Mapping[str, object]) -> int:
    """Returns how often the body of a kernel loads or stores elements."""
    given = tuple((key, frozen(value)) for key, value in variant.items())
    return len(_ACCESS.findall(_body(kernel, given)))


def _body(kernel: str, variant: Variant) -> str:
    """Returns the body of a kernel, twice if the launch does the work of two."""
    second = dict(variant).get(SECOND_OPERANDS)
    main = body(kernel, tuple(each for each in variant if each[0] != SECOND_OPERANDS))
    return main if second is None else fused(main, second)


def without_unpack(wgsl: str) -> str:
    """Returns the kernel rewritten for a device without `unpack2x16float`."""
    if "unpack2x16float" not in wgsl:
        return wgsl
    return f"{_library()['unpacked']}\n{wgsl.replace('unpack2x16float', 'unpacked')}"


def frozen(value: object) -> object:
    """Returns a value of a variant as a key: lists as tuples, extents as plain numbers, since those
    of another plan would still add guards to it."""
    if isinstance(value, Extent):
        return int(value)
    return tuple(map(frozen, value)) if isinstance(value, list | tuple) else value


@cache
def _library() -> Mapping[str, str]:
    """Returns the functions of the library's files by name, without comments."""
    text = "".join(body(name, ()) for name in LIBRARY)
    starts = [(found.start(), found[1]) for found in _FUNCTION.finditer(text)]
    ends = [start for start, _ in starts[1:]] + [len(text)]
    whole = zip(starts, ends, strict=True)
    return {name: _COMMENT.sub("", text[start:end]) for (start, name), end in whole}


def _called(names: Iterable[str]) -> list[str]:
    """Returns these functions of the library, and those that they call."""
    library = _library()
    found, waiting = set[str](), [*names]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += _inner_calls(name)
    return [library[name] for name in library if name in found]


def _calls(text: str) -> set[str]:
    """Returns the functions of the library that a text calls."""
    return _library().keys() & set(_CALL.findall(text))


_calls_of_body = lru_cache(1024)(_calls)  # many launches share a body


@cache
def _inner_calls(name: str) -> frozenset[str]:
    return frozenset(_calls(_library()[name]))


def _preamble(operands: Sequence[Operand], fields: Iterable[tuple[str, str]], main: str) -> str:
    members = ", ".join(f"{name}: {kind}" for name, kind in fields)
    lines = [f"struct Params {{ {members} }}", "@group(0) @binding(0) var<uniform> p: Params;"]
    if any(operand.native for operand in operands):
        lines.insert(0, "enable f16;")
    return "\n".join([*lines, *accessors.bindings(operands, main)])
