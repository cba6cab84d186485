"""Accessors: the functions with which a kernel reads and writes its operands. Nothing else accesses
memory, so that storage types are handled here only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tflgpu_plugin.kernels.epilogue import ROWS, SUMS, FusedEpilogueOp, expression, pairwise

EIGHT = 8  # vec4 in an aligned array of a constant

_VIEWS = {4: "vec4f", 2: "vec2f", 1: "f32", 0: "u32"}
_INT32_VIEWS = {4: "vec4i", 2: "vec2i", 1: "i32", 0: "u32"}
# float16 stored in words, by view: the element type of the buffer, and the value of element `i`.
_HALVES = {
    4: ("vec2u", "of_halves({0}[{1}])"),
    2: ("u32", "unpack2x16float({0}[{1}])"),
    1: ("u32", "of_half({0}[({1}) / 2u], {1})"),
}
# Levels stored in bytes, likewise. The last arguments are those of quantization.
_LEVELS = {
    4: "of_levels({0}[{1}], {2})",
    2: "of_two_levels({0}[({1}) / 2u], {1}, {2})",
    1: "of_level({0}[({1}) / 4u], {1}, {2})",
}
# How vec4 `i` is stored if whole channels are after one another.
_PLANES = """  let plane = divided(i, p.spatial_NAME);
  let image = divided(plane.x, p.slices_NAME);
  let left = p.channels_NAME - 4u * image.y;
  let first = (image.x * p.channels_NAME + 4u * image.y) * p.spatial_NAME + plane.y;
  let lanes = VALUE;
  NAME_data[first] = lanes.x;
  if (left > 1u) { NAME_data[first + p.spatial_NAME] = lanes.y; }
  if (left > 2u) { NAME_data[first + 2u * p.spatial_NAME] = lanes.z; }
  if (left > 3u) { NAME_data[first + 3u * p.spatial_NAME] = lanes.w; }"""
# Words read two at once, likewise.
_PAIRS = {
    4: ("vec2<u64>", "bitcast<{0}>(of_pairs({1}[{2}]))"),
    2: ("u64", "bitcast<{0}>(of_pair({1}[{2}]))"),
}
_NATIVE = {4: "vec4<f16>", 2: "vec2<f16>", 1: "f16"}


@dataclass(frozen=True)
class Operand:
    """One storage binding of a kernel. `view`: lanes per element (4, 2, 1 floats; 0 means raw u32
    words).

    `access` is r, w, or x (read and written in place, bound once). `half`: stored as float16 (never
    raw, and written by whole vec4, because two threads must not share a word); `native`: as WGSL's
    f16. `bytes`: a vec4 of integers is stored in a word, counted from the parameter `low_<name>`
    (read only, as vec4). `levels`: a vec4 of scale_<name> * (byte - zero_<name>), for bytes with a
    sign, is stored in a word (written by whole vec4). `int32`: elements are int32, not float32.
    `zeros`: the buffer begins with zeros, which are read as padding: selecting an address is
    cheaper than selecting each lane of a value. `pads`: words of padding are the parameter
    pad_<name>, not 0. `planes`: written as vec4 of an image of which the buffer, of float32, has
    whole channels after one another; `slices_<name>` and `spatial_<name>` are parameters, too.
    `eights`: a constant that is read in arrays of eight vec4. `pairs`: words of values that are not
    converted are read two at once."""

    name: str
    access: str = "r"
    view: int = 4
    half: bool = False
    native: bool = False
    bytes: bool = False
    levels: bool = False
    int32: bool = False
    zeros: bool = False
    pads: bool = False
    planes: bool = False
    pairs: bool = False
    eights: bool = False

    def type(self, view: int) -> str:
        """Returns the WGSL type with this many lanes."""
        return (_INT32_VIEWS if self.int32 else _VIEWS)[view]


def bindings(operands: Sequence[Operand], main: str) -> Iterable[str]:
    """Yields WGSL of each operand's buffer and of the accessors that a body may call."""
    for binding, operand in enumerate(operands, start=1):
        kind, name = operand.type(operand.view), operand.name
        access = "read" if operand.access == "r" else "read_write"
        index = f"p.off_{name} + i"
        array, value = ("f32", "") if operand.planes else _stored(operand)
        if operand.eights or f"eight_{name}(" in main:
            yield from _eights(operand, array, value, binding)
            continue
        yield f"@group(0) @binding({binding}) var<storage, {access}> {name}_data: array<{array}>;"
        raw = f"bytes_{name}(" in main
        if f"load_{name}(" in main or not (raw or operand.access == "w"):
            yield f"fn load_{name}(i: u32) -> {kind} {{ return {value.format(index)}; }}"
        if operand.native and f"half_{name}(" in main:
            yield f"fn half_{name}(i: u32) -> {array} {{ return {name}_data[{index}]; }}"
        if raw:
            yield f"fn bytes_{name}(i: u32) -> u32 {{ return {name}_data[{index}]; }}"
        yield from _masked(operand, main)
        yield from _padded(operand, array if operand.native else "", value, main)
        if operand.access != "r" and operand.view != 4:
            yield f"fn put_{name}(i: u32, v: {kind}) {{ {name}_data[p.off_{name} + i] = v; }}"


