"""Tests the demo: its network, its model writer, and that it detects a wrong kernel."""

from __future__ import annotations

import ctypes
import platform
import re
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

import tflgpu_plugin
from conformance.models.tflite import Model
from tests.frontend.test_report_lines import ONE
from tflgpu_plugin import demo, kernels
from tflgpu_plugin.cli.commands import main
from tflgpu_plugin.demo import network, onnx_file
from tflgpu_plugin.frontend.reports import GPU, NodeReport, Report
from tflgpu_plugin.harness import flatbuffer, hosts, inputs, onnx, protobuf
from tflgpu_plugin.harness.agreement import Agreement, agree
from tflgpu_plugin.harness.compare import Comparison
from tflgpu_plugin.ir import Quantization
from tflgpu_plugin.runtime import adapter

schema = pytest.importorskip("ai_edge_litert.schema_py_generated")
needs_onnxruntime = pytest.mark.skipif(
    not find_spec("onnxruntime"), reason="onnxruntime is not installed"
)


@pytest.fixture(scope="module")
def model() -> bytes:
    return network.to_tflite(network.build())


def test_every_block_keeps_its_spread() -> None:
    spreads = network.build().spreads
    assert len(spreads) == 1 + len(network.BLOCKS)
    assert all(0.5 < spread < 2 for spread in spreads.values()), spreads


def test_network_is_seeded() -> None:
    first, second = network.build().layers, network.build().layers
    assert all(np.array_equal(a.weights, b.weights) for a, b in zip(first, second, strict=True))


def test_model_reads_back_with_the_public_schema(model: bytes) -> None:
    root = schema.ModelT.InitFromPackedBuf(model, 0)
    assert root.version == 3
    assert [code.version for code in root.operatorCodes] == [1] * 5
    graph = root.subgraphs[0]
    codes = [root.operatorCodes[op.opcodeIndex].builtinCode for op in graph.operators]
    names = {number: name for name, number in vars(schema.BuiltinOperator).items()}
    blocks = ["DEPTHWISE_CONV_2D", "CONV_2D"] * 13
    head = ["AVERAGE_POOL_2D", "CONV_2D", "RESHAPE", "SOFTMAX"]
    assert [names[code] for code in codes] == ["CONV_2D", *blocks, *head]
    stem = graph.operators[0].builtinOptions
    assert isinstance(stem, schema.Conv2DOptionsT)
    assert (stem.padding, stem.strideW, stem.strideH) == (schema.Padding.SAME, 2, 2)
    assert stem.fusedActivationFunction == schema.ActivationFunctionType.RELU6
    assert list(graph.tensors[graph.inputs[0]].shape) == [1, 224, 224, 3]


@pytest.mark.parametrize("name", hosts.installed())
def test_host_computes_what_numpy_does(model: bytes, name: str) -> None:
    probed = flatbuffer.with_outputs(model, network.probes(model))
    interpreter = hosts.host(name).interpreter(probed, "BUILTIN_REF")
    hosts.feed(interpreter, [network.picture()])
    interpreter.invoke()
    results = dict(
        zip(["probabilities", *network.build().spreads], hosts.outputs(interpreter), strict=False)
    )
    for block, spread in network.build().spreads.items():
        assert results[block].std() == pytest.approx(spread, rel=1e-3), block
    assert results["probabilities"].sum() == pytest.approx(1, abs=1e-5)


def test_files_that_are_no_models_get_a_sentence(model: bytes) -> None:
    for content in (b"", b"hello, this is text", model[:40], b"\xff" * 4 + b"TFL3" + b"\xff" * 64):
        with pytest.raises(ValueError, match=r"TFLite model"):
            flatbuffer.activations(content)


