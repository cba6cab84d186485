"""One engine of `benchmarks.decoding` in its own process, also under the interpreter of another
checkout or of a peer: it imports nothing of ours but the plugin, where that is measured.

Usage: python benchmarks/decoding_worker.py SPEC-AS-JSON, in the folder of the checkout. It prints
one line when it is ready and one JSON object for each line that it reads; times are CPU
milliseconds of the process."""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import onnxruntime as ort

PROVIDERS = {"ours": "TflGpuExecutionProvider", "webgpu": "WebGpuExecutionProvider"}
CPU = "CPUExecutionProvider"
WORDS, LENGTH = 99, 12  # words of the decoders, tokens before the first step
STEPS = 5  # of a turn
Spec = dict[str, Any]


def session(spec: Spec) -> Any:
    """Returns a session of the model on the engine's provider."""
    if spec["kind"] == "ours":
        import tflgpu_plugin

        tflgpu_plugin.register()
    options = ort.SessionOptions()
    options.log_severity_level = 3
    for name, extent in spec.get("extents", {}).items():
        options.add_free_dimension_override_by_name(name, extent)
    if spec.get("plain"):
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    if spec["kind"] == "cpu":
        return ort.InferenceSession(spec["model"], options, providers=[CPU])
    name, settings = PROVIDERS[spec["kind"]], spec.get("options", {})
    made = ort.InferenceSession(spec["model"], options, providers=[(name, settings), CPU])
    if made.get_providers()[0] != name:
        raise SystemExit("onnxruntime fell back to its CPU provider")
    return made


def measured(call: Callable[[], Any]) -> tuple[float, Any]:
    """Returns CPU milliseconds of all threads, and the result."""
    start = time.process_time()
    made = call()
    return (time.process_time() - start) * 1e3, made


class Decoder:
    """A decoder and its cache: `step` adds a token, or repeats one where the cache does not grow.

    With `bound` the cache stays where the provider keeps it, from a first token on; with `buffer`
    it has this fixed length and is updated where it is."""

    def __init__(self, spec: Spec) -> None:
        self.session, self.spec = session(spec), spec
        self.random, self.length = np.random.default_rng(3), LENGTH - bool(spec.get("bound"))
        self.presents = [output.name for output in self.session.get_outputs()][1:]
        self.pasts = [given.name for given in self.session.get_inputs()][2:]
        self.cache, self.where = [], "cpu"
        for _, heads, _, width in [given.shape for given in self.session.get_inputs()][2:]:
            shape = 1, heads, spec.get("buffer", self.length), width
            values = self.random.normal(size=shape).astype(np.float32)
            self.cache.append(ort.OrtValue.ortvalue_from_numpy(values))
        if spec.get("bound"):
            self._token(True)

    def step(self) -> dict[str, Any]:
        """Returns the milliseconds of the run and the logits."""
        return self._token(self.spec["grows"])

    def _token(self, grows: bool) -> dict[str, Any]:
        binding = self.session.io_binding()
        ids = self.random.integers(0, WORDS, (1, 1))
        binding.bind_cpu_input("input_ids", ids)
        binding.bind_cpu_input("attention_mask", np.ones((1, self.length + 1), np.int64))
        binding.bind_output("logits")
        for past, present, value in zip(self.pasts, self.presents, self.cache, strict=True):
            binding.bind_ortvalue_input(past, value)
            if "buffer" in self.spec:
                binding.bind_ortvalue_output(present, value)
            else:
                binding.bind_output(present, "gpu" if self.spec.get("bound") else "cpu")
        spent, _ = measured(lambda: self.session.run_with_iobinding(binding))
        logits, *made = binding.get_outputs()
        self.where = made[0].device_name()
        if "buffer" not in self.spec and grows:
            self.cache = made
        self.length += grows
        return {"ms": spent, "logits": logits.numpy().reshape(-1).tolist()}


