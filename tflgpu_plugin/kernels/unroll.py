"""Translates compile-time loops and conditions in kernel files, written like WGSL, to Jinja2.

A kernel file is WGSL with these additions, which are resolved when the kernel is rendered:

* `PIXELS`: the variant's `pixels`, or a constant of `@let SHARE = ...;`, as a u32 literal. A word
  in capitals that the file declares with `const` is WGSL's own. `LOAD(i)` calls the function that
  the constant names.
* `@for j in PIXELS { ... }`: repeats the lines for each j from 0; `1..PIXELS` begins at 1,
  `j in PIXELS, q in SLICES` nests, and with `j in PIXELS if SHARED` there are lines only then.
  Inside, `sum[j][q]` is a variable of its own, `sum0_1`.
* `@each j in PIXELS, q in SLICES;`: repeats each following line that names j for each j. The
  condition of such a line may name j, too.
* `@if SHARED && STEP > 1 { ... } @else { ... }`: selects a block, without a scope of its own;
  `@if SHARED: let x = 0u;` is a block of one line.
* `@macro load(j, u) { ... }`, called as a line `@load(j, 0);`: names lines that occur repeatedly.

The closing brace of a block is indented like its first line. A kernel file may also use Jinja2's
own syntax."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set

_CONSTANT = re.compile(r"(?<![\w.\"])[A-Z][A-Z_]+(?!\w)")
_DECLARED = re.compile(r"\bconst (\w+)")
_JINJA = re.compile(r"(\w*{[{%#].*?[}%#]}\w*)")
_INDEXED = re.compile(r"(?<![\w.])([a-z]\w*)((?:\[[^\[\]]+\])+)")
_NAME = re.compile(r"(?<!\w)[A-Za-z_]\w*")
_WORD = re.compile(r"(?<![\w.])([A-Za-z_]\w*)(?!\w)(\(?)")
_TYPED = re.compile(r"\d[uif]\b")
_OPENING = re.compile(r"( *)@(for|if|macro) (.*) {$")
_CLOSING = re.compile(r"( *)}(?: @else(?: if (.*))? {)?$")
_EACH = re.compile(r" *@each (.*);$")
_SINGLE = re.compile(r"( *)@if ([^:{]+): (.*)$")
_LET = re.compile(r" *@let ([\w, ]+) = (.*);$")
_CALL = re.compile(r" *(?:@if ([^:{]+): )?@([\w.]+)\((.*)\);$")
_OPERATORS = {"&&": "and", "||": "or", "!": "not ", "/": "//"}
_OPERATOR = re.compile(r"&&|\|\||!(?!=)|/")


def jinja(text: str) -> str:
    """Translates a kernel file to Jinja2's syntax."""
    return "".join(_lines(text))


def _lines(text: str) -> Iterator[str]:
    own, each = {*_DECLARED.findall(text)}, dict[str, str]()
    blocks: list[tuple[str, tuple[str, ...], str]] = []  # indentation, names, closing text
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
        elif found := _EACH.match(line):
            each |= dict(_spans(found[1]))
            yield "{##}\n"
        elif found := _LET.match(line):
            yield f"{{% set {found[1].lower()} = {_value(found[2])} %}}\n"
        elif found := _CALL.match(line):
            bound = {name for block in blocks for name in block[1]}
            call = f"{{{{ {found[2]}({_value(found[3])}) }}}}"
            begins, ends = _repeated(found[1] or "true", found[3], bound, each)
            yield f"{begins}{call}{ends}\n"
        else:
            bound = {name for block in blocks for name in block[1]}
            yield _statement(line, bound, each, own)


def _statement(line: str, bound: Set[str], each: Mapping[str, str], own: Set[str]) -> str:
    """Translates a line of WGSL, with its condition and its repetitions."""
    single = _SINGLE.match(line)
    if single:
        line = single[1] + single[3]
    code = line.partition("//")[0]
    named = " ".join(_JINJA.split(code)[::2])
    names = bound | _named(named, bound, each).keys()
    if names > bound and code.count("{") != code.count("}"):
        raise ValueError(f"a line that begins or ends a block cannot be repeated: {line}")
    made = _written(line, names, own, bool(each or bound))
    if not single and names == bound:
        return f"{made}\n"
    begins, ends = _repeated(single[2] if single else "true", named, bound, each)
    return f'{begins}{made}{{{{ "\\n" }}}}{ends}\n'


def _named(code: str, bound: Set[str], each: Mapping[str, str]) -> dict[str, str]:
    """Returns the loops of `@each` that repeat a line with this code: the bounds by name."""
    words = {*_NAME.findall(code)} - bound
    return {name: span for name, span in each.items() if name in words}


def _repeated(
    condition: str, code: str, bound: Set[str], each: Mapping[str, str]
) -> tuple[str, str]:
    """Returns the opening and closing Jinja2 text of a line with a condition and repetitions."""
    begins, ends = _loops([*_named(code, bound, each).items()])
    return f"{begins}{{% if {_value(condition)} %}}", f"{{% endif %}}{ends}"


def _block(kind: str, head: str) -> tuple[tuple[str, ...], str, str]:
    """Returns the names that a block binds, and its opening and closing text."""
    if kind == "if":
        return (), f"{{% if {_value(head)} %}}", "{% endif %}"
    if kind == "macro":
        names = tuple(_NAME.findall(head[head.index("(") :]))
        return names, f"{{% macro {head} %}}", "{% endmacro %}"
    spans, _, condition = head.partition(" if ")
    loops = _spans(spans)
    begins, ends = _loops(loops)
    if condition:
        begins, ends = f"{{% if {_value(condition)} %}}{begins}", f"{ends}{{% endif %}}"
    return tuple(name for name, _ in loops), begins, ends


def _spans(head: str) -> list[tuple[str, str]]:
    """Returns the names of loops, and their bounds."""
    parts = (loop.partition(" in ") for loop in head.split(", "))
    return [(name, span) for name, _, span in parts]


def _loops(loops: Sequence[tuple[str, str]]) -> tuple[str, str]:
    """Returns the opening and closing Jinja2 text of nested loops."""
    begins = "".join(f"{{% for {name} in {_range(span)} %}}" for name, span in loops)
    return begins, "{% endfor %}" * len(loops)


def _range(span: str) -> str:
    return f"range({', '.join(_value(end) for end in span.split('..'))})"


def _value(expression: str) -> str:
    """Translates an expression of constants to Jinja2."""
    lower = _CONSTANT.sub(lambda found: found[0].lower(), expression)
    return _OPERATOR.sub(lambda found: _OPERATORS[found[0]], lower)


def _written(line: str, names: Set[str], own: Set[str], unrolled: bool) -> str:
    """Returns a line of WGSL with constants and loop variables substituted."""

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
    code = _outside(code, _WORD, lambda found: _literal(found, names, constants))
    return code + slashes + comment


def _literal(found: re.Match[str], names: Set[str], constants: Set[str]) -> str:
    word, call = found.groups()
    if word in constants:
        return f"{{{{ {word.lower()} }}}}{call or 'u'}"
    return f"{{{{ {word} }}}}u" if word in names and not call else found[0]


def _outside(code: str, pattern: re.Pattern[str], new: Callable[[re.Match[str]], str]) -> str:
    """Returns a line with the matches outside of Jinja2 syntax replaced."""
    parts = _JINJA.split(code)
    return "".join(part if k % 2 else pattern.sub(new, part) for k, part in enumerate(parts))
