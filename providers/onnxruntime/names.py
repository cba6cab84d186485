"""The names of this provider in the user's API and in messages."""

from __future__ import annotations

EP_NAME = "TflGpuExecutionProvider"
LIBRARY_NAME = "tflgpu"
INSTALL = "pip install 'onnxruntime>=1.24.4'"
PREFIX = "ep.tflgpuexecutionprovider."  # of our options in session options
DROPPED = "(not given)"  # the value of an option that session options have from before
