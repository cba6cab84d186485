"""Messages of every frontend, and the calls of the user's `on_refusal`.

Hosts do not show what a plugin reports unless something fails, so the lines are logged here."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Collection, Sequence

from tflgpu_plugin import log
from tflgpu_plugin.frontend.reports import CPU, GPU, NodeReport, Report
from tflgpu_plugin.registry import Once
from tflgpu_plugin.runtime.device import AdapterInfo
from tflgpu_plugin.threads import foreign

Refused = Callable[[NodeReport], None]

_told = Once()


def placed(report: Callable[[], Report]) -> None:
    """Logs where the nodes of a model run: the totals at level info, each node that stays on the
    CPU at level debug."""
    if not log.enabled(log.INFO):
        return
    found = report()
    adapter = found.adapter.name if found.adapter else "no adapter"
    log.say(
        f"tflgpu: {found.count(GPU)} of {len(found.nodes)} nodes go to the GPU, in "
        f"{len(found.partitions)} partitions, {adapter}",
        log.INFO,
    )
    for node in found.nodes:
        if node.where == CPU:
            log.say(f"tflgpu: {node.op} {node.name!r} stays on the CPU: {node.reason}", log.DEBUG)


def software(adapter: AdapterInfo) -> None:
    """Warns once per process that the adapter is a software one."""
    if adapter.software and _told.first("software"):
        log.say(
            f"WARNING: tflgpu runs on the software adapter {adapter.name}, which is slower than "
            "the CPU kernels. Install your GPU's Vulkan driver; "
            "run `tflgpu info` to list the adapters that are found."
        )


def warn_of_unknown_exclusions(
    names: Sequence[str], nodes: Sequence[NodeReport], operators: Collection[str], logged: set[str]
) -> None:
    """Warns of each name of the option exclude that is neither a node of this graph nor an
    operator; `logged` holds the lines that were logged before."""
    known = {text for node in nodes for text in (node.name, node.op, str(node.id))} | {*operators}
    for name in names:
        text = (
            f"WARNING: tflgpu: the option exclude names {name!r}, which is neither a node of "
            "this graph nor a known operator."
        )
        if name not in known and text not in logged:
            logged.add(text)
            log.say(text)


def notify(nodes: Sequence[NodeReport]) -> None:
    """Calls the user's `tflgpu_plugin.on_refusal`, if set, for each refused node. An Exception that
    it raises becomes a warning; any other BaseException is raised when the host returns."""
    # imported late: the package, where users set it, imports this module
    callback: Refused | None = sys.modules["tflgpu_plugin"].on_refusal
    if callback is None:
        return
    for node in nodes:
        if node.where != CPU:
            continue
        with foreign():
            try:
                callback(node)
            except Exception as error:
                warnings.warn(
                    f"tflgpu_plugin.on_refusal raised {error!r}", RuntimeWarning, stacklevel=2
                )
