"""Tests caches in serialization_dir: a second process plans nothing and gives the same results. Any
damage to the file or the folder costs time and one log line, but never gives a wrong answer. Each
run is a separate process and is compared with the host's own kernels."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conformance import host as hosts
from conformance.models.model_inputs import SHARED
from conformance.models.tflite import Model, build
from conformance.variants import quantized as quantized_cases
from tests.support import small_models as small
from tests.support.stored import changed
from tests.support.subprocesses import ROOT, run_python
from tflgpu_plugin import options
from tflgpu_plugin.cache import store

HOSTS = hosts.installed()
pytestmark = [
    pytest.mark.adapter,
    pytest.mark.skipif(not HOSTS, reason="no TFLite host: pip install -e .[tflite]"),
]


class Setting:
    """A model, and the folder where its plans are stored."""

    def __init__(self, folder: Path, model: bytes, host: str, close: float = 1e-5) -> None:
        self.path, self.folder, self.host = folder / "model", folder / "kept", host
        self.close = close  # to the host's results
        self.cpu: list[str] | None = []  # names of the nodes that stay there, if that is to be seen
        self.path.write_bytes(model)

    def start(self, shapes: Any = None, folder: Any = None, **extra: Any) -> Any:
        """Starts a process and returns it."""
        named = {"serialization_dir": str(folder or self.folder), "model_token": "test"}
        environment = extra.pop("environment", {})
        wanted = {"host": self.host, "model": str(self.path), "shapes": shapes}
        wanted["options"] = {**named, **extra}
        return subprocess.Popen(
            [
                sys.executable,
                "-X",
                "faulthandler",
                "-m",
                "tests.support.cached_run",
                json.dumps(wanted),
            ],
            cwd=ROOT,
            env=os.environ | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *args: Any, **named: Any) -> Any:
        """Starts a process and returns its output when it has finished (see `finished`)."""
        found = finished(self.start(*args, **named), self.close)
        assert self.cpu is None or found["cpu"] == self.cpu
        return found

    @property
    def files(self) -> list[Path]:
        return sorted(self.folder.iterdir())


def finished(process: Any, close: float = 1e-5) -> Any:
    """Returns the output of a finished process; `told` collects its log lines about the cache."""
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    found = json.loads(out.splitlines()[-1])
    found["told"] = [line for line in err.splitlines() if line.startswith("tflgpu: ")]
    assert found["away"] <= close
    return found


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    return Setting(tmp_path, small.one_partition(), HOSTS[0])


def other_weights() -> bytes:
    """Returns `small.one_partition` with other weights: equal structure, names and shapes."""
    model, shape = Model(), (1, 8, 8, 3)
    x = model.input("x", shape, signature=(-1, -1, -1, 3))
    features = small.conv(model, x, shape, "first", seed=11)
    model.output(small.conv(model, features, (*shape[:-1], 4), "second", seed=13))
    return model.to_bytes()


# ---- a hit ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", HOSTS)
def test_the_second_process_plans_nothing_and_gives_the_same_bytes(
    tmp_path: Path, host: str
) -> None:
    setting = Setting(tmp_path, small.two_partitions(), host)
    setting.cpu = ["d"]
    first, second = setting.run(force=1), setting.run(force=1)
    assert first["planned"] and not second["planned"]
    assert first["outputs"] == second["outputs"] and first["told"] == second["told"] == []
    assert [path.stat().st_mode & 0o777 for path in setting.files] == [0o600, 0o600]
    assert setting.folder.stat().st_mode & 0o777 == 0o700


def test_what_was_measured_is_not_measured_again(setting: Setting, tmp_path: Path) -> None:
    def run() -> Any:
        home = tempfile.mkdtemp(dir=tmp_path)  # where tuning results are kept without this option
        return setting.run(inference_preference=1, environment={"XDG_CACHE_HOME": home})

    first, second = run(), run()
    assert first["measured"] == 1 and second["measured"] == second["planned"] == 0
    assert first["outputs"] == second["outputs"]


# A template, the plan that was made first, and a template for a single picture.
SHAPES = [[2, 11, 6, 3], [1, 8, 8, 3], [1, 40, 5, 3]]


def held(setting: Setting) -> store.Contents:
    """Returns what the only file holds."""
    (path,) = setting.files
    return store.plan_file.contents(memoryview(path.read_bytes()))


def test_other_shapes_are_kept_without_a_second_copy_of_the_weights(setting: Setting) -> None:
    first, second = setting.run(SHAPES), setting.run(SHAPES)
    assert first["planned"] == 2 and second["planned"] == 0  # one template is for both batches
    assert first["outputs"] == second["outputs"]
    found = held(setting)
    bodies = [len(segment.body) for segment in found.segments]
    assert len(bodies) == 2 and sum(bodies) < 1.1 * bodies[0]
    assert sum(store.TEMPLATE in segment.extra for segment in found.segments) == 1


def test_new_shapes_of_a_kept_template_are_not_planned(setting: Setting) -> None:
    """All shapes that its guards accept, including those that need larger buffers."""
    setting.run(SHAPES)
    size = setting.files[0].stat().st_size
    found = setting.run([[1, 39, 4, 3], [1, 41, 5, 3], [1, 90, 9, 3]])
    assert found["planned"] == 0 and not found["told"]
    assert setting.files[0].stat().st_size == size


def test_what_several_processes_keep_is_all_there(setting: Setting) -> None:
    """Processes add to an existing file, and to one that all of them create."""
    for start in (SHAPES, [[1, 8, 8, 3]]):
        setting.run(start)
        if start is not SHAPES:
            setting.files[0].unlink()
        others = [[start[0], [2 + k, 5 + k, 9, 3]] for k in range(4)]
        for process in [setting.start(shapes) for shapes in others]:
            assert not finished(process)["told"]
        assert len(setting.files) == 1  # and nothing half written
        for shapes in others:
            assert not setting.run(shapes)["planned"]


SPOILED_TAILS: dict[str, Callable[[bytes, int], bytes]] = {
    "half a plan": lambda data, start: data[: (start + len(data)) // 2],
    "a flipped header": lambda data, start: data[: start + 60] + b"?" + data[start + 61 :],
    "another format": lambda data, start: data[: start + 8] + b"?" + data[start + 9 :],
    "zeros": lambda data, start: data[:start] + bytes(len(data) - start),
}


@pytest.mark.parametrize("name", SPOILED_TAILS)
def test_a_spoiled_plan_is_made_again_and_the_others_are_used(setting: Setting, name: str) -> None:
    """A damaged plan, such as one that a process wrote while it was killed, is made again; the
    others are used."""
    first = setting.run(SHAPES)
    (path,), good = setting.files, setting.files[0].read_bytes()
    start = good.rindex(store.plan_file.MAGIC)
    path.write_bytes(SPOILED_TAILS[name](good, start))
    second, third = setting.run(SHAPES), setting.run(SHAPES)
    assert (second["planned"], third["planned"]) == (1, 0)
    assert first["outputs"] == second["outputs"] == third["outputs"]
    assert path.read_bytes() == good and setting.files == [path]


def spoil_template(header: Any) -> None:
    """Damages a template: one of its polynomials refers to a symbol that does not exist."""
    header["extra"]["template"][2][1][0][1] = [[[1 << 20], 1]]


def spoil_ports(header: Any) -> None:
    """Damages a template: its plan has other shapes than stated."""
    header["extra"]["shapes"][1] += 1


def spoil_source(header: Any) -> None:
    """Damages a template: it was made from other nodes."""
    header["extra"]["source"] = "0" * 64


@pytest.mark.parametrize("spoil", [spoil_template, spoil_ports, spoil_source])
def test_a_hostile_template_is_not_used(setting: Setting, spoil: Callable[[Any], None]) -> None:
    first = setting.run(SHAPES)
    (path,) = setting.files
    path.write_bytes(changed(path.read_bytes(), spoil, -1))
    second = setting.run(SHAPES)
    assert second["planned"] and len(second["told"]) == (spoil is not spoil_source)
    assert first["outputs"] == second["outputs"]
    assert not setting.run(SHAPES[:1])["told"]


@pytest.mark.parametrize("kind", ["i8", "u8"])
def test_quantized_models(tmp_path: Path, kind: str) -> None:
    twins = [case for family, case in quantized_cases.twins() if family == "conv"]
    case = next(case for case in twins if case.name.startswith(kind))
    model = build(quantized_cases.quantize(case))
    setting = Setting(tmp_path, model, HOSTS[0], quantized_cases.FAR)
    first, second = setting.run(), setting.run()
    assert first["planned"] and not second["planned"]
    assert first["outputs"] == second["outputs"]


@pytest.mark.parametrize(
    "name", ["face_detection_front", "kws_ref_model_int8", "yolox_nano_with_post_float32"]
)
def test_real_models(tmp_path: Path, name: str) -> None:
    """The results are compared with those of a run without cache; conformance compares them with
    the host's."""
    path = SHARED / "models" / f"{name}.tflite"
    if not path.exists():
        pytest.skip(f"{path} is absent")
    setting = Setting(tmp_path, path.read_bytes(), HOSTS[0], float("inf"))
    setting.cpu = None
    first, second = setting.run(), setting.run()
    assert first["planned"] and not second["planned"] and not second["told"]
    assert first["outputs"] == second["outputs"]


