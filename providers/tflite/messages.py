"""What users read on stderr: the documented lines of the GPU delegate, each followed by the reason
it never gave.

Hosts do not show what a delegate reports unless something fails, so the lines are written here.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Sequence

import tflgpu_plugin
from tflgpu_plugin.reports import CPU, GPU, NodeReport
from tflgpu_plugin.runtime.adapter import AdapterInfo

MAX_REASONS = 4  # per op code; the report has them all

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


def refusals(nodes: Sequence[NodeReport]) -> str:
    """The lines about refused nodes and the summary; empty when everything was taken."""
    refused = [node for node in nodes if node.where == CPU]
    if not refused:
        return ""
    lines = []
    for code in dict.fromkeys(node.code for node in refused):
        lines.append(f"WARNING: op code #{code} cannot be handled by this delegate.")
        lines += _reasons([node for node in refused if node.code == code])
    taken = sum(node.where == GPU for node in nodes)
    lines.append(
        f"{taken} operations will run on the GPU, "
        f"and the remaining {len(refused)} operations will run on the CPU."
    )
    return "\n".join(lines)


def _reasons(nodes: Sequence[NodeReport]) -> list[str]:
    """One line per reason; reasons that differ in a quoted name count as one, told by example."""
    alike: dict[str, list[NodeReport]] = {}
    for node in nodes:
        alike.setdefault(re.sub(r"'[^']*'", "''", node.reason or ""), []).append(node)
    lines = [_reason(group) for group in list(alike.values())[:MAX_REASONS]]
    if len(alike) > MAX_REASONS:
        lines.append(f"  {len(alike) - MAX_REASONS} more: see tflgpu_plugin.last_report().")
    return lines


def _reason(alike: Sequence[NodeReport]) -> str:
    first = alike[0]
    reason = first.reason or ""
    text = reason if first.op in reason else f"{first.op}: {reason}"
    return f"  {text}" if len(alike) == 1 else f"  {text} ({len(alike)} nodes)"


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
