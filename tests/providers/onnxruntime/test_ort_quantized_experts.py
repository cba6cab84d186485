"""Tests QMoE of com.microsoft against the CPU provider's QMoE, and its MoE with the same weights
in float32."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from tests.support import onnx_models as m

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.adapter
EXPERTS, WIDE, HIDDEN = 6, 64, 48
GATED = {"swiglu_fusion": 1, "activation_alpha": 1.702, "activation_beta": 1.0, "swiglu_limit": 0.5}
Arrays = Mapping[str, m.Array]


def weights(bits: int, block: int, first: int, zeros: bool, biases: bool) -> dict[str, m.Array]:
    """Returns the constants of both layers, the first of which has this many outputs."""
    chance, held = np.random.default_rng(bits + block), dict[str, m.Array]()
    for name, rows, inner in (("1", first, WIDE), ("2", WIDE, HIDDEN)):
        blocks = inner // block if block else 1
        shape = (EXPERTS, rows, blocks) if block else (EXPERTS, rows)
        packed = (*shape[:-1], -(-shape[-1] * bits // 8))
        held["w" + name] = chance.integers(0, 256, (EXPERTS, rows, inner * bits // 8), np.uint8)
        held["s" + name] = chance.random(shape, np.float32) / 20
        if biases:
            held["b" + name] = chance.normal(size=(EXPERTS, rows)).astype(np.float32)
        if zeros:
            held["z" + name] = chance.integers(0, 256, packed, np.uint8)
    return held


def unpacked(data: m.Array, bits: int) -> m.Array:
    if bits == 8:
        return data
    return np.stack([data & 15, data >> 4], -1).reshape(*data.shape[:-1], -1)


def floats(held: Arrays, bits: int, block: int, name: str) -> m.Array:
    """Returns the weights of a layer as float32."""
    numbers = unpacked(held["w" + name], bits).astype(np.float32)
    count, rows, inner = numbers.shape
    scales = held["s" + name].reshape(count, rows, -1)
    points = np.full(scales.shape, 2 ** (bits - 1), np.float32)
    if "z" + name in held:
        given = unpacked(held["z" + name], bits)
        points = (given[..., : scales.shape[-1]] if block else given[:, :rows, None]) * 1.0
    scales, points = (np.repeat(v, inner // v.shape[-1], -1) for v in (scales, points))
    return np.asarray((numbers - points) * scales, np.float32)


def model(op: str, held: Arrays, names: list[str], kind: type, **attributes: Any) -> bytes:
    from onnx import helper, numpy_helper

    listed = ["x", "p", *(name if name in held else "" for name in names)]
    node = helper.make_node(op, listed, ["y"], domain="com.microsoft", **attributes)
    element = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    given = [helper.make_tensor_value_info(n, element, ["n", size])
             for n, size in (("x", WIDE), ("p", EXPERTS), ("y", WIDE))]  # fmt: skip
    constants = [numpy_helper.from_array(v if v.dtype == np.uint8 else v.astype(kind), n)
                 for n, v in held.items()]  # fmt: skip
    graph = helper.make_graph([node], "experts", given[:2], given[2:], constants)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString())


QUANTIZED = ["w1", "s1", "b1", "w2", "s2", "b2", "", "", "", "z1", "z2"]


def checked(
    bits: int, block: int, zeros: bool = True, biases: bool = True, kind: type = np.float32,
    **attributes: Any,
) -> None:  # fmt: skip
    """Compares QMoE with the CPU's, where that computes in floats, and with MoE; some of the
    router's numbers are not finite."""
    wide = HIDDEN * (2 if attributes.get("activation_type") == "swiglu" else 1)
    held = weights(bits, block, wide, zeros, biases)
    more = {"expert_weight_bits": bits, **({"block_size": block} if block else {}), **attributes}
    ours = m.session(model("QMoE", held, QUANTIZED, kind, **more), force=1)
    host = m.cpu(model("QMoE", held, QUANTIZED, kind, **more))
    plain = {f"w{k}": floats(held, bits, block, k) for k in "12"}
    plain |= {name: data for name, data in held.items() if name[0] == "b"}
    shared = {k: v for k, v in attributes.items() if k != "accuracy_level"}
    full = m.cpu(model("MoE", plain, ["w1", "b1", "w2", "b2"], np.float32,
                       **shared | {"normalize_routing_weights": 1}))  # fmt: skip
    least = 1e-6 if kind is np.float32 else 2e-3
    rounds = block and (bits == 8 or attributes.get("accuracy_level") == 4)
    for rows in (1, 7):
        chance = np.random.default_rng(rows)
        given = {"x": chance.normal(size=(rows, WIDE)).astype(kind),
                 "p": np.round(2 * chance.normal(size=(rows, EXPERTS))).astype(kind)}  # fmt: skip
        if rows > 1:
            given["p"][[0, 1, 2], 1] = np.nan, np.inf, -np.inf
        (found,), (wanted,) = ours.run(None, given), host.run(None, given)
        whole = {name: data.astype(np.float32) for name, data in given.items()}
        (exact,) = full.run(None, whole)
        most = np.abs(exact).max()
        assert np.abs(found - exact).max() <= least * most
        assert np.abs(found - wanted).max() <= (0.02 if rounds else least) * most
    report = tflgpu_plugin.report(ours)
    assert report.count("gpu") == len(report.nodes) == 1 and not report.host_runs


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("block", [0, 16])
@pytest.mark.parametrize("zeros", [False, True])
def test_bits_and_blocks(bits: int, block: int, zeros: bool) -> None:
    checked(bits, block, zeros, activation_type="silu", k=2)


@pytest.mark.parametrize(
    ("name", "more"),
    [("relu", {}), ("gelu", {}), ("identity", {}), ("swiglu", GATED)],
)
def test_activations(name: str, more: dict[str, Any]) -> None:
    checked(4, 0, activation_type=name, k=3, **more)


@pytest.mark.parametrize("normalized", [0, 1])
def test_shares_are_always_normalized(normalized: int) -> None:
    checked(4, 16, biases=False, k=2, normalize_routing_weights=normalized)


def test_float16() -> None:
    checked(4, 16, kind=np.float16, k=2, activation_type="silu")


def test_activations_that_the_host_rounds_stay_floats() -> None:
    checked(4, 16, k=2, activation_type="silu", accuracy_level=4)


def test_other_bits_stay() -> None:
    held = weights(4, 0, HIDDEN, zeros=False, biases=False)
    held |= {name: data[..., : data.shape[-1] // 2] for name, data in held.items() if "w" in name}
    ours = m.session(model("QMoE", held, QUANTIZED, np.float32, expert_weight_bits=2), force=1)
    assert tflgpu_plugin.report(ours).nodes[0].where == "cpu"
