"""Transforms whose complex numbers never leave the device: sizes and parts of them, views between,
several readers; and models where some of them would have to leave it, which stay on the CPU."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from conformance.models.graph_cases import GraphCase, Maker
from conformance.models.tflite import Model

Shape = tuple[int, ...]
RESULTS = ("COMPLEX_ABS", "REAL", "IMAG", "CAST")


class _Spectra(Maker):
    def transform(self, x: int, height: int, width: int) -> int:
        lengths = self.constant(np.array([height, width], np.int32))
        return self.complex("RFFT2D", [x, lengths], "Rfft2dOptions")

    def complex(self, op: str, reads: list[int], table: str | None = None) -> int:
        """Adds a node whose results are complex numbers."""
        result = self.op(op, reads, table, {}, dtype="c64")
        outputs, self.outputs = self.outputs, [result]
        self.infer_shapes()
        self.outputs = outputs
        return result

    def reshaped(self, x: int, shape: Shape) -> int:
        return self.complex("RESHAPE", [x, self.constant(np.array(shape, np.int32))])


def spectrum(shape: Shape, height: int, width: int, *results: str) -> Callable[[], Model]:
    def build() -> Model:
        m = _Spectra()
        found = m.transform(m.unary("TANH", m.start(shape)), height, width)
        for name in results:
            m.output(m.unary("RELU", m.unary(name, found)))
        return m

    return build


def reshaped(reader: str) -> Callable[[], Model]:
    """Adds reshapes of frames as converters write them: [n, 1, k] to [n, k], and all of it to one
    row."""

    def build() -> Model:
        m = _Spectra()
        found = m.transform(m.start((6, 1, 20)), 1, 32)
        flat = m.reshaped(found, (6, 17))
        squeezed = m.complex("SQUEEZE", [found], "SqueezeOptions")
        axis = m.constant(np.array(-1, np.int32))
        wide = m.complex("EXPAND_DIMS", [m.reshaped(flat, (-1,)), axis], "ExpandDimsOptions")
        for each in (flat, squeezed, wide):
            m.output(m.unary(reader, each))
        return m

    return build


def leaving() -> Model:
    """Returns a model in which the spectrum itself is an output."""
    m = _Spectra()
    found = m.transform(m.conv(m.start((1, 4, 4, 8))), 4, 8)
    m.output(m.unary("COMPLEX_ABS", found), found)
    return m


def read_on_the_cpu() -> Model:
    """Returns a model in which one of two readers is on the CPU, so that all nodes stay there."""
    m = _Spectra()
    found = m.transform(m.conv(m.start((1, 4, 4, 8))), 4, 8)
    m.cpu += 1
    m.output(m.unary("REAL", found), m.add("IMAG", [found], name="cpu0"))
    return m


CASES = [
    GraphCase("sizes of a spectrum", spectrum((5, 1, 40), 1, 64, "COMPLEX_ABS")),
    GraphCase("a spectrum of two axes", spectrum((2, 3, 9), 4, 8, *RESULTS)),
    GraphCase("parts of a cut spectrum", spectrum((5, 7, 40), 1, 16, "IMAG", "REAL")),
    *(GraphCase(f"views of a spectrum, {name.lower()}", reshaped(name)) for name in RESULTS),
    GraphCase("a spectrum that is an output", leaving, 1, 2),
    GraphCase("a spectrum for a CPU node", read_on_the_cpu, 1, 3),
]
