"""Seeded ONNX graphs of a few operators each, as exporters write them: channels first, parameters
in every form that an operator has, shape arithmetic, symbolic extents, bools, nodes for the CPU.

What onnxruntime's CPU provider refuses is taken out again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from conformance.host import Array
from conformance.random import onnx_indexed, values
from conformance.random.onnx_blocks import BLOCKS, attention
from conformance.random.onnx_maker import CHANNELS, NEWEST, Maker, Value
from conformance.random.onnx_near import NEAR
from conformance.random.onnx_steps import MAKERS

SIMPLE = 100  # seeds below have no blocks
INDEXED = 1000  # seeds from here on have those around indices, too, half of them the newest opset


@dataclass(frozen=True)
class Made:
    """A model, feeds of one or several shapes (`symbolic`), and names of nodes to leave to the
    CPU."""

    content: bytes
    feeds: list[list[Array]]
    foreign: tuple[str, ...]
    symbolic: bool


def build(seed: int) -> Made:
    """Returns a model for this seed. Every third one leaves some nodes to the CPU; every fourth has
    symbolic extents and runs with several shapes. From SIMPLE on half of the additions are blocks,
    from INDEXED on mostly those of `onnx_indexed`."""
    m = Maker(seed)
    indexed = seed >= INDEXED
    m.opset = NEWEST if indexed and seed % 2 else m.opset
    for k in range(m.choose.choice((1, 1, 2))):
        rank = m.choose.choice((2, 3, 4, 4, 4, 5))
        extents = [m.choose.randint(2, 8) for _ in range(rank - 2)]
        shape = (m.choose.choice((1, 1, 2, 3)), m.choose.choice(CHANNELS), *extents)
        m.inputs.append(Value(f"x{k}", shape, True))
    m.values += m.inputs
    wanted = m.choose.choice((2, 3, 4, 6, 10, 16))
    while len(m.nodes) < wanted:
        kept = len(m.nodes), len(m.held)
        try:
            blocks = seed >= SIMPLE and m.choose.random() < 0.5
            newer = indexed and m.choose.random() < 0.6
            some = onnx_indexed.BLOCKS if newer else BLOCKS if blocks else MAKERS
            m.choose.choice(some)(m)
        except Exception:  # nothing fits, or the host refuses it
            del m.nodes[kept[0] :], m.held[kept[1] :]
    read = {name for node in m.nodes for name in node.input}
    given = {v.name for v in m.inputs}
    made = [v for v in m.values if v.name not in given]
    outputs = [v for v in made if v.name not in read or m.choose.random() < 0.15]
    names = [node.name for node in m.nodes]
    foreign = m.choose.sample(names, max(1, len(names) // 4)) if seed % 3 == 0 else []
    symbolic = seed % 4 == 0
    free, shapes = _shapes(m) if symbolic else ({}, [[v.shape for v in m.inputs]] * 2)
    feeds = values.feeds(m.numbers, shapes, seed)
    return Made(m.to_bytes(outputs, free), feeds, tuple(foreign), symbolic)


def _shapes(m: Maker) -> tuple[dict[str, Any], list[list[tuple[int, ...]]]]:
    """Returns symbolic extents for all axes but the channels, and three shapes for them."""
    free = {
        v.name: [n if k == 1 else f"{v.name}_{k}" for k, n in enumerate(v.shape)] for v in m.inputs
    }
    own = [v.shape for v in m.inputs]
    other = [tuple(n if k == 1 else n + 1 for k, n in enumerate(shape)) for shape in own]
    return free, [own, other, own]


def listing(content: bytes) -> str:
    """Returns the graph as text."""
    import onnx

    return str(onnx.printer.to_text(onnx.load_from_string(content)))


def build_attention(seed: int) -> Made:
    """Returns a model of attention alone, with one head or several."""
    m = Maker(seed)
    shape = m.choose.choice((1, 2)), m.choose.randint(2, 9), m.choose.choice((4, 8, 12, 16))
    m.inputs.append(Value("x", shape))
    m.values += m.inputs
    attention(m)
    feeds = values.feeds(m.numbers, [[shape]] * 2, seed)
    return Made(m.to_bytes(m.values[1:]), feeds, (), False)


def build_near(seed: int) -> Made:
    """Returns a graph that nearly matches a pattern of the passes; the patterns take turns."""
    m = Maker(seed)
    NEAR[seed % len(NEAR)](m)
    feeds = values.feeds(m.numbers, [[v.shape for v in m.inputs]] * 2, seed)
    return Made(m.to_bytes(m.values), feeds, (), False)
