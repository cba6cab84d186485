"""Random sequences of what users do with tensors on the GPU. Each tensor is compared with an array
to which the CPU provider has done the same."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tests.support.onnx_models import Array, cpu, model, node, session

ort = pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")
pytestmark = pytest.mark.adapter

GPU = ("gpu", 0)
EXTENTS = (0, 1, 3, 64, 1500, 5000)
MOST = 20  # tensors
F32, I64, BOOL, F16 = np.float32, np.int64, np.bool_, np.float16


@dataclass
class Model:
    """A model, the type of each input (all have one axis of one extent), and our options."""

    data: bytes
    inputs: Mapping[str, Any]
    exclude: str = ""


def made(nodes: list[Any], inputs: Mapping[str, Any], *outputs: str, exclude: str = "") -> Model:
    """Returns a model whose outputs have the type of its first input."""
    (kind, *_) = inputs.values()
    kinds, shape = {**inputs, **dict.fromkeys(outputs, kind)}, ["n"]
    return Model(
        model(nodes, dict.fromkeys(inputs, shape), dict.fromkeys(outputs, shape), kinds=kinds),
        inputs,
        exclude,
    )


MIXED = [
    node("Neg", ["x"], ["a"]),
    node("Abs", ["a"], ["b"], name="on_the_cpu"),
    node("Max", ["a", "b"], ["y"]),
    node("Neg", ["b"], ["z"], name="on_the_cpu_as_well"),
]
MODELS = [
    made([node("Neg", ["x"], ["y"])], {"x": F32}, "y"),
    made([node("Neg", ["x"], ["y"])], {"x": F16}, "y"),
    made([node("Not", ["x"], ["y"])], {"x": BOOL}, "y"),
    made([node("Max", ["a", "b"], ["y"])], {"a": F32, "b": F32}, "y"),
    made([node("Add", ["a", "b"], ["y"])], {"a": I64, "b": I64}, "y"),
    made([node("Neg", ["x"], ["y"]), node("Abs", ["x"], ["z"])], {"x": F32}, "y", "z"),
    made([node("Identity", ["x"], ["y"]), node("Abs", ["y"], ["z"])], {"x": F32}, "y", "z"),
    made(MIXED, {"x": F32}, "y", "z", exclude="on_the_cpu,on_the_cpu_as_well"),
]


def opened() -> list[tuple[Any, Any]]:
    """Returns our session and that of the CPU for each model."""
    return [(session(one.data, exclude=one.exclude), cpu(one.data)) for one in MODELS]


class Tensors:
    """Tensors on the GPU and what they must hold."""

    def __init__(self, seed: int, sessions: list[tuple[Any, Any]]) -> None:
        self.chance = np.random.default_rng(seed)
        self.sessions = sessions
        self.held: list[tuple[Any, Array]] = []

    def values(self, kind: Any, extent: int) -> Array:
        """Returns random values, among the integers one that the GPU does not take."""
        found = self.chance.integers(-50, 50, extent)
        if kind is I64 and extent and not self.chance.integers(10):
            found[0] = 2**31
        return found.astype(kind)

    def pick(self, kind: Any, extent: int) -> tuple[Any, Array] | None:
        found = [pair for pair in self.held if pair[1].dtype == kind and pair[1].shape == (extent,)]
        return found[self.chance.integers(len(found))] if found else None

    def make(self) -> None:
        kinds = [F32, F32, I64, BOOL, F16]
        kind, extent = kinds[self.chance.integers(5)], int(self.chance.choice(EXTENTS))
        data = self.values(kind, extent)
        self.held.append((ort.OrtValue.ortvalue_from_numpy(data, *GPU), data.copy()))

    def overwrite(self) -> None:
        tensor, wanted = self.held[self.chance.integers(len(self.held))]
        wanted[:] = self.values(wanted.dtype.type, len(wanted))
        tensor.update_inplace(wanted.copy())

    def copy(self) -> None:
        from onnxruntime.capi.onnxruntime_inference_collection import copy_tensors

        tensor, wanted = self.held[self.chance.integers(len(self.held))]
        if target := self.pick(wanted.dtype, len(wanted)):
            copy_tensors([tensor], [target[0]])
            target[1][:] = wanted

    def drop(self) -> None:
        del self.held[self.chance.integers(len(self.held))]

    def read(self) -> None:
        tensor, wanted = self.held[self.chance.integers(len(self.held))]
        np.testing.assert_array_equal(tensor.numpy(), wanted)

    def run(self) -> None:
        """Runs a model: each input is one of the held tensors or a numpy array; each output goes to
        a held tensor, a new tensor on the GPU, or an array."""
        which, extent = self.chance.integers(len(MODELS)), int(self.chance.choice(EXTENTS))
        ours, theirs = self.sessions[which]
        binding, feeds = ours.io_binding(), dict[str, Array]()
        for name, kind in MODELS[which].inputs.items():
            given = self.pick(kind, extent) if self.chance.integers(4) else None
            feeds[name] = given[1].copy() if given else self.values(kind, extent)
            if given:
                binding.bind_ortvalue_input(name, given[0])
            else:
                binding.bind_cpu_input(name, feeds[name])
        wanted = theirs.run(None, feeds)
        if not self.chance.integers(5):
            for got, want in zip(ours.run(None, feeds), wanted, strict=True):
                np.testing.assert_array_equal(got, want)
            return
        targets = self.bind_outputs(binding, ours, wanted)
        ours.run_with_iobinding(binding)
        for got, want, target in zip(binding.get_outputs(), wanted, targets, strict=True):
            if target is not None:
                target[:] = want
            elif got.device_name() == "cpu":
                np.testing.assert_array_equal(got.numpy(), want)
            else:
                self.held.append((got, want))

    def bind_outputs(self, binding: Any, ours: Any, wanted: list[Array]) -> list[Array | None]:
        """Returns what the tensors hold to which outputs are bound, else None."""
        targets: list[Array | None] = []
        for output, want in zip(ours.get_outputs(), wanted, strict=True):
            target = self.pick(want.dtype, len(want)) if self.chance.integers(2) else None
            if target and not any(target[1] is other for other in targets):
                binding.bind_ortvalue_output(output.name, target[0])
                targets.append(target[1])
            else:
                binding.bind_output(output.name, *(GPU if self.chance.integers(4) else ()))
                targets.append(None)
        return targets

    def go(self, steps: int) -> None:
        ways = [self.make, self.overwrite, self.copy, self.read, self.read, *[self.run] * 5]
        self.make()
        for _ in range(steps):
            ways[self.chance.integers(len(ways))]()
            while len(self.held) > MOST:
                self.drop()
        for tensor, wanted in self.held:
            np.testing.assert_array_equal(tensor.numpy(), wanted)


@pytest.mark.parametrize("seed", range(3))
def test_a_sequence(seed: int) -> None:
    Tensors(seed, opened()).go(200)


def test_sequences_of_three_threads_in_the_same_sessions() -> None:
    sessions, wrong = opened(), list[BaseException]()

    def work(seed: int) -> None:
        try:
            Tensors(seed, sessions).go(100)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(10, 13)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not wrong, wrong