def test_picture_is_scaled(tmp_path: Path) -> None:
    path = tmp_path / "white.png"
    Image.new("RGB", (7, 5), (255, 0, 0)).save(path)
    detail: dict[str, Any] = {"name": "x", "shape": [1, 4, 6, 3], "dtype": np.float32}
    (floats,) = inputs.make([detail], inputs.Given(path, 127.5, 127.5))
    assert floats.shape == (1, 4, 6, 3)
    assert floats[0, 0, 0].tolist() == [1, -1, -1]
    (whole,) = inputs.make([detail | {"dtype": np.int8}], inputs.Given(path, 127.5, 127.5))
    assert whole[0, 0, 0].tolist() == [127, -128, -128]


def test_bad_inputs_get_a_sentence(tmp_path: Path) -> None:
    text = tmp_path / "text.jpg"
    text.write_text("no picture")
    detail: dict[str, Any] = {"name": "x", "shape": [1, 4, 6, 3], "dtype": np.float32}
    with pytest.raises(inputs.BadInput, match=r"as a picture .pillow does not know"):
        inputs.make([detail], inputs.Given(text, 127.5, 127.5))
    with pytest.raises(inputs.BadInput, match="takes no picture"):
        inputs.make([detail | {"shape": [1, 10]}], inputs.Given(text, 127.5, 127.5))
    np.save(tmp_path / "x.npy", np.zeros((1, 4, 6, 3), np.float32))
    both = inputs.Given(text, files={"x": tmp_path / "x.npy"})
    with pytest.raises(inputs.BadInput, match="The input x, which takes a picture, has its values"):
        inputs.make([detail | {"open": (1, 4, 6, 3)}], both)
    shaped, filed = inputs.Given(shapes={"x": (1,)}), inputs.Given(files={"x": text})
    for given, labels in ((inputs.Given(), _labels(tmp_path)), *(
        (one, None) for one in (shaped, filed, inputs.Given(text))
    )):  # fmt: skip
        with pytest.raises(inputs.BadInput, match="Inputs and labels need a model"):
            demo.run(demo.Request(given=given, labels=labels))


def _labels(folder: Path) -> Path:
    path = folder / "labels.txt"
    path.write_text("cat\ndog\n")
    return path


def test_labels_may_leave_out_the_background() -> None:
    assert inputs.top(np.array([0.1, 0.7, 0.2]), ["cat", "dog"], 2) == [("cat", 0.7), ("dog", 0.2)]
    assert inputs.top(np.array([0.1, 0.9]), ["cat", "dog"], 1) == [("dog", 0.9)]
    assert inputs.top(np.array([0.1, 0.9]), None, 1) == [("class 1", 0.9)]


def test_labels_are_for_one_score_per_class() -> None:
    """Labels are not applied to boxes, pixels and texts."""
    for shape in ((1, 3), (1, 2), (1, 9, 1), (3,)):
        assert inputs.are_scores(np.zeros(shape), 3), shape
    for shape in ((), (1,), (1, 4, 4), (2, 3)):
        assert not inputs.are_scores(np.zeros(shape), 3), shape
    assert not inputs.are_scores(np.array(["a", "b", "c"]), 3)
    found = replace(_comparison(Agreement("x", 0, 1, 0.1)), outputs=[np.ones((1, 4, 4))])
    assert demo.class_scores(found.outputs, ["a", "b"]) is None
    scores = [np.ones((1, 2), np.uint8), np.array([[0.1, 0.9]])]
    outputs = [*found.outputs, *scores]
    assert demo.class_scores(outputs, ["a", "b"]) is outputs[-1]


def test_labels_of_another_model_are_said(tmp_path: Path) -> None:
    scores = np.zeros((1, 4), np.float32)
    for names in (["a", "b", "c", "d"], ["a", "b", "c"]):
        assert inputs.unlabelled(scores, names) is None
    assert str(inputs.unlabelled(scores, ["a", "b"])).startswith("The file has 2 labels for 4 cl")
    path = tmp_path / "none.txt"
    path.write_text("\n \n")
    with pytest.raises(inputs.BadInput, match=r"none\.txt has no labels"):
        inputs.labels(path)


