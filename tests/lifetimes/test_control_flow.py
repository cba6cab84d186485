"""Control flow of a program while a host calls us: timeouts raised by signals, exceptions from
other threads, trace functions, exceptions of callbacks, and greenlets. Foreign exceptions surface
when the host returns; by then our work is finished, and the GPU remains usable."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

import pytest

from tests.support import programs

ROOT = Path(__file__).parents[2]
HOSTS = programs.hosts()
on_hosts = pytest.mark.parametrize("host", HOSTS)
adapter = pytest.mark.adapter

RAISING = """
class Timeout(Exception): pass
class Abort(BaseException): pass
KINDS = [Timeout, Abort, KeyboardInterrupt, SystemExit, TimeoutError, MemoryError]
MAIN = threading.main_thread().ident

def raising(kind):
    def handler(*_): raise kind("enough")
    return handler

def heard(kind, call):
    try: call()
    except kind as error: assert str(error) == "enough", error
    else: raise SystemExit(f"{kind.__name__} was not heard")

def meanwhile(name, act, late):
    # Do `act` once, before or after the work of this callback.
    ours = provider()
    work = getattr(ours, name)
    def once(*given):
        setattr(ours, name, work)
        if not late: act()
        result = work(*given)
        if late: act()
        return result
    setattr(ours, name, once)
"""


@adapter
@on_hosts
def test_what_a_signal_raises_surfaces(host: str) -> None:
    """Signals arrive in every callback, before and after its work."""
    programs.run_program(
        host,
        RAISING
        + """
check(made())
def alarm(): signal.pthread_kill(MAIN, signal.SIGALRM)
for place, kind in enumerate(KINDS):
    signal.signal(signal.SIGALRM, raising(kind))
    for name in ("create", PLAN):
        meanwhile(name, alarm, late=place % 2)
        heard(kind, made)
        check(made())
    one = made()
    meanwhile("build", alarm, late=place % 2)
    heard(kind, lambda: run(one, SIZES[1]))
    check(one, SIZES)
""",
    )


@adapter
@on_hosts
def test_signals_at_any_time(host: str) -> None:
    """Timers expire at various moments while delegates or sessions are created and run. All modules
    are imported first, because an exception inside CPython's import can leave its lock held."""
    used = programs.run_program(host, "made(); print('used:', *sys.modules)").partition("used:")[2]
    programs.run_program(
        host,
        RAISING
        + f"MODULES = {used.split()}"
        + """
import contextlib, importlib
for name in MODULES:
    with contextlib.suppress(ImportError): importlib.import_module(name)
signal.signal(signal.SIGALRM, raising(Timeout))
def timed(seconds, call):
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try: return call()
    except Timeout: return None
    finally: signal.setitimer(signal.ITIMER_REAL, 0)
expected()                                 # the host's own first time would be cut short, too
def late(seconds, call):
    try: timed(seconds, call)
    except Timeout: pass                   # came between the call and the end of the timer
for k in range(12):
    late(0.002 * 1.8 ** k, made)
one = made()
for k in range(8):
    late(0.001 * 2 ** k, lambda: run(one, SIZES[k % 4]))
check(one, SIZES); check(made())
""",
    )


@adapter
@on_hosts
def test_what_another_thread_raises_surfaces(host: str) -> None:
    """Thread timeouts use PyThreadState_SetAsyncExc."""
    programs.run_program(
        host,
        RAISING
        + """
import ctypes
check(made())
said = []
def work():
    me = ctypes.c_ulong(threading.get_ident())
    def stop(): ctypes.pythonapi.PyThreadState_SetAsyncExc(me, ctypes.py_object(Timeout))
    for name in ("create", PLAN):
        meanwhile(name, stop, late=False)
        try: made(); said.append("nothing")
        except Timeout: said.append(name)
    check(made())
    said.append("done")
thread = threading.Thread(target=work); thread.start(); thread.join()
assert said == ["create", PLAN, "done"], said
""",
    )


@adapter
@on_hosts
def test_what_the_programs_callbacks_raise_surfaces(host: str) -> None:
    """`on_refusal` and logging handlers are called in the middle of our work."""
    programs.run_program(
        host,
        RAISING
        + """
import logging
for kind in (Abort, KeyboardInterrupt, SystemExit):
    tflgpu_plugin.on_refusal = raising(kind)
    heard(kind, lambda: made(exclude="0"))
    tflgpu_plugin.on_refusal = None
    check(made())
class Handler(logging.Handler):
    def emit(self, record): raise self.kind("enough")
handler, logger = Handler(), logging.getLogger("tflgpu_plugin")
tflgpu_plugin.set_log_level("info")
for kind in (Timeout, Abort):
    handler.kind = kind; logger.addHandler(handler)
    heard(kind, made)
    logger.removeHandler(handler)
    check(made())
""",
    )


