"""A model in its host that runs batches of samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

import tflgpu_plugin
from tflgpu_plugin import native
from tflgpu_plugin.batch.spec import BATCH, Array, Signature, Spec
from tflgpu_plugin.frontend.reports import GPU, Report
from tflgpu_plugin.harness import hosts, inputs, onnx, onnx_values, subjects
from tflgpu_plugin.harness.inputs import BadInput
from tflgpu_plugin.runtime import adapter
from tflgpu_plugin.runtime.device import Device, NoAdapter

Sample = Sequence[Array]
Row = list[Array]
STATE = {"ASSIGN_VARIABLE", "READ_VARIABLE", "VAR_HANDLE"}


class _Tflite:
    """A TFLite model, loaded in its host and ready to run; `names` are the names of its outputs."""

    def __init__(self, spec: Spec) -> None:
        runner = hosts.host(spec.host)
        self.delegate = runner.delegate(spec.options)
        content = inputs.model(spec.model)
        self.interpreter = runner.made(content, experimental_delegates=[self.delegate])
        self.runner = runner
        self.names = [str(detail["name"]) for detail in self.interpreter.get_output_details()]
        self.shapes: list[tuple[int, ...]] = []
        if STATE & {node.op for node in self.report().nodes}:
            raise BadInput(
                "The model keeps variables from run to run, so that the results for an input "
                "would depend on the earlier inputs of its worker; run it in a program of your "
                "own."
            )

    def run(self, values: Sequence[Array]) -> list[Array]:
        self._allocate(values)
        self.interpreter.reset_all_variables()  # no sample may see another's state
        return [plain(value) for value in hosts.invoked(self.interpreter, values)]

    def shapes_for(self, values: Sequence[Array]) -> list[Sequence[int]]:
        """Returns the outputs' shapes for inputs like these, for which the model is allocated."""
        self._allocate(values)
        return [tuple(one["shape"]) for one in self.interpreter.get_output_details()]

    def _allocate(self, values: Sequence[Array]) -> None:
        shapes = [value.shape for value in values]
        if shapes != self.shapes:
            self.shapes = []  # an interpreter that is not allocated has no shapes
            for detail, shape in zip(self.interpreter.get_input_details(), shapes, strict=True):
                if tuple(detail["shape"]) != shape:
                    self.interpreter.resize_tensor_input(detail["index"], shape)
            self.runner.allocate(self.interpreter)
            self.shapes = shapes

    def report(self) -> Report:
        return tflgpu_plugin.report(self.delegate)


class _Onnx:
    """An ONNX model, loaded in ONNX Runtime and ready to run; `names` are the names of its
    outputs."""

    def __init__(self, spec: Spec) -> None:
        self.session = onnx.session(onnx.read(spec.model), spec.options)
        self.inputs = [value.name for value in self.session.get_inputs()]
        self.names = [output.name for output in self.session.get_outputs()]

    def run(self, values: Sequence[Array]) -> list[Array]:
        found = self.session.run(None, dict(zip(self.inputs, values, strict=True)))
        return [plain(value) for value in found]

    def shapes_for(self, values: Sequence[Array]) -> list[Sequence[int]]:
        return [value.shape for value in self.run(values)]

    def report(self) -> Report:
        return onnx.report(self.session)


def plain(value: Any) -> Array:
    """Returns an output as numbers, or as texts of numpy's own type."""
    array = onnx_values.as_array(value)
    if array.dtype.kind not in "OS":
        return array
    texts = [one.decode(errors="replace") if isinstance(one, bytes) else str(one)
             for one in array.reshape(-1)]  # fmt: skip
    return np.array(texts, np.str_).reshape(array.shape)


def opened(spec: Spec) -> _Onnx | _Tflite:
    """Returns the model in its host, ready to run. Raises BadInput, NoHost, ValueError or
    RuntimeError with a sentence."""
    return _Onnx(spec) if subjects.is_onnx(spec.model, spec.host) else _Tflite(spec)


