"""The plot of `tflgpu bench` and the page of `tflgpu profile`: what they show, and that they are
well formed."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from tests.support import small_models
from tflgpu_plugin.cli import page, plot, profile_page
from tflgpu_plugin.cli.bench import Bench, Parts, Timing
from tflgpu_plugin.cli.commands import main
from tflgpu_plugin.cli.profile import CpuNode, Launch, Profile, Recording
from tflgpu_plugin.harness.compare import HostNode, HostRun
from tflgpu_plugin.runtime.recording import Run

SVG = "{http://www.w3.org/2000/svg}"
MS = 1_000_000
TIMES: dict[str, Any] = {
    "partitions": 1,
    "difference": 0.0,
    "first_ms": 9.0,
    "mean_ms": 2.0,
    "per_second": 500.0,
}


def timing(engine: str, best: float, median: float, worst: float, **more: Any) -> Timing:
    times: dict[str, Any] = {"best_ms": best, "median_ms": median, "p90_ms": worst, "p99_ms": worst}
    return Timing(engine=engine, runs=5, **TIMES, **times, max_ms=worst, **more)


def boxes(svg: str) -> list[dict[str, str]]:
    tree = ElementTree.fromstring(svg)
    return [
        {**one.attrib, "told": one.findtext(f"{SVG}title", "")} for one in tree.iter(f"{SVG}rect")
    ]


def test_a_plot_has_a_row_for_each_engine() -> None:
    parts = Parts(4.0, 1.0, 2.0, None, 0.5, 0.5)
    timings = (timing("cpu", 7, 8, 10), timing("gpu", 3, 4, 5, parts=parts))
    svg = plot.written(Bench("a<b.onnx", "onnxruntime", "GPU & more", timings))
    assert "var(" not in svg and "a&lt;b.onnx" in svg  # no program but a browser knows variables
    found = boxes(svg)
    width = {one["told"].partition(" ms")[0]: float(one["width"]) for one in found}
    assert width["wait for the device: 2.00"] == pytest.approx(2 * width["upload: 1.00"], abs=0.02)
    bars = [float(one["width"]) for one in found if one["fill"] == page.LIGHT["a"]][:2]
    assert bars[0] == pytest.approx(1.5 * bars[1], abs=0.02)  # 7 to 10 and 3 to 5
    right = max(float(one["x"]) + float(one["width"]) for one in found[1:])
    bottom = max(float(one["y"]) + float(one["height"]) for one in found[1:])
    size = ElementTree.fromstring(svg)
    assert right <= float(size.attrib["width"]) and bottom <= float(size.attrib["height"])
    alone = plot.written(Bench("m", "h", "a", (replace(timings[0]),)))
    assert "upload" not in alone


def profile() -> Profile:
    """Returns a profile of three inferences, of which the second is the median."""
    spans = ((0, 10 * MS), (20 * MS, 24 * MS), (30 * MS, 32 * MS))
    runs = tuple(
        Run(
            7,
            at + MS // 4,
            at + MS // 2,
            at + MS,
            at + 2 * MS,
            (0, MS // 4, MS // 2),
            ("conv: first", "pool: x"),
        )
        for at, _ in spans
    )
    host = HostRun(4 * MS, (HostNode("Relu", "<between>", 0, MS),))
    launches = (
        Launch(1, "conv", 0.25, ("Conv 0",), ("first",), 3.5, 1.5, 0.5),
        Launch(1, "pool", 0.75, ("Pool 1",), ("x",)),
    )
    nodes = (CpuNode("Relu", "<between>", 1.0),)
    return Profile("m.onnx", "host", "GPU", 4.0, 2.0, launches, nodes,
                   Recording(spans, runs, {7: 1}, (host, host, host)))  # fmt: skip


class Reader(HTMLParser):
    """Collects the cells of tables, and refuses tags that do not close."""

    def __init__(self) -> None:
        super().__init__()
        self.open, self.cells = list[str](), list[str]()

    def handle_starttag(self, tag: str, _: Any) -> None:
        if tag not in ("meta", "html"):
            self.open.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        assert tag == "html" or self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("td", "th"):
            self.cells[-1] += data


def test_a_page_has_the_launches_and_the_median_inference() -> None:
    text = profile_page.written(profile())
    reader = Reader()
    reader.feed(text)
    assert not reader.open
    for cell in ("first", "0.250", "0.750", "3.500", "50.000", "-", "Relu", "<between>"):
        assert cell in reader.cells, cell
    (svg,) = re.findall("<svg.*</svg>", text, re.DOTALL)
    told = [one["told"] for one in boxes(svg)]
    assert "inference 2: 4.000 ms" in told and not any("inference 1" in one for one in told)
    assert {"first: 0.250 ms", "x: 0.250 ms", "upload: 0.250 ms", "<between>: 1.000 ms"} <= {*told}
    assert "http" not in re.sub("http://www.w3.org/2000/svg", "", text)  # it loads nothing


@pytest.mark.adapter
def test_the_commands_write_them(tmp_path: Path) -> None:
    model, picture, html = tmp_path / "m.tflite", tmp_path / "m.svg", tmp_path / "m.html"
    model.write_bytes(small_models.one_partition())
    words = [str(model), "--runs", "2", "-o", "force=1"]
    done = CliRunner().invoke(main, ["bench", *words, "--plot", str(picture)])
    assert done.exit_code == 0 and f"Wrote {picture}." in done.stdout
    assert ElementTree.parse(picture).getroot().tag == f"{SVG}svg"
    done = CliRunner().invoke(main, ["profile", *words, "--html", str(html)])
    assert done.exit_code == 0 and "<svg" in html.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("command", "option", "suffix"),
    [("bench", "--plot", ".svg"), ("profile", "--html", ".html"), ("profile", "--trace", ".json"),
     ("check", "--annotate", ".onnx"), ("bugreport", "--out", ".zip")],
)  # fmt: skip
def test_a_file_that_cannot_be_written_is_refused_at_once(
    tmp_path: Path, command: str, option: str, suffix: str
) -> None:
    """The model is none, which would be the next sentence."""
    model = tmp_path / "m.onnx"
    model.write_bytes(b"damaged")
    wrong = CliRunner().invoke(main, [command, str(model), option, str(tmp_path / "m.txt")])
    assert wrong.exit_code == 2 and f"must end in {suffix}" in wrong.stderr
    out = tmp_path / "missing" / f"m{suffix}"
    wrong = CliRunner().invoke(main, [command, str(model), option, str(out)])
    assert wrong.exit_code == 2 and f"There is no folder {out.parent}." in wrong.stderr
    assert [*tmp_path.iterdir()] == [model]


@pytest.mark.parametrize("link", [False, True])
def test_an_input_is_never_written(tmp_path: Path, link: bool) -> None:
    picture, out = tmp_path / "image.zip", tmp_path / "image.zip"
    picture.write_bytes(b"a picture")
    if link:
        out = tmp_path / "link.zip"
        out.symlink_to(picture)
    done = CliRunner().invoke(main, ["bugreport", "--image", str(picture), "--out", str(out)])
    assert done.exit_code == 2 and f"{out} is an input of this command" in done.stderr
    assert picture.read_bytes() == b"a picture"
