"""Plans for native partitions, in tests of the native library."""

from __future__ import annotations

from typing import Any

from tflgpu_plugin import native


def add(
    to: Any,
    shapes: list[int],
    results: list[int],
    replay: Any = None,
    reason: str = "",
    symbols: Any = None,
) -> None:
    """Hands a partition its plan for these shapes, or the reason why there is none. `symbols` are
    native ones (tg_symbols *)."""
    ffi = native.ffi
    lists = [ffi.new("int32_t[]", each) for each in (shapes, results)]
    text = ffi.new("char[]", reason.encode())
    spec = ffi.new("tg_plan_spec *")
    spec.shapes, spec.shape_count = lists[0], len(shapes)
    spec.output_shapes, spec.output_shape_count = lists[1], len(results)
    spec.replay, spec.reason = replay or ffi.NULL, text if reason else ffi.NULL
    spec.symbols = symbols or ffi.NULL
    native.call(native.lib.tg_partition_add, ffi.cast("tg_partition *", to), spec)
