"""Runs one node test of each operator of ONNX, and list of types, with other inputs than its own:
other extents (none, one, and one more), and other integers, which may be out of range. Answers and
errors must be onnxruntime's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from conformance import onnx_host, onnx_node_tests as node_tests, tolerance
from tflgpu_plugin.harness import onnx as runner
from tflgpu_plugin.providers.onnxruntime.ops import HOST_OPS

pytestmark = [pytest.mark.adapter, pytest.mark.onnxruntime]

Feeds = dict[str, Any]
BATCHES = 8
# Operators whose own kernels end the process where an extent is 0, or where there are no heads.
# ALIVE are those of which no such run is theirs.
DEADLY, HEADED, ALIVE = (
    {"ConvTranspose", "GRU", "LSTM", "STFT", "Unique"},
    {"Attention"},
    {"GRU", "LSTM"},
)
# Operators whose own kernels leave results as the memory was: of a part without elements whose
# other extents do not fit, and of sums of no products.
UNWRITTEN = {"Concat", "ConvInteger", "MatMul", "MatMulInteger", "QLinearMatMul"}
# Operators of which an integer is the size of a result, or how often a body runs.
SIZED = {
    "AffineGrid", "CenterCropPad", "Col2Im", "ConstantOfShape", "DFT", "Expand", "Loop", "OneHot",
    "Pad", "Range", "Resize", "STFT", "Tile", "Unsqueeze", "Upsample",
}  # fmt: skip
RANDOM = {"Bernoulli", "RandomNormalLike", "RandomUniformLike", "Dropout"}


@cache
def cases() -> list[node_tests.Case]:
    """Returns, for each operator and list of types, the first node test with a single node and only
    tensors."""
    found: dict[tuple[object, ...], node_tests.Case] = {}
    for each in node_tests.cases():
        case = node_tests.load(each)
        graph = case.model.graph
        given = [value.type.WhichOneof("value") for value in graph.input]
        if len(graph.node) != 1 or not given or {*given} != {"tensor_type"} or graph.initializer:
            continue
        types = [value.type.tensor_type.elem_type for value in graph.input]
        if operator(case) not in RANDOM:
            found.setdefault((operator(case), *types), case)
    return list(found.values())


def operator(case: node_tests.Case) -> str:
    return str(case.model.graph.node[0].op_type)


def fixed(case: node_tests.Case) -> dict[str, Any]:
    """Returns the inputs, with their values, that must be constants for the node to run on the
    GPU."""
    (node,), row = case.model.graph.node, HOST_OPS.get(operator(case))
    names = [value.name for value in case.model.graph.input]
    own = dict(zip(names, case.sets[0][0], strict=False))
    listed = [node.input[k] for k in row.constants if k < len(node.input)] if row else []
    return {name: np.asarray(own[name]) for name in listed if name in own}


def held(case: node_tests.Case) -> Any:
    """Returns the model with these inputs as constants."""
    import onnx

    model, constants = onnx.ModelProto(), fixed(case)
    model.CopyFrom(case.model)
    kept = [value for value in model.graph.input if value.name not in constants]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    for name, data in constants.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(data, name))
    return model


def opened(case: node_tests.Case) -> bytes:
    """Returns the model with a different name for each extent."""
    model = held(case)
    for value in (*model.graph.input, *model.graph.output):
        for axis, extent in enumerate(value.type.tensor_type.shape.dim):
            extent.Clear()
            extent.dim_param = f"{value.name}_{axis}"
    return bytes(model.SerializeToString())


def given(case: node_tests.Case) -> Feeds:
    """Returns the inputs of the test that are not constants."""
    names, constants = [value.name for value in case.model.graph.input], fixed(case)
    pairs = zip(names, case.sets[0][0], strict=False)
    return {name: np.asarray(data) for name, data in pairs if name not in constants}


def feeds(case: node_tests.Case) -> Iterator[Feeds]:
    """Yields the test's inputs, with all extents of one size changed, and with one extent of one
    input changed, which may not fit the others."""
    own = given(case)
    yield own
    for name, data in own.items():
        for axis, extent in enumerate(data.shape):
            for other in sorted({1, 2 * extent} - {extent}) if extent else ():
                places = np.arange(other) % extent
                yield {**own, name: np.take(data, places, axis)}
    for extent in sorted({n for data in own.values() for n in data.shape}):
        for other in sorted({0, 1, extent + 1} - {extent}):
            yield {name: _resized(data, extent, other) for name, data in own.items()}


def _resized(data: Any, extent: int, other: int) -> Any:
    for axis in range(data.ndim):
        if data.shape[axis] == extent:
            places = np.arange(other) % max(extent, 1)
            data = np.take(data, places, axis) if extent else np.zeros(other, data.dtype)
    return data


def told(session: Any, given: Mapping[str, Any]) -> list[Any] | Exception:
    """Returns the results of a run, or its error."""
    try:
        return list(session.run(None, given))
    except Exception as error:  # onnxruntime's errors have no class in common
        return error


def compared(got: Any, wanted: Any, values: bool) -> str:
    """Returns how a run differs from onnxruntime's own; "" if it does not."""
    if isinstance(wanted, Exception) or isinstance(got, Exception):
        both = isinstance(wanted, Exception) and isinstance(got, Exception)
        return "" if both else f"{got!r:.200} instead of {wanted!r:.200}"
    for found, expected in zip(got, wanted, strict=True):
        found, expected = np.asarray(found), np.asarray(expected)
        if (found.shape, found.dtype) != (expected.shape, expected.dtype):
            return f"{found.dtype} {found.shape} instead of {expected.dtype} {expected.shape}"
        if values and not _near(found, expected):
            return f"{found.ravel()[:6]} instead of {expected.ravel()[:6]}"
    return ""


