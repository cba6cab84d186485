"""What this frontend remembers: sessions, what was claimed of each of their graphs, and islands
that are in use.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tflgpu_plugin import native
from tflgpu_plugin.frontend.integer_range import Range
from tflgpu_plugin.frontend.records import PlacedIsland, release_freed, summary
from tflgpu_plugin.frontend.reports import NodeReport, Report, remember
from tflgpu_plugin.ir.graph import Shape
from tflgpu_plugin.options import Options
from tflgpu_plugin.runtime.adapter import AdapterInfo

from .context import Export
from .snapshot import Snapshot

KEPT = 64  # sessions that have ended, for their reports


@dataclass(repr=False)
class Placed(PlacedIsland):
    """`ports` are the names of the replay's inputs, `inputs` of all values whose shape matters.
    `part` is there when other shapes may come; then `island` is, too. `arithmetic` are nodes of it,
    `numbers` ranges of its integers.
    """

    nodes: tuple[int, ...]
    ports: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    part: Snapshot | None
    arithmetic: frozenset[int]
    numbers: Mapping[str, Range]
    program: Any = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        assert self.island is not None
        self.program = self.island.instance.program

    def counted(self, handle: Any) -> Any:
        """tg_ort_partition_state."""
        out = native.ffi.new("tg_ort_partition_state *")
        native.lib.tg_ort_partition_get_state(handle, out)
        return out

    def let_go(self) -> None:
        """Also what shapes that may come would have needed."""
        super().let_go()
        self.program, self.part = None, None

    def shapes(self, flat: list[int]) -> Mapping[str, Shape]:
        """The shapes of `inputs` from a list of ranks and extents."""
        found, at = {}, 0
        for name in self.inputs:
            rank = flat[at]
            found[name] = tuple(flat[at + 1 : at + 1 + rank])
            at += 1 + rank
        return found


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
    told: set[str] = field(default_factory=set)  # lines already printed

    @property
    def ended(self) -> bool:
        return not native.lib.tg_ort_session_is_live(self.number)

    @property
    def placed(self) -> list[Placed]:
        return [placed for level in self.levels for placed in level.placed]

    def report(self) -> Report:
        """As of now. onnxruntime hands over bodies before the graph around them, so the last level
        is the model itself: it is graph 0."""
        return summary(self.adapter, reversed(self.levels), "The session has been closed.")


class _Thread(threading.local):
    """What a thread asked for last."""

    failure = ""  # why it was given no provider


_sessions: dict[int, Session] = {}
_thread = _Thread()
_islands: dict[int, Placed] = {}


def register(options: Options, adapter: AdapterInfo, export: Export | None = None) -> Session:
    """A new session, this thread's newest."""
    sweep()
    made = Session(native.lib.tg_next_number(), options, adapter, export)
    _sessions[made.number] = made
    remember(made.report)
    return made


def failed(text: str) -> None:
    """Remember why the session that this thread is making gets no provider; "" when it does."""
    _thread.failure = text


def failure() -> str:
    """Why the last session of this thread that named this provider did not get it, or ""."""
    return _thread.failure


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
    release_freed(_islands)
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
