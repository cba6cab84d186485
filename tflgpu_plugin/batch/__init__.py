"""Runs many inputs through one model: `tflgpu run`, on the workers of one machine or of a Ray
cluster, and the class for Ray Data and Ray Serve.

A run is cut into parts of one batch each. A worker reads the inputs of a part, runs them and writes
one file of results atomically; so an interrupted run continues with the parts whose files are
missing."""

from __future__ import annotations

from tflgpu_plugin.batch.model import Predictor

__all__ = ["Predictor"]
