"""Imports a host's graph, given as plain data, into a Graph: evaluates, builds or refuses each node
in order of execution.

Derives shapes from those of the inputs, including small integer values, so that a model can be
imported for any shapes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from tflgpu_plugin.errors import Unsupported, defect
from tflgpu_plugin.importer import building, counts, doubles, row_conditions, run_values
from tflgpu_plugin.importer.builder import Builder, cast_array
from tflgpu_plugin.importer.folding import MAX_SHAPE_ELEMENTS
from tflgpu_plugin.importer.imported import Facts, Imported, Table, assembled
from tflgpu_plugin.importer.model import HostExtent, HostModel, HostNode, Value
from tflgpu_plugin.importer.plain import Plain, states
from tflgpu_plugin.importer.state import State, widened
from tflgpu_plugin.importer.support import Judge
from tflgpu_plugin.ir import (
    BFLOAT16,
    Array,
    HostOp,
    ImpossibleShapeRefusal,
    Node,
    Refusal,
    Shape,
    ShapeRefusal,
    Tensor,
)
from tflgpu_plugin.ops import rows as op_rows
from tflgpu_plugin.passes.quant.dequantize import known

FIRST_EXTRA = 1 << 24  # ids of inserted nodes start here, above those of hosts
LARGEST_IN_A_RUN = 1 << 24  # elements of results that were shape arithmetic in the first plan
DECIDES = Refusal(
    "dynamic.value", "Its result decides shapes or branches, so that the CPU computes it."
)


def import_(model: HostModel, table: Table, facts: Facts) -> Imported:
    """Imports a model. `table` has the operators of its host."""
    guesses, left = dict(facts.run_values), set[int]()
    while True:
        symbols = None if facts.symbols is None else dict(facts.symbols)
        importer = _Importer(model, table, facts, symbols, guesses, left)
        plain = Plain(importer)  # not a member: a cycle would keep constants
        known = len(guesses), len(left)
        for node in model.nodes:
            importer.visit(node, plain)
        if (len(guesses), len(left)) == known:  # else an earlier node may have missed a new guess
            found = importer.finish()
            return judged(found, facts.judge) if facts.judge else found


class _Importer(State):
    def visit(self, host: HostNode, plain: Plain) -> None:
        """Adds one node: evaluated if its result is known, built if it has kernels, or refused."""
        row, inputs = self.table.row(host), self.operands(host)
        if self.facts.symbolic and self._are_known(inputs):  # not always so its result
            row = self.table.arithmetic.get(host.title, row)
        try:
            if not self.table.keeps_folded and self._evaluate(host, inputs):
                return
            if host.id in self.left:
                raise Unsupported(DECIDES)
            if host.provider:
                raise Unsupported(self.table.refusal(host))
            if row is None or row.build is None or host.refusal:
                plain.visit(host)
            else:
                self._build(host, row, inputs)
        except Unsupported as reason:
            if isinstance(reason.sentence, ShapeRefusal):
                self.shape_refused.add(host.id)
            if isinstance(reason.sentence, ImpossibleShapeRefusal):
                self.impossible.add(host.id)
            if reason.sentence.code == "constant.required":
                self._ask(host, inputs)
            if reason.sentence.code == "operator.host_only":
                run_values.leave(self, host, row)
            sentence = reason.sentence
            if row is not None and row.singles and sentence.code == "dtype.unsupported":
                sentence = doubles.hinted(self.model, host, sentence)
            self._refuse(host, inputs, sentence)
        except Exception as error:  # a defect in one node must not affect others
            self._refuse(host, inputs, _fault(error, host, row))

    def _are_known(self, inputs: Sequence[int | None]) -> bool:
        """Whether the values of all inputs are known before a run, as numbers or as symbols."""
        return all(t is None or self.tensors.table[t].data is not None for t in inputs)

    def _ask(self, host: HostNode, inputs: Sequence[int | None]) -> None:
        """Asks for the values of a run that a node needs, which shape arithmetic guesses from a few
        integers."""
        row = self.table.arithmetic.get(host.title)
        short = row is not None and all(map(self.is_short, host.reads))
        run_values.ask(self, host, self.builder(host, row, inputs) if row and short else None)

    # ---- evaluate -----------------------------------------------------------------------------

    def _evaluate(self, host: HostNode, inputs: list[int | None]) -> bool:
        """Evaluates a node whose inputs are constants: its row builds it, and each op that the row
        adds is evaluated. Returns whether all results are constants."""
        if self.planned is not None and host.id not in self.planned:
            return False
        largest = MAX_SHAPE_ELEMENTS if self.planned is None else LARGEST_IN_A_RUN
        row = self.table.arithmetic.get(host.title) or self._computed(host, inputs, largest)
        if row is None or row.build is None:
            return False
        builder = self.builder(host, row, inputs, known_limit=largest)
        results = building.evaluate(builder, (*self.every, *row.conditions))
        if results is None or len(results) < len(host.outputs):
            return False
        pairs = zip(host.outputs, results, strict=False)
        named = {key: _constant(self.model.values[key], one) for key, one in pairs if key}
        self.ids |= {key: self.tensors.add(one) for key, one in named.items()}
        if counts.depends_on_count(builder):
            self._evaluate_trials(builder)
        self.arithmetic.add(host.id)
        return True

    def _evaluate_trials(self, e: Builder) -> None:
        """Evaluates a node whose inputs depend on a count for each of `counts.TRIAL_COUNTS`. Raises
        Unsupported for a node of a plan that does not preserve the count."""
        values, asked = list[list[Array]](), (*self.every, *e.row.conditions)
        for given in counts.inputs_per_trial(e):
            inputs = [None if t is None else self.tensors.add(t) for t in given]
            with suppress(Unsupported):
                again = self.builder(e.host, e.row, inputs, e.known_limit)
                found = building.evaluate(again, asked) or ()
                values.append([t.data for t in found if t.data is not None])
        made = [self.ids[key] for key in e.host.writes]
        complete = len(values) == len(counts.TRIAL_COUNTS) and all(values)
        if complete and counts.record_trials(e, made, values):
            self.keeping.add(e.host.id)
        elif self.planned is not None:
            raise counts.not_preserved(e)

    def _computed(
        self, host: HostNode, inputs: Sequence[int | None], largest: int
    ) -> HostOp | None:
        """Returns the row of a node whose inputs are all constants of at most `largest` elements,
        else None; also None where the host rounds bfloat16 results in its own way."""
        row, table = self.table.row(host), self.tensors.table
        given = [table[t] for t in inputs if t is not None]
        if row is None or not given or (row.rounds and any(t.dtype == BFLOAT16 for t in given)):
            return None
        known = all(t.data is not None and t.data.size <= largest for t in given)
        return row if known else None

    # ---- build --------------------------------------------------------------------------------

    def _build(self, host: HostNode, row: HostOp, inputs: list[int | None]) -> None:
        builder = self.builder(host, row, inputs)
        run_values.guess(self, builder)
        most = counts.MAX_ELEMENTS if self.planned is None else counts.MAX_ELEMENTS_IN_A_RUN
        kept = counts.result_axis(builder)
        if kept is None and self.planned is not None and counts.depends_on_count(builder):
            raise counts.not_preserved(builder)
        asked = (*self.every, *row.conditions)
        if row.op:
            asked += (*self.table.kernels, row_conditions.shaped)
        if reason := row_conditions.unmet(asked, builder):
            raise Unsupported(reason)
        made = building.build(builder)
        lists = self.tensors.sequences
        known = [t for t in made if t is not None and (t in lists or builder.known(t))]
        if not builder.nodes and len(known) == len(made):
            self.ids |= zip(host.writes, known, strict=True)
            self.arithmetic.add(host.id)
            return
        if self.planned is not None and host.id in self.planned and not self.facts.symbolic:
            said = f"The result of {host.title} cannot be computed before a run."
            raise Unsupported.of("dynamic.value", said)
        if self.facts.inner:
            made = self._without_constants(host, builder, made)
        outputs = _fresh(builder, made)
        pairs = zip(host.outputs, outputs, strict=False)
        named = [(key, t) for key, t in pairs if key and t is not None]
        if not self.ids.keys() | dict(named).keys() >= {*host.writes}:
            many = f"{len(host.writes)} outputs of {host.title} are not supported."
            raise Unsupported.of("output.unsupported", many)
        if kept is not None and counts.mark_counted(builder, kept, [t for _, t in named], most):
            self.keeping.add(host.id)
        elif kept is not None and self.planned is not None:
            raise counts.not_preserved(builder)
        self._check(builder, named)
        for key, tensor in named:
            stated, table = self.model.values[key], self.tensors.table
            held = replace(table[tensor], name=stated.name)
            table[tensor] = doubles.typed(self.model, stated, held)
            self.ids[key] = tensor
        self._append(host, builder)

    def _without_constants(
        self, host: HostNode, builder: Builder, made: list[int | None]
    ) -> list[int | None]:
        """Sets the results of a node that are constants, as a counter that a loop hands over as it
        was, and returns the others: None in place of a constant."""
        known = [t is not None and builder.known(t) for t in made]
        self.ids |= {
            key: t for key, t, is_known in zip(host.outputs, made, known, strict=False)
            if key and t is not None and is_known
        }  # fmt: skip
        return [None if is_known else t for t, is_known in zip(made, known, strict=True)]

    def _check(self, builder: Builder, named: list[tuple[str, int]]) -> None:
        """Raises Unsupported if a shape stated by the host contradicts the derived one. Ignores
        shapes that the host's shape inference rounds differently from its kernels or does not
        check, and shapes that depend on those."""
        unsure = self.misled | self.run_values.keys()
        follows = not unsure.isdisjoint(builder.host.reads)
        unreliable = builder.misinferred or builder.row.uninferred
        for key, tensor in named:
            stated, found = self.model.values[key].shape, self.tensors.table[tensor].shape
            if stated is None:
                continue
            counted = self.tensors.table[tensor].counted
            bounds = found if counted is None else _below(found, stated, counted[0])
            fits = len(stated) == len(bounds) and all(map(self._agree, stated, bounds))
            if not fits:
                self.contradictions += 1
                off = builder.scaled and _one_off(stated, found)
                if follows or unreliable or off:
                    self.misled.add(key)
                    continue
                name = self.model.values[key].name
                raise Unsupported.of(
                    "shape.contradiction",
                    f"Tensor {name!r} has shape {_written(stated)} in the model, but the inputs "
                    f"give {list(found)}.",
                )

    def _agree(self, stated: HostExtent, found: int) -> bool:
        """Whether the extent that the host states can equal the derived one. If the stated one is a
        name without a number, it gets the derived extent."""
        if isinstance(stated, int):
            return stated == found
        if self.symbols is not None:
            self.symbols.setdefault(stated, found)
        return True

    def _append(self, host: HostNode, builder: Builder) -> None:
        common: dict[str, Any] = {
            "name": host.name or next(iter(host.writes), ""),
            "host_op": host.title,
            "version": host.version,
            "row": builder.row,
            "sources": (host.id,),
        }
        first = FIRST_EXTRA + len(self.nodes)
        # Beside other nodes of the operator, those that only arrange elements are layout changes.
        arranging = [bool(op_rows()[node.op].arranges) for node in builder.nodes]
        for k, node in enumerate(builder.nodes):
            number = host.id if k == len(builder.nodes) - 1 else first + k
            layout = arranging[k] and not all(arranging)
            self.nodes.append(replace(node, id=number, layout=layout, **common))
            self.note_computed(node)

    # ---- refuse -------------------------------------------------------------------------------

    def _refuse(self, host: HostNode, inputs: list[int | None], sentence: Refusal) -> None:
        outputs = []
        for key in host.writes:
            stated = self.model.values[key]
            tensor = Tensor(stated.name, self.stated_shape(stated))
            tensor = doubles.typed(self.model, stated, tensor)
            tensor = self.of_a_run(key) if key in self.run_values else tensor
            number = int(key) if self.model.numbered else None
            self.ids[key] = self.tensors.add(tensor, number)
            outputs.append(self.ids[key])
        reads = [t for t in inputs if t is not None] + [self.tensor(k) for k in host.implicit]
        node = Node(
            host.id, "", tuple(reads), tuple(outputs), name=host.name or host.op,
            host_op=host.title, version=host.version, row=self.table.row(host),
            sources=(host.id,),
        )  # fmt: skip
        self.nodes.append(node)
        self.refusals[host.id] = sentence

    def finish(self) -> Imported:
        outputs = [self.ids[key] for key in self.model.outputs if key in self.ids]
        results = (
            (k, self.tensors.table[self.ids[k]]) for k in self.model.outputs if k in self.ids
        )
        pairs = tuple(pair for node in self.nodes for pair in states(node))
        stated: dict[str, Any] = {
            "states": pairs, "chained": tuple(sorted(self.chained)),
            "fused": self.model.fused, "ordered": self.model.ordered,
        }  # fmt: skip
        return Imported(
            model=self.model,
            table=self.table,
            refusals=self.refusals,
            graph=assembled(self.nodes, self.tensors.table, outputs, **stated),
            ids=self.ids,
            arithmetic=frozenset(self.arithmetic),
            shape_refused=frozenset(self.shape_refused),
            impossible=frozenset(self.impossible),
            keeping=frozenset(self.keeping),
            counted=self._counted(),
            growing=frozenset(self.tensors.growing),
            run_values=self.run_values,
            contradictions=self.contradictions,
            constants={key: held for key, held in results if held.data is not None},
            sequences={
                made: tuple((t, self.tensors.table[t]) for t in listed)
                for made, listed in self.tensors.sequences.items()
            },
        )

    def _counted(self) -> dict[str, int]:
        """Returns, by the key of each value that depends on a count, the host node that counts."""
        makers = {t: node.sources[0] for node in self.nodes for t in node.outputs}
        table, trials = self.tensors.table, self.tensors.trials
        found = {}
        for key, tensor in self.ids.items():
            held = table[tensor].counted
            if held is not None or tensor in trials:
                found[key] = makers[trials[tensor].count if held is None else held[1]]
        return found


def judged(found: Imported, judge: Judge) -> Imported:
    """Returns the import with reasons for all nodes that cannot run: the only place that asks for
    support. Constants that nodes convert to float32 are known afterwards."""
    graph = known(found.graph, judge.made)
    reasons = judge.reasons(graph, found.refusals)
    new = frozenset(reasons.keys() - found.refusals.keys())
    refusals = {**found.refusals, **reasons}
    return replace(found, graph=graph, refusals=refusals, judged=new, options=judge.options)


def _fault(error: Exception, host: HostNode, row: HostOp | None) -> Refusal:
    """Returns the refusal of a node whose import failed; it names the module of a third party's
    row."""
    asked = (row.build, *row.conditions) if row else ()
    modules = [str(getattr(getattr(f, "func", f), "__module__", "")) for f in asked if f]
    ours = __name__.partition(".")[0]
    theirs = [module for module in modules if module.partition(".")[0] != ours]
    what = f"Importing {host.title}"
    return defect(error, what, f"in the row of {theirs[0]}") if theirs else defect(error, what)


def _below(bounds: Shape, stated: tuple[HostExtent, ...], axis: int) -> Shape:
    """Returns the shape with the stated extent on the axis whose length is counted in a run, if the
    stated extent is lower."""
    extent = stated[axis] if axis < len(stated) else bounds[axis]
    known = extent if isinstance(extent, int) else bounds[axis]
    return (*bounds[:axis], min(known, bounds[axis]), *bounds[axis + 1 :])


def _one_off(stated: tuple[HostExtent, ...], found: Shape) -> bool:
    """Whether known extents differ by at most one."""
    pairs = zip(stated, found, strict=True) if len(stated) == len(found) else [(0, 2)]
    return all(abs(a - b) <= 1 for a, b in pairs if isinstance(a, int))


def _fresh(builder: Builder, outputs: list[int | None]) -> list[int | None]:
    """Returns a node's outputs as tensors that nothing else uses: copies any that is an input, a
    constant or another output. None stands for an output that was not made."""
    made = {t for node in builder.nodes for t in node.outputs}
    found: list[int | None] = []
    for tensor in outputs:
        listed = tensor is not None and builder.elements(tensor) is not None
        if tensor is not None and not listed and (tensor not in made or tensor in found):
            tensor = builder.reshape(tensor, builder.shape(tensor))
        found.append(tensor)
    return found


def _constant(stated: Value, result: Tensor) -> Tensor:
    """Returns a known result, converted to the type that the model states for it."""
    array = result.data
    assert array is not None
    data = cast_array(array, stated.dtype)
    return widened(Tensor(stated.name, data.shape, stated.dtype, data, result.quantization))


def _written(shape: tuple[HostExtent, ...]) -> str:
    return "[" + ", ".join(str(e) if isinstance(e, int) else "?" for e in shape) + "]"
