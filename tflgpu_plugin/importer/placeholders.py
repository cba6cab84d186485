"""Shapes to decide by where those of a model only hold a place: its open extents have no names, as
those of `symbols` do, and one size suits them all.

A model with open extents has 1 in their stead, or whatever its converter had, and users resize its
inputs before the first run; the hosts hand over their graph once, before that. Where something
does not fit into a placeholder (a window of 512 over one sample), or where it is 1, nodes are
claimed by what they are for larger inputs. A plan is made for each shape that a run then has, and
all that is asked of a node is asked again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from math import prod

from tflgpu_plugin.importer.imported import Imported
from tflgpu_plugin.importer.symbols import until_fit
from tflgpu_plugin.ir import Refusal, Shape

SIZES = tuple(1 << k for k in range(6, 18))  # for open extents, until everything fits
MORE = 4  # times the first size at which it does: one window more than none is no run to judge by
MAX_FURTHER_ELEMENTS = 1 << 20  # of inputs, up to which there may be more
MAX_INPUT_ELEMENTS = 1 << 24  # of inputs, up to which there may be any

Shapes = Mapping[int, Shape]  # of inputs
Read = Callable[[Shapes], Imported]  # the host's graph for these, judged


def grown(host: Imported, read: Read) -> Imported:
    """The host's graph, for larger inputs where its own shapes are placeholders: `read` imports it
    for other shapes of inputs. A node that the CPU can run at the placeholder and we cannot is
    refused then.
    """
    shapes = _shapes(host)
    present = read(shapes) if host.open else host
    holds = any(shapes[t][axis] == 1 for t, axes in _inner(host.open).items() for axis in axes)
    if not present.unfit and not holds:
        return host
    larger = _larger(host, present, read)
    if larger is None or present.unfit:
        return larger or host
    found = dict(larger.refusals)
    for node, reason in present.refusals.items():
        if node not in found or (node in larger.judged and found[node] != reason):
            found[node] = said(host, reason)
    return replace(larger, refusals=found)


def explained(host: Imported, reasons: Mapping[int, Refusal], read: Read) -> dict[int, Refusal]:
    """These reasons for leaving nodes to the CPU, saying so where the present shape of an input is
    why.
    """
    asked = [node for node, reason in reasons.items() if host.refusals.get(node) == reason]
    if not host.open or not asked:
        return dict(reasons)
    there = read(_sized(host, host.open, SIZES[0])).refusals
    return {
        node: said(host, reason) if node in asked and node not in there else reason
        for node, reason in reasons.items()
    }


def said(host: Imported, reason: Refusal) -> Refusal:
    """A reason that holds for the present shapes only."""
    named = " and ".join(
        f"{list(host.graph.tensors[t].shape)} of {host.graph.tensors[t].name!r}"
        for t in host.open or host.graph.inputs
    )
    return reason.reworded(f"With the present shape {named}: {reason}")


def _larger(host: Imported, present: Imported, read: Read) -> Imported | None:
    """The graph for inputs of which the fewest nodes are too small; None when there are none that
    fit better than the present ones.
    """
    sizes = ((axes, size) for axes in _choices(host) for size in SIZES)
    sized = ((_sized(host, *one), _sized(host, one[0], MORE * one[1])) for one in sizes)
    tried = ((read(some), more) for some, more in sized if _elements(some) <= MAX_INPUT_ELEMENTS)
    fitting = until_fit(tried, lambda one: one[0].unfit)
    found = min(fitting, key=lambda one: len(one[0].unfit), default=None)
    if found is None:
        return None
    best, more = found
    if best.unfit:
        return best if len(best.unfit) < len(present.unfit) else None
    wider = read(more) if _elements(more) <= MAX_FURTHER_ELEMENTS else best
    return best if wider.unfit else wider


def _choices(host: Imported) -> Iterator[Mapping[int, tuple[int, ...]]]:
    """Extents to enlarge: open ones, but for batches, or those too. Older files do not tell: there
    extents of 1 may be placeholders.
    """
    shapes = _shapes(host)
    ones = {t: tuple(k for k, n in enumerate(shape) if n == 1) for t, shape in shapes.items()}
    given = host.open or ones
    for axes in (_inner(given), given):
        if any(axes.values()):
            yield axes


def _inner(axes: Mapping[int, tuple[int, ...]]) -> dict[int, tuple[int, ...]]:
    return {t: tuple(k for k in some if k) for t, some in axes.items()}


def _shapes(host: Imported) -> dict[int, Shape]:
    return {t: host.graph.tensors[t].shape for t in host.graph.inputs}


def _sized(host: Imported, axes: Mapping[int, tuple[int, ...]], size: int) -> dict[int, Shape]:
    """All inputs with these extents at least of this size."""
    return {
        t: tuple(max(n, size) if k in axes.get(t, ()) else n for k, n in enumerate(shape))
        for t, shape in _shapes(host).items()
    }


def _elements(shapes: Shapes) -> int:
    return sum(map(prod, shapes.values()))
