"""From a kernel file to complete WGSL: the preamble (uniform block, bindings, accessors, fused
steps), then the body.

A kernel file (`kernels/<family>.wgsl`) is a Jinja2 template of the body only. What it may use:

* `p.<name>`            the dispatch's parameters; every operand adds `p.off_<name>`, a written one
`p.channels_<name>`
* `load_<name>(i)`      element i of a read operand: vec4f, vec2f, f32 (or u32) by the operand's
view, counted in views; vec4i, vec2i, i32 of one that holds whole numbers
* `place_<name>(i, inside)`  where to read element i or, where it does not lie inside, padding;
`stride_<name>(n, inside)` how far apart such places lie if elements lie n apart
* `padded_<name>(place, inside)`  the element at such a place, or zero
* `vector_<name>`, `scalar_<name>`  the types of an operand's vec4 and of its elements
* `put_<name>(i, v)`    write element i of an operand with another view than vec4 (no fused steps,
no mask)
* `epilogue_<name>(q)`      per-channel operands of the fused steps and the lane mask of channel
slice q: call it once per slice
* `store_<name>(i, epilogue, v)` apply the fused steps, zero the pad lanes, write vec4 i; where a
kernel asks for it (`= store_<name>(...)`), what that is before it is rounded to float16
* `group_id(wid)`       the workgroup's id in the dispatch (those over the device's limit
come folded)

Nothing else touches memory, so storage types change here and nowhere else. An operand stored as
float16 lies as pairs in words (as `unpack2x16float` has it; a function stands in for that where a
device has none), four bytes per two elements; kernels see float32. What is stored is rounded to the
nearest, halves to even, and cut to 65504, the largest float16; infinities and NaN stay what they
are. Where a device rounds to float16 by itself as it should (`Target.native_half`) the buffer is an
array of that, and a kernel may load it as it is: `half_<name>(i)`,
`padded_half_<name>(place, inside)`.

A kernel may have a constant as eights of vec4 (its variant `eights` says so where it can be had):
`eight_<name>(i)` is the number of that which begins with element i, a multiple of 8, and
`load_eight_<name>(eight, n)` and `half_eight_<name>(eight, n)` are its elements.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np

from tflgpu_plugin.kernels.bodies import body

UNIFORM_BYTES = 256
EIGHT = 8  # vec4 of constants that begin at a multiple of as many

# A fused step: WGSL for `v` (vec4f), `e` being the second operand where it has one, `$0`, `$1` ...
# its parameters (f32, from the uniform block, so that all values share a pipeline). Exact forms of
# the hosts' kernels. What max, min, clamp, and comparisons that mean the same, make of NaN is the
# driver's choice: where hosts keep it, `keep_nan` does.
EPILOGUE_OPS: dict[str, str] = {
    "relu": "keep_nan(v, max(v, vec4f(0.0)))",
    "relu6": "cut(v, 0.0, 6.0)",
    "relu_n1_to_1": "cut(v, -1.0, 1.0)",
    "logistic": "logistic(v)",
    "tanh": "tanh_exact(v)",
    "exp": "exp_exact(v)",
    "add": "v + e",
    "sub": "v - e",
    "reverse_sub": "e - v",
    "mul": "v * e",
    # TFLite's keep NaN of the second operand alone, ONNX's that of either (the attribute `nan`).
    "maximum": "second_nan(v, e, max(v, e))",
    "reverse_maximum": "second_nan(e, v, max(v, e))",
    "maximum_nan": "keep_nan(v, keep_nan(e, max(v, e)))",
    "minimum": "second_nan(v, e, min(v, e))",
    "reverse_minimum": "second_nan(e, v, min(v, e))",
    "minimum_nan": "keep_nan(v, keep_nan(e, min(v, e)))",
    "prelu": "select(v * e, v, v >= vec4f(0.0))",
    "div": "divided_exactly(v, e)",
    "reverse_div": "divided_exactly(e, v)",
    "pow": "pow_exact(v, e)",
    "reverse_pow": "pow_exact(e, v)",
    "atan2": "atan2_exact(v, e)",
    "squared_difference": "(v - e) * (v - e)",
    "abs": "abs(v)",
    "neg": "-v",
    "ceil": "ceil(v)",
    "floor": "floor(v)",
    "round": "round(v)",  # halves to the even neighbour
    "sign": "select(sign(v), v, is_nan(v))",
    "sqrt": "root(v)",
    "rsqrt": "1.0 / root(v)",
    "square": "v * v",
    "cube": "v * v * v",
    "reciprocal": "1.0 / v",
    "log": "log_exact(v)",
    "sin": "sine(v, 0)",
    "cos": "sine(v, 1)",
    "tan": "sine(v, 0) / sine(v, 1)",
    "asin": "asin_exact(v)",
    "acos": "acos_exact(v)",
    "atan": "atan_exact(v)",
    "sinh": "sinh_exact(v)",
    "cosh": "cosh_exact(v)",
    "asinh": "asinh_exact(v)",
    "acosh": "acosh_exact(v)",
    "atanh": "atanh_exact(v)",
    "erf": "erf_exact(v)",
    "gelu": "gelu_exact(v)",
    "gelu_tanh": "gelu_by_tanh(v)",
    "elu": "select($0 * expm1_exact(v), v, v >= vec4f(0.0))",
    "selu": "$1 * select($0 * expm1_exact(v), v, v >= vec4f(0.0))",
    "celu": "select($0 * expm1_exact(v / $0), v, v >= vec4f(0.0))",
    "leaky_relu": "select(v * $0, v, v >= vec4f(0.0))",
    "thresholded_relu": "select(vec4f(0.0), v, v > vec4f($0))",
    "clip": "cut(v, $0, $1)",
    "hard_sigmoid": "cut($0 * v + $1, 0.0, 1.0)",
    "hard_swish": "v * (cut(v + 3.0, 0.0, 6.0) * 0.16666667)",
    "swish": "v * logistic($0 * v)",
    "softplus": "softplus_exact(v)",
    "softsign": "v / (1.0 + abs(v))",
    "mish": "mish_exact(v)",
    "shrink": "select(select(vec4f(0.0), v - $1, v > vec4f($0)), v + $1, v < vec4f(-$0))",
    "is_nan": "bool_as_f32(is_nan(v))",
    "is_infinite": "bool_as_f32(is_infinite(v) & ((v < vec4f(0.0) & vec4<bool>($0 != 0.0)) "
    "| (v > vec4f(0.0) & vec4<bool>($1 != 0.0))))",
    "fake_quant": "fake_quantized(v, vec4f($3), $0, $1, $2, $4)",
    "fake_quant_even": "cut(nearest_even_units(v, $0), $1, $2) * $0",
    "quantized_sum": "quantized_sum(v, e, vec4f($0, $1, $2, $3), vec4f($4, $5, $6, $7), "
    "vec4f($8, $9, $10, $11), $12, $13)",
    "even_sum": "even_sum(v, e, vec3f($0, $1, $2), vec3f($3, $4, $5), $6, vec4f($7, $8, $9, $10), "
    "$11)",
    "quantized_squared_difference": "quantized_square(v, e, vec4f($0, $1, $2, $3), "
    "vec4f($4, $5, $6, $7), vec4f($8, $9, $10, $11), $12, $13)",
    "quantized_prelu": "quantized_sides(v, e, vec2f($0, $1), vec3f($2, $3, $4), vec3f($5, $6, $7), "
    "vec3f($8, $9, $10))",
    "quantized_leaky_relu": "quantized_sides(v, vec4f($10), vec2f($0, 1.0), vec3f($1, $2, $3), "
    "vec3f($4, $5, $6), vec3f($7, $8, $9))",
    "quantized_hard_swish": "quantized_swish(v, $0, vec2i(i32($1), i32($2)), "
    "vec2i(i32($3), i32($4)), vec3f($5, $6, $7))",
    "requantize": "requantized(v, $e, $0, $1, $2, $3)",
    "requantize_small": "requantized_small(v, $e, $0, $1, $2, $3)",
    "requantize_once": "requantized_once(v, $e, $0, $1, $2, $3)",
    "rescale": "rescaled(v, $e, $0, $1, $2, $3)",
    "fake_quant_channels": "fake_quantized_up(v, e, $0, $1, $2)",
    "quantized_factor": "quantized_factor(v, $0, vec3f($1, $2, $3), vec3f($4, $5, $6))",
    "quantized_factor_once": "requantized_once(v, vec4f(), vec4f(), vec4f($4), vec4f($5), "
    "vec4f($6), $0, $1, $2, $3)",
    "there": "select(vec4f(0.0), v, e != vec4f(0.0))",  # channels that nothing else is in are zero
    "logical_not": "1.0 - v",  # stored as 0.0 and 1.0
    "to_bfloat16": "to_bfloat16(v)",
    "from_bfloat16": "from_bfloat16(v)",
}

# Of the operand.
ROWS = {"requantize": 5, "requantize_small": 5, "requantize_once": 5, "rescale": 3}

_FUNCTION = re.compile(r"^fn (\w+)", re.MULTILINE)
_CALL = re.compile(r"\b(\w+)\(")
_COMMENT = re.compile(r"//[^\n]*\n")
_PARAMETER = re.compile(r"\$(\d+)")

_VIEWS = {4: "vec4f", 2: "vec2f", 1: "f32", 0: "u32"}
_WHOLE_VIEWS = {4: "vec4i", 2: "vec2i", 1: "i32", 0: "u32"}
# Of float16 in words, for the element at `i`: what the buffer is an array of, and its value.
_HALVES = {
    4: ("vec2u", "of_halves({0}[{1}])"),
    2: ("u32", "unpack2x16float({0}[{1}])"),
    1: ("u32", "of_half({0}[({1}) / 2u], {1})"),
}
_NATIVE = {4: "vec4<f16>", 2: "vec2<f16>", 1: "f16"}


@dataclass(frozen=True)
class Operand:
    """One storage binding of a kernel. `view`: lanes per element (4, 2, 1 floats; 0 means raw u32
    words).

    `access` is r, w, or x (read and written in place, bound once). `half`: stored as float16 (then
    it is not raw, and written by whole vec4: two threads must not share a word), `native`: in
    WGSL's own type. `bytes`: a vec4 of
    whole numbers is stored in a word, counted from the parameter `low_<name>` (then it is read
    only, as vec4). `whole`: its elements are int32. `zeros`: its buffer begins with zeros, which
    are read as padding: one place is chosen then, and not each lane of a value.
    """

    name: str
    access: str = "r"
    view: int = 4
    half: bool = False
    native: bool = False
    bytes: bool = False
    whole: bool = False
    zeros: bool = False

    def type(self, view: int) -> str:
        """WGSL of so many lanes."""
        return (_WHOLE_VIEWS if self.whole else _VIEWS)[view]


@dataclass(frozen=True)
class FusedEpilogueOp:
    """An `EpilogueOp` as the preamble needs it: `operand` names a vec4 operand, `spread` says how
    it is indexed ("same": like the output, "channel": by slice, "scalar": lane 0 of vector 0).
    `fields` are the dispatch's parameters that hold the step's own (for a step of two operands
    without an operand: the second one)."""

    op: str
    operand: str | None = None
    spread: str = "same"
    fields: tuple[str, ...] = ()


Parameters = Mapping[str, int | float | np.int32]


def parameter_type(value: int | float | np.int32) -> str:
    """WGSL type of a parameter: Python int is u32, numpy int32 is i32, float is f32."""
    if isinstance(value, np.int32):
        return "i32"
    return "u32" if isinstance(value, int) else "f32"


def parameter_words(parameters: Parameters) -> bytes:
    """The uniform block: one 32-bit word per parameter in order, padded to 256 bytes."""
    types = {"u32": "<u4", "i32": "<i4", "f32": "<f4"}
    words = [np.array(value, types[parameter_type(value)]) for value in parameters.values()]
    block = b"".join(word.tobytes() for word in words)
    if len(block) > UNIFORM_BYTES:
        raise ValueError(
            f"a uniform block of {len(block)} bytes does not fit its slot of {UNIFORM_BYTES}"
        )
    return block.ljust(UNIFORM_BYTES, b"\0")


def render(
    kernel: str,
    operands: Sequence[Operand],
    parameters: Parameters,
    epilogue: Mapping[str, Sequence[FusedEpilogueOp]],
    variant: Mapping[str, object],
) -> str:
    """Complete WGSL of `kernels/<kernel>.wgsl` for these operands, parameter names and types, and
    fused steps.
    """
    main = body(kernel, tuple((name, _frozen(value)) for name, value in variant.items()))
    common = body("common", (("folded", "folded" in parameters),))
    preamble = _preamble(operands, parameters, main)
    own = "\n".join([*_types(operands, main), *_stores(operands, epilogue, main)])
    functions = _called(_calls(preamble + own) | _calls_of_body(main))
    return "\n".join([preamble, common, *functions, own, main])


def without_unpack(wgsl: str) -> str:
    """The same kernel for a device that has no `unpack2x16float`."""
    if "unpack2x16float" not in wgsl:
        return wgsl
    return f"{_library()['unpacked']}\n{wgsl.replace('unpack2x16float', 'unpacked')}"


def _frozen(value: object) -> object:
    """Lists as tuples, so that a variant can be looked up."""
    return tuple(map(_frozen, value)) if isinstance(value, list | tuple) else value


def expression(step: str, fields: Sequence[str] = ()) -> str:
    """WGSL of one of `EPILOGUE_OPS` whose parameters are in these fields of the uniform block."""
    return _PARAMETER.sub(lambda found: f"p.{fields[int(found[1])]}", EPILOGUE_OPS[step])


def pairwise(step: str) -> bool:
    """Whether a step of `EPILOGUE_OPS` has a second operand."""
    return re.search(r"\be\b", EPILOGUE_OPS[step]) is not None


@cache
def _library() -> Mapping[str, str]:
    """The functions of math.wgsl and numbers.wgsl by name, each without the comment before it."""
    text = body("math", ()) + body("numbers", ())
    starts = [(found.start(), found[1]) for found in _FUNCTION.finditer(text)]
    ends = [start for start, _ in starts[1:]] + [len(text)]
    whole = zip(starts, ends, strict=True)
    return {name: _COMMENT.sub("", text[start:end]) for (start, name), end in whole}


def _called(names: Iterable[str]) -> list[str]:
    """These functions of the library, and those that they call."""
    library = _library()
    found, waiting = set[str](), [*names]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += _inner_calls(name)
    return [library[name] for name in library if name in found]


def _calls(text: str) -> set[str]:
    """The functions of the library that a text calls."""
    return _library().keys() & set(_CALL.findall(text))


_calls_of_body = lru_cache(1024)(_calls)  # many launches share a body


@cache
def _inner_calls(name: str) -> frozenset[str]:
    return frozenset(_calls(_library()[name]))


def _preamble(operands: Sequence[Operand], parameters: Parameters, main: str) -> str:
    fields = ", ".join(f"{name}: {parameter_type(value)}" for name, value in parameters.items())
    lines = [f"struct Params {{ {fields} }}", "@group(0) @binding(0) var<uniform> p: Params;"]
    if any(operand.native for operand in operands):
        lines.insert(0, "enable f16;")
    for binding, operand in enumerate(operands, start=1):
        kind, name = operand.type(operand.view), operand.name
        access = "read" if operand.access == "r" else "read_write"
        index = f"p.off_{name} + i"
        array, value = _stored(operand)
        if f"eight_{name}(" in main:
            lines += _eights(operand, array, value, binding)
            continue
        lines.append(
            f"@group(0) @binding({binding}) var<storage, {access}> {name}_data: array<{array}>;"
        )
        if operand.access != "w" or f"load_{name}(" in main:
            lines.append(f"fn load_{name}(i: u32) -> {kind} {{ return {value.format(index)}; }}")
        if operand.native and f"half_{name}(" in main:
            lines.append(f"fn half_{name}(i: u32) -> {array} {{ return {name}_data[{index}]; }}")
        lines += _padded(operand, array if operand.native else "", value, main)
        if operand.access != "r" and operand.view != 4:
            lines.append(
                f"fn put_{name}(i: u32, v: {kind}) {{ {name}_data[p.off_{name} + i] = v; }}"
            )
    return "\n".join(lines)


def _eights(operand: Operand, array: str, value: str, binding: int) -> Iterable[str]:
    """Accessors of what lies in eights. Compilers see neighbours there, whatever the index, and
    load them together."""
    name, kind = operand.name, operand.type(operand.view)
    loaded, eights = value.format("e][n"), f"array<array<{array}, {EIGHT}>>"
    yield f"@group(0) @binding({binding}) var<storage, read> {name}_data: {eights};"
    yield f"fn eight_{name}(i: u32) -> u32 {{ return (p.off_{name} + i) / {EIGHT}u; }}"
    yield f"fn load_eight_{name}(e: u32, n: u32) -> {kind} {{ return {loaded}; }}"
    if operand.native:
        head = f"fn half_eight_{name}(e: u32, n: u32) -> {array}"
        yield f"{head} {{ return {name}_data[e][n]; }}"


def _stored(operand: Operand) -> tuple[str, str]:
    """The type of the array, and the value of an element of it, whose index is to be filled in."""
    name, kind = operand.name, operand.type(operand.view)
    if operand.half:
        if operand.access != "r" and operand.view != 4:
            raise ValueError(f"operand {name!r} is stored as float16 but not written whole")
        if operand.native:
            return _NATIVE[operand.view], f"{kind}({name}_data[{{0}}])"
        array, value = _HALVES[operand.view]
        return array, value.format(f"{name}_data", "{0}")
    if operand.bytes:
        if operand.access != "r" or operand.view != 4:
            raise ValueError(f"operand {name!r} is stored in bytes but not only read whole")
        return "u32", f"of_bytes({name}_data[{{0}}], p.low_{name})"
    return kind, f"{name}_data[{{0}}]"


def _padded(operand: Operand, native: str, value: str, main: str) -> Iterable[str]:
    """Accessors of what may lie outside, if a kernel calls them. `value` is that of an element,
    `native` the type in which the buffer may be read as it is. Places are counted from the start
    of the buffer, so that loops add its offset once; zeros are there."""
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


def _types(operands: Sequence[Operand], main: str) -> Iterable[str]:
    """Those that a kernel names."""
    for operand in operands:
        for name, view in (("vector", 4), ("scalar", 1)):
            if f"{name}_{operand.name}" in main:
                yield f"alias {name}_{operand.name} = {operand.type(view)};"


def _stores(
    operands: Sequence[Operand], epilogue: Mapping[str, Sequence[FusedEpilogueOp]], main: str
) -> Iterable[str]:
    for operand in operands:
        if operand.access == "r" or operand.view != 4:
            continue
        yield _store(operand, epilogue.get(operand.name, ()), f"= store_{operand.name}(" in main)


def _store(operand: Operand, epilogue: Sequence[FusedEpilogueOp], told: bool) -> str:
    name, kind = operand.name, operand.type(4)
    value = made = f"select({kind}(), v, epilogue.mask)"
    if operand.half:
        value = f"native_halves({value})" if operand.native else f"halves({value})"
    if operand.whole and epilogue:
        raise ValueError(f"operand {name!r} holds whole numbers, which no fused step takes")
    fields, loads, steps = ["mask: vec4<bool>"], [f"lanes_below(q, p.channels_{name})"], []
    for k, each in enumerate(epilogue):
        if each.operand and each.spread != "same":
            fields.append(f"e{k}: vec4f")
            loads.append(
                f"load_{each.operand}(q)"
                if each.spread == "channel"
                else f"vec4f(load_{each.operand}(0u).x)"
            )
        if each.spread == "rows":  # of a matrix [rows, channels]; the last parameter counts slices
            count = ROWS[each.op]
            fields[-1] = ", ".join(f"e{k}_{row}: vec4f" for row in range(count))
            slices = f"u32(p.{each.fields[-1]})"
            loads[-1] = ", ".join(f"load_{each.operand}(q + {r}u * {slices})" for r in range(count))
            rows = ", ".join(f"epilogue.e{k}_{row}" for row in range(count))
            steps.append(f"  v = {expression(each.op, each.fields).replace('$e', rows)};")
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
            f"fn store_{name}(i: u32, epilogue: Epilogue_{name}, value: {kind})"
            f"{f' -> {kind}' * told} {{",
            "  var v = value;",
            *steps,
            f"  {name}_data[p.off_{name} + i] = {value};",
            *[f"  return {made};"] * told,
            "}",
        ]
    )
