"""Which graphs of a model are run once per step of a loop: the conditions and bodies of WHILE, and
what these run in turn.

The host hands over one graph at a time and does not say which it is; while it does so, a delegate
may look into the others. Every one is left as it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .. import HostError
from . import codes
from .reader import execution_plan, raw_node

BODIES = {"WHILE": 2, "IF": 2, "CALL_ONCE": 1}  # operators, with how many graphs they name
FIRST = 0  # the model's own graph


def is_repeated(ffi: Any, context: Any) -> bool:
    """A loop runs the graph of `context` (tgl_context *), so that what a launch costs is paid for
    each step. Raises HostError when the host answers with an error.
    """
    if context.acquire_subgraph == ffi.NULL:
        return False
    search = _Search(ffi, context)
    with search.opened(FIRST) as first:
        search.visit(first, False)
    return search.mine


class _Search:
    def __init__(self, ffi: Any, context: Any) -> None:
        self.ffi, self.context = ffi, context
        self.mine = False  # `context` has been come by in a loop
        self.seen: set[tuple[int, bool]] = set()

    def visit(self, graph: Any, repeated: bool) -> None:
        """All graphs that this one runs, and itself."""
        key = int(self.ffi.cast("uintptr_t", graph)), repeated
        if key in self.seen:
            return
        self.seen.add(key)
        self.mine |= repeated and graph == self.context
        for index in execution_plan(self.ffi, graph):
            node, registration = raw_node(self.ffi, graph, index)
            name = codes.name(int(registration.builtin_code), "")
            if name not in BODIES or node.params == self.ffi.NULL:
                continue
            named = self.ffi.cast("int32_t *", node.params)
            for k in range(BODIES[name]):
                with self.opened(int(named[k])) as body:
                    self.visit(body, repeated or name == "WHILE")

    @contextmanager
    def opened(self, number: int) -> Iterator[Any]:
        """The graph of this number. The one that is being handed over stays open."""
        found = self.ffi.new("tgl_context **")
        if self.context.acquire_subgraph(self.context, number, found):
            raise HostError(f"The host did not show graph {number} of the model.")
        try:
            yield found[0]
        finally:
            if found[0] != self.context:
                self.context.release_subgraph(self.context, number)
