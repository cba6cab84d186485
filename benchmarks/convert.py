"""Converts TFLite models for other engines: to ONNX by tf2onnx (the conformance suite's converter
and its cache), from there to ncnn's format by pnnx; and removes custom operators."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import onnx

from benchmarks import peers
from benchmarks.engine import Unavailable
from conformance import converted
from conformance.models import tflite_file


def to_onnx(content: bytes) -> bytes:
    """Returns the model in ONNX, with TFLite's layout of pictures; makes the converter's
    environment on first use. Raises Unavailable."""
    try:
        converted.make_environment()
        found = converted.convert({"model": content})["model"]
    except converted.NoConverter as error:
        raise Unavailable(str(error)) from error
    if isinstance(found, str):
        raise Unavailable(f"tf2onnx cannot convert it: {found}")
    return found


def to_ncnn(content: bytes, shape: tuple[int, ...], folder: Path) -> tuple[Path, Path]:
    """Writes an ONNX model as ncnn's two files in `folder`. Raises Unavailable."""
    model = onnx.load_from_string(content)
    for node in model.graph.node:
        if node.op_type == "Resize":
            _plain(node)
    path = folder / "model.onnx"
    onnx.save(model, str(path))
    return peers.pnnx(path, shape)


def _plain(node: onnx.NodeProto) -> None:
    """Removes attributes of a Resize that have no effect in its mode; pnnx does not know them."""
    named = {attribute.name: attribute for attribute in node.attribute}
    if named["coordinate_transformation_mode"].s != b"tf_crop_and_resize":
        node.input[1] = ""  # the region
    if named["mode"].s != b"nearest" and "nearest_mode" in named:
        node.attribute.remove(named["nearest_mode"])


def without_custom(content: bytes) -> bytes | None:
    """Returns the model up to its custom operators, whose inputs become outputs; None if it does
    not end with any."""
    schema = tflite_file.schema()
    model = schema.ModelT.InitFromPackedBuf(content, 0)
    graph = model.subgraphs[0]
    custom = [o for o in graph.operators if model.operatorCodes[o.opcodeIndex].customCode]
    left = {int(t) for operator in custom for t in operator.outputs}
    kept = [operator for operator in graph.operators if operator not in custom]
    if not custom or any(int(t) in left for operator in kept for t in operator.inputs):
        return None
    made = {int(t) for operator in kept for t in operator.outputs}
    asked = [int(t) for operator in custom for t in operator.inputs if int(t) in made]
    graph.outputs = [int(t) for t in graph.outputs if int(t) not in left] + asked
    graph.operators, model.signatureDefs = kept, None
    builder = import_module("flatbuffers").Builder(len(content) + 1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())
