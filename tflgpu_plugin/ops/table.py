"""The rows of the op table: all traits by which other modules know an op."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from tflgpu_plugin.ir.graph import BITS_ONLY, Array, EpilogueOp, Graph, Node, NotConstant, Shape
from tflgpu_plugin.ir.host_op import count_given
from tflgpu_plugin.ir.quantization import WHOLE, Levels
from tflgpu_plugin.ir.refusal import Refusal
from tflgpu_plugin.ir.target import Target
from tflgpu_plugin.ops.attributes import Attribute, refuse_attributes

if TYPE_CHECKING:
    from tflgpu_plugin.ops.decompose import Decomposition
    from tflgpu_plugin.ops.lowering import Lowering
    from tflgpu_plugin.ops.views import View

BIAS, GATES = 2, 3  # positions of these inputs in an op with weights

# Kinds of ops; `tests/ops/test_totality.py` says which traits a row of each kind must state.
KINDS = (
    "elementwise",  # per element, or per index of several inputs
    "product",  # sums of products, with weights or without
    "window",  # over windows of an image
    "reduction",  # along axes
    "movement",  # results are elements of the inputs, in another order or number
    "choice",  # positions of elements
    "composite",  # always decomposes into other ops
)


class Weights(NamedTuple):
    """How an op uses its second input as weights of its first: [outputs, ..., inputs] with `axis` 0
    (kernels read vec4 of them) or [..., outputs] with -1. `flattens`: each row of weights
    multiplies the same elements, without groups of channels. `spreads`: a result element depends on
    the weights of one phase of the strides."""

    axis: int = 0
    flattens: bool = False
    spreads: bool = False


class Errors(NamedTuple):
    """The effect of an op on rounding errors of its inputs (see `compile.error_sensitivity`).

    `passes`: the share of the mean square error that reaches the result. `averages`: the result
    averages many values, with errors of either sign. `keeps_magnitude`: results are as large as the
    inputs. `bounded`: results are at most 1 in magnitude. `keeps_ratios`, of a transcendental
    function: relative errors of inputs are relative errors of results, as for powers. `relative`:
    errors matter relative to each value, as under a logarithm. `normalizes`: results have magnitude
    1, whatever the inputs. `choice`: the position of an output that says which value was selected,
    which the smallest error may change. `floors`: the first parameter of the fused step is a lower
    limit; if it is 0 the step is a `GATE`."""

    passes: float = 1.0
    averages: bool = False
    keeps_magnitude: bool = False
    bounded: bool = False
    keeps_ratios: bool = False
    relative: bool = False
    normalizes: bool = False
    choice: int | None = None
    floors: bool = False


AS_THEY_ARE = Errors()
MOVED = Errors(keeps_magnitude=True)
AVERAGED = Errors(averages=True)
BOUNDED = Errors(bounded=True)
RELATIVE = Errors(relative=True)
NORMALIZED = Errors(normalizes=True)
# An activation that is 0 for negative arguments (K. He and others, "Delving Deep into
# Rectifiers", 2015, section 2.2, derives this for the values themselves).
GATE = Errors(passes=0.5)


class Rounding(NamedTuple):
    """How hosts compute an 8-bit result in fixed point. `parts(graph, node)`: the fractions of a
    step of the result to which they round first (one number, or one per channel). `stored`: they
    round the stored number, zero point included. `factor(graph, node)`: the scale of the integer
    accumulator, and the factor by which hosts requantize it; None for per-channel factors."""

    parts: Callable[[Graph, Node], tuple[float, ...]]
    stored: bool = False
    factor: Callable[[Graph, Node], tuple[float, float] | None] | None = None


class Int16(NamedTuple):
    """How hosts compute an op over quantized int16. `rewrite`: the name of the rewrite that makes
    its nodes (see `passes.quant.int16`; empty: only `quantize` does). `refuse(graph, node)` returns
    the refusal of a node that the hosts' arithmetic or ours does not take. `table(graph, node)`
    returns the hosts' results for all int16 numbers, as stored numbers (see `ops.lookup`).
    `bytes`: the same holds for 8 bits."""

    rewrite: str = ""
    refuse: Callable[[Graph, Node], Refusal | None] = lambda graph, node: None
    table: Callable[[Graph, Node], Array] | None = None
    bytes: bool = False


def unplanned(
    what: str, shapes: Callable[[Graph, Node], object], graph: Graph, node: Node
) -> Refusal | None:
    """Returns the refusal of a node whose output shapes cannot be inferred."""
    try:
        shapes(graph, node)
    except ValueError as error:
        code = "constant.required" if isinstance(error, NotConstant) else "shape.mismatch"
        return Refusal(code, f"{what} cannot be planned: {error}.")
    return None


def same_shape(graph: Graph, node: Node) -> list[Shape]:
    """Returns the shape of the first input, for ops whose result has it."""
    return [graph.shape(node.operand())]


def elements(times: int = 1) -> Callable[[Graph, Node], int]:
    """Returns the work of an op that takes this many operations per element of its first input."""
    return lambda graph, node: times * prod(graph.shape(node.operand()))


Given = TypeVar("Given")


@dataclass(frozen=True)
class Op:
    """A row of the table: the functions of an op, and traits by which other modules know it."""

    name: str
    # Returns a refusal, or None if the node can run.
    refuse: Callable[[Graph, Node, Target], Refusal | None]
    # Returns the shapes of the outputs, given those of the inputs and the values of constants.
    shapes: Callable[[Graph, Node], list[Shape]]
    # Records the launches of the node. With several forms it is an `ops.forms.Forms`.
    lower: Callable[[Lowering, Node], None]
    # Class of `conformance.tolerance`: exact, elementwise, function, transcendental, accumulate or
    # reduction.
    accuracy: str
    # Dtypes of value inputs and outputs.
    types: tuple[str, ...] = ("f32",)
    # Estimates the multiply-adds per run, which decide whether a partition pays (None: one per
    # output element).
    work: Callable[[Graph, Node], int] | None = None
    # Replaces the node by other nodes before lowering (see `ops.decompose`); returns whether it
    # did.
    decompose: Callable[[Decomposition, Node], bool] | None = None
    # meaning(*inputs, **attributes) computes the op in numpy if all inputs are known before a run
    # (None: by `views`, or not at all; see `ops.evaluation`). Raises ValueError where hosts differ
    # from numpy.
    meaning: Callable[..., Array] | None = None
    # Hosts differ in float results, by the order of sums or by rounding.
    inexact: bool = False
    # Pairs (position of a state input, position of the output that is its next value). Outputs for
    # which hosts have no tensor have negative positions, which count from the end.
    states: tuple[tuple[int, int], ...] = ()
    family: str = ""
    # The attributes that nodes may have (see `ops.attributes`).
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    # A letter per input: x required, ? optional, * any number.
    operands: str = "x"

    # ---- what passes may do with a node ----

    # One of KINDS.
    kind: str = ""
    # The lowering applies `node.epilogue` to the first output, so passes may add epilogue ops.
    fuses: bool = False
    # as_epilogue(graph, node, position) returns the equivalent epilogue op on the operand at this
    # position, None where there is none.
    as_epilogue: Callable[[Graph, Node, int], EpilogueOp | None] | None = None
    # The result is the input, clamped to these.
    limits: tuple[float, float] | None = None
    weights: Weights | None = None
    # Zero padding before the op may become its attribute `padding`.
    padding: bool = False
    # How the op works on tensors with permuted axes (see `passes.layout.propagate`; empty: only by
    # its `views`).
    follows: str = ""
    # What the second operand is to the first: a "term", "subtrahend", "factor" or "divisor".
    affine: str = ""
    # Positions of the constants of a dense layer that have a row for each output.
    output_rows: tuple[int, ...] = ()
    # The ops in whose place passes make this one.
    stands_for: tuple[str, ...] = ()
    # The results as views of the input, of ops that only move elements of it (see `ops.views`).
    views: Callable[[Graph, Node], Sequence[View]] | None = None
    # The result is the input with its axes in another "order", or its elements in another "shape".
    arranges: str = ""
    # Inputs are concatenated, so that empty ones add nothing.
    joins: bool = False
    # Without a value, it fills with zeros: the zero point of a quantized input.
    fills: bool = False
    # It only converts to another type.
    converts: bool = False
    # It only quantizes ("to") or dequantizes ("from").
    quantizes: str = ""
    # The second output ("makes") or the second input ("takes") has pooling indices, which each host
    # numbers in its own way.
    numbers_places: str = ""

    # ---- precision and quantization ----

    # Results may be sums too large for float16.
    accumulates: bool | None = None
    errors: Errors = AS_THEY_ARE
    # Results are elements of the "first" input or of "any" input, or zero; empty: they are
    # computed.
    keeps: str = ""
    # Hosts compute on stored numbers, so inputs and results must have one quantization (as with
    # `keeps`).
    same_quantization: bool = False
    rounding: Rounding | None = None
    # quantize(graph, node, levels) returns the node that computes a result with these levels from
    # stored numbers as hosts do, None where there is none.
    quantize: Callable[[Graph, Node, Levels], Node | None] | None = None
    int16: Int16 | None = None
    # It computes with the stored numbers of 8 and 16 bits, whatever their scale (see
    # `ops.stored_numbers`).
    stored: bool = False
    # A number beyond int32 (see `ops.unknown`) "passes" through the op, or the op "chooses" between
    # its last two inputs; empty: it must not get one.
    unknown: str = ""

    # ---- what the lowering can do ----

    # It works on each head of attention separately, and reads heads stored side by side.
    by_head: bool = False
    # How many of its first inputs it also reads in the host's order (see `ops.host_order`).
    takes_rows: int = 0
    # It adds the partial sums of a split-K launch (see `ops.split_depth`).
    adds_parts: bool = False
    # gated(graph, node): whether it multiplies the channels of the first input by the input at
    # GATES, per batch.
    gated: Callable[[Graph, Node], bool] | None = None
    # averages(graph, node): whether results are the means of each channel's pixels.
    averages: Callable[[Graph, Node], bool] | None = None

    @property
    def most(self) -> int | None:
        """Returns the number of operands that the op takes at most, None for any number."""
        return None if "*" in self.operands else len(self.operands)

    def taken(self, inputs: Sequence[Given]) -> Sequence[Given]:
        """Returns the inputs without absent ones at the end that the op has no place for."""
        return inputs[: count_given(inputs) if self.most is None else self.most]

    def misuse(self, attributes: Mapping[str, Any], inputs: Sequence[object]) -> Refusal | None:
        """Returns the refusal of inputs or attributes that the op lacks or does not take."""
        count, most = count_given(inputs), self.most
        if most is not None and count > most:
            said = f"{self.name} takes {most} inputs at most, not {count}."
            return Refusal("input.unsupported", said)
        wanted = self.operands if most is not None else "x" * max(count, 1)
        for position, mark in enumerate(wanted):
            if mark == "x" and (position >= count or inputs[position] is None):
                said = f"Input {position} of {self.name} is absent."
                return Refusal("input.missing", said)
        second = count > 1 and inputs[1] is not None
        return refuse_attributes(self.name, self.attributes, attributes, second)

    @property
    def forms(self) -> tuple[str, ...]:
        """Returns the names of the op's forms, in order of preference (see `ops.forms`)."""
        return tuple(form.name for form in getattr(self.lower, "rows", ()))

    @property
    def moves(self) -> bool:
        """Whether the op's results are elements of its inputs."""
        return self.kind == "movement" and bool(self.keeps)

    def takes(self, dtype: str) -> bool:
        """Whether the op computes values of this dtype. It computes float16 as float32; int64,
        uint32 and uint64 as int32. Types that numpy lacks may only be moved."""
        if dtype in BITS_ONLY and self.moves:
            return True
        held = "i32" if dtype in WHOLE else "f32" if dtype == "f16" else dtype
        return held in self.types


NO_OP = Op("", lambda *_: None, lambda *_: [], lambda *_: None, "exact")
