"""Elementwise ops of one operand: every rank and channel boundary once, and values at which
functions saturate."""

from __future__ import annotations

import numpy as np

from conformance.cases import Case, Input, constant, integers
from conformance.node_cases import NodeCase
from tflgpu_plugin.ir import FLOAT8, MAX_FLOAT32

SHAPES = {
    "scalar": (),
    "rank_1": (7,),
    "rank_2_batch_3": (3, 5),
    "rank_3": (3, 2, 17),
    "one_element": (1, 1, 1, 1),
    "channels_3": (1, 5, 7, 3),
    "channels_4": (1, 2, 3, 4),
    "channels_17_batch_3": (3, 3, 2, 17),
    "rank_5": (2, 3, 1, 5, 3),
    "long": (1, 70_001, 1, 1),
}
FEW = ("scalar", "rank_1", "channels_17_batch_3", "rank_5")


def unary(op: str, name: str, shape: tuple[int, ...], low: float = -9.0, high: float = 9.0) -> Case:
    """Returns a case with inputs uniform in [low, high)."""
    return Case(name, op, 1, (Input(shape, low=low, high=high),))


def everywhere(op: str) -> list[Case]:
    return [unary(op, name, shape) for name, shape in SHAPES.items()]


def leaky(name: str, alpha: float, low: float = -9.0, high: float = 9.0) -> Case:
    values = (Input((1, 3, 5, 5), low=low, high=high),)
    return Case(name, "LEAKY_RELU", 1, values, "LeakyReluOptions", {"alpha": alpha})


def gelu(
    name: str, shape: tuple[int, ...], approximate: bool, low: float = -9.0, high: float = 9.0
) -> Case:
    """Returns a case of GELU by its definition, or by the approximation with tanh."""
    options = {"approximate": approximate}
    values = (Input(shape, low=low, high=high),)
    return Case(f"{name}_tanh" * approximate or name, "GELU", 1, values, "GeluOptions", options)


def eight_bits(kind: str) -> list[NodeCase]:
    """Returns cases of a type of 8 bits: its numbers, ties between them, too large and special
    ones."""
    held = FLOAT8[kind]
    form = {"mantissa": held.mantissa, "bias": held.bias, "greatest": held.greatest}
    signs = {"infinite": float(held.infinite), "unsigned_zero": float(held.unsigned_zero)}
    ties = np.outer(2.0 ** np.arange(-20, 18), 1 + np.arange(32) / 32).astype(np.float32)
    found = np.concatenate([ties, -ties, np.full((1, 32), np.nan), np.full((1, 32), -np.inf)])
    return [
        *(NodeCase(f"{kind}_{name}", "to_float8", (constant(found),),
                   {**form, "above": held.above(name == "most"), "not_number": held.not_number},
                   output_type=kind)
          for name in ("most", "beyond")),
        NodeCase(f"{kind}_random", "to_float8", (Input((3, 5, 6, 7), low=-500.0, high=500.0),),
                 {**form, "above": held.greatest, "not_number": held.not_number}, output_type=kind),
        NodeCase(kind, "from_float8", (Input((4, 9, 51), kind, low=0, high=255),),
                 {**form, **signs}),
    ]  # fmt: skip


def halves(op: str) -> Case:
    """Returns integers and the midpoints between them, including both zeros."""
    return Case("halves", op, 1, (Input((1, 8, 8, 5), low=-6.0, high=6.0, step=0.5),))


def ends(op: str) -> list[Case]:
    """Returns integral floats, including some beyond int32, and values near zero."""
    return [
        unary(op, "large", (1, 8, 8, 5), -3e18, 3e18),
        unary(op, "beyond_a_fraction", (1, 8, 8, 5), -(2.0**24), 2.0**24),
        unary(op, "tiny", (1, 8, 8, 5), -1e-30, 1e-30),
    ]


def positive(op: str) -> list[Case]:
    """Returns values for which the function is defined, near zero and far from it."""
    return [
        unary(op, "positive", (1, 5, 7, 5), 0.1, 9.0),
        unary(op, "channels_17_batch_3", (3, 3, 2, 17), 0.1, 9.0),
        unary(op, "rank_1", (7,), 0.5, 2.0),
        unary(op, "scalar", (), 0.5, 2.0),
        unary(op, "small", (1, 3, 3, 4), 1e-30, 1e-20),
        unary(op, "huge", (1, 3, 3, 4), 1e20, 3e38),
    ]


