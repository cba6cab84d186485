"""Local response normalization: windows of odd and even size, larger than the channels, and every
remainder of channels."""

from __future__ import annotations

from typing import Any

from conformance.cases import Case, Input
from conformance.node_cases import NodeCase


def near(name: str, channels: int, radius: int, **options: float) -> Case:
    """Returns a case of the host's operator, whose `alpha` applies to each channel."""
    values = Input((2, 3, 5, channels), low=-9, high=9)
    options = {"radius": radius, "bias": 1.0, "alpha": 0.1, "beta": 0.75, **options}
    name = f"{name}_{channels}"
    of = "LocalResponseNormalizationOptions"
    return Case(name, "LOCAL_RESPONSE_NORMALIZATION", 1, (values,), of, options)


CASES = [
    *(near("channels", c, 2, alpha=0.5) for c in (1, 3, 4, 5, 17)),
    near("alone", 9, 0, alpha=0.5),
    near("larger_than_channels", 6, 10, bias=2.0),
    near("inverse", 9, 3, beta=1.0),
    near("inverse_of_the_root", 9, 3, beta=0.5),
    near("no_power", 9, 3, beta=0.0),
]


def lrn(name: str, shape: tuple[int, ...], size: int, **attributes: Any) -> NodeCase:
    """Returns a node case with inputs large enough to be normalized."""
    return NodeCase(name, "lrn", (Input(shape, low=-9, high=9),), {"size": size, **attributes})


NODES = [
    *(lrn(f"channels_{c}", (2, 3, 5, c), 5, alpha=0.5) for c in (1, 3, 4, 5, 17)),
    lrn("even", (1, 3, 4, 9), 4, alpha=0.5, beta=0.6, bias=2.0),
    lrn("one", (1, 3, 4, 9), 1, alpha=0.5),
    lrn("larger_than_channels", (1, 3, 4, 6), 21, alpha=2.0),
    lrn("defaults", (1, 3, 4, 6), 3),
    lrn("rank_2", (3, 11), 3, alpha=1.0),
    lrn("rank_5", (1, 2, 3, 2, 7), 3, alpha=1.0),
    NodeCase("no_bias", "lrn", (Input((1, 3, 4, 6)),), {"size": 3, "bias": 0.0}, refused=True),
]
