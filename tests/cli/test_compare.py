"""`tflgpu compare` finds a fault that is planted into a kernel, and a way around it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from conformance import host as hosts
from conformance.cases import all_cases
from conformance.models.tflite import build
from tests.support.onnx_models import model, node
from tflgpu_plugin import kernels
from tflgpu_plugin.cli.commands import main
from tflgpu_plugin.cli.compare import OUTPUTS_AGREE, Found
from tflgpu_plugin.harness import flatbuffer
from tflgpu_plugin.harness.bisect import Bisection

pytestmark = pytest.mark.adapter
pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

Fault = Callable[[str, Any], bool]


def onnx(path: Path) -> Path:
    random = np.random.default_rng(0)
    constants = {
        "w": random.normal(size=(8, 3, 3, 3)).astype("f4"),
        "g": random.normal(size=(8, 5)).astype("f4"),
    }
    nodes = [
        node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        node("Relu", ["a"], ["b"]),
        node("MaxPool", ["b"], ["c"], kernel_shape=[2, 2], strides=[2, 2]),
        node("GlobalAveragePool", ["c"], ["d"]),
        node("Flatten", ["d"], ["e"]),
        node("MatMul", ["e", "g"], ["f"]),
        node("Softmax", ["f"], ["y"]),
    ]
    file = path / "network.onnx"
    file.write_bytes(model(nodes, {"x": ("n", 3, "h", 16)}, {"y": ("n", 5)}, constants))
    return file


def quantized(path: Path) -> Path:
    """Writes a network whose convolution takes and returns 8 bits on the GPU. All of its sums are
    exact."""
    random = np.random.default_rng(0)
    constants = {
        "s": np.float32(1 / 64),
        "z": np.uint8(128),
        "w": random.integers(-9, 9, (8, 3, 3, 3)).astype("i1"),
        "t": np.float32(1 / 8),
        "o": np.int8(0),
        "u": np.float32(1 / 4),
        "p": np.uint8(0),
    }
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["a"]),
        node("DequantizeLinear", ["a", "s", "z"], ["b"]),
        node("DequantizeLinear", ["w", "t", "o"], ["v"]),
        node("Conv", ["b", "v"], ["c"], pads=[1, 1, 1, 1]),
        node("Relu", ["c"], ["d"]),
        node("QuantizeLinear", ["d", "u", "p"], ["e"]),
        node("DequantizeLinear", ["e", "u", "p"], ["f"]),
        node("MaxPool", ["f"], ["y"], kernel_shape=[2, 2], strides=[2, 2]),
    ]
    file = path / "quantized.onnx"
    shapes: Any = {"x": (1, 3, 8, 16)}, {"y": (1, 8, 4, 8)}
    file.write_bytes(model(nodes, *shapes, constants))
    return file


def tflite(path: Path) -> Path:
    made = flatbuffer.Model()
    x = made.tensor("x", (1, 8, 8, 3))
    random = np.random.default_rng(1)
    weights = random.normal(size=(4, 3, 3, 3)).astype("f4")
    constants = [
        made.tensor("weights", weights.shape, weights),
        made.tensor("bias", (4,), np.ones(4, "f4")),
    ]
    conv, pool = made.tensor("conv", (1, 8, 8, 4)), made.tensor("pool", (1, 4, 4, 4))
    options = {"padding": flatbuffer.SAME, "stride_w": 1, "stride_h": 1}
    made.operator("CONV_2D", [x, *constants], [conv], **options)
    window = {"stride_w": 2, "stride_h": 2, "window_w": 2, "window_h": 2}
    made.operator("AVERAGE_POOL_2D", [conv], [pool], padding=flatbuffer.VALID, **window)
    flat = made.tensor("flat", (1, 64))
    shape = made.tensor("shape", (2,), np.array([1, -1], np.int32))
    made.operator("RESHAPE", [pool, shape], [flat])
    made.operator("SOFTMAX", [flat], [made.tensor("soft", (1, 64))], beta=1.0)
    file = path / "network.tflite"
    file.write_bytes(made.serialize([x], [flat + 2], "network"))
    return file


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> Callable[[Fault], None]:
    """Plants a fault into the kernels for which the function holds: each result is a quarter more
    than it should be."""

    def plant(wrong: Fault) -> None:
        true = kernels.render

        def render(kernel: str, *given: Any) -> str:
            text = true(kernel, *given)
            if not wrong(kernel, given[-1]):
                return text
            changed, count = re.subn(r"var v = value;", "var v = 1.25 * value;", text)
            assert count
            return changed

        monkeypatch.setattr(kernels, "render", render)

    return plant


def compare(*words: object) -> Result:
    return CliRunner().invoke(main, ["compare", *map(str, words)])


def found(status: int, *words: object) -> Any:
    result = compare(*words, "--json")
    assert result.exit_code == status, result.output
    return json.loads(result.stdout)


@pytest.mark.parametrize("write", [onnx, tflite])
def test_a_model_that_agrees(tmp_path: Path, write: Callable[[Path], Path]) -> None:
    if write is tflite and not hosts.installed():
        pytest.skip("no TFLite host")
    path = write(tmp_path)
    result = compare(path, "--bisect")
    assert result.exit_code == 0, result.output
    assert "The tensor agrees." in result.output
    assert "All of them agree" in result.output
    parts = found(0, path, "--bisect")
    assert parts["bisection"]["compared"] >= 3 and not parts["bisection"]["wrong"]


def test_tensors_that_passes_keep_in_8_bits(
    tmp_path: Path, planted: Callable[[Fault], None]
) -> None:
    """They are compared with the tensors of that type, not with what those stand for."""
    path = quantized(tmp_path)
    agreed = found(0, path, "--bisect")["bisection"]
    assert agreed["compared"] == 4 and not agreed["wrong"]  # x, a, e and y
    planted(lambda name, variant: name == "conv")
    (wrong,) = found(1, path, "--bisect")["bisection"]["wrong"]
    assert wrong["agreement"]["name"] == "e" and wrong["suspects"][-1]["kernel"] == "conv"


@pytest.mark.parametrize(
    ("kernel", "node"),
    [("conv", "Conv 0"), ("pool", "MaxPool 2"), ("reduce", "GlobalAveragePool 3"),
     ("fully_connected", "MatMul 5"), ("softmax", "Softmax 6")],
)  # fmt: skip
def test_the_first_wrong_launch_of_an_onnx_model(
    tmp_path: Path, planted: Callable[[Fault], None], kernel: str, node: str
) -> None:
    """Passes have moved the transposes around convolution and pooling."""
    planted(lambda name, variant: name == kernel)
    (wrong,) = found(1, onnx(tmp_path), "--bisect")["bisection"]["wrong"]
    (launch,) = wrong["suspects"]
    assert launch["kernel"] == kernel and node in launch["nodes"]
    if kernel != "softmax":  # a quarter more than all of its sums
        agreement = wrong["agreement"]
        assert agreement["difference"] == pytest.approx(0.25 * agreement["magnitude"], rel=1e-3)


@pytest.mark.skipif(not hosts.installed(), reason="no TFLite host")
@pytest.mark.parametrize(
    ("kernel", "node", "tensor"),
    [("conv", "CONV_2D 0", "conv"), ("pool", "AVERAGE_POOL_2D 1", "pool")],
)
def test_the_first_wrong_launch_of_a_tflite_model(
    tmp_path: Path, planted: Callable[[Fault], None], kernel: str, node: str, tensor: str
) -> None:
    planted(lambda name, variant: name == kernel)
    path = tflite(tmp_path)
    bisection = found(1, path, "--bisect")["bisection"]
    (wrong,) = bisection["wrong"]
    assert wrong["agreement"]["name"] == tensor
    assert wrong["suspects"][-1]["nodes"] == [node]
    assert [one["name"] for one in wrong["inputs"]] == (["conv"] if kernel == "pool" else [])
    text = " ".join(compare(path, "--bisect").output.split())
    count = "1 intermediate result" if kernel == "conv" else "2 intermediate results"
    assert f"Compared {count}; the model has {bisection['launches']} GPU launches in all." in text
    assert f"First wrong result in partition 1: {tensor}, which differs" in text
    assert f"kernel {kernel}" in text and node in text


def test_a_fault_that_the_outputs_hide(tmp_path: Path, planted: Callable[[Fault], None]) -> None:
    planted(lambda name, variant: name == "pool")
    pool = node("MaxPool", ["x"], ["a"], kernel_shape=[2, 2])
    nodes = [pool, node("Sub", ["a", "far"], ["b"]), node("Relu", ["b"], ["y"])]
    file = tmp_path / "hidden.onnx"
    shapes: Any = {"x": (1, 4, 8, 8)}, {"y": (1, 4, 7, 7)}
    file.write_bytes(model(nodes, *shapes, {"far": np.float32(1e6)}))
    (wrong,) = found(0, file, "--bisect")["bisection"]["wrong"]
    assert [one["kernel"] for one in wrong["suspects"]] == ["pool"]
    assert OUTPUTS_AGREE in " ".join(compare(file, "--bisect").output.split())


@pytest.mark.parametrize("write", [onnx, tflite])
def test_a_fault_is_found_at_other_shapes(
    tmp_path: Path, planted: Callable[[Fault], None], write: Callable[[Path], Path]
) -> None:
    if write is tflite and not hosts.installed():
        pytest.skip("no TFLite host")
    planted(lambda name, variant: name == "pool")
    shape = "x=2x3x10x16" if write is onnx else "x=1x10x8x3"
    (wrong,) = found(1, write(tmp_path), "--bisect", "--shape", shape)["bisection"]["wrong"]
    assert [one["kernel"] for one in wrong["suspects"]] == ["pool"]


def test_a_form_that_is_wrong_is_named_and_left_out(
    tmp_path: Path, planted: Callable[[Fault], None]
) -> None:
    path = onnx(tmp_path)
    planted(lambda name, variant: name == "conv" and variant["taps"] == "rows")
    result = compare(path, "--workaround")
    assert result.exit_code == 1
    assert "Without strided_rows all outputs agree. Until it is fixed, set" in result.output
    tried = found(1, path, "--workaround")["agrees_without"]
    assert tried == {"strided_rows": True}
    assert compare(path, "-o", "without=strided_rows").exit_code == 0


def test_forms_are_left_out_until_the_fault_has_no_other_form(
    tmp_path: Path, planted: Callable[[Fault], None]
) -> None:
    planted(lambda name, variant: name == "conv")
    path = onnx(tmp_path)
    tried = [*found(1, path, "--workaround")["agrees_without"].items()]
    assert [agrees for _, agrees in tried] == [False] * (len(tried) - 1) + [True]
    forms = tried[-1][0].split(",")
    assert len(forms) > 2 and len({*forms}) == len(forms)
    assert [without for without, _ in tried] == [
        ",".join(forms[:count]) for count in range(1, len(forms) + 1)
    ]
    assert compare(path, "-o", f"without={','.join(forms)}").exit_code == 0


@pytest.mark.parametrize("more", [[], ["--workaround"]])
def test_no_node_on_the_gpu_is_status_1(tmp_path: Path, more: list[str]) -> None:
    path = onnx(tmp_path)
    excluded = "Conv,Relu,MaxPool,GlobalAveragePool,Flatten,MatMul,Softmax"
    result = compare(path, "-o", f"exclude={excluded}", *more)
    assert result.exit_code == 1, result.output
    assert "Nothing ran on the GPU; `tflgpu check MODEL` says why." in result.output


def test_float16_is_named_as_the_reason_where_it_is_allowed(tmp_path: Path) -> None:
    path = onnx(tmp_path)
    for words, told in (((), False), (("-o", "is_precision_loss_allowed=1"), True)):
        text = compare(path, "--rtol", "1e-9", *words).output
        assert "DISAGREES" in text or not words
        assert ("float16, for which `tflgpu compare --rtol 0.02`" in text) == told, text
    assert compare(path, "--rtol", "0.02", "-o", "is_precision_loss_allowed=1").exit_code == 0


def test_the_text_says_how_it_was_compared(tmp_path: Path) -> None:
    text = compare(onnx(tmp_path), "--rtol", "0.25").output
    assert "Compared with onnxruntime's CPU kernels: a tensor agrees within 0.25 of" in text
    assert "Shapes used here: x [1, 3, 224, 16].\n" in text


def test_inputs_and_shapes_are_given(tmp_path: Path) -> None:
    path, file = onnx(tmp_path), tmp_path / "x.npy"
    np.save(file, np.ones((2, 3, 9, 16), np.float32))
    assert compare(path, "--input", f"x={file}").exit_code == 0
    assert found(0, path, "--shape", "x=2x3x10x16")["chosen_shapes"] == {"x": [2, 3, 10, 16]}
    assert found(0, path, "--shape", "x=1x3x9x16", "--rtol", "0.5")["tensors"][0]["allowed"] > 0.01


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--shape", "x"], "written NAME=1x512"),
        (["--shape", "x=1x-3"], "numbers with x between them"),
        (["--shape", "x=1x3"], "it was given 2"),
        (["--shape", "z=1x3"], "no input 'z'; its inputs are x"),
        (
            ["--shape", "x=999999999x3x999999999x16"],
            "input x cannot be made with shape 999999999x3x",
        ),
        (["--rtol", "nan"], "Invalid value for '--rtol': nan is not a finite number."),
        (["--mean", "nan"], "Invalid value for '--mean': nan is not a finite number."),
        (["--std", "nan"], "Invalid value for '--std': nan is not a finite number."),
        (["--std", "inf"], "Invalid value for '--std': inf is not a finite number."),
        (["--std", "0"], "Invalid value for '--std': 0.0 is not in the range x>0."),
        (["--input", "x="], "An input is written NAME=FILE.npy, not 'x='."),
        (["--input", "x=no.npy"], "Error: The input no.npy cannot be read (No such file"),
    ],
)
def test_inputs_that_cannot_be_used_are_status_2(
    tmp_path: Path, words: list[str], sentence: str
) -> None:
    result = compare(onnx(tmp_path), *words)
    assert result.exit_code == 2
    assert sentence in result.stderr


def test_inputs_without_dimensions_are_given_to_launches(tmp_path: Path) -> None:
    path = tmp_path / "scalar.onnx"
    shapes: Any = {"x": (2, 3), "s": ()}, {"y": (2, 3)}
    path.write_bytes(model([node("Mul", ["x", "s"], ["a"]), node("Relu", ["a"], ["y"])], *shapes))
    assert not found(0, path, "--bisect")["bisection"]["wrong"]


def test_states_of_int8_start_at_their_zero_point(tmp_path: Path) -> None:
    """Hosts start their variables so; the zero point is -128, so zeros would be other numbers."""
    (case,) = (case for case in all_cases()["lstm"] if case.name == "stored_zero_point")
    path = tmp_path / "lstm.tflite"
    path.write_bytes(build(case))
    bisection = found(0, path, "--bisect")["bisection"]
    assert bisection["compared"] >= 2 and not bisection["wrong"]


def test_no_result_is_no_agreement() -> None:
    outputs: Any = SimpleNamespace(basis=str, verdict=str, chosen_shapes={})
    lines = [*Found("m.onnx", outputs, Bisection(0, 3, ()), {}).lines()]
    assert lines[3:] == ["No intermediate result of 3 GPU launches could be compared."]


def test_files_that_are_no_arrays_are_status_2(tmp_path: Path) -> None:
    path, file = onnx(tmp_path), tmp_path / "x.npy"
    file.write_bytes(b"no array")
    assert "not a .npy file" in compare(path, "--input", f"x={file}").stderr
    np.save(file, np.ones(3, np.complex64))
    assert "x takes float32, not complex64." in compare(path, "--input", f"x={file}").stderr
    np.save(file, np.full((1, 3, 2, 16), 1e300))
    assert "some numbers are out of its range" in compare(path, "--input", f"x={file}").stderr
    np.save(file, np.array([{}]), allow_pickle=True)
    said = compare(path, "--input", f"x={file}").stderr
    assert "not a .npy file" in said and "pickle" not in said


def test_numbers_of_a_wider_type_are_rounded(tmp_path: Path) -> None:
    """The same files are inputs here and of `tflgpu run`."""
    file = tmp_path / "x.npy"
    np.save(file, np.linspace(-1, 1, 96).reshape(1, 3, 2, 16))
    given = found(0, onnx(tmp_path), "--input", f"x={file}")
    assert given["verdict"] == "The tensor agrees."


def test_a_shape_that_contradicts_the_values_is_status_2(tmp_path: Path) -> None:
    path, file = onnx(tmp_path), tmp_path / "x.npy"
    np.save(file, np.ones((1, 3, 2, 16), np.float32))
    for command in ("compare", "bench", "check", "kernels"):
        words = [command, str(path), "--input", f"x={file}", "--shape"]
        done = CliRunner().invoke(main, [*words, "x=2x3x2x16"])
        assert done.exit_code == 2, command
        assert "the input x are 1x3x2x16, which --shape x=2x3x2x16 contradicts." in done.stderr
    assert compare(path, "--input", f"x={file}", "--shape", "x=1x3x2x16").exit_code == 0


def test_results_that_are_nan_on_both_sides_are_named(tmp_path: Path) -> None:
    path, file = tmp_path / "m.onnx", tmp_path / "x.npy"
    path.write_bytes(model([node("Relu", ["x"], ["y"])], {"x": (4,)}, {"y": (4,)}))
    for values, count in (([np.nan, 1, -1, 2], 1), ([np.nan] * 4, 4), ([0, 1, 2, 3], 0)):
        np.save(file, np.array(values, np.float32))
        given = found(0, path, "--input", f"x={file}")
        told = f"NaN on both sides, which is no difference: y ({count} of 4)."
        assert (told in given["verdict"]) == (count > 0), given["verdict"]
        assert given["tensors"][0]["nan"] == count
        assert given["tensors"][0]["magnitude"] == np.nan_to_num(values).max()


def test_shapes_that_were_given_are_not_called_chosen(tmp_path: Path) -> None:
    said = compare(onnx(tmp_path), "--shape", "x=1x3x4x16").output
    assert "Shapes used here: x [1, 3, 4, 16]." in said and "chosen" not in said


def test_results_without_elements_are_no_agreement(tmp_path: Path) -> None:
    path = tmp_path / "empty.onnx"
    nodes = [node("Relu", ["x"], ["y"])]
    path.write_bytes(model(nodes, {"x": ("n", 4)}, {"y": ("n", 4)}))
    assert found(0, path)["agrees"]
    result = compare(path, "--shape", "x=0x4")
    assert result.exit_code == 1 and "agrees." not in result.output, result.output


def test_a_run_on_the_hosts_kernels_is_no_agreement(tmp_path: Path) -> None:
    """An integer beyond int32 is for the host's kernels."""
    path, file = tmp_path / "wide.onnx", tmp_path / "x.npy"
    kinds: Any = {"x": np.int64, "y": np.int64}
    path.write_bytes(model([node("Neg", ["x"], ["y"])], {"x": (4,)}, {"y": (4,)}, kinds=kinds))
    for value, status in ((7, 0), (1 << 40, 1)):
        np.save(file, np.full(4, value))
        given = found(status, path, "--input", f"x={file}", "--bisect", "-o", "force=1")
        assert given["agrees"] == (status == 0) and given["nodes_on_gpu"] == 1
    assert given["verdict"].startswith("The GPU could not do this run")


