"""The kernel files as Jinja2 templates. Compiled templates are code, so they are not kept between
processes; what is made of them is (`bodies`).
"""

from __future__ import annotations

from functools import cache
from itertools import product
from pathlib import Path

import jinja2


@cache
def environment() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        optimized=False,  # takes longer than it saves, for what is rendered once
    )
    made.globals["product"] = product
    return made
