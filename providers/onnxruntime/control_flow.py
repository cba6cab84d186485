"""Builds Loop and Scan with a known number of steps, and If with a known condition: their nodes are
those of their bodies, once for each step."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tflgpu_plugin.ir import Refusal
from tflgpu_plugin.providers import Builder, HostModel, Steps, Unsupported, not_unrolled, truth

from .batched_loop import batched, batched_scan
from .names import EP_NAME
from .rearranging import cut, joined
from .snapshot import Snapshot

PLACED = "onnxruntime runs it; the nodes of its bodies are placed one by one."


def repeated(e: Builder) -> Refusal | None:
    """Requires a number of steps, or a condition of If, that is known before a run, and bodies
    whose nodes all run on the GPU, number at most 1,024 over all steps, and do not pay alone. Steps
    that only reduce rows of outer tensors (EmbeddingBag, also with an index for padding; tables of
    distances) may be any number."""
    alone = any(node.domain == EP_NAME for body in e.host.bodies for node in body.nodes)
    return Refusal("operator.host_only", PLACED) if alone or not e.host.bodies else None


def _finished(e: Builder, made: Sequence[int]) -> list[int | None]:
    """Returns the results that nodes read. Raises Unsupported where steps that are evaluated before
    a run need one."""
    if e.known_limit and e.nodes:
        raise Unsupported.of("dynamic.value", "Its result is only known in a run.")
    return [t if e.wants(k) else None for k, t in enumerate(made)]


def loop(e: Builder) -> list[int | None]:
    """Builds Loop: all steps at once, or one after the other. Raises Unsupported."""
    return _at_once(e, batched) or _in_turn(e, _loop)


def scan(e: Builder) -> list[int | None]:
    """Builds Scan: all steps at once, or one after the other. Raises Unsupported."""
    return _at_once(e, batched_scan) or _in_turn(e, _scan)


Build = Callable[[Builder], list[int | None]]


def _at_once(e: Builder, build: Build) -> list[int | None] | None:
    """Returns the results that nodes read; None where steps cannot be taken at once."""
    if e.known_limit:
        return None
    try:
        return [t if e.wants(k) else None for k, t in enumerate(build(e))]
    except Unsupported:
        e.nodes.clear()
        return None


def _in_turn(e: Builder, build: Build) -> list[int | None]:
    try:
        return build(e)
    except Unsupported as reason:
        raise _placed(reason) from reason


def _loop(e: Builder) -> list[int | None]:
    (body,) = e.host.bodies
    limit, goes = _limit(e), truth(e.constant(e.x(1))) if e.has(1) else True
    carried = [e.x(k) for k in range(2, len(e.inputs))]
    count, scanned = len(carried), list[list[int]]()
    steps = Steps(e, limit if _only_counts(body) else None)
    number, state = (len(body.values[key].shape or ()) for key in body.given[:2])
    while goes and (limit is None or steps.taken < limit):
        at = e.const(np.full((1,) * number, steps.taken), np.int64)
        going = e.const(np.ones((1,) * state), np.bool_)
        more, *made = steps.step(body, [at, going, *carried])
        goes = truth(e.constant(more))
        carried = made[:count]
        scanned.append(made[count:])
    if e.nodes:
        steps.check()
    results = [_stacked(e, list(rows), 0) for rows in zip(*scanned, strict=True)]
    if len(carried) + len(results) < len(e.host.outputs):
        raise not_unrolled("it takes no step")
    return _finished(e, [*carried, *results])


def _only_counts(body: HostModel) -> bool:
    """Whether the condition that a step returns follows from the one that it is given: where the
    first step goes on, all do."""
    made = {key: node for node in body.nodes for key in node.writes}
    waiting, seen = [body.outputs[0]], set[str]()
    while waiting:
        key = waiting.pop()
        if key in made and key not in seen:
            waiting += made[key].reads
        elif key not in made and key != body.given[1] and body.values[key].data is None:
            return False
        seen.add(key)
    return True


def _limit(e: Builder) -> int | None:
    """Returns the largest number of steps, None for no limit. Raises Unsupported where that is only
    known in a run, or would be another one in each run."""
    if not e.has(0):
        return None
    held = e.constant(e.x(0))
    truth(None if held is None else held >= 0)
    assert held is not None
    if e.values[e.host.inputs[0] or ""].data is None and _is_open(e):
        raise not_unrolled("the number of steps follows from the shapes of a run")
    return int(held.reshape(-1)[0])


def _is_open(e: Builder) -> bool:
    """Whether shapes of the model may differ between runs."""
    return any(isinstance(n, str) for value in e.values.values() for n in value.shape or ())


def _stacked(e: Builder, rows: Sequence[int], axis: int) -> int:
    """Returns tensors of the same shape stacked along a new axis. Raises Unsupported."""
    shapes = {e.shape(row) for row in rows}
    if len(shapes) != 1:
        raise not_unrolled("its steps return rows of different shapes")
    (shape,) = shapes
    at = e.axis(axis, len(shape) + 1)
    return joined(e, [e.reshape(row, (*shape[:at], 1, *shape[at:])) for row in rows], at)


def _scan(e: Builder) -> list[int | None]:
    (body,) = e.host.bodies
    many = e.integer("num_scan_inputs")
    count = len(e.inputs) - many
    carried, given = [e.x(k) for k in range(count)], [e.x(k) for k in range(count, len(e.inputs))]
    axes = _listed(e, "scan_input_axes", many)
    axes = [e.axis(axis, e.rank(x)) for axis, x in zip(axes, given, strict=True)]
    backwards = _listed(e, "scan_input_directions", many)
    lengths = {e.shape(x)[axis] for x, axis in zip(given, axes, strict=True)}
    if len(lengths) != 1 or not all(type(n) is int for n in lengths) or _is_open(e):
        raise not_unrolled("the number of steps is only known in a run")
    (length,), scanned = lengths, list[list[int]]()
    steps = Steps(e, length)
    for k in range(length):
        rows = [
            _row(e, x, axis, length - 1 - k if back else k)
            for x, axis, back in zip(given, axes, backwards, strict=True)
        ]
        made = steps.step(body, [*carried, *rows])
        carried = made[:count]
        scanned.append(made[count:])
    steps.check()
    lists = [list(rows) for rows in zip(*scanned, strict=True)]
    turns = _listed(e, "scan_output_directions", len(lists))
    places = _listed(e, "scan_output_axes", len(lists))
    results = [
        _stacked(e, rows[::-1] if turn else rows, axis)
        for rows, turn, axis in zip(lists, turns, places, strict=True)
    ]
    if len(carried) + len(results) < len(e.host.outputs):
        raise not_unrolled("it takes no step")
    return _finished(e, [*carried, *results])


def _listed(e: Builder, name: str, count: int) -> list[int]:
    """Returns an attribute with an integer for each of `count` values, 0 by default."""
    return list(e.integers(name) or (0,) * count)


def _row(e: Builder, x: int, axis: int, k: int) -> int:
    """Returns element `k` of an axis, without this axis."""
    shape = e.shape(x)
    ranges = [slice(None)] * axis + [slice(k, k + 1)] + [slice(None)] * (len(shape) - axis - 1)
    return e.reshape(cut(e, x, ranges), (*shape[:axis], *shape[axis + 1 :]))


def branch(e: Builder) -> list[int | None]:
    """Builds If. Raises Unsupported."""
    try:
        taken = "then_branch" if truth(e.constant(e.x()), "its condition") else "else_branch"
        (body,) = (one for one in e.host.bodies if isinstance(one, Snapshot) and one.slot == taken)
        return _finished(e, Steps(e).step(body, []))
    except Unsupported as reason:
        raise _placed(reason) from reason


def _placed(reason: Unsupported) -> Unsupported:
    """Returns a reason that says first where the nodes of the bodies are."""
    return Unsupported(reason.sentence.reworded(f"{PLACED} {reason.sentence}"))
