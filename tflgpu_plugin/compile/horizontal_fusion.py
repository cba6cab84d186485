"""Horizontal fusion of launches: pairs that move elements and differ only in their operands, such
as the updates of the keys and of the values of a cache, become one launch. Each of its threads does
the work of the first launch and then that of the second (`kernels.horizontal_fusion`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from math import prod
from typing import Any

import numpy as np

from tflgpu_plugin import kernels, ops
from tflgpu_plugin.ir.editor import merged
from tflgpu_plugin.ir.extent import Extent, terms_of
from tflgpu_plugin.ir.heuristics import heuristic
from tflgpu_plugin.ir.symbolic import Word
from tflgpu_plugin.kernels.horizontal_fusion import SECOND_OPERANDS, SUFFIX
from tflgpu_plugin.ops.lowering import CHECK, Launch, Lowering, Raw, Source

MAX_BETWEEN = 8  # launches between two that are fused
MAX_GROUPS = 1 << 10  # workgroups; longer launches gain little
MAX_ACCESSES = 8  # in a kernel, since drivers take longer to compile more than twice as many
WORDS = kernels.UNIFORM_BYTES // 4
FOLDED, PER_OPERAND = 4, 4  # uniform words of a folded dispatch, and of an operand, at most


def fuse(low: Lowering) -> None:
    """Fuses pairs of launches of `low`, each at the position of the first."""
    touched = [_touched(low, launch) for launch in low.launches]
    kinds = [_kind(low, launch) for launch in low.launches]
    gone: set[int] = set()
    for k, kind in enumerate(kinds):
        for first in range(k - 1, max(k - 2 - MAX_BETWEEN, -1), -1):
            if kind is None or kinds[first] != kind:
                continue
            between = (j for j in range(first, k) if j not in gone)
            if any(_depend(touched[j], touched[k]) for j in between):
                break
            both = _fused(low, low.launches[first], low.launches[k])
            if both is not None:
                low.launches[first], kinds[first], kinds[k] = both, None, None
                (reads, writes), (more, others) = touched[first], touched[k]
                touched[first] = reads | more, writes | others
                gone.add(k)
                break
    low.launches = [launch for k, launch in enumerate(low.launches) if k not in gone]


Touched = tuple[set[Source], set[Source]]  # what a launch reads, and what it writes


def _touched(low: Lowering, launch: Launch) -> Touched:
    reads, writes = ({_memory(low, s) for s in of} for of in (launch.reads, launch.writes))
    return reads, writes - {CHECK}


def _memory(low: Lowering, source: Source) -> Source:
    """Returns a key of the memory of a source: an input and an output in one buffer have the
    same."""
    found = low.root(source)
    if isinstance(found, int):
        found = low.homes.get(found, found)
    if isinstance(found, Raw) and found.role == "input" and found.tensor in low.shared:
        return Raw("output", low.shared[found.tensor])
    return found


def _depend(one: Touched, other: Touched) -> bool:
    """Whether one launch writes memory that the other reads or writes, so that their order
    matters."""
    (reads, writes), (more, others) = one, other
    return not (writes.isdisjoint(more | others) and others.isdisjoint(reads))


def _kind(low: Lowering, launch: Launch) -> object:
    """Returns a key that is equal for launches that can be fused: all of a launch but the sources
    of its operands. Returns None if it must stay alone."""
    row = ops.rows().get(launch.node.op)
    if row is None or row.kind != "movement" or launch.when is not None or not _short(launch):
        return None
    if launch.copies is not None or launch.takes is not None or launch.variant.get("dots"):
        return None  # it may be elided (see `copies`, `byte_storage`)
    if any(operand.planes for operand, _ in launch.operands):
        return None
    operands = [operand for operand, _ in launch.operands]
    parts = launch.kernel, launch.node.op, launch.form, launch.epilogue, launch.variant
    return _key([*parts, operands, launch.parameters, launch.workgroups])


@heuristic
def _short(launch: Launch) -> bool:
    return prod(launch.workgroups) <= MAX_GROUPS


def _key(value: Any) -> Any:
    """Returns a key of a part of a launch. Comparing keys leaves no guards."""
    if isinstance(value, Extent):
        return value.terms
    if isinstance(value, Word):
        return value.kind, terms_of(value.number)
    if isinstance(value, Mapping):
        return tuple((name, _key(value[name])) for name in sorted(value))
    if isinstance(value, list | tuple):
        return tuple(map(_key, value))
    if is_dataclass(value) and not isinstance(value, type):
        return tuple(_key(getattr(value, part.name)) for part in fields(value))
    # As text, since 0.0 == -0.0.
    return type(value).__name__, repr(value) if isinstance(value, float | np.floating) else value


def _fused(low: Lowering, first: Launch, second: Launch) -> Launch | None:
    """Returns a launch that does the work of both; None if it would have too many operands, or a
    kernel that takes long to compile."""
    operands, renamed = [*first.operands], dict[str, str]()
    for (operand, source), (_, given) in zip(second.operands, first.operands, strict=True):
        same = low.root(source) == low.root(given)
        if not same or (operand.access != "r" and source != CHECK):
            renamed[operand.name] = operand.name + SUFFIX
            operands.append((replace(operand, name=operand.name + SUFFIX), source))
    words = len(first.parameters) + FOLDED + PER_OPERAND * len(operands)
    if len(operands) > low.target.max_storage_buffers or words > WORDS:
        return None
    if kernels.accesses(first.kernel, first.variant) > MAX_ACCESSES:
        return None
    epilogue = dict(first.epilogue)
    for name, steps in second.epilogue.items():
        epilogue[renamed[name]] = [
            replace(each, operand=each.operand and renamed.get(each.operand, each.operand))
            for each in steps
        ]
    return replace(
        first,
        node=replace(first.node, **merged(first.node, second.node)),
        operands=tuple(operands),
        epilogue=epilogue,
        variant={**first.variant, SECOND_OPERANDS: tuple(renamed.items())},
    )
