"""Tests the suite of WebNN's data with data of its own: the models that stand for operators give
the answers of their definitions, and the judge sees what is too far."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from conformance import onnx_host, onnx_node_tests as node_tests, webnn
from conformance.onnx_node_tests import Case, Outcome


def _of(values: Any, kind: str = "float32") -> Any:
    return np.array(values, kind)


X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
IMAGE = np.random.default_rng(1).standard_normal((1, 4, 5, 6)).astype(np.float32)
KERNEL = np.random.default_rng(2).standard_normal((6, 2, 3, 2)).astype(np.float32)
VECTOR = _of([-1.5, 0.25, 3.0])
LAYOUTS = ("oihw", "hwio", "ohwi", "ihwo")


def _tensor(array: Any, constant: bool = False) -> dict[str, Any]:
    array = np.asarray(array)
    descriptor = {"shape": [*array.shape], "dataType": array.dtype.name}
    whole = array.dtype.kind in "iu"
    data = [f"{n}n" if whole and abs(n) > 2**53 else n for n in array.reshape(-1).tolist()]
    return {"data": data, "descriptor": descriptor} | ({"constant": True} if constant else {})


def _graph(
    name: str, inputs: Mapping[str, Any], expected: Sequence[Any], *more: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns one operator as the data describes it; inputs have the names of their roles."""
    outputs = {f"y{k}": _tensor(value) for k, value in enumerate(expected)}
    operator = {
        "name": name,
        "arguments": [*({role: role} for role in inputs), *more],
        "outputs": [*outputs] if len(outputs) > 1 else next(iter(outputs)),
    }
    given = {role: _tensor(value) for role, value in inputs.items()}
    return {"inputs": given, "operators": [operator], "expectedOutputs": outputs}


def _cases(folder: Path, *graphs: Mapping[str, Any]) -> list[Case | Outcome]:
    tests = [{"name": f"case {k}", "graph": graph} for k, graph in enumerate(graphs)]
    (folder / "some.json").write_text(json.dumps({"operation": "some", "tests": tests}))
    return [*webnn.cases(folder)]


def _options(**options: Any) -> dict[str, Any]:
    return {"options": options}


def _normalized(x: Any, axes: tuple[int, ...], epsilon: float = 1e-5) -> Any:
    mean, spread = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    return (x - mean) / np.sqrt(spread + epsilon)


def _convolved(x: Any, kernel: Any, groups: int, stride: int) -> Any:
    """Returns a convolution with a border of 1 above and at the left."""
    x = np.pad(x, ((0, 0), (0, 0), (1, 0), (1, 0))).astype(np.float64)
    part, many = kernel.shape[1], kernel.shape[0] // groups
    rows, columns = x.shape[2] - kernel.shape[2] + 1, x.shape[3] - kernel.shape[3] + 1
    y = np.zeros((1, kernel.shape[0], rows, columns))
    for o in range(kernel.shape[0]):
        first = o // many * part
        for i, r, c in np.ndindex(*kernel.shape[1:]):
            y[0, o] += kernel[o, i, r, c] * x[0, first + i, r : r + rows, c : c + columns]
    return y[:, :, ::stride, ::stride].astype(np.float32)


def _layers() -> list[dict[str, Any]]:
    """Returns a convolution in all layouts, and its transpose."""
    wanted = _convolved(IMAGE, KERNEL, 2, 2)
    found = []
    for last in (False, True):
        for layout in LAYOUTS:
            x, y = (np.moveaxis(one, 1, 3) if last else one for one in (IMAGE, wanted))
            kernel = KERNEL.transpose(["oihw".index(axis) for axis in layout])
            options = _options(groups=2, strides=[2, 2], padding=[1, 0, 1, 0], filterLayout=layout,
                               inputLayout="nhwc" if last else "nchw")  # fmt: skip
            found.append(_graph("conv2d", {"input": x, "filter": kernel}, [y], options))
    corner = {"input": IMAGE[:, :1, :3, :3], "filter": np.ones((1, 1, 1, 1), np.float32)}
    spread = np.zeros((1, 1, 5, 5), np.float32)
    spread[0, 0, ::2, ::2] = IMAGE[0, 0, :3, :3]
    options = _options(strides=[2, 2], padding=[0, 0, 0, 1], outputSizes=[5, 5])
    found.append(_graph("convTranspose2d", corner, [spread], options))
    return found


