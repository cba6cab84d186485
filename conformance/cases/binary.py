"""Elementwise ops of two operands: every way in which two shapes broadcast, constant or fed, and
activations; PRELU, where alpha broadcasts over x."""

from __future__ import annotations

from typing import Any

import numpy as np

from conformance.cases import ABOVE_INT32, MIN_INT32, Case, Input, constant, integers, seeded
from conformance.node_cases import NodeCase

Shape = tuple[int, ...]
OPTIONS = {"ADD": "AddOptions", "SUB": "SubOptions", "MUL": "MulOptions"}
TABLES = OPTIONS | {"DIV": "DivOptions"}  # which cuts what is divided by zero, on some CPU kernels
BROADCAST_5 = {"SUB": 3, "MAXIMUM": 3, "MINIMUM": 3}  # the version that a rank over 4 came with


def pair(
    op: str,
    name: str,
    first: Shape,
    second: Shape,
    activation: str = "NONE",
    fixed: str = "",
    **more: Any,
) -> Case:
    """Returns a case; `fixed` names the constant operand: "first", "second" or neither."""
    given = [
        constant(seeded(*shape)) if fixed == place else Input(shape, low=-9, high=9)
        for shape, place in ((first, "first"), (second, "second"))
    ]
    options = {"fusedActivationFunction": activation} if op in TABLES else {}
    version = BROADCAST_5.get(op, 1) if max(len(first), len(second)) > 4 else 1
    return Case(name, op, version, tuple(given), TABLES.get(op), options, **more)


SPREADS: dict[str, tuple[Shape, Shape]] = {
    "same": ((1, 5, 7, 8), (1, 5, 7, 8)),
    "same_odd_batch_3": ((3, 5, 7, 5), (3, 5, 7, 5)),
    "channel": ((1, 5, 7, 5), (5,)),
    "channel_rank_4_first": ((1, 1, 1, 17), (2, 3, 5, 17)),
    "one_value": ((1, 5, 7, 3), (1,)),
    "scalar_first": ((), (1, 5, 7, 3)),
    "batch_and_channel": ((3, 5, 7, 5), (3, 1, 1, 5)),
    "map_of_one_channel": ((1, 5, 7, 5), (1, 5, 7, 1)),
    "both_ways": ((3, 1, 7, 1), (1, 5, 1, 5)),
}

# Once is enough for these: the way to fetch operands is the same for all ops.
ONCE: dict[str, tuple[Shape, Shape]] = {
    "rows": ((1, 5, 7, 5), (5, 1, 1)),
    "columns": ((2, 5, 7, 5), (7, 1)),
    "batch": ((3, 5, 7, 5), (3, 1, 1, 1)),
    "rank_3_of_4": ((2, 5, 7, 5), (5, 7, 5)),
    "rank_2_of_4": ((2, 5, 7, 4), (7, 4)),
    "rank_3_same": ((3, 7, 5), (3, 7, 5)),
    "rank_3_both_ways": ((3, 1, 5), (1, 7, 1)),
    "rank_2_same": ((3, 17), (3, 17)),
    "rank_2_both_ways": ((3, 1), (1, 5)),
    "rank_2_of_1": ((3, 5), (5,)),
    "rank_1": ((17,), (17,)),
    "rank_1_one_value": ((1,), (17,)),
    "rank_1_scalar": ((17,), ()),
    "scalars": ((), ()),
    "one_channel": ((1, 5, 7, 1), (1, 5, 7, 1)),
    "one_channel_grows": ((1, 5, 7, 1), (4,)),
    "one_channel_to_two": ((1, 3, 5, 1), (1, 3, 5, 2)),
    "one_channel_of_one": ((1, 3, 1, 1), (1, 3, 5, 1)),
    "one_element": ((1, 1, 1, 1), (1, 1, 1, 1)),
    "one_element_grows": ((1, 1, 1, 1), (1, 3, 2, 5)),
    "long": ((1, 70_001, 1, 1), (1, 70_001, 1, 1)),
    "long_column": ((1, 66_000, 1, 2), (2,)),
}

