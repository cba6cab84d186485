"""The table of TFLite operators: what each becomes, its version ranges, and how its parameters
read.

`versions` is what the kernels support with float32 tensors (bool for LOGICAL_AND): a version is a
superset of the ones before, so a range ends where the next one only adds types that nothing here
can hold (int4, float8). The documented ranges are the two editions of the GPU delegate
documentation, and "quantized": up to the version that carries int8 and per-channel tensors by the
converter's rules ("enabling quantization allows the appropriate versions").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from tflgpu_plugin.graph import Form

from . import codes


class Unreadable(Exception):
    """Parameters that make no sense or ask for something unsupported; the text is the sentence for
    the user.
    """


class HostNode(Protocol):
    """What an attribute reader sees of a node."""

    def params(self, struct: str) -> Any:
        """The node's parameters as this struct of abi_tflite.h. Raises Unreadable when the host
        has none.
        """

    def has_input(self, position: int, rank: int | None = None) -> bool:
        """The host's input at this position is there (and has this rank)."""

    def result(self) -> str:
        """The type that the model gives the first output."""

    def constant(self, position: int) -> Any:
        """The value of the host's input at this position, None when it is absent or computed."""


MIRRORS = {1: "reflect", 2: "symmetric"}
PADDINGS = {1: "same", 2: "valid"}
ACTIVATIONS = {0: "none", 1: "relu", 2: "relu_n1_to_1", 3: "relu6", 4: "tanh"}
UNSUPPORTED_ACTIVATIONS = {5: "SIGN_BIT", 6: "SIGMOID"}
LSTM_FULL, LSTM_BASIC, TANH = 0, 1, 4
BASIC_OUTPUTS = 4


def _padding(params: Any) -> str:
    if params.padding not in PADDINGS:
        raise Unreadable(
            f"Padding must be SAME or VALID, not number {params.padding} "
            "(are the options missing from the model?)."
        )
    return PADDINGS[params.padding]


def _activation(params: Any) -> str:
    number = int(params.activation)
    if number not in ACTIVATIONS:
        name = UNSUPPORTED_ACTIVATIONS.get(number, f"number {number}")
        raise Unreadable(f"The fused activation {name} is not supported.")
    return ACTIVATIONS[number]


def _positive(what: str, height: int, width: int) -> tuple[int, int]:
    if height < 1 or width < 1:
        raise Unreadable(
            f"{what} must be at least 1, but height has {height} and width has {width}."
        )
    return int(height), int(width)


def _window(params: Any) -> dict[str, Any]:
    return {
        "strides": _positive("Strides", params.stride_h, params.stride_w),
        "padding": _padding(params),
        "activation": _activation(params),
    }


def _convolution(node: HostNode) -> dict[str, Any]:
    params = node.params("tgl_conv_params")
    dilations = _positive("Dilations", params.dilation_h, params.dilation_w)
    return _window(params) | {"dilations": dilations}


def _depthwise(node: HostNode) -> dict[str, Any]:
    params = node.params("tgl_depthwise_params")
    dilations = _positive("Dilations", params.dilation_h, params.dilation_w)
    if params.depth_multiplier < 1:
        raise Unreadable(
            f"The depth multiplier must be at least 1, but it is {params.depth_multiplier}."
        )
    return _window(params) | {"dilations": dilations, "multiplier": int(params.depth_multiplier)}


def _transposed(node: HostNode) -> dict[str, Any]:
    return _window(node.params("tgl_transpose_conv_params"))


def _pool(node: HostNode) -> dict[str, Any]:
    params = node.params("tgl_pool_params")
    return _window(params) | {
        "window": _positive("Window extents", params.filter_h, params.filter_w)
    }


def _fully_connected(node: HostNode) -> dict[str, Any]:
    params = node.params("tgl_fully_connected_params")
    if params.weights_format:
        raise Unreadable("Shuffled weights are not supported.")
    return {"keep_num_dims": bool(params.keep_num_dims), "activation": _activation(params)}


def _with_activation(struct: str) -> Callable[[HostNode], dict[str, Any]]:
    return lambda node: {"activation": _activation(node.params(struct))}


def _concatenation(node: HostNode) -> dict[str, Any]:
    params = node.params("tgl_concatenation_params")
    return {"axis": int(params.axis), "activation": _activation(params)}


def _softmax(node: HostNode) -> dict[str, Any]:
    return {"beta": float(node.params("tgl_softmax_params").beta)}


