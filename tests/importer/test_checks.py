"""Inconsistent models, tables and rows of third-party hosts are refused with a sentence."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.subprocesses import ROOT
from tflgpu_plugin import ops, providers
from tflgpu_plugin.importer import partition
from tflgpu_plugin.importer.model import HostModel, HostNode, Value
from tflgpu_plugin.importer.support import Judge
from tflgpu_plugin.ir import Graph, Node, Quantization, Tensor, operands
from tflgpu_plugin.ops import attributes

TABLE = providers.Table({"twice": providers.HostOp("twice", "add", (1, 1),
                                                   operands=operands("value value"))})  # fmt: skip


@pytest.fixture(autouse=True)
def not_debugging(monkeypatch: pytest.MonkeyPatch) -> None:
    """Defects are refusals here, also where the conformance suite's settings raise them."""
    monkeypatch.delenv("TFLGPU_DEBUG", raising=False)


def node(number: int, reads: tuple[str, ...], made: str) -> HostNode:
    return HostNode(number, "twice", "", 1, made, reads, (made,), attributes={"activation": "none"})


def model(*nodes: HostNode, **values: Value) -> HostModel:
    names = "abcd"
    return HostModel(nodes, {n: Value(n, "f32", (2,)) for n in names} | values, ("c",))


RULES = Path(partition.__file__).with_name("rules.py")
LIST: Any = [1.0, 2.0]
VALUE: Any = Value("a", "f32", (2,))

