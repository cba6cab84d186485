"""Tunes a partition on the device: plans it in a few ways, runs each, and keeps the fastest.

Off unless the user asks for sustained speed, since each way compiles its own kernels. Results are
cached per adapter, driver and partition in the user's cache folder."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tflgpu_plugin import native
from tflgpu_plugin.cache import folders
from tflgpu_plugin.compile import compiler
from tflgpu_plugin.errors import Unsupported
from tflgpu_plugin.ir import NUMPY_DTYPES, Graph, Target, dump
from tflgpu_plugin.runtime.pipelines import PipelineError
from tflgpu_plugin.runtime.program import Instance, create

if TYPE_CHECKING:
    from tflgpu_plugin.runtime.device import Device

VERSION = 6  # version of the settings; results of other versions are ignored
RUNS = 5
MAX_TUNING_SECONDS = 10.0  # seconds for one partition
MIN_TUNING_GAIN = 0.97  # relative to the best time; smaller gains are noise

# Settings to try, the vendor's default first: of kernels (see ops.tiles), and forms that are never
# or always chosen.
GPU: tuple[Mapping[str, str], ...] = (
    {},
    {"half": "never"},
    {"weights": "memory"},
    {"weights": "global"},
    {"weights": "shuffle"},
    {"tile": "4x4"},
    {"tile": "2x4"},
    {"tile": "4x8"},
    {"tile": "1x4"},
    {"split_k": "never", "reduce_parts": "never"},
    {"ahead": "8"},
    {"ahead": "1"},
    {"winograd_planes": "never", "winograd_rows": "never"},
    {"stem": "never", "strided_window": "never"},
    {"stem": "never"},
    {"stem": "always"},
)
SOFTWARE: tuple[Mapping[str, str], ...] = (
    {},
    {"tile": "4x8"},
    {"tile": "5x8"},
    {"winograd_planes": "never"},
    {"strided_rows": "never", "strided_window": "never"},
)


def best(graph: Graph, device: Device, target: Target) -> Target:
    """Returns the target with the fastest settings for this partition: cached ones, or measured now
    and cached. The target must be one of this device."""
    path = _path(graph, target)
    stored = kept_settings(path)
    if stored is None:
        stored = best_settings(graph, device, target)
        if path:
            folders.keep(path, json.dumps(stored))
    return replace(target, tuning=stored)


def best_settings(graph: Graph, device: Device, target: Target) -> dict[str, str]:
    """Returns the fastest settings, found by adding one at a time to the fastest so far."""
    chosen: dict[str, str] = dict(target.tuning)  # by calibration
    fastest, plans = float("inf"), set[bytes]()
    end = time.monotonic() + MAX_TUNING_SECONDS
    for settings in SOFTWARE if target.software else GPU:
        if "half" in settings and not target.half:
            continue
        tried = {**chosen, **settings}
        if time.monotonic() > end and fastest < float("inf"):
            break
        try:
            plan = compiler.compile(graph, replace(target, tuning=tried))
            if plan.structure in plans:
                continue
            plans.add(plan.structure)
            taken = fastest_run(Instance(create(plan, device, True)))
        except (Unsupported, PipelineError, native.NativeError):
            continue
        if taken < fastest * MIN_TUNING_GAIN:
            chosen, fastest = tried, taken
    return chosen


def fastest_run(instance: Instance) -> float:
    """Returns the nanoseconds of the fastest of a few runs on zeros: other load only adds time."""
    ports = instance.plan.inputs, instance.plan.states
    inputs, states = (
        [np.zeros(port.shape, NUMPY_DTYPES[port.dtype]) for port in some] for some in ports
    )
    found = []
    for _ in range(1 + RUNS):
        instance.run(inputs, states)
        found.append(int(instance.counters().last_nanoseconds))
    return float(min(found[1:]))


def _path(graph: Graph, target: Target) -> Path | None:
    folder = folders.cache("tuning")
    if folder is None:
        return None
    adapter: tuple[object, ...] = (
        target.name,
        target.vendor,
        target.driver,
        target.backend,
        target.subgroup_size,
    )
    adapter += ("half",) if target.half else ()
    adapter += (sorted(target.tuning.items()), target.threads)
    return folder / f"{sha256(repr((VERSION, adapter, dump(graph))).encode()).hexdigest()}.json"


def kept_settings(path: Path | None) -> dict[str, str] | None:
    try:
        content = json.loads((path and folders.kept(path)) or "null")
    except (ValueError, RecursionError):
        return None
    if not isinstance(content, dict):
        return None
    return {str(key): str(value) for key, value in content.items()}
