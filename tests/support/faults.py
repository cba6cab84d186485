"""Injects faults of the GPU into runs of both hosts, one at each call of wgpu in turn. A run is
right, on the host's kernels perhaps, or an error says what happened; the next run, and what is made
anew, is right.

With the package from `faulty.build` (see test_faults.py); without, the library is built first."""

from __future__ import annotations

import ctypes
import gc
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

import tflgpu_plugin
from conformance import host as hosts
from tests.support import faulty, onnx_models, small_models, state_models
from tflgpu_plugin import native
from tflgpu_plugin.runtime import adapter
from tflgpu_plugin.runtime.recording import recorded

SENTENCES = (
    "device was lost",
    "not enough memory",
    "could not be read back",
    "changed the states on the GPU, and then failed",
)
ENDED = 3  # status of a process in which a fault was met with neither an answer nor such an error


class Session:
    """A session that has run; `work` meets the fault, `again` comes after it."""

    model = onnx_models.convolutions()
    x = np.ones((1, 3, 16, 16), np.float32)
    made: Any = None

    def prepare(self) -> None:
        self.make()
        for _ in range(4):  # commands are prepared, and inputs stay mapped
            self.run()

    def make(self) -> None:
        self.made = onnx_models.session(self.model)
        self.made.disable_fallback()

    def run(self) -> None:
        theirs = onnx_models.cpu(self.model)
        onnx_models.compare(self.made, theirs, {"x": self.x}, 1e-4)

    def work(self) -> None:
        self.run()

    def again(self) -> None:
        self.work()

    def check_place(self) -> None:
        tflgpu_plugin.assert_used(self.made)


def new_device() -> None:
    """Marks the device as lost: the next model is on a new one, which has no pipelines yet."""
    native.lib.tg_device_mark_lost(adapter.open_device(adapter.select(None)).handle)


class NewSession(Session):
    def prepare(self) -> None:
        new_device()

    def work(self) -> None:
        self.make()
        self.run()


class NewShapes(Session):
    def work(self) -> None:
        self.x = np.ones((1, 3, self.x.shape[2] + 1, 17), np.float32)
        self.run()


class Asynchronous(Session):
    """Two runs at once that nobody waits for."""

    def run(self) -> None:
        found: list[tuple[Any, str]] = []
        done = threading.Semaphore(0)

        def ended(results: Any, _: object, error: str) -> None:
            found.append((results, error))
            done.release()

        for _ in range(2):
            self.made.run_async(None, {"x": self.x}, ended, None)
        assert done.acquire(timeout=100) and done.acquire(timeout=100)
        (wanted,) = onnx_models.cpu(self.model).run(None, {"x": self.x})
        for results, error in found:
            if error:
                raise RuntimeError(error)
            np.testing.assert_allclose(results[0], wanted, atol=1e-4)


class Tensors(Session):
    """A tensor on the GPU goes through three runs that return at once, and is then read."""

    x = np.arange(3000, dtype=np.float32)

    def make(self) -> None:
        nodes = [onnx_models.node("Add", ["x", "c"], ["y"])]
        two = {"c": np.full(1, 2, np.float32)}
        model = onnx_models.model(nodes, {"x": ["n"]}, {"y": ["n"]}, two)
        self.made = onnx_models.session(model)
        self.made.disable_fallback()
        self.given()

    def given(self) -> None:
        import onnxruntime

        self.value, self.runs = onnxruntime.OrtValue.ortvalue_from_numpy(self.x, "gpu"), 0

    def run(self) -> None:
        for _ in range(3):
            binding = self.made.io_binding()
            binding.bind_ortvalue_input("x", self.value)
            binding.bind_output("y", "gpu")
            self.made.run_with_iobinding(binding)
            (self.value,) = binding.get_outputs()
            self.runs += 1
        np.testing.assert_array_equal(self.value.numpy(), self.x + 2 * self.runs)

    def again(self) -> None:
        self.given()
        self.run()


class Interpreter(Session):
    host = hosts.installed()[0]
    model = small_models.two_partitions()
    x = np.ones((1, 6, 5, 3), np.float32)
    states: tuple[int, ...] = ()

    def prepare(self) -> None:
        self.theirs = hosts.interpreter(self.model, self.host)
        self.theirs.allocate_tensors()
        super().prepare()

    def make(self) -> None:
        self.delegate = hosts.load_delegate(self.host, {"force": "1"})
        delegates = [self.delegate]
        self.made = hosts.interpreter(self.model, self.host, experimental_delegates=delegates)
        self.made.allocate_tensors()

    def check_place(self) -> None:
        assert tflgpu_plugin.report(self.delegate).count("gpu")

    def run(self) -> None:
        wanted, found = (hosts.invoke(one, [[self.x]])[0] for one in (self.theirs, self.made))
        np.testing.assert_allclose(found[0], wanted[0], atol=1e-5)

    def work(self) -> None:
        for _ in range(2):
            self.run()
        for state in self.states:
            found, wanted = (one.get_tensor(state) for one in (self.made, self.theirs))
            np.testing.assert_allclose(found, wanted, atol=1e-5)


