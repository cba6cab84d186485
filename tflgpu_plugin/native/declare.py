"""Reads header files for the build: what they declare becomes a Python module, so that no process
has to parse them, and the functions that they name become a list of exports for Windows.

Usage: python declare.py MODULE OUTPUT.py HEADER...
       python declare.py exports OUTPUT.def HEADER...
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

EXPORTS = "exports"
FUNCTION = re.compile(r"^(?!typedef\b)\w[\w *]*?(\w+)\(", re.MULTILINE)


def main(kind: str, output: str, *headers: str) -> None:
    texts = [Path(header).read_text(encoding="utf-8") for header in headers]
    if kind == EXPORTS:
        names = [name for text in texts for name in functions(text)]
        Path(output).write_text("\n".join(["EXPORTS", *sorted(names)]) + "\n", encoding="utf-8")
        return
    from cffi import FFI

    parser: Any = FFI()
    parser.set_source(kind, None)
    for text in texts:
        parser.cdef(text)
    parser.emit_python_code(output)


def functions(text: str) -> list[str]:
    """The functions that a header declares."""
    return FUNCTION.findall(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
