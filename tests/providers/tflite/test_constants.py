"""Tests constants that a TFLite model computes from other constants: they are folded here, or left
to the host with all their readers. The host has a delegate of its own, which treats such chains as
weights and does not write their values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from conformance import host as hosts
from conformance.models import sparse, tflite as models
from conformance.models.tflite import Model
from tests.support.interpreters import gpu, same
from tflgpu_plugin import native
from tflgpu_plugin.errors import Unsupported
from tflgpu_plugin.importer import folding
from tflgpu_plugin.ir import Array, Quantization, Refusal, Tensor
from tflgpu_plugin.providers.tflite import sparsity
from tflgpu_plugin.providers.tflite.sparsity import Level, offsets

HOSTS = hosts.installed()
KERNELS = ("reference", "optimized", "default")
adapter = pytest.mark.adapter
CONV = {"padding": "SAME", "strideW": 1, "strideH": 1, "dilationWFactor": 1, "dilationHFactor": 1}
TREES: dict[str, dict[str, Any]] = {
    "listed channels": {"csr": [3]},
    "channels first": {"order": [3, 0, 1, 2], "csr": [0, 1]},
    "blocks": {"blocks": {0: 4, 3: 2}, "csr": [0, 3]},
}


def weights(kind: str = "float16") -> Array:
    """Returns weights of which most are zero."""
    random = np.random.default_rng(0)
    dense = random.normal(size=(8, 1, 1, 16)) * (random.random((8, 1, 1, 16)) < 0.3)
    return dense.astype(kind)


def convolution(model: Model, w: int) -> None:
    """Adds x -> CONV_2D with the weights w -> RELU."""
    x, bias = model.input("x", (1, 6, 6, 16)), model.constant(np.ones(8, np.float32))
    y = model.op("CONV_2D", [x, w, bias], "Conv2DOptions", CONV, shape=(1, 6, 6, 8), name="conv")
    model.output(model.op("RELU", [y], shape=(1, 6, 6, 8), name="relu"))


def four_nodes(tree: dict[str, Any]) -> bytes:
    """Returns the smallest part of MediaPipe's sparse models: DENSIFY -> DEQUANTIZE -> CONV_2D ->
    RELU."""
    model, dense = Model(), weights()
    stored = model.sparse(dense, sparse.encode(dense, **tree), "stored")
    half = model.op("DENSIFY", [stored], "DensifyOptions", shape=dense.shape, dtype="f16")
    convolution(model, model.op("DEQUANTIZE", [half], shape=dense.shape, version=3))
    return model.to_bytes()


def left_chain(
    maker: str, quantization: Quantization | None = None, is_complex: bool = False
) -> bytes:
    """Returns weights that `maker` computes from a constant, transposed; they are not folded before
    the run."""
    model = Model()
    table = model.constant(np.moveaxis(weights("float32"), 0, 3), "table")
    held = model.tensors[table]
    held.quantization = quantization
    if is_complex:
        held.dtype, held.data = "c64", held.data.astype(np.complex64)  # type: ignore[union-attr]
    made = model.op(maker, [table], shape=(1, 1, 16, 8), name="made")
    order = model.constant(np.array([3, 0, 1, 2], np.int32))
    convolution(model, model.op("TRANSPOSE", [made, order], shape=(8, 1, 1, 16), name="turned"))
    return model.to_bytes()


@adapter
@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("tree", TREES.values(), ids=TREES)
def test_sparse_weights_are_worked_out(tree: dict[str, Any], host: str, kernels: str) -> None:
    model = four_nodes(tree)
    interpreter, made = gpu(model, host, kernels)
    assert tflgpu_plugin.report(made).count("gpu") == 4
    same(interpreter, model, host)


@adapter
@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("excluded", ["DENSIFY", "DEQUANTIZE", "CONV_2D", "RELU"])
def test_a_chain_may_be_cut_anywhere(excluded: str, host: str, kernels: str) -> None:
    model = four_nodes(TREES["listed channels"])
    interpreter, made = gpu(model, host, kernels, exclude=excluded)
    assert tflgpu_plugin.report(made).count("gpu") > 0
    same(interpreter, model, host)


@adapter
@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("host", HOSTS)
def test_who_reads_what_the_host_makes_of_constants_stays_there(host: str, kernels: str) -> None:
    """This includes indirect readers; nodes that only read the input may run here."""
    model = left_chain("EXP")
    interpreter, made = gpu(model, host, kernels, exclude="EXP")
    where = {node.name: node for node in tflgpu_plugin.report(made).nodes}
    for name, reads in (("turned", "made"), ("conv", "turned")):
        assert where[name].where == "cpu"
        assert where[name].refusal_code == "constant.on_cpu" and repr(reads) in where[name].reason
    assert where["relu"].where == "gpu"
    same(interpreter, model, host)


@adapter
@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("host", HOSTS)
def test_sparse_weights_that_are_not_worked_out_stay_there(
    host: str, kernels: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host's own delegate never writes them."""

    def refuse(*_: Any) -> Array:
        raise Unsupported(Refusal("constant.unreadable", "is sparse, which is not supported"))

    monkeypatch.setattr(sparsity, "dense", refuse)
    model = four_nodes(TREES["listed channels"])
    interpreter, made = gpu(model, host, kernels)
    nodes = tflgpu_plugin.report(made).nodes
    assert [node.where for node in nodes] == ["cpu", "cpu", "cpu", "gpu"]
    assert nodes[0].reason == "The constant 'stored' is sparse, which is not supported."
    same(interpreter, model, host)


