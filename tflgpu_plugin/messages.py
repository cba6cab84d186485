"""What every door says: lines on stderr, and the calls of the user's `on_refusal`.

Hosts do not show what a plugin reports unless something fails, so the lines are written here.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Collection, Sequence

import tflgpu_plugin
from tflgpu_plugin.reports import CPU, NodeReport
from tflgpu_plugin.runtime.adapter import AdapterInfo

_told_software = False


def line(text: str) -> None:
    """One line on stderr; silent where there is none."""
    if sys.stderr is not None:
        print(text, file=sys.stderr, flush=True)


def software(adapter: AdapterInfo) -> None:
    """Say once per process that the adapter is no GPU."""
    global _told_software
    if adapter.software and not _told_software:
        _told_software = True
        line(
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
            f"WARNING: the option exclude names {name!r}, which is no node of this graph and no "
            "known operator."
        )
        if name not in known and text not in told:
            told.add(text)
            line(text)


def notify(nodes: Sequence[NodeReport]) -> None:
    """Call the user's `tflgpu_plugin.on_refusal`, if set, for each refused node; what it raises is
    a warning.
    """
    callback = tflgpu_plugin.on_refusal
    if callback is None:
        return
    for node in nodes:
        if node.where != CPU:
            continue
        try:
            callback(node)
        except Exception as error:
            warnings.warn(
                f"tflgpu_plugin.on_refusal raised {error!r}", RuntimeWarning, stacklevel=2
            )
