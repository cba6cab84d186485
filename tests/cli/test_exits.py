"""Tests exit statuses and messages of all commands, whatever goes wrong, including errors in
writing output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console

from tests.support import batches
from tflgpu_plugin.cache import folders
from tflgpu_plugin.cli import exits, listing, shared
from tflgpu_plugin.cli.commands import main
from tflgpu_plugin.demo import network, onnx_file
from tflgpu_plugin.harness import agreement, hosts
from tflgpu_plugin.runtime import adapter
from tflgpu_plugin.runtime.device import NoAdapter

TFLGPU = [sys.executable, "-m", "tflgpu_plugin.cli"]
WITHOUT_DRIVERS = {"VK_ICD_FILENAMES": "/none", "VK_DRIVER_FILES": "/none"}
needs_sh = pytest.mark.skipif(os.name != "posix", reason="redirections of a POSIX shell")


def shell(line: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a shell command in which $T stands for `tflgpu`; returns the finished process."""
    given = {"T": " ".join(TFLGPU), "PYTHONUNBUFFERED": "", **environment}
    words = ["bash", "-o", "pipefail", "-c", line]
    done = subprocess.run(words, env=os.environ | given, capture_output=True, text=True)
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr, done.stderr
    return done


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with a model for each host and an input."""
    folder, made = tmp_path_factory.mktemp("models"), network.build()
    (folder / "m.tflite").write_bytes(network.to_tflite(made))
    (folder / "m.onnx").write_bytes(onnx_file.to_onnx(made))
    batches.arrays(folder / "in", batches.values(1))
    return folder


@needs_sh
@pytest.mark.parametrize(
    ("command", "unbuffered"), [("ops", ""), ("ops", "1"), ("options --json", ""), ("--help", "1")]
)
def test_a_reader_that_goes_away(command: str, unbuffered: str) -> None:
    done = shell(f"$T {command} | head -1", PYTHONUNBUFFERED=unbuffered)
    assert (done.returncode, done.stderr) == (exits.FINE, "")
    assert len(done.stdout.splitlines()) == 1


@needs_sh
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
@pytest.mark.parametrize(
    ("command", "unbuffered"), [("ops", ""), ("ops", "1"), ("options --json", ""), ("--help", "1")]
)
def test_a_full_disk(command: str, unbuffered: str) -> None:
    done = shell(f"$T {command} > /dev/full", PYTHONUNBUFFERED=unbuffered)
    assert done.returncode == exits.UNUSABLE
    assert done.stderr == "Error: The output cannot be written (No space left on device).\n"
    assert shell("$T check /none 2> /dev/full").returncode == exits.UNUSABLE


@needs_sh
def test_closed_streams() -> None:
    assert shell("$T ops >&-").returncode == exits.FINE
    assert shell("$T check /none <&- >&- 2>&-").returncode == exits.UNUSABLE


@needs_sh
@pytest.mark.parametrize("name", ["AVERAGE_POOL_2D", "RESIZE_NEAREST_NEIGHBOR"])
def test_names_are_whole_when_piped(name: str) -> None:
    done = shell(f"$T ops | grep {name}", COLUMNS="40")
    assert done.returncode == 0 and done.stdout.startswith(name)
    assert done.stdout.rstrip().endswith(".")  # the last cell is whole, too


def test_names_of_tensors_are_whole_when_piped(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Any] = []
    monkeypatch.setattr(shared, "table", lambda head, rows: shown.extend(rows))
    name = "a/path/of/many/words/that/goes/on/and/on/BiasAdd"
    shared.show_agreements([agreement.Agreement(name, 0, 1, 1)])
    assert shown[0][0] == name


def test_names_are_whole_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    name, shown = "model/block_13_project/Relu6" * 2, []

    class Terminal(Console):
        def __init__(self, **more: Any) -> None:
            super().__init__(force_terminal=True, width=70, **more)

        def print(self, *objects: Any, **more: Any) -> None:
            with self.capture() as capture:
                super().print(*objects, **more)
            shown.append(capture.get())

    monkeypatch.setattr(shared, "Console", Terminal)
    shared.table(["name", "text"], [[name, "a few words " * 9]])
    assert name in shown[0]


COMMANDS = {
    "info": [], "check": ["{tflite}"], "kernels": ["{tflite}"], "bench": ["{tflite}"],
    "profile": ["{tflite}"], "demo": ["{tflite}"],
    "run": ["{tflite}", "{input}", "--out", "{out}"],
}  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("suffix", ["tflite", "onnx"])
def test_no_adapter_is_three(command: str, suffix: str, models: Path, tmp_path: Path) -> None:
    if suffix == "tflite" and not hosts.installed():
        pytest.skip("no TFLite host is installed")
    if suffix == "onnx" and not find_spec("onnxruntime"):
        pytest.skip("onnxruntime is not installed")
    places = {"tflite": models / f"m.{suffix}", "input": models / "in", "out": tmp_path / "out"}
    words = [word.format(**places) for word in COMMANDS[command]]
    done = subprocess.run(
        [*TFLGPU, command, *words], env=os.environ | WITHOUT_DRIVERS, capture_output=True, text=True
    )
    assert done.returncode == exits.NO_ADAPTER, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr and "No usable GPU adapter" in done.stdout + done.stderr
    assert "VK_DRIVER_FILES is set" in " ".join((done.stdout + done.stderr).split())
    assert "Run `tflgpu info`" not in done.stdout + done.stderr


@pytest.mark.skipif(not find_spec("onnxruntime"), reason="onnxruntime is not installed")
def test_a_program_without_an_adapter_is_told_once(models: Path) -> None:
    code = f"import onnxruntime as o; o.InferenceSession({str(models / 'm.onnx')!r})"
    done = subprocess.run(
        [*TFLGPU, "exec", "--", "-c", code],
        env=os.environ | WITHOUT_DRIVERS, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0 and done.stderr.count("No usable GPU adapter") == 1
    assert "WARNING: tflgpu: a session runs without the GPU. No usable GPU adapter" in done.stderr


@pytest.mark.parametrize("command", ["check", "kernels", "profile"])
def test_an_adapter_is_chosen_by_device_id_too(
    command: str, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A `device_id` without an adapter is refused."""
    if not hosts.installed():
        pytest.skip("no TFLite host is installed")
    asked: list[Any] = []

    def select(wanted: Any = None) -> None:
        asked.append(wanted)
        raise NoAdapter("There is none.")

    monkeypatch.setattr(adapter, "select", select)
    for option in ("device_id=7", "adapter=7"):
        result = CliRunner().invoke(main, [command, str(models / "m.tflite"), "-o", option])
        assert "There is none." in result.stderr, result.output
    assert asked == ["7", "7"]


