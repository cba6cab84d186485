"""Small ONNX models with scales of blocks (block_size of opset 21) and weights in 4 bits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Named = tuple[str, bytes, dict[str, Array]]
OPSET = 21
FLOAT, INT8, UINT8, UINT4, INT4 = 1, 3, 2, 21, 22  # as ONNX counts types of elements


def models() -> Iterator[Named]:
    """Yields (name, model, inputs)."""
    yield from _constants()
    yield from _of_a_run()
    yield from _products()
    yield from _tables()


def _constants() -> Iterator[Named]:
    chance = np.random.default_rng(1)
    x = chance.normal(size=(3, 10)).astype(np.float32)
    for kind, low, high in ((INT4, -8, 8), (UINT4, 0, 16), (INT8, -128, 128)):
        w, shift = chance.integers(low, high, (10, 7)), (low + high) // 2 + 1
        for block in (0, 5, 4):  # of 4: the last block is not full
            count = -(-10 // block) if block else 0
            shape = (count, 7) if block else (7,)
            held = {
                "w": _tensor("w", kind, w), "z": _tensor("z", kind, np.full(shape, shift)),
                "s": _tensor("s", FLOAT, chance.uniform(0.01, 0.3, shape)),
            }  # fmt: skip
            more = {"axis": 0, "block_size": block} if block else {"axis": 1}
            nodes = [_node("DequantizeLinear", "w s z", "f", **more), _node("MatMul", "x f", "y")]
            yield f"constants-{kind}-{block}", _model(nodes, {"x": x}, held), {"x": x}
    image, w = chance.normal(size=(1, 3, 8, 8)), chance.integers(-8, 8, (5, 3, 3, 3))
    held = {"w": _tensor("w", INT4, w), "s": _tensor("s", FLOAT, chance.uniform(0.1, 0.3, 5))}
    nodes = [_node("DequantizeLinear", "w s", "f", axis=0), _node("Conv", "x f", "y")]
    fed = {"x": image.astype(np.float32)}
    yield "convolution", _model(nodes, fed, held), fed


def _of_a_run() -> Iterator[Named]:
    chance = np.random.default_rng(2)
    for count, block in ((2, 5), (3, 4)):
        held = {
            "s": _tensor("s", FLOAT, chance.uniform(0.01, 0.03, (4, count, 6))),
            "z": _tensor("z", UINT8, chance.integers(0, 256, (4, count, 6))),
        }
        stored = {"x": chance.integers(0, 256, (4, 10, 6), np.uint8)}
        back = [_node("DequantizeLinear", "x s z", "y", axis=1, block_size=block)]
        yield f"dequantize-{block}", _model(back, stored, held), stored
        values = {"x": chance.uniform(-3, 3, (4, 10, 6)).astype(np.float32)}
        there = [_node("QuantizeLinear", "x s z", "y", axis=-2, block_size=block)]
        yield f"quantize-{block}", _model(there, values, held, UINT8), values


def _products() -> Iterator[Named]:
    chance = np.random.default_rng(3)
    forms = ((4, 16, 0), (4, 32, 1), (4, 16, 2), (8, 32, 0), (8, 16, 1), (4, 64, 0), (4, 128, 1),
             (4, 256, 0), (4, 256, 2), (8, 64, 1), (8, 128, 0), (8, 256, 1))  # fmt: skip
    for bits, block, zeros in forms:
        inputs, outputs = (50, 9) if block < 64 else (block + 50, 9)
        fed = {"x": chance.normal(size=(2, 3, inputs)).astype(np.float32)}
        count = -(-inputs // block)
        packed = (outputs, count, block * bits // 8)
        held = {
            "w": _tensor("w", UINT8, chance.integers(0, 256, packed)),
            "s": _tensor("s", FLOAT, chance.uniform(0.01, 0.03, outputs * count)),
        }
        if zeros == 1:
            few = outputs * -(-count * bits // 8)
            held["z"] = _tensor("z", UINT8, chance.integers(0, 256, few))
        elif zeros == 2:  # not whole
            held["z"] = _tensor("z", FLOAT, chance.uniform(5, 9, outputs * count))
        held["b"] = _tensor("b", FLOAT, chance.normal(size=outputs))
        names = ["x", "w", "s", "z" if zeros else "", "", "b"]
        node = _node(
            "MatMulNBits", names, "y", domain="com.microsoft", K=inputs, N=outputs, bits=bits,
            block_size=block,
        )  # fmt: skip
        yield f"product-{bits}-{block}-{zeros}", _model([node], fed, held), fed


def _tables() -> Iterator[Named]:
    """Returns a model of rows gathered from tables, some with two numbers per byte."""
    chance = np.random.default_rng(4)
    ids = {"x": chance.integers(-9, 9, (2, 5))}
    for kind, bits, zeros in (
        (UINT8, 4, False), (UINT8, 4, True), (UINT8, 8, False), (UINT8, 8, True), (UINT4, 4, False),
        (UINT4, 4, True), (INT4, 4, False), (INT4, 4, True),
    ):  # fmt: skip
        halves = 2 if (kind, bits) == (UINT8, 4) else 1
        low, high = (-8, 8) if kind == INT4 else (0, 16 if kind == UINT4 else 256)
        held = {
            "w": _tensor("w", kind, chance.integers(low, high, (9, 48 // halves))),
            "s": _tensor("s", FLOAT, chance.uniform(0.01, 0.03, (9, 3))),
        }
        if zeros:
            held["z"] = _tensor("z", kind, chance.integers(low, high, (9, -(-3 // halves))))
        node = _node(
            "GatherBlockQuantized", ["w", "x", "s", *(["z"] if zeros else [])], "y",
            domain="com.microsoft", bits=bits, block_size=16,
        )  # fmt: skip
        yield f"table-{kind}-{bits}-{int(zeros)}", _model([node], ids, held), ids


def _tensor(name: str, kind: int, values: Array) -> Any:
    from onnx import helper

    return helper.make_tensor(name, kind, values.shape, values.reshape(-1).tolist())


def _node(op: str, inputs: str | Sequence[str], output: str, **attributes: Any) -> Any:
    from onnx import helper

    reads = inputs.split() if isinstance(inputs, str) else inputs
    return helper.make_node(op, reads, [output], name=f"{op} {output}", **attributes)


def _model(
    nodes: Sequence[Any], fed: Mapping[str, Array], held: Mapping[str, Any], kind: int = FLOAT
) -> bytes:
    from onnx import helper

    given = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for name, a in fed.items()
    ]
    made = [helper.make_tensor_value_info("y", kind, None)]
    graph = helper.make_graph(nodes, "blocks", given, made, list(held.values()))
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    return bytes(model.SerializeToString())
