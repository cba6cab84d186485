"""Runs a TFLite model in a host: on its CPU kernels (reference or optimized), or through our
delegate."""

from __future__ import annotations

import hashlib
import importlib
import os
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import tflgpu_plugin
from conformance.cases import Case, Input
from conformance.models import tflite_file
from tflgpu_plugin.frontend.reports import GPU
from tflgpu_plugin.harness import hosts
from tflgpu_plugin.harness.compare import FASTEST, OPTIMIZED, REFERENCE
from tflgpu_plugin.ir import NUMPY_DTYPES

Array = npt.NDArray[Any]
COMPILED = hosts.COMPILED  # LiteRT's CompiledModel, a host that runs only where it is named
Feed = Sequence[Array]  # one array per model input, in the model's order
Outputs = list[Array]

KERNELS = {"reference": REFERENCE, "optimized": OPTIMIZED, "default": FASTEST}
# Operators whose reference kernels contradict those that hosts run by default: windows of this one
# lack their last channel (LocalResponseNormalization in reference_ops.h), or quantized sums are
# those of all numbers (SUM).
DIFFERING = {"LOCAL_RESPONSE_NORMALIZATION", "SUM"}


def installed() -> list[str]:
    """Returns the hosts that can be imported here, by their packages, the preferred one first."""
    return [hosts.PACKAGES[name] for name in hosts.installed()]


def module(host: str | None = None) -> Any:
    """Returns the host's interpreter module. Raises NoHost with what to install."""
    return hosts.host(host).module


def version(host: str) -> str:
    return hosts.version(hosts.host(host).name)


def interpreter(
    model: bytes, host: str | None = None, kernels: str = "reference", threads: int = 1, **more: Any
) -> Any:
    """Returns an interpreter with the named CPU kernels, not allocated; `more` goes to the host
    (delegates, preserve_all_tensors)."""
    return hosts.host(host).made(model, KERNELS[kernels], threads, **more)


def oracle(model: bytes, host: str | None = None) -> tuple[str, str]:
    """Returns the host and kernels whose result is the reference: the host's reference kernels if
    it has these versions; its optimized ones where its reference registry is older; else those of
    another host; and its optimized ones where the reference kernels compute something else
    (`DIFFERING`). Custom operators that only XNNPACK has are judged by the first host with XNNPACK
    in its default kernels, whatever `host` is."""
    differ = DIFFERING & tflite_file.operators(model)
    kinds = ["optimized"] if differ else ["reference", "optimized"]
    names = [host] if host else installed()
    if tflite_file.custom_operators(model):
        kinds.append("default")
        names += [name for name in installed() if name not in names]
    for name in names:
        for kernels in kinds:
            if registers(model, name, kernels):
                return name, kernels
    return host or installed()[0], kinds[0]


def shapes(model: bytes, host: str | None = None) -> list[tuple[int, ...] | None]:
    """Returns the shapes of all tensors as the host's CPU kernels infer them. Raises ValueError
    with the host's words when it refuses the model."""
    try:
        cpu = interpreter(model, *oracle(model, host))
        cpu.allocate_tensors()
    except (ValueError, RuntimeError) as error:
        text = " ".join(str(error).split())
        raise ValueError(f"The host's CPU kernels refuse this model: {text}") from error
    found: dict[int, tuple[int, ...]] = {
        d["index"]: tuple(int(n) for n in d["shape"]) for d in cpu.get_tensor_details()
    }
    return [found.get(k) for k in range(max(found, default=-1) + 1)]


def invoke(cpu: Any, feeds: Sequence[Feed]) -> list[Outputs]:
    """Invokes an allocated interpreter once per feed; returns copies of the outputs of each run."""
    return [hosts.invoked(cpu, feed) for feed in feeds]


def run_on_cpu(
    model: bytes,
    feeds: Sequence[Feed],
    host: str | None = None,
    kernels: str = "reference",
    resets: Collection[int] = (),
) -> list[Outputs]:
    """Returns the host's own answer, one list of outputs per feed (state is kept between feeds)."""
    cpu = interpreter(model, host, kernels)
    cpu.allocate_tensors()
    return _invoked(cpu, feeds, resets)


def _invoked(made: Any, feeds: Sequence[Feed], resets: Collection[int]) -> list[Outputs]:
    """Invokes like `invoke`, and resets variables before the feeds with these numbers."""
    outputs = []
    for number, feed in enumerate(feeds):
        if number in resets:
            made.reset_all_variables()
        outputs += invoke(made, [feed])
    return outputs


@dataclass(frozen=True)
class Placement:
    """Where a model's nodes ran. Counts come from native code; `sentences` say why nodes are on the
    CPU."""

    on_gpu: int
    total: int
    partitions: int
    runs: tuple[int, ...]
    failures: int
    sentences: tuple[str, ...]
    adapter: str = ""
    gpu_nodes: frozenset[int] = frozenset()  # of the first subgraph
    eligible: tuple[int, int] = (0, 0)  # on the GPU, and in all, of operators that have a row


@dataclass(frozen=True)
class GpuRun:
    """Outputs per feed, where the nodes ran, and the shortest time of an invoke in milliseconds."""

    outputs: list[Outputs]
    placement: Placement
    milliseconds: float = 0.0


def run_on_gpu(
    model: bytes,
    feeds: Sequence[Feed],
    host: str | None = None,
    options: Mapping[str, Any] | None = None,
    kernels: str = "reference",
    resets: Collection[int] = (),
) -> GpuRun:
    """Runs through our delegate; nodes that stay on the CPU use the named CPU kernels. The
    interpreter's variables are cleared before the feeds whose numbers are in `resets`."""
    delegate = load_delegate(host, options)
    gpu = interpreter(model, host, kernels, experimental_delegates=[delegate])
    gpu.allocate_tensors()
    return GpuRun(_invoked(gpu, feeds, resets), placement(delegate))


