"""Tests models of every form through real onnxruntime sessions, at one and at several shapes. Every
comparison is with the CPU provider on the same model and input."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from tests.support import onnx_models as m
from tflgpu_plugin.providers.onnxruntime import ops, reader

pytestmark = [
    pytest.mark.adapter,
    pytest.mark.skipif(
        not (importlib.util.find_spec("onnxruntime") and importlib.util.find_spec("onnx")),
        reason="onnxruntime and onnx are not installed: pip install -e .[onnxruntime,conformance]",
    ),
]


def test_a_network_at_several_shapes() -> None:
    data = m.convolutions()
    session, reference = m.session(data), m.cpu(data)
    for shape in ((1, 3, 16, 16), (2, 3, 31, 17), (1, 3, 16, 16), (3, 3, 8, 9)):
        m.compare(session, reference, {"x": m.values(*shape)})
    report = tflgpu_plugin.report(session)
    assert report.count("cpu") == 0 and len(report.partitions) == 1 and report.runs == 4


def test_many_shapes_go_through_a_bounded_list_of_plans() -> None:
    data = m.add_relu(["n", 3, 5])
    session, reference = m.session(data), m.cpu(data)
    for count in [*range(1, 20), *range(19, 0, -3), 1, 1]:
        m.compare(session, reference, {"x": m.values(count, 3, 5)})


def test_values_that_follow_from_shapes() -> None:
    """A factor that the model computes from an extent changes with the shape."""
    nodes = [
        m.node("Shape", ["x"], ["s"]),
        m.node("Gather", ["s", "one"], ["w"]),
        m.node("Cast", ["w"], ["f"], to=1),
        m.node("Conv", ["x", "k"], ["a"]),
        m.node("Mul", ["a", "f"], ["y"]),
    ]
    data = m.model(
        nodes, {"x": ["n", 2, "w"]}, {"y": ["n", 2, "w"]},
        {"one": np.array(2), "k": m.values(2, 2, 1)},
    )  # fmt: skip
    session, reference = m.session(data), m.cpu(data)
    for width in (5, 224, 9, 5):
        m.compare(session, reference, {"x": m.values(1, 2, width)})
    assert set(m.places(session).values()) == {"gpu"}


def test_unsupported_nodes_in_between() -> None:
    nodes = [
        m.node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        m.node("CumSum", ["a", "axis"], ["b"]),
        m.node("Conv", ["b", "w"], ["c"], pads=[1, 1, 1, 1]),
        m.node("Add", ["a", "c"], ["y"]),
    ]
    data = m.model(
        nodes, {"x": [1, 4, 40, 40]}, {"y": [1, 4, 40, 40]},
        {"w": m.values(4, 4, 3, 3), "axis": np.array(3)},
    )  # fmt: skip
    session = m.session(data, force=1, exclude="CumSum")
    m.compare(session, m.cpu(data), {"x": m.values(1, 4, 40, 40)})
    report = tflgpu_plugin.report(session)
    assert m.places(session)["CumSum"] == "cpu" and len(report.partitions) == 2
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
    session = m.assert_same(data, {"x": m.values(2, 5)})
    got = session.run(["d"], {"x": m.values(2, 5)})
    assert len(got) == 1 and got[0].shape == (2, 2)


def control_flow(last: str = "Mul") -> bytes:
    """Returns a model of an If whose branches read a value of the outer graph. `last` is the
    operator of their last node, which reads that value if it is Mul."""
    from onnx import TensorProto, helper

    def body(op: str) -> Any:
        op = op if last == "Mul" else last
        out = helper.make_tensor_value_info("o", TensorProto.FLOAT, [2, 3])
        read = ["t", "outer"] if last == "Mul" else ["t"]
        nodes = [m.node(op, ["outer"], ["t"]), m.node(last, read, ["o"])]
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
    """Each branch is a separate graph, and may be claimed."""
    session, reference = m.session(control_flow(), force=1), m.cpu(control_flow())
    for sign in (-1, 1):
        m.compare(session, reference, {"x": sign * np.abs(m.values(2, 3))})
    nodes = tflgpu_plugin.report(session).nodes
    assert {"Tanh", "Exp"} <= {n.op for n in nodes if n.where == "gpu"}
    (told,) = {n.reason for n in nodes if n.op == "If"}
    assert told is not None and "the nodes of its bodies are placed one by one" in told


def test_bodies_of_control_flow_that_only_reshape() -> None:
    """They stay on the CPU, which runs before and after them: Silero's model of voices has many."""
    model = control_flow("Identity")
    session = m.session(model)
    m.compare(session, m.cpu(model), {"x": m.values(2, 3)})
    where = {n.op: n for n in tflgpu_plugin.report(session).nodes}
    assert where["Relu"].where == "gpu"
    assert where["Identity"].where == "cpu" and "for 0 multiply-adds" in where["Identity"].reason


