"""python -m benchmarks.decoding: measures loops whose shapes change: a decoder's growing cache,
lines of text of many widths, batches, sizes of pictures; and what is kept meanwhile.

Times are CPU milliseconds of the process, the software driver's work included. Engines take turns;
compare rows of one run only. Beside ours runs onnxruntime's WebGPU provider (in an environment of
its own, made on first use) and, with --beside, another checkout that has a .venv. Status 1: the
engines' logits differ."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.decoding_models import GROUPED, MODELS
from benchmarks.engine import ROOT, Unavailable, inherited
from benchmarks.planning import Model
from conformance.models import decoders

WORKER = ROOT / "benchmarks" / "decoding_worker.py"
OURS, OTHER, WEBGPU, CPU = "this checkout", "other checkout", "onnxruntime WebGPU", "CPU provider"
ENGINES = (OURS, OTHER, WEBGPU, CPU)
WARM = 5  # steps that are not counted: the first ones build pipelines
APART = 1e-3  # of the largest logit: more is wrong
LENGTHS = 64  # whose plans are kept in a cache directory
BUFFER = 256  # length of a cache that does not grow
Spec = dict[str, Any]
Cells = dict[str, str]  # by engine


@dataclass(frozen=True)
class Row:
    """A figure, its values by engine, and the value that it must reach."""

    figure: str
    cells: Cells
    must: str = ""


@dataclass(frozen=True)
class Place:
    """Says how an engine's worker is started; `kind` is the worker's word for its provider."""

    python: Path
    folder: Path
    kind: str
    variables: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Bench:
    """The settings of all measurements: the places of the engines that can run, a folder for
    models, and how long to measure (a part of the default)."""

    places: dict[str, Place]
    folder: Path
    part: float
    differences: list[str] = field(default_factory=list)

    def model(self, name: str) -> str:
        """Returns the path of a model, which is written once."""
        path = self.folder / f"{name}.onnx"
        if not path.exists():
            path.write_bytes(MODELS[name]())
        return str(path)

    def count(self, number: int) -> int:
        return max(2, round(number * self.part))

    def turns(self, spec: Spec, count: int, engines: Sequence[str]) -> dict[str, list[Any]]:
        """Returns the lines that each engine's worker prints in this number of turns, in which the
        workers alternate; prints which engines cannot run the task."""
        workers = {}
        for engine in engines:
            if engine in self.places:
                try:
                    workers[engine] = Worker(self.places[engine], spec)
                except Unavailable as error:
                    print(f"NOT RUN: {engine}: {error}", file=sys.stderr)
        found: dict[str, list[Any]] = {engine: [] for engine in workers}
        for _ in range(count):
            for engine, worker in workers.items():
                found[engine].append(worker.turn())
        for worker in workers.values():
            worker.close()
        return found


class Worker:
    """A started worker; raises Unavailable where it ends before it is ready."""

    def __init__(self, place: Place, spec: Spec) -> None:
        self._log = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            [str(place.python), str(WORKER), json.dumps(spec | {"kind": place.kind})],
            cwd=place.folder, env=inherited() | place.variables, text=True, stderr=self._log,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        while self._line() != "ready":
            pass

    def turn(self) -> Any:
        """Returns the next line that the worker's task prints."""
        assert self._process.stdin
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        while not (line := self._line()).startswith("{"):
            pass  # hosts and drivers print, too
        return json.loads(line)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._log.close()

    def _line(self) -> str:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            self._log.seek(0)
            lines = [text for text in self._log.read().splitlines() if text.strip()]
            raise Unavailable(lines[-1] if lines else f"status {self._process.wait()}")
        return line.strip()


def decoder(bench: Bench) -> Iterator[Row]:
    """Yields the rows of a decoder of 12 layers whose cache grows, with the peer's."""
    model = bench.model("gpt")
    for figure, must, more in (
        ("12 layers, one token more, every length new", "8", {"grows": True}),
        ("the same, cache bound on the device", "8", {"grows": True, "bound": True}),
        ("12 layers, one token at a known length", "3.5", {"grows": False}),
        ("the same, cache bound on the device", "3.5; a third of WebGPU's",
         {"grows": False, "bound": True}),
    ):  # fmt: skip
        engines = ENGINES if "bound" in more else (OURS, OTHER, CPU)
        yield Row(f"{figure}: ms", steps(bench, {"model": model} | more, engines), must)


