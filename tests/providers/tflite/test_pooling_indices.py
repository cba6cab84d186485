"""Tests custom operators of the TFLite frontend: pooling indices stay among nodes that run here,
and shapes stated by the model must be right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from conformance import check, host
from conformance.cases import Case, Input, constant, seeded
from conformance.cases.transpose_conv import CUSTOM, built_in, custom
from conformance.host import Outputs
from conformance.models import tflite as models, unpool_graphs
from conformance.models.tflite import Model
from conformance.models.unpool_graphs import POOL, STRUCT, UNPOOL
from tflgpu_plugin.cli import check as checker
from tflgpu_plugin.harness import hosts

HOSTS = host.installed()
NEWER = "ai_edge_litert"  # its default kernels have the operators
adapter = pytest.mark.adapter
with_kernels = pytest.mark.skipif(NEWER not in HOSTS, reason=f"{NEWER} has the CPU kernels")
SHAPE = (1, 4, 4, 4)
WINDOW = {"padding": "VALID", "strideH": 2, "strideW": 2, "filterHeight": 2, "filterWidth": 2}


def pooled(model: Model, x: int) -> list[int]:
    small = (1, 2, 2, 4)
    return model.multi_op(POOL, [x], STRUCT, WINDOW, shapes=[small] * 2, name="pool")


def unpooled(model: Model, values: int, indices: int) -> int:
    return model.op(UNPOOL, [values, indices], STRUCT, WINDOW, shape=SHAPE, name="back")


def whole(visible: bool = False) -> bytes:
    """Returns a model of max pooling and unpooling; the indices may be an output, too."""
    model = Model()
    values, indices = pooled(model, model.input("x", SHAPE))
    model.output(unpooled(model, values, indices), *([indices] if visible else []))
    return model.to_bytes()


def answers(content: bytes, feed: np.ndarray, name: str, **options: object) -> Outputs:
    run = host.run_on_gpu(content, [[feed]], name, {"force": True, **options}, "default")
    return run.outputs[0]


def on_cpu(content: bytes, feed: np.ndarray) -> Outputs:
    return host.run_on_cpu(content, [[feed]], NEWER, "default")[0]


@adapter
@pytest.mark.parametrize("name", HOSTS)
def test_indices_that_the_user_reads_stay_with_the_host(name: str) -> None:
    place = host.placed(whole(visible=True), name, {"force": True})
    assert place.on_gpu == 0 and "hosts number them differently" in place.sentences[0]


@adapter
@with_kernels
@pytest.mark.parametrize("left", ["pool", "back", UNPOOL])
def test_a_pooling_and_its_unpooling_go_together(left: str) -> None:
    """The CPU would interpret our indices as addresses."""
    feed = np.random.default_rng(1).standard_normal(SHAPE).astype(np.float32)
    place = host.placed(whole(), NEWER, {"force": True, "exclude": left})
    assert place.on_gpu == 0 and all("exclude" in reason for reason in place.sentences)
    for wanted, got in zip(on_cpu(whole(), feed), answers(whole(), feed, NEWER, exclude=left),
                           strict=True):  # fmt: skip
        np.testing.assert_array_equal(wanted, got)


@adapter
@pytest.mark.parametrize("name", HOSTS)
def test_indices_of_no_pooling_are_refused(name: str) -> None:
    model = Model()
    model.output(unpooled(model, model.input("x", (1, 2, 2, 4)),
                          model.input("p", (1, 2, 2, 4))))  # fmt: skip
    place = host.placed(model.to_bytes(), name, {"force": True})
    assert place.on_gpu == 0 and "must be those of a pooling" in place.sentences[0]


@adapter
@with_kernels
@pytest.mark.parametrize("name", HOSTS)
def test_ties_and_nan(name: str) -> None:
    """The first of equal elements counts, and NaN only if it comes first."""
    n, low = np.nan, -np.inf
    image = np.array([[n, 1, 1, n], [2, 3, 3, 4], [5, 5, low, low], [5, 5, low, low]], np.float32)
    mirrored = image[:, ::-1]
    feed = np.stack([image, mirrored, image[::-1], -image], -1)[None]
    for wanted, got in zip(on_cpu(whole(), feed), answers(whole(), feed, name), strict=True):
        np.testing.assert_array_equal(wanted, got)


@adapter
@pytest.mark.parametrize("name", HOSTS)
def test_a_shape_that_does_not_follow_is_refused(name: str) -> None:
    case = custom("longer", (1, 5, 5, 4), (4, 3, 3, 4), (10, 10))
    place = host.placed(models.build(case), name, {"force": True})
    assert place.on_gpu == 0
    assert "[1, 10, 10, 4] in the model, but the inputs give [1, 9, 9, 4]" in place.sentences[0]


@adapter
@pytest.mark.parametrize("name", HOSTS)
def test_only_float32(name: str) -> None:
    inputs = (Input((1, 4, 4, 4), "i8"), constant(seeded(4, 3, 3, 4)), constant(seeded(4)))
    case = Case("i8", CUSTOM[0].op, 1, inputs, CUSTOM[0].options_type, CUSTOM[0].options,
                shapes=((1, 8, 8, 4),), output_type="i8")  # fmt: skip
    place = host.placed(models.single(case).to_bytes(), name, {"force": True})
    assert place.on_gpu == 0 and "holds int8 values" in place.sentences[0]


@adapter
@pytest.mark.parametrize("name", HOSTS)
@pytest.mark.parametrize("case", CUSTOM, ids=lambda case: case.name)
def test_the_built_in_operator_gives_the_same(case: Case, name: str) -> None:
    """Reference kernels of TRANSPOSE_CONV compute the same with an explicit output shape, in every
    host."""
    twin, feeds = built_in(case), host.case_feeds(case)
    expected = host.run_on_cpu(models.build(twin), feeds, name)
    run = host.run_on_gpu(models.build(case), feeds, name, {"force": True})
    assert run.placement.on_gpu == 1
    result = check.judge(twin, feeds, expected, run.outputs)
    assert result.passed, result.text


@adapter
@pytest.mark.parametrize("name", HOSTS)
def test_another_size_of_the_input(name: str) -> None:
    """One interpreter is resized: no host can infer the shapes after these operators."""
    content = unpool_graphs.unpooled()().to_bytes()
    delegate = host.load_delegate(name, {"force": True})
    gpu = host.interpreter(content, name, "default", experimental_delegates=[delegate])
    index = gpu.get_input_details()[0]["index"]
    for extents in ((6, 5), (8, 9), (6, 5)):
        feed = np.random.default_rng(3).uniform(-1, 1, (1, *extents, 4)).astype(np.float32)
        gpu.resize_tensor_input(index, feed.shape)
        gpu.allocate_tensors()
        (got,) = host.invoke(gpu, [[feed]])[0]
        assert got.shape == (1, extents[0] // 2 * 2, extents[1] // 2 * 2, 4)
        fresh = unpool_graphs.unpooled((1, *extents, 4))().to_bytes()
        (wanted,) = answers(fresh, feed, name)
        np.testing.assert_array_equal(wanted, got)


@adapter
@pytest.mark.skipif("tflite_runtime" not in HOSTS, reason="tflite-runtime has no such kernel")
def test_a_host_without_the_operator_is_told_of(tmp_path: Path) -> None:
    """`tflgpu check` says what runs and what does not, and that the host lacks a kernel."""
    path = tmp_path / "custom.tflite"
    path.write_bytes(models.build(CUSTOM[0]))
    found = checker.check(path, {"force": "1"}, "tflite-runtime")
    assert found.report.count("gpu") == 1 and not found.problem
    found = checker.check(path, {"exclude": CUSTOM[0].op}, "tflite-runtime")
    assert found.report.count("gpu") == 0 and found.reasons[0].refusal_code == "option.excluded"
    assert "no kernel here for the custom operator Convolution2DTransposeBias" in found.problem
    better = "ai-edge-litert" in hosts.installed_names()
    assert ("(--host ai-edge-litert may)" in found.problem) == better
    assert found.as_json()["problem"] == checker.lines(found)[-1] == found.problem


@adapter
@pytest.mark.parametrize("name", HOSTS)
def test_every_tensor_can_be_read(name: str) -> None:
    """If the user asks the host to keep all tensors, indices are plain integers."""
    delegate = host.load_delegate(name, {"force": True})
    gpu = host.interpreter(whole(), name, "default", experimental_delegates=[delegate],
                           experimental_preserve_all_tensors=True)  # fmt: skip
    gpu.allocate_tensors()
    feed = np.random.default_rng(5).standard_normal(SHAPE).astype(np.float32)
    (got,) = host.invoke(gpu, [[feed]])[0]
    windows = feed.reshape(2, 2, 2, 2, 4).transpose(0, 2, 4, 1, 3).reshape(2, 2, 4, 4)
    indices = next(d["index"] for d in gpu.get_tensor_details() if d["name"] == "pool:1")
    assert host.placement(delegate).on_gpu == 2
    if host.placement(delegate).partitions == 2:
        np.testing.assert_array_equal(gpu.get_tensor(indices)[0], windows.argmax(-1))
    np.testing.assert_array_equal(got, answers(whole(), feed, name)[0])


@adapter
@pytest.mark.parametrize("name", HOSTS)
def test_a_plan_that_is_kept(name: str, tmp_path: Path) -> None:
    """The second start loads the plan from the file."""
    feed = np.random.default_rng(6).standard_normal(SHAPE).astype(np.float32)
    options = {"force": True, "serialization_dir": str(tmp_path), "model_token": "indices"}
    runs = [host.run_on_gpu(whole(), [[feed]], name, options, "default") for _ in range(2)]
    assert [run.placement.on_gpu for run in runs] == [2, 2], runs[0].placement.sentences
    assert list(tmp_path.iterdir())
    np.testing.assert_array_equal(runs[0].outputs[0][0], runs[1].outputs[0][0])
