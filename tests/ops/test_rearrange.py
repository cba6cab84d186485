"""Ops that move elements by constants: what each says to shapes and numbers that do not fit, and
what is the last that fits. No device is needed."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tflgpu_plugin.ir.graph import Graph, Node, Shape, Tensor
from tflgpu_plugin.ir.target import Target
from tflgpu_plugin.ops import rows
from tflgpu_plugin.ops.movement import MAX_INDEX

RUN = "i32"  # of numbers that a run tells


def said(op: str, shape: Shape, *numbers: Any, **attributes: Any) -> str | None:
    """The sentence against one node over x of this shape; `numbers` are its other inputs: values,
    or the type of what only a run tells."""
    tensors = {0: Tensor("x", shape)}
    for k, given in enumerate(numbers, 1):
        data = None if isinstance(given, str) else np.array(given, np.int32)
        held = (3,) if data is None else data.shape
        tensors[k] = Tensor("n", held, given if isinstance(given, str) else "i32", data)
    tensors[9] = Tensor("y", ())
    node = Node(0, op, tuple(range(len(numbers) + 1)), (9,), attributes)
    graph = Graph(tensors, (node,), (0,), (9,))
    row = rows()[op]
    return row.refuse(graph, node, Target())


IMAGE = (4, 6, 8, 3)


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (said("gather", IMAGE, [0, 5, -6], axis=1), None),
        (said("gather", IMAGE, [6], axis=1), "outside an axis of 6"),
        (said("gather", IMAGE, [-7], axis=1), "outside an axis of 6"),
        (said("gather", IMAGE, [2, -3], axis=-1), None),
        (said("gather", IMAGE, [3], axis=-1), "outside an axis of 3"),
        (said("gather", IMAGE, [0], axis=4), "axis"),
        (said("gather", (2, 2, 2, 2, 2), [0, 1], axis=0), None),
        (said("gather", (2, 2, 2, 2, 2), [[0, 1]], axis=0), "works on 6 axes"),
        (said("gather", (2, 2, 2, 2, 2, 2), 0, axis=0), "works on 6 axes"),
        (said("gather", (MAX_INDEX, 2), [0], axis=0), None),
        (said("gather", (MAX_INDEX + 1, 2), [0], axis=0), "takes indices below 16,777,216"),
        (said("gather", (MAX_INDEX + 1, 2), [0], axis=1), None),
        (said("gather", IMAGE, "f32", axis=0), None),
        (said("gather", IMAGE, "i64", axis=0), "The indices 'n' hold i64 values that others read"),
        (said("space_to_batch", IMAGE, [2, 4], [[0, 0], [0, 0]]), None),
        (said("space_to_batch", IMAGE, [2, 3], [[0, 0], [1, 0]]), None),
        (said("space_to_batch", IMAGE, [2, 3], [[0, 0], [0, 0]]), "blocks of .2, 3. do not fit"),
        (said("space_to_batch", IMAGE, [2, 4], [[0, 0]]), "2 blocks do not fit"),
        (said("space_to_batch", IMAGE, [1, 1, 1], [[0, 0]] * 3), None),
        (said("space_to_batch", IMAGE, [1, 1, 1, 1], [[0, 0]] * 4), "4 blocks do not fit"),
        (said("space_to_batch", IMAGE, [], []), "0 blocks do not fit"),
        (said("space_to_batch", IMAGE, [0, 1], [[0, 0]] * 2), "blocks must be positive"),
        (said("space_to_batch", IMAGE, [1, 1], [[0, 0], [0, -1]]), "and margins not negative"),
        (said("space_to_batch", IMAGE, RUN, [[0, 0]]), "must be constant"),
        (said("space_to_batch", IMAGE, [2, 2], RUN), "must be constant"),
        (said("batch_to_space", IMAGE, [2, 2], [[0, 0], [0, 0]]), None),
        (said("batch_to_space", IMAGE, [2, 3], [[0, 0], [0, 0]]), "blocks of .2, 3. do not fit"),
        (said("batch_to_space", IMAGE, [2, 2], [[6, 6], [0, 16]]), None),  # nothing is left
        (said("batch_to_space", IMAGE, [2, 2], [[6, 7], [0, 0]]), "blocks of .2, 2. do not fit"),
    ],
)
def test_what_does_not_fit(found: str | None, sentence: str | None) -> None:
    assert found is None if sentence is None else re.search(sentence, found or "")
