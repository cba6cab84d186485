"""Templates as plain data, which can be stored: a plan with example numbers, and a list of the
numbers that are symbolic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tflgpu_plugin.compile.memory import Life
from tflgpu_plugin.compile.template import KINDS, Template
from tflgpu_plugin.ir import Plan, Port
from tflgpu_plugin.ir.extent import Extent, Trace, terms_of
from tflgpu_plugin.ir.plan import WORDS
from tflgpu_plugin.ir.polynomial import FUNCTIONS, Atom, Guard
from tflgpu_plugin.ir.symbolic import Word

Terms = tuple[tuple[tuple[int, ...], int], ...]  # as in `ir.polynomial`; plain numbers, too
BYTES = -1  # in place of an axis
MAX_FACTORS = 32  # atoms of a product in a polynomial


@dataclass(frozen=True)
class Numbers:
    """The symbolic numbers of a template (`compile.template`). The plan of that template has
    example numbers in their places.

    atoms: function ("in": a symbol), symbol or polynomial, polynomial, limits; guards: kind,
    polynomial; words: byte offset in the uniforms, type, number; groups: dispatch, axis, number;
    ports: position among inputs, outputs and states, axis (or BYTES), number; buffers: buffer,
    bytes; alive: tensor, first launch, last launch, pool, size; pools: the buffer of each pool."""

    atoms: tuple[tuple[str, object, Terms, int, int], ...]
    guards: tuple[tuple[str, Terms], ...]
    words: tuple[tuple[int, str, Terms], ...]
    groups: tuple[tuple[int, int, Terms], ...]
    ports: tuple[tuple[int, int, Terms], ...]
    buffers: tuple[tuple[int, Terms], ...]
    alive: tuple[tuple[int, int, int, int, Terms], ...]
    pools: tuple[int, ...]


def numbers(template: Template) -> Numbers:
    """Returns the symbolic numbers of a template."""
    plan = template.plan
    ports = list(enumerate((*plan.inputs, *plan.outputs, *plan.states)))
    sized = [(k, BYTES, port.bytes) for k, port in ports]
    sized += [(k, axis, n) for k, port in ports for axis, n in enumerate(port.shape)]
    groups = ((k, a, n) for k, d in enumerate(plan.dispatches) for a, n in enumerate(d.groups))
    words = ((at, *(n if isinstance(n, Word) else (n, "u32"))) for at, n in template.words)
    return Numbers(
        tuple((op, a, b, low, high) for op, a, b, _, low, high in template.trace.atoms),
        tuple((guard.kind, guard.terms) for guard in template.trace.guards),
        tuple((at, kind, terms_of(n)) for at, n, kind in words),
        tuple((k, axis, n.terms) for k, axis, n in groups if isinstance(n, Extent)),
        tuple((k, axis, n.terms) for k, axis, n in sized if isinstance(n, Extent)),
        tuple(
            (k, b.bytes.terms) for k, b in enumerate(plan.buffers) if isinstance(b.bytes, Extent)
        ),
        tuple(
            (t, life.first, life.last, template.pools[t], terms_of(life.size))
            for t, life in template.alive.items()
        ),
        tuple(template.buffers),
    )


def restored(found: Numbers, plan: Plan) -> Template:
    """Returns the template of these numbers. Raises ValueError for numbers that do not fit together
    or do not fit the plan, whoever wrote them."""
    reader = _Reader(found)
    pools = {t: pool for t, *_, pool, _ in found.alive}
    _require(all(0 <= pool < len(found.pools) for pool in pools.values()), "a pool")
    for k in found.pools:
        _require(0 <= k < len(plan.buffers) and plan.buffers[k].role == "pool", "a pool")
    alive = {t: Life(reader.number(terms), first, last) for t, first, last, _, terms in found.alive}
    return Template(
        reader.plan(plan), reader.trace, list(reader.words(plan)), alive, pools, found.pools
    )


class _Reader:
    """Puts symbolic numbers into a plan; checks each."""

    def __init__(self, found: Numbers) -> None:
        self.found, self.trace = found, Trace()
        atoms = self.trace.atoms
        for op, a, b, *limits in found.atoms:
            if op == "in":
                named = isinstance(a, tuple) and len(a) == 2 and a[0] == "offset"
                _require(isinstance(a, int) or named, "a symbol")
            else:
                _require(op in FUNCTIONS, "a function")
                self._check(a)
                self._check(b)
            atoms.append(Atom(op, a, b, 0, *limits))
        for kind, terms in found.guards:
            _require(kind in KINDS, "a guard")
            self.trace.guards[Guard(kind, self._check(terms))] = None

    def _check(self, terms: Any) -> Terms:
        """Returns a polynomial of the atoms so far. Raises ValueError."""
        _require(isinstance(terms, tuple), "a polynomial")
        for part in terms:
            _require(isinstance(part, tuple) and len(part) == 2, "a polynomial")
            names, factor = part
            _require(isinstance(names, tuple) and isinstance(factor, int), "a polynomial")
            _require(len(names) <= MAX_FACTORS, "a polynomial")
            for name in names:
                fits = isinstance(name, int) and 0 <= name < len(self.trace.atoms)
                _require(fits, "a polynomial")
        return tuple(terms)

    def number(self, terms: Terms, value: int = 0) -> Any:
        """Returns a number, which is `value` in the plan."""
        if not terms or terms == (((), terms[0][1]),):
            return terms[0][1] if terms else 0
        return Extent(self._check(terms), value, self.trace)

    def words(self, plan: Plan) -> Iterable[tuple[int, Any]]:
        for at, kind, terms in self.found.words:
            _require(kind in WORDS and at % 4 == 0, "a word")
            _require(0 <= at <= len(plan.uniforms) - 4, "a word")
            yield at, Word(self.number(terms), kind)

    def plan(self, plan: Plan) -> Plan:
        """Returns the plan with symbolic numbers."""
        buffers, dispatches = list(plan.buffers), list(plan.dispatches)
        for k, terms in self.found.buffers:
            _require(0 <= k < len(buffers), "a buffer")
            buffers[k] = replace(buffers[k], bytes=self.number(terms, buffers[k].bytes))
        for k, axis, terms in self.found.groups:
            _require(0 <= k < len(dispatches), "a dispatch")
            groups = self._changed(dispatches[k].groups, axis, terms)
            dispatches[k] = replace(dispatches[k], groups=groups)
        ports = self._ports([*plan.inputs, *plan.outputs, *plan.states])
        first, last = len(plan.inputs), len(plan.inputs) + len(plan.outputs)
        return replace(
            plan, buffers=tuple(buffers), dispatches=tuple(dispatches),
            inputs=tuple(ports[:first]), outputs=tuple(ports[first:last]),
            states=tuple(ports[last:]),
        )  # fmt: skip

    def _ports(self, ports: list[Port]) -> list[Port]:
        for k, axis, terms in self.found.ports:
            _require(0 <= k < len(ports), "a port")
            port = ports[k]
            if axis == BYTES:
                ports[k] = replace(port, bytes=self.number(terms, port.bytes))
            else:
                ports[k] = replace(port, shape=self._changed(port.shape, axis, terms))
        return ports

    def _changed(self, numbers: Sequence[int], axis: int, terms: Terms) -> Any:
        """Returns the numbers with a symbolic one at this position."""
        _require(0 <= axis < len(numbers), "an axis")
        made = self.number(terms, numbers[axis])
        return (*numbers[:axis], made, *numbers[axis + 1 :])


def _require(true: bool, what: str) -> None:
    if not true:
        raise ValueError(f"{what} does not fit")