WRONG: dict[str, tuple[HostModel, str]] = {
    "no such value": (model(node(0, ("a", "x"), "c")), "names the value 'x'"),
    "made twice": (
        model(node(0, ("a", "a"), "c"), node(1, ("b", "b"), "c")),
        "by two nodes, 0 and",
    ),
    "one id": (model(node(0, ("a", "a"), "b"), node(0, ("b", "b"), "c")), "have the same id"),
    "out of order": (model(node(0, ("b", "b"), "c"), node(1, ("a", "a"), "b")), "makes later"),
    "reads itself": (model(node(0, ("a", "c"), "c")), "makes later"),
    "no such output": (replace(model(), outputs=("x",)), "The output 'x'"),
    "no array": (model(a=Value("a", "f32", (2,), LIST)), "is not a numpy array"),
    "another type": (model(a=Value("a", "f32", (2,), np.ones(2))), "data of float64"),
    "no type": (model(a=Value("a", "float32", (2,), np.ones(2, np.float32))), "types are f32"),
    "no type, no data": (model(a=Value("a", "float32", (2,))), "types are f32"),
    "a constant that is made": (
        model(node(0, ("a", "a"), "c"), c=Value("c", "f32", (2,), np.ones(2, np.float32))),
        "is a constant, and",
    ),
    "an id of ours": (model(node(1 << 24, ("a", "a"), "c")), "is not from 0 to"),
    "no node": (replace(model(), nodes=(None,)), "not a HostNode"),
    "a list of inputs": (model(replace(node(0, ("a", "a"), "c"), inputs=LIST)), "not a tuple"),
    "a number as a key": (
        model(replace(node(0, ("a", "a"), "c"), inputs=(1, "a"))),
        "has 1, which is not",
    ),
    "no value": (model(a=LIST), "not a Value"),
    "a shape that is a number": (model(a=replace(VALUE, shape=2)), "not a tuple of integers"),
    "a type that is none": (model(a=replace(VALUE, dtype=np.float32)), "not a str"),
    "a body": (
        model(replace(node(0, ("a", "a"), "c"), bodies=(model(node(0, ("a", "x"), "c")),))),
        "names the value 'x'",
    ),
    "another shape": (model(a=Value("a", "f32", (3,), np.ones(2, np.float32))), "the shape [3]"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_model_that_does_not_fit(name: str) -> None:
    given, said = WRONG[name]
    with pytest.raises(ValueError) as error:
        providers.import_(given, TABLE)
    assert said in str(error.value) and str(error.value).endswith(".")


@pytest.mark.parametrize(
    ("rows", "said"),
    [({"x": providers.HostOp("x", "nonsense", (1, 1))}, "'nonsense', which is not an op"),
     ({"x": "add"}, "is not a HostOp"), ([], "a mapping")],
)  # fmt: skip
def test_a_table_that_is_none(rows: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        providers.import_(model(), providers.Table(rows))


def test_a_node_that_lacks_an_operand_is_refused() -> None:
    found = providers.import_(model(node(0, ("a",), "c")), TABLE)
    assert found.refusals == {0: "Input 1 of twice is absent."}


def test_a_circle_of_nodes_ends() -> None:
    tensors = {k: Tensor(str(k), (2,)) for k in range(2)}
    graph = Graph(tensors, (Node(0, "relu", (1,), (0,)), Node(1, "relu", (0,), (1,))), (), (1,))
    with pytest.raises(ValueError, match="can never run: the graph has a cycle"):
        partition.groups(graph, {0, 1})


def test_subclasses_and_numbers_of_numpy_are_taken() -> None:
    """Both built-in hosts use subclasses."""

    class Model(HostModel):
        pass

    class Step(HostNode):
        pass

    one = Step(np.int64(3), "twice", "", 1, "c", ("a", "a"), ("c",))
    given = Model((one,), model().values, ("c",))
    assert not providers.import_(given, TABLE).refusals
    with pytest.raises(ValueError, match="not a HostModel"):
        providers.import_(None, TABLE)  # type: ignore[arg-type]


def plus(build: Any) -> Any:
    """The refusal of the second node of a model, whose row has this builder."""
    row = providers.HostOp("plus", "add", (1, 1), operands=operands("value"), build=build)
    first, second = node(0, ("a", "a"), "b"), replace(node(1, ("b",), "c"), op="plus")
    table = providers.Table({**TABLE.rows, "plus": row})
    return providers.import_(model(first, second), table).refusals.get(1, "")


@pytest.mark.parametrize("operand", [1, np.float32(1), True])
def test_an_operand_that_is_no_tensor(operand: Any) -> None:
    """A plain number is no id, also where a tensor has it."""
    assert "write constants as floats" in plus(lambda b: b.add("add", b.x(), operand))


def test_a_tensor_of_another_graph_is_no_operand() -> None:
    kept: list[int] = []

    def remember(b: Any) -> int:
        kept.append(b.x())
        return int(b.add("add", b.x(), kept[0])) and b.add("add", b.x(), kept[0])

    assert plus(remember) == "" and "is no tensor of this graph" in plus(remember)


def test_a_row_that_fails_is_named() -> None:
    said = plus(lambda b: b.add("nonsense", b.x()))
    assert said.code == "defect" and "There is no op 'nonsense'" in said
    assert f"in the row of {__name__}" in said
    assert f"in the row of {__name__}" in plus(partial(fails, 1))


def fails(count: int, b: Any) -> int:
    return count // 0


def test_a_condition_that_fails_is_named() -> None:
    row = providers.HostOp("twice", "add", (1, 1), operands=operands("value value"),
                           conditions=(partial(fails, 1),))  # fmt: skip
    found = providers.import_(model(node(0, ("a", "a"), "c")), providers.Table({"twice": row}))
    assert f"in the row of {__name__}" in found.refusals[0]


@pytest.mark.parametrize(
    ("shapes", "said"),
    [({"x": (2,)}, "is not among the values"), ({"a": 2}, "not a tuple"),
     ({"a": (2.0,)}, "not a tuple"), ({"a": (2, 1)}, "is another"), ({"a": (3,)}, "is another"),
     ({"b": (4,), "d": (5,)}, "is another")],
)  # fmt: skip
def test_shapes_that_are_not_those_of_the_model(shapes: Any, said: str) -> None:
    open_ones = {key: Value(key, "f32", ("n",)) for key in "bd"}
    given = model(node(0, ("a", "a"), "c"), **open_ones)
    with pytest.raises(ValueError, match=said):
        providers.import_(given, TABLE, providers.Facts(shapes=shapes))
    providers.import_(given, TABLE, providers.Facts(shapes={"a": (2,), "b": (4,), "d": (4,)}))


def test_a_graph_without_a_judge_is_not_claimed() -> None:
    found = providers.import_(model(node(0, ("a", "a"), "c")), TABLE)
    with pytest.raises(ValueError, match="was not judged"):
        providers.claim(found)


def test_an_attribute_that_the_op_does_not_have_is_refused() -> None:
    """Ignored, it would be another answer: `transposeB` leaves the product as it is."""
    row = providers.HostOp("twice", "matmul", (1, 1), operands=operands("value value"))
    table = providers.Table({"twice": row})
    values = {name: Value(name, "f32", (2, 2)) for name in "abc"}

    def given(**attributes: Any) -> Any:
        one = replace(node(0, ("a", "b"), "c"), attributes=attributes)
        return providers.import_(model(one, **values), table).refusals.get(0, "")

    assert given(transpose_b=True) == ""
    said = given(transposeB=True)
    assert said.code == "attribute.unsupported" and "no attribute 'transposeB'" in said
    said = plus(lambda b: b.add("add", b.x(), b.x(), activations="relu"))
    assert "add has no attribute 'activations'" in said


def test_attributes_of_families_are_read_somewhere() -> None:
    folder = Path(ops.__file__).parent
    rooms = (*folder.glob("*.py"), *folder.parent.glob("passes/**/*.py"), RULES)
    rooms = tuple(path for path in rooms if path.name != "attributes.py")  # the list of all names
    whole = "\n".join(path.read_text() for path in rooms)
    whole = re.sub(r"^ATTRIBUTES = (?:\([^)]*\)|.*)$", "", whole, flags=re.M)
    for name in {name for op in ops.rows().values() for name in op.attributes}:
        assert re.search(rf"\W{name}\W", whole), name


def test_builders_give_attributes_that_ops_have() -> None:
    """Also on paths that no model of the tests takes."""
    for path in (*(ROOT / "providers").rglob("*.py"), *RULES.parent.glob("*.py")):
        for call in ast.walk(ast.parse(path.read_text())):
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
                continue
            first = call.args[0] if call.args else None
            op = ops.row(first.value) if isinstance(first, ast.Constant) else None
            if op is not None and call.func.attr in ("add", "add_many", "image"):
                given = {word.arg for word in call.keywords} - {None, "dtype", "quantization"}
                assert given <= op.attributes.keys(), f"{path.name}:{call.lineno}"


def told(op: str, takes: str, **attributes: Any) -> Any:
    """The refusal of a node that becomes this op, of images or matrices."""
    row = providers.HostOp("twice", op, (1, 1), operands=operands(takes))
    shape = (1, 4, 4, 1) if any(name in op for name in ("conv", "pool", "space")) else (2, 2)
    kernel = np.ones((1, 3, 3, 1) if "conv" in op else (2, 2), np.float32)
    values = {"a": Value("a", "f32", shape), "b": Value("b", "f32", kernel.shape, kernel),
              "c": Value("c", "f32", None)}  # fmt: skip
    keys = ("a", *["b"] * (len(takes.split()) - 1))
    given = HostModel((replace(node(0, keys, "c"), attributes=attributes),), values, ("c",))
    facts = providers.Facts(judge=Judge())
    return providers.import_(given, providers.Table({"twice": row}), facts).refusals.get(0, "")


WINDOW = {"strides": (1, 1), "padding": "valid"}
PADDING = "takes 'same', 'valid' or a list of 4 integers for padding, not "


@pytest.mark.parametrize(
    ("op", "takes", "right", "wrong", "said"),
    [
        ("conv_2d", "value weights", WINDOW, WINDOW | {"padding": "SAME"}, PADDING),
        ("max_pool_2d", "value", WINDOW | {"window": (2, 2)},
         WINDOW | {"window": (2, 2), "padding": ""}, PADDING),
        ("conv_2d", "value weights", WINDOW, WINDOW | {"activation": "Relu"}, "A Relu fused"),
        ("transpose_conv", "value weights", WINDOW, WINDOW | {"padding": "SAME"}, PADDING),
        ("matmul", "value weights", {}, {"activation": "relu"}, "no attribute 'activation'"),
        ("relu", "value", {}, {"alpha": 0.1}, "no attribute 'alpha'"),
        ("swish", "value", {"alpha": 2.0}, {"beta": 2.0}, "no attribute 'beta' (it has alpha)"),
    ],
)  # fmt: skip
def test_what_an_op_would_ignore_is_refused(
    op: str, takes: str, right: Any, wrong: Any, said: str
) -> None:
    assert told(op, takes, **right) == ""
    assert said in told(op, takes, **wrong)


@pytest.mark.parametrize("op", ["add", "relu", "transpose", "reduce_sum", "cumsum", "top_k"])
def test_operands_that_an_op_would_ignore_are_refused(op: str) -> None:
    takes = "value value value"
    assert "inputs at most" in told(op, takes)
    count = len(takes.split())
    assert "inputs at most" in plus(lambda b: b.add(op, *[b.x()] * count))


def test_absent_operands_at_the_end_do_not_count() -> None:
    """Hosts write an optional input that a node does not have as an empty one, or leave it out."""
    norm = providers.HostOp("twice", "layer_normalization", (1, 1),
                            operands=operands("value scale? bias? training_mode?"))  # fmt: skip
    given = replace(node(0, ("a",), "c"), attributes={"epsilon": 1e-5})
    for inputs in (("a",), ("a", None), ("a", *[None] * 5)):
        one = model(replace(given, inputs=inputs))
        facts = providers.Facts(judge=Judge())
        assert not providers.import_(one, providers.Table({"twice": norm}), facts).refusals
    assert plus(lambda b: b.add("add", b.x(), b.x(), b.get(1), None)) == ""
    assert "inputs at most" in plus(lambda b: b.add("add", b.x(), b.x(), None, b.x()))
    made: list[int] = []
    assert plus(lambda b: made.append(b.rank(b.add("stack", b.x(), None, axis=0))) or b.x()) == ""
    assert plus(lambda b: made.extend(b.shape(b.add("stack", b.x(), None, axis=0))) or b.x()) == ""
    assert made == [2, 1, 2]


@pytest.mark.parametrize("count", [2, 3, 4])
def test_absent_operands_are_as_good_as_none(count: int) -> None:
    """An op that counts its inputs counts those that are there."""
    row = providers.HostOp("twice", "transpose_conv", (1, 1),
                           operands=operands("value weights bias? shape?"))  # fmt: skip
    kernel = np.ones((1, 3, 3, 1), np.float32)
    values = {"a": Value("a", "f32", (1, 4, 4, 1)), "b": Value("b", "f32", kernel.shape, kernel),
              "c": Value("c", "f32", None)}  # fmt: skip
    inputs = ("a", "b", None, None)[:count]
    given = replace(node(0, inputs, "c"), attributes=WINDOW)
    facts = providers.Facts(judge=Judge())
    found = providers.import_(
        HostModel((given,), values, ("c",)), providers.Table({"twice": row}), facts
    )
    assert not found.refusals and found.graph.shape(found.ids["c"]) == (1, 6, 6, 1)


@pytest.mark.adapter
def test_absent_operands_at_the_end_are_not_stacked() -> None:
    row = providers.HostOp("twice", "stack", (1, 1), operands=operands("value bias? bias?"))
    given = replace(node(0, ("a", "b", None), "c"), attributes={"axis": 0})
    values = {"a": VALUE, "b": Value("b", "f32", (2,)), "c": Value("c", "f32", None)}
    facts = providers.Facts(judge=providers.judge({"force": True}))
    found = providers.import_(
        HostModel((given,), values, ("c",)), providers.Table({"twice": row}), facts
    )
    (partition_,) = providers.claim(found).partitions
    assert partition_.run([np.array([1, 2]), np.array([3, 4])])[0].tolist() == [[1, 2], [3, 4]]


@pytest.mark.adapter
def test_integers_of_numpy_are_integers_in_kernels() -> None:
    row = providers.HostOp("twice", "conv_2d", (1, 1), operands=operands("value weights"))
    pair = np.int64(2), np.int64(2)
    given = replace(node(0, ("a", "b"), "c"), attributes={"strides": pair, "padding": "valid"})
    kernel = np.ones((1, 2, 2, 1), np.float32)
    values = {"a": Value("a", "f32", (1, 4, 4, 1)), "b": Value("b", "f32", kernel.shape, kernel),
              "c": Value("c", "f32", None)}  # fmt: skip
    facts = providers.Facts(judge=providers.judge({"force": True}))
    found = providers.import_(
        HostModel((given,), values, ("c",)), providers.Table({"twice": row}), facts
    )
    (partition_,) = providers.claim(found).partitions
    assert partition_.run([np.ones((1, 4, 4, 1))])[0].tolist() == [[[[4], [4]], [[4], [4]]]]


def test_what_is_wrong_with_a_node_is_its_own_refusal() -> None:
    """Not that its result has no shape."""
    said = told("conv_2d", "value weights", padding="valid")
    assert said == "conv_2d needs the attribute strides: a list of 2 positive integers."
    assert "perm" in told("transpose", "value", perm=(0, 0))


IMAGES = "conv_2d", "value weights"
STRIDES = {"strides": (1, 1)}
PAD, BLOCKS = ("pad", "value"), ("depth_to_space", "value")


@pytest.mark.parametrize(
    ("op", "takes", "right", "wrong", "code"),
    [
        ("gelu", "value", {"approximate": False}, {"approximate": "none"}, "invalid"),
        ("gelu", "value", {"approximate": np.True_}, {"approximate": 1}, "invalid"),
        ("gather", "value index", {"axis": np.int64(1)}, {"axis": 1.0}, "invalid"),
        ("gather", "value index", {"axis": -1}, {"axis": True}, "invalid"),
        ("gather", "value index", {"axis": np.array(1)}, {"axis": [1]}, "invalid"),
        ("log_softmax", "value", {"axis": 0}, {"axis": None}, "invalid"),
        (*BLOCKS, {"block": 1, "mode": "CRD"}, {"block": 1, "mode": "crd"}, "invalid"),
        (*BLOCKS, {"block": 1}, {"block": 0}, "invalid"),
        ("softmax", "value", {"beta": 1}, {"beta": "1"}, "invalid"),
        ("softmax", "value", {"beta": np.float32(1)}, {}, "invalid"),
        (*IMAGES, WINDOW, WINDOW | {"strides": (-1, -1)}, "invalid"),
        (*IMAGES, WINDOW | {"padding": (0, 0, 0, 0)}, WINDOW | {"padding": (0, 0, 9)}, "invalid"),
        (*IMAGES, WINDOW | {"dilations": [1, 1]}, WINDOW | {"dilations": (1,)}, "invalid"),
        (*IMAGES, WINDOW | {"dilations": np.array([1, 1])}, STRIDES, "invalid"),
        ("clip", "value", {"low": None, "high": np.inf}, {"low": 1j}, "invalid"),
        ("transpose", "value", {"perm": [1, 0]}, {"perm": ["1", "0"]}, "invalid"),
        (*PAD, {"paddings": [(0, 1), (0, 0)]}, {"paddings": (0, 1, 0, 0)}, "invalid"),
        (*PAD, {"paddings": ((0, 1),) * 2}, {"paddings": ((0, 1, 2),) * 2}, "invalid"),
        (*PAD, {"paddings": ((0, 1),) * 2, "mode": "edge"}, {"mode": "other"}, "invalid"),
        ("reshape", "value", {"shape": (4,)}, {"shape": ("4",)}, "invalid"),
        ("reshape", "value", {"shape": (2, 2)}, {"shape": ((4,),)}, "invalid"),
        ("reshape", "value", {"shape": (4,)}, {}, "missing"),
    ],
)  # fmt: skip
def test_values_that_an_op_would_take_for_others_are_refused(
    op: str, takes: str, right: Any, wrong: Any, code: str
) -> None:
    """Its code reads them by truth, cut to integers, or by position in a list."""
    assert told(op, takes, **right) == "", right
    said = told(op, takes, **wrong)
    assert said.code == ("input.missing" if code == "missing" else "attribute.invalid"), said


def test_a_value_that_is_refused_is_one_sentence_in_rows_and_builders() -> None:
    said = "gelu takes True or False for approximate, not 'none'."
    assert told("gelu", "value", approximate="none") == said
    wrong = {"classes": 1, "count": "1", "each": None, "least": 0.0, "overlap": 0.5}
    extent = told("detections", "value value value", scales=(1.0,) * 4, **wrong)
    assert extent == "detections takes an integer for count, not '1'.", "it is an extent, too"
    refusal = plus(lambda b: b.add("gelu", b.x(), approximate="none"))
    assert refusal == said and refusal.code == "attribute.invalid"


@pytest.mark.parametrize(
    ("op", "name", "texts"),
    [("scatter_nd", "reduction", "none add mul min max"), ("roi_align", "mode", "avg max"),
     ("grid_sample", "method", "linear nearest cubic"), ("resize", "mode", "nearest linear cubic"),
     ("grid_sample", "outside", "zeros border reflection"),
     ("resize", "nearest", "round_prefer_floor round_prefer_ceil floor ceil"),
     ("resize", "coordinates", "half_pixel align_corners asymmetric tf_crop_and_resize"),
     ("recurrent_layer", "cell", "lstm gru rnn"),
     ("pad", "mode", "constant reflect symmetric edge wrap")],
)  # fmt: skip
def test_texts_that_an_op_does_not_know_are_refused(op: str, name: str, texts: str) -> None:
    declared = ops.rows()[op].attributes[name]
    assert all(declared.takes(text, 0) for text in texts.split())
    assert not any(declared.takes(value, 0) for value in ("", "other", texts.upper(), 1, None))


@pytest.mark.parametrize(
    ("op", "count", "absent"),
    [("add", 1, 1), ("reduce_sum", 1, 1), ("stack", 3, 1), ("concat", 2, 0), ("matmul", 2, 0),
     ("transpose_conv_3d", 3, 3), ("svdf", 4, 4)],
)  # fmt: skip
def test_an_operand_that_an_op_needs_is_told(op: str, count: int, absent: int) -> None:
    """One in the middle of several, too, which others would take the place of."""
    given = {name: 1 for name, one in ops.rows()[op].attributes.items() if one.needed}
    said = plus(
        lambda b: b.add(op, *[None if k == absent else b.x() for k in range(count)], **given)
    )
    assert said == f"Input {absent} of {op} is absent." and said.code == "input.missing"


def test_declared_attributes() -> None:
    found = attributes.declared(
        "strides[n]! padding[2n]=same|valid past? perm[]~ scales[4] axis raises=above"
    )
    assert {name: one.wanted(2) for name, one in found.items()} == {
        "strides": "a list of 2 positive integers", "past": "an integer or None",
        "padding": "'same', 'valid' or a list of 4 integers", "perm": "a list of integers",
        "scales": "a list of 4 numbers", "axis": "an integer",
        "raises": "'above' or True or False",
    }  # fmt: skip
    assert [name for name, one in found.items() if one.needed] == ["strides"]
    assert [name for name, one in found.items() if one.second] == ["perm"]
    for word in ("stride", "axis&", "axis[x]"):
        with pytest.raises(ValueError, match="declares no attribute"):
            attributes.declared(word)


def test_lists_of_json_are_taken() -> None:
    assert told("transpose", "value", perm=[1, 0]) == ""


@pytest.mark.adapter
def test_a_node_that_cannot_be_planned_takes_no_others_with_it() -> None:
    """`beta` of softmax is missed when its parameters are made."""
    table = providers.Table({
        name: providers.HostOp(name, name, (1, 1), operands=operands("value"))
        for name in ("relu", "softmax")
    })  # fmt: skip
    steps = [
        HostNode(k, op, "", 1, op, (key,), (chr(ord(key) + 1),))
        for k, (op, key) in enumerate((("relu", "a"), ("softmax", "b"), ("relu", "c")))
    ]
    values = {key: Value(key, "f32", (2, 3)) for key in "abcd"}
    given = HostModel(tuple(steps), values, ("d",))
    facts = providers.Facts(judge=providers.judge({"force": True}))
    claim = providers.claim(providers.import_(given, table, facts))
    assert list(claim.refusals) == [1] and len(claim.partitions) == 2


def ran(dtype: str, value: Any, op: str = "add", takes: str = "value value", **more: Any) -> Any:
    """Returns the result of a partition of one op for this value, as both inputs."""
    row = providers.HostOp("twice", op, (1, 1), operands=operands(takes), bfloat16=True)
    values = {key: replace(Value(key, dtype, (2,)), **more) for key in "ab"}
    values["c"] = Value("c", dtype if op == "add" else "f32", None)
    keys = ("a", "a")[: len(takes.split())]
    given = HostModel((replace(node(0, keys, "c"), attributes={}),), values, ("c",))
    facts = providers.Facts(judge=providers.judge({"force": True}))
    (partition_,) = providers.claim(
        providers.import_(given, providers.Table({"twice": row}), facts)
    ).partitions
    return partition_.run([value])[0].tolist()


@pytest.mark.adapter
@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("i32", [1.9, 1]), ("i32", [1 << 40, 1]), ("f32", [1j, 1]), ("i32", [np.nan, 1]),
        *[("f32", np.array([kind, 1], object)) for kind in (None, 1, 1 << 70)],
        ("f32", np.ones(2, "m8[s]")), ("f32", ["1", "1"]), ("i32", np.zeros(2, "V4")),
        ("f32", [np.finfo(np.float64).min, 0]),  # minus infinity would be another mask
    ],
)  # fmt: skip
def test_a_run_takes_no_numbers_that_its_plan_does_not(dtype: str, value: Any) -> None:
    with pytest.raises(ValueError, match="does not represent"):
        ran(dtype, value)
    assert ran(dtype, [1, 2]) == ran(dtype, [1.0, 2.0]) == [2, 4]
    assert ran("f32", [-np.inf, 1e-60]) == [-np.inf, 0]


@pytest.mark.adapter
@pytest.mark.parametrize(
    ("dtype", "op", "numbers"),
    [
        ("u8", "dequantize", [0, 255]),
        ("i8", "dequantize", [0, 127]),
        ("bf16", "from_bfloat16", [0, 0x3F80]),
    ],
)
def test_stored_numbers_are_never_floats(dtype: str, op: str, numbers: list[int]) -> None:
    """Taken as they are, 0.0 and 1.0 would be other values than 0.5, which is refused."""
    scale = Quantization((1 / numbers[1],), (0,), 0) if op == "dequantize" else None

    def run(value: Any) -> Any:
        return ran(dtype, value, op, "value", quantization=scale)

    for kind in (np.float32, np.float64, bool):
        with pytest.raises(ValueError, match="does not represent"):
            run(np.array([0, 1], kind))
    assert run(np.array(numbers)) == [0.0, 1.0]
