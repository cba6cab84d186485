"""Random graphs as full-integer models, as a converter would write them: quantization from the
values of the float32 graph, weights per channel, and a QUANTIZE wherever an operator needs another
quantization."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from conformance import host
from conformance.cases import Input
from conformance.host import Array
from conformance.models.tflite import Model
from conformance.random import graphs as random_graphs
from conformance.variants.quantized import (  # fmt: skip
    AXES,
    BIASES,
    FIRST,
    FIXED,
    VERSIONS,
    bias_of,
    quantization_of,
    same_quantization,
    stored,
    weights_of,
)
from tflgpu_plugin.ir import Quantization

DTYPE = "i8"
# Operators without int8 kernels in the host, or with kernels of their own rounding.
LEFT_OUT = {"RELU_N1_TO_1", "SQRT", "RSQRT", "LOG", "EXP", "SQUARE", "NEG", "ABS", "PADV2",
            "DEPTH_TO_SPACE"}  # fmt: skip
MAX_SOFTMAX_AXIS = 512  # axis of a softmax: the host's sums of 8-bit values overflow


@dataclass
class _Writer:
    """Writes the 8-bit model; `made` maps tensors of the float32 model to its tensors."""

    source: Model
    values: dict[int, Array]
    model: Model = field(default_factory=Model)
    made: dict[int, int] = field(default_factory=dict)

    def quantization(self, *tensors: int) -> Quantization:
        """Returns one quantization for the values of these tensors."""
        low = min(float(self.values[t].min(initial=0.0)) for t in tensors)
        high = max(float(self.values[t].max(initial=0.0)) for t in tensors)
        return quantization_of(low, high, DTYPE)

    def of(self, tensor: int) -> Quantization:
        found = self.model.tensors[tensor].quantization
        assert found is not None
        return found

    def constant(self, tensor: int, quantization: Quantization) -> int:
        """Returns float constants quantized, others unchanged."""
        given = self.source.tensors[tensor]
        assert given.data is not None
        if given.dtype != "f32":
            return self.model.constant(given.data)
        value = stored(Input(given.shape, "f32", given.data), quantization, DTYPE)
        return self.held(value)

    def held(self, value: Input) -> int:
        """Adds a quantized constant."""
        index = self.model.constant(value.data, dtype=value.dtype)
        self.model.tensors[index].quantization = value.quantization
        return index

    def onto(self, tensor: int, quantization: Quantization) -> int:
        """Returns a computed tensor with this quantization, by a QUANTIZE if it has another one."""
        index = self.made[tensor]
        if self.of(index) == quantization:
            return index
        shape = self.source.tensors[tensor].shape
        return self.result("QUANTIZE", [index], None, {}, [(shape, quantization)], 2)[0]

    def result(
        self, op: str, reads: list[int], table: str | None, options: Any,
        outputs: list[tuple[tuple[int, ...], Quantization]], version: int,
    ) -> list[int]:  # fmt: skip
        """Adds an operator with int8 outputs of these shapes and quantizations."""
        shapes = [shape for shape, _ in outputs]
        found = self.model.multi_op(op, reads, table, options, shapes=shapes,
                                    dtypes=[DTYPE] * len(shapes), version=version)  # fmt: skip
        for index, (_, quantization) in zip(found, outputs, strict=True):
            self.model.tensors[index].quantization = quantization
        return found

    def operator(self, operator: Any) -> None:
        """Adds the 8-bit form of an operator."""
        op, tensors = operator.op, self.source.tensors
        floats = [t for t in operator.inputs if tensors[t].dtype == "f32"]
        computed = [t for t in floats if tensors[t].data is None]
        quantization = self.quantization(*operator.outputs)
        if same_quantization(op):
            alike = [self.of(self.made[t]) for t in computed]
            several = len(floats) > 1
            quantization = self.quantization(*floats, *operator.outputs) if several else alike[0]
        elif op in FIXED:
            scale, zero = FIXED[op][DTYPE]
            quantization = Quantization((scale,), (zero,))
        reads = [self.read(operator, k, t, quantization) for k, t in enumerate(operator.inputs)]
        outputs = [(tensors[t].shape, quantization) for t in operator.outputs]
        version = max(operator.version, VERSIONS.get(op, 2))
        found = self.result(op, reads, operator.options_type, operator.options, outputs, version)
        self.made.update(zip(operator.outputs, found, strict=True))

    def read(self, operator: Any, position: int, tensor: int, quantization: Quantization) -> int:
        """Returns the 8-bit form of an operator's input; `quantization` is that of its output."""
        op, given = operator.op, self.source.tensors[tensor]
        if given.data is None:
            return self.onto(tensor, quantization) if same_quantization(op) else self.made[tensor]
        value = Input(given.shape, given.dtype, given.data)
        if op in AXES and position == 1:
            return self.held(weights_of(value, DTYPE, AXES[op]))
        if BIASES.get(op) == position:
            x = operator.inputs[FIRST.get(op, 0)]
            weights = self.source.tensors[operator.inputs[1]]
            scaled = weights_of(Input(weights.shape, "f32", weights.data), DTYPE, AXES[op])
            first = Input((), DTYPE, quantization=self.of(self.made[x]))
            return self.held(bias_of(value, first, scaled))
        low, high = float(given.data.min()), float(given.data.max())
        own = quantization if same_quantization(op) else quantization_of(low, high, DTYPE)
        return self.constant(tensor, own)


def build(seed: int) -> tuple[Model, list[Array]] | None:
    """Returns a model and its int8 inputs; None if the graph has operators without int8 kernels, or
    values that do not fit into 8 bits."""
    source, feeds = random_graphs.build(seed)
    if any(_left_out(source, o) for o in source.operators):
        return None
    values = _values(source, feeds[0])
    if any(np.abs(a).max(initial=0.0) > 1e4 or not np.any(a) for a in values.values()):
        return None
    writer = _Writer(source, values)
    fed = []
    for index, value in zip(source.inputs, feeds[0], strict=True):
        quantization = writer.quantization(index)
        made = writer.model.input(source.tensors[index].name, value.shape, DTYPE)
        writer.model.tensors[made].quantization = quantization
        writer.made[index] = made
        given = stored(Input(value.shape, "f32", value), quantization, DTYPE)
        assert given.data is not None
        fed.append(given.data)
    for operator in source.operators:
        writer.operator(operator)
    writer.model.output(*(writer.made[t] for t in source.outputs))
    return writer.model, fed


def _left_out(source: Model, operator: Any) -> bool:
    last = source.tensors[operator.inputs[0]].shape[-1:]
    return operator.op in LEFT_OUT or (operator.op == "SOFTMAX" and last > (MAX_SOFTMAX_AXIS,))


def _values(source: Model, feed: list[Array]) -> dict[int, Array]:
    """Returns the float32 values of all computed tensors, inputs and constants."""
    whole = replace(source, outputs=[t for o in source.operators for t in o.outputs])
    (results,) = host.run_on_cpu(whole.to_bytes(), [feed])
    found = dict(zip(whole.outputs, results, strict=True))
    found |= dict(zip(source.inputs, feed, strict=True))
    held = {k: t.data for k, t in enumerate(source.tensors) if t.data is not None}
    return found | {k: data for k, data in held.items() if data.dtype == np.float32}
