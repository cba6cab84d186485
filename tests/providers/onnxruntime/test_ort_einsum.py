"""Tests Einsum against numpy's."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.onnx_models import Array, model, node, places, session

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.adapter

EXTENTS = dict(zip("abcdefXY", (2, 3, 4, 5, 6, 1, 7, 2), strict=True))
TAKEN = ("ij,jk->ik", "ab,cb->ca", "abc,acd->abd", "abc->cab", "abc->b", "ab,ab->", "abc,bd",
         "abcd,abed->cbea", "ab,cd->dbca", "abX,bY->Ya", "ab , bc -> ca", "abc,c->ab",
         "a,b")  # fmt: skip
LEFT = ("aa->a", "...ab->...ba", "ab,bc,cd->ad", "aab,b->a")


def made(equation: str) -> tuple[bytes, list[Array]]:
    """Returns a model and its inputs; i, j and k have the extents of a, b and c."""
    plain = equation.translate(str.maketrans("ijk", "abc")).replace(" ", "").replace("...", "f")
    terms = plain.split("->")[0].split(",")
    chance = np.random.default_rng(len(equation))
    fed = [chance.uniform(-1, 1, [EXTENTS[c] for c in t]).astype(np.float32) for t in terms]
    names = [f"x{k}" for k in range(len(fed))]
    nodes = [node("Einsum", names, ["y"], equation=equation)]
    shapes = {name: x.shape for name, x in zip(names, fed, strict=True)}
    return model(nodes, shapes, {"y": None}), fed


@pytest.mark.parametrize("equation", TAKEN)
def test_what_is_taken(equation: str) -> None:
    data, fed = made(equation)
    ours = session(data)
    assert places(ours) == {"Einsum": "gpu"}
    (got,) = ours.run(None, {f"x{k}": x for k, x in enumerate(fed)})
    wanted = np.einsum(equation, *fed)
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted, atol=1e-5)


@pytest.mark.parametrize("equation", LEFT)
def test_what_stays_on_the_cpu(equation: str) -> None:
    data, _ = made(equation)
    assert places(session(data)) == {"Einsum": "cpu"}
