"""How often the loops of a SPIR-V shader run for one thread of a workgroup in the middle, and its
multiply-adds: for the shaders of other engines.

Only whole numbers and conditions are worked out, from push constants, constants and the place of
the thread; what is loaded, and floats, are unknown (None). Opcodes: SPIR-V 1.6, section 3.49, and
GLSL.std.450, section 2.
"""

from __future__ import annotations

import operator
import struct
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from benchmarks.compiled.rounds import Loop

WORD = 0xFFFFFFFF
EXT_INST, CONSTANT_TRUE, CONSTANT_FALSE, CONSTANT, COMPOSITE, NULL = 12, 41, 42, 43, 44, 46
SPEC_TRUE, SPEC_FALSE, SPEC_CONSTANT, SPEC_COMPOSITE, SPEC_OP = 48, 49, 50, 51, 52
FUNCTION, PARAMETER, FUNCTION_END, CALL, VARIABLE, LOAD, STORE = 54, 55, 56, 57, 59, 61, 62
ENTRY_POINT, EXECUTION_MODE, DECORATE, MEMBER_DECORATE, SHUFFLE = 15, 16, 71, 72, 79
CONSTRUCT, EXTRACT, INSERT, SELECT, PHI, LOOP_MERGE = 80, 81, 82, 169, 245, 246
LABEL, BRANCH, BRANCH_IF, SWITCH, KILL, RETURN, RETURN_VALUE = 248, 249, 250, 251, 252, 253, 254
ACCESS = (65, 66)
ENDS = (BRANCH, BRANCH_IF, SWITCH, KILL, RETURN, RETURN_VALUE, 255)
VECTOR, MATRIX, STRUCT, POINTER = 23, 24, 30, 32
SPEC_ID, BUILT_IN, OFFSET = 1, 11, 35  # decorations
PUSH_CONSTANT = 9  # a storage class
GROUP_COUNT, GROUP_SIZE, GROUP, THREAD, GLOBAL, INDEX = 24, 25, 26, 27, 28, 29  # built-ins
LANES, SUBGROUPS, SUBGROUP, LANE = 36, 38, 40, 41
MATRIX_PRODUCT = 4459  # OpCooperativeMatrixMulAddKHR
EXECUTION_MODE_ID = 331
MOST_STEPS = 5_000_000


def _signed(value: int) -> int:
    return value - (1 << 32) if value >> 31 else value


def _divide(a: int, b: int) -> int:
    a, b = _signed(a), _signed(b)
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _of_signed(how: Callable[[int, int], Any]) -> Callable[[int, int], Any]:
    return lambda a, b: how(_signed(a), _signed(b))


BINARY: dict[int, Callable[[Any, Any], Any]] = {
    128: operator.add, 130: operator.sub, 132: operator.mul, 134: operator.floordiv, 135: _divide,
    137: operator.mod, 138: lambda a, b: _signed(a) - _signed(b) * _divide(a, b),
    139: _of_signed(operator.mod), 164: operator.eq, 165: operator.ne,
    166: lambda a, b: a or b, 167: lambda a, b: a and b, 170: operator.eq, 171: operator.ne,
    172: operator.gt, 173: _of_signed(operator.gt), 174: operator.ge, 175: _of_signed(operator.ge),
    176: operator.lt, 177: _of_signed(operator.lt), 178: operator.le, 179: _of_signed(operator.le),
    194: lambda a, b: a >> (b & 31), 195: lambda a, b: _signed(a) >> (b & 31),
    196: lambda a, b: a << (b & 31), 197: operator.or_, 198: operator.xor, 199: operator.and_,
}  # fmt: skip
UNARY: dict[int, Callable[[Any], Any]] = {
    83: lambda a: a, 113: lambda a: a, 114: lambda a: a, 124: lambda a: a, 126: operator.neg,
    168: operator.not_, 200: operator.invert,
}  # fmt: skip
GLSL: dict[int, Callable[..., Any]] = {
    5: lambda a: abs(_signed(a)), 38: min, 39: lambda a, b: min(_signed(a), _signed(b)), 41: max,
    42: lambda a, b: max(_signed(a), _signed(b)), 44: lambda a, low, high: min(max(a, low), high),
    45: lambda a, low, high: min(max(_signed(a), _signed(low)), _signed(high)),
}  # fmt: skip
FMA = 50  # of GLSL.std.450
ADD, SUBTRACT, MULTIPLY, SCALED, DOT = 129, 131, 133, 142, 148
OF_MATRIX = (144, 145, 146)  # VectorTimesMatrix, MatrixTimesVector, MatrixTimesMatrix


@dataclass(frozen=True)
class Ran:
    """Loops in the order of the code, those of functions where they are called; the multiply-adds
    of the thread; threads of a workgroup."""

    loops: Sequence[Loop]
    products: int
    threads: int


@dataclass
class _Function:
    parameters: list[int] = field(default_factory=list)
    blocks: dict[int, list[tuple[int, list[int]]]] = field(default_factory=dict)


Value = Any  # int, bool, {position: Value} of a composite, (root, path) of a pointer, or None


