"""Finds recurrent layers among the loops of a model: the loops that Keras 3 and similar exporters
write for LSTM, GRU and simple recurrent layers, recognized by what the body computes (`loop_body`),
not by how it is written.

The weights of the gates are put into the order of `ops.recurrent_layer`. Every value that the loop
carries must have a known use; a loop that computes anything else is refused (Unsupported, with a
sentence)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np

from tflgpu_plugin.importer.imported import Facts, Table
from tflgpu_plugin.importer.importer import import_
from tflgpu_plugin.importer.loop_body import Forms, otherwise
from tflgpu_plugin.importer.loop_values import (
    Below,
    Carried,
    Counter,
    Listed,
    Numbers,
    Slab,
    Vector,
)
from tflgpu_plugin.importer.model import HostModel
from tflgpu_plugin.ir import Array, Graph, Tensor
from tflgpu_plugin.ops.gate_functions import BASIC_FUNCTIONS


@dataclass(frozen=True)
class Layer:
    """A recurrent layer. `sequence` and `states` are positions among the values that the loop
    carries, `attributes` are those of the op, and `results` maps positions to the op's outputs: "y"
    (the output of all steps or the last one), "h" and "c" (the states). `content_bias` is added to
    the state's part of the last gate before the reset gate multiplies that (GRU)."""

    sequence: int
    states: tuple[int, ...]
    weights: Array
    recurrent: Array
    bias: Array | None
    content_bias: Array | None
    attributes: Mapping[str, Any]
    results: Mapping[int, str] = field(default_factory=dict)


class Gate(NamedTuple):
    """A gate: weights of the input, weights of the state, and biases."""

    weights: Slab
    recurrent: Slab
    biases: tuple[Slab, ...]


class Cell(NamedTuple):
    """The computation of a step: its name ("lstm", "gru", "rnn"), its gates, the biases `content`
    of the state's part of the last gate, and attributes of the op."""

    op: str
    gates: tuple[Gate, ...]
    content: tuple[Slab, ...]
    attributes: Mapping[str, Any]


def read(model: HostModel, table: Table) -> Graph:
    """Imports the graph `model` that a loop runs, without constant folding."""
    found = import_(model, table, Facts(arithmetic=()))
    tensors = dict(found.graph.tensors)
    for key in (*model.given, *model.outputs):
        value = model.values[key]
        shape = tuple(n for n in value.shape or () if isinstance(n, int))
        tensors.setdefault(found.ids[key], Tensor(value.name, shape, value.dtype, value.data))
    inputs, outputs = (tuple(found.ids[k] for k in ks) for ks in (model.given, model.outputs))
    return replace(found.graph, tensors=tensors, inputs=inputs, outputs=outputs)


def layer(given: Sequence[Tensor], condition: Graph, body: Graph) -> Layer:
    """Returns the layer that a loop computes. `given` are the initial values that it carries; its
    counters must begin as constants. Raises Unsupported."""
    forms = Forms(dict(body.tensors))
    made = forms.run(body, given)
    if len(made) != len(given):
        raise otherwise(f"its body returns {len(made)} values, but it carries {len(given)}")
    steps = _steps(given, condition)
    states, lists = _kinds(given, made)
    sequence, row = _sequence(forms, given, made, steps)
    order, cell = _cell(forms, states, row)
    hidden = states[order[0]]
    for k, value in lists.items():
        whole = (steps, hidden.rows, hidden.width)
        if value.position != k or value.counter.more or given[k].shape != whole:
            raise otherwise(f"value {k} is not a list of all its steps")
    gates, tensors = cell.gates, forms.tensors
    return Layer(
        sequence,
        order,
        np.concatenate([_rows(tensors, gate.weights) for gate in gates]),
        np.concatenate([_rows(tensors, gate.recurrent) for gate in gates]),
        _biases(tensors, [gate.biases for gate in gates], hidden.width),
        _biases(tensors, [cell.content], hidden.width),
        {
            "cell": cell.op,
            "every": bool(lists),
            "steps": steps,
            "batch": hidden.rows,
            **cell.attributes,
        },
        _results(order, states, lists),
    )


