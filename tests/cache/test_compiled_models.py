"""Tests compiled ONNX models (EPContext): written in every way, read back without the original, and
with a reason if they cannot be used. Answers are compared with the CPU provider on the original."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from conformance.models import decoders
from tests.providers.onnxruntime.test_ort_models import control_flow
from tests.providers.onnxruntime.test_ort_versions import VERSIONS, run_in
from tests.support import onnx_models as m
from tests.support.stored import changed
from tests.support.subprocesses import ROOT, run_python
from tflgpu_plugin import engine, ops
from tflgpu_plugin.harness import onnx

pytestmark = [
    pytest.mark.adapter,
    pytest.mark.skipif(
        not (importlib.util.find_spec("onnxruntime") and importlib.util.find_spec("onnx")),
        reason="onnxruntime and onnx are not installed: pip install -e .[onnxruntime,conformance]",
    ),
]


def network(size: int = 16, default: bool = False) -> bytes:
    """Returns a model of two convolutions of fixed shapes and an operator for the CPU between them;
    with `default`, its bias is an input with a default that the user may replace."""
    chance = np.random.default_rng(3)
    constants = {
        "w1": chance.uniform(-1, 1, (4, 3, 3, 3)).astype(np.float32),
        "b1": chance.uniform(-1, 1, 4).astype(np.float32),
        "w2": chance.uniform(-1, 1, (5, 4, 3, 3)).astype(np.float32),
    }
    nodes = [
        m.node("Conv", ["x", "w1", "b1"], ["a"], pads=[1, 1, 1, 1]),
        m.node("Relu", ["a"], ["b"]),
        m.node("Det", ["b"], ["c"]),
        m.node("Conv", ["b", "w2"], ["y"]),
    ]
    inputs: dict[str, Any] = {"x": [1, 3, size, size]}
    if default:
        inputs["b1"] = [4]
    return m.model(nodes, inputs, {"y": [1, 5, size - 2, size - 2], "c": [1, 4]}, constants)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model.onnx").write_bytes(network())
    return tmp_path


def step(name: str, folder: Path, version: str | None = None) -> str:
    """Returns the output of tests/support/compiled_models.py, in this or another onnxruntime."""
    arguments = ["-m", "tests.support.compiled_models", name, str(folder)]
    if version:
        return run_in(version, *arguments)
    command = [sys.executable, "-X", "faulthandler", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _contexts(path: Path) -> list[dict[str, Any]]:
    """Returns the attributes of the nodes that a compiled model has for our partitions."""
    onnx = pytest.importorskip("onnx")
    nodes = [n for n in onnx.load(path).graph.node if n.op_type == "EPContext"]
    return [{a.name: onnx.helper.get_attribute_value(a) for a in n.attribute} for n in nodes]


def test_every_way_of_compiling_and_loading(folder: Path) -> None:
    step("compile", folder)
    assert len(list(folder.glob("*_ctx.onnx"))) == 7
    (main,) = _contexts(folder / "embedded_ctx.onnx")[:1]
    assert main["ep_sdk_version"].decode() == tflgpu_plugin.__version__
    assert main["source"].decode() == tflgpu_plugin.get_ep_name()
    names = step("load", folder).split()
    assert {"embedded_ctx.onnx", "model_ctx.onnx", "memoryFalse_ctx.onnx"} <= set(names)
    assert (folder / "beside_ctx.onnx").stat().st_size < 5000


@pytest.mark.parametrize("version", VERSIONS)
def test_other_versions_of_onnxruntime(folder: Path, version: str) -> None:
    assert version in step("compile", folder, version)
    assert version in step("load", folder, version)


def compiled(folder: Path, mode: str = "1", data: bytes | None = None, **given: str) -> Path:
    """Returns the path of the model, compiled in this process."""
    if data:
        (folder / "model.onnx").write_bytes(data)
    path = folder / "made_ctx.onnx"
    entries = {"enable": "1", "file_path": str(path), "embed_mode": mode}
    settings = m.quiet(**{f"ep__context_{name}": value for name, value in entries.items()})
    onnx.opened(folder / "model.onnx", settings, given)
    return path


def spoiled(path: Path, spoil: Callable[[bytes], bytes]) -> bytes:
    """Returns the compiled model with other bytes in the first node of our provider."""
    import onnx

    model = onnx.load(path)
    node = next(node for node in model.graph.node if node.op_type == "EPContext")
    attribute = next(a for a in node.attribute if a.name == "ep_cache_context")
    attribute.s = spoil(attribute.s)
    return bytes(model.SerializeToString())


def other_key(part: str) -> Callable[[bytes], bytes]:
    return lambda data: changed(data, lambda header: header["key"].update({part: "other"}))


def other_ports(data: bytes) -> bytes:
    def other(header: Any) -> None:
        header["extra"]["interface"][:2] = [["none"], ["none"]]  # ports, inputs

    return changed(data, other)


@pytest.mark.parametrize(
    "spoil, sentence",
    [
        (other_key("plugin"), "another version of this plugin"),
        (other_key("adapter"), "another adapter"),
        (other_key("driver"), "another driver"),
        (lambda data: data[:-9], "truncated"),
        (lambda data: data[:-9] + b"\1" + data[-8:], "checksum"),
        (lambda data: b"foreign", "truncated"),
        (other_ports, "not that of an EPContext node"),
    ],
    ids=["version", "adapter", "driver", "truncated", "flipped", "foreign", "ports"],
)
def test_why_a_compiled_model_cannot_be_used(folder: Path, spoil: Any, sentence: str) -> None:
    m.session(network())  # registers
    data = spoiled(compiled(folder), spoil)
    with pytest.raises(Exception, match=sentence) as raised:
        m.session(data)
    assert "Compile the original model again" in str(raised.value)


@pytest.mark.parametrize("refused", [",".join(ops.rows()["conv_2d"].forms), "relu"])
def test_a_compiled_model_does_not_run_what_is_refused(folder: Path, refused: str) -> None:
    """The session that loads it may refuse a form, or an op that may be fused."""
    m.session(network())
    path = str(compiled(folder))
    with pytest.raises(Exception, match="which the option without or TFLGPU_WITHOUT refuses"):
        m.session(path, without=refused)
    m.session(path, without="attention_tiles")  # which it does not use
    Path(path).unlink()
    again = m.session(str(compiled(folder, without="window,relu")), without="relu,window")
    tflgpu_plugin.assert_used(again)


def test_what_was_refused_while_compiling_is_not_used_for_other_shapes(folder: Path) -> None:
    m.session(m.convolutions())  # registers
    path = compiled(folder, data=m.convolutions(), without="rows_product")
    with engine.watch() as built:
        loaded = m.session(path.read_bytes())
        x = np.ones((1, 3, 17, 16), np.float32)
        m.compare(loaded, m.cpu(m.convolutions()), {"x": x})
    forms = {each.form for _, instance in built for each in instance.plan.dispatches}
    assert forms and "rows_product" not in forms
    with engine.watch() as built:
        m.session(m.convolutions()).run(None, {"x": x})
    assert any(d.form == "rows_product" for _, i in built for d in i.plan.dispatches)


def test_a_file_is_looked_for_beside_the_model_only(folder: Path) -> None:
    m.session(network())
    path = compiled(folder, "0")
    for name, sentence in (("../made.bin", "points outside"), ("/etc/passwd", "points outside"),
                           ("absent.bin", "No such file")):  # fmt: skip
        other = folder / "other_ctx.onnx"
        other.write_bytes(spoiled(path, lambda data, name=name: name.encode()))
        with pytest.raises(Exception, match=sentence):
            m.session(str(other))
    with pytest.raises(Exception, match="loaded from memory"):
        m.session(path.read_bytes())


def test_a_default_that_was_planned_must_be_the_same(folder: Path) -> None:
    """onnxruntime turns an input with a default into a constant of the compiled model."""
    import onnx

    m.session(network())
    data = network(default=True)
    path = compiled(folder, "1", data)
    x = np.random.default_rng(2).uniform(-1, 1, (1, 3, 16, 16)).astype(np.float32)
    m.compare(m.session(str(path)), m.cpu(data), {"x": x})
    model = onnx.load(path)
    bias = next(value for value in model.graph.initializer if value.name == "b1")
    shape = onnx.helper.make_tensor_value_info("b1", onnx.TensorProto.FLOAT, [4])
    model.graph.input.append(shape)  # as others may write it
    again = m.session(model.SerializeToString())
    m.compare(again, m.cpu(data), {"x": x})
    other = np.ones(4, np.float32)
    m.compare(again, m.cpu(data), {"x": x, "b1": other})  # on the host's kernels
    assert tflgpu_plugin.report(again).host_runs == 1
    bias.CopyFrom(onnx.numpy_helper.from_array(other, "b1"))
    with pytest.raises(Exception, match="not the one that it was compiled with"):
        m.session(model.SerializeToString())


def test_open_extents_are_planned_anew_for_each_run(folder: Path) -> None:
    """The model is loaded in a new process, which knows nothing of the original."""
    m.session(network())
    compiled(folder, "1", m.convolutions())
    (folder / "away.onnx").write_bytes((folder / "model.onnx").read_bytes())
    (folder / "model.onnx").unlink()
    done = run_python(f"""