def _reshape(node: HostNode) -> dict[str, Any]:
    """Input 1 counts when it is a vector (as in GetOutputShape of the host's reshape.cc), else the
    parameters do.
    """
    if node.has_input(1, rank=1):
        return {}
    params = node.params("tgl_reshape_params")
    if not 0 <= params.count <= len(params.shape):
        raise Unreadable(f"A shape of rank {params.count} cannot be in the parameters.")
    shape = tuple(int(params.shape[k]) for k in range(params.count))
    return {"shape": () if shape == (0,) else shape}  # one 0 is how old converters wrote a scalar


def _squeeze(node: HostNode) -> dict[str, Any]:
    params = node.params("tgl_squeeze_params")
    if not 0 <= params.count <= len(params.dims):
        raise Unreadable(f"{params.count} axes cannot be in the parameters.")
    return {"squeeze": tuple(int(params.dims[k]) for k in range(params.count))}


def _resize(node: HostNode) -> dict[str, Any]:
    params = node.params("tgl_resize_params")
    align, half = bool(params.align_corners), bool(params.half_pixel_centers)
    if align and half:
        raise Unreadable("If half_pixel_centers is True, align_corners must be False.")
    return {"align_corners": align, "half_pixel_centers": half}


def _strided_slice(node: HostNode) -> dict[str, Any]:
    params = node.params("tgl_strided_slice_params")
    masks = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
    return {mask: int(getattr(params, mask)) for mask in masks} | {"offset": bool(params.offset)}


def _mean(node: HostNode) -> dict[str, Any]:
    return {"keep_dims": bool(node.params("tgl_reduce_params").keep_dims)}


def _mirror_pad(node: HostNode) -> dict[str, Any]:
    mode = int(node.params("tgl_mirror_pad_params").mode)
    if mode not in MIRRORS:
        raise Unreadable(f"Mirror mode number {mode} is not supported.")
    return {"mode": MIRRORS[mode]}


def _block(node: HostNode) -> dict[str, Any]:
    return {"block": int(node.params("tgl_block_params").size)}


def _gather(node: HostNode) -> dict[str, Any]:
    params = node.params("tgl_gather_params")
    if params.batch_dims:
        raise Unreadable("Gathering with batch dimensions is not supported.")
    return {"axis": int(params.axis)}


def _leaky_relu(node: HostNode) -> dict[str, Any]:
    return {"alpha": float(node.params("tgl_leaky_relu_params").alpha)}


def _transpose(node: HostNode) -> dict[str, Any]:
    perm = node.constant(1)
    if perm is None:
        raise Unreadable("The order of the axes must be constant.")
    return {"perm": tuple(int(axis) for axis in perm.reshape(-1))}


def _lstm(node: HostNode) -> dict[str, Any]:
    params = node.params("tgl_lstm_params")
    if params.kernel != LSTM_BASIC:
        raise Unreadable(f"LSTM kernel number {params.kernel} is not supported.")
    if params.activation != TANH:
        raise Unreadable("Only TANH activation is supported in a basic LSTM.")
    return {"cell_clip": float(params.cell_clip), "proj_clip": float(params.proj_clip)}


def _full_lstm(node: HostNode) -> dict[str, Any]:
    return _lstm_parts(node.params("tgl_lstm_params")) | {"time_axis": 0}


def _sequence_lstm(node: HostNode) -> dict[str, Any]:
    params = node.params("tgl_sequence_lstm_params")
    if params.diagonal_recurrent:
        raise Unreadable("Diagonal recurrent weights of an LSTM are not supported.")
    return _lstm_parts(params) | {"time_axis": 0 if params.time_major else 1}


def _lstm_parts(params: Any) -> dict[str, Any]:
    if params.activation != TANH:
        raise Unreadable("Only TANH activation is supported in an LSTM.")
    return {"cell_clip": float(params.cell_clip), "proj_clip": float(params.proj_clip)}


def _argument(node: HostNode) -> dict[str, Any]:
    made = codes.dtype(int(node.params("tgl_arg_params").output_type))
    if made != node.result():
        raise Unreadable(f"The parameters ask for {made} places, the output holds {node.result()}.")
    return {"keep_dims": False}


def _axis(node: HostNode) -> dict[str, Any]:
    return {"axis": int(node.params("tgl_pack_params").axis)}


