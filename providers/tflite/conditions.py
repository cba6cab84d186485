"""What rows ask of a node beside its operands and types, by what the hosts' kernels do."""

from __future__ import annotations

from tflgpu_plugin.ir.graph import Graph, Node
from tflgpu_plugin.ir.quantization import NUMBERS

from . import params

STORED = {"i8", "u8", "i16"}
FUSED = {name for name in params.ACTIVATIONS.values() if name.islower()}


def activation(graph: Graph, node: Node) -> str | None:
    """No fused activation but relu, relu6 and relu_n1_to_1."""
    named = node.attributes.get("activation", "none")
    return None if named in FUSED else f"The fused activation {named} is not supported."


def symmetric(graph: Graph, node: Node) -> str | None:
    """Int8 weights have the zero point 0."""
    # Kernels for int8 weights take them to be symmetric and never look at their zero points.
    index = node.inputs[1]
    held = None if index is None else graph.tensors[index]
    if held is None or held.dtype != "i8" or held.quantization is None:
        return None
    if not any(held.quantization.zero_point):
        return None
    return f"The int8 weights {held.name!r} have another zero point than 0, which is not supported."


def symmetric_hybrid(graph: Graph, node: Node) -> str | None:
    """Int8 weights of inputs that are not int8 have the zero point 0."""
    first = node.inputs[0]
    if first is not None and graph.tensors[first].dtype == "i8":
        return None
    return symmetric(graph, node)


def scaled(graph: Graph, node: Node) -> str | None:
    """Stored numbers have a scale."""
    for index in (node.inputs[0], *node.outputs):
        tensor = None if index is None else graph.tensors[index]
        if tensor and tensor.dtype in STORED and tensor.quantization in (None, NUMBERS):
            return f"Tensor {tensor.name!r} is not quantized: it has no scale."
    return None


def unshuffled(graph: Graph, node: Node) -> str | None:
    """Weights are not shuffled."""
    return "Shuffled weights are not supported." if node.attributes.get("shuffled") else None


def unbatched(graph: Graph, node: Node) -> str | None:
    """No batch dimensions."""
    if node.attributes.get("batch_dims"):
        return "Gathering with batch dimensions is not supported."
    return None


def tanh(graph: Graph, node: Node) -> str | None:
    """The activation tanh."""
    named = node.attributes.get("activation", "tanh")
    return None if named == "tanh" else f"An LSTM with the activation {named} is not supported."


def clips(graph: Graph, node: Node) -> str | None:
    """Clips of at least 0."""
    given = [float(node.attributes.get(name, 0)) for name in ("cell_clip", "proj_clip")]
    return None if min(given) >= 0 else "The clips of an LSTM must not be below 0."


def dense_recurrence(graph: Graph, node: Node) -> str | None:
    """Recurrent weights that are not diagonal."""
    if node.attributes.get("diagonal"):
        return "Diagonal recurrent weights of an LSTM are not supported."
    return None


def inactive(graph: Graph, node: Node) -> str | None:
    """No fused activation."""
    if node.attributes.get("activation", "none") != "none":
        return "No host applies the activation that this operator asks for."
    return None


def side_by_side(graph: Graph, node: Node) -> str | None:
    """Windows lie side by side."""
    window, strides = node.attributes["window"], node.attributes.get("strides")
    if strides in (None, window):
        return None
    return (
        f"A window of {window[0]} x {window[1]} moved by {strides[0]} x {strides[1]} is not "
        "supported: windows must lie side by side."
    )
