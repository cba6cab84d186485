"""Tells the native factory which adapters there are: it may not ask Python while onnxruntime
registers the library.
"""

from __future__ import annotations

import os
from typing import Any

from tflgpu_plugin import providers
from tflgpu_plugin.providers import AdapterInfo, NoAdapter, Once, log, native

ALLOW_SOFTWARE = "TFLGPU_ALLOW_SOFTWARE"

_told = Once()  # lines already printed


def is_offered(info: AdapterInfo) -> bool:
    """Automatic policies may choose this adapter: software ones only when the user allows it."""
    return not info.software or os.environ.get(ALLOW_SOFTWARE, "") not in ("", "0")


def tell() -> None:
    """Hand the adapters to native code; none, with a line that says why, when no driver works:
    onnxruntime itself only knows that there is no such provider.
    """
    try:
        providers.select()
        infos = providers.adapters()
    except NoAdapter as error:
        infos = []
        if _told.first(str(error)):
            log.say(f"WARNING: tflgpu: nothing will run on the GPU. {error}")
    ffi = native.ffi
    keep: list[Any] = []

    def text(value: str) -> Any:
        keep.append(ffi.new("char[]", value.encode()))
        return keep[-1]

    table = ffi.new("tg_ort_adapter[]", max(1, len(infos)))
    for row, info in zip(table, infos, strict=False):
        row.name, row.vendor, row.driver = text(info.name), text(info.vendor), text(info.driver)
        row.backend, row.type = text(info.backend), text(info.kind)
        row.vendor_id, row.device_id = info.vendor_id, info.device_id
        row.software, row.offered = info.software, is_offered(info)
    native.call(native.lib.tg_ort_set_adapters, table, len(infos))
