"""LiteRT's CompiledModel behind the functions of a TFLite interpreter, so that whatever runs models
in interpreters runs them there, too.

A model without delegates is an Interpreter of ai-edge-litert: its CPU kernels are the reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from ai_edge_litert import interpreter as classic
from ai_edge_litert.compiled_model import CompiledModel
from ai_edge_litert.hardware_accelerator import HardwareAccelerator
from ai_edge_litert.options import CpuKernelMode, CpuOptions, Options

import tflgpu_plugin
from tflgpu_plugin.harness.hosts import NotTaken
from tflgpu_plugin.providers.tflite import litert

OpResolverType = classic.OpResolverType
KERNELS = {"BUILTIN_REF": "REFERENCE", "BUILTIN_WITHOUT_DEFAULT_DELEGATES": "BUILTIN"}
UNREAD = "Failed to load model"  # how LiteRT's error begins, before it asks an accelerator
# What LiteRT and the plugin say of outputs whose shape only a run determines. In the first run on
# LiteRT's CPU, such a result is missing instead.
OPEN = "Failed to set custom allocation for output"
OPEN_HERE = "LiteRT's CompiledModel returns no outputs whose shape only a run determines"
EMPTY = "TensorBuffer must have all static dimensions"
# Types that the buffers of LiteRT's Python take; others go as bytes.
TAKEN = ("float32", "float16", "int32", "int8", "uint8", "bool")


def as_taken(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Returns an array as buffers take it: of one of their types, or as bytes."""
    return array if array.dtype.name in TAKEN else array.view(np.uint8)


def read(buffer: Any, count: int, kind: np.dtype[Any]) -> npt.NDArray[Any]:
    """Returns this many elements of a buffer, of any type."""
    found: npt.NDArray[Any] = (
        buffer.read(count, kind)
        if kind.name in TAKEN
        else buffer.read(count * kind.itemsize, np.uint8).view(kind)
    )
    return found


