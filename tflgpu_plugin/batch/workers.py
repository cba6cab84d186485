"""Worker processes of one machine: each has a model and a pipe, and writes the results itself. A
worker that dies is replaced, and its parts are assigned again.

`concurrent.futures` gives up all workers when one dies, and leaves them running when the process
that started them is killed; here a worker ends when its pipe does."""

from __future__ import annotations

import gc
import multiprocessing
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import ModuleType
from typing import Any

from tflgpu_plugin.batch.parts import Folder
from tflgpu_plugin.batch.spec import Signature, Spec
from tflgpu_plugin.batch.work import Finished, Part, Worker, ahead
from tflgpu_plugin.harness.inputs import BadInput, one_line

OUTSTANDING = 2  # parts of a worker: one runs while the next is read
TRIES = 3  # tries of a part whose workers die or fail
READY, DONE, FAILED, STOP, UNUSABLE = "ready", "done", "failed", "stop", "unusable"


class Stopped(RuntimeError):
    """An error that ends the run; the text says why. Results that are already written remain."""


@dataclass
class _Process:
    number: int
    adapter: str | None
    process: Any
    pipe: Connection
    ready: bool = False
    parts: deque[Part] = field(default_factory=deque)


class Workers:
    """The workers. `tell` is called with a line when a worker is ready, dies or is given up."""

    def __init__(
        self,
        spec: Spec,
        signature: Signature,
        folder: Folder,
        adapters: Sequence[str | None],
        tell: Callable[[str], None],
    ) -> None:
        self.spec, self.signature, self.folder, self.tell = spec, signature, folder, tell
        self.waiting = deque(enumerate(adapters))
        self.running: list[_Process] = []
        self.tries: dict[int, int] = {}
        self.again: deque[Part] = deque()
        self.ended = False  # no other parts are left

    def __enter__(self) -> Workers:
        """Starts the first worker, whose plans the others load. Raises Stopped where the model
        cannot be used."""
        self._start()
        try:
            while not self.running[0].ready:
                list(self._wait())
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Ends all workers."""
        for worker in self.running:
            worker.pipe.close()  # ends a waiting worker
            if worker.parts or not worker.ready:
                worker.process.terminate()
        for worker in self.running:
            _end(worker.process, 5)
        self.running.clear()

    def run(self, parts: Iterable[Part]) -> Iterator[Finished]:
        """Yields parts as they are finished. Raises Stopped."""
        todo = iter(parts)
        while True:
            for worker in list(self.running):
                self._feed(worker, todo)
            if self.ended and not self.again and not any(one.parts for one in self.running):
                return
            yield from self._wait()

    def _start(self) -> None:
        number, adapter = self.waiting.popleft()
        ours, theirs = multiprocessing.get_context("spawn").Pipe()
        spec = self.spec.ready(adapter)
        process = multiprocessing.get_context("spawn").Process(
            target=work,
            args=(theirs, spec, self.signature, self.folder.path, self.folder.kind),
            name=f"tflgpu worker {number}",
            daemon=True,
        )
        with _without_ctrl_c(), _without_main():
            process.start()
        theirs.close()
        self.running.append(_Process(number, adapter, process, ours))

    def _feed(self, worker: _Process, todo: Iterator[Part]) -> None:
        """Sends parts to a worker. Parts on which a worker has failed are sent alone, so that the
        failing one can be identified."""
        while worker.ready and len(worker.parts) < OUTSTANDING:
            if any(part.number in self.tries for part in worker.parts):
                return
            if self.again and worker.parts:
                return
            part = self.again.popleft() if self.again else next(todo, None)
            if part is None:
                self.ended = True
                return
            worker.parts.append(part)
            with suppress(OSError):  # it died: `run` notices when it waits for it
                worker.pipe.send(part)

    def _wait(self) -> Iterator[Finished]:
        ready = wait([worker.pipe for worker in self.running])
        for worker in [one for one in self.running if one.pipe in ready]:
            try:
                kind, value = worker.pipe.recv()
            except (EOFError, OSError):
                yield from self._died(worker)
                continue
            if kind == READY:
                worker.ready = True
                self.tell(f"worker {worker.number}: {value}")
                while self.waiting:
                    self._start()
            elif kind == DONE:
                yield worker.parts.popleft(), value
            elif kind == FAILED:
                yield from self._failed(worker, value, died=False)
            elif kind == STOP:
                raise Stopped(value)
            else:
                self._unusable(worker, value)

    def _died(self, worker: _Process) -> Iterator[Finished]:
        worker.process.join()
        if not worker.ready:
            self._unusable(worker, f"its process ended with {worker.process.exitcode}")
            return
        status = worker.process.exitcode
        how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
        yield from self._failed(worker, f"it {how}", died=True)

    def _failed(self, worker: _Process, reason: str, died: bool) -> Iterator[Finished]:
        """Replaces the worker and assigns its parts to others. A part whose workers died repeatedly
        is given up; where the workers reported why they failed, others would fail as well. Raises
        Stopped."""
        self._remove(worker)
        suspects = [*worker.parts]
        self.tell(f"worker {worker.number}: {reason}; its {len(suspects)} parts are assigned again")
        for part in suspects:
            self.tries.setdefault(part.number, 0)
            self.tries[part.number] += len(suspects) == 1
            if self.tries[part.number] < TRIES:
                self.again.append(part)
            elif not died:
                raise Stopped(reason)
            else:
                yield part, part.failed(f"the worker that ran it died {TRIES} times: {reason}")
        self.waiting.append((worker.number, worker.adapter))
        self._start()

    def _unusable(self, worker: _Process, reason: str) -> None:
        """Continues without the worker. Raises Stopped where no other is left."""
        self._remove(worker)
        self.again.extend(worker.parts)
        if not self.running:
            raise Stopped(reason)
        self.tell(f"worker {worker.number} is given up: {reason}")

    def _remove(self, worker: _Process) -> None:
        self.running.remove(worker)
        worker.pipe.close()
        _end(worker.process, 1)


def _end(process: Any, seconds: float) -> None:
    process.join(timeout=seconds)
    if process.is_alive():
        process.kill()
        process.join()


@contextmanager
def _without_ctrl_c() -> Iterator[None]:
    """Makes processes that are started while the context is entered ignore Ctrl-C, which only their
    parent handles."""
    if not hasattr(signal, "pthread_sigmask"):  # on Windows `work` does it
        yield
        return
    resource_tracker.ensure_running()  # its start would undo the mask
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _without_main() -> Iterator[None]:
    """Keeps processes that are started while the context is entered from importing the program that
    starts them. The import takes time, and would start workers again if the program is a script
    without a guard."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def work(pipe: Connection, spec: Spec, signature: Signature, place: Path, kind: str) -> None:
    """Runs a worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(OSError, EOFError):  # the other end is closed: the run has ended
        try:
            with _without_collection():
                worker = Worker(spec, signature)
        except Exception as error:
            pipe.send((UNUSABLE, one_line(error)))
            return
        pipe.send((READY, worker.model.described()))
        folder = Folder(place, kind)
        for read in ahead(_received(pipe), worker.read):
            try:
                packed = worker.packed(read, kind)
                folder.keep(packed)
            except BadInput as error:
                pipe.send((STOP, str(error)))
                return
            except Exception as error:
                pipe.send((FAILED, one_line(error)))
                return
            pipe.send((DONE, packed.failures))


@contextmanager
def _without_collection() -> Iterator[None]:
    """Disables garbage collection while the context is entered: imported and created objects are
    permanent, and scanning them takes a tenth of a start."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _received(pipe: Connection) -> Iterator[Part]:
    while True:
        try:
            yield pipe.recv()
        except (EOFError, OSError):
            return
