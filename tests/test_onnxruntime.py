"""The onnxruntime door through real sessions: registration, devices, options, what is claimed,
said, reported and computed. Every comparison is with the CPU provider on the same model and input.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from tests import onnx_models as m
from tests.subprocesses import run_python

pytestmark = [
    pytest.mark.adapter,
    pytest.mark.skipif(
        not (importlib.util.find_spec("onnxruntime") and importlib.util.find_spec("onnx")),
        reason="onnxruntime and onnx are not installed: pip install -e .[onnxruntime,conformance]",
    ),
]
RANDOM = np.random.default_rng(7)


def values(*shape: int) -> Any:
    return RANDOM.uniform(-1, 1, shape).astype(np.float32)


def places(session: Any) -> dict[str, str]:
    """Where each node is, by its operator."""
    return {node.op: node.where for node in tflgpu_plugin.report(session).nodes}


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
        m.compare(session, m.cpu(m.add_relu()), {"x": values(2, 3, 5)})


def test_onnxruntime_can_register_the_path_itself() -> None:
    run_python(
        """
import onnxruntime as ort, tflgpu_plugin
from tests import onnx_models as m
ort.register_execution_provider_library("tflgpu", tflgpu_plugin.get_library_path())
s = ort.InferenceSession(m.add_relu(), providers=[m.EP])
tflgpu_plugin.assert_used(s)
tflgpu_plugin.register()      # finds it done
ort.register_execution_provider_library("other", tflgpu_plugin.get_library_path())
tflgpu_plugin.assert_used(ort.InferenceSession(m.add_relu(), providers=[m.EP]))
"""
    )


def test_a_library_without_python_offers_no_device() -> None:
    """Registered by its path alone, it cannot know adapters; nothing breaks."""
    path = tflgpu_plugin.get_library_path()
    run_python(
        f"""
import onnxruntime as ort
ort.register_execution_provider_library("tflgpu", {path!r})
assert not [d for d in ort.get_ep_devices() if "TflGpu" in d.ep_name]
import tflgpu_plugin
tflgpu_plugin.register()
assert [d for d in ort.get_ep_devices() if "TflGpu" in d.ep_name]
"""
    )


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
from tests import onnx_models as m
tflgpu_plugin.register()
found = {}
for name, policy in ort.OrtExecutionProviderDevicePolicy.__members__.items():
    so = m.quiet(); so.set_provider_selection_policy(policy)
    found[name] = m.EP in ort.InferenceSession(m.add_relu(), so).get_providers()
print(json.dumps(found))
"""


