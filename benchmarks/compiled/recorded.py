"""Estimates that are remembered: `recorded.json` holds those of a few networks on a few GPUs, and
the check fails where one is slower there, spills more or takes more launches.

`python -m benchmarks.compiled recorded --record` writes the file anew. It names the release of Mesa
that compiled for each GPU, since another one makes other code of the same kernels."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.compiled import driver, models
from benchmarks.compiled.networks import Estimate, estimates
from conformance.exported_table import Comparison
from conformance.models import model_inputs

FILE = Path(__file__).with_name("recorded.json")
AGAIN = "python -m benchmarks.compiled recorded --record"
GPUS = ("navi31", "vega10", "dg2", "lnl", "tu102", "ga102", "a740")  # m1 has no estimates
NETWORKS = (
    "mobilenet_v1_224", "resnet18_224", "unet_256", "bert_base_layer_128", "vit_b16_layer_197",
    "llama_1b_token_512_4_bits", "llama_8b_token_512",
)  # fmt: skip
PRECISIONS: dict[str, dict[str, object]] = {"float32": {}, "float16": {"half": True}}
BYTES = "mobilenet_v2_1.0_224_quant"  # of the folder of real models
MARGIN = 1.03  # a figure that is larger by this factor is slower
NAMED = 5  # launches that a line names


@dataclass(frozen=True)
class Row:
    """A network on a GPU: registers that spill, and the microseconds of each launch by its label,
    in order."""

    spills: int
    launches: Mapping[str, Sequence[float]]

    @property
    def us(self) -> float:
        return sum(map(sum, self.launches.values()))

    @property
    def count(self) -> int:
        """Returns the number of launches."""
        return sum(map(len, self.launches.values()))

    def __str__(self) -> str:
        return f"{self.us:.1f} us in {self.count} launches, {self.spills} spills"


@dataclass(frozen=True)
class Table:
    """The rows by "GPU, network, precision", and the release of Mesa by GPU."""

    compilers: Mapping[str, str]
    rows: Mapping[str, Row]


def row(found: Estimate) -> Row:
    """Returns an estimate as it is recorded, in hundredths of a microsecond."""
    launches = dict[str, list[float]]()
    for label, _, taken in found.dispatches:
        launches.setdefault(label, []).append(round(taken.us, 2))
    return Row(found.spills, launches)


def compared(before: Mapping[str, Row], now: Mapping[str, Row]) -> Comparison:
    """Returns the differences between the recorded rows and those of today. What is worse in one
    thing is worse."""
    worse, better = list[str](), list[str]()
    for name, new in now.items():
        old = before.get(name)
        if old is None:
            continue
        if _falls_short(old, new):
            worse.append(f"{name}: {new}; it was {old}: {'; '.join(grown(old, new))}")
        elif _falls_short(new, old):
            better.append(f"{name}: {new}; it was {old}")
    added = tuple(f"{name}: {new}" for name, new in now.items() if name not in before)
    return Comparison(tuple(worse), tuple(better), added, AGAIN)


def _falls_short(old: Row, new: Row) -> bool:
    return new.us > old.us * MARGIN or new.spills > old.spills or new.count > old.count


def grown(old: Row, new: Row) -> list[str]:
    """Returns a sentence for each of the launches that grew most, by their place among those with
    this label. Where the number of launches has changed, their sum is compared."""
    found = list[tuple[float, str]]()
    for label, times in new.launches.items():
        known = old.launches.get(label, ())
        if len(known) == len(times):
            for k, (was, us) in enumerate(zip(known, times, strict=True)):
                found.append((us - was, f"{label} {k + 1}: {was} to {us} us"))
        else:
            had = f"{len(known)} of {sum(known):.1f}"
            has = f"{len(times)} of {sum(times):.1f} us"
            found.append((sum(times) - sum(known), f"{label}: {had} to {has}"))
    return [text for more, text in sorted(found, reverse=True)[:NAMED] if more > 0]


def read(file: Path = FILE) -> Table:
    """Returns the recorded table; an empty one where nothing was recorded."""
    told = json.loads(file.read_text()) if file.exists() else {"compilers": {}, "rows": {}}
    return Table(told["compilers"], {name: Row(**each) for name, each in told["rows"].items()})


def write(table: Table, file: Path = FILE) -> None:
    """Writes a table, one row on each line, in the order of their names."""
    rows = [f"{json.dumps(n)}: {json.dumps(asdict(table.rows[n]))}" for n in sorted(table.rows)]
    compilers = json.dumps(dict(table.compilers), sort_keys=True)
    joined = ",\n".join(rows)
    file.write_text(f'{{"compilers": {compilers},\n"rows": {{\n{joined}\n}}}}\n')


def check(gpus: Collection[str], record: bool, file: Path = FILE) -> int:
    """Estimates the networks for those GPUs that are recorded, and prints what has changed. Returns
    1 where one is worse. Raises Unavailable."""
    wanted = [gpu for gpu in GPUS if gpu in gpus]
    old = read(file)
    compilers = {gpu: driver.compiler(gpu) for gpu in wanted}
    rows = _rows(wanted)
    if record:
        write(Table({**old.compilers, **compilers}, {**old.rows, **rows}), file)
        print(f"{len(rows)} estimates recorded in {file.name}.")
        return 0
    others = {gpu: it for gpu, it in compilers.items() if it != old.compilers.get(gpu, it)}
    same = {name: each for name, each in rows.items() if name.split(",")[0] not in others}
    comparison = compared(old.rows, same)
    print(f"{len(same)} estimates compared.\n{comparison}")
    for gpu, compiler in others.items():
        print(f"NOT RUN: {gpu} was recorded with {old.compilers[gpu]}, and here is {compiler}.")
    return int(bool(comparison.worse))


def _rows(gpus: Sequence[str]) -> dict[str, Row]:
    found = dict[str, Row]()
    for gpu in gpus:
        made = estimates(NETWORKS, gpu, list(PRECISIONS.values()))
        for (name, k), each in made.items():
            found[f"{gpu}, {name}, {list(PRECISIONS)[k]}"] = row(each)
    model = model_inputs.FOLDER / f"{BYTES}.tflite"
    if not model.exists():
        print(f"{BYTES} is left out: {model_inputs.ABSENT}")
        return found
    planned = models.plans(model, gpus, {"byte_products": "always"})  # as calibration may find
    return found | {f"{gpu}, {BYTES}, bytes": row(models.joined(planned, gpu)) for gpu in gpus}
