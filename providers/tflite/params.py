"""How a TFLite host's parameters of a node become attributes of ours: one reader per struct, which
raises `Unsupported` where they make no sense.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tflgpu_plugin.errors import Unsupported

from . import codes
from .host_node import HostNode

MIRRORS = {1: "reflect", 2: "symmetric"}
PADDINGS = {1: "same", 2: "valid"}
ACTIVATIONS = {0: "none", 1: "relu", 2: "relu_n1_to_1", 3: "relu6", 4: "tanh", 5: "SIGN_BIT",
               6: "SIGMOID"}  # fmt: skip
LSTM_FULL, LSTM_BASIC = 0, 1


def _padding(params: Any) -> str:
    if params.padding not in PADDINGS:
        raise Unsupported(
            f"Padding must be SAME or VALID, not number {params.padding} "
            "(are the options missing from the model?)."
        )
    return PADDINGS[params.padding]


def _activation(params: Any) -> str:
    number = int(params.activation)
    return ACTIVATIONS.get(number, f"number {number}")


def _unusual(**settings: Any) -> dict[str, Any]:
    """Those that are set: conditions of the row ask about them."""
    return {name: value for name, value in settings.items() if value}


def _positive(what: str, height: int, width: int) -> tuple[int, int]:
    if height < 1 or width < 1:
        raise Unsupported(
            f"{what} must be at least 1, but height has {height} and width has {width}."
        )
    return int(height), int(width)


def _window(params: Any) -> dict[str, Any]:
    return {
        "strides": _positive("Strides", params.stride_h, params.stride_w),
        "padding": _padding(params),
        "activation": _activation(params),
    }


def plain(layout: str, *names: str) -> Callable[[HostNode], dict[str, Any]]:
    """Parameters that are attributes as they are: the types of the host's struct and our names."""

    def reader(node: HostNode) -> dict[str, Any]:
        return dict(zip(names, node.members(layout), strict=True))

    return reader


def convolution(node: HostNode) -> dict[str, Any]:
    params = node.params("tgl_conv_params")
    dilations = _positive("Dilations", params.dilation_h, params.dilation_w)
    return _window(params) | {"dilations": dilations}


def depthwise(node: HostNode) -> dict[str, Any]:
    params = node.params("tgl_depthwise_params")
    dilations = _positive("Dilations", params.dilation_h, params.dilation_w)
    if params.depth_multiplier < 1:
        raise Unsupported(
            f"The depth multiplier must be at least 1, but it is {params.depth_multiplier}."
        )
    return _window(params) | {"dilations": dilations, "multiplier": int(params.depth_multiplier)}


def transposed(node: HostNode) -> dict[str, Any]:
    return _window(node.params("tgl_transpose_conv_params"))


def pool(node: HostNode) -> dict[str, Any]:
    params = node.params("tgl_pool_params")
    return _window(params) | {
        "window": _positive("Window extents", params.filter_h, params.filter_w)
    }


def custom_transposed(node: HostNode) -> dict[str, Any]:
    """Padding and strides; hosts do not look at what may follow, a fused activation."""
    return _window(node.options("tgl_transpose_conv_params", (12, 16, 20)))


def custom_pool(node: HostNode) -> dict[str, Any]:
    """Windows side by side, which is all that hosts take; their padding is what hangs over."""
    params = node.options("tgl_pool_params", (24, 32, 40))
    given = _window(params)
    window = _positive("Window extents", params.filter_h, params.filter_w)
    apart = None if given["strides"] == window else given["strides"]
    active = None if given["activation"] == "none" else given["activation"]
    usual = {"window": window, "padding": given["padding"]}
    return usual | _unusual(strides=apart, activation=active)


def fully_connected(node: HostNode) -> dict[str, Any]:
    params = node.params("tgl_fully_connected_params")
    given = {"keep_num_dims": bool(params.keep_num_dims), "activation": _activation(params)}
    return given | _unusual(shuffled=bool(params.weights_format))


def members(struct: str, *names: str, **others: str) -> Callable[[HostNode], dict[str, Any]]:
    """Attributes that are members of a struct of tflite/abi.h: of the same names, and (ours=theirs)
    of others.
    """
    theirs = dict(zip(names, names, strict=True)) | others

    def reader(node: HostNode) -> dict[str, Any]:
        params = node.params(struct)
        return {name: getattr(params, member) for name, member in theirs.items()}

    return reader


softmax = members("tgl_softmax_params", "beta")
resize = members("tgl_resize_params", "align_corners", "half_pixel_centers")
MASKS = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask", "offset")
strided_slice = members("tgl_strided_slice_params", *MASKS)
batch_matmul = members("tgl_batch_matmul_params", transpose_a="adj_x", transpose_b="adj_y")
reduction = members("tgl_reduce_params", "keep_dims")
block = members("tgl_block_params", block="size")
leaky_relu = members("tgl_leaky_relu_params", "alpha")
gelu = members("tgl_gelu_params", "approximate")