RANK_5: dict[str, tuple[Shape, Shape]] = {
    "rank_5_same": ((2, 3, 2, 2, 3), (2, 3, 2, 2, 3)),
    "rank_5_one_value": ((2, 3, 2, 2, 3), (1,)),
    "rank_5_scalar_first": ((), (2, 3, 2, 2, 3)),
    "rank_5_channel": ((2, 3, 2, 2, 3), (3,)),
    "rank_5_of_4": ((2, 3, 2, 2, 3), (3, 2, 2, 3)),
    "rank_5_of_4_spread": ((2, 3, 2, 2, 3), (3, 1, 2, 1)),
    "rank_5_of_4_all": ((1, 3, 2, 2, 3), (3, 2, 2, 3)),
    "rank_5_both_ways": ((2, 1, 3, 1, 5), (1, 4, 1, 2, 1)),
}

# Cases that distinguish an operator with its own row from others with the same kernel.
FEW = {name: ONCE[name] for name in ("rank_3_both_ways", "rank_1_scalar", "scalars", "long_column")}
ENDS = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1.0], np.float32)
AROUND = Input((36,), low=-2, high=2, step=1)  # zero
COMPARISONS = SPREADS | FEW | {"rank_5_same": RANK_5["rank_5_same"]}
SELECTED: dict[str, tuple[Shape, Shape, Shape]] = {
    "same": ((1, 5, 7, 5), (1, 5, 7, 5), (1, 5, 7, 5)),
    "same_batch_3": ((3, 5, 7, 8), (3, 5, 7, 8), (3, 5, 7, 8)),
    "rank_1": ((17,), (17,), (17,)),
    "rank_3": ((3, 2, 5), (3, 2, 5), (3, 2, 5)),
    "rank_5": ((2, 3, 2, 2, 3), (2, 3, 2, 2, 3), (2, 3, 2, 2, 3)),
    "scalars": ((), (), ()),
    "one_condition": ((1,), (1, 5, 7, 5), (1, 5, 7, 5)),
    "one_value": ((1, 5, 7, 5), (), (1, 5, 7, 5)),
    "condition_of_channels": ((5,), (1, 5, 7, 5), (1, 5, 7, 1)),
    "all_ways": ((3, 1, 7, 1), (1, 5, 1, 5), (1, 1, 1, 5)),
    "mask_of_rows": ((1, 1, 7, 7), (2, 3, 7, 7), ()),
}

ODD = (1, 5, 7, 5)
ACTIVATIONS = ("RELU", "RELU6", "RELU_N1_TO_1")


def spreads(op: str, table: dict[str, tuple[Shape, Shape]]) -> list[Case]:
    return [pair(op, name, *shapes) for name, shapes in table.items()]


def constants(op: str) -> list[Case]:
    return [
        pair(op, "constant_channel", (1, 5, 7, 5), (5,), fixed="second"),
        pair(op, "constant_value_first", (1,), (1, 5, 7, 8), fixed="first"),
        pair(op, "constant_map", (2, 5, 7, 5), (5, 7, 5), fixed="second"),
        pair(op, "constant_same_first", (1, 5, 7, 3), (1, 5, 7, 3), fixed="first"),
        pair(op, "constant_grows", (1, 1, 1, 5), (1, 5, 7, 1), fixed="first"),
    ]


def special(op: str) -> Case:
    """Returns both zeros, large values and, where the host does not clamp them to its largest
    number, infinities."""
    largest = 1e37 if op in OPTIONS else np.inf
    values = np.array([largest, -largest, 0.0, -0.0, 1e-37], np.float32)
    return Case("special_values", op, 1, (Input((1, 3, 3, 5)), constant(values)), OPTIONS.get(op),
                {"fusedActivationFunction": "NONE"} if op in OPTIONS else {})  # fmt: skip


def logical(
    name: str, first: Shape, second: Shape, fixed: bool = False, op: str = "LOGICAL_AND"
) -> Case:
    other = constant(seeded(*second) > 0, "bool") if fixed else Input(second, "bool")
    return Case(name, op, 1, (Input(first, "bool"), other), output_type="bool")


def powered(
    name: str, first: Shape, second: Shape, low: float = 0.1, exponents: Any = None
) -> Case:
    """Returns powers of values up to 4."""
    other = Input(second, low=-3, high=3) if exponents is None else constant(exponents)
    return Case(name, "POW", 1, (Input(first, low=low, high=4), other), "PowOptions")


def powered_whole(name: str, base: Shape, exponent: Shape, low: int, high: int, most: int) -> Case:
    """Returns powers of integers that stay in int32."""
    given = Input(base, "i32", low=low, high=high), Input(exponent, "i32", low=0, high=most + 1)
    return Case(name, "POW", 1, given, "PowOptions", output_type="i32")


COMPARED = ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL")


