"""A network as an ncnn model: a text file of layers and a file of weights.

Format: https://github.com/Tencent/ncnn/wiki/param-and-model-file-structure (each weight block is
preceded by a zero word that says float32; a blob that is read twice needs a Split layer)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np

from benchmarks.networks import Layer, Network

ACTIVATIONS = {"": "", "relu": " 9=1", "relu6": " 9=3 -23310=2,0.0,6.0"}


def to_ncnn(network: Network, folder: Path) -> tuple[Path, Path]:
    """Writes NAME.param and NAME.bin; blobs are `in0` ([3, H, W], planar) and `out0`."""
    writer = _Writer(network)
    for layer in network.layers:
        writer.add(layer)
    blobs = sum(int(line.split()[3]) for line in writer.lines)
    text = "\n".join(["7767517", f"{len(writer.lines)} {blobs}", *writer.lines, ""])
    files = folder / f"{network.name}.param", folder / f"{network.name}.bin"
    files[0].write_text(text)
    files[1].write_bytes(bytes(writer.weights))
    return files


class _Writer:
    def __init__(self, network: Network) -> None:
        self.last = network.layers[-1].name
        self.readers = Counter(name for layer in network.layers for name in layer.inputs)
        self.given: Counter[str] = Counter()
        self.lines = ["Input in0 0 1 in0"]
        self.weights = bytearray()
        self._split("input", "in0")

    def add(self, layer: Layer) -> None:
        blob = "out0" if layer.name == self.last else layer.name
        kind, options = self._form(layer)
        inputs = " ".join(self._take(name) for name in layer.inputs)
        self.lines.append(f"{kind} {layer.name} {len(layer.inputs)} 1 {inputs} {blob} {options}")
        if layer.weights is not None and layer.bias is not None:
            weights = layer.weights
            if weights.ndim == 4:
                weights = weights.transpose(0, 3, 1, 2)
            self.weights += bytes(4) + np.ascontiguousarray(weights).tobytes()
            self.weights += layer.bias.tobytes()
        self._split(layer.name, blob)

    def _take(self, name: str) -> str:
        self.given[name] += 1
        if self.readers[name] > 1:
            return f"{name}/{self.given[name]}"
        return "in0" if name == "input" else name

    def _split(self, name: str, blob: str) -> None:
        count = self.readers[name]
        if count > 1:
            copies = " ".join(f"{name}/{k + 1}" for k in range(count))
            self.lines.append(f"Split {name}/split 1 {count} {blob} {copies}")

    def _form(self, layer: Layer) -> tuple[str, str]:
        """Returns (layer type, options)."""
        size = 0 if layer.weights is None else layer.weights.size
        window = f"3={layer.stride} 4={layer.pad} 5=1"
        if layer.op == "conv":
            assert layer.weights is not None
            width = f"0={layer.shape[-1]} 1={layer.weights.shape[1]}"
            options = f"{width} {window} 6={size}{ACTIVATIONS[layer.activation]}"
            if layer.groups > 1:
                return "ConvolutionDepthWise", f"{options} 7={layer.groups}"
            return "Convolution", options
        if layer.op == "max_pool":
            return "Pooling", f"0=0 1={layer.window} 2={layer.stride} 3={layer.pad} 5=1"
        return {
            "mean": ("Pooling", "0=1 4=1"),
            "dense": ("InnerProduct", f"0={layer.shape[-1]} 1=1 2={size}"),
            "resize": ("Interp", "0=2 1=2.0 2=2.0 6=0"),
            "concat": ("Concat", "0=0"),
            "add": ("BinaryOp", "0=0"),
            "relu": ("ReLU", ""),
            "softmax": ("Softmax", "0=0 1=1"),
        }[layer.op]
