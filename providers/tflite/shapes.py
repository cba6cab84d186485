"""Which tensors of a TFLite graph get their shape only at run time: the outputs of nodes whose
shape is decided by the value of a tensor that is not constant, and everything behind them. Such
extents may even be zero, so nodes that touch them stay with the host.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Protocol

from tflgpu_plugin.graph import Tensor

# Host input positions whose values decide an output shape.
_DECIDING: dict[str, tuple[int, ...]] = {
    "ARG_MAX": (1,), "ARG_MIN": (1,), "BATCH_TO_SPACE_ND": (1, 2), "BROADCAST_ARGS": (0, 1),
    "BROADCAST_TO": (1,), "CONV_3D_TRANSPOSE": (0,), "EXPAND_DIMS": (1,), "FILL": (0,),
    "MEAN": (1,), "MIRROR_PAD": (1,), "MULTINOMIAL": (1,), "NON_MAX_SUPPRESSION_V4": (2,),
    "NON_MAX_SUPPRESSION_V5": (2,), "ONE_HOT": (1,), "PAD": (1,), "PADV2": (1,),
    "RANDOM_STANDARD_NORMAL": (0,), "RANDOM_UNIFORM": (0,), "RANGE": (0, 1, 2),
    "REDUCE_ALL": (1,), "REDUCE_ANY": (1,), "REDUCE_MAX": (1,), "REDUCE_MIN": (1,),
    "REDUCE_PROD": (1,), "RESHAPE": (1,), "RESIZE_BILINEAR": (1,),
    "RESIZE_NEAREST_NEIGHBOR": (1,), "RFFT2D": (1,), "SCATTER_ND": (2,), "SEGMENT_SUM": (1,),
    "SLICE": (1, 2), "SPACE_TO_BATCH_ND": (1, 2), "SPARSE_TO_DENSE": (1,), "SPLIT": (0,),
    "SPLIT_V": (1, 2), "STRIDED_SLICE": (1, 2, 3), "SUM": (1,), "TILE": (1,), "TOPK_V2": (1,),
    "TRANSPOSE": (1,), "TRANSPOSE_CONV": (0,), "UNSORTED_SEGMENT_MAX": (2,),
    "UNSORTED_SEGMENT_MIN": (2,), "UNSORTED_SEGMENT_PROD": (2,), "UNSORTED_SEGMENT_SUM": (2,),
}  # fmt: skip
# Nodes whose output shapes nothing outside them tells.
_UNKNOWN = {"CALL", "CUSTOM", "HASHTABLE_LOOKUP", "IF", "READ_VARIABLE", "UNIQUE", "WHERE", "WHILE"}


class PlanNode(Protocol):
    """What is needed of a node."""

    @property
    def host_op(self) -> str: ...
    @property
    def inputs(self) -> tuple[int | None, ...]: ...
    @property
    def outputs(self) -> tuple[int, ...]: ...


def mark_unknown(nodes: Iterable[PlanNode], tensors: Mapping[int, Tensor]) -> dict[int, Tensor]:
    """The tensors, with all extents -1 where only a run tells the shape; `nodes` are in execution
    order.
    """
    marked = dict(tensors)
    unknown: set[int] = set()
    for node in nodes:
        if _decided_by_values(node, tensors) or unknown.intersection(
            t for t in node.inputs if t is not None
        ):
            unknown.update(node.outputs)
    for index in unknown:
        marked[index] = replace(marked[index], shape=(-1,) * max(1, len(marked[index].shape)))
    return marked


def _decided_by_values(node: PlanNode, tensors: Mapping[int, Tensor]) -> bool:
    name = node.host_op.split(" ")[0]
    if name in _UNKNOWN or name.startswith("op"):
        return True
    deciding = (node.inputs[k] for k in _DECIDING.get(name, ()) if k < len(node.inputs))
    return any(t is not None and tensors[t].data is None for t in deciding)