def _kinds(
    given: Sequence[Tensor], made: Sequence[Any]
) -> tuple[dict[int, Vector], dict[int, Listed]]:
    """Returns the carried values that a step computes, and the carried lists in which it writes a
    row, both by position. All other values must be counters or unchanged."""
    states = {k: value for k, value in enumerate(made) if isinstance(value, Vector)}
    lists = {k: value for k, value in enumerate(made) if isinstance(value, Listed)}
    for k, value in enumerate(made):
        known = k in states or k in lists or value == Carried(k)
        if not known and not _counts(k, value, given[k]):
            raise otherwise(f"it changes value {k} in an unknown way")
    return states, lists


def _sequence(
    forms: Forms, given: Sequence[Tensor], made: Sequence[Any], steps: int
) -> tuple[int, int]:
    """Returns the position of the sequence, and the number of the expression for a step's row."""
    rows = {parts[1:] for parts in forms.made if parts[0] == "row"}
    if len(rows) != 1:
        raise otherwise("it does not read exactly one sequence")
    ((sequence, counter),) = rows
    if counter.more or made[sequence] != Carried(sequence):
        raise otherwise("it does not read a sequence row by row")
    if not 0 < steps <= given[sequence].shape[0]:
        raise otherwise(f"it takes {steps} steps over a sequence of {given[sequence].shape[0]}")
    return sequence, forms.form("row", sequence, counter)


def _results(
    order: Sequence[int], states: Mapping[int, Vector], lists: Mapping[int, Listed]
) -> dict[int, str]:
    """Returns the op's outputs by position: "h" and "c" for the states in `order`, "y" for a list
    of the steps' outputs or a state that no step reads."""
    results = dict(zip(order, "hc", strict=False))
    others = {k: value.form for k, value in lists.items()}
    others |= {k: value.form for k, value in states.items() if k not in order}
    if len(others) > 1 or any(form != states[order[0]].form for form in others.values()):
        raise otherwise("it returns something other than the output of its steps")
    return results | dict.fromkeys(others, "y")


def _counts(position: int, value: Any, start: Tensor) -> bool:
    """Whether the value is a counter that begins at 0 and grows by 1 at each step."""
    if value != Numbers((Counter(position, 1),)):
        return False
    return start.data is not None and not start.data.any()


def _steps(given: Sequence[Tensor], condition: Graph) -> int:
    """Returns the number of steps of the loop, the least limit in its condition. This holds if all
    integers that it carries are counters."""
    forms = Forms(dict(condition.tensors))
    (end,) = forms.run(condition, given) if len(condition.outputs) == 1 else (None,)
    if not isinstance(end, Below):
        raise otherwise("its condition is not a comparison of a counter with a constant")
    for counter, _ in end.limits:
        if counter.more:
            raise otherwise("its condition compares a value that does not count from 0")
    return min(limit for _, limit in end.limits)


def _cell(forms: Forms, states: Mapping[int, Vector], row: int) -> tuple[tuple[int, ...], Cell]:
    """Returns the positions of the states that a step reads, in the op's order, and its cell."""
    read = {parts[1] for parts in forms.made if parts[0] == "state"}
    own = tuple(k for k in states if k in read)
    for order in (own, own[::-1]):
        step = _Step(forms, row, [forms.form("state", k) for k in order])
        next_states = [states[k].form for k in order]
        if len(own) == 2:
            found = [step.lstm(*next_states)]
        else:
            found = [step.gru(*next_states), step.rnn(*next_states)] if len(own) == 1 else []
        for cell in found:
            if cell is not None and _fits(cell, states[order[0]].width):
                return order, cell
    raise otherwise("its step is not that of an LSTM, GRU or simple recurrent layer")


def _fits(cell: Cell, units: int) -> bool:
    """Whether the weights and biases of every gate have one row for each unit."""
    found = [slab for gate in cell.gates for slab in (gate.weights, gate.recurrent)]
    return all(slab.stop - slab.start == units for slab in found)


