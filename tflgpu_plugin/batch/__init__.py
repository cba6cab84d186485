"""Many inputs through one model: `tflgpu run`, on the workers of one machine or of a Ray cluster,
and the class that Ray Data and Ray Serve take.

A run is cut into parts of one batch each. A worker reads the inputs of a part, runs them and leaves
one file of results, whole or not at all; so a run that was broken off goes on with the parts whose
files are missing.
"""

from __future__ import annotations

from tflgpu_plugin.batch.model import Predictor

__all__ = ["Predictor"]
