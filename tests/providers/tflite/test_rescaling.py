"""Tests rounding of quantized results as in the host: which concatenations rescale their inputs,
and which hosts round sums of fully connected layers once."""

from __future__ import annotations

import pytest

from tflgpu_plugin import native
from tflgpu_plugin.importer.support import support
from tflgpu_plugin.ir import Graph, Node, Quantization, Target, Tensor
from tflgpu_plugin.providers.tflite import codes, ops
from tflgpu_plugin.providers.tflite.host_node import RawNode

OTHER = Quantization((0.25,), (1,))


@pytest.mark.parametrize(("dtype", "rescales"), [("u8", True), ("i8", False), ("i16", False)])
def test_only_uint8_is_rescaled(dtype: str, rescales: bool) -> None:
    tensors = {k: Tensor(f"t{k}", (2, 3), dtype, quantization=Quantization((0.5,), (0,)))
               for k in range(3)}  # fmt: skip
    tensors[1] = Tensor("t1", (2, 3), dtype, quantization=OTHER)
    tensors[2] = Tensor("t2", (4, 3), dtype, quantization=Quantization((0.5,), (0,)))
    params = native.ffi.new("tgl_concatenation_params *", {"axis": 0})
    code = codes.operators().index("CONCATENATION")
    host = RawNode(native.ffi, 0, code, "CONCATENATION", 1, (0, 1), (2,), params, tensors)
    row = ops.HOST_OPS["CONCATENATION"]
    assert row.parameters is not None
    attributes = row.parameters(host)
    assert bool(attributes.get("rescales")) == rescales
    node = Node(0, "concat", (0, 1), (2,), attributes, "joined", "CONCATENATION", 1, row)
    reason = support(Graph(tensors, (node,), (0, 1), (2,)), node, Target())
    assert (reason is None) == rescales
    if dtype == "i8":
        assert reason is not None and reason.code == "quantization.mismatch"


@pytest.mark.parametrize(
    ("library", "once"),
    [
        ("/usr/lib/python3/site-packages/tflite_runtime/_pywrap.so", False),
        ("/usr/lib/python3/site-packages/ai_edge_litert/libpywrap.so", True),
        ("/usr/lib/python3/site-packages/tensorflow/lite/python/_pywrap.so", True),
        ("/home/me/tensorflow/.venv/site-packages/tflite_runtime/_pywrap.so", False),
        ("/home/me/tflite_runtime/.venv/site-packages/ai_edge_litert/libpywrap.so", True),
        ("/opt/lib/tensorflow", False),
        ("", False),
    ],
)
def test_the_package_of_the_host_decides_how_often_sums_are_rounded(
    library: str, once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A parent folder or file with that name does not count."""
    monkeypatch.setattr(RawNode, "library", lambda _: library)
    params = native.ffi.new("tgl_fully_connected_params *")
    code = codes.operators().index("FULLY_CONNECTED")
    tensors = dict.fromkeys(range(3), Tensor("t", (1, 1), "f32"))
    host = RawNode(native.ffi, 0, code, "FULLY_CONNECTED", 4, (0, 1), (2,), params, tensors)
    row = ops.HOST_OPS["FULLY_CONNECTED"]
    assert row.parameters is not None
    assert bool(row.parameters(host).get("rounds_once")) == once
