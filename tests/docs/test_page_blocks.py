"""Runs every block of code, commands or output on the pages, and compares the parts of its output
that do not vary: names and words, not numbers."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from conformance import host as hosts
from conformance.models import decoders, model_inputs
from tests.support.subprocesses import ROOT
from tflgpu_plugin.demo import network, onnx_file
from tflgpu_plugin.runtime import adapter

PAGES = ("README.md", *sorted(p.relative_to(ROOT).as_posix() for p in ROOT.glob("docs/**/*.md")))
BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)

# Commands that are not run here, and where they are.
ELSEWHERE = {
    "make ": "minutes to hours; `make demo` runs `tflgpu demo` only, whose output is compared here",
    "pip install ": "tests/docs/test_wheel.py runs the line itself",
    "tflgpu run ": "tests/docs/test_scale_out.py runs it, as the next three",
    "pictures/broken.png: ": "what it prints",
    "from pathlib import Path": "what reads that",
    "picture 0: class": "tests/batch/test_ray.py runs it, as the next two, on a cluster",
    "import ray\n": "a block of its own there",
    "import numpy as np\nfrom ray import serve": "likewise",
    "tflgpu exec ": "tests/cli/test_preference.py runs programs in it; docs/programs.md has these",
    "python -m conformance.evaluation ": "an hour; parts: tests/passes/test_evaluation.py",
    "FAIL a.onnx: ": "what it prints",
    "First wrong result in partition": "tests/cli/test_compare.py plants faults and reads this",
    "python -m benchmarks.compiled translated": "the step compiled of make test-rest does it, too",
    "git clone --depth 1 https://github.com/rustnn/": "it downloads; tests/suite/test_webnn.py",
    "python tools/drivers.py ": "it downloads; tests/suite/test_drivers.py has its parts",
}


@dataclass(frozen=True)
class Block:
    """A block of a page. `start` is its first line; `language` is empty for commands and
    outputs."""

    page: str
    language: str
    text: str

    @property
    def start(self) -> str:
        return self.text.strip().splitlines()[0]


def blocks(page: str) -> list[Block]:
    text = (ROOT / page).read_text(encoding="utf-8")
    found = []
    for indent, language, inside in BLOCK.findall(text):
        lines = [line.removeprefix(indent) for line in inside.splitlines()]
        found.append(Block(page, language, "\n".join(lines) + "\n"))
    return found


ALL = [block for page in PAGES for block in blocks(page)]


def block(start: str) -> str:
    """Returns the text of the only block that begins with this line."""
    (found,) = [one.text for one in ALL if one.text.startswith(start)]
    return found


# Blocks of Python in the order in which they run together, and output blocks, by their first words.
IN_LITERT = "import tflgpu_plugin\nfrom ai_edge_litert"  # its comment names tflite-runtime
EITHER_HOST = "import numpy as np\nimport tflgpu_plugin"
DELEGATES = {
    "tflite_runtime": IN_LITERT,
    "ai_edge_litert": IN_LITERT,
    "tensorflow": "import tensorflow",
}
PROVIDER = (
    "import onnxruntime\n",
    "tflgpu_plugin.assert_used(session)",
    "devices = ",
    "on_gpu = ",
    "bindings = ",
    "onnxruntime.ModelCompiler(",
)
COMPILED = "from ai_edge_litert.compiled_model import"
LOGGING = "import logging"
HOST = "import json\nimport numpy"
GENAI = "import onnxruntime_genai"
STAYS = "node 3 stays"
CHECK = "model.onnx in onnxruntime"
DEMO = "MobileNet v1 1.0 224, seeded"
OUTPUTS = (DEMO, "115 of 115 nodes on the GPU", CHECK, STAYS)
COMPARE = "python -m conformance.compare"
KERNELS = "tflgpu kernels "
INFO = "tflgpu info"
MEASURES = "tflgpu check "
CASES = "python -m conformance.try_case"


def is_known(one: Block) -> bool:
    names = (*DELEGATES.values(), EITHER_HOST, COMPILED, *PROVIDER, LOGGING, HOST, GENAI)
    names = names if one.language == "python" else ()
    return one.text.startswith(
        (*names, *OUTPUTS, COMPARE, INFO, KERNELS, MEASURES, CASES, *ELSEWHERE)
    )


def test_every_block_is_run_here_or_elsewhere() -> None:
    assert len(ALL) >= 15
    assert not [(one.page, one.start) for one in ALL if not is_known(one)]
    starts = (
        *DELEGATES.values(),
        EITHER_HOST,
        COMPILED,
        *PROVIDER,
        LOGGING,
        HOST,
        GENAI,
        *OUTPUTS,
        COMPARE,
        INFO,
        KERNELS,
        MEASURES,
        CASES,
        *ELSEWHERE,
    )
    for start in starts:
        assert any(one.text.startswith(start) for one in ALL), f"no page has {start!r} any more"


def plain(text: str) -> list[str]:
    """Returns the lines without the parts that vary: numbers, names of adapter and host, column
    widths."""
    for name in (adapter.select().name, "llvmpipe (LLVM 15.0.6, 256 bits)"):
        text = text.replace(name, "ADAPTER")
    text = re.sub(r"(tflite-runtime|ai-edge-litert) [\d.]+", "HOST", text)
    text = re.sub(r"\d[\d.,]*(e[+-]\d+)?", "#", text)
    return [" ".join(line.split()) for line in text.strip().splitlines()]


def ran(*words: str, folder: Path, most: int = 0, **more: str) -> str:
    """Returns the output of a command, whose exit status must be `most` at most."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | more
    done = subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    assert 0 <= done.returncode <= most, done.stdout + done.stderr
    return done.stdout


