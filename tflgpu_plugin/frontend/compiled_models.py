"""Compiled models: a partition's plans and weights as bytes, and partitions that are restored from
such bytes."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256

from tflgpu_plugin import ops
from tflgpu_plugin.cache import plan_file, store as plans
from tflgpu_plugin.cache.plan_file import Damaged, Stored
from tflgpu_plugin.engine import Extra, Partition, target_of
from tflgpu_plugin.ir import Array, Graph, Plan, Tensor
from tflgpu_plugin.options import Options
from tflgpu_plugin.runtime import adapter
from tflgpu_plugin.runtime.device import AdapterInfo


def packed(
    part: Partition, extra: Extra, arrays: Mapping[str, Array], others: Iterable[tuple[Plan, Extra]]
) -> bytes:
    """Returns a partition's plan and weights as bytes, together with a JSON value and arrays of the
    caller's own, and plans for other shapes."""
    from tflgpu_plugin.compile import compiler

    plan = compiler.compile(part.graph, part.target)  # with the constants' values
    key, tuning = plans.target_key(part.device.target), part.target.tuning
    made = {"half": part.target.half, "without": sorted(part.target.without)}
    stream = io.BytesIO()
    plan_file.write(stream, plan, key, tuning, None, {**extra, **made}, arrays)
    data = stream.getvalue()
    for plan, more in others:
        before, stream = plan_file.contents(memoryview(data)), io.BytesIO()
        plan_file.write(stream, plan, key, tuning, before, more)
        data += stream.getvalue()
    return data


def unpacked(data: bytes, info: AdapterInfo, options: Options) -> tuple[Stored, ...]:
    """Returns the plans, JSON value and arrays that `packed` has converted to these bytes. Raises
    ValueError for other bytes, and for bytes that were packed for another adapter or with a form or
    an op that the options refuse."""
    every, device = plan_file.read(memoryview(data)), adapter.open_device(info)
    found = every[0]
    if reason := plans.difference(found.key, plans.target_key(device.target)):
        raise Damaged(reason)
    used, forms = {each.form for each in found.plan.dispatches}, ops.form_names()
    for name in sorted(target_of(device, options).without.difference(found.extra["without"])):
        if name in used or name not in forms:  # ops may be fused into others
            raise Damaged(f"it may use {name}, which the option without or TFLGPU_WITHOUT refuses")
    return every


def restore_partition(
    nodes: tuple[int, ...], every: Sequence[Stored], info: AdapterInfo, options: Options
) -> Partition:
    """Returns a partition of stored plans. The first plan is built; its graph is absent, so a
    caller of `build` must provide the graph for other shapes. Raises BuildError with a sentence."""
    found, plan = every[0], every[0].plan
    ports = (*plan.inputs, *plan.outputs, *plan.states)
    tensors = {port.tensor: Tensor(port.name, port.shape, port.dtype) for port in ports}
    inputs, outputs = (tuple(p.tensor for p in some) for some in (plan.inputs, plan.outputs))
    graph = Graph(tensors, (), inputs, outputs)
    options = replace(options, is_precision_loss_allowed=int(found.extra["half"] is True))
    device, origin = adapter.open_device(info), sha256()
    for segment in {id(each): each for one in every for each in one.segments}.values():
        origin.update(segment.body)
    part = Partition(nodes, graph, device, options=options, made=every, origin=origin.digest())
    without = part.target.without.union(found.extra["without"])  # also for other shapes
    part.target = replace(part.target, tuning=found.tuning, without=without)
    return part
