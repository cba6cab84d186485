"""Makes the pipelines of a plan, and makes the driver generate their code now instead of during the
first run.

Software drivers generate code at the first dispatch, one kernel at a time per device. Where such a
driver has a disk cache, a second device on another thread compiles half of the kernels; the first
device then finds them in the cache."""

from __future__ import annotations

import time
from _queue import Empty
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from tflgpu_plugin import log, native, threads
from tflgpu_plugin.ir import Pipeline
from tflgpu_plugin.registry import KeyLocks, WeakCache

UNCACHED_SECONDS = 0.06  # seconds in the driver: a kernel that takes longer was not in its cache
GLANCE = 0.005  # seconds between checks of the clock
SILENT_SECONDS = 1.0  # seconds until a message
RECENT = 128  # unused pipelines that are kept for later models: 0.6 MB each in Mesa


Helper = Callable[[], Any] | None


class PipelineError(RuntimeError):
    """An error for a generated kernel that the driver refused."""

    def __init__(self, pipeline: Pipeline, sentence: str) -> None:
        super().__init__(f"The driver refused the kernel {pipeline.label}: {sentence}")
        self.pipeline = pipeline


class Pipelines:
    """The native pipelines of a device. Each is made once, by the first thread that needs it."""

    def __init__(self) -> None:
        self._living: WeakCache[Pipeline, Any] = WeakCache(RECENT)
        self._turns: KeyLocks[Pipeline] = KeyLocks()

    def get(self, pipeline: Pipeline) -> Any:
        """Returns the native pipeline, None if it does not exist yet."""
        return self._living.get(pipeline)

    def made(self, pipeline: Pipeline, device: Any) -> Any:
        """Returns the native pipeline, and makes it if it does not exist yet. Raises
        PipelineError."""
        with self._turns.of(pipeline):
            handle = self._living.get(pipeline)
            if handle is None:
                handle = _create(pipeline, device)
                self._living.put(pipeline, handle)
            return handle


def make(
    wanted: tuple[Pipeline, ...],
    device: Any,
    cache: Pipelines,
    warm: bool,
    helper: Helper = None,
) -> list[Any]:
    """Returns native pipelines in the order of `wanted`; missing ones are added to `cache`.

    `helper` opens a second device of the same adapter. Raises PipelineError."""
    found = {pipeline: cache.get(pipeline) for pipeline in wanted}
    missing = [pipeline for pipeline, handle in found.items() if handle is None]
    if missing:
        missing.sort(key=lambda p: -len(p.wgsl))
        found |= _Work(device, cache, warm, helper, missing).run()
    return [found[pipeline] for pipeline in wanted]


Made = tuple[Pipeline, Any]
_MAKER, _COMPILER = threads.Worker("make"), threads.Worker("compile")


def begin(
    wanted: tuple[Pipeline, ...], device: Any, cache: Pipelines, warm: bool, helper: Helper
) -> threads.Task[list[Any]]:
    """Begins `make` on another thread, after those that were begun before."""
    return _COMPILER.begin(lambda: make(wanted, device, cache, warm, helper))


class _Work:
    """Makes pipelines, the largest first: a second thread makes them, and the calling thread makes
    the driver generate their code. Pipelines that the helper compiles come last, because by then
    their code is in the driver's cache."""

    def __init__(
        self,
        device: Any,
        cache: Pipelines,
        warm: bool,
        helper: Helper,
        missing: list[Pipeline],
    ) -> None:
        self.device, self.cache, self.warm, self.missing = device, cache, warm, missing
        self.made, self.prepared = threads.Queue[Made | None](), deque[Made]()  # None: no more
        self.done: dict[Pipeline, Any] = {}
        self.helper = helper if warm and len(missing) > 1 else None
        self.start = time.monotonic()
        self.begun: float | None = None  # when the driver got the present kernel
        self.ended, self.reported = threads.Queue[None](), False  # `ended` gets an item at the end

    def run(self) -> dict[Pipeline, Any]:
        try:
            self._run()
        finally:
            log.progress("")
        return self.done

    def _run(self) -> None:
        making = _MAKER.begin(self._make_all)
        helping = threads.begin(self._help, "help") if self.helper else None
        try:
            while made := self.made.get():
                self._warm(*made)
            making()
        finally:
            self.ended.put(None)
            making.wait()
            if helping:
                helping.wait()
        while self.prepared:
            self._warm(*self.prepared.popleft())

    def _make_all(self) -> None:
        try:
            for pipeline in self.missing:
                self.made.put((pipeline, self.cache.made(pipeline, self.device)))
        finally:
            self.made.put(None)

    def _warm(self, pipeline: Pipeline, handle: Any) -> None:
        if self.warm:
            self.begun = time.monotonic()
            _warm_up(pipeline, handle)
            self.begun = None
        self.done[pipeline] = handle
        if time.monotonic() - self.start > SILENT_SECONDS:
            self._tell()

    def _help(self) -> None:
        """Compiles kernels on the helper's device, after one has taken UNCACHED_SECONDS. Errors are
        left to `run`, which compiles the same pipelines again."""
        while (begun := self.begun) is None or time.monotonic() - begun < UNCACHED_SECONDS:
            with suppress(Empty):
                return self.ended.get(timeout=GLANCE)
        assert self.helper
        with suppress(Empty, PipelineError, native.NativeError, RuntimeError):
            device = self.helper()
            while self.ended.empty():
                made = self.made.get_nowait()
                if made is None:
                    return self.made.put(None)  # `run` waits for it
                try:
                    _warm_up(made[0], _create(made[0], device))
                finally:
                    self.prepared.append(made)

    def _tell(self) -> None:
        done = len(self.done) + len(self.prepared)
        log.progress(f"tflgpu: the driver compiles GPU kernels, {done} of {len(self.missing)}")
        if not self.reported and done < len(self.missing):
            self.reported = True
            log.say(
                f"tflgpu: the driver compiles {len(self.missing)} GPU kernels. A driver with a "
                "cache does this only once.",
                log.INFO,
            )


def _create(pipeline: Pipeline, device: Any) -> Any:
    given = pipeline.wgsl.encode(), pipeline.kinds.encode()
    with _refusals(pipeline):
        handle = native.call(native.lib.tg_pipeline_create, device, *given)
    return native.ffi.gc(handle, native.lib.tg_pipeline_release)


def _warm_up(pipeline: Pipeline, handle: Any) -> None:
    with _refusals(pipeline):
        native.call(native.lib.tg_pipeline_warm_up, handle)


@contextmanager
def _refusals(pipeline: Pipeline) -> Iterator[None]:
    try:
        yield
    except native.NativeError as error:
        raise PipelineError(pipeline, str(error)) from error
