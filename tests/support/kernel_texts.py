"""Compares the text of all kernels that conformance cases launch with that of another checkout,
after a change of kernel files that should not change what they render.

Usage: git worktree add ../before; python -m tests.support.kernel_texts ../before [FAMILY ...]"""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Iterator
from pathlib import Path

import jinja2

from tests.support import case_kernels
from tflgpu_plugin import kernels
from tflgpu_plugin.kernels import bodies, templates
from tflgpu_plugin.ops import FAMILIES


def environment_of(folder: Path) -> jinja2.Environment:
    """Returns the environment for the kernel files in this folder, with their own notation."""
    spec = importlib.util.spec_from_file_location("unroll_before", folder / "unroll.py")
    assert spec is not None and spec.loader is not None
    notation = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(notation)

    class Unrolling(jinja2.ext.Extension):
        def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
            return str(notation.jinja(source))

    made = templates.environment().overlay(
        loader=jinja2.FileSystemLoader(folder), extensions=[Unrolling]
    )
    made.extensions.pop(templates.Unrolling.identifier)
    return made


def launched(family: str) -> set[tuple[str, bodies.Variant]]:
    """Returns the kernels and variants that the cases of a family launch, without those that
    earlier calls have rendered."""
    found = set[tuple[str, bodies.Variant]]()
    plain = kernels.body

    def noted(name: str, variant: bodies.Variant) -> str:
        found.add((name, variant))
        return plain(name, variant)

    kernels.body = noted
    try:
        case_kernels.pipelines(family)
    finally:
        kernels.body = plain
    return found


def differing(before: jinja2.Environment, family: str) -> Iterator[str]:
    """Yields each kernel of a family, with its variant, whose text differs."""
    for name, variant in sorted(launched(family), key=repr):
        text = before.get_template(f"{name}.wgsl").render(**dict(variant))
        if text != bodies.body(name, variant):
            yield f"{name} {dict(variant)}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=Path)
    parser.add_argument("families", nargs="*", default=FAMILIES)
    given = parser.parse_args()
    before = environment_of(given.before / "tflgpu_plugin" / "kernels")
    for one in given.families:
        print(one, *(list(differing(before, one)) or ["the same"]), sep="\n  ", flush=True)
