"""How far from the host's reference kernels an answer may be: the only place with such numbers.

What is computed is measured from float64 (`conformance.references.truth`), element by element: some
units in the last place (ULP) of the true value, and a multiple of its condition, which is how far
it moves when each number that goes in is off by one rounding. The magnitude of anything else buys
nothing. Starting points are the WebNN conformance tests of web-platform-tests and the Vulkan
specification."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tflgpu_plugin.ir import bfloat16

Array = npt.NDArray[Any]

# Set for a driver that makes no infinity or NaN (tools/worst.py), since WGSL does not promise them:
# elements whose expected value is one of these are skipped.
FINITE_ONLY = os.environ.get("CONFORMANCE_FINITE_ONLY") == "1"

UNIT = 2.0**-24  # unit roundoff of f32: half an ULP of 1.0
SMALLEST_NORMAL = 2.0**-126  # arithmetic on a device may flush what is below to zero

# Whole models and graphs, of each output's largest magnitude.
MODEL = 1e-4
MODEL_OWN = 4.0  # or times the host's own difference between optimized and reference kernels
MODEL_STEPS, MODEL_STEPS_SHARE = 2, 0.01  # models in integers: few outputs are further off
GRAPH = 3e-5  # up to 20 operators that each keep a standard deviation of 1
FAINT = 1e-3  # an output of a graph counts as at least so large
FLOAT_PART = 1e-5  # float results in quantized models, of the largest magnitude
# Graphs of any operators: or this many times what the host's answer moves by when inputs do by
# NUDGE (16 ULP), since differences of nearly equal numbers magnify every rounding error.
MOVED, NUDGE = 4.0, 1e-6
BOX = 1e-3  # corners of a detector's boxes, of the picture

# Results in int8 and uint8 against TFLite's reference kernels, by rule: how many levels a value may
# be off, and how large a share of the values. `RULES` has the ops that are not exact.
IN_8_BITS = {"exact": (0, 0.0), "step": (1, 1e-4)}
RULES = {"resize_bilinear": "step"}

# Values stored as float16 (is_precision_loss_allowed). One rounding is half a unit in the last
# place of float16, which is 2^13 of float32; below 2^-14 units are all 2^-24.
HALF_ULP, HALF_SUBNORMAL = 2.0**12, 2.0**-25
HALF_UNITS = 2.0**13
# Whole models: of each output's largest magnitude, and times the error of a simulation of float16
# storage (`half_storage`), the largest and that in the mean; all must hold.
HALF_MODEL, HALF_SIMULATED = 1e-2, 2.0


@dataclass(frozen=True)
class Accuracy:
    """One class. Allowed: `ulp` units in the last place of the true value, and `moved` times what
    the value moves by when each number that goes in is off by one rounding (its condition), or one
    rounding of the value itself. Of sums of n terms the latter counts sqrt(n) times, as roundings
    of either sign add up, and never more than n times, which is what the worst signs come to."""

    ulp: float
    moved: float = 0.0


CLASSES: dict[str, Accuracy] = {
    "exact": Accuracy(0),
    "elementwise": Accuracy(2),
    "function": Accuracy(8),
    "transcendental": Accuracy(8, moved=4),
    "accumulate": Accuracy(4, moved=4),
    "reduction": Accuracy(4, moved=4),
}


# Absolute error of a host's own CPU kernels where it is larger than what a class allows, measured
# against float64: onnxruntime's logistic is a rational approximation, off by 1.7e-7 near zero, and
# its ELU subtracts 1 from a rounded exponential.
HOST_FLOORS: dict[tuple[str, str], float] = {
    ("onnxruntime", "LOGISTIC"): 2.0**-22,
    ("onnxruntime", "ELU"): 2.0**-23,
    ("onnxruntime", "LSTM"): 2.0**-22,  # of its gates
    ("onnxruntime", "UNIDIRECTIONAL_SEQUENCE_LSTM"): 2.0**-22,
}
# The host's answer is a witness of what the case means: this many times the tolerance it may be
# off.
WITNESS = 100.0


@dataclass(frozen=True)
class Bound:
    """ULP and absolute error (one for all elements, or one for each) allowed for one tensor.
    `half`: its values are stored as float16, which may add the rounding of that. `truth`: the
    values in float64, None where the expected ones are exact."""

    ulp: float
    absolute: Any
    half: bool = False
    truth: Array | None = None


@dataclass(frozen=True)
class Verdict:
    """Result of a comparison. `share` is the worst error over its tolerance (above 1 fails), at
    `index`."""

    passed: bool
    share: float
    index: tuple[int, ...] = ()
    expected: Any = None
    got: Any = None
    ulp: float = 0.0
    reason: str = ""

    def __str__(self) -> str:
        if self.reason:
            return self.reason
        place = list(self.index)
        return (
            f"worst at {place}: expected {self.expected!r}, got {self.got!r}, {self.ulp:.1f} ULP, "
            f"{self.share:.2f} of the tolerance"
        )


def bound(accuracy: str, truth: Array, moved: Array, terms: int = 1) -> Bound:
    """Returns the bound of an accuracy class around these true values, for sums of this many terms;
    `moved` is the condition: by how much rounding of the inputs changes each element."""
    row = CLASSES[accuracy]
    if accuracy == "exact" or truth.dtype.kind != "f":
        return Bound(0.0, 0.0)
    with np.errstate(invalid="ignore", over="ignore"):
        roundings = row.moved * min(terms**0.5, terms) * (moved + UNIT * np.abs(truth))
    flushed = np.where(np.abs(truth) < SMALLEST_NORMAL, terms * SMALLEST_NORMAL, 0.0)
    return Bound(row.ulp, np.maximum(np.nan_to_num(roundings), flushed), truth=truth)


def as_half(allowed: Bound) -> Bound:
    """Returns the bound of a result that is stored as float16 while sums are float32: one more
    rounding. Results that are only moved or selected (class exact) are not rounded again."""
    return replace(allowed, half=allowed.ulp > 0.0)


def multiplied_in_half(allowed: Bound, largest: float, run: int) -> Bound:
    """Returns the bound if products, and short runs of them, are summed in float16: the effect
    of float32 roundings is scaled to the unit of float16, which is 2^13 times as large. Small
    products lose digits, each up to half of 2^-24 in units where the `largest` weight times the
    `run` is 1."""
    lost = run * HALF_SUBNORMAL * largest * run
    return replace(as_half(allowed), absolute=allowed.absolute * HALF_UNITS + lost)


def in_bfloat16(bits: Array, allowed: Bound) -> str:
    """Returns the faults of bfloat16 results that are computed in float32: each must be what some
    number within `allowed` is rounded to. Two answers differ by one unit in the last place where a
    tie lies between, and nowhere else."""
    true, got = allowed.truth, bfloat16.values(bits).astype(np.float64)
    assert true is not None
    if true.shape != got.shape:
        return f"expected {list(true.shape)}, got {list(got.shape)}"
    with np.errstate(invalid="ignore", over="ignore"):
        off = allowed.ulp * np.spacing(np.abs(true).astype(np.float32)) + allowed.absolute
        off = np.where(np.isfinite(true), off, 0.0)
        least, most = (
            bfloat16.values(bfloat16.bits((true + way * off).astype(np.float32))) for way in (-1, 1)
        )
    fits = ((least <= got) & (got <= most)) | (np.isnan(true) & np.isnan(got))
    wrong = [tuple(map(int, place)) for place in np.argwhere(~fits)]
    told = [f"{place}: expected {true[place]}, got {got[place]}" for place in wrong[:1]]
    return "".join(f"{len(wrong)} of {true.size} are off, at {one}" for one in told)


def compare(expected: Array, got: Array, allowed: Bound) -> Verdict:
    """Compares one tensor with its reference: shape and dtype must be equal, values within
    `allowed`. Where NaN or infinity is expected, the value must be the same (any NaN for NaN);
    elsewhere they fail."""
    if expected.shape != got.shape or expected.dtype != got.dtype:
        shapes = (
            f"expected {expected.dtype}{list(expected.shape)}, got {got.dtype}{list(got.shape)}"
        )
        return Verdict(False, np.inf, reason=shapes)
    if expected.size == 0:
        return Verdict(True, 0.0)
    if expected.dtype.kind != "f":
        return _exact(expected, got)
    with np.errstate(invalid="ignore", over="ignore"):
        return _floats(expected, got, allowed)


def in_8_bits(rule: str, expected: Array, got: Array) -> Verdict:
    """Compares stored numbers of a quantized tensor by the rule of its op."""
    if expected.shape != got.shape or expected.dtype != got.dtype:
        return compare(expected, got, Bound(0.0, 0.0))
    verdict = _exact(expected, got)
    steps, share = IN_8_BITS[rule]
    off = np.abs(expected.astype(np.int32) - got)
    if verdict.passed or off.max(initial=0) > steps or (off > 0).mean() > share:
        return verdict
    return replace(verdict, passed=True, share=float((off > 0).mean() / share))


def moving(expected: Array, got: Array, moved: Array) -> tuple[float, float]:
    """Returns (largest error, limit) for an output of a graph; `moved` is the host's answer to
    inputs that are off by NUDGE. Where NaN or infinity is expected, the value must be the same."""
    same = (expected == got) | (np.isnan(expected) & np.isnan(got))
    with np.errstate(invalid="ignore"):
        error = np.where(same, 0.0, np.abs(expected.astype(np.float64) - got))
        shift = np.nan_to_num(np.abs(expected - moved), nan=0.0, posinf=0.0)
    finite = np.abs(expected[np.isfinite(expected)])
    largest = max(FAINT, float(finite.max(initial=0.0)))
    limit = max(GRAPH * largest, MOVED * float(shift.max(initial=0.0)))
    return float(np.nan_to_num(error, nan=np.inf).max(initial=0.0)), limit


def _exact(expected: Array, got: Array) -> Verdict:
    wrong = np.flatnonzero(expected.ravel() != got.ravel())
    if wrong.size == 0:
        return Verdict(True, 0.0)
    place = int(wrong[0])
    index = tuple(int(i) for i in np.unravel_index(place, expected.shape))
    distance = abs(float(expected.ravel()[place]) - float(got.ravel()[place]))
    return Verdict(
        False, np.inf, index, expected.ravel()[place].item(), got.ravel()[place].item(), distance
    )


def _floats(expected: Array, got: Array, allowed: Bound) -> Verdict:
    wanted, found = _wanted(expected, allowed).ravel(), got.astype(np.float64).ravel()
    error = np.abs(wanted - found)
    same = (wanted == found) | (np.isnan(wanted) & np.isnan(found))
    if FINITE_ONLY:
        same |= ~np.isfinite(wanted)
    error = np.where(same, 0.0, np.where(np.isnan(error), np.inf, error))
    unit = np.spacing(np.abs(wanted).astype(expected.dtype)).astype(np.float64)
    unit = np.where(np.isfinite(unit), unit, np.finfo(np.float32).eps)
    tolerance = allowed.ulp * unit + np.ravel(allowed.absolute)
    if allowed.half:
        tolerance = tolerance + np.maximum(HALF_ULP * unit, HALF_SUBNORMAL)
    share = np.where(error == 0.0, 0.0, error / np.maximum(tolerance, np.finfo(np.float64).tiny))
    worst = int(np.argmax(share))
    index = tuple(int(i) for i in np.unravel_index(worst, expected.shape))
    ulp = float(error[worst] / unit[worst])
    largest = float(share[worst])
    return Verdict(largest <= 1.0, largest, index, float(wanted[worst]), float(found[worst]), ulp)


def _wanted(expected: Array, allowed: Bound) -> Array:
    """Returns the true values; where they or the expected ones are not finite in the tensor's type,
    the expected ones, since hosts differ in these."""
    wide = expected.astype(np.float64)
    if allowed.truth is None:
        return wide
    finite = np.isfinite(wide) & np.isfinite(allowed.truth.astype(expected.dtype))
    return np.where(finite, allowed.truth, wide)
