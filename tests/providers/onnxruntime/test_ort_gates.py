"""Tests the gates that onnxruntime-genai writes, sectioned rotary embedding and distances against
onnxruntime's kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.onnx_models import Array, compare, cpu, model, node, places, session
from tests.support.onnx_nodes import MS

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.adapter


def check(
    op: str,
    fed: dict[str, Array],
    outputs: int = 1,
    opened: dict[str, tuple[Any, ...]] | None = None,
    **attributes: Any,
) -> None:
    """Asserts that a node with these inputs, in order, runs on the GPU and gives the results of the
    CPU. A name that begins with "no" is an absent input."""
    results = [f"r{k}" for k in range(outputs)]
    reads = ["" if name.startswith("no") else name for name in fed]
    fed = {name: x for name, x in fed.items() if name in reads}
    one = node(op, reads, results, domain=MS, **attributes)
    shapes = {name: x.shape for name, x in fed.items()} | (opened or {})
    kinds = {name: x.dtype.type for name, x in fed.items()}
    kinds |= dict.fromkeys(results, next(iter(fed.values())).dtype.type)
    data = model([one], shapes, dict.fromkeys(results), kinds=kinds)
    theirs, ours = cpu(data), session(data)
    assert set(places(ours).values()) == {"gpu"}
    compare(ours, theirs, fed, 4e-3 if np.float16 in kinds.values() else 2e-5)


def values(*shape: int, kind: Any = np.float32) -> Array:
    return np.random.default_rng(len(shape)).uniform(-2, 2, shape).astype(kind)


KINDS = pytest.mark.parametrize("kind", [np.float32, np.float16])


@KINDS
@pytest.mark.parametrize("activation", [None, "silu", "swish", "sigmoid"])
@pytest.mark.parametrize("groups", [1, 3])
def test_gated_normalization(kind: Any, activation: str | None, groups: int) -> None:
    more = {} if activation is None else {"activation": activation, "epsilon": 1e-3}
    x = values(2, 5, groups * 8, kind=kind)
    fed = {"x": x, "s": values(8, kind=kind), "g": x[::-1].copy()}
    check("GatedRMSNorm", fed, **more)
    check("GatedRMSNorm", fed, opened={"x": ("b", "t", groups * 8), "g": ("b", "t", groups * 8)})


@KINDS
def test_a_sum_of_what_a_gate_weighs(kind: Any) -> None:
    fed = {"x": values(2, 5, 7, kind=kind), "y": values(2, 5, 7, kind=kind)}
    check("GatedAdd", fed | {"g": values(2, 5, 1, kind=kind)})


@KINDS
def test_the_gate_of_linear_attention(kind: Any) -> None:
    fed = {"a": values(2, 5, 4, kind=kind), "d": values(4), "f": -np.abs(values(4))}
    check("LinearAttentionGate", fed)
    check("LinearAttentionGate", fed | {"b": values(2, 5, 4, kind=kind)}, outputs=2)


@KINDS
def test_a_scaled_silu(kind: Any) -> None:
    check("ScaledSiLU", {"x": values(3, 5, kind=kind)})
    check("ScaledSiLU", {"x": values(3, 5, kind=kind)}, alpha=1.7)
    check("ScaledSiLU", {"x": values(3, 5, kind=kind), "s": np.array(0.7, np.float32)})
    check("ScaledSiLU", {"x": values(3, 5, kind=kind), "s": np.array(0.7, kind)}, alpha=1.7)


@KINDS
@pytest.mark.parametrize("layout", [0, 1])
@pytest.mark.parametrize("sections", [(4, 2, 2), (2, 3, 3), (8, 0, 0), (0, 4, 4)])
def test_sections_of_rotary_embedding(kind: Any, layout: int, sections: Any) -> None:
    chance = np.random.default_rng(4)
    places = chance.integers(0, 20, (3, 2, 5))
    turns = {"c": values(20, 8, kind=kind), "s": values(20, 8, kind=kind)[::-1].copy()}
    given = {"mrope_section": sections, "mrope_layout": layout}
    for beside in (0, 1):
        check("MRotaryEmbedding", {"x": values(2, 5, 48, kind=kind), "p": places, **turns},
              interleaved=beside, num_heads=3, **given)  # fmt: skip
    check("MRotaryEmbedding", {"x": values(2, 3, 5, 16, kind=kind), "p": places, **turns}, **given)
    check("MRotaryEmbedding", {"x": values(2, 5, 60, kind=kind), "p": places, **turns},
          num_heads=3, rotary_embedding_dim=16,
          opened={"x": ("b", "t", 60), "p": (3, "b", "t")}, **given)  # fmt: skip


@pytest.mark.parametrize("metric", [None, "euclidean", "sqeuclidean"])
def test_distances(metric: str | None) -> None:
    more = {} if metric is None else {"metric": metric}
    fed = {"a": values(5, 3), "b": values(7, 3) + 3}
    check("CDist", fed, **more)
    check("CDist", fed, opened={"a": ("rows", 3)}, **more)


def test_rows_of_other_lengths_stay_on_the_cpu() -> None:
    one = node("CDist", ["a", "b"], ["y"], domain=MS)
    data = model([one], {"a": (2, 4), "b": (3, 5)}, {"y": None})
    assert set(places(session(data)).values()) == {"cpu"}


def test_other_metrics_are_left_to_the_cpu_which_has_none() -> None:
    one = node("CDist", ["a", "b"], ["y"], domain=MS, metric="cosine")
    with pytest.raises(Exception, match="NOT_IMPLEMENTED"):
        session(model([one], {"a": (2, 4), "b": (3, 4)}, {"y": None}))
