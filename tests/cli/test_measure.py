"""Tests `tflgpu bench` and `tflgpu profile` with the demo's network, in both frontends."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from tests.support import onnx_models, small_models
from tflgpu_plugin.cli import profile
from tflgpu_plugin.cli.commands import main
from tflgpu_plugin.demo import network, onnx_file
from tflgpu_plugin.frontend.reports import Report
from tflgpu_plugin.harness import onnx
from tflgpu_plugin.harness.compare import HostNode, HostRun
from tflgpu_plugin.runtime.recording import Run

pytestmark = pytest.mark.adapter
needs_onnx = pytest.mark.skipif(bool(onnx.missing()), reason="it is about ONNX Runtime")


@pytest.fixture(scope="module", params=["tflite", "onnx"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    if request.param == "onnx" and (reason := onnx.missing()):
        pytest.skip(reason)
    path = tmp_path_factory.mktemp("model") / f"mobilenet.{request.param}"
    write = network.to_tflite if request.param == "tflite" else onnx_file.to_onnx
    path.write_bytes(write(network.build()))
    return str(path)


def answer(*arguments: str) -> Any:
    result = CliRunner().invoke(main, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def sentence(*arguments: str) -> str:
    result = CliRunner().invoke(main, list(arguments))
    assert result.exit_code == 2 and "Traceback" not in result.output, result.output
    return result.output


def test_bench_times_every_engine(model: str) -> None:
    found = answer("bench", model, "--runs", "3", "--engines", "cpu,gpu,gpu-f16")["timings"]
    assert [row["engine"] for row in found] == ["cpu", "gpu", "gpu-f16"]
    for row in found:
        names = ("best", "median", "p90", "p99", "max")
        times = [row[f"{name}_ms"] for name in names]
        assert 0 < times[0] and times == sorted(times) and row["runs"] == 3
        assert times[0] <= row["mean_ms"] <= times[-1]
        assert row["per_second"] == pytest.approx(1e3 / row["mean_ms"])
        assert row["first_ms"] > 0
    assert [row["partitions"] for row in found] == [0, 1, 1]
    full, half = found[1]["difference"], found[2]["difference"]
    assert found[0]["difference"] == 0
    assert 0 < full < 1e-3  # two float32 programs; never the same kernels
    assert half != full  # and this one rounds to float16


def test_bench_tells_the_parts_of_an_inference(model: str) -> None:
    cpu, gpu = answer("bench", model, "--runs", "2")["timings"]
    assert cpu["parts"] is None
    parts = gpu["parts"]
    assert all(parts[name] > 0 for name in ("upload_ms", "waiting_ms", "kernels_ms"))
    assert parts["download_ms"] >= 0
    each = (parts[f"{name}_ms"] for name in ("upload", "waiting", "download", "host"))
    assert sum(each) == pytest.approx(parts["inference_ms"])
    shown = CliRunner().invoke(main, ["bench", model, "--runs", "1"]).stdout
    assert "p99" in shown and "wait for the device" in shown


def test_bench_prints_csv(model: str) -> None:
    result = CliRunner().invoke(main, ["bench", model, "--runs", "1", "--csv"])
    cpu, gpu = csv.DictReader(result.stdout.splitlines())
    assert (cpu["engine"], gpu["engine"]) == ("cpu", "gpu") and cpu["model"] == Path(model).name
    assert cpu["kernels_ms"] == "" and float(gpu["kernels_ms"]) > 0
    assert "either" in sentence("bench", model, "--csv", "--json")


def test_bench_runs_for_some_seconds(tmp_path: Path) -> None:
    path = tmp_path / "small.tflite"
    path.write_bytes(small_models.one_partition())
    words = ("--engines", "cpu", "--warmup", "0")
    (found,) = answer("bench", str(path), *words, "--seconds", "0.05")["timings"]
    assert found["runs"] * found["mean_ms"] <= 0.05e3 + found["max_ms"]
    (fewest,) = answer("bench", str(path), *words, "--seconds", "1e-9")["timings"]
    assert fewest["runs"] == 1


def test_bench_fails_where_it_is_too_slow(tmp_path: Path) -> None:
    """The limit is for the GPU; for the CPU where only that is timed."""
    path = tmp_path / "small.tflite"
    path.write_bytes(small_models.one_partition())
    for engines, slow in (("cpu,gpu", "gpu"), ("cpu", "cpu")):
        words = ["bench", str(path), "--runs", "1", "--engines", engines, "-o", "force=1"]
        over = CliRunner().invoke(main, [*words, "--max-ms", "0"])
        assert over.exit_code == 1 and over.stderr.startswith(f"{slow}: the median"), over.stderr
        assert "p99" in over.stdout
        assert CliRunner().invoke(main, [*words, "--max-ms", "1e9"]).exit_code == 0


def test_bench_takes_inputs(tmp_path: Path) -> None:
    path = tmp_path / "small.tflite"
    path.write_bytes(small_models.one_partition())
    found = answer("bench", str(path), "--runs", "1", "--shape", "x=2x8x8x3")
    assert found["chosen_shapes"] == {"x": [2, 8, 8, 3]}
    assert "no engine 'tpu'" in sentence("bench", str(path), "--engines", "cpu,tpu")
    assert "no input 'z'" in sentence("bench", str(path), "--shape", "z=1")
    assert "adapter" in sentence("bench", str(path), "--adapter", "no such adapter")


def test_profile_covers_every_layer(model: str) -> None:
    """Each convolution but the last (a product of one row) has its own launch; a launch may also
    perform the transpose of a neighbour."""
    found = answer("profile", model, "--runs", "2")
    dense = [one for one in found["launches"] if one["kernel"] in ("conv", "depthwise")]
    assert len(dense) == 27
    assert all(one["milliseconds"] > 0 for one in dense)
    assert found["total_ms"] == pytest.approx(sum(o["milliseconds"] for o in found["launches"]))
    served = {name for one in dense for name in one["nodes"]}
    assert len([name for name in served if "CONV" in name.upper()]) == 27
    text = CliRunner().invoke(main, ["profile", model, "--runs", "1"]).output
    assert "depthwise" in text and "ms on the device in" in text


def test_a_launch_names_its_own_nodes(model: str) -> None:
    """Each layer is one launch: neighbours whose layout change it includes are not named."""
    found = answer("profile", model, "--runs", "1")
    dense = [one for one in found["launches"] if one["kernel"] in ("conv", "depthwise")]
    for one in dense:
        assert sum("CONV" in name.upper() for name in one["nodes"]) == 1, one
    named = [name for one in found["launches"] for name in one["nodes"]]
    assert len(named) == len(set(named))


@pytest.mark.parametrize("kind", ["tflite", "onnx"])
def test_partitions_have_the_same_numbers_everywhere(kind: str, tmp_path: Path) -> None:
    """Numbers start at 1 in the order of execution, however many partitions the process had
    before."""
    if kind == "tflite":
        content, chosen = small_models.two_partitions(), {}
    else:
        if reason := onnx.missing():
            pytest.skip(reason)
        chance = np.random.default_rng(3)
        weights = chance.normal(size=(4, 4)).astype(np.float32)
        nodes = [
            onnx_models.node("MatMul", ["x", "w"], ["a"]),
            onnx_models.node("Relu", ["a"], ["b"]),
            onnx_models.node("MatMul", ["b", "w"], ["c"]),
        ]
        shapes = {"x": (4, 4)}, {"c": (4, 4)}, {"w": weights}
        content, chosen = onnx_models.model(nodes, *shapes), {"exclude": "Relu"}
    path, given = tmp_path / f"two.{kind}", {**chosen, "force": "1"}
    path.write_bytes(content)
    words = [word for pair in given.items() for word in ("-o", "=".join(pair))]
    for _ in range(2):
        checked = answer("check", str(path), *words)["report"]["partitions"]
        profiled = answer("profile", str(path), "--runs", "1", *words)["launches"]
        assert [one["number"] for one in checked] == [1, 2]
        assert sorted({one["partition"] for one in profiled}) == [1, 2]
        for partition in checked:
            nodes = {str(node) for node in partition["nodes"]}
            mine = [one for one in profiled if one["partition"] == partition["number"]]
            assert {name.split()[1] for one in mine for name in one["nodes"]} <= nodes
        assert "key" not in checked[0]
    shown = CliRunner().invoke(main, ["check", str(path), *words]).output
    assert "partition 1:" in shown and "partition 2:" in shown and "partition 3:" not in shown


def test_nothing_on_the_gpu_is_a_sentence(model: str) -> None:
    named = "CONV_2D" if model.endswith("tflite") else "Conv"
    everything = ["Conv", "Clip", "GlobalAveragePool", "Flatten", "Softmax", "Gemm", "MatMul"]
    everything += ["CONV_2D", "DEPTHWISE_CONV_2D", "AVERAGE_POOL_2D", "RESHAPE", "SOFTMAX"]
    assert named in everything
    for command in ("bench", "profile"):
        assert "tflgpu check" in sentence(command, model, "-o", f"exclude={','.join(everything)}")


def test_an_adapter_without_timestamps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A profile is a sentence then; bench knows all but the time of the kernels. It tells the parts
    of the median inference, not of a slow one, of one before, or of their mean."""

    @contextmanager
    def without(ends_only: bool = False) -> Iterator[list[Run]]:
        starts = {1: (-90, 10, 210, 1010), 2: (1080,)}
        yield [Run(number, at, at + 10, at + 40, at + 60, (), ("conv: first",))
               for number, places in starts.items() for at in places]  # fmt: skip

    path = tmp_path / "small.tflite"
    path.write_bytes(small_models.two_partitions())
    for command in ("bench", "profile"):
        monkeypatch.setattr(f"tflgpu_plugin.cli.{command}.recorded", without)
    assert "timestamps" in sentence("profile", str(path))
    clock = cycle([0, 100, 200, 500, 1000, 1200])
    monkeypatch.setattr("tflgpu_plugin.cli.bench.now", lambda: next(clock))
    words = ["bench", str(path), "--runs", "3", "--engines", "gpu", "-o", "force=1"]
    (found,) = answer(*words)["timings"]
    parts = {"upload_ms": 2e-5, "waiting_ms": 6e-5, "kernels_ms": None, "download_ms": 4e-5}
    assert found["parts"] == pytest.approx(parts | {"inference_ms": 2e-4, "host_ms": 8e-5})
    assert found["partitions"] == 2
    shown = CliRunner().invoke(main, words).stdout.splitlines()
    assert shown[-1].split() == ["gpu", "2", "0.00", "0.00", "0.00", "-", "0.00", "0.00"]


