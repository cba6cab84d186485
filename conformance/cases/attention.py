"""Attention: every remainder of 4 in lengths and depth, several blocks of keys and tiles of
queries, shared heads, each form of a mask, causal with a past and a window, lengths that are not
constant, and queries whose keys are all masked."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan
from typing import Any

import numpy as np

from conformance.cases import Case, Input, constant
from conformance.node_cases import NodeCase

Shape = tuple[int, ...]
CASES: list[Case] = []
LOWEST = float(np.finfo(np.float32).min)


def case(name: str, q: Shape, k: Shape, width: int = 0, mask: Any = None, lengths: Any = None,
         low: float = -1.0, **attributes: Any) -> NodeCase:  # fmt: skip
    """Returns a case; `width` is the width of values (default: that of keys), `mask` a shape or a
    constant, and `lengths` are constant or "run"."""
    values = (*k[:-1], width or k[-1])
    given = [Input(shape, low=low, high=-low) for shape in (q, k, values)]
    masked = Input(mask) if isinstance(mask, tuple) else None
    if mask is not None and masked is None:
        masked = constant(np.float32(mask))
    told = Input((q[0],), "i32", low=1, high=k[-2])
    if lengths != "run":
        told = lengths and constant(tuple(lengths), "i32")
    return NodeCase(
        name, "attention", (*given, masked, told), {"scale": 0.25} | attributes,
        terms=k[-2] + q[-1],
    )  # fmt: skip


def of_odd(made: NodeCase) -> NodeCase:
    """Returns the case with values of which some are NaN or infinite, each in another channel."""
    q, k, v, *rest = made.inputs
    assert v is not None
    values = np.random.default_rng(len(made.name)).uniform(-1, 1, v.shape).astype(np.float32)
    values[0, 0, 2, 1], values[-1, -1, -1, 4], values[0, -1, 0, 9] = nan, inf, -inf
    return replace(made, inputs=(q, k, constant(values), *rest))


Q, K = (2, 3, 7, 16), (2, 3, 9, 16)
CAUSAL = np.where(np.tri(7, 9, dtype=bool), 0, -inf)
CAUSAL_FROM_1 = np.where(np.tri(7, 9, -1, dtype=bool), 0, -inf)
SEEN = np.where(np.tri(3, 530, 300, dtype=bool), 0, -inf)
# The first query sees the last key alone, the second one none, the third most.
SEEN_OF_MOST = np.where(np.stack([np.arange(1090) > a for a in (1088, 1089, 39)]), 0, -inf)
NAN_OF_MOST = np.where(np.eye(3, 1090, 1000, dtype=bool), np.nan, 0)
NODES = [
    *(case(f"remainder_{n}", (2, 2, 4 + n, 8 + n), (2, 2, 8 + n, 8 + n)) for n in range(4)),
    *(case(f"width_{n}", (1, 2, 5, 12), (1, 2, 6, 12), n)
      for n in (1, 4, 7, 64, 68, 100, 130, 300)),
    case("one_query", (2, 3, 1, 16), K),
    case("one_key", Q, (2, 3, 1, 16)),
    case("few_keys", Q, (2, 3, 40, 16), keys=34),
    case("few_keys_of_lengths", (2, 4, 1, 8), (2, 2, 9, 8), lengths="run", heads=4, kv_heads=2,
         keys=5, causal=True, past=None),
    case("few_keys_rank_3", (2, 7, 15), (2, 9, 15), heads=3, keys=4),
    case("blocks_of_keys", (1, 2, 5, 8), (1, 2, 200, 8), low=-4.0),
    case("many_keys", (1, 4, 3, 12), (1, 2, 600, 12), 20, low=-4.0),
    case("many_keys_causal", (2, 4, 3, 8), (2, 2, 600, 8), causal=True, past=300),
    case("many_keys_window", (1, 1, 2, 8), (1, 1, 600, 8), causal=True, past=550, window=40),
    case("many_keys_mask", (1, 2, 3, 8), (1, 2, 530, 8), mask=SEEN),
    case("many_keys_nothing", (1, 2, 3, 8), (1, 2, 520, 8), mask=np.full((3, 520), -inf),
         empty=0.0),
    # As many teams of threads as a workgroup has, each with one or two blocks of keys.
    case("most_keys", (2, 4, 1, 12), (2, 2, 1100, 12), 36, low=-4.0),
    case("most_keys_wide", (1, 4, 1, 20), (1, 2, 1060, 20), 132, low=-4.0),
    case("most_keys_mask", (1, 4, 3, 8), (1, 2, 1090, 8), mask=SEEN_OF_MOST, empty=0.0),
    case("most_keys_nan", (1, 4, 3, 8), (1, 2, 1090, 8), mask=NAN_OF_MOST),
    case("most_keys_window", (1, 1, 2, 8), (1, 1, 1100, 8), causal=True, past=1050, window=99),
    case("most_keys_lengths", (3, 4, 1, 8), (3, 2, 1100, 8), lengths=(1, 0, 1077), empty=0.0,
         softcap=2.0),
    of_odd(case("most_keys_mends", (1, 4, 3, 12), (1, 2, 1090, 12), empty=0.0, mends=True,
                mask=NAN_OF_MOST)),
    *(case(f"many_rows_{n}", (n, 8, 512, 8), (n, 8, 5, 8)) for n in (1, 4)),
    case("tiles_of_queries", (1, 2, 50, 8), (1, 2, 9, 8)),
    case("rows_of_64", (1, 1, 64, 64), (1, 1, 64, 64)),
    case("rank_3", (2, 7, 24), (2, 9, 24), heads=3),
    case("rank_3_one_head", (2, 7, 10), (2, 9, 10)),
    case("rank_3_uneven", (2, 7, 15), (2, 9, 15), heads=3),
    case("rank_3_shared", (2, 7, 48), (2, 9, 16), heads=6, kv_heads=2),
    case("rank_3_shared_uneven", (2, 7, 36), (2, 9, 12), heads=6, kv_heads=2),
    case("rank_3_and_4", (2, 7, 24), (2, 3, 9, 8), heads=3),
    case("rank_3_and_4_uneven", (2, 7, 24), (2, 3, 9, 8), 6, heads=3),
    case("joined", (2, 3, 7, 8), (2, 3, 9, 8), joined=True),
    case("joined_uneven", (2, 3, 7, 8), (2, 3, 9, 8), 6, joined=True),
    case("joined_and_packed", (2, 3, 7, 8), (2, 9, 24), heads=3, joined=True),
    case("not_joined", (2, 7, 24), (2, 9, 24), heads=3, joined=False),
    case("shared", (2, 6, 7, 8), (2, 2, 9, 8)),
    case("shared_by_all", (2, 5, 3, 8), (2, 1, 9, 8)),
    case("shared_causal", (2, 6, 7, 8), (2, 2, 9, 8), causal=True, past=2),
    case("scaled", Q, K, scale=3.0),
    case("softcap", Q, K, softcap=0.3, scale=2.0),
    case("softcap_and_mask", Q, K, mask=(7, 9), softcap=0.3, scale=2.0),
    *(case(f"mask_{'_'.join(map(str, m))}", Q, K, mask=m)
      for m in ((2, 3, 7, 9), (1, 1, 7, 9), (2, 1, 1, 9), (3, 7, 9), (7, 9), (9,), (2, 3, 7, 1))),
    case("mask_shared", (2, 6, 7, 8), (2, 2, 9, 8), mask=(2, 6, 7, 9)),
    case("mask_rank_3", (2, 7, 24), (2, 9, 24), heads=3, mask=(2, 3, 7, 9)),
    case("mask_blocks_of_keys", (1, 2, 5, 8), (1, 2, 200, 8), mask=(5, 200)),
    case("mask_infinite", Q, K, mask=CAUSAL),
    case("nothing", Q, K, mask=np.full((7, 9), -inf)),
    case("nothing_zero", Q, K, mask=np.full((7, 9), -inf), empty=0.0),
    case("lowest", Q, K, mask=np.full((7, 9), LOWEST)),
    case("lowest_zero", Q, K, mask=np.where(np.eye(7, 9, dtype=bool), LOWEST, 0), empty=0.0),
    case("mends_nothing", Q, K, mask=CAUSAL_FROM_1, empty=0.0, mends=True),
    case("mends_lowest", Q, K, mask=np.full((7, 9), LOWEST), empty=0.0, mends=True),
    case("mends_nan", Q, K, mask=np.where(np.eye(7, 9, 2, dtype=bool), np.nan, 0), empty=0.0,
         mends=True),
    of_odd(case("mends_nothing_of_odd", Q, K, mask=CAUSAL_FROM_1, empty=0.0, mends=True)),
    of_odd(case("mends_nan_of_odd", Q, K, mask=np.where(np.eye(7, 9, 2, dtype=bool), np.nan, 0),
                empty=0.0, mends=True)),
    of_odd(case("mends_many_of_odd", (1, 4, 3, 12), (1, 2, 601, 12), empty=0.0, mends=True,
                mask=np.where(np.eye(3, 601, 430, dtype=bool), np.nan, 0))),
    case("mask_nan", Q, K, mask=np.where(np.eye(7, 9, dtype=bool), np.nan, 0)),
    case("causal", Q, K, causal=True),
    case("causal_past", Q, K, causal=True, past=2),
    case("causal_last", Q, K, causal=True, past=None),
    case("causal_blocks", (1, 2, 150, 8), (1, 2, 150, 8), causal=True),
    case("causal_unseen", (1, 2, 5, 8), (1, 2, 9, 8), causal=True, past=-3, empty=0.0),
    case("window", Q, K, causal=True, past=2, window=3),
    case("window_1", Q, K, causal=True, window=1),
    case("window_blocks", (1, 2, 150, 8), (1, 2, 150, 8), causal=True, window=70),
    case("window_blocks_short", (1, 2, 150, 8), (1, 2, 150, 8), causal=True, window=5),
    *(case(f"window_mask_{n}", (1, 2, 150, 8), (1, 2, 150, 8), causal=True, window=n,
           mask=(150, 150)) for n in (5, 70)),
    case("window_mask_past", (1, 2, 3, 8), (1, 2, 63, 8), causal=True, past=58, window=9,
         mask=(1, 2, 3, 63)),
    case("window_of_several_heads", (1, 6, 5, 8), (1, 2, 90, 8), causal=True, past=83, window=11),
    case("lengths", Q, K, lengths=(4, 9)),
    case("lengths_of_a_run", Q, K, lengths="run"),
    case("lengths_0", Q, K, lengths=(0, 9), empty=0.0),
    case("lengths_causal", (2, 3, 4, 8), (2, 3, 9, 8), lengths=(4, 9), causal=True, past=None),
    case("lengths_window", (2, 3, 4, 8), (2, 3, 9, 8), lengths=(6, 9), causal=True, past=None,
         window=2),
    case("lengths_of_fewer", (2, 3, 4, 8), (2, 3, 9, 8), lengths=(3, 1), causal=True, past=None,
         empty=0.0),
    case("large_scores", Q, K, scale=300.0),
    NodeCase("no_fit", "attention", (Input(Q), Input(K), Input((2, 3, 8, 16))), {"scale": 1.0},
             refused=True),
    NodeCase("mask_no_fit", "attention", (Input(Q), Input(K), Input(K), Input((8, 9))),
             {"scale": 1.0}, refused=True),
]  # fmt: skip
