"""A decoder on our provider and on the CPU's, step by step, each with its own cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import tflgpu_plugin
from conformance.models import decoders
from tests.support.onnx_models import Array, cpu, session

TOLERANCE = 1e-5  # of the largest magnitude of a result
HALF_TOLERANCE = 4e-3  # four steps of float16


class Side:
    """A session whose cache is arrays."""

    def __init__(self, opened: Any) -> None:
        self.session, self.cache = opened, list[Any]()

    def begin(self, cache: Sequence[Array]) -> None:
        self.cache = [*cache]

    def step(self, ids: Array, mask: Array) -> Array:
        """Returns the logits of these tokens and updates the cache."""
        logits, *self.cache = self.session.run(None, decoders.fed(ids, mask, self.cache))
        return np.asarray(logits)

    def arrays(self) -> list[Array]:
        """Returns the arrays of the cache."""
        return self.cache

    def keep(self, length: int) -> None:
        """Forgets the tokens after the first ones."""
        self.cache = [part[:, :, :length] for part in self.cache]


class BoundSide(Side):
    """A session whose cache stays on the GPU; with `in_place`, it is written where it was read."""

    def __init__(self, opened: Any, in_place: bool = False) -> None:
        super().__init__(opened)
        self.in_place = in_place

    def begin(self, cache: Sequence[Array]) -> None:
        import onnxruntime

        self.cache = [onnxruntime.OrtValue.ortvalue_from_numpy(part, "gpu") for part in cache]

    def step(self, ids: Array, mask: Array) -> Array:
        binding = self.session.io_binding()
        binding.bind_cpu_input("input_ids", ids)
        binding.bind_cpu_input("attention_mask", mask)
        binding.bind_output("logits")
        layers = len(self.cache) // 2
        names = zip(decoders.pasts(layers), decoders.presents(layers), strict=True)
        for (past, present), value in zip(names, self.cache, strict=True):
            binding.bind_ortvalue_input(past, value)
            if self.in_place:
                binding.bind_ortvalue_output(present, value)
            else:
                binding.bind_output(present, "gpu")
        self.session.run_with_iobinding(binding)
        logits, *made = binding.get_outputs()
        assert {value.device_name() for value in made} == {self.cache[0].device_name()}
        assert made[0].device_name() != "cpu"
        self.cache = self.cache if self.in_place else made
        return np.asarray(logits.numpy())

    def arrays(self) -> list[Array]:
        return [value.numpy() for value in self.cache]

    def keep(self, length: int) -> None:
        self.begin([np.ascontiguousarray(part[:, :, :length]) for part in self.arrays()])


class HalfSide(Side):
    """A session whose cache and logits are float16."""

    def begin(self, cache: Sequence[Array]) -> None:
        super().begin([part.astype(np.float16) for part in cache])

    def step(self, ids: Array, mask: Array) -> Array:
        return super().step(ids, mask).astype(np.float32)

    def arrays(self) -> list[Array]:
        return [part.astype(np.float32) for part in self.cache]


@dataclass
class Pair:
    """The same decoder twice; `seen` is the attention_mask of all tokens so far."""

    ours: Side
    theirs: Side
    words: int
    tolerance: float = TOLERANCE
    seen: Array = field(default_factory=lambda: np.ones((1, 0), np.int64))
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(5))

    @property
    def length(self) -> int:
        """Returns the number of tokens in the cache."""
        return self.seen.shape[1]

    def begin(self, batch: int, cache: Sequence[Array]) -> None:
        """Begins texts after this cache, which has no tokens."""
        self.seen = np.ones((batch, 0), np.int64)
        for side in (self.ours, self.theirs):
            side.begin(cache)

    def step(self, tokens: int, hidden: int = 0) -> None:
        """Runs random tokens, the first of the last row hidden, and compares all results."""
        batch = len(self.seen)
        new = np.ones((batch, tokens), np.int64)
        new[-1, :hidden] = 0
        ids = self.random.integers(0, self.words, (batch, tokens))
        self.seen = np.hstack([self.seen, new])
        got, wanted = (side.step(ids, self.seen) for side in (self.ours, self.theirs))
        self._compare(got, wanted)
        for ours, theirs in zip(self.ours.arrays(), self.theirs.arrays(), strict=True):
            assert ours.shape == theirs.shape
            self._compare(ours[:, :, : self.length], theirs[:, :, : self.length])

    def _compare(self, got: Array, wanted: Array) -> None:
        assert got.shape == wanted.shape
        difference, allowed = np.abs(got - wanted).max(), self.tolerance * np.abs(wanted).max()
        assert difference <= allowed, (self.length, difference, allowed)

    def keep(self, length: int) -> None:
        """Forgets the tokens after the first ones."""
        self.seen = self.seen[:, :length]
        for side in (self.ours, self.theirs):
            side.keep(length)

    def assert_on_gpu(self) -> None:
        """Asserts that every node of the session ran on the GPU, in one partition, in each of its
        runs."""
        report = tflgpu_plugin.report(self.ours.session)
        assert report.count("gpu") == len(report.nodes)
        (partition,) = report.partitions
        assert partition.runs > 0 and partition.host_runs == 0


def pair(
    write: Callable[[decoders.Size], bytes],
    size: decoders.Size,
    side: Callable[[Any], Side] = Side,
) -> Pair:
    """Returns a decoder, written by this function, on both providers; `side` creates ours from a
    session."""
    data = write(size)
    return Pair(side(session(data)), Side(cpu(data)), size.words)


def half_pair(write: Callable[[decoders.Size], bytes], size: decoders.Size) -> Pair:
    """Returns a float16 decoder on our provider; the CPU computes it in float32."""
    import onnx
    from onnxruntime.transformers.float16 import convert_float_to_float16

    data = write(size)
    half = convert_float_to_float16(onnx.load_from_string(data), keep_io_types=False)
    ours = HalfSide(session(half.SerializeToString()))
    return Pair(ours, Side(cpu(data)), size.words, HALF_TOLERANCE)
