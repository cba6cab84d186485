"""Commands run models in LiteRT's CompiledModel with --host litert."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from conformance import host as hosts
from tests.support import small_models
from tests.support.signatures import joined
from tflgpu_plugin.cli.commands import main
from tflgpu_plugin.harness import hosts as found

pytestmark = [
    pytest.mark.adapter,
    pytest.mark.skipif(
        "ai_edge_litert" not in hosts.installed(), reason="ai_edge_litert is not installed"
    ),
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.tflite"
    path.write_bytes(small_models.one_partition())
    return path


def told(*words: str) -> Any:
    result = CliRunner().invoke(main, [*words, "--host", "litert", "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.mark.parametrize("command", ["check", "compare", "bench", "profile"])
@pytest.mark.parametrize("shape", [(), ("--shape", "x=2x5x7x3")])
def test_a_command_runs_there(file: Path, command: str, shape: tuple[str, ...]) -> None:
    runs = ("--runs", "3") if command in ("bench", "profile") else ()
    answer = told(command, str(file), *runs, *shape)
    assert answer["host"] == f"litert {found.version('ai-edge-litert')}"


def test_other_files_and_names_are_refused(file: Path) -> None:
    onnx = file.with_suffix(".onnx")
    onnx.write_bytes(b"")
    result = CliRunner().invoke(main, ["check", str(onnx), "--host", "litert"])
    assert result.exit_code == 2 and "litert does not read ONNX files" in result.stderr


def test_an_interpreter_and_a_compiled_model_behave_alike() -> None:
    content = small_models.two_partitions()
    for shape in ((1, 6, 5, 3), (2, 4, 9, 3)):
        values = [np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)]
        results = []
        for name in ("litert", "ai_edge_litert"):
            host = found.host(name)
            made = host.made(content, experimental_delegates=[host.delegate({})])
            made.resize_tensor_input(made.get_input_details()[0]["index"], shape)
            host.allocate(made)
            results.append(found.invoked(made, values)[0])
        np.testing.assert_array_equal(*results)


def test_signatures_that_do_not_run_are_named(tmp_path: Path) -> None:
    path = tmp_path / "two.tflite"
    path.write_bytes(joined({name: small_models.one_partition() for name in ("first", "second")}))
    result = CliRunner().invoke(main, ["compare", str(path)])
    said = "has several signatures: first, second. Only its main graph runs here."
    assert result.exit_code == 0 and said in result.stderr


def test_a_form_that_is_spelled_wrongly_is_no_difference(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TFLGPU_WITHOUT", "winograd_rowz")
    for host in ("litert", "ai-edge-litert"):
        result = CliRunner().invoke(main, ["compare", str(file), "--host", host])
        assert result.exit_code == 2 and "Did you mean 'winograd_rows'?" in result.stderr


def test_a_host_that_is_spelled_wrongly() -> None:
    with pytest.raises(found.NoHost, match=r"installed are: .*Did you mean 'litert'\?"):
        found.host("litrt")
