"""Conditions that the hosts' kernels put on every node, and those that rows name in addition to
operands and types."""

from __future__ import annotations

from tflgpu_plugin.ir import (
    INT16,
    NUMBERS,
    Condition,
    HostOp,
    ImpossibleShapeRefusal,
    Refusal,
    ShapeRefusal,
    Tensor,
    integer,
    needs,
    type_name,
)  # fmt: skip
from tflgpu_plugin.providers import Builder, Value, same_bits

from . import params

STORED = {"i8", "u8", "i16"}
FUSED = {name for name in params.ACTIVATIONS.values() if name.islower()}

# ---- what every node needs -----------------------------------------------------------------------


def readable(e: Builder) -> Refusal | None:
    """Tensors can be read: they are not sparse, and their sizes match their shapes and types."""
    for key in (*e.host.inputs, *e.host.writes):
        value = None if key is None else e.values[key]
        if value is not None and value.damage:
            return Refusal("constant.unreadable", f"Tensor {value.name!r} {value.damage}.")
    return None


def listed(e: Builder) -> Refusal | None:
    """The node has as many outputs as its operator."""
    return unlisted(e.row, len(e.host.outputs))


def unlisted(row: HostOp, outputs: int) -> Refusal | None:
    """Returns the refusal of a node whose number of outputs differs from its operator's."""
    wanted = row.outputs or ()
    if "value*" in wanted or outputs == len(wanted):
        return None
    sentence = f"{outputs} outputs instead of {len(wanted)} are not supported."
    return Refusal("output.unsupported", sentence)


EVERY: tuple[Condition, ...] = (readable, listed)

# ---- parameters ----------------------------------------------------------------------------------


def activation(e: Builder) -> Refusal | None:
    """Requires no fused activation except relu, relu6 and relu_n1_to_1."""
    named = e.host.attributes.get("activation", "none")
    if named in FUSED:
        return None
    return Refusal("activation.unsupported", f"The fused activation {named} is not supported.")


def _set(code: str, page: str, name: str) -> Condition:
    """Returns a condition that the attribute `name` is absent or false: readers of parameters set
    it only for an unsupported value. `code` and `page` are as in `needs`."""
    return needs(code, page, lambda e: not e.host.attributes.get(name))


def _least(page: str, least: float, *names: str) -> Condition:
    """Returns a condition that attributes (numbers, or one per axis) are at least `least`."""

    def met(e: Builder) -> bool:
        given = (e.host.attributes.get(name, least) for name in names)
        return all(min(n) >= least if isinstance(n, tuple) else n >= least for n in given)

    return needs("attribute.invalid", page, met)


PADDED = needs(
    "attribute.invalid", "Padding SAME or VALID.", lambda e: e.host.attributes["padding"]
)
MOVED = _least("Windows, strides and dilations of at least 1.", 1, "window", "strides", "dilations")
MULTIPLIED = _least("A depth multiplier of at least 1.", 1, "multiplier")
CLIPPED = _least("Clips of at least 0.", 0, "cell_clip", "proj_clip")
MIRRORED = needs(
    "attribute.invalid",
    "The mode REFLECT or SYMMETRIC.",
    lambda e: e.host.attributes["mode"],
)
COUNTED = _set("attribute.invalid", "The number of tensors that its parameters say.", "miscounted")
WIDE = _set(
    "attribute.unsupported",
    "A bias of int64 for int16, whose sums have 64 bits.",
    "narrow_sums",
)
RESCALED = _set("quantization.unsupported", "No sums of int16 in 16 bits.", "in_16_bits")
INDEXED = _set("dtype.mismatch", "Indices of the type that its parameters name.", "asked")
UNSHUFFLED = _set("attribute.unsupported", "No shuffled weights.", "shuffled")
APART = _set("attribute.unsupported", "No interior padding.", "inside")
DENSE = _set("attribute.unsupported", "No diagonal recurrent weights.", "diagonal")
KERNEL = _set(
    "input.unsupported",
    "The kernel, BASIC or FULL, that takes this number of inputs.",
    "other_kernel",
)
TANH = _set("activation.unsupported", "The activation tanh.", "activation")
INACTIVE = needs(
    "activation.unsupported",
    "No fused activation.",
    lambda e: e.host.attributes.get("activation", "none") == "none",
)


