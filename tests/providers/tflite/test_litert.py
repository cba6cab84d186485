"""LiteRT's CompiledModel with our accelerator: the same answers as through the delegate, options by
environment and by model, signatures, shapes, reports, errors and lifetimes."""

from __future__ import annotations

import ctypes
import gc
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from conformance import host as hosts
from conformance.models.tflite import Model
from tests.support import small_models
from tests.support.interpreters import gpu
from tests.support.signatures import joined
from tests.support.subprocesses import run_python
from tflgpu_plugin import native
from tflgpu_plugin.options import OptionError
from tflgpu_plugin.providers.tflite import litert, litert_options

LITERT = "ai_edge_litert"
pytestmark = [
    pytest.mark.adapter,
    pytest.mark.skipif(LITERT not in hosts.installed(), reason=f"{LITERT} is not installed"),
]


def made(content: bytes, environment: Any = None, **options: Any) -> Any:
    """Returns a CompiledModel on the GPU and the CPU, with these options of LiteRT for the GPU."""
    host = litert.module()
    kinds = host.HardwareAccelerator.GPU | host.HardwareAccelerator.CPU
    chosen = host.Options(hardware_accelerators=kinds, gpu_options=host.GpuOptions(**options))
    given = environment or tflgpu_plugin.litert_environment()
    return host.CompiledModel.from_buffer(content, options=chosen, environment=given)


def run(model: Any, values: Sequence[Any], signature: int = 0) -> list[Any]:
    inputs, outputs = (
        make(signature) for make in (model.create_input_buffers, model.create_output_buffers)
    )
    for buffer, value in zip(inputs, values, strict=True):
        buffer.write(value)
    model.run_by_index(signature, inputs, outputs)
    shapes = [buffer.get_tensor_details()["shape"] for buffer in outputs]
    return [
        buffer.read(int(np.prod(shape)), np.float32).reshape(shape)
        for buffer, shape in zip(outputs, shapes, strict=True)
    ]


