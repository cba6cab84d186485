"""The activations of RNN, GRU and LSTM, as onnxruntime's CPU kernels read them."""

from __future__ import annotations

from typing import Any

from tflgpu_plugin.ir import Condition, Refusal
from tflgpu_plugin.ops.gate_functions import FUNCTIONS, NUMBERS
from tflgpu_plugin.providers import Builder

# Functions of the op, with onnxruntime's defaults of their numbers alpha and beta. For those whose
# operators have no defaults, or that came later than the layers, these are 0.
NAMES: dict[str, tuple[str, tuple[float, ...]]] = {
    "affine": ("affine", (0.0, 0.0)),
    "elu": ("elu", (1.0,)),
    "hardsigmoid": ("hard_sigmoid", (0.2, 0.5)),
    "leakyrelu": ("leaky_relu", (0.01,)),
    "relu": ("relu", ()),
    "scaledtanh": ("scaled_tanh", (0.0, 0.0)),
    "sigmoid": ("logistic", ()),
    "softplus": ("softplus", ()),
    "softsign": ("softsign", ()),
    "tanh": ("tanh", ()),
    "thresholdedrelu": ("thresholded_relu", (0.0,)),
}


def of_directions(e: Builder, directions: int) -> list[dict[str, Any]]:
    """Returns for each direction the attributes for its functions, which are those of the op where
    the node names none. They take the node's numbers in order, each as many as it has; where these
    end, the default ones."""
    usual, names = FUNCTIONS[e.row.op], _names(e)
    if not names:
        return [dict[str, Any](usual) for _ in range(directions)]
    given = [iter(e.host.attributes.get(f"activation_{x}") or ()) for x in ("alpha", "beta")]
    found = list[dict[str, Any]]()
    for first in range(0, directions * len(usual), len(usual)):
        attributes: dict[str, Any] = {}
        for role, name in zip(usual, names[first:], strict=False):
            attributes[role], defaults = NAMES[name]
            numbers = tuple(float(next(n, d)) for n, d in zip(given, defaults, strict=False))
            attributes |= {NUMBERS[role]: numbers} if numbers else {}
        found.append(attributes)
    return found


def _names(e: Builder) -> list[str]:
    """Returns the functions that the node names, in lower case."""
    given = e.host.attributes.get("activations") or ()
    return [bytes(name).decode(errors="replace").lower() for name in given]


def activated(directions: dict[str, Any]) -> Condition:
    """Returns the condition that the activations are known; `directions` has, for each value
    of the attribute direction, as many items as the node has layers."""

    def condition(e: Builder) -> Refusal | None:
        names, count = _names(e), len(directions[e.text("direction", "forward")])
        enough = not names or len(names) >= count * len(FUNCTIONS[e.row.op])
        if enough and all(name in NAMES for name in names):
            return None
        sentence = f"{e.host.title} with the activations {', '.join(names)} is not supported."
        return Refusal("activation.unsupported", sentence)

    condition.__doc__ = f"The activations {', '.join([*NAMES][:-1])} or {[*NAMES][-1]}."
    return condition
