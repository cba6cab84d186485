"""Tests how often a run calls the driver: an additional call should be a deliberate change."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from benchmarks import calls
from benchmarks.engine import Unavailable

PAGE = Path(__file__).parents[2] / "docs" / "design" / "host.md"
DISPATCH = {
    "vkCmdBindDescriptorSets": 1,
    "vkCmdBindPipeline": 1,
    "vkCmdDispatch": 1,
    "vkCmdPipelineBarrier": 1,
}
RUN = {
    "vkBeginCommandBuffer": 3,
    "vkEndCommandBuffer": 3,
    "vkGetSemaphoreCounterValue": 2,
    "vkQueueSubmit": 1,
    "vkResetCommandPool": 1,
    "vkWaitSemaphores": 1,
}
# A command buffer, a barrier and a copy, on the way to the device and on the way back.
STAGING = {
    "vkBeginCommandBuffer": 2,
    "vkCmdCopyBuffer": 2,
    "vkCmdPipelineBarrier": 2,
    "vkEndCommandBuffer": 2,
}


def total(*parts: Mapping[str, int]) -> dict[str, int]:
    return {key: sum(part.get(key, 0) for part in parts) for part in parts for key in part}


@pytest.mark.adapter
@pytest.mark.parametrize("family", ["", "navi31"])
@pytest.mark.parametrize("staged", [False, True])
def test_a_run_of_one_dispatch(staged: bool, family: str) -> None:
    """It runs on the adapter, and on a null device, which is discrete."""
    try:
        found = calls.counted(calls.ONE, staged, family)
    except Unavailable as error:
        pytest.skip(str(error))
    wanted = total(DISPATCH, RUN, STAGING if found.staged else {})
    assert found.calls == wanted
    assert found.staged or not (staged or family)


def test_the_design_note_has_the_counts() -> None:
    counts = re.search(
        r"(\d+) Vulkan calls and (\d+) for each dispatch, and (\d+)", PAGE.read_text()
    )
    assert counts and [int(number) for number in counts.groups()] == [
        sum(RUN.values()), sum(DISPATCH.values()), sum(STAGING.values())
    ]  # fmt: skip