def test_runs_that_fell_back_have_no_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def none(ends_only: bool = False) -> Iterator[list[Run]]:
        yield []

    def with_host_runs(self: Report) -> int:
        return 4

    path = tmp_path / "small.tflite"
    path.write_bytes(small_models.two_partitions())
    words = ["bench", str(path), "--runs", "3", "-o", "force=1"]
    for command in ("bench", "profile"):
        monkeypatch.setattr(f"tflgpu_plugin.cli.{command}.recorded", none)
    monkeypatch.setattr(Report, "host_runs", property(with_host_runs))
    cpu, gpu = answer(*words)["timings"]
    assert (gpu["parts"], gpu["host_runs"], cpu["host_runs"]) == (None, 4, 0)
    shown = CliRunner().invoke(main, words).stdout
    assert "gpu: the host's own kernels did all runs" in shown and "(its kernels)" not in shown
    assert "the host's own kernels did all of it" in sentence("profile", str(path))
    monkeypatch.setattr(Report, "runs", 0)
    assert "the host's own kernels did all of it" in sentence(*words)
    over = CliRunner().invoke(main, [*words, "--max-ms", "0"])
    assert over.exit_code == 2


def test_the_time_outside_is_a_median() -> None:
    """One slow inference does not change it."""
    runs = tuple(Run(1, at, at, at, at + 4, (), ()) for at in (1, 101, 201))
    found = profile.Recording(((0, 10), (100, 110), (200, 9000)), runs, {}, ())
    assert [*profile.outside_runs(found)] == [6, 6, 8796]