def placed(
    model: bytes,
    host: str | None = None,
    options: Mapping[str, Any] | None = None,
    kernels: str = "reference",
) -> Placement:
    """Returns where the nodes of a model run, without running it, which the host may not be able
    to."""
    delegate = load_delegate(host, options)
    gpu = interpreter(model, host, kernels, experimental_delegates=[delegate])
    _resolves(gpu, host)
    return placement(delegate)


def placement(made: Any, rows: Collection[str] | None = None, titled: bool = False) -> Placement:
    """Returns a summary of the report of a delegate or session. `rows` are the operators of its
    table (None: those of TFLite); where they are `titled`, sentences begin with the operator."""
    from tflgpu_plugin.providers.tflite.ops import HOST_OPS

    report = tflgpu_plugin.report(made)
    partitions = [partition for partition in report.partitions if partition.live]
    left = [node for node in report.nodes if node.reason is not None]
    sentences = [f"{node.op}: {node.reason}" if titled else str(node.reason) for node in left]
    listed = [node for node in report.nodes if node.op in (HOST_OPS if rows is None else rows)]
    return Placement(
        on_gpu=report.count(GPU),
        total=len(report.nodes),
        partitions=len(partitions),
        runs=tuple(partition.runs for partition in partitions),
        failures=sum(partition.failures for partition in partitions),
        sentences=tuple(dict.fromkeys(sentences)),
        adapter=report.adapter.name if report.adapter else "",
        gpu_nodes=frozenset(n.id for n in report.nodes if n.where == GPU and n.graph == 0),
        eligible=(sum(node.where == GPU for node in listed), len(listed)),
    )


def registers(model: bytes, host: str | None = None, kernels: str = "reference") -> bool:
    """Whether the host has all the operators of a model, at their versions."""
    try:
        made = interpreter(model, host, kernels)
    except ValueError:
        return False
    return not tflite_file.custom_operators(model) or _resolves(made, host)


def _resolves(made: Any, host: str | None) -> bool:
    """Whether the host has all kernels; a missing custom operator is only detected when its nodes
    are prepared."""
    try:
        hosts.host(host).allocate(made)
    except hosts.Lacking:
        return False
    return True


def load_delegate(host: str | None = None, options: Mapping[str, Any] | None = None) -> Any:
    """Returns our delegate through the host's own `load_delegate`."""
    return hosts.host(host).delegate(options)


def random_array(value: Input, seed: Sequence[int]) -> Array:
    """Returns seeded values in [low, high); also integers and booleans."""
    random = np.random.default_rng(seed)
    kind = np.dtype(NUMPY_DTYPES[value.dtype])
    if kind == np.bool_:
        return random.integers(0, 2, value.shape).astype(np.bool_)
    if kind.kind in "iu":
        return random.integers(
            int(value.low), max(int(value.high), int(value.low) + 1), value.shape
        ).astype(kind)
    values = random.uniform(value.low, value.high, value.shape)
    if value.step:
        values = np.round(values / value.step) * value.step
    return values.astype(kind)


def case_feeds(case: Case, runs: int = 0) -> list[Feed]:
    """Returns inputs for `runs` invocations of a case (0: as many as it has), seeded from its
    name."""
    fed = [i for i in case.inputs if i is not None and i.data is None and not i.variable]
    seed = zlib.crc32(f"{case.op} {case.name}".encode())
    return [
        [random_array(value, [seed, run, k]) for k, value in enumerate(fed)]
        for run in range(runs or case.runs)
    ]


@cache
def cpu() -> str:
    """Returns the instruction sets that programs see here, by which hosts select their kernels.
    (Those of /proc/cpuinfo are the machine's even where a program is emulated.)"""
    try:
        found = importlib.import_module("numpy._core._multiarray_umath").__cpu_features__
    except (ImportError, AttributeError):
        found = importlib.import_module("numpy.core._multiarray_umath").__cpu_features__
    return " ".join(name for name, there in found.items() if there)


def cache_folder() -> Path:
    """Returns the folder of reference outputs: $TFLGPU_TEST_CACHE, or a folder of the user's
    cache."""
    base = os.environ.get("TFLGPU_TEST_CACHE")
    if base:
        return Path(base)
    return (
        Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
        / "tflgpu-plugin"
        / "references"
    )


def cached_on_cpu(
    model: bytes, feeds: Sequence[Feed], host: str | None = None, kernels: str = "reference"
) -> list[Outputs]:
    """Returns the result of `run_on_cpu`, cached by model bytes, inputs, host version, kernels and
    kind of CPU."""
    host = host or installed()[0]
    digest = hashlib.sha256(model)
    digest.update(f"{host} {version(host)} {kernels} {cpu()} {len(feeds)}".encode())
    for feed in feeds:
        for array in feed:
            digest.update(np.ascontiguousarray(array).tobytes())
    path = cache_folder() / f"{digest.hexdigest()[:32]}.npz"
    if path.exists():
        return _read(path, len(feeds))
    results = run_on_cpu(model, feeds, host, kernels)
    _write(path, results)
    return results


def _read(path: Path, runs: int) -> list[Outputs]:
    with np.load(path) as stored:
        names = list(stored.files)
        return [[stored[n] for n in names if n.startswith(f"run{run}_")] for run in range(runs)]


def _write(path: Path, results: Sequence[Outputs]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.stem}.{os.getpid()}.tmp.npz")
    named = {
        f"run{r}_{k:03d}": a for r, outputs in enumerate(results) for k, a in enumerate(outputs)
    }
    np.savez(partial, **named)
    partial.replace(path)
