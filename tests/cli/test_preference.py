"""Tests `tflgpu exec`, TFLGPU_PREFER and `preferred()`: models for which a program names no
provider or delegate run on the GPU; others are unchanged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import tflgpu_plugin
from tests.support import onnx_models, small_models
from tests.support.subprocesses import run_python
from tflgpu_plugin import preference
from tflgpu_plugin.cli.commands import main
from tflgpu_plugin.harness import hosts
from tflgpu_plugin.options import OptionError

OURS, CPU = "TflGpuExecutionProvider", "CPUExecutionProvider"
NODES = 2  # of the models here
needs_onnxruntime = pytest.mark.skipif(
    not find_spec("onnxruntime"), reason="onnxruntime is not installed"
)

SESSION = """
import sys, onnxruntime
session = onnxruntime.InferenceSession(sys.argv[-1])
print(session.get_providers()[0])
"""
INTERPRETER = """
import sys
from {module}.interpreter import Interpreter
interpreter = Interpreter(sys.argv[-1])
interpreter.allocate_tensors(); interpreter.invoke()
"""
WORKERS = """
import multiprocessing, sys

def work(path):
    import onnxruntime
    return onnxruntime.InferenceSession(path).get_providers()[0]

if __name__ == "__main__":
    with multiprocessing.get_context({method!r}).Pool(2) as pool:
        print(*pool.map(work, sys.argv[-1:] * 2))
        pool.close(); pool.join()
