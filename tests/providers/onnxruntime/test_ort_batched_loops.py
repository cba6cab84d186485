"""Tests loops that become ops on all steps at once: EmbeddingBag as the exporters of PyTorch write
it, and what must not be taken for such. Every comparison is with the CPU provider."""

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
ROWS, WIDTH, PLACES = 20, 6, 10
BAGS = ([0, 3, 3, 7, 9], [0, 0, 4, 4, 10], [0, 5, 3, 8, 8], [9, -4, 2, 30, -30])

# As torch.onnx.export writes it with dynamo=False.
SCRIPTED = """
<ir_version: 8, opset_import: ["" : {opset}]>
bags (float[20, 6] table, int64[{n}] places, int64[{b}] offsets, float[{n}] weights)
  => (float[{made}, 6] y)
<int64 none = {{0}}, int64[1] zero = {{0}}, int64[1] one = {{1}}, bool goes_on = {{1}},
 int64[1] most = {{9223372036854775807}}>
{{
  used = Abs (weights)
  extents = Shape (places)
  length = Gather (extents, none)
  end = Unsqueeze (length, zero)
  bounds = {bounds}
  ends = Slice (bounds, one, most, zero, one)
  sizes = Shape (ends)
  count = Gather (sizes, none)
  y = Loop <body = step (int64 i, bool c) => (bool goes, float[6] row) {{
    first = Gather <axis = 0> (bounds, i)
    last = Gather <axis = 0> (ends, i)
    start = Unsqueeze (first, zero)
    stop = Unsqueeze (last, zero)
    own = Slice (places, start, stop, zero)
    rows = Gather <axis = 0> (table, own)
    {body}
    goes = Cast <to = 9> (goes_on)
  }}> (count, goes_on)
}}
"""
WEIGHTED = """share = Slice (used, start, stop, zero)
    column = Unsqueeze (share, one)
    scaled = Mul (rows, column)
    row = ReduceSum <keepdims = 0> (scaled, zero)"""
REDUCED = {
    "sum": "row = ReduceSum <keepdims = 0> (rows, zero)",
    "mean": "row = ReduceMean <axes = [0], keepdims = 0> (rows)",
    "maximum": "row = ReduceMax <axes = [0], keepdims = 0> (rows)",
    "weighted": WEIGHTED,
}

# As it is written with dynamo=True: a condition for each bag, and a sequence.
TRACED = """
<ir_version: 9, opset_import: ["" : 18]>
bags (float[20, 6] table, int64[10] places, int64[5] offsets) => (float[n, 6] y)
<int64[1] flat = {-1}, int64[1] zero = {0}, int64 begin = {0}, int64 one = {1}, int64 two = {2},
 int64[1] end = {10}, int64 count = {5}, int64 final = {4}, bool goes_on = {1},
 float[1, 6] nothing = {0, 0, 0, 0, 0, 0}>
{
  all = Gather (table, places)
  bounds = Concat <axis = 0> (offsets, end)
  none = SequenceEmpty ()
  bags, last = Loop <body = step (int64 k, bool c, seq(float[r, 6]) held, int64 i)
      => (bool goes, seq(float[r, 6]) more, int64 next) {
    at = Reshape (i, flat)
    at_1 = Add (at, one)
    at_2 = Add (at, two)
    start = Slice (bounds, at, at_1)
    stop = Slice (bounds, at_1, at_2)
    is_empty = Equal (start, stop)
    row = If (is_empty) <
      then_branch = empty () => (float[1, 6] t) { t = Identity (nothing) },
      else_branch = full () => (float[1, 6] u) {
        own = Slice (all, start, stop)
        is_last = Equal (i, final)
        u = If (is_last) <
          then_branch = ends () => (float[1, 6] v) {
            total = ReduceSum (own, zero)
            left = Sub (end, start)
            many = Cast <to = 1> (left)
            v = Div (total, many)
          },
          else_branch = others () => (float[1, 6] w) {
            w = ReduceMean <keepdims = 1> (own, zero)
          }>
      }>
    more = SequenceInsert (held, row)
    next = Add (i, one)
    goes = Less (next, count)
  }> (, goes_on, none, begin)
  y = ConcatFromSequence <axis = 0> (bags)
}
"""


def parsed(text: str) -> bytes:
    from onnx import parser

    made: bytes = parser.parse_model(text).SerializeToString()
    return made


def scripted(
    kind: str, opset: int = 13, last: bool = False, n: int | str = PLACES, b: int | str = 5
) -> bytes:
    joined = "Concat <axis = 0> (offsets, end)"
    text = SCRIPTED.format(
        opset=opset, n=n, b=b, made=b if isinstance(b, str) else b - last, body=REDUCED[kind],
        bounds="Identity (offsets)" if last else joined,
    )  # fmt: skip
    return parsed(text)


