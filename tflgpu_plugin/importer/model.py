"""A host's graph as plain data, which a host provides and the importer reads.

A host's frontend makes a `HostModel` while the host's callback runs. Keys of values are their names
where these are unique, else the host's tensor numbers in decimal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from tflgpu_plugin.ir import DOUBLE, SINGLE, Array, Quantization, Refusal

HostExtent = int | str  # a number, or the name of an extent that is dynamic in the model
DEFAULT_DOMAINS = ("", "ai.onnx")


@dataclass(frozen=True)
class Value:
    """A tensor of the host. `shape` has a name for each extent that is not known (a generated one
    where the model gives none); None means that not even the rank is known. `dtype` is a key of
    `graph.NUMPY_DTYPES`, "" for a value that is not a tensor. `data` is the value of a constant,
    mostly a view of the host's memory; with `default`, the user may provide other data. `element`
    is the host's number of the type. `variable`: the host keeps the value between runs. `constant`:
    the model contains the value, readable or not. `damage` says why it cannot be read, as text that
    follows its name in a sentence; `dense` returns a sparse constant (raises Unsupported)."""

    name: str
    dtype: str
    shape: tuple[HostExtent, ...] | None
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
    """A node. Absent inputs and outputs are None. `bodies` are the graphs that it runs, and
    `implicit` the outer values that these read. `provider` names the provider that has claimed the
    node already ("": none); `refusal` is the host's own reason why no provider may claim it. A node
    of a claimed partition has no `refusal`."""

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

    def with_bodies(self, bodies: Iterable[HostModel]) -> HostNode:
        """Returns the node with other graphs."""
        return replace(self, bodies=tuple(bodies)) if self.bodies else self

    @property
    def title(self) -> str:
        """Returns the operator's name in tables: with its domain, unless that is the default."""
        return self.op if self.domain in DEFAULT_DOMAINS else f"{self.domain}:{self.op}"


@dataclass(frozen=True)
class HostModel:
    """Nodes in the host's order of execution, all values by key, and the keys of the outputs. For a
    graph that a node runs, `given` are the keys of its inputs, in the order in which the node
    passes them. `numbered`: keys are numbers, which become the tensors' ids. `fused` and `ordered`
    are as in `Graph`. `present` has the host's current numbers for dynamic extents. If `tells_open`
    is false, the model does not say which extents are dynamic, and every extent of 1 may be.
    `single`: values of float64 are computed as float32."""

    nodes: tuple[HostNode, ...]
    values: Mapping[str, Value]
    outputs: tuple[str, ...]
    given: tuple[str, ...] = field(default=(), kw_only=True)
    numbered: bool = field(default=False, kw_only=True)
    fused: bool = field(default=True, kw_only=True)
    ordered: bool = field(default=True, kw_only=True)
    present: Mapping[str, int] = field(default_factory=dict, kw_only=True)
    tells_open: bool = field(default=True, kw_only=True)
    single: bool = field(default=False, kw_only=True)

    def computed(self, dtype: str) -> str:
        """Returns the type in which values of a dtype are computed."""
        return SINGLE if self.single and dtype == DOUBLE else dtype

    def doubles(self, node: HostNode) -> bool:
        """Whether a node reads or writes values of float64."""
        held = (self.values.get(key) for key in (*node.reads, *node.writes))
        return any(one is not None and one.dtype == DOUBLE for one in held)

    @property
    def reads(self) -> tuple[str, ...]:
        """Returns the keys of the values that nodes read, in order and without repeats."""
        return tuple(dict.fromkeys(key for node in self.nodes for key in node.reads))

    def loosened(self, changed: Iterable[str]) -> HostModel:
        """Returns the model with unknown shapes (None) for all values that depend on values in
        `changed`."""
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
        """Returns the values that nodes read and no node writes, without constants."""
        made = {key for node in self.nodes for key in node.writes}
        return tuple(k for k in self.reads if k not in made and self.values[k].data is None)
