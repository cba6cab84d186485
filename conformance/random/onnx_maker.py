"""An ONNX graph under construction for `random_onnx`: values with their shapes, as onnxruntime
finds them."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from conformance import onnx_host

MAX_ELEMENTS = 20_000  # elements of a tensor
OPSETS = (13, 17, 18, 21)
NEWEST = 23  # of graphs that are only of today
OWN = "com.microsoft"  # the domain of the host's own operators
CHANNELS = (1, 2, 3, 4, 6, 8, 12)
FLOAT, BOOL = TensorProto.FLOAT, TensorProto.BOOL


@dataclass
class Value:
    """A tensor of the graph. `exact`: no rounding has touched it."""

    name: str
    shape: tuple[int, ...]
    exact: bool = False
    kind: int = FLOAT


@dataclass
class Maker:
    """A graph under construction."""

    seed: int
    nodes: list[Any] = field(default_factory=list)
    held: list[Any] = field(default_factory=list)
    inputs: list[Value] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    count: int = 0

    def __post_init__(self) -> None:
        self.choose = random.Random(self.seed)
        self.numbers = np.random.default_rng(self.seed)
        self.opset = self.choose.choice(OPSETS)

    def pick(self, *ranks: int, kind: int = FLOAT, exact: bool = False) -> Value:
        """Returns a value, usually a recent one. Raises IndexError if there is none."""
        found = [v for v in self.values if v.kind == kind and (v.exact or not exact)]
        found = [v for v in found if not ranks or len(v.shape) in ranks]
        return self.choose.choice(found[-4:] if self.choose.random() < 0.7 else found)

    def name(self, stem: str) -> str:
        self.count += 1
        return f"{stem}_{self.count}"

    def const(self, data: Any, dtype: Any = np.float32) -> str:
        name = self.name("c")
        self.held.append(numpy_helper.from_array(np.asarray(data, dtype), name))
        return name

    def ints(self, *data: int) -> str:
        return self.const(data, np.int64)

    def weights(self, *shape: int, spread: float = 1.0) -> str:
        return self.const(self.numbers.uniform(-spread, spread, shape))

    def step(self, op: str, *reads: Value | str, **attributes: Any) -> str:
        """Adds a node whose result is only read by the next one."""
        return self.node(op, reads, 1, attributes)[0]

    def node(self, op: str, reads: Any, outputs: int, attributes: Mapping[str, Any]) -> list[str]:
        made = [self.name(op.lower()) for _ in range(outputs)]
        names = [r.name if isinstance(r, Value) else r for r in reads]
        self.nodes.append(helper.make_node(op, names, made, name=made[0], **attributes))
        return made

    def add(self, op: str, *reads: Value | str, outputs: int = 1, kind: int = FLOAT,
            exact: bool = False, **attributes: Any) -> None:  # fmt: skip
        """Adds a node whose results others may read; removes it if the host refuses it."""
        self.keep(self.node(op, reads, outputs, attributes), kind, exact)

    def keep(self, names: list[str], kind: int = FLOAT, exact: bool = False) -> None:
        found = [Value(name, (), exact, kind) for name in names]
        made = onnx_host.session(self.to_bytes(found), cpu=True)
        feeds = {v.name: np.full(v.shape, 0.5, np.float32) for v in self.inputs}
        for value, result in zip(found, made.run(None, feeds), strict=True):
            if not 0 < result.size <= MAX_ELEMENTS or result.ndim > 5:
                raise ValueError(f"{value.name} has shape {result.shape}")
            value.shape = result.shape
        self.values += found

    def to_bytes(self, outputs: list[Value], free: Mapping[str, Any] | None = None) -> bytes:
        """Returns the model with these outputs; `free` gives inputs another declared shape."""
        given = [
            helper.make_tensor_value_info(v.name, FLOAT, (free or {}).get(v.name, v.shape))
            for v in self.inputs
        ]
        made = [helper.make_tensor_value_info(v.name, v.kind, None) for v in outputs]
        graph = helper.make_graph(self.nodes, "random", given, made, self.held)
        opset = [helper.make_opsetid("", self.opset), helper.make_opsetid(OWN, 1)]
        return bytes(
            helper.make_model(
                graph, opset_imports=opset, ir_version=9 if self.opset < NEWEST else 11
            ).SerializeToString()
        )