CASES = [
    *everywhere("RELU"),
    *everywhere("RELU6"),
    *everywhere("RELU_N1_TO_1"),
    *(unary("RELU_0_TO_1", name, SHAPES[name], -2.0, 2.0) for name in FEW),
    unary("RELU", "negative_only", (1, 3, 3, 5), -5.0, -1.0),
    unary("RELU", "huge", (1, 3, 3, 5), -3e38, 3e38),
    unary("RELU6", "huge", (1, 3, 3, 5), -3e38, 3e38),
    unary("RELU_N1_TO_1", "inside", (1, 3, 3, 5), -0.9, 0.9),
    *everywhere("LOGISTIC"),
    unary("LOGISTIC", "around_zero", (1, 8, 8, 8), -1e-3, 1e-3),
    unary("LOGISTIC", "saturated_below", (1, 8, 8, 8), -90.0, -16.0),
    unary("LOGISTIC", "saturated_above", (1, 8, 8, 8), 16.0, 90.0),
    unary("LOGISTIC", "huge", (1, 8, 8, 5), -3e38, 3e38),
    *everywhere("TANH"),
    unary("TANH", "around_zero", (1, 8, 8, 8), -1e-3, 1e-3),
    unary("TANH", "where_forms_meet", (1, 16, 16, 8), -0.6, 0.6),
    unary("TANH", "saturated", (1, 8, 8, 8), 9.0, 90.0),
    unary("TANH", "huge", (1, 8, 8, 5), -3e38, 3e38),
    *everywhere("EXP"),
    unary("EXP", "around_zero", (1, 8, 8, 8), -1e-3, 1e-3),
    unary("EXP", "small_results", (1, 8, 8, 8), -80.0, -70.0),
    unary("EXP", "vanishing_results", (1, 8, 8, 8), -87.0, -86.0),
    unary("EXP", "large_results", (1, 8, 8, 8), 70.0, 88.0),
    unary("EXP", "infinite_results", (1, 8, 8, 5), 89.0, 1000.0),
    *everywhere("ABS"),
    *everywhere("ELU"),
    unary("ELU", "around_zero", (1, 8, 8, 8), -1e-3, 1e-3),
    unary("ELU", "saturated", (1, 8, 8, 5), -90.0, -16.0),
    *everywhere("HARD_SWISH"),
    unary("HARD_SWISH", "saturated", (1, 8, 8, 5), -90.0, 90.0),
    *[leaky(f"alpha {alpha}", alpha) for alpha in (0.0, 0.1, 0.3, 1.0, 1.5, -0.3, -1.0)],
    leaky("negative only", 0.2, -5.0, -1.0),
    leaky("huge", 0.2, -3e38, 3e38),
    *positive("LOG"),
    unary("LOG", "around_one", (1, 8, 8, 8), 0.999, 1.001),
    *positive("RSQRT"),
    *positive("SQRT"),
    *[case for op in ("NEG", "FLOOR", "CEIL", "ROUND", "SIGN", "SQUARE") for case in ends(op)],
    *[case for op in ("NEG", "FLOOR", "ROUND", "SQUARE", "SIN") for case in everywhere(op)],
    *[unary(op, name, SHAPES[name]) for op in ("CEIL", "SIGN", "COS") for name in FEW],
    *[halves(op) for op in ("FLOOR", "CEIL", "ROUND", "SIGN", "NEG")],
    *[unary(op, "around_zero", (1, 8, 8, 8), -1e-3, 1e-3) for op in ("SIN", "COS")],
    *[unary(op, "hundreds", (1, 8, 8, 8), -500.0, 500.0) for op in ("SIN", "COS")],
    *[gelu(name, shape, approximate) for approximate in (False, True)
      for name, shape in SHAPES.items() if name in FEW],
    *[gelu("around_zero", (1, 8, 8, 8), approximate, -1e-3, 1e-3) for approximate in (False, True)],
    *[gelu("saturated", (1, 8, 8, 5), approximate, -60.0, 60.0) for approximate in (False, True)],
    *[Case(name, "LOGICAL_NOT", 1, (Input(shape, "bool"),), output_type="bool")
      for name, shape in SHAPES.items()],
]  # fmt: skip
CASES += integers(CASES, {"NEG": "i32 i64", "ABS": "i32", "SIGN": "i32"}, [*SHAPES])


def node(op: str, name: str, least: float, most: float, shape: tuple[int, ...] = (2, 5, 7, 6),
         **attributes: float) -> NodeCase:  # fmt: skip
    """Returns a node case with inputs uniform in [least, most)."""
    return NodeCase(name, op, (Input(shape, low=least, high=most),), attributes)


def special(op: str, **more: object) -> NodeCase:
    """Returns a constant of infinities, NaN, zeros and the largest numbers."""
    values = [np.inf, -np.inf, np.nan, 0.0, -0.0, 1.0, -1.0, 3e38, -3e38, MAX_FLOAT32, -MAX_FLOAT32]
    return NodeCase("special", op, (constant(np.array(values)),), **more)  # type: ignore[arg-type]


