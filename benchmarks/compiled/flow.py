"""Orders basic blocks so that those of each loop stand together."""

from __future__ import annotations

from collections.abc import Sequence


def in_order(after: Sequence[Sequence[int]]) -> tuple[list[int], list[tuple[int, int]]]:
    """Returns the numbers of the blocks in such an order, and the loops as first and last place in
    it, outer ones first. `after` lists the successors of each block; block 0 is the entry."""
    bodies = _bodies(after)
    order: list[int] = []
    _place(after, bodies, set(range(len(after))), None, order)
    order += [block for block in range(len(after)) if block not in order]  # not reachable
    places = {block: place for place, block in enumerate(order)}
    spans = [[places[block] for block in body] for body in bodies.values()]
    return order, sorted(((min(s), max(s)) for s in spans), key=lambda s: (s[0], -s[1]))


def _dominators(after: Sequence[Sequence[int]]) -> list[set[int]]:
    """Returns the blocks through which every path to a block goes."""
    before: list[list[int]] = [[] for _ in after]
    for block, targets in enumerate(after):
        for target in targets:
            before[target].append(block)
    found = [set(range(len(after))) if block else {0} for block in range(len(after))]
    changed = True
    while changed:
        changed = False
        for block in range(1, len(after)):
            paths = [found[each] for each in before[block]]
            through = (set.intersection(*paths) if paths else set()) | {block}
            changed |= through != found[block]
            found[block] = through
    return found


def _bodies(after: Sequence[Sequence[int]]) -> dict[int, set[int]]:
    """Returns the blocks of each natural loop by its head."""
    before: list[list[int]] = [[] for _ in after]
    for block, targets in enumerate(after):
        for target in targets:
            before[target].append(block)
    dominators, found = _dominators(after), dict[int, set[int]]()
    for block, targets in enumerate(after):
        for head in targets:
            if head in dominators[block]:
                body, waiting = found.setdefault(head, {head}), [block]
                while waiting:
                    each = waiting.pop()
                    if each not in body:
                        body.add(each)
                        waiting += before[each]
    return found


def _place(
    after: Sequence[Sequence[int]],
    bodies: dict[int, set[int]],
    blocks: set[int],
    head: int | None,
    order: list[int],
) -> None:
    """Appends these blocks in topological order, each inner loop as one; `head` is that of the
    loop that they are."""
    inner = {k: body for k, body in bodies.items() if k in blocks and k != head and body <= blocks}
    outermost = {
        k: body for k, body in inner.items()
        if not any(k in other for at, other in inner.items() if at != k)
    }  # fmt: skip
    owner = {each: k for k, body in outermost.items() for each in body}
    seen: set[int] = set()
    found: list[int] = []

    def successors(block: int) -> list[int]:
        targets = [to for each in sorted(outermost.get(block, {block})) for to in after[each]]
        targets = [owner.get(to, to) for to in targets]
        return [to for to in targets if to in blocks and to not in (head, block)]

    start = min(blocks) if head is None else head
    waiting = [(owner.get(start, start), False)]
    while waiting:
        block, done = waiting.pop()
        if done:
            found.append(block)
        elif block not in seen:
            seen.add(block)
            waiting.append((block, True))
            waiting += [(to, False) for to in successors(block) if to not in seen]
    for block in reversed(found):
        if block in outermost:
            _place(after, bodies, outermost[block], block, order)
        else:
            order.append(block)
