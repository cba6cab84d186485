"""How far from the host's reference kernels an answer may be: the only place with such numbers.

A bound has two parts, and an element passes when it is within either: units in the last place (ULP)
of the expected value, and an absolute floor for sums that nearly cancel. Starting points are the
WebNN conformance tests of web-platform-tests (add 1, sigmoid 34, exp 32, matmul 2k, reduce_sum n,
softmax 3n+3 ULP); the precision of `exp` is that of the Vulkan specification (3 + 2|x| ULP).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Shape = Sequence[int]

UNIT = 2.0**-24  # unit roundoff of f32: half an ULP of 1.0
SUBNORMAL = 2.0**-125  # arithmetic on a device may flush values below 2**-126 to zero

# Whole models and graphs, of each output's largest magnitude.
MODEL = 1e-4
MODEL_OWN = 4.0  # or times the host's own difference between optimized and reference kernels
MODEL_STEPS, MODEL_STEPS_SHARE = 2, 0.01  # models in whole numbers: few outputs are further off
GRAPH = 3e-5  # up to 20 operators that each keep unit spread
FAINT = 1e-3  # an output of a graph counts as at least so large
FLOAT_PART = 1e-5  # float results in quantized models, of the largest magnitude
# Graphs of any operators: or so many times what the host's answer moves by when inputs do by NUDGE
# (16 ULP), since differences of nearly equal numbers magnify every rounding error.
MOVED, NUDGE = 4.0, 1e-6
BOX = 1e-3  # corners of a detector's boxes, of the picture

# Results in int8 and uint8, in steps of their grid, by the rule of the op's row (`Op.in_8_bits`).
IN_8_BITS = {"exact": 0, "step": 1, "steps": 3}

# Values stored as float16 (is_precision_loss_allowed). One rounding is half a unit in the last
# place of float16, which is 2^13 of float32; below 2^-14 units are all 2^-24.
HALF_ULP, HALF_SUBNORMAL = 2.0**12, 2.0**-25
# Whole models: of each output's largest magnitude, and times the error of a simulation of float16
# storage (`half_storage`), the largest and that in the mean; all must hold.
HALF_MODEL, HALF_SIMULATED = 1e-2, 2.0


@dataclass(frozen=True)
class Accuracy:
    """One class. ULP allowed: `ulp + per_term * n + per_magnitude * largest input`, n terms being
    summed.

    Floor: `floor * UNIT * (n + 4) * term`, for terms of that magnitude: rounding errors of a
    running sum of n terms with random signs add up to a fraction of n * UNIT * term. Terms of one
    sign give a result of n terms' magnitude, whose error the ULP part bounds.
    """

    ulp: float
    per_term: float = 0.0
    per_magnitude: float = 0.0
    floor: float = 0.0


CLASSES: dict[str, Accuracy] = {
    "exact": Accuracy(0),
    "elementwise": Accuracy(1),
    "transcendental": Accuracy(34, per_term=0.5, per_magnitude=2),
    "cancelling": Accuracy(34, per_term=0.5, per_magnitude=2, floor=1),
    "accumulate": Accuracy(8, per_term=0.5, floor=3),
    "reduction": Accuracy(8, per_term=0.5, floor=3),
}


# Absolute error of a host's own CPU kernels where it is larger than what a class allows, measured
# against float64: onnxruntime's logistic is a rational approximation, off by 1.7e-7 near zero, and
# its ELU subtracts 1 from a rounded exponential.
HOST_FLOORS: dict[tuple[str, str], float] = {
    ("onnxruntime", "LOGISTIC"): 2.0**-22,
    ("onnxruntime", "ELU"): 2.0**-23,
}


@dataclass(frozen=True)
class Bound:
    """ULP and absolute error allowed for one tensor. `half`: its values are stored as float16,
    which may add the rounding of that."""

    ulp: float
    absolute: float
    half: bool = False


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


def bound(accuracy: str, terms: int = 1, term: float = 1.0, largest: float = 1.0) -> Bound:
    """The bound of a class for sums of `terms` values of magnitude `term`, and this largest
    input."""
    row = CLASSES[accuracy]
    if accuracy == "exact":
        return Bound(0.0, 0.0)
    summed = terms if terms > 1 else 0
    ulp = row.ulp + row.per_term * summed + row.per_magnitude * largest
    return Bound(ulp, max(SUBNORMAL, row.floor * UNIT * (terms + 4) * term))


def as_half(allowed: Bound) -> Bound:
    """The bound of a result that is stored as float16, sums being float32: one rounding more. What
    is moved or chosen (class exact) is not rounded again."""
    return replace(allowed, half=allowed.ulp > 0.0)


def compare(expected: Array, got: Array, allowed: Bound) -> Verdict:
    """Compare one tensor with its reference: shape and dtype must be equal, values within
    `allowed`.

    Expected NaN or infinity must be met by the same (NaN by NaN); an unexpected one fails.
    """
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
    """Compare stored numbers of a quantized tensor: none more steps off than its op's rule says."""
    if expected.shape != got.shape or expected.dtype != got.dtype:
        return compare(expected, got, Bound(0.0, 0.0))
    verdict = _exact(expected, got)
    steps = np.abs(expected.astype(np.int32) - got).max(initial=0)
    if verdict.passed or steps > IN_8_BITS[rule]:
        return verdict
    return replace(verdict, passed=True, share=float(steps / IN_8_BITS[rule]))