# The range in which each function is interesting, and where its result is not a number.
RANGES: dict[str, tuple[float, float]] = {
    "sqrt": (0.0, 9.0), "rsqrt": (1e-3, 9.0), "log": (1e-3, 9.0), "asin": (-1.0, 1.0),
    "acos": (-1.0, 1.0), "acosh": (1.0, 9.0), "atanh": (-1.0, 1.0), "reciprocal": (0.1, 9.0),
}  # fmt: skip
WIDE = ("sin", "cos", "tan", "atan", "asinh", "erf", "gelu", "gelu_tanh", "softplus", "mish")
SPECIAL = (  # what becomes of infinities and NaN
    "log atan erf clip leaky_relu abs atanh asin acos acosh asinh sinh cosh sqrt rsqrt mish "
    "softplus softsign gelu gelu_tanh elu selu celu swish reciprocal hard_sigmoid hard_swish sign "
    "square floor round"
)
PLAIN = (
    *("abs", "neg", "ceil", "floor", "round", "sign", "square", "cube", "sinh", "cosh"),
    *("elu", "selu", "celu", "leaky_relu", "hard_sigmoid", "hard_swish", "swish", "softsign"),
    *("thresholded_relu", "shrink", "clip"),
)
NODES = [
    *(node(op, "interesting", *RANGES.get(op, (-4.0, 4.0))) for op in (*RANGES, *WIDE, *PLAIN)),
    *(node(op, "around_zero", -1e-3, 1e-3) for op in ("sin", "tan", "asin", "atan", "sinh", "asinh",
      "atanh", "erf", "gelu", "gelu_tanh", "elu", "selu", "celu", "softsign", "swish", "mish")),
    *(node(op, "wide", -100.0, 100.0) for op in WIDE),
    node("sin", "thousands", -9e3, 9e3),
    node("cos", "thousands", -9e3, 9e3),
    node("log", "around_one", 0.9, 1.1),
    node("log", "large", 1e30, 3e38),
    node("log", "small", 1e-37, 1e-30),
    node("acosh", "around_one", 1.0, 1.0001),
    node("acosh", "huge", 1e18, 3e38),
    node("asinh", "huge", -3e38, 3e38),
    node("sinh", "large", -89.0, 89.0),
    node("cosh", "large", -89.0, 89.0),
    node("softplus", "saturated", -90.0, 90.0),
    node("round", "halves", -8.0, 8.0, (3, 1)),
    NodeCase("ties", "round", (constant(np.arange(-4.5, 5.0)),)),
    node("clip", "both", -4.0, 4.0, low=-1.5, high=0.25),
    node("clip", "low_only", -4.0, 4.0, low=-1.5),
    node("clip", "high_only", -4.0, 4.0, high=0.25),
    node("elu", "alpha", -4.0, 4.0, alpha=0.3),
    node("celu", "alpha", -4.0, 4.0, alpha=0.3),
    node("selu", "both", -4.0, 4.0, alpha=2.0, gamma=3.0),
    node("leaky_relu", "alpha", -4.0, 4.0, alpha=0.3),
    node("hard_sigmoid", "both", -4.0, 4.0, alpha=0.7, beta=0.1),
    node("swish", "alpha", -4.0, 4.0, alpha=1.7),
    node("shrink", "both", -4.0, 4.0, lambd=1.5, bias=0.4),
    node("thresholded_relu", "alpha", -4.0, 4.0, alpha=2.0),
    node("clip", "scalar", 0.5, 0.6, ()),
    *(node("erf", name, -2.0, 2.0, shape) for name, shape in SHAPES.items()),
    *(special(op) for op in SPECIAL.split()),
    special("is_nan", output_type="bool"),
    special("is_infinite", output_type="bool"),
    special("to_bfloat16", output_type="bf16"),
    *(NodeCase(f"of_{len(shape)}_{shape[-1]}", op, (Input(shape, held, low=low, high=high),),
               output_type=made)
      for shape in ((7,), (3, 5), (2, 3, 5, 6), (1, 66_001))
      for op, held, made, low, high in (("to_bfloat16", "f32", "bf16", -9.0, 9.0),
                                        ("from_bfloat16", "bf16", "f32", 0, 0x7F80))),
    NodeCase("bool", "to_bfloat16", (Input((3, 5), "bool"),), output_type="bf16"),
    *(case for kind in FLOAT8 for case in eight_bits(kind)),
    NodeCase("rank_6", "erf", (Input((2, 1, 3, 1, 2, 5)),)),
    NodeCase("positive_only", "is_infinite", (constant(np.array([np.inf, -np.inf, 1.0])),),
             {"negative": 0.0}, output_type="bool"),
    NodeCase("bool", "logical_not", (Input((2, 3, 5), "bool"),), output_type="bool"),
    *(NodeCase(f"whole_{dtype}", op, (Input((2, 5, 7, 6), dtype, low=-1290, high=1290),),
               output_type=dtype)
      for op in ("abs", "neg", "sign", "square", "cube", "bitwise_not")
      for dtype in ("i32", "i64")),
]  # fmt: skip
