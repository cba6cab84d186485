"""Layouts that the headers of the hosts' interfaces state are checked when the library is built: a
wrong offset would crash a host or read another member."""

from __future__ import annotations

import re

import pytest
from cffi import FFI

from tests.support.subprocesses import ROOT
from tflgpu_plugin.native import declare

FOLDERS = ("tflite", "litert", "ort")
HEADERS = {host: ROOT / f"tflgpu_plugin/native/{host}/abi.h" for host in FOLDERS}


def misplaced(text: str) -> list[str]:
    parser = FFI()
    parser.set_source("declared", None)
    parser.cdef(text)
    return list(declare.misplaced(parser, text))


@pytest.mark.parametrize(("host", "remarks"), [("tflite", 77), ("litert", 17), ("ort", 101)])
def test_the_remarks_are_read(host: str, remarks: int) -> None:
    text = HEADERS[host].read_text()
    found = declare.STRUCT.findall(text)
    count = sum(bool(size) + len(declare.MEMBER.findall(members)) for _, members, size in found)
    assert count >= remarks and not misplaced(text)


@pytest.mark.parametrize(("host", "right", "wrong", "told"), [
    ("tflite", "/* at 40 */", "/* at 44 */", ["tgl_tensor.bytes", "tgl_registration.builtin_code",
     "tgl_delegate.flags", "tgl_context.report_error"]),
    ("tflite", "/* 112 bytes */", "/* 120 bytes */", ["tgl_tensor"]),
    ("tflite", "/* 1 byte */", "/* 2 bytes */", ["tgl_gelu_params"]),
    ("ort", "/* 51 */", "/* 52 */", ["tgo_api.get_tensor_data"]),
    ("ort", "void *unused_301[6];", "void *unused_301[7];", None),
])  # fmt: skip
def test_what_lies_elsewhere_is_told(
    host: str, right: str, wrong: str, told: list[str] | None
) -> None:
    text = HEADERS[host].read_text()
    assert right in text
    found = misplaced(text.replace(right, wrong))
    if told is None:  # all behind it
        assert found[0] == "tgo_api.get_device_kind" and len(found) > 40
    else:
        assert found == told


def test_every_function_of_the_tables_says_its_slot() -> None:
    for name, members, _ in declare.STRUCT.findall(HEADERS["ort"].read_text()):
        if name in ("tgo_api", "tgo_ep_api", "tgo_editor"):
            left = declare.MEMBER.sub("", members)
            assert not re.findall(r"\(\*(?!unused)(\w+)\)\(", left), name
