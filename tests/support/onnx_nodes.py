"""One ONNX node at a time, read without onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tflgpu_plugin.importer.imported import Imported
from tflgpu_plugin.importer.model import HostNode, Value
from tflgpu_plugin.providers.onnxruntime.ops import HOST_OPS
from tflgpu_plugin.providers.onnxruntime.reader import read
from tflgpu_plugin.providers.onnxruntime.snapshot import Snapshot

F = np.float32
NAMES = {"float32": "f32", "float16": "f16", "uint8": "u8", "int8": "i8", "int16": "i16",
         "uint16": "u16", "int32": "i32", "int64": "i64", "bool": "bool"}  # fmt: skip
MS = "com.microsoft"
Input = Any  # the shape of a float32 tensor, (dtype, shape), a constant, or None for an absent one


class Node:
    """One node; `outputs` are its results (None: not asked for), of `kinds` or float32. It `asks`
    for these attributes; the others are what it has where they are left out."""

    def __init__(
        self, op: str, *inputs: Input, outputs: Sequence[str | None] = ("y",), version: int = 0,
        kinds: Sequence[str] = (), bodies: Sequence[str] = (), asks: str = "", **attributes: Any,
    ) -> None:  # fmt: skip
        domain, _, name = op.rpartition(":")
        self.attributes, self.asked = attributes, asks.split()
        made = [name for name in outputs if name]
        types = [*kinds, *["f32"] * len(made)]
        values = {n: Value(n, kind, None) for n, kind in zip(made, types, strict=False)}
        reads: list[str | None] = []
        for k, given in enumerate(inputs):
            reads.append(None if given is None else f"x{k}")
            if isinstance(given, np.ndarray | np.generic):
                data = np.asarray(given)
                values[f"x{k}"] = Value(f"x{k}", NAMES[data.dtype.name], data.shape, data)
            elif given is not None:
                kind, shape = given if given and isinstance(given[0], str) else ("f32", given)
                values[f"x{k}"] = Value(f"x{k}", kind, shape)
        for body in bodies:
            values[body] = Value(body, "f32", (1,))
        version = version or HOST_OPS[op].versions[1]
        node = HostNode(
            0, name, domain, version, "", tuple(reads), tuple(outputs), tuple(bodies), attributes
        )
        self.snapshot = Snapshot((node,), values, tuple(n for n in outputs if n))

    def but(self, **attributes: Any) -> Node:
        """Returns the same with other attributes."""
        made = object.__new__(Node)
        (node,) = self.snapshot.nodes
        made.snapshot = replace(self.snapshot, nodes=(replace(node, attributes=attributes),))
        return made

    def read(self) -> Imported:
        return read(self.snapshot, {})

    @property
    def reason(self) -> str:
        """Returns why it is refused, "" if it is not."""
        return next(iter(self.read().refusals.values()), "")

    @property
    def code(self) -> str:
        """Returns the code of its refusal, "" if it is not refused."""
        return next((reason.code for reason in self.read().refusals.values()), "")


def rows(*shape: int) -> Any:
    return np.arange(np.prod(shape), dtype=F).reshape(shape) / 8 + 1


IMAGE, FILTERS = (2, 4, 9, 8), rows(4, 4, 3, 3)
CHANNELS = [rows(4) + k for k in range(4)]
GRID = (np.float32(0.5), np.uint8(3))
STORED: Input = ("u8", (2, 4))
