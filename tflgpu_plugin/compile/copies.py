"""Avoids copies: a tensor that is only copied into a slice of another is written there directly
(concatenation), and a slice of another tensor is read in place.

Works on recorded launches, and so for every op that copies whole tensors. In the storage of
`graph.geometry`, channels joined or split at multiples of four are such slices."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from tflgpu_plugin.ops.lowering import Launch, Source

Root = Callable[[Source], Source]


@dataclass
class Views:
    """Tensors that are placed inside other tensors: `offsets` maps each of them to (the enclosing
    tensor, offset in vec4). `grown` has the new sizes of enclosing tensors that were extended at
    the end."""

    offsets: dict[int, tuple[int, int]] = field(default_factory=dict)
    grown: dict[int, int] = field(default_factory=dict)

    def find(self, tensor: int) -> tuple[int, int]:
        """Returns the outermost enclosing tensor, and the offset in it."""
        offset = 0
        while tensor in self.offsets:
            tensor, step = self.offsets[tensor]
            offset += step
        return tensor, offset


def elide(
    launches: Sequence[Launch],
    root: Root,
    sizes: Mapping[int, int],
    homes: Collection[int] = (),
    most: int = 1 << 31,
) -> tuple[list[Launch], Views]:
    """Returns the launches that remain, and the locations of the sources or results of removed
    copies.

    `root` follows aliases; `sizes` are in vec4, at most `most` for a tensor; `homes` are tensors
    with a separate buffer. A copy stays if its source is not a tensor of the partition, if the
    source (or for a slice the result) is in `homes` or already inside another tensor, if the source
    is written later, or if a launch would then read and write one buffer. A source at the beginning
    of another tensor may be copied to the end of a result, which is then extended by the rest of
    that tensor."""
    views, gone = Views(), set[int]()
    touched = [(_tensors(launch.reads, root), _tensors(launch.writes, root)) for launch in launches]
    near: dict[int, list[int]] = {}  # outermost tensor: launches that read or write it
    last: dict[int, int] = {}  # launch that writes a tensor
    for k, (reads, writes) in enumerate(touched):
        for tensor in reads | writes:
            near.setdefault(tensor, []).append(k)
        last |= dict.fromkeys(writes, k)
    for k, launch in enumerate(launches):
        offset = launch.takes if launch.copies is None else launch.copies
        if offset is None:
            continue
        source, target = root(launch.reads[0]), root(launch.writes[0])
        if not isinstance(source, int) or not isinstance(target, int):
            continue
        inner, outer = (source, target) if launch.takes is None else (target, source)
        if inner in views.offsets and launch.takes is None:
            end = offset + sizes[inner] == sizes[outer] and outer not in (*homes, *views.grown)
            inner, start = views.find(inner)
            if start or not end or offset + sizes[inner] > most:
                continue
        elif sizes[inner] > sizes[outer]:
            continue
        if inner in views.offsets or inner in homes or inner in views.grown:
            continue
        if last.get(source, k) >= k or (inner == target and last[target] > k):
            continue  # written later, or by no launch
        joined = {views.find(inner)[0], views.find(outer)[0]}
        both = [j for tensor in joined for j in near[tensor] if j != k and j not in gone]
        if any(all(_reach(side, joined, views) for side in touched[j]) for j in both):
            continue
        views.offsets[inner] = outer, offset
        if offset + sizes[inner] > sizes[outer]:
            views.grown[outer] = offset + sizes[inner]
        near[views.find(inner)[0]] = both
        gone.add(k)
    return [launch for k, launch in enumerate(launches) if k not in gone], views


def _tensors(sources: Sequence[Source], root: Root) -> set[int]:
    return {found for source in sources if isinstance(found := root(source), int)}


def _reach(tensors: Collection[int], outer: Collection[int], views: Views) -> bool:
    """Whether the outermost tensor that encloses one of the tensors is in `outer`."""
    return any(views.find(tensor)[0] in outer for tensor in tensors)
