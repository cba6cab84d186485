"""Names that users and messages know this provider by."""

from __future__ import annotations

EP_NAME = "TflGpuExecutionProvider"
LIBRARY_NAME = "tflgpu"
INSTALL = "pip install 'onnxruntime>=1.24.4'"
