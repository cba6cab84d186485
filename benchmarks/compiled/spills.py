"""The kernels that spill registers today: at most this many of a family of ops on each GPU. The
check fails where there are more; a number that is too large is a mistake, too, if all cases ran."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

SPILLS: dict[str, dict[str, int]] = {}


def unexpected(
    gpu: str, spilled: Iterable[str], all_ran: bool, known: Mapping[str, Mapping[str, int]] = SPILLS
) -> list[str]:
    """Returns a sentence for each family whose number of kernels that spill is not as known."""
    found, limits = Counter(spilled), known.get(gpu, {})
    return [
        f"{gpu}: {found[family]} kernels of {family} spill, {limits.get(family, 0)} are known"
        for family in sorted({*found, *limits})
        if found[family] > limits.get(family, 0) or (all_ran and found[family] < limits[family])
    ]
