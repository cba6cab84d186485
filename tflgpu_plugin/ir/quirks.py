"""Refuses forms and ops by name: those that a driver computes wrongly, and those that the user does
not want. Some of these ops only passes create."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tflgpu_plugin.ir.graph import Graph, Node
from tflgpu_plugin.ir.refusal import Refusal
from tflgpu_plugin.ir.target import Target


@dataclass(frozen=True)
class Quirk:
    """A known wrong result: on adapters whose name contains `adapter` (any case) and whose driver
    version is in [`first`, `last`] (None: open end; versions compare number by number), the form or
    op `name` is not used for nodes that meet `condition`. `reason` is a sentence that ends with a
    reference to the report."""

    adapter: str
    name: str
    reason: str
    first: str | None = None
    last: str | None = None
    condition: Callable[[Graph, Node], bool] = lambda graph, node: True

    def on(self, target: Target) -> bool:
        """Whether the target's adapter and driver are affected by this quirk."""
        if self.adapter.lower() not in target.name.lower():
            return False
        driver = _version(target.driver)
        if self.first is not None and driver < _version(self.first):
            return False
        return self.last is None or driver <= _version(self.last)

    def applies(self, name: str, graph: Graph, node: Node, target: Target) -> bool:
        """Whether the form or op `name` computes the node wrongly on this target."""
        return name == self.name and self.on(target) and self.condition(graph, node)


QUIRKS: list[Quirk] = []


def refusal(name: str, graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Returns why the form or op `name` must not compute the node on this target, or None."""
    for quirk in QUIRKS:
        if quirk.applies(name, graph, node, target):
            return Refusal("device.wrong_result", quirk.reason)
    if name in target.without:
        said = f"The option without, or TFLGPU_WITHOUT, refuses {name}."
        return Refusal("option.without", said)
    return None


def refuses_some(target: Target) -> bool:
    """Whether `refusal` can ever return a reason on this target: there are driver quirks, or the
    option `without` names forms or ops."""
    return bool(QUIRKS or target.without)


def none_left(op: str, forms: Iterable[str], last: Refusal) -> Refusal:
    """Returns the refusal of an op whose `forms` are all refused; `last` refuses the last one."""
    refused = ", ".join(dict.fromkeys(forms))
    return last.reworded(f"{op} has no form left: {refused} are refused. {last}")


def _version(text: str) -> tuple[int, ...]:
    """Returns the first dotted number in a driver's text: (22, 3, 6) of "Mesa 22.3.6 (LLVM 15)"."""
    found = re.search(r"\d+(\.\d+)*", text)
    return tuple(int(part) for part in found.group().split(".")) if found else ()
