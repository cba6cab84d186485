"""A cache of fixed length is updated in the buffer that holds its earlier contents. Where that is
one tensor on the GPU, the rest of it is not copied at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from tests.support.onnx_models import Array, cpu, model, node, session, values
from tflgpu_plugin import native

ort = pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")
pytestmark = pytest.mark.adapter

SHAPE, NEW, QUERY = (2, 3, 8, 8), (2, 3, 2, 8), (2, 3, 1, 8)
BYTES = 4 * int(np.prod(SHAPE))
SIDES = ["cpu", "gpu"]


@pytest.fixture(autouse=True)
def registered() -> None:
    tflgpu_plugin.register()


def cache(*more: Any, mode: str = "linear", outputs: Sequence[str] = ()) -> bytes:
    """Returns a model that replaces a part of a cache, which attention then reads."""
    nodes = [
        node("TensorScatter", ["past", "new", "starts"], ["present"], axis=2, mode=mode),
        node("Attention", ["q", "present", "present"], ["y"]),
        *more,
    ]
    inputs = {"past": SHAPE, "new": NEW, "q": QUERY, "starts": (2,)}
    made = {"y": QUERY, "present": SHAPE} | dict.fromkeys(outputs, SHAPE)
    return model(nodes, inputs, made, opset=24, kinds={"starts": np.int64})


def given(*starts: int) -> dict[str, Array]:
    made = {"past": values(*SHAPE), "new": values(*NEW), "q": values(*QUERY)}
    return made | {"starts": np.array(starts or (1, 5), np.int64)}


def at(where: str, data: Array) -> Any:
    made = ort.OrtValue.ortvalue_from_shape_and_type(data.shape, data.dtype, where)
    made.update_inplace(data)
    return made


def bound(opened: Any, feeds: Mapping[str, Any], present: Any, reads: bool = True) -> list[Array]:
    """Runs with arrays or tensors; the new cache goes to this tensor. Returns the outputs, the
    cache only if the host `reads` it."""
    binding = opened.io_binding()
    for name, value in feeds.items():
        if isinstance(value, np.ndarray):
            binding.bind_cpu_input(name, value)
        else:
            binding.bind_ortvalue_input(name, value)
    binding.bind_output("y")
    binding.bind_ortvalue_output("present", present)
    opened.run_with_iobinding(binding)
    made = binding.get_outputs()
    return [np.asarray(value.numpy()) for value in (made if reads else made[:1])]


def tensor_bytes() -> int:
    """Returns the bytes of all tensors on the GPU."""
    found = native.ffi.new("tg_memory *")
    native.lib.tg_memory_get(found)
    return int(found.bytes[native.lib.TG_TENSOR])


def assert_near(got: Sequence[Array], wanted: Sequence[Array]) -> None:
    for one, other in zip(got, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("mode", ["linear", "circular"])
@pytest.mark.parametrize("before", SIDES)
@pytest.mark.parametrize("after", SIDES)
def test_the_cache_is_on_either_side(before: str, after: str, mode: str) -> None:
    data = cache(mode=mode)
    ours, theirs = session(data), cpu(data)
    for starts in ((1, 5), (0, 6), (6, 0), (7, 3) if mode == "circular" else (2, 2)):
        feeds = given(*starts)
        wanted = theirs.run(None, feeds)
        past = at(before, feeds["past"])
        got = bound(ours, {**feeds, "past": past}, at(after, np.full(SHAPE, 9, np.float32)))
        assert_near(got, wanted)
        np.testing.assert_array_equal(past.numpy(), feeds["past"])


@pytest.mark.parametrize("where", SIDES)
def test_the_cache_is_one_tensor(where: str) -> None:
    """The host reads it after some of the runs."""
    data = cache()
    ours, theirs = session(data), cpu(data)
    feeds = given()
    others, most = tensor_bytes(), BYTES if where == "gpu" else 0
    past = at(where, feeds["past"])
    for k in range(12):
        feeds |= given(k % 7, (3 * k) % 7) | {"past": feeds["past"]}
        y, feeds["past"] = theirs.run(None, feeds)
        made = bound(ours, {**feeds, "past": past}, past, reads=k % 5 == 4)
        assert_near(made, [y, feeds["past"]][: len(made)])
        assert k < 2 or tensor_bytes() - others <= most  # there is no second buffer
    np.testing.assert_array_equal(past.numpy(), feeds["past"])


def test_a_copy_of_the_tensor_stays_as_it_is() -> None:
    data, feeds = cache(), given()
    ours = session(data)
    past = at("gpu", feeds["past"])
    for _ in range(3):
        bound(ours, {**feeds, "past": past}, past)
    kept, copy = past.numpy(), at("gpu", np.zeros(SHAPE, np.float32))
    ort.copy_tensors([past], [copy])
    bound(ours, {**feeds, "new": values(*NEW), "past": past}, past)
    np.testing.assert_array_equal(copy.numpy(), kept)
    assert not np.array_equal(past.numpy(), kept)


def test_the_tensor_is_another_input_too() -> None:
    """The other input has the values of before the run."""
    nodes = [
        node("TensorScatter", ["past", "new", "starts"], ["present"], axis=2),
        node("Attention", ["q", "present", "present"], ["a"]),
        node("ReduceMax", ["same"], ["top"], keepdims=0),
        node("Add", ["a", "top"], ["y"]),
    ]
    inputs = {"past": SHAPE, "new": NEW, "q": QUERY, "starts": (2,), "same": SHAPE}
    made = {"y": QUERY, "present": SHAPE}
    data = model(nodes, inputs, made, opset=24, kinds={"starts": np.int64})
    ours, theirs, feeds = session(data), cpu(data), given()
    past = at("gpu", feeds["past"])
    for k in range(5):
        feeds |= given(k, k + 1) | {"past": feeds["past"], "same": feeds["past"]}
        feeds["new"] = feeds["new"] + 10 * k  # would be the largest if it were read
        y, feeds["past"] = theirs.run(None, feeds)
        got = bound(ours, {**feeds, "past": past, "same": past}, past)
        assert_near(got, [y, feeds["past"]])


def test_a_start_outside_changes_nothing() -> None:
    data, feeds = cache(), given()
    ours = session(data)
    past = at("gpu", feeds["past"])
    for _ in range(3):
        bound(ours, {**feeds, "past": past}, past)
    kept = past.numpy()
    with pytest.raises(Exception, match="exceeds"):
        bound(ours, {**feeds, **given(0, 7), "past": past}, past)
    np.testing.assert_array_equal(past.numpy()[1], kept[1])


def test_a_cache_that_is_read_elsewhere_is_copied() -> None:
    """Its earlier contents are another result."""
    data = cache(node("Neg", ["past"], ["negated"]), outputs=["negated"])
    ours, theirs, feeds = session(data), cpu(data), given()
    assert_near(ours.run(None, feeds), theirs.run(None, feeds))