def _row(
    host_op: str,
    op: str,
    last: int,
    attributes: Callable[[HostNode], dict[str, Any]] | None = None,
    *,
    edition_2019: int | None = 1,
    current: int | None = 1,
    quantized: int | None = None,
    first: int = 1,
) -> Form:
    """A row whose ranges all begin at `first`; None leaves an edition out."""
    documented = {"2019": edition_2019, "current": current, "quantized": quantized or current}
    return Form(
        host_op,
        op,
        (1, last),
        {edition: (first, end) for edition, end in documented.items() if end is not None},
        attributes,
    )


def _rows() -> tuple[Form, ...]:
    since: Mapping[str, Any] = {"edition_2019": None}
    ours: Mapping[str, Any] = {"edition_2019": None, "current": None}
    add, mul = _with_activation("tgl_add_params"), _with_activation("tgl_mul_params")
    return (
        _row("ADD", "add", 5, add, quantized=2),
        _row("AVERAGE_POOL_2D", "average_pool_2d", 3, _pool, quantized=2),
        _row("CONCATENATION", "concat", 4, _concatenation, quantized=2),
        _row("CONV_2D", "conv_2d", 6, _convolution, quantized=3),
        _row(
            "DEPTHWISE_CONV_2D",
            "depthwise_conv_2d",
            6,
            _depthwise,
            edition_2019=2,
            current=2,
            quantized=3,
        ),
        _row("EXP", "exp", 2, **since, quantized=2),
        _row("FULLY_CONNECTED", "fully_connected", 9, _fully_connected, quantized=4),
        _row("LOGICAL_AND", "logical_and", 1, **since),
        _row("LOGISTIC", "logistic", 3, quantized=2),
        _row("LSTM", "lstm_basic", 4, _lstm, **since, first=2, current=2),
        _row("MAXIMUM", "maximum", 4, **since, quantized=2),
        _row("MAX_POOL_2D", "max_pool_2d", 3, _pool, quantized=2),
        _row("MINIMUM", "minimum", 4, **since, quantized=2),
        _row("MUL", "mul", 7, mul, quantized=2),
        _row("PAD", "pad", 4, quantized=2),
        _row("PRELU", "prelu", 1),
        _row("RELU", "relu", 3, quantized=2),
        _row("RELU6", "relu6", 3, quantized=2),
        _row("RESHAPE", "reshape", 1, _reshape),
        _row("RESIZE_BILINEAR", "resize_bilinear", 4, _resize, current=3),
        _row("SOFTMAX", "softmax", 3, _softmax, quantized=2),
        _row("STRIDED_SLICE", "strided_slice", 8, _strided_slice, quantized=2),
        _row("SUB", "sub", 5, add, quantized=2),
        _row("TRANSPOSE_CONV", "transpose_conv", 4, _transposed, quantized=2),
        _row("MEAN", "mean", 3, _mean, **ours),
        _row("PADV2", "pad", 4, **ours),
        _row("RELU_N1_TO_1", "relu_n1_to_1", 1, **ours),
        _row("SQUEEZE", "reshape", 1, _squeeze, **ours),
        _row("TANH", "tanh", 3, **ours),
        _row("ABS", "abs", 2, **ours),
        _row("DEQUANTIZE", "dequantize", 5, **ours),
        _row("ELU", "elu", 1, **ours),
        _row("HARD_SWISH", "hard_swish", 1, **ours),
        _row("LEAKY_RELU", "leaky_relu", 2, _leaky_relu, **ours),
        _row("DEPTH_TO_SPACE", "depth_to_space", 2, _block, **ours),
        _row("GATHER", "gather", 5, _gather, **ours),
        _row("LOG", "log", 2, **ours),
        _row("MIRROR_PAD", "pad", 3, _mirror_pad, **ours),
        _row("RESIZE_NEAREST_NEIGHBOR", "resize_nearest", 4, _resize, **ours),
        _row("SPACE_TO_DEPTH", "space_to_depth", 2, _block, **ours),
        _row("SPLIT", "split", 4, **ours),
        _row("SPLIT_V", "split", 2, **ours),
        _row("UNIDIRECTIONAL_SEQUENCE_LSTM", "lstm_full", 3, _sequence_lstm, **ours),
        _row("QUANTIZE", "quantize", 3, **ours),
        _row("RSQRT", "rsqrt", 2, **ours),
        _row("SQRT", "sqrt", 1, **ours),
        _row("TRANSPOSE", "transpose", 6, _transpose, **ours),
        _row("ARG_MAX", "arg_max", 2, _argument, **ours),
        _row("ARG_MIN", "arg_min", 2, _argument, **ours),
        _row("CAST", "cast", 2, **ours),
        _row("DIV", "div", 2, mul, **ours),
        _row("GATHER_ND", "gather_nd", 2, **ours),
        _row("PACK", "stack", 2, _axis, **ours),
        _row("UNPACK", "unstack", 2, _axis, **ours),
    )