def compared(op: str, name: str, first: Shape, second: Shape, value: Any = None) -> Case:
    """Returns a case of integers in float32, so that many are equal."""
    other = whole(second) if value is None else constant(value)
    return Case(name, op, 1, (whole(first), other), output_type="bool")


def compared_large(op: str, dtype: str) -> Case:
    """Returns a comparison of numbers that float32 does not distinguish."""
    given = [Input(shape, dtype, low=2**24, high=2**24 + 4) for shape in ((9, 1), (9,))]
    return Case(f"large_{dtype}", op, 1, tuple(given), output_type="bool")


def shifted(name: str, first: Shape, second: Shape) -> Case:
    """Returns a shift by amounts inside int32 and outside."""
    given = (
        Input(first, "i32", low=MIN_INT32, high=ABOVE_INT32),
        Input(second, "i32", low=-5, high=40),
    )
    return Case(name, "RIGHT_SHIFT", 1, given, output_type="i32")


def whole(shape: Shape) -> Input:
    """Returns a case of integers from -2 to 2."""
    return Input(shape, low=-2.5, high=2.5, step=1.0)


def selected(name: str, which: Shape, first: Shape, second: Shape, dtype: str = "f32") -> Case:
    values = Input(first, dtype), Input(second, dtype)
    return Case(name, "SELECT_V2", 1, (Input(which, "bool"), *values), "SelectV2Options",
                output_type=dtype)  # fmt: skip


def summed(name: str, shape: Shape, count: int) -> Case:
    return Case(name, "ADD_N", 1, tuple(Input(shape) for _ in range(count)), "AddNOptions")


def chosen(name: str, which: Shape, shape: Shape, **more: Any) -> Case:
    """Returns a SELECT, which broadcasts only a scalar, and selects rows by a condition for
    each."""
    values = Input(which, "bool"), Input(shape), Input(shape)
    return Case(name, "SELECT", 1, values, "SelectOptions", **more)


def prelu(name: str, x: Shape, alpha: Shape, runtime: bool = False) -> Case:
    """Returns a case whose alpha is constant, or fed at run time."""
    given = Input(alpha) if runtime else constant(seeded(*alpha))
    return Case(name, "PRELU", 1, (Input(x), given))


