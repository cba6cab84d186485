"""Runs ONNX models on ONNX Runtime's CPU provider and on ours."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

import tflgpu_plugin
from tflgpu_plugin.frontend.reports import Report
from tflgpu_plugin.harness import inputs, parts, protobuf, protobuf_part
from tflgpu_plugin.harness.built import COMPILED, NOT_COMPILED
from tflgpu_plugin.harness.compare import (
    FASTEST,
    ONE_SET,
    REFERENCE,
    Array,
    HostNode,
    HostRun,
    Running,
    thinned,
)
from tflgpu_plugin.harness.hosts import THREADS
from tflgpu_plugin.harness.inputs import BadInput
from tflgpu_plugin.harness.onnx_values import numbers, results

HOST = "onnxruntime"
TYPES = {
    "float": "f4", "double": "f8", "float16": "f2", "bool": "?", "int8": "i1", "uint8": "u1",
    "int16": "i2", "uint16": "u2", "int32": "i4", "uint32": "u4", "int64": "i8", "uint64": "u8",
}  # fmt: skip
ELEMENTS = {  # numbers in the format
    "float": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9,
    "float16": 10, "double": 11, "uint32": 12, "uint64": 13,
}  # fmt: skip
FOLDER = "session.model_external_initializers_file_folder_path"
ERRORS, FATAL = 3, 4  # log levels
DAMAGED = "It is not an ONNX model, or it is damaged or cut short; fetch the file again."
UNREADABLE = ("INVALID_PROTOBUF", "No graph was found in the protobuf")
NO_KERNEL = (
    "Neither onnxruntime's CPU provider nor the plugin has a kernel for this operator in the "
    "model's types; where these are bfloat16, convert its inputs to float32 with a Cast."
)
KERNEL_TIME = "_kernel_time"  # at the end of the name of an event for a node
PROGRAM = """\
import onnxruntime