def genai(bench: Bench) -> Iterator[Row]:
    """Yields the rows of a decoder whose cache has a fixed length, without and with the library
    onnxruntime-genai."""
    spec = {"model": bench.model("grouped"), "grows": True, "buffer": BUFFER}
    cells = steps(bench, spec, (OURS, OTHER, CPU))
    yield Row("GroupQueryAttention, 2 layers, shared buffer, a token: ms", cells, "1.5")
    folder = bench.folder / "genai"
    folder.mkdir()
    (folder / "model.onnx").write_bytes(decoders.grouped(GROUPED))
    (folder / "genai_config.json").write_text(json.dumps(decoders.genai_settings(GROUPED)))
    spec = {"task": "generated", "model": str(folder)}
    found = bench.turns(spec, bench.count(6) + 1, (OURS, OTHER, CPU))
    cells = {engine: _typical(t for turn in turns for t in turn["ms"])
             for engine, turns in found.items()}  # fmt: skip
    yield Row("the same through onnxruntime-genai: ms", cells, "2")


def _typical(times: Iterable[float]) -> str:
    return f"{median([*times][WARM:]):.3g}"


def steps(bench: Bench, spec: Spec, engines: Sequence[str]) -> Cells:
    """Returns the median milliseconds of a step; notes where the engines' logits differ."""
    found = bench.turns({"task": "decoded"} | spec, bench.count(6) + 1, engines)
    cells = {}
    for engine, turns in found.items():
        away = engine != CPU and spec.get("bound") and turns[-1]["where"] == "cpu"
        time = _typical(step["ms"] for turn in turns for step in turn["steps"])
        cells[engine] = time + (" (cache on the CPU)" if away else "")
        if engine != CPU:
            bench.differences.extend(apart(engine, spec, turns, found[CPU]))
    return cells


def apart(engine: str, spec: Spec, turns: Sequence[Any], wanted: Sequence[Any]) -> Iterator[str]:
    """Yields a sentence where logits differ from those of the CPU provider."""
    for turn, right in zip(turns, wanted, strict=True):
        for step, other in zip(turn["steps"], right["steps"], strict=True):
            logits, expected = np.array(step["logits"]), np.array(other["logits"])
            share = float(np.abs(logits - expected).max() / np.abs(expected).max())
            if not share <= APART:
                yield f"{engine}, {Path(spec['model']).stem}: {share:.1e} of the largest logit"
                return


def widths(bench: Bench) -> Iterator[Row]:
    """Yields the row of a reader of lines, each of another width."""
    some = np.random.default_rng(1).permutation(np.arange(80, 320))[: bench.count(240)]
    shapes = [(1, 3, 48, int(width)) for width in some]
    cells = ratios(bench, "recogniser", shapes, [len(shapes)])
    yield Row(f"reader of lines, {len(shapes)} widths: new width by repeat", cells, "1.3")


def batches(bench: Bench) -> Iterator[Row]:
    """Yields the row of a classifier whose batch changes."""
    shapes = [(n, 3, 96, 96) for n in (1, 2, 4, 8, 16, 32)]
    cells = ratios(bench, "mobilenet", shapes, [1] * len(shapes))
    yield Row("MobileNet v2 96, batches 1, 2, 4 ... 32: first visit by repeat", cells, "1.3 each")


def sizes(bench: Bench) -> Iterator[Row]:
    """Yields the row of a fully convolutional network on pictures of four sizes."""
    shapes = [(1, 3, side, side + 8) for side in (224, 320, 480, 640)]
    cells = ratios(bench, "segmenter", shapes, [1] * len(shapes))
    yield Row("fully convolutional, 224, 320, 480, 640: first visit by repeat", cells, "1.3")


def ratios(bench: Bench, model: str, shapes: Sequence[Any], groups: Sequence[int]) -> Cells:
    """Returns the ratio of the first visit to a repeat, the median of each group of shapes. A shape
    that is not counted comes first: it builds pipelines."""
    first = (*shapes[0][:-1], shapes[0][-1] + 4)
    visited = [first, *shapes]
    spec = {"task": "visited", "model": bench.model(model), "shapes": visited, "runs": 6}
    cells = {}
    for engine, visits in bench.turns(spec, len(visited), (OURS, OTHER)).items():
        values = np.array([visit["first"] / visit["again"] for visit in visits[1:]])
        parts = np.split(values, np.cumsum(groups)[:-1])
        cells[engine] = ", ".join(f"{np.median(part):.1f}" for part in parts)
    return cells


def growth(bench: Bench) -> Iterator[Row]:
    """Yields the memory that a session takes for many shapes, the largest first."""
    some = np.random.default_rng(2).permutation(np.arange(80, 480))[: bench.count(300)].tolist()
    shapes = [(1, 3, 48, width) for width in (480, *some)]
    spec = {"task": "visited", "model": bench.model("recogniser"), "shapes": shapes, "runs": 2}
    cells = {}
    for engine, visits in bench.turns(spec, len(shapes), (OURS, OTHER)).items():
        cells[engine] = f"{visits[-1]['memory'] - visits[0]['memory']:.0f}"
    yield Row(f"{len(some)} shapes in one session: growth in MB", cells, "none after the largest")


