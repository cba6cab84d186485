"""Writes the models: python -m conformance.models.exported FOLDER [--only TEXT]."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="recipes whose name contains this")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    here = [name for name in ("torch", "keras") if find_spec(name)]
    if not here:
        print("Neither torch nor keras is installed: see torch.txt and keras.txt.", file=sys.stderr)
        return 2
    failed = 0
    for exporter in here:
        room = import_module(f"conformance.models.exported.{exporter}_exporter")
        for name, write in room.routes().items():
            if given.only not in name:
                continue
            try:
                write(given.folder)
                print(f"{name}: written", flush=True)
            except Exception as error:  # a limit of the exporter: tell it, and go on
                failed += 1
                said = str(error).strip().splitlines()[:1]
                print(f"{name}: {type(error).__name__} {said}", file=sys.stderr, flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
