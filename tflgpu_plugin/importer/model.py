"""A host's graph as plain data: what a host hands over and the importer reads.

A host's snapshot makes a `HostModel` while the host's callback runs. Keys of values are their
names where these are unique, else the host's numbers in decimal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tflgpu_plugin.ir.graph import Array, Quantization

Extent = int | str  # a number, or the name of an open extent
DEFAULT_DOMAINS = ("", "ai.onnx")


@dataclass(frozen=True)
class Value:
    """A tensor of the host. `shape` has a name for each extent that is not known (one of its own
    where the model gives none); None means that not even the rank is known. `dtype` is "" for what
    is no tensor. `data` is a constant, mostly a view on the host's memory; with `default`, the user
    may give other data. `element` is the host's number of the type. `variable`: state that the host
    keeps between runs. `damage` says why the value cannot be read, as the end of a sentence that
    begins with its name."""

    name: str
    dtype: str
    shape: tuple[Extent, ...] | None
    data: Array | None = None
    default: bool = False
    element: int = 0
    quantization: Quantization | None = None
    variable: bool = False
    damage: str = ""


@dataclass(frozen=True)
class HostNode:
    """A node. Absent inputs and outputs are None. `implicit` are values that its bodies read, and
    `bodies` the graphs that it runs. `provider` has the node already ("": none), and `refusal` is
    the host's own reason why nobody else may take it."""

    id: int
    op: str
    domain: str
    version: int
    name: str
    inputs: tuple[str | None, ...]
    outputs: tuple[str | None, ...]
    implicit: tuple[str, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    provider: str = ""
    refusal: str = ""
    bodies: tuple[HostModel, ...] = field(default=(), compare=False)

    @property
    def reads(self) -> tuple[str, ...]:
        """Every value that must exist before the node runs."""
        given = [key for key in (*self.inputs, *self.implicit) if key is not None]
        return tuple(dict.fromkeys(given))

    @property
    def writes(self) -> tuple[str, ...]:
        return tuple(key for key in self.outputs if key is not None)

    @property
    def title(self) -> str:
        """The operator with its domain, if that is not the default one: its name in tables."""
        return self.op if self.domain in DEFAULT_DOMAINS else f"{self.domain}:{self.op}"


@dataclass(frozen=True)
class HostModel:
    """Nodes in the host's order of execution, all values by key, and the keys of the outputs."""

    nodes: tuple[HostNode, ...]
    values: Mapping[str, Value]
    outputs: tuple[str, ...]

    @property
    def reads(self) -> tuple[str, ...]:
        """What nodes read, in order and without repeats."""
        return tuple(dict.fromkeys(key for node in self.nodes for key in node.reads))

    @property
    def inputs(self) -> tuple[str, ...]:
        """Values that come from outside, constants not among them."""
        made = {key for node in self.nodes for key in node.writes}
        return tuple(k for k in self.reads if k not in made and self.values[k].data is None)