@dataclass(frozen=True)
class _Step:
    """Patterns over the expressions of one step. `row` and `states` are the numbers of the
    expressions for the sequence's row and for the states before the step."""

    forms: Forms
    row: int
    states: Sequence[int]

    def lstm(self, h: int, c: int) -> Cell | None:
        """Matches c = f * c + i * tanh(g), h = o * tanh(c)."""
        leave = self._times(h, self.forms.numbers.get(("tanh", c)))
        for forgotten, added in self._orders("add", c):
            forget = self._times(forgotten, self.states[1])
            for first, second in self._orders("mul", added):
                parts = [self._under("logistic", first), self._under("logistic", forget),
                         self._under("tanh", second), self._under("logistic", leave)]  # fmt: skip
                gates = [self._gate(part, self.states[0]) for part in parts]
                if all(gates):
                    return Cell("lstm", tuple(g for g in gates if g), (), {"gates": "ifco"})
        return None

    def gru(self, h: int) -> Cell | None:
        """Matches h = u * h + (1 - u) * tanh(n). The reset gate r multiplies h before the product
        with the weights of n, or the product."""
        for kept, new in self._orders("add", h):
            update = self._times(kept, self.states[0])
            rest = self.forms.numbers.get(("rest", update))
            first = self._gate(self._under("logistic", update), self.states[0])
            last = first and self._content(self._under("tanh", self._times(new, rest)))
            if first and last:
                reset, gate, biases, linear = last
                found = self._gate(self._under("logistic", reset), self.states[0])
                if found:
                    return Cell("gru", (first, found, gate), biases, {"linear": linear})
        return None

    def rnn(self, h: int) -> Cell | None:
        """Matches h = activation of a sum of products of the input and of h."""
        name, *parts = self.forms.made[h]
        gate = self._gate(parts[0], self.states[0]) if name in BASIC_FUNCTIONS else None
        return gate and Cell("rnn", (gate,), (), {"activation": name})

    def _content(self, form: int | None) -> tuple[int, Gate, tuple[Slab, ...], bool] | None:
        """Returns the parts of a GRU's new content: the number of the reset gate's expression, the
        gate that computes the content, the biases that the reset gate multiplies too, and whether
        the reset gate multiplies the product of state and weights, not the state."""
        for straight, turned in self._orders("add", form):
            for reset, of_state in self._orders("mul", turned):
                here, there = self._parts(straight), self._parts(of_state)
                if list(here[0]) == [self.row] and list(there[0]) == [self.states[0]]:
                    gate = Gate(here[0][self.row], there[0][self.states[0]], here[1])
                    return reset, gate, there[1], True
        for factor in self._parts(form)[0]:
            found, block = self._times(factor, self.states[0]), self._gate(form, factor)
            if found is not None and block:
                return found, block, (), False
        return None

    def _gate(self, form: int | None, state: int) -> Gate | None:
        """Returns the gate of a sum of one product with the row, one with the expression `state`,
        and biases; None for another expression."""
        factors, biases = self._parts(form)
        if set(factors) != {self.row, state}:
            return None
        return Gate(factors[self.row], factors[state], biases)

    def _parts(self, form: int | None) -> tuple[dict[int, Slab], tuple[Slab, ...]]:
        """Returns the weights of a linear expression by the factor that they multiply, and its
        biases; ({}, ()) for another expression, or where a factor has two weights."""
        slabs = self.forms.slabs(form)
        factors = {slab.factor: slab for slab in slabs if slab.factor is not None}
        biases = tuple(slab for slab in slabs if slab.factor is None)
        whole = len(factors) + len(biases) == len(slabs)
        return (factors, biases) if whole else ({}, ())

    def _orders(self, name: str, form: int | None) -> Sequence[tuple[int, int]]:
        """Returns the operands of the binary expression `name` in both orders; [] for another
        expression."""
        return [*permutations(self.forms.parts(name, form), 2)]

    def _times(self, form: int | None, factor: int | None) -> int | None:
        """Returns the other factor of a product with `factor`, None for another expression."""
        return next((a for a, b in self._orders("mul", form) if b == factor), None)

    def _under(self, name: str, form: int | None) -> int | None:
        """Returns the argument of the function `name`, None for another expression."""
        return next(iter(self.forms.parts(name, form)), None)


def _rows(tensors: Mapping[int, Tensor], slab: Slab) -> Array:
    data = tensors[slab.tensor].data
    assert data is not None
    return np.asarray(data[slab.start : slab.stop])


def _biases(
    tensors: Mapping[int, Tensor], blocks: Sequence[Sequence[Slab]], units: int
) -> Array | None:
    """Returns an array with the sum of `blocks[k]` for each gate k; None if all are empty."""
    if not any(blocks):
        return None
    found = np.zeros((len(blocks), units), np.float32)
    for k, slabs in enumerate(blocks):
        for slab in slabs:
            data = tensors[slab.tensor].data
            assert data is not None
            found[k] += data.reshape(-1)[slab.start : slab.stop]
    return found.reshape(-1)
