"""The results of the last `make exported`: a model that ran completely, or correctly, and no
longer does fails the check.

`expect/exported.json` holds the rows; `python -m conformance.exported FOLDER --record` writes it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

FILE = Path(__file__).parent / "expect" / "exported.json"
RIGHT, WRONG, REFUSED = "right", "wrong", "refused by the host"


@dataclass(frozen=True)
class Row:
    """One model: nodes that hold values, those on the GPU, partitions, and runs of partitions that
    ended on the host's kernels. `state` is right, wrong, refused by the host (which does not run
    the model without us either), or the error of the model's session or run."""

    nodes: int = 0
    gpu: int = 0
    partitions: int = 0
    on_host: int = 0
    state: str = RIGHT

    @property
    def on_cpu(self) -> int:
        """Returns the number of nodes on the CPU."""
        return self.nodes - self.gpu

    @property
    def rank(self) -> int:
        """Returns how good the state is: a model that runs is better than one that fails."""
        return {RIGHT: 2, WRONG: 1}.get(self.state, 0)

    def __str__(self) -> str:
        text = f"{self.gpu} of {self.nodes} nodes, {self.partitions} partitions, {self.state}"
        return text + (f", {self.on_host} runs on the host's kernels" if self.on_host else "")


@dataclass(frozen=True)
class Comparison:
    """Lines that say what got worse, what got better, and which rows are new; and the command that
    records them."""

    worse: tuple[str, ...]
    better: tuple[str, ...]
    new: tuple[str, ...]
    again: str = 'make exported ARGS="--record"'

    def __str__(self) -> str:
        """Returns the sections that have lines, each with its heading, and then what to do."""
        sections = {
            "Worse than recorded": self.worse,
            "Better than recorded": self.better,
            "Not recorded yet": self.new,
        }
        lines = list[str]()
        for title, some in sections.items():
            lines += [f"{title}:", *(f"  {one}" for one in some)] if some else []
        if self.better or self.new:
            lines.append(f"To record this, run: {self.again}")
        return "\n".join(lines or ["Everything is as recorded."])


def compared(before: Mapping[str, Row], now: Mapping[str, Row]) -> Comparison:
    """Returns the differences between the recorded rows and those of a run, by model."""
    worse, better = list[str](), list[str]()
    for name, old in before.items():
        new = now.get(name)
        if new is None:
            worse.append(f"{name}: missing; it was {old}")
        elif _falls_short(old, new):
            worse.append(f"{name}: {new}; it was {old}")
        elif _falls_short(new, old):
            better.append(f"{name}: {new}; it was {old}")
    added = tuple(f"{name}: {row}" for name, row in now.items() if name not in before)
    return Comparison(tuple(worse), tuple(better), added)


def _falls_short(old: Row, new: Row) -> bool:
    """Whether any number of `new` is worse than that of `old`. One partition where there was none
    is not worse."""
    if new.rank != old.rank:
        return new.rank < old.rank
    if not new.rank:
        return old.state == REFUSED != new.state
    parts = max(old.partitions, 1)
    return new.on_cpu > old.on_cpu or new.partitions > parts or new.on_host > old.on_host


def read(file: Path = FILE) -> dict[str, Row]:
    """Returns the recorded rows; none where nothing was recorded."""
    rows = json.loads(file.read_text()) if file.exists() else {}
    return {name: Row(**row) for name, row in rows.items()}


def write(rows: Mapping[str, Row], file: Path = FILE) -> None:
    """Writes these rows, one on each line, in the order of their names."""
    lines = [f"{json.dumps(name)}: {json.dumps(asdict(rows[name]))}" for name in sorted(rows)]
    file.write_text("{\n" + ",\n".join(lines) + "\n}\n")
