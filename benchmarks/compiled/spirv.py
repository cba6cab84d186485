"""Counts the iterations of a SPIR-V shader's loops for one thread of a workgroup in the middle, and
its multiply-adds: for the shaders of other engines.

Only integers and conditions are worked out, from push constants, uniform buffers, constants
and the place of the thread; what else is loaded, and floats, are unknown (None). Opcodes: SPIR-V
1.6, section 3.49, and GLSL.std.450, section 2."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from types import MappingProxyType
from typing import Any

from benchmarks.compiled.rounds import Loop
from benchmarks.compiled.spirv_values import GLSL, Value, at_path, computed, each, with_part

EXT_INST, CONSTANT_TRUE, CONSTANT_FALSE, CONSTANT, COMPOSITE, NULL = 12, 41, 42, 43, 44, 46
SPEC_TRUE, SPEC_FALSE, SPEC_CONSTANT, SPEC_COMPOSITE, SPEC_OP = 48, 49, 50, 51, 52
FUNCTION, PARAMETER, FUNCTION_END, CALL, VARIABLE, LOAD, STORE = 54, 55, 56, 57, 59, 61, 62
ENTRY_POINT, EXECUTION_MODE, DECORATE, MEMBER_DECORATE, SHUFFLE = 15, 16, 71, 72, 79
PHI, LOOP_MERGE = 245, 246
LABEL, BRANCH, BRANCH_IF, SWITCH, KILL, RETURN, RETURN_VALUE = 248, 249, 250, 251, 252, 253, 254
ACCESS = (65, 66)
ENDS = (BRANCH, BRANCH_IF, SWITCH, KILL, RETURN, RETURN_VALUE, 255)
INTEGER, NUMBER, VECTOR, MATRIX, ARRAY, STRUCT = 21, 22, 23, 24, 28, 30
SPEC_ID, STRIDE, BUILT_IN, BINDING, DESCRIPTOR_SET, OFFSET = 1, 6, 11, 33, 34, 35  # decorations
UNIFORM, PUSH_CONSTANT = 2, 9  # storage classes
GROUP_COUNT, GROUP_SIZE, GROUP, THREAD, GLOBAL, INDEX = 24, 25, 26, 27, 28, 29  # built-ins
LANES, SUBGROUPS, SUBGROUP, LANE = 36, 38, 40, 41
MATRIX_PRODUCT = 4459  # OpCooperativeMatrixMulAddKHR
EXECUTION_MODE_ID = 331
MAX_STEPS = 5_000_000


FMA = 50  # of GLSL.std.450
ADD, SUBTRACT, MULTIPLY, SCALED, DOT = 129, 131, 133, 142, 148
OF_MATRIX = (144, 145, 146)  # VectorTimesMatrix, MatrixTimesVector, MatrixTimesMatrix


@dataclass(frozen=True)
class Ran:
    """Loops in the order of the code, those of functions at each call; the multiply-adds of the
    thread; threads of a workgroup."""

    loops: Sequence[Loop]
    products: int
    threads: int


@dataclass
class _Function:
    parameters: list[int] = field(default_factory=list)
    blocks: dict[int, list[tuple[int, list[int]]]] = field(default_factory=dict)


class Module:
    """A shader, with its specialization constants as set by a pipeline."""

    def __init__(self, content: bytes, constants: Mapping[int, int]) -> None:
        words = struct.unpack(f"<{len(content) // 4}I", content)
        self.types: dict[int, tuple[int, list[int]]] = {}
        self.values: dict[int, Value] = {}
        self.type_of: dict[int, int] = {}
        self.functions: dict[int, _Function] = {}
        self.variables: dict[int, tuple[int, int]] = {}  # type of the pointer, storage class
        self.offsets: dict[tuple[int, int], int] = {}
        kinds = (SPEC_ID, STRIDE, BUILT_IN, BINDING, DESCRIPTOR_SET)
        self.decorated: dict[int, dict[int, int]] = {kind: {} for kind in kinds}
        self.main, self.constants = 0, constants
        self.size: list[int] = [1, 1, 1]  # of a workgroup
        sizes: list[int] = []  # the same as constants, which come later
        function: _Function | None = None
        label, at = 0, 5
        while at < len(words):
            code, count = words[at] & 0xFFFF, words[at] >> 16
            given = list(words[at + 1 : at + count])
            at += count
            if code == FUNCTION:
                function = self.functions.setdefault(given[1], _Function())
            elif function is None and code == EXECUTION_MODE_ID and given[1] == 38:
                sizes = given[2:5]
            elif function is None:
                self._declare(code, given)
            elif code == PARAMETER:
                function.parameters.append(given[1])
            elif code == FUNCTION_END:
                function = None
            elif code == LABEL:
                label = given[0]
                function.blocks[label] = []
            else:
                function.blocks[label].append((code, given))
                if len(given) > 1:
                    self.type_of.setdefault(given[1], given[0])
        if sizes:
            self.size = [self.values[name] for name in sizes]

    def _declare(self, code: int, given: list[int]) -> None:
        if code == ENTRY_POINT:
            self.main = given[1]
        elif code == EXECUTION_MODE and given[1] == 17:
            self.size = given[2:5]
        elif code == DECORATE and given[1] in self.decorated:
            self.decorated[given[1]][given[0]] = given[2]
        elif code == MEMBER_DECORATE and given[2] == OFFSET:
            self.offsets[given[0], given[1]] = given[3]
        elif 19 <= code <= 39:
            self.types[given[0]] = (code, given[1:])
        elif code == VARIABLE:
            self.variables[given[1]] = (given[0], given[2])
        elif CONSTANT_TRUE <= code <= SPEC_OP and len(given) > 1:
            self.type_of[given[1]] = given[0]
            self.values[given[1]] = self._constant(code, given)

    def _constant(self, code: int, given: list[int]) -> Value:
        name = given[1]
        if code in (COMPOSITE, SPEC_COMPOSITE):
            made = {k: self.values.get(part) for k, part in enumerate(given[2:])}
            if self.decorated[BUILT_IN].get(name) == GROUP_SIZE:
                self.size = [made[k] or 0 for k in range(3)]
            return made
        if code == SPEC_OP:
            return computed(given[2], given[3:], self.values.get)
        value: Value = {CONSTANT_TRUE: True, SPEC_TRUE: True, NULL: 0}.get(code, False)
        if code in (CONSTANT, SPEC_CONSTANT):
            value = given[2]
        told = self.constants.get(self.decorated[SPEC_ID].get(name, -1))
        if told is not None:
            value = bool(told) if isinstance(value, bool) else told
        return value

    def width(self, of: int) -> int:
        """Returns the numbers in a value of this type."""
        code, given = self.types.get(of, (0, []))
        return given[1] * self.width(given[0]) if code in (VECTOR, MATRIX) else 1

    def given(self, pushed: bytes, uniforms: Mapping[tuple[int, int], bytes]) -> dict[int, Value]:
        """Returns the variables of push constants, and of uniform buffers by (descriptor set,
        binding)."""
        found: dict[int, Value] = {}
        for name, (pointer, kind) in self.variables.items():
            place = (
                self.decorated[DESCRIPTOR_SET].get(name, 0),
                self.decorated[BINDING].get(name, 0),
            )
            held = {PUSH_CONSTANT: pushed, UNIFORM: uniforms.get(place)}.get(kind)
            if held is not None:
                found[name] = self._held(self.types[pointer][1][1], held, 0)
        return found

    def _held(self, of: int, content: bytes, at: int) -> Value:
        """Returns the value of this type at a byte offset; values that are not 32-bit words are
        unknown."""
        code, given = self.types[of]
        if code in (INTEGER, NUMBER):
            known = given[0] == 32 and at + 4 <= len(content)
            return struct.unpack_from("<I", content, at)[0] if known else None
        if code == STRUCT:
            return {k: self._held(part, content, at + self.offsets.get((of, k), 0))
                    for k, part in enumerate(given)}  # fmt: skip
        if code in (VECTOR, ARRAY):
            count = given[1] if code == VECTOR else self.values[given[1]]
            step = 4 if code == VECTOR else self.decorated[STRIDE][of]
            return {k: self._held(given[0], content, at + k * step) for k in range(count)}
        return None


def ran(
    module: Module, groups: Sequence[int], pushed: bytes, lanes: int,
    uniforms: Mapping[tuple[int, int], bytes] = MappingProxyType({}),
) -> Ran:  # fmt: skip
    """Simulates one thread, the first of the workgroup in the middle. Raises RuntimeError where it
    does not end."""
    run = _Run(module, groups, lanes, module.given(pushed, uniforms))
    run.call(module.main, [], ())
    products = run.sums["products"] + min(run.sums["multiplied"], run.sums["added"])
    return Ran(list(run.loops.values()), products, prod(module.size))


class _Run:
    def __init__(
        self, module: Module, groups: Sequence[int], lanes: int, given: Mapping[int, Value]
    ) -> None:
        self.module, self.lanes, self.steps = module, lanes, 0
        self.sums: Counter[str] = Counter()
        self.loops: dict[tuple[Any, ...], Loop] = {}
        self._find(module.main, (), 0)
        size, middle = module.size, [max(0, n - 1) // 2 for n in groups]
        places: dict[int, Value] = {
            GROUP_COUNT: dict(enumerate(groups)), GROUP_SIZE: dict(enumerate(size)),
            GROUP: dict(enumerate(middle)), THREAD: {0: 0, 1: 0, 2: 0}, INDEX: 0, LANES: lanes,
            GLOBAL: {k: a * b for k, (a, b) in enumerate(zip(middle, size, strict=True))},
            SUBGROUPS: max(1, prod(size) // lanes), SUBGROUP: 0, LANE: 0,
        }  # fmt: skip
        self.memory = dict(given) | {
            name: places.get(kind) for name, kind in module.decorated[BUILT_IN].items()
        }

    def _find(self, name: int, path: tuple[int, ...], depth: int) -> None:
        """Finds the loops of a function and of those that it calls."""
        ends: list[int] = []
        for label, block in self.module.functions[name].blocks.items():
            while ends and ends[-1] == label:
                ends.pop()
            for code, given in block:
                if code == LOOP_MERGE:
                    self.loops[(*path, label)] = Loop(depth + len(ends) + 1)
                    ends.append(given[0])
                elif code == CALL and len(path) < 16:
                    self._find(given[2], (*path, given[1]), depth + len(ends))

    def call(self, name: int, given: Sequence[Value], path: tuple[int, ...]) -> Value:
        function, module = self.module.functions[name], self.module
        values: dict[int, Value] = dict(zip(function.parameters, given, strict=False))

        def get(of: int) -> Value:
            if of in values:
                return values[of]
            if of in module.values:
                return module.values[of]
            return (of, ()) if of in module.variables else None

        before, label = 0, next(iter(function.blocks))
        active: list[tuple[int, int, int]] = []  # header, merge, rounds at the beginning
        while True:
            block = function.blocks[label]
            while active and active[-1][1] == label:
                active.pop()
            merge = next((given for code, given in block if code == LOOP_MERGE), None)
            if merge is not None:
                loop = self.loops[(*path, label)]
                if active and active[-1][0] == label:
                    loop.rounds += 1
                else:
                    loop.entries += 1
                    active.append((label, merge[0], loop.rounds))
            end, given = self._block(block, before, values, get, path)
            before = label
            if end in (RETURN, KILL, 255):
                return None
            if end == RETURN_VALUE:
                return get(given[0])
            if end == BRANCH:
                label = given[0]
            elif end == BRANCH_IF:
                which = get(given[0])
                if which is None:  # one round of what is not known, else what holds
                    leaves = active and active[-1][1] in given[1:3]
                    more = not leaves or self.loops[(*path, active[-1][0])].rounds == active[-1][2]
                    which = (given[1] != active[-1][1]) == more if leaves else True
                label = given[1] if which else given[2]
            else:
                label = self._case(get(given[0]), given)

    @staticmethod
    def _case(value: Value, given: list[int]) -> int:
        pairs = dict(zip(given[2::2], given[3::2], strict=False))
        return pairs.get(value, given[1])

    def _block(
        self, block: Sequence[tuple[int, list[int]]], before: int, values: dict[int, Value],
        get: Callable[[int], Value], path: tuple[int, ...],
    ) -> tuple[int, list[int]]:  # fmt: skip
        """Runs the block and returns the instruction that ends it."""
        self.steps += len(block)
        if self.steps > MAX_STEPS:
            raise RuntimeError("the shader does not end")
        for code, given in block:
            if code in ENDS:
                return code, given
            if code == STORE:
                self._store(get(given[0]), get(given[1]))
            elif len(given) < 2 or code in (247, LOOP_MERGE):
                continue
            elif code == PHI:
                pairs = dict(zip(given[3::2], given[2::2], strict=True))
                values[given[1]] = get(pairs[before]) if before in pairs else None
            elif code == VARIABLE:
                self.memory[given[1]] = get(given[3]) if len(given) > 3 else None
                values[given[1]] = (given[1], ())
            elif code == LOAD:
                pointer = get(given[2])
                known = isinstance(pointer, tuple)
                values[given[1]] = (
                    at_path(self.memory.get(pointer[0]), pointer[1]) if known else None
                )
            elif code in ACCESS:
                pointer, steps = get(given[2]), tuple(get(name) for name in given[3:])
                known = isinstance(pointer, tuple)
                values[given[1]] = (pointer[0], pointer[1] + steps) if known else None
            elif code == CALL:
                arguments = [get(name) for name in given[3:]]
                values[given[1]] = self.call(given[2], arguments, (*path, given[1]))
            elif code == EXT_INST and given[3] in GLSL:
                values[given[1]] = each(GLSL[given[3]], [get(name) for name in given[4:]])
            elif code == SHUFFLE:
                values[given[1]] = self._shuffled(given, get)
            else:
                values[given[1]] = computed(code, given[2:], get)
                self._count(code, given)
        raise RuntimeError("a block has no end")

    def _shuffled(self, given: list[int], get: Callable[[int], Value]) -> Value:
        first, second = get(given[2]), get(given[3])
        count = self.module.width(self.module.type_of.get(given[2], 0))
        return {
            k: at_path(first, [at]) if at < count else at_path(second, [at - count])
            for k, at in enumerate(given[4:])
        }

    def _store(self, pointer: Value, value: Value) -> None:
        if isinstance(pointer, tuple):
            self.memory[pointer[0]] = with_part(self.memory.get(pointer[0]), pointer[1], value)

    def _count(self, code: int, given: list[int]) -> None:
        """Counts multiply-adds, which may be products followed by sums."""
        module = self.module
        if code in (ADD, SUBTRACT):
            self.sums["added"] += module.width(given[0])
        elif code in (MULTIPLY, SCALED):
            self.sums["multiplied"] += module.width(given[0])
        elif code == EXT_INST and given[3] == FMA:
            self.sums["products"] += module.width(given[0])
        elif code == DOT:
            self.sums["products"] += module.width(module.type_of.get(given[2], 0))
        elif code in OF_MATRIX:
            wide = max(module.width(module.type_of.get(name, 0)) for name in given[2:4])
            self.sums["products"] += wide * (4 if code == OF_MATRIX[2] else 1)
        elif code == MATRIX_PRODUCT:
            self.sums["products"] += 16**3 // self.lanes