def _normalizations() -> list[dict[str, Any]]:
    ones = {"mean": VECTOR, "variance": _of([1, 4, 9])}
    factor = 1 / np.sqrt(ones["variance"] + 1e-5)
    matrix = X[0].T
    flat = _of([4, 5, 6])
    scale, bias = _of([[1, 2], [3, 4], [5, 6], [7, 8]]), np.float32(0.5)
    images = IMAGE.transpose(0, 2, 3, 1)
    layered = _normalized(X, (0, 2)) * scale.T[:, None, :]
    return [
        _graph("batchNormalization", {"input": matrix, **ones}, [(matrix - VECTOR) * factor]),
        _graph("batchNormalization", {"input": X[0], **ones},
               [(X[0] - VECTOR[:, None]) * factor[:, None]], _options(axis=0)),
        _graph("batchNormalization", {"input": flat, **ones}, [(flat - VECTOR) * factor],
               _options(axis=0)),
        _graph("instanceNormalization", {"input": images}, [_normalized(images, (1, 2))],
               _options(layout="nhwc")),
        _graph("layerNormalization", {"input": X, "scale": scale}, [layered],
               _options(axes=[2, 0])),
        _graph("layerNormalization", {"input": X, "bias": bias}, [np.full_like(X, bias)],
               _options(axes=[])),
        _graph("layerNormalization", {"input": X}, [_normalized(X, (1, 2))]),
    ]  # fmt: skip


def _movements() -> list[dict[str, Any]]:
    far = _of([-9, 2, 7], "int32")
    return [
        _graph("gather", {"input": X, "indices": far}, [X[:, [0, 2, 2]]], _options(axis=1)),
        _graph("slice", {"input": X}, [X[1:2, 0:3, 1:4:2]],
               {"starts": [1, 0, 1]}, {"sizes": [1, 3, 3]}, _options(strides=[1, 1, 2])),
        _graph("split", {"input": X}, [X[..., :1], X[..., 1:]], {"splits": [1, 3]},
               _options(axis=2)),
        _graph("split", {"input": X}, [*np.split(X, 3, 1)], {"splits": 3}, _options(axis=1)),
        _graph("transpose", {"input": X}, [X.T]),
        _graph("transpose", {"input": X[0, 0, 1]}, [X[0, 0, 1]]),
        _graph("cast", {"input": X}, [X.astype(np.int8)], {"type": "int8"}),
        _graph("clamp", {"input": _of([2**60, 5, -3], "int64")}, [_of([2**59 + 1, 5, 0], "int64")],
               _options(minValue=0, maxValue=f"{2**59 + 1}n")),
        _graph("concat", {"input": X, "a": X}, [np.concatenate([X, X], 1)],
               {"inputs": ["input", "a"]}, {"axis": 1}),
    ]  # fmt: skip


def _elements() -> list[dict[str, Any]]:
    signs = _of([0, 3, 1], "uint8")
    return [
        _graph("reduceSumSquare", {"input": X}, [X * X], _options(axes=[])),
        _graph("reduceL1", {"input": -X}, [X.sum(keepdims=True)], _options(keepDimensions=True)),
        _graph("reduceMean", {"input": X}, [X.mean(1)], _options(axes=[1])),
        _graph("linear", {"input": X}, [X * 2 - 1], _options(alpha=2, beta=-1)),
        _graph("hardSigmoid", {"input": VECTOR}, [np.clip(VECTOR * np.float32(0.2) + 0.5, 0, 1)]),
        _graph("leakyRelu", {"input": VECTOR}, [_of([-1.5 * np.float32(0.01), 0.25, 3])]),
        _graph("logicalNot", {"a": signs}, [_of([1, 0, 0], "uint8")]),
        _graph("lesserOrEqual", {"a": VECTOR, "b": np.float32(0.25)}, [_of([1, 1, 0], "uint8")]),
        _graph("lesser", {"a": VECTOR, "b": np.float32(0.25)}, [_of([1, 0, 0], "uint8")]),
        _graph("greater", {"a": VECTOR, "b": np.float32(0.25)}, [_of([0, 0, 1], "uint8")]),
        _graph("sub", {"a": VECTOR, "b": VECTOR[:1]}, [VECTOR - VECTOR[0]]),
    ]


@pytest.mark.parametrize("group", [_layers, _normalizations, _movements, _elements])
def test_models_mean_what_operators_do(group: Any, tmp_path: Path) -> None:
    for case in _cases(tmp_path, *group()):
        assert isinstance(case, Case), case
        ((inputs, expected),) = case.sets
        session = onnx_host.session(case.model.SerializeToString(), cpu=True)
        found = node_tests.results(session, inputs)
        case.compare([*found], [*expected])


