"""Makes the pipelines of a plan, and makes the driver generate their code now instead of during the
first run.

Software drivers generate code at the first dispatch, one kernel at a time per device. Where such a
driver has a disk cache, a second device on another thread compiles half of the kernels; the first
device then finds them in the cache.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tflgpu_plugin import native
from tflgpu_plugin.plan import Pipeline

SLOW = 0.06  # seconds in the driver: a kernel that takes longer was not in its cache
GLANCE = 0.005  # seconds between looks at the clock
PATIENCE = 1.0  # seconds until the user is told what is going on


class PipelineError(RuntimeError):
    """The driver refused a generated kernel."""

    def __init__(self, pipeline: Pipeline, sentence: str) -> None:
        super().__init__(f"The driver refused the kernel {pipeline.label}: {sentence}")
        self.pipeline = pipeline


def make(
    wanted: tuple[Pipeline, ...],
    device: Any,
    cache: dict[Pipeline, Any],
    warm: bool,
    helper: Callable[[], Any] | None = None,
) -> list[Any]:
    """Native pipelines in the order of `wanted`; those in `cache` are used again, others added.

    `helper` opens a second device of the same adapter. Raises PipelineError.
    """
    missing = sorted((p for p in wanted if p not in cache), key=lambda p: -len(p.wgsl))
    _Work(device, cache, warm, helper, deque(missing)).run()
    return [cache[pipeline] for pipeline in wanted]


class _Work:
    """Pipelines to make, the largest first. Those that the helper has prepared are made again on
    the device, which finds them in the driver's cache.
    """

    def __init__(
        self,
        device: Any,
        cache: dict[Pipeline, Any],
        warm: bool,
        helper: Callable[[], Any] | None,
        missing: deque[Pipeline],
    ) -> None:
        self.device, self.cache, self.warm = device, cache, warm
        self.missing, self.prepared = missing, deque[Pipeline]()
        self.helper = helper if warm and len(missing) > 1 else None
        self.start = time.monotonic()
        self.begun: float | None = None  # when the driver was given the kernel in hand
        self.ended, self.told, self.count = threading.Event(), False, len(missing)

    def run(self) -> None:
        thread = None
        if self.helper:
            thread = threading.Thread(target=self._help, args=(self.helper,), daemon=True)
            thread.start()
        try:
            self._drain(self.missing)
        finally:
            self.ended.set()
            if thread:
                self.missing.clear()
                self._drain(self.prepared)
                thread.join()
        self._drain(self.prepared)

    def _drain(self, waiting: deque[Pipeline]) -> None:
        while True:
            try:
                pipeline = waiting.popleft()
            except IndexError:
                return
            self.cache[pipeline] = handle = _create(pipeline, self.device)
            if self.warm:
                self.begun = time.monotonic()
                _warm_up(pipeline, handle)
                self.begun = None
            if time.monotonic() - self.start > PATIENCE:
                self._tell()

    def _help(self, open_device: Callable[[], Any]) -> None:
        """Begins when one kernel takes long. Whatever goes wrong here, the pipeline in hand is made
        again, and its error told, by `run`."""
        while (begun := self.begun) is None or time.monotonic() - begun < SLOW:
            if self.ended.wait(GLANCE):
                return
        try:
            device = open_device()
            while True:
                pipeline = self.missing.popleft()
                try:
                    _warm_up(pipeline, _create(pipeline, device))
                finally:
                    self.prepared.append(pipeline)
        except (IndexError, PipelineError, native.NativeError, RuntimeError):
            return

    def _tell(self) -> None:
        if not self.told and self.missing:
            self.told = True
            print(
                f"tflgpu: the driver compiles {self.count} GPU kernels; where it keeps a cache, "
                "this takes place once.",
                file=sys.stderr,
            )


def _create(pipeline: Pipeline, device: Any) -> Any:
    ffi = native.ffi
    names = [ffi.new("char[]", name.encode()) for name, _ in pipeline.constants]
    with _refusals(pipeline):
        handle = native.call(
            native.lib.tg_pipeline_create, device, pipeline.wgsl.encode(), pipeline.kinds.encode(),
            ffi.new("char *[]", names),
            ffi.new("double[]", [value for _, value in pipeline.constants]), len(names), 0,
        )  # fmt: skip
    return ffi.gc(handle, native.lib.tg_pipeline_release)


def _warm_up(pipeline: Pipeline, handle: Any) -> None:
    with _refusals(pipeline):
        native.call(native.lib.tg_pipeline_warm_up, handle)


@contextmanager
def _refusals(pipeline: Pipeline) -> Iterator[None]:
    try:
        yield
    except native.NativeError as error:
        raise PipelineError(pipeline, str(error)) from error
