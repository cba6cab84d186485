"""Tests the onnxruntime frontend in real sessions: registration, devices, options, messages and
reports. test_ort_models.py tests what models compute."""

from __future__ import annotations

import importlib.util
from contextlib import suppress
from pathlib import Path
from threading import Barrier, BrokenBarrierError, Thread
from typing import Any

import pytest

import tflgpu_plugin
from tests.support import onnx_models as m
from tests.support.subprocesses import run_python

pytestmark = [
    pytest.mark.adapter,
    pytest.mark.skipif(
        not (importlib.util.find_spec("onnxruntime") and importlib.util.find_spec("onnx")),
        reason="onnxruntime and onnx are not installed: pip install -e .[onnxruntime,conformance]",
    ),
]
# ---- registration and devices --------------------------------------------------------------------


def test_every_way_to_name_the_provider() -> None:
    import onnxruntime as ort

    tflgpu_plugin.register()
    tflgpu_plugin.register()
    assert tflgpu_plugin.get_ep_names() == [m.EP] == [tflgpu_plugin.get_ep_name()]
    assert m.EP in ort.get_available_providers()
    devices = [d for d in ort.get_ep_devices() if d.ep_name == m.EP]
    by_device, by_name = m.quiet(), m.quiet()
    by_device.add_provider_for_devices(devices, {"force": "1"})  # several devices do not fail
    by_name.add_provider(m.EP, {"adapter": "0"})
    sessions = [
        ort.InferenceSession(m.add_relu(), m.quiet(), providers=[m.EP]),
        ort.InferenceSession(
            m.add_relu(), m.quiet(), providers=[(m.EP, {"force": True}), "CPUExecutionProvider"]
        ),
        ort.InferenceSession(m.add_relu(), by_device),
        ort.InferenceSession(m.add_relu(), by_name),
    ]
    for session in sessions:
        tflgpu_plugin.assert_used(session)
        m.compare(session, m.cpu(m.add_relu()), {"x": m.values(2, 3, 5)})


