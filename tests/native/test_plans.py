"""Tests plans that are passed to a partition of onnxruntime: each fits, or is refused with a
sentence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.native.test_refused_calls import SIZE, Spec, buffer, spec
from tests.support.native_plans import add
from tflgpu_plugin import native

pytestmark = pytest.mark.adapter
__all__ = ["spec"]


def partition(inputs: int = 2, outputs: int = 1, counts: int = 0) -> Any:
    ffi = native.ffi
    names = [ffi.new("char[]", f"v{k}".encode()) for k in range(inputs + outputs)]
    given = ffi.new("char *[]", names[:inputs]), ffi.new("char *[]", names[inputs:])
    spec, nodes = ffi.new("tg_ort_partition_spec *"), ffi.new("uint64_t[]", [5])
    spec.nodes, spec.node_count = nodes, 1
    spec.inputs, spec.input_count, spec.port_count = given[0], inputs, 1
    spec.outputs, spec.output_count, spec.count_count = given[1], outputs, counts
    made = native.call(native.lib.tg_ort_partition_create, spec)
    return ffi.gc(made, native.lib.tg_ort_partition_release)


@pytest.mark.parametrize(
    ("shapes", "right"),
    [
        ([1, 16, 0], True), ([0, 2, 3, 4], True), ([1, 16, 1, 0], True),
        ([], False), ([1, 16], False), ([1, 16, 1], False), ([1], False), ([2, 4], False),
        ([1, 16, -1], False), ([-1, 0], False), ([1, 16, 0, 0], False), ([0, 0, 0], False),
    ],
)  # fmt: skip
def test_lists_of_shapes_describe_as_many_tensors_as_there_are(
    shapes: list[int], right: bool
) -> None:
    ours, theirs = partition(), partition(1, 2)
    if right:
        add(ours, shapes, [])
        add(theirs, [1, 16], shapes)
        return
    with pytest.raises(native.NativeError, match="input shapes does not describe 2 tensors"):
        add(ours, shapes, [])
    if shapes:
        with pytest.raises(native.NativeError, match="output shapes does not describe 2 tensors"):
            add(theirs, [1, 16], shapes)


def test_a_plan_has_the_ports_of_its_partition(spec: Spec) -> None:
    add(partition(1), [1, 16], [1, 16], spec.make())
    more = (buffer(spec.device), SIZE)
    for name in ("inputs", "outputs", "states"):
        wrong = replace(spec, **{name: (*getattr(spec, name), more)}).make()
        with pytest.raises(native.NativeError, match="but its partition has 1, 1 and 0"):
            add(partition(1), [1, 16], [1, 16], wrong)
    with pytest.raises(native.NativeError, match="output shapes does not describe 1 tensors"):
        add(partition(1), [1, 16], [], spec.make())


def test_counts_are_behind_the_outputs(spec: Spec) -> None:
    """An output may have an extent that a count determines, if that count exists."""
    wrong, count = ((buffer(spec.device, size), size) for size in (8, 4))
    one = replace(spec, outputs=(*spec.outputs, count)).make()
    for shape in ([1, 16], [1, -1], [2, -1, 3], [2, 3, -1]):
        add(partition(1, counts=1), [1, 16], shape, one)
    for shape in ([1, -2], [2, 3, -(2**31)], [2, -1]):
        with pytest.raises(native.NativeError, match="output shapes does not describe 1 tensors"):
            add(partition(1, counts=1), [1, 16], shape, one)
    with pytest.raises(native.NativeError, match="output shapes does not describe 1 tensors"):
        add(partition(1), [1, 16], [1, -1], spec.make())
    with pytest.raises(native.NativeError, match="but its partition has 1, 2 and 0"):
        add(partition(1, counts=1), [1, 16], [1, -1], spec.make())
    with pytest.raises(native.NativeError, match="but its partition has 1, 1 and 0"):
        add(partition(1), [1, 16], [1, 16], one)
    long = replace(spec, outputs=(*spec.outputs, wrong)).make()
    with pytest.raises(native.NativeError, match="Output 1 of the plan is not a count"):
        add(partition(1, counts=1), [1, 16], [1, -1], long)
