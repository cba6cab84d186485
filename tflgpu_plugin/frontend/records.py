"""What every frontend remembers of its claims: islands, the native objects that run them, and the
numbers for reports.

Hosts end their objects without telling Python; native code counts that. `release_freed` then
lets go of an island's device memory and keeps the plain numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from tflgpu_plugin.frontend.reports import (
    GPU,
    REVERTED,
    AdapterReport,
    IslandReport,
    NodeReport,
    Report,
)
from tflgpu_plugin.runtime.adapter import AdapterInfo

if TYPE_CHECKING:
    from tflgpu_plugin.engine import Island


@dataclass(repr=False)
class PlacedIsland:
    """An island and the native object that runs it; both go when the host has freed that object.
    `nodes` are the host's."""

    island: Island | None
    handle: Any
    nodes: tuple[int, ...] = field(init=False)
    number: int = field(init=False)
    sizes: dict[str, int] = field(init=False)
    dispatches: int = field(init=False)
    kernels: tuple[str, ...] = field(init=False)
    final: Any = field(default=None, init=False)  # the state when the native object was let go

    def __post_init__(self) -> None:
        assert self.island is not None
        plan = self.island.instance.plan
        self.number = self.island.number
        self.sizes = plan.sizes()
        self.dispatches = len(plan.dispatches)
        self.kernels = tuple(pipeline.name for pipeline in plan.pipelines)

    def counted(self, handle: Any) -> Any:
        """The counters of the native object: live, times_freed, runs, failures, uploaded_bytes,
        downloaded_bytes, last_nanoseconds, and perhaps device_inputs."""
        raise NotImplementedError

    def state(self) -> Any:
        """`counted` now, or as it was when the native object was let go."""
        handle = self.handle  # another thread may let go of it now
        return self.final if self.final is not None else self.counted(handle)

    @property
    def dead(self) -> bool:
        """The host had it and has freed it."""
        state = self.state()
        return bool(state.times_freed) and not state.live

    def let_go(self) -> None:
        """Free the device memory that Python holds, and the native object."""
        self.final = self.state()
        self.island, self.handle = None, None

    def report(self, graph: int, place: int) -> IslandReport:
        """Its counters, as this island of a report and a part of the host's graph of this
        number."""
        state = self.state()
        return IslandReport(
            number=place,
            key=self.number,
            nodes=self.nodes,
            live=bool(state.live),
            runs=int(state.runs),
            failures=int(state.failures),
            uploaded_bytes=int(state.uploaded_bytes),
            downloaded_bytes=int(state.downloaded_bytes),
            device_inputs=int(getattr(state, "device_inputs", 0)),
            milliseconds=state.last_nanoseconds / 1e6,
            **self.sizes,
            graph=graph,
            kernels=self.kernels,
            dispatches=self.dispatches,
        )


Placed = TypeVar("Placed", bound=PlacedIsland)


class HostGraph(Protocol):
    """One graph of the host: its nodes as they were decided, and what was placed in it."""

    @property
    def nodes(self) -> Sequence[NodeReport]: ...
    @property
    def placed(self) -> Sequence[PlacedIsland]: ...


def summary(adapter: AdapterInfo, graphs: Iterable[HostGraph], gone: str) -> Report:
    """As of now; `gone` is the sentence for nodes whose island the host has freed."""
    nodes, islands = list[NodeReport](), list[IslandReport]()
    for number, graph in enumerate(graphs):
        freed = {n for placed in graph.placed if placed.dead for n in placed.nodes}
        nodes += [
            replace(node, graph=number, where=REVERTED, reason=gone)
            if node.where == GPU and node.id in freed
            else replace(node, graph=number)
            for node in graph.nodes
        ]
        first = len(islands) + 1
        islands += [placed.report(number, first + k) for k, placed in enumerate(graph.placed)]
    found = AdapterReport(
        adapter.name,
        adapter.vendor,
        adapter.driver,
        adapter.backend,
        adapter.kind,
        adapter.software,
    )
    return Report(found, tuple(nodes), tuple(islands))


def release_freed(islands: dict[int, Placed]) -> None:
    """Let go of those that the host has freed; they leave the table."""
    for number, one in list(islands.items()):
        if one.dead:
            one.let_go()
            islands.pop(number, None)