@adapter
@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("kind", ["scaled", "complex"])
def test_what_follows_from_a_constant_that_cannot_be_read_stays_there(
    host: str, kernels: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A float32 constant with a scale has no defined meaning; complex numbers cannot be read
    either."""
    monkeypatch.setitem(models.SCHEMA_TYPES, "c64", "COMPLEX64")
    quantization = Quantization((0.5,), (0,)) if kind == "scaled" else None
    model = left_chain("EXP" if quantization else "CAST", quantization, kind == "complex")
    interpreter, made = gpu(model, host, kernels)
    where = {node.name: node.where for node in tflgpu_plugin.report(made).nodes}
    assert where == {"made": "cpu", "turned": "cpu", "conv": "cpu", "relu": "gpu"}
    same(interpreter, model, host)


@adapter
@pytest.mark.parametrize("host", HOSTS)
def test_what_widened_constants_become_is_worked_out(host: str) -> None:
    """The operator in between has no kernel here."""
    model, halves = Model(), weights()
    wide = model.op("DEQUANTIZE", [model.constant(halves)], shape=halves.shape, version=3)
    axis = model.constant(np.array([3], np.int32))
    convolution(model, model.op("REVERSE_V2", [wide, axis], shape=halves.shape))
    data = model.to_bytes()
    interpreter, made = gpu(data, host, "default")
    assert tflgpu_plugin.report(made).count("cpu") == 0
    same(interpreter, data, host)


@adapter
@pytest.mark.parametrize("host", HOSTS)
def test_what_this_side_makes_of_constants_may_be_read_here(host: str) -> None:
    model = left_chain("EXP")
    interpreter, made = gpu(model, host, "default")
    assert tflgpu_plugin.report(made).count("cpu") == 0
    same(interpreter, model, host)


@adapter
@pytest.mark.parametrize("host", HOSTS)
def test_densify_needs_a_sparse_constant(host: str) -> None:
    """CPU kernels refuse another constant when they prepare."""
    model = Model()
    plain = model.constant(weights(), "plain")
    half = model.op("DENSIFY", [plain], "DensifyOptions", shape=(8, 1, 1, 16), dtype="f16")
    convolution(model, model.op("DEQUANTIZE", [half], shape=(8, 1, 1, 16), version=3))
    made = hosts.load_delegate(host)
    interpreter = hosts.interpreter(model.to_bytes(), host, experimental_delegates=[made])
    nodes = tflgpu_plugin.report(made).nodes
    del interpreter
    assert [node.where for node in nodes] == ["cpu", "cpu", "cpu", "gpu"]
    assert nodes[0].refusal_code == "input.unsupported"


# ---- sparse constants ---------------------------------------------------------------------------

SHAPES: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((5,), {"csr": [0]}),
    ((4, 6), {}),
    ((4, 6), {"csr": [0]}),
    ((4, 6), {"csr": [0, 1], "order": [1, 0]}),
    ((4, 6), {"csr": [1], "blocks": {0: 2, 1: 3}}),
    ((3, 2, 8), {"csr": [1, 2], "blocks": {2: 4}, "order": [2, 0, 1]}),
]


class Raw:
    """A tensor in the host's structs, for the output of `sparse.encode`."""

    def __init__(self, encoded: sparse.Sparse) -> None:
        ffi, values = native.ffi, encoded.values
        self.kept: list[Any] = [values]
        levels = ffi.new("tgl_level[]", max(1, len(encoded.levels)))
        for raw, level in zip(levels, encoded.levels, strict=False):
            listed = level.segments is not None and level.indices is not None
            raw.format, raw.size = int(listed), 0 if listed else level.size
            raw.segments = self.ints(level.segments)
            raw.indices = self.ints(level.indices)
        made = {
            "order": self.ints(encoded.order), "blocked": self.ints(encoded.blocked),
            "levels": levels, "level_count": len(encoded.levels),
        }  # fmt: skip
        self.kept += [levels, ffi.new("tgl_sparsity *", made)]
        self.tensor = ffi.new("tgl_tensor *")
        self.tensor.sparsity = self.kept[-1]
        self.tensor.data, self.tensor.bytes = ffi.from_buffer(values), values.nbytes

    def ints(self, values: list[int] | None) -> Any:
        if values is None:
            return native.ffi.NULL
        made = native.ffi.new("tgl_ints *", {"data": values})
        made.size = len(values)
        self.kept.append(made)
        return made

    def dense(self, shape: tuple[int, ...]) -> Array:
        return sparsity.dense(native.ffi, self.tensor, "float32", shape)


@pytest.mark.parametrize(("shape", "tree"), SHAPES)
def test_sparse_constants_are_read(shape: tuple[int, ...], tree: dict[str, Any]) -> None:
    random = np.random.default_rng(1)
    dense = (random.normal(size=shape) * (random.random(shape) < 0.4)).astype(np.float32)
    np.testing.assert_array_equal(Raw(sparse.encode(dense, **tree)).dense(shape), dense)


def _listed(change: Any) -> sparse.Sparse:
    """Returns a sparse 4 x 6 constant whose second level is a list of indices, with damage."""
    made = sparse.encode(np.eye(4, 6, dtype=np.float32), csr=[1])
    change(made)
    return made


def _set(name: str, values: Any) -> Any:
    return lambda made: setattr(made.levels[1], name, values)


DAMAGED: list[tuple[Any, str]] = [
    (_set("indices", [0, 1, 2, 6]), "beyond its shape"),
    (_set("indices", [0, 1, 2, -1]), "beyond its shape"),
    (_set("indices", [0, 1, 2]), "do not add up"),
    (_set("segments", [0, 1, 2, 3]), "do not add up"),
    (_set("segments", []), "do not add up"),
    (_set("segments", [0, 3, 2, 3, 4]), "beyond its shape"),
    (_set("segments", [1, 1, 2, 3, 4]), "do not add up"),
    (lambda m: (_set("segments", [0, 2, 2, 3, 4])(m), _set("indices", [1, 1, 2, 3])(m)), "order"),
    (lambda made: setattr(made.levels[0], "size", 1 << 30), "contradicts its shape"),
    (lambda made: made.levels.pop(), "order that is not supported"),
    (lambda made: setattr(made, "order", [0, 0]), "order that is not supported"),
    (lambda made: setattr(made, "order", []), "order that is not supported"),
    (lambda made: setattr(made, "blocked", [0]), "order that is not supported"),
    (lambda made: setattr(made, "values", made.values[:3]), "3 values in 4 elements"),
]


@pytest.mark.parametrize(("change", "part"), DAMAGED)
def test_damaged_sparsity_is_a_sentence(change: Any, part: str) -> None:
    with pytest.raises(Unsupported, match=part):
        Raw(_listed(change)).dense((4, 6))


def test_few_values_stand_for_no_huge_array() -> None:
    few = sparse.Sparse(np.ones(1, np.float32), [0, 1], [], [sparse.Level(1 << 20)] * 2)
    with pytest.raises(Unsupported, match="are too few for"):
        Raw(few).dense((1 << 20, 1 << 20))


@pytest.mark.parametrize("blocks", [{0: 3}, {1: 4}])
def test_blocks_that_do_not_divide_are_a_sentence(blocks: dict[int, int]) -> None:
    made = sparse.encode(np.eye(12, dtype=np.float32), blocks=blocks, csr=[1])
    with pytest.raises(Unsupported, match="do not divide"):
        Raw(made).dense((11, 11))


def test_offsets_of_a_tree_without_levels() -> None:
    assert offsets([], 1).tolist() == [0]
    assert offsets([Level(2, 3), Level(3, 1)], 6).tolist() == [0, 1, 2, 3, 4, 5]


def test_constants_are_quantized_by_the_scales_of_an_axis() -> None:
    values = np.array([[1.0, -2.26, 3.0], [0.4, 7.0, -1.5]], np.float32)
    for axis, scales, zeros in ((0, (0.5, 1.0), (0, 3)), (1, (0.5, 1.0, 2.0), (1, 0, -1))):
        shape = [1, 1]
        shape[axis] = len(scales)
        quantization = Quantization(scales, zeros, axis)
        made = Tensor("y", (2, 3), "i8", quantization=quantization)
        found = folding.quantized(Tensor("x", (2, 3), "f32", values), made)
        steps = values / np.float32(scales).reshape(shape)
        wanted = np.copysign(np.floor(np.abs(steps) + 0.5), steps) + np.reshape(zeros, shape)
        np.testing.assert_array_equal(found, wanted)