def moving(expected: Array, got: Array, moved: Array) -> tuple[float, float]:
    """(largest error, limit) for an output of a graph; `moved` is the host's answer to inputs that
    are off by NUDGE. Expected NaN and infinity must be met by the same."""
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
    wanted, found = expected.astype(np.float64).ravel(), got.astype(np.float64).ravel()
    error = np.abs(wanted - found)
    same = (wanted == found) | (np.isnan(wanted) & np.isnan(found))
    error = np.where(same, 0.0, np.where(np.isnan(error), np.inf, error))
    unit = np.spacing(np.abs(expected).ravel()).astype(np.float64)
    unit = np.where(np.isfinite(unit), unit, np.finfo(np.float32).eps)
    tolerance = np.maximum(allowed.ulp * unit, allowed.absolute)
    if allowed.half:
        tolerance = tolerance + np.maximum(HALF_ULP * unit, HALF_SUBNORMAL)
    share = np.where(error == 0.0, 0.0, error / np.maximum(tolerance, np.finfo(np.float64).tiny))
    worst = int(np.argmax(share))
    index = tuple(int(i) for i in np.unravel_index(worst, expected.shape))
    ulp = float(error[worst] / unit[worst])
    largest = float(share[worst])
    return Verdict(largest <= 1.0, largest, index, float(wanted[worst]), float(found[worst]), ulp)


TRANSPOSED = ("TRANSPOSE_CONV", "CUSTOM Convolution2DTransposeBias")
PRODUCTS = (
    "CONV_2D",
    "DEPTHWISE_CONV_2D",
    *TRANSPOSED,
    "FULLY_CONNECTED",
    "LSTM",
    "CONV_3D",
    "BATCH_MATMUL",
)
MEANS = ("AVERAGE_POOL_2D", "MEAN")


def accumulation(
    host_op: str, inputs: Sequence[Shape | None], outputs: Sequence[Shape], window: Shape = ()
) -> int:
    """How many terms one output element sums, by TFLite operator. `window` is a pooling's
    filter."""
    first = inputs[0] or (1,)
    weights = (inputs[1] if len(inputs) > 1 else None) or (1,)
    if host_op in ("CONV_2D", *TRANSPOSED):  # [O, H, W, I]
        return prod(weights[1:])
    if host_op == "DEPTHWISE_CONV_2D":  # [1, H, W, O]
        return prod(weights[:-1])
    if host_op == "FULLY_CONNECTED":
        return int(weights[-1])
    if "LSTM" in host_op:  # inputs and recurrent inputs
        return int((inputs[2] or (1,))[-1]) + int(((inputs[6:7] or (None,))[0] or (0,))[-1])
    if host_op == "AVERAGE_POOL_2D":
        return prod(window)
    if host_op == "CONV_3D":  # [D, H, W, I, O]
        return prod(weights[:-1])
    if host_op == "BATCH_MATMUL":
        return prod(first[-2:]) // max(1, outputs[0][-2])
    if host_op in ("MEAN", "SUM", "REDUCE_PROD"):
        return max(1, prod(first) // max(1, prod(outputs[0])))
    if host_op in ("SOFTMAX", "LOG_SOFTMAX"):
        return int(first[-1])
    if host_op == "RESIZE_BILINEAR":  # a place is index * scale: its rounding grows with the extent
        return max(*first[1:3], *outputs[0][1:3])
    return 1


def magnitude(host_op: str, operands: Sequence[float], terms: int) -> float:
    """Magnitude of one summed term, given the largest value of each float operand, runtime ones
    first."""
    largest = max(operands, default=1.0)
    if host_op in PRODUCTS and len(operands) > 1:
        return operands[0] * operands[1]
    return largest / terms if host_op in MEANS else largest
