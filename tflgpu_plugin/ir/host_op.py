"""The row of an operator in a host's table: all that other modules need to know about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

from tflgpu_plugin.ir.refusal import Refusal

T = TypeVar("T")

Condition = Callable[[Any], Refusal | None]  # takes a Builder


class Role(NamedTuple):
    """The meaning of an operand. `decides`: its value determines the shapes of results. `extents`
    is what the host requires of the operand's own shape: rank 1 ("list"), one element in any shape
    ("one"), one element ("axes") or one pair ("pairs") per axis of the first value, or nothing
    (""). `integer`: it holds int32 or int64, whatever type values have. `typed`: it has the type of
    the first value. `clamps`: an integer beyond int32 means the same as the nearest in it."""

    decides: bool = False
    extents: str = ""
    integer: bool = False
    typed: bool = False
    clamps: bool = False


ROLES: Mapping[str, Role] = (
    # Operands that are computed with.
    dict.fromkeys(("value", "slope", "updates"), Role(typed=True))
    | dict.fromkeys(("weights", "recurrent_weights", "projection_weights", "peepholes"), Role())
    | dict.fromkeys(
        ("bias", "biases", "projection_bias", "scale", "scales", "fill", "like", "narrow_slope"),
        Role(),
    )
    | dict.fromkeys(("zero_point", "zero_points", "mean", "variance", "low", "high"), Role())
    | dict.fromkeys(("narrow_slope", "condition", "state", "past", "places"), Role())
    | {"channel_bias": Role(extents="list"), "padding_value": Role(extents="one")}
    | dict.fromkeys(("index", "mask"), Role(integer=True))
    | {"threshold": Role(extents="one")}
    # Operands that decide shapes.
    | dict.fromkeys(("shape", "axes", "count", "crops", "keys"), Role(decides=True))
    | dict.fromkeys(("first", "limit", "delta"), Role(decides=True))
    | dict.fromkeys(("starts", "ends", "steps"), Role(decides=True, clamps=True))
    | dict.fromkeys(
        ("pads", "factors", "roi_or_factors", "extents", "kernel", "ratio", "training_mode"),
        Role(decides=True),
    )
    | dict.fromkeys(("size", "sizes", "split", "begin", "end"), Role(True, "list"))
    | dict.fromkeys(("strides", "block"), Role(True, "list"))
    | dict.fromkeys(("start", "length", "order", "repeats"), Role(True, "axes"))
    | {"axis": Role(True, "one"), "paddings": Role(True, "pairs")}
)


def needs(
    code: str,
    page: str,
    met: Callable[[Any], bool],
    sentence: str = "",
    kind: type[Refusal] = Refusal,
) -> Condition:
    """Returns a condition that holds where `met` is true for a Builder. `page` says on the page of
    operators what a node needs. Refusals have the type `kind`, the code `code`, and `sentence` with
    the operator in place of {0} (default: a sentence made of `page`). Raises ValueError for a page
    that begins with a verb, which the sentence would repeat."""
    if page.startswith(("Requires", "Accepts")):
        raise ValueError(f"The page says what a node needs without a verb, not: {page}")
    lack = "{0} with " + page[3:-1] + " is not supported."
    plain = lack if page.startswith("No ") else "{0} needs " + page[0].lower() + page[1:]

    def condition(e: Any) -> Refusal | None:
        return None if met(e) else kind(code, (sentence or plain).format(e.row.name))

    condition.__doc__ = page
    return condition


def asks(
    code: str, sentence: str = "", kind: type[Refusal] = Refusal
) -> Callable[[Callable[[Any], bool]], Condition]:
    """Returns a decorator that turns a function `met` into a condition, as `needs` does; the
    function's docstring has the text of the `page`."""
    return lambda met: needs(code, requirement(met), met, sentence, kind)


