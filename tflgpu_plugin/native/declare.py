"""Writes what header files declare as a Python module, so that no process has to parse them: for
the build. Usage: python declare.py MODULE OUTPUT.py HEADER...
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any


def main(module: str, output: str, *headers: str) -> None:
    from cffi import FFI

    parser: Any = FFI()
    parser.set_source(module, None)
    for header in headers:
        parser.cdef(Path(header).read_text())
    parser.emit_python_code(output)


if __name__ == "__main__":
    main(*sys.argv[1:])
