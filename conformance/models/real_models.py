"""Compares real models with the host's reference kernels: feeds, outputs, and tolerances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from conformance import host, tolerance
from conformance.host import Array, Feed, Outputs, Placement
from conformance.models import model_inputs, split_models, tflite_file

DOCUMENTED = (
    "deeplabv3_257_mv_gpu",
    "mobilenet_v1_1.0_224_float_from_quant",
    "posenet_mobilenet_v1_100_257x257_multi_kpt_float_from_quant",
    "ssd_mobilenet_v1_coco_float_from_quant",
)
FINAL = ("SOFTMAX", "LOGISTIC")
INTEGER = ("int8", "uint8")
NUDGES = 3  # inputs that differ in the last bit
# Puts values where the largest of others were: of two that are nearly equal, rounding tells which.
CHOOSES = "MaxPoolingWithArgmax2D"
AFTER_FINAL = {"RESHAPE", "SQUEEZE", "CUSTOM"}


@dataclass(frozen=True)
class Comparison:
    """One feed of one model: the worst relative error over outputs, and it as a share of what is
    allowed."""

    feed: str
    error: float
    share: float
    text: str


@dataclass(frozen=True)
class Outcome:
    """A model's comparisons and where its nodes ran. `mixed`: some nodes with 8-bit weights ran
    here, or their float32 neighbours did, and some on the CPU."""

    comparisons: list[Comparison]
    placement: Placement
    expected: list[Outputs]
    got: list[Outputs]
    mixed: bool = False


def before_final(content: bytes) -> bytes:
    """Returns the model with the inputs of its final softmax and logistic nodes as additional
    outputs. Probabilities hide errors of the logits, so both are compared. A node is final when
    nothing but reshapes and custom operators (a detector's post-processing) reads its result."""
    schema = tflite_file.schema()
    model = schema.ModelT.InitFromPackedBuf(content, 0)
    graph = model.subgraphs[0]
    codes = tflite_file.operator_names(model)
    readers: dict[int, set[str]] = {}
    for operator in graph.operators:
        for tensor in operator.inputs:
            readers.setdefault(int(tensor), set()).add(codes[operator.opcodeIndex])
    extra = [
        int(o.inputs[0])
        for o in graph.operators
        if codes[o.opcodeIndex] in FINAL and readers.get(int(o.outputs[0]), set()) <= AFTER_FINAL
    ]
    return tflite_file.with_outputs(content, extra) if extra else content


def compare(
    entry: Mapping[str, Any],
    name: str,
    options: Mapping[str, Any] | None = None,
    *,
    beside: str | None = None,
    most: int | None = None,
) -> Outcome:
    """Runs a model of models.json in a host, on all its feeds or the first `most`, and compares
    every output with the reference kernels. `beside` selects the kernels of nodes left to the CPU;
    the default are the reference kernels.

    A dynamic-range model is compared with one that has float32 weights in exactly the nodes that
    ran here. Other nodes may be left to the CPU's hybrid kernels, which round their factors to 8
    bits: there a one-bit change of an input can change the result by several percent, on the CPU
    alone, and that much is allowed (see `nudged`).

    If a model returns choices, such as classes or boxes, these must be correct for its own scores.
    """
    content = before_final(model_inputs.path(entry).read_bytes())
    feeds = dict(list(model_inputs.feeds(entry).items())[:most])
    arrays = list(feeds.values())
    told, kernels = host.oracle(content, name)
    run = fresh_runs(content, arrays, name, options, beside or kernels)
    ours, hybrid = run.placement.gpu_nodes, frozenset[int]()
    if entry["kind"] == "dynamic-range":
        hybrid = split_models.hybrid(content)
    mixed = bool(ours) and not hybrid <= ours
    true = split_models.widened(content, hybrid & ours) if hybrid else content
    expected = reference(true, arrays, told, kernels)
    own = [reference(true, arrays, told, "optimized")] if kernels == "reference" else [expected]
    for seed in range(NUDGES if mixed else 0):
        own.append(reference(true, [nudged(feed, seed) for feed in arrays], told, kernels))
    comparisons = [
        compare_run(entry, feed, wanted, got, others)
        for feed, wanted, got, *others in zip(feeds, expected, run.outputs, *own, strict=True)
    ]
    if CHOOSES in tflite_file.custom_operators(true):
        for k, (one, feed) in enumerate(zip(comparisons, arrays, strict=True)):
            if not one.share <= 1.0:
                near = reference(true, [nudged(feed, s) for s in range(NUDGES)], told, kernels)
                found = [compare_run(entry, one.feed, w, run.outputs[k], [w]) for w in near]
                comparisons[k] = min(one, *found, key=lambda c: c.share)
    return Outcome(comparisons, run.placement, expected, run.outputs, mixed)


def nudged(feed: Feed, seed: int) -> Feed:
    """Returns the feed with every float32 changed by one bit up or down."""
    random = np.random.default_rng(seed)
    found = []
    for array in feed:
        if array.dtype == np.float32:
            away = np.where(random.random(array.shape) < 0.5, -np.inf, np.inf)
            array = np.nextafter(array, away.astype(np.float32))
        found.append(array)
    return found


def reference(content: bytes, feeds: Sequence[Feed], name: str, kernels: str) -> list[Outputs]:
    """Returns cached answers of the CPU kernels; each feed in a new interpreter, so that
    state is not kept between feeds."""
    return [host.cached_on_cpu(content, [feed], name, kernels)[0] for feed in feeds]


def fresh_runs(
    content: bytes,
    feeds: Sequence[Feed],
    name: str,
    options: Mapping[str, Any] | None,
    kernels: str,
) -> host.GpuRun:
    """Runs the feeds through the delegate, one after the other in one interpreter whose variables
    are reset between."""
    return host.run_on_gpu(content, feeds, name, options, kernels, range(len(feeds)))


def compare_run(
    entry: Mapping[str, Any],
    feed: str,
    expected: Outputs,
    got: Outputs,
    own: Sequence[Outputs],
) -> Comparison:
    """Returns the worst output of one run. `own` are the host's own answers in other ways."""
    judge = _steps if entry["kind"] in INTEGER else _output
    worst = Comparison(feed, 0.0, 0.0, "")
    for k, (wanted, found, *others) in enumerate(zip(expected, got, *own, strict=True)):
        one = judge(feed, k, wanted, found, others)
        if one.share > worst.share or not worst.text:
            worst = one
    return worst


def _steps(feed: str, k: int, expected: Array, got: Array, own: Sequence[Array]) -> Comparison:
    """Judges outputs of integer models: 99 % of values must be within two steps (for floats, steps
    of 1 / 255 of the range)."""
    if expected.shape != got.shape or expected.size == 0:
        return _output(feed, k, expected, got, own)
    wanted, found = expected.astype(np.float64), got.astype(np.float64)
    step = 1.0 if expected.dtype.kind in "iu" else float(np.ptp(wanted)) / 255 or 1.0
    difference = np.nan_to_num(np.abs(wanted - found), nan=np.inf)
    far = float((difference > tolerance.MODEL_STEPS * step * (1 + tolerance.MODEL)).mean())
    largest = float(difference.max()) / step
    text = f"{feed}, output {k} {list(expected.shape)}: {largest:.3g} steps, {far:.2%} over two"
    return Comparison(feed, largest, far / tolerance.MODEL_STEPS_SHARE, text)


def _output(feed: str, k: int, expected: Array, got: Array, own: Sequence[Array]) -> Comparison:
    return measure(feed, k, expected, got, max(allowed(expected, other) for other in own))


def allowed(expected: Array, own: Array) -> float:
    """Returns the tolerance of an answer, where `own` is the answer of the host's other kernels."""
    wanted, other = expected.astype(np.float64), own.astype(np.float64)
    bound = tolerance.MODEL * (float(np.abs(wanted).max(initial=0)) or 1.0)
    if wanted.shape != other.shape:
        return bound
    return max(bound, tolerance.MODEL_OWN * float(np.abs(wanted - other).max(initial=0)))


def measure(feed: str, k: int, expected: Array, got: Array, allowed: float) -> Comparison:
    """Returns the worst element of output k. NaN is right where it is expected."""
    if expected.shape != got.shape:
        return Comparison(
            feed, np.inf, np.inf, f"output {k} has shape {got.shape}, not {expected.shape}"
        )
    if expected.size == 0:
        return Comparison(feed, 0.0, 0.0, f"output {k} is empty")
    wanted, found = expected.astype(np.float64), got.astype(np.float64)
    largest = float(np.abs(wanted).max()) or 1.0
    difference = np.abs(wanted - found)
    difference = np.where(
        np.isnan(difference) & ~(np.isnan(wanted) & np.isnan(found)), np.inf, difference
    )
    error = float(np.nanmax(difference))
    text = (
        f"{feed}, output {k} {list(expected.shape)}: largest error {error:.3g} of {largest:.3g}, "
        f"allowed {allowed:.3g}"
    )
    return Comparison(feed, error / largest, error / allowed, text)


def top_class(outputs: Outputs) -> int:
    """Returns the class with the highest score; scores are the model's first output."""
    return int(np.argmax(outputs[0].ravel()))


def stem(entry: Mapping[str, Any]) -> str:
    return Path(str(entry["file"])).stem