"""


@pytest.mark.skipif(os.name != "posix", reason="the program is another process")
@pytest.mark.parametrize(
    "statement",
    [
        "pass",
        "import onnxruntime",
        "raise SystemExit(3)",
        "import io, sys; sys.stderr = io.StringIO()",  # as in a notebook
    ],
)
def test_a_program_without_models_is_told_so(statement: str) -> None:
    status = 3 if "Exit" in statement else 0
    words = (sys.executable, "-m", "tflgpu_plugin.cli", "exec")
    done = subprocess.run([*words, "--", "-c", statement], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (status, "")
    assert (
        done.stderr.splitlines()[-1]
        == "tflgpu: this process put no session or interpreter on the GPU"
    )
    told = subprocess.run([*words, "--json", "--", "-c", statement], capture_output=True, text=True)
    assert json.loads(told.stderr.splitlines()[-1])["models"] == {}


@pytest.fixture(scope="module")
def onnx_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("model") / "m.onnx"
    path.write_bytes(onnx_models.add_relu())
    return str(path)


@pytest.fixture(scope="module")
def tflite_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("model") / "m.tflite"
    path.write_bytes(small_models.one_partition())
    return str(path)


def run(*words: str | Path, status: int = 0, **environment: str) -> tuple[str, str]:
    """Runs a program; returns its stdout, and the line of the plugin on stderr at its end."""
    done = subprocess.run(
        [*map(str, words)],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == status, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr, done.stderr
    ours = [line for line in done.stderr.splitlines() if "nodes on the GPU" in line]
    return done.stdout.strip(), "\n".join(ours)


EXEC = [sys.executable, "-m", "tflgpu_plugin.cli", "exec"]


@pytest.mark.adapter
@needs_onnxruntime
@pytest.mark.parametrize("way", ["file", "module", "script", "-c", "python -m"])
def test_a_program_of_every_kind(way: str, onnx_file: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(SESSION)
    script = tmp_path / "console-script"
    script.write_text(f"#!{sys.executable}\n{SESSION}")
    script.chmod(0o755)
    words: dict[str, list[str | Path]] = {
        "file": ["--", tmp_path / "program.py"], "module": ["--", "-m", "program"],
        "script": [script], "-c": ["--", "-c", SESSION], "python -m": ["python", "-m", "program"],
    }  # fmt: skip
    said, line = run(*EXEC, *words[way], onnx_file, PYTHONPATH=str(tmp_path))
    assert said == OURS
    assert line == f"tflgpu: 1 session, {NODES} of {NODES} nodes on the GPU"


@pytest.mark.adapter
@needs_onnxruntime
def test_the_variable_alone(onnx_file: str) -> None:
    command = sys.executable, "-c", SESSION, onnx_file
    assert run(*command, TFLGPU_PREFER="1")[0] == OURS
    for off in ("", "0"):
        assert run(*command, TFLGPU_PREFER=off) == (CPU, "")
    assert run(*command, TFLGPU_PREFER="1", TFLGPU_PREFER_SUMMARY="off") == (OURS, "")
    given = {"TFLGPU_PREFER": "1", "TFLGPU_PREFER_SUMMARY": "xml"}
    done = subprocess.run(command, env=os.environ | given, capture_output=True, text=True)
    told = "TFLGPU_PREFER_SUMMARY is 'xml', which has no effect. It takes: text, json, off."
    assert told in done.stderr and "tflgpu: 1 session" in done.stderr
    assert run(*command, TFLGPU_PREFER='{"exclude": "Add,Relu"}')[1].startswith(
        "tflgpu: 1 session, 0 of"
    )
    assert run(*command, TFLGPU_PREFER='{"adapter": "voodoo"}')[0] == CPU
    for wrong in ("{", '{"x": 1}', "[" * 9999):
        assert run(*command, TFLGPU_PREFER=wrong) == (CPU, "")


@pytest.mark.adapter
@needs_onnxruntime
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_worker_processes(method: str, onnx_file: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(WORKERS.format(method=method))
    said, lines = run(*EXEC, "--", tmp_path / "program.py", onnx_file)
    assert said == f"{OURS} {OURS}"
    assert "session" in lines


@pytest.mark.adapter
@pytest.mark.parametrize("name", hosts.installed())
def test_interpreters(name: str, tflite_file: str) -> None:
    code = INTERPRETER.format(module=hosts.PACKAGES[name])
    _, line = run(*EXEC, "--adapter", "0", "--", "-c", code, tflite_file)
    line, _, seconds = line.rpartition(" for ")
    assert line == f"tflgpu: 1 interpreter, {NODES} of {NODES} nodes on the GPU"
    assert float(seconds.removesuffix(" s")) >= 0


def test_what_cannot_be_started(tmp_path: Path) -> None:
    def refused(*words: str) -> str:
        result = CliRunner().invoke(main, ["exec", *words])
        assert result.exit_code == 2, result.output
        return result.stderr

    assert "There is no file or program 'no such'" in refused("no such")
    assert f"{str(tmp_path)!r} is a folder" in refused(str(tmp_path))
    (tmp_path / "text").write_text("no program")
    assert "is neither executable nor a Python file" in refused(str(tmp_path / "text"))
    assert "Did you mean 'adapter'" in refused("-o", "adaptor=x", "--", "python")
    assert "KEY=VALUE" in refused("-o", "x", "python")
    assert "Missing argument" in refused()


def test_its_status_and_arguments_are_the_programs() -> None:
    assert run(*EXEC, "--", "-c", "raise SystemExit(5)", status=5) == ("", "")
    print_arguments = "import sys; print(sys.argv[1:])"
    assert run(*EXEC, "python", "-c", print_arguments, "--json", "-o")[0] == "['--json', '-o']"


def test_programs_without_hosts_pay_nothing() -> None:
    code = "import sys; print({'tflgpu_plugin', 'ctypes', 'numpy', 'json'} & {*sys.modules})"
    assert run(sys.executable, "-c", code, TFLGPU_PREFER="1") == ("set()", "")


def session_of(given: Any = (), **named: Any) -> Any:
    """Returns a session made by a module other than this one, as programs make it."""
    import onnxruntime

    return onnxruntime.InferenceSession(onnx_models.add_relu(), *given, **named)


def settings(chosen: bool = False) -> Any:
    import onnxruntime

    made = onnxruntime.SessionOptions()
    if chosen:
        cpu = [d for d in onnxruntime.get_ep_devices() if d.ep_name == CPU]
        made.add_provider_for_devices(cpu, {})
    return made


@pytest.mark.adapter
@needs_onnxruntime
@pytest.mark.parametrize(
    "call",
    [
        lambda: session_of(),
        lambda: session_of(providers=None),
        lambda: session_of(providers=[]),
        lambda: session_of(providers=[CPU]),
        lambda: session_of(providers=(CPU,)),
        lambda: session_of(providers=[(CPU, {})]),
        lambda: session_of(providers=[CPU], provider_options=[{}]),
        lambda: session_of([None, [CPU], [{}]]),
        lambda: session_of([settings()]),
        lambda: session_of(sess_options=settings(), providers=[CPU]),
        lambda: session_of(enable_fallback=0),
    ],
)
def test_sessions_that_get_ours(call: Any) -> None:
    plain = call()
    with tflgpu_plugin.preferred() as preferred:
        session = call()
    assert session.get_providers() == [OURS, CPU] and plain.get_providers() == [CPU]
    tflgpu_plugin.assert_used(session)
    assert session._enable_fallback == plain._enable_fallback
    assert str(preferred) == f"1 session, {NODES} of {NODES} nodes on the GPU"
    feeds = {i.name: onnx_models.values(*i.shape) for i in session.get_inputs()}
    for ours, theirs in zip(session.run(None, feeds), plain.run(None, feeds), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.adapter
@needs_onnxruntime
@pytest.mark.parametrize(
    "listed",
    [
        lambda available: available,
        lambda available: [*available, OURS],
        lambda available: [name for name in available if name != OURS],
        lambda _: ["CUDAExecutionProvider", CPU],
        lambda _: [("CUDAExecutionProvider", {"device_id": 0}), CPU, OURS],
        lambda _: ["CUDAExecutionProvider"],
        lambda available: available[:1],  # Azure's, for operators of its own domain
    ],
)
@pytest.mark.filterwarnings("ignore:Specified provider:UserWarning")
def test_what_onnxruntime_has_and_lacks_is_no_choice(listed: Any) -> None:
    """Programs write `providers=onnxruntime.get_available_providers()`, which ends with ours after
    registration, and name CUDA's provider wherever they run."""
    import onnxruntime

    tflgpu_plugin.register()
    named = listed(onnxruntime.get_available_providers())
    plain = [name if isinstance(name, str) else name[0] for name in named]
    with tflgpu_plugin.preferred() as preferred:
        session = session_of(providers=named)
        both = session_of(providers=plain, provider_options=[{}] * len(named))
    assert preferred.left == preferred.failed == 0
    for one in (session, both):
        assert one.get_providers()[0] == OURS
        tflgpu_plugin.assert_used(one)


