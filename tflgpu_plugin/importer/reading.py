"""What a frontend reads a host's graph into."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any

from tflgpu_plugin.ir.graph import Graph, Node, Tensor
from tflgpu_plugin.ir.quantization import NUMBERS
from tflgpu_plugin.ir.refusal import Refusal

SMALL = ("i8", "u8", "i16", "u16")


@dataclass(frozen=True)
class Reading:
    """A host's graph as ours. `unfit` are nodes of the host whose inputs' shapes are why they
    cannot run, `open` the axes of inputs that the model leaves open; `contradictions` counts shapes
    that the host tells otherwise.
    """

    graph: Graph
    unfit: AbstractSet[int] = frozenset()
    open: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    contradictions: int = 0

    @property
    def refused(self) -> dict[int, Refusal]:
        """Nodes of the host that could not be read, with the sentence."""
        return {node.id: node.refusal for node in self.graph.nodes if node.refusal is not None}


def assembled(
    nodes: Sequence[Node], tensors: dict[int, Tensor], outputs: Iterable[int], **told: Any
) -> Graph:
    """The graph of these nodes, with what else is `told` of it: what is only read is an input,
    and what is made may be an output. `tensors` is changed as by `annotate`."""
    made = {t for node in nodes for t in node.outputs}
    read = {t for node in nodes for t in node.reads}
    annotate(read, tensors)
    return Graph(
        tensors={t: tensors[t] for t in sorted(made | read)},
        nodes=tuple(nodes),
        inputs=tuple(sorted(t for t in read - made if tensors[t].data is None)),
        outputs=tuple(dict.fromkeys(t for t in outputs if t in made)),
        **told,
    )


def annotate(read: Iterable[int], tensors: dict[int, Tensor]) -> None:
    """Plain integers of 8 and 16 bits, which float32 holds exactly, are floats on the device: those
    that nodes read and that have no quantization get one that stands for the numbers themselves.
    """
    for index in read:
        tensor = tensors[index]
        if tensor.dtype in SMALL and tensor.quantization is None and tensor.data is None:
            tensors[index] = replace(tensor, quantization=NUMBERS)
