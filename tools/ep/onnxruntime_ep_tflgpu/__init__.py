"""The execution provider of tflgpu-plugin, in the form of onnxruntime's packages of plugins.

import onnxruntime, onnxruntime_ep_tflgpu as ep
onnxruntime.register_execution_provider_library("tflgpu", ep.get_library_path())"""

from tflgpu_plugin import get_ep_name, get_ep_names, get_library_path

__all__ = ["get_ep_name", "get_ep_names", "get_library_path"]
