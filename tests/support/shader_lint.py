"""Rules that generated WGSL must keep, checked on the text without a device.

Each rule stands for something a driver does: slow compiles, wrong answers over a limit, undefined
shuffles. A rule is a function from a parsed kernel to sentences; `lint` runs them all."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod

MAX_LITERAL_TRIPS = 64
MAX_SITES = 16  # about 15: drivers take longer with each
MAX_INVOCATIONS = 256
MAX_STORAGE = 8
MAX_UNIFORM_BYTES = 256
ACCESSORS = ("load", "half", "load_eight", "half_eight", "padded_half", "padded", "bytes",
             "padded_bytes", "masked_bytes", "put", "store")  # fmt: skip
LANES = 8  # shuffles work in aligned groups of this many lanes

_FUNCTION = re.compile(r"\bfn\s+(\w+)\s*\(")
_SITE = re.compile(rf"\b(?:{'|'.join(ACCESSORS)})_(\w+)\s*\(")
_FOR = re.compile(r"\bfor\s*\(([^;]*);([^;]*);")
_INTEGER = re.compile(r"^\(?\s*(0x[0-9a-fA-F]+|\d+)[ui]?\s*\)?$")
_SHUFFLE = re.compile(r"\bsubgroup(?:Shuffle|Broadcast|Add|Mul|Min|Max|And|Or|Xor|Elect|All|Any|"
                      r"Ballot|Inclusive|Exclusive)\w*|\bquad(?:Broadcast|Swap)\w*")  # fmt: skip
_EXACT = re.compile(r"\b(?:tanh|exp2?|log2?|pow|sqrt|inverseSqrt|sin|cos)\s*\(")
_REMAINDER = re.compile(r"%\s*(i32\(|vec[234]i\b|vec[234]<i32>|\d+i?\b(?!u)|(\w+))")
_ROUNDING = re.compile(r"\b(?:round|floor|ceil|trunc|nearest_away)\s*(?=\()")
_LOAD = re.compile(r"\b(?:load|half|padded)_\w+\([^()]*\)")
# Functions that correct a rounded quotient, or for which the integers on both sides will do.
CORRECTED = ("divided", "half_or_whole", "nearest_part", "floor_quotient", "mirrored")
_HALF = re.compile(r"\bf16\b|\bvec[234]h\b|\bvec[234]<f16>|\d(?:\.\d*)?h\b")


@dataclass(frozen=True)
class Kernel:
    """Text without comments, function bodies by name, and the values of its constants."""

    text: str
    functions: Mapping[str, str]
    constants: Mapping[str, float] = field(default_factory=dict)


def lint(wgsl: str, max_sites: int = MAX_SITES) -> list[str]:
    """Returns sentences about what is wrong with a kernel; an empty list if nothing is."""
    kernel = parse(wgsl)
    problems = [sentence for rule in RULES for sentence in rule(kernel)]
    count = sites(kernel)
    if count > max_sites:
        problems.append(
            f"{count} sites load or store; over {max_sites} drivers compile slowly, use a loop"
        )
    return problems


def parse(wgsl: str) -> Kernel:
    """Splits WGSL into functions. Raises ValueError if braces do not match."""
    text = re.sub(r"//[^\n]*", "", wgsl)
    values = {m[1]: float(m[2]) for m in re.finditer(r"\bconst\s+(\w+)[^=;]*=\s*([\d.]+)", text)}
    return Kernel(text, dict(_functions(text)), values)


def sites(kernel: Kernel) -> int:
    """Returns how often the text of a kernel loads or stores memory, apart from the definitions of
    accessors."""
    return sum(
        len(_SITE.findall(body))
        for name, body in kernel.functions.items()
        if not _accessor(name) and not name.startswith("epilogue_")
    )


def _accessor(name: str) -> bool:
    return name.startswith(tuple(f"{how}_" for how in ACCESSORS))


def _functions(text: str) -> Iterator[tuple[str, str]]:
    for found in _FUNCTION.finditer(text):
        yield found[1], _enclosed(text[text.find("{", found.end()) :], "{}")


def loops_with_literal_counts(kernel: Kernel) -> Iterator[str]:
    """Yields a message for each loop with a literal bound: drivers unroll such loops, and compile
    time grows with the bound."""
    for header in _FOR.finditer(kernel.text):
        for side in re.split(r"<=?|>=?|!=", header[2]):
            literal = _INTEGER.match(side.strip())
            if literal and int(literal[1], 0) > MAX_LITERAL_TRIPS:
                yield f"a loop has the literal bound {literal[1]}; take it from the uniform block"


def workgroup_size(kernel: Kernel) -> Iterator[str]:
    """Yields a message for each workgroup size above 256 invocations, which not every adapter
    supports, or that is no multiple of 8 along x."""
    for found in re.finditer(r"@workgroup_size\(([^)]*)\)", kernel.text):
        sizes = [_value(part.strip(), kernel) for part in found[1].split(",") if part.strip()]
        if None in sizes:
            yield f"the workgroup size {found[1]} is neither a number nor a constant with a value"
            continue
        known = [int(size) for size in sizes if size is not None]
        if prod(known) > MAX_INVOCATIONS:
            yield f"the workgroup has {prod(known)} invocations, more than {MAX_INVOCATIONS}"
        if known[0] % LANES:
            yield f"the workgroup is {known[0]} wide, not a multiple of {LANES}"


def _value(text: str, kernel: Kernel) -> float | None:
    literal = _INTEGER.match(text)
    return float(int(literal[1], 0)) if literal else kernel.constants.get(text)


def storage_bindings(kernel: Kernel) -> Iterator[str]:
    """Yields a message if a kernel binds more than 8 storage buffers, the number that WebGPU
    guarantees."""
    count = len(re.findall(r"\bvar<storage", kernel.text))
    if count > MAX_STORAGE:
        yield f"{count} storage buffers are bound, more than {MAX_STORAGE}"


def half_precision(kernel: Kernel) -> Iterator[str]:
    """Yields a message for each call of tanh, exp or a similar function in f16, where its error
    would be too large."""
    for statement in re.split(r"[;{}]", kernel.text):
        if _EXACT.search(statement) and _HALF.search(statement):
            yield f"a function of f32 is computed in f16: {' '.join(statement.split())}"


def rounded_quotients(kernel: Kernel) -> Iterator[str]:
    """Yields a message for each plain quotient that is rounded to an integer: devices divide
    inexactly, so `units_in`, `nearest_units` or `quotient` of numbers.wgsl must be used."""
    for name, body in kernel.functions.items():
        for found in _ROUNDING.finditer(body):
            argument = _LOAD.sub("", _enclosed(body[found.end() :], "()"))
            if "/" in argument and name not in CORRECTED:
                yield f"{name} rounds a quotient, which devices have inexactly: {argument}"


def _enclosed(text: str, brackets: str) -> str:
    """Returns the text up to the bracket that closes the first one."""
    depth = 0
    for at, letter in enumerate(text):
        depth += (letter == brackets[0]) - (letter == brackets[1])
        if depth == 0:
            return text[: at + 1]
    raise ValueError(f"{brackets} do not match: {text[:40]}")


def shuffles_without_return(kernel: Kernel) -> Iterator[str]:
    """Yields a message if lanes may return before others shuffle: values from such lanes are
    undefined."""
    for name, body in kernel.functions.items():
        uses = [m.end() for m in _SHUFFLE.finditer(body)]
        entry = re.search(rf"@compute[^;{{]*\bfn\s+{name}\b", kernel.text)
        if uses and entry and re.search(r"\breturn\b", body[: max(uses)]):
            yield f"{name} returns early before a subgroup operation"


def memory_through_accessors(kernel: Kernel) -> Iterator[str]:
    """Yields a message for each memory access outside of the accessors, which alone know the
    storage types."""
    operands = re.findall(r"\bvar<storage[^>]*>\s*(\w+)\s*:", kernel.text)
    for name, body in kernel.functions.items():
        for operand in operands:
            short = operand.removesuffix("_data")
            if re.search(rf"\b{operand}\b", body) and name not in _allowed(short):
                yield f"{name} touches {operand} without its accessor"


def _allowed(operand: str) -> tuple[str, ...]:
    return tuple(f"{how}_{operand}" for how in ACCESSORS)


def uniform_block(kernel: Kernel) -> Iterator[str]:
    """Yields messages about a uniform block that is not one slot of 32-bit scalars with at most 256
    bytes."""
    for found in re.finditer(r"\bstruct\s+Params\s*\{([^}]*)\}", kernel.text):
        kinds = [part.split(":")[1].strip() for part in found[1].split(",") if ":" in part]
        odd = sorted(set(kinds) - {"u32", "i32", "f32"})
        if odd:
            yield f"the uniform block holds {', '.join(odd)}, not only 32-bit scalars"
        if 4 * len(kinds) > MAX_UNIFORM_BYTES:
            yield f"the uniform block has {4 * len(kinds)} bytes, more than {MAX_UNIFORM_BYTES}"


def unsigned_remainders(kernel: Kernel) -> Iterator[str]:
    """Yields a message for each remainder of signed integers: SPIR-V leaves it undefined for
    negative ones, and NVIDIA's differs from C's."""
    for name, body in kernel.functions.items():
        header = re.search(rf"\bfn\s+{name}\s*\(([^)]*)\)", kernel.text)
        text = (header[1] if header else "") + body
        for found in _REMAINDER.finditer(body):
            if found[2] is None or _signed(text, found[2]):
                line = " ".join(body[: found.end()].split("\n")[-1].split())
                yield f"{name} takes the remainder of signed integers: {line}"


def _signed(text: str, name: str) -> bool:
    """Whether the name is declared as a signed integer, or made by a cast to one."""
    kind = r"(?:i32|vec[234]i|vec[234]<i32>)"
    return bool(re.search(rf"\b{name}\s*(?::\s*{kind}\b|=\s*{kind}\s*\()", text))


def zeros_of_aliases(kernel: Kernel) -> Iterator[str]:
    """Yields a message for each `vector_x()` or zero value of another alias: the library that
    translates kernels for D3D12 may define the function for this zero value twice, under one name,
    if the type itself also has one."""
    names = "|".join([r"(?:vector|scalar)_\w+", *re.findall(r"\balias (\w+)", kernel.text)])
    for found in re.finditer(rf"\b(?:{names})\(\s*\)", kernel.text):
        yield f"{found[0]} is the zero value of an alias; write the zero"


RULES: tuple[Callable[[Kernel], Iterator[str]], ...] = (
    loops_with_literal_counts,
    workgroup_size,
    storage_bindings,
    half_precision,
    rounded_quotients,
    shuffles_without_return,
    memory_through_accessors,
    uniform_block,
    unsigned_remainders,
    zeros_of_aliases,
)