def test_agreement_rejects_nan_and_other_shapes() -> None:
    one = np.ones(3, np.float32)

    def compared(ours: Any) -> Agreement:
        return agree(["x"], [one], [one], [ours])[0]

    assert compared(one).ok
    assert not compared(np.array([1, np.nan, 1], np.float32)).ok
    assert not compared(np.ones(4, np.float32)).ok
    assert not compared(one * np.float32(1.001)).ok


def test_padding_sets_no_tolerance() -> None:
    """Masks and infinities do not either; equal infinities and NaN on both sides count as
    agreement."""
    most, nan, inf = np.finfo(np.float32).max, np.nan, np.inf

    def ok(expected: Any, got: Any, other: Any = None, kind: Any = np.float32) -> bool:
        other = expected if other is None else other
        arrays = ([np.array(values, kind)] for values in (expected, other, got))
        return agree(["x"], *arrays)[0].ok

    for pad in (-most, most, -inf, inf, nan):
        assert ok([pad, 1, 2], [pad, 1, 2])
        assert not ok([pad, 1, 2], [pad, 0, 0])
        assert not ok([pad, 1, 2], [0, 1, 2])
        assert not ok([0, 1, 2], [pad, 1, 2])
        assert not ok([pad, 1, 2], [pad, 0, 0], [0, 1, 2])  # the host's kernels pad otherwise
        assert not ok([0, 1, 2], [0, 1, 9], [pad, 1, 2])
    assert not ok([inf, 1], [-inf, 1])
    assert ok([-65504, 1], [-65504, 1], kind=np.float16)
    assert not ok([-65504, 1], [-65504, 0], kind=np.float16)
    assert not ok([-most, 1], [-most, 0], kind=np.float64)
    assert not ok([[1, 2]], [1, 2], [1, 2])
    assert ok([nan, nan], [nan, nan]) and ok([], [])


@pytest.mark.adapter
@pytest.mark.parametrize("name", hosts.installed())
def test_demo_agrees(name: str) -> None:
    result = demo.run(demo.Request(runs=1, host=name))
    assert result.ok, result.as_json()
    assert result.as_json()["nodes_on_gpu"] == 31
    assert result.as_json()["partitions"] == 1


@pytest.mark.adapter
@needs_onnxruntime
def test_both_hosts_use_the_same_kernels() -> None:
    result = demo.run(demo.Request(runs=1))
    found = result.as_json()["onnxruntime"]
    assert found["agrees"], found
    assert (found["nodes_on_gpu"], found["nodes"], found["partitions"]) == (58, 58, 1)
    assert [tensor["name"] for tensor in found["tensors"]] == ["logits", "probabilities"]
    dense = ("conv", "depthwise", "fully_connected", "reduce", "softmax")
    assert set(dense) <= {name.rpartition("-")[0] for name in found["shared_kernels"]}


def test_onnx_model_passes_the_public_checker() -> None:
    public = pytest.importorskip("onnx")
    model = public.load_from_string(onnx_file.to_onnx(network.build()))
    public.checker.check_model(model, full_check=True)
    assert len(model.graph.node) == 58
    assert model.graph.node[0].attribute[2].ints[:] == [0, 0, 1, 1]  # TFLite's SAME padding


def _comparison(agreement: Agreement, nodes: int = 1) -> Comparison:
    placed = tuple(NodeReport(k, "ADD", "", GPU, None) for k in range(nodes))
    report = Report(None, placed, (replace(ONE, runs=1),))
    return Comparison("host 1", "cpu", [agreement], [np.ones(3)], report, 1, 1)


