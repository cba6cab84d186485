"""LiteRT's CompiledModel with our accelerator: the definition, and the same answers as through the
delegate, for all ways to make and run a model."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from conformance import host as hosts
from conformance.models.tflite import Model
from tests.support import small_models
from tests.support.interpreters import gpu
from tests.support.litert_models import LITERT, MARKS, MODELS, check, expected, made, picture, run
from tests.support.signatures import joined
from tests.support.subprocesses import run_python
from tflgpu_plugin import native
from tflgpu_plugin.providers.tflite import litert

pytestmark = MARKS


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
