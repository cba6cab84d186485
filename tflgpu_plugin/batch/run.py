"""`tflgpu run`: runs all inputs through a model, in this process, in several, or on Ray."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self

from tflgpu_plugin.batch import placing, sources
from tflgpu_plugin.batch.parts import NPZ, Failure, Folder
from tflgpu_plugin.batch.sources import Listing
from tflgpu_plugin.batch.spec import BATCH, Signature, Spec, digest
from tflgpu_plugin.batch.work import Finished, Part, Worker, ahead
from tflgpu_plugin.batch.workers import Stopped, Workers
from tflgpu_plugin.harness.inputs import BadInput

FORMAT = 1  # version of the layout of the output folder


@dataclass(frozen=True)
class Request:
    """The model, inputs and output folder of a run, and its workers: `workers` processes (1: this
    one), or Ray's actors at the address `ray` ("": a cluster on this machine)."""

    spec: Spec
    inputs: Sequence[Path]
    out: Path
    kind: str = NPZ
    resume: bool = False
    workers: int | None = None
    adapters: Sequence[str] = ()
    ray: str | None = None


@dataclass
class Outcome:
    """The result of a run. `before` is how many inputs an earlier run had finished; `failures` are
    the inputs without results, those of the earlier run included."""

    inputs: int
    before: int = 0
    failed_before: int = 0
    done: int = 0
    seconds: float = 0.0
    failures: list[Failure] = field(default_factory=list)

    def line(self) -> str:
        results, kept = self.inputs - len(self.failures), self.before - self.failed_before
        rate = (
            f", {(results - kept) / self.seconds:.1f}/s" if results > kept and self.seconds else ""
        )
        text = f"{results} of {self.inputs} inputs have results"
        earlier = f", {kept} of them from an earlier run" if kept else ""
        return f"{text}{earlier} ({self.seconds:.1f} s{rate})"


Progress = Callable[[int, int], None]  # called with (finished inputs, all inputs)


def run(request: Request, tell: Callable[[str], None], progress: Progress) -> Outcome:
    """Runs all inputs. Raises BadInput, NoHost, or what hosts raise for a model that cannot be
    used, with a sentence, before anything is written; Stopped when the run cannot continue."""
    signature = request.spec.signature()
    _apart(request)
    listing = sources.listed(request.inputs, signature)
    folder = Folder(request.out, request.kind)
    with _engine(request, signature, folder, tell) as engine:
        folder.begin(_manifest(request, listing, signature), request.resume)
        return _ran(engine, folder, listing, request.spec.batch or BATCH, progress)


def _ran(
    engine: Engine, folder: Folder, listing: Listing, size: int, progress: Progress
) -> Outcome:
    """Runs all parts that have no results yet."""
    numbers = range(-(-len(listing) // size))
    outcome, kept = Outcome(len(listing)), folder.done() & {*numbers}
    outcome.before = sum(min(size, len(listing) - part * size) for part in kept)
    outcome.failures = list(folder.failures(sorted(kept)))
    outcome.failed_before = len(outcome.failures)
    parts = (
        Part(number, listing.items(number * size, (number + 1) * size))
        for number in numbers
        if number not in kept
    )
    begin = time.perf_counter()
    progress(outcome.before, outcome.inputs)
    for part, failures in engine.run(parts):
        outcome.done += len(part.items)
        outcome.failures += failures
        progress(outcome.before + outcome.done, outcome.inputs)
    outcome.seconds = time.perf_counter() - begin
    outcome.failures.sort(key=lambda failure: failure.index)
    return outcome


class Engine(Protocol):
    """An engine that runs parts while it is open."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def run(self, parts: Iterable[Part]) -> Iterator[Finished]: ...


def _engine(
    request: Request, signature: Signature, folder: Folder, tell: Callable[[str], None]
) -> Engine:
    if request.ray is not None:
        from tflgpu_plugin.batch.on_ray import OnRay

        more = request.ray, request.workers, request.adapters
        return OnRay(request.spec, signature, folder, *more, tell)
    adapters = placing.spread(request.adapters)
    count = request.workers or max(1, len(adapters))
    dealt = [placing.dealt(adapters, worker) for worker in range(count)]
    if count == 1:
        return Here(request.spec.ready(dealt[0]), signature, folder, tell)
    return Workers(request.spec, signature, folder, dealt, tell)


class Here(Engine):
    """The engine with one worker in this process."""

    def __init__(
        self, spec: Spec, signature: Signature, folder: Folder, tell: Callable[[str], None]
    ) -> None:
        self.worker, self.folder = Worker(spec, signature), folder
        tell(self.worker.model.described())

    def run(self, parts: Iterable[Part]) -> Iterator[Finished]:
        """Yields finished parts. Raises Stopped."""
        for read in ahead(parts, self.worker.read):
            try:
                packed = self.worker.packed(read, self.folder.kind)
            except (ValueError, RuntimeError) as error:
                raise Stopped(str(error)) from error
            self.folder.keep(packed)
            yield read.part, packed.failures


def _apart(request: Request) -> None:
    """Raises BadInput for results among the inputs, which would be inputs of the next run."""
    out = request.out.resolve()
    for given in request.inputs:
        if given.is_dir() and out.is_relative_to(given.resolve()):
            where = "the folder of" if out == given.resolve() else f"inside {given}, a folder of"
            raise BadInput(f"{request.out} is {where} inputs: choose one beside it.")


def _manifest(request: Request, listing: Listing, signature: Signature) -> dict[str, Any]:
    """Returns everything that results depend on: a run continues only where all of it is the
    same."""
    spec = request.spec
    return {
        "format": FORMAT,
        "model": digest(spec.model),
        "host": signature.host,
        "options": {key: str(value) for key, value in sorted(spec.options.items())},
        "batch": spec.batch,
        "pixels": [spec.mean, spec.std],
        "inputs": listing.digest(),
        "count": len(listing),
        "results": request.kind,
    }