def requirement(function: Callable[..., Any]) -> str:
    """Returns what the docstring of a condition, or of an op's `refuse`, says that a node needs:
    on one line, and without the verb with which it begins."""
    said = " ".join((function.__doc__ or "").split())
    verb, _, needed = said.partition(" ")
    return needed[:1].upper() + needed[1:] if verb in ("Requires", "Accepts") else said


class Operand(NamedTuple):
    """An input of a host operator. `repeated`: all further inputs are like this one; `constant`:
    its value must be known before a run."""

    role: str
    optional: bool = False
    repeated: bool = False
    constant: bool = False

    @property
    def traits(self) -> Role:
        return ROLES[self.role]


def operands(text: str) -> tuple[Operand, ...]:
    """Returns the operands that a text lists: words of ROLES in the host's order, each with marks
    after it: `?` for an optional one, `*` for a repeated one, `!` for one that must be constant."""
    found = []
    for word in text.split():
        role = word.rstrip("?*!")
        if role not in ROLES:
            raise ValueError(
                f"{role!r} is not a role of an operand. The roles are: {', '.join(ROLES)}."
            )
        found.append(Operand(role, *(mark in word for mark in "?*!")))
    return tuple(found)


@dataclass(frozen=True)
class HostOp:
    """A host's operator: the op that it becomes, its versions, and what the importer must know."""

    name: str
    # The op that it becomes; "": none, its results are only computed before a run.
    op: str
    # The first and the last version that is supported.
    versions: tuple[int, int]
    # For editions of the GPU delegate documentation ("2019", "current", "quantized"), the first and
    # the last version that the edition lists.
    documented: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    # Reads a node's attributes from the structs of hosts that have such.
    parameters: Callable[..., dict[str, Any]] | None = None
    # build(builder) adds the nodes that a node becomes and returns the tensors of its outputs; None
    # for operators that become one node of `op` with the same attributes.
    build: Callable[..., Any] | None = None

    # ---- inputs and outputs ----

    # The inputs in the host's order.
    operands: tuple[Operand, ...] = ()
    # The positions of the operands that `op` takes, in its order (empty: all, in the host's order).
    order: tuple[int, ...] = ()
    # The roles of the supported outputs, "value*" for any number of them; None for all outputs.
    outputs: tuple[str, ...] | None = None
    # The dtypes that a node may read and write, where they are not those of `op`.
    types: tuple[str, ...] = ()
    # Each takes the builder and returns a refusal where the node cannot run, else None. Without
    # `build`, the builder has the inputs in the order of the op. Their docstrings are on the page
    # of operators.
    conditions: tuple[Condition, ...] = ()
    # The result has the shape to which all inputs broadcast.
    spreads: bool = False
    # The result has the shape that the model states.
    stated: bool = False
    # Results are random.
    chance: bool = False
    # Results depend only on the shapes of the inputs.
    of_shapes: bool = False
    # It reads sparse constants.
    sparse: bool = False
    # It "opens" or "closes" a quantized group, which the host runs as one kernel.
    bounds: str = ""

    # ---- types for which the host has kernels, too ----

    # bfloat16: it moves the bits, or computes in float32 and rounds (`rounds`).
    bfloat16: bool = False
    # Types of at most 8 bits that numpy lacks.
    narrow: bool = False
    # uint32 and uint64: results are right where int32 holds operands and results, and otherwise the
    # run is flagged.
    unsigned: bool = False
    # It computes bfloat16 in float32 and rounds the results.
    rounds: bool = False
    # Quantized int16, whose stored numbers the op computes as the host does.
    int16: bool = False
    # float64: the op computes it as float32 where the option double says so. A text is the reason
    # why it does not.
    double: bool | str = True

    # ---- the rest ----

    # The row for nodes with more inputs, of operators with two operand lists.
    longer: HostOp | None = None
    # The host's kernel crashes the process for some tensors without elements.
    fragile: bool = False
    # The host infers no shapes of the results: those that a model states are its exporter's, and
    # may be wrong.
    uninferred: bool = False
    # Results have values where inputs have no elements, such as a sum of no terms.
    identity: bool = False
    # The host returns no rows where an input has none, as for a product.
    rowless: bool = False
    # Computes a node of a loop's body in all steps at once; None where that is impossible.
    at_once: Callable[..., Any] | None = None
    # keeps_count(builder) returns the axis along which a node preserves the count of its inputs, or
    # None (see `importer.counts`).
    keeps_count: Callable[..., int | None] | None = None
    # Attributes that may stay unread, in domains without versions (see `Table`): others that are
    # unread refuse a node.
    ignores: tuple[str, ...] = ()

    @property
    def singles(self) -> bool:
        """Whether the row computes float64 as float32 where the option double says so."""
        takes = not self.types or "f32" in self.types
        return self.build is not None and self.double is True and takes

    @property
    def constants(self) -> dict[int, str]:
        """Returns the roles of inputs whose values must be known before a run, by position."""
        found = enumerate(self.operands)
        return {k: one.role.replace("_", " ") for k, one in found if one.constant}

    @cached_property
    def planned(self) -> dict[int, str]:
        """Returns the roles of inputs whose values a plan is specialized for, by position."""
        found = enumerate(self.operands)
        return {k: o.role.replace("_", " ") for k, o in found if o.constant or o.traits.decides}

    @property
    def indices(self) -> tuple[int, ...]:
        """Returns the positions of inputs that hold int32 or int64, whatever `types` are."""
        return tuple(k for k, one in enumerate(self.operands) if one.traits.integer)

    @cached_property
    def deciding(self) -> tuple[int, ...]:
        """Returns the positions of inputs whose values determine the shapes of results."""
        return tuple(k for k, one in enumerate(self.operands) if one.traits.decides)

    def deciders(self, inputs: Sequence[T | None]) -> list[T]:
        """Returns those of a node's inputs whose values determine the shapes of results."""
        given = (inputs[k] for k in self.deciding if k < len(inputs))
        return [one for one in given if one is not None]

    @cached_property
    def taken(self) -> tuple[str, ...]:
        """Returns the roles of the operands that the op takes, in its order."""
        return tuple(self.operands[k].role for k in self.order or range(len(self.operands)))

    def form(self, inputs: int) -> HostOp:
        """Returns the row that applies to a node with this number of inputs."""
        return self.longer if self.longer and inputs > len(self.operands) else self

    def arranged(self, inputs: Sequence[int | None]) -> tuple[int | None, ...]:
        """Returns a node's inputs in the order of the op, None for absent ones."""
        count = count_given(inputs)
        listed = (*inputs[:count], *[None] * (len(self.operands) - count))
        return tuple(listed[k] for k in self.order or range(len(listed)))

    def lacking(self, inputs: Sequence[int | None]) -> Refusal | None:
        """Returns the refusal of a node with an absent or surplus input, else None."""
        given, count = list(self.operands), count_given(inputs)
        if given and given[-1].repeated:
            given += [given[-1]] * (len(inputs) - len(given))
        if count > len(given):
            many = f"{count} inputs are more than the {len(given)} that are supported."
            return Refusal("input.unsupported", many)
        for position, operand in enumerate(given):
            if not operand.optional and (position >= len(inputs) or inputs[position] is None):
                return Refusal("input.missing", f"Input {position} of {self.name} is absent.")
        return None


def count_given(inputs: Sequence[object]) -> int:
    """Returns the number of a node's inputs, not counting absent ones (None) at the end, which
    hosts may write or omit."""
    count = len(inputs)
    while count and inputs[count - 1] is None:
        count -= 1
    return count


def table(rows: Sequence[HostOp]) -> dict[str, HostOp]:
    """Returns the rows by name. Raises ValueError where two have the same name."""
    found: dict[str, HostOp] = {}
    for row in rows:
        if row.name in found:
            raise ValueError(f"{row.name} has two rows.")
        found[row.name] = row
    return found
