"""Converts the parameters that a TFLite host gives a node to attributes: one reader per struct.

Invalid numbers are kept, and enum values without a name become None: the rows' conditions refuse
them. Readers raise Unsupported where the parameters are absent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any

from tflgpu_plugin.ir import INT16, NUMBERS

from . import codes
from .host_node import RawNode

MIRRORS = {1: "reflect", 2: "symmetric"}
PADDINGS = {1: "same", 2: "valid"}
ACTIVATIONS = {0: "none", 1: "relu", 2: "relu_n1_to_1", 3: "relu6", 4: "tanh", 5: "SIGN_BIT",
               6: "SIGMOID"}  # fmt: skip
LSTM_FULL, LSTM_BASIC = 0, 1
LSTM_INTERMEDIATES = 5
BASIC_INPUTS = 5  # the largest number of inputs of the basic kernel
ROUND_ONCE = {"tflite_runtime": False, "ai_edge_litert": True, "tensorflow": True}  # by package


def _activation(params: Any) -> str:
    number = int(params.activation)
    return ACTIVATIONS.get(number, f"number {number}")


def _unusual(**settings: Any) -> dict[str, Any]:
    """Returns those settings that differ from their defaults (0, "" or None); the row's conditions
    refuse them."""
    return {name: value for name, value in settings.items() if value}


def _sizes(params: Any, name: str, axes: str = "hw") -> tuple[int, ...]:
    """Returns the members `<name>_<axis>`, one for each axis."""
    return tuple(int(getattr(params, f"{name}_{axis}")) for axis in axes)


def _window(params: Any, axes: str = "hw") -> dict[str, Any]:
    return {
        "strides": _sizes(params, "stride", axes),
        "padding": PADDINGS.get(params.padding),
        "activation": _activation(params),
    }


Reader = Callable[[RawNode], dict[str, Any]]


def fixed(**attributes: Any) -> Reader:
    """Returns a reader that returns these attributes for every node of an operator."""
    return lambda node: attributes


def compared(node: RawNode) -> dict[str, Any]:
    """Returns that hosts compare 8 bits in fixed point."""
    return _unusual(fixed_point=node.kind(0) in ("i8", "u8"))


def equal(node: RawNode) -> dict[str, Any]:
    """Returns the same. ai-edge-litert compares int16 so, too, but only for equality, and where it
    has a scale."""
    place = node.inputs[0]
    held = None if place is None else node.tensors[place].quantization
    fixed = node.kind(0) == INT16 and _rounds_once(node) and held not in (None, NUMBERS)
    return compared(node) | _unusual(fixed_point=fixed)


def plain(layout: str, *names: str) -> Reader:
    """Returns a reader that takes attributes from the members of the host's struct. `layout` has
    the members' types (in the notation of Python's struct module), `names` the attributes. The
    number `activation` becomes a name, and `time_major` becomes `time_axis` (0 or 1)."""

    def reader(node: RawNode) -> dict[str, Any]:
        found = dict(zip(names, node.members(layout), strict=True))
        if "activation" in found:
            found["activation"] = ACTIVATIONS.get(found["activation"])
        if "time_major" in found:
            found["time_axis"] = 0 if found.pop("time_major") else 1
        return found

    return reader


def convolution(node: RawNode) -> dict[str, Any]:
    params = node.params("tgl_conv_params")
    return _window(params) | {"dilations": _sizes(params, "dilation")} | _sums(node, 2, 24)


def _sums(node: RawNode, bias: int, place: int, unbiased: bool = False) -> dict[str, Any]:
    """Returns `narrow_sums` where hosts add up products of int16 in 32 bits: where the bias is
    int32 or, without one, where the parameters say so at this place; `unbiased` is what
    tflite-runtime does without one, whose structs end before it."""
    if node.result() != "i16":
        return {}
    narrow = node.kind(bias) == "i32"
    if not node.kind(bias):
        narrow = node.members(f"{place}xi") == (codes.INT32,) if _rounds_once(node) else unbiased
    return _unusual(narrow_sums=narrow)


def depthwise(node: RawNode) -> dict[str, Any]:
    params = node.params("tgl_depthwise_params")
    given = {"dilations": _sizes(params, "dilation"), "multiplier": int(params.depth_multiplier)}
    return _window(params) | given


def transposed(node: RawNode) -> dict[str, Any]:
    return _window(node.params("tgl_transpose_conv_params")) | _sums(node, 3, 16, unbiased=True)


def pool(node: RawNode) -> dict[str, Any]:
    params = node.params("tgl_pool_params")
    return _window(params) | {"window": _sizes(params, "filter")}


def custom_transposed(node: RawNode) -> dict[str, Any]:
    """Returns padding and strides. Hosts ignore a fused activation, which may follow them."""
    return _window(node.options("tgl_transpose_conv_params", (12, 16, 20)))


def custom_pool(node: RawNode) -> dict[str, Any]:
    """Returns window and padding. Hosts support only strides equal to the window; others are kept
    as an attribute that the row refuses. Padding extends the last windows."""
    params = node.options("tgl_pool_params", (24, 32, 40))
    given = _window(params)
    window = _sizes(params, "filter")
    apart = None if given["strides"] == window else given["strides"]
    active = None if given["activation"] == "none" else given["activation"]
    usual = {"window": window, "padding": given["padding"]}
    return usual | _unusual(strides=apart, activation=active)


def detections(given: Mapping[str, float]) -> dict[str, Any]:
    """Returns the options of TFLite_Detection_PostProcess; absent ones are 0, as in the host."""
    numbers = {"detections_per_class": 100} | dict(given)
    limits = [float(numbers.get(f"nms_{name}_threshold", 0)) for name in ("score", "iou")]
    counts = ("max_detections", "detections_per_class", "num_classes", "max_classes_per_detection")
    count, each, classes, several = (int(numbers.get(name, 0)) for name in counts)
    return {
        "count": count, "each": each if numbers.get("use_regular_nms", 0) else None,
        "classes": classes, "least": limits[0], "overlap": limits[1],
        "scales": tuple(float(numbers.get(f"{name}_scale", 0)) for name in "yxhw"),
    } | _unusual(several=several if several != 1 else 0)  # fmt: skip


def fully_connected(node: RawNode) -> dict[str, Any]:
    params = node.params("tgl_fully_connected_params")
    given = {"keep_num_dims": bool(params.keep_num_dims), "activation": _activation(params)}
    once = {"rounds_once": True} if _rounds_once(node) else {}
    return (
        given
        | once
        | _unusual(shuffled=bool(params.weights_format))
        | _sums(node, 2, 12, unbiased=True)
    )


def _rounds_once(node: RawNode) -> bool:
    """Whether the host's 8-bit layers round once when they requantize a sum: the default kernels of
    ai-edge-litert and TensorFlow do in all versions, their reference kernels since 1.4 and 2.21.
    tflite-runtime rounds the product to 31 places first (`MultiplyByQuantizedMultiplier`). The host
    is the innermost folder with the name of a host's package: a parent folder may have any name."""
    folders = PurePath(node.library()).parts[:-1]
    return next((ROUND_ONCE[name] for name in reversed(folders) if name in ROUND_ONCE), False)