import numpy as np, tflgpu_plugin
from tests.support import onnx_models as m
ours = m.session({str(folder / "made_ctx.onnx")!r})
theirs = m.cpu(m.convolutions())
for shape in ((1, 3, 16, 16), (2, 3, 9, 20), (5, 3, 40, 31), (1, 3, 16, 16)):
    x = np.random.default_rng(2).uniform(-1, 1, shape).astype(np.float32)
    m.compare(ours, theirs, {{"x": x}})
report = tflgpu_plugin.report(ours)
assert report.count("gpu") == 1 == len(report.nodes), report
print(report.partitions[0].runs)
""")
    assert done.stdout.split() == ["4"]


@pytest.mark.parametrize("mode", ["0", "1"])
def test_open_extents_are_symbols(folder: Path, mode: str) -> None:
    """Shapes that a template accepts are not planned: here, batches and sizes of pictures."""
    m.session(network())
    compiled(folder, mode, m.convolutions())
    done = run_python(f"""
import numpy as np
from tests.support import cached_run, onnx_models as m
from tflgpu_plugin.compile import compiler
cached_run.count(compiler, "assembly")
ours, theirs = m.session({str(folder / "made_ctx.onnx")!r}), m.cpu(m.convolutions())
for shape in ((1, 3, 200, 150), (2, 3, 120, 200), (4, 3, 300, 290), (1, 3, 64, 60)):
    x = np.random.default_rng(2).uniform(-1, 1, shape).astype(np.float32)
    m.compare(ours, theirs, {{"x": x}})
