"""Elementwise ops of two operands (`where`: three) with numpy broadcasting; each is a row in `OPS`.
`add_n` is the sum of any number of values of one shape."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from tflgpu_plugin.ir import Array, Graph, Node, Refusal, Target, quantization
from tflgpu_plugin.kernels import EPILOGUE_OPS
from tflgpu_plugin.ops import quantized, quantized_int16, rounding
from tflgpu_plugin.ops.decompose import Decomposition, lower_decomposed
from tflgpu_plugin.ops.elementwise import (
    broadcast_refusal,
    decompose_spread,
    lower_pair,
    operands,
    overflow,
    pair_epilogue,
    shapes,
)
from tflgpu_plugin.ops.lowering import Lowering
from tflgpu_plugin.ops.stored_numbers import over_numbers
from tflgpu_plugin.ops.table import GATE, Errors, Int16, Op, same_shape
from tflgpu_plugin.ops.unary import LIMITED, LIMITS
from tflgpu_plugin.ops.unknown import CHOOSES, PASSES


def refuse(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires shapes that broadcast together."""
    activation = node.attributes.get("activation", "none")
    if activation not in ("none", *LIMITS):  # hosts' kernels accept tanh and leave it out
        known = ", ".join(LIMITS)
        said = f"The fused activation {activation} is not supported; use one of {known}."
        return Refusal("activation.unsupported", said)
    return broadcast_refusal(graph, node)


@dataclass(frozen=True)
class Integers:
    """How an op computes integers: by a WGSL expression over vec4 `v` and `e`. If `checked`, or
    where `beyond` is true, the result may exceed int32. `wrong` compares the second operand with
    zero: hosts refuse operands for which it is true if the node has the attribute `raises`."""

    expression: str
    checked: bool = False
    beyond: str = ""
    wrong: str = ""


def row(
    name: str,
    expression: str | None = None,
    types: tuple[str, ...] = ("f32",),
    accuracy: str = "elementwise",
    steps: tuple[str | None, str | None] = (None, None),
    integers: Integers | None = None,
    **traits: Any,
) -> Op:
    """Returns the row of an elementwise op that is computed by a WGSL expression over vec4 `v` and
    `e`, its operands (default: the epilogue op of that name). `steps` are the epilogue ops as which
    it can be fused into the producer of its first or of its second operand."""
    found = expression or EPILOGUE_OPS.get(name, "")
    lower = partial(_lower, expression=found, integers=integers)
    fused = pair_epilogue(*steps) if any(steps) else None
    types = (*types, "i32") if integers else types
    traits = dict[str, Any](unknown=PASSES if integers else "", operands="xx") | traits
    spread = over_numbers(decompose_spread) if traits.get("stored") else decompose_spread
    traits.setdefault("decompose", spread)
    wrong = integers.wrong if integers else ""
    asked = partial(refuse_second, wrong=wrong) if wrong else refuse
    return Op(name, asked, shapes, lower, accuracy, types=types, fuses=True,
              kind="elementwise", follows="elementwise", as_epilogue=fused, **traits)  # fmt: skip


def refuse_second(graph: Graph, node: Node, target: Target, wrong: str) -> Refusal | None:
    """Requires shapes that broadcast together, and no constant that hosts refuse."""
    value = graph.constant(node.operand(1))
    if node.attributes.get("raises") and value is not None and value.dtype.kind in "iu":
        if bool(ORDERS[wrong](value, 0).any()):
            said = f"The second operand of {node.op} has elements {wrong} 0, which is an error."
            return Refusal("constant.invalid", said)
    return refuse(graph, node, target)