def test_runs_of_one_partition_on_the_hosts_kernels_are_told(tmp_path: Path) -> None:
    """An integer beyond int32 is for the host's kernels; the second partition runs on the GPU."""
    path, file = tmp_path / "parts.onnx", tmp_path / "x.npy"
    nodes = [node("Neg", ["x"], ["y"]), node("Relu", ["f"], ["g"]), node("Det", ["g"], ["h"]),
             node("Sigmoid", ["h"], ["z"])]  # fmt: skip
    shapes: Any = {"x": (4,), "f": (1, 2, 2)}, {"y": (4,), "z": (1,)}
    kinds: Any = {"x": np.int64, "y": np.int64}
    path.write_bytes(model(nodes, *shapes, kinds=kinds))
    for value, told in ((7, False), (1 << 40, True)):
        np.save(file, np.full(4, value))
        options = ("-o", "force=1", "-o", "exclude=Det")
        result = compare(path, "--input", f"x={file}", *options)
        assert result.exit_code == 0, result.output
        assert ("runs of partitions were on the host's" in result.output) == told


def test_nodes_that_share_a_constant_of_8_bits(tmp_path: Path) -> None:
    """The setting for exact sums makes onnxruntime's optimizer refuse such models."""
    path, w = tmp_path / "shared.onnx", np.arange(16, dtype=np.int8).reshape(4, 4)
    nodes = [node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
             node("MatMulInteger", ["q", "w", "z", "o"], ["a"]),
             node("MatMulInteger", ["q", "v", "z", "o"], ["b"])]  # fmt: skip
    shapes: Any = {"x": (4, 4)}, {"a": (4, 4), "b": (4, 4)}, {"w": w, "v": w - 8, "o": np.int8(0)}
    path.write_bytes(model(nodes, *shapes, kinds={"a": np.int32, "b": np.int32}))
    assert found(0, path)["verdict"] == "All 2 tensors agree."
