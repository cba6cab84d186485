"""Plans with symbols, made by hand: a tensor of n floats, and one of 64 words of the uniforms, then
the same floats."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tflgpu_plugin.ir import Array, Buffer, Dispatch, Pipeline, Plan, Port, Symbols
from tflgpu_plugin.ir.plan import FORMULAS, GUARDS, WORDS

SHOWN = 64  # words of the uniforms
ROOM = 100  # numbers that the input's buffer holds
# Each word is 0 in the result unless its workgroup ran. Dispatch 1 copies as many numbers as the
# first word says, and as its workgroups reach.
SHOW = """
@group(0) @binding(0) var<uniform> words: array<vec4<u32>, 16>;
@group(0) @binding(1) var<storage, read_write> y: array<u32>;
@compute @workgroup_size(4)
fn main(@builtin(global_invocation_id) id: vec3u) { y[id.x] = words[id.x / 4][id.x % 4]; }
"""
COPY = """
@group(0) @binding(0) var<uniform> words: array<vec4<u32>, 16>;
@group(0) @binding(1) var<storage, read> x: array<u32>;
@group(0) @binding(2) var<storage, read_write> y: array<u32>;
@compute @workgroup_size(4)
fn main(
  @builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_id) local: vec3u,
) {
  let i = 4 * (group.x + groups.x * (group.y + groups.y * group.z)) + local.x;
  if (i < words[0][0]) { y[64 + i] = x[i]; }
}
"""
ADD = """
@group(0) @binding(0) var<uniform> words: array<vec4<u32>, 16>;
@group(0) @binding(1) var<storage, read_write> sum: array<f32>;
@compute @workgroup_size(1)
fn main(@builtin(global_invocation_id) id: vec3u) { sum[id.x] += f32(words[0][0]); }
"""


@dataclass
class Tables:
    """Tables of symbols; a register is named by a symbol's number, or what `constant` and `formula`
    returned."""

    symbols: int = 1
    places: list[tuple[int, int]] = field(default_factory=lambda: [(1, 0)])
    constants: list[int] = field(default_factory=list)
    formulas: list[tuple[str, Any, Any]] = field(default_factory=list)
    guards: list[tuple[str, Any]] = field(default_factory=list)
    words: list[tuple[int, Any, str]] = field(default_factory=list)
    groups: list[tuple[int, int, Any]] = field(default_factory=list)
    sizes: list[tuple[int, Any]] = field(default_factory=list)
    extents: list[tuple[int, Any]] = field(default_factory=list)

    def constant(self, number: int) -> tuple[str, int]:
        self.constants.append(number)
        return "constant", len(self.constants) - 1

    def formula(self, name: str, a: Any, b: Any) -> tuple[str, int]:
        """Returns the register of a formula; a plain integer as `b` is a constant."""
        b = self.constant(b) if isinstance(b, int) else b
        self.formulas.append((name, a, b))
        return "formula", len(self.formulas) - 1

    def register(self, named: Any) -> int:
        if isinstance(named, int):
            return named
        kind, place = named
        return self.symbols + place + (len(self.constants) if kind == "formula" else 0)

    def made(self) -> Symbols:
        r = self.register
        return Symbols(
            self.symbols,
            np.array(self.places),
            np.array(self.constants),
            np.array([(FORMULAS.index(name), r(a), r(b)) for name, a, b in self.formulas]),
            np.array([(GUARDS.index(name), r(one)) for name, one in self.guards]),
            np.array([(at, r(one), WORDS.index(kind)) for at, one, kind in self.words]),
            np.array([(dispatch, axis, r(one), 1) for dispatch, axis, one in self.groups]),
            np.array([(port, r(one)) for port, one in self.sizes]),
            np.array([(at, r(one)) for at, one in self.extents]),
        )

    def numbers(self, *symbols: int) -> list[int]:
        """Returns all registers, by Python's own arithmetic."""
        found = [*symbols, *self.constants]
        for name, a, b in self.formulas:
            x, y = found[self.register(a)], found[self.register(b)]
            found.append({
                "plus": lambda x, y: x + y, "times": lambda x, y: x * y,
                "quotient": lambda x, y: x // y, "remainder": lambda x, y: x % y,
                "rounded_up": lambda x, y: -(-x // y), "larger": max, "smaller": min,
            }[name](x, y))  # fmt: skip
        return found

    def shown(self, *symbols: int) -> Array:
        """Returns the words of the uniforms for these symbols (uint32)."""
        found, numbers = np.zeros(SHOWN, np.uint32), self.numbers(*symbols)
        for at, one, kind in self.words:
            number = np.array([numbers[self.register(one)]]).astype(f"{kind[0]}4")
            found[at // 4] = number.view(np.uint32)[0]
        return found


def copying(axis: int = 0) -> Tables:
    """Returns the tables that all plans here begin with: an input of any number n of numbers is
    copied by workgroups along an axis."""
    tables = Tables()
    tables.words.append((0, 0, "u32"))
    tables.groups.append((1, axis, tables.formula("rounded_up", 0, 4)))
    inside = tables.formula("times", 0, 4)
    tables.sizes += [(0, inside), (1, tables.formula("plus", inside, 4 * SHOWN))]
    tables.extents.append((1, tables.formula("plus", 0, SHOWN)))
    return tables


def plan(tables: Tables, n: int, more: tuple[int, ...] = ()) -> Plan:
    """Returns the plan for n numbers, with buffers that have room for more."""
    groups = {(dispatch, axis): one for dispatch, axis, one in tables.groups}
    numbers, room = tables.numbers(n, *more), max(n, ROOM)

    def workgroups(dispatch: int, x: int) -> tuple[int, int, int]:
        given = [(dispatch, axis) in groups for axis in range(3)]
        made = [x if not any(given) else 1, 1, 1]
        for axis in range(3):
            if given[axis]:
                made[axis] = numbers[tables.register(groups[dispatch, axis])]
        return made[0], made[1], made[2]

    buffers = (
        Buffer("uniforms", 256),
        Buffer("input", 4 * room),
        Buffer("output", 4 * (room + SHOWN)),
    )
    pipelines = Pipeline("show", SHOW, "uw"), Pipeline("copy", COPY, "urw")
    dispatches = (
        Dispatch("show", 0, (0, 2), 0, workgroups(0, SHOWN // 4), ()),
        Dispatch("copy", 1, (0, 1, 2), 0, workgroups(1, 1), ()),
    )
    ports = (Port(0, "x", (n,), "f32", 1, 4 * n), Port(1, "y", (n + SHOWN,), "f32", 2, 256 + 4 * n))
    uniforms = tables.shown(n, *more).tobytes()
    return Plan(
        pipelines, buffers, (), uniforms, dispatches, ports[:1], ports[1:], (),
        symbols=tables.made(),
    )  # fmt: skip


def counting(made: Plan, numbers: int) -> Plan:
    """Returns the plan with a state, to each of whose numbers each run adds n."""
    state = Port(2, "sum", (numbers,), "f32", len(made.buffers), 4 * numbers)
    adding = Dispatch("add", 2, (0, state.buffer), 0, (numbers, 1, 1), ())
    return replace(
        made,
        pipelines=(*made.pipelines, Pipeline("add", ADD, "uw")),
        buffers=(*made.buffers, Buffer("state", 4 * numbers)),
        dispatches=(*made.dispatches, adding),
        states=(state,),
    )


def wanted(tables: Tables, x: Array, *more: int) -> Array:
    """Returns the output for this input (uint32)."""
    return np.concatenate([tables.shown(len(x), *more), x.view(np.uint32)])