def _near(found: Any, expected: Any) -> bool:
    if expected.dtype.kind != "f":
        return bool(np.array_equal(found, expected))
    finite = np.abs(expected[np.isfinite(expected)]).astype(np.float64)
    limit = {2: 2e-3}.get(expected.dtype.itemsize, 2e-5) * max(finite.max(initial=0.0), 1e-3)
    return tolerance.compare(expected, found, tolerance.Bound(0.0, limit)).passed


def integers(case: node_tests.Case) -> Iterator[Feeds]:
    """Yields the test's inputs with the first or last element of an integer input changed: an index
    or size that may be out of range."""
    op, own = operator(case), given(case)
    for name, data in own.items():
        limits = np.iinfo(data.dtype) if data.dtype.kind in "iu" and data.size else None
        for number in () if limits is None else (0, -1, -7, 1, 7, 100, limits.max, limits.min):
            far = limits is None or number in (limits.min, limits.max)
            if limits is None or not limits.min <= number <= limits.max or (far and op in SIZED):
                continue
            for place in (0, -1):
                changed = data.copy()
                changed.reshape(-1)[place] = number
                yield {**own, name: changed}


def judged(case: node_tests.Case, data: bytes, runs: Iterator[Feeds], place: int) -> Iterator[str]:
    """Returns how these runs of a model, with nodes on the GPU, differ from onnxruntime's own."""
    op = operator(case)
    try:
        theirs = runner.opened(data, runner.settings(logs=runner.FATAL))
        ours = runner.opened(data, runner.settings(logs=runner.FATAL), {"force": "1"}, place)
    except Exception:  # what onnxruntime does not load
        return
    if not any(node.where == "gpu" for node in tflgpu_plugin.report(ours).nodes):
        return
    for each in runs:
        empty = any(not value.size for value in each.values())
        if (op not in ALIVE and _dies(op, each)) or _differs(case, each):
            continue
        got = told(ours, each)
        if empty and op in ALIVE:
            if isinstance(got, Exception) or any(np.any(result) for result in got):
                yield f"{case.name}: {got!r:.200} instead of zeros"
            continue
        text = compared(got, told(theirs, each), not (empty and op in UNWRITTEN))
        if text:
            shown = {name: (value.shape, value.ravel()[:3]) for name, value in each.items()}
            yield f"{case.name} {shown}: {text}"


def _dies(op: str, given: Feeds) -> bool:
    """Whether a run ends the process in onnxruntime's own kernel."""
    headless = any(value.ndim == 4 and value.shape[1] == 0 for value in given.values())
    empty = any(not value.size for value in given.values())
    return (op in DEADLY and empty) or (op in HEADED and headless)


def _differs(case: node_tests.Case, given: Feeds) -> bool:
    """Whether onnxruntime's answer is none of the standard's (docs/conformance.md): it takes one
    causal query with a past for the last position, also if it comes with several keys."""
    causal = any(each.name == "is_causal" and each.i for each in case.model.graph.node[0].attribute)
    lengths = [given[name].shape[-2] for name in ("Q", "K") if name in given]
    return causal and "past_key" in given and lengths[0] == 1 < lengths[1]


@pytest.mark.parametrize("batch", range(BATCHES))
def test_other_extents(batch: int, pytestconfig: pytest.Config) -> None:
    place = onnx_host.place(pytestconfig.getoption("--adapter"))
    some = cases()[batch::BATCHES]
    wrong = [text for case in some for text in judged(case, opened(case), feeds(case), place)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_other_integers(batch: int, pytestconfig: pytest.Config) -> None:
    place = onnx_host.place(pytestconfig.getoption("--adapter"))
    some = [case for case in cases()[batch::BATCHES] if operator(case) not in DEADLY | HEADED]
    models = ((case, held(case).SerializeToString(), integers(case)) for case in some)
    wrong = [text for each in models for text in judged(*each, place)]
    assert not wrong, "\n".join(wrong)
