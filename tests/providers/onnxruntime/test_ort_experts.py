"""Tests mixtures of experts (com.microsoft's MoE) against the CPU provider."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from tests.support import onnx_models as m

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.adapter
WIDE, HIDDEN = 24, 20
GATED = {"swiglu_fusion": 1}
OWN = {**GATED, "activation_alpha": 1.702, "activation_beta": 1.0, "swiglu_limit": 0.5}


def model(count: int, biases: str = "ab", kind: type = np.float32, **attributes: Any) -> bytes:
    """Returns a model of one MoE with this many experts and the biases of some layers."""
    from onnx import helper, numpy_helper

    first = HIDDEN * (2 if attributes.get("activation_type") == "swiglu" else 1)
    shapes = {"u": (count, first, WIDE), "a": (count, first), "w": (count, WIDE, HIDDEN),
              "b": (count, WIDE)}  # fmt: skip
    chance = np.random.default_rng(count)
    held = {n: chance.normal(0, 0.3, s) for n, s in shapes.items() if n in "uw" + biases}
    names = ["x", "p", *(name if name in held else "" for name in shapes)]
    node = helper.make_node("MoE", names, ["y"], domain="com.microsoft", **attributes)
    element = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    given = [helper.make_tensor_value_info(n, element, ["n", size])
             for n, size in (("x", WIDE), ("p", count), ("y", WIDE))]  # fmt: skip
    constants = [numpy_helper.from_array(data.astype(kind), n) for n, data in held.items()]
    graph = helper.make_graph([node], "experts", given[:2], given[2:], constants)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString())


def feed(rows: int, count: int, kind: type = np.float32, ties: bool = False) -> dict[str, m.Array]:
    chance = np.random.default_rng(rows)
    router = chance.normal(0, 1, (rows, count))
    given = {"x": chance.normal(0, 1, (rows, WIDE)), "p": np.round(router) if ties else router}
    return {name: data.astype(kind) for name, data in given.items()}


def same(data: bytes, *feeds: dict[str, m.Array], tolerance: float = 2e-6) -> None:
    ours, theirs = m.session(data, force=1), m.cpu(data)
    for given in feeds:
        (found,), (wanted,) = ours.run(None, given), theirs.run(None, given)
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)
    report = tflgpu_plugin.report(ours)
    assert report.count("gpu") == len(report.nodes) and not report.host_runs


@pytest.mark.parametrize("normalized", [0, 1])
@pytest.mark.parametrize(
    ("name", "more"),
    [("relu", {}), ("gelu", {}), ("silu", {}), ("identity", {}), ("swiglu", GATED),
     ("swiglu", OWN)],
)  # fmt: skip
def test_activations(name: str, more: dict[str, Any], normalized: int) -> None:
    """Many rows go through all experts, one through those that it chooses."""
    given = {"activation_type": name, "normalize_routing_weights": normalized, "k": 2, **more}
    same(model(8, **given), *(feed(rows, 8) for rows in (7, 1, 2, 40)))


@pytest.mark.parametrize(
    ("kind", "normalized"), [(np.float32, 0), (np.float32, 1), (np.float16, 1)]
)
@pytest.mark.parametrize(("count", "k"), [(4, 2), (16, 1)])
def test_routers_that_are_not_finite(kind: type, count: int, k: int, normalized: int) -> None:
    """The result of a row is 0 where its router has NaN or no finite maximum."""
    given = feed(9, count, kind)
    given["p"][[0, 1], [1, count - 1]] = np.nan
    given["p"][[2, 3], [0, 2]] = np.inf, -np.inf
    given["p"][4], given["p"][5], given["p"][6] = np.nan, np.inf, -np.inf
    given["x"][4] = np.nan
    one = {name: data[:1] for name, data in given.items()}
    data = model(count, kind=kind, k=k, normalize_routing_weights=normalized)
    same(data, given, one, tolerance=2e-6 if kind is np.float32 else 2e-3)


@pytest.mark.parametrize("k", [1, 3, 6])
@pytest.mark.parametrize("biases", ["", "a", "b"])
def test_equal_experts(k: int, biases: str) -> None:
    """The last of them is chosen."""
    data = model(6, biases, k=k, use_sparse_mixer=0)
    same(data, feed(30, 6, ties=True), feed(1, 6, ties=True))


def test_float16() -> None:
    """Without normalized shares, the host's float16 kernel computes something else than float32."""
    given = {"k": 2, "activation_type": "silu"}
    data = model(4, kind=np.float16, normalize_routing_weights=1, **given)
    same(data, feed(9, 4, np.float16), tolerance=2e-3)
    other = m.session(model(4, kind=np.float16, **given), force=1)
    assert tflgpu_plugin.report(other).nodes[0].where == "cpu"


@pytest.mark.parametrize("given", [{"k": 5}, {"activation_type": "swiglu"}])
def test_what_the_host_refuses_stays(given: dict[str, Any]) -> None:
    """More choices than experts, and gates that are not interleaved."""
    with pytest.raises(Exception, match="MoE"):
        m.session(model(4, **given), force=1).run(None, feed(3, 4))


@pytest.mark.parametrize("worst", [np.inf, np.nan])
def test_experts_that_are_not_chosen_change_nothing(worst: float) -> None:
    import onnx
    from onnx import numpy_helper

    made = onnx.load_from_string(model(4, k=2))
    (bias,) = (each for each in made.graph.initializer if each.name == "b")
    values = numpy_helper.to_array(bias).copy()
    values[0] = worst
    bias.CopyFrom(numpy_helper.from_array(values, "b"))
    given = feed(5, 4)
    given["p"][:, 0] = -9
    assert np.isfinite(m.cpu(made.SerializeToString()).run(None, given)[0]).all()
    same(made.SerializeToString(), given)