class EPFail(Exception):
    """Is an exception like those of onnxruntime, whose classes only share their module."""


EPFail.__module__ = "onnxruntime.capi.onnxruntime_pybind11_state"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (MemoryError(), "There is not enough memory"),
        (EPFail("[ONNXRuntimeError] : 11 : EP_FAIL"), "Error: [ONNXRuntimeError] : 11 : EP_FAIL"),
        (OSError(28, "No space left on device", "x"), "Error: x: No space left on device."),
        (ImportError("no numpy"), "Error: no numpy"),
        (RuntimeError(), "Error: RuntimeError"),
        (
            KeyError("x"),
            "This is a defect of tflgpu-plugin (KeyError: 'x'). Please report it with the file of ",
        ),
    ],
)
@pytest.mark.parametrize("command", ["check", "bench", "profile", "kernels", "demo", "run", "info"])
def test_whatever_is_raised_is_a_sentence(
    command: str, error: Exception, text: str, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    homes = {
        "check": "cli.check.check", "bench": "cli.bench.bench", "kernels": "cli.kernels.planned",
        "profile": "cli.profile.profiled", "demo": "demo.run", "run": "batch.run.run",
        "info": "cli.doctor.examine",
    }  # fmt: skip
    monkeypatch.setattr(f"tflgpu_plugin.{homes[command]}", fail)
    monkeypatch.delenv("TFLGPU_DEBUG", raising=False)
    words = {"info": [], "demo": [], "run": ["m", "in", "--out", "out"]}.get(command, ["m"])
    monkeypatch.chdir(models)
    words = [str(models / "m.tflite") if word == "m" else word for word in words]
    result = CliRunner().invoke(main, [command, *words])
    assert result.exit_code == exits.UNUSABLE, result.output
    assert text in result.stderr and "Traceback" not in result.output


@pytest.mark.adapter
@pytest.mark.parametrize("name", ["m.tflite", "m.onnx"])
@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("speed=1", "Error: There is no option 'speed'."),
        ("device_id=77", "Error: No adapter matches '77'. This machine has adapter 0: "),
    ],
)
def test_bad_options_are_one_sentence(name: str, option: str, text: str, models: Path) -> None:
    """The text that the host adds in front is removed."""
    if name == "m.onnx" and not find_spec("onnxruntime"):
        pytest.skip("onnxruntime is not installed")
    result = CliRunner().invoke(main, ["check", str(models / name), "-o", option])
    assert result.exit_code == exits.UNUSABLE and result.stderr.startswith(text), result.output


