"""The one place that says yes or no: versions, editions, types, shapes, quirks, and attributes that
make no sense. A no is a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tflgpu_plugin.providers.tflite import codes, ops
from tflgpu_plugin.providers.tflite.reader import HostNode
from tflgpu_plugin.providers.tflite.shapes import mark_unknown

from tflgpu_plugin import capability, native
from tflgpu_plugin.capability import Quirk, support
from tflgpu_plugin.graph import Array, Graph, Node, Quantization, Shape, Tensor
from tflgpu_plugin.target import Target

TARGET = Target()


def add(version: int = 1, dtype: str = "f32", shape: Shape = (2, 3), **more: Any) -> Graph:
    """A graph of one ADD of x and y."""
    tensors = {k: Tensor(name, shape, dtype) for k, name in enumerate(("x", "y", "sum"))}
    form = ops.FORMS["ADD"]
    node = Node(0, "add", (0, 1), (2,), {"activation": "none"}, "sum", "ADD", version, form, **more)
    return Graph(tensors, (node,), (0, 1), (2,))


def ask(graph: Graph, target: Target = TARGET, edition: str = "all") -> str | None:
    return support(graph, graph.nodes[0], target, edition)


# ---- versions and editions ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "edition", "claimed"),
    [
        (1, "all", True),
        (5, "all", True),
        (6, "all", False),
        (1, "documented", True),
        (2, "documented", False),
        (1, "documented-2019", True),
        (2, "documented-2019", False),
    ],
)
def test_versions(version: int, edition: str, claimed: bool) -> None:
    reason = ask(add(version), edition=edition)
    assert (reason is None) == claimed
    if reason:
        assert reason.startswith(f"This is version {version} of ADD. Version")


def test_an_op_that_an_edition_does_not_list() -> None:
    graph = add()
    node = replace(graph.nodes[0], form=ops.FORMS["MAXIMUM"], host_op="MAXIMUM", op="maximum")
    graph = replace(graph, nodes=(node,))
    assert ask(graph, edition="documented") is None
    reason = ask(graph, edition="documented-2019")
    assert reason == (
        "MAXIMUM is not listed in the 2019 edition of the GPU delegate documentation."
    )


GRID = Quantization((0.5,), (3,))


def quantized(version: int = 2, dtype: str = "i8", op: str = "add", **grids: Any) -> Graph:
    """One node over 8-bit tensors; `grids` gives tensors (x, y, sum) another quantization."""
    graph = add(version, dtype)
    tensors = {
        k: replace(tensor, quantization=grids.get(tensor.name, GRID))
        for k, tensor in graph.tensors.items()
    }
    return replace(graph, tensors=tensors, nodes=(replace(graph.nodes[0], op=op),))


@pytest.mark.parametrize(("version", "claimed"), [(1, True), (2, True), (3, False)])
def test_quantized_tensors_have_a_range_of_their_own(version: int, claimed: bool) -> None:
    """Version 2 of ADD carries int8."""
    reason = ask(quantized(version), edition="documented")
    assert (reason is None) == claimed
    assert reason is None or reason.startswith("This is version 3 of ADD. Versions 1 to 2 are")


# ---- quantized tensors ---------------------------------------------------------------------------


def test_quantized_models_can_be_left_out() -> None:
    graph = quantized()
    assert support(graph, graph.nodes[0], TARGET, quantized=False) == (
        "Tensor 'sum' holds int8 values and the option enable_quantized_inference is off."
    )


def test_integers_that_are_not_quantized() -> None:
    assert ask(quantized(x=None)) == (
        "Tensor 'x' holds int8 values that are not quantized: it has no scale."
    )


def test_a_scale_per_channel_is_for_constants() -> None:
    reason = ask(quantized(y=Quantization((0.5, 0.5, 0.25), (0, 0, 0), 1)))
    assert reason == (
        "Tensor 'y' holds int8 values computed at run time with a scale per channel; only "
        "constants may have that."
    )


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf")])
def test_scales_that_make_no_sense(scale: float) -> None:
    reason = ask(quantized(y=Quantization((scale,), (0,))))
    assert reason is not None and reason.endswith("which must be positive.")


def test_int16() -> None:
    assert ask(quantized(dtype="i16")) == (
        "Tensor 'sum' holds int16 values; quantized tensors must be int8 or uint8."
    )


def test_stored_numbers_must_mean_the_same() -> None:
    """Hosts take the larger stored number, whatever it stands for."""
    other = Quantization((0.25,), (3,))
    assert ask(quantized(op="maximum", sum=other)) == (
        "Tensors 'x' and 'sum' are quantized differently, which ADD does not provide for."
    )
    assert ask(quantized(op="add", sum=other)) is None


def test_an_int32_bias_must_be_constant() -> None:
    shapes = {"x": (1, 4), "weights": (3, 4), "bias": (3,), "y": (1, 3)}
    types = {"x": "i8", "weights": "i8", "bias": "i32", "y": "i8"}
    tensors = {
        k: Tensor(name, shape, types[name], quantization=GRID)
        for k, (name, shape) in enumerate(shapes.items())
    }
    attributes = {"keep_num_dims": False, "activation": "none"}
    node = Node(0, "fully_connected", (0, 1, 2), (3,), attributes)
    graph = Graph(tensors, (node,), (0, 1, 2), (3,))
    assert ask(graph) == "Bias 'bias' holds int32 values that only a run tells."


# ---- types and shapes ---------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "name"), [("i32", "int32"), ("f16", "float16"), ("string",) * 2])
def test_types(dtype: str, name: str) -> None:
    assert ask(add(dtype=dtype)) == (
        f"Tensor 'sum' holds {name} values; ADD is supported for float32."
    )


def test_logical_and_is_for_bool() -> None:
    graph = add(dtype="bool")
    node = replace(graph.nodes[0], op="logical_and", host_op="LOGICAL_AND", form=None)
    assert ask(replace(graph, nodes=(node,))) is None


@pytest.mark.parametrize(
    ("shape", "part"),
    [
        ((1,) * 9, "rank 9; ranks up to 8 are supported"),
        ((1, -1, 3), "a shape that is only known when the model runs"),
        ((1, 0, 3), "no elements"),
    ],
)
def test_shapes(shape: Shape, part: str) -> None:
    reason = ask(add(shape=shape))
    assert reason is not None and part in reason


@pytest.mark.parametrize("shape", [(), (1,), (2, 3), (1, 2, 3, 4), (1, 2, 3, 4, 5)])
def test_ranks_that_are_supported(shape: Shape) -> None:
    assert ask(add(shape=shape)) is None


def test_an_output_shape_that_the_inputs_do_not_give() -> None:
    graph = add()
    tensors = dict(graph.tensors) | {2: Tensor("sum", (7, 3))}
    reason = ask(replace(graph, tensors=tensors))
    assert reason is not None and "Tensor 'sum' has shape [7, 3] in the model" in reason


def test_the_providers_sentence_comes_first() -> None:
    assert ask(add(version=9, refusal="DIV is not in the table.")) == "DIV is not in the table."


def test_an_unknown_op() -> None:
    graph = add()
    node = replace(graph.nodes[0], op="fancy", host_op="FANCY", form=None)
    assert ask(replace(graph, nodes=(node,))) == "FANCY is not supported."


def test_a_defect_in_a_check_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    from tflgpu_plugin import ops as table

    def broken(*_: object) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.delenv("TFLGPU_DEBUG", raising=False)
    rows = dict(table.table())
    rows["add"] = replace(rows["add"], refuse=broken)
    monkeypatch.setattr(table, "table", lambda: rows)
    reason = ask(add())
    assert reason is not None and "ZeroDivisionError('oops')" in reason and "report" in reason


# ---- quirks -------------------------------------------------------------------------------------


@pytest.fixture
def quirk() -> Iterator[Quirk]:
    row = Quirk(
        "geforce 9000", "add", "ADD of rank 2 goes wrong on this driver, see issue 1.",
        first="530.10", last="535", condition=lambda g, n: len(g.shape(n.outputs[0])) == 2,
    )  # fmt: skip
    capability.QUIRKS.append(row)
    yield row
    capability.QUIRKS.remove(row)


@pytest.mark.parametrize(
    ("name", "driver", "shape", "refused"),
    [
        ("NVIDIA GeForce 9000", "NVIDIA 530.10.1", (2, 3), True),
        ("NVIDIA GeForce 9000", "535", (2, 3), True),
        ("NVIDIA GeForce 9000", "535.1", (2, 3), False),
        ("NVIDIA GeForce 9000", "530.9", (2, 3), False),
        ("NVIDIA GeForce 9000", "530.10", (2, 3, 4), False),
        ("NVIDIA GeForce 8000", "530.10", (2, 3), False),
    ],
)
def test_quirks(quirk: Quirk, name: str, driver: str, shape: Shape, refused: bool) -> None:
    target = Target(name=name, driver=driver)
    assert ask(add(shape=shape), target) == (quirk.reason if refused else None)


def test_no_quirk_is_known_yet() -> None:
    assert capability.QUIRKS == []


# ---- the host's parameters ----------------------------------------------------------------------


def host_node(
    op: str, struct: str, inputs: tuple[int | None, ...] = (0, 1), **fields: Any
) -> HostNode:
    """A node with these parameters, tensor k having rank 1."""
    params = native.ffi.new(f"{struct} *", fields)
    tensors = {k: Tensor(str(k), (4,)) for k in range(4)}
    code = codes._NAMES.index(op)
    return HostNode(native.ffi, 0, code, op, 1, inputs, (9,), params, tensors)


def read(node: HostNode) -> dict[str, Any]:
    form = ops.FORMS[node.host_op]
    assert form.attributes is not None
    return form.attributes(node)


CONV = {"padding": 1, "stride_w": 2, "stride_h": 3, "dilation_w": 4, "dilation_h": 5}
POOL = {"padding": 2, "stride_w": 1, "stride_h": 1, "filter_w": 2, "filter_h": 3}
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
        host_node("LSTM", "tgl_lstm_params", activation=4, kernel=1, cell_clip=1.0),
        {"cell_clip": 1.0, "proj_clip": 0.0},
    ),
]  # fmt: skip

SENSELESS = [
    (host_node("CONV_2D", "tgl_conv_params"), "Dilations must be at least 1"),
    (host_node("CONV_2D", "tgl_conv_params", **CONV | {"stride_w": 0}), "width has 0"),
    (host_node("CONV_2D", "tgl_conv_params", **CONV | {"padding": 0}), "SAME or VALID"),
    (host_node("CONV_2D", "tgl_conv_params", **CONV, activation=5), "SIGN_BIT is not supported"),
    (host_node("ADD", "tgl_add_params", activation=6), "SIGMOID is not supported"),
    (host_node("ADD", "tgl_add_params", activation=77), "number 77 is not supported"),
    (host_node("DEPTHWISE_CONV_2D", "tgl_depthwise_params", **CONV), "depth multiplier"),
    (host_node("AVERAGE_POOL_2D", "tgl_pool_params", **POOL | {"filter_h": 0}), "height has 0"),
    (host_node("FULLY_CONNECTED", "tgl_fully_connected_params", weights_format=1), "Shuffled"),
    (host_node("RESHAPE", "tgl_reshape_params", (0,), count=9), "rank 9"),
    (host_node("SQUEEZE", "tgl_squeeze_params", (0,), count=-1), "-1 axes"),
    (
        host_node("RESIZE_BILINEAR", "tgl_resize_params", align_corners=1, half_pixel_centers=1),
        "align_corners must be False",
    ),
    (host_node("LSTM", "tgl_lstm_params", activation=1, kernel=1), "Only TANH"),
    (host_node("LSTM", "tgl_lstm_params", activation=4, kernel=2), "kernel number 2"),
]


@pytest.mark.parametrize(("node", "wanted"), READ, ids=lambda v: getattr(v, "host_op", ""))
def test_parameters_become_attributes(node: HostNode, wanted: dict[str, Any]) -> None:
    assert read(node) == wanted


@pytest.mark.parametrize(("node", "part"), SENSELESS, ids=lambda v: getattr(v, "host_op", ""))
def test_senseless_parameters_are_a_sentence(node: HostNode, part: str) -> None:
    with pytest.raises(ops.Unreadable) as caught:
        read(node)
    assert part in str(caught.value) and str(caught.value).endswith(".")


def test_parameters_that_are_not_there() -> None:
    node = replace(READ[0][0], raw_params=native.ffi.NULL)
    with pytest.raises(ops.Unreadable, match="no parameters"):
        read(node)


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
    ],
)
def test_inputs_come_in_the_order_of_the_op(op: str, inputs: Any, wanted: Any) -> None:
    assert ops.operands(ops.FORMS[op], inputs) == wanted


@pytest.mark.parametrize(
    ("op", "inputs"),
    [("CONV_2D", (5,)), ("CONV_2D", (None, 1)), ("RELU", (1, 2)), ("ADD", (1, 2, 3)), ("RELU", ())],
)
def test_inputs_that_cannot_be(op: str, inputs: Any) -> None:
    with pytest.raises(ops.Unreadable):
        ops.operands(ops.FORMS[op], inputs)


def test_operator_codes_agree_with_the_schema() -> None:
    from conformance.models import schema

    known = {v: k for k, v in vars(schema().BuiltinOperator).items() if isinstance(v, int)}
    assert list(codes._NAMES) == [known[k] for k in range(len(codes._NAMES))]
    assert codes.name(32, "Thing") == "CUSTOM Thing" and codes.name(999) == "op code #999"


# ---- shapes that only a run tells ---------------------------------------------------------------


def chain(op: str, value: Array | None) -> dict[int, Tensor]:
    """x and a shape feed `op`, whose result y feeds RELU."""
    tensors = {
        0: Tensor("x", (2, 3)), 1: Tensor("shape", (2,), "i32", value),
        2: Tensor("y", (3, 2)), 3: Tensor("z", (3, 2)), 4: Tensor("other", (1,)),
    }  # fmt: skip
    nodes = [
        HostNode(None, 0, 0, op, 1, (0, 1), (2,), None, {}),
        HostNode(None, 1, 0, "RELU", 1, (2,), (3,), None, {}),
        HostNode(None, 2, 0, "RELU", 1, (0,), (4,), None, {}),
    ]
    return mark_unknown(nodes, tensors)


@pytest.mark.parametrize(
    ("op", "constant", "unknown"),
    [
        ("RESHAPE", False, True),
        ("RESHAPE", True, False),
        ("ADD", False, False),
        ("WHERE", True, True),
        ("CUSTOM Thing", True, True),
        ("op code #180", True, True),
    ],
)
def test_what_is_behind_a_computed_shape(op: str, constant: bool, unknown: bool) -> None:
    tensors = chain(op, np.array([3, 2], np.int32) if constant else None)
    assert [tensors[t].shape for t in (2, 3)] == [(-1, -1) if unknown else (3, 2)] * 2
    assert (tensors[0].shape, tensors[4].shape) == ((2, 3), (1,))
