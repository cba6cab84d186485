"""Where a WGSL template or a C file can be changed, by its tokens.

Of C, what only changes memory stays: calls that give something back, a leak; numbers whose growth
makes an allocation larger; and the 1 of `return 1;`, which says that something failed, as any
number but 0 does."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.mutation.edits import Edit

# In order: what is skipped as a whole, then tokens.
SKIPPED = {
    True: r"//[^\n]*|{#.*?#}|{%.*?%}|{{.*?}}|@\w+(?:\([^)]*\))?|->|bitcast<\w+>|array<[^>]*>"
    r"|var<[^>]*>|vec\d<\w+>|mat\w+",
    False: r"/\*.*?\*/|//[^\n]*|^[ \t]*#(?:[^\n\\]|\\.|\\\n)*|\"(?:[^\"\\\n]|\\.)*\""
    r"|'(?:[^'\\]|\\.)'|->|\+\+|--",
}
NUMBER = (
    r"(?<![\w.])(?:0x[0-9a-fA-F.]+(?:p[+-]?\d+)?[uif]*|\d+\.\d*(?:e[+-]?\d+)?f?"
    r"|\d+(?:e-?\d+)?[uifULl]*)(?![\w.])"
)
WORDS = r"\b(?:min|max|floor|ceil|round|trunc|true|false)\b"
OPERATORS = r"~|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%]=|[-+*/%<>&|!](?![=&|])"
SWAPS = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&",
    "<<": ">>", ">>": "<<", "+=": "-=", "-=": "+=", "min": "max", "max": "min",
    "floor": "ceil", "ceil": "floor", "round": "trunc", "trunc": "round", "true": "false",
    "false": "true", "!": " ", "~": " ",
}  # fmt: skip
# Operators between two operands; C's * and & are too often pointers.
BINARY = {True: {"+": "-", "-": "+", "*": "+", "/": "*", "%": "/", "&": "|", "|": "&"},
          False: {"+": "-", "-": "+", "/": "*", "%": "/", "|": "&"}}  # fmt: skip
CALL = re.compile(
    r"^[ \t]+(?!free\b|W\(\w+(?:Release|FreeMembers)\)|api->release_"
    r"|(?:return|if|for|while|switch|else)\b)[\w.>-]+\([^;{}]*\);",
    re.M,
)

# Functions that keep an index or a length in range: WGSL's clamp is replaced by its first operand.
CLAMP = re.compile(r"\bclamp\(")


# A number of C that is no mutant where it stands: after "return", or added up in an allocation.
HARMLESS = re.compile(r"\breturn $|\b[cm]alloc\((?:[^;\n]*[+:?,] )?\(*$")


def edits(text: str, wgsl: bool) -> Iterator[Edit]:
    """Yields all edits, in no particular order."""
    pattern = re.compile(
        f"(?P<skip>{SKIPPED[wgsl]})|(?P<number>{NUMBER})|(?P<word>{WORDS})|(?P<operator>{OPERATORS})",
        re.M | re.S,
    )
    for match in pattern.finditer(text):
        kind, token = str(match.lastgroup), match.group()
        if kind == "number":
            line = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
            new = "" if not wgsl and token == "1" and HARMLESS.search(line) else _number(token)
        elif kind == "operator" and token in BINARY[wgsl]:
            new = BINARY[wgsl][token] if _between(text, match.start(), match.end()) else ""
        else:
            new = SWAPS.get(token, "")
        if new and kind != "skip":
            yield Edit(*match.span(), new, kind)
    for match in CLAMP.finditer(text) if wgsl else ():
        first, end = (_end(text, match.end(), ends) for ends in (",", ")"))
        yield Edit(match.start(), end + 1, f"({text[match.end() : first]})", "unclamped")
    for match in CALL.finditer(text) if not wgsl else ():
        first = match.start() + len(match.group()) - len(match.group().lstrip())
        yield Edit(first, match.end(), ";", "removed")


def _end(text: str, start: int, ends: str) -> int:
    """Returns the position of the first of `ends` outside of brackets that are opened after
    `start`."""
    depth, at = 0, start
    while depth or text[at] not in ends:
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        at += 1
    return at


def _number(token: str) -> str:
    """Returns the next integer, or a float that differs by 1 %; 1 for zero."""
    match = re.fullmatch(r"(\d+)([uifULl]*)", token)
    if match and "f" not in match[2]:
        return f"{int(match[1]) + 1}{match[2]}"
    match = re.fullmatch(r"(\d+\.\d*(?:e[+-]?\d+)?)(f?)", token)
    if match:
        value = float(match[1])
        changed = f"{value * 1.01 if value else 1.0:.10g}"
        return (changed if "." in changed or "e" in changed else f"{changed}.0") + match[2]
    if token.startswith("0x") and "." not in token and "p" not in token:
        digits = token.rstrip("ui")
        return f"{hex(int(digits, 16) ^ 1)}{token[len(digits) :]}"
    return ""


def _between(text: str, start: int, end: int) -> bool:
    """Whether the operator stands between operands with spaces around it: it is neither a sign nor
    a template bracket."""
    return text[start - 1 : start] == " " and text[end : end + 1] == " "