tflgpu_plugin.register()
providers = [("TflGpuExecutionProvider", OPTIONS), "CPUExecutionProvider"]
session = onnxruntime.InferenceSession(str(HERE / "model.onnx"), providers=providers)
tflgpu_plugin.assert_used(session)
(got,) = session.run(None, INPUTS)
"""
OPEN = 224  # chosen for a dynamic height or width; other dynamic extents are 1


def missing() -> str | None:
    """Returns why models cannot be compared in ONNX Runtime on this machine; None if they can."""
    try:
        tflgpu_plugin.register()
    except (
        ImportError,
        RuntimeError,
    ) as error:  # not installed, or too old: both texts say what to do
        return " ".join(str(error).split())
    return None


def host() -> str:
    """Returns the name and version of ONNX Runtime."""
    import onnxruntime

    return f"{HOST} {onnxruntime.__version__}"


@dataclass(frozen=True)
class File:
    """The bytes of a model, the folder of its external data, and its name in messages."""

    content: bytes
    folder: str = ""
    name: str = "this model"


def read(path: Path) -> File:
    """Returns a model file. Raises BadInput."""
    return File(inputs.content(path), str(path.resolve().parent), str(path))


def details(model: File, path: Path) -> list[dict[str, Any]]:
    """Returns name, shape and dtype of each input. Open extents have a chosen number in `shape`,
    and are None under the key `open`. Raises BadInput."""
    try:
        opened = session(model)
    except Exception as error:  # onnxruntime's exceptions have no common class
        if COMPILED in str(error):
            raise BadInput(f"{path}: {NOT_COMPILED}") from error
        raise BadInput(f"{HOST} cannot read {path}: {error}{_hint(error)}") from error
    found = []
    for value in opened.get_inputs():
        kind = value.type.removeprefix("tensor(").removesuffix(")")
        if kind not in TYPES:
            raise BadInput(
                f"The input {value.name} is a {value.type}, for which no values can be made. "
                "`tflgpu check` without --shape shows where the nodes of this model run."
            )
        image = len(value.shape) == 4
        shape = [n if isinstance(n, int) else OPEN if image and k > 1 else 1
                 for k, n in enumerate(value.shape)]  # fmt: skip
        open_ = tuple(n if isinstance(n, int) else None for n in value.shape)
        dtype = np.dtype(TYPES[kind])
        found.append(
            {"name": value.name, "shape": shape, "dtype": dtype, "open": open_, "fixed": True}
        )
    return found


@dataclass(frozen=True)
class OnnxModel:
    """A `Subject`: a model, the values of its inputs by name, and the shapes that were chosen for
    inputs with dynamic extents."""

    model: File
    feeds: Mapping[str, Array]
    chosen_shapes: Mapping[str, list[int]] = field(default_factory=dict)
    cpu: str = f"{THREADS} threads"

    @property
    def host(self) -> str:
        return host()

    @property
    def judges(self) -> Mapping[str, str]:
        """Returns the provider's kernels, first without and then with graph optimizations."""
        return {REFERENCE: ONE_SET, FASTEST: ONE_SET}

    def start(
        self, options: Mapping[str, str] | None, kernels: str = FASTEST, profiled: bool = False
    ) -> Running:
        folder = tempfile.TemporaryDirectory() if profiled else None
        prefix = str(Path(folder.name, "profile")) if folder else ""
        opened = session(self.model, options, kernels != REFERENCE, prefix)

        def run() -> list[Array]:
            try:
                return numbers(results(opened, self.feeds))
            except Exception as error:
                if options is not None and not self.chosen_shapes:
                    raise
                raise BadInput(inputs.refused(HOST, error, self.chosen_shapes)) from error

        def profile() -> list[HostRun]:
            with folder or nullcontext():
                return host_runs(Path(opened.end_profiling()))

        names = [o.name for o in opened.get_outputs()]
        return Running(names, run, lambda: report(opened), profile if profiled else list)

    def fixed(self) -> OnnxModel:
        shapes = {name: value.shape for name, value in self.feeds.items()}
        content = protobuf.with_input_shapes(self.model.content, shapes)
        return replace(self, model=replace(self.model, content=content))

    def given(self) -> Mapping[str, Array]:
        return self.feeds

    def real(self, outputs: Sequence[Array]) -> list[Array]:
        """Returns the outputs unchanged: an ONNX file does not state the scale of an integer
        output."""
        return [*outputs]

    def probes_of(self, names: Mapping[int, str]) -> Mapping[int, str]:
        there = {*self.feeds, *protobuf.computed(self.model.content)}
        return {t: name for t, name in names.items() if name in there}

    @property
    def file(self) -> str:
        return "model.onnx"

    @property
    def content(self) -> bytes:
        return self.model.content

    @property
    def program(self) -> str:
        return PROGRAM

    def nodes(self) -> parts.Nodes[str]:
        return protobuf_part.nodes(self.content)

    def part(self, sources: Collection[str], result: str) -> OnnxModel:
        varying = {*self.feeds, *protobuf.computed(self.content)}
        taken, kept = parts.part(self.nodes(), varying, sources, result)
        opened = session(
            self.probed([name for name in taken if name not in self.feeds]).model, optimized=False
        )
        outputs = opened.get_outputs()
        kinds = {port.name: port.type for port in (*opened.get_inputs(), *outputs)}
        names = (port.name for port in outputs)
        values = {**dict(zip(names, results(opened, self.feeds), strict=True)), **self.feeds}
        given = {name: (_element(name, kinds[name]), values[name].shape) for name in taken}
        content = protobuf_part.part(self.content, kept, given, [result], Path(self.model.folder))
        made = replace(self.model, content=content)
        return replace(self, model=made, feeds={name: values[name] for name in taken})

    def probed(self, probes: Sequence[str] | None) -> OnnxModel:
        if probes is not None:
            content = protobuf.with_outputs(self.model.content, probes)
            return replace(self, model=replace(self.model, content=content))
        own = {output.name for output in session(self.model).get_outputs()}
        inner = [name for name in protobuf.computed(self.model.content) if name not in own]
        opened = session(self.probed(inner).model, optimized=False)
        floats = {v.name for v in opened.get_outputs() if v.type == "tensor(float)"}
        return self.probed(thinned([name for name in inner if name in floats]))


def host_runs(profile: Path) -> list[HostRun]:
    """Returns the inferences in a profile of onnxruntime, without the nodes of our provider."""
    events = sorted(json.loads(profile.read_text("utf-8")), key=lambda event: event["ts"])
    ours, found = tflgpu_plugin.get_ep_names(), []
    nodes = [
        event for event in events
        if event["cat"] == "Node" and event["name"].endswith(KERNEL_TIME)
        and event["args"].get("provider") not in ours
    ]  # fmt: skip
    for run in (event for event in events if event["name"] == "model_run"):
        start, taken = run["ts"], run["dur"]
        mine = (event for event in nodes if start <= event["ts"] <= start + taken)
        found.append(HostRun(taken * 1000, tuple(_host_node(event, start) for event in mine)))
    return found


def _host_node(event: Mapping[str, Any], start: int) -> HostNode:
    begin, name = event["ts"] - start, event["name"].removesuffix(KERNEL_TIME)
    end = begin + event["dur"]
    return HostNode(event["args"]["op_name"], name, begin * 1000, end * 1000)