def expected(content: bytes, values: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Returns the outputs of interpreters: through our delegate, and on the CPU."""
    delegate = hosts.load_delegate(LITERT)
    found = []
    for delegates in ([delegate], []):
        interpreter = hosts.interpreter(content, LITERT, experimental_delegates=delegates)
        for detail, value in zip(interpreter.get_input_details(), values, strict=True):
            interpreter.resize_tensor_input(detail["index"], value.shape)
        interpreter.allocate_tensors()
        found.append(hosts.invoke(interpreter, [values])[0])
    return found[0], found[1]


def check(content: bytes, outputs: Sequence[Any], values: Sequence[Any]) -> None:
    """The outputs are those of our delegate, bit for bit, and near to the CPU's."""
    for got, ours, theirs in zip(outputs, *expected(content, values), strict=True):
        np.testing.assert_array_equal(got, ours)
        np.testing.assert_allclose(got, theirs, rtol=0, atol=2e-6 * max(1, np.abs(theirs).max()))


def picture(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


# ---- the accelerator -----------------------------------------------------------------------------


def test_what_the_definition_says() -> None:
    ffi, found = native.ffi, native.lib.LiteRtAcceleratorImpl
    name, bits, compiles = ffi.new("char **"), ffi.new("int32_t *"), ffi.new("bool *")
    version = ffi.new("tgr_version *")
    none = ffi.NULL
    for function, out in [
        (found.get_name, name), (found.get_version, version),
        (found.get_hardware, bits), (found.get_compiles, compiles),
    ]:  # fmt: skip
        assert function(none, out) == 0 and function(none, none) == 1
    assert (ffi.string(name[0]), bits[0], compiles[0]) == (b"tflgpu", 2, True)
    numbers = f"{version.major}.{version.minor}.{version.patch}"
    assert tflgpu_plugin.__version__.startswith(numbers)
    headers = found.header, found.handlers.header
    assert [(h.bytes, h.major, h.minor) for h in headers] == [(200, 1, 0), (136, 1, 0)]


def test_the_library_beside_has_the_same_definition() -> None:
    own = native.library_path()
    beside = next((own.parent / "litert").glob("libLiteRtGpuAccelerator.*"))
    copied, wanted = (
        (ctypes.c_ubyte * 200).in_dll(ctypes.CDLL(str(path)), "LiteRtAcceleratorImpl")
        for path in (beside, own)
    )
    assert bytes(copied) == bytes(wanted) != bytes(200)


def test_a_runtime_of_another_version_is_refused() -> None:
    ffi = native.ffi
    runtime, out = ffi.new("tgr_runtime *"), ffi.new("tgr_wrapper **")
    create = native.lib.LiteRtAcceleratorImpl.create_delegate
    for bytes_, major in ((152, 2), (144, 1)):
        runtime.header.bytes, runtime.header.major = bytes_, major
        assert create(runtime, ffi.NULL, ffi.NULL, ffi.NULL, out) == native.lib.TGR_WRONG_VERSION
    assert create(ffi.NULL, ffi.NULL, ffi.NULL, ffi.NULL, out) == native.lib.TGR_INVALID_ARGUMENT


NULL_ARRAYS = """
import ctypes, tflgpu_plugin
library = ctypes.CDLL(tflgpu_plugin.get_library_path())
create, destroy = library.tflite_plugin_create_delegate, library.tflite_plugin_destroy_delegate
create.restype, destroy.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
for _ in range(2):
    made = create(None, None, ctypes.c_size_t(0), None)
    assert made
    destroy(made)
"""


def test_a_delegate_without_options_takes_null_for_them() -> None:
    run_python(NULL_ARRAYS)


# ---- models --------------------------------------------------------------------------------------

MODELS = {
    "guide": (small_models.guide(), (1, 8, 8, 3)),
    "one partition": (small_models.one_partition(), (1, 8, 8, 3)),
    "two partitions": (small_models.two_partitions(), (1, 6, 5, 3)),
    "read by both": (small_models.two_partitions(read_by_both=True), (1, 6, 5, 3)),
    "CPU between": (small_models.resized_between_partitions(), (1, 5, 4, 3)),
}


@pytest.mark.parametrize("name", MODELS)
def test_answers_are_those_of_the_delegate(name: str) -> None:
    content, shape = MODELS[name]
    model, delegate = made(content), hosts.load_delegate(LITERT)
    interpreter = hosts.interpreter(content, LITERT, experimental_delegates=[delegate])
    interpreter.allocate_tensors()
    for seed in range(3):
        values = [picture(*shape, seed=seed)]
        check(content, run(model, values), values)
    report = tflgpu_plugin.report(model)
    assert report.count("gpu") == tflgpu_plugin.report(delegate).count("gpu") > 0
    assert {(one.runs, one.failures) for one in report.partitions} == {(3, 0)}
    del interpreter


def test_a_model_from_a_file(tmp_path: Any) -> None:
    content, shape = MODELS["guide"]
    path = tmp_path / "model.tflite"
    path.write_bytes(content)
    host = litert.module()
    model = host.CompiledModel.from_file(
        str(path),
        hardware_accel=host.HardwareAccelerator.GPU | host.HardwareAccelerator.CPU,
        environment=tflgpu_plugin.litert_environment(),
    )
    values = [picture(*shape)]
    check(content, run(model, values), values)


def test_signatures_run_by_name_and_index() -> None:
    parts = {"first": small_models.guide(), "second": small_models.one_partition()}
    model = made(joined(parts))
    assert list(model.get_signature_list()) == list(parts) and model.get_num_signatures() == 2
    values = [picture(1, 8, 8, 3)]
    for number, (name, content) in enumerate(parts.items()):
        check(content, run(model, values, number), values)
        (given,), (result,) = (model.get_signature_list()[name][s] for s in ("inputs", "outputs"))
        x = model.create_input_buffer_by_name(name, given)
        y = model.create_output_buffer_by_name(name, result)
        x.write(values[0])
        model.run_by_name(name, {given: x}, {result: y})
        (wanted,), _ = expected(content, values)
        np.testing.assert_array_equal(y.read(wanted.size, np.float32), wanted.ravel())
    report = tflgpu_plugin.report(model)
    assert report.count("gpu") == len(report.nodes) == 5
    assert {node.graph for node in report.nodes} == {0, 1}


@pytest.mark.parametrize("strict", [True, False])
def test_inputs_of_other_shapes(strict: bool) -> None:
    """The interpreter has the same shapes before, because plans for one set of shapes and for many
    may add in another order."""
    content = small_models.one_partition()
    model, (interpreter, delegate) = made(content), gpu(content, LITERT)
    for shape in ((1, 6, 9, 3), (2, 5, 5, 3), (1, 8, 8, 3), (1, 6, 9, 3), (3, 9, 9, 3)):
        model.resize_input_tensor(0, shape, strict=strict)
        interpreter.resize_tensor_input(interpreter.get_input_details()[0]["index"], shape)
        interpreter.allocate_tensors()
        values = [picture(*shape)]
        (got,), (ours,) = run(model, values), hosts.invoke(interpreter, [values])[0]
        np.testing.assert_array_equal(got, ours)
        theirs = expected(content, values)[1][0]
        np.testing.assert_allclose(got, theirs, rtol=0, atol=2e-6 * max(1, np.abs(theirs).max()))
    reports = [tflgpu_plugin.report(one).partitions for one in (model, delegate)]
    assert [(one[0].runs, one[0].host_runs) for one in reports] == [(5, 0)] * 2
    with pytest.raises(Exception, match=r"(?i)resize|shape|dim"):
        model.resize_input_tensor(0, (1, 8, 8), strict=True)


def flat() -> bytes:
    """Returns a model of a vector: LiteRT's Python describes memory of programs as vectors."""
    model = Model()
    x = model.input("x", (4096,))
    y = small_models.binary(model, "ADD", x, model.constant(np.float32(2.0)), (4096,))
    model.output(model.op("EXP", [y], shape=(4096,)))
    return model.to_bytes()


def test_memory_of_the_program_is_used_as_it_is() -> None:
    content, host = flat(), litert.module()
    model = made(content, tflgpu_plugin.litert_environment(force=1))
    assert tflgpu_plugin.report(model).count("gpu") == 2
    aligned = host.TensorBuffer._align_numpy_array
    x, y = (aligned(np.zeros(4096, np.float32)) for _ in range(2))
    buffers = [host.TensorBuffer.create_from_host_memory(array) for array in (x, y)]
    for seed in (1, 2):
        x[:] = picture(4096, seed=seed)
        model.run_by_index(0, buffers[:1], buffers[1:])
        np.testing.assert_allclose(y, np.exp(x + np.float32(2)), rtol=1e-6)


# ---- options -------------------------------------------------------------------------------------


def test_options_of_an_environment_are_for_its_models() -> None:
    content, _ = MODELS["guide"]
    without = tflgpu_plugin.litert_environment(exclude="MEAN", force=1)
    plain = tflgpu_plugin.litert_environment()
    for environment, left in ((without, {"MEAN"}), (plain, set()), (without, {"MEAN"})):
        report = tflgpu_plugin.report(made(content, environment))
        assert {node.op for node in report.nodes if node.where == "cpu"} == left


def test_wrong_options_are_refused_with_the_sentence_of_the_table() -> None:
    with pytest.raises(OptionError, match=r"There is no option 'colour'\."):
        tflgpu_plugin.litert_environment(colour="red")
    with pytest.raises(OptionError, match="cannot be 'maybe'"):
        tflgpu_plugin.litert_environment(force="maybe")


def test_an_adapter_that_is_not_there() -> None:
    environment = tflgpu_plugin.litert_environment(adapter="nothing like it")
    for _ in range(2):
        with pytest.raises(RuntimeError, match="No adapter matches 'nothing like it'"):
            made(MODELS["guide"][0], environment)


@pytest.mark.parametrize(("toml", "options"), [
    ("", {}),
    ("precision = 0\n", {}),
    ("precision = 1\nbackend = 2\n", {"is_precision_loss_allowed": "1"}),
    ("precision = 2\n", {"is_precision_loss_allowed": "0"}),
    ("precision = 3\n", {"is_precision_loss_allowed": "1"}),
    ('serialization_dir = "C:\\plans"\nmodel_cache_key = "m"\nserialize_program_cache = true\n',
     {"serialization_dir": "C:\\plans", "model_token": "m"}),
    ('preferred_device_substr = "Radeon"\n', {"adapter": "Radeon"}),
    ("benchmark_mode = false\nwait_type = 1\nnum_threads_to_compile = 4\n", {}),
])  # fmt: skip
def test_options_of_litert(
    toml: str, options: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert litert_options.translated(toml) == options
    assert capsys.readouterr().err == ""


def test_options_without_an_effect_are_named_once(capsys: pytest.CaptureFixture[str]) -> None:
    toml = "enable_infinite_float_capping = true\nbackend = 1\nnew_in_litert_3 = 7\n"
    toml += 'external_tensor_patterns = ["a", "b"]\nbuffer_storage_type = 2\n'
    told = ""
    litert_options.told = type(litert_options.told)()
    for _ in range(2):
        assert litert_options.translated(toml) == {}
        told += capsys.readouterr().err
    lines = [line for line in told.splitlines() if "has no effect here" in line]
    assert len(lines) == len(told.splitlines()) == 5
    assert "WARNING: tflgpu: LiteRT's GPU option backend has no effect here: adapters are" in told


def test_options_of_a_model_come_before_those_of_its_environment() -> None:
    folder = litert.folder({"is_precision_loss_allowed": "1", "force": "1"})
    given = {litert.FOLDER: folder, litert.GPU_OPTIONS: "precision = 2\n"}
    assert litert.translated(given) == {"is_precision_loss_allowed": "0", "force": "1"}
    assert litert.translated({"force": "1"}) == {"force": "1"}
    unknown = {litert.FOLDER: "/elsewhere", litert.GPU_OPTIONS: ""}
    assert litert.translated(unknown) == {}


def test_precision_as_programs_ask_for_it() -> None:
    content = small_models.wide_layers()
    half = tflgpu_plugin.litert_environment(is_precision_loss_allowed=1)
    models = [made(content, half, enforce_f32=enforced) for enforced in (False, True)]
    smaller, larger = (tflgpu_plugin.report(model).partitions[0].memory.weights for model in models)
    assert 0 < smaller < larger


# ---- reports and errors --------------------------------------------------------------------------


def test_a_model_that_is_not_ours_has_no_report() -> None:
    host = litert.module()
    model = host.CompiledModel.from_buffer(
        MODELS["guide"][0], hardware_accel=host.HardwareAccelerator.CPU,
        environment=tflgpu_plugin.litert_environment(),
    )  # fmt: skip
    for target in (model, host.CompiledModel, object()):
        with pytest.raises(TypeError, match="litert_environment"):
            tflgpu_plugin.report(target)


def test_a_closed_model_has_no_report() -> None:
    model = made(MODELS["guide"][0])
    assert tflgpu_plugin.report(model).count("gpu") == 3
    model.close()
    with pytest.raises(TypeError, match="while it is in use"):
        tflgpu_plugin.report(model)


IN_ONE_LINE = """
import tflgpu_plugin
from ai_edge_litert.compiled_model import CompiledModel, HardwareAccelerator
from tests.support import small_models
model = CompiledModel.from_buffer(
    small_models.guide(),
    hardware_accel=HardwareAccelerator.GPU,
    environment=tflgpu_plugin.litert_environment(),
)
assert tflgpu_plugin.report(model).count("gpu") == 3
inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
"""


def test_the_first_environment_may_be_an_argument() -> None:
    """`from_buffer` is looked up before the environment is made."""
    assert "name=tflgpu" in run_python(IN_ONE_LINE).stderr


def test_nodes_that_only_the_cpu_could_run_are_the_hosts_error() -> None:
    host = litert.module()
    environment = tflgpu_plugin.litert_environment(exclude="MEAN", force=1)
    with pytest.raises(RuntimeError, match="Some ops are not accelerated"):
        host.CompiledModel.from_buffer(
            MODELS["guide"][0],
            hardware_accel=host.HardwareAccelerator.GPU,
            environment=environment,
        )


def test_a_runtime_that_does_not_take_the_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = tflgpu_plugin.litert_environment()
    monkeypatch.setattr(litert, "FOLDER", "another key")
    monkeypatch.setattr(litert, "translated", lambda given: {})
    with pytest.raises(RuntimeError, match="did not take this plugin's accelerator"):
        made(MODELS["guide"][0], environment)


def test_a_file_that_is_no_model() -> None:
    with pytest.raises(RuntimeError, match="Failed to load model"):
        made(b"no model" * 100)


# ---- lifetimes -----------------------------------------------------------------------------------


def test_models_outlive_their_environments() -> None:
    content, shape = MODELS["two partitions"]
    environment = tflgpu_plugin.litert_environment()
    model, values = made(content, environment), [picture(*shape)]
    environment.close()
    del environment
    gc.collect()
    check(content, run(model, values), values)


def test_environments_outlive_their_models() -> None:
    content, shape = MODELS["two partitions"]
    environment = tflgpu_plugin.litert_environment()
    for _ in range(3):
        model, values = made(content, environment), [picture(*shape)]
        check(content, run(model, values), values)
        model.close()
    with pytest.raises(ValueError, match="no longer valid"):
        environment.close()
        made(content, environment)


def test_several_models_share_an_environment() -> None:
    environment = tflgpu_plugin.litert_environment()
    models = [(made(content, environment), content, shape) for content, shape in MODELS.values()]
    for model, content, shape in [*models, *reversed(models)]:
        values = [picture(*shape)]
        check(content, run(model, values), values)


def test_buffers_outlive_the_model() -> None:
    content, shape = MODELS["one partition"]
    model = made(content)
    inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
    values = [picture(*shape)]
    inputs[0].write(values[0])
    model.run_by_index(0, inputs, outputs)
    model.close()
    del model
    gc.collect()
    check(content, [outputs[0].read(256, np.float32).reshape(1, 8, 8, 4)], values)


def test_threads_make_and_run_models() -> None:
    failures: list[BaseException] = []
    wanted = {name: expected(content, [picture(*shape)])[0] for name, (content, shape)
              in MODELS.items()}  # fmt: skip

    def work() -> None:
        try:
            environment = tflgpu_plugin.litert_environment()
            for name, (content, shape) in MODELS.items():
                model = made(content, environment)
                for _ in range(3):
                    outputs = run(model, [picture(*shape)])
                    for got, ours in zip(outputs, wanted[name], strict=True):
                        np.testing.assert_array_equal(got, ours)
                assert tflgpu_plugin.report(model).partitions[0].runs == 3
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


AT_EXIT = """
import numpy as np, tflgpu_plugin
from tests.support import small_models
from tests.providers.tflite.test_litert import made, run
environment = tflgpu_plugin.litert_environment()
kept = model = made(small_models.guide(), environment)
buffers = model.create_input_buffers(0), model.create_output_buffers(0)
run(model, [np.zeros((1, 8, 8, 3), np.float32)])
{end}
"""


@pytest.mark.parametrize("end", ["", "del environment", "import sys; sys.exit(0)"])
def test_a_process_ends_with_models(end: str) -> None:
    run_python(AT_EXIT.format(end=end))


# ---- buffers -------------------------------------------------------------------------------------


def requirements(model: Any) -> tuple[int, int]:
    """Returns the bytes of the buffers that a model of one input and one output wants in the host's
    memory."""
    found = model.get_input_buffer_requirements(0), model.get_output_buffer_requirements(0)
    assert {tuple(one["supported_types"]) for one in found} == {(1,)}
    return found[0]["buffer_size"], found[1]["buffer_size"]


@pytest.mark.parametrize("shape", [(2, 16, 8, 3), (1, 4, 4, 3)])
def test_buffers_are_asked_for_as_large_as_tensors(shape: tuple[int, ...]) -> None:
    """Also after a resize: requirements that an accelerator tells LiteRT could only grow, and not
    before the next run, so ours tells none."""
    content = small_models.one_partition()
    model = made(content)
    assert requirements(model) == (8 * 8 * 3 * 4, 8 * 8 * 4 * 4)
    model.resize_input_tensor(0, shape)
    pixels = int(np.prod(shape[:3]))
    values = [picture(*shape)]
    check(content, run(model, values), values)
    assert requirements(model) == (pixels * 3 * 4, pixels * 4 * 4)


def test_buffers_may_change_between_runs() -> None:
    content, shape = MODELS["one partition"]
    model = made(content)
    inputs = [model.create_input_buffers(0) for _ in range(2)]
    outputs = [model.create_output_buffers(0) for _ in range(2)]
    for seed in range(2):
        inputs[seed][0].write(picture(*shape, seed=seed))
    for given, taken in ((0, 1), (1, 0), (1, 1), (0, 0)):
        model.run_by_index(0, inputs[given], outputs[taken])
        got = outputs[taken][0].read(256, np.float32).reshape(1, 8, 8, 4)
        check(content, [got], [picture(*shape, seed=given)])


ON_THE_HOST = """
import numpy as np
from tests.providers.tflite import test_litert as tests
from tflgpu_plugin import native
from tflgpu_plugin.providers.tflite import delegates
import tflgpu_plugin
content, shape = tests.MODELS[{name!r}]
model = tests.made(content)
values = [tests.picture(*shape)]
before = tests.run(model, values)
placed = delegates.kept.partitions.items()[0]
native.lib.tg_device_mark_lost(placed[1].partition.device.handle)
after = tests.run(model, values)
np.testing.assert_allclose(before[0], after[0], rtol=0, atol=1e-5)
report = tflgpu_plugin.report(model)
print(sum(one.runs for one in report.partitions), sum(one.host_runs for one in report.partitions))
"""


def test_runs_on_the_hosts_kernels_use_the_buffers() -> None:
    said = run_python(ON_THE_HOST.format(name="one partition")).stdout
    assert said.split() == ["1", "1"]
