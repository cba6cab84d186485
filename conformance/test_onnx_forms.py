"""Forms of ONNX operators that no node test has, against the CPU provider; random models have found
them.

Each runs with known shapes and with open ones, where the answer depends on our shapes alone. `LEFT`
are forms in which onnxruntime's kernels contradict the standard or their own shapes: these stay on
the CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from conformance import onnx_host
from conformance.host import Array
from conformance.plugin.book import Book
from conformance.plugin.record import FAIL, PASS, Record
from conformance.test_graph_cases import worst

pytestmark = [pytest.mark.adapter, pytest.mark.onnxruntime]

MAX_INT64 = 2**63 - 1
CONTRIB = "com.microsoft"


@dataclass(frozen=True)
class Form:
    """One node; `shapes` are those of its float inputs, fed with values from `low` to 1,
    `constants` the inputs after them (None: absent), `outputs` its results ("": not requested)."""

    op: str
    shapes: Sequence[tuple[int, ...]]
    constants: Sequence[Any] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    opset: int = 18
    domain: str = ""
    outputs: Sequence[str] = ("y",)
    low: float = 0.1

    def build(self, symbolic: bool) -> bytes:
        """Returns the model, with extents as numbers or names."""
        from onnx import TensorProto, helper, numpy_helper

        given = [f"x{k}" for k in range(len(self.shapes))]
        names = ["" if c is None else f"c{k}" for k, c in enumerate(self.constants)]
        node = helper.make_node(
            self.op, [*given, *names], self.outputs, domain=self.domain, **self.attributes
        )
        inputs = []
        for name, shape in zip(given, self.shapes, strict=True):
            extents = [f"{name}_{k}" if symbolic else n for k, n in enumerate(shape)]
            inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, extents))
        made = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
                for name in self.outputs if name]  # fmt: skip
        held = [numpy_helper.from_array(np.asarray(c), n)
                for n, c in zip(names, self.constants, strict=True) if c is not None]  # fmt: skip
        graph = helper.make_graph([node], "form", inputs, made, held)
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid(CONTRIB, 1)]
        proto = helper.make_model(graph, opset_imports=opsets, ir_version=9)
        return bytes(proto.SerializeToString())

    def feed(self) -> list[Array]:
        chance = np.random.default_rng(7)
        return [chance.uniform(self.low, 1, shape).astype(np.float32) for shape in self.shapes]


def _reduced(op: str) -> Form:
    """Returns a model of a reduction over no axis."""
    more = {"noop_with_empty_axes": 1}
    return Form(f"Reduce{op}", [(2, 3, 5)], [np.zeros(0, np.int64)], more)


def _sliced(step: int) -> Form:
    """Returns a model of a slice that runs backwards to the largest number, which stands for all
    that is left."""
    bounds = [np.array([n]) for n in (3, MAX_INT64, 1, step)]
    return Form("Slice", [(2, 5)], bounds)


def _deconv(auto: str, kernel: int, **more: Any) -> Form:
    """Returns a model of a transposed convolution with strides of 3, wider than the window."""
    weights = np.random.default_rng(3).uniform(-1, 1, (2, 3, kernel)).astype(np.float32)
    return Form("ConvTranspose", [(1, 2, 4)], [weights], {"auto_pad": auto, "strides": [3], **more})


def _resized(scales: list[float], roi: Any = None, **more: Any) -> Form:
    return Form(
        "Resize", [(1, 3, 4, 7)], [roi, np.array(scales, np.float32)], {"mode": "linear", **more}
    )


def _clipped(low: float, high: float) -> Form:
    return Form("Clip", [(8,)], [np.float32(low), np.float32(high)])


def _seeded(*shape: int) -> Array:
    return np.random.default_rng(5).uniform(-1, 1, shape).astype(np.float32)


def _fused(op: str, shapes: Sequence[tuple[int, ...]], *constants: Any, **attributes: Any) -> Form:
    return Form(op, shapes, constants, attributes, domain=CONTRIB, low=-1)


ACTIVATIONS: dict[str, Sequence[float]] = {
    "Relu": (), "Tanh": (), "Sigmoid": (), "LeakyRelu": (0.2,), "Clip": (-0.1, 0.3),
    "HardSigmoid": (0.3, 0.4),
}  # fmt: skip


def _convolved(activation: str, **more: Any) -> Form:
    given = {"activation": activation, "pads": [1, 1, 1, 1]}
    if ACTIVATIONS[activation]:
        given["activation_params"] = list(ACTIVATIONS[activation])
    return _fused("FusedConv", [(1, 3, 5, 6)], _seeded(4, 3, 3, 3), _seeded(4), **given, **more)


def _summed() -> Form:
    """Returns a model whose additional summand is fed like the image, and so are the weights."""
    shapes = [(2, 3, 5, 6), (4, 3, 3, 3), (4,), (2, 4, 5, 6)]
    return _fused("FusedConv", shapes, activation="Relu", pads=[1, 1, 1, 1])


def _gemm(activation: str) -> Form:
    numbers = zip(("alpha", "beta"), ACTIVATIONS[activation], strict=False)
    given: dict[str, Any] = {f"activation_{name}": n for name, n in numbers}
    return _fused("FusedGemm", [(3, 5)], _seeded(4, 5), _seeded(4), transB=1, alpha=0.7,
                  activation=activation, **given)  # fmt: skip


def _product(a: tuple[int, ...], b: tuple[int, ...], **attributes: Any) -> Form:
    return _fused("FusedMatMul", [a, b], **attributes)


def _skipped(op: str, wanted: Sequence[str], *constants: Any, skip: tuple[int, ...] = ()) -> Form:
    """Returns a model of the normalization of a sum of two tensors."""
    shape = (2, 3, 8)
    made = _fused(op, [shape, skip or shape], *constants, epsilon=1e-3)
    return replace(made, outputs=wanted)


def fused() -> dict[str, Form]:
    """Returns the model as onnxruntime's own optimization writes it."""
    image, row = [(2, 3, 8)], _seeded(8)
    gamma, skip = row + 2, "SkipLayerNormalization"
    plain, whole = ("y",), ("y", "", "", "sum")
    simple, sides = f"Skip{SIMPLE}", {"transBatchA": 1, "transBatchB": 1}
    return {
        **{f"FusedConv {name}": _convolved(name) for name in ACTIVATIONS},
        "FusedConv in steps": _fused(
            "FusedConv", [(1, 3, 9, 9)], _seeded(6, 3, 3, 3), activation="Relu",
            strides=[2, 2], dilations=[2, 1], auto_pad="VALID"),
        "FusedConv of a sum": _summed(),
        **{f"FusedGemm {name}": _gemm(name) for name in ("Relu", "Tanh", "Sigmoid", "LeakyRelu")},
        "FusedMatMul": _product((3, 4), (4, 5), alpha=0.5),
        "FusedMatMul A'": _product((2, 4, 3), (2, 4, 5), transA=1, alpha=2.0),
        "FusedMatMul B'": _product((2, 3, 4), (2, 5, 4), transB=1),
        "FusedMatMul A' B'": _product((2, 3, 4, 3), (2, 3, 5, 4), transA=1, transB=1),
        "FusedMatMul batches": _product((3, 2, 4), (4, 2, 5), **sides),
        "FusedMatMul batches A'": _product((4, 2, 3), (4, 2, 5), **sides, transA=1),
        "FusedMatMul batches B'": _product((3, 2, 2, 4), (5, 2, 2, 4), **sides, transB=1),
        "FusedMatMul one batch": _product((3, 2, 4), (2, 4, 5), transBatchA=1),
        "FusedMatMul of a vector": _product((4,), (2, 5, 4), transB=1),
        "FusedMatMul by a constant": _fused(
            "FusedMatMul", [(2, 3, 4)], _seeded(5, 4), transB=1, alpha=0.125),
        "TransposeMatMul": _fused("TransposeMatMul", [(2, 4, 3), (2, 4, 5)], transA=1, alpha=0.5),
        "Gelu of com.microsoft": _fused("Gelu", image),
        "BiasGelu": _fused("BiasGelu", image, row),
        "FastGelu": _fused("FastGelu", image),
        "FastGelu of a sum": _fused("FastGelu", image, row),
        "QuickGelu": _fused("QuickGelu", image),
        "QuickGelu alpha": _fused("QuickGelu", image, alpha=0.9),
        f"{skip}": _skipped(skip, plain, gamma),
        f"{skip} beta": _skipped(skip, plain, gamma, row),
        f"{skip} beta, bias, sum": _skipped(skip, whole, gamma, row, row * 3),
        f"{skip} bias, sum": _skipped(skip, whole, gamma, None, row * 3),
        f"{skip} of one batch": _skipped(skip, whole, gamma, row, skip=(1, 3, 8)),
        f"{simple}": _skipped(simple, plain, gamma),
        f"{simple} bias, sum": _skipped(simple, whole, gamma, row * 3),
        f"{SIMPLE}": Form(SIMPLE, image, [gamma], {"epsilon": 1e-3}, outputs=("y", "inverse")),
        f"{SIMPLE} of two axes": Form(SIMPLE, image, [_seeded(3, 8)], {"axis": 1}),
        "LayerNormalization before opset 17": Form(
            "LayerNormalization", image, [gamma, row], {"axis": -1}, 13,
            outputs=("y", "mean", "inverse")),
    }  # fmt: skip