def _eights(operand: Operand, array: str, value: str, binding: int) -> Iterable[str]:
    """Yields accessors of a constant stored as arrays of eight vec4. Compilers know that elements
    of such an array are adjacent, and load them together."""
    name, kind = operand.name, operand.type(operand.view)
    loaded, eights = value.format("e][n"), f"array<array<{array}, {EIGHT}>>"
    yield f"@group(0) @binding({binding}) var<storage, read> {name}_data: {eights};"
    yield f"fn eight_{name}(i: u32) -> u32 {{ return (p.off_{name} + i) / {EIGHT}u; }}"
    yield f"fn load_eight_{name}(e: u32, n: u32) -> {kind} {{ return {loaded}; }}"
    if operand.native:
        head = f"fn half_eight_{name}(e: u32, n: u32) -> {array}"
        yield f"{head} {{ return {name}_data[e][n]; }}"


def _stored(operand: Operand) -> tuple[str, str]:
    """Returns the element type of the buffer, and the value of an element as a format string for
    its index."""
    name, kind = operand.name, operand.type(operand.view)
    if operand.half:
        if operand.access != "r" and operand.view != 4:
            raise ValueError(f"operand {name!r} is stored as float16 but not written by whole vec4")
        if operand.native:
            return _NATIVE[operand.view], f"{kind}({name}_data[{{0}}])"
        array, value = _HALVES[operand.view]
        return array, value.format(f"{name}_data", "{0}")
    if operand.bytes:
        if operand.access != "r" or operand.view != 4:
            raise ValueError(f"operand {name!r} is stored in bytes but not read-only by whole vec4")
        return "u32", f"of_bytes({name}_data[{{0}}], p.low_{name})"
    if operand.levels:
        if operand.access != "r" and (operand.access != "w" or operand.view != 4):
            raise ValueError(f"operand {name!r} is stored in bytes but not written by whole vec4")
        numbers = f"p.scale_{name}, p.zero_{name}"
        return "u32", _LEVELS[operand.view].format(f"{name}_data", "{0}", numbers)
    if operand.pairs and operand.access == "r" and operand.view in _PAIRS:
        array, value = _PAIRS[operand.view]
        return array, value.format(kind, f"{name}_data", "{0}")
    return kind, f"{name}_data[{{0}}]"


def _padded(operand: Operand, native: str, value: str, main: str) -> Iterable[str]:
    """Yields accessors that read padding outside of a tensor, if a kernel calls them. `value` is
    that of an element, `native` the f16 type of the buffer or "". Addresses count from the start of
    the buffer, where the zeros are; loops then add the operand's offset once."""
    name, kind = operand.name, operand.type(operand.view)
    if f"place_{name}(" not in main:
        return
    stride = "select(0u, n, inside)" if operand.zeros else "n"
    place = f"select(0u, p.off_{name} + i, inside)"
    yield f"fn place_{name}(i: u32, inside: bool) -> u32 {{ return {place}; }}"
    yield f"fn stride_{name}(n: u32, inside: bool) -> u32 {{ return {stride}; }}"
    loads = ("padded", kind, value.format("i")), ("padded_half", native, f"{name}_data[i]")
    for prefix, type_, loaded in loads:
        if type_ and f"{prefix}_{name}(" in main:
            made = loaded if operand.zeros else f"select({type_}(), {loaded}, inside)"
            head = f"fn {prefix}_{name}(i: u32, inside: bool) -> {type_}"
            yield f"{head} {{ return {made}; }}"
    if f"padded_bytes_{name}(" in main:
        made = f"{name}_data[i]"
        if not operand.zeros:
            made = f"select(p.pad_{name}, {made}, inside)"
        elif operand.pads:  # the word is selected before the load, so that loads do not wait
            made = f"{made} | select(p.pad_{name}, 0u, inside)"
        yield f"fn padded_bytes_{name}(i: u32, inside: bool) -> u32 {{ return {made}; }}"


