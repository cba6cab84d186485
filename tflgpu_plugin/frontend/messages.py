"""What every frontend says, and the calls of the user's `on_refusal`.

Hosts do not show what a plugin reports unless something fails, so the lines are logged here.
"""

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
    """What became of a model, for those who ask for more than warnings: its sums, then each node
    that stays on the CPU.
    """
    if not log.enabled(log.INFO):
        return
    found = report()
    adapter = found.adapter.name if found.adapter else "no adapter"
    log.say(
        f"tflgpu: {found.count(GPU)} of {len(found.nodes)} nodes go to the GPU, in "
        f"{len(found.islands)} partitions, {adapter}",
        log.INFO,
    )
    for node in found.nodes:
        if node.where == CPU:
            log.say(f"tflgpu: {node.op} {node.name!r} stays on the CPU: {node.reason}", log.DEBUG)


def software(adapter: AdapterInfo) -> None:
    """Say once per process that the adapter is no GPU."""
    if adapter.software and _told.first("software"):
        log.say(
            f"WARNING: tflgpu runs on the software adapter {adapter.name}, which is slower than "
            "the CPU kernels. Install your GPU's Vulkan driver; `tflgpu info` shows what is seen."
        )


def exclusions(
    names: Sequence[str], nodes: Sequence[NodeReport], operators: Collection[str], told: set[str]
) -> None:
    """Say which names of the option exclude are those of no node of this graph and of no operator;
    `told` has what was said before.
    """
    known = {text for node in nodes for text in (node.name, node.op, str(node.id))} | {*operators}
    for name in names:
        text = (
            f"WARNING: tflgpu: the option exclude names {name!r}, which is no node of this "
            "graph and no known operator."
        )
        if name not in known and text not in told:
            told.add(text)
            log.say(text)


def notify(nodes: Sequence[NodeReport]) -> None:
    """Call the user's `tflgpu_plugin.on_refusal`, if set, for each refused node; what it raises is
    a warning; what is no Exception is raised when the host returns.
    """
    # The package, where users set it, imports this room.
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
