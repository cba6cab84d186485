"""Squeeze-and-excitation: maps of one pixel and of many, channels that fill no vec4, several
batches, hidden layers narrower and wider, with a bias and without, and several steps after it."""

from __future__ import annotations

from conformance.cases import Case, Input, seeded
from conformance.node_cases import NodeCase

Shape = tuple[int, ...]
Steps = tuple[tuple[str, tuple[float, ...]], ...]
CASES: list[Case] = []
RELU: Steps = (("relu", ()),)


def case(name: str, x: Shape, hidden: int, outputs: int = 0, inner: Steps = RELU,
         bias: bool = True, refused: bool = False) -> NodeCase:  # fmt: skip
    channels, outputs = x[-1], outputs or x[-1]
    first = seeded(hidden, 1, 1, channels, seed=1, scale=(3 / channels) ** 0.5)
    second = seeded(outputs, 1, 1, hidden, seed=2, scale=(3 / hidden) ** 0.5)
    given = (
        Input(x, low=-1.0, high=3.0),
        Input(first.shape, data=first),
        Input((hidden,), data=seeded(hidden, seed=3)) if bias else None,
        Input(second.shape, data=second),
    )
    terms = x[1] * x[2] + channels + hidden
    return NodeCase(name, "squeeze_excite", given, {"inner": inner}, outputs=2, terms=terms,
                    refused=refused)  # fmt: skip


NODES = [
    *(case(f"map_{h}x{w}", (1, h, w, 16), 8)
      for h, w in ((1, 1), (1, 3), (7, 7), (14, 14), (61, 33))),
    *(case(f"channels_{c}_{hidden}", (2, 5, 4, c), hidden)
      for c, hidden in ((1, 1), (3, 2), (4, 9), (30, 7), (72, 24), (200, 48))),
    case("few_channels_of_many_pixels", (1, 64, 60, 8), 2),
    case("widest", (1, 1, 1, 1024), 15),
    case("wide_hidden", (1, 2, 2, 8), 515),
    case("other_outputs", (3, 6, 6, 12), 6, 20),
    case("no_bias", (1, 6, 6, 12), 6, bias=False),
    case("no_step", (1, 6, 6, 12), 6, inner=()),
    case("hard_swish", (1, 6, 6, 12), 6, inner=(("hard_swish", ()),)),
    case("two_steps", (1, 6, 6, 12), 6, inner=(("tanh", ()), ("clip", (-0.4, 0.7)))),
    case("too_many_pixels", (1, 200, 200, 4), 4, refused=True),
    case("too_many_channels", (1, 1, 1, 1028), 4, refused=True),
    case("too_many_weights", (1, 1, 1, 512), 256, refused=True),
]  # fmt: skip
