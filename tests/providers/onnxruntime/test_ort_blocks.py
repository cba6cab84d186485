"""Tests weights and tables in blocks of 4 or 8 bits: the conditions of their rows, at each limit,
and what stays packed in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.onnx_models import cpu, session
from tests.support.onnx_nodes import MS, F, Input, Node, rows
from tflgpu_plugin import report

FIT = "shape.mismatch"


def bits(
    packed: Any = (3, 2, 8), scales: int = 6, *more: Input, kind: Any = np.uint8, **given: Any
) -> Node:
    """Returns a node with three outputs and two blocks of 16 weights in 4 bits, of which the second
    is not full."""
    settings = {"K": 20, "N": 3, "block_size": 16, **given}
    return Node(
        f"{MS}:MatMulNBits", (2, 20), np.ones(packed, kind), rows(scales), *more, **settings
    )


def table(
    shape: Any = (3, 16), scales: Any = (3, 2), *more: Input, kind: Any = np.uint8, **given: Any
) -> Node:
    """Returns a node with a table of three rows of 32 numbers in 4 bits, in two blocks each."""
    settings = {"block_size": 16, **given}
    ids = ("i64", (2,))
    held = np.ones(shape, kind)
    return Node(f"{MS}:GatherBlockQuantized", held, ids, rows(*scales), *more, **settings)


BOUNDS: list[tuple[Node, str]] = [
    (bits(), ""),
    (bits((3, 2, 16), bits=8), ""),
    (bits((3, 2, 4), bits=2), ""),
    (bits((3, 2, 4), 6, np.ones(3, np.uint8), bits=2), ""),
    (bits((3, 2, 4), 6, np.ones(6, np.uint8), bits=2), FIT),
    (bits((3, 2, 6), bits=3), "quantization.unsupported"),
    (bits(block_size=0), "quantization.unsupported"),
    (bits((3, 3, 4), 9, block_size=8), "quantization.unsupported"),
    (bits((3, 1, 24), 3, block_size=48), "quantization.unsupported"),
    (bits((3, 1, 32), 3, block_size=64), ""),
    (bits(weight_prepacked=1), "quantization.unsupported"),
    (bits((3, 2, 8), 6, None, np.zeros(20, np.int32)), "input.unsupported"),
    (bits((3, 2, 9)), FIT),
    (bits((3, 2, 8), 5), FIT),
    (bits((3, 2, 8), 6, np.ones(3, np.uint8)), ""),
    (bits((3, 2, 8), 6, np.ones(6, np.uint8)), FIT),
    (bits((3, 2, 8), 6, np.ones(6, F)), ""),
    (bits((3, 2, 8), 6, np.ones(3, F)), FIT),
    (bits((3, 2, 16), 6, np.ones(6, np.uint8), bits=8), ""),
    (bits((3, 2, 16), 6, np.ones(3, np.uint8), bits=8), FIT),
    (table(), ""),
    (table((3, 32), kind=np.int8), ""),
    (table((3, 32)), ""),
    (table((3, 8), (3, 1)), "shape.mismatch"),  # 8 or 16 numbers: either has one block
    (table((3, 32), bits=8), ""),
    (table((3, 16), bits=8), FIT),
    (table((3, 32), bits=2), "shape.mismatch"),
    (table((3, 64), block_size=8, scales=(3, 8), bits=8), "shape.mismatch"),
    (table((3, 34)), FIT),
    (table((3, 16), (3, 3)), FIT),
    (table((3, 16), (3, 2), np.ones((3, 1), np.uint8)), ""),
    (table((3, 16), (3, 2), np.ones((3, 2), np.uint8)), FIT),
    (table((3, 32), (3, 2), np.ones((3, 2), np.uint8), bits=8), ""),
    (table((3, 32), (3, 2), np.ones((3, 1), np.uint8), bits=8), FIT),
    (table((16, 3), (1, 3), quantize_axis=0, bits=8), ""),
]  # fmt: skip


@pytest.mark.parametrize(("node", "wanted"), BOUNDS)
def test_a_row_asks_for_what_it_needs_and_no_more(node: Node, wanted: str) -> None:
    assert node.code == wanted, node.reason


def model(kind: str, shape: tuple[int, ...], scales: tuple[int, ...], zeros: bool, ids: bool = True,
          many: tuple[int, ...] = (3, 5), scaled: Any = F, **more: Any) -> bytes:  # fmt: skip
    """Returns a model that gathers rows of a table of such numbers; with `ids`, the indices are
    given at run time."""
    from onnx import TensorProto, helper, numpy_helper

    draw, held = np.random.default_rng(5), getattr(TensorProto, kind)
    low, high = {"UINT8": (0, 256), "UINT4": (0, 16), "INT4": (-8, 8)}[kind]

    def numbers(name: str, *shape: int) -> Any:
        return helper.make_tensor(name, held, shape, draw.integers(low, high, shape).ravel())

    packed = kind == "UINT8" and more.get("bits", 4) == 4
    points = (*scales[:-1], -(-scales[-1] // 2)) if packed else scales
    places = draw.integers(-shape[0], shape[0], many)
    constants = [
        numbers("w", *shape),
        numpy_helper.from_array(draw.uniform(0.1, 1, scales).astype(scaled), "s"),
        *([numbers("z", *points)] if zeros else []),
        *([] if ids else [numpy_helper.from_array(places, "x")]),
    ]
    reads = ["w", "x", "s", *["z"] * zeros]
    node = helper.make_node("GatherBlockQuantized", reads, ["t"], domain=MS, **more)
    result = TensorProto.FLOAT if scaled == F else TensorProto.FLOAT16
    fed = [helper.make_tensor_value_info("x", TensorProto.INT64, many)] if ids else []
    graph = helper.make_graph(
        [node, helper.make_node("Add", ["t", "a"], ["y"])], "test",
        [*fed, helper.make_tensor_value_info("a", result, [1])],
        [helper.make_tensor_value_info("y", result, None)], constants,
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(MS, 1)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString())


def weight_bytes(data: bytes, ids: bool = True, many: tuple[int, ...] = (3, 5),
                 scaled: Any = F) -> int:  # fmt: skip
    """Returns the weight bytes of a session on the GPU, whose answers are those of the CPU."""
    pytest.importorskip("onnxruntime")
    feeds: dict[str, Any] = {"a": np.array([0.5], scaled)}
    if ids:
        feeds["x"] = np.random.default_rng(6).integers(-64, 64, many)
    ours = session(data, optimize=False)
    (got,), (wanted,) = ours.run(None, feeds), cpu(data, optimize=False).run(None, feeds)
    # In float16 the host rounds twice, before the sum and after it.
    near = 0 if scaled == F else 2**-11 * np.abs(wanted).max()
    np.testing.assert_allclose(got, wanted, rtol=0, atol=near)
    assert got.dtype == wanted.dtype == scaled
    found = report(ours)
    assert all(node.where == "gpu" for node in found.nodes), found
    return int(found.weight_bytes)


FORMS = [("UINT8", 4), ("UINT8", 8), ("UINT4", 4), ("INT4", 4)]
ROWS, WIDTH, BLOCK = 64, 256, 32


@pytest.mark.adapter
@pytest.mark.parametrize(("kind", "bits"), FORMS)
@pytest.mark.parametrize("zeros", [False, True])
def test_tables_stay_in_few_bits(kind: str, bits: int, zeros: bool) -> None:
    """Memory holds the bits and one scale (and zero point) per block: with a scale, a seventh of
    float32. Tables with blocks along another axis become float32."""
    pytest.importorskip("onnx")
    held = (ROWS, WIDTH // 2 if (kind, bits) == ("UINT8", 4) else WIDTH)
    more: dict[str, Any] = {"bits": bits, "block_size": BLOCK}
    found = weight_bytes(model(kind, held, (ROWS, WIDTH // BLOCK), zeros, **more))
    pairs = zeros or kind == "UINT4"  # whose zero point is 0, and not in the middle
    table = ROWS * WIDTH * bits // 8 + ROWS * WIDTH // BLOCK * (8 if pairs else 4)
    assert table <= found <= table + 64
    assert 4 * ROWS * WIDTH > (3 if bits == 8 else 5) * found


@pytest.mark.adapter
@pytest.mark.parametrize("kind", ["UINT4", "INT4"])
@pytest.mark.parametrize(
    ("shape", "scales", "more"),
    [
        ((64, 48), (4, 48), {"quantize_axis": 0}),
        ((64, 64), (64, 4), {"gather_axis": 1}),
        ((64, 6, 32), (64, 6, 2), {"quantize_axis": 2}),
    ],
)
def test_other_tables_become_float32(
    kind: str, shape: tuple[int, ...], scales: tuple[int, ...], more: Any
) -> None:
    pytest.importorskip("onnx")
    found = weight_bytes(model(kind, shape, scales, True, block_size=16, **more))
    assert 4 * np.prod(shape) <= found <= 4 * np.prod(shape) + 64


@pytest.mark.adapter
@pytest.mark.parametrize("many", [(), (7,), (2, 3, 2), (1, 2, 1, 3), (1, 2, 1, 3, 1)])
def test_indices_of_any_rank(many: tuple[int, ...]) -> None:
    pytest.importorskip("onnx")
    found = weight_bytes(model("INT4", (64, 48), (64, 3), False, block_size=16, many=many),
                         many=many)  # fmt: skip
    assert (found >= 4 * 64 * 48) == (len(many) > 4)


@pytest.mark.adapter
def test_rows_that_are_known() -> None:
    pytest.importorskip("onnx")
    weight_bytes(model("UINT8", (64, 24), (64, 3), True, False, block_size=16), False)


@pytest.mark.adapter
@pytest.mark.parametrize("zeros", [False, True])
def test_scales_of_float16(zeros: bool) -> None:
    pytest.importorskip("onnx")
    half = np.float16
    weight_bytes(model("UINT8", (64, 24), (64, 3), zeros, scaled=half, block_size=16), scaled=half)