def test_without_a_host_one_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def register() -> None:
        raise ImportError("onnxruntime is not installed: pip install it.")

    monkeypatch.setattr(tflgpu_plugin, "register", register)
    fine = _comparison(Agreement("x", 0, 1, 0.1))
    monkeypatch.setattr(demo, "compare", lambda *arguments: fine)
    result = demo.run(demo.Request())
    assert result.ok and result.comparisons == [fine]
    (line,) = result.missing_lines()
    assert line == "ONNX Runtime is left out: onnxruntime is not installed: pip install it."
    assert result.as_json()["onnxruntime"] == {"missing": line.partition(": ")[2]}
    monkeypatch.setattr(hosts, "PACKAGES", {})
    with pytest.raises(hosts.NoHost, match=r"No TFLite host .*\[tflite\]'\. onnxruntime is not"):
        demo.run(demo.Request())


def test_a_disagreement_in_either_host_counts() -> None:
    right, wrong = (_comparison(Agreement("x", d, 1, 0.1)) for d in (0, 1))
    idle = _comparison(Agreement("x", 0, 1, 0.1), nodes=0)
    for tflite, other in ((right, wrong), (wrong, right), (None, wrong), (right, idle)):
        assert not demo.Result("x", tflite, other, []).ok
    assert demo.Result("x", right, right, []).ok


@pytest.mark.adapter
@needs_onnxruntime
def test_without_a_tflite_host_the_other_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "PACKAGES", {})
    result = demo.run(demo.Request(runs=1))
    assert result.ok and result.tflite is None and result.onnx
    assert result.missing_lines() == [f"TensorFlow Lite is left out: {hosts.INSTALL}"]
    assert result.as_json()["host"].startswith("onnxruntime")
    assert result.lines(result.onnx)[0].startswith("adapter")


@pytest.mark.adapter
@needs_onnxruntime
def test_an_onnx_model_of_the_user(tmp_path: Path) -> None:
    """The comparison includes intermediate tensors, an image for an input with dynamic extents, and
    labels."""
    public = pytest.importorskip("onnx")
    proto = public.load_from_string(onnx_file.to_onnx(network.build()))
    for dim in (0, 2, 3):
        proto.graph.input[0].type.tensor_type.shape.dim[dim].dim_param = f"n{dim}"
    path, image = tmp_path / "x.onnx", tmp_path / "white.png"
    path.write_bytes(proto.SerializeToString())
    Image.new("RGB", (7, 5), (255, 0, 0)).save(image)
    result = demo.run(demo.Request(path, inputs.Given(image), _labels(tmp_path), runs=1))
    assert result.ok and result.tflite is None and not result.missing, result.as_json()
    found = result.as_json()
    assert (found["nodes_on_gpu"], found["model"]) == (58, "x.onnx")
    names = [tensor["name"] for tensor in found["tensors"]]
    assert names[-2:] == ["logits", "probabilities"] and 10 < len(names) <= 26
    assert len(result.classes) == 5
    assert result.onnx and "2 labels for 1001 classes" in "\n".join(result.lines(result.onnx))
    many = tmp_path / "many.txt"
    many.write_text("label\n" * 2000)
    with pytest.raises(inputs.BadInput, match="2000 labels, and no output of the model has one sc"):
        demo.run(demo.Request(path, inputs.Given(image), many, runs=1))
    with pytest.raises(inputs.BadInput, match="does not read ONNX files"):
        demo.run(demo.Request(path, host="tflite-runtime"))


@pytest.mark.adapter
@needs_onnxruntime
def test_weights_beside_an_onnx_model(tmp_path: Path) -> None:
    public = pytest.importorskip("onnx")
    proto = public.load_from_string(onnx_file.to_onnx(network.build()))
    public.save_model(
        proto, tmp_path / "x.onnx", save_as_external_data=True, location="x.data", size_threshold=99
    )
    result = demo.run(demo.Request(tmp_path / "x.onnx", runs=1))
    assert result.ok and result.as_json()["nodes_on_gpu"] == 58