def on_the_cpu(folder: Path) -> tuple[str, ...]:
    """Returns the words for a model of two products with a node on the CPU between them."""
    nodes = [
        onnx_models.node("MatMul", ["x", "w"], ["a"], name="first"),
        onnx_models.node("Relu", ["a"], ["b"], name="between"),
        onnx_models.node("MatMul", ["b", "w"], ["c"], name="last"),
    ]
    weights = {"w": np.linspace(-1, 1, 16).astype(np.float32).reshape(4, 4)}
    path = folder / "between.onnx"
    path.write_bytes(onnx_models.model(nodes, {"x": (4, 4)}, {"c": (4, 4)}, weights))
    return (str(path), "--runs", "3", "-o", "force=1", "-o", "exclude=Relu")


@needs_onnx
def test_profile_lists_the_nodes_on_the_cpu(tmp_path: Path) -> None:
    words = on_the_cpu(tmp_path)
    found = answer("profile", *words)
    assert [one["names"] for one in found["launches"]] == [["first"], ["last"]]
    (between,) = found["cpu_nodes"]
    assert (between["operator"], between["name"]) == ("Relu", "between")
    assert 0 <= between["milliseconds"] < found["inference_ms"]
    assert 0 < found["outside_ms"]
    shown = CliRunner().invoke(main, ["profile", *words]).stdout
    assert "On the CPU:" in shown and "between" in shown and "% of limit" not in shown


