"""The names of this provider in the user's API and in messages."""

from __future__ import annotations

EP_NAME = "TflGpuExecutionProvider"
LIBRARY_NAME = "tflgpu"
INSTALL = "pip install 'onnxruntime>=1.24.4'"