def test_debugging_shows_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise KeyError("x")

    monkeypatch.setattr("tflgpu_plugin.cli.doctor.examine", fail)
    monkeypatch.setenv("TFLGPU_DEBUG", "1")
    assert isinstance(CliRunner().invoke(main, ["info"]).exception, KeyError)


def test_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tflgpu_plugin.cli.doctor.examine", interrupt)
    assert CliRunner().invoke(main, ["info"]).exit_code == exits.INTERRUPTED


@pytest.mark.parametrize("package", ["click", "rich", "numpy"])
def test_an_interrupt_while_packages_are_imported(package: str, tmp_path: Path) -> None:
    (tmp_path / f"{package}.py").write_text("raise KeyboardInterrupt")
    done = subprocess.run([*TFLGPU, "info"], env=os.environ | {"PYTHONPATH": str(tmp_path)},
                          capture_output=True, text=True)  # fmt: skip
    assert (done.returncode, done.stderr) == (exits.INTERRUPTED, "Interrupted.\n")


def test_an_interrupt_at_a_question(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("click.termui.visible_prompt_func", interrupt)
    with pytest.raises(KeyboardInterrupt):
        listing.confirmed("Delete?", True)


@pytest.mark.parametrize("command", ["ops", "options"])
def test_a_log_level_that_does_not_exist(command: str) -> None:
    done = subprocess.run([*TFLGPU, command], env=os.environ | {"TFLGPU_LOG": "loud"},
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0 and done.stderr.count("TFLGPU_LOG is 'loud'. It takes: debug,") == 1


@pytest.mark.adapter
@pytest.mark.parametrize("command", ["check", "compare"])
def test_an_onnx_file_that_is_cut_short(command: str, models: Path, tmp_path: Path) -> None:
    whole = (models / "m.onnx").read_bytes()
    for content in (b"", whole[: len(whole) // 2]):
        (tmp_path / "m.onnx").write_bytes(content)
        done = CliRunner().invoke(main, [command, str(tmp_path / "m.onnx")])
        assert done.exit_code == exits.UNUSABLE and "damaged or cut short" in done.stderr


@pytest.mark.parametrize(("value", "told"), [("0", 0), ("off", 0), ("", 0), ("1", 0), ("abc", 1)])
def test_a_switch_in_the_environment(value: str, told: int) -> None:
    done = subprocess.run([*TFLGPU, "options"], env=os.environ | {"TFLGPU_DEBUG": value},
                          capture_output=True, text=True)  # fmt: skip
    told_of = "TFLGPU_DEBUG is 'abc', which has no effect. It takes: 1, true, yes, on, 2, 0, "
    assert done.returncode == 0 and done.stderr.count(told_of) == told
    assert told or not done.stderr


def test_defects_have_tracebacks_only_where_they_are_asked_for(tmp_path: Path) -> None:
    (tmp_path / "numpy").mkdir()
    (tmp_path / "numpy" / "__init__.py").write_text("raise AttributeError('It is broken.')\n")
    for value, traceback in (("0", False), ("No", False), ("1", True), ("TRUE", True)):
        given = {"TFLGPU_DEBUG": value, "PYTHONPATH": str(tmp_path)}
        done = subprocess.run([*TFLGPU, "kernels", __file__], env=os.environ | given,
                              capture_output=True, text=True)  # fmt: skip
        assert ("Traceback" in done.stderr) == traceback, (value, done.stderr)


@pytest.mark.adapter
@pytest.mark.parametrize("command", ["check", "kernels", "info"])
def test_a_switch_is_told_of_also_where_a_command_is_silent(command: str, models: Path) -> None:
    words = [command] if command == "info" else [command, str(models / "m.onnx")]
    done = subprocess.run([*TFLGPU, *words], env=os.environ | {"TFLGPU_NO_CACHE": "maybe"},
                          capture_output=True, text=True)  # fmt: skip
    assert done.stderr.count("TFLGPU_NO_CACHE is 'maybe', which has no effect.") == 1


@pytest.mark.parametrize(
    ("value", "kept"), [("0", True), ("false", True), ("maybe", True), ("1", False), ("YES", False)]
)
def test_a_cache_that_is_switched_off(
    value: str, kept: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(folders, "home", lambda: tmp_path / "tflgpu")
    monkeypatch.setenv("TFLGPU_NO_CACHE", value)
    assert (folders.cache("kernels") is not None) == kept


BROKEN = [
    ("numpy", "ImportError", ["check", "m.tflite"], "Error: It is broken.\n"),
    ("numpy", "ImportError", ["info"], "Error: It is broken.\n"),
    ("numpy", "AttributeError", ["run", "m.onnx", "in", "--out", "out"],
     "Error: This is a defect of tflgpu-plugin (AttributeError: It is broken.)."),
    ("onnxruntime", "ImportError", ["check", "m.onnx"],
     "Error: onnxruntime cannot be imported (ImportError: It is broken.). Reinstall it.\n"),
    ("onnxruntime", "AttributeError", ["bench", "m.onnx"],
     "Error: onnxruntime cannot be imported (AttributeError: It is broken.). Reinstall it.\n"),
    ("onnxruntime", "ModuleNotFoundError", ["compare", "m.onnx"],
     "Error: onnxruntime is not installed: pip install "),
    ("tflite_runtime", "AttributeError", ["check", "m.tflite", "--host", "tflite-runtime"],
     "Error: tflite_runtime.interpreter cannot be imported (AttributeError: It is broken.). "
     "Reinstall its package.\n"),
]  # fmt: skip


@pytest.mark.parametrize(("package", "kind", "words", "sentence"), BROKEN)
def test_a_broken_package_is_a_sentence(
    package: str, kind: str, words: list[str], sentence: str, models: Path, tmp_path: Path
) -> None:
    if not find_spec(package):
        pytest.skip(f"{package} is not installed")
    (tmp_path / package).mkdir()
    (tmp_path / package / "__init__.py").write_text(f"raise {kind}('It is broken.')")
    given = {"PYTHONPATH": str(tmp_path), "TFLGPU_DEBUG": ""}
    done = subprocess.run([*TFLGPU, *words], env=os.environ | given, cwd=models,
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == exits.UNUSABLE, done.stderr
    assert sentence in done.stderr and "Traceback" not in done.stderr


def test_help_needs_no_package() -> None:
    code = "import sys; from tflgpu_plugin.cli import commands; assert 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_numpy_2_beside_tflite_runtime(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another host is used if there is one; otherwise a message says what to install."""
    both = {"tflite-runtime": "tflite_runtime", "ai-edge-litert": "ai_edge_litert"}
    monkeypatch.setattr(hosts, "version", {"numpy": "2.3.1", "tflite-runtime": "2.14.0"}.get)
    monkeypatch.setattr(hosts, "installed_names", lambda: [*both])
    monkeypatch.setattr(hosts, "import_host", lambda name: name)
    assert hosts.host().name == "ai-edge-litert"
    with pytest.raises(hosts.NoHost, match="needs numpy 1, and numpy 2"):
        hosts.host("tflite-runtime")
    monkeypatch.setattr(hosts, "installed_names", lambda: ["tflite-runtime"])
    result = CliRunner().invoke(main, ["check", str(models / "m.tflite")])
    assert result.exit_code == exits.UNUSABLE and "pip install 'numpy<2'" in result.stderr
    found = CliRunner().invoke(main, ["info", "--json"])
    assert any("numpy<2" in sentence for sentence in json.loads(found.stdout)["advice"])
