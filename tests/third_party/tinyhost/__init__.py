"""A whole tiny host and its provider: a program is a list of numpy functions.

It knows nothing of tflgpu-plugin but the provider interface and the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tflgpu_plugin import providers
from tflgpu_plugin.ir.graph import Array, Graph, Node, Tensor


@dataclass(frozen=True)
class Step:
    """`output = function(*inputs)`, all by name."""

    function: Callable[..., Any]
    inputs: tuple[str, ...]
    output: str


# What this host's functions become.
HOST_OPS = {
    np.add: providers.HostOp("numpy.add", "add", (1, 1)),
    np.multiply: providers.HostOp("numpy.multiply", "mul", (1, 1)),
    np.maximum: providers.HostOp("numpy.maximum", "maximum", (1, 1)),
    np.tanh: providers.HostOp("numpy.tanh", "tanh", (1, 1)),
    np.exp: providers.HostOp("numpy.exp", "exp", (1, 1)),
}


@dataclass
class Program:
    """Steps in any order in which every input exists; `results` names what the caller wants."""

    steps: Sequence[Step]
    results: Sequence[str]
    constants: Mapping[str, Array] = field(default_factory=dict)
    claim: providers.Claim | None = None

    def accelerate(self, shapes: Mapping[str, tuple[int, ...]]) -> providers.Claim:
        """Hand the program over for inputs of these shapes, and keep the partitions."""
        self.claim = providers.claim(self.graph(shapes), {"force": True})
        return self.claim

    def graph(self, shapes: Mapping[str, tuple[int, ...]]) -> Graph:
        """The program as a graph; tensor names become numbers."""
        values = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
        values |= self.constants
        for step in self.steps:
            values[step.output] = step.function(*(values[name] for name in step.inputs))
        self.numbers = {name: k for k, name in enumerate(values)}
        tensors = {
            self.numbers[name]: Tensor(name, value.shape, data=self.constants.get(name))
            for name, value in values.items()
        }
        return Graph(
            tensors,
            tuple(self._node(k, step) for k, step in enumerate(self.steps)),
            inputs=tuple(self.numbers[name] for name in shapes),
            outputs=tuple(self.numbers[name] for name in self.results),
        )

    def _node(self, k: int, step: Step) -> Node:
        form = HOST_OPS.get(step.function)
        inputs = tuple(self.numbers[name] for name in step.inputs)
        name = f"numpy.{step.function.__name__}"
        refusal = None if form else f"{name} is not known to tinyhost."
        return Node(
            k, form.op if form else "", inputs, (self.numbers[step.output],),
            {"activation": "none"}, step.output, name, row=form, refusal=refusal,
        )  # fmt: skip

    def run(self, inputs: Mapping[str, Array]) -> list[Array]:
        """The results; steps that belong to a partition run with it."""
        values: dict[str, Array] = {**self.constants, **inputs}
        names = {number: name for name, number in getattr(self, "numbers", {}).items()}
        partitions = self.claim.islands if self.claim else []
        inside = {n for partition in partitions for n in partition.nodes}
        waiting: list[Any] = [*partitions, *(k for k in range(len(self.steps)) if k not in inside)]
        while waiting:
            part = next(p for p in waiting if self._needs(p, names) <= values.keys())
            waiting.remove(part)
            if isinstance(part, int):
                step = self.steps[part]
                values[step.output] = step.function(*(values[name] for name in step.inputs))
                continue
            outputs = part.run([values[names[t]] for t in part.graph.inputs])
            values |= {names[t]: v for t, v in zip(part.graph.outputs, outputs, strict=True)}
        return [values[name] for name in self.results]

    def _needs(self, part: Any, names: Mapping[int, str]) -> set[str]:
        if isinstance(part, int):
            return set(self.steps[part].inputs)
        return {names[t] for t in part.graph.inputs}


class _Provider:
    name = "tinyhost"
    description = "programs of numpy functions"
    install = "pip install numpy"
    connected = 0

    def connect(self) -> None:
        """Nothing to register: `Program.accelerate` calls the plugin itself."""
        self.connected += 1


provider = _Provider()