class Module:
    """A shader, with its specialization constants as a pipeline sets them."""

    def __init__(self, content: bytes, constants: Mapping[int, int]) -> None:
        words = struct.unpack(f"<{len(content) // 4}I", content)
        self.types: dict[int, tuple[int, list[int]]] = {}
        self.values: dict[int, Value] = {}
        self.type_of: dict[int, int] = {}
        self.functions: dict[int, _Function] = {}
        self.variables: dict[int, tuple[int, int]] = {}  # type of the pointer, storage class
        self.offsets: dict[tuple[int, int], int] = {}
        self.built_in: dict[int, int] = {}
        self.specified: dict[int, int] = {}
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
        elif code == DECORATE and given[1] in (SPEC_ID, BUILT_IN):
            kind = self.specified if given[1] == SPEC_ID else self.built_in
            kind[given[0]] = given[2]
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
            if self.built_in.get(name) == GROUP_SIZE:
                self.size = [made[k] or 0 for k in range(3)]
            return made
        if code == SPEC_OP:
            return _computed(given[2], given[3:], self.values.get)
        value: Value = {CONSTANT_TRUE: True, SPEC_TRUE: True, NULL: 0}.get(code, False)
        if code in (CONSTANT, SPEC_CONSTANT):
            value = given[2]
        told = self.constants.get(self.specified.get(name, -1))
        if told is not None:
            value = bool(told) if isinstance(value, bool) else told
        return value

    def width(self, of: int) -> int:
        """Numbers in a value of this type."""
        code, given = self.types.get(of, (0, []))
        return given[1] * self.width(given[0]) if code in (VECTOR, MATRIX) else 1

    def pushed(self, content: bytes) -> dict[int, Value]:
        """The variables of push constants: of blocks of single words, by member."""
        found: dict[int, Value] = {}
        for name, (pointer, kind) in self.variables.items():
            if kind == PUSH_CONSTANT:
                block = self.types[pointer][1][1]
                found[name] = {
                    k: struct.unpack_from("<I", content, offset)[0]
                    for (of, k), offset in self.offsets.items()
                    if of == block and offset + 4 <= len(content)
                }
        return found


def _computed(code: int, given: Sequence[int], get: Callable[[int], Value]) -> Value:
    """Of an instruction without memory; None where it is not known."""
    if code in BINARY or code in UNARY:
        how = BINARY.get(code) or UNARY[code]
        return _each(how, [get(name) for name in given])
    if code == SELECT:
        which, yes, no = (get(name) for name in given[:3])
        if isinstance(which, dict):
            return {k: _at(yes if w else no, [k]) if w is not None else None
                    for k, w in which.items()}  # fmt: skip
        return None if which is None else yes if which else no
    if code == CONSTRUCT:
        return dict(enumerate(get(name) for name in given))
    if code == EXTRACT:
        return _at(get(given[0]), given[1:])
    if code == INSERT:
        return _with(get(given[1]), given[2:], get(given[0]))
    return None


def _each(how: Callable[..., Any], values: Sequence[Value]) -> Value:
    """Component by component; whole numbers have 32 bits."""
    if any(isinstance(value, dict) for value in values):
        keys = next(v for v in values if isinstance(v, dict))
        if not all(isinstance(value, dict) for value in values):
            return None
        return {k: _each(how, [value.get(k) for value in values]) for k in keys}
    if any(value is None or isinstance(value, tuple) for value in values):
        return None
    try:
        made = how(*values)
    except ZeroDivisionError:
        return None
    return made if isinstance(made, bool) else int(made) & WORD


def _at(value: Value, path: Sequence[int | None]) -> Value:
    for step in path:
        value = value.get(step) if isinstance(value, dict) and step is not None else None
    return value


def _with(value: Value, path: Sequence[int | None], part: Value) -> Value:
    if not path:
        return part
    made = dict(value) if isinstance(value, dict) else {}
    if path[0] is not None:
        made[path[0]] = _with(made.get(path[0]), path[1:], part)
    return made


def ran(module: Module, groups: Sequence[int], pushed: bytes, lanes: int) -> Ran:
    """One thread, the first of the workgroup in the middle of so many. Raises RuntimeError where it
    does not come to an end."""
    run = _Run(module, groups, pushed, lanes)
    run.call(module.main, [], ())
    products = run.sums["products"] + min(run.sums["multiplied"], run.sums["added"])
    return Ran(list(run.loops.values()), products, prod(module.size))


class _Run:
    def __init__(self, module: Module, groups: Sequence[int], pushed: bytes, lanes: int) -> None:
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
        self.memory = module.pushed(pushed)
        self.memory |= {name: places.get(kind) for name, kind in module.built_in.items()}

    def _find(self, name: int, path: tuple[int, ...], depth: int) -> None:
        """The loops of a function and those that it calls."""
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
        """Runs it; returns the instruction that ends it."""
        self.steps += len(block)
        if self.steps > MOST_STEPS:
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
                values[given[1]] = _at(self.memory.get(pointer[0]), pointer[1]) if known else None
            elif code in ACCESS:
                pointer, steps = get(given[2]), tuple(get(name) for name in given[3:])
                known = isinstance(pointer, tuple)
                values[given[1]] = (pointer[0], pointer[1] + steps) if known else None
            elif code == CALL:
                arguments = [get(name) for name in given[3:]]
                values[given[1]] = self.call(given[2], arguments, (*path, given[1]))
            elif code == EXT_INST and given[3] in GLSL:
                values[given[1]] = _each(GLSL[given[3]], [get(name) for name in given[4:]])
            elif code == SHUFFLE:
                values[given[1]] = self._shuffled(given, get)
            else:
                values[given[1]] = _computed(code, given[2:], get)
                self._count(code, given)
        raise RuntimeError("a block has no end")

    def _shuffled(self, given: list[int], get: Callable[[int], Value]) -> Value:
        first, second = get(given[2]), get(given[3])
        count = self.module.width(self.module.type_of.get(given[2], 0))
        return {
            k: _at(first, [at]) if at < count else _at(second, [at - count])
            for k, at in enumerate(given[4:])
        }

    def _store(self, pointer: Value, value: Value) -> None:
        if isinstance(pointer, tuple):
            self.memory[pointer[0]] = _with(self.memory.get(pointer[0]), pointer[1], value)

    def _count(self, code: int, given: list[int]) -> None:
        """Multiply-adds, which may be written as products and sums."""
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
