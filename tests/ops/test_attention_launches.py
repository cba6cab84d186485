"""Tests how attention is shared among threads: rows and teams of each workgroup, by target. No
device is needed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.ops.test_launches import GPU, SHUFFLES, lowered


@pytest.mark.parametrize(
    ("q", "k", "gpu", "cpu"),
    [
        # heads x rows x 8 threads: 2^14 with 1 row a thread, so no more; on a CPU 32 vec4
        ((1, 8, 256, 64), (1, 8, 256, 64), (1, 1, 512), (8, 1, 32)),
        ((1, 8, 512, 64), (1, 8, 512, 64), (2, 1, 512), (8, 1, 64)),
        ((4, 8, 512, 64), (4, 8, 512, 64), (4, 1, 1024), (8, 1, 256)),
        ((4, 8, 512, 32), (4, 8, 512, 32), (4, 1, 1024), (8, 1, 256)),  # at most 4 rows
        ((4, 8, 512, 128), (4, 8, 512, 128), (2, 1, 2048), (8, 1, 256)),  # 8 vec4
        # 4 rows that share keys: one each, and 256 keys for as many eights as have a block of 32
        ((1, 32, 1, 128), (1, 8, 256, 128), (1, 8, 32), (4, 1, 1)),
        ((1, 32, 1, 128), (1, 8, 255, 128), (1, 4, 32), (4, 1, 1)),
        # at most 32 eights, and with more slices of a result as many as fit into 16 KiB
        ((1, 32, 1, 64), (1, 8, 512, 64), (1, 16, 32), (4, 1, 1)),
        ((1, 32, 1, 64), (1, 8, 4096, 64), (1, 32, 32), (4, 1, 1)),
        ((1, 32, 1, 128), (1, 8, 4096, 128), (1, 16, 32), (4, 1, 1)),
        ((1, 8, 255, 64), (1, 8, 256, 64), (1, 2, 1020), (8, 1, 32)),
        ((1, 8, 255, 64), (1, 8, 63, 64), (1, 1, 510), (8, 1, 32)),
    ],
)
def test_rows_and_teams_of_attention(q: Any, k: Any, gpu: Any, cpu: Any) -> None:
    """(rows of 8 threads, teams of 8 threads for the same rows, workgroups)."""
    amd = replace(GPU, vendor="amd", subgroup_size=32)
    for target, wanted in ((amd, gpu), (SHUFFLES, cpu)):
        (launch,) = lowered(target, "attention", q, k, k, scale=1.0).launches
        found = launch.variant["rows"], launch.variant["teams"], launch.workgroups[0]
        assert found == wanted
        assert launch.variant["ahead"] == (1 if target.software else 4)
        lanes = 64 if target.software else max(32, 8 * found[1])
        assert launch.variant["lanes"] == lanes  # eights go together, at least a subgroup
        wide = replace(target, least_subgroup=64)
        (launch,) = lowered(wide, "attention", q, k, k, scale=1.0).launches
        rows, parts = launch.variant["rows"], launch.variant["parts"]
        assert launch.variant["lanes"] == max(64, lanes)
        assert launch.workgroups[0] * max(64, lanes) == found[2] * lanes
        wanted = 1 if target.software or rows * parts >= 8 else 2 if rows > 1 else 4
        assert launch.variant["ahead"] == wanted
    (launch,) = lowered(GPU, "attention", (1, 32, 1, 128), (1, 8, 512, 128), (1, 8, 512, 128),
                        scale=1.0).launches  # fmt: skip
    assert (launch.variant["teams"], launch.variant["shared"]) == (16, False)


def test_attention_has_more_threads_on_discrete_adapters() -> None:
    """A row of 8 threads each makes 18,912, which are few for a GPU that 65,536 fill."""
    q = (1, 12, 197, 64)
    for threads, wanted in ((1 << 14, (1, 1, 591)), (1 << 16, (1, 2, 1182))):
        target = replace(GPU, subgroup_size=32, threads=threads)
        (launch,) = lowered(target, "attention", q, q, q, scale=1.0).launches
        found = launch.variant["rows"], launch.variant["teams"], launch.workgroups[0]
        assert found == wanted


@pytest.mark.parametrize(
    ("vendor", "four", "one"),
    [
        ("amd", 4, 4), ("nvidia", 2, 4), ("unknown", 2, 2), ("intel", 1, 4), ("apple", 1, 4),
        ("qualcomm", 1, 1),
    ],
)  # fmt: skip
def test_vendors_load_fewer_keys_ahead_rather_than_spill(vendor: str, four: int, one: int) -> None:
    """For tiles of four rows and of one. A setting holds for both."""
    k = (4, 8, 512, 64)
    target = replace(GPU, vendor=vendor, subgroup_size=32)
    forced = replace(target, tuning={"attention_tile": "4x2"})
    for q, count, ahead in ((k, 4, four), ((4, 8, 1, 64), 1, one)):
        (launch,) = lowered(target, "attention", q, k, k, scale=1.0).launches
        assert (launch.variant["rows"], launch.variant["ahead"]) == (count, ahead)
        (launch,) = lowered(forced, "attention", q, k, k, scale=1.0).launches
        assert (launch.variant["rows"], launch.variant["ahead"]) == (count, 2)
