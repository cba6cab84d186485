"""Tests how the TFLite frontend reads a host's structs: attributes, inputs, operator codes; invalid
parameters give a sentence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from conformance.conditions import by_row, seen
from tests.support import host_models
from tflgpu_plugin import native
from tflgpu_plugin.errors import HostError, Unsupported
from tflgpu_plugin.importer import row_conditions, support
from tflgpu_plugin.importer.builder import Builder
from tflgpu_plugin.importer.model import Value
from tflgpu_plugin.importer.tensors import Tensors as BuiltTensors
from tflgpu_plugin.ir import Graph, HostOp, Node, Refusal, Target, Tensor
from tflgpu_plugin.providers.tflite import codes, conditions, delegate as delegates, ops, tensors
from tflgpu_plugin.providers.tflite.host_node import RawNode

# ---- the host's parameters ----------------------------------------------------------------------


def host_node(
    op: str, struct: str, inputs: tuple[int | None, ...] = (0, 1), **fields: Any
) -> RawNode:
    """Returns a node with these parameters; its tensors have rank 1."""
    params = native.ffi.new(f"{struct} *", fields)
    tensors = {k: Tensor(str(k), (4,)) for k in range(24)}
    code = codes.operators().index(op)
    return RawNode(native.ffi, 0, code, op, 1, inputs, (9,), params, tensors)


def read(node: RawNode) -> dict[str, Any]:
    form = ops.HOST_OPS[node.host_op]
    assert form.parameters is not None
    return form.parameters(node)


def row_of(node: RawNode) -> HostOp:
    """Returns the row that holds for a node."""
    return ops.HOST_OPS[node.host_op].form(len(node.inputs))


CONV = {"padding": 1, "stride_w": 2, "stride_h": 3, "dilation_w": 4, "dilation_h": 5}
POOL = {"padding": 2, "stride_w": 1, "stride_h": 1, "filter_w": 2, "filter_h": 3}
UNITS = {"strides": (1, 1), "padding": "same"}
READ = [
    (
        host_node("CONV_2D", "tgl_conv_params", activation=3, **CONV),
        {"strides": (3, 2), "padding": "same", "activation": "relu6", "dilations": (5, 4)},
    ),
    (
        host_node("DEPTHWISE_CONV_2D", "tgl_depthwise_params", depth_multiplier=2, **CONV),
        {
            "strides": (3, 2), "padding": "same", "activation": "none", "dilations": (5, 4),
            "multiplier": 2,
        },
    ),
    (
        host_node("MAX_POOL_2D", "tgl_pool_params", activation=2, **POOL),
        {"strides": (1, 1), "padding": "valid", "activation": "relu_n1_to_1", "window": (3, 2)},
    ),
    (
        host_node("CONCATENATION", "tgl_concatenation_params", axis=-1, activation=1),
        {"axis": -1, "activation": "relu"},
    ),
    (
        host_node("FULLY_CONNECTED", "tgl_fully_connected_params", keep_num_dims=True),
        {"keep_num_dims": True, "activation": "none"},
    ),
    (host_node("SOFTMAX", "tgl_softmax_params", beta=0.5), {"beta": 0.5}),
    (host_node("RESHAPE", "tgl_reshape_params"), {}),
    (
        host_node("RESHAPE", "tgl_reshape_params", (0,), shape=[2, -1], count=2),
        {"shape": (2, -1)},
    ),
    (host_node("RESHAPE", "tgl_reshape_params", (0,), shape=[0], count=1), {"shape": ()}),
    (
        host_node("SQUEEZE", "tgl_squeeze_params", (0,), dims=[1, -1], count=2),
        {"squeeze": (1, -1)},
    ),
    (
        host_node("RESIZE_BILINEAR", "tgl_resize_params", half_pixel_centers=True),
        {"align_corners": False, "half_pixel_centers": True},
    ),
    (
        host_node("STRIDED_SLICE", "tgl_strided_slice_params", begin_mask=5, offset=True),
        {
            "begin_mask": 5, "end_mask": 0, "ellipsis_mask": 0, "new_axis_mask": 0,
            "shrink_axis_mask": 0, "offset": True,
        },
    ),
    (host_node("MEAN", "tgl_reduce_params", keep_dims=True), {"keep_dims": True}),
    (
        host_node("CONV_3D", "tgl_conv_3d_params", activation=1, stride_d=7, dilation_d=8, **CONV),
        {
            "strides": (7, 3, 2), "padding": "same", "activation": "relu", "dilations": (8, 5, 4),
            "filters_last": True,
        },
    ),
    (
        host_node("BATCH_MATMUL", "tgl_batch_matmul_params", adj_y=True),
        {"transpose_a": False, "transpose_b": True},
    ),
    (host_node("GELU", "tgl_gelu_params", (0,), approximate=True), {"approximate": True}),
    (
        host_node("LSTM", "tgl_lstm_params", activation=4, kernel=1, cell_clip=1.0),
        {"cell_clip": 1.0, "proj_clip": 0.0},
    ),
    (
        host_node("UNIDIRECTIONAL_SEQUENCE_LSTM", "tgl_sequence_lstm_params", activation=4,
                  time_major=True, proj_clip=0.5),
        {"cell_clip": 0.0, "proj_clip": 0.5, "time_axis": 0},
    ),
    (
        host_node("UNIDIRECTIONAL_SEQUENCE_LSTM", "tgl_sequence_lstm_params", activation=1,
                  diagonal_recurrent=True),
        {"cell_clip": 0.0, "proj_clip": 0.0, "time_axis": 1, "activation": "relu",
         "diagonal": True},
    ),
    *[(host_node(op, struct, **dict.fromkeys(fields, 1)), wanted | {"activation": "none"})
      for op, struct, fields, wanted in (
          ("CONV_2D", "tgl_conv_params", CONV, {**UNITS, "dilations": (1, 1)}),
          ("DEPTHWISE_CONV_2D", "tgl_depthwise_params", (*CONV, "depth_multiplier"),
           {**UNITS, "dilations": (1, 1), "multiplier": 1}),
          ("MAX_POOL_2D", "tgl_pool_params", POOL, {**UNITS, "window": (1, 1)}),
          ("CONV_3D", "tgl_conv_3d_params", (*CONV, "stride_d", "dilation_d"),
           {"strides": (1, 1, 1), "dilations": (1, 1, 1), "padding": "same",
            "filters_last": True}))],
    (
        host_node("GATHER", "tgl_gather_params", axis=2, batch_dims=1),
        {"axis": 2, "batch_dims": 1, "raises": True},
    ),
    (host_node("GATHER", "tgl_gather_params", axis=-1), {"axis": -1, "raises": True}),
    (host_node("FULLY_CONNECTED", "tgl_fully_connected_params", weights_format=1),
     {"keep_num_dims": False, "activation": "none", "shuffled": True}),
    (host_node("MIRROR_PAD", "tgl_mirror_pad_params", mode=1), {"mode": "reflect"}),
    (host_node("MIRROR_PAD", "tgl_mirror_pad_params", mode=2), {"mode": "symmetric"}),
    (host_node("PACK", "tgl_pack_params", count=2, axis=1), {"axis": 1}),
    (host_node("UNPACK", "tgl_pack_params", (0,), count=1, axis=-1), {"axis": -1}),
    (host_node("SPLIT", "tgl_split_params", count=1), {}),
    (host_node("RESHAPE", "tgl_reshape_params", (0,), shape=[5] * 8, count=8),
     {"shape": (5,) * 8}),
    (host_node("RESHAPE", "tgl_reshape_params", (0, None)), {"shape": ()}),
    (host_node("SQUEEZE", "tgl_squeeze_params", (0,), dims=[0] * 8, count=8),
     {"squeeze": (0,) * 8}),
    (host_node("SQUEEZE", "tgl_squeeze_params", (0,)), {"squeeze": ()}),
    (host_node("LEAKY_RELU", "tgl_leaky_relu_params", alpha=0.25), {"alpha": 0.25}),
    (host_node("SPACE_TO_DEPTH", "tgl_block_params", size=3), {"block": 3}),
]  # fmt: skip

STEPS = "attribute.invalid"
SENSELESS = [
    (host_node("CONV_2D", "tgl_conv_params", padding=1), STEPS),
    (host_node("CONV_2D", "tgl_conv_params", **CONV | {"stride_w": 0}), STEPS),
    (host_node("CONV_2D", "tgl_conv_params", **CONV | {"dilation_h": -1}), STEPS),
    (host_node("CONV_2D", "tgl_conv_params", **CONV | {"padding": 0}), "attribute.invalid"),
    (host_node("CONV_2D", "tgl_conv_params", **CONV, activation=5), "activation.unsupported"),
    (host_node("ADD", "tgl_add_params", activation=6), "activation.unsupported"),
    (host_node("ADD", "tgl_add_params", activation=77), "activation.unsupported"),
    (host_node("DEPTHWISE_CONV_2D", "tgl_depthwise_params", **CONV), "attribute.invalid"),
    (host_node("AVERAGE_POOL_2D", "tgl_pool_params", **POOL | {"filter_h": 0}), STEPS),
    (
        host_node("FULLY_CONNECTED", "tgl_fully_connected_params", weights_format=1),
        "attribute.unsupported",
    ),
    (host_node("RESHAPE", "tgl_reshape_params", (0,), count=9), "attribute.invalid"),
    (host_node("SQUEEZE", "tgl_squeeze_params", (0,), count=-1), "attribute.invalid"),
    (
        host_node("LSTM", "tgl_lstm_params", activation=1, kernel=1),
        "activation.unsupported",
    ),
    (
        host_node("LSTM", "tgl_lstm_params", activation=4, kernel=1, cell_clip=-1),
        "attribute.invalid",
    ),
    (host_node("CONV_3D", "tgl_conv_3d_params", **CONV), STEPS),
    (host_node("EXPAND_DIMS", "tgl_gelu_params"), "constant.required"),
    (host_node("TRANSPOSE", "tgl_gelu_params"), "constant.required"),
    (host_node("LSTM", "tgl_lstm_params", activation=4, kernel=2), "input.unsupported"),
    (host_node("LSTM", "tgl_lstm_params", activation=4, kernel=0), "input.unsupported"),
    (
        host_node("LSTM", "tgl_lstm_params", tuple(range(20)), activation=4, kernel=1),
        "input.unsupported",
    ),
    (
        host_node("LSTM", "tgl_lstm_params", activation=4, kernel=1, proj_clip=-1),
        "attribute.invalid",
    ),
    (host_node("CONV_2D", "tgl_conv_params", **CONV | {"padding": 3}), "attribute.invalid"),
    (host_node("CONV_2D", "tgl_conv_params", **CONV | {"stride_h": 0}), STEPS),
    (host_node("CONV_2D", "tgl_conv_params", **CONV | {"dilation_w": 0}), STEPS),
    (host_node("RESHAPE", "tgl_reshape_params", (0,), count=-1), "attribute.invalid"),
    (host_node("SQUEEZE", "tgl_squeeze_params", (0,), count=9), "attribute.invalid"),
    (host_node("MIRROR_PAD", "tgl_mirror_pad_params"), "attribute.invalid"),
    (host_node("SPLIT", "tgl_split_params", count=2), "attribute.invalid"),
    (host_node("MIRROR_PAD", "tgl_mirror_pad_params", mode=3), "attribute.invalid"),
    (host_node("ARG_MAX", "tgl_arg_params", output_type=2), "dtype.mismatch"),
    (host_node("PACK", "tgl_pack_params", count=3), "attribute.invalid"),
    (host_node("UNPACK", "tgl_pack_params", (0,), count=2), "attribute.invalid"),
    (host_node("SPLIT", "tgl_split_params", count=0), "attribute.invalid"),
]


@pytest.mark.parametrize(("node", "wanted"), READ, ids=lambda v: getattr(v, "host_op", ""))
def test_parameters_become_attributes(node: RawNode, wanted: dict[str, Any]) -> None:
    assert read(node) == wanted


@pytest.mark.parametrize(("node", "wanted"), SENSELESS, ids=lambda v: getattr(v, "host_op", ""))
def test_senseless_parameters_are_a_sentence(node: RawNode, wanted: str) -> None:
    said = refused(node)
    assert said is not None and said.code == wanted and said.endswith(".")


def refused(node: RawNode, op: bool = True) -> Refusal | None:
    """Returns the refusal of a node by the reader, a condition of its row or (with `op`) its op."""
    row = row_of(node)
    assert row.parameters is not None
    try:
        attributes = row.parameters(node)
    except Unsupported as reason:
        return reason.sentence
    inputs = row.arranged(node.inputs)
    asked = Node(0, row.op, inputs, node.outputs, attributes, row=row)
    graph = Graph(node.tensors, (asked,), (0, 1), node.outputs)
    said = row_conditions.unmet(row.conditions, seen(graph, asked))
    if op and not said:
        said = by_row(graph, asked) or support.support(graph, asked, Target())
    return said


def test_rules_of_coordinates_exclude_each_other() -> None:
    image = Tensor("x", (1, 4, 4, 1))
    size = Tensor("size", (2,), "i32", np.int32([8, 8]))
    tensors = {0: image, 1: size, 2: replace(image, shape=(1, 8, 8, 1))}
    given = {"align_corners": True, "half_pixel_centers": True}
    node = Node(0, "resize_bilinear", (0, 1), (2,), given)
    said = support.support(Graph(tensors, (node,), (0,), (2,)), node, Target())
    assert said == "align_corners and half_pixel_centers exclude each other."


def test_parameters_that_are_not_there() -> None:
    node = replace(READ[0][0], raw_params=native.ffi.NULL)
    with pytest.raises(Unsupported) as caught:
        read(node)
    assert caught.value.sentence.code == "attribute.invalid"


def custom_node(op: str, *numbers: int, tail: bytes = b"") -> RawNode:
    """Returns a custom node whose parameters are these int32."""
    raw = b"".join(number.to_bytes(4, "little", signed=True) for number in numbers) + tail
    null, tensors = native.ffi.NULL, {k: Tensor(str(k), (4,)) for k in range(10)}
    return RawNode(native.ffi, 0, codes.CUSTOM, op, 1, (0, 1), (9,), null, tensors, custom=raw)


def read_custom(node: RawNode) -> dict[str, Any]:
    form = row_of(node)
    assert form.parameters is not None
    return form.parameters(node)


@pytest.mark.parametrize("more", [(), (0,), (0, 0)])
def test_parameters_of_a_custom_convolution(more: tuple[int, ...]) -> None:
    found = read_custom(custom_node(ops.CONV_TRANSPOSE, 1, 2, 3, *more))
    assert found == {"strides": (3, 2), "padding": "same", "activation": "none"}


@pytest.mark.parametrize("op", [ops.POOL_ARGMAX, ops.UNPOOL])
@pytest.mark.parametrize("more", [(), (-1, -1), (7, 7, 7, 7)])
def test_parameters_of_custom_poolings(op: str, more: tuple[int, ...]) -> None:
    found = read_custom(custom_node(op, 2, 2, 3, 2, 3, 0, *more))
    assert found == {"window": (3, 2), "padding": "valid"}


SENSELESS_CUSTOM = [
    (custom_node(ops.CONV_TRANSPOSE), "attribute.invalid"),
    (custom_node(ops.CONV_TRANSPOSE, 1, 2, tail=b"abc"), "attribute.invalid"),
    (custom_node(ops.CONV_TRANSPOSE, 1, 2, 2, tail=b"a"), "attribute.invalid"),
    (custom_node(ops.CONV_TRANSPOSE, 0, 2, 2), "attribute.invalid"),
    (custom_node(ops.CONV_TRANSPOSE, 1, 0, 2), STEPS),
    (custom_node(ops.CONV_TRANSPOSE, 1, 2, 2, 1), "activation.unsupported"),
    (custom_node(ops.POOL_ARGMAX, 1, 2, 2), "attribute.invalid"),
    (custom_node(ops.POOL_ARGMAX, 1, 2, 2, 2, 2, 1), "activation.unsupported"),
    (custom_node(ops.POOL_ARGMAX, 1, 2, 2, 3, 2, 0), "attribute.unsupported"),
    (custom_node(ops.UNPOOL, 2, 2, -2, 2, -2, 0), STEPS),
    (custom_node(ops.UNPOOL, 2, 2, 2, 2, 2, 0, 0), "attribute.invalid"),
]


@pytest.mark.parametrize(("node", "wanted"), SENSELESS_CUSTOM, ids=lambda v: str(v)[:20])
def test_senseless_parameters_of_custom_operators(node: RawNode, wanted: str) -> None:
    said = refused(node)
    assert said is not None and said.code == wanted and said.endswith(".")


@pytest.mark.parametrize(
    ("op", "inputs", "wanted"),
    [
        ("CONV_2D", (5, 6), (5, 6, None)),
        ("CONV_2D", (5, 6, None), (5, 6, None)),
        ("TRANSPOSE_CONV", (1, 2, 3), (3, 2, None, 1)),
        ("TRANSPOSE_CONV", (1, 2, 3, 4), (3, 2, 4, 1)),
        ("CONCATENATION", (4, 5, 6), (4, 5, 6)),
        ("RELU", (1,), (1,)),
        ("PADV2", (1, 2, 3), (1, 2, 3)),
        (ops.CONV_TRANSPOSE, (5, 6, 7), (5, 6, 7)),
    ],
)
def test_inputs_come_in_the_order_of_the_op(op: str, inputs: Any, wanted: Any) -> None:
    assert ops.HOST_OPS[op].arranged(inputs) == wanted


@pytest.mark.parametrize(
    ("op", "inputs"),
    [("CONV_2D", (5,)), ("CONV_2D", (None, 1)), ("RELU", (1, 2)), ("ADD", (1, 2, 3)), ("RELU", ())],
)
def test_inputs_that_cannot_be(op: str, inputs: Any) -> None:
    said = ops.HOST_OPS[op].lacking(inputs)
    assert said is not None and said.endswith(".")


@pytest.mark.parametrize(
    ("op", "changed", "said"),
    [
        ("RELU", {}, ""),
        ("DELEGATE", {}, "This node already belongs to another delegate."),
        ("RELU", {"damage": {0: "is torn"}}, "Tensor '0' is torn."),
        ("RELU", {"damage": {1: "is torn"}}, ""),
        ("RELU", {"outputs": (9, 8)}, "2 outputs instead of 1 are not supported."),
        ("RELU", {"inputs": ()}, "Input 0 of RELU is absent."),
        ("PACK", {"inputs": (0, None)}, "Input 1 of PACK is absent."),
        ("UNPACK", {"outputs": (9, 8)}, ""),
        ("LSTM", {"inputs": (0, 1, 2, 3, 4), "outputs": (5, 6, 7, 8)}, ""),
        ("LSTM", {"inputs": tuple(range(20))}, ""),
        ("LSTM", {"inputs": (*range(20), *[None] * 4, 20)}, "25 inputs are more than the 24"),
        ("HASHTABLE", {}, "HASHTABLE is not in the table of this plugin."),
    ],
)
def test_what_every_node_needs(op: str, changed: dict[str, Any], said: str) -> None:
    inputs, outputs = changed.get("inputs", (0,)), changed.get("outputs", (9,))
    damage = changed.get("damage", {})
    values = {str(k): Value(str(k), "f32", (4,), damage=damage.get(k, "")) for k in range(24)}
    host = host_models.node(0, op, inputs, outputs)
    row = ops.TABLE.row(host)
    found = ops.TABLE.refusal(host) if row is None else None
    if row is not None:
        ids = [None if key is None else int(key) for key in host.inputs]
        builder = Builder(host, row, BuiltTensors(), ids, ops.TABLE, values)
        found = row_conditions.unmet((*row_conditions.FIRST, *conditions.EVERY), builder)
    assert (found or "").startswith(said) and bool(found) == bool(said)


def test_each_list_of_inputs_has_its_own_op() -> None:
    """Only the basic LSTM is documented."""
    row = ops.HOST_OPS["LSTM"]
    assert [row.form(count).op for count in (5, 20, 24)] == ["lstm_basic", "lstm_full", "lstm_full"]
    assert row.documented and not row.form(24).documented


@pytest.mark.parametrize(
    ("allocation", "written", "constant"),
    [
        ("TGL_IN_MODEL", False, True),
        ("TGL_IN_MODEL", True, True),
        ("TGL_IN_PERSISTENT_CONSTANT", False, True),
        ("TGL_IN_PERSISTENT_CONSTANT", True, False),  # of present shapes: a resize changes it
        ("TGL_IN_ARENA", False, False),
        ("TGL_IN_PERSISTENT_ARENA", False, False),
        ("TGL_IN_DYNAMIC", False, False),
    ],
)
def test_constants_are_what_no_run_writes(allocation: str, written: bool, constant: bool) -> None:
    data = native.ffi.new("float[]", [1, 2, 3])
    place = getattr(native.lib, allocation)
    raw = native.ffi.new("tgl_tensor *", {"data": data, "allocation": place, "bytes": 12})
    found = tensors.constant(native.ffi, raw, "f32", (3,), written)
    assert (found is not None) == constant
    assert found is None or found.tolist() == [1, 2, 3]
    assert tensors.constant(native.ffi, raw, "f32", (4,), written) is None


def test_operator_codes_agree_with_the_schema() -> None:
    from conformance.models.tflite_file import schema

    known = {v: k for k, v in vars(schema().BuiltinOperator).items() if isinstance(v, int)}
    assert list(codes.operators()) == [known[k] for k in range(len(codes.operators()))]
    assert codes.name(32, "Thing") == "CUSTOM Thing" and codes.name(999) == "op code #999"


def test_the_host_groups_nodes() -> None:
    """Groups are in execution order; the nodes that are left out form one group."""
    ffi, status = native.ffi, [1]
    groups = [(4, 8), (6,)]
    lists = [ffi.new("tgl_ints *", {"size": len(each), "data": each}) for each in groups]
    parts = ffi.new("tgl_partition[2]")
    for part, members in zip(parts, lists, strict=True):
        part.nodes = part.outputs = members
    asked: list[list[int]] = []

    @ffi.callback("int32_t(tgl_context *, tgl_ints *, tgl_partition **, int32_t *)")  # type: ignore[untyped-decorator, unused-ignore]
    def preview(_: Any, nodes: Any, found: Any, count: Any) -> int:
        asked.append(list(nodes.data[0 : nodes.size]))
        found[0], count[0] = parts, 2
        return status[0]

    context = ffi.new("tgl_context *")
    for made in (ffi.NULL, preview):
        context.preview_partitions = made
        with pytest.raises(HostError, match="how it would group its nodes"):
            delegates.preview(context, [8, 6, 5, 4])
    status[0] = 0
    assert delegates.preview(context, [8, 6, 5, 4]) == [[8, 4], [6], [5]]
    assert asked == [[4, 5, 6, 8]] * 2
