"""Builds Loops whose steps do not read what others compute, as the exporters of PyTorch write
EmbeddingBag: all steps at once."""

from __future__ import annotations

import numpy as np

from tflgpu_plugin.ir import Refusal, always_equal, integer, is_symbolic
from tflgpu_plugin.providers import Builder, HostModel, not_unrolled, truth

from .batched_handlers import handler
from .batched_steps import Batch, Below, Count, Each, Fixed, Listed, Scope, Value

AT_ONCE = Refusal(
    "loop.unsupported", "It reduces rows in steps of a loop, which would need a launch for each."
)


def batched(e: Builder) -> list[int | None]:
    """Builds Loop. Raises Unsupported where steps depend on each other, or reduce no rows."""
    (body,) = e.host.bodies
    number, state = (len(body.values[key].shape or ()) for key in body.given[:2])
    starts = [_start(e, k) for k in range(2, len(e.inputs))]
    going = Fixed(e.const(np.ones((1,) * state), np.bool_))
    scope = dict(zip(body.given, (Count(0, number), going, *starts), strict=True))
    batch = Batch(e, _steps(e, body, scope), handler)
    _, *made = batch.walk(body, body.outputs, scope)
    if not batch.reduces:
        raise not_unrolled("it reduces no rows")
    carried = [batch.after(*pair) for pair in zip(starts, made, strict=False)]
    return [*carried, *(batch.each(value) for value in made[len(starts) :])]


def batched_scan(e: Builder) -> list[int | None]:
    """Builds Scan over first axes. Raises Unsupported as `batched`."""
    (body,) = e.host.bodies
    many = e.integer("num_scan_inputs")
    count = len(e.inputs) - many
    turned = [e.integers(f"scan_{name}") for name in ("input_axes", "input_directions",
              "output_axes", "output_directions")]  # fmt: skip
    rows = [e.x(k) for k in range(count, len(e.inputs))]
    lengths = [e.shape(t)[0] for t in rows]
    if any(any(listed or ()) for listed in turned) or not lengths:
        raise not_unrolled("it goes along other axes, or backwards")
    if not all(always_equal(n, lengths[0]) for n in lengths):
        raise not_unrolled("it goes along axes of different extents")
    starts = [Fixed(e.x(k)) for k in range(count)]
    given: list[Value] = [*starts, *map(Each, rows)]
    scope = dict(zip(body.given, given, strict=True))
    batch = Batch(e, _some(lengths[0]), handler)
    made = batch.walk(body, body.outputs, scope)
    if not batch.reduces:
        raise not_unrolled("it reduces no rows")
    carried = [batch.after(*pair) for pair in zip(starts, made, strict=False)]
    return [*carried, *(batch.each(value) for value in made[count:])]


def _start(e: Builder, position: int) -> Value:
    """Returns a carried value before the first step."""
    tensor = e.x(position)
    if e.elements(tensor) is not None:
        if e.elements(tensor):
            raise not_unrolled("it adds to a sequence that is not empty")
        return Listed(position)
    data = e.constant(tensor)
    counts = data is not None and data.size == 1 and data.dtype.kind == "i"
    if counts and data is not None:
        return Count(int(data.reshape(-1)[0]), data.ndim)
    return Fixed(tensor)


def _steps(e: Builder, body: HostModel, scope: Scope) -> int:
    """Returns the number of steps. Raises Unsupported where it is not known before a run."""
    if not truth(e.constant(e.x(1)) if e.has(1) else np.ones(1)):
        raise not_unrolled("it takes no step")
    limit = e.constant(e.x(0)) if e.has(0) else None
    (goes,) = Batch(e, 0, handler).walk(body, body.outputs[:1], scope)
    if isinstance(goes, Below) and not e.has(0):
        end = e.constant(goes.end.tensor)
        if end is None:
            raise not_unrolled("the number of steps is only known in a run")
        return _some(integer(end.reshape(-1)[0]) - goes.number.more + 1)
    if limit is None or not isinstance(goes, Fixed) or not truth(e.constant(goes.tensor)):
        raise not_unrolled("the number of steps is only known in a run")
    return _some(integer(limit.reshape(-1)[0]))


def _some(steps: int) -> int:
    if not is_symbolic((steps,)) and steps < 1:
        raise not_unrolled("it takes no step")
    return steps