class NewInterpreter(Interpreter):
    def prepare(self) -> None:
        new_device()
        self.theirs = hosts.interpreter(self.model, self.host)
        self.theirs.allocate_tensors()

    def work(self) -> None:
        self.make()
        self.run()


class States(Interpreter):
    """Variables that stay on the device between runs."""

    layers = state_models.Layers(1).grown("svdf", "apart", "basic")
    states = tuple(layers.states)
    model = layers.to_bytes()
    x = np.full((2, 6), 1 / 3, np.float32)

    def run(self) -> None:
        self.x = -self.x  # so that no two runs leave the same states
        super().run()

    def again(self) -> None:
        for one in (self.made, self.theirs):
            one.reset_all_variables()
        self.work()


class SmallStates(Interpreter):
    """Variables that are copied in each run; no run may leave some of them behind."""

    layers = state_models.Layers(1, batch=1, units=3).grown("basic")
    states = tuple(layers.states)
    model = layers.to_bytes()
    x = np.full((1, 3), 1 / 3, np.float32)


class Recorded(States):
    """The same while a profile takes timestamps, which are read after a run."""

    def work(self) -> None:
        with recorded():
            super().work()


class Untimed(Recorded):
    """Runs stay on the GPU when a profile cannot take timestamps."""

    def work(self) -> None:
        super().work()
        for partition in tflgpu_plugin.report(self.delegate).partitions:
            assert not partition.host_runs and not partition.failures, partition


CASES = {
    "session": Session,
    "new session": NewSession,
    "new shapes": NewShapes,
    "asynchronous": Asynchronous,
    "tensors": Tensors,
    "interpreter": Interpreter,
    "new interpreter": NewInterpreter,
    "states": States,
    "small states": SmallStates,
    "recorded states": Recorded,
    "untimed states": Untimed,
}


class Faults:
    """The library of `faulty.py` in this process."""

    def __init__(self) -> None:
        self.library: Any = ctypes.CDLL(str(native.library_path()))
        self.library.tg_test_hit.restype = ctypes.c_char_p

    def arm(self, kind: str, number: int, calls: str = "") -> None:
        address = None
        if kind == "loss":
            device = adapter.open_device(adapter.select(None)).handle
            address = ctypes.c_void_p(int(native.ffi.cast("uintptr_t", device)))
        place = faulty.KINDS.index(kind)
        self.library.tg_test_fail_at(place, number, address, calls.encode())

    def disarm(self) -> str:
        """Returns the call at which the fault came, "" if it did not."""
        call = str(self.library.tg_test_hit().decode())
        self.library.tg_test_fail_at(0, -1, None, b"")
        return call


def checks() -> int:
    """Returns wgpu's checks in the kernel that was made last."""
    return int(Faults().library.tg_test_checks())


def outcome(work: Any) -> str:
    """Returns "right" or a sentence of what was done. Raises what else the work raises."""
    try:
        work()
    except AssertionError:
        raise
    except Exception as error:
        found = next((text for text in SENTENCES if text in str(error)), "")
        if not found:
            raise
        return found
    return "right"


def once(case: Session, kind: str, number: int, calls: str = "") -> tuple[str, str]:
    """Returns the call at which a fault came, "none" where there was no such call, and the outcome.
    The next run is right, unless the device is lost."""
    faults = Faults()
    case.prepare()
    faults.arm(kind, number, calls)
    try:
        found = outcome(case.work)
    finally:
        call = faults.disarm() or "none"
    assert (later := outcome(case.again)) == "right" or kind == "loss", later
    return call, found


def each(name: str, kind: str, numbers: range, calls: str = "") -> Iterator[tuple[int, str, str]]:
    """Yields the number, the call and the outcome of each fault, until there is no such call."""
    for number in numbers:
        call, found = once(CASES[name](), kind, number, calls)
        gc.collect()
        fresh = CASES[name]()
        fresh.prepare()
        fresh.work()
        fresh.check_place()
        if call == "none":
            return
        yield number, call, found


def sweep(name: str, kind: str, numbers: range, calls: str) -> int:
    number = numbers.start
    counts: Counter[str] = Counter()
    try:
        for number, call, found in each(name, kind, numbers, calls):
            counts[found] += 1
            print(f"{name}: {kind} {number} at {call}: {found}", flush=True)
    except Exception as error:
        print(f"{name}: {kind} after {number}: WRONG: {error}", flush=True)
        return ENDED
    print(f"{name}: {kind}: {dict(counts)}", flush=True)
    return 0
