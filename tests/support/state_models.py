"""Seeded TFLite models of layers with state (SVDF, LSTM of one step and of sequences), with or
without a node for the CPU between them."""

from __future__ import annotations

import random

import numpy as np

from conformance.cases import seeded
from conformance.models.tflite import Model
from tests.support.small_models import on_cpu

Shape = tuple[int, ...]


class Layers:
    """A model that grows by layers of `units` features for each of `batch` rows, or of as many
    `steps` as there are; `states` are the tensors of its variables."""

    def __init__(self, seed: int, batch: int = 2, units: int = 6, steps: bool = False) -> None:
        self.choose, self.model = random.Random(seed), Model()
        self.batch, self.units = batch, units
        self.states: list[int] = []
        middle, open_ = ((1,), (-1,)) if steps else ((), ())
        self.x = self.model.input(
            "x", (batch, *middle, units), signature=(batch, *open_, units)
        )  # fmt: skip

    @property
    def shape(self) -> Shape:
        return (self.batch, self.units)

    def weights(self, *shape: int, scale: float = 0.4) -> int:
        return self.model.constant(seeded(*shape, seed=self.choose.randrange(99), scale=scale))

    def state(self, *shape: int) -> int:
        made = self.model.variable(f"state {len(self.states)}", shape)
        self.states.append(made)
        return made

    def svdf(self) -> None:
        rank, length = self.choose.randint(1, 2), self.choose.randint(1, 5)
        features = self.units * rank
        given = [
            self.x, self.weights(features, self.units), self.weights(features, length), None,
            self.state(self.batch, features * length),
        ]  # fmt: skip
        options = {"rank": rank, "fusedActivationFunction": "RELU"}
        self.x = self.model.op("SVDF", given, "SVDFOptions", options, shape=self.shape)

    def basic(self) -> None:
        activation = self.state(*self.shape)
        weights = self.weights(4 * self.units, 2 * self.units)
        given = [self.x, activation, weights, self.weights(4 * self.units), self.state(*self.shape)]
        options = {"fusedActivationFunction": "TANH", "kernelType": "BASIC"}
        wide = ((self.batch, 2 * self.units), (self.batch, 4 * self.units))
        shapes = [self.shape, self.shape, *wide]
        made = self.model.multi_op(
            "LSTM", given, "LSTMOptions", options, shapes=shapes, version=2
        )  # fmt: skip
        self.x = made[0]

    def sequence(self) -> None:
        """Over one step."""
        n = self.units
        self.steps(self.reshaped(self.x, (self.batch, 1, n)), 1)
        self.x = self.reshaped(self.x, self.shape)

    def steps(self, x: int, count: int) -> None:
        n = self.units
        gates = [*(self.weights(n, n) for _ in range(8)), None, None, None]
        biases = [*(self.weights(n) for _ in range(4)), None, None]
        given = [x, *gates, *biases, self.state(*self.shape), self.state(*self.shape)]
        options = {"fusedActivationFunction": "TANH", "timeMajor": False}
        self.x = self.model.op(
            "UNIDIRECTIONAL_SEQUENCE_LSTM", [*given, *[None] * 4],
            "UnidirectionalSequenceLSTMOptions", options, shape=(self.batch, count, n),
        )  # fmt: skip

    def reshaped(self, x: int, shape: Shape) -> int:
        wanted = self.model.constant(np.array((-1, *shape[1:]), np.int32))
        options = {"newShape": list(shape)}
        return self.model.op("RESHAPE", [x, wanted], "ReshapeOptions", options, shape=shape)

    def apart(self) -> None:
        self.x = on_cpu(self.model, self.x, self.x, self.shape)

    def grown(self, *layers: str) -> Layers:
        """Returns itself with these layers, by the names of their methods."""
        for layer in layers:
            getattr(self, layer)()
        return self

    def to_bytes(self) -> bytes:
        self.model.output(self.x)
        return self.model.to_bytes()


KINDS = {
    "svdf": ("svdf",),
    "basic": ("basic",),
    "sequence": ("sequence",),
    "two parts": ("svdf", "apart", "basic"),
}


def any_steps(seed: int) -> Layers:
    """A sequence of any length through two layers."""
    made = Layers(seed, steps=True)
    for _ in range(2):
        made.steps(made.x, 1)
    return made


def program(seed: int) -> tuple[bytes, list[int]]:
    """A model of one to four layers, and the tensors of its variables."""
    made = Layers(seed, batch=1 + seed % 3, units=4 + seed % 5)
    layers = [made.choose.choice(("svdf", "basic", "sequence", "apart")) for _ in range(seed % 4)]
    made.grown(*layers, "svdf")
    return made.to_bytes(), made.states
