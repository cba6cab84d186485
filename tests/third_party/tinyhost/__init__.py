"""A whole tiny host and its provider: a program is a list of numpy functions.

It knows nothing of tflgpu-plugin but the provider interface."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tflgpu_plugin import providers

Array = np.ndarray[Any, Any]
PLAIN = {"add": {"activation": "none"}, "multiply": {"activation": "none"}}


@dataclass(frozen=True)
class Step:
    """`output = function(*inputs)`, all by name."""

    function: Callable[..., Any]
    inputs: tuple[str, ...]
    output: str


# The ops that this host's functions become.
TABLE = providers.Table(
    {
        name: providers.HostOp(name, op, (1, 1), operands=providers.operands(takes))
        for name, op, takes in (
            ("add", "add", "value value"),
            ("multiply", "mul", "value value"),
            ("maximum", "maximum", "value value"),
            ("tanh", "tanh", "value"),
            ("exp", "exp", "value"),
        )
    }
)


@dataclass
class Program:
    """Steps in any order in which every input exists; `results` names what the caller wants."""

    steps: Sequence[Step]
    results: Sequence[str]
    constants: Mapping[str, Array] = field(default_factory=dict)
    claim: providers.Claim | None = None
    kept: Sequence[providers.Subgraph] = ()

    def accelerate(self, shapes: Mapping[str, tuple[int, ...]]) -> providers.Claim:
        """Passes the program to the provider for inputs of these shapes, and keeps the
        partitions."""
        facts = providers.Facts(judge=providers.judge({"force": True}))
        found = providers.import_(self.model(shapes), TABLE, facts)
        self.claim = providers.claim(found)
        self.kept = [providers.kept(found, part.graph) for part in self.claim.partitions]
        return self.claim

    def model(self, shapes: Mapping[str, tuple[int, ...]]) -> providers.HostModel:
        """Returns the program as plain data."""
        values = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
        values |= self.constants
        for step in self.steps:
            values[step.output] = step.function(*(values[name] for name in step.inputs))
        return providers.HostModel(
            tuple(
                providers.HostNode(k, step.function.__name__, "", 1, step.output, step.inputs,
                                   (step.output,),
                                   attributes=PLAIN.get(step.function.__name__, {}))
                for k, step in enumerate(self.steps)
            ),
            {name: providers.Value(name, "f32", value.shape, self.constants.get(name))
             for name, value in values.items()},
            tuple(self.results),
        )  # fmt: skip

    def run(self, inputs: Mapping[str, Array]) -> list[Array]:
        """Returns the results; the steps of a partition run together."""
        values: dict[str, Array] = {**self.constants, **inputs}
        partitions = self.claim.partitions if self.claim else []
        inside = {n for partition in partitions for n in partition.nodes}
        parts: list[Any] = list(zip(partitions, self.kept, strict=True))
        waiting = [*parts, *(k for k in range(len(self.steps)) if k not in inside)]
        while waiting:
            part = next(p for p in waiting if self._needs(p) <= values.keys())
            waiting.remove(part)
            if isinstance(part, int):
                step = self.steps[part]
                values[step.output] = step.function(*(values[name] for name in step.inputs))
                continue
            partition, kept = part
            outputs = partition.run([values[name] for name in kept.ports])
            values |= dict(zip(kept.outputs, outputs, strict=True))
        return [values[name] for name in self.results]

    def _needs(self, part: Any) -> set[str]:
        return set(self.steps[part].inputs if isinstance(part, int) else part[1].ports)


class _Provider:
    name = "tinyhost"
    description = "programs of numpy functions"
    install = "pip install numpy"
    connected = 0

    def connect(self) -> None:
        """Nothing to register: `Program.accelerate` calls the plugin itself."""
        self.connected += 1


provider = _Provider()
