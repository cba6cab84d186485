"""`tflgpu check --advice`: which layers cost what on a GPU, and no advice where none would help."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from conformance.models.tflite import Model
from tflgpu_plugin.cli.commands import main
from tflgpu_plugin.harness import hosts

pytestmark = [
    pytest.mark.adapter,
    pytest.mark.skipif(not hosts.installed(), reason="it is about a TFLite host"),
]
CONV = {"padding": 0, "strideW": 1, "strideH": 1}


def advised(path: Path, *words: str) -> list[dict[str, Any]]:
    command = ["check", str(path), "--advice", "-o", "force=1", *words, "--json"]
    found: list[dict[str, Any]] = json.loads(CliRunner().invoke(main, command).stdout)["advice"]
    return found


def written(folder: Path, given: int, made: int, reshaped: bool = False) -> Path:
    """Returns a model of a convolution, and an addition that reads the input, too."""
    model = Model()
    x = model.input("picture", (1, 16, 16, given))
    weights = model.constant(np.ones((made, 3, 3, given), np.float32))
    bias = model.constant(np.zeros(made, np.float32))
    y = model.op("CONV_2D", [x, weights, bias], "Conv2DOptions", CONV, shape=(1, 16, 16, made))
    if reshaped:
        axes = model.constant(np.array([0, 2, 3, 1], np.int32))
        y = model.op("TRANSPOSE", [y, axes], "TransposeOptions", {}, shape=(1, 16, made, 16))
    model.output(y, model.op("ADD", [x, x], "AddOptions", {}, shape=(1, 16, 16, given)))
    path = folder / f"{given}-{made}-{reshaped}.tflite"
    path.write_bytes(model.to_bytes())
    return path


def test_a_model_that_suits_gpus_needs_no_advice(tmp_path: Path) -> None:
    path = written(tmp_path, 4, 8)
    assert advised(path) == []
    shown = CliRunner().invoke(main, ["check", str(path), "--advice", "-o", "force=1"]).stdout
    assert "No advice" in shown
    plain = CliRunner().invoke(main, ["check", str(path), "-o", "force=1", "--json"]).stdout
    assert "advice" not in json.loads(plain)


def test_a_picture_of_three_channels_is_rearranged(tmp_path: Path) -> None:
    (found,) = advised(written(tmp_path, 3, 8))
    assert (found["kind"], found["layers"]) == ("input", ["picture"])
    assert (found["launches"], found["bytes"]) == (1, 16 * 16 * 3 * 4)
    assert "RGBA" in found["text"]


def test_other_channels_than_fours_cost_multiply_adds(tmp_path: Path) -> None:
    (found,) = advised(written(tmp_path, 4, 5))
    assert (found["kind"], found["layers"]) == ("channels", ["CONV_2D 0: 4 to 5"])
    of_the_layer, of_all = 3 * 3 * 4 * 5, 3 * 3 * 4 * 5 + 4  # for each pixel, with the addition
    assert found["wasted"] == pytest.approx(3 / 5 * of_the_layer / of_all, rel=0.03)


def test_what_only_moves_data_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, 4, 8, reshaped=True)
    (found,) = advised(path)
    assert (found["kind"], found["layers"]) == ("rearranging", ["TRANSPOSE 1"])
    assert (found["launches"], found["bytes"]) == (1, 2 * 16 * 16 * 8 * 4)
    shown = CliRunner().invoke(main, ["check", str(path), "--advice", "-o", "force=1"]).stdout
    assert "cost 1 launch and move 16.4 kB in each run (TRANSPOSE 1)" in shown
    assert advised(path, "-o", "exclude=CONV_2D,TRANSPOSE,ADD") == []


def test_advice_is_for_an_adapter_that_is_here(tmp_path: Path) -> None:
    words = ["check", str(written(tmp_path, 4, 8)), "--advice", "--assume-limits", "default"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2 and "not assumed ones" in done.stderr
