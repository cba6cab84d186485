"""Attributes in rows of third parties: wrong names and values are refused with a sentence."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.subprocesses import ROOT
from tests.support.third_party import built, image, partition, refusal
from tflgpu_plugin import importer, ops, providers
from tflgpu_plugin.importer.model import HostModel, HostNode, Value
from tflgpu_plugin.ir import operands
from tflgpu_plugin.ops import attributes

RULES = Path(importer.__file__).with_name("rules.py")

pytestmark = pytest.mark.usefixtures("not_debugging")


def test_an_attribute_that_the_op_does_not_have_is_refused() -> None:
    """Ignoring it would change the result: `transposeB` would have no effect."""
    assert refusal("matmul", "value weights", transpose_b=True) == ""
    said = refusal("matmul", "value weights", transposeB=True)
    assert said.code == "attribute.unsupported" and "no attribute 'transposeB'" in said
    said = built(lambda b: b.add("add", b.x(), b.x(), activations="relu"))
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
    """This covers paths that no model of the tests takes."""
    for path in (*(ROOT / "providers").rglob("*.py"), *RULES.parent.glob("*.py")):
        for call in ast.walk(ast.parse(path.read_text())):
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
                continue
            first = call.args[0] if call.args else None
            op = ops.row(first.value) if isinstance(first, ast.Constant) else None
            if op is not None and call.func.attr in ("add", "add_many", "image"):
                given = {word.arg for word in call.keywords} - {None, "dtype", "quantization"}
                assert given <= op.attributes.keys(), f"{path.name}:{call.lineno}"


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
    assert refusal(op, takes, **right) == ""
    assert said in refusal(op, takes, **wrong)


@pytest.mark.adapter
def test_integers_of_numpy_are_integers_in_kernels() -> None:
    strides = np.int64(2), np.int64(2)
    made = partition("conv_2d", "value weights", ("a", "b"), image((2, 2)), strides=strides,
                     padding="valid")  # fmt: skip
    assert made.run([np.ones((1, 4, 4, 1))])[0].tolist() == [[[[4], [4]], [[4], [4]]]]


def test_what_is_wrong_with_a_node_is_its_own_refusal() -> None:
    """The refusal says what is wrong, not that the result has no shape."""
    said = refusal("conv_2d", "value weights", padding="valid")
    assert said == "conv_2d needs the attribute strides: a list of 2 positive integers."
    assert "perm" in refusal("transpose", "value", perm=(0, 0))


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
    """The op would interpret them by truth value, truncated to integers, or by their position in a
    list."""
    assert refusal(op, takes, **right) == "", right
    said = refusal(op, takes, **wrong)
    assert said.code == ("input.missing" if code == "missing" else "attribute.invalid"), said


def test_a_value_that_is_refused_is_one_sentence_in_rows_and_builders() -> None:
    said = "gelu takes True or False for approximate, not 'none'."
    assert refusal("gelu", "value", approximate="none") == said
    wrong = {"classes": 1, "count": "1", "each": None, "least": 0.0, "overlap": 0.5}
    extent = refusal("detections", "value value value", scales=(1.0,) * 4, **wrong)
    assert extent == "detections takes an integer for count, not '1'.", "it is an extent, too"
    found = built(lambda b: b.add("gelu", b.x(), approximate="none"))
    assert found == said and found.code == "attribute.invalid"


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
    assert refusal("transpose", "value", perm=[1, 0]) == ""


@pytest.mark.adapter
def test_a_node_that_cannot_be_planned_takes_no_others_with_it() -> None:
    """The missing `beta` of softmax is noticed when its parameters are made."""
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
