"""The data that the importer takes besides a host's graph, and the data that it returns."""

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
from tflgpu_plugin.ir.symbolic import is_symbolic, symbolic
from tflgpu_plugin.options import Options

SMALL = ("i8", "u8", "i16", "u16")


@dataclass(frozen=True)
class Table:
    """A host's operators. `rows` run on the GPU; `arithmetic` have no kernel, but are evaluated
    where their inputs are known. `every` are conditions on each node, and `kernels` conditions on
    nodes that are not evaluated. `left` has the reason for each operator that stays with the host.
    `taken` is the sentence about a node that another provider, whose name is filled in, has
    claimed. `version` is the host's term for a version of an operator. `asks_runs`: a run may
    provide values of inputs that decide shapes (see `Facts.run_values`). `keeps_half`: float16
    constants are not widened to float32. `keeps_folded`: folded nodes stay in the graph, since the
    host's partitions list them. `keeps_weights`: the host may keep tensors that are computed from
    constants as weights of its own and never write the tensors themselves. Raises ValueError for
    rows that name no op of this plugin."""

    rows: Mapping[str, HostOp]
    arithmetic: Mapping[str, HostOp] = field(default_factory=dict)
    every: tuple[Condition, ...] = ()
    kernels: tuple[Condition, ...] = ()
    left: Mapping[str, Refusal] = field(default_factory=dict)
    taken: str = "{} has taken it."
    version: str = "version"
    unversioned: frozenset[str] = frozenset()
    asks_runs: bool = False
    keeps_half: bool = False
    keeps_folded: bool = False
    keeps_weights: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.rows, Mapping):
            raise ValueError("The rows of a Table must be a mapping from operators to HostOps.")
        known = ops.rows()
        for name, row in self.rows.items():
            if not isinstance(row, HostOp):
                raise ValueError(f"The row of {name} is not a HostOp.")
            for form in (row, row.longer):
                if form is not None and form.op not in known:
                    raise ValueError(
                        f"{name} becomes {form.op!r}, which is not an op of this plugin."
                    )

    def row(self, host: HostNode) -> HostOp | None:
        """Returns the row for a node, or None for an operator without a row."""
        row = self.rows.get(host.title)
        return row and row.form(len(host.inputs))

    def refusal(self, host: HostNode) -> Refusal:
        """Returns why the node stays with the host, if it has no row or cannot be claimed."""
        if host.provider:
            return Refusal("host.other_delegate", self.taken.format(host.provider))
        absent = f"{host.title} is not in the table of this plugin."
        unknown = Refusal("operator.unknown", absent)
        return host.refusal or self.left.get(host.title, unknown)


@dataclass(frozen=True)
class Facts:
    """Knowledge beyond the host's graph. `shapes` are shapes of inputs, where the model leaves them
    open. `symbols` maps named extents to numbers (None: they stay unknown); an extent without an
    entry gets its value at its first occurrence, or 1. Once a partition is planned, `arithmetic`
    are its nodes whose results were known then: exactly these stay folded for any shapes, however
    large. `run_values` are values of inputs that a plan is specialized for; before a run, they are
    guesses. Without a `judge`, nodes that can be imported are not refused. `sequences` has the
    keys of tensors of inputs that are lists of tensors. `inner`: the graph is a step of a loop that
    is unrolled, so the host reads none of its values. `room` is as in `Tensors` (0: the first)."""

    shapes: Mapping[str, Shape] = field(default_factory=dict)
    symbols: Mapping[str, int] | None = None
    arithmetic: Collection[int] | None = None
    run_values: Mapping[str, Array] = field(default_factory=dict)
    judge: Judge | None = None
    sequences: Mapping[str, Sequence[str]] = field(default_factory=dict)
    inner: bool = False
    room: int = 0

    @property
    def symbolic(self) -> bool:
        """Whether shapes or values are symbolic; then results of any shape follow in a run."""
        values = self.run_values.values()
        given = (*self.shapes.values(), (self.room,))
        return any(map(is_symbolic, given)) or any(map(symbolic, values))


