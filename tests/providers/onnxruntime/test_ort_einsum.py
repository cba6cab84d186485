"""Tests Einsum against numpy's."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests.support.onnx_models import Array, cpu, model, node, places, session

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.adapter

EXTENTS = dict(zip("abcdefXY", (2, 3, 4, 5, 6, 1, 7, 2), strict=True))
TAKEN = ("ij,jk->ik", "ab,cb->ca", "abc,acd->abd", "abc->cab", "abc->b", "ab,ab->", "abc,bd",
         "abcd,abed->cbea", "ab,cd->dbca", "abX,bY->Ya", "ab , bc -> ca", "abc,c->ab",
         "a,b")  # fmt: skip
MORE = ("aa->a", "aa", "aab,b->a", "abab->ba", "aaab->b", "caca->ca", "ab,bc,cd->ad",
        "ab,b,bc->ac", "a,b,c->cab", "ab,ab,ab->b", "ab,bc,cd,de->ae", "aab,bc,ca->b")  # fmt: skip
# An equation, and the shapes of its operands.
DOTTED = (
    ("...ab->...ba", [(2, 4, 2, 3)]),
    ("...ab,...bc->...ac", [(2, 4, 2, 3), (2, 4, 3, 5)]),
    ("...ab,...bc->...ac", [(2, 1, 2, 3), (1, 4, 3, 5)]),
    ("...ab,bc->...ac", [(2, 4, 2, 3), (3, 5)]),
    ("a...b,b->...a", [(3, 2, 4, 5), (5,)]),
    ("...a,...a", [(2, 4, 3), (1, 4, 3)]),
    ("...", [(2, 3)]),
    ("...a->...", [(2, 3)]),
    ("...,...->...", [(2, 3), (1, 3)]),
    ("...aa->...a", [(2, 3, 3)]),
    ("...a,...b,...c->...cab", [(2, 3), (1, 4), (1, 5)]),
    ("...ab->...", [(2, 3)]),
)


def made(equation: str) -> tuple[bytes, list[Array]]:
    """Returns a model and its inputs; i, j and k have the extents of a, b and c."""
    plain = equation.translate(str.maketrans("ijk", "abc")).replace(" ", "")
    terms = plain.split("->")[0].split(",")
    return of_shapes(equation, [[EXTENTS[c] for c in t if c in EXTENTS] for t in terms])


def of_shapes(equation: str, shapes: Sequence[Sequence[int]]) -> tuple[bytes, list[Array]]:
    chance = np.random.default_rng(len(equation))
    fed = [chance.uniform(-1, 1, shape).astype(np.float32) for shape in shapes]
    names = [f"x{k}" for k in range(len(fed))]
    nodes = [node("Einsum", names, ["y"], equation=equation)]
    given = {name: x.shape for name, x in zip(names, fed, strict=True)}
    return model(nodes, given, {"y": None}), fed


def check(equation: str, data: bytes, fed: list[Array]) -> None:
    ours = session(data)
    assert places(ours) == {"Einsum": "gpu"}
    feeds = {f"x{k}": x for k, x in enumerate(fed)}
    (got,) = ours.run(None, feeds)
    for wanted in (np.einsum(equation, *fed), cpu(data).run(None, feeds)[0]):
        assert got.shape == wanted.shape
        np.testing.assert_allclose(got, wanted, atol=1e-5)


@pytest.mark.parametrize("equation", (*TAKEN, *MORE))
def test_what_is_taken(equation: str) -> None:
    check(equation, *made(equation))


@pytest.mark.parametrize(("equation", "shapes"), DOTTED)
def test_ellipsis(equation: str, shapes: list[tuple[int, ...]]) -> None:
    check(equation, *of_shapes(equation, shapes))


@pytest.mark.parametrize(("equation", "place"), [("ab,bC", "cpu"), ("aB,Bc", "gpu")])
def test_capital_letters_of_a_result_that_is_not_written(equation: str, place: str) -> None:
    """The host raises where the result has one."""
    assert places(session(of_shapes(equation, [(2, 3), (3, 4)])[0])) == {"Einsum": place}


@pytest.mark.parametrize("equation", ["ab...->ab", "...ab,bc->ac"])
def test_ellipsis_without_a_place_in_the_result(equation: str) -> None:
    shapes = [(2, 3, 4)] if equation.startswith("ab") else [(4, 2, 3), (3, 5)]
    data, _ = of_shapes(equation, shapes)
    try:
        ours = session(data)
    except Exception as error:
        assert "onnxruntime" in type(error).__module__
    else:
        assert places(ours) == {"Einsum": "cpu"}


@pytest.mark.parametrize(
    ("equation", "open_shapes", "table"),
    [("ij,jk->ik", [["a", "b"]], (3, 5)), ("ij,jk->ik", [["batch", "seq"], ["n", "m"]], None)],
)
def test_open_extents_get_numbers_that_agree(
    equation: str, open_shapes: list[list[str]], table: tuple[int, int] | None
) -> None:
    names, chance = [f"x{k}" for k in range(len(open_shapes))], np.random.default_rng(2)
    held = {} if table is None else {"w": chance.normal(size=table).astype(np.float32)}
    nodes = [node("Einsum", [*names, *held], ["y"], equation=equation)]
    data = model(nodes, dict(zip(names, open_shapes, strict=True)), {"y": None}, held)
    ours = session(data)
    assert places(ours) == {"Einsum": "gpu"}
    for rows in (2, 4):
        shapes = [(rows, 3), (3, 5)][: len(names)]
        feeds = {n: chance.normal(size=s).astype(np.float32)
                 for n, s in zip(names, shapes, strict=True)}  # fmt: skip
        (got,), (wanted,) = ours.run(None, feeds), cpu(data).run(None, feeds)
        np.testing.assert_allclose(got, wanted, atol=1e-5)
