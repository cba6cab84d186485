"""The work of a worker on a part: it reads the inputs, runs them, and returns the results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from tflgpu_plugin import threads
from tflgpu_plugin.batch import reading
from tflgpu_plugin.batch.model import Failed, Model
from tflgpu_plugin.batch.parts import Failure, Packed, Results, packed
from tflgpu_plugin.batch.sources import Item
from tflgpu_plugin.batch.spec import Signature, Spec
from tflgpu_plugin.harness.inputs import BadInput

T = TypeVar("T")
V = TypeVar("V")
END: Any = object()  # marks the end of the values


@dataclass(frozen=True)
class Part:
    """Adjacent inputs whose results make one file."""

    number: int
    items: list[Item]

    def failed(self, reason: str) -> list[Failure]:
        """Returns failures of all of its inputs, for one reason."""
        return [Failure(one.index, one.name, reason) for one in self.items]


# (part, failures): a part that is complete or given up, and its inputs without results.
Finished = tuple[Part, Sequence[Failure]]


@dataclass(frozen=True)
class Read:
    """A part whose inputs have been read as samples; inputs that could not be read are among its
    failures."""

    part: Part
    items: list[Item]
    samples: list[reading.Sample]
    failures: list[Failure]


class Worker:
    """Reads the inputs of parts and runs the model on them. Reading may be done in another thread
    than running."""

    def __init__(self, spec: Spec, signature: Signature) -> None:
        self.reader = reading.Reader(spec, signature)
        self.model = Model(spec, signature)

    def read(self, part: Part) -> Read:
        items, samples, failures = [], [], []
        for item in part.items:
            try:
                samples.append(self.reader.read(item))
                items.append(item)
            except BadInput as error:
                failures.append(Failure(item.index, item.name, str(error)))
        return Read(part, items, samples, failures)

    def packed(self, read: Read, kind: str) -> Packed:
        """Returns the results in their stored form. Raises what `Model.results` raises."""
        items, rows, failures = [], [], list(read.failures)
        for item, row in zip(read.items, self.model.results(read.samples), strict=True):
            if isinstance(row, Failed):
                failures.append(Failure(item.index, item.name, row.reason))
            else:
                items.append(item)
                rows.append(row)
        failures.sort(key=lambda failure: failure.index)
        names, adapter = self.model.names, self.model.adapter
        return packed(Results(read.part.number, items, rows, names, adapter, failures), kind)


def ahead(values: Iterable[T], function: Callable[[T], V]) -> Iterator[V]:
    """Yields the function of each value, computed in a thread while the caller uses the previous
    one. Errors of the function are raised in the order of the values."""
    made = (function(value) for value in values)
    coming = threads.begin(partial(next, made, END), "reader")
    while (value := coming()) is not END:
        coming = threads.begin(partial(next, made, END), "reader")
        yield value