def weights(bench: Bench) -> Iterator[Row]:
    """Yields the memory of sessions of one model, with different shapes, and after closing them."""
    spec = {"task": "held", "model": bench.model("heavy"), "other": bench.model("megabyte")}
    cells = {}
    for engine, turns in bench.turns(spec, 1, (OURS, OTHER, WEBGPU)).items():
        cells[engine] = ", ".join(f"{turns[0][of]:.0f}" for of in ("first", "second", "left"))
    figure = (
        "64 MiB of weights: MB of the first session, of a second one, left when both are closed"
    )
    yield Row(figure, cells, "second: few; left: none")


def sessions(bench: Bench) -> Iterator[Row]:
    """Yields the bytes that cross the CPU where one session's result is another one's input."""
    spec = {"task": "passed", "model": bench.model("megabyte")}
    found = bench.turns(spec, 1, (OURS, OTHER))
    cells = {engine: f"{turns[0]['bytes'] / 2**20:.0f}" for engine, turns in found.items()}
    yield Row("1 MB through two sessions: MB through the CPU", cells, "0")


def start(bench: Bench) -> Iterator[Row]:
    """Yields the seconds of making a session of a large model with fixed shapes."""
    made, path = Model(), bench.folder / "layers.onnx"
    path.write_bytes(made.file(3000).content)
    spec = {"task": "started", "model": str(path), "plain": True}
    found = bench.turns(spec, bench.count(3), (OURS, OTHER, CPU))
    cells = {engine: f"{median(turn['ms'] for turn in turns) / 1e3:.2f}"
             for engine, turns in found.items()}  # fmt: skip
    yield Row(f"a session of {len(made.nodes)} nodes, fixed shapes: s", cells, "not longer")


def kept(bench: Bench) -> Iterator[Row]:
    """Yields the files and bytes in a cache directory after many lengths."""
    model = bench.model("gpt")
    cells, size = {}, Path(model).stat().st_size
    for engine in (OURS, OTHER):
        folder = bench.folder / f"cache {engine}"
        folder.mkdir()
        options = {"serialization_dir": str(folder), "model_token": "decoder"}
        spec = {"task": "decoded", "model": model, "grows": True, "options": options,
                "steps": LENGTHS}  # fmt: skip
        if bench.turns(spec, 1, (engine,)):
            found = [file.stat().st_size for file in folder.rglob("*") if file.is_file()]
            cells[engine] = f"{len(found)} files, {sum(found) / size:.2f}"
    figure = f"cache directory after {LENGTHS} lengths: files, bytes by the model's"
    yield Row(figure, cells, "1 file, 1.1")


ROWS: dict[str, Callable[[Bench], Iterator[Row]]] = {
    "decoder": decoder, "genai": genai, "widths": widths, "batches": batches, "sizes": sizes,
    "sessions": sessions, "weights": weights, "growth": growth, "start": start, "cache": kept,
}  # fmt: skip


def places(beside: Path | None, peer: bool) -> dict[str, Place]:
    """Returns the engines that can be had here. All run on the newer software driver where it can
    be had, as the peer needs it."""
    found = {OURS: Place(Path(sys.executable), ROOT, "ours"),
             CPU: Place(Path(sys.executable), ROOT, "cpu")}  # fmt: skip
    if beside:
        found[OTHER] = Place(beside / ".venv/bin/python", beside, "ours")
    if not peer:
        return found
    try:
        driver, python = peers.newer_driver(), peers.environment("webgpu")
    except Unavailable as error:
        print(f"NOT RUN: {WEBGPU}: {error}", file=sys.stderr)
        return found
    found[WEBGPU] = Place(python, ROOT, "webgpu")
    return {name: Place(of.python, of.folder, of.kind, driver) for name, of in found.items()}


def table(rows: Sequence[Row]) -> str:
    """Returns the rows as a Markdown table, without columns of engines that have no value."""
    some = [engine for engine in ENGINES if any(engine in row.cells for row in rows)]
    lines = [["figure", *some, "target"], ["---"] * (len(some) + 2)]
    lines += [[row.figure, *(row.cells.get(e, "") for e in some), row.must] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.decoding", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=ROWS, default=[*ROWS], help="these rows")
    parser.add_argument("--beside", type=Path, help="another checkout, measured in turns")
    parser.add_argument("--part", type=float, default=1.0, help="of steps and shapes (0.2: a look)")
    parser.add_argument("--no-peer", action="store_true", help="without the WebGPU provider")
    given = parser.parse_args(arguments)
    beside = given.beside and given.beside.resolve()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(places(beside, not given.no_peer), Path(folder), given.part)
        for name in given.only:
            for row in ROWS[name](bench):
                print(f"{row.figure}: {row.cells}", file=sys.stderr, flush=True)
                rows.append(row)
    print(table(rows))
    for sentence in bench.differences:
        print(f"WRONG: {sentence}")
    return int(bool(bench.differences))


if __name__ == "__main__":
    sys.exit(main())
