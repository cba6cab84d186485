"""From a snapshot of an ONNX graph, with a shape for each input, to a Graph of the op contract.

Every shape is worked out anew from the inputs' shapes, small integer values included, so that one
snapshot can be read for any shapes. ONNX shapes are kept as they are: layout-sensitive ops get
transposes around them, which a pass cancels.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tflgpu_plugin.errors import Unsupported
from tflgpu_plugin.importer import meanings, reading, support
from tflgpu_plugin.importer.symbols import value
from tflgpu_plugin.ir.bfloat16 import BFLOAT16
from tflgpu_plugin.ir.graph import Array, Node, Shape, Tensor
from tflgpu_plugin.ir.host_op import HostOp
from tflgpu_plugin.ir.refusal import Impossible, Refusal, Unfit
from tflgpu_plugin.ops import evaluation
from tflgpu_plugin.ops import rows as op_rows

from . import EP_NAME, ops, rounding, run_values
from .arithmetic import CPU_OPS
from .conditions import EVERY, filled
from .expansion import Expansion, Tensors, cast_array
from .snapshot import Extent, HostNode, Snapshot, Value

FIRST_EXTRA = 1 << 24  # ids of inserted nodes start here: apart from onnxruntime's
UNKNOWN = (-1,)
LARGEST_IN_A_RUN = 1 << 24  # elements of what was shape arithmetic for the first plan's shapes
TAKEN = (
    "onnxruntime has given it to {}, which the session names first. Name " + EP_NAME + " before it."
)
# Operators that stay with the host, by the reason.
REASONS = {
    "onnxruntime runs it; the nodes of the graphs inside it are placed one by one.": "If Loop Scan",
    "It makes random numbers, which would not be the host's.": "Bernoulli Multinomial RandomNormal "
    "RandomNormalLike RandomUniform RandomUniformLike",
    "It works on text.": "RegexFullMatch StringConcat StringNormalizer StringSplit TfIdfVectorizer",
    "It works on lists of tensors, or on what may be none.": "ConcatFromSequence Optional "
    "OptionalGetElement OptionalHasElement SequenceAt SequenceConstruct SequenceEmpty "
    "SequenceErase SequenceInsert SequenceLength SequenceMap SplitToSequence",
    "It makes maps from labels to numbers.": "ai.onnx.ml:ZipMap",
    "It reads a compressed picture.": "ImageDecoder",
}
LEFT = {
    name: Refusal("operator.host_only", reason)
    for reason, names in REASONS.items()
    for name in names.split()
}


@dataclass(frozen=True, kw_only=True)
class Reading(reading.Reading):
    """`graph` holds what needs a kernel; `arithmetic` are the ids of nodes whose results are known
    and which are therefore not in it. `ids` gives the tensor of a value. A node of the host that
    became several has its own id on the last of them, and in `sources` of all. `impossible` are
    those of the `unfit` that no host takes; `guessed` are nodes that were refused for the guess at
    open extents: another one suited them. `run_values` were guessed: runs tell
    them.
    """

    ids: dict[str, int]
    arithmetic: frozenset[int]
    impossible: frozenset[int] = frozenset()
    guessed: frozenset[int] = frozenset()
    run_values: Mapping[str, Array] = field(default_factory=dict)


def read(
    snapshot: Snapshot,
    shapes: Mapping[str, Shape],
    symbols: Mapping[str, int] | None = None,
    arithmetic: Collection[int] | None = None,
    run_values: Mapping[str, Array] | None = None,
) -> Reading:
    """Read the snapshot. `shapes` are those of its inputs where the model leaves them open;
    `symbols` gives numbers for named extents: those that it does not name are what they are found
    to be first, or 1. Once a partition is planned, `arithmetic` are its nodes that were shape
    arithmetic then: they stay it for any shapes, however large, and no others become it.
    `run_values` come from outside and are what plans are made for; before a run they are guessed.
    """
    guesses = dict(run_values or {})
    while True:
        numbers = None if symbols is None else dict(symbols)
        reader = _Reader(snapshot, shapes, numbers, arithmetic, guesses)
        known = len(guesses)
        for node in snapshot.nodes:
            reader.visit(node)
        if len(guesses) == known:  # else a node before may have taken one for unknown
            return reader.finish()


@dataclass
class _Reader:
    snapshot: Snapshot
    shapes: Mapping[str, Shape]
    symbols: dict[str, int] | None
    planned: Collection[int] | None
    run_values: dict[str, Array]
    tensors: Tensors = field(default_factory=Tensors)
    ids: dict[str, int] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    arithmetic: set[int] = field(default_factory=set)
    contradictions: int = 0
    misled: set[str] = field(default_factory=set)  # values whose shape the host infers wrongly
    unfit: set[int] = field(default_factory=set)
    impossible: set[int] = field(default_factory=set)

    def visit(self, host: HostNode) -> None:
        """Add one node, in one of three ways: its result is known, it has kernels, or it is
        refused."""
        inputs = [None if name is None else self.tensor(name) for name in host.inputs]
        try:
            if self._fold(host, inputs):
                return
            self._expand(host, inputs)
        except Unsupported as reason:
            if isinstance(reason.sentence, Unfit):
                self.unfit.add(host.id)
            if isinstance(reason.sentence, Impossible):
                self.impossible.add(host.id)
            self._refuse(host, inputs, reason.sentence)

    def tensor(self, name: str) -> int:
        """The tensor of a value; one that nothing has made yet is an input or a constant."""
        if name not in self.ids:
            self.ids[name] = self.tensors.add(self._outside(self.snapshot.values[name]))
        return self.ids[name]

    def _outside(self, value: Value) -> Tensor:
        if value.data is not None:
            return _widened(Tensor(value.name, value.data.shape, value.dtype, value.data))
        if value.name in self.run_values:
            return self._of_a_run(value)
        shape = self.shapes.get(value.name, self._host_shape(value))
        return Tensor(value.name, UNKNOWN if shape is None else shape, value.dtype)

    def _of_a_run(self, value: Value) -> Tensor:
        data = self.run_values[value.name]
        return Tensor(value.name, data.shape, value.dtype, data)

    def _guess(self, expansion: Expansion) -> None:
        """Values from outside that this node's shapes depend on become known, by a guess."""
        for position in expansion.row.deciding if self.planned is None else ():
            name = next(iter(expansion.host.inputs[position : position + 1]), None)
            if name is None or expansion.known(expansion.x(position)) or not self._is_outside(name):
                continue
            made, value = self.snapshot.values[expansion.host.writes[0]], self.snapshot.values[name]
            result = run_values.known_shape(made)
            guess = run_values.guess(expansion, position, value, result)
            if guess is not None:
                self.run_values[name] = guess
                expansion.inputs = [self.tensors.add(self._of_a_run(value)) if k == position else t
                                    for k, t in enumerate(expansion.inputs)]  # fmt: skip

    def _is_outside(self, name: str) -> bool:
        """No node of ours makes the value."""
        return not any(self.ids[name] in node.outputs for node in self.nodes if not node.refusal)

    def _host_shape(self, told: Value) -> Shape | None:
        """The shape as the host tells it, open extents from `symbols`."""
        if told.shape is None:
            return None
        found = [e if isinstance(e, int) else self._number(e) for e in told.shape]
        return None if any(extent < 0 for extent in found) else tuple(found)

    def _number(self, name: str) -> int:
        """The guess at an open extent, -1 where nothing is to be guessed."""
        if self.symbols is None:
            return -1
        return self.symbols.get(name) or value(name, self.symbols) or 1

    def _fold(self, host: HostNode, inputs: list[int | None]) -> bool:
        """Evaluates a node whose inputs are constants: its row builds it, and each op that the row
        adds is evaluated. Returns whether all results are constants."""
        if self.planned is not None and host.id not in self.planned:
            return False
        largest = meanings.MAX_SHAPE_ELEMENTS if self.planned is None else LARGEST_IN_A_RUN
        row = CPU_OPS.get(host.title) or self._computed(host, inputs, largest)
        if row is None:
            return False
        expansion = Expansion(host, row, self.tensors, inputs, ops.HOST_OPS, known_limit=largest)
        try:
            if support.unmet((*EVERY, *row.conditions), expansion):
                return False
            made = self._made(expansion)
        except (Unsupported, *evaluation.FAILURES):
            return False
        if len(made) < len(host.outputs) or not all(
            t is not None and expansion.known(t) for t in made
        ):
            return False
        results = [self.tensors.table[t] for t in made if t is not None]
        for name, result in zip(host.outputs, results, strict=False):
            if name is not None:
                self.ids[name] = self.tensors.add(_constant(name, result, self.snapshot.values))
        self.arithmetic.add(host.id)
        return True

    def _computed(
        self, host: HostNode, inputs: Sequence[int | None], largest: int
    ) -> HostOp | None:
        """Returns the row of a node whose inputs are all constants of at most `largest` elements,
        else None; also None where the host rounds bfloat16 results in its own way."""
        row, table = ops.HOST_OPS.get(host.title), self.tensors.table
        given = [table[t] for t in inputs if t is not None]
        if row is None or not given or (row.rounds and any(t.dtype == BFLOAT16 for t in given)):
            return None
        known = all(t.data is not None and t.data.size <= largest for t in given)
        return row if known else None

    def _expand(self, host: HostNode, inputs: list[int | None]) -> None:
        if host.provider not in ("", EP_NAME):
            raise Unsupported(Refusal("host.other_delegate", TAKEN.format(host.provider)))
        row = ops.HOST_OPS.get(host.title)
        if row is None:
            said = f"{host.title} is not in the table of this plugin."
            absent = Refusal("operator.unknown", said)
            raise Unsupported(LEFT.get(host.title, absent))
        expansion = Expansion(host, row, self.tensors, inputs, ops.HOST_OPS)
        self._guess(expansion)
        if reason := support.unmet((*EVERY, *row.conditions, filled), expansion):
            raise Unsupported(reason)
        made = self._made(expansion)
        known = [t for t in made if t is not None and expansion.known(t)]
        if not expansion.nodes and len(known) == len(made):
            self.ids |= zip(host.writes, known, strict=True)
            self.arithmetic.add(host.id)
            return
        if self.planned is not None and host.id in self.planned:
            raise Unsupported(
                Refusal(
                    "dynamic.value", f"The result of {host.title} cannot be worked out beforehand."
                )
            )
        outputs = _fresh(expansion, made)
        pairs = zip(host.outputs, outputs, strict=False)
        named = [(name, t) for name, t in pairs if name and t is not None]
        if len(named) < len(host.writes):
            raise Unsupported(
                Refusal(
                    "output.unsupported",
                    f"{len(host.writes)} outputs of {host.title} are not supported.",
                )
            )
        self._check(expansion, named)
        for name, tensor in named:
            dtype = self.snapshot.values[name].dtype
            table = self.tensors.table
            table[tensor] = replace(table[tensor], name=name, dtype=dtype)
            self.ids[name] = tensor
        self._append(host, expansion)

    def _made(self, expansion: Expansion) -> list[int | None]:
        """The outputs, by the node's row."""
        row = expansion.row
        assert row.attributes is not None
        if row.rounds:
            rounding.widen(expansion)
        found: Any = row.attributes(expansion)
        made = found if isinstance(found, list) else [found]
        if not row.rounds:
            return made
        values = self.snapshot.values
        dtypes = [None if name is None else values[name].dtype for name in expansion.host.outputs]
        return rounding.rounded(expansion, made, dtypes)

    def _check(self, expansion: Expansion, named: list[tuple[str, int]]) -> None:
        """The host's own shapes, where it knows them, must be those that were worked out; but for
        what its inference rounds otherwise than its kernels do, and what follows from that."""
        unsure = self.misled | self.run_values.keys()
        follows = not unsure.isdisjoint(expansion.host.reads)
        for name, tensor in named:
            told, found = self.snapshot.values[name].shape, self.tensors.table[tensor].shape
            if told is None:
                continue
            counted = self.tensors.table[tensor].counted
            bounds = found if counted is None else _below(found, told, counted[0])
            fits = len(told) == len(bounds) and all(map(self._agree, told, bounds))
            if not fits:
                self.contradictions += 1
                off = expansion.scaled and _one_off(told, found)
                if follows or expansion.misinferred or off:
                    self.misled.add(name)
                    continue
                raise Unsupported(
                    Refusal(
                        "shape.contradiction",
                        f"Tensor {name!r} has shape {_written(told)} in the model, but the "
                        f"inputs give {list(found)}.",
                    )
                )

    def _agree(self, told: Extent, found: int) -> bool:
        """The host's extent may be this one; a name that nothing has a number for yet gets it."""
        if isinstance(told, int):
            return told == found
        if self.symbols is not None:
            self.symbols.setdefault(told, found)
        return True

    def _append(self, host: HostNode, expansion: Expansion) -> None:
        common: dict[str, Any] = {
            "name": host.name or next(iter(host.writes), ""),
            "host_op": host.title,
            "version": host.version,
            "row": expansion.row,
            "sources": (host.id,),
        }
        first = FIRST_EXTRA + len(self.nodes)
        # Beside other nodes those that only arrange elements change a layout.
        arranging = [bool(op_rows()[node.op].arranges) for node in expansion.nodes]
        for k, node in enumerate(expansion.nodes):
            number = host.id if k == len(expansion.nodes) - 1 else first + k
            layout = arranging[k] and not all(arranging)
            self.nodes.append(replace(node, id=number, layout=layout, **common))

    def _refuse(self, host: HostNode, inputs: list[int | None], sentence: Refusal) -> None:
        outputs = []
        for name in host.writes:
            value = self.snapshot.values[name]
            shape = self._host_shape(value)
            tensor = Tensor(name, UNKNOWN if shape is None else shape, value.dtype)
            tensor = self._of_a_run(value) if name in self.run_values else tensor
            self.ids[name] = self.tensors.add(tensor)
            outputs.append(self.ids[name])
        reads = [t for t in inputs if t is not None] + [self.tensor(n) for n in host.implicit]
        node = Node(
            host.id, "", tuple(reads), tuple(outputs), name=host.name or host.op,
            host_op=host.title, version=host.version, row=ops.HOST_OPS.get(host.title),
            refusal=sentence, sources=(host.id,),
        )  # fmt: skip
        self.nodes.append(node)

    def finish(self) -> Reading:
        outputs = [self.ids[name] for name in self.snapshot.outputs if name in self.ids]
        return Reading(
            graph=reading.assembled(self.nodes, self.tensors.table, outputs),
            unfit=frozenset(self.unfit),
            contradictions=self.contradictions,
            ids=self.ids,
            arithmetic=frozenset(self.arithmetic),
            impossible=frozenset(self.impossible),
            run_values=self.run_values,
        )


