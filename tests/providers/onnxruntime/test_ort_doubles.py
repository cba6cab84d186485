"""Tests the option double: float64 that is computed as float32, against the CPU provider's kernels
of float64, and the same nodes without the option, where they stay on the CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import tflgpu_plugin
from tests.support import onnx_models as m
from tests.support.onnx_doubles import CHANCE, ML, SINGLE, checked, doubles, model, same
from tests.support.onnx_models import Array, cpu, node, quiet, session

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.adapter

LARGEST = float(np.finfo(np.float32).max)
HINT = "With the option double=float32, float64 is computed as float32."


class Case(NamedTuple):
    """A model of float64: its nodes, inputs, types of results and constants."""

    nodes: Sequence[Any]
    feeds: Mapping[str, Array]
    outputs: Mapping[str, Any] = {"y": np.float64}
    constants: Mapping[str, Array] = {}

    @property
    def data(self) -> bytes:
        return model(self.nodes, self.feeds, self.outputs, self.constants)


X = {"x": doubles(4, 6)}
IMAGE = {"x": doubles(1, 3, 6, 7)}
F, I64, BOOL, D = np.float32, np.int64, np.bool_, np.float64
CASES = {
    "elementwise": Case(
        [node("Sub", ["x", "c"], ["a"]), node("Tanh", ["a"], ["b"]),
         node("Pow", ["b", "e"], ["y"])],
        X, constants={"c": doubles(6), "e": np.array(3.0)},
    ),
    "a layer": Case(
        [node("Gemm", ["x", "w", "c"], ["a"], transB=1, alpha=0.3), node("Softmax", ["a"], ["y"]),
         node("ArgMax", ["y"], ["k"], axis=1, keepdims=0)],
        X, {"y": D, "k": I64}, {"w": doubles(5, 6), "c": doubles(5)},
    ),
    "a product": Case([node("MatMul", ["x", "w"], ["y"])], X, constants={"w": doubles(6, 5)}),
    "reductions": Case(
        [node("ReduceMean", ["x"], ["a"], axes=[1]), node("ReduceL2", ["x"], ["b"], axes=[1]),
         node("Div", ["a", "b"], ["y"])], X,
    ),
    "moments": Case(
        [node("LayerNormalization", ["x", "g", "c"], ["y"])], X,
        constants={"g": doubles(6), "c": doubles(6)},
    ),
    "an image": Case(
        [node("MaxPool", ["x"], ["p", "i"], kernel_shape=[2, 2]),
         node("BatchNormalization", ["p", "s", "b", "a", "v"], ["y"])],
        IMAGE, {"y": D, "i": I64},
        {"s": doubles(3), "b": doubles(3), "a": doubles(3), "v": doubles(3) ** 2},
    ),
    "moved": Case(
        [node("Transpose", ["x"], ["t"], perm=[1, 0]), node("Pad", ["t", "n", "v"], ["p"]),
         node("Gather", ["p", "k"], ["y"])],
        X, constants={"n": np.array([1, 0, 0, 2]), "v": np.array(0.3), "k": np.array([5, 0, -1])},
    ),
    "chosen": Case(
        [node("Greater", ["x", "c"], ["g"]), node("Where", ["g", "x", "c"], ["w"]),
         node("TopK", ["w", "k"], ["y", "i"])],
        X, {"g": BOOL, "y": D, "i": I64}, {"c": np.array([0.25]), "k": np.array([2])},
    ),
    "sums along an axis": Case(
        [node("CumSum", ["x", "a"], ["y"])], X, constants={"a": np.array(1)},
    ),
    "special numbers": Case(
        [node("IsNaN", ["x"], ["n"]), node("Max", ["x", "c"], ["y"])],
        {"x": np.array([np.nan, np.inf, -np.inf, -0.0, 3.0])}, {"n": BOOL, "y": D},
        {"c": np.array(-np.inf)},
    ),
    "other types": Case(
        [node("Cast", ["x"], ["d"], to=11), node("Mul", ["d", "c"], ["e"]),
         node("Cast", ["e"], ["i"], to=7), node("Cast", ["i"], ["r"], to=11),
         node("Sub", ["e", "r"], ["s"]), node("Cast", ["s"], ["y"], to=1)],
        {"x": F([[1.75, -2.25, 30.125]])}, {"d": D, "i": I64, "y": F}, {"c": np.array(2.5)},
    ),
    "a scaled tree": Case(
        [node("Scaler", ["x"], ["s"], domain=ML, offset=[0.1] * 6, scale=[2.0] * 6),
         node("Normalizer", ["x"], ["n"], domain=ML, norm="L1"),
         node("TreeEnsembleRegressor", ["x"], ["t"], domain=ML, n_targets=1,
              nodes_treeids=[0] * 3, nodes_nodeids=[0, 1, 2], nodes_featureids=[1, 0, 0],
              nodes_values=[0.1, 0.0, 0.0], nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"],
              nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0], target_treeids=[0, 0],
              target_nodeids=[1, 2], target_ids=[0, 0], target_weights=[1.5, -2.5])],
        X, {"s": F, "n": F, "t": F},
    ),
}  # fmt: skip
CLASSES = {"coefficients": [float(n) for n in doubles(12)], "intercepts": [0.5, -0.25]}


@pytest.mark.parametrize("name", CASES)
def test_float64_is_computed_as_float32(name: str) -> None:
    case = CASES[name]
    checked(case.data, case.feeds)


@pytest.mark.parametrize("name", CASES)
def test_without_the_option_nothing_changes(name: str) -> None:
    """Nodes over float64 stay on the CPU and name the option; the answers are the CPU's."""
    case = CASES[name]
    ours, theirs = session(case.data, optimize=False), cpu(case.data, optimize=False)
    for got, wanted in zip(ours.run(None, case.feeds), theirs.run(None, case.feeds), strict=True):
        np.testing.assert_array_equal(got, wanted)
    nodes = tflgpu_plugin.report(ours).nodes
    assert any(HINT in node.reason for node in nodes)
    assert all(HINT in node.reason for node in nodes if "float64" in node.reason)