@pytest.mark.adapter
@needs_onnxruntime
@pytest.mark.parametrize(
    "given",
    [
        {"providers": [(OURS, {"exclude": "Add,Relu"}), CPU]},
        {"providers": [CPU, (OURS, {"exclude": "Add,Relu"})]},
        {"providers": [CPU, OURS], "provider_options": [{}, {"exclude": "Add,Relu"}]},
    ],
)
def test_sessions_that_name_this_provider_keep_their_options(given: dict[str, Any]) -> None:
    tflgpu_plugin.register()
    with tflgpu_plugin.preferred(exclude="Add") as preferred:
        session = session_of(**given)
    assert session.get_providers() == [OURS, CPU]
    assert preferred.left == 0 and preferred.counts()["session"].on_gpu == 0
    assert str(preferred).startswith("1 session, 0 of")


@pytest.mark.adapter
@needs_onnxruntime
@pytest.mark.parametrize(
    "call",
    [
        lambda: session_of(providers=["CUDAExecutionProvider", CPU]),
        lambda: session_of(providers=iter([CPU])),
        lambda: session_of([settings(chosen=True)]),
    ],
)
@pytest.mark.filterwarnings("ignore:Specified provider:UserWarning")
def test_sessions_that_name_others(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import onnxruntime

    tflgpu_plugin.register()
    cuda = ["CUDAExecutionProvider", *onnxruntime.get_available_providers()]
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: cuda)
    plain = call()
    with tflgpu_plugin.preferred() as preferred:
        session = call()
    assert session.get_providers() == plain.get_providers()
    assert (preferred.left, preferred.counts()) == (1, {})
    assert "1 with other providers or delegates left alone" in str(preferred)


