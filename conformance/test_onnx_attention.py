"""Attention of ONNX, and as onnxruntime's tools write it, against the CPU provider."""

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
CONTRIB = "com.microsoft"
ALL = ("y", "key", "value")


@dataclass(frozen=True)
class Form:
    """One node; `inputs` are fed (None: absent), those at the positions `fixed` are constants,
    `outputs` are its results ("": not requested). The output at `counted` is the number of columns
    of a mask if extents are dynamic."""

    op: str
    inputs: Sequence[Array | None]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    outputs: Sequence[str] = ("y",)
    fixed: Sequence[int] = ()
    domain: str = CONTRIB
    opset: int = 24
    counted: int | None = None

    def build(self, symbolic: bool) -> tuple[bytes, list[Array]]:
        """Returns the model, with extents as numbers or names, and its inputs."""
        from onnx import helper, numpy_helper

        names = ["" if a is None else f"x{k}" for k, a in enumerate(self.inputs)]
        node = helper.make_node(self.op, names, self.outputs, domain=self.domain, **self.attributes)
        inputs: list[Any] = []
        held: list[Any] = []
        fed, made_before = [], []
        for k, (name, array) in enumerate(zip(names, self.inputs, strict=True)):
            if array is None:
                continue
            if symbolic and k == self.counted:
                made_before += _count(name, inputs, held)
                fed.append(np.ones((1, array.item()), np.int64))
            elif k in self.fixed:
                held.append(numpy_helper.from_array(array, name))
            if k in (self.counted if symbolic else None, *self.fixed):
                continue
            extents = _named(array.shape) if symbolic else array.shape
            kind = helper.np_dtype_to_tensor_dtype(array.dtype)
            inputs.append(helper.make_tensor_value_info(name, kind, extents))
            fed.append(array)
        kind = helper.np_dtype_to_tensor_dtype(next(a for a in self.inputs if a is not None).dtype)
        made = [helper.make_tensor_value_info(n, kind, None) for n in self.outputs if n]
        graph = helper.make_graph([*made_before, node], "form", inputs, made, held)
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid(CONTRIB, 1)]
        proto = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        return bytes(proto.SerializeToString()), fed


def _count(name: str, inputs: list[Any], held: list[Any]) -> list[Any]:
    """Adds nodes that count the columns of a mask, which becomes an input."""
    from onnx import TensorProto, helper, numpy_helper

    inputs.append(helper.make_tensor_value_info("mask", TensorProto.INT64, [1, "past + n"]))
    held.append(numpy_helper.from_array(np.array(1), "one"))
    return [
        helper.make_node("Shape", ["mask"], ["extents"]),
        helper.make_node("Gather", ["extents", "one"], ["columns"]),
        helper.make_node("Cast", ["columns"], [name], to=TensorProto.INT32),
    ]


def _named(shape: Sequence[int]) -> list[int | str]:
    """Returns names for the batch and the numbers of queries and keys, as exporters write them."""
    rank, extents = len(shape), list[int | str](shape)
    for axis, extent in enumerate(shape):
        if extent == 2 and axis == (rank == 5):
            extents[axis] = "batch"
        elif axis == rank - 2 or (axis == rank - 1 and (extent in (5, 7) or rank == 2)):
            extents[axis] = {5: "n", 7: "keys", 3: "past", 8: "past + n"}.get(extent, extent)
    return extents


_chance = np.random.default_rng(11)


def some(*shape: int) -> Array:
    return _chance.uniform(-1, 1, shape).astype(np.float32)


def counts(*numbers: int) -> Array:
    return np.array(numbers, np.int32)


def seen(*shape: int) -> Array:
    """Returns a mask in which every row has a key."""
    mask = _chance.integers(0, 2, shape)
    mask[..., 0] = 1
    return mask.astype(np.int32)