def test_a_pipeline_of_scikit_learn() -> None:
    """A scaler, a projection, the distances to stored rows as skl2onnx writes them, and a
    classifier, all in double and for any number of rows."""
    from onnx import TensorProto, helper

    def info(name: str, shape: m.Shape) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.DOUBLE, shape)

    step = helper.make_graph(
        [node("Sub", ["all", "row"], ["d"]), node("ReduceSumSquare", ["d"], ["s"], axes=[1],
                                                  keepdims=0), node("Identity", ["all"], ["same"])],
        "step", [info("all", ["n", 4]), info("row", [4])],
        [info("same", ["n", 4]), info("s", ["n"])],
    )  # fmt: skip
    nodes = [
        node("Sub", ["x", "mean"], ["a"]), node("Div", ["a", "deviation"], ["b"]),
        node("MatMul", ["b", "components"], ["p"]),
        node("Scan", ["p", "rows"], ["u", "scan"], body=step, num_scan_inputs=1),
        node("Transpose", ["scan"], ["t"], perm=[1, 0]), node("Sqrt", ["t"], ["distances"]),
        node("LinearClassifier", ["x"], ["label", "scores"], domain=ML, classlabels_ints=[3, 8],
             post_transform="SOFTMAX", **CLASSES),
    ]  # fmt: skip
    constants = {
        "mean": doubles(6), "deviation": 1 + doubles(6) ** 2, "components": doubles(6, 4),
        "rows": doubles(5, 4),
    }  # fmt: skip
    outputs = {"distances": D, "label": I64, "scores": F}
    data = model(nodes, X, outputs, constants, {"x": ["n", 6]})
    ours = checked(data, X, {"x": doubles(9, 6)}, {"x": doubles(1, 6)})
    assert len(tflgpu_plugin.report(ours).partitions) == 1


