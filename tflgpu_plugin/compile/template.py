"""Templates: plans whose numbers may be symbolic (see `ir.extent`). A template is made once; plans
for other shapes are derived by evaluating its numbers.

Native code gets the same polynomials as tables (`ir.plan.Symbols`) and evaluates them in each run,
as long as all guards hold. The buffers of a plan do not change between runs: for each symbolic size
there is a capacity, and a guard that the size does not exceed it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from struct import pack_into
from typing import Any

import numpy as np

from tflgpu_plugin.compile import compiler, memory
from tflgpu_plugin.compile.memory import Life
from tflgpu_plugin.ir import Graph, Target
from tflgpu_plugin.ir.extent import Extent, Trace
from tflgpu_plugin.ir.plan import (
    FORMULAS,
    GUARDS,
    WORDS,
    Buffer,
    Plan,
    Port,
    Symbols,
)  # fmt: skip
from tflgpu_plugin.ir.polynomial import Atom, Evaluation, Terms
from tflgpu_plugin.ir.symbolic import Word

KINDS = {"eq": "zero", "ne": "not_zero", "ge": "not_negative"}
Places = Sequence[tuple[int, int]]  # (position in the flat list of input shapes, symbol)


class Values(Evaluation):
    """Evaluates the numbers of a trace for given values of its symbols."""

    def __init__(self, trace: Trace, symbols: Mapping[Any, int]) -> None:
        super().__init__(trace.atoms, symbols)
        self.totals: dict[Terms, int] = {}  # those that were evaluated: many numbers are equal

    def of(self, number: Any) -> Any:
        """Returns the value of a symbolic number; returns any other number unchanged."""
        number = number.number if isinstance(number, Word) else number
        if not isinstance(number, Extent):
            return number
        found = self.totals.get(number.terms)
        if found is None:
            found = self.totals[number.terms] = self.total(number.terms)
        return found

    def size(self, number: Any) -> int:
        """Returns the value of a size, or 0 where it cannot be evaluated."""
        try:
            return int(self.of(number))
        except ArithmeticError:
            return 0


@dataclass
class Template:
    """A plan whose numbers may be symbolic, made in `trace`. `words` are the symbolic uniforms:
    (byte offset, number). `alive` holds the lifetimes and sizes of the tensors in pools, and
    `pools` the pool of each tensor. The offset of a tensor in its pool is a symbol, too, named
    ("offset", tensor): it is determined when the template is settled. `tables` are those made so
    far, by place."""

    plan: Plan
    trace: Trace
    words: list[tuple[int, Any]]
    alive: Mapping[int, Life]
    pools: Mapping[int, int]
    buffers: Sequence[int]  # of each pool
    tables: dict[object, _Tables] = field(default_factory=dict, repr=False, compare=False)

    def fits(self, symbols: Mapping[int, int]) -> bool:
        """Whether the plan holds for these values of the symbols, possibly with larger buffers."""
        return Values(self.trace, symbols).hold(self.trace.conditions)

    def forget_constants(self) -> None:
        """Releases the values of constants in host memory, after they were copied to the device."""
        self.plan = self.plan.without_constants()

    def settled(
        self, symbols: Mapping[int, int], rooms: Sequence[Mapping[int, int]], places: Places
    ) -> Plan:
        """Returns the plan for these values of the symbols. Its buffers also suffice for each of
        the `rooms`, which are other values of the symbols."""
        now, wide = Values(self.trace, symbols), [Values(self.trace, room) for room in rooms]
        known = dict[Any, int]()

        def capacity(number: Any) -> int:
            most: int = max(now.of(number), *(values.size(number) for values in wide))
            if isinstance(number, Extent):
                known["most", number.terms] = most
            return most

        alive = {t: replace(life, size=capacity(life.size)) for t, life in self.alive.items()}
        offsets, sizes = memory.offsets_in_pools(alive, self.pools)
        known.update((("offset", tensor), offset) for tensor, offset in offsets.items())
        now = Values(self.trace, {**symbols, **known})
        sized = dict(zip(self.buffers, sizes, strict=True))
        buffers = tuple(
            replace(
                b, bytes=b.zeros + 16 * sized[k] if k in sized else -(-capacity(b.bytes) // 16) * 16
            )
            for k, b in enumerate(self.plan.buffers)
        )
        if (key := tuple(places)) not in self.tables:
            limited = [terms for of, terms in known if of == "most"]
            self.tables[key] = _tables(self, limited, places)
        return self._numbers(now, buffers, self.tables[key].of(known))

    def _numbers(self, now: Values, buffers: tuple[Buffer, ...], symbols: Symbols) -> Plan:
        """Returns the plan with values in place of symbolic numbers."""
        plan, uniforms = self.plan, bytearray(self.plan.uniforms)
        for offset, number in self.words:
            value = now.of(number)
            real = _kind(number) == "f32"
            pack_into("<f" if real else "<I", uniforms, offset, value if real else value % 2**32)
        dispatches = tuple(replace(d, groups=tuple(map(now.of, d.groups))) for d in plan.dispatches)

        def ports(given: Sequence[Port]) -> tuple[Port, ...]:
            return tuple(
                replace(p, shape=tuple(map(now.of, p.shape)), bytes=now.of(p.bytes)) for p in given
            )

        return replace(
            plan, buffers=buffers, uniforms=bytes(uniforms), dispatches=dispatches,
            inputs=ports(plan.inputs), outputs=ports(plan.outputs), states=ports(plan.states),
            symbols=symbols,
        )  # fmt: skip


def template(graph: Graph, target: Target, trace: Trace) -> Template:
    """Makes the template of a partition whose shapes contain symbols of the trace. Raises
    Unsupported like `compiler.compile`."""
    plan = (made := compiler.assembly(graph, target, trace)).plan()
    needed = (each for each in plan.dispatches if not each.optional)
    if not all(count > 0 for each in needed for count in each.groups):
        raise ValueError("a launch without workgroups")  # the comparisons leave guards
    return Template(plan, trace, made.words, made.alive, made.chosen, made.pools)


def _kind(number: Any) -> str:
    return number.kind if isinstance(number, Word) else "u32"


@dataclass(frozen=True)
class _Tables:
    """The tables from which native code evaluates a template, which all of its plans share, without
    the `constants`: numbers, or keys of numbers that differ between the plans."""

    symbols: Symbols
    constants: Sequence[Any]

    def of(self, known: Mapping[Any, int]) -> Symbols:
        """Returns the tables of a plan for which these numbers are known."""
        constants = [known[c] if isinstance(c, tuple) else c for c in self.constants]
        return replace(self.symbols, constants=np.array(constants, np.int64))


class _Registers:
    """Collects the formulas that native code evaluates. A register is ("s", symbol), ("c", index of
    a constant) or ("f", index of a formula)."""

    def __init__(self, atoms: Sequence[Atom]) -> None:
        self.atoms = atoms
        self.constants: dict[Any, int] = {}
        self.formulas: dict[tuple[str, Any, Any], int] = {}
        self.totals: dict[Terms, tuple[str, int]] = {}
        self.found: dict[int, tuple[str, int]] = {}

    def of(self, number: Any) -> tuple[str, int]:
        number = number.number if isinstance(number, Word) else number
        return self.total(number.terms) if isinstance(number, Extent) else self.constant(number)

    def constant(self, value: Any) -> tuple[str, int]:
        """Returns the register of a number or a key (see `_Tables`)."""
        return "c", self.constants.setdefault(value, len(self.constants))

    def left(self, terms: Terms) -> tuple[str, int]:
        """Returns the register of what a capacity leaves beside a size."""
        taken = self.add("times", self.total(terms), self.constant(-1))
        return self.add("plus", self.constant(("most", terms)), taken)

    def add(self, op: str, a: tuple[str, int], b: tuple[str, int]) -> tuple[str, int]:
        return "f", self.formulas.setdefault((op, a, b), len(self.formulas))

    def total(self, terms: Terms) -> tuple[str, int]:
        """Returns the register that holds the value of a polynomial."""
        if terms not in self.totals:
            parts = [self._product(atoms, c) for atoms, c in terms] or [self.constant(0)]
            self.totals[terms] = reduce(lambda a, b: self.add("plus", a, b), parts)
        return self.totals[terms]

    def _product(self, atoms: Sequence[int], c: int) -> tuple[str, int]:
        factors = [self.atom(atom) for atom in atoms]
        if c != 1 or not factors:
            factors.append(self.constant(c))
        return reduce(lambda a, b: self.add("times", a, b), factors)

    def atom(self, index: int) -> tuple[str, int]:
        """Returns the register of an atom."""
        if index not in self.found:
            self.found[index] = self._function(*self.atoms[index][:3])
        return self.found[index]

    def _function(self, op: str, a: Any, b: Terms) -> tuple[str, int]:
        if op == "in":
            return self.constant(a) if isinstance(a, tuple) else ("s", a)
        return self.add(op, self.total(a), self.total(b))


def _tables(template: Template, limited: Sequence[Terms], places: Places) -> _Tables:
    """Returns the tables of a template, with guards that no `limited` size exceeds its capacity."""
    plan, made = template.plan, _Registers(template.trace.atoms)
    ports = [*plan.inputs, *plan.outputs, *plan.states]
    guards = template.trace.conditions
    conditions = [(GUARDS.index(KINDS[g.kind]), made.total(g.terms)) for g in guards]
    conditions += [(GUARDS.index(KINDS["ge"]), made.left(terms)) for terms in limited]
    words = [(at, made.of(n), WORDS.index(_kind(n))) for at, n in template.words]
    groups = [
        (k, axis, made.of(count), 0 if dispatch.optional else 1)
        for k, dispatch in enumerate(plan.dispatches)
        for axis, count in enumerate(dispatch.groups)
        if isinstance(count, Extent)
    ]
    sizes = [(k, made.of(p.bytes)) for k, p in enumerate(ports) if isinstance(p.bytes, Extent)]
    extents, position = [], 0
    counts = plan.counts
    for place, port in enumerate(plan.outputs):
        if place in counts:
            continue
        for axis, extent in enumerate(port.shape):
            counted = port.counted is not None and port.counted[0] == axis
            if isinstance(extent, Extent) and not counted:
                extents.append((position + 1 + axis, made.of(extent)))
        position += 1 + len(port.shape)
    count = 1 + max(symbol for _, symbol in places)
    starts = {"s": 0, "c": count, "f": count + len(made.constants)}

    def number(register: tuple[str, int]) -> int:
        return starts[register[0]] + register[1]

    symbols = Symbols(
        count,
        np.array(places),
        np.zeros(0, np.int64),
        np.array([(FORMULAS.index(op), number(a), number(b)) for op, a, b in made.formulas]),
        np.array([(kind, number(r)) for kind, r in conditions]),
        np.array([(at, number(r), kind) for at, r, kind in words]),
        np.array([(k, axis, number(r), least) for k, axis, r, least in groups]),
        np.array([(k, number(r)) for k, r in sizes]),
        np.array([(k, number(r)) for k, r in extents]),
    )
    return _Tables(symbols, tuple(made.constants))