def test_policies_and_software_adapters() -> None:
    """No policy takes a software adapter, but for those that look for an NPU: onnxruntime knows
    three kinds of hardware, and one of them it has to be. TFLGPU_ALLOW_SOFTWARE=1 makes it a GPU.
    """
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
        ({"forse": 1}, "There is no option 'forse'. The options are: "),
        ({"force": "perhaps"}, "Option 'force' cannot be 'perhaps'"),
        ({"adapter": "no such adapter"}, "No adapter matches 'no such adapter'"),
    ],
)
def test_bad_options_get_a_sentence(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(Exception, match=sentence):
        m.session(m.add_relu(), **options)


def test_excluded_nodes_stay_on_the_cpu(capfd: pytest.CaptureFixture[str]) -> None:
    session = m.session(m.add_relu(), exclude="Relu,Reul,Conv")
    assert capfd.readouterr().err.count("the option exclude names 'Reul', which is no node") == 1
    assert places(session) == {"Add": "gpu", "Relu": "cpu"}
    m.compare(session, m.cpu(m.add_relu()), {"x": values(2, 3, 5)})


# ---- reports -------------------------------------------------------------------------------------


def test_assert_used_says_why_not() -> None:
    import onnxruntime as ort

    tflgpu_plugin.register()
    with pytest.raises(AssertionError, match="does not use TflGpuExecutionProvider"):
        tflgpu_plugin.assert_used(m.cpu(m.add_relu()))
    data = m.model([m.node("Det", ["x"], ["y"])], {"x": [2, 3, 3]}, {"y": [2]})
    with pytest.raises(AssertionError, match="Det is not in the table"):
        tflgpu_plugin.assert_used(ort.InferenceSession(data, m.quiet(), providers=[m.EP]))


def test_the_report_counts_runs_and_bytes() -> None:
    session = m.session(m.add_relu())
    for _ in range(3):
        session.run(None, {"x": values(2, 3, 5)})
    report = tflgpu_plugin.report(session)
    assert report.count("gpu") == 2 and report.runs == 3
    (island,) = report.islands
    assert island.live and island.uploaded_bytes == island.downloaded_bytes == 3 * 120
    assert tflgpu_plugin.last_report().runs == 3
    other = m.session(m.add_relu())
    assert tflgpu_plugin.report(session).runs == 3 and tflgpu_plugin.report(other).runs == 0
    del session
    assert tflgpu_plugin.last_report().runs == 0


def test_a_foreign_session_has_no_report() -> None:
    with pytest.raises(TypeError, match="an onnxruntime session that uses it"):
        tflgpu_plugin.report(m.cpu(m.add_relu()))


def test_on_refusal_hears_of_each_node(monkeypatch: Any) -> None:
    heard: list[Any] = []
    monkeypatch.setattr(tflgpu_plugin, "on_refusal", heard.append)
    m.session(m.add_relu(), exclude="Add")
    assert [node.op for node in heard] == ["Add"] and "exclude" in heard[0].reason


def test_the_verbose_log_has_the_reasons() -> None:
    """Providers get onnxruntime's default logger, not the session's."""
    done = run_python(
        """
import onnxruntime as ort, tflgpu_plugin
from tests import onnx_models as m
tflgpu_plugin.register()
ort.set_default_logger_severity(0)
ort.InferenceSession(m.add_relu(), providers=[(m.EP, {"exclude": "Relu"})])
"""
    )
    assert "Relu 'y' stays on the CPU: Relu is left out by the option exclude." in done.stderr
    assert "tflgpu takes 1 of 2 nodes in 1 islands" in done.stderr


def test_check_reads_onnx_files(tmp_path: Path) -> None:
    from tflgpu_plugin import check

    path = tmp_path / "small.onnx"
    path.write_bytes(m.add_relu())
    found = check.check(path, {"exclude": "Relu"})
    assert found.host.startswith("onnxruntime ") and found.report.count("gpu") == 1
    with pytest.raises(ValueError, match="There is no option 'speed'"):
        check.check(path, {"speed": "1"})
    path.write_bytes(b"nothing")
    with pytest.raises(ValueError, match="makes no session"):
        check.check(path, {})


# ---- models --------------------------------------------------------------------------------------


def test_a_network_at_several_shapes() -> None:
    data = m.convolutions()
    session, reference = m.session(data), m.cpu(data)
    for shape in ((1, 3, 16, 16), (2, 3, 31, 17), (1, 3, 16, 16), (3, 3, 8, 9)):
        m.compare(session, reference, {"x": values(*shape)})
    report = tflgpu_plugin.report(session)
    assert report.count("cpu") == 0 and len(report.islands) == 1 and report.runs == 4


def test_many_shapes_go_through_a_bounded_list_of_plans() -> None:
    data = m.add_relu(["n", 3, 5])
    session, reference = m.session(data), m.cpu(data)
    for count in [*range(1, 20), *range(19, 0, -3), 1, 1]:
        m.compare(session, reference, {"x": values(count, 3, 5)})


def test_values_that_follow_from_shapes() -> None:
    """A factor that the model works out from an extent is another one for each shape."""
    nodes = [
        m.node("Shape", ["x"], ["s"]),
        m.node("Gather", ["s", "one"], ["w"]),
        m.node("Cast", ["w"], ["f"], to=1),
        m.node("Conv", ["x", "k"], ["a"]),
        m.node("Mul", ["a", "f"], ["y"]),
    ]
    data = m.model(
        nodes, {"x": ["n", 2, "w"]}, {"y": ["n", 2, "w"]},
        {"one": np.array(2), "k": values(2, 2, 1)},
    )  # fmt: skip
    session, reference = m.session(data), m.cpu(data)
    for width in (5, 224, 9, 5):
        m.compare(session, reference, {"x": values(1, 2, width)})
    assert set(places(session).values()) == {"gpu"}


def test_unsupported_nodes_in_between() -> None:
    nodes = [
        m.node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        m.node("CumSum", ["a", "axis"], ["b"]),
        m.node("Conv", ["b", "w"], ["c"], pads=[1, 1, 1, 1]),
        m.node("Add", ["a", "c"], ["y"]),
    ]
    data = m.model(
        nodes, {"x": [1, 4, 40, 40]}, {"y": [1, 4, 40, 40]},
        {"w": values(4, 4, 3, 3), "axis": np.array(3)},
    )  # fmt: skip
    session = m.session(data, force=1, exclude="CumSum")
    m.compare(session, m.cpu(data), {"x": values(1, 4, 40, 40)})
    report = tflgpu_plugin.report(session)
    assert places(session)["CumSum"] == "cpu" and len(report.islands) == 2
    assert "would only split" not in str(report)


def test_several_outputs_and_inner_ones() -> None:
    nodes = [
        m.node("Relu", ["x"], ["a"]),
        m.node("Split", ["a", "sizes"], ["b", "c"], axis=1),
        m.node("Neg", ["b"], ["d"]),
    ]
    data = m.model(
        nodes, {"x": [2, 5]}, {"a": [2, 5], "c": [2, 3], "d": [2, 2]}, {"sizes": np.array([2, 3])}
    )
    session = m.assert_same(data, {"x": values(2, 5)})
    got = session.run(["d"], {"x": values(2, 5)})
    assert len(got) == 1 and got[0].shape == (2, 2)


def control_flow() -> bytes:
    """An If whose branches read a value of the outer graph."""
    from onnx import TensorProto, helper

    def body(op: str) -> Any:
        out = helper.make_tensor_value_info("o", TensorProto.FLOAT, [2, 3])
        nodes = [m.node(op, ["outer"], ["t"]), m.node("Mul", ["t", "outer"], ["o"])]
        return helper.make_graph(nodes, op, [], [out])

    nodes = [
        m.node("Relu", ["x"], ["outer"]),
        m.node("ReduceSum", ["x"], ["s"], keepdims=0),
        m.node("Greater", ["s", "limit"], ["c"]),
        m.node("If", ["c"], ["r"], then_branch=body("Tanh"), else_branch=body("Exp")),
        m.node("Add", ["r", "outer"], ["y"]),
    ]
    return m.model(nodes, {"x": [2, 3]}, {"y": [2, 3]}, {"limit": np.float32(0)})


def test_bodies_of_control_flow() -> None:
    """Each branch is a graph of its own, and may be claimed."""
    session, reference = m.session(control_flow(), force=1), m.cpu(control_flow())
    for sign in (-1, 1):
        m.compare(session, reference, {"x": sign * np.abs(values(2, 3))})
    assert {"Tanh", "Exp"} <= {
        n.op for n in tflgpu_plugin.report(session).nodes if n.where == "gpu"
    }


def test_unknown_rank_stays_on_the_cpu() -> None:
    nodes = [m.node("Relu", ["x"], ["a"]), m.node("Exp", ["a"], ["y"])]
    data = m.model(nodes, {"x": None}, {"y": None})  # type: ignore[dict-item]
    session = m.session(data)
    assert set(places(session).values()) == {"cpu"}
    m.compare(session, m.cpu(data), {"x": values(2, 3)})


def overridable() -> bytes:
    """A model of IR version 3: its constant is an input with a default."""
    import onnx

    made = onnx.ModelProto.FromString(m.add_relu())
    info = onnx.helper.make_tensor_value_info("c", onnx.TensorProto.FLOAT, [5])
    made.graph.input.append(info)
    return bytes(made.SerializeToString())


def test_defaults_are_planned_as_constants() -> None:
    session = m.assert_same(overridable(), {"x": values(2, 3, 5)})
    tflgpu_plugin.assert_used(session)
    with pytest.raises(Exception, match='"c" was given another value'):
        session.run(None, {"x": values(2, 3, 5), "c": values(5)})
    same = np.linspace(-1, 1, 5).astype(np.float32)
    session.run(None, {"x": values(2, 3, 5), "c": same})


def test_external_data(tmp_path: Path) -> None:
    import onnx

    made = onnx.ModelProto.FromString(m.convolutions())
    path = tmp_path / "model.onnx"
    onnx.save(made, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    session, reference = m.session(str(path)), m.cpu(str(path))  # type: ignore[arg-type]
    m.compare(session, reference, {"x": values(1, 3, 20, 20)})


def test_io_binding_and_run_options() -> None:
    session, data = m.session(m.add_relu()), values(2, 3, 5)
    binding = session.io_binding()
    binding.bind_cpu_input("x", data)
    binding.bind_output("y")
    session.run_with_iobinding(binding)
    wanted = m.cpu(m.add_relu()).run(None, {"x": data})[0]
    np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], wanted)


