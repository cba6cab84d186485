"""The messages on stderr: the documented lines of the GPU delegate, each with the reasons."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tflgpu_plugin.providers import CPU, GPU, NodeReport

MAX_REASONS = 4  # reasons per op code; the report has all of them


def text(nodes: Sequence[NodeReport]) -> str:
    """Returns the lines about refused nodes and the summary; "" when every node was claimed."""
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
    """Returns one line for each reason. Of reasons that differ only in a quoted name, it returns
    the first."""
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
