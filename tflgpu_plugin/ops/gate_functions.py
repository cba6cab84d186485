"""The functions of recurrent layers: of gates, new content and state in LSTM and GRU, and of the
state in RNN.

Attributes name them; `gate_numbers` and so on hold the numbers of a function that has some, in the
order of `$0` and `$1` in its WGSL."""

from __future__ import annotations

from tflgpu_plugin import kernels
from tflgpu_plugin.ir import Node, Refusal

# Attributes for the functions of each op, with their defaults.
FUNCTIONS = {
    "lstm": {"gate_function": "logistic", "content_function": "tanh", "state_function": "tanh"},
    "gru": {"gate_function": "logistic", "content_function": "tanh"},
    "rnn": {"activation": "tanh"},
}
NUMBERS = {"gate_function": "gate_numbers", "content_function": "content_numbers",
           "state_function": "state_numbers", "activation": "activation_numbers"}  # fmt: skip
# Functions that layers in loops and of TFLite may have; these take no numbers.
BASIC_FUNCTIONS = ("tanh", "relu", "logistic")
WGSL = {
    name: kernels.EPILOGUE_OPS[name]
    for name in (*BASIC_FUNCTIONS, "elu", "hard_sigmoid", "leaky_relu", "softplus", "softsign",
                 "thresholded_relu")
} | {"affine": "$0 * v + $1", "scaled_tanh": "$0 * tanh_exact($1 * v)"}  # fmt: skip


def attributes(op: str) -> str:
    """Returns the declaration of the attributes for an op's functions."""
    return " ".join(f"{name} {NUMBERS[name]}[]" for name in FUNCTIONS[op])


def refuse(node: Node) -> Refusal | None:
    """Requires functions that kernels have, each with as many numbers as it takes."""
    for name, usual in FUNCTIONS[node.op].items():
        function = str(node.attributes.get(name, usual))
        if function not in WGSL:
            said = f"{node.op.upper()} with the activation {function} is not supported."
            return Refusal("activation.unsupported", said)
        given = len(node.attributes.get(NUMBERS[name], ()))
        wanted = kernels.parameter_count(WGSL[function])
        if given != wanted:
            said = f"{node.op.upper()}: {function} takes {wanted} numbers, not {given}."
            return Refusal("attribute.invalid", said)
    return None


def written(node: Node) -> tuple[dict[str, object], dict[str, object]]:
    """Returns the parameters of the kernel and the items of its variant for a layer's functions."""
    parameters: dict[str, object] = {}
    variant: dict[str, object] = {}
    for name, usual in FUNCTIONS[node.op].items():
        numbers = map(float, node.attributes.get(NUMBERS[name], ()))
        own = {f"{name}_{k}": number for k, number in enumerate(numbers)}
        function = str(node.attributes.get(name, usual))
        variant[name] = kernels.filled(WGSL[function], [*own])
        parameters |= own
    return parameters, variant