def packed(mask: Array | None = None, past: int = 0, bias: Array | None = None,
           outputs: Sequence[str] = ("y",), width: int = 24, **more: Any) -> Form:  # fmt: skip
    """Returns a node of attention with 4 heads over 5 positions."""
    before = some(2, 2, 4, past, width // 12) if past else None
    given = [some(2, 5, 6), some(6, width), some(width), mask, before, bias]
    return Form("Attention", given, {"num_heads": 4, **more}, outputs, (1, 2))


def multi(*more: Array | None, keys: int = 7, depth: int = 4, outputs: Sequence[str] = ("y",),
          **attributes: Any) -> Form:  # fmt: skip
    """Returns a node of MultiHeadAttention with 3 heads and 5 queries."""
    given = [some(2, 5, 3 * depth), some(2, keys, 3 * depth), some(2, keys, 3 * depth)]
    return Form("MultiHeadAttention", [*given, *more], {"num_heads": 3, **attributes}, outputs)


def dot(*more: Array | None, **attributes: Any) -> Form:
    given = [some(2, 4, 5, 8), some(2, 2, 7, 8), some(2, 2, 7, 12)]
    return Form("Attention", [*given, *more], attributes, domain="")


def scored(form: Form, mode: int = 0) -> Form:
    """Returns a node with the scores as an output: raw, limited, masked, or after the softmax."""
    attributes = {**form.attributes, "qk_matmul_output_mode": mode}
    keys = form.outputs[1:] or ("", "")
    return replace(form, outputs=("y", *keys, "scores"), attributes=attributes)


def turned(x: Array, places: Array | None, rows: int = 9, half: int = 4, domain: str = CONTRIB,
           **attributes: Any) -> Form:  # fmt: skip
    """Returns a node of RotaryEmbedding, with angles for this many positions, or those of the
    batch."""
    angles = _chance.uniform(-3, 3, (rows, half) if places is not None else (2, 5, half))
    turns = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    given = (x, places, *turns) if domain == CONTRIB else (x, *turns, places)
    return Form("RotaryEmbedding", given, attributes, domain=domain)


def grouped(length: int, past: int, packed: bool = False, angles: int = 0, buffer: int = 0,
            padding: Sequence[int] | int = 0, **attributes: Any) -> Form:  # fmt: skip
    """Returns a node of GroupQueryAttention with 4 heads, 2 of them for keys; each batch has its
    own, shorter length."""
    shorter = np.reshape(padding, -1)
    batch = len(shorter)
    wide = [some(batch, length, 16 * n) for n in ((8,) if packed else (4, 2, 2))]
    whole = past + length
    given: list[Array | None] = [*wide, None, None][:3] if packed else [*wide]
    room = buffer or past
    held = [some(batch, 2, room, 16) for _ in range(2)] if room else [None, None]
    told = counts(*(whole - shorter - 1)), np.array(whole, np.int32)
    turns = (some(600, angles), some(600, angles)) if angles else ()
    more = {"num_heads": 4, "kv_num_heads": 2, "do_rotary": int(angles > 0), **attributes}
    return Form("GroupQueryAttention", [*given, *held, *told, *turns], more, ALL, (6,), counted=6)


LOWEST = np.float32(np.finfo(np.float32).min)
WHOLE = ("y", "present")
PAIR = (some(2, 3, 3, 4), some(2, 3, 3, 4))
PLACES = _chance.integers(0, 9, (2, 5))  # but a first one, which 4 follow
PLACES[:, 0] = 3, 1
FORMS = {
    "Attention": packed(),
    "Attention of heads of 8": packed(width=96),
    "Attention masked": packed(seen(2, 5)),
    "Attention masked each": packed(seen(2, 5, 5)),
    "Attention of lengths": packed(counts(3, 5)),
    "Attention causal": packed(seen(2, 5), unidirectional=1),
    "Attention with a past": packed(None, 3, outputs=WHOLE),
    "Attention with a past, causal": packed(seen(2, 8), 3, outputs=WHOLE, unidirectional=1),
    "Attention with a bias": packed(None, 0, some(2, 4, 5, 5)),
    "Attention with a bias of all": packed(seen(2, 5), 0, some(1, 1, 5, 5)),
    "Attention with a present": packed(outputs=WHOLE),
    "MultiHead": multi(),
    "MultiHead of heads of 5": multi(depth=5),
    "MultiHead, biased": multi(some(36)),
    "MultiHead of lengths": multi(None, counts(3, 6)),
    "MultiHead masked": multi(None, seen(2, 7), mask_filter_value=-3.0),
    "MultiHead masked each": multi(None, seen(2, 5, 7)),
    "MultiHead with a bias of scores": multi(None, None, some(2, 3, 5, 7), scale=0.3),
    "MultiHead with both": multi(None, seen(2, 7), some(1, 3, 5, 7)),
    "MultiHead with a past": multi(None, None, None, *PAIR, keys=5, outputs=ALL),
    "MultiHead with a past, causal": multi(
        None, seen(2, 8), None, *PAIR, keys=5, outputs=ALL, unidirectional=1),
    "MultiHead with a present": multi(outputs=ALL),
    "MultiHead of a cache": Form(
        "MultiHeadAttention", [some(2, 5, 12), some(2, 3, 7, 4), some(2, 3, 7, 4)],
        {"num_heads": 3}),
    "MultiHead of wide values": Form(
        "MultiHeadAttention", [some(2, 5, 12), some(2, 7, 12), some(2, 7, 18)], {"num_heads": 3}),
    "ONNX": dot(),
    "ONNX causal": dot(is_causal=1),
    "ONNX with a mask of all": dot(some(5, 7)),
    "ONNX with a mask and a softcap": dot(some(2, 1, 5, 7), softcap=0.2, scale=2.0),
    "ONNX with bools": dot(seen(2, 4, 5, 7) > 0),
    "ONNX with bools for a row of nothing": dot(np.tri(5, 7, -1) > 0),
    "ONNX with the lowest for a row of nothing": dot(np.where(np.tri(5, 7, -1) > 0, 0, LOWEST)),
    "ONNX of lengths": dot(None, None, None, np.array([3, 7])),
    "ONNX of lengths, causal": dot(None, None, None, np.array([3, 7]), is_causal=1),
    "ONNX with a past": Form(
        "Attention", [some(2, 4, 5, 8), *(some(2, 2, 5, 8),) * 2, None, *(some(2, 2, 3, 8),) * 2],
        {"is_causal": 1}, ALL, domain=""),
    "ONNX of rank 3": Form(
        "Attention", [some(2, 5, 32), some(2, 7, 16), some(2, 7, 16)],
        {"q_num_heads": 4, "kv_num_heads": 2}, domain="", opset=23),
    "ONNX of rank 3 with a past": Form(
        "Attention", [some(2, 5, 24), *(some(2, 5, 12),) * 2, None, *(some(2, 2, 3, 6),) * 2],
        {"q_num_heads": 4, "kv_num_heads": 2}, ALL, domain=""),
    **{
        f"ONNX, {what} {name}": scored(form, mode)
        for what, mode in (("scores", 0), ("capped", 1), ("masked", 2), ("shares", 3))
        for name, form in {
            "alone": dot(),
            "with a mask and a softcap": dot(some(2, 1, 5, 7), softcap=0.2, scale=2.0),
            "with bools for a row of nothing": dot(np.tri(5, 7, -1) > 0),
            "causal": dot(is_causal=1),
            "causal, with a mask and a softcap": dot(some(5, 7), softcap=0.2, is_causal=1),
            "causal, of lengths": dot(None, None, None, np.array([5, 7]), is_causal=1),
            "of lengths": dot(None, None, None, np.array([3, 7])),
            "with a past": Form(
                "Attention",
                [some(2, 4, 5, 8), *(some(2, 2, 5, 8),) * 2, None, *(some(2, 2, 3, 8),) * 2],
                {"is_causal": 1}, ALL, domain=""),
            "of rank 3": Form(
                "Attention", [some(2, 5, 32), some(2, 7, 16), some(2, 7, 16)],
                {"q_num_heads": 4, "kv_num_heads": 2}, domain="", opset=23),
            "of rank 3 with a past": Form(
                "Attention", [some(2, 5, 24), *(some(2, 5, 12),) * 2, None,
                 *(some(2, 2, 3, 6),) * 2],
                {"q_num_heads": 4, "kv_num_heads": 2}, ALL, domain=""),
        }.items()
    },
    "Grouped": grouped(5, 0),
    "Grouped with a past": grouped(5, 3),
    "Grouped, one more": grouped(1, 7),
    "Grouped, padded": grouped(5, 0, padding=2),
    "Grouped with a past, padded": grouped(1, 7, padding=3, angles=8),
    "Grouped with a past, padded, of several": grouped(4, 6, padding=2),
    "Grouped batches": grouped(5, 0, padding=(0, 0, 0), angles=8),
    "Grouped batches, padded": grouped(5, 0, padding=(0, 3)),
    "Grouped batches with a past": grouped(1, 7, padding=(0, 0), angles=8),
    "Grouped batches with a past, padded": grouped(1, 7, padding=(3, 0, 6), angles=8),
    "Grouped batches of one tensor": grouped(1, 7, packed=True, padding=(0, 2), angles=8),
    "Grouped batches in a buffer": grouped(1, 7, buffer=11, padding=(1, 0), angles=8),
    "Grouped batches in a buffer of nothing": grouped(5, 0, buffer=11, padding=(1, 0)),
    "Grouped batches in a window": grouped(1, 7, padding=(1, 0), local_window_size=3),
    "Grouped batches of neighbours turned": grouped(
        1, 7, padding=(4, 0), angles=8, rotary_interleaved=1),
    "Grouped in a buffer": grouped(5, 3, buffer=11, angles=8),
    "Grouped in a buffer of nothing": grouped(5, 0, buffer=11),
    "Grouped in a full buffer": grouped(1, 7, buffer=8),
    "Grouped, turned": grouped(5, 3, angles=8),
    "Grouped, neighbours turned": grouped(1, 7, angles=8, rotary_interleaved=1),
    "Grouped of one tensor": grouped(5, 3, packed=True, angles=8),
    "Grouped in a window": grouped(5, 3, local_window_size=3),
    "Grouped with a softcap": grouped(5, 3, softcap=0.3, scale=2.0),
    "Rotary": turned(some(2, 5, 24), PLACES),
    "Rotary from a place on": turned(some(2, 5, 24), PLACES[0, :1]),
    "Rotary of neighbours": turned(some(2, 5, 24), PLACES, interleaved=1),
    "Rotary of rank 4": turned(some(2, 3, 5, 8), PLACES),
    "Rotary of rank 4, of neighbours": turned(some(2, 3, 5, 8), PLACES[1, :1], interleaved=1),
    "Rotary of a part": turned(
        some(2, 5, 36), PLACES, num_heads=3, rotary_embedding_dim=8),
    "Rotary of a part, of neighbours": turned(
        some(2, 5, 36), PLACES, num_heads=3, rotary_embedding_dim=8, interleaved=1),
    "ONNX rotary": turned(some(2, 5, 24), PLACES, domain="", num_heads=3),
    "ONNX rotary of each place": turned(some(2, 5, 24), None, domain="", num_heads=3),
    "ONNX rotary of rank 4": turned(some(2, 3, 5, 8), PLACES, domain="", interleaved=1),
    "ONNX rotary of a part": turned(
        some(2, 3, 5, 10), None, domain="", rotary_embedding_dim=8),
}  # fmt: skip


def _nearer(runs: Sequence[Sequence[Array]]) -> list[list[Array]]:
    """Returns the outputs with a number of usual magnitude in place of the lowest one, which masked
    scores have: otherwise errors of the other scores could not be seen."""
    return [[np.where(a == LOWEST, np.float32(9), a) for a in outputs] for outputs in runs]


@pytest.mark.parametrize("symbolic", [False, True], ids=["known", "open"])
@pytest.mark.parametrize("name", FORMS)
def test_form(name: str, symbolic: bool, book: Book, pytestconfig: pytest.Config) -> None:
    if symbolic and "scores" in FORMS[name].outputs:
        pytest.skip("onnxruntime infers scores of no keys where extents are dynamic")
    content, fed = FORMS[name].build(symbolic)
    expected = onnx_host.run_on_cpu(content, [fed])
    run = onnx_host.run_on_gpu(content, [fed], pytestconfig.getoption("--adapter"))
    problem = "" if run.placement.on_gpu else str(run.placement)
    share, text = worst(_nearer(expected), _nearer(run.outputs))
    outcome = FAIL if problem or not share <= 1.0 else PASS
    case = f"{name}, {'open' if symbolic else 'known'} extents"
    record = Record("", "form", outcome, op=FORMS[name].op, case=case, host=onnx_host.label(),
                    share=share, text=problem or text)  # fmt: skip
    book.close(record, content)