@dataclass(frozen=True, kw_only=True)
class Imported:
    """The `model` of a host with its operators (`table`), imported as a graph. `graph` holds the
    nodes that need a kernel, and `ids` has the tensors of the host's values by their keys.
    `refusals` say by id why nodes of the graph cannot run: nodes that could not be imported, which
    have no op, and nodes that the judge refused (`judged`). `arithmetic` are nodes of the host
    whose results are known, and which are therefore not in the graph. If a node of the host became
    several, the last has its id, and all have it in `sources`. `shape_refused` are nodes of the
    host that cannot run because of their inputs' shapes, and `impossible` those of them whose
    shapes no host accepts. `options` are the judge's. `run_values` are guesses at values that runs
    provide. `open`: extents were guessed, too; `contradictions` counts shapes that differ from the
    host's. `constants` are the results of the model that are known, by their keys. `keeping` are
    nodes of the host that preserve a count, and `counted` has, for each value that depends on a
    count, the node that counts (see `importer.counts`). `sequences` has the tensors of values that
    are lists of tensors, and `growing` is as in `Tensors`."""

    model: HostModel
    table: Table
    graph: Graph
    ids: Mapping[str, int] = field(default_factory=dict)
    refusals: Mapping[int, Refusal] = field(default_factory=dict)
    judged: AbstractSet[int] = frozenset()
    arithmetic: AbstractSet[int] = frozenset()
    shape_refused: AbstractSet[int] = frozenset()
    impossible: AbstractSet[int] = frozenset()
    options: Options | None = None
    run_values: Mapping[str, Array] = field(default_factory=dict)
    open: bool = False
    contradictions: int = 0
    constants: Mapping[str, Tensor] = field(default_factory=dict)
    keeping: AbstractSet[int] = frozenset()
    counted: Mapping[str, int] = field(default_factory=dict)
    sequences: Mapping[int, tuple[tuple[int, Tensor], ...]] = field(default_factory=dict)
    growing: AbstractSet[int] = frozenset()

    @property
    def dynamic(self) -> bool:
        """Whether a run may have other shapes."""
        counted = any(tensor.counted for tensor in self.graph.tensors.values())
        return self.open or self.contradictions > 0 or bool(self.run_values) or counted


def assembled(
    nodes: Sequence[Node],
    tensors: MutableMapping[int, Tensor],
    outputs: Iterable[int],
    **fields: Any,
) -> Graph:
    """Returns the graph of these nodes, with the other `fields`. Tensors that are read and not
    written are its inputs, and `outputs` that are written its outputs. Calls `annotate` on
    `tensors`."""
    made = {t for node in nodes for t in node.outputs}
    read = {t for node in nodes for t in node.reads}
    stored = {t for node in nodes if ops.traits(node.op).stored
              for t in (*node.reads, *node.outputs)}  # fmt: skip
    annotate(read, tensors, stored)
    return Graph(
        tensors={t: tensors[t] for t in sorted(made | read)},
        nodes=tuple(nodes),
        inputs=tuple(sorted(t for t in read - made if tensors[t].data is None)),
        outputs=tuple(dict.fromkeys(t for t in outputs if t in made)),
        **fields,
    )


def annotate(
    read: Iterable[int], tensors: MutableMapping[int, Tensor], stored: Collection[int] = ()
) -> None:
    """Gives the unquantized 8-bit and 16-bit integer tensors among `read`, and all among `stored`,
    the quantization NUMBERS (scale 1, zero point 0): the device holds them as float32, which
    represents them exactly."""
    for index in {*read, *stored}:
        tensor = tensors[index]
        constant = tensor.data is not None and index not in stored
        if tensor.dtype in SMALL and tensor.quantization is None and not constant:
            tensors[index] = replace(tensor, quantization=NUMBERS)
