"""Mutants, and the mutants of a file."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.mutation import python_sites, token_sites
from tests.mutation.edits import Edit

ROOT = Path(__file__).resolve().parents[2]

# Rooms by area: what of them is mutated. Files that only print, ask or explain are left out.
AREAS: dict[str, tuple[str, ...]] = {
    "kernels": tuple(
        f"tflgpu_plugin/kernels/{name}"
        for name in ("*.wgsl", "__init__.py", "accessors.py", "epilogue.py")
    ),
    "ops": ("tflgpu_plugin/ops/*.py",),
    "passes": ("tflgpu_plugin/passes/**/*.py", "tflgpu_plugin/ir/quantization.py"),
    "readers": (
        "tflgpu_plugin/importer/builder.py",
        "tflgpu_plugin/importer/node_reader.py",
        "tflgpu_plugin/importer/folding.py",
        "tflgpu_plugin/importer/importer.py",
        "tflgpu_plugin/importer/loop_body.py",
        "tflgpu_plugin/importer/loop_values.py",
        "tflgpu_plugin/importer/loop_layer.py",
        "tflgpu_plugin/importer/arithmetic.py",
        "tflgpu_plugin/importer/imported.py",
        "tflgpu_plugin/importer/plain.py",
        "tflgpu_plugin/importer/partition_rules.py",
        "tflgpu_plugin/importer/row_conditions.py",
        "tflgpu_plugin/importer/rules.py",
        "tflgpu_plugin/importer/state.py",
        "tflgpu_plugin/ir/host_op.py",
        "tflgpu_plugin/importer/subgraph.py",
        "tflgpu_plugin/importer/symbols.py",
        "tflgpu_plugin/frontend/records.py",
        "tflgpu_plugin/frontend/callbacks.py",
        "providers/*.py",
        "providers/tflite/*.py",
        "providers/onnxruntime/*.py",
    ),
    "memory": (
        "tflgpu_plugin/compile/*.py",
        "tflgpu_plugin/importer/support.py",
        "tflgpu_plugin/importer/partition.py",
        "tflgpu_plugin/ir/graph.py",
        "tflgpu_plugin/ir/plan.py",
        "tflgpu_plugin/ops/lowering.py",
    ),
    "cache": ("tflgpu_plugin/cache/*.py",),
    "native": tuple(
        f"tflgpu_plugin/native/{name}.c"
        for name in ("core/adapters", "core/buffer", "core/device", "core/submission",
                     "tflite/handles", "tflite/kernel", "ort/compiled_model", "ort/ep", "ort/run",
                     "core/pipeline",
                     "core/plans", "core/readback", "core/replay", "core/reshape", "core/run",
                     "core/run_ports", "core/symbols", "core/timestamps", "core/habits",
                     "core/slots",
                     "core/tensor_blocks", "core/tensor_ports", "core/tensors",
                     "ort/device_memory", "tflite/claim",
                     "tflite/delegate", "tflite/lifetime", "core/log")
    ),
}  # fmt: skip
SHARES = {"kernels": 24, "ops": 20, "passes": 15, "readers": 15, "memory": 8, "cache": 8,
          "native": 10}  # fmt: skip
LEFT_OUT = {
    "providers/onnxruntime/registration.py", "providers/onnxruntime/host.py",
    "providers/tflite/codes.py",
    "tflgpu_plugin/frontend/callbacks.py", "tflgpu_plugin/frontend/records.py",
    "tflgpu_plugin/cache/__init__.py", "tflgpu_plugin/compile/__init__.py",
    "tflgpu_plugin/compile/tuning.py", "providers/__init__.py", "providers/tflite/__init__.py",
    "providers/onnxruntime/__init__.py", "providers/tflite/delegates.py",
    "providers/onnxruntime/sessions.py", "providers/tflite/refusals.py",
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """A mutant: `edit` applied to `file` (a path from the root)."""

    area: str
    file: str
    edit: Edit

    @property
    def original(self) -> str:
        return text(self.file)

    @property
    def mutated(self) -> str:
        whole = self.original
        return whole[: self.edit.start] + self.edit.new + whole[self.edit.end :]

    @property
    def line(self) -> int:
        return self.original.count("\n", 0, self.edit.start) + 1

    @property
    def before(self) -> str:
        """Returns the original line or lines."""
        return _lines(self.original, self.edit.start, self.edit.end)

    @property
    def after(self) -> str:
        """Returns the mutated line."""
        return _lines(self.mutated, self.edit.start, self.edit.start + len(self.edit.new))

    def __str__(self) -> str:
        return f"{self.file}:{self.line}\n    - {self.before}\n    + {self.after}"


def _lines(whole: str, start: int, end: int) -> str:
    first = whole.rfind("\n", 0, start) + 1
    last = whole.find("\n", max(end, start))
    return " ".join(whole[first : last if last >= 0 else None].split())


@cache
def text(file: str) -> str:
    return (ROOT / file).read_text()


@cache
def files(area: str) -> tuple[str, ...]:
    """Returns the files of an area that are mutated, in order."""
    found = sorted(str(p.relative_to(ROOT)) for glob in AREAS[area] for p in ROOT.glob(glob))
    return tuple(name for name in found if name not in LEFT_OUT and edits(name))


@cache
def edits(file: str) -> tuple[Edit, ...]:
    """Returns all edits of a file that are tried."""
    if file.endswith(".py"):
        return tuple(python_sites.edits(text(file)))
    return tuple(token_sites.edits(text(file), file.endswith(".wgsl")))


def sample(count: int, seed: int, areas: Sequence[str] = ()) -> list[Mutant]:
    """Returns this many mutants, spread over areas by share and over files by size. Another
    line elsewhere changes none of them: each mutant draws its own lot. Areas are mixed, so that a
    run that ends early has seen all of them."""
    chosen = {area: SHARES[area] for area in areas or AREAS}
    whole, before, found = sum(chosen.values()), 0, list[Mutant]()
    for area, share in chosen.items():
        every = [Mutant(area, file, edit) for file in files(area) for edit in edits(file)]
        wanted = round(count * (before + share) / whole) - round(count * before / whole)
        found += sorted(every, key=lambda mutant: _lot(mutant, seed))[:wanted]
        before += share
    return sorted(found, key=lambda mutant: _lot(mutant, seed))


def _lot(mutant: Mutant, seed: int) -> bytes:
    first = mutant.original.rfind("\n", 0, mutant.edit.start) + 1
    line = mutant.original[first : mutant.original.find("\n", mutant.edit.end)]
    place = f"{mutant.edit.start - first} {mutant.edit.new}"
    return hashlib.sha256(f"{seed} {mutant.file} {line} {place}".encode()).digest()


def counted(mutants: Sequence[Mutant]) -> Counter[str]:
    return Counter(mutant.area for mutant in mutants)