def _masked(operand: Operand, main: str) -> Iterable[str]:
    """Yields an accessor that reads a word of bytes, or of padding, by a mask with all bits or
    none."""
    name = operand.name
    if f"masked_bytes_{name}(" not in main:
        return
    made = f"{name}_data[(p.off_{name} + i) & ~outside]"
    if not operand.zeros:
        made = f"({made} & ~outside)"
    if operand.pads or not operand.zeros:
        made += f" | (p.pad_{name} & outside)"
    yield f"fn masked_bytes_{name}(i: u32, outside: u32) -> u32 {{ return {made}; }}"


def types(operands: Sequence[Operand], main: str) -> Iterable[str]:
    """Yields aliases of the types that a body names."""
    for operand in operands:
        for name, view in (("vector", 4), ("scalar", 1)):
            if f"{name}_{operand.name}" in main:
                yield f"alias {name}_{operand.name} = {operand.type(view)};"


def stores(
    operands: Sequence[Operand], epilogue: Mapping[str, Sequence[FusedEpilogueOp]], main: str
) -> Iterable[str]:
    for operand in operands:
        if operand.access == "r" or operand.view != 4:
            continue
        yield _store(operand, epilogue.get(operand.name, ()), f"= store_{operand.name}(" in main)


def _store(operand: Operand, epilogue: Sequence[FusedEpilogueOp], told: bool) -> str:
    name, kind = operand.name, operand.type(4)
    first = "var v = value;"
    given, alone = kind, False
    if epilogue and epilogue[0].op in SUMS:
        given, alone = "vec4i", len(epilogue) == 1
        first = _of_sums(epilogue[0])
    # One step alone makes zeros in padding channels.
    value = made = "v" if alone else f"select({kind}(), v, epilogue.mask)"
    if operand.half:
        value = f"native_halves({value})" if operand.native else f"halves({value})"
    if operand.levels:
        numbers = f"p.scale_{name}, p.zero_{name}"
        value = "pack4xI8(n)" if alone else f"levels_of({value}, {numbers})"
    if operand.int32 and epilogue:
        raise ValueError(f"operand {name!r} holds integers, which no epilogue op supports")
    stored = f"  {name}_data[p.off_{name} + i] = {value};"
    if operand.planes:
        stored = _PLANES.replace("NAME", name).replace("VALUE", value)
    fields, loads, steps = ["mask: vec4<bool>"], [f"lanes_below(q, p.channels_{name})"], []
    for k, each in enumerate(epilogue):
        if each.operand and each.spread != "same":
            fields.append(f"e{k}: vec4f")
            load = f"load_{each.operand}"
            loads.append(f"{load}(q)" if each.spread == "channel" else f"vec4f({load}(0u).x)")
        if each.spread == "rows":
            count, sums = ROWS[each.op], each.op in SUMS
            fields[-1] = ", ".join(
                f"e{k}_{r}: {'vec4i' if sums else 'vec4f'}" for r in range(count)
            )
            # The last parameter counts slices, except for sums.
            one = (
                f"load_eight_{each.operand}(eight_{each.operand}({EIGHT}u * q), ROWu)"
                if sums
                else f"load_{each.operand}(q + ROWu * u32(p.{each.fields[-1]}))"
            )
            loads[-1] = ", ".join(one.replace("ROW", str(r)) for r in range(count))
            if each.op not in SUMS:
                steps.append(f"  v = {_by_rows(k, each)};")
        elif pairwise(each.op):
            source = f"load_{each.operand}(i)" if each.spread == "same" else f"epilogue.e{k}"
            source = source if each.operand else f"vec4f(p.{each.fields[0]})"
            steps.append(f"  {{ let e = {source}; v = {expression(each.op, each.fields)}; }}")
        else:
            steps.append(f"  v = {expression(each.op, each.fields)};")
    return "\n".join(
        [
            f"struct Epilogue_{name} {{ {', '.join(fields)} }}",
            f"fn epilogue_{name}(q: u32) -> Epilogue_{name} "
            f"{{ return Epilogue_{name}({', '.join(loads)}); }}",
            f"fn store_{name}(i: u32, epilogue: Epilogue_{name}, value: {given})"
            f"{f' -> {kind}' * told} {{",
            f"  {first}",
            *steps,
            stored,
            *[f"  return {made};"] * told,
            "}",
        ]
    )


def _by_rows(k: int, step: FusedEpilogueOp) -> str:
    """Returns the result of the k-th step, whose operand has rows."""
    rows = ", ".join(f"epilogue.e{k}_{row}" for row in range(ROWS[step.op]))
    return expression(step.op, step.fields).replace("$e", rows)


def _of_sums(step: FusedEpilogueOp) -> str:
    """Returns WGSL that defines the bytes `n` and the values `v` of the levels of a sum."""
    zero, _, _, scale = step.fields
    levels = f"let n = {_by_rows(0, step)};"
    return f"{levels} var v = small_numbers(n - vec4i(p.{zero})) * p.{scale};"
