"""Reads header files for the build. Their declarations become a Python module, so that no process
has to parse them, and the symbols that they declare a list of exports for Windows. The sizes,
offsets and slots in their comments are checked.

Usage: python declare.py MODULE OUTPUT.py HEADER...
       python declare.py exports OUTPUT.def HEADER..."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

EXPORTS = "exports"
FUNCTION = re.compile(r"^(?!typedef\b)\w[\w *]*?(\w+)\(", re.MULTILINE)
CONSTANT = re.compile(r"^extern const \w+ (\w+);", re.MULTILINE)
# Comments on layout: the size of a struct in bytes; the offset of a member (`at`), or its slot.
STRUCT = re.compile(
    r"^(?:typedef )?struct (\w+) \{(.*?)\}[\w ]*;(?: /\* (\d+) byte)?", re.MULTILINE | re.DOTALL
)
MEMBER = re.compile(r"(\w+)(?:\[\d+\])?(?:\)\([^;]*\))?; +/\* (at )?(\d+)\b")
SLOT_BYTES = 8


def main(kind: str, output: str, *headers: str) -> None:
    texts = [Path(header).read_text(encoding="utf-8") for header in headers]
    if kind == EXPORTS:
        names = [name for text in texts for name in functions(text)]
        names += [f"{name} DATA" for text in texts for name in CONSTANT.findall(text)]
        Path(output).write_text("\n".join(["EXPORTS", *sorted(names)]) + "\n", encoding="utf-8")
        return
    from cffi import FFI

    parser: Any = FFI()
    parser.set_source(kind, None)
    for text in texts:
        parser.cdef(text)
        if wrong := [*misplaced(parser, text)]:
            sys.exit(f"{kind}: the header's comments are wrong about {', '.join(wrong)}")
    parser.emit_python_code(output)


def functions(text: str) -> list[str]:
    """Returns the functions that a header declares."""
    return FUNCTION.findall(text)


def misplaced(parser: Any, text: str) -> Iterator[str]:
    """Yields the structs and members of a header whose size or offset contradicts its comments."""
    for name, members, size in STRUCT.findall(text):
        if size and parser.sizeof(f"struct {name}") != int(size):
            yield name
        for member, at, place in MEMBER.findall(members):
            offset = int(place) if at else int(place) * SLOT_BYTES
            if parser.offsetof(f"struct {name}", member) != offset:
                yield f"{name}.{member}"


if __name__ == "__main__":
    main(*sys.argv[1:])