print(cached_run.counts["assembly"])
""")
    assert done.stdout.split() == ["0"]


def test_a_decoder_is_compiled_for_steps_at_every_length(folder: Path) -> None:
    """Steps of one token and of several, with a cache that has grown."""
    m.session(network())
    size = decoders.Size(layers=1)
    path = compiled(folder, "1", decoders.gpt(size))
    done = run_python(f"""
import numpy as np
from conformance.models import decoders
from tests.support import cached_run, onnx_models as m
from tflgpu_plugin.compile import compiler
cached_run.count(compiler, "assembly")
size, chance = decoders.Size(layers=1), np.random.default_rng(2)
ours, theirs = m.session({str(path)!r}), m.cpu(decoders.gpt(size))
for tokens, past in ((1, 5), (1, 6), (60, 30), (1, 90), (50, 48), (1, 200)):
    cache = [chance.normal(size=held.shape).astype(np.float32)
             for held in decoders.empty(size, 1, past)]
    ids = chance.integers(0, 9, (1, tokens))
    mask = np.ones((1, past + tokens), np.int64)
    m.compare(ours, theirs, decoders.fed(ids, mask, cache), 1e-4)
print(cached_run.counts["assembly"])
""")
    assert done.stdout.split() == ["0"]


@pytest.mark.parametrize("which", [-1, -2])
def test_spoiled_templates_of_a_compiled_model_are_not_used(folder: Path, which: int) -> None:
    """Any number among them may be another; then the shapes are planned from the nodes."""
    code = f"""
