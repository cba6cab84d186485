"""Writes the models: python -m conformance.models.exported FOLDER [--only TEXT]."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

# The first that is installed: litert-torch and ultralytics have torch beside them.
EXPORTERS = {
    "ultralytics": "conformance.models.exported.ultralytics_exporter",
    "litert_torch": "conformance.models.exported.litert_exporter",
    "torch": "conformance.models.exported.torch_exporter",
    "keras": "conformance.models.exported.keras_exporter",
    "onnxmltools": "conformance.models.exported.classical_exporter",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="recipes whose name contains this")
    parser.add_argument("--measured", action="store_true", help="those of make bench-today instead")
    parser.add_argument("--estimated", action="store_true", help="of make encoder-estimates")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    here = next((room for module, room in EXPORTERS.items() if find_spec(module)), None)
    if here is None:
        print("No exporter is installed: see torch.txt and its neighbours.", file=sys.stderr)
        return 2
    failed = 0
    module = import_module(here)
    chosen = module.estimated if given.estimated else module.routes
    for name, write in (module.measured if given.measured else chosen)().items():
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
