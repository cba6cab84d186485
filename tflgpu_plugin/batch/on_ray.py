"""Runs parts on a Ray cluster: Ray Data gives them to actors, which read and run them; the results
return to this process, which writes them."""

from __future__ import annotations

import logging
import os
import pickle
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from tflgpu_plugin.batch import placing
from tflgpu_plugin.batch.model import Gone
from tflgpu_plugin.batch.parts import Folder, Packed
from tflgpu_plugin.batch.spec import Array, Signature, Spec
from tflgpu_plugin.batch.work import Finished, Part, Worker
from tflgpu_plugin.batch.workers import TRIES, Stopped
from tflgpu_plugin.harness.inputs import one_line

INSTALL = "Ray is not installed. Run: pip install 'tflgpu-plugin[ray]'"
BLOCKS = 2000  # number of blocks of parts: each block costs memory in Ray
PART, PACKED, PROBLEM = "part", "packed", "problem"  # columns; the first two are pickled


class Actor:
    """A worker that Ray Data calls with parts; it returns packed results."""

    def __init__(
        self, spec: Spec, signature: Signature, adapters: Sequence[str], kind: str, folder: str
    ) -> None:
        with suppress(OSError):  # absent on this machine: only relative paths need it
            os.chdir(folder)
        spec = spec.ready(placing.adapter(adapters))
        with placing.one_at_a_time(spec.options):
            self.worker = Worker(spec, signature)
        self.kind = kind

    def __call__(self, batch: dict[str, Array]) -> dict[str, list[Any]]:
        found = [self._packed(pickle.loads(part)) for part in batch[PART]]
        return {
            PACKED: [pickle.dumps(made) for made, _ in found],
            PROBLEM: [problem for _, problem in found],
        }

    def _packed(self, part: Part) -> tuple[Packed | None, str]:
        try:
            return self.worker.packed(self.worker.read(part), self.kind), ""
        except Gone:
            os._exit(1)  # Ray starts another worker, and gives it the part again
        except Exception as error:
            return None, one_line(error)


class OnRay:
    """An engine that runs parts on the Ray cluster at this address or, for "", on a cluster on this
    machine that is started for the run and ends with it."""

    def __init__(
        self,
        spec: Spec,
        signature: Signature,
        folder: Folder,
        address: str,
        workers: int | None,
        adapters: Sequence[str],
        tell: Callable[[str], None],
    ) -> None:
        self.arguments = (spec, signature, tuple(adapters), folder.kind, os.getcwd())
        self.folder, self.address, self.tell = folder, address, tell
        self.workers, self.adapters = workers, adapters
        self.ray: Any = None
        self.own = False  # the calling program has not connected to a cluster itself

    def __enter__(self) -> OnRay:
        """Connects. Raises Stopped where there is no cluster."""
        try:
            import ray
            import ray.data
        except ImportError as error:
            raise Stopped(f"{INSTALL} ({error})") from error
        logging.getLogger("ray.data").setLevel(logging.CRITICAL)  # reported here
        self.ray, self.own = ray, not ray.is_initialized()
        if self.own:
            self._connect(ray)
        return self

    def _connect(self, ray: Any) -> None:
        settings: dict[str, Any] = {"logging_level": "error", "log_to_driver": False}
        if not self.address:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no usage statistics of this run
            os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
            cores = max(os.cpu_count() or 1, (self.workers or len(self.adapters)) + 1)
            settings |= {"include_dashboard": False, "num_cpus": cores}
        try:
            ray.init(address=self.address or "local", **settings)
        except Exception as error:
            raise Stopped(
                f"There is no Ray cluster at {self.address or 'hand'}: {error}"
            ) from error

    def __exit__(self, *_: object) -> None:
        if self.own:
            self.ray.shutdown()

    def run(self, parts: Iterable[Part]) -> Iterator[Finished]:
        """Yields parts as they are finished; a part whose workers died repeatedly is given up. A
        worker that dies loses the parts that were queued for it: lost parts are sent again, with an
        empty queue, so that the failing part can be identified. Raises Stopped."""
        waiting = {part.number: part for part in parts}
        for queued in (None, 1):
            if waiting:
                yield from self._some(waiting, queued)
        for part in waiting.values():
            yield part, part.failed(f"the worker that ran it died {TRIES} times")

    def _some(self, waiting: dict[int, Part], queued: int | None) -> Iterator[Finished]:
        """Yields finished parts and removes them from `waiting`."""
        named = set[str]()
        try:
            for row in self._dataset(list(waiting.values()), queued).iter_rows():
                if row[PROBLEM]:
                    raise Stopped(row[PROBLEM])
                packed = pickle.loads(row[PACKED])
                if packed.adapter not in named:
                    named.add(packed.adapter)
                    self.tell(f"a worker runs on {packed.adapter}")
                self.folder.keep(packed)
                yield waiting.pop(packed.part), packed.failures
        except self.ray.exceptions.RayError as error:
            raise Stopped(f"Ray has given up: {_last(error)}") from error

    def _dataset(self, parts: list[Part], queued: int | None) -> Any:
        """Returns the dataset. `queued`: how many parts an actor holds at most; None: Ray's
        default."""
        data, resources = self.ray.data, self.ray.cluster_resources()
        gpus = 0.0 if self.adapters else resources.get("GPU", 0.0)
        count = self.workers or max(1, int(gpus), len(self.adapters))
        rows = [{PART: pickle.dumps(part)} for part in parts]
        items = data.from_items(rows, override_num_blocks=min(len(parts), BLOCKS))
        items.context.enable_progress_bars = False
        items.context.max_errored_blocks = -1  # failed parts are those that are missing at the end
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", DeprecationWarning
            )  # Ray has no other interface for this yet
            return items.map_batches(
                Actor,
                fn_constructor_args=self.arguments,
                batch_size=1,
                compute=data.ActorPoolStrategy(size=count, max_tasks_in_flight_per_actor=queued),
                num_cpus=1,
                num_gpus=min(1.0, gpus / count) if gpus else None,
                # Retries of parts whose worker dies; by default Ray would retry without end.
                ray_remote_args_fn=lambda: {"max_task_retries": TRIES - 1},
            )


def _last(error: BaseException) -> str:
    """Returns the last line, which has the error; the lines above it are the traceback."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
