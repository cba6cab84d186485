"""Loads kernel files as Jinja2 templates. Compiled templates are code, so only their rendered text
is cached between processes (`bodies`)."""

from __future__ import annotations

from functools import cache
from itertools import product
from pathlib import Path

import jinja2
from jinja2.ext import Extension

from tflgpu_plugin.kernels import unroll


class Unrolling(Extension):
    """Translates the notation of `unroll` before Jinja2 reads a file."""

    def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
        return unroll.jinja(source)


@cache
def environment() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        undefined=jinja2.StrictUndefined,
        extensions=[Unrolling],
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        optimized=False,  # costs more than it saves for templates rendered once
    )
    made.globals["product"] = product
    return made