@adapter
@on_hosts
def test_trace_functions_and_strict_settings_stay_outside(host: str) -> None:
    """The calling thread has a trace function that raises, and numpy raises floating-point
    errors."""
    programs.run_program(
        host,
        RAISING
        + """
np.seterr(all="raise")
def trace(frame, event, argument):
    if frame.f_globals.get("__name__", "").startswith("tflgpu_plugin.engine"): raise Timeout
    return trace
check(made())
sys.settrace(trace)
one = made(); run(one, SIZES[1])
sys.settrace(None)
check(one, SIZES)
""",
    )


@adapter
@on_hosts
def test_the_newest_report_is_of_the_thread_that_asked(host: str) -> None:
    programs.run_program(
        host,
        """
assert tflgpu_plugin.last_report() is None
one = made(); check(one)
said = []
def other():
    said.append(tflgpu_plugin.last_report())
    second = made(); run(second); run(second)
    said.append(sum(one.runs for one in tflgpu_plugin.last_report().partitions))
thread = threading.Thread(target=other); thread.start(); thread.join()
partitions = len(report(one).partitions)
assert said == [None, 2 * partitions], said
assert sum(one.runs for one in tflgpu_plugin.last_report().partitions) == partitions
""",
    )


# ---- greenlets -----------------------------------------------------------------------------------

PATCHES = {
    "gevent": "from gevent import monkey; monkey.patch_all()\n",
    "eventlet": """
import warnings; warnings.simplefilter("ignore")
import eventlet; eventlet.monkey_patch()
""",
}
GREENLETS = {
    "gevent": """
import gevent
def together(*works):
    jobs = [gevent.spawn(work) for work in works]
    gevent.joinall(jobs, raise_error=True)
    assert all(job.successful() for job in jobs)
""",
    "eventlet": """
import eventlet
def together(*works):
    for job in [eventlet.spawn(work) for work in works]: job.wait()
""",
}
GREEN_PROGRAM = """
import logging
from functools import partial
def switch(*_): time.sleep(0.01)           # of gevent or eventlet: lets the other greenlets run
class Handler(logging.Handler):
    def emit(self, record): switch()
logging.getLogger("tflgpu_plugin").addHandler(Handler())
tflgpu_plugin.set_log_level("debug")
tflgpu_plugin.on_refusal = switch
together(*[partial(made, exclude="0") for _ in range(3)])
together(*[lambda: check(made(), SIZES[:2]) for _ in range(3)])
one = made(); done = []
if "onnxruntime" in sys.modules:           # interpreters are of one thread at a time
    together(*[partial(run, one, size) for size in SIZES])
check(one, SIZES)
"""


def _needs(library: str) -> None:
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed: pip install {library}")


@adapter
@on_hosts
@pytest.mark.parametrize("library", PATCHES)
def test_greenlets_that_wait_in_our_work(library: str, host: str) -> None:
    _needs(library)
    programs.run_program(host, GREENLETS[library] + GREEN_PROGRAM, before=PATCHES[library])


@adapter
@on_hosts
def test_a_program_that_is_patched_after_the_first_use(host: str) -> None:
    _needs("gevent")
    programs.run_program(
        host, "check(made())\n" + PATCHES["gevent"] + GREENLETS["gevent"] + GREEN_PROGRAM
    )


def test_nothing_that_a_host_calls_uses_threading() -> None:
    """gevent and eventlet replace its functions; tflgpu_plugin.threads has the originals. Commands
    and batches are separate programs, which no host calls."""
    own = {"batch", "cli", "demo", "harness"}
    files = [
        path
        for folder in ("tflgpu_plugin", "providers")
        for path in (ROOT / folder).rglob("*.py")
        if not own & set(path.relative_to(ROOT).parts)
    ]
    waiting = {"threading", "queue", "subprocess", "socket", "select", "asyncio", "multiprocessing",
               "concurrent"}  # fmt: skip
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in files
        for node in ast.walk(ast.parse(path.read_text()))
        for name in _imported(node)
        if name.split(".")[0] in waiting
    }
    assert len(files) > 200 and found == {"tflgpu_plugin/threads.py: threading"}  # types alone


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []


def test_sleeping_is_left_to_native_code() -> None:
    """`time.sleep` is replaced, too."""
    rooms = ("frontend", "importer", "runtime", "cache", "native")
    folders = [ROOT / "tflgpu_plugin" / name for name in rooms]
    files = [path for folder in (*folders, ROOT / "providers") for path in folder.rglob("*.py")]
    assert not [str(path) for path in files if "sleep(" in path.read_text()]