def test_a_result_that_is_too_far_fails(tmp_path: Path) -> None:
    """The bound of a matrix product of 3 terms is 6 units, that of a sum 1, of a choice none."""
    rows = _of([[1, 2, 3]])
    product = _graph("matmul", {"a": rows, "b": rows.T}, [_of([[-14]])])
    total = _graph("add", {"a": VECTOR, "b": VECTOR}, [VECTOR.astype(np.float16)])
    choice = _graph("max", {"a": VECTOR, "b": VECTOR}, [VECTOR])
    layer = _graph("layerNormalization", {"input": VECTOR}, [VECTOR])
    for graph, units in ((product, 6), (total, 1), (choice, 0)):
        (case,) = _cases(tmp_path, graph)
        assert isinstance(case, Case)
        expected = case.sets[0][1][0]
        for steps, right in (
            (units, True),
            (-units, True),
            (units + 1, False),
            (-units - 1, False),
        ):
            bits = expected.view(f"i{expected.itemsize}") + steps
            got = bits.astype(f"i{expected.itemsize}").view(expected.dtype)
            assert _agrees(case, got, expected) == right
        assert not _agrees(case, np.full_like(expected, np.inf), expected)
        assert not _agrees(case, expected.astype(np.float64), expected)
        assert not _agrees(case, expected[None], expected)
    (case,) = _cases(tmp_path, layer)
    assert isinstance(case, Case)
    assert _agrees(case, VECTOR + np.float32(0.0009), VECTOR)
    assert not _agrees(case, VECTOR + np.float32(0.001), VECTOR)


def test_units_count_across_zero_and_end_before_infinity() -> None:
    tiny, case = _of([1e-45]), Case("", None, [], 0.0, 0.0, 2)
    assert _agrees(case, tiny, -tiny)
    assert not _agrees(case, tiny + tiny, -tiny)
    most, infinity = _of([np.finfo(np.float32).max]), _of([np.inf])
    assert not _agrees(case, infinity, most)
    assert not _agrees(case, _of([np.nan]), infinity)
    assert _agrees(case, infinity, infinity)


def _agrees(case: Case, result: Any, expected: Any) -> bool:
    try:
        case.compare(result, expected)
    except AssertionError:
        return False
    return True


def test_what_the_data_has_lost_is_not_converted(tmp_path: Path) -> None:
    graph = _graph("clamp", {"input": VECTOR}, [VECTOR])
    graph["inputs"]["input"]["data"][0] = None
    odd = _graph("gru", {"input": VECTOR}, [VECTOR])
    for found in _cases(tmp_path, graph, odd):
        assert isinstance(found, Outcome) and found.verdict == webnn.NOT_CONVERTED


def test_some_operand_is_left_to_a_run(tmp_path: Path) -> None:
    graph = _graph("add", {"a": VECTOR, "b": VECTOR}, [VECTOR + VECTOR])
    counts = []
    for constants in ((), ("b",), ("a", "b")):
        for name, value in graph["inputs"].items():
            value["constant"] = name in constants
        (case,) = _cases(tmp_path, graph)
        assert isinstance(case, Case)
        counts.append((len(case.model.graph.input), len(case.model.graph.initializer)))
    assert counts == [(2, 0), (1, 1), (2, 0)]


@pytest.mark.parametrize("text", webnn.SAID)
def test_only_integers_beyond_int32_are_left_to_the_host(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Outcome("", "FAIL", 1, 1, f"tflgpu: {text}")
    monkeypatch.setattr(node_tests, "run_case", lambda case, **options: found)
    cases = _cases(
        tmp_path,
        _graph("abs", {"input": _of([-(2**40)], "int64")}, [_of([2**40], "int64")]),
        _graph("abs", {"input": _of([-3], "int64")}, [_of([3], "int64")]),
    )
    assert [webnn.run_case(case).verdict for case in cases] == [webnn.BEYOND, "FAIL"]


def test_a_result_farther_than_the_cpu_is_wrong() -> None:
    """Where the CPU provider misses what is expected, ours may miss it no further."""
    expected = _of([1, 2])
    theirs = _of([1.5, 2])
    assert node_tests._no_farther(_of([1, 2.5]), theirs, expected)
    assert not node_tests._no_farther(_of([1, 2.6]), theirs, expected)
    assert not node_tests._no_farther(_of([np.nan, 2]), theirs, expected)
    assert not node_tests._no_farther(_of([1, 2]), _of([np.nan, 2]), expected)
    assert not node_tests._no_farther(
        _of([1, 2], "int32"), _of([1, 2], "int32"), _of([1, 2], "int32")
    )
