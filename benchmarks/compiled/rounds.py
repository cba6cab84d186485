"""Counts the iterations of a kernel's loops from its WGSL, its uniform block and its dispatch size.

One thread of a workgroup in the middle is followed. Only values that loops depend on are computed:
names in their headers, and the names from which these are computed; values that a kernel loads are
unknown."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

_NAME = re.compile(r"(?<![.\w])[A-Za-z_]\w*")
_NUMBER = re.compile(r"(?<![\w.])(0x[0-9a-fA-F]+|\d+)[uif]\b")
_HEXFLOAT = re.compile(r"0x[0-9a-f]*\.[0-9a-f]+p[+-]?\d+f?")
_GENERIC = re.compile(r"\b(bitcast|vec\d|array)<[\w<>, ]*>\(")
_ASSIGN = re.compile(
    r"(?:(?:let|var)\s+)?(\w+)(?:\s*:[^=]*)?\s*(\+|-|\*|/|<<|>>|&|\|)?=(?!=)\s*(.*)", re.S
)
_STEP = re.compile(r"(\w+)(\+\+|--)")
_FUNCTION = re.compile(r"\bfn\s+(\w+)\s*\(((?:[^()]|\([^()]*\))*)\)[^{;]*\{")


class Vector(tuple[Any, ...]):
    """A vector of integers with WGSL's operators and swizzles."""

    def each_with(self, other: Any, how: Any) -> Vector:
        values = other if isinstance(other, tuple) else [other] * len(self)
        return Vector(how(a, b) for a, b in zip(self, values, strict=False))

    def __add__(self, other: Any) -> Vector:
        return self.each_with(other, lambda a, b: a + b)

    def __sub__(self, other: Any) -> Vector:
        return self.each_with(other, lambda a, b: a - b)

    def __mul__(self, other: Any) -> Vector:
        return self.each_with(other, lambda a, b: a * b)

    def __floordiv__(self, other: Any) -> Vector:
        return self.each_with(other, lambda a, b: a // b)

    def __mod__(self, other: Any) -> Vector:
        return self.each_with(other, lambda a, b: a % b)

    def __neg__(self) -> Vector:
        return Vector(-a for a in self)

    def __getattr__(self, name: str) -> Any:
        found = Vector(self["xyzw".index(lane)] for lane in name)
        return found[0] if len(found) == 1 else found


def _vector(*parts: Any) -> Vector:
    return Vector(
        value for part in parts for value in (part if isinstance(part, tuple) else (part,))
    )


def _lanes(how: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Returns the function for numbers, and lane by lane for vectors."""
    return lambda a, b: a.each_with(b, how) if isinstance(a, Vector) else how(a, b)


def _select(no: Any, yes: Any, which: Any) -> Any:
    return yes if which else no


BUILTINS: dict[str, Any] = {
    "min": _lanes(min), "max": _lanes(max), "select": _select, "i32": int,
    "u32": lambda v: int(v) & 0xFFFFFFFF,
    "divided": lambda a, b: Vector(divmod(a, b)), "group_id": lambda v: v, "bitcast": lambda v: v,
    **{f"vec{n}{kind}": _vector for n in (2, 3, 4) for kind in "ui"},
}  # fmt: skip


@dataclass
class Loop:
    """One loop of a kernel: its depth (1: in no other loop), how often it is entered, and its
    iterations in total."""

    depth: int
    entries: int = 0
    rounds: int = 0


@dataclass
class Block:
    """Statements in braces, and their head: for, if, call or nothing."""

    head: str
    body: list[Any] = field(default_factory=list)
    loop: Loop | None = None


def loops(wgsl: str, uniforms: bytes, groups: Sequence[int]) -> list[Loop]:
    """Returns the loops in the order of the code, those of functions at each call."""
    text = re.sub(r"//[^\n]*", "", wgsl)
    kernel = _Kernel(text)
    size = re.search(r"@workgroup_size\(([^)]*)\)", text)
    assert size is not None
    known = {f"v_{name}": value for name, value in BUILTINS.items()}
    known["v_p"] = uniform_block(text, uniforms)
    for name, members in re.findall(r"struct (\w+) \{([^}]*)\}", text):
        known[f"v_{name}"] = _constructor(
            [part.split(":")[0].strip() for part in members.split(",")]
        )
    for name, (parameters, body) in kernel.functions.items():
        if name not in kernel.looping and f"v_{name}" not in known:
            known[f"v_{name}"] = _callable(_names(parameters), body, known)
    middle = Vector(max(0, n - 1) // 2 for n in groups)
    known |= {"v_wid": middle, "v_lid": 0, "v_lane": 0, "v_thread": 0, "v_sid": 0}
    _run(kernel.main, known)
    return kernel.loops


def _constructor(names: list[str]) -> Callable[..., SimpleNamespace]:
    return lambda *values: SimpleNamespace(**dict(zip(names, values, strict=True)))


def _callable(names: list[str], body: str, known: dict[str, Any]) -> Callable[..., Any]:
    """Returns a function of WGSL that only computes a value; calls of others raise ValueError."""

    def call(*values: Any) -> Any:
        local = known | {f"v_{n}": v for n, v in zip(names, values, strict=True)}
        for head, block in _parts(body):
            found = re.fullmatch(r"(?:let (\w+)[^=]*=|return\b)(.*)", head, re.DOTALL)
            if block is not None or found is None:
                break
            value = eval(_python(found[2]), {"__builtins__": {}}, local)
            if found[1] is None:
                return value
            local[f"v_{found[1]}"] = value
        raise ValueError("the function does more than compute a value")

    return call


def _names(parameters: str) -> list[str]:
    return [part.split(":")[0].strip() for part in _split(parameters, ",")]


def uniform_block(text: str, uniforms: bytes) -> Any:
    """Returns the uniform block as an object with a field for each parameter."""
    block = re.search(r"struct Params \{([^}]*)\}", text)
    assert block is not None
    kinds = {"u32": "<I", "i32": "<i", "f32": "<f"}
    values = {}
    for place, part in enumerate(block[1].split(",")):
        name, kind = (word.strip() for word in part.split(":"))
        (values[name],) = struct.unpack_from(kinds[kind], uniforms, 4 * place)
    return type("Parameters", (), values)


class _Kernel:
    """The entry point as blocks, with functions that have loops inlined."""

    def __init__(self, text: str) -> None:
        self.functions = dict(_functions(text))
        self.loops: list[Loop] = []
        looping = {name for name, (_, body) in self.functions.items() if "for (" in body}
        for _ in self.functions:  # those that call them as well
            looping |= {n for n, (_, body) in self.functions.items() if looping & _called(body)}
        self.looping = looping - {"main"}
        whole = Block("", self._statements(self.functions["main"][1], 0))
        _prune(whole, _needed(whole))
        self.main = whole

    def _statements(self, text: str, depth: int) -> list[Any]:
        found: list[Any] = []
        for head, body in _parts(text):
            for name in [n for n in _NAME.findall(head) if n in self.looping]:
                parameters, inner = self.functions[name]
                found.append(self._call(name, head, parameters, inner, depth))
            if body is None:
                found.append(head)
            elif head.startswith("for"):
                loop = Loop(depth + 1)
                self.loops.append(loop)
                found.append(Block(head, self._statements(body, depth + 1), loop))
            else:
                found.append(Block(head, self._statements(body, depth)))
        return found

    def _call(self, name: str, text: str, parameters: str, body: str, depth: int) -> Block:
        names = _names(parameters)
        start = re.search(rf"\b{name}\s*\(", text)
        given = _split(_inside(text[start.end() :]), ",") if start else []
        bound = [f"let {n} = {value}" for n, value in zip(names, given, strict=False)]
        return Block("", [*bound, *self._statements(body, depth)])


def _functions(text: str) -> Iterator[tuple[str, tuple[str, str]]]:
    for found in _FUNCTION.finditer(text):
        yield found[1], (found[2], _inside(text[found.end() :], "{}"))


def _inside(text: str, pair: str = "()") -> str:
    """Returns the text up to the bracket that closes one opened just before it."""
    depth = 1
    for at, letter in enumerate(text):
        depth += (letter == pair[0]) - (letter == pair[1])
        if depth == 0:
            return text[:at]
    raise ValueError("brackets do not match")


def _split(text: str, by: str) -> list[str]:
    """Returns the parts between separators outside of brackets."""
    found, depth, last = [], 0, 0
    for at, letter in enumerate(text):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == by and depth == 0:
            found.append(text[last:at])
            last = at + 1
    return [part.strip() for part in [*found, text[last:]] if part.strip()]


def _parts(text: str) -> Iterator[tuple[str, str | None]]:
    """Yields statements (head, None) and blocks (head, text in braces) in order."""
    at = depth = start = 0
    while at < len(text):
        letter = text[at]
        depth += (letter == "(") - (letter == ")")
        if letter == ";" and depth == 0:
            yield text[start:at].strip(), None
            start = at + 1
        elif letter == "{":
            body = _inside(text[at + 1 :], "{}")
            yield text[start:at].strip(), body
            at += len(body) + 1
            start = at + 1
        at += 1


def _called(text: str) -> set[str]:
    return set(re.findall(r"\b(\w+)\s*\(", text))


def _needed(block: Block) -> set[str]:
    """Returns the names on which loops depend."""
    statements = list(_flat(block))
    needed: set[str] = set()
    for head in statements:
        if head.startswith("for"):
            needed |= set(_NAME.findall(head))
    size = -1
    while size != len(needed):
        size = len(needed)
        for head in statements:
            if (match := _ASSIGN.fullmatch(head)) and match[1] in needed:
                needed |= set(_NAME.findall(match[3]))
    return needed


def _flat(block: Block) -> Iterator[str]:
    yield block.head
    for each in block.body:
        if isinstance(each, Block):
            yield from _flat(each)
        else:
            yield each


def _prune(block: Block, needed: set[str]) -> bool:
    """Removes code that no loop depends on, compiles the rest, and returns whether any is left."""
    kept: list[Any] = []
    for each in block.body:
        if isinstance(each, Block):
            if _prune(each, needed) or each.loop:
                kept.append(each)
        elif (match := _ASSIGN.fullmatch(each)) and match[1] in needed:
            operator = f"v_{match[1]} {match[2]} " if match[2] else ""
            kept.append((match[1], _python(f"{operator}({match[3]})", bool(match[2]))))
        elif (match := _STEP.fullmatch(each)) and match[1] in needed:
            kept.append((match[1], _python(f"{match[1]} {match[2][0]} 1")))
    block.body = kept
    return bool(kept)


def _python(text: str, prefixed: bool = False) -> Any:
    """Returns an expression of WGSL as Python code."""
    text = _GENERIC.sub(r"\1(", _HEXFLOAT.sub("0.0", text))
    text = _NUMBER.sub(r"\1", text)
    text = re.sub(r"!(?!=)", " not ", text.replace("&&", " and ").replace("||", " or "))
    text = text.replace("/", "//").replace("workgroupUniformLoad(&", "(")
    names = re.compile(r"(?<![.\w])(?!(?:and|or|not)\b|v_)[A-Za-z_]\w*")
    return compile(names.sub(lambda found: f"v_{found[0]}", text).strip(), "wgsl", "eval")


def _value(code: Any, known: dict[str, Any]) -> Any:
    """Returns the value, or None where it is not known."""
    try:
        return eval(code, {"__builtins__": {}}, known)
    except (NameError, TypeError, ValueError, AttributeError, ZeroDivisionError, IndexError,
            SyntaxError):  # fmt: skip
        return None


def _run(block: Block, known: dict[str, Any]) -> None:
    for each in block.body:
        if not isinstance(each, Block):
            known[f"v_{each[0]}"] = _value(each[1], known)
        elif each.loop:
            _repeat(each, each.loop, known)
        elif not each.head.startswith("if") or _holds(each.head, known):
            _run(each, known)


def _holds(head: str, known: dict[str, Any]) -> bool:
    """Whether a condition holds; an unknown one does."""
    found = _value(_python(_inside(head[head.index("(") + 1 :])), known)
    return found is None or bool(found)


def _repeat(block: Block, loop: Loop, known: dict[str, Any]) -> None:
    first, condition, step = (
        part.strip() for part in _inside(block.head[block.head.index("(") + 1 :]).split(";")
    )
    start, move = _ASSIGN.fullmatch(first), _ASSIGN.fullmatch(step) or _STEP.fullmatch(step)
    assert start is not None and move is not None, block.head
    moved = f"{move[1]} {move[2][0]} 1"
    if move.re is _ASSIGN:
        moved = f"{move[1]} {move[2]} ({move[3]})" if move[2] else move[3]
    known[f"v_{start[1]}"] = _value(_python(start[3]), known)
    test, more = _python(condition), _python(moved)
    loop.entries += 1
    while (going := _value(test, known)) or (going is None and loop.rounds < loop.entries):
        loop.rounds += 1
        _run(block, known)
        known[f"v_{move[1]}"] = _value(more, known)