class Gone(RuntimeError):
    """An error for a model that ran and cannot be opened again, for example without its adapter;
    the text says why."""


@dataclass(frozen=True)
class Failed:
    """Takes the place of a sample's results when the sample could not be run, and holds the
    reason."""

    reason: str


class Model:
    """Takes samples and returns the results of each; it runs `spec.batch` of them at once where the
    model's first extent is dynamic, else one at a time.

    After a run that failed, or that the host's own kernels did because the device was lost, the
    model is opened again and the run repeated. If it fails again, each sample is run separately, so
    that one bad sample does not affect the others."""

    def __init__(self, spec: Spec, signature: Signature | None = None) -> None:
        self.spec = spec
        self.signature = spec.signature() if signature is None else signature
        self.batch = spec.batch if self.signature.batched else 1
        self._open()
        if self.signature.batched and self.signature.fixed:
            self._make_ready()

    def _open(self) -> None:
        """Opens the model. Raises what `opened` does."""
        self.running = opened(self.spec)
        try:
            chosen = adapter.select(self.spec.options.get("adapter"))
            self.device: Device | None = adapter.open_device(chosen)
        except NoAdapter:
            self.device = None

    def _lost(self) -> bool:
        return self.device is not None and bool(native.lib.tg_device_is_lost(self.device.handle))

    def _make_ready(self) -> None:
        """Prepares a complete batch, so that workers that start later find its plans in the cache.
        Raises BadInput."""
        try:
            shapes = self.running.shapes_for(self.signature.zeros(self.batch))
        except Exception:  # the model does not accept zeros as a sample
            return
        self._batch_is_possible(shapes)

    def _batch_is_possible(self, shapes: Sequence[Sequence[int]]) -> None:
        """Raises BadInput if the first extent of a result is not the number of samples in the
        batch."""
        for name, shape in zip(self.names, shapes, strict=True):
            if not len(shape) or shape[0] != self.batch:
                raise BadInput(
                    f"The result {name} of a batch of {self.batch} has the shape {list(shape)}, "
                    "not one row per input. Use --batch 1 or, where the model's first extent is "
                    "no batch, --batch 0 and inputs that are complete tensors."
                )

    @property
    def names(self) -> list[str]:
        return self.running.names

    def results(self, samples: Sequence[Sample]) -> list[Row | Failed]:
        """Returns one result per sample. Raises BadInput where the model has no batch, Gone, and
        RuntimeError with a sentence where none of several samples can be run."""
        found: list[Row | Failed] = []
        for batch in self._batches(samples):
            try:
                found += self._again(batch)
            except (BadInput, Gone):
                raise
            except Exception as error:
                found += self._each(batch, error)
        reasons = [one.reason for one in found if isinstance(one, Failed)]
        if len(reasons) == len(found) > 1:
            raise RuntimeError(f"None of {len(found)} inputs in a row can be run: {reasons[0]}")
        return found

    def _batches(self, samples: Sequence[Sample]) -> Iterator[Sequence[Sample]]:
        """Yields adjacent samples of one shape, at most one batch of them."""
        for _, group in groupby(samples, key=lambda sample: [value.shape for value in sample]):
            alike = list(group)
            for start in range(0, len(alike), self.batch):
                yield alike[start : start + self.batch]

    def _again(self, batch: Sequence[Sample]) -> list[Row]:
        try:
            rows = self._run(batch)
            if not self._lost():
                return rows
        except BadInput:
            raise
        except Exception:
            pass
        try:
            self._open()
        except Exception as error:
            raise Gone(f"The model cannot be opened again: {error}") from error
        return self._run(batch)

    def _each(self, batch: Sequence[Sample], error: Exception) -> list[Row | Failed]:
        if len(batch) == 1:
            return [Failed(f"the model cannot run it ({' '.join(str(error).split())})")]
        found: list[Row | Failed] = []
        for sample in batch:
            try:
                found += self._again([sample])
            except Gone:
                raise
            except Exception as alone:
                found += self._each([sample], alone)
        return found

    def _run(self, batch: Sequence[Sample]) -> list[Row]:
        """Runs a batch; missing samples are filled with copies of the last one."""
        if not self.signature.batched:
            (sample,) = batch
            return [self._alone(sample)]
        filled = [*batch, *[batch[-1]] * (self.batch - len(batch))]
        outputs = self.running.run([np.stack(each) for each in zip(*filled, strict=True)])
        self._batch_is_possible([value.shape for value in outputs])
        return [[value[k] for value in outputs] for k in range(len(batch))]

    def _alone(self, sample: Sample) -> Row:
        """Runs one sample, with a leading extent of 1 where the model needs it; the results do not
        have it."""
        given = zip(self.signature.inputs, sample, strict=True)
        outputs = self.running.run([value[None] if one.pad else value for one, value in given])
        if not all(one.pad for one in self.signature.inputs):
            return outputs
        return [value[0] if value.shape[:1] == (1,) else value for value in outputs]

    def described(self) -> str:
        """Returns the adapter, and how many nodes run on it."""
        report = self.running.report()
        return f"{self.adapter}: {report.count(GPU)} of {len(report.nodes)} nodes on the GPU"

    @property
    def adapter(self) -> str:
        """Returns the name and index of the adapter that runs the model."""
        found = self.running.report().adapter
        return f"{found.name} (adapter {found.index})" if found else "no adapter"


