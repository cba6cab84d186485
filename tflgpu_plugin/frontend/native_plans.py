"""The plans of a native partition, to which its host's runs go: each is for the shapes of its
inputs, which are passed as a flat list (`reshaping.flat`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tflgpu_plugin import native
from tflgpu_plugin.runtime.program import native_symbols

if TYPE_CHECKING:
    from tflgpu_plugin.engine import Instance


def partition(handle: Any) -> Any:
    """Returns the tg_partition with which a native object begins."""
    return native.ffi.cast("tg_partition *", handle)


def _numbers(given: Sequence[int]) -> tuple[Any, int]:
    return native.ffi.new("int32_t[]", given), len(given)


def exists(handle: Any, given: Sequence[int]) -> bool:
    """Whether runs with these shapes have a plan, possibly derived from symbols."""
    return bool(native.lib.tg_partition_plans(partition(handle), *_numbers(given)))


def drop(handle: Any, given: Sequence[int]) -> None:
    """Drops the plan that was made for these shapes, unless it has states."""
    native.lib.tg_partition_drop(partition(handle), *_numbers(given))


def add(handle: Any, given: Sequence[int], made: Sequence[int], found: Instance | str) -> None:
    """Passes a plan, or the reason why there is none. `made` are the outputs' shapes."""
    ffi = native.ffi
    inputs, outputs = (ffi.new("int32_t[]", numbers) for numbers in (given, made))
    spec = ffi.new("tg_plan_spec *")
    spec.shapes, spec.shape_count = inputs, len(inputs)
    spec.output_shapes, spec.output_shape_count = outputs, len(outputs)
    text = ffi.new("char[]", found.encode()) if isinstance(found, str) else ffi.NULL
    spec.reason, spec.replay = text, ffi.NULL if isinstance(found, str) else found.replay
    symbols = ffi.NULL if isinstance(found, str) else native_symbols(found.plan)
    spec.symbols = symbols
    native.call(native.lib.tg_partition_add, partition(handle), spec)
    if not isinstance(found, str):
        found.release()
