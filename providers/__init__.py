"""Providers: the frontends of hosts, found as entry points and imported only when needed.

A provider is the object (often a module) behind an entry point of the group
`tflgpu_plugin.providers`. The built-in frontends are found in the same way. A package that adds its
own host imports only this module of the plugin; docs/add-a-host.md explains how:

>>> facts = providers.Facts(judge=providers.judge())  # doctest: +SKIP
>>> found = providers.import_(model, table, facts)  # doctest: +SKIP
>>> claim = providers.claim(found)  # doctest: +SKIP
>>> outputs = claim.partitions[0].run(inputs)  # doctest: +SKIP"""
# ruff: noqa: F403, F405

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from tflgpu_plugin.providers.interface import *

GROUP = "tflgpu_plugin.providers"


class ProviderError(RuntimeError):
    """An error for a provider that is missing or cannot be used; the text says what to do."""


@runtime_checkable
class Provider(Protocol):
    """The interface of the object behind an entry point, which may be a module.

    `name` is the name of the entry point. `install` says what to install when the host is missing,
    for example "pip install tflite-runtime". A provider may have more functions for its own host.
    """

    name: str
    description: str
    install: str

    def connect(self) -> None:
        """Registers the provider with its host. The plugin calls it when the provider is first
        needed; further calls must do nothing.

        Raises ProviderError with a sentence."""


@functools.cache
def discover() -> Mapping[str, Provider]:
    """Returns all providers that can be imported, by name. One that cannot be imported is skipped
    with a warning that says what to install. `discover.cache_clear()` makes the next call search
    again."""
    import entrypoints

    found: dict[str, Provider] = {}
    for point in entrypoints.get_group_all(GROUP):
        if point.name in found:
            warnings.warn(
                f"Two packages have a provider {point.name!r}; the first is used.", stacklevel=2
            )
            continue
        provider = _load(point)
        if provider is not None:
            found[point.name] = provider
    return found


def find(name: str) -> Provider:
    """Returns the provider of this name, or raises ProviderError, which lists the others."""
    found = discover()
    if name not in found:
        others = ", ".join(found) or "none"
        raise ProviderError(
            f"There is no provider {name!r} in the entry-point group {GROUP} (found: {others}). "
            "Reinstall tflgpu-plugin, or the package that has the provider."
        )
    return found[name]


def _load(point: Any) -> Provider | None:
    """Returns the object behind an entry point, or None with a warning."""
    package = getattr(point.distro, "name", "") or point.module_name.split(".")[0]
    try:
        provider = point.load()
    except (
        Exception
    ) as error:  # no exception of a third party's import may affect the other providers
        _warn_unusable(point, package, _advice(error, point, package))
        return None
    if isinstance(provider, Provider):
        return provider
    lacking = "it lacks name, description, install or connect()"
    _warn_unusable(point, package, f"{lacking}. Update {package}.")
    return None


def _warn_unusable(point: Any, package: str, reason: str) -> None:
    text = f"The provider {point.name!r} of {package} cannot be used: {reason}"
    warnings.warn(text, stacklevel=4)


def _advice(error: Exception, point: Any, package: str) -> str:
    extras = ",".join(point.extras or ())
    target = f"{package}[{extras}]" if extras else package
    if isinstance(error, ModuleNotFoundError) and error.name:
        module = error.name.split(".")[0]
        return (
            f"it needs the module {module!r}. Install that (pip install {module}), or the package "
            f"with all it needs (pip install '{target}')."
        )
    return (
        f"importing it failed ({type(error).__name__}: {error}). Reinstall it with: "
        f"pip install --force-reinstall '{target}'"
    )


def judge(options: Options | Mapping[str, object] | None = None) -> Judge:
    """Returns the judge that decides which nodes can run on the GPU with these options, parsed or
    as a host passes them. Raises OptionError, NoAdapter or (in a forked child) NativeError with a
    sentence."""
    from tflgpu_plugin import engine, native
    from tflgpu_plugin.options import Options, parse

    parsed = options if isinstance(options, Options) else parse(options)
    with native.busy():
        return engine.judge(parsed)


def import_(model: HostModel, table: Table, facts: Facts | None = None) -> Imported:
    """Imports `model`, a host's graph, with the operators of `table`: each node is constant-folded,
    becomes nodes of the plugin's graph, or is refused. Nodes must come in execution order. Raises
    ValueError with a sentence for a model that contradicts itself."""
    from tflgpu_plugin.importer import checks, importer
    from tflgpu_plugin.importer.imported import Facts

    checks.check_model(model)
    known = facts or Facts()
    checks.check_shapes(model, known.shapes)
    return importer.import_(model, table, known)


def claim(
    found: Imported,
    *,
    grouping: Callable[[Sequence[int]], list[list[int]]] | None = None,
    extraction: Callable[[Any, Collection[int]], Any] | None = None,
    repeated: bool = False,
    nested: bool = False,
) -> Claim:
    """Builds the partitions of `found`, which was imported with a judge. Returns them, with a
    refusal for every node outside of them.

    `grouping` maps node ids to the groups in which the host would replace them (default: convex
    partitions); `extraction` returns the nodes of a group as a graph. `repeated`: a loop runs the
    graph once per step. `nested`: it is the body of a control-flow node. Raises NoAdapter or (in a
    forked child) NativeError with a sentence, ValueError for a graph without a judge."""
    from tflgpu_plugin import engine, native

    with native.busy():
        return engine.claim(found, grouping, extraction, repeated, nested)


def __getattr__(name: str) -> Any:
    if name.startswith("_") or name not in _interface().__all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals().setdefault(name, getattr(_interface(), name))  # frontends ask for each node


def __dir__() -> list[str]:
    return sorted({*globals(), *_interface().__all__})


def _interface() -> Any:
    return import_module("tflgpu_plugin.providers.interface")
