"""Messages of wgpu and the device reach the program's `logging`, each once: at the end of the
host's call or of ours that caused it; never while one of our locks is held, nor in a forked
child."""

from __future__ import annotations

import re

import pytest

from tests.support import programs

pytestmark = pytest.mark.adapter
HOSTS = programs.hosts()

PRELUDE = """
import ctypes, logging, re

class Records(logging.Handler):
    def emit(self, record):
        if re.match(r"The GPU|wgpu|\\d+ more", record.getMessage()):
            found.append((record.levelname, record.getMessage()))

found = []
logging.getLogger("tflgpu_plugin").addHandler(Records())

def logged():
    said = found[:]
    found.clear()
    return said

def handle():
    from tflgpu_plugin.runtime import adapter
    return adapter.open_device(adapter.select(None)).handle

class Descriptor(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in "next label length usage size mapped".split()]

def provoke(count=1):
    '''Has wgpu report an error while no scope catches it.'''
    from tflgpu_plugin import native
    wgpu = ctypes.CDLL(str(native.wgpu_path()))
    place = int(native.ffi.cast("uintptr_t", handle())) + 8    # behind the count of references
    device, nothing = ctypes.c_void_p.from_address(place), Descriptor(size=16)
    for _ in range(count):
        wgpu.wgpuDeviceCreateBuffer(device, ctypes.byref(nothing))

ERROR = ("ERROR", "The GPU reported an error that no call expected: "
                  "Invalid usage flags BufferUsages(0x0)")
LOST = ("ERROR", "The GPU device was lost.")
one = made()
check(one)
assert logged() == []
"""


def program(code: str, host: str = HOSTS[-1] if HOSTS else "") -> str:
    return programs.run_program(host, PRELUDE + code)


@pytest.mark.parametrize("host", HOSTS)
def test_an_error_is_logged_once_when_a_run_ends(host: str) -> None:
    program("provoke(); run(one); assert logged() == [ERROR]; run(one); assert not logged()", host)


@pytest.mark.parametrize("host", HOSTS)
def test_an_error_is_logged_when_a_new_shape_is_planned(host: str) -> None:
    program("provoke(); run(one, SIZES[1]); assert logged() == [ERROR], found", host)


@pytest.mark.parametrize("host", HOSTS)
def test_a_lost_device_is_logged_once(host: str) -> None:
    program(
        """
from tflgpu_plugin import native
native.lib.tg_device_destroy(handle())
run(one); assert logged() == [LOST]
run(one); assert not logged()
check(made()); assert not logged()
""",
        host,
    )


def test_two_errors_of_two_threads_are_logged_once_each() -> None:
    program(
        """
alone = threading.Lock()    # wgpu gives an error to any scope that is open then, of any thread
def work():
    for _ in range(20):
        with alone: provoke()
        with alone: run(made())
threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
run(one)
assert logged() == [ERROR] * 40
"""
    )


def test_what_finds_no_room_is_counted() -> None:
    program(
        """
provoke(1000); run(one)
*kept, (level, last) = logged()
assert set(kept) == {ERROR} and 50 < len(kept) < 1000
assert (level, last) == ("WARNING", f"{1000 - len(kept)} more messages of the GPU were dropped.")
provoke(); run(one); assert logged() == [ERROR]
"""
    )


def test_a_run_from_python_and_a_claim_deliver() -> None:
    program(
        """
from tflgpu_plugin import engine, providers
with engine.watch() as built: made()
instance = built[0][1]
provoke(); instance.run([np.zeros(p.shape, np.float32) for p in instance.plan.inputs])
assert logged() == [ERROR]
provoke(); providers.judge(); assert logged() == [ERROR]
"""
    )


def test_messages_wait_for_the_end_of_the_outermost_call() -> None:
    program(
        """
from tflgpu_plugin import native
with native.delivering():
    provoke(); native.deliver_log()
    with native.delivering(): pass
    assert not logged()
assert logged() == [ERROR]
"""
    )


@pytest.mark.parametrize("call", ["run(one)", "run(one, SIZES[1])", "providers.judge()", "made()"])
def test_a_handler_finds_no_lock_taken(call: str) -> None:
    """The handler waits for a thread that creates, plans and runs a model, and does the same
    itself."""
    program(
        f"""
from tflgpu_plugin import providers
done = []
def work():
    check(made(), SIZES[:2])
    done.append(True)
class Waits(logging.Handler):
    def emit(self, record):
        if record.levelname != "ERROR" or done: return
        thread = threading.Thread(target=work); thread.start(); thread.join(60)
        assert done
        work()
logging.getLogger("tflgpu_plugin").addHandler(Waits())
provoke(); {call}
assert len(done) == 2 and logged() == [ERROR]
"""
    )


@pytest.mark.parametrize("error", ["ValueError", "KeyboardInterrupt"])
@pytest.mark.parametrize("host", HOSTS)
def test_what_a_handler_raises_is_for_the_program(host: str, error: str) -> None:
    """The host's call, here one that plans a new shape, continues, and no message is lost."""
    program(
        f"""
class Raises(logging.Handler):
    def emit(self, record):
        if record.levelname == "ERROR": raise {error}("handler")
handler = Raises(); logging.getLogger("tflgpu_plugin").addHandler(handler)
provoke(3)
try:
    run(one, SIZES[1])
    for _ in range(100): len(found)
    raise AssertionError("nothing was raised")
except {error} as raised: assert str(raised) == "handler", raised
assert logged() == [ERROR] * 3
logging.getLogger("tflgpu_plugin").removeHandler(handler)
check(one, SIZES[:2])
""",
        host,
    )


def test_a_handler_that_brings_errors_itself_is_not_entered_again() -> None:
    program(
        """
inside = []
class Provokes(logging.Handler):
    def emit(self, record):
        assert not inside
        if len(found) < 5:
            inside.append(True); provoke(); run(one); inside.clear()
logging.getLogger("tflgpu_plugin").addHandler(Provokes())
provoke(); run(one)
assert logged() == [ERROR] * 5
"""
    )


def test_a_child_of_a_fork_does_not_say_it_again() -> None:
    program(
        """
from tflgpu_plugin import native
provoke()
child = os.fork()
if not child:
    signal.alarm(60)
    native.deliver_log()
    room = native.ffi.new("char[]", native.lib.TG_LOG_BYTES)
    os._exit(len(found) + native.lib.tg_take_log(room))
assert os.waitpid(child, 0)[1] == 0
run(one); assert logged() == [ERROR]
"""
    )


def test_what_is_left_is_logged_when_the_process_exits() -> None:
    """A child that exits in the same way logs nothing, and no thread keeps the process alive."""
    said = program(
        """
class Prints(logging.Handler):
    def emit(self, record): print(os.getpid() == mine, record.getMessage(), flush=True)
mine = os.getpid()
logging.getLogger("tflgpu_plugin").addHandler(Prints())
provoke()
child = os.fork()
if child: os.waitpid(child, 0)
"""
    )
    assert re.findall(r"^(True|False) The GPU reported", said, re.MULTILINE) == ["True"]