CASES = [
    *spreads("ADD", SPREADS | ONCE | RANK_5),
    *spreads("SUB", SPREADS | {"rank_5_of_4_spread": ((3, 1, 2, 1), (2, 3, 2, 2, 3))}),
    # The reference MUL of tflite-runtime 2.14 aborts when it has to broadcast rank 5.
    *spreads("MUL", SPREADS | {"rank_5_same": RANK_5["rank_5_same"]}),
    *spreads("MAXIMUM", SPREADS | {"rank_5_both_ways": RANK_5["rank_5_both_ways"]}),
    *spreads("MINIMUM", SPREADS | {"rank_5_same": RANK_5["rank_5_same"]}),
    *[case for op in (*OPTIONS, "MAXIMUM", "MINIMUM") for case in (*constants(op), special(op))],
    *[pair(op, a.lower(), ODD, ODD, a) for op in ("ADD", "SUB", "MUL") for a in ACTIVATIONS],
    pair("ADD", "relu_spread_rank_5", (2, 1, 3, 1, 5), (1, 4, 1, 2, 1), "RELU"),
    pair("SUB", "relu6_spread", (1, 5, 7, 1), (5,), "RELU6"),
    *spreads("DIV", SPREADS),
    *constants("DIV"),
    *[pair("DIV", a.lower(), ODD, ODD, a) for a in ACTIVATIONS],
    *[logical(name, *shapes) for name, shapes in SPREADS.items()],
    logical("constant", (1, 5, 7, 5), (5,), fixed=True),
    logical("rank_1", (17,), (17,)),
    logical("rank_3", (3, 7, 5), (7, 1)),
    *[logical(name, *shapes, op="LOGICAL_OR") for name, shapes in SPREADS.items()],
    logical("constant", (1, 5, 7, 5), (5,), fixed=True, op="LOGICAL_OR"),
    *spreads("SQUARED_DIFFERENCE", SPREADS | FEW),
    *constants("SQUARED_DIFFERENCE"),
    *[powered(name, *shapes) for name, shapes in (SPREADS | FEW).items()],
    powered("constant_exponent", (1, 5, 7, 5), (5,), exponents=seeded(5, scale=3.0)),
    powered("whole_exponents", (1, 5, 7, 5), (5,), -4.0, [0.0, 1.0, 2.0, 3.0, -2.0]),
    powered("square", (1, 5, 7, 5), (), -4.0, 2.0),
    powered("root", (1, 5, 7, 5), (), 0.0, 0.5),
    *[compared(op, name, *shapes) for op in COMPARED for name, shapes in COMPARISONS.items()],
    *[compared(op, "constant", (1, 5, 7, 5), (), 1.0) for op in COMPARED],
    *[compared(op, "special", (1, 6, 1, 6), (6,), ENDS) for op in COMPARED],
    *[Case("bool", op, 1, (Input((3, 5), "bool"), Input((3, 5), "bool")), output_type="bool")
      for op in ("EQUAL", "NOT_EQUAL")],
    *[selected(name, *shapes) for name, shapes in SELECTED.items()],
    selected("bool", (2, 3), (2, 3), (2, 3), "bool"),
    *[pair("ATAN2", name, shape, shape) for name, shape in
      (("image", (2, 3, 5, 7)), ("rank_1", (17,)), ("scalar", ()))],
    Case("ends", "ATAN2", 1, (constant(np.repeat(ENDS, 6)), AROUND)),
    Case("ends_last", "ATAN2", 1, (AROUND, constant(np.repeat(ENDS, 6)))),
    *[summed(f"{n}_values", (2, 3, 5), n) for n in (2, 3, 7)],
    chosen("same", (3, 5, 7, 5), (3, 5, 7, 5)),
    chosen("rank_1", (17,), (17,)),
    chosen("scalar", (), (2, 3, 5)),
    chosen("of_rows", (5,), (5, 5), refused=True),
    Case("constants", "SELECT_V2", 1, (Input((1, 5, 7, 5), "bool"), constant(seeded(5)),
         constant(0.0)), "SelectV2Options"),
    # Hosts' CPU kernels accept it and do not apply it.
    *[pair(op, "tanh", ODD, ODD, "TANH", refused=True) for op in OPTIONS],
    pair("ADD", "sign_bit", (1, 2, 2, 4), (1, 2, 2, 4), "SIGN_BIT", refused=True),
]  # fmt: skip
BOTH = "i32 i64"
WHOLE_SPREADS = {
    *("same_odd_batch_3", "channel", "scalar_first", "both_ways", "constant_map", "relu", "relu6"),
    *("relu_n1_to_1", "relu_spread_rank_5", "constant", "all_ways", "mask_of_rows", "rank_1"),
}
QUOTIENTS = [
    pair(op, name, *shapes, fixed="second")
    for op in ("DIV", "FLOOR_DIV", "FLOOR_MOD")
    for name, shapes in SPREADS.items()
]
CASES += [
    prelu("channel_alpha", (1, 5, 7, 8), (1, 1, 8)),
    prelu("channel_alpha_rank_1", (1, 5, 7, 8), (8,)),
    prelu("channel_alpha_rank_4", (1, 5, 7, 8), (1, 1, 1, 8)),
    prelu("channel_alpha_odd", (1, 3, 3, 17), (1, 1, 17)),
    prelu("channel_alpha_batch_3", (3, 3, 2, 5), (1, 1, 5)),
    prelu("full_alpha", (1, 5, 7, 3), (5, 7, 3)),
    prelu("full_alpha_batch_3", (3, 5, 7, 3), (5, 7, 3)),
    prelu("full_alpha_rank_4", (1, 5, 7, 4), (1, 5, 7, 4)),
    prelu("one_value", (1, 5, 7, 5), (1,)),
    prelu("one_value_rank_4", (1, 5, 7, 5), (1, 1, 1, 1)),
    prelu("scalar", (1, 5, 7, 5), ()),
    prelu("one_channel", (1, 5, 7, 1), (1, 1, 1)),
    prelu("rows_alpha", (1, 5, 7, 5), (5, 1, 1)),
    prelu("columns_alpha", (2, 5, 7, 5), (7, 1)),
    prelu("map_alpha", (1, 5, 7, 5), (5, 7, 1)),
    prelu("batch_alpha", (3, 5, 7, 5), (3, 1, 1, 1)),
    prelu("rank_1", (11,), (11,)),
    prelu("rank_1_one_value", (11,), (1,)),
    prelu("rank_2", (3, 7), (7,)),
    prelu("rank_3", (3, 4, 7), (4, 1)),
    prelu("runtime_channel_alpha", (1, 5, 7, 8), (1, 1, 8), runtime=True),
    prelu("runtime_full_alpha", (2, 5, 7, 5), (5, 7, 5), runtime=True),
    prelu("runtime_one_value", (1, 5, 7, 5), (1, 1, 1), runtime=True),
    Case("alpha_above_one", "PRELU", 1,
         (Input((1, 4, 4, 4)), constant(np.array([[[2.0, -3.0, 0.0, 1.0]]])))),
    prelu("long", (1, 66_001, 1, 2), (1, 1, 2)),
]  # fmt: skip
# These do not broadcast: both operands have the same shape.
STABLEHLO_OPS = ("STABLEHLO_ADD", "STABLEHLO_MULTIPLY", "STABLEHLO_MAXIMUM", "STABLEHLO_MINIMUM")
ALIKE = ("same_odd_batch_3", (3, 5, 7, 5), (3, 5, 7, 5))
NAN = (
    constant([np.nan, 1.0, np.nan, 0.0, -0.0, 7.0]),
    constant([2.0, np.nan, np.nan, -0.0, 0.0, 8.0]),
)
STABLEHLO = [
    *(Case("not_a_number", op, 1, NAN) for op in STABLEHLO_OPS[2:]),
    *(pair(op, *ALIKE) for op in STABLEHLO_OPS),
    *(pair(op, "rank_1", (37,), (37,)) for op in STABLEHLO_OPS),
]
CASES += [
    *integers(CASES, {"ADD": BOTH, "SUB": BOTH}, WHOLE_SPREADS, -(2**30), 2**30),
    *integers(CASES, {"SELECT": "i32"}),
    *integers(CASES, {"MUL": BOTH, "SQUARED_DIFFERENCE": "i32"}, WHOLE_SPREADS, -20_000, 20_000),
    *integers(
        CASES,
        {"MAXIMUM": BOTH, "MINIMUM": BOTH, "SELECT_V2": BOTH, "ADD_N": "i32"},
        {*WHOLE_SPREADS, "3_values"},
    ),
    *[case for case in QUOTIENTS if case.op == "FLOOR_MOD"],
    pair("FLOOR_DIV", "floats", (1, 5, 7, 5), (5,), refused=True),
    *integers(QUOTIENTS, {"DIV": "i32", "FLOOR_DIV": "i32", "FLOOR_MOD": BOTH}),
    *[powered_whole(f"{name}_i32", *SPREADS[name], -6, 7, 11) for name in [*SPREADS][2:]],
    powered_whole("cubes_i32", (3, 500), (500,), -1290, 1291, 3),
    powered_whole("ones_i32", (3, 7, 5), (7, 1), -1, 2, ABOVE_INT32 - 1),
    *integers(spreads("BITWISE_XOR", SPREADS), {"BITWISE_XOR": "i32"}),
    *[shifted(name, *SPREADS[name]) for name in SPREADS if name in WHOLE_SPREADS],
    *integers(CASES, dict.fromkeys(COMPARED, BOTH), WHOLE_SPREADS, -3, 3),
    *STABLEHLO,
    *integers(STABLEHLO[2:], dict.fromkeys(STABLEHLO_OPS, BOTH), low=-20_000, high=20_000),
    *integers([pair("STABLEHLO_AND", *ALIKE)], {"STABLEHLO_AND": BOTH}),
    *[compared_large(op, dtype) for op in COMPARED for dtype in BOTH.split()],
]

RELATIONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
SMALL = np.random.default_rng(5).integers(-2, 3, (2, 3, 5, 5))


def away_from_zero(*shape: int) -> Input:
    """Returns a constant of both signs with magnitudes from 0.5 to 4."""
    values = np.random.default_rng(7).uniform(0.5, 4, shape)
    return constant(values * np.resize([1, -1, -1], shape))


def spread(op: str, second: Shape, **more: Any) -> NodeCase:
    """Returns a node case of a map and a divisor of another shape."""
    name = f"spread_{len(second)}_{'_'.join(map(str, second))}"
    return NodeCase(
        name, op, (Input((2, 3, 5, 5), low=-9, high=9), away_from_zero(*second)), **more
    )


def powers(name: str, low: float, high: float, exponent: Any) -> NodeCase:
    """Returns a case of powers of a map with values in this range."""
    return NodeCase(name, "pow", (Input((2, 3, 5, 5), low=low, high=high), constant(exponent)))


QUOTIENTS_OF = np.array([3, -3, 1000, -1, 123_456_789])
CORNERS = np.array([0.0, 1.0, -1.0, 2.0, -2.0, 0.5, np.inf, -np.inf, np.nan, 3.0, -3.0])
NODES = [
    *(
        spread(op, shape)
        for op in ("div", "hypot", "squared_difference", "floor_div", "floor_mod", "fmod")
        for shape in ((), (5,), (2, 3, 5, 5), (3, 1, 1))
    ),
    *(
        NodeCase(f"quotients_to_{most:.0e}", op, (Input((2, 3, 5, 5), low=-most, high=most),
                                                 Input((2, 3, 5, 5), low=least, high=3.0)))
        for op in ("floor_mod", "fmod")
        for most, least in ((1e4, 0.3), (1e7, -3.0), (1e30, 1e-5))
    ),
    powers("square", -4, 4, 2.0),
    powers("root", 0, 9, 0.5),
    powers("cube", -4, 4, 3.0),
    powers("inverse", 0.1, 4, -1.7),
    powers("tenth", -9, 9, 10.0),
    powers("thirtieth", 0.5, 9, 30.3),
    powers("near_one", 0.99, 1.01, 800.0),
    powers("exponents", 0.1, 4, seeded(5, scale=4.0)),
    NodeCase("spread_first", "pow", (constant(2.5), Input((2, 3, 5, 5), low=-9, high=9))),
    NodeCase("special", "pow", (constant(CORNERS[:, None]), constant(CORNERS[None, :]))),
    NodeCase("special", "hypot", (constant(CORNERS[:, None]), constant(CORNERS[None, :]))),
    NodeCase("by_zero", "div", (constant(CORNERS[:, None]), constant(CORNERS[None, :]))),
    *(
        NodeCase(name, op, (constant(SMALL), constant(SMALL[:, :, :1] if "spread" in name else
                 SMALL[::-1])), output_type="bool")
        for op in RELATIONS
        for name in ("same", "spread")
    ),
    NodeCase("of_bools", "equal", (Input((3, 5), "bool"), Input((5,), "bool")), output_type="bool"),
    *(
        NodeCase("rows", op, (Input((3, 5), "bool"), Input((5,), "bool")), output_type="bool")
        for op in ("logical_or", "logical_xor")
    ),
    NodeCase("same", "where", (Input((2, 3, 5), "bool"), Input((2, 3, 5)), Input((2, 3, 5)))),
    NodeCase("spread", "where", (Input((5, 1), "bool"), Input((3, 1, 7)), Input(()))),
    NodeCase("channel", "where", (Input((7,), "bool"), constant(seeded(1, 4, 4, 7)), Input((7,)))),
    NodeCase("rank_6", "div", (Input((2, 1, 3, 1, 2, 5)), constant(3.0))),
    NodeCase("rank_6", "where", (Input((2, 1, 2, 1, 2, 1), "bool"), Input((2, 1, 2, 1, 2, 3)),
             Input(()))),
    *(NodeCase("rank_8_" + name, "div", (Input(a), Input(b))) for name, a, b in (
        ("groups", (2, 3, 1, 2, 2, 1, 3, 5), (3, 1, 1, 1, 1, 3, 5)),
        ("last", (2, 3, 1, 2, 2, 1, 3, 5), (2, 3, 1, 2, 1, 1, 1, 1)),
        ("first", (1, 1, 2, 3, 2, 1), (2, 3, 2, 3, 2, 5)),
        ("apart", (2, 1, 2, 1, 2, 1, 3, 1), (1, 3, 1, 3, 1, 2, 1, 5)))),
    NodeCase("sums", "checked", (Input((2, 3), "i64", low=-7, high=-6), Input((2, 3), low=-7,
             high=-7)), output_type="i64"),
    *(
        NodeCase(f"whole_{dtype}", op, (Input((2, 3, 5, 5), dtype, low=MIN_INT32, high=ABOVE_INT32),
                 constant(QUOTIENTS_OF, dtype)), output_type=dtype)
        for op in ("floor_div", "floor_mod", "fmod", "bitwise_and", "bitwise_or", "bitwise_xor")
        for dtype in ("i32", "i64")
    ),
    *(
        NodeCase(name, "left_shift", (Input(first, "i32", low=MIN_INT32, high=ABOVE_INT32),
                 Input(second, "i32", low=-5, high=40)), output_type="i32")
        for name, (first, second) in SPREADS.items() if name in ("channel", "both_ways")
    ),
]  # fmt: skip
