"""Elementwise ops of one operand: every rank and channel boundary once, and values at which
functions saturate."""

from __future__ import annotations

from conformance.cases import Case, Input

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


def unary(op: str, name: str, shape: tuple[int, ...], low: float = -9.0, high: float = 9.0) -> Case:
    """A case with inputs uniform in [low, high)."""
    return Case(name, op, 1, (Input(shape, low=low, high=high),))


def everywhere(op: str) -> list[Case]:
    return [unary(op, name, shape) for name, shape in SHAPES.items()]


CASES = [
    *everywhere("RELU"),
    *everywhere("RELU6"),
    *everywhere("RELU_N1_TO_1"),
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
]
