"""Compile-time loops and conditions in kernel files, written like WGSL.

A kernel file reads as WGSL with four additions, which are resolved when the kernel is rendered:

* `PIXELS`: the variant's `pixels`, or a constant of `@let SHARE = ...;`, as a u32 literal. A word
  in capitals that the file declares with `const` is WGSL's own.
* `@for j in PIXELS { ... }`: the lines once for each j from 0; `1..PIXELS` begins at 1, and
  `j in PIXELS, q in SLICES` nests. In them `sum[j][q]` is a variable of its own, `sum0_1`.
* `@if SHARED && STEP > 1 { ... } @else { ... }`: one of the blocks, without a scope of its own.
* `@macro load(j, u) { ... }`, called as a line `@load(j, 0);`: lines that occur more than once.

A block ends with the brace that is indented like its first line. All of that becomes Jinja2's own
syntax, which a kernel file may use as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Set

_CONSTANT = re.compile(r"(?<![\w.\"])[A-Z][A-Z_]+(?![\w(])")
_DECLARED = re.compile(r"\bconst (\w+)")
_JINJA = re.compile(r"({[{%#].*?[}%#]}\w*)")
_INDEXED = re.compile(r"(?<![\w.])([a-z]\w*)((?:\[[^\[\]]+\])+)")
_NAME = re.compile(r"(?<!\w)[A-Za-z_]\w*")
_WORD = re.compile(r"(?<![\w.])[A-Za-z_]\w*(?![\w(])")
_TYPED = re.compile(r"\d[uif]\b")
_OPENING = re.compile(r"( *)@(for|if|macro) (.*) {$")
_CLOSING = re.compile(r"( *)}(?: @else(?: if (.*))? {)?$")
_LET = re.compile(r" *@let (\w+) = (.*);$")
_CALL = re.compile(r" *@([\w.]+)\((.*)\);$")
_OPERATORS = {"&&": "and", "||": "or", "!": "not ", "/": "//"}
_OPERATOR = re.compile(r"&&|\|\||!(?!=)|/")


def jinja(text: str) -> str:
    """A kernel file in Jinja2's syntax."""
    return "".join(_lines(text))


def _lines(text: str) -> Iterator[str]:
    own, unrolled = {*_DECLARED.findall(text)}, "@for" in text
    blocks: list[tuple[str, tuple[str, ...], str]] = []  # indentation, names, what ends it
    for line in text.splitlines():
        indent = blocks[-1][0] if blocks else None
        if opened := _OPENING.match(line):
            names, begins, ends = _block(opened[2], opened[3])
            blocks.append((opened[1], names, ends))
            yield f"{begins}\n"
        elif (closed := _CLOSING.match(line)) and closed[1] == indent:
            if "@else" in line:
                yield f"{{% elif {_value(closed[2])} %}}\n" if closed[2] else "{% else %}\n"
            else:
                yield f"{blocks.pop()[2]}\n"
        elif found := _LET.match(line):
            yield f"{{% set {found[1].lower()} = {_value(found[2])} %}}\n"
        elif found := _CALL.match(line):
            yield f"{{{{ {found[1]}({_value(found[2])}) }}}}{{#\n#}}"
        else:
            bound = {name for block in blocks for name in block[1]}
            yield f"{_written(line, bound, own, unrolled)}\n"


def _block(kind: str, head: str) -> tuple[tuple[str, ...], str, str]:
    """The names that a block binds, and how it begins and ends."""
    if kind == "if":
        return (), f"{{% if {_value(head)} %}}", "{% endif %}"
    if kind == "macro":
        names = tuple(_NAME.findall(head[head.index("(") :]))
        return names, f"{{% macro {head} %}}", "{% endmacro %}"
    loops = [loop.split(" in ") for loop in head.split(", ")]
    begins = "".join(f"{{% for {name} in {_range(span)} %}}" for name, span in loops)
    return tuple(name for name, _ in loops), begins, "{% endfor %}" * len(loops)


def _range(span: str) -> str:
    return f"range({', '.join(_value(end) for end in span.split('..'))})"


def _value(expression: str) -> str:
    """An expression of constants as Jinja2 has it."""
    lower = _CONSTANT.sub(lambda found: found[0].lower(), expression)
    return _OPERATOR.sub(lambda found: _OPERATORS[found[0]], lower)


def _written(line: str, names: Set[str], own: Set[str], unrolled: bool) -> str:
    """A line of WGSL with the constants and the names of loops filled in."""

    def known(index: str) -> bool:
        words = _NAME.findall(index)
        return not _TYPED.search(index) and all(w in names or w in constants for w in words)

    def variable(found: re.Match[str]) -> str:
        indices = found[2][1:-1].split("][")
        if not all(map(known, indices)):
            return found[0]
        return found[1] + "_".join(f"{{{{ {_value(index)} }}}}" for index in indices)

    code, slashes, comment = line.partition("//")
    constants = {*_CONSTANT.findall(code)} - own
    if unrolled:
        code = _outside(code, _INDEXED, variable)
    code = _outside(code, _WORD, lambda found: _literal(found[0], names, constants))
    return code + slashes + comment


def _literal(word: str, names: Set[str], constants: Set[str]) -> str:
    return f"{{{{ {word.lower()} }}}}u" if word in names or word in constants else word


def _outside(code: str, pattern: re.Pattern[str], new: Callable[[re.Match[str]], str]) -> str:
    """A line in which what is found outside of Jinja2's syntax is replaced."""
    parts = _JINJA.split(code)
    return "".join(part if k % 2 else pattern.sub(new, part) for k, part in enumerate(parts))
