"""The state of this frontend: sessions, the claims of each of their graphs, and partitions in
use.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from tflgpu_plugin import providers
from tflgpu_plugin.ir import Refusal, Shape
from tflgpu_plugin.providers import GraphRecord, PerCaller, Report, native

from .context import Export, Interface, restored
from .names import EP_NAME
from .reader import TABLE


@dataclass(repr=False)
class Placed(providers.PlacedPartition):
    """A placed partition. Where no other shapes may come, `interface` has no part, and `partition`
    is None.
    """

    nodes: tuple[int, ...]
    interface: Interface
    program: Any = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        assert self.partition is not None
        self.program = self.partition.instance.program

    def release(self) -> None:
        """Also drops the data needed to plan for other shapes."""
        super().release()
        self.program, self.interface = None, replace(self.interface, part=None)

    def shapes(self, flat: list[int]) -> tuple[Shape, ...]:
        """Returns the shapes of `interface.inputs` from a list of ranks and extents, and the
        numbers of its `run_values` from counts and numbers.
        """
        found, at = [], 0
        for _ in (*self.interface.inputs, *self.interface.run_values):
            found.append(tuple(flat[at + 1 : at + 1 + flat[at]]))
            at += 1 + flat[at]
        return tuple(found)

    def reshaped(self, partition: providers.Partition, given: tuple[Shape, ...]) -> providers.Again:
        """Returns the graph with its ports in the first order. Raises ImpossibleShapes where no
        host takes the shapes.
        """
        interface, part = self.interface, self.interface.part
        assert part is not None
        shapes = dict(zip(interface.inputs, given, strict=False))
        numbers = zip(interface.run_values, given[len(interface.inputs) :], strict=True)
        values = {
            name: restored(held, shapes[name], part.values[name].dtype) for name, held in numbers
        }
        part.check_files()
        facts = providers.Facts(shapes, None, interface.arithmetic, values, partition.judge)
        return providers.again(part, TABLE, facts, interface.ports, interface.outputs)


Level = GraphRecord[Placed]  # the model, or the body of a control-flow node


@dataclass
class Session(providers.Client[Level]):
    """An InferenceSession that names this provider; with `export` a compiled model is written.
    onnxruntime passes bodies before the graph around them, so the last level is the model itself:
    it is graph 0 of reports.
    """

    gone = Refusal("host.withdrawn", "The session has been closed.")
    last_is_first = True

    export: Export | None = None


kept: providers.Records[Session, Placed] = providers.Records()
_failure: PerCaller[str] = PerCaller()  # why the last session does not use the provider
FAILURE = "_tflgpu_failure"  # an attribute of the session for which the reason was given


def failed(text: str) -> None:
    """Keeps the reason why the session that this thread is making does not use the provider; ""
    when it does.
    """
    _failure.set(text)


def failure(session: Any) -> str:
    """Returns why this session of this thread, which named this provider, does not use it, or "":
    the last reason that no other session was asked for.
    """
    if not hasattr(session, FAILURE):
        setattr(session, FAILURE, _failure.get() or "")
        _failure.set("")
    return str(getattr(session, FAILURE))


_ended: PerCaller[tuple[str, Report | None]] = PerCaller()  # the last run that failed


def ended(number: int, text: str) -> None:
    """Keeps the reason why a run of this partition, on the caller's thread, failed."""
    owners = (session for session in kept.clients.values() for level in session.graphs
              if any(one.number == number for one in level.placed))  # fmt: skip
    found = next(owners, None)
    _ended.set((text, replace_nodes(found.report(), text) if found else None))


def replace_nodes(report: Report, reason: str) -> Report:
    """Returns the report of a session that its host has made again without this provider."""
    nodes = (
        replace(node, where=providers.REVERTED, reason=reason)
        if node.where == providers.GPU
        else node
        for node in report.nodes
    )
    return replace(report, nodes=tuple(nodes))


def given_up(target: Any) -> tuple[str, Report | None]:
    """Returns why onnxruntime has moved a session to the CPU, and the report of that session; ""
    and None where it has not. It does so once, after a run that has failed.
    """
    fallen = getattr(target, "_enable_fallback", None) is False
    moved = fallen and EP_NAME not in target.get_providers()
    return (moved and _ended.get()) or ("", None)


def identify(target: Any) -> Session | None:
    """Returns the session behind an InferenceSession, or None when it does not use this provider:
    the provider is asked through a dynamic option.
    """
    native.lib.tg_ort_identified()
    try:
        target.set_ep_dynamic_options({"tflgpu.identify": "1"})
    except Exception:  # other providers may refuse an unknown option
        pass
    return kept.clients.get(native.lib.tg_ort_identified())


def report(target: Any) -> Report | None:
    """Returns the report of an InferenceSession, or None when it does not use this provider."""
    if not hasattr(target, "set_ep_dynamic_options"):
        return None
    found = identify(target)
    return found.report() if found else given_up(target)[1]
