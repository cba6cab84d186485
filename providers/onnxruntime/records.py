"""What this door remembers: sessions, what was claimed of each of their graphs, and islands that
are in use.

onnxruntime ends sessions without telling Python; native code knows. `sweep` then lets go of device
memory and keeps the plain numbers for the report.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tflgpu_plugin import native
from tflgpu_plugin.engine import Island
from tflgpu_plugin.graph import Shape
from tflgpu_plugin.options import Options
from tflgpu_plugin.reports import (
    GPU,
    REVERTED,
    AdapterReport,
    IslandReport,
    NodeReport,
    Report,
    remember,
)
from tflgpu_plugin.runtime.adapter import AdapterInfo

from .context import Export
from .snapshot import Snapshot

KEPT = 64  # sessions that have ended, for their reports


@dataclass(repr=False)
class Placed:
    """An island and the native object that runs it. `nodes` are the host's. `ports` are the names
    of the replay's inputs, `inputs` of all values whose shape matters. `part` is there when other
    shapes may come; then `island` is, too.
    """

    island: Island | None
    handle: Any
    nodes: tuple[int, ...]
    ports: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    part: Snapshot | None
    program: Any = None
    number: int = field(init=False)
    weight_bytes: int = field(init=False)
    pool_bytes: int = field(init=False)
    dispatches: int = field(init=False)
    kernels: tuple[str, ...] = field(init=False)
    final: Any = None  # the state when the native object was let go

    def __post_init__(self) -> None:
        assert self.island is not None
        plan = self.island.instance.plan
        self.number, self.program = self.island.number, self.island.instance.program
        self.weight_bytes, self.pool_bytes = plan.bytes_of("weights"), plan.bytes_of("pool")
        self.dispatches = len(plan.dispatches)
        self.kernels = tuple(pipeline.name for pipeline in plan.pipelines)

    def state(self) -> Any:
        """tg_ort_island_state, counted in native code."""
        handle = self.handle  # another thread may let go of it now
        if self.final is not None:
            return self.final
        out = native.ffi.new("tg_ort_island_state *")
        native.lib.tg_ort_island_get_state(handle, out)
        return out

    @property
    def dead(self) -> bool:
        """A session had it and is gone."""
        state = self.state()
        return bool(state.times_freed) and not state.live

    def let_go(self) -> None:
        """Free the device memory that Python holds, and the native object."""
        self.final = self.state()
        self.island, self.handle, self.program, self.part = None, None, None, None

    def shapes(self, flat: list[int]) -> Mapping[str, Shape]:
        """The shapes of `inputs` from a list of ranks and extents."""
        found, at = {}, 0
        for name in self.inputs:
            rank = flat[at]
            found[name] = tuple(flat[at + 1 : at + 1 + rank])
            at += 1 + rank
        return found

    def report(self, graph: int) -> IslandReport:
        state = self.state()
        return IslandReport(
            number=self.number,
            nodes=self.nodes,
            live=bool(state.live),
            runs=int(state.runs),
            failures=int(state.failures),
            uploaded_bytes=int(state.uploaded_bytes),
            downloaded_bytes=int(state.downloaded_bytes),
            device_inputs=0,
            milliseconds=state.last_nanoseconds / 1e6,
            weight_bytes=self.weight_bytes,
            pool_bytes=self.pool_bytes,
            graph=graph,
            kernels=self.kernels,
            dispatches=self.dispatches,
        )


@dataclass
class Level:
    """One graph of a session: the model, or the body of a control-flow node; `nodes` are reported
    as decided then."""

    nodes: list[NodeReport]
    placed: list[Placed]


@dataclass
class Session:
    """One InferenceSession that names this provider."""

    number: int
    options: Options
    adapter: AdapterInfo
    export: Export | None = None  # a compiled model is to be written
    levels: list[Level] = field(default_factory=list)

    @property
    def ended(self) -> bool:
        return not native.lib.tg_ort_session_is_live(self.number)

    @property
    def placed(self) -> list[Placed]:
        return [placed for level in self.levels for placed in level.placed]

    def report(self) -> Report:
        """As of now. onnxruntime hands over bodies before the graph around them, so the last level
        is the model itself: it is graph 0."""
        info = self.adapter
        nodes, islands = [], []
        for graph, level in enumerate(reversed(self.levels)):
            gone = {n for placed in level.placed if placed.dead for n in placed.nodes}
            nodes += [_with_state(node, graph, gone) for node in level.nodes]
            islands += [placed.report(graph) for placed in level.placed]
        adapter = AdapterReport(
            info.name, info.vendor, info.driver, info.backend, info.kind, info.software
        )
        return Report(adapter, tuple(nodes), tuple(islands))


def _with_state(node: NodeReport, graph: int, gone: set[int]) -> NodeReport:
    if node.where == GPU and node.id in gone:
        reason = "The session has been closed."
        return replace(node, graph=graph, where=REVERTED, reason=reason)
    return replace(node, graph=graph)


_sessions: dict[int, Session] = {}
_islands: dict[int, Placed] = {}
_numbers = itertools.count(1)


def register(options: Options, adapter: AdapterInfo, export: Export | None = None) -> Session:
    """A new session, this thread's newest."""
    sweep()
    made = Session(next(_numbers), options, adapter, export)
    _sessions[made.number] = made
    remember(made.report)
    return made


def session(number: int) -> Session | None:
    """The session that `register` numbered so."""
    return _sessions.get(number)


def keep(placed: Placed) -> None:
    """From now on it may be asked to build for other shapes."""
    _islands[placed.number] = placed


def placed(number: int) -> Placed | None:
    """The island of this number, None when it is gone."""
    return _islands.get(number)


def sweep() -> None:
    """Let go of what ended sessions held."""
    for number, one in list(_islands.items()):
        if one.dead:
            one.let_go()
            _islands.pop(number, None)
    ended = [number for number, one in _sessions.items() if one.levels and one.ended]
    for number in ended[:-KEPT]:
        _sessions.pop(number, None)


def identify(target: Any) -> Session | None:
    """The session behind an InferenceSession, None when it is not one of ours: its provider is
    asked through a dynamic option."""
    native.lib.tg_ort_identified()
    try:
        target.set_ep_dynamic_options({"tflgpu.identify": "1"})
    except Exception:  # providers may refuse options that they do not know
        pass
    return _sessions.get(native.lib.tg_ort_identified())


def report(target: Any) -> Report | None:
    """The report of an InferenceSession; None when it is not one of ours."""
    found = identify(target) if hasattr(target, "set_ep_dynamic_options") else None
    return found.report() if found else None
