"""Judges the plugin's nodes by their own inputs, where the answer of the whole model says nothing:
the host's own delegate leaves weights unwritten that other nodes of the host read."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator, Mapping
from itertools import product
from typing import Any

import numpy as np

from conformance import alone, host
from conformance.host import Feed, Outputs
from conformance.models.tflite import Model


def worst(model: Model, feeds: list[Feed], name: str, options: Mapping[str, Any]) -> float:
    """Returns the largest error of what our nodes write beside the host's own delegate, relative to
    the tolerance of graphs. The expected values are what the host's kernels compute from the inputs
    of our nodes: from correct values where nothing was written (we must not read such a tensor),
    and from correct values or those that the host gave where both exist and differ, because we may
    fold or read results of constants."""
    delegate = host.load_delegate(name, options)
    made = host.interpreter(
        model.to_bytes(), name, "default",
        experimental_delegates=[delegate], experimental_preserve_all_tensors=True,
    )  # fmt: skip
    made.allocate_tensors()
    ours = host.placement(delegate).gpu_nodes
    inputs, outputs = _ports(model, ours)
    outputs = [t for t in outputs if not _overwritten(made, t, len(model.tensors))]
    if not outputs:
        return 0.0
    part = _cut(model, ours, inputs, outputs)
    before = _cut(model, range(len(model.operators)), model.inputs, inputs)
    shares = []
    for feed in feeds:
        alone.invoke(made, [feed])
        found, given = ([np.array(made.get_tensor(t)) for t in some] for some in (outputs, inputs))
        (right,) = host.run_on_cpu(before, [feed], name, "optimized")
        answers = (host.run_on_cpu(part, [read], name, "optimized") for read in _read(right, given))
        shares.append(min(alone.far(answer, [found]) for answer in answers))
    return max(shares)


def _overwritten(made: Any, tensor: int, count: int) -> bool:
    """Whether a node of the host writes its result into this tensor's memory."""

    def place(t: int) -> int:
        try:
            return int(made.tensor(t)().__array_interface__["data"][0])
        except ValueError:  # it has no memory
            return -1

    return place(tensor) in {place(t) for t in range(count) if t != tensor}


def _ports(model: Model, ours: frozenset[int]) -> tuple[list[int], list[int]]:
    """Returns the computed tensors that these nodes read, and those of their results that other
    nodes read."""
    inside = [op for k, op in enumerate(model.operators) if k in ours]
    outside = [op for k, op in enumerate(model.operators) if k not in ours]
    made = {t for op in inside for t in op.outputs}
    kept = {t for t, tensor in enumerate(model.tensors) if tensor.data is not None}
    read = {t for op in inside for t in op.inputs if t >= 0} - made - kept
    used = {t for op in outside for t in op.inputs} | {*model.outputs}
    return sorted(read), sorted(made & used)


def _read(right: Outputs, given: Outputs) -> Iterator[Feed]:
    """Returns the tensors that our nodes may have read."""
    choices = []
    for wanted, told in zip(right, given, strict=True):
        one = [wanted]
        if not np.array_equal(told, wanted) and not np.all(
            told == np.array(alone.MARK, told.dtype)
        ):
            one.append(told)
        choices.append(one)
    yield from map(list, product(*choices))


def _cut(model: Model, nodes: Collection[int], inputs: list[int], outputs: list[int]) -> bytes:
    """Returns a model of these nodes alone."""
    part = copy.deepcopy(model)
    part.operators = [op for k, op in enumerate(part.operators) if k in nodes]
    part.inputs, part.outputs = inputs, outputs
    return part.to_bytes()