def test_cpu_fallback_can_be_forbidden() -> None:
    import onnxruntime as ort

    tflgpu_plugin.register()
    settings = m.quiet()
    settings.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    ort.InferenceSession(m.add_relu(), settings, providers=[m.EP])
    with pytest.raises(Exception, match="fallback"):
        ort.InferenceSession(
            m.add_relu(), settings, providers=[(m.EP, {"exclude": "Relu"})], enable_fallback=0
        )


def test_a_shape_that_the_host_tells_wrongly() -> None:
    """onnxruntime infers 4 rows for this pooling and makes 3; what reads them is planned anew."""
    pool = m.node("MaxPool", ["x"], ["a"], kernel_shape=[1, 3], strides=[3, 3], ceil_mode=1)
    nodes = [pool, m.node("Tanh", ["a"], ["b"]), m.node("Add", ["b", "c"], ["y"])]
    constant = np.linspace(-1, 1, 6).astype(np.float32).reshape(6, 1, 1)
    data = m.model(nodes, {"x": (1, 6, 8, 5)}, {"y": None}, {"c": constant}, opset=13)
    ours = m.session(data, optimize=False, force=True)
    m.compare(ours, m.cpu(data, optimize=False), {"x": values(1, 6, 8, 5)})
    assert places(ours) == {"MaxPool": "cpu", "Tanh": "gpu", "Add": "gpu"}