def _element(name: str, kind: str) -> int:
    """Returns the number of the element type of a tensor. Raises BadInput."""
    element = ELEMENTS.get(kind.removeprefix("tensor(").rstrip(")"))
    if element is None:
        raise BadInput(f"The tensor {name} is a {kind}, which cannot be an input here.")
    return element


def settings(optimized: bool = True, threads: int = 0, logs: int = ERRORS, **entries: str) -> Any:
    """Returns session options. `threads`: of CPU kernels (0: the host's default); `logs`: the least
    severe level that is logged; `entries`: further ones by key ("__" stands for ".")."""
    import onnxruntime as ort

    made = ort.SessionOptions()
    made.log_severity_level, made.intra_op_num_threads = logs, threads
    if not optimized:
        made.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    for name, value in entries.items():
        made.add_session_config_entry(name.replace("__", "."), value)
    return made


def device(place: int = 0) -> Any:
    """Returns our device number `place` as onnxruntime lists them, or the last one. Raises
    NoAdapter, which is a RuntimeError."""
    import onnxruntime as ort

    from tflgpu_plugin.runtime import adapter

    tflgpu_plugin.register()
    names = tflgpu_plugin.get_ep_names()
    found = [device for device in ort.get_ep_devices() if device.ep_name in names]
    if not found:
        adapter.select()  # which says what to install
        raise RuntimeError("There is no adapter for onnxruntime to use; see `tflgpu info`.")
    return found[min(place, len(found) - 1)]


def ours(settings: Any) -> Any:
    """Returns the session options, with our provider."""
    settings.add_provider_for_devices([device()], {})
    return settings


def opened(
    model: bytes | str | Path,
    settings: Any,
    options: Mapping[str, Any] | None = None,
    place: int = 0,
) -> Any:
    """Returns a session on the CPU provider or, with options, on ours, with the adapter of this
    index unless they name one. Raises what onnxruntime and `tflgpu_plugin.session` raise."""
    import onnxruntime as ort

    if options is None:
        return ort.InferenceSession(model, settings, providers=["CPUExecutionProvider"])
    given = {"adapter": place, **options}
    return tflgpu_plugin.session(model, sess_options=settings, **given)


def session(
    model: File,
    options: Mapping[str, str] | None = None,
    optimized: bool = True,
    profile: str = "",
) -> Any:
    """Returns a session on our provider with these options or, without any, on the CPU provider;
    `profile` begins the name of onnxruntime's profile. The CPU's sums of 8-bit products are exact
    if it has such kernels. Raises NoAdapter or ValueError for ours, else what onnxruntime does."""

    def made(given: Any) -> Any:
        if profile:
            given.enable_profiling, given.profile_file_prefix = True, profile
        if model.folder:
            given.add_session_config_entry(FOLDER, model.folder)
        return opened(model.content, given, options)

    # Without the entry, CPUs that multiply bytes in pairs (x86 without VNNI) saturate 16-bit sums.
    # With it onnxruntime's optimizer refuses models in which two nodes share a quantized constant.
    try:
        return made(settings(optimized, THREADS, session__x64quantprecision="1"))
    except (ValueError, RuntimeError):
        raise
    except Exception:  # onnxruntime's exceptions have no common class
        pass
    try:
        return made(settings(optimized, THREADS))
    except Exception as error:
        if options is None or isinstance(error, ValueError | RuntimeError):
            raise
        told = _on_cpu(model) or error  # which names the node that nothing runs
        said = f"{HOST} cannot make a session of {model.name}: {told}{_hint(told)}"
        raise ValueError(said) from error


def _on_cpu(model: File) -> Exception | None:
    """Returns onnxruntime's error if the CPU provider alone lacks a kernel for a model, too."""
    try:
        session(model)
    except Exception as error:  # onnxruntime's exceptions have no common class
        return error if _lacks_kernel(error) else None
    return None


def _lacks_kernel(error: Exception) -> bool:
    return "NOT_IMPLEMENTED" in str(error) and COMPILED not in str(error)


def _hint(error: Exception) -> str:
    """Returns what else to say of a model that onnxruntime cannot read or run, or ""."""
    if _lacks_kernel(error):
        return f". {NO_KERNEL}"
    return f" {DAMAGED}" if any(text in str(error) for text in UNREADABLE) else ""


def report(session: Any) -> Report:
    """Returns the report of a session. Raises ValueError, with a sentence, for a session without
    our provider."""
    try:
        return tflgpu_plugin.report(session)
    except TypeError as error:
        raise ValueError(f"{HOST} created the session without TflGpuExecutionProvider.") from error