@pytest.mark.adapter
@needs_onnxruntime
def test_subclasses_and_set_providers() -> None:
    import onnxruntime

    class Session(onnxruntime.InferenceSession):  # type: ignore[misc]
        def __init__(self, content: bytes, threads: int) -> None:
            chosen = settings()
            chosen.intra_op_num_threads = threads
            super().__init__(content, sess_options=chosen, providers=[CPU])

    with tflgpu_plugin.preferred() as preferred:
        session = Session(onnx_models.add_relu(), threads=1)
        assert session.get_providers()[0] == OURS
        session.set_providers([CPU])
        assert session.get_providers()[0] == OURS
        session.set_providers(session._fallback_providers)  # as the host falls back
        assert session.get_providers() == [CPU]
    assert preferred.counts()["session"].models == 1
    assert isinstance(session, onnxruntime.InferenceSession)


@pytest.mark.adapter
@needs_onnxruntime
def test_what_the_host_refuses_is_the_hosts_error(capfd: pytest.CaptureFixture[str]) -> None:
    import onnxruntime

    def errors() -> list[str]:
        found = []
        for given in ([], [5], ["/no/such/file"], [b"no model"]):
            with pytest.raises(Exception) as caught:
                onnxruntime.InferenceSession(*given, providers=[CPU])
            found.append(f"{type(caught.value).__name__}: {caught.value}")
        return found

    plain = errors()
    capfd.readouterr()
    with tflgpu_plugin.preferred() as preferred:
        assert errors() == plain
    assert preferred.failed == 0
    assert "EP Error" not in capfd.readouterr().out  # nothing in the program's output


@pytest.mark.adapter
@needs_onnxruntime
def test_a_session_that_cannot_be_ours_is_the_hosts(capfd: pytest.CaptureFixture[str]) -> None:
    with tflgpu_plugin.preferred(adapter="voodoo") as preferred:
        for _ in range(2):
            assert session_of().get_providers() == [CPU]
    assert (preferred.failed, preferred.counts()) == (2, {})
    out, err = capfd.readouterr()
    assert "EP Error" not in out and err.count("No adapter matches 'voodoo'") == 1


@pytest.mark.adapter
@needs_onnxruntime
def test_our_own_references_stay_on_the_cpu() -> None:
    """The hosts that this package uses for comparison and as fallback are unchanged."""
    from tflgpu_plugin.harness import onnx

    with tflgpu_plugin.preferred() as preferred:
        assert onnx.session(onnx.File(onnx_models.add_relu())).get_providers() == [CPU]
        assert not preferred.counts() and not preferred.left


@pytest.mark.adapter
@pytest.mark.parametrize("name", hosts.installed())
def test_interpreters_that_get_ours(name: str) -> None:
    host, content = hosts.host(name).module, small_models.one_partition()
    with tflgpu_plugin.preferred() as preferred:
        kept = [host.Interpreter(model_content=content), host.Interpreter(None, content, None)]
        kept += [host.Interpreter(model_content=content, experimental_delegates=[])]
        assert preferred.counts()["interpreter"].models == 3
        own = [host.load_delegate("tflgpu", {"exclude": "CONV_2D"})]
        kept += [host.Interpreter(model_content=content, experimental_delegates=own)]
        kept += [host.Interpreter(model_content=content, experimental_preserve_all_tensors=True)]
        with pytest.raises(ValueError):
            host.Interpreter(model_content=b"no model")
    assert (preferred.left, preferred.failed) == (2, 0)
    for interpreter in kept[:3]:
        interpreter.allocate_tensors()
        interpreter.invoke()
    assert str(preferred).startswith(f"3 interpreters, {3 * NODES} of {3 * NODES} nodes")
    del kept, interpreter
    host.Interpreter(model_content=content)  # outside: as ever
    assert preferred.counts()["interpreter"].models == 3  # also of those that are gone