def feeds(offsets: list[int], places: int = PLACES, last: bool = False) -> dict[str, m.Array]:
    rng = np.random.default_rng(places)
    return {
        "table": rng.normal(size=(ROWS, WIDTH)).astype(np.float32),
        "places": rng.integers(-ROWS, ROWS, places),
        "offsets": np.array([*offsets, places] if last else offsets, np.int64),
        "weights": rng.random(places, np.float32),
    }


def compared(data: bytes, *given: Mapping[str, m.Array]) -> Any:
    """Compares the model for all inputs; requires one partition, which has the loop. Returns the
    session."""
    ours, theirs = m.session(data), m.cpu(data)
    names = {one.name for one in ours.get_inputs()}
    for feed in given:
        m.compare(ours, theirs, {key: value for key, value in feed.items() if key in names})
    found = tflgpu_plugin.report(ours)
    assert {node.op: node.where for node in found.nodes}["Loop"] == "gpu"
    assert len(found.partitions) == 1 and not found.host_runs
    return ours


@pytest.mark.parametrize("kind", REDUCED)
@pytest.mark.parametrize("last", [False, True])
def test_bags_of_the_older_exporter(kind: str, last: bool) -> None:
    data = scripted(kind, last=last, b=5 + last)
    compared(data, *(feeds(bags, last=last) for bags in BAGS))


@pytest.mark.parametrize("kind", ["sum", "weighted"])
def test_bags_of_other_numbers_in_each_run(kind: str) -> None:
    given = [feeds(bags, n) for bags, n in (([0, 3, 3], 10), ([0, 12], 13), ([0], 4), ([2] * 9, 5))]
    ours = compared(scripted(kind, n="n", b="b"), *given)
    m.compare(ours, m.cpu(scripted(kind, n="n", b="b")), feeds([], 5))


@pytest.mark.parametrize("many", ["Cast <to = 1> (left)", "CastLike (left, total)"])
def test_bags_of_the_newer_exporter(many: str) -> None:
    text = TRACED.replace("Cast <to = 1> (left)", many)
    compared(parsed(text), *(feeds(bags) for bags in BAGS[:2]))


def test_a_run_that_the_host_takes_over_has_the_sequence_too() -> None:
    ours, theirs = (make(parsed(TRACED)) for make in (m.session, m.cpu))
    given = feeds([0, 3, 3, 2**40, 9])
    del given["weights"]
    m.compare(ours, theirs, given)
    assert tflgpu_plugin.report(ours).host_runs == 1


def test_infinite_rows_outside_of_a_bag_change_nothing() -> None:
    given = feeds([0, 3, 3, 7, 9])
    given["table"][given["places"][4]] = np.inf
    compared(scripted("sum"), given)


def test_a_place_out_of_range_fails_as_on_the_cpu() -> None:
    ours, theirs = m.session(scripted("sum")), m.cpu(scripted("sum"))
    given = feeds([0, 3, 3, 7, 9])
    given["places"][5] = ROWS
    for session in (theirs, ours):
        with pytest.raises(Exception, match="indices element out of data bounds"):
            session.run(None, given)
    given["offsets"] = np.array([0, 3, 5, 6, 6])  # of a bag from 0 to 5, 6 to the end ...
    given["offsets"][2] = 6  # ... and none has the place
    given["places"][5] = 0
    m.compare(ours, theirs, given)


def test_a_place_out_of_range_in_no_bag_does_not_matter() -> None:
    ours, theirs = (make(scripted("sum", last=True)) for make in (m.session, m.cpu))
    given = feeds([0, 3, 3, 4, 5])
    given["places"][7] = ROWS
    m.compare(ours, theirs, given)


# The distances of all pairs of rows, as skl2onnx writes them for nearest neighbours.
DISTANCES = """
<ir_version: 8, opset_import: ["" : {opset}]>
pairs (float[n, 6] x, float[20, 6] held) => (float[20, m] y)
<int64[1] one = {{1}}>
{{
  last, each = Scan <num_scan_inputs = 1, body = step (float[20, 6] all, float[6] row)
      => (float[20, 6] same, float[20] made) {{
    same = Identity (all)
    gaps = Sub ({order})
    {reduced}
    made = Identity (sums)
  }}> (held, x)
  turned = Transpose <perm = [1, 0]> (each)
  y = Sqrt (turned)
}}
"""
SQUARES = {
    20: "sums = ReduceSumSquare <keepdims = 0> (gaps, one)",
    17: "sums = ReduceSumSquare <axes = [-1], keepdims = 0> (gaps)",
}