def decoded(spec: Spec) -> Iterator[Any]:
    """Yields the steps of a turn, and where the cache was after it."""
    decoder = Decoder(spec)
    yield
    while True:
        steps = [decoder.step() for _ in range(spec.get("steps", STEPS))]
        yield {"steps": steps, "where": decoder.where}


def generated(spec: Spec) -> Iterator[Any]:
    """Yields the milliseconds of each token of a turn that onnxruntime-genai makes."""
    og = import_module("onnxruntime_genai")  # which has no types

    config = og.Config(spec["model"])
    if spec["kind"] == "ours":
        import tflgpu_plugin

        name = PROVIDERS["ours"]
        og.register_execution_provider_library(name, tflgpu_plugin.get_library_path())
        config.append_provider(name)
    model = og.Model(config)
    settings = og.GeneratorParams(model)
    settings.set_search_options(max_length=WORDS, min_length=WORDS)  # never done early
    generator = og.Generator(model, settings)
    generator.append_tokens(np.arange(3, 3 + LENGTH, dtype=np.int32)[None])
    yield
    while True:
        yield {"ms": [measured(generator.generate_next_token)[0] for _ in range(STEPS)]}


def visited(spec: Spec) -> Iterator[Any]:
    """Yields for each shape the first run, the median of the next ones, and the memory of the
    process in MB."""
    made, random = session(spec), np.random.default_rng(5)
    yield
    for shape in spec["shapes"]:
        feed = {"x": random.random(shape, np.float32)}
        first, *more = (measured(partial(made.run, None, feed))[0] for _ in range(spec["runs"]))
        yield {"first": first, "again": median(more or [first]), "memory": memory()}


def memory() -> float:
    """Returns the memory of the process in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def held(spec: Spec) -> Iterator[Any]:
    """Yields the memory that sessions of a model for one row and for two add to the process, and
    what is left of it when both are closed. A session of another model has started the driver."""
    session(spec | {"model": spec["other"]})
    yield
    while True:
        start, sessions, found = memory(), [], []
        for rows in (1, 2):
            sessions.append(session(spec | {"extents": {"n": rows}}))
            width = sessions[0].get_inputs()[0].shape[1]
            sessions[-1].run(None, {"x": np.ones((rows, width), np.float32)})
            found.append(memory())
        sessions.clear()
        yield {"first": found[0] - start, "second": found[1] - found[0], "left": memory() - start}


def passed(spec: Spec) -> Iterator[Any]:
    """Yields the bytes by which a tensor of one session reaches another one through the CPU."""
    import tflgpu_plugin

    first, second = session(spec), session(spec)
    given = np.random.default_rng(7).random(first.get_inputs()[0].shape, np.float32)
    yield
    while True:
        before = [tflgpu_plugin.report(one).partitions[0] for one in (first, second)]
        one, two = first.io_binding(), second.io_binding()
        one.bind_cpu_input("x", given)
        one.bind_output("y", "gpu")
        first.run_with_iobinding(one)
        (between,) = one.get_outputs()
        two.bind_ortvalue_input("x", between)
        two.bind_output("y")
        second.run_with_iobinding(two)
        after = [tflgpu_plugin.report(one).partitions[0] for one in (first, second)]
        down = after[0].downloaded_bytes - before[0].downloaded_bytes
        yield {"bytes": down + after[1].uploaded_bytes - before[1].uploaded_bytes}


def started(spec: Spec) -> Iterator[Any]:
    """Yields the milliseconds of making a session."""
    session(spec)
    yield
    while True:
        spent, _ = measured(lambda: session(spec))
        yield {"ms": spent}


# Each yields once when it is ready, and then at every turn.
TASKS = {"decoded": decoded, "generated": generated, "visited": visited, "passed": passed,
         "started": started, "held": held}  # fmt: skip


def main(text: str) -> None:
    sys.path[0] = os.getcwd()  # the checkout that is measured, instead of this file's folder
    spec = json.loads(text)
    turns = TASKS[spec["task"]](spec)
    next(turns)
    print("ready", flush=True)
    for _ in sys.stdin:
        print(json.dumps(next(turns)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