class Accelerator:
    """Stands in for the delegate that `load_delegate` returns: it holds the environment whose
    options a compiled model is made with. The report belongs to that model."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.environment = tflgpu_plugin.litert_environment(**options)


def load_delegate(library: str, options: Mapping[str, Any] | None = None) -> Accelerator:
    """Returns our accelerator in place of a delegate. Raises OptionError."""
    return Accelerator(options or {})


def Interpreter(  # noqa: N802  (the name of the host's class)
    model_path: str | None = None,
    model_content: bytes | None = None,
    num_threads: int | None = None,
    experimental_op_resolver_type: Any = OpResolverType.AUTO,
    experimental_delegates: Sequence[Any] = (),
    **more: Any,
) -> Any:
    """Returns an interpreter of the host or, with an Accelerator as its delegate, a compiled
    model."""
    content = model_content or Path(str(model_path)).read_bytes()
    if not experimental_delegates:
        kinds = {"experimental_op_resolver_type": experimental_op_resolver_type}
        return classic.Interpreter(model_content=content, num_threads=num_threads, **kinds, **more)
    if more or len(experimental_delegates) > 1:
        raise NotTaken("A CompiledModel takes one accelerator, and no option of interpreters.")
    (accelerator,) = experimental_delegates
    return Compiled(content, accelerator, num_threads or 1, experimental_op_resolver_type)


class Compiled:
    """A compiled model with the functions of an interpreter."""

    def __init__(
        self, content: bytes, accelerator: Accelerator, threads: int, kernels: Any
    ) -> None:
        self._content, self._accelerator = content, accelerator
        self._described = classic.Interpreter(model_content=content)
        mode = getattr(CpuKernelMode, KERNELS.get(kernels.name, "XNNPACK"))
        self._options = Options(
            hardware_accelerators=HardwareAccelerator.GPU | HardwareAccelerator.CPU,
            cpu_options=CpuOptions(num_threads=threads, kernel_mode=mode),
        )
        self._shapes: dict[int, Sequence[int]] = {}
        self._make()

    def _make(self) -> None:
        environment = self._accelerator.environment
        try:
            self.model = CompiledModel.from_buffer(
                self._content, options=self._options, environment=environment
            )
        except RuntimeError as error:
            if not str(error).startswith(UNREAD):
                raise
            raise NotTaken(f"LiteRT's CompiledModel does not take this model: {error}") from error
        litert.share(self._accelerator, self.model)
        self._signature, self._ports = self._main()
        self._inputs: dict[int, Any] = {}
        self._outputs: dict[int, Any] = {}
        if {*self._ports[0]} & {*self._ports[1]}:
            raise NotTaken(
                "LiteRT's CompiledModel loses the values of an input that is an output, too."
            )

    def _main(self) -> tuple[int, tuple[list[int], list[int]]]:
        """Returns the signature of the main graph, and the tensors of its inputs and outputs."""
        mine = {one["index"] for one in self._described.get_input_details()}
        found = []
        for number, (name, sides) in enumerate(self.model.get_signature_list().items()):
            given = self.model.get_input_tensor_details(name)
            made = self.model.get_output_tensor_details(name)
            inputs = [int(given[one]["index"]) for one in sides["inputs"]]
            found.append((number, (inputs, [int(made[one]["index"]) for one in sides["outputs"]])))
        return next((one for one in found if {*one[1][0]} == mine), found[0])

    def get_input_details(self) -> list[dict[str, Any]]:
        details: list[dict[str, Any]] = self._described.get_input_details()
        for one in details:
            one["shape"] = np.array(self._shapes.get(one["index"], one["shape"]), np.int32)
        return details

    def get_output_details(self) -> list[dict[str, Any]]:
        details: list[dict[str, Any]] = self._described.get_output_details()
        for one in details:
            if (made := self._outputs.get(one["index"])) is not None:
                one["shape"] = np.array(made.get_tensor_details()["shape"], np.int32)
        return details

    def resize_tensor_input(self, index: int, shape: Sequence[int], strict: bool = False) -> None:
        place = self._ports[0].index(index)
        extents = [int(extent) for extent in shape]
        self.model.resize_input_tensor(place, extents, self._signature, strict=strict)
        self._shapes[index] = extents
        self._inputs, self._outputs = {}, {}

    def allocate_tensors(self) -> None:
        inputs, outputs = self._ports
        try:
            given = self.model.create_input_buffers(self._signature)
            made = self.model.create_output_buffers(self._signature)
        except RuntimeError as error:
            if EMPTY not in str(error):
                raise
            text = "LiteRT's CompiledModel has no buffers for empty tensors"
            raise NotTaken(f"{text}: {error}") from error
        self._inputs = dict(zip(inputs, given, strict=True))
        self._outputs = dict(zip(outputs, made, strict=True))

    def set_tensor(self, index: int, value: npt.ArrayLike) -> None:
        self._inputs[index].write(as_taken(np.ascontiguousarray(value)))

    def invoke(self) -> None:
        inputs, outputs = self._ports
        buffers = [self._inputs[tensor] for tensor in inputs]
        try:
            results = [self._outputs[tensor] for tensor in outputs]
            self.model.run_by_index(self._signature, buffers, results)
        except RuntimeError as error:
            report = litert.report(self.model)
            reasons = [one.failure for one in report.partitions if one.failure] if report else []
            if found := [reason for reason in reasons if reason.startswith(OPEN_HERE)]:
                raise NotTaken(found[0]) from error
            if OPEN in str(error):
                raise NotTaken(f"{OPEN_HERE}: {error}") from error
            raise RuntimeError(" ".join((str(error), *reasons))) from error

    def get_tensor(self, index: int) -> npt.NDArray[Any]:
        detail = next(one for one in self.get_output_details() if one["index"] == index)
        count, kind = int(np.prod(detail["shape"])), np.dtype(detail["dtype"])
        return read(self._outputs[index], count, kind).reshape(detail["shape"])

    def fill_outputs(self, value: float) -> None:
        """Writes this number to all elements of the outputs."""
        for one in self.get_output_details():
            full = np.full(one["shape"], value, one["dtype"])
            self._outputs[one["index"]].write(as_taken(full))

    def reset_all_variables(self) -> None:
        """Makes the model anew: a compiled model has no other way to a new state."""
        shapes, self._shapes = self._shapes, {}
        self._make()
        for index, shape in shapes.items():
            self.resize_tensor_input(index, shape)
        self.allocate_tensors()
