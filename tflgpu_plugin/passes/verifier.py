"""Checks the invariants of every pass: the graph is well formed, shapes agree with the ops' shape
functions, inputs, outputs and states stay the host's, no id is reused, no constant loses its
quantization, and ops accept the new nodes. Tests, and TFLGPU_DEBUG, check after each pass."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from tflgpu_plugin import ops
from tflgpu_plugin.ir import COMPLEX, Graph, Node, Target, Tensor, paired, verify


class BrokenGraph(ValueError):
    """An error for an invalid graph; the message names the pass that made it."""


def check(name: str, before: Graph, after: Graph) -> None:
    """Raises BrokenGraph when the pass of this name broke an invariant between `before` and
    `after`."""
    try:
        verify(after)
        check_ports(before, after)
        check_ids(before, after)
        check_shapes(after)
        check_quantization(before, after)
        check_refusals(before, after)
    except ValueError as error:
        raise BrokenGraph(f"The pass {name} has made a wrong graph: {error}") from error


def check_ports(before: Graph, after: Graph) -> None:
    """Raises ValueError unless inputs, outputs and states are the same tensors as before."""
    for what in ("inputs", "outputs", "states"):
        if getattr(before, what) != getattr(after, what):
            raise ValueError(f"{what} {getattr(before, what)} are {getattr(after, what)} now")
    ports = {*before.inputs, *before.outputs, *(t for pair in before.states for t in pair)}
    kept = {t for pair in before.states for t in pair}
    for tensor in sorted(ports):
        given, found = (_port(graph.tensors[tensor], tensor in kept) for graph in (before, after))
        if given != found:
            raise ValueError(f"port {tensor} was {given} and is {found}")


def _port(tensor: Tensor, kept: bool) -> Tensor:
    """Returns a tensor with only the properties that the host relies on. Ops may change the
    quantization of a state (`kept`)."""
    quantization = None if kept else tensor.quantization
    return replace(paired(tensor), data=None, keep_f32=False, quantization=quantization)


def check_ids(before: Graph, after: Graph) -> None:
    """Raises ValueError when a pass reused an id or changed a tensor's shape."""
    old, new = before.next_ids(), after.next_ids()
    if new.tensor < old.tensor or new.node < old.node:
        raise ValueError(f"the next ids {tuple(old)} have become {tuple(new)}")
    nodes = {node.id for node in before.nodes}
    for node in after.nodes:
        if node.id < old.node and node.id not in nodes:
            raise ValueError(f"node {node.id} ({node.op}) has the id of one that was removed")
    for tensor, found in after.tensors.items():
        given = before.tensors.get(tensor)
        if given is None and tensor < old.tensor:
            raise ValueError(f"tensor {tensor} ({found.name}) has the id of one that was removed")
        if given and given.shape != found.shape and given.dtype != COMPLEX:
            raise ValueError(f"tensor {tensor} was {list(given.shape)}, now {list(found.shape)}")


def check_shapes(graph: Graph) -> None:
    """Raises ValueError when a tensor's shape differs from the one its op's shape function
    gives."""
    for node in graph.nodes:
        row = ops.row(node.op)
        if row is None:
            continue  # it runs on the host, or its results are constants
        wanted = [tuple(shape) for shape in row.shapes(graph, node)]
        found = [graph.shape(tensor) for tensor in node.outputs]
        if wanted[: len(found)] != found:
            raise ValueError(f"{_named(node)} makes {wanted}, but its results are {found}")


def check_quantization(before: Graph, after: Graph) -> None:
    """Raises ValueError when a constant lost its quantization, or a new unquantized constant has
    the elements of a quantized one, in any order."""
    held: dict[tuple[str, str, int], list[Tensor]] = {}
    for tensor in before.tensors.values():
        if tensor.data is not None and tensor.quantization is not None:
            held.setdefault(_elements(tensor), []).append(tensor)
    for number in sorted({t for node in after.nodes for t in node.reads}):
        found = after.tensors[number]
        if found.data is None or found.quantization is not None:
            continue
        if any(_permuted(tensor, found) for tensor in held.get(_elements(found), ())):
            raise ValueError(f"constant {number} ({found.name}) has lost its quantization")


def check_refusals(before: Graph, after: Graph) -> None:
    """Raises ValueError when a new node is one that its op refuses: its kernel would compute
    something else."""
    for node in made(before, after):
        row = ops.row(node.op)
        if row is not None and (reason := row.refuse(after, node, Target())):
            raise ValueError(f"{_named(node)} is refused: {reason}")


def made(before: Graph, after: Graph) -> list[Node]:
    """Returns the nodes that are in `after` only."""
    if after is before:
        return []
    known = {*map(id, before.nodes)}
    return [node for node in after.nodes if id(node) not in known]


def _elements(tensor: Tensor) -> tuple[str, str, int]:
    return tensor.name, tensor.dtype, prod(tensor.shape)


def _permuted(one: Tensor, other: Tensor) -> bool:
    """Whether two constants have the same elements, in any order."""
    first, second = (np.sort(np.asarray(each.data), axis=None) for each in (one, other))
    return np.array_equal(first, second, equal_nan=True)


def _named(node: Node) -> str:
    return f"node {node.id} ({node.op})"