@needs_onnx
def test_what_runs_several_times_counts_as_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loop runs its partition, and its nodes on the CPU, twice in each of three inferences."""

    @contextmanager
    def twice(ends_only: bool = False) -> Iterator[list[Run]]:
        times = (0, 1_000_000, 4_000_000)
        yield [Run(7, 0, 1, 2, 3, times, ("conv: a, b", "border"))] * 6

    def host_runs(_: Path) -> list[HostRun]:
        warm_up = HostRun(100, (HostNode("Relu", "r", 0, 50_000_000),))
        node = HostNode("Relu", "r", 1_000_000, 3_000_000)
        return [warm_up, *[HostRun(9_000_000, (node, node))] * 3]

    words = on_the_cpu(tmp_path)
    monkeypatch.setattr("tflgpu_plugin.cli.profile.recorded", twice)
    monkeypatch.setattr("tflgpu_plugin.harness.onnx.host_runs", host_runs)
    found = answer("profile", *words)
    conv, border = found["launches"]
    assert (conv["kernel"], conv["names"], conv["milliseconds"]) == ("conv", ["a", "b"], 2)
    assert (border["kernel"], border["milliseconds"]) == ("border", 6)
    assert found["total_ms"] == 8 and found["cpu_nodes"][0]["milliseconds"] == 4


@needs_onnx
def test_profile_tells_what_launches_reach(tmp_path: Path) -> None:
    """A product of two 4x4 matrices has 64 multiply-adds, and 3 matrices of 64 bytes."""
    words = (*on_the_cpu(tmp_path), "--peak-gflops", "2", "--peak-gbs", "1")
    for one in answer("profile", *words)["launches"]:
        nanoseconds = one["milliseconds"] * 1e6
        assert one["gflops"] == pytest.approx(128 / nanoseconds)
        assert one["gbs"] == pytest.approx(192 / nanoseconds)
        assert one["of_limit"] == pytest.approx(192 / nanoseconds)
    half = answer("profile", *words[:-2])["launches"][0]
    assert half["of_limit"] == pytest.approx(half["gflops"] / 2)
    assert "% of limit" in CliRunner().invoke(main, ["profile", *words]).stdout


def test_profile_sorts_and_cuts(model: str) -> None:
    words = ("profile", model, "--runs", "1", "--sort", "time", "--top", "3")
    lines = CliRunner().invoke(main, words).stdout.splitlines()
    rows = lines[2 : lines.index("")]
    times = [float(row.split()[1]) for row in rows]
    assert len(times) == 3 and times == sorted(times, reverse=True)


@needs_onnx
def test_a_trace_has_lanes_and_names(tmp_path: Path) -> None:
    """The trace event format: complete events (X) with microseconds, and names of lanes (M)."""
    path = tmp_path / "trace.json"
    answer("profile", *on_the_cpu(tmp_path), "--trace", str(path))
    events = json.loads(path.read_text())["traceEvents"]
    lanes = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert [*lanes.values()] == ["host", "host's own kernels", "upload", "device", "download"]
    assert {e["ph"] for e in events} == {"M", "X"} and len({e["pid"] for e in events}) == 1
    found: dict[str, list[Any]] = {name: [] for name in lanes.values()}
    for event in (e for e in events if e["ph"] == "X"):
        assert event["ts"] >= 0 and event["dur"] >= 0 and isinstance(event["args"], dict)
        found[lanes[event["tid"]]].append(event)
    assert [e["name"] for e in found["device"]] == ["first", "last"] * 3
    assert [e["name"] for e in found["host's own kernels"]] == ["between"] * 3
    assert [e["name"] for e in found["host"]][:3] == ["inference 1", "inference 2", "inference 3"]
    assert sorted(e["name"] for e in found["host"])[3:] == ["partition 1"] * 3 + ["partition 2"] * 3
    assert len(found["upload"]) == len(found["download"]) == 6
    inferences, ends = found["host"][:3], [e["ts"] + e["dur"] for e in found["host"][:3]]
    for name in ("device", "host's own kernels"):
        each = len(found[name]) // 3
        for place, event in enumerate(found[name]):
            assert event["ts"] + event["dur"] <= ends[place // each] + 0.001
            if name != "device":  # the device may be late by the time of a timestamp
                assert event["ts"] >= inferences[place // each]["ts"] - 0.001


def test_bad_input_is_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "damaged.tflite"
    path.write_bytes(b"no model")
    whole = tmp_path / "small.tflite"
    whole.write_bytes(small_models.two_partitions())
    for command in ("bench", "profile"):
        assert "TFL3" in sentence(command, str(path))
        assert "speed" in sentence(command, str(whole), "-o", "speed=1")