def with_activation(struct: str) -> Callable[[HostNode], dict[str, Any]]:
    return lambda node: {"activation": _activation(node.params(struct))}


def concatenation(node: HostNode) -> dict[str, Any]:
    params = node.params("tgl_concatenation_params")
    return {"axis": int(params.axis), "activation": _activation(params)}


def reshape(node: HostNode) -> dict[str, Any]:
    """Input 1 counts when it is a vector (as in GetOutputShape of the host's reshape.cc), else the
    parameters do.
    """
    if node.has_input(1, rank=1):
        return {}
    params = node.params("tgl_reshape_params")
    if not 0 <= params.count <= len(params.shape):
        raise Unsupported(f"A shape of rank {params.count} cannot be in the parameters.")
    shape = tuple(int(params.shape[k]) for k in range(params.count))
    return {"shape": () if shape == (0,) else shape}  # one 0 is how old converters wrote a scalar


def squeeze(node: HostNode) -> dict[str, Any]:
    params = node.params("tgl_squeeze_params")
    if not 0 <= params.count <= len(params.dims):
        raise Unsupported(f"{params.count} axes cannot be in the parameters.")
    return {"squeeze": tuple(int(params.dims[k]) for k in range(params.count))}


def conv_3d(node: HostNode) -> dict[str, Any]:
    params = node.params("tgl_conv_3d_params")
    numbers = {
        name: tuple(int(getattr(params, f"{kind}_{axis}")) for axis in "dhw")
        for name, kind in (("strides", "stride"), ("dilations", "dilation"))
    }
    if min(min(values) for values in numbers.values()) < 1:
        raise Unsupported(f"Strides and dilations must be at least 1, but they are {numbers}.")
    given = {"padding": _padding(params), "activation": _activation(params)}
    return numbers | given | {"filters_last": True}


def expand_dims(node: HostNode) -> dict[str, Any]:
    axis = node.constant(1)
    if axis is None or axis.size != 1:
        raise Unsupported("The axis to add must be one constant.")
    return {"expand": int(axis.reshape(-1)[0])}


def mirror_pad(node: HostNode) -> dict[str, Any]:
    mode = int(node.params("tgl_mirror_pad_params").mode)
    if mode not in MIRRORS:
        raise Unsupported(f"Mirror mode number {mode} is not supported.")
    return {"mode": MIRRORS[mode]}


def gather(node: HostNode) -> dict[str, Any]:
    params = node.params("tgl_gather_params")
    return {"axis": int(params.axis)} | _unusual(batch_dims=int(params.batch_dims))


def transpose(node: HostNode) -> dict[str, Any]:
    perm = node.constant(1)
    if perm is None:
        raise Unsupported("The order of the axes must be constant.")
    if perm.ndim != 1:
        raise Unsupported("The order of the axes must be a list.")
    return {"perm": tuple(int(axis) for axis in perm.reshape(-1))}


def lstm(node: HostNode) -> dict[str, Any]:
    params = node.params("tgl_lstm_params")
    if params.kernel != LSTM_BASIC:
        raise Unsupported(f"LSTM kernel number {params.kernel} is not supported.")
    return _gates(params)


def _gates(params: Any) -> dict[str, Any]:
    activation = _activation(params)
    clips = {"cell_clip": float(params.cell_clip), "proj_clip": float(params.proj_clip)}
    return clips | _unusual(activation=None if activation == "tanh" else activation)


def full_lstm(node: HostNode) -> dict[str, Any]:
    return _gates(node.params("tgl_lstm_params")) | {"time_axis": 0}


def sequence_lstm(node: HostNode) -> dict[str, Any]:
    params = node.params("tgl_sequence_lstm_params")
    given = _gates(params) | {"time_axis": 0 if params.time_major else 1}
    return given | _unusual(diagonal=bool(params.diagonal_recurrent))


def argument(node: HostNode) -> dict[str, Any]:
    made = codes.dtype(int(node.params("tgl_arg_params").output_type))
    if made != node.result():
        raise Unsupported(
            f"The parameters ask for {made} places, the output holds {node.result()}."
        )
    return {"keep_dims": False}


def axis(node: HostNode) -> dict[str, Any]:
    """Of PACK and UNPACK."""
    params = node.params("tgl_pack_params")
    node.expect(int(params.count))
    return {"axis": int(params.axis)}


def parts(node: HostNode) -> dict[str, Any]:
    """Of SPLIT and SPLIT_V."""
    node.expect(int(node.params("tgl_split_params").count))
    return {}
