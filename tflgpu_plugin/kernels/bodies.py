"""Renders kernel files for a variant and caches them in the user's cache folder: a start that finds
everything there does not import Jinja2, which takes half of the time to plan a network."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from hashlib import sha256
from pathlib import Path

from tflgpu_plugin.cache import folders

Variant = tuple[tuple[str, object], ...]

_OTHER = re.compile(r"{%-?\s*(?:import|include)\s+\"([\w.%]+)\"")
_NOTATION = 1  # increase when `unroll` translates a file differently
_FOLDER = Path(__file__).parent


@lru_cache(1024)
def body(name: str, variant: Variant) -> str:
    """Returns `kernels/<name>.wgsl` rendered with this variant."""
    folder = folders.cache("kernels")
    path = folder / f"{name}-{_key(name, variant)}.wgsl" if folder else None
    if path and (kept := folders.kept(path)) is not None:
        return kept
    from tflgpu_plugin.kernels import templates

    template = templates.environment().get_template(f"{name}.wgsl")
    made = str(template.render(**dict(variant)))
    if path:
        folders.keep(path, made)
    return made


def _key(name: str, variant: Variant) -> str:
    """Returns a digest of the file, its includes, and the variant."""
    sources = _sources(f"{name}.wgsl")
    return sha256(repr((_NOTATION, sources, variant)).encode()).hexdigest()[:32]


@cache
def _sources(file: str) -> tuple[str, ...]:
    """Returns the text of a file and of its includes; `%s` in a name stands for any text."""
    paths = _FOLDER.glob(file.replace("%s", "*")) if "%s" in file else (_FOLDER / file,)
    texts = [path.read_text() for path in sorted(paths)]
    others = [other for text in texts for other in _OTHER.findall(text)]
    return (*texts, *(part for other in others for part in _sources(other)))
