"""Objects from before a fork, used in the child, give an answer or our sentence; they never hang or
fail silently. Each row of the table in docs/robustness.md is a test here, for every host."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.support import programs

PAGE = Path(__file__).parents[2] / "docs/robustness.md"
HOSTS = programs.hosts()
ADAPTER = pytest.mark.adapter
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks on this system")
ORT = ["onnxruntime"]
TFLITE = [host for host in HOSTS if host not in ORT]

# `answer` and `sentence` fork, do the work in the child and tell how it must end.
CHILD = """
def forked(work):
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(150)                  # ends one that hangs
        try: said = "answer: " + str(work())
        except BaseException as error: said = f"{type(error).__name__}: {error}"
        os.write(theirs, said.encode()[:60000])
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.close(theirs)
    said = os.fdopen(ours, "rb").read().decode()
    assert status == 0, (status, said)
    return said

def answer(work):
    said = forked(work)
    assert said.startswith("answer: "), said
    return said

def sentence(work, kind="\\\\w+"):
    import re
    said = forked(work)
    assert re.match(kind, said) and "cannot be shared across a fork" in said, said
    return said

def first(): check(made(), SIZES[:2])
"""

# By the row's first column: the hosts, and what happens.
ROWS: dict[str, tuple[list[str], str]] = {
    "the package is imported": (HOSTS, "answer(first); answer(first); first()"),
    "the adapters are known (`register()`, `get_library_path()`)": (
        HOSTS,
        """
tflgpu_plugin.get_library_path(); from tflgpu_plugin import providers; providers.adapters()
if "onnxruntime" in sys.modules: tflgpu_plugin.register()
answer(first); answer(first); first()
""",
    ),
    "a device is open, a delegate is loaded again": (
        TFLITE,
        """
first()
sentence(load, "ValueError"); sentence(tflgpu_plugin.load_delegate, "RuntimeError")
first()
""",
    ),
    "a device is open, a session is created again": (
        ORT,
        """
first()
assert "CPUExecutionProvider" in answer(lambda: made(load=list).get_providers()[0])
def alone():
    return onnxruntime.InferenceSession(MODEL, providers=[EP], enable_fallback=0)
sentence(alone, "RuntimeError"); sentence(tflgpu_plugin.register, "RuntimeError")
sentence(lambda: tflgpu_plugin.assert_used(made(load=list)), "AssertionError")
first()
""",
    ),
    "a delegate is loaded": (
        TFLITE,
        """
delegate = load()
sentence(lambda: made(load=lambda: delegate), "RuntimeError|ValueError")
check(made(load=lambda: delegate))
""",
    ),
    "an interpreter or a session is made": (
        HOSTS,
        "one = made(); sentence(lambda: run(one)); check(one)",
    ),
    "it has run, and runs again": (
        HOSTS,
        """
one = made(); check(one); time.sleep(1)    # the host's threads have gone to sleep
assert not sentence(lambda: run(one)).startswith("EPFail")
sentence(lambda: (suppressed(lambda: run(one)), run(one)))
check(one)
""",
    ),
    "it has run, and gets another shape": (
        HOSTS,
        "one = made(); check(one); sentence(lambda: run(one, SIZES[1])); check(one, SIZES)",
    ),
    "it has results": (
        TFLITE,
        """
one = made(); wanted = run(one); place = one.get_output_details()[0]["index"]
answer(lambda: np.testing.assert_array_equal(one.get_tensor(place), wanted))
""",
    ),
    "it is released": (
        TFLITE,
        """
one = made(); check(one)
def release():
    global one
    del one; gc.collect()
answer(release); check(one)
""",
    ),
    "`report`, `last_report`": (
        HOSTS,
        """
one = made(); check(one); now = str(report(one).runs), report(one).count("gpu")
def told(): return [(str(each.runs), each.count("gpu"))
                    for each in (report(one), tflgpu_plugin.last_report())]
assert answer(told) == "answer: " + str([now, now])
""",
    ),
    "`assert_used`": (
        ORT,
        "one = made(); check(one); sentence(lambda: tflgpu_plugin.assert_used(one), 'Assertion')",
    ),
    "another thread plans and builds": (
        HOSTS,
        """