def one_axis(e: Builder) -> Refusal | None:
    """Requires one axis: with several axes tflite-runtime reverses the first, ai-edge-litert
    all."""
    axes = e.constant(e.x(1))
    if axes is None or axes.size == 1:
        return None
    sentence = f"{e.row.name} of {axes.size} axes is not supported: hosts do not agree about it."
    return Refusal("host.ambiguous", sentence)


def _joins(e: Builder) -> bool:
    """Whether a reduction of stored numbers joins several, or has the input's scale; true if the
    axes are unknown."""
    axes, shape, (result, *_) = e.constant(e.x(1)), e.shape(), e.results
    x = e.tensors.table[e.x()]
    if axes is None or x.dtype not in STORED or x.quantization == result.quantization:
        return True
    inside = (int(axis) for axis in axes.reshape(-1) if -len(shape) <= axis < len(shape))
    return any(shape[axis] > 1 for axis in inside)


def _towards(e: Builder) -> bool:
    """Whether the steps of a range lead from its start to its limit; true if they are unknown."""
    given = [e.constant(e.x(k)) for k in range(3)]
    if any(number is None for number in given):
        return True
    first, limit, by = (integer(number.reshape(-1)[0]) for number in given if number is not None)
    return bool((limit >= first and by > 0) or (limit <= first and by < 0))


def _alike(e: Builder) -> bool:
    which, *values = (e.shape(e.x(k)) for k in range(3))
    return values[0] == values[1] and which in ((), values[0])


ALIKE = needs(
    "host.ambiguous",
    "Operands of equal shape: hosts give the result the shape of the first operand.",
    lambda e: e.shape() == e.shape(e.x(1)),
    "{0} needs operands of one shape: hosts give the result that of the first.",
    kind=ShapeRefusal,
)
SCALAR = needs(
    "shape.mismatch", "A value without axes.", lambda e: e.shape() == (), kind=ShapeRefusal
)
WHOLE_OR_ONE = needs(
    "shape.mismatch",
    "Values of one shape, and a condition of that shape or a scalar.",
    _alike,
    kind=ShapeRefusal,
)
WHOLE_NUMBERS = needs(
    "dtype.unsupported",
    "Integers: for floats, hosts compute different results.",
    lambda e: e.dtype()[0] != "f",
)
TOWARDS = needs(
    "constant.invalid",
    "A step that leads from the start towards the limit.",
    _towards,
    kind=ImpossibleShapeRefusal,
)
JOINS = needs(
    "host.ambiguous",
    "Several stored numbers for each result, or the scale of the input: hosts' kernels disagree "
    "about others.",
    _joins,
    "{0} of single stored numbers is not supported: hosts' kernels disagree about the scale.",
)
UNFUSED = _set("activation.unsupported", "No fused activation.", "activation")
SINGLE = _set("attribute.unsupported", "One class per box.", "several")
SIDE_BY_SIDE = _set("attribute.unsupported", "Strides equal to the window size.", "strides")

# ---- tensors -------------------------------------------------------------------------------------


def symmetric(e: Builder) -> Refusal | None:
    """Int8 weights have the zero point 0; weights of float32 inputs are not uint8."""
    return _symmetric(e, e.get(1))


def all_symmetric(e: Builder) -> Refusal | None:
    """Int8 weights have the zero point 0; weights of float32 inputs are not uint8."""
    constants = (t for t in e.inputs if t is not None and e.known(t))
    return next(filter(None, (_symmetric(e, index) for index in constants)), None)


def _symmetric(e: Builder, index: int | None) -> Refusal | None:
    # The hosts' kernels assume that int8 weights are symmetric and never read their zero points.
    # With float32 inputs they read uint8 weights as int8.
    held = None if index is None else e.tensors.table[index]
    first = e.dtype() if e.has(0) else None
    if held is not None and (first, held.dtype) == ("f32", "u8"):
        return Refusal(
            "quantization.unsupported",
            f"The weights {held.name!r} are uint8, which hosts read as int8 when the inputs are "
            "float32; this is not supported.",
        )
    if held is None or held.dtype != "i8" or held.quantization is None:
        return None
    if not any(held.quantization.zero_point):
        return None
    sentence = f"The int8 weights {held.name!r} have a nonzero zero point, which is not supported."
    return Refusal("quantization.unsupported", sentence)


def symmetric_hybrid(e: Builder) -> Refusal | None:
    """Int8 weights have the zero point 0 unless the input is int8; weights of float32 inputs are
    not uint8."""
    if e.has(0) and e.dtype() == "i8":
        return None
    return symmetric(e)