@pytest.mark.parametrize("opset", SQUARES)
@pytest.mark.parametrize("order", ["all, row", "row, all"])
def test_distances_of_rows(opset: int, order: str) -> None:
    data = parsed(DISTANCES.format(opset=opset, order=order, reduced=SQUARES[opset]))
    ours, theirs = m.session(data), m.cpu(data)
    for rows in (5, 1, 40):
        m.compare(ours, theirs, {"x": m.values(rows, 6), "held": m.values(20, 6) * 3})
    found = tflgpu_plugin.report(ours)
    assert all(node.where == "gpu" for node in found.nodes) and not found.host_runs


def test_other_reductions_of_differences_stay_a_loop() -> None:
    reduced = "sizes = Abs (gaps) sums = ReduceSum <keepdims = 0> (sizes, one)"
    data = parsed(DISTANCES.format(opset=13, order="all, row", reduced=reduced))
    given = {"x": m.values(5, 6), "held": m.values(20, 6)}
    m.compare(m.session(data), m.cpu(data), given)


def loop(*given: str) -> bytes:
    """Returns a model of a loop over rows of x."""
    return parsed(loop_text(*given))


def loop_text(body: str, carried: str = "", given: str = "", results: str = "float[6] row") -> str:
    return f"""
<ir_version: 8, opset_import: ["" : 13]>
rows (float[20, 6] x, int64[4] bounds) => (float[n, 6] y)
<int64 count = {{3}}, int64[1] zero = {{0}}, int64[1] one = {{1}}, bool goes_on = {{1}},
 float[6] begin = {{0, 0, 0, 0, 0, 0}}, int64 begin_at = {{0}}, int64 step = {{1}}>
{{
  {"last, " if carried else ""}y = Loop <body = step (int64 i, bool c{carried})
    => (bool goes, {results}) {{ {body} }}> (count, goes_on{given})
}}
"""


CUT = """first = Gather <axis = 0> (bounds, i)
  start = Unsqueeze (first, zero)
  stop = Add (start, one)
  own = Slice (x, start, stop, zero)
  sums = ReduceSum <keepdims = 0> (own, zero)
  goes = Identity (c)
"""
SUMMED = "total = Add (before, sums) row = Identity (total)"
DEPENDING = loop(CUT + SUMMED, ", float[6] before", ", begin", "float[6] total, float[6] row")
ENDING = loop(
    CUT.replace("Identity (c)", "Less (first, end)").replace(
        "first =", "end = Constant <value_int = 5> () first ="
    )
    + "row = Identity (sums)"
)


@pytest.mark.parametrize("data", [DEPENDING, ENDING])
def test_steps_that_depend_on_others_stay_a_loop(data: bytes) -> None:
    ours, theirs = m.session(data), m.cpu(data)
    for bounds in ([2, 4, 7, 9], [7, 0, 1, 2], [0, 9, 1, 1]):
        m.compare(ours, theirs, {"x": m.values(20, 6), "bounds": np.array(bounds)})
    found = {node.op: node.where for node in tflgpu_plugin.report(ours).nodes}
    assert found["Loop"] == "cpu"


def test_other_work_in_steps_stays_where_it_is() -> None:
    """A body with a product of matrices is placed by its own nodes."""
    body = (
        CUT.replace("keepdims = 0> (own", "keepdims = 1> (own")
        + """
      wide = Transpose <perm = [1, 0]> (sums)
      product = MatMul (wide, sums)
      row = ReduceMax <axes = [0], keepdims = 0> (product)"""
    )
    ours = m.session(loop(body), force=1)
    given = {"x": m.values(20, 6), "bounds": np.array([2, 4, 7, 9])}
    m.compare(ours, m.cpu(loop(body)), given)
    found = {node.op: node.where for node in tflgpu_plugin.report(ours).nodes}
    assert found["MatMul"] == "gpu" and found["Loop"] == "cpu"


BATCH_NORM = "BatchNormalization (sums, scale, shift, shift, scale)"


