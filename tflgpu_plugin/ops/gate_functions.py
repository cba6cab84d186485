"""The functions of gates, new content and state in LSTM and GRU."""

from __future__ import annotations

from tflgpu_plugin.ir import Node

# Attributes for the functions, with their defaults, and the functions of kernels.
FUNCTIONS = {"gate_function": "logistic", "content_function": "tanh", "state_function": "tanh"}
WRITTEN = {"tanh": "tanh_exact", "relu": "rectified", "logistic": "logistic",
           "hard_sigmoid": "hardened"}  # fmt: skip
HARD_NUMBERS = {"alpha": 0.2, "beta": 0.5}  # slope and offset of a hard sigmoid
_ANY = "=logistic|tanh|relu"
ATTRIBUTES = f"alpha beta gate_function{_ANY}|hard_sigmoid content_function{_ANY}"
STATE = f"state_function{_ANY}"


def written(node: Node) -> tuple[dict[str, object], dict[str, object]]:
    """Returns the parameters of the kernel and the items of its variant for a layer's functions."""
    found = {name: node.attributes.get(name, usual) for name, usual in FUNCTIONS.items()}
    hard = found["gate_function"] == "hard_sigmoid"
    numbers = {name: float(node.attributes.get(name, n)) for name, n in HARD_NUMBERS.items()}
    variant: dict[str, object] = {name: WRITTEN[function] for name, function in found.items()}
    variant |= {"rectifies": "relu" in found.values(), "hardens": hard}
    return dict(numbers) if hard else {}, variant