@needs_onnxruntime
def test_a_file_that_is_no_onnx_model_gets_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "x.onnx"
    path.write_bytes(b"hello, this is text")
    with pytest.raises(inputs.BadInput, match=r"onnxruntime cannot read .*x\.onnx"):
        demo.run(demo.Request(path))
    with pytest.raises(inputs.BadInput, match="cannot be read"):
        demo.run(demo.Request(tmp_path / "y.onnx"))
    with pytest.raises(inputs.BadInput, match="damaged or cut short; fetch the file again"):
        demo.run(demo.Request(path))
    with pytest.raises(
        inputs.BadInput, match=r"There is no host bla\. The hosts are: tflite-runtime"
    ):
        demo.run(demo.Request(path, host="bla"))


def test_an_onnx_file_is_read_without_onnx() -> None:
    content = onnx_file.to_onnx(network.build())
    names = protobuf.computed(content)
    assert len(names) == 58 and names[-2:] == ["logits", "probabilities"]
    public = pytest.importorskip("onnx")
    more = public.load_from_string(protobuf.with_outputs(content, names[:2]))
    assert [value.name for value in more.graph.output][2:] == names[:2]
    assert [node.output[0] for node in more.graph.node] == names
    for broken in (content[:1000], b"\x07"):
        with pytest.raises(ValueError, match="ONNX model"):
            protobuf.computed(broken)


def test_a_picture_for_channels_first(tmp_path: Path) -> None:
    path = tmp_path / "wide.png"
    Image.new("RGB", (7, 5), (255, 0, 0)).save(path)
    detail: dict[str, Any] = {"name": "x", "shape": [1, 3, 4, 6], "dtype": np.float32}
    (floats,) = inputs.make([detail], inputs.Given(path, 127.5, 127.5))
    assert floats.shape == (1, 3, 4, 6)
    assert floats[0, :, 2, 2].tolist() == [1, -1, -1]


def _classifier(folder: Path, eight_bits: bool) -> Path:
    """Writes a model of three scores, the mean of each channel of a picture."""
    kind, path = "i8" if eight_bits else "f32", folder / "means.tflite"
    model = Model()
    size = {"filterHeight": 8, "filterWidth": 8, "strideH": 8, "strideW": 8}
    pool = {"op": "AVERAGE_POOL_2D", "options_type": "Pool2DOptions", "dtype": kind, "version": 2}
    x = model.input("x", (1, 8, 8, 3), kind)
    means = model.op(inputs=[x], options={"padding": "VALID"} | size, shape=(1, 1, 1, 3), **pool)
    shape = model.constant(np.array([1, 3], np.int32))
    model.output(model.op("RESHAPE", [means, shape], shape=(1, 3), dtype=kind))
    for tensor in model.tensors:
        if tensor.dtype == "i8":
            tensor.quantization = Quantization((1 / 256,), (-128,))
    path.write_bytes(model.to_bytes())
    return path


@pytest.mark.adapter
@pytest.mark.skipif(not hosts.installed(), reason="no TFLite host is installed")
@pytest.mark.parametrize("eight_bits", [False, True])
def test_scores_are_real_numbers(eight_bits: bool, tmp_path: Path) -> None:
    """A float picture from -1 to 1 is a guess, until the user names a scale."""
    model, image, names = _classifier(tmp_path, eight_bits), tmp_path / "x.png", ["r", "g", "b"]
    Image.new("RGB", (8, 8), (204, 51, 102)).save(image)
    (tmp_path / "names.txt").write_text("\n".join(names))
    given = inputs.Given(image, 127.5, 127.5)
    request = demo.Request(model, given, tmp_path / "names.txt", runs=1)
    result = demo.run(request)
    assert result.ok and result.guessed == (not eight_bits)
    wanted = {"r": 204, "b": 102, "g": 51}
    scaled = {k: v / 256 if eight_bits else v / 127.5 - 1 for k, v in wanted.items()}
    assert dict(result.classes) == pytest.approx(scaled) and [*dict(result.classes)] == [*wanted]
    for more in ({"named": True}, {"given": inputs.Given()}):
        assert not demo.run(replace(request, **more)).guessed


