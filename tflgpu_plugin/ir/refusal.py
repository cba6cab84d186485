"""Why a node cannot run here: a sentence for people with a code for programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

OTHER = "other"  # the code of a reason that is not ours

CODES: Mapping[str, str] = {
    # The operator, and how much of it the user wants.
    "operator.unknown": "This plugin has no kernel for the operator.",
    "operator.host_only": "The operator stays with the host by design (random numbers, text, "
    "sequences, bodies of control flow).",
    "version.unsupported": "The version or opset of the operator is not supported.",
    "option.capabilities": "The edition that the option capabilities names does not list this.",
    "option.excluded": "The option exclude names the node.",
    "option.partitions": "The option max_delegated_partitions has no room for the partition.",
    "option.quantized": "The option enable_quantized_inference is off.",
    # Types and quantization.
    "dtype.unsupported": "The operator is not supported for a type of its tensors.",
    "dtype.mismatch": "Tensors that must be of one type are of several.",
    "quantization.missing": "A tensor of stored numbers has no scale.",
    "quantization.mismatch": "Tensors that must have one quantization have several.",
    "quantization.unsupported": "A quantization of this kind (scales, zero points, blocks) is not "
    "supported.",
    # Shapes.
    "rank.unsupported": "The operator is not supported for tensors of this rank.",
    "rank.too_large": "A tensor has more axes than are supported.",
    "shape.empty": "A tensor without elements is not supported here.",
    "shape.mismatch": "Shapes do not fit each other, or the parameters.",
    "shape.contradiction": "The model states another shape than its inputs give.",
    "shape.unsupported": "The operator is not supported for tensors of this shape.",
    "shape.too_large": "An extent, a length or a count is over a limit of the kernels.",
    "shape.window_too_large": "A window is larger than its padded input.",
    "dynamic.shape": "A shape is known only when the model runs.",
    "dynamic.value": "A value is known only when the model runs.",
    # Operands and parameters.
    "constant.required": "An input must be a constant of the model.",
    "constant.invalid": "The value of a constant makes no sense to the operator.",
    "constant.out_of_range": "A constant holds int64 numbers that int32 does not.",
    "constant.unreadable": "A constant cannot be read: it is sparse, or damaged.",
    "input.missing": "An input that the operator needs is absent.",
    "input.unsupported": "An input of the operator is not supported, or there are too many.",
    "output.unsupported": "A result of the operator is not supported, or there are too many.",
    "attribute.unsupported": "A parameter, or a combination of parameters, is not supported.",
    "attribute.invalid": "A parameter makes no sense, or cannot be read.",
    "activation.unsupported": "A fused activation, or one of a recurrent layer, is not supported.",
    # What hosts do.
    "host.ambiguous": "Hosts, or their kernels, do not agree about such a node.",
    "host.other_delegate": "The node belongs to another delegate or execution provider.",
    "host.withdrawn": "The host has taken the node back, or has been closed.",
    "host.interface": "The host does not show what is needed to take the node.",
    "model.damaged": "The model, or a compiled model, cannot be read as it is.",
    # What holds for several nodes.
    "state.unsupported": "State is no variable of the model, or is read in other places, too.",
    "state.order": "The host does not keep the order of reads and assignments of variables.",
    "loop.unsupported": "The loop is no recurrent layer that is known here.",
    "indices.unpaired": "Indices in windows would pass between this plugin and the host.",
    "result.inexact": "Sums of integers may be larger than float32 holds exactly.",
    "constant.on_cpu": "A constant that follows from others is made, or read, on the CPU.",
    "group.incomplete": "Another node of a quantized group stays on the CPU.",
    "partition.does_not_pay": "Moving inputs and outputs would take longer than is saved.",
    "partition.split": "Nodes that must be in one partition are not.",
    "partition.arithmetic": "The result is known before the model runs; no kernel is needed.",
    # The device, and the rest.
    "device.missing": "No adapter can be used.",
    "device.limit": "A limit of the adapter or of its driver.",
    "device.build_failed": "The driver could not build a kernel or the partition.",
    "device.wrong_result": "The operator is known to go wrong on this driver.",
    "memory.exhausted": "There is not enough memory.",
    "defect": "An error inside this plugin.",
}


class Refusal(str):
    """A sentence, and a `code` that is listed in `CODES`. Raises ValueError for another one."""

    code: str

    def __new__(cls, code: str, sentence: str) -> Self:
        if code not in CODES:
            raise ValueError(f"{code!r} is no code of a refusal.")
        made = super().__new__(cls, sentence)
        made.code = code
        return made

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]
        return self.code, str(self)

    def reworded(self, sentence: str) -> Self:
        """Returns another sentence of this kind and code."""
        return type(self)(self.code, sentence)


class Unfit(Refusal):
    """A refusal of a node that may make sense with inputs of other shapes."""


class Impossible(Unfit):
    """A refusal of a node whose inputs have shapes that no host takes."""


def code_of(reason: str) -> str:
    """Returns the code of a reason, `OTHER` where it is not ours."""
    return reason.code if isinstance(reason, Refusal) else OTHER