one = made(); check(one); ended = []
def forever():
    while not ended: made()
thread = threading.Thread(target=forever); thread.start()
for k in range(8):
    time.sleep(0.02 * k)
    sentence(lambda: run(one)); sentence(lambda: run(one, SIZES[1]))
    assert "cannot be shared" in sentence(lambda: tflgpu_plugin.load_delegate())
ended.append(True); thread.join(); check(one)
""",
    ),
    "another thread makes the first delegate or session": (
        HOSTS,
        """
load(**({"exclude": "0"} if "onnxruntime" not in sys.modules else {}))
thread = threading.Thread(target=first); thread.start()
for k in range(6):
    time.sleep(0.01 * k)
    said = forked(lambda: run(made()).shape)
    assert "cannot be shared across a fork" in said or said.startswith("answer"), said
thread.join(); first()
""",
    ),
    "a folder of plans (`serialization_dir`)": (
        HOSTS,
        """
import tempfile
folder = tempfile.mkdtemp()
def kept(): check(made(serialization_dir=folder, model_token="a"))
answer(kept); assert os.listdir(folder); answer(kept); kept()
sentence(lambda: tflgpu_plugin.load_delegate())
""",
    ),
    "partitions of `tflgpu_plugin.providers.claim`": (
        HOSTS,
        """
from tests.third_party import tinyhost
program = tinyhost.Program([tinyhost.Step(np.tanh, ("x",), "y")], ["y"])
def claim(): return program.accelerate({"x": (1, 8)}).partitions[0]
partition, x = claim(), np.ones((1, 8), np.float32)
sentence(claim, "NativeError"); sentence(lambda: partition.run([x]), "NativeError")
np.testing.assert_allclose(partition.run([x])[0], np.tanh(x), atol=1e-5)
""",
    ),
}

# Calls that start a new program inherit nothing of the parent's GPU.
ANEW = """
import multiprocessing, subprocess, tempfile
code = "import tflgpu_plugin\\nfrom tflgpu_plugin import providers\\nfrom tflgpu_plugin.frontend" \\
    ".callbacks import opened\\nfrom tflgpu_plugin.options import parse\\nopened(parse({}))"
check(made())
line = [sys.executable, "-c", code]
assert subprocess.run(line).returncode == 0
assert subprocess.run(line, preexec_fn=os.getpid).returncode == 0
child = os.posix_spawn(sys.executable, line, os.environ)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
for method in ("spawn", "forkserver"):
    child = multiprocessing.get_context(method).Process(target=exec, args=(code,))
    child.start(); child.join(100); assert child.exitcode == 0, method
"""


@ADAPTER
@pytest.mark.parametrize(
    ("row", "host"), [(row, host) for row, (hosts, _) in ROWS.items() for host in hosts]
)
def test_row(row: str, host: str) -> None:
    suppressed = """
def suppressed(work):
    try: work()
    except Exception: pass
"""
    programs.run_program(host, CHILD.replace("\\\\", "\\") + suppressed + ROWS[row][1])


def test_rows_are_those_of_the_page() -> None:
    """The rows have the page's first column; its other columns describe what happens."""
    text = PAGE.read_text().partition("## Forks")[2]
    rows = re.findall(r"^\| (.*?) \|", text, re.MULTILINE)[1:]
    assert rows == list(ROWS)


@ADAPTER
@pytest.mark.parametrize("host", HOSTS[-1:])
def test_processes_that_are_started_anew(host: str) -> None:
    programs.run_program(host, ANEW)


@ADAPTER
@pytest.mark.parametrize("host", HOSTS)
def test_a_child_keeps_its_exit_status(host: str) -> None:
    """This includes a child that got the sentence, and one that holds an object of the parent at
    its end."""
    programs.run_program(
        host,
        CHILD
        + """
one = made(); check(one); loop = [one]; loop.append(loop)
time.sleep(1)                              # the host's threads have gone to sleep
child = os.fork()
if not child:
    signal.alarm(150)
    try: run(one)
    except Exception: pass
    sys.exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
check(one)
""",
    )
