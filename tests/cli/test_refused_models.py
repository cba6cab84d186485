"""Tests what commands say of ONNX models that they cannot read: compiled ones, and those with an
operator that nothing computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.support import onnx_models as m
from tflgpu_plugin.cli import exits
from tflgpu_plugin.cli.commands import main
from tflgpu_plugin.harness import onnx as host

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.adapter


def sentence(command: str, path: Path) -> str:
    result = CliRunner().invoke(main, [command, str(path)])
    assert result.exit_code == exits.UNUSABLE and "Traceback" not in result.output, result.output
    return result.output


@pytest.mark.parametrize("command", ["kernels", "compare", "bench", "profile"])
def test_a_compiled_model(command: str, tmp_path: Path) -> None:
    path = tmp_path / "compiled.onnx"
    entries = {"ep__context_enable": "1", "ep__context_file_path": str(path)}
    host.opened(m.add_relu(), host.settings(logs=host.FATAL, **entries), {"force": "1"})
    said = sentence(command, path)
    assert "compiled model" in said and "Use the model from which it was compiled." in said
    result = CliRunner().invoke(main, ["check", str(path)])
    assert "1 of 1 nodes run on the GPU" in result.output


def product(kind: int) -> bytes:
    """Returns a model with bfloat16 weights that are multiplied in this type."""
    helper, brain = onnx.helper, onnx.TensorProto.BFLOAT16

    def port(name: str, shape: Any) -> Any:
        return helper.make_tensor_value_info(name, 1, shape)

    nodes = [
        m.node("Cast", ["x"], ["a"], to=kind),
        m.node("Cast", ["w"], ["b"], to=kind),
        m.node("MatMul", ["a", "b"], ["c"]),
        m.node("Cast", ["c"], ["y"], to=1),
    ]
    weights = helper.make_tensor("w", brain, (4, 2), [0.5] * 8)
    graph = helper.make_graph(nodes, "g", [port("x", [3, 4])], [port("y", [3, 2])], [weights])
    opsets = [helper.make_opsetid("", 17)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())


@pytest.mark.parametrize("command", ["check", "compare"])
def test_products_in_bfloat16(command: str, tmp_path: Path) -> None:
    path = tmp_path / "product.onnx"
    path.write_bytes(product(onnx.TensorProto.BFLOAT16))
    said = sentence(command, path)
    assert "MatMul" in said and "bfloat16" in said and "with a Cast" in said
    assert "transformer_memcpy" not in said
    path.write_bytes(product(onnx.TensorProto.FLOAT))
    result = CliRunner().invoke(main, [command, str(path), "-o", "force=1"])
    assert result.exit_code == 0, result.output
