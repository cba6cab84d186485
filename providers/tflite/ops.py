"""The table of TFLite operators: the op of each, its version ranges, and the reader of `params` for
its parameters.

`versions` end with the last one that the converter of TensorFlow 2.21 writes. A version includes
the earlier ones, and all nodes of an operator get the highest version that any of them needs: a
float32 node may have the version of int4. Types are checked separately. The documented ranges are
those of two editions of the GPU delegate documentation, and "quantized": up to the version that the
converter writes for int8 and per-channel tensors ("enabling quantization allows the appropriate
versions").

Operators without a kernel have rows as well where other nodes need the shapes of their results.

A custom operator has a row like any other, named `CUSTOM <its name>`. Its parameters are bytes of
the model that `RawNode.options` reads as a struct."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tflgpu_plugin.ir import STORE, Condition, HostOp, Refusal, operands, table
from tflgpu_plugin.providers import Table, arithmetic

from . import conditions as need, flexbuffers, loops, params

DETECTION = "CUSTOM TFLite_Detection_PostProcess"
CONV_TRANSPOSE = "CUSTOM Convolution2DTransposeBias"  # this and the next two are MediaPipe's
POOL_ARGMAX, UNPOOL = "CUSTOM MaxPoolingWithArgmax2D", "CUSTOM MaxUnpooling2D"
COMPOSITE = "STABLEHLO_COMPOSITE"  # the host runs a graph of the model
VARIABLES = {
    name: Refusal("operator.host_only", reason)
    for name, reason in {
        "CALL_ONCE": "It lets the host run a part of the model once, before the rest.",
        "VAR_HANDLE": "It names a variable of the model, which the host keeps.",
        "READ_VARIABLE": "It copies a variable of the model, which the host keeps.",
        "ASSIGN_VARIABLE": "It sets a variable of the model, which the host keeps.",
    }.items()
}
FLOATS, WHOLE = ("f32",), ("i32", "i64")
NUMBERS = (*FLOATS, *WHOLE)
ANY = (*NUMBERS, "bool")
MOVED = (*ANY, "i8", "u8")
COUNTS = (*WHOLE, "u32", "i8", "u8", "u16")
SUMMED = ("f32", "i32")  # not int64, whose sums may exceed int32
# Editions of the GPU delegate documentation, by the arguments of `_row` for them.
EDITIONS = {"edition_2019": "2019", "current": "current", "quantized": "quantized"}


def _row(
    host_op: str,
    op: str,
    last: int,
    parameters: params.Reader | None = None,
    takes: str = "value",
    *conditions: Condition,
    **facts: Any,
) -> HostOp:
    """Returns a row for versions 1 to `last`. `facts` are fields of HostOp, `gives` (the roles of
    outputs), and for each of EDITIONS the last version that it lists, from `first` on."""
    first, gives = facts.pop("first", 1), facts.pop("gives", "value")
    ends = {edition: facts.pop(edition, None) for edition in EDITIONS}
    ends["quantized"] = ends["quantized"] or ends["current"]
    documented = {EDITIONS[edition]: (first, end) for edition, end in ends.items() if end}
    fields = {"operands": operands(takes), "outputs": tuple(gives.split()), **facts}
    return HostOp(host_op, op, (1, last), documented, parameters, conditions=conditions, **fields)


def _rows_of(
    words: str, takes: str = "value", *conditions: Condition, reader: params.Reader | None = None,
    **traits: Any,
) -> Iterator[HostOp]:  # fmt: skip
    """Yields rows of operators whose ops have the same names. `words`: names and last versions."""
    listed = words.split()
    for name, last in zip(listed[::2], listed[1::2], strict=True):
        yield _row(name, name.lower(), int(last), reader, takes, *conditions, **traits)


TWO, CHOICE = "value value", "condition value value"
LAYER = "value weights bias?"
RNN = "value weights recurrent_weights bias state"
GATES = (
    f"{'weights? ' * 4}{'recurrent_weights? ' * 4}{'peepholes? ' * 3}{'biases? ' * 4}"
    "projection_weights? projection_bias? "
)
FULL_LSTM = f"value? {GATES}state? state? {'scales? ' * 4}"
BOTH_LSTM = f"value {GATES * 2}{'state ' * 4}value? {'weights? ' * 8}"
BOTH_RNN = f"{RNN} {RNN.removeprefix('value ')} value? weights? weights?"


def _rows() -> tuple[HostOp, ...]:
    both: Mapping[str, Any] = {"edition_2019": 1, "current": 1}
    integers: Mapping[str, Any] = {"quantized": 2, "int16": True, **both}
    moved: Mapping[str, Any] = {"bfloat16": True, "int16": True}  # hosts move numbers of 16 bits
    truths: Mapping[str, Any] = {"gives": "bool", "types": MOVED, "int16": True}
    compared, spread = (need.one_scale, need.below_one), params.fixed(one_way=True)
    add, mul = params.total, params.with_activation("tgl_mul_params")
    windows, lstm = (need.PADDED, need.MOVED), (need.TANH, need.CLIPPED, need.all_symmetric)
    layer = (*windows, need.activation, need.symmetric, need.WIDE)
    # The documentation lists only the basic kernel.
    full_lstm = _row("LSTM", "lstm_full", 5, params.lstm, FULL_LSTM, need.KERNEL, *lstm)
    return (
        *_rows_of("LOGISTIC 3 RELU 3 RELU6 3", **integers),
        *_rows_of("MAXIMUM 4 MINIMUM 4", TWO, current=1, quantized=2, int16=True),
        *_rows_of("ABS 5 LOG 2 TANH 3", int16=True),
        _row("RSQRT", "rsqrt", 3, params.root, int16=True),
        *_rows_of("ELU 1 HARD_SWISH 1 LOGICAL_NOT 1 LOG_SOFTMAX 2 RELU_N1_TO_1 1"),
        *_rows_of("CEIL 1 COS 2 FLOOR 1 ROUND 1 SIN 2 SQUARE 1", types=FLOATS),
        _row("NEG", "neg", 1, types=(*NUMBERS, "i8"), int16=True),
        _row("SIGN", "sign", 2, types=NUMBERS),
        *_rows_of("LOGICAL_OR 1 SQUARED_DIFFERENCE 2", TWO),
        *_rows_of("BITWISE_XOR 1 RIGHT_SHIFT 1", TWO, types=COUNTS, int16=True, unsigned=True),
        *_rows_of("EQUAL 5 NOT_EQUAL 4", TWO, *compared, reader=params.equal, **truths),
        *_rows_of("GREATER_EQUAL 3 LESS 3 GREATER 2 LESS_EQUAL 2", TWO, *compared,
                  reader=params.compared, **truths),
        _row("ADD", "add", 6, add, TWO, **integers),
        _row("AVERAGE_POOL_2D", "average_pool_2d", 3, params.pool, "value", *windows, **integers),
        _row(
            "CONCATENATION", "concat", 5, params.concatenation, "value*", quantized=2, **both,
            **moved,
        ),
        _row(
            "CONV_2D", "conv_2d", 8, params.convolution, LAYER, *layer, quantized=3, int16=True,
            **both,
        ),
        _row(
            "DEPTHWISE_CONV_2D", "depthwise_conv_2d", 7, params.depthwise,
            "value weights channel_bias?", *layer, need.MULTIPLIED, edition_2019=2, current=2,
            quantized=3, int16=True,
        ),
        _row("EXP", "exp", 2, current=1, quantized=2, int16=True),
        _row(
            "FULLY_CONNECTED", "fully_connected", 14, params.fully_connected, LAYER,
            *need.DENSE_LAYER, quantized=4, int16=True, **both,
        ),
        _row("LOGICAL_AND", "logical_and", 1, None, TWO, current=1),
        _row(
            "LSTM", "lstm_basic", 5, params.lstm, "value state weights bias state", need.KERNEL,
            *lstm, gives="value state scratch scratch", first=2, current=2, longer=full_lstm,
        ),
        _row("MAX_POOL_2D", "max_pool_2d", 3, params.pool, "value", *windows, **integers),
        _row("MUL", "mul", 8, mul, TWO, **integers),
        _row("PAD", "pad", 5, None, "value paddings", quantized=2, **moved, **both),
        _row("PRELU", "prelu", 1, None, "value narrow_slope", need.slope_type, int16=True, **both),
        _row("RESHAPE", "reshape", 1, params.reshape, "value shape?", **moved, **both),
        _row(
            "RESIZE_BILINEAR", "resize_bilinear", 4, params.resize, "value size", edition_2019=1,
            current=3, int16=True,
        ),
        _row("SOFTMAX", "softmax", 3, params.softmax, "value", need.of_shares, **integers),
        _row(
            "STRIDED_SLICE", "strided_slice", 8, params.strided_slice, "value begin end strides",
            quantized=2, **moved, **both,
        ),
        _row("SUB", "sub", 5, add, TWO, **integers),
        _row(
            "TRANSPOSE_CONV", "transpose_conv", 5, params.transposed, "size weights value bias?",
            *layer, order=(2, 1, 3, 0), **integers,
        ),
        _row("MEAN", "mean", 3, params.reduction, "value axes", int16=True),
        _row("DILATE", "dilate", 1, None, "value shape padding_value"),
        _row("PADV2", "pad", 5, None, "value paddings padding_value", **moved),
        _row("SQUEEZE", "reshape", 2, params.squeeze, **moved),
        _row("DEQUANTIZE", "dequantize", 8, None, "value", need.scaled, gives="converted",
             int16=True),
        _row("LEAKY_RELU", "leaky_relu", 2, params.leaky_relu, int16=True),
        _row("DEPTH_TO_SPACE", "depth_to_space", 2, params.block),
        _row("GATHER", "gather", 7, params.gather, "value index", **moved),
        _row("MIRROR_PAD", "pad", 3, params.mirror_pad, "value paddings", need.MIRRORED, **moved),
        _row("RESIZE_NEAREST_NEIGHBOR", "resize_nearest", 4, params.resize, "value size", **moved),
        _row("SPACE_TO_DEPTH", "space_to_depth", 2, params.block),
        _row(
            "SPLIT", "split", 4, params.parts, "axis value", need.COUNTED, order=(1, 0),
            gives="value*", int16=True,
        ),
        _row(
            "SPLIT_V", "split", 2, params.parts, "value split axis", need.COUNTED, order=(0, 2, 1),
            gives="value*", int16=True,
        ),
        _row(
            "UNIDIRECTIONAL_SEQUENCE_LSTM", "lstm_full", 5, params.sequence_lstm, FULL_LSTM, *lstm,
            need.DENSE,
        ),
        _row("RNN", "rnn_basic", 3, params.rnn, RNN, need.all_symmetric),
        _row(
            "UNIDIRECTIONAL_SEQUENCE_RNN", "rnn_basic", 3, params.sequence_rnn, RNN,
            need.all_symmetric,
        ),
        _row(
            "BIDIRECTIONAL_SEQUENCE_LSTM", "bidirectional_lstm", 3, params.bidirectional_lstm,
            BOTH_LSTM, *lstm, need.COUNTED, need.STATES_FOUND, gives="value*",
        ),
        _row(
            "BIDIRECTIONAL_SEQUENCE_RNN", "bidirectional_rnn", 3, params.bidirectional_rnn,
            BOTH_RNN, need.COUNTED, need.all_symmetric, need.one_pass, gives="value*",
        ),
        _row(
            "SVDF", "svdf", 4, params.svdf, "value weights weights bias? state", need.activation,
            need.all_symmetric, need.OF_SVDF,
        ),
        _row(
            "QUANTIZE", "quantize", 5, None, "value", need.scaled, gives="converted", int16=True,
            types=(*FLOATS, "i8", "u8", "i32"),
        ),
        _row("SQRT", "sqrt", 2, params.root, types=FLOATS, int16=True),  # not int8
        _row("TRANSPOSE", "transpose", 8, params.transpose, "value order!", **moved),
        _row("ARG_MAX", "arg_max", 3, params.argument, "value axis", need.INDEXED, gives="index"),
        _row("ARG_MIN", "arg_min", 3, params.argument, "value axis", need.INDEXED, gives="index"),
        _row("CAST", "cast", 8, gives="converted", bfloat16=True, int16=True, unsigned=True),
        _row(
            "CUMSUM", "cumsum", 1, params.plain("??", "exclusive", "reverse"), "value axis",
            types=NUMBERS,
        ),
        _row("DIV", "div", 2, mul, TWO, int16=True),
        _row("GATHER_ND", "gather_nd", 5, params.raises, "value index", **moved),
        _row(
            "ONE_HOT", "one_hot", 1, params.plain("i", "axis"), "index count value value",
            types=MOVED),
        _row("PACK", "stack", 4, params.axis, "value*", need.COUNTED, int16=True),
        _row(
            "UNPACK", "unstack", 5, params.axis, "value", need.COUNTED, gives="value*",
            **moved,
        ),
        _row("BATCH_MATMUL", "matmul", 4, params.batch_matmul, "value weights",
             need.symmetric_hybrid, int16=True),
        _row("BATCH_TO_SPACE_ND", "batch_to_space", 4, None, "value block crops", **moved),
        _row("ADD_N", "add_n", 1, None, "value*", types=SUMMED),
        _row("ATAN2", "atan2", 1, None, TWO, need.ALIKE, types=FLOATS),
        _row("BROADCAST_TO", "expand", 3, spread, "value shape", **moved),
        _row("FILL", "expand", 4, spread, "shape value", need.SCALAR, order=(1, 0), int16=True),
        _row("BITCAST", "cast", 1, None, "value", need.SAME_BITS, gives="converted", types=WHOLE),
        _row(
            "CONV_3D_TRANSPOSE", "transpose_conv_3d", 1, params.conv_3d,
            "shape weights value bias?", *windows, need.activation, order=(2, 1, 3, 0),
        ),
        _row(
            "CONV_3D", "conv_3d", 1, params.conv_3d, LAYER, *windows, need.activation, types=FLOATS,
        ),
        _row(
            "DYNAMIC_UPDATE_SLICE", "update_slice", 6, None, "value value index",
            types=MOVED, bfloat16=True, int16=True),
        _row(
            "EMBEDDING_LOOKUP", "gather", 4, params.fixed(axis=0, raises=True), "index value",
            order=(1, 0), types=(*SUMMED, "i8", "u8"), int16=True,
        ),
        _row("EXPAND_DIMS", "reshape", 1, params.expand_dims, "value axis!", **moved),
        # For floats, hosts floor a rounded quotient, which every driver rounds differently.
        _row("FLOOR_DIV", "floor_div", 3, params.raises, TWO, types=(*WHOLE, "i8"), int16=True),
        _row("FLOOR_MOD", "floor_mod", 2, params.raises, TWO, types=(*NUMBERS, "i8"), int16=True),
        _row("GELU", "gelu", 2, params.gelu, int16=True),
        _row(
            "L2_NORMALIZATION", "lp_normalization", 2, params.l2_normalization, "value",
            need.UNFUSED, types=FLOATS,
        ),
        _row("LOCAL_RESPONSE_NORMALIZATION", "lrn", 1, params.lrn, "value", types=FLOATS),
        _row("L2_POOL_2D", "root_mean_square_pool_2d", 1, params.pool, "value", *windows,
             types=FLOATS),
        _row(
            "NON_MAX_SUPPRESSION_V4", "non_max_suppression", 1, None,
            "value value count threshold threshold", gives="index index", types=SUMMED,
        ),
        _row(
            "NON_MAX_SUPPRESSION_V5", "soft_non_max_suppression", 1, None,
            "value value count threshold threshold threshold", gives="index value index",
            types=SUMMED,
        ),
        _row("POW", "pow", 1, params.raises, TWO, types=NUMBERS),
        *(
            _row(name, op, 1, params.reduction, "value axes", types=("bool", "i32"))
            for name, op in (("REDUCE_ALL", "reduce_min"), ("REDUCE_ANY", "reduce_max"))
        ),
        _row("RELU_0_TO_1", "clip", 1, params.fixed(low=0.0, high=1.0),
             types=(*FLOATS, "i8", "u8")),
        *(
            _row(name, name.lower(), 3, params.reduction, "value axes",
                 types=(*NUMBERS, "i8", "u8"), int16=True)
            for name in ("REDUCE_MAX", "REDUCE_MIN")
        ),
        _row("REDUCE_PROD", "reduce_prod", 2, params.reduction, "value axes", need.scaled,
             need.JOINS, types=(*NUMBERS, "i8"), int16=True),
        _row(
            "REVERSE_V2", "reverse", 3, None, "value axes!", need.one_axis, types=MOVED, **moved,
        ),
        _row(
            "REVERSE_SEQUENCE", "reverse_sequence", 1,
            params.plain("ii", "time_axis", "batch_axis"), "value index", int16=True,
        ),
        _row("SELECT", "where", 4, None, CHOICE, need.WHOLE_OR_ONE, types=MOVED, int16=True),
        # ops/scatter.py describes indices out of range.
        _row("SCATTER_ND", "scatter_new", 1, params.fixed(reduction="add", raises=True),
             "index value shape!", types=(*SUMMED, "i8", "u8")),
        _row("SEGMENT_SUM", "segments", 1, params.fixed(reduction="add", raises=False),
             "value index!", types=SUMMED),
        *(
            _row(
                f"UNSORTED_SEGMENT_{name}", "segments", 1,
                params.fixed(reduction=reduction, raises="above"), "value index count!",
                types=SUMMED,
            )
            for name, reduction in (
                ("SUM", "add"), ("PROD", "mul"), ("MIN", "min"), ("MAX", "max"),
            )
        ),
        # Where one operand is NaN, hosts return the first here, and the second in other operators.
        *(
            _row(f"STABLEHLO_{name}", op, 1, None, TWO, need.ALIKE, types=types, order=order)
            for name, op, types, order in (
                ("ADD", "add", NUMBERS, ()), ("MULTIPLY", "mul", NUMBERS, ()),
                ("MAXIMUM", "maximum", NUMBERS, (1, 0)), ("MINIMUM", "minimum", NUMBERS, (1, 0)),
                ("AND", "bitwise_and", WHOLE, ()),
            )
        ),
        # Complex numbers pass between these, in one partition (importer/partition_rules.py).
        _row("RFFT2D", "rfft", 1, None, "value size!", gives="converted"),
        *(
            _row(name, op, 1, gives="converted")
            for name, op in (
                ("REAL", "real"), ("IMAG", "imaginary"), ("COMPLEX_ABS", "complex_abs"),
            )
        ),
        _row(
            "STABLEHLO_PAD", "pad", 1, params.stablehlo_pad, "value padding_value paddings?",
            need.APART, order=(0, 2, 1), types=NUMBERS,
        ),
        _row("SELECT_V2", "where", 2, None, CHOICE, types=MOVED, int16=True),
        _row("SLICE", "slice", 7, None, "value start length", **moved),
        _row("SPACE_TO_BATCH_ND", "space_to_batch", 4, None, "value block crops", **moved),
        _row("SUM", "reduce_sum", 2, params.summed, "value axes", need.RESCALED, int16=True),
        _row("TOPK_V2", "top_k", 3, None, "value count", gives="value index",
             types=(*NUMBERS, "i8", "u8"), int16=True),
        _row("TILE", "tile", 3, None, "value repeats", **moved),
        _row(
            "WHILE", "recurrent_layer", 1, None, "value*", loops.planned, gives="value*",
            build=loops.loop,
        ),
        _row("IF", "reshape", 1, None, "condition value*", loops.decided, gives="value*",
             build=loops.branch, int16=True),
        _row(
            DETECTION, "detections", 1,
            lambda node: params.detections(flexbuffers.numbers(node.custom)), "value value value",
            need.SINGLE, gives="converted index converted index", types=("f32", "u8"),
        ),
        _row(
            CONV_TRANSPOSE, "transpose_conv", 1, params.custom_transposed, "value weights bias",
            *windows, need.INACTIVE, types=FLOATS,
        ),
        # Each host numbers pooling indices in its own way (importer/rules.py).
        _row(
            POOL_ARGMAX, "max_pool_argmax", 1, params.custom_pool, "value", *windows, need.INACTIVE,
            need.SIDE_BY_SIDE, gives="value index", types=FLOATS,
        ),
        _row(
            UNPOOL, "max_unpool", 1, params.custom_pool, "value index", *windows, need.INACTIVE,
            need.SIDE_BY_SIDE, types=FLOATS,
        ),
    )  # fmt: skip


HOST_OPS: dict[str, HostOp] = table(_rows())


def _cpu(names: str, takes: str, op: str = "", **traits: Any) -> dict[str, HostOp]:
    """Returns rows of operators without a kernel; a `build` computes results that are known."""
    return {
        name: HostOp(name, op, (1, 1), operands=operands(takes), **traits) for name in names.split()
    }


# Operators that stay on the CPU, with the inputs whose values decide the shapes of their results.
CPU_OPS: dict[str, HostOp] = (
    _cpu("BROADCAST_ARGS", "shape shape", build=arithmetic.common_shape)
    | _cpu("SPARSE_TO_DENSE", "value shape")
    | _cpu("RANDOM_STANDARD_NORMAL RANDOM_UNIFORM", "shape", chance=True)
    | _cpu("MULTINOMIAL", "value count", chance=True)
    | _cpu("NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5", "value value count")
    | _cpu("RANGE", "first limit delta", build=arithmetic.steps, outputs=("value",),
           conditions=(need.WHOLE_NUMBERS, need.TOWARDS))
    | _cpu("REDUCE_WINDOW", "value value shape shape shape")
    | _cpu("DENSIFY", "value", build=arithmetic.dense, sparse=True)  # reads sparse constants
    | _cpu("RANK", "value", build=arithmetic.rank, of_shapes=True)
    | _cpu("SHAPE", "value", build=arithmetic.shape, of_shapes=True)
    | _cpu("WHERE", "value", build=arithmetic.coordinates)
    | _cpu("ZEROS_LIKE", "value*", spreads=True)
    | _cpu(" ".join(VARIABLES), "", STORE, stated=True)
    | _cpu(COMPOSITE, "value*", stated=True)
)  # fmt: skip
# Nodes whose output shapes depend on values, unless these are constant.
OPAQUE = ("CALL", "CUSTOM", "HASHTABLE_LOOKUP", "IF", "UNIQUE", "WHERE")
# Operators that stay with the host for a reason.
LEFT: Mapping[str, Refusal] = {
    **VARIABLES,
    COMPOSITE: Refusal(
        "operator.host_only",
        "It lets the host run a graph of the model, whose nodes are claimed separately.",
    ),
    "DELEGATE": Refusal("host.other_delegate", "This node already belongs to another delegate."),
}
TABLE = Table(
    HOST_OPS, CPU_OPS, need.EVERY, left=LEFT, asks_runs=True, keeps_half=True, keeps_folded=True,
    keeps_weights=True,
)  # fmt: skip