def test_float16_storage_has_plans_of_its_own(tmp_path: Path) -> None:
    setting = Setting(tmp_path, small.wide_layers(), HOSTS[0], close=0.05)
    full = setting.run()
    first, second = (setting.run(is_precision_loss_allowed=1) for _ in range(2))
    assert first["planned"] and not second["planned"]
    assert first["outputs"] == second["outputs"] != full["outputs"]
    sizes = [path.stat().st_size for path in setting.files]
    assert len(sizes) == 2 and min(sizes) < 0.6 * max(sizes)


def test_state_is_not_kept(tmp_path: Path) -> None:
    setting = Setting(tmp_path, small.lstm(), HOSTS[0])
    first, second = setting.run(), setting.run()
    assert not second["planned"] and first["outputs"] == second["outputs"]


def test_sessions(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    from tests.support import onnx_models

    for name, shapes in (("fixed", [[2, 3, 5]]), ("open", [[1, 3, 16, 16], [2, 3, 9, 20]])):
        data = onnx_models.add_relu() if name == "fixed" else onnx_models.convolutions()
        (tmp_path / name).mkdir()
        setting = Setting(tmp_path / name, data, "onnxruntime")
        first, second = setting.run(shapes), setting.run(shapes)
        # The first of open shapes is guessed, and no plan for a batch of 1 holds for others here.
        assert first["planned"] == len(shapes) + 2 * (name == "open") and not second["planned"]
        assert len(setting.files) == 1
        assert first["outputs"] == second["outputs"]


# ---- files that are of no use --------------------------------------------------------------------


def truncate(data: bytes) -> bytes:
    return data[: len(data) // 2]


def flip(data: bytes) -> bytes:
    at = len(data) - 200  # among the weights
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def said_by(part: str) -> Callable[[bytes], bytes]:
    """Returns a change that sets another text for a part of the key, with a valid checksum."""
    return lambda data: changed(data, lambda header: header["key"].update({part: "other"}))


def misfit(data: bytes) -> bytes:
    """Returns a stored plan with a kernel that the driver refuses, and a valid checksum."""
    return changed(data, lambda header: header["plan"][0][0].__setitem__(1, "no WGSL"))


SPOILED = {
    "truncated": (truncate, "it is truncated"),
    "empty": (lambda data: b"", "it is truncated"),
    "flipped": (flip, "its checksum is wrong"),
    "foreign": (lambda data: b"a text" * 50, "it was not written by this plugin"),
    "version": (said_by("plugin"), "another version of this plugin"),
    "adapter": (said_by("adapter"), "another adapter"),
    "driver": (said_by("driver"), "another driver"),
    "refused": (misfit, "The driver refused the kernel"),
}


@pytest.mark.parametrize("name", SPOILED)
def test_a_file_that_is_of_no_use_is_told_and_written_anew(setting: Setting, name: str) -> None:
    spoil, sentence = SPOILED[name]
    first = setting.run()
    path = setting.files[0]
    good = path.read_bytes()
    path.write_bytes(spoil(good))
    second, third = setting.run(), setting.run()
    assert second["planned"] and len(second["told"]) == 1
    assert str(path) in second["told"][0] and sentence in second["told"][0]
    assert path.read_bytes() == good
    assert not third["planned"] and not third["told"]
    assert first["outputs"] == second["outputs"] == third["outputs"]


def test_other_weights_with_the_same_token_never_give_a_wrong_answer(setting: Setting) -> None:
    first = setting.run()
    setting.path.write_bytes(other_weights())
    second = setting.run()  # compared with the host inside
    assert second["planned"] and second["outputs"] != first["outputs"]
    assert len(second["told"]) == 1 and "model_token" in second["told"][0]
    assert len(setting.files) == 1


def test_another_adapter_has_a_place_of_its_own(setting: Setting) -> None:
    """Another adapter gets its own file; here it is the same adapter with fewer known
    properties."""
    setting.run()
    plain = setting.run(environment={"TFLGPU_NO_SUBGROUPS": "1"})
    assert plain["planned"] and "limits or features" in plain["told"][0]


def test_a_file_that_others_can_write_is_not_used(setting: Setting) -> None:
    setting.run()
    setting.files[0].chmod(0o666)
    found = setting.run()
    assert found["planned"] and "others can write to it" in found["told"][0]
    assert setting.files[0].stat().st_mode & 0o777 == 0o600


def test_hostile_plans_do_not_take_the_process_down() -> None:
    """Numbers are replaced and the checksum is valid: the file is refused, the device reports an
    error, or results differ. Kernels check bounds, so that they never access memory outside of
    their buffers."""
    done = run_python("""
import random
import numpy as np
from conformance import direct
from conformance.cases import all_cases
from tests.support import stored as s
from tflgpu_plugin import native
from tflgpu_plugin.cache import plan_file
from tflgpu_plugin.compile import compiler
from tflgpu_plugin.ir.graph import NUMPY_DTYPES
from tflgpu_plugin.runtime import adapter
from tflgpu_plugin.runtime.program import Instance, create
device = adapter.open_device(adapter.select(None))
graphs = [s.dense(), *(direct.graph(all_cases()[name][0]) for name in ("conv", "concat"))]
files = [s.written(compiler.compile(graph, device.target)) for graph in graphs]
chance, outcomes = random.Random(5), set()
BAD = (0, 1, 3, 4, 16, 255, 256, 65535, 65536, 1 << 20, 1 << 31, (1 << 32) - 1, 1 << 40)
def spoil(header):
    holder, key = chance.choice(s.numbers(header["plan"]))
    holder[key] = chance.choice(BAD)
for _ in range(150):
    try:
        plan = s.read(s.changed(chance.choice(files), spoil)).plan
        inputs = [np.zeros(port.shape, NUMPY_DTYPES[port.dtype]) for port in plan.inputs]
        Instance(create(plan, device, True)).run(inputs)
        outcomes.add("ran")
    except (plan_file.Damaged, native.NativeError) as error:
        outcomes.add(type(error).__name__)
print(sorted(outcomes))
""")
    assert done.stdout.strip() == "['Damaged', 'NativeError', 'ran']"


# ---- folders -------------------------------------------------------------------------------------


def test_several_processes_at_once(setting: Setting) -> None:
    found = [finished(process) for process in [setting.start() for _ in range(4)]]
    assert len({tuple(one["outputs"]) for one in found}) == 1
    assert not any(one["told"] for one in found)
    assert len(setting.files) == 1  # and nothing half written
    assert not setting.run()["planned"]


def test_what_a_killed_process_has_left_is_removed_after_a_while(setting: Setting) -> None:
    setting.run()
    (kept,) = setting.files
    old, new, other = (
        kept.with_name(f".{start}-x.part") for start in (kept.stem, f"{kept.stem}-y", "other")
    )
    for path, age in ((old, 7200), (new, 60), (other, 7200)):
        path.write_bytes(b"half")
        os.utime(path, (path.stat().st_atime, path.stat().st_mtime - age))
    kept.unlink()
    setting.run()
    assert setting.files == sorted((kept, new, other))


@pytest.fixture
def unwritable(tmp_path: Path) -> Iterator[Path]:
    """Yields a folder in which no file can be created."""
    if os.getuid() == 0:  # whom modes do not stop
        yield Path("/sys")
        return
    folder = tmp_path / "unwritable"
    folder.mkdir(mode=0o500)
    yield folder


def test_without_a_place_to_write_the_model_runs(setting: Setting, unwritable: Path) -> None:
    below_a_file = setting.path / "folder"
    for folder in (unwritable, below_a_file):
        found = setting.run(folder=folder)
        assert found["planned"] and len(found["told"]) == 1
        assert f"nothing can be stored in {folder}" in found["told"][0]


def test_a_folder_that_others_can_write_is_refused(setting: Setting) -> None:
    setting.folder.mkdir()
    for mode in (0o777, 0o1777, 0o770):
        setting.folder.chmod(mode)
        with pytest.raises(options.OptionError, match="chmod go-w"):
            store.opened(options.parse({"serialization_dir": str(setting.folder)}))
    process = setting.start()
    assert process.wait(timeout=60) and "chmod go-w" in process.stderr.read()
    process.stdout.close(), process.stderr.close()
    assert not setting.files


def test_a_token_cannot_leave_the_folder(setting: Setting) -> None:
    for token in ("../../outside", "/absolute", "a\nb", "é" * 300, "."):
        setting.run(model_token=token)
    assert len(setting.files) == 5
    assert all(path.parent == setting.folder and path.is_file() for path in setting.files)