@pytest.mark.adapter
@pytest.mark.skipif(not hosts.installed(), reason="no TFLite host is installed")
@pytest.mark.parametrize("words", [(), ("--mean", "127.5"), ("--std", "255")])
def test_a_guess_of_the_scale_is_said(words: tuple[str, ...], tmp_path: Path) -> None:
    image = tmp_path / "x.png"
    Image.new("RGB", (8, 8), (204, 51, 102)).save(image)
    model = str(_classifier(tmp_path, False))
    found = CliRunner().invoke(main, ["demo", model, "--image", str(image), "--runs", "1", *words])
    assert found.exit_code == 0, found.output
    said = "preprocessing of this model is unknown" in found.output
    assert said == ("--mean and --std name it" in found.output) == (not words)


@pytest.mark.adapter
def test_outputs_of_onnx_are_as_they_are() -> None:
    outputs = [np.arange(3, dtype=np.uint8)]
    assert onnx.OnnxModel(onnx.File(b""), {}).real(outputs) == outputs


@pytest.mark.adapter
@pytest.mark.skipif(not hosts.installed(), reason="no TFLite host is installed")
def test_a_software_adapter_is_said_once(tmp_path: Path) -> None:
    words = ["-m", "tflgpu_plugin", "demo", "--runs", "1", _classifier(tmp_path, False)]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    wanted = int(adapter.select().software)
    assert (done.stdout + done.stderr).count("software adapter") == wanted


KERNELS = ("conv", "depthwise", "fully_connected", "reduce", "softmax", "unpack")
ONLY_TFLITE = ("unpack",)  # brings out the tensors in between, which are compared there only


def _damage(text: str) -> str:
    """Returns WGSL whose results are 2 % too large or, where they are raw words, have a flipped
    bit."""
    text = text.replace("var v = value;", "var v = value * 1.02;")
    text = re.sub(r"(fn put_\w+\(i: u32, v: u32\).*) = v;", r"\1 = v ^ 0x20000u;", text)
    return re.sub(r"(fn put_\w+\(i: u32, v: (?:vec..|f32)\).*) = v;", r"\1 = v * 1.02;", text)


@pytest.mark.adapter
@pytest.mark.parametrize("kernel", KERNELS)
def test_demo_notices_a_damaged_kernel(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, render = set[str](), kernels.render

    def damaged(name: str, *arguments: Any, **more: Any) -> str:
        seen.add(name)
        text = render(name, *arguments, **more)
        if name != kernel:
            return text
        assert _damage(text) != text
        return _damage(text)

    monkeypatch.setattr(kernels, "render", damaged)
    result = demo.run(demo.Request(runs=1))
    assert result.tflite
    assert result.tflite.report.count("gpu") == 31, "the damage must not keep nodes off the GPU"
    assert not result.tflite.ok and not result.ok
    if find_spec("onnxruntime"):
        assert result.onnx and result.onnx.report.count("gpu") == 58
        assert result.onnx.ok == (kernel in ONLY_TFLITE)
    assert seen <= set(KERNELS), "the demo uses a kernel that this test does not damage"


def test_a_host_does_not_change_how_numbers_are_rounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host must not change the rounding mode or flush denormals when it is loaded, as
    tflite-runtime does on ARM; here a module that sets rounding downward stands for it."""
    try:
        libm = ctypes.CDLL("libm.so.6")
    except OSError:
        pytest.skip("rounding is set through glibc")
    down = 0x800000 if platform.machine() == "aarch64" else 0x400
    (tmp_path / "rounds_down.py").write_text(
        f"import ctypes\nassert not ctypes.CDLL('libm.so.6').fesetround({down})\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    before = libm.fegetround()
    try:
        assert hosts.import_host("rounds_down").__name__ == "rounds_down"
        assert libm.fegetround() == before != down
    finally:
        libm.fesetround(before)
