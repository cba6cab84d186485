"""A host's graph as plain data, which a host provides and the importer reads.

A host's snapshot makes a `HostModel` while the host's callback runs. Keys of values are their names
where these are unique, else the host's numbers in decimal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from tflgpu_plugin.ir import Array, Quantization, Refusal

Extent = int | str  # a number, or the name of an open extent
DEFAULT_DOMAINS = ("", "ai.onnx")


@dataclass(frozen=True)
class Value:
    """A tensor of the host. `shape` has a name for each extent that is not known (a generated one
    where the model gives none); None means that not even the rank is known. `dtype` is a name of
    `graph.NUMPY_DTYPES`, "" for a value that is no tensor. `data` is a constant, mostly a view of
    the host's memory; with `default`, the user may provide other data. `element` is the host's
    number of the type. `variable`: state that the host keeps between runs. `constant`: the model
    contains it, readable or not; `damage` says why it cannot be read, as the end of a sentence that
    begins with its name, and `dense` reads the values of a sparse constant (raises Unsupported).
    """

    name: str
    dtype: str
    shape: tuple[Extent, ...] | None
    data: Array | None = None
    default: bool = False
    element: int = 0
    quantization: Quantization | None = None
    variable: bool = False
    constant: bool = False
    damage: str = ""
    dense: Callable[[], Array] | None = field(default=None, compare=False)


@dataclass(frozen=True)
class HostNode:
    """A node. Absent inputs and outputs are None. `implicit` are values that its bodies read, and
    `bodies` the graphs that it runs. `provider` has already claimed the node ("": none), and
    `refusal` is the host's own reason why no provider may claim it; a node of a claimed partition
    has none.
    """

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
    refusal: Refusal | None = field(default=None, compare=False)
    bodies: tuple[HostModel, ...] = field(default=(), compare=False)

    @cached_property
    def reads(self) -> tuple[str, ...]:
        """Returns every value that must exist before the node runs."""
        given = [key for key in (*self.inputs, *self.implicit) if key is not None]
        return tuple(dict.fromkeys(given))

    @cached_property
    def writes(self) -> tuple[str, ...]:
        return tuple(key for key in self.outputs if key is not None)

    @property
    def title(self) -> str:
        """Returns the operator with its domain, if that is not the default one: its name in
        tables.
        """
        return self.op if self.domain in DEFAULT_DOMAINS else f"{self.domain}:{self.op}"


@dataclass(frozen=True)
class HostModel:
    """Nodes in the host's order of execution, all values by key, and the keys of the outputs.
    `given` are the keys of the inputs of a graph that a node runs, in the order in which the node
    passes them. `numbered`: the keys are numbers, which tensors get as their ids. `fused` and
    `ordered` are as in `Graph`. `present` has the numbers that open extents have in the host now;
    unless the model `tells_open` extents, those of 1 may be open.
    """

    nodes: tuple[HostNode, ...]
    values: Mapping[str, Value]
    outputs: tuple[str, ...]
    given: tuple[str, ...] = field(default=(), kw_only=True)
    numbered: bool = field(default=False, kw_only=True)
    fused: bool = field(default=True, kw_only=True)
    ordered: bool = field(default=True, kw_only=True)
    present: Mapping[str, int] = field(default_factory=dict, kw_only=True)
    tells_open: bool = field(default=True, kw_only=True)

    @property
    def reads(self) -> tuple[str, ...]:
        """Returns the values that nodes read, in order and without repeats."""
        return tuple(dict.fromkeys(key for node in self.nodes for key in node.reads))

    def loosened(self, changed: Iterable[str]) -> HostModel:
        """Returns the model without stated shapes for all results that nodes compute from these
        values.
        """
        found = {*changed}
        if not found:
            return self
        for node in self.nodes:
            if not found.isdisjoint(node.reads):
                found.update(node.writes)
        made = {key for node in self.nodes for key in node.writes} & found
        values = {k: replace(v, shape=None) if k in made else v for k, v in self.values.items()}
        return replace(self, values=values)

    @property
    def inputs(self) -> tuple[str, ...]:
        """Returns the values that come from outside, constants not among them."""
        made = {key for node in self.nodes for key in node.writes}
        return tuple(k for k in self.reads if k not in made and self.values[k].data is None)