def refuse_prelu(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires an alpha that broadcasts to the shape of x."""
    x, alpha = (graph.shape(node.operand(k)) for k in range(2))
    if (refusal := refuse(graph, node, target)) or shapes(graph, node) == [x]:
        return refusal
    return Refusal(
        "shape.mismatch",
        f"prelu has alpha of shape {list(alpha)}, which does not broadcast to {list(x)}; "
        "give alpha the shape of x or of its last axes.",
    )


def relation(name: str, expression: str, meaning: Callable[..., Array], numbers: str = "") -> Op:
    """Returns the row of an op whose result is a bool. `expression` is its WGSL for integers,
    `numbers` that for floats: by default the same, and false where an operand is NaN."""
    numbers = numbers or f"comparable(v, e) & ({expression})"
    known = (f"bool_as_f32({numbers})", ("f32", "bool"), "exact")
    integers = Integers(f"bool_as_f32({expression})")
    return row(name, *known, integers=integers, unknown="", meaning=meaning,
               decompose=decompose_relation)  # fmt: skip


def decompose_relation(steps: Decomposition, node: Node) -> bool:
    """Multiplies stored numbers, minus their zero points, by their scales in fixed point where
    hosts compare 8 bits so (attribute `fixed_point`); numbers that they round alike are equal."""
    if not node.attributes.get("fixed_point"):
        return decompose_spread(steps, node)
    given = []
    for tensor in operands(node):
        scale, _ = quantization.parameters(steps.editor.tensors[tensor])
        numbers = quantized.factor_numbers(scale / COMPARED_UNIT, scale, 1.0)
        given.append(steps.typed("i32", "times_factor", tensor, numbers=numbers))
    steps.last(node.op, *given)
    return True


def _lower(low: Lowering, node: Node, expression: str, integers: Integers | None) -> None:
    if integers and quantization.is_integer(low.graph.tensors[operands(node)[-1]]):
        of_integers, wrong = integers.expression, integers.wrong
        limits = LIMITED.get(str(node.attributes.get("activation")))
        beyond = overflow(low, node, of_integers) if integers.checked else integers.beyond
        cut = f"clamp({of_integers}, {limits})" if limits else of_integers
        raises = node.attributes.get("raises") and low.graph.constant(node.operand(1)) is None
        refused = f"e {wrong} vec4i()" if wrong and raises else ""
        lower_pair(low, node, cut, checked=beyond, refused=refused)
        return
    name = f"{node.op}_nan" if node.attributes.get("nan") else None
    lower_pair(low, node, EPILOGUE_OPS[name] if name else expression)


def _lower_checked(low: Lowering, node: Node) -> None:
    lower_pair(low, node, "v", checked="beyond_int32(e, v)")


def refuse_sum(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires one or more values of one shape."""
    found = [graph.shape(node.operand(k)) for k in range(len(node.inputs))]
    if len(set(found)) == 1:
        return None
    said = f"{node.op} needs values of one shape, not of {', '.join(map(str, map(list, found)))}."
    return Refusal("shape.mismatch", said)


def decompose_sum(steps: Decomposition, node: Node) -> bool:
    """Adds the operands in order, one after another."""
    first, *others = (node.operand(k) for k in range(len(node.inputs)))
    for other in others[:-1]:
        first = steps.add("add", first, other)
    if others:
        steps.last("add", first, others[-1])
    else:
        steps.last("reshape", first, None, shape=steps.shape(first))
    return True


def _divisor(b: Array) -> Array:
    """Returns the divisor. Raises ValueError if it is an integer 0, which hosts do not divide
    by."""
    if b.dtype.kind != "f" and np.any(b == 0):
        raise ValueError("integers are not divided by 0")
    return b


def quotient(a: Array, b: Array) -> Array:
    """Returns a / b; integers are truncated toward zero."""
    if a.dtype.kind == "f":
        return np.asarray(a / b)
    floor = a // _divisor(b)
    inexact = (a % b != 0) & ((a < 0) != (b < 0))
    return np.asarray(floor + inexact, a.dtype)


def floor_quotient(a: Array, b: Array) -> Array:
    return np.asarray(a // _divisor(b))


def floor_remainder(a: Array, b: Array) -> Array:
    """Returns the remainder with the sign of the divisor."""
    return np.asarray(np.mod(a, _divisor(b)))


def remainder(a: Array, b: Array) -> Array:
    """Returns the remainder with the sign of the dividend."""
    return np.asarray(np.fmod(a, _divisor(b)))


def power(a: Array, b: Array) -> Array:
    """Returns the power in the type of the base."""
    return np.asarray(np.power(a, b), a.dtype)


COMPARED_UNIT = 1 << 8  # before hosts multiply by a scale, they shift by 8 bits
RELATIONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
ORDERS: dict[str, Callable[[Any, int], Any]] = {"==": operator.eq, "<": operator.lt}
CHOICE = "select(w, e, v != vec4f(0.0))"
ATTRIBUTES = {
    **dict.fromkeys(("add", "sub"), "activation powers"), "mul": "activation",
    "div": "activation raises",
    **dict.fromkeys(("pow", "floor_div", "floor_mod", "fmod"), "raises"),
    **dict.fromkeys(("maximum", "minimum"), "nan"),
    **dict.fromkeys(RELATIONS, "fixed_point"),
}  # fmt: skip
OPS = (
    *(
        row(
            name,
            integers=Integers(expression, checked=True),
            affine=kind,
            steps=(name, other),
            rounding=rounding.SUM,
            quantize=quantized_int16.total,
            int16=Int16(refuse=quantized_int16.refuse_sum),
            meaning=meaning,
        )
        for name, expression, kind, other, meaning in (
            ("add", "v + e", "term", "add", np.add),
            ("sub", "v - e", "subtrahend", "reverse_sub", np.subtract),
        )
    ),
    row(
        "mul",
        integers=Integers("v * e", checked=True),
        affine="factor",
        steps=("mul", "mul"),
        rounding=rounding.PRODUCT,
        quantize=quantized_int16.product,
        int16=Int16(refuse=quantized_int16.refuse_product),
        meaning=np.multiply,
    ),
    *(
        row(
            name,
            integers=Integers(expression),
            steps=(name, f"reverse_{name}"),
            keeps="any",
            meaning=meaning,
        )
        for name, expression, meaning in (
            ("maximum", "max(v, e)", np.maximum),
            ("minimum", "min(v, e)", np.minimum),
        )
    ),
    # Integer quotients are truncated toward zero.
    row(
        "div",
        integers=Integers("v / e", checked=True, wrong="=="),
        affine="divisor",
        accuracy="function",
        steps=("div", "reverse_div"),
        quantize=quantized.quotient,
        meaning=quotient,
    ),
    # Hosts compute in float64: how too large a power is converted back depends on the CPU.
    row(
        "pow",
        integers=Integers(
            "whole_power(v, e)",
            beyond="beyond_int32(near_power(vec4f(v), e), whole_power(v, e))",
            wrong="<",
        ),
        accuracy="transcendental",
        errors=Errors(keeps_ratios=True),
        steps=("pow", "reverse_pow"),
        meaning=power,
        inexact=True,
    ),
    row("atan2", accuracy="function"),
    row("hypot", "hypot_exact(v, e)", accuracy="function", accumulates=True),
    # Hosts square 8 bits in fixed point.
    row(
        "squared_difference",
        integers=Integers("(v - e) * (v - e)", checked=True),
        accuracy="function",
        steps=("squared_difference",) * 2,
        quantize=quantized.squared_difference,
    ),
    # x where x >= 0, else x * alpha; alpha broadcasts to x.
    replace(
        row("prelu", steps=("prelu", None), errors=GATE, quantize=quantized.prelu),
        refuse=refuse_prelu,
    ),
    row(
        "floor_div",
        "floor_quotient(v, e)",
        integers=Integers("whole_floor_quotient(v, e)", wrong="=="),
        stored=True,
        meaning=floor_quotient,
        inexact=True,
    ),
    row(
        "floor_mod",
        "floor_remainder(v, e)",
        integers=Integers("v - e * whole_floor_quotient(v, e)", wrong="=="),
        stored=True,
        meaning=floor_remainder,
        inexact=True,
    ),
    row(
        "fmod",
        "remainder_of(v, e)",
        integers=Integers("whole_remainder(v, e)", wrong="=="),
        meaning=remainder,
    ),
    # Bool tensors are stored as 0.0 and 1.0.
    row("logical_and", "v * e", types=("bool",), accuracy="exact", meaning=np.logical_and),
    row("logical_or", "max(v, e)", types=("bool",), accuracy="exact", meaning=np.logical_or),
    row("logical_xor", "abs(v - e)", types=("bool",), accuracy="exact", meaning=np.logical_xor),
    # For integers only.
    *(
        row(
            name,
            types=(),
            accuracy="exact",
            integers=Integers(expression),
            stored=True,
            decompose=over_numbers(decompose_spread, shifts),
        )
        for name, expression, shifts in (
            ("bitwise_and", "v & e", False),
            ("bitwise_or", "v | e", False),
            ("bitwise_xor", "v ^ e", False),
            ("right_shift", "v >> vec4u(clamp(e, vec4i(), vec4i(31)))", True),
            ("left_shift", "v << vec4u(clamp(e, vec4i(), vec4i(31)))", True),
        )
    ),
    relation("equal", "v == e", np.equal),
    relation("not_equal", "v != e", np.not_equal, "!(comparable(v, e) & (v == e))"),
    relation("less", "v < e", np.less),
    relation("less_equal", "v <= e", np.less_equal),
    relation("greater", "v > e", np.greater),
    relation("greater_equal", "v >= e", np.greater_equal),
    # x, flagged where the floats differ from it by more than rounding.
    Op(
        "checked",
        refuse,
        shapes,
        _lower_checked,
        "exact",
        types=("f32", "i32"),
        kind="elementwise",
        follows="elementwise",
        unknown=PASSES,
        operands="xx",
    ),
    Op(
        "add_n",
        refuse_sum,
        same_shape,
        lower_decomposed,
        "reduction",
        types=("f32", "i32"),
        kind="composite",
        decompose=decompose_sum,
        operands="x*",
        accumulates=False,
    ),
    row(
        "where",
        CHOICE,
        types=("f32", "bool"),
        accuracy="exact",
        integers=Integers(CHOICE),
        unknown=CHOOSES,
        operands="xxx",
        same_quantization=True,
        meaning=np.where,
    ),
)