def test_threads_with_the_same_options(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each session is made with the options of its own call."""
    import onnxruntime as ort

    given, real, found = m.quiet(optimize=False), ort.InferenceSession, dict[str, Any]()
    both = Barrier(2)

    def slowly(*arguments: Any, **more: Any) -> Any:
        with suppress(BrokenBarrierError):  # both threads are here at once only without the lock
            both.wait(0.5)
        return real(*arguments, **more)

    def make(name: str) -> None:
        found[name] = tflgpu_plugin.session(m.add_relu(), sess_options=given, exclude=name)

    monkeypatch.setattr(ort, "InferenceSession", slowly)
    made = [Thread(target=make, args=(name,)) for name in ("Add", "Relu")]
    for thread in made:
        thread.start()
    for thread in made:
        thread.join()
    assert m.places(found["Add"]) == {"Add": "cpu", "Relu": "gpu"}
    assert m.places(found["Relu"]) == {"Add": "gpu", "Relu": "cpu"}


def test_a_session_in_one_call(tmp_path: Path) -> None:
    data, x = m.add_relu(), {"x": m.values(2, 3, 5)}
    path = tmp_path / "model.onnx"
    path.write_bytes(data)
    for model in (data, path, str(path)):
        session = tflgpu_plugin.session(model, adapter=0, exclude=["Relu"], force=None)
        assert m.places(session) == {"Add": "gpu", "Relu": "cpu"}
        m.compare(session, m.cpu(data), x)
    given = m.quiet(optimize=False)
    session = tflgpu_plugin.session(data, sess_options=given)
    assert given.has_providers() and session.get_session_options() is not None
    again = tflgpu_plugin.session(data, sess_options=given, exclude="Relu")
    assert m.places(session) == {"Add": "gpu", "Relu": "gpu"}
    assert m.places(again) == {"Add": "gpu", "Relu": "cpu"}
    third = tflgpu_plugin.session(data, sess_options=given, force=True)
    assert m.places(third) == {"Add": "gpu", "Relu": "gpu"}
    for each in (session, again, third):
        m.compare(each, m.cpu(data), x)
    for wrong, sentence in {
        "forse": "Did you mean 'force'",
        "adapter": "No adapter matches 'x'",
    }.items():
        with pytest.raises((ValueError, RuntimeError), match=sentence):
            tflgpu_plugin.session(data, **{wrong: "x"})
    with pytest.raises(ValueError, match=r"load_delegate\(\) is for TFLite"):
        tflgpu_plugin.session(tmp_path / "m.tflite")
    with pytest.raises(Exception, match="NO_SUCHFILE"):
        tflgpu_plugin.session(tmp_path / "none.onnx")
    with pytest.raises(TypeError, match="expected str, bytes"):
        tflgpu_plugin.session(7)


def test_a_session_does_not_fall_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider's sentence is raised, without the text that onnxruntime puts before it."""
    from tflgpu_plugin.options import OptionError
    from tflgpu_plugin.providers.onnxruntime import ep

    def fail(_: object) -> None:
        raise OptionError("It is broken.")

    monkeypatch.setattr(ep.callbacks, "opened", fail)
    with pytest.raises(ValueError, match=r"^It is broken\.$"):
        tflgpu_plugin.session(m.add_relu(), sess_options=m.quiet())


def test_unregister_and_a_session_again() -> None:
    run_python(
        """
import sys, tflgpu_plugin
tflgpu_plugin.unregister()
assert "onnxruntime" not in sys.modules
from tests.support import onnx_models as m
import onnxruntime as ort
tflgpu_plugin.unregister()
first = tflgpu_plugin.session(m.add_relu())
tflgpu_plugin.unregister()
tflgpu_plugin.unregister()
assert all(device.ep_name != m.EP for device in ort.get_ep_devices())
second = tflgpu_plugin.session(m.add_relu())
for session in (first, second):
    m.compare(session, m.cpu(m.add_relu()), {"x": m.values(2, 3, 5)})
    tflgpu_plugin.assert_used(session)
"""
    )


def test_onnxruntime_can_register_the_path_itself() -> None:
    run_python(
        """
import onnxruntime as ort, tflgpu_plugin
from tests.support import onnx_models as m
ort.register_execution_provider_library("tflgpu", tflgpu_plugin.get_library_path())
s = ort.InferenceSession(m.add_relu(), providers=[m.EP])
tflgpu_plugin.assert_used(s)
tflgpu_plugin.register()      # finds it done
ort.register_execution_provider_library("other", tflgpu_plugin.get_library_path())
tflgpu_plugin.assert_used(ort.InferenceSession(m.add_relu(), providers=[m.EP]))
"""
    )


@pytest.mark.parametrize("first", ["", "import tflgpu_plugin"])
def test_a_path_of_another_process_is_refused_with_a_sentence(first: str) -> None:
    """If only its path is registered, the library does not know the adapters: that is an error, not
    a session without a GPU. Afterwards both ways work."""
    path = tflgpu_plugin.get_library_path()
    run_python(
        f"""
{first}
import onnxruntime as ort
def devices():
    return [d for d in ort.get_ep_devices() if "TflGpu" in d.ep_name]
try:
    ort.register_execution_provider_library("tflgpu", {path!r})
    raise SystemExit("no error")
except Exception as error:
    assert "call tflgpu_plugin.register() instead" in str(error), error
import tflgpu_plugin
tflgpu_plugin.register()
assert devices()
ort.unregister_execution_provider_library("tflgpu")
assert not devices()
ort.register_execution_provider_library("mine", {path!r})
assert devices()
"""
    )


def test_without_an_adapter_the_cpu_goes_on_and_a_sentence_says_why() -> None:
    done = run_python(
        """
import onnxruntime as ort
import tflgpu_plugin
from tests.support import onnx_models as m
tflgpu_plugin.register()
session = ort.InferenceSession(m.add_relu(), providers=[m.EP, "CPUExecutionProvider"])
session.run(None, {"x": m.np.ones((2, 3, 5), m.np.float32)})
try:
    tflgpu_plugin.assert_used(session)
except AssertionError as error:
    assert "Install a Vulkan driver" in str(error)
else:
    raise SystemExit("a session without an adapter was called used")
""",
        VK_ICD_FILENAMES="/nothing.json",
    )
    assert "nothing will run on the GPU. No usable GPU adapter was found." in done.stderr


def test_devices_tell_their_adapter() -> None:
    import onnxruntime as ort

    from tflgpu_plugin.runtime import adapter

    tflgpu_plugin.register()
    devices = [d for d in ort.get_ep_devices() if d.ep_name == m.EP]
    infos = adapter.adapters()
    assert len(devices) == min(len(infos), 8)
    for device, info in zip(devices, infos, strict=False):
        told = device.ep_metadata
        assert told["adapter"] == info.name and told["backend"] == info.backend
        assert told["driver"] == info.driver and told["type"] == info.kind
        assert device.device.vendor_id == info.vendor_id
        assert device.device.device_id == info.device_id


POLICIES = """
import json, onnxruntime as ort, tflgpu_plugin
from tests.support import onnx_models as m
tflgpu_plugin.register()
found = {}
for name, policy in ort.OrtExecutionProviderDevicePolicy.__members__.items():
    so = m.quiet(); so.set_provider_selection_policy(policy)
    found[name] = m.EP in ort.InferenceSession(m.add_relu(), so).get_providers()
print(json.dumps(found))
"""


def test_policies_and_software_adapters() -> None:
    """No policy selects a software adapter, except those that prefer an NPU: onnxruntime knows
    three kinds of hardware, and the adapter must be one of them. TFLGPU_ALLOW_SOFTWARE=1 makes it a
    GPU."""
    import json

    from tflgpu_plugin.runtime import adapter

    if any(not info.software for info in adapter.adapters()):
        pytest.skip("this machine has a real GPU")
    shy = json.loads(run_python(POLICIES).stdout)
    npu = {"PREFER_NPU", "MAX_EFFICIENCY", "MIN_OVERALL_POWER"}
    assert {name for name, taken in shy.items() if taken} == npu
    bold = json.loads(run_python(POLICIES, TFLGPU_ALLOW_SOFTWARE="1").stdout)
    assert {name for name, taken in bold.items() if taken} == {"PREFER_GPU", "MAX_PERFORMANCE"}


def test_an_old_onnxruntime_is_refused_with_a_sentence(monkeypatch: Any) -> None:
    import onnxruntime as ort

    monkeypatch.setattr(ort, "__version__", "1.23.2")
    with pytest.raises(RuntimeError, match=r"1\.24\.4 or newer, and this is 1\.23\.2"):
        tflgpu_plugin.register()


# ---- options -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"forse": 1}, r"There is no option 'forse'. Did you mean 'force'\? The options are: "),
        ({"force": "perhaps"}, "Option 'force' cannot be 'perhaps'"),
        ({"adapter": "no such adapter"}, "No adapter matches 'no such adapter'"),
    ],
)
def test_bad_options_get_a_sentence(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(Exception, match=sentence):
        m.session(m.add_relu(), **options)


def test_excluded_nodes_stay_on_the_cpu(capfd: pytest.CaptureFixture[str]) -> None:
    session = m.session(m.add_relu(), exclude="Relu,Reul,Conv,Constant,Shape,RandomNormal")
    said = capfd.readouterr().err
    assert said.count("the option exclude names 'Reul', which is neither") == 1
    assert said.count("the option exclude names") == 1
    assert m.places(session) == {"Add": "gpu", "Relu": "cpu"}
    m.compare(session, m.cpu(m.add_relu()), {"x": m.values(2, 3, 5)})


# ---- reports -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "sentence"),
    [({"adapter": "nope"}, "No adapter matches 'nope'"), ({"speed": "1"}, "no option 'speed'")],
)
def test_assert_used_says_what_was_wrong_with_an_option(
    options: dict[str, str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """onnxruntime prints the message and continues without the provider."""
    import onnxruntime as ort

    tflgpu_plugin.register()
    named = [(m.EP, options), "CPUExecutionProvider"]
    session = ort.InferenceSession(m.add_relu(), m.quiet(), providers=named)
    with pytest.raises(AssertionError, match=f"could not be created: .*{sentence}"):
        tflgpu_plugin.assert_used(session)
    with pytest.raises(AssertionError, match=r"after tflgpu_plugin\.register"):
        tflgpu_plugin.assert_used(m.cpu(m.add_relu()))
    good = ort.InferenceSession(m.add_relu(), m.quiet(), providers=[m.EP])
    tflgpu_plugin.assert_used(good)


def test_assert_used_says_why_not() -> None:
    import onnxruntime as ort

    tflgpu_plugin.register()
    with pytest.raises(AssertionError, match="does not use TflGpuExecutionProvider"):
        tflgpu_plugin.assert_used(m.cpu(m.add_relu()))
    strange = m.model(
        [m.node("RandomNormalLike", ["x"], ["y"])], {"x": [2, 3, 3]}, {"y": [2, 3, 3]}
    )
    with pytest.raises(AssertionError, match="RandomNormalLike: It makes random numbers"):
        tflgpu_plugin.assert_used(ort.InferenceSession(strange, m.quiet(), providers=[m.EP]))


def test_assert_used_reports_only_the_failure_of_its_own_session() -> None:
    """The second session must not report the first one's failure: for a device_id that does not
    exist, onnxruntime never calls the provider, so no new failure is recorded."""
    import onnxruntime as ort

    tflgpu_plugin.register()
    for options, said in (({"nothing": "1"}, "no option 'nothing'"), ({"device_id": "9"}, "index")):
        named = [(m.EP, options), "CPUExecutionProvider"]
        made = ort.InferenceSession(m.add_relu(), m.quiet(), providers=named)
        for _ in range(2):
            with pytest.raises(AssertionError, match=said):
                tflgpu_plugin.assert_used(made)


def test_nodes_of_a_provider_that_is_named_first_are_on_the_cpu() -> None:
    import onnxruntime as ort

    tflgpu_plugin.register()
    listed = ["CPUExecutionProvider", m.EP]
    made = ort.InferenceSession(m.add_relu(), m.quiet(), providers=listed)
    found = tflgpu_plugin.report(made)
    assert {node.where for node in found.nodes} == {"cpu"} and not found.partitions
    with pytest.raises(AssertionError, match=f"CPUExecutionProvider.*List {m.EP} before it"):
        tflgpu_plugin.assert_used(made)


def test_the_report_counts_runs_and_bytes() -> None:
    session = m.session(m.add_relu())
    for _ in range(3):
        session.run(None, {"x": m.values(2, 3, 5)})
    report = tflgpu_plugin.report(session)
    assert report.count("gpu") == 2 and report.runs == 3
    (partition,) = report.partitions
    assert partition.live and partition.uploaded_bytes == partition.downloaded_bytes == 3 * 120
    assert tflgpu_plugin.last_report().runs == 3
    other = m.session(m.add_relu())
    assert tflgpu_plugin.report(session).runs == 3 and tflgpu_plugin.report(other).runs == 0
    del session
    assert tflgpu_plugin.last_report().runs == 0


def test_a_foreign_session_has_no_report() -> None:
    with pytest.raises(
        TypeError,
        match=r"session with this provider, .*, not .* assert_used\(session\) says",
    ):
        tflgpu_plugin.report(m.cpu(m.add_relu()))


@pytest.mark.parametrize("wrong", [None, 1, "model.onnx"])
def test_only_sessions_are_asserted(wrong: object) -> None:
    with pytest.raises(TypeError, match=r"takes an onnxruntime.InferenceSession, not "):
        tflgpu_plugin.assert_used(wrong)


def test_on_refusal_hears_of_each_node(monkeypatch: Any) -> None:
    heard: list[Any] = []
    monkeypatch.setattr(tflgpu_plugin, "on_refusal", heard.append)
    m.session(m.add_relu(), exclude="Add")
    assert [(node.op, node.refusal_code) for node in heard] == [("Add", "option.excluded")]


def test_the_verbose_log_has_the_reasons() -> None:
    """Providers get onnxruntime's default logger, not the session's."""
    done = run_python(
        """
import onnxruntime as ort, tflgpu_plugin
from tests.support import onnx_models as m
tflgpu_plugin.register()
ort.set_default_logger_severity(0)
ort.InferenceSession(m.add_relu(), providers=[(m.EP, {"exclude": "Relu"})])
"""
    )
    assert "Relu 'y' stays on the CPU: Relu is excluded by the option exclude." in done.stderr
    assert "tflgpu takes 1 of 2 nodes in 1 partition." in done.stderr


def test_check_reads_onnx_files(tmp_path: Path) -> None:
    from tflgpu_plugin.cli import check

    path = tmp_path / "small.onnx"
    path.write_bytes(m.add_relu())
    found = check.check(path, {"exclude": "Relu"})
    assert found.host.startswith("onnxruntime ") and found.report.count("gpu") == 1
    with pytest.raises(ValueError, match="There is no option 'speed'"):
        check.check(path, {"speed": "1"})
    path.write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"cannot make a session of .*small\.onnx"):
        check.check(path, {})
