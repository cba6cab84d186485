"""`tflgpu bench` and `tflgpu profile` on the demo's network, in both doors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests import small_models
from tflgpu_plugin import native
from tflgpu_plugin.cli import main
from tflgpu_plugin.demo import network, onnx

pytestmark = pytest.mark.adapter


@pytest.fixture(scope="module", params=["tflite", "onnx"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    if request.param == "onnx" and (reason := onnx.missing()):
        pytest.skip(reason)
    path = tmp_path_factory.mktemp("model") / f"mobilenet.{request.param}"
    write = network.to_tflite if request.param == "tflite" else onnx.to_onnx
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


def test_bench_times_both_engines(model: str) -> None:
    found = answer("bench", model, "--runs", "2")
    assert [row["engine"].split()[0] for row in found["timings"]] == ["CPU", "tflgpu"]
    for row in found["timings"]:
        assert 0 < row["best_ms"] <= row["median_ms"]
        assert row["first_ms"] > 0
    assert found["islands"] == 1
    assert 0 < found["difference"] < 1e-3  # two float32 programs; never the very same kernels


def test_profile_covers_every_layer(model: str) -> None:
    """A launch for each convolution but the last one, which is a product of one row; a launch may
    serve a neighbour's transpose, too."""
    found = answer("profile", model, "--runs", "2")
    dense = [one for one in found["launches"] if one["kernel"] in ("conv", "depthwise")]
    assert len(dense) == 27
    assert all(one["milliseconds"] > 0 for one in dense)
    assert found["total_ms"] == pytest.approx(sum(o["milliseconds"] for o in found["launches"]))
    served = {name for one in dense for name in one["nodes"]}
    assert len([name for name in served if "CONV" in name.upper()]) == 27
    text = CliRunner().invoke(main, ["profile", model, "--runs", "1"]).output
    assert "depthwise" in text and "ms on the device in" in text


def test_nothing_on_the_gpu_is_a_sentence(model: str) -> None:
    named = "CONV_2D" if model.endswith("tflite") else "Conv"
    everything = ["Conv", "Clip", "GlobalAveragePool", "Flatten", "Softmax", "Gemm", "MatMul"]
    everything += ["CONV_2D", "DEPTHWISE_CONV_2D", "AVERAGE_POOL_2D", "RESHAPE", "SOFTMAX"]
    assert named in everything
    for command in ("bench", "profile"):
        assert "tflgpu check" in sentence(command, model, "-o", f"exclude={','.join(everything)}")


def test_an_adapter_without_timestamps_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tflgpu_plugin.runtime.program import Instance

    def refuse(*_: Any) -> Any:
        raise native.NativeError("This adapter cannot take timestamps inside a pass.")

    path = tmp_path / "small.tflite"
    path.write_bytes(small_models.two_islands())
    monkeypatch.setattr(Instance, "stamped", refuse)
    assert "timestamps" in sentence("profile", str(path))


def test_bad_input_is_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "damaged.tflite"
    path.write_bytes(b"no model")
    whole = tmp_path / "small.tflite"
    whole.write_bytes(small_models.two_islands())
    for command in ("bench", "profile"):
        assert "TFL3" in sentence(command, str(path))
        assert "speed" in sentence(command, str(whole), "-o", "speed=1")