DENSE_LAYER: tuple[Condition, ...] = (activation, symmetric_hybrid, UNSHUFFLED, WIDE)


def _states_found(e: Builder) -> bool:
    one = not e.host.attributes["time_axis"] or e.shape()[:1] == (1,)
    return one or not e.host.attributes["merged"]


STATES_FOUND = needs(
    "host.ambiguous",
    "A batch of 1, time-major sequences or separate outputs: else hosts read states from wrong "
    "offsets.",
    _states_found,
    "{0} with several batch-major sequences and merged outputs is not supported: hosts read "
    "their states from wrong offsets.",
    kind=ShapeRefusal,
)
SAME_BITS = needs(
    "dtype.unsupported",
    "Integers of one size: devices do not keep all bits of floats (subnormal numbers, NaN).",
    lambda e: same_bits(e.dtype(), e.results[0].dtype),
)


def _of_svdf(e: Builder) -> bool:
    kinds = [None if t is None else e.dtype(t) for t in e.inputs]
    x, features, times, bias, _ = kinds
    if x == "i8":
        whole = [kinds == ["i8", "i8", "i16", kind, "i16"] for kind in (None, "i32")]
        return any(whole) and e.host.attributes["activation"] == "relu"
    return features == times and kinds == ["f32", features, times, bias and "f32", "f32"]


OF_SVDF = needs(
    "dtype.unsupported",
    "Float32 values with weights of one type, or int8 values with weights of int8 and int16, a "
    "bias of int32, a state of int16 and the activation relu.",
    _of_svdf,
)


def one_pass(e: Builder) -> Refusal | None:
    """Requires no time-major sequence with 8-bit weights: hosts run the whole sequence once per
    step."""
    if e.host.attributes["time_axis"] or e.dtype(e.x(1)) == "f32":
        return None
    return Refusal(
        "host.ambiguous",
        f"{e.row.name} over a time-major sequence with 8-bit weights is not supported: hosts run "
        "the whole sequence once per step.",
    )


def scaled(e: Builder) -> Refusal | None:
    """Int8, uint8 and int16 tensors have a scale."""
    tensors: list[Tensor | Value] = [e.tensors.table[e.x()], *e.results]
    for tensor in tensors:
        if tensor.dtype in STORED and tensor.quantization in (None, NUMBERS):
            return Refusal(
                "quantization.missing", f"Tensor {tensor.name!r} is not quantized: it has no scale."
            )
    return None


def one_scale(e: Builder) -> Refusal | None:
    """Operands of int16 have one scale: of others some hosts compare the stored numbers."""
    held = [e.tensors.table[e.x(position)] for position in (0, 1)]
    scales = {t.quantization.scale if t.quantization else (1.0,) for t in held if t.dtype == INT16}
    if len(scales) < 2 or e.host.attributes.get("fixed_point"):
        return None
    said = f"{e.row.name} of int16 needs operands of one scale: hosts do not agree about others."
    return Refusal("host.ambiguous", said)


def below_one(e: Builder) -> Refusal | None:
    """Operands that hosts compare in fixed point (int8, uint8) have scales below 1: hosts abort for
    others."""
    for position in (0, 1) if e.host.attributes.get("fixed_point") else ():
        held = e.tensors.table[e.x(position)]
        scale = held.quantization.scale if held.quantization else (0.0,)
        if not (len(scale) == 1 and 0 < scale[0] < 1):
            said = f"{e.row.name} of {type_name(held.dtype)} needs one scale between 0 and 1."
            return Refusal("quantization.unsupported", said)
    return None


def of_shares(e: Builder) -> Refusal | None:
    """Results of uint8 have the scale 1/256 and the zero point 0: for others hosts do not agree."""
    held = e.results[0].quantization
    if e.results[0].dtype != "u8" or held is None:
        return None
    if (held.scale, held.zero_point) == ((1 / 256,), (0,)):
        return None
    said = f"{e.row.name} of uint8 needs a result with the scale 1/256 and the zero point 0."
    return Refusal("host.ambiguous", said)


def slope_type(e: Builder) -> Refusal | None:
    """Slopes have the type of the values, except that those of int16 are int8: hosts read others as
    if they were."""
    given, held = e.dtype(), e.dtype(e.x(1))
    if held == ("i8" if given == INT16 else given):
        return None
    said = f"{e.row.name} of {type_name(given)} does not take slopes of {type_name(held)}."
    return Refusal("dtype.mismatch", said)
