"""The kernel files as Jinja2 templates, compiled once per machine."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from importlib.metadata import version

import jinja2
from jinja2.bccache import Bucket

from tflgpu_plugin import folders


@cache
def environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("tflgpu_plugin", "kernels"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        bytecode_cache=_compiled_templates(),
    )


class _CompiledTemplates(jinja2.FileSystemBytecodeCache):
    """A disk that is full or was taken away costs time, not the kernels."""

    def load_bytecode(self, bucket: Bucket) -> None:
        with suppress(OSError):
            super().load_bytecode(bucket)

    def dump_bytecode(self, bucket: Bucket) -> None:
        with suppress(OSError):
            super().dump_bytecode(bucket)


def _compiled_templates() -> jinja2.BytecodeCache | None:
    """Templates compiled by an earlier process: they are half of the time to plan a network."""
    folder = folders.cache("templates")
    written_by = f"jinja{version('jinja2')}"  # another compiler's code must not be loaded
    return _CompiledTemplates(str(folder), f"%s-{written_by}.cache") if folder else None
