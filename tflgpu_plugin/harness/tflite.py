"""TFLite models on a host's CPU kernels and through the delegate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import tflgpu_plugin
from tflgpu_plugin.harness import flatbuffer
from tflgpu_plugin.harness.compare import FASTEST, JUDGES, Array, Running, thinned
from tflgpu_plugin.harness.hosts import THREADS, Host, Lacking, invoked
from tflgpu_plugin.harness.inputs import BadInput, refused


@dataclass(frozen=True)
class TfliteModel:
    """A `Subject`: the bytes of a model, the values of its inputs, and the shapes that were chosen
    for open ones."""

    runner: Host
    content: bytes
    values: list[Array]
    chosen_shapes: Mapping[str, list[int]] = field(default_factory=dict)
    cpu: str = f"XNNPACK, {THREADS} threads"

    @property
    def host(self) -> str:
        return f"{self.runner.name} {self.runner.version}"

    @property
    def judges(self) -> Mapping[str, str]:
        return JUDGES

    def start(self, options: Mapping[str, Any] | None, kernels: str = FASTEST) -> Running:
        delegates = [] if options is None else [self.runner.delegate(options)]
        with self._explained():
            interpreter = self.runner.interpreter(
                self.content, kernels, experimental_delegates=delegates
            )

        def run() -> list[Array]:
            with self._explained():
                return invoked(interpreter, self.values)

        names = [str(detail["name"]) for detail in interpreter.get_output_details()]
        return Running(names, run, lambda: tflgpu_plugin.report(*delegates))

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """What the host refuses meanwhile is told with the shapes that were chosen, if any were."""
        try:
            yield
        except Lacking:
            raise
        except RuntimeError as error:
            if not self.chosen_shapes:
                raise
            raise BadInput(refused(self.host, error, self.chosen_shapes)) from error

    def probed(self, probes: Sequence[int] | None) -> TfliteModel:
        if probes is None:
            plain = self.runner.plain(self.content)
            own = {detail["index"] for detail in plain.get_output_details()}
            probes = thinned([t for t in flatbuffer.activations(self.content) if t not in own])
        return replace(self, content=flatbuffer.with_outputs(self.content, probes))
