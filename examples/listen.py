"""Finds sounds or words in a recording, window by window, in tflite-runtime.

    pip install 'tflgpu-plugin[tflite-runtime]'      # Python 3.11; elsewhere use ai_edge_litert
    python examples/listen.py yamnet.tflite recording.wav

The model takes a waveform from -1 to 1, as YAMNet does, and the recording has its sample rate."""

from __future__ import annotations

import sys
import wave
from collections.abc import Iterator
from typing import Any

import numpy as np
from tflite_runtime.interpreter import Interpreter, load_delegate

import tflgpu_plugin


def waveform(path: str) -> tuple[Any, int]:
    """Returns the first channel of a 16-bit recording, and its sample rate."""
    with wave.open(path) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2")
        return samples[:: file.getnchannels()] / np.float32(32768), file.getframerate()


def heard(interpreter: Any, samples: Any) -> Iterator[tuple[int, Any]]:
    """Yields the start of each window, half a window after the one before, and its scores."""
    given, result = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
    length = int(np.prod(given["shape"]))
    for start in range(0, len(samples) - length + 1, length // 2):
        window = samples[start : start + length].reshape(given["shape"])
        interpreter.set_tensor(given["index"], window)
        interpreter.invoke()
        yield start, interpreter.get_tensor(result["index"])[0]


def main(model: str, recording: str) -> None:
    delegate = load_delegate("tflgpu")
    interpreter = Interpreter(model, experimental_delegates=[delegate])
    interpreter.allocate_tensors()
    samples, rate = waveform(recording)
    for start, scores in heard(interpreter, samples):
        best = int(np.argmax(scores))
        print(f"{start / rate:6.2f} s: class {best}, {scores[best]:.3f}")
    print(tflgpu_plugin.report(delegate))


if __name__ == "__main__":
    main(*sys.argv[1:])
