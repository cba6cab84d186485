"""python -m benchmarks.compiled.worker GIVEN MADE: compiles pipelines (a pickled list) on the null
device that the environment names, and pickles the results."""

from __future__ import annotations

import os
import pickle
import sys
from pathlib import Path

from benchmarks.compiled.driver import Told, read
from tflgpu_plugin.ir import Pipeline
from tflgpu_plugin.runtime import adapter, pipelines, selftest
from tflgpu_plugin.runtime.device import Device


def main(given: Path, made: Path) -> None:
    # The self-test needs kernels that run; pipelines are planned for its results elsewhere.
    selftest.subgroup_size = selftest.least_subgroup = lambda device: 0
    selftest.native_half = lambda device: False
    device = adapter.open_device(adapter.select(None))
    wanted: list[Pipeline] = pickle.loads(given.read_bytes())
    made.write_bytes(pickle.dumps([_compile(pipeline, device) for pipeline in wanted]))
    os._exit(0)  # nothing is put away: a null device has no queue to wait for


def _compile(pipeline: Pipeline, device: Device) -> Told | str:
    told = Path(os.environ["NULL_DEVICE_OUT"])
    told.unlink(missing_ok=True)
    try:
        pipelines.make((pipeline,), device.handle, pipelines.Pipelines(), warm=False)
    except pipelines.PipelineError as error:
        return str(error)
    if not told.exists():
        return "the driver says nothing of the pipeline"
    return read(told.read_text(errors="replace"))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
