"""What the importer is given besides a host's graph, and what it returns."""

from __future__ import annotations

from collections.abc import (
    Collection,
    Iterable,
    Mapping,
    MutableMapping,
    Sequence,
    Set as AbstractSet,
)
from dataclasses import dataclass, field, replace
from typing import Any

from tflgpu_plugin import ops
from tflgpu_plugin.importer.model import HostModel, HostNode
from tflgpu_plugin.importer.support import Judge
from tflgpu_plugin.ir import NUMBERS, Array, Condition, Graph, HostOp, Node, Refusal, Shape, Tensor
from tflgpu_plugin.options import Options

SMALL = ("i8", "u8", "i16", "u16")


@dataclass(frozen=True)
class Table:
    """A host's operators. `rows` run on the GPU; `arithmetic` have no kernel, but are evaluated
    where their inputs are known. `every` are conditions on each node, and `kernels` those on a node
    that is not evaluated. `left` says why an operator stays with the host, and `taken` (with the
    provider's name) why a node does that another provider has. `version` is the host's word for the
    versions of operators. `asks_runs`: a run may tell values of inputs that decide shapes; see
    `Facts.run_values`. `keeps_half`: float16 constants stay what they are. `keeps_folded`: nodes
    whose results are known stay in the graph, for the host's partitions list them. `keeps_weights`:
    the host may keep what follows from constants as weights of its own, and never write them.
    Raises ValueError for rows that do not name ops of ours.
    """

    rows: Mapping[str, HostOp]
    arithmetic: Mapping[str, HostOp] = field(default_factory=dict)
    every: tuple[Condition, ...] = ()
    kernels: tuple[Condition, ...] = ()
    left: Mapping[str, Refusal] = field(default_factory=dict)
    taken: str = "{} has taken it."
    version: str = "version"
    asks_runs: bool = False
    keeps_half: bool = False
    keeps_folded: bool = False
    keeps_weights: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.rows, Mapping):
            raise ValueError("The rows of a Table are a mapping from operators to HostOps.")
        known = ops.rows()
        for name, row in self.rows.items():
            if not isinstance(row, HostOp):
                raise ValueError(f"The row of {name} is no HostOp.")
            for form in (row, row.longer):
                if form is not None and form.op not in known:
                    raise ValueError(f"{name} becomes {form.op!r}, which is no op of this plugin.")

    def row(self, host: HostNode) -> HostOp | None:
        """What holds for a node; None for an operator without a row."""
        row = self.rows.get(host.title)
        return row and row.form(len(host.inputs))

    def refusal(self, host: HostNode) -> Refusal:
        """Why the node stays with the host, if it has no row or is not to be had."""
        if host.provider:
            return Refusal("host.other_delegate", self.taken.format(host.provider))
        absent = f"{host.title} is not in the table of this plugin."
        unknown = Refusal("operator.unknown", absent)
        return host.refusal or self.left.get(host.title, unknown)


@dataclass(frozen=True)
class Facts:
    """What is known beyond the host's graph. `shapes` are those of inputs, where the model leaves
    them open; `symbols` gives numbers for named extents (None: they stay unknown): an extent that
    it does not name is what it is found to be first, or 1. Once a partition is planned,
    `arithmetic` are its nodes whose results were known then: they stay so for any shapes, however
    large, and no others become so. `run_values` are those of inputs that a plan is made for; before
    a run, they are guessed. Without a `judge`, nodes that can be imported are not refused.
    """

    shapes: Mapping[str, Shape] = field(default_factory=dict)
    symbols: Mapping[str, int] | None = None
    arithmetic: Collection[int] | None = None
    run_values: Mapping[str, Array] = field(default_factory=dict)
    judge: Judge | None = None


@dataclass(frozen=True, kw_only=True)
class Imported:
    """The `model` of a host and its operators (`table`) as a graph of ours. `graph` holds what
    needs a kernel, and `ids` has the tensors of the host's values by their keys. `refusals` say why
    nodes of the graph cannot run, by their ids: those that could not be imported, which have no op,
    and those that were `judged`. `arithmetic` are nodes of the host whose results are known, and
    which are therefore not in it. A node of the host that became several has its own id on the last
    of them, and in `sources` of all. `unfit` are nodes of the host that cannot run because of their
    inputs' shapes, and `impossible` those of them that no host takes. `guessed` are nodes that were
    refused for a guess at open extents: another one suited them. `options` are those of the judge.
    `run_values` were guessed: runs tell them. `open` are the axes of inputs that the model leaves
    open; `contradictions` counts shapes that the host tells otherwise.
    """

    model: HostModel
    table: Table
    graph: Graph
    ids: Mapping[str, int] = field(default_factory=dict)
    refusals: Mapping[int, Refusal] = field(default_factory=dict)
    judged: AbstractSet[int] = frozenset()
    arithmetic: AbstractSet[int] = frozenset()
    unfit: AbstractSet[int] = frozenset()
    impossible: AbstractSet[int] = frozenset()
    guessed: AbstractSet[int] = frozenset()
    options: Options | None = None
    run_values: Mapping[str, Array] = field(default_factory=dict)
    open: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    contradictions: int = 0


def assembled(
    nodes: Sequence[Node], tensors: MutableMapping[int, Tensor], outputs: Iterable[int], **told: Any
) -> Graph:
    """Returns the graph of these nodes, with what else is `told` of it: what is only read is an
    input, and what is made may be an output. `tensors` is changed as by `annotate`."""
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


def annotate(read: Iterable[int], tensors: MutableMapping[int, Tensor]) -> None:
    """Plain integers of 8 and 16 bits, which float32 holds exactly, are floats on the device: those
    that nodes read and that have no quantization get one that stands for the numbers themselves.
    """
    for index in read:
        tensor = tensors[index]
        if tensor.dtype in SMALL and tensor.quantization is None and tensor.data is None:
            tensors[index] = replace(tensor, quantization=NUMBERS)
