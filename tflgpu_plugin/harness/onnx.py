"""ONNX models on ONNX Runtime's CPU provider and on ours, compared."""

from __future__ import annotations

import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tflgpu_plugin.frontend.reports import Report
from tflgpu_plugin.harness import protobuf
from tflgpu_plugin.harness.compare import Agreement, Array, Comparison, agree, thinned
from tflgpu_plugin.harness.inputs import BadInput

HOST = "onnxruntime"
THREADS = 2  # as the TFLite host gets
TYPES = {
    "float": "f4", "double": "f8", "float16": "f2", "bool": "?", "int8": "i1", "uint8": "u1",
    "int16": "i2", "uint16": "u2", "int32": "i4", "uint32": "u4", "int64": "i8", "uint64": "u8",
}  # fmt: skip
FOLDER = "session.model_external_initializers_file_folder_path"
SUMS = 4096  # of texts; few, so that the least difference is more than is allowed
OPEN = 224  # height and width that a model leaves open; other open extents are 1


def missing() -> str | None:
    """Why there is no comparison in ONNX Runtime on this machine; None when there can be one."""
    import tflgpu_plugin

    try:
        tflgpu_plugin.register()
    except (ImportError, RuntimeError) as error:  # not installed, or too old: both say what to do
        return " ".join(str(error).split())
    return None


@dataclass(frozen=True)
class File:
    """The bytes of a model, and the folder of what it keeps outside."""

    content: bytes
    folder: str = ""


def read(path: Path) -> File:
    """A model file. Raises BadInput."""
    try:
        return File(path.read_bytes(), str(path.resolve().parent))
    except OSError as error:
        raise BadInput(f"The model {path} cannot be read ({error.strerror}).") from error


def details(model: File, path: Path) -> list[dict[str, Any]]:
    """Name, shape and dtype of each input, with numbers for open extents. Raises BadInput."""
    try:
        opened = session(model)
    except Exception as error:  # onnxruntime's exceptions have no common class
        raise BadInput(f"{HOST} cannot read {path}: {error}") from error
    found = []
    for value in opened.get_inputs():
        kind = value.type.removeprefix("tensor(").removesuffix(")")
        if kind not in TYPES:
            raise BadInput(f"The input {value.name} is a {value.type}, which the demo cannot make.")
        image = len(value.shape) == 4
        shape = [n if isinstance(n, int) else OPEN if image and k > 1 else 1
                 for k, n in enumerate(value.shape)]  # fmt: skip
        found.append({"name": value.name, "shape": shape, "dtype": np.dtype(TYPES[kind])})
    return found


def compare(
    model: File, feeds: Mapping[str, Array], options: Mapping[str, str], runs: int = 10,
    probed: bool = False,
) -> Comparison:  # fmt: skip
    """Outputs against the CPU provider without its optimizations; what these change widens what is
    allowed. With `probed` also what is in between. Raises RuntimeError when there is no session,
    BadInput when the model does not take the feeds.
    """
    import onnxruntime

    cpu, gpu = session(model), session(model, options)
    agreements = _agreements(model, feeds, (cpu, gpu))
    if probed:
        inner = _probes(model)
        rich = _with_outputs(model, inner)
        found = _agreements(rich, feeds, (session(rich), session(rich, options)))
        agreements = found[len(agreements) :] + agreements
    results = _arrays(gpu.run(None, feeds))
    times = [_latency(session, feeds, runs) for session in (cpu, gpu)]
    name = f"{HOST} {onnxruntime.__version__}"
    return Comparison(name, f"{THREADS} threads", agreements, results, _report(gpu), *times)


def _agreements(
    model: File, feeds: Mapping[str, Array], sessions: tuple[Any, Any]
) -> list[Agreement]:
    cpu, gpu = sessions
    names = [output.name for output in cpu.get_outputs()]
    try:
        expected = _arrays(session(model, optimized=False).run(None, feeds))
    except Exception as error:
        raise BadInput(f"{HOST} does not take the demo's values for this model: {error}") from error
    optimized, ours = (_arrays(session.run(None, feeds)) for session in (cpu, gpu))
    return agree(names, expected, optimized, ours)


def _with_outputs(model: File, names: Sequence[str]) -> File:
    return replace(model, content=protobuf.with_outputs(model.content, names))


def _probes(model: File) -> list[str]:
    """Intermediate float32 results to look at, thinned out evenly."""
    own = {output.name for output in session(model).get_outputs()}
    inner = [name for name in protobuf.node_outputs(model.content) if name not in own]
    opened = session(_with_outputs(model, inner), optimized=False)
    floats = {v.name for v in opened.get_outputs() if v.type == "tensor(float)"}
    return thinned([name for name in inner if name in floats])


def _arrays(outputs: Sequence[Any]) -> list[Array]:
    """Numbers only: maps from classes to scores become their scores, and of a text its checksum, so
    that another one is a difference."""
    found = []
    for value in outputs:
        if isinstance(value, list):
            value = [[one[key] for key in sorted(one)] for one in value if isinstance(one, dict)]
        array = np.asarray(value)
        if array.dtype.kind in "OUS":
            sums = [zlib.crc32(str(text).encode()) % SUMS for text in array.reshape(-1)]
            array = np.array(sums, np.int64).reshape(array.shape)
        found.append(array)
    return found


def session(model: File, options: Mapping[str, str] | None = None, optimized: bool = True) -> Any:
    """A session on the CPU provider, or with options on ours. Raises RuntimeError without an
    adapter, and what onnxruntime raises."""
    import onnxruntime as ort

    import tflgpu_plugin

    settings = ort.SessionOptions()
    settings.log_severity_level = 3
    settings.intra_op_num_threads = THREADS
    if not optimized:
        settings.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    if model.folder:
        settings.add_session_config_entry(FOLDER, model.folder)
    if options is None:
        return ort.InferenceSession(model.content, settings, providers=["CPUExecutionProvider"])
    names = tflgpu_plugin.get_ep_names()
    devices = [device for device in ort.get_ep_devices() if device.ep_name in names]
    if not devices:
        raise RuntimeError("There is no adapter for onnxruntime to use; see `tflgpu info`.")
    settings.add_provider_for_devices(devices[:1], dict(options))
    return ort.InferenceSession(model.content, settings)


def _report(session: Any) -> Report:
    import tflgpu_plugin

    return tflgpu_plugin.report(session)


def _latency(session: Any, feeds: Mapping[str, Array], runs: int) -> float:
    session.run(None, feeds)
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        session.run(None, feeds)
        times.append(time.perf_counter() - start)
    return float(np.median(times) * 1e3)
