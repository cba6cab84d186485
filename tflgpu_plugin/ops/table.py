"""The rows of the op table: all traits by which other modules know an op."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from tflgpu_plugin.ir.bfloat16 import BFLOAT16
from tflgpu_plugin.ir.graph import Array, EpilogueOp, Graph, Node, NotConstant, Shape
from tflgpu_plugin.ir.host_op import count_given
from tflgpu_plugin.ir.quantization import Levels
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

    `passes` is the share of the mean square error that a result has. `averages`: of many values,
    with errors of either sign. `keeps_magnitude`: results are as large as the inputs. `bounded`:
    results are of magnitude 1 at most. `keeps_ratios`, of a transcendental function: an error in
    proportion to the input is one in proportion to the result, as of powers. `relative`: errors
    count in proportion to each value, as under a logarithm. `normalizes`: results are of
    magnitude 1, whatever that of the inputs. `choice` is the position of an output that tells
    which of the values was chosen, which the smallest error may change. `floors`: the first number
    of the fused step is a lower limit; where that is 0 the step is a `GATE`."""

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
# An activation that is closed for negative arguments (K. He and others, "Delving Deep into
# Rectifiers", 2015, section 2.2, says so of the values themselves).
GATE = Errors(passes=0.5)


class Rounding(NamedTuple):
    """How hosts come to an 8-bit result in fixed point: `parts(graph, node)` of one step of the
    result, to which they round first (one number, or one per channel); `stored`: they round the
    stored number, with the zero point in it. `factor(graph, node)`: the scale of the integer
    accumulator, and the factor by which hosts requantize it; None for per-channel factors."""

    parts: Callable[[Graph, Node], tuple[float, ...]]
    stored: bool = False
    factor: Callable[[Graph, Node], tuple[float, float] | None] | None = None


def unplanned(
    what: str, shapes: Callable[[Graph, Node], object], graph: Graph, node: Node
) -> Refusal | None:
    """Returns the refusal of a node whose shapes cannot be inferred."""
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
    """One row.

    `refuse(graph, node, target)` returns a sentence, or None when the node can run. `shapes(graph,
    node)` gives the output shapes from input shapes (and values of constant inputs). `accuracy`
    names a class of `conformance.tolerance`: exact, elementwise, function, transcendental,
    accumulate or reduction. `types` are the dtypes of the value inputs and outputs. `work`
    estimates multiply-adds per run for the pays-off rule (None: one per output element).
    `decompose` replaces the node by others before it is lowered (see `ops.decompose`); it returns
    whether it did. `meaning(*inputs, **attributes)` is what the op computes, in numpy, where
    all inputs are known before a run (None:
    `views` tell, or nothing does; see `ops.evaluation`); it raises ValueError where hosts would not
    agree with numpy. `inexact`: of floats each host comes to results of its own, by another order
    of sums or other roundings. `states` pairs the position of an input that is state with that of
    the output whose value it takes, from the end (negative) where hosts have no tensor for that.
    `attributes` are those that nodes may have (see `ops.attributes`). `operands` has a letter for
    each input: `x` must be there, `?` may be absent, `*` stands for any number.

    Traits: `kind`, of KINDS. `fuses`: the lowering applies `node.epilogue` where it stores its
    first output, so passes may give it some. `as_epilogue(graph, node, position)` is the epilogue
    op that does the same to the operand at this position (None: there is none). `limits`: the
    result is the input, cut to them. `weights`, and whether zero `padding` in front of the op may
    become part of its attribute. `accumulates`: results may be sums of many values, which float16
    does not hold. `errors`, see there. `follows` says how the op works on tensors whose axes are
    permuted (see `passes.layout.propagate`); empty: it does not, but by its `views`. `keeps` says
    whose elements the results are, unless they are zero: those of the "first" input or of "any";
    empty: they are computed. `same_quantization`: hosts compute on the stored numbers, so inputs
    and results must mean the same by them (as `keeps` says, too). `rounding`, see there. `affine`:
    what the second operand is of the first: a term, subtrahend, factor or divisor. `quantize(graph,
    node, levels)` is the node that computes a result on these levels from stored numbers as hosts
    do (None: there is none for this node); rows of ops that are made in no other way say what they
    stand for. `views`, of an op that only moves elements of one input: its results as views of that
    (see `ops.views`). `by_head`: it works on each head by itself, and reads heads beside each other
    where they lie. `adds_parts`: its lowering takes a sum of parts off the launches (see
    `ops.split_depth`). `gated(graph, node)`: its lowering multiplies the channels of the first
    input by values that vary by batch and channel, its input at GATES, if it is given that.
    `averages(graph, node)`: its results are the means of all pixels of a channel, and nothing
    else. `unknown` says what becomes of a number beyond int32 (see `ops.unknown`): the op "passes"
    it on, or "chooses" between its last two inputs; empty: it must not get one. `arranges`: its
    result is its input with the axes in another "order", or with the elements in the same order
    under another "shape". `joins`: its inputs stand beside each other in the result, so that empty
    ones add nothing. `fills`: where no value is given, it fills with zeros, which are the zero
    point of a quantized input. `converts`: to another type, and nothing else. `quantizes`: its
    result is its input, put on levels ("to") or read from them ("from"). `numbers_places`: it
    "makes" or "takes" indices that hosts number each in its own way, as its second output or
    input."""

    name: str
    refuse: Callable[[Graph, Node, Target], Refusal | None]
    shapes: Callable[[Graph, Node], list[Shape]]
    lower: Callable[[Lowering, Node], None]
    accuracy: str
    types: tuple[str, ...] = ("f32",)
    work: Callable[[Graph, Node], int] | None = None
    decompose: Callable[[Decomposition, Node], bool] | None = None
    meaning: Callable[..., Array] | None = None
    inexact: bool = False
    states: tuple[tuple[int, int], ...] = ()
    family: str = ""
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    operands: str = "x"
    kind: str = ""
    fuses: bool = False
    as_epilogue: Callable[[Graph, Node, int], EpilogueOp | None] | None = None
    limits: tuple[float, float] | None = None
    weights: Weights | None = None
    padding: bool = False
    accumulates: bool | None = None
    errors: Errors = AS_THEY_ARE
    follows: str = ""
    keeps: str = ""
    same_quantization: bool = False
    rounding: Rounding | None = None
    affine: str = ""
    quantize: Callable[[Graph, Node, Levels], Node | None] | None = None
    stands_for: tuple[str, ...] = ()
    views: Callable[[Graph, Node], Sequence[View]] | None = None
    by_head: bool = False
    adds_parts: bool = False
    gated: Callable[[Graph, Node], bool] | None = None
    averages: Callable[[Graph, Node], bool] | None = None
    unknown: str = ""
    arranges: str = ""
    joins: bool = False
    fills: bool = False
    converts: bool = False
    quantizes: str = ""
    numbers_places: str = ""

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
        """Returns the names of its forms, in order of preference (see `ops.forms`)."""
        return tuple(form.name for form in getattr(self.lower, "rows", ()))

    @property
    def moves(self) -> bool:
        """Whether its results are elements of its inputs."""
        return self.kind == "movement" and bool(self.keeps)

    def takes(self, dtype: str) -> bool:
        """Whether it computes values of this dtype: float16 as float32, int64 as int32. bfloat16 is
        stored as bits, which may only be moved."""
        if dtype == BFLOAT16 and self.moves:
            return True
        return {"f16": "f32", "i64": "i32"}.get(dtype, dtype) in self.types


NO_OP = Op("", lambda *_: None, lambda *_: [], lambda *_: None, "exact")