def members(struct: str, *names: str, **others: str) -> Reader:
    """Returns a reader of members of a struct of tflite/abi.h. `names` are attributes named as
    their members; `others` maps further attributes to their members."""
    theirs = dict(zip(names, names, strict=True)) | others

    def reader(node: RawNode) -> dict[str, Any]:
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
gelu = members("tgl_gelu_params", "approximate")


def summed(node: RawNode) -> dict[str, Any]:
    """Returns the attributes of SUM, and `in_16_bits` where hosts add up int16 as int16:
    tflite-runtime does, and fails for other scales of the result."""
    narrow = node.result() == "i16" and not _rounds_once(node)
    return reduction(node) | _unusual(in_16_bits=narrow)


def leaky_relu(node: RawNode) -> dict[str, Any]:
    """Returns alpha, and `negates` where hosts multiply quantized numbers by the magnitude of a
    negative one, and negate the rounded product."""
    alpha = float(node.params("tgl_leaky_relu_params").alpha)
    negates = alpha < 0 and node.result() in ("i8", "u8", "i16") and _rounds_once(node)
    return {"alpha": alpha, "negates": True} if negates else {"alpha": alpha}


def root(node: RawNode) -> dict[str, Any]:
    """Returns `raises` where hosts refuse negative numbers, which they do in quantized tensors."""
    return {"raises": True} if node.result() in ("i8", "i16") else {}


def total(node: RawNode) -> dict[str, Any]:
    """Returns the attributes of ADD and SUB. With `powers`, hosts compute in their own way with
    int16 scales that are powers of two."""
    params = node.params("tgl_add_params")
    powers = node.result() == "i16" and bool(params.pot_scale_int16)
    return {"activation": _activation(params)} | _unusual(powers=powers)


def with_activation(struct: str) -> Reader:
    return lambda node: {"activation": _activation(node.params(struct))}


def concatenation(node: RawNode) -> dict[str, Any]:
    """Returns the attributes. Hosts rescale uint8 inputs to the quantization of the output;
    quantized inputs of other types must have that quantization."""
    params = node.params("tgl_concatenation_params")
    given = {"axis": int(params.axis), "activation": _activation(params)}
    return given | _unusual(rescales=node.result() == "u8")


def reshape(node: RawNode) -> dict[str, Any]:
    """Returns the shape in the parameters, or nothing where input 1 is a vector, which takes
    precedence (as in GetOutputShape of the host's reshape.cc)."""
    if node.has_input(1, rank=1):
        return {}
    shape = node.listed("tgl_reshape_params", "shape")
    return {"shape": () if shape == (0,) else shape}  # old converters wrote a scalar as one 0


def squeeze(node: RawNode) -> dict[str, Any]:
    return {"squeeze": node.listed("tgl_squeeze_params", "dims")}


