"""Arguments that several commands take: the inputs of a model, and the plugin's options."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tflgpu_plugin.harness.inputs import BadInput, Given, loaded, require_same

FILE = "NAME=FILE.npy"


def inputs(arguments: Mapping[str, Any]) -> Given:
    """Returns the inputs that a user gives (`shared.fed`). Raises BadInput."""
    get = arguments.__getitem__
    return Given(get("image"), get("mean"), get("std"), get("seed"), files(get("files")),
                 shapes(get("shapes")))  # fmt: skip


def options(arguments: Mapping[str, Any]) -> dict[str, str]:
    """Returns the plugin's options, with the adapter if one is named."""
    adapter = arguments["adapter"]
    return {**arguments["given"], **({} if adapter is None else {"adapter": adapter})}


def all_shapes(arguments: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of inputs (`shared.shaped`), those of given values included. Raises
    BadInput."""
    values = {name: loaded(path).shape for name, path in files(arguments["files"]).items()}
    stated = shapes(arguments["shapes"])
    for name, shape in values.items():
        require_same(name, shape, stated.get(name))
    return stated | values


def files(given: Iterable[str]) -> dict[str, Path]:
    """Returns the file of each input, by the input's name. Raises BadInput."""
    found = {name: Path(value) for name, value in _pairs(given, FILE) if value}
    if empty := [item for item in given if item.endswith("=")]:
        raise BadInput(f"An input is written {FILE}, not {empty[0]!r}.")
    return found


def shapes(given: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """Returns the shape of each input, by the input's name. Raises BadInput."""
    found = {}
    for name, value in _pairs(given, "NAME=1x512"):
        extents = value.lower().split("x") if value else []
        if not all(extent.isdecimal() and len(extent) < 10 for extent in extents):
            raise BadInput(f"A shape is numbers with x between them, such as 1x512, not {value!r}.")
        found[name] = tuple(map(int, extents))
    return found


def _pairs(given: Iterable[str], form: str) -> Iterator[tuple[str, str]]:
    for item in given:
        name, separator, value = item.rpartition("=")
        if not separator:
            raise BadInput(f"An input is written {form}, not {item!r}.")
        yield name, value
