"""The tensors of a graph that is being imported."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tflgpu_plugin.ir import NUMPY_NAMES, Array, Graph, Tensor

FIRST_ROOM = 64  # elements of results of which a run counts any number
ARRAYS = NUMPY_NAMES | {"object": "i64"}  # objects are symbolic extents, see `ir.extent`


class TensorId(int):
    """The id of a tensor of a graph being built; `mark` distinguishes it from a plain number."""

    mark: object


@dataclass(frozen=True)
class TrialValues:
    """The values of a tensor for each of `counts.TRIAL_COUNTS`, the values that are assumed for the
    tensor `count`."""

    count: int
    values: tuple[Array, ...]


@dataclass
class Tensors:
    """The tensors of a graph that is being built, by id. Ids have this `mark` instead of a
    reference to the table, which would keep constants alive. `shared` are constants by key.
    `offsets` has (another integer, number) for integers that are the sum of these two, and
    `sequences` the tensors of values that are lists of tensors. Those in `stacks` have one tensor,
    whose first axis counts the tensors of the list. `trials` has the known values that depend on a
    count (see `importer.counts`), and `bounds` the upper bound of each count. `computed` are
    tensors that follow from more than a few integers; None if all do that are not known. The counts
    in `growing` have no known bound: results have `room` for this many elements, and if a run
    counts more, native code requests a plan with more room."""

    table: MutableMapping[int, Tensor] = field(default_factory=dict)
    mark: object = field(default_factory=object)
    shared: dict[Any, int] = field(default_factory=dict)
    next: int = 0
    offsets: dict[int, tuple[int, int]] = field(default_factory=dict)
    sequences: dict[int, tuple[int, ...]] = field(default_factory=dict)
    stacks: set[int] = field(default_factory=set)
    trials: dict[int, TrialValues] = field(default_factory=dict)
    bounds: dict[int, int] = field(default_factory=dict)
    computed: set[int] | None = field(default_factory=set)
    growing: set[int] = field(default_factory=set)
    room: int = FIRST_ROOM

    @cached_property
    def graph(self) -> Graph:
        """Returns a graph of these tensors without nodes, as the ops' functions take it."""
        return Graph.over(self.table)

    def add(self, tensor: Tensor, number: int | None = None) -> int:
        """Adds a tensor and returns its id: `number`, or else the next free one."""
        made = TensorId(self.next if number is None else number)
        made.mark = self.mark
        self.next = max(self.next, made + 1)
        self.table[made] = tensor
        return made

    def constant(self, key: Any, name: str, make: Callable[[], Array]) -> int:
        """Returns the constant `make()` with this name, which is made once per key."""
        if key not in self.shared:
            data = make()
            dtype = ARRAYS[data.dtype.name]
            self.shared[key] = self.add(Tensor(name, data.shape, dtype, data))
        return self.shared[key]
