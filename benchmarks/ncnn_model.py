"""Writes the demo's MobileNet v1 as an ncnn model: a text file of layers and a file of weights.

Format: https://github.com/Tencent/ncnn/wiki/param-and-model-file-structure (each weight block is
preceded by a zero word that says float32; a padding of -233 means TensorFlow's SAME).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tflgpu_plugin.demo.network import CLASSES, Layer, Network

_RELU6 = "9=3 -23310=2,0.0,6.0"
_SAME = "4=-233"


def write(network: Network, folder: Path, name: str = "mobilenet_v1") -> tuple[Path, Path]:
    """Write NAME.param and NAME.bin; blobs are `in0` ([3, 224, 224], planar) and `out0` (1001
    probabilities).
    """
    lines, weights, blob = ["Input in0 0 1 in0"], bytearray(), "in0"
    for layer in network.layers:
        if layer.name == "logits":
            lines.append(f"Pooling pool 1 1 {blob} pool 0=1 4=1")
            blob = "pool"
        lines.append(f"{_describe(layer, blob)}")
        weights += bytes(4) + _planar(layer).tobytes() + layer.bias.tobytes()
        blob = layer.name
    lines.append(f"Softmax softmax 1 1 {blob} out0 0=0 1=1")
    text = "\n".join(["7767517", f"{len(lines)} {len(lines)}", *lines, ""])
    files = folder / f"{name}.param", folder / f"{name}.bin"
    files[0].write_text(text)
    files[1].write_bytes(bytes(weights))
    return files


def _describe(layer: Layer, source: str) -> str:
    size, width = layer.weights.size, layer.weights.shape[-1]
    if layer.name == "logits":
        return f"InnerProduct {layer.name} 1 1 {source} {layer.name} 0={CLASSES} 1=1 2={size}"
    kernel = layer.weights.shape[0]
    window = f"0={width} 1={kernel} 3={layer.stride} {_SAME}"
    common = f"1 1 {source} {layer.name} {window} 5=1 6={size} {_RELU6}"
    if layer.kind == "depthwise":
        return f"ConvolutionDepthWise {layer.name} {common} 7={width}"
    return f"Convolution {layer.name} {common}"


def _planar(layer: Layer) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """[O, I, KH, KW] for convolutions, [C, KH, KW] for depthwise ones."""
    order = (2, 0, 1) if layer.kind == "depthwise" else (3, 2, 0, 1)
    return np.ascontiguousarray(layer.weights.transpose(order), np.float32)