import random
from pathlib import Path
import numpy as np
from tests.cache import test_compiled_models as t
from tests.support import onnx_models as m, stored as s
m.session(t.network())
path = t.compiled(Path({str(folder)!r}), "1", m.convolutions())
theirs, chance, outcomes = m.cpu(m.convolutions()), random.Random({which}), set()
x = np.random.default_rng(2).uniform(-1, 1, (1, 3, 210, 130)).astype(np.float32)
def spoil(header):
    template = header["extra"]["template"]
    holder, key = chance.choice([*s.numbers(template[0]), *s.numbers(template[1]),
                                 *s.numbers(template[2])])
    holder[key] = chance.choice([None, -1, 7, "other", [], 1 << 40, 1 << 53, [3, -1]])
for _ in range(60):
    data = t.spoiled(path, lambda data: s.changed(data, spoil, {which}))
    session = m.session(data)
    try:
        session.run(None, {{"x": x}})
        outcomes.add("ran")
    except Exception as error:
        outcomes.add("failed")
print(sorted(outcomes))
"""
    assert "ran" in run_python(code).stdout


def test_bodies_of_control_flow_stay_as_they_are(folder: Path) -> None:
    m.session(network())
    data = control_flow()
    session = m.session(str(compiled(folder, "1", data, force="1")), force=1)
    for sign in (-1, 1):
        x = sign * np.abs(np.random.default_rng(2).uniform(0.1, 1, (2, 3)).astype(np.float32))
        m.compare(session, m.cpu(data), {"x": x})
    found = {node.op for node in tflgpu_plugin.report(session).nodes if node.where == "gpu"}
    assert {"com.microsoft:EPContext", "Tanh", "Exp"} <= found


def test_what_is_wrong_with_a_part_is_told(folder: Path) -> None:
    """Any number or text in the data for planning other shapes may be damaged: the session or a run
    fails with a sentence, or nothing happens; the process survives."""
    code = f"""
import json, random
from pathlib import Path
import numpy as np
from tests.cache import test_compiled_models as t
from tests.support import onnx_models as m, stored as s
m.session(t.network())
path = t.compiled(Path({str(folder)!r}), "1", m.convolutions())
chance = random.Random(1)
outcomes = set()
def places(value):
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in list(items):
        yield value, key
        if isinstance(item, (dict, list)):
            yield from places(item)
def spoil(header):
    found = list(places(header["extra"]))
    holder, key = chance.choice(found)
    holder[key] = chance.choice([None, -1, 7, "other", [], {{}}, 1 << 40, [3, -1]])
for _ in range(60):
    data = t.spoiled(path, lambda data: s.changed(data, spoil))
    try:
        session = m.session(data)
    except Exception as error:
        outcomes.add("refused")
        assert "Compile the original model again" in str(error), error
        continue
    try:
        session.run(None, {{"x": np.ones((2, 3, 9, 20), np.float32)}})
        outcomes.add("ran")
    except Exception:
        outcomes.add("failed")
print(sorted(outcomes))
"""
    assert "refused" in run_python(code).stdout


def test_with_a_cache_the_compiled_model_is_the_same(folder: Path) -> None:
    """A plan loaded from serialization_dir no longer has its weights; they are packed again."""
    m.session(network())
    for name in ("first", "second"):
        path = compiled(folder, serialization_dir=str(folder / "kept"))
        path.rename(folder / f"{name}_ctx.onnx")
    x = np.random.default_rng(2).uniform(-1, 1, (1, 3, 16, 16)).astype(np.float32)
    m.compare(m.session(str(folder / "second_ctx.onnx")), m.cpu(network()), {"x": x})