@pytest.mark.adapter
@needs_onnxruntime
def test_the_innermost_counts_and_threads_see_it() -> None:
    with tflgpu_plugin.preferred() as outer:
        with tflgpu_plugin.preferred(exclude="Add,Relu") as inner:
            thread = threading.Thread(target=session_of)
            thread.start()
            thread.join()
        session_of()
    assert preference.current() is None
    assert inner.counts()["session"].on_gpu == 0 < outer.counts()["session"].on_gpu
    assert session_of().get_providers() == [CPU]
    with pytest.raises(OptionError), tflgpu_plugin.preferred(speed=11):
        pass


def test_a_reason_is_our_sentence_alone() -> None:
    """The text that hosts add in front is removed."""
    for text in (
        "Failed to load delegate from tflgpu\nIt is so.",
        "[ONNXRuntimeError] : 1 : FAIL : tflgpu: It is so.",
        "It is so.",
    ):
        assert preference.plugin_sentence(text) == "It is so."
    assert preference.plugin_sentence("Failed to load delegate from x\n") != ""


@pytest.mark.adapter
@needs_onnxruntime
def test_the_summary_as_json(onnx_file: str) -> None:
    done = subprocess.run(
        [*EXEC, "--json", "--", "-c", SESSION, onnx_file], capture_output=True, text=True
    )
    assert json.loads(done.stderr.splitlines()[-1]) == {
        "models": {"session": 1}, "nodes": NODES, "nodes_on_gpu": NODES, "seconds_on_gpu": 0.0,
        "left_alone": 0, "failed": 0,
    }  # fmt: skip


def _fetch_a_result_later(feeds: Any, counted: preference.Preference) -> None:
    """Runs with outputs on the GPU, and checks that waiting for these counts."""
    session = session_of()
    binding = session.io_binding()
    for name, value in feeds.items():
        binding.bind_cpu_input(name, value)
    binding.bind_output(session.get_outputs()[0].name, "gpu")
    session.run_with_iobinding(binding)
    run = counted.seconds()
    binding.copy_outputs_to_cpu()
    assert counted.seconds() > run


@pytest.mark.adapter
@needs_onnxruntime
def test_the_time_of_runs() -> None:
    """It counts runs of models that are gone, and none from before the context."""
    start = time.perf_counter()
    with tflgpu_plugin.preferred() as before:
        session = session_of()
        feeds = {i.name: onnx_models.values(*i.shape) for i in session.get_inputs()}
        session.run(None, feeds)
        _fetch_a_result_later(feeds, before)
        with tflgpu_plugin.preferred() as preferred:
            again = session_of()
            assert preferred.seconds() == 0 < before.seconds()
            for _ in range(2):
                again.run(None, feeds)
            (partition,) = tflgpu_plugin.report(again).partitions
            del again
            both = preferred.seconds()
    assert time.perf_counter() - start > before.seconds() > both > partition.milliseconds / 1e3 > 0
    assert str(preferred).endswith(f" of {NODES} nodes on the GPU for {both:.3f} s")
    assert preferred.as_json()["seconds_on_gpu"] == both


@pytest.mark.parametrize("text", ["5", "[1]", "true", "yes", '{"nothing": 1}'])
def test_a_variable_of_another_form_is_told(text: str) -> None:
    code = "import tflgpu_plugin.preference as p; print(p.current())"
    done = run_python(code, TFLGPU_PREFER=text)
    assert done.stdout.strip() == "None"
    assert done.stderr.count("TFLGPU_PREFER is 1, 0, or a JSON object of options.") == 1
    assert "Traceback" not in done.stderr