def tflgpu(*words: str, folder: Path) -> str:
    return ran(sys.executable, "-m", "tflgpu_plugin.cli", *words, folder=folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with the files that the pages name; model.onnx is YuNet where that is
    available."""
    made = tmp_path_factory.mktemp("user")
    (made / "model.tflite").write_bytes(network.to_tflite(network.build()))
    yunet = model_inputs.FOLDER / "yunet_n_320.onnx"
    if yunet.exists():
        shutil.copy(yunet, made / "model.onnx")
    elif importlib.util.find_spec("onnxruntime"):
        (made / "model.onnx").write_bytes(onnx_file.to_onnx(network.build()))
    return made


@pytest.mark.adapter
@pytest.mark.parametrize("package", DELEGATES)
def test_python_for_tflite(package: str, folder: Path) -> None:
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed here")
    fitting = [one.text for one in ALL if one.text.startswith(DELEGATES[package])]
    assert fitting
    used = "interpreter.allocate_tensors()\ninterpreter.invoke()\n"
    asked = "assert tflgpu_plugin.last_report().runs == 1\n"
    for code in fitting:
        code = code.replace("from ai_edge_litert", f"from {package}")
        ran(sys.executable, "-c", code + used + asked, folder=folder)


@pytest.mark.adapter
@pytest.mark.parametrize("package", ["tflite_runtime", "ai_edge_litert"])
def test_python_for_the_host_that_is_installed(package: str, folder: Path) -> None:
    """Only the installed host can be imported."""
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed here")
    other = {"tflite_runtime": "ai_edge_litert", "ai_edge_litert": "tflite_runtime"}[package]
    alone = f"import sys\nsys.modules[{other!r}] = None\n"
    asked = f"\nassert {package!r} in sys.modules and tflgpu_plugin.report(delegate).runs == 1\n"
    (code,) = (one.text for one in ALL if one.text.startswith(EITHER_HOST))
    said = ran(sys.executable, "-c", alone + code + asked, folder=folder)
    assert said.startswith("[[") and "31 of 31 nodes on the GPU" in said


@pytest.mark.adapter
def test_python_for_compiled_models(folder: Path) -> None:
    pytest.importorskip("ai_edge_litert")
    asked = "\nassert tflgpu_plugin.report(model).runs == 1\n"
    said = ran(sys.executable, "-c", block(COMPILED) + asked, folder=folder)
    assert said.startswith("[") and "31 of 31 nodes on the GPU" in said


@pytest.mark.adapter
def test_python_for_genai(folder: Path) -> None:
    for package in ("onnx", "onnxruntime_genai"):
        pytest.importorskip(package)
    size = decoders.Size(layers=1, width=64, heads=4)
    (folder / "genai").mkdir()
    (folder / "genai" / "model.onnx").write_bytes(decoders.grouped(size))
    settings = json.dumps(decoders.genai_settings(size))
    (folder / "genai" / "genai_config.json").write_text(settings)
    used = """
import numpy
generator = og.Generator(model, og.GeneratorParams(model))
generator.append_tokens(numpy.array([[1, 2, 3]], numpy.int32))
assert tflgpu_plugin.last_report().runs == 1
"""
    code = f"folder = 'genai'\n{block(GENAI)}{used}"
    ran(sys.executable, "-c", code, folder=folder)


@pytest.mark.adapter
def test_python_for_onnxruntime(folder: Path) -> None:
    if not (folder / "model.onnx").exists():
        pytest.skip("onnxruntime is not installed here")
    first, second, *others = (block(start) for start in PROVIDER)
    image = """
import numpy
(given,) = session.get_inputs()
image = numpy.zeros([n if isinstance(n, int) else 1 for n in given.shape], "f4")
frames, used = [image] * 5, []
use = used.append
"""
    second = second.replace('"input"', "given.name")
    last = """
compiled = onnxruntime.InferenceSession("model_ctx.onnx", options)
compiled.run(None, {given.name: image})
assert len(used) == 3
"""
    others = [other.replace('"input"', "given.name") for other in others]
    code = "\n".join([first, image, second, *others, last])
    said = ran(sys.executable, "-c", code, folder=folder)
    assert plain(said) == plain(block("115 of 115 nodes on the GPU"))


@pytest.mark.adapter
def test_tflgpu_check(folder: Path) -> None:
    if not (folder / "model.onnx").exists():
        pytest.skip("onnxruntime is not installed here")
    said = plain(tflgpu("check", "model.onnx", folder=folder))
    kind = adapter.select().kind
    shown = [plain(one.text.replace("software", kind)) for one in ALL if one.text.startswith(CHECK)]
    assert shown == [said, said]  # README.md and the page on ONNX Runtime


@pytest.mark.adapter
def test_tflgpu_kernels(folder: Path) -> None:
    if not (folder / "model.onnx").exists():
        pytest.skip("onnxruntime is not installed here")
    for line in block(KERNELS).splitlines():
        assert "@compute" in tflgpu(*line.split()[1:], folder=folder)


@pytest.mark.adapter
def test_tflgpu_info(folder: Path) -> None:
    assert f"adapter {adapter.select().index}" in tflgpu(*block(INFO).split()[1:], folder=folder)


@pytest.mark.adapter
def test_commands_that_measure(folder: Path) -> None:
    if not (folder / "model.onnx").exists():
        pytest.skip("onnxruntime is not installed here")
    commands = [line.partition("#")[0].split() for line in block(MEASURES).splitlines()]
    assert [words[1] for words in commands] == ["check", "bench", "profile"]
    for _, *words in commands:
        assert "model.onnx" in tflgpu(*words, folder=folder)


@pytest.mark.adapter
@pytest.mark.skipif(len(hosts.installed()) == 0, reason="cases run in a TFLite host")
def test_cases_of_a_family() -> None:
    for line in block(CASES).splitlines():
        assert ran(sys.executable, *line.split()[1:], folder=ROOT).strip()


@pytest.mark.adapter
@pytest.mark.skipif(
    len(hosts.installed()) == 0 or not importlib.util.find_spec("onnxruntime"),
    reason="the demo on the page is that of both hosts",
)
def test_tflgpu_demo(tmp_path: Path) -> None:
    assert plain(tflgpu("demo", "--runs", "1", folder=tmp_path)) == plain(block(DEMO))


def test_compare_of_reports(tmp_path: Path) -> None:
    reports = ROOT / "conformance" / "reports"
    line = block(COMPARE).strip()
    line = line.replace("A/", f"{reports}/lavapipe/").replace("B/", f"{reports}/swiftshader/")
    assert "lavapipe" in line and "swiftshader" in line
    printed = ran(sys.executable, *line.split()[1:], folder=ROOT, most=1)  # 1: outcomes differ
    assert printed.startswith("who was tested: ") and "\noutcomes: " in printed


@pytest.mark.adapter
def test_a_host_of_a_third_party(tmp_path: Path) -> None:
    (code,) = (one.text for one in ALL if one.text.startswith(HOST))
    assert ran(sys.executable, "-c", code, folder=tmp_path) == block(STAYS)


def test_logging_lines(tmp_path: Path) -> None:
    code = block(LOGGING) + "from tflgpu_plugin import log\nlog.say('tflgpu: hello', log.INFO)\n"
    ran(sys.executable, "-c", code, folder=tmp_path)
    (written,) = tmp_path.glob("*.log")
    assert "hello" in written.read_text()


def test_commands_that_are_not_run_are_there(tmp_path: Path) -> None:
    """Targets of make and options of the other commands exist."""
    goals = [goal for one in ALL for goal in re.findall(r"^make (\S+)", one.text, re.MULTILINE)]
    assert {"demo", "test"} <= {*goals}
    for goal in goals:
        assert ran("make", "-n", goal, folder=ROOT)
    assert "--report" in (ROOT / "conformance" / "conftest.py").read_text()
    assert "--run" in ran(sys.executable, "tools/drivers.py", "--help", folder=ROOT)
