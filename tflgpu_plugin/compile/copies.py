"""Copies that need not happen: a tensor whose only way is into a slice of another is written there
at once (concatenation into place).

Works on recorded launches, so it holds for every op that copies whole tensors. In the storage of
`graph.geometry` channels joined at whole quads are such slices.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from tflgpu_plugin.ops.lowering import Launch, Source

Root = Callable[[Source], Source]


@dataclass
class Views:
    """Tensors that lie inside others: `places` maps one to (the tensor around it, offset in
    vec4)."""

    places: dict[int, tuple[int, int]] = field(default_factory=dict)

    def find(self, tensor: int) -> tuple[int, int]:
        """The outermost tensor around this one, and the offset in it."""
        offset = 0
        while tensor in self.places:
            tensor, step = self.places[tensor]
            offset += step
        return tensor, offset


def elide(
    launches: Sequence[Launch],
    root: Root,
    sizes: Mapping[int, int],
    homes: Collection[int] = (),
) -> tuple[list[Launch], Views]:
    """The launches that remain, and where the sources of the others lie now.

    `root` follows aliases; `sizes` are in vec4; `homes` are tensors with a buffer of their own. A
    copy stays when the source is not a tensor of the island, is one of `homes`, lies in another
    tensor already, is written later, or when some launch would then read and write one buffer.
    """
    views, kept = Views(), list(launches)
    for launch in launches:
        if launch.copies is None:
            continue
        source, target = root(launch.reads[0]), root(launch.writes[0])
        if not isinstance(source, int) or not isinstance(target, int):
            continue
        if source in views.places or source in homes or sizes[source] > sizes[target]:
            continue
        rest = [other for other in kept if other is not launch]
        if _late(launches, source, launch, root):
            continue
        if _meet(rest, {source, target}, root, views):
            continue
        views.places[source] = target, launch.copies
        kept = rest
    return kept, views


def _late(launches: Sequence[Launch], source: int, copy: Launch, root: Root) -> bool:
    """Whether something writes the source after it was copied, or nothing writes it at all."""
    writers = [k for k, launch in enumerate(launches) if source in map(root, launch.writes)]
    return not writers or max(writers) > _index(launches, copy)


def _index(launches: Sequence[Launch], wanted: Launch) -> int:
    return next(k for k, launch in enumerate(launches) if launch is wanted)


def _meet(rest: Sequence[Launch], joined: set[int], root: Root, views: Views) -> bool:
    """Whether a launch reads and writes the buffer that these tensors would share."""
    outer = {views.find(tensor)[0] for tensor in joined}

    def shared(source: Source) -> bool:
        found = root(source)
        return isinstance(found, int) and views.find(found)[0] in outer

    return any(
        any(map(shared, launch.reads)) and any(map(shared, launch.writes)) for launch in rest
    )