@pytest.mark.parametrize(
    ("x", "body"),
    [
        ((20, 6), "own = Trilu (whole) row = ReduceSum <keepdims = 0> (own, zero)"),
        ((20, 6), "own = EyeLike <dtype = 1> (whole) row = ReduceSum <keepdims = 0> (own, zero)"),
        ((20,), "own = ai.onnx.ml.Normalizer (whole) row = ReduceSum <keepdims = 0> (own, zero)"),
        ((20, 6, 6), f"sums = ReduceSum <keepdims = 0> (whole, zero) row = {BATCH_NORM}"),
    ],
    ids=["triangle", "diagonal", "norm", "channels"],
)
def test_results_that_depend_on_the_place_in_a_step(x: tuple[int, ...], body: str) -> None:
    """These results would be others for rows inside a tensor, or with an axis of steps in front."""
    shape = ", ".join(map(str, x[1:]))
    row, rows_ = (f"float[{shape}]", f"float[n, {shape}]") if shape else ("float", "float[n]")
    data = parsed(f"""
<ir_version: 8, opset_import: ["" : 15, "ai.onnx.ml" : 3]>
rows (float[{", ".join(map(str, x))}] x, int64[3] starts, int64[3] ends) => ({rows_} y)
<int64 count = {{3}}, int64[1] zero = {{0}}, bool goes_on = {{1}},
 float[6] scale = {{1, 2, 3, 4, 5, 6}}, float[6] shift = {{6, 5, 4, 3, 2, 1}}>
{{
  y = Loop <body = step (int64 i, bool c) => (bool goes, {row} row) {{
    first = Gather (starts, i) last = Gather (ends, i)
    start = Unsqueeze (first, zero) stop = Unsqueeze (last, zero)
    whole = Slice (x, start, stop, zero) {body} goes = Identity (c)
  }}> (count, goes_on)
}}
""")
    given = {"x": m.values(*x), "starts": np.array([0, 3, 8]), "ends": np.array([5, 7, 20])}
    m.compare(m.session(data), m.cpu(data), given)


def test_an_absent_input_stays_absent() -> None:
    body = CUT + "most = Constant <value_float = 0.25> () row = Clip (sums, , most)"
    compared(loop(body), {"x": m.values(20, 6), "bounds": np.array([2, 4, 7, 9])})


def test_conditions_of_operators_hold_in_steps() -> None:
    """A Dropout that trains is the host's."""
    body = (
        CUT
        + """share = Constant <value_float = 0.9> () part = Dropout (x, share, c)
      one_row = Gather (part, i) row = Add (sums, one_row)"""
    )
    ours = m.session(loop(body))
    found = {node.op: node.where for node in tflgpu_plugin.report(ours).nodes}
    assert found["Loop"] == "cpu"


def test_numbers_of_steps_beyond_int32_stay_a_loop() -> None:
    body = (
        CUT
        + """far = Constant <value_int = 4000000000> () at = Add (i, far)
      many = Div (at, million) part = Cast <to = 1> (many) row = Add (sums, part)"""
    )
    body = "million = Constant <value_int = 1000000> ()" + body
    given = {"x": m.values(20, 6), "bounds": np.array([2, 4, 7, 9])}
    m.compare(m.session(loop(body)), m.cpu(loop(body)), given)


@pytest.mark.parametrize("adds", ["b, turned", "a, turned"])
def test_steps_that_exchange_sequences_stay_a_loop(adds: str) -> None:
    """Each sequence has tensors of both, or both have those of one."""
    held = "seq(float[6]) {0}"
    body = (
        CUT
        + f"""turned = Neg (sums) more = SequenceInsert ({adds})
      other = SequenceInsert (a, sums)"""
    )
    results = ", ".join(map(held.format, ("more", "other")))
    text = loop_text(body, "".join(", " + held.format(name) for name in "ab"), ", none, none",
                     results)  # fmt: skip
    text = text.replace("last, y = Loop", "none = SequenceEmpty () first, second = Loop")
    for which in ("first", "second"):
        ended = f"y = ConcatFromSequence <axis = 0, new_axis = 1> ({which}) }}"
        data = parsed(text[: text.rindex("}")] + ended)
        given = {"x": m.values(20, 6), "bounds": np.array([2, 4, 7, 9])}
        m.compare(m.session(data), m.cpu(data), given)


def test_steps_that_count() -> None:
    body = CUT + "next = Add (at, step) row = Identity (sums)"
    data = loop(body, ", int64 at", ", begin_at", "int64 next, float[6] row")
    given = {"x": m.values(20, 6), "bounds": np.array([2, 19, -1, 3])}
    compared(data, given)


def test_other_readers_of_the_sequence_of_all_steps() -> None:
    text = TRACED.replace(
        "y = ConcatFromSequence <axis = 0> (bags)",
        "first = SequenceAt (bags, one) other = SequenceAt (bags, final)\n"
        "y = Concat <axis = 0> (first, other)",
    )
    compared(parsed(text), feeds(BAGS[0]))
