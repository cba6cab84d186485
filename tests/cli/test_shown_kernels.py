"""Tests `tflgpu kernels`: the launches of a model by node, and their WGSL, in both hosts."""

from __future__ import annotations

import importlib.util
import json
import struct
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.support import small_models
from tflgpu_plugin import ops
from tflgpu_plugin.cli import exits
from tflgpu_plugin.cli.commands import main
from tflgpu_plugin.demo import network, onnx_file
from tflgpu_plugin.harness import hosts
from tflgpu_plugin.ir import Buffer, Dispatch, Pipeline, Plan
from tflgpu_plugin.runtime import adapter


def shown(*words: str) -> str:
    result = CliRunner().invoke(main, ["kernels", *words])
    assert result.exit_code == 0, result.output
    return result.output


def answer(*words: str) -> Any:
    result = CliRunner().invoke(main, ["kernels", *words, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def sentence(*words: str, status: int = exits.UNUSABLE) -> str:
    result = CliRunner().invoke(main, ["kernels", *words])
    assert result.exit_code == status and "Traceback" not in result.output, result.output
    return result.output


@pytest.fixture(scope="module", params=["tflite", "onnx"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Returns the path of the demo's network, MobileNet v1."""
    path = tmp_path_factory.mktemp("kernels") / f"m.{request.param}"
    if request.param == "tflite" and not hosts.installed():
        pytest.skip("no TFLite host is installed here")
    if request.param == "onnx" and not importlib.util.find_spec("onnxruntime"):
        pytest.skip("onnxruntime is not installed here")
    make = {"tflite": network.to_tflite, "onnx": onnx_file.to_onnx}[request.param]
    path.write_bytes(make(network.build()))
    return str(path)


@pytest.mark.adapter
def test_every_launch_names_its_nodes_and_a_kernel_that_is_shown(model: str) -> None:
    found = answer(model)
    (one,) = found["partitions"]
    named = {name for launch in one["launches"] for name in launch["nodes"]}
    gone = {"RESHAPE", "Flatten"}  # nothing moves
    whole = json.loads(CliRunner().invoke(main, ["check", model, "--json"]).stdout)
    for node in whole["report"]["nodes"]:
        assert f"{node['op']} {node['id']}" in named or node["op"] in gone
    assert {launch["kernel"] for launch in one["launches"]} == set(found["kernels"])
    for launch in one["launches"]:
        wgsl = found["kernels"][launch["kernel"]]["wgsl"]
        assert "@compute" in wgsl and min(launch["workgroups"]) >= 1
        for binding in launch["bindings"]:
            assert f"{binding['name']}_data: array<{binding['elements']}>" in wgsl
        assert len(launch["bindings"]) == wgsl.count("var<storage")
    forms = {launch["form"] for launch in one["launches"]}
    assert {"point", "softmax_rows"} <= forms and forms <= {
        *ops.form_names(),
        *ops.rows(),
        "io_layout",
    }
    first = one["launches"][0]
    assert first["parameters"]["in_h"] == first["parameters"]["in_w"] == 224
    assert [b["buffer"].split()[0] for b in first["bindings"][:2]] == ["input", "weights"]


@pytest.mark.adapter
def test_a_form_that_is_refused_is_in_no_launch(model: str) -> None:
    assert "form point, conv-" in shown(model)
    (one,) = answer(model, "-o", "without=point")["partitions"]
    assert "window" in {launch["form"] for launch in one["launches"]}
    assert "point" not in {launch["form"] for launch in one["launches"]}


@pytest.mark.adapter
def test_one_node_alone(model: str) -> None:
    operator = "SOFTMAX" if model.endswith("tflite") else "Softmax"
    found = answer(model, "--node", operator)
    ((launch,),) = [one["launches"] for one in found["partitions"]]
    (kernel,) = found["kernels"]
    assert kernel == launch["kernel"] and kernel.startswith("softmax")
    text = shown(model, "--node", operator, "--adapter", adapter.select().name)
    assert launch["nodes"][0] in text and "fn main(" in text and "conv" not in text
    assert answer(model, "--node", launch["nodes"][0].split()[1]) == found
    assert answer(model, "--node", launch["names"][-1]) == found
    assert "'dance'" in sentence(model, "--node", "dance")
    assert f"Did you mean '{operator}'?" in sentence(model, "--node", "sofmax")


@pytest.mark.adapter
def test_partitions_have_the_numbers_of_reports(tmp_path: Path) -> None:
    if not hosts.installed():
        pytest.skip("no TFLite host is installed here")
    path = tmp_path / "two.tflite"
    path.write_bytes(small_models.two_partitions())
    found = answer(str(path), "-o", "force=1")
    whole = json.loads(
        CliRunner().invoke(main, ["check", str(path), "-o", "force=1", "--json"]).stdout
    )
    for one, report in zip(found["partitions"], whole["report"]["partitions"], strict=True):
        assert one["number"] == report["number"]
        nodes = {int(name.split()[1]) for launch in one["launches"] for name in launch["nodes"]}
        assert nodes <= set(report["nodes"])


@pytest.mark.adapter
def test_a_model_that_stays_on_the_cpu_is_a_sentence(tmp_path: Path) -> None:
    if not hosts.installed():
        pytest.skip("no TFLite host is installed here")
    path = tmp_path / "two.tflite"
    path.write_bytes(small_models.two_partitions())
    operators = {
        node["op"] for node in json.loads(
            CliRunner().invoke(main, ["check", str(path), "--json"]).stdout
        )["report"]["nodes"]
    }  # fmt: skip
    assert "tflgpu check" in sentence(str(path), "-o", f"exclude={','.join(operators)}")


def test_without_an_adapter_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(b"")
    monkeypatch.setattr(adapter, "adapters", lambda: [])
    assert "mesa-vulkan-drivers" in sentence(str(path), status=exits.NO_ADAPTER)


def test_the_uniform_block_is_read_as_the_kernel_reads_it() -> None:
    from tflgpu_plugin.cli import kernels

    wgsl = (
        "struct Params { a: u32, b: i32, c: f32 }\n"
        "@group(0) @binding(0) var<uniform> p: Params;\n"
        "@group(0) @binding(1) var<storage, read_write> y_data: array<vec4f>;\n"
    )
    uniforms = bytes(256) + struct.pack("<Iif", 2**32 - 1, -7, 0.5).ljust(256, b"\0")
    buffers = (Buffer("uniforms", 512), Buffer("pool", 16))
    made = Dispatch("k", 0, (0, 1), 256, (1, 2, 3), (4,))
    plan = Plan((Pipeline("k", wgsl, "uw"),), buffers, (), uniforms, (made,), (), (), ())
    assert kernels.parameters_of(plan, made) == {"a": 2**32 - 1, "b": -7, "c": 0.5}
    assert [*kernels.bindings_of(plan, made)] == [
        kernels.Binding("y", "written", "pool 1", "vec4f")
    ]