def _below(bounds: Shape, told: tuple[Extent, ...], axis: int) -> Shape:
    """The shape, with what is told of the axis that a run counts where that may be."""
    extent = told[axis] if axis < len(told) else bounds[axis]
    known = extent if isinstance(extent, int) else bounds[axis]
    return (*bounds[:axis], min(known, bounds[axis]), *bounds[axis + 1 :])


def _one_off(told: tuple[Extent, ...], found: Shape) -> bool:
    """Known extents differ by one at most."""
    pairs = zip(told, found, strict=True) if len(told) == len(found) else [(0, 2)]
    return all(abs(a - b) <= 1 for a, b in pairs if isinstance(a, int))


def _fresh(expansion: Expansion, outputs: list[int | None]) -> list[int | None]:
    """Outputs that are a node's own: one that is an input, a constant or another output as it
    stands becomes a copy. None stands for one that was not made."""
    made = {t for node in expansion.nodes for t in node.outputs}
    found: list[int | None] = []
    for tensor in outputs:
        if tensor is None:
            found.append(None)
            continue
        own = tensor in made and tensor not in found
        copy = tensor if own else expansion.reshape(tensor, expansion.shape(tensor))
        found.append(copy)
    return found


def _constant(name: str, result: Tensor, values: Mapping[str, Value]) -> Tensor:
    """A known result, in the type that the model gives it."""
    dtype, array = values[name].dtype, result.data
    assert array is not None
    data = cast_array(array, dtype)
    return _widened(Tensor(name, data.shape, dtype, data, result.quantization))


def _widened(constant: Tensor) -> Tensor:
    """float16 as float32, in which constants are computed with; others as they are."""
    if constant.dtype != "f16" or constant.data is None:
        return constant
    return replace(constant, dtype="f32", data=constant.data.astype(np.float32))


def _written(shape: tuple[int | str, ...]) -> str:
    return "[" + ", ".join(str(e) if isinstance(e, int) else "?" for e in shape) + "]"