def conv_3d(node: RawNode) -> dict[str, Any]:
    params = node.params("tgl_conv_3d_params")
    given = {"dilations": _sizes(params, "dilation", "dhw"), "filters_last": True}
    return _window(params, "dhw") | given


def expand_dims(node: RawNode) -> dict[str, Any]:
    axis = node.constant(1)
    return {"expand": None if axis is None or axis.size != 1 else int(axis.item())}


def stablehlo_pad(node: RawNode) -> dict[str, Any]:
    """Returns the padding of up to 8 axes; `inside` is set where there is interior padding."""
    given = node.members("24q")
    low, high, inside = (given[k : k + 8] for k in (0, 8, 16))
    return {"paddings": tuple(zip(low, high, strict=True))} | _unusual(inside=sum(inside))


def mirror_pad(node: RawNode) -> dict[str, Any]:
    return {"mode": MIRRORS.get(node.params("tgl_mirror_pad_params").mode)}


raises = fixed(raises=True)  # hosts fail at run time when an index is out of range


def gather(node: RawNode) -> dict[str, Any]:
    params = node.params("tgl_gather_params")
    given = {"axis": int(params.axis), "raises": True}
    return given | _unusual(batch_dims=int(params.batch_dims))


def transpose(node: RawNode) -> dict[str, Any]:
    perm = node.constant(1)
    return {} if perm is None else {"perm": tuple(int(axis) for axis in perm.reshape(-1))}


def _gates(params: Any) -> dict[str, Any]:
    activation = _activation(params)
    clips = {"cell_clip": float(params.cell_clip), "proj_clip": float(params.proj_clip)}
    return clips | _unusual(activation=None if activation == "tanh" else activation)


def lstm(node: RawNode) -> dict[str, Any]:
    params = node.params("tgl_lstm_params")
    kernel = LSTM_BASIC if len(node.inputs) <= BASIC_INPUTS else LSTM_FULL
    return _gates(params) | _hidden(node) | _unusual(other_kernel=params.kernel != kernel)


def _hidden(node: RawNode) -> dict[str, Any]:
    """Returns the scale and zero point of the last of the five intermediate tensors that a layer in
    16 bits has; layers in 8 bits alone have twelve."""
    if len(node.intermediates) != LSTM_INTERMEDIATES:
        return {}
    held = node.tensors[node.intermediates[-1]].quantization
    return {} if held is None else {"hidden": (held.scale[0], float(held.zero_point[0]))}


def sequence_lstm(node: RawNode) -> dict[str, Any]:
    params = node.params("tgl_sequence_lstm_params")
    given = _gates(params) | _hidden(node) | {"time_axis": 0 if params.time_major else 1}
    return given | _unusual(diagonal=bool(params.diagonal_recurrent))


rnn = plain("i", "activation")
sequence_rnn = plain("?i", "time_major", "activation")
svdf = plain("ii", "rank", "activation")


def bidirectional_rnn(node: RawNode) -> dict[str, Any]:
    return _both_ways(node, plain("?i?", "time_major", "activation", "merged"))


def bidirectional_lstm(node: RawNode) -> dict[str, Any]:
    gates = _gates(node.params("tgl_sequence_lstm_params"))
    return gates | _both_ways(node, plain("12x??", "merged", "time_major"))


def _both_ways(node: RawNode, read: Reader) -> dict[str, Any]:
    given = read(node)
    return given | _unusual(miscounted=len(node.outputs) != 2 - given["merged"])


def argument(node: RawNode) -> dict[str, Any]:
    made = codes.dtype(int(node.params("tgl_arg_params").output_type))
    return {"keep_dims": False} | _unusual(asked="" if made == node.result() else made)


def l2_normalization(node: RawNode) -> dict[str, Any]:
    (activation,) = node.members("i")  # hosts replace norms below `least` by it (l2normalization.h)
    return {"axis": -1, "p": 2, "least": 1e-6} | _unusual(activation=activation)


def lrn(node: RawNode) -> dict[str, Any]:
    """Returns the attributes. Windows include their last channel, as in the optimized kernel, which
    hosts use by default (local_response_norm.h); the reference kernel excludes it. The op, like
    ONNX, divides alpha by the size."""
    radius, bias, alpha, beta = node.members("ifff")
    size = 2 * radius + 1
    return {"size": size, "alpha": alpha * size, "beta": beta, "bias": bias}


def axis(node: RawNode) -> dict[str, Any]:
    """Returns the axis of PACK or UNPACK; `miscounted` is set where `count` is wrong."""
    params = node.params("tgl_pack_params")
    several = max(len(node.inputs), len(node.outputs))
    return {"axis": int(params.axis)} | _unusual(miscounted=params.count != several)


def parts(node: RawNode) -> dict[str, Any]:
    """Returns `miscounted` where the count of SPLIT or SPLIT_V is not the number of outputs."""
    given = node.params("tgl_split_params").count
    return _unusual(miscounted=given != len(node.outputs))
