"""The reason why a node cannot run here: a sentence for people with a code for programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

OTHER = "other"  # the code of a reason that another package gives as a plain string

CODES: Mapping[str, str] = {
    # The operator, and the options that exclude it.
    "operator.unknown": "This plugin has no kernel for the operator.",
    "operator.host_only": "The operator stays with the host by design (random numbers, text, "
    "sequences, bodies of control flow).",
    "version.unsupported": "The version or opset of the operator is not supported.",
    "option.capabilities": "The documentation edition that the option capabilities names does not "
    "list the node.",
    "option.excluded": "The option exclude names the node.",
    "option.partitions": "The option max_delegated_partitions has no room for the partition.",
    "option.without": "The option without, or TFLGPU_WITHOUT, names the op, or each form that "
    "could compute it.",
    "option.quantized": "The option enable_quantized_inference is off.",
    # Types and quantization.
    "dtype.unsupported": "The operator is not supported for a type of its tensors.",
    "dtype.mismatch": "Tensors that must have one type have several.",
    "quantization.missing": "An 8-bit tensor has no scale.",
    "quantization.mismatch": "Tensors that must have one quantization have several.",
    "quantization.unsupported": "A quantization of this kind (scales, zero points, blocks) is not "
    "supported.",
    # Shapes.
    "rank.unsupported": "The operator is not supported for tensors of this rank.",
    "rank.too_large": "A tensor has more axes than are supported.",
    "shape.empty": "A tensor without elements is not supported here.",
    "shape.mismatch": "Shapes do not match each other, or the parameters.",
    "shape.contradiction": "The model states another shape than its inputs give.",
    "shape.unsupported": "The operator is not supported for tensors of this shape.",
    "shape.too_large": "An extent, a length or a count is over a limit of the kernels.",
    "shape.window_too_large": "A window is larger than its padded input.",
    "dynamic.shape": "A shape is known only when the model runs.",
    "dynamic.value": "A value is known only when the model runs.",
    # Operands and parameters.
    "constant.required": "An input must be a constant of the model.",
    "constant.invalid": "The value of a constant is invalid for the operator.",
    "constant.out_of_range": "A constant holds integers outside of the range of int32.",
    "constant.unreadable": "A constant cannot be read: it is sparse, or damaged.",
    "input.missing": "An input that the operator needs is absent.",
    "input.unsupported": "An input of the operator is not supported, or there are too many.",
    "output.unsupported": "A result of the operator is not supported, or there are too many.",
    "attribute.unsupported": "A parameter, or a combination of parameters, is not supported.",
    "attribute.invalid": "A parameter is invalid, or cannot be read.",
    "activation.unsupported": "A fused activation, or one of a recurrent layer, is not supported.",
    # Limits of hosts.
    "host.ambiguous": "Hosts, or kernels of one host, give different results for such a node.",
    "host.other_delegate": "The node belongs to another delegate or execution provider.",
    "host.withdrawn": "The host has taken the node back, or has been closed.",
    "host.interface": "The host does not expose data that the plugin needs to run the node.",
    "model.damaged": "The model, or a compiled model, is damaged or was made for something else.",
    # Reasons that involve several nodes.
    "state.unsupported": "The state is not a variable of the model, or is also read elsewhere.",
    "state.order": "The host does not keep the order of reads and assignments of variables.",
    "loop.unsupported": "The loop is not a recurrent layer of a known form, and its steps cannot "
    "be planned in advance.",
    "indices.unpaired": "Pooling indices would pass between this plugin and the host, which number "
    "them differently.",
    "result.inexact": "Sums of integers may be larger than float32 holds exactly.",
    "constant.on_cpu": "A constant that is computed from others is made, or read, on the CPU.",
    "group.incomplete": "Another node of a quantized group stays on the CPU.",
    "partition.does_not_pay": "Moving inputs and outputs would take longer than the GPU saves.",
    "partition.split": "Nodes that must be in one partition are not.",
    "partition.arithmetic": "The result is known before the model runs, so no kernel is needed.",
    # The device, and the rest.
    "device.missing": "No adapter can be used.",
    "device.limit": "A limit of the adapter or of its driver.",
    "device.assumed": "The node would run on the GPU, of which only the limits are known.",
    "device.build_failed": "The driver could not build a kernel or the partition.",
    "device.wrong_result": "The op, or each form that could compute it, is known to give wrong "
    "results on this driver.",
    "memory.exhausted": "There is not enough memory.",
    "defect": "An error inside this plugin.",
}


class Refusal(str):
    """A sentence and a `code` that is listed in `CODES`. Raises ValueError for another code."""

    code: str

    def __new__(cls, code: str, sentence: str) -> Self:
        if code not in CODES:
            raise ValueError(f"{code!r} is not a refusal code.")
        made = super().__new__(cls, sentence)
        made.code = code
        return made

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]
        return self.code, str(self)

    def reworded(self, sentence: str) -> Self:
        """Returns a refusal with this sentence and the same class and code."""
        return type(self)(self.code, sentence)


class ShapeRefusal(Refusal):
    """A refusal that depends on the shapes of the node's inputs: with others, it may run."""


class ImpossibleShapeRefusal(ShapeRefusal):
    """A refusal of a node because no host accepts the shapes of its inputs."""


def code_of(reason: str) -> str:
    """Returns the code of a reason, `OTHER` if it is a plain string."""
    return reason.code if isinstance(reason, Refusal) else OTHER
