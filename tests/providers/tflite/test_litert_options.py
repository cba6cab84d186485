"""Options of LiteRT's CompiledModel, by environment and by model; its reports and errors."""

from __future__ import annotations

import pytest

import tflgpu_plugin
from tests.support import small_models
from tests.support.litert_models import MARKS, MODELS, made
from tests.support.subprocesses import run_python
from tflgpu_plugin.options import OptionError
from tflgpu_plugin.providers.tflite import litert, litert_options

pytestmark = MARKS


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