def test_why_operators_without_tensors_or_with_chance_stay_is_told() -> None:
    """Each node, whose operator has no row, has its reason."""
    nodes = [
        m.node("Relu", ["x"], ["a"]),
        m.node("RandomNormalLike", ["a"], ["b"]),
        m.node("Optional", ["a"], ["held"]),
        m.node("OptionalGetElement", ["held"], ["c"]),
        m.node("Add", ["b", "c"], ["y"]),
    ]
    data = m.model(nodes, {"x": [1, 3]}, {"y": [1, 3]})
    told = {n.op: n.reason or "" for n in tflgpu_plugin.report(m.session(data, force=1)).nodes}
    assert "random numbers" in told["RandomNormalLike"]
    assert told["Optional"] == told["OptionalGetElement"]
    assert "sequences of tensors" in told["Optional"]
    assert len(reader.LEFT) > 12 and not reader.LEFT.keys() & ops.HOST_OPS.keys()


def test_unknown_rank_stays_on_the_cpu() -> None:
    nodes = [m.node("Relu", ["x"], ["a"]), m.node("Exp", ["a"], ["y"])]
    data = m.model(nodes, {"x": None}, {"y": None})  # type: ignore[dict-item]
    session = m.session(data)
    assert set(m.places(session).values()) == {"cpu"}
    m.compare(session, m.cpu(data), {"x": m.values(2, 3)})


def overridable() -> bytes:
    """Returns a model of IR version 3, whose constant is an input with a default."""
    import onnx

    made = onnx.ModelProto.FromString(m.add_relu())
    info = onnx.helper.make_tensor_value_info("c", onnx.TensorProto.FLOAT, [5])
    made.graph.input.append(info)
    return bytes(made.SerializeToString())


def test_defaults_are_planned_as_constants() -> None:
    session = m.assert_same(overridable(), {"x": m.values(2, 3, 5)})
    tflgpu_plugin.assert_used(session)
    other = {"x": m.values(2, 3, 5), "c": m.values(5)}
    (wanted,) = m.cpu(overridable()).run(None, other)
    np.testing.assert_allclose(session.run(None, other)[0], wanted, atol=1e-5)
    assert tflgpu_plugin.report(session).host_runs == 1
    same = np.linspace(-1, 1, 5).astype(np.float32)
    session.run(None, {"x": m.values(2, 3, 5), "c": same})


def test_external_data(tmp_path: Path) -> None:
    import onnx

    made = onnx.ModelProto.FromString(m.convolutions())
    path = tmp_path / "model.onnx"
    onnx.save(made, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    session, reference = m.session(str(path)), m.cpu(str(path))  # type: ignore[arg-type]
    m.compare(session, reference, {"x": m.values(1, 3, 20, 20)})


def test_io_binding_and_run_options() -> None:
    session, data = m.session(m.add_relu()), m.values(2, 3, 5)
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
    """onnxruntime infers 4 rows for this pooling but computes 3; its readers are planned again."""
    pool = m.node("MaxPool", ["x"], ["a"], kernel_shape=[1, 3], strides=[3, 3], ceil_mode=1)
    nodes = [pool, m.node("Tanh", ["a"], ["b"]), m.node("Add", ["b", "c"], ["y"])]
    constant = np.linspace(-1, 1, 6).astype(np.float32).reshape(6, 1, 1)
    data = m.model(nodes, {"x": (1, 6, 8, 5)}, {"y": None}, {"c": constant}, opset=13)
    ours = m.session(data, optimize=False, force=True)
    m.compare(ours, m.cpu(data, optimize=False), {"x": m.values(1, 6, 8, 5)})
    assert m.places(ours) == {"MaxPool": "cpu", "Tanh": "gpu", "Add": "gpu"}