def test_every_number_is_rounded_to_the_nearest() -> None:
    """Inputs become the nearest float32, halves to even, and results have its value. Devices may
    flush numbers below 2^-126 to zero."""
    bits = CHANCE.integers(0, 1 << 32, 30_000, dtype=np.uint64).astype(np.uint32)
    with np.errstate(all="ignore"):  # signalling NaN
        near = bits.view(np.float32).astype(D)
        halves = (bits + np.uint32(1)).view(np.float32).astype(D) / 2 + near / 2
        many = np.concatenate([
            near, halves, near * (1 + CHANCE.normal(size=near.size) * 1e-8), doubles(500),
            [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-300, -5e-324, 1e-45, 2.0**-150, -(2.0**-126),
             1 + 2.0**-24, 1 + 3 * 2.0**-24, 1 - 2.0**-25, LARGEST, -LARGEST,
             np.nextafter(LARGEST + 2.0**103, 0)],
        ])  # fmt: skip
        wanted = many.astype(np.float32)
        kept = np.isfinite(wanted) | ~np.isfinite(many)
    many, wanted = many[kept], -wanted[kept].astype(D)
    for shape in ((-1,), (3, -1), (1, 5, 2, -1)):
        x = many[: many.size // 30 * 30].reshape(shape)
        data = model([node("Neg", ["x"], ["y"])], {"x": x}, {"y": D})
        ours = session(data, **SINGLE)
        (got,) = ours.run(None, {"x": x})
        assert tflgpu_plugin.report(ours).host_runs == 0
        right = wanted[: x.size].reshape(x.shape)
        flushed = (abs(right) < 2.0**-126) & (got == 0)
        np.testing.assert_array_equal(np.where(flushed, right, got), right)
        signed = ~np.isnan(right)
        np.testing.assert_array_equal(np.signbit(got)[signed], np.signbit(right)[signed])


@pytest.mark.parametrize("number", [1e300, -3.5e38, LARGEST + 2.0**103])
def test_a_run_with_larger_inputs_is_the_hosts(number: float) -> None:
    x = doubles(3, 5)
    data = model([node("Abs", ["x"], ["y"])], {"x": x}, {"y": D}, shapes={"x": ["n", 5]})
    ours = checked(data, {"x": x})
    x[1, 4] = number
    np.testing.assert_array_equal(ours.run(None, {"x": x})[0], np.abs(x))
    assert tflgpu_plugin.report(ours).host_runs == 1
    assert ours.run(None, {"x": doubles(2, 5)})[0].shape == (2, 5)
    assert tflgpu_plugin.report(ours).host_runs == 1


LIMITS = {
    "too large": [1.0, -1e39], "the least too large": [LARGEST + 2.0**103],
    "too small": [0.0, 1e-300, -1e-39],
}  # fmt: skip


@pytest.mark.parametrize("what", LIMITS)
def test_a_constant_that_float32_cannot_hold(what: str) -> None:
    """The node that reads it stays on the CPU and says why; the others run."""
    x, c = doubles(3, 1), np.array(LIMITS[what])
    nodes = [node("Neg", ["x"], ["n"]), node("Mul", ["n", "c"], ["y"])]
    data = model(nodes, {"x": x}, {"y": D}, {"c": c})
    ours = session(data, optimize=False, **SINGLE, force=1)
    np.testing.assert_allclose(ours.run(None, {"x": x})[0], -x * c, rtol=1e-6)
    (mul,) = (one for one in tflgpu_plugin.report(ours).nodes if one.op == "Mul")
    said = f"The constant 'c' holds float64 numbers that are {what.removeprefix('the least ')}"
    assert (mul.where, mul.reason) == ("cpu", f"{said} for float32.")
    assert m.places(ours)["Neg"] == "gpu"


@pytest.mark.parametrize(
    "numbers", [[0.0, -0.0], [np.inf, 1.0], [np.nan, 2.0], [1e-300, 1.0], [LARGEST, 2.0**-126]]
)
def test_a_constant_at_the_limits(numbers: Sequence[float]) -> None:
    c = np.array(numbers)
    data = model([node("Mul", ["x", "c"], ["y"])], {"x": c}, {"y": D}, {"c": c})
    (got,) = checked(data).run(None, {"x": np.array([0.5, -0.25])})
    np.testing.assert_allclose(got, [0.5, -0.25] * c, rtol=1e-6, atol=1e-38)


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_an_integer_that_float32_lacks_is_the_hosts(kind: Any) -> None:
    """A run that casts a number from 2^24 on to an integer is done by onnxruntime's own kernels."""
    from onnx import helper

    to = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    nodes = [node("Floor", ["x"], ["f"]), node("Cast", ["f"], ["y"], to=to)]
    small = {"x": np.array([3.75, -2.5, 2.0**24 - 1, 1 - 2.0**24])}
    data = model(nodes, small, {"y": kind})
    ours = checked(data, small)
    for large in (2.0**24 + 1, -(2.0**24) - 1):
        same(ours, data, {"x": np.array([0.0, 1.0, large, 2.0])})
    assert tflgpu_plugin.report(ours).host_runs == 2


BESIDE = {  # float32 in f, and float64 of the same numbers in a
    "moved": [node("Transpose", ["x"], ["a"], perm=[1, 0]), node("Cast", ["a"], ["f"], to=1)],
    "pooled": [
        node("Reshape", ["x", "k"], ["u"]), node("MaxPool", ["u"], ["a"], kernel_shape=[1]),
        node("Cast", ["a"], ["f"], to=1),
    ],
    "moved twice": [
        node("Cast", ["x"], ["g"], to=1), node("Transpose", ["g"], ["t"], perm=[1, 0]),
        node("Transpose", ["x"], ["a"], perm=[1, 0]), node("Neg", ["t"], ["f"]),
    ],
}  # fmt: skip


@pytest.mark.parametrize("kind", [np.int8, np.int32, np.int64])
@pytest.mark.parametrize("form", BESIDE)
def test_an_integer_is_the_hosts_beside_a_float32(form: str, kind: Any) -> None:
    """Passes may make one tensor of float64 and float32 that have the same numbers; a cast of the
    float64 still tells that float32 lacks its integers."""
    from onnx import helper

    to = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    *before, last = BESIDE[form]
    nodes = [*before, node("Cast", ["a"], ["y"], to=to), last]
    x = {"x": np.array([[2.0**24 + 1, 3.0], [-4.0, 0.5]])}
    constants = {"k": np.array([1, 2, 2])} if form == "pooled" else {}
    data = model(nodes, x, {"f": F, "y": kind}, constants)
    ours = session(data, optimize=False, force=1, **SINGLE)
    same(ours, data, x)
    assert tflgpu_plugin.report(ours).host_runs == 1


@pytest.mark.parametrize("shape", [(), (0, 3), (2, 0), (1,), (1, 2, 3, 2, 1, 2)])
def test_scalars_and_empty_tensors(shape: tuple[int, ...]) -> None:
    x = np.asarray(doubles(*shape))
    data = model([node("Neg", ["x"], ["a"]), node("Exp", ["a"], ["y"])], {"x": x}, {"y": D})
    same(session(data, **SINGLE), data, {"x": x})


def test_shapes_that_change() -> None:
    """Sizes that follow from float64 before a run are those of float64."""
    nodes = [
        node("Shape", ["x"], ["s"]), node("Cast", ["s"], ["d"], to=11),
        node("Mul", ["d", "f"], ["m"]), node("Floor", ["m"], ["l"]),
        node("Cast", ["l"], ["i"], to=7), node("Expand", ["one", "i"], ["e"]),
        node("Neg", ["x"], ["n"]), node("ReduceSum", ["n"], ["r"], keepdims=0),
        node("Mul", ["e", "r"], ["y"]),
    ]  # fmt: skip
    constants = {"f": np.array([50 / 7]), "one": np.ones(1)}  # 7 * 50 / 7 is 49.99 in float64
    x = doubles(7)
    data = model(nodes, {"x": x}, {"y": D}, constants, {"x": ["n"]})
    ours = session(data, optimize=False, **SINGLE)
    for n in (7, 14, 3):
        same(ours, data, {"x": doubles(n)}, 1e-5)


def test_a_range_has_as_many_numbers_as_in_float64() -> None:
    start, limit, delta = (np.array(n) for n in (0.0, 2.1, 0.3))
    count = [int(np.ceil(kind(2.1) / kind(0.3))) for kind in (D, F)]
    assert count[0] != count[1]
    nodes = [node("Range", ["a", "b", "c"], ["r"]), node("Mul", ["x", "r"], ["y"])]
    x = {"x": doubles(count[0])}
    checked(model(nodes, x, {"y": D}, {"a": start, "b": limit, "c": delta}), x)


def test_a_host_without_a_kernel_still_refuses() -> None:
    """onnxruntime has no Erf of float64, and still says so."""
    x = {"x": doubles(3)}
    data = model([node("Erf", ["x"], ["y"])], x, {"y": D})
    with pytest.raises(Exception, match="Erf"):
        session(data, **SINGLE)


def test_only_what_the_option_changes_names_it() -> None:
    """Range of values of a run is not for float32 either, and Unique of float64 not as float32."""
    data = model([node("Unique", ["x"], ["y"])], {"x": doubles(3)}, {"y": D})
    (unique,) = tflgpu_plugin.report(session(data)).nodes
    assert "float64" in unique.reason and HINT not in unique.reason
    given = {"b": np.array(2.5)}
    nodes = [node("Range", ["a", "b", "c"], ["r"]), node("Neg", ["r"], ["y"])]
    data = model(nodes, given, {"y": D}, {"a": np.array(0.0), "c": np.array(0.5)})
    nodes = {one.op: one.reason for one in tflgpu_plugin.report(session(data)).nodes}
    assert HINT not in nodes["Range"] and HINT in nodes["Neg"]


def test_numbers_that_must_stay_different_stay_on_the_cpu() -> None:
    x = {"x": np.array([1.0, 1 + 1e-12, 1.0])}
    data = model([node("Unique", ["x"], ["y"])], x, {"y": D})
    ours = session(data, optimize=False, **SINGLE, force=1)
    assert ours.run(None, x)[0].size == 2
    (unique,) = tflgpu_plugin.report(ours).nodes
    assert unique.where == "cpu" and "may be equal in float32" in unique.reason


@pytest.mark.parametrize(("second", "where"), [(2.0**24 + 1, "cpu"), (2.0**24 + 2, "gpu")])
def test_keys_that_must_stay_different_stay_on_the_cpu(second: float, where: str) -> None:
    import onnx
    from onnx import numpy_helper

    keys = np.array([2.0**24, second, 0.5])
    tables = {"keys": keys, "values": np.array([1.0, 2.0, 3.0]), "default": np.array([-1.0])}
    held = {f"{name}_tensor": numpy_helper.from_array(data) for name, data in tables.items()}
    encoder = node("LabelEncoder", ["x"], ["y"], domain=ML, **held)
    made = onnx.load_from_string(model([encoder], {"x": keys}, {"y": D}))
    made.opset_import[1].version = 4
    ours = session(made.SerializeToString(), optimize=False, **SINGLE, force=1)
    same(ours, made.SerializeToString(), {"x": keys})
    assert set(m.places(ours).values()) == {where}


def test_compiled_and_stored_plans(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A compiled model keeps the types, also for runs on the host's kernels; stored plans are used
    again, and only with the option."""
    case = CASES["a layer"]
    source, compiled = tmp_path / "model.onnx", tmp_path / "compiled.onnx"
    source.write_bytes(model(case.nodes, X, case.outputs, case.constants, {"x": ["n", 6]}))
    entries = {"ep__context_enable": "1", "ep__context_file_path": str(compiled)}
    tflgpu_plugin.session(str(source), sess_options=quiet(**entries), **SINGLE)
    ours = tflgpu_plugin.session(str(compiled), sess_options=quiet())
    for x in (doubles(3, 6), doubles(8, 6), np.full((2, 6), 1e60)):
        same(ours, source.read_bytes(), {"x": x})
    assert tflgpu_plugin.report(ours).host_runs == 1
    for options in (SINGLE, SINGLE, {}):
        made = session(source.read_bytes(), serialization_dir=str(tmp_path / "kept"), **options)
        same(made, source.read_bytes(), X)
        assert ("gpu" in m.places(made).values()) == bool(options)
    assert "is not used" not in capfd.readouterr().err


def test_tensors_on_the_gpu_keep_their_type() -> None:
    import onnxruntime as ort

    case = CASES["a layer"]
    ours = session(case.data, **SINGLE)
    binding = ours.io_binding()
    binding.bind_ortvalue_input("x", ort.OrtValue.ortvalue_from_numpy(X["x"], "gpu", 0))
    for name in case.outputs:
        binding.bind_output(name, "gpu", 0)
    ours.run_with_iobinding(binding)
    wanted = cpu(case.data).run(None, X)
    for got, right in zip(binding.get_outputs(), wanted, strict=True):
        assert got.numpy().dtype == right.dtype
        np.testing.assert_allclose(got.numpy(), right, rtol=1e-5, atol=1e-6)