class Predictor:
    """A model for `Dataset.map_batches` of Ray Data, as an actor, for deployments of Ray Serve, and
    for any loop:

        dataset.map_batches(
            Predictor, fn_constructor_args=["model.onnx"], batch_size=32, concurrency=4
        )

    `host`, `options`: as in `Spec`. `adapters`: a list of names or indices, or a text with commas
    between them, assigned to the workers of a machine cyclically ("all": every GPU); without them a
    worker takes the one that its Ray GPU ids name, or the best. `batch`: how many samples the model
    runs at once, where its first extent is open; the last batch is padded to this size.
    Columns of 8-bit pixels become (pixel - mean) / std in models that take floats."""

    def __init__(
        self,
        model: str | Path,
        host: str | None = None,
        options: Mapping[str, Any] | None = None,
        adapters: str | Sequence[str] = (),
        batch: int = BATCH,
        mean: float = 127.5,
        std: float = 127.5,
    ) -> None:
        """Opens the model. Raises ValueError or RuntimeError with a sentence where that fails."""
        from tflgpu_plugin.batch import placing

        if batch < 0:
            raise BadInput(f"batch is 0 or more, not {batch}.")
        if not std > 0:
            raise BadInput(f"std is more than 0, not {std}.")
        spec = Spec(Path(model), host, dict(options or {}), batch, mean, std)
        self.adapter = placing.adapter(placing.named(adapters))
        spec = spec.ready(self.adapter)
        with placing.one_at_a_time(spec.options):
            self.model = Model(spec)

    def __call__(self, batch: Mapping[str, Array]) -> dict[str, Array]:
        """Returns columns with one row per sample, to which the outputs are added by their names.
        Raises ValueError with a sentence for columns that the model does not accept."""
        from tflgpu_plugin.batch import columns

        if not isinstance(batch, Mapping):
            raise BadInput(f"A batch has columns by their names, as a dict; this is {batch!r:.40}.")
        samples = columns.samples(batch, self.model.signature, self.model.spec)
        rows = self.model.results(samples)
        for row in rows:
            if isinstance(row, Failed):
                raise RuntimeError(row.reason)
        used = [name for name in batch if name not in columns.taken(batch, self.model.signature)]
        kept = {name: batch[name] for name in used}
        names = columns.names(self.model.names, kept)
        return kept | dict(zip(names, map(columns.stacked, zip(*rows, strict=True)), strict=False))

    def report(self) -> Report:
        """Returns the report of the model's nodes."""
        return self.model.running.report()
