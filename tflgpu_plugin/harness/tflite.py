"""Runs TFLite models on a host's CPU kernels and through the delegate."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

import tflgpu_plugin
from tflgpu_plugin import log
from tflgpu_plugin.harness import flatbuffer, flatbuffer_part, parts
from tflgpu_plugin.harness.compare import FASTEST, JUDGES, Array, Running, judged, thinned
from tflgpu_plugin.harness.hosts import THREADS, Host, Lacking, invoked
from tflgpu_plugin.harness.inputs import BadInput, misshapen, refused

PROGRAM = """\
from {module} import Interpreter, load_delegate

delegates = [load_delegate("tflgpu", OPTIONS)]
interpreter = Interpreter(str(HERE / "model.tflite"), experimental_delegates=delegates)
interpreter.allocate_tensors()
for detail, value in zip(interpreter.get_input_details(), INPUTS.values(), strict=True):
    interpreter.set_tensor(detail["index"], value)
interpreter.invoke()
(got,) = [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]
"""


def details(runner: Host, content: bytes, path: Path) -> list[dict[str, Any]]:
    """Returns the host's details of each input; the key `open` has its extents, None for dynamic
    ones. Warns of signatures whose graphs do not run here. Raises BadInput."""
    try:
        plain = runner.plain(content)
        found: list[dict[str, Any]] = plain.get_input_details()
        signatures = plain.get_signature_list()
    except (ValueError, RuntimeError) as error:
        raise BadInput(f"{runner.name} cannot read {path}: {error}") from error
    if len(signatures) > 1:
        names = ", ".join(signatures)
        log.say(f"{path} has several signatures: {names}. Only its main graph runs here.")
    for one in found:
        extents = one["shape_signature"] if len(one["shape_signature"]) else one["shape"]
        one["open"] = tuple(None if n < 0 else int(n) for n in extents)
    return found


@dataclass(frozen=True)
class TfliteModel:
    """A `Subject`: the bytes of a model, the values of its inputs, and the shapes that were chosen
    for inputs with dynamic extents."""

    runner: Host
    content: bytes
    values: list[Array]
    chosen_shapes: Mapping[str, list[int]] = field(default_factory=dict)
    cpu: str = f"XNNPACK, {THREADS} threads"

    @property
    def host(self) -> str:
        return self.runner.title

    @property
    def judges(self) -> Mapping[str, str]:
        return JUDGES

    def start(
        self, options: Mapping[str, Any] | None, kernels: str = FASTEST, profiled: bool = False
    ) -> Running:
        delegates = [] if options is None else [self.runner.delegate(options)]
        own: dict[str, list[int]] = {}
        with self._explained(own):
            interpreter = self.runner.made(self.content, kernels, experimental_delegates=delegates)
            for detail, value in zip(interpreter.get_input_details(), self.values, strict=True):
                if tuple(detail["shape"]) != value.shape:
                    own[str(detail["name"])] = [int(n) for n in detail["shape"]]
                    interpreter.resize_tensor_input(detail["index"], value.shape)
            self.runner.allocate(interpreter)

        def run() -> list[Array]:
            with self._explained(own):
                return invoked(interpreter, self.values)

        names = [str(detail["name"]) for detail in interpreter.get_output_details()]
        return Running(names, run, lambda: tflgpu_plugin.report(*delegates))

    @contextmanager
    def _explained(self, own: Mapping[str, list[int]]) -> Iterator[None]:
        """Adds the chosen shapes, if there are any, to errors that the host raises while the
        context is entered; otherwise the shapes in the file of inputs that were resized (`own`)."""
        try:
            yield
        except Lacking:
            raise
        except RuntimeError as error:
            if not self.chosen_shapes and not own:
                raise
            if self.chosen_shapes:
                raise BadInput(refused(self.host, error, self.chosen_shapes)) from error
            raise BadInput(misshapen(self.host, error, own)) from error

    def fixed(self) -> TfliteModel:
        shapes = {tensor: value.shape for tensor, value in self.given().items()}
        details = self.runner.plain(self.content).get_input_details()
        if any(shapes[one["index"]] != tuple(one["shape"]) for one in details):
            shapes |= self._resized()
        return replace(self, content=flatbuffer.with_shapes(self.content, shapes))

    def _resized(self) -> dict[int, tuple[int, ...]]:
        """Returns the shapes that all results have in a run; the file states those for other input
        shapes."""
        plain = self.runner.plain(self.content)
        own = [one["index"] for one in plain.get_output_details()]
        more = [t for t in flatbuffer.results(self.content) if t not in own]
        running, _, _ = judged(self.probed(more))
        return {t: value.shape for t, value in zip([*own, *more], running.run(), strict=True)}

    def given(self) -> Mapping[int, Array]:
        details = self.runner.plain(self.content).get_input_details()
        return {one["index"]: value for one, value in zip(details, self.values, strict=True)}

    def real(self, outputs: Sequence[Array]) -> list[Array]:
        details = self.runner.plain(self.content).get_output_details()
        grids = (detail["quantization"] for detail in details)
        return [
            (value.astype(np.float32) - zero) * np.float32(scale) if scale else value
            for value, (scale, zero) in zip(outputs, grids, strict=True)
        ]

    def probes_of(self, names: Mapping[int, str]) -> Mapping[int, int]:
        own = dict(enumerate(flatbuffer.names(self.content)))
        there = {*self.given(), *flatbuffer.results(self.content)}
        return {t: t for t, name in names.items() if t in there and own.get(t) == name}

    @property
    def file(self) -> str:
        return "model.tflite"

    @property
    def program(self) -> str:
        return PROGRAM.format(module=self.runner.module.__name__)

    def nodes(self) -> parts.Nodes[int]:
        return flatbuffer_part.operators(self.content)

    def part(self, sources: Collection[int], result: int) -> TfliteModel:
        nodes, given = self.nodes(), self.given()
        varying = {*given, *flatbuffer.results(self.content)}
        taken, kept = parts.part(nodes, varying, sources, result)
        inner = [tensor for tensor in taken if tensor not in given]
        running, _, _ = judged(self.probed(inner))
        values = {**given, **dict(zip(inner, running.run()[-len(inner) :], strict=False))}
        content = flatbuffer_part.part(self.content, kept, taken, [result])
        return replace(self, content=content, values=[values[tensor] for tensor in taken])

    def probed(self, probes: Sequence[int] | None) -> TfliteModel:
        if probes is None:
            plain = self.runner.plain(self.content)
            own = {detail["index"] for detail in plain.get_output_details()}
            probes = thinned([t for t in flatbuffer.activations(self.content) if t not in own])
        return replace(self, content=flatbuffer.with_outputs(self.content, probes))
