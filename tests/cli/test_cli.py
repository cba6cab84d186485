"""Tests the command `tflgpu`: output as text and as JSON, exit statuses, enable and disable."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from tflgpu_plugin import demo, options
from tflgpu_plugin.cli import doctor, exits, tables
from tflgpu_plugin.cli.commands import main
from tflgpu_plugin.demo import network
from tflgpu_plugin.harness import hosts
from tflgpu_plugin.harness.inputs import Given
from tflgpu_plugin.ir.calibration import Calibration
from tflgpu_plugin.providers.onnxruntime import registration
from tflgpu_plugin.providers.onnxruntime.ops import HOST_OPS as ONNX_OPS
from tflgpu_plugin.providers.tflite.ops import HOST_OPS
from tflgpu_plugin.runtime import adapter


@pytest.fixture(autouse=True)
def no_tracebacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disables tracebacks, as for users; the conformance suite in this process enables them."""
    monkeypatch.delenv("TFLGPU_DEBUG", raising=False)


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def answer(*arguments: str) -> Any:
    """Returns the JSON output of a command that succeeds."""
    result = invoke(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def refused(*arguments: str, status: int = exits.UNUSABLE) -> str:
    """Returns the message of a command that fails with this status and prints no traceback."""
    result = invoke(*arguments)
    assert result.exit_code == status, result.output
    assert "Traceback" not in result.output
    return result.output


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("model") / "mobilenet.tflite"
    path.write_bytes(network.to_tflite(network.build()))
    return str(path)


def commands(group: click.Group = main) -> Iterator[tuple[list[str], click.Command]]:
    """Yields each command with its words, those of groups included."""
    for name, command in group.commands.items():
        inner = commands(command) if isinstance(command, click.Group) else [([], command)]
        yield from (([name, *words], one) for words, one in inner)


def test_every_command_has_json_and_help() -> None:
    for words, command in commands():
        assert "--json" in invoke(*words, "--help").output, words
        assert command.help, words


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands(shell: str) -> None:
    """The page has the line that enables it in each shell."""
    given = {"_TFLGPU_COMPLETE": f"{shell}_complete", "COMP_WORDS": "tflgpu cache cl",
             "COMP_CWORD": "cl" if shell == "fish" else "2"}  # fmt: skip
    command = [sys.executable, "-m", "tflgpu_plugin.cli"]
    done = subprocess.run(command, env=os.environ | given, capture_output=True, text=True)
    assert "clear" in done.stdout and "info" not in done.stdout and done.stderr == ""
    page = (Path(__file__).resolve().parents[2] / "docs" / "commands.md").read_text()
    assert f"_TFLGPU_COMPLETE={shell}_source tflgpu" in page


def test_help_lists_whole_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    text = " ".join(invoke("--help").stdout.split())
    for words, command in commands():
        first = " ".join((command.help or "").split("\n\n")[0].split())
        if len(words) == 1:
            assert f" {words[0]} {first.partition('. ')[0].rstrip('.')}." in text
    assert " cache Show or delete the files" in text
    monkeypatch.setattr(main.commands["bench"], "hidden", True)
    assert " bench " not in invoke("--help").stdout


def test_commands_take_a_model_with_the_same_flags() -> None:
    found = {}
    for words, command in commands():
        flags = {flag for one in command.params if not getattr(one, "hidden", False)
                 for flag in one.opts}  # fmt: skip
        if "model" in flags:
            found[words[0]] = flags
            assert command.params[0].name == "model", words
            assert {"--host", "--option", "--json"} <= flags, words
    assert len(found) == 8
    needed = {"--adapter", "--input", "--shape", "-o"}
    lacking = {name: needed - flags for name, flags in found.items() if not needed <= flags}
    assert lacking == {"run": {"--input", "--shape"}}  # its inputs are arguments


def test_a_demo_of_one_model(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The argument stands for the former option --model."""
    requests = list[demo.Request]()

    def run(request: demo.Request) -> Any:
        requests.append(request)
        return SimpleNamespace(ok=True, as_json=dict)

    monkeypatch.setattr(demo, "run", run)
    flags = ("--adapter", "1", "-o", "force=1", "--shape", "x=1x2", "--host", "h", "--runs", "3")
    for words in ((model, "--seed", "7"), ("--model", model, "--seed", "7"), ()):
        answer("demo", *flags, *words)
    inputs = Given(None, 127.5, 127.5, 7, {}, {"x": (1, 2)})
    given = demo.Request(Path(model), inputs, None, "h", {"force": "1", "adapter": "1"}, 3)
    assert requests[:2] == [given, given] and requests[2].model is None
    assert "Name one model" in refused("demo", model, "--model", model)


def test_ops_has_every_form() -> None:
    listed = answer("ops")
    rows = {row["operator"]: row for row in listed if row["host"] == "tflite"}
    onnx = {row["operator"]: row for row in listed if row["host"] == "onnxruntime"}
    assert set(rows) == set(HOST_OPS) and len(listed) == len(rows) + len(onnx)
    assert onnx.keys() == {row.name for row in ONNX_OPS.values()}
    for name, row in rows.items():
        assert row["versions"] == list(HOST_OPS[name].versions)
        assert row["needs"].endswith("."), f"the function refuse of {row['op']} needs a docstring"
    text = invoke("ops").stdout
    starts = [line.split("  ")[0] for line in text.splitlines()]
    assert starts.index("TensorFlow Lite") < starts.index("CONV_2D") < starts.index("ONNX")
    assert {*rows, *onnx} < {*starts} and starts.index("ONNX") < starts.index("Conv")


def test_ops_by_name() -> None:
    """Case and underscores do not matter."""
    assert [row["operator"] for row in answer("ops", "averagepool2D")] == ["AVERAGE_POOL_2D"]
    found = [row["operator"] for row in answer("ops", "averagepool")]
    assert found[:2] == ["AVERAGE_POOL_2D", "AveragePool"]
    text = invoke("ops", "einsum").stdout
    assert text.startswith("ONNX\n") and "TensorFlow" not in text  # no empty table, no empty line
    assert "Did you mean 'AveragePool'?" in refused("ops", "Averagepol")
    assert "No operator has 'xyzzy' in its name.\n" in refused("ops", "xyzzy")


@pytest.mark.adapter
def test_ops_on_an_adapter(monkeypatch: pytest.MonkeyPatch) -> None:
    assert all(row["quirks"] == [] for row in answer("ops", "--adapter", "0"))
    monkeypatch.setattr(tables, "quirks", lambda op, target: ["It is wrong."])
    text = invoke("ops", "conv_2d", "--adapter", "0").stdout
    assert "\nRefused on " in text and "  CONV_2D: It is wrong.\n" in text
    assert "  com.microsoft:" not in text.partition("Refused on")[2]


def test_env_shows_values(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TFLGPU_WITHOUT", "TFLGPU_TEST_SITE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TFLGPU_LOG", "debug")
    monkeypatch.setenv("TFLGPU_MODELS", "/models")
    misspelt = "TFLGPU_" + "WITHUOT"
    monkeypatch.setenv(misspelt, "winograd")
    values = {row["name"]: row["value"] for row in answer("env")}
    assert (values["TFLGPU_LOG"], values["TFLGPU_WITHOUT"]) == ("debug", None)
    lines = {line.split(" ")[0]: line.split() for line in invoke("env").stdout.splitlines()}
    assert lines["TFLGPU_LOG"][1] == "debug" and lines["TFLGPU_WITHOUT"][1] == "-"
    assert lines["TFLGPU_MODELS"][1] == "/models"  # of tests, and set
    assert "TFLGPU_TEST_SITE" not in lines and "TFLGPU_TEST_SITE" in values
    assert misspelt not in values
    sentence = f"{misspelt} is set, but nothing reads it. Did you mean 'TFLGPU_WITHOUT'?"
    assert " ".join(lines[misspelt]) == sentence


def test_options_has_every_row() -> None:
    assert [row["option"] for row in answer("options")] == [row.name for row in options.TABLE]
    assert "capabilities" in invoke("options").output


def test_info_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "adapters", lambda: [])
    monkeypatch.setattr(hosts, "installed", lambda: {})
    result = invoke("info", "--json")
    assert result.exit_code == exits.NO_ADAPTER
    found = json.loads(result.stdout)
    assert not found["usable"]
    assert any("mesa-vulkan-drivers" in sentence for sentence in found["advice"])
    assert any("pip install" in sentence for sentence in found["advice"])
    assert invoke("info").exit_code == exits.NO_ADAPTER


@pytest.mark.parametrize("extra", ["tflite", "onnxruntime"])
def test_info_says_how_to_get_each_host(extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The advice can be copied to a shell: the brackets of an extra are not parsed as markup."""
    names = {"tflite": hosts.PACKAGES, "onnxruntime": {"onnxruntime": ""}}[extra]
    have = {"tflite-runtime": "2.14.0", "onnxruntime": "1.31.1"}
    have = {name: version for name, version in have.items() if name not in names}
    monkeypatch.setattr(hosts, "installed", lambda: {})
    monkeypatch.setattr(doctor, "other_hosts", lambda: have)
    assert f"Run: pip install 'tflgpu-plugin[{extra}]'\n" in invoke("info").stdout
    other = {"tflite": "onnxruntime", "onnxruntime": "tflite"}[extra]
    assert f"[{other}]" not in invoke("info").stdout


@pytest.mark.parametrize(
    ("version", "old"),
    [("1.23.2", True), ("1.24.3", True), ("1.24.4", False), ("1.100.0", False), ("unknown", False)],
)
def test_info_says_that_a_host_is_too_old(
    version: str, old: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ".".join(map(str, registration.OLDEST)) == doctor.OLDEST_ONNXRUNTIME
    monkeypatch.setattr(doctor, "other_hosts", lambda: {"onnxruntime": version})
    told = (
        f"onnxruntime {version} is older than 1.24.4, which the plugin needs. Run: pip install -U"
    )
    assert (told in invoke("info").stdout) == old


def test_names_are_printed_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "conv[0]/[bold]x[/nothing] :100: [link=x]"
    row = {"name": name, "kind": "other", "vendor": "v", "backend": "b", "driver": "d",
           "features": [name], "measured": asdict(Calibration(state=name))}  # fmt: skip
    found = doctor.Info({}, [row], {}, [name], [name])
    monkeypatch.setattr(doctor, "examine", lambda: found)
    assert invoke("info").stdout.count(name) == 5
    rows = [{"option": name, "values": name, "meaning": name}]
    monkeypatch.setattr(tables, "option_rows", lambda: rows)
    monkeypatch.setenv("COLUMNS", "200")
    assert invoke("options").stdout.count(name) == 3


def test_demo_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "adapters", lambda: [])
    assert "mesa-vulkan-drivers" in refused("demo", status=exits.NO_ADAPTER)


def test_bad_input_is_a_sentence(tmp_path: Path) -> None:
    text = tmp_path / "text.tflite"
    text.write_text("this is no model")
    assert "does not exist" in refused("check", str(tmp_path / "absent.tflite"))
    assert "KEY=VALUE" in refused("check", str(text), "-o", "exclude")
    assert "not installed" in refused("check", str(text), "--host", "caffe")
    assert "not a TFLite model" in refused("check", str(text))
    assert "No such command" in refused("dance")


def test_a_model_that_was_cut_short_is_a_sentence(model: str, tmp_path: Path) -> None:
    whole, cut = Path(model).read_bytes(), tmp_path / "cut.tflite"
    for share in (0.999, 0.5, 0.1, 0.001):
        cut.write_bytes(whole[: int(share * len(whole))])
        assert "damaged or cut short" in refused("check", str(cut))


def test_a_table_on_a_terminal_with_few_letters() -> None:
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "tflgpu_plugin.cli", "ops"]
    assert b"CONV_2D" in subprocess.run(command, env=environment, capture_output=True).stdout


@pytest.mark.adapter
def test_check_where_stderr_is_closed(model: str) -> None:
    command = [sys.executable, "-m", "tflgpu_plugin.cli", "check", model]
    done = subprocess.run(["sh", "-c", 'exec "$@" 2>&-', "sh", *command], capture_output=True)
    assert b"31 of 31 nodes" in done.stdout


@pytest.mark.adapter
def test_bad_input_for_the_device_is_a_sentence(model: str) -> None:
    assert "The options are: " in refused("check", model, "-o", "speed=11")
    assert "not a TFLite model" in refused("demo", __file__)
    assert "No adapter matches" in refused("demo", "--adapter", "voodoo")


@pytest.mark.adapter
def test_info_shows_the_adapter() -> None:
    found = answer("info")
    assert found["usable"]
    assert found["adapters"][0]["name"] in invoke("info").output


@pytest.mark.adapter
@pytest.mark.parametrize("name", hosts.installed())
def test_check_counts_nodes(model: str, name: str) -> None:
    found = answer("check", model, "--host", name, "-o", "exclude=SOFTMAX")
    assert found["report"]["totals"] == {"gpu": 30, "cpu": 1, "reverted": 0}
    (reason,) = found["reasons"]
    assert (reason["operator"], reason["refusal_code"]) == ("SOFTMAX", "option.excluded")
    codes = {node["refusal_code"] for node in found["report"]["nodes"]}
    assert codes == {None, "option.excluded"}
    assert found["report"]["weight_bytes"] > 16e6
    text = invoke("check", model, "-o", "exclude=SOFTMAX").output
    assert "30 of 31 nodes run on the GPU, in 1 partition" in text
    assert "SOFTMAX (1 node): " in text


@pytest.mark.adapter
def test_demo_prints_what_it_found(monkeypatch: pytest.MonkeyPatch) -> None:
    found = invoke("demo", "--runs", "1")
    assert found.exit_code == 0, found.output
    for text in ("block13", "31 of 31 on the GPU", "latency", "tensors agree"):
        assert text in found.output
    if importlib.util.find_spec("onnxruntime"):
        assert "58 of 58 on the GPU" in found.output and "the same WGSL" in found.output
    else:
        assert "ONNX Runtime is left out" in found.output
    assert found.stdout.startswith("MobileNet v1")
    monkeypatch.setattr(demo.Result, "ok", False)
    assert invoke("demo", "--runs", "1").exit_code == 1


@pytest.mark.parametrize("module", ["tflgpu_plugin", "tflgpu_plugin.cli"])
def test_the_command_as_a_module(module: str) -> None:
    done = subprocess.run([sys.executable, "-m", module, "-h"], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("Usage: tflgpu [OPTIONS]")


@pytest.mark.adapter
def test_check_tells_what_is_wrong_with_options(model: str) -> None:
    """Nothing else that the host and the plugin print meanwhile is shown."""
    words = ["-o", "exclude=Convv", "-o", "serialization_dir=/dev/null/x"]
    command = [sys.executable, "-m", "tflgpu_plugin.cli", "check", model, *words]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0
    lines = sorted(done.stderr.splitlines())
    assert len(lines) == 2, done.stderr
    assert lines[0].startswith("WARNING: tflgpu: the option exclude names 'Convv'")
    assert lines[1].startswith("tflgpu: nothing can be stored in /dev/null/x")


@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
def test_no_character_of_a_table_is_cut_on_a_terminal(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    piped = invoke("ops", "AveragePool").stdout
    monkeypatch.setenv("FORCE_COLOR", "1")  # makes it a terminal
    monkeypatch.setenv("COLUMNS", str(width))
    wrapped = re.sub("\x1b\\[[0-9;]*m", "", invoke("ops", "AveragePool").stdout)
    assert max(map(len, wrapped.splitlines())) <= width
    assert Counter("".join(wrapped.split())) == Counter("".join(piped.split()))
    names = [line.split()[0] for line in wrapped.splitlines() if line[:1].strip()]
    assert "AVERAGE_POOL_2D" in names
