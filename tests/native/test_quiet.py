"""Enumerating adapters writes nothing to stderr and leaves the environment unchanged."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

pytestmark = [
    pytest.mark.adapter,
    pytest.mark.skipif(sys.platform != "linux", reason="a layer of Mesa for Linux"),
]

# os.environ is read by other threads, C's environment by drivers: neither may keep a trace. The
# variable is seen where the instance is made.
CODE = """
import ctypes, json, os
from tflgpu_plugin import native

def seen(name="NODEVICE_SELECT"):
    found = ctypes.CDLL(None)
    found.getenv.restype = ctypes.c_char_p
    return (found.getenv(name.encode()) or b"").decode()

plain, within = native.call, []
def call(function, *arguments):
    within.append(seen())
    assert dict(os.environ) == before
    return plain(function, *arguments)

before, native.call = dict(os.environ), call
count = native.adapters()[1]
assert dict(os.environ) == before
print(json.dumps({"count": count, "within": within[-1], "after": seen()}))
"""


def looked(**environment: str) -> tuple[dict[str, object], str]:
    kept = {k: v for k, v in os.environ.items() if k not in ("XDG_RUNTIME_DIR", "DRI_PRIME")}
    done = subprocess.run(
        [sys.executable, "-c", CODE], env=kept | environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


@pytest.mark.parametrize("folder", [{}, {"XDG_RUNTIME_DIR": ""}, {"XDG_RUNTIME_DIR": "nowhere"}])
def test_without_a_desktop(folder: dict[str, str]) -> None:
    found, said = looked(**folder)
    assert found["count"] and (found["within"], found["after"]) == ("1", "")
    assert said == ""


def test_on_a_desktop_the_layer_stays() -> None:
    found, said = looked(XDG_RUNTIME_DIR="/tmp")
    assert (found["within"], found["after"], said) == ("", "", "")


@pytest.mark.parametrize("choice", [{"MESA_VK_DEVICE_SELECT": "1002:1"}, {"DRI_PRIME": "1"}])
def test_who_chooses_by_the_layer_keeps_it(choice: dict[str, str]) -> None:
    assert looked(**choice)[0]["within"] == ""


def test_an_empty_variable_stays_empty() -> None:
    found, said = looked(NODEVICE_SELECT="")
    assert (found["within"], found["after"], said) == ("1", "", "")