FORMS: dict[str, Form] = {form.host_op: form for form in _rows()}

# The LSTM of many inputs; the documentation lists the basic one only.
FULL_LSTM = _row("LSTM", "lstm_full", 4, _full_lstm, edition_2019=None, current=None)
# Of integers that nodes before it make, so that no model of one operator shows it (counts.py).
FLOOR_DIV = _row("FLOOR_DIV", "floor_div", 2, edition_2019=None, current=None)
# Within a variance, so that no model of one operator shows it, either (variances.py).
SQUARED_DIFFERENCE = _row(
    "SQUARED_DIFFERENCE", "squared_difference", 1, edition_2019=None, current=None
)
# Rows beside the first one of an operator, and those that need others, by what the table of
# operators calls them.
VARIANTS: dict[str, Form] = {
    "LSTM (full)": FULL_LSTM,
    "FLOOR_DIV": FLOOR_DIV,
    "SQUARED_DIFFERENCE": SQUARED_DIFFERENCE,
}


def form(host_op: str, node: HostNode) -> Form | None:
    """The row of a node: that of its operator, or of its kind of LSTM."""
    if host_op == "LSTM" and node.params("tgl_lstm_params").kernel == LSTM_FULL:
        return FULL_LSTM
    return FORMS.get(host_op) or VARIANTS.get(host_op)


# Host input positions in the order of the internal op, "?" marking an optional one. Ops that are
# not listed read all of the host's inputs as they come.
_OPERANDS: dict[str, str] = {
    "CONV_2D": "0 1 2?",
    "DEPTHWISE_CONV_2D": "0 1 2?",
    "FULLY_CONNECTED": "0 1 2?",
    "TRANSPOSE_CONV": "2 1 3? 0",
    "PAD": "0 1",
    "PADV2": "0 1 2",
    "RESHAPE": "0 1?",
    "SQUEEZE": "0",
    "MEAN": "0 1",
    "RESIZE_BILINEAR": "0 1",
    "STRIDED_SLICE": "0 1 2 3",
    "PRELU": "0 1",
    "TRANSPOSE": "0 1",
    "GATHER": "0 1",
    "MIRROR_PAD": "0 1",
    "RESIZE_NEAREST_NEIGHBOR": "0 1",
    "SPLIT": "1 0",
    "SPLIT_V": "0 2 1",
    "lstm_basic": "0 1 2 3 4",
    "lstm_full": " ".join(f"{k}?" for k in range(24)),
} | dict.fromkeys(
    ("ADD", "SUB", "MUL", "DIV", "FLOOR_DIV", "MAXIMUM", "MINIMUM", "LOGICAL_AND", "ARG_MAX",
     "ARG_MIN", "GATHER_ND", "SQUARED_DIFFERENCE"), "0 1",
)  # fmt: skip
_UNARY = "0"


def operands(form: Form, inputs: tuple[int | None, ...]) -> tuple[int | None, ...]:
    """A node's inputs in the order of the internal op. Raises Unreadable when one is absent or too
    many are there.
    """
    if form.op in ("concat", "stack"):
        wanted = " ".join(str(k) for k in range(len(inputs)))
    else:
        wanted = _OPERANDS.get(form.op if "lstm" in form.op else form.host_op, _UNARY)
    if len(inputs) > len(wanted.split()):
        raise Unreadable(
            f"{len(inputs)} inputs are more than the {len(wanted.split())} that are supported."
        )
    found: list[int | None] = []
    for item in wanted.split():
        position = int(item.rstrip("?"))
        tensor = inputs[position] if position < len(inputs) else None
        if tensor is None and not item.endswith("?"):
            raise Unreadable(f"Input {position} is absent.")
        found.append(tensor)
    if not found:
        raise Unreadable("There are no inputs.")
    return tuple(found)


def check_outputs(form: Form, count: int) -> None:
    """Raise Unreadable when a node does not have the outputs that its op has."""
    expected = {"lstm_basic": BASIC_OUTPUTS, "split": count, "unstack": count}.get(form.op, 1)
    if count != expected:
        raise Unreadable(f"{count} outputs instead of {expected} are not supported.")