SIMPLE = "SimplifiedLayerNormalization"
OPS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
FORMS = {
    **{f"Reduce{op} over nothing": _reduced(op) for op in OPS},
    **{f"Slice backwards by {-n}": _sliced(n) for n in (-1, -2)},
    **{f"ConvTranspose {auto} of {k}, {more} more": _deconv(auto, k, output_padding=[more])
       for auto in ("SAME_UPPER", "SAME_LOWER")
       for k, more in ((1, 0), (1, 1), (2, 0), (2, 1), (3, 0))},
    "Clip to the wrong way round": _clipped(0.7, 0.3),
    "Resize to the same size": _resized([1, 1, 1.1, 1.1]),
    **{f"Resize of {name}, {how}": _resized(
            scales, mode="nearest", nearest_mode=how,
            coordinate_transformation_mode="tf_half_pixel_for_nn")
       for name, scales in (("rows", [1, 1, 1.5, 1]), ("columns", [1, 1, 1, 1.5]))
       for how in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")},
    **fused(),
}  # fmt: skip
PART = np.array([0, 0, 0.1, 0.2, 1, 1, 0.9, 0.8], np.float32)
LEFT = {
    "a region, nothing resized":
        _resized([1, 1, 1.1, 1.1], PART, coordinate_transformation_mode="tf_crop_and_resize"),
    "antialias that grows": _resized([1, 1, 2, 1.1], antialias=1),
    "coordinates of another mode": Form(
        "Resize", [(1, 3, 4, 7)],
        [np.zeros(0, np.float32), np.array([1, 1, 2, 1], np.float32)],
        {"mode": "linear", "coordinate_transformation_mode": "tf_half_pixel_for_nn"}, 11,
    ),
    "cubic rows and channels": _resized([1, 1.1, 1.5, 1], mode="cubic"),
    "an aspect ratio from the end": Form(
        "Resize", [(1, 3, 4, 7)], [None, None, np.array([15])],
        {"axes": [-1], "keep_aspect_ratio_policy": "not_smaller"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("symbolic", [False, True], ids=["known", "open"])
@pytest.mark.parametrize("name", FORMS)
def test_form(name: str, symbolic: bool, book: Book, pytestconfig: pytest.Config) -> None:
    form = FORMS[name]
    content, feeds = form.build(symbolic), [form.feed()]
    expected = onnx_host.run_on_cpu(content, feeds)
    run = onnx_host.run_on_gpu(content, feeds, pytestconfig.getoption("--adapter"))
    known_otherwise = form.op == "Slice" and not symbolic  # onnx's shapes are not the kernel's
    problem = "" if run.placement.on_gpu or known_otherwise else str(run.placement)
    share, text = worst(expected, run.outputs)
    outcome = FAIL if problem or not share <= 1.0 else PASS
    case = f"{name}, {'open' if symbolic else 'known'} extents"
    record = Record("", "form", outcome, op=form.op, case=case, host=onnx_host.label(),
                    share=share, text=problem or text)  # fmt: skip
    book.close(record, content)


@pytest.mark.parametrize("name", LEFT)
def test_left_to_the_host(name: str) -> None:
    made = onnx_host.session(LEFT[name].build(False))
    assert onnx_host.placement(made).on_gpu == 0
