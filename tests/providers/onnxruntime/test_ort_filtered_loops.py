"""Tests EmbeddingBag with an index for padding, as torch.onnx.export writes it with dynamo=True: a
loop in the body of a loop lists the places of a bag that hold another index. Every comparison is
with the CPU provider."""

from __future__ import annotations

import numpy as np
import pytest

import tflgpu_plugin
from tests.providers.onnxruntime.test_ort_batched_loops import PLACES, ROWS, WIDTH, compared, parsed
from tests.support import onnx_models as m

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.adapter
PADDING = 2
PADDED = """
<ir_version: 9, opset_import: ["" : 18]>
bags (float[20, 6] table, int64[{n}] places, int64[5] offsets) => (float[k, 6] y)
<int64[1] flat = {{-1}}, int64[1] zero = {{0}}, int64 begin = {{0}}, int64 one = {{1}},
 int64 many = {{20}}, int64 count = {{5}}, bool goes_on = {{1}}, int64 padding = {{2}},
 int64[0] empty = {{}}, float[1, 6] nothing = {{0, 0, 0, 0, 0, 0}}>
{{
  all = Gather (table, places)
  end = Shape (places)
  bounds = Concat <axis = 0> (offsets, end)
  none = SequenceEmpty ()
  last, bags = Loop <body = step (int64 k, bool c, int64 i, seq(float[r, 6]) held)
      => (bool goes, int64 next, seq(float[r, 6]) more) {{
    start = Gather (bounds, i)
    next = Add (i, one)
    stop = Gather (bounds, next)
    some = Less (start, stop)
    past, own = Loop <body = one_place (int64 l, bool d, int64 j, int64[o] given)
        => (bool again, int64 after, int64[p] listed) {{
      index = Gather (places, j)
      below = Less (index, begin)
      true_index = If (below) <
        then_branch = wrapped () => (int64 s) {{ s = Add (index, many) }},
        else_branch = same () => (int64 t) {{ t = Identity (index) }}>
      pads = Equal (true_index, padding)
      holds = Not (pads)
      listed = If (holds) <
        then_branch = adds () => (int64[p] u) {{
          at = Reshape (j, flat)
          u = Concat <axis = 0> ({added})
        }},
        else_branch = keeps () => (int64[p] v) {{ v = Identity (given) }}>
      after = Add (j, one)
      again = Less (after, {bound})
    }}> (, some, {first}, {begun})
    size = Size (own)
    is_empty = Equal (size, begin)
    row = If (is_empty) <
      then_branch = no_row () => (float[1, 6] w) {{ w = Identity (nothing) }},
      else_branch = rows () => (float[1, 6] x) {{
        picked = Gather (all, own)
        x = {reduction} <keepdims = 1> (picked, zero)
      }}>
    more = SequenceInsert (held, row)
    goes = Less (next, count)
  }}> (, goes_on, begin, none)
  y = ConcatFromSequence <axis = 0> (bags)
}}
"""
KINDS = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin")
BAGS = ([0, 3, 3, 7, 9], [0, 0, 4, 4, 10], [0, 1, 2, 8, 8])
USUAL = {"n": PLACES, "added": "given, at", "bound": "stop", "first": "start", "begun": "empty",
         "reduction": "ReduceSum"}  # fmt: skip


def padded(**other: object) -> bytes:
    return parsed(PADDED.format(**USUAL | other))


def feeds(offsets: list[int], seed: int = 0, places: int = PLACES) -> dict[str, m.Array]:
    """Returns inputs in which many places hold the padding, whose row is infinite."""
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(ROWS, WIDTH)).astype(np.float32)
    table[PADDING] = np.inf
    kinds = np.array([PADDING, PADDING - ROWS, 0, 5, -1])
    return {
        "table": table,
        "places": np.full(places, PADDING) if seed == 1 else rng.choice(kinds, places),
        "offsets": np.array(offsets, np.int64),
    }


@pytest.mark.parametrize("kind", KINDS)
def test_places_of_the_padding_do_not_count(kind: str) -> None:
    given = [feeds(bags, seed) for seed, bags in enumerate(BAGS * 2)]
    compared(padded(reduction=kind), *given)


@pytest.mark.parametrize("kind", ["ReduceSum", "ReduceMean"])
def test_any_number_of_places(kind: str) -> None:
    given = [feeds([0, 2, 2, 3, n], n, n) for n in (4, 10, 7)]
    compared(padded(reduction=kind, n="n"), *given)


OPEN_BAGS = {
    "int64[5] offsets": "int64[b] offsets",
    "int64 count = {5}, ": "",
    ", bool goes_on = {1}": "",
    "last, bags =": "count = Size (offsets) goes_on = Less (begin, count) last, bags =",
    "is_empty = Equal (size, begin)": "of_size = CastLike (begin, size) "
    "is_empty = Equal (size, of_size)",
}


@pytest.mark.parametrize("kind", ["ReduceSum", "ReduceMax"])
def test_any_number_of_bags(kind: str) -> None:
    """Nodes of the body are not placed alone, although they are more than one."""
    text = PADDED.format(**USUAL | {"reduction": kind, "n": "n"})
    for old, new in OPEN_BAGS.items():
        assert old in text
        text = text.replace(old, new)
    given = [feeds(bags, n, n) for n, bags in ((4, [0, 2, 2]), (9, [0, 1, 3, 3, 7, 9]), (12, [3]))]
    compared(parsed(text), *given)


@pytest.mark.parametrize(
    "other",
    [
        {"added": "at, given"},  # another order, which a maximum would not show
        {"bound": "count"},  # another end than that of the first condition
        {"begun": "zero"},  # a list that is not empty
        {"first": "i"},  # another start than that of the first condition
    ],
)
def test_other_loops_stay_on_the_cpu(other: dict[str, str]) -> None:
    data = padded(**other)
    ours, theirs = m.session(data), m.cpu(data)
    m.compare(ours, theirs, feeds(BAGS[1], 3))
    found = {node.op: node.where for node in tflgpu_plugin.report(ours).nodes}
    assert found["Loop"] == "cpu"


def test_bounds_beyond_the_places_are_those_of_the_cpu() -> None:
    ours, theirs = m.session(padded()), m.cpu(padded())
    given = feeds([0, 3, 3, 12, 9])
    for session in (theirs, ours):
        with pytest.raises(Exception, match="out of data bounds"):
            session.run(None, given)
