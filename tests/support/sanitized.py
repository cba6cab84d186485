"""The native library with a compiler's checks in a copy of the package, for Python to load."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.mutation import sandbox

MEANT = "tgi_probe_copy"  # names are read as far as there is memory: by a call that tells
OURS = re.compile(r"/native/(?:core|ort|platform|tflite)/\w+\.[ch]|libtflgpu")
# A line of a stack, by its number and what it tells of the place.
FRAME = re.compile(r"^ +#(\d+) (.*)$", re.MULTILINE)
INTERCEPTED = re.compile(r"sanitizer_common|lib[atu]+san|/sanitizer/|\.\./\.\./\.\./\.\./src/")


DECLARED = {  # as in CMakeLists.txt
    "_declarations": ("core/tflgpu.h", "core/recorder.h", "tflite/abi.h"),
    "_declarations_ort": ("ort/abi.h",),
}


@dataclass(frozen=True)
class Checks:
    """Flags of a compiler, the library that must be loaded before all others, and settings."""

    flags: tuple[str, ...]
    runtime: str
    variables: Mapping[str, str]
    meant: str  # the line that leaves MEANT out


CHECKS = {
    "address": Checks(
        ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-O0", "-g"),
        "libasan.so",
        {
            "ASAN_OPTIONS": "halt_on_error=1:detect_leaks=0:allocator_may_return_null=1",
            "UBSAN_OPTIONS": "print_stacktrace=1",
        },
        f"interceptor_via_fun:{MEANT}\n",
    ),
    "thread": Checks(
        ("-fsanitize=thread", "-O1", "-g"),
        "libtsan.so",
        {"TSAN_OPTIONS": "exitcode=0:die_after_fork=0:history_size=4:allocator_may_return_null=1"},
        f"race:{MEANT}\n",
    ),
}


class NotThere(RuntimeError):
    """An error for a compiler or library that is not installed; the text says what to do."""


def preloaded(checks: Checks) -> str:
    """Returns the libraries to preload: the runtime of the sanitizer, which must come first, and
    that of C++, whose exceptions it intercepts. Raises NotThere."""
    compiler, found = shutil.which("cc"), []
    for name in (checks.runtime, "libstdc++.so.6") if compiler else ():
        said = subprocess.run([compiler or "", f"-print-file-name={name}"], capture_output=True)
        found.append(said.stdout.decode().strip())
    if not found or not all(os.path.isabs(name) for name in found):
        raise NotThere(f"needs a C compiler (cc) with its {checks.runtime}: apt install gcc")
    return " ".join(found)


def build(folder: Path, checks: Checks) -> None:
    """Makes `folder/tree` with a library that has these checks."""
    tree = sandbox.rebuild(folder, checks.flags, checks.flags[:1])
    made = tree / sandbox.PACKAGE / "native"
    for module, headers in DECLARED.items():  # of these sources, whatever is installed
        _declare(made / f"{module}.py", [sandbox.NATIVE / header for header in headers])


def _declare(made: Path, headers: list[Path]) -> None:
    made.unlink()
    module = f"tflgpu_plugin.native.{made.stem}"
    declare = [sys.executable, str(sandbox.NATIVE / "declare.py"), module, str(made)]
    subprocess.run([*declare, *map(str, headers)], check=True)


def environment(folder: Path, checks: Checks) -> dict[str, str]:
    """Returns the environment of a process that loads the library that `build` has made; reports go
    to `folder/log*`."""
    meant = folder / "meant"
    meant.write_text(checks.meant)
    more = f"log_path={folder / 'log'}"
    variables = {name: f"{options}:{more}" for name, options in checks.variables.items()}
    first = next(iter(variables))
    variables[first] += f":suppressions={meant}"
    return variables | {"LD_PRELOAD": preloaded(checks), "PYTHONPATH": str(folder / "tree")}


def reports(folder: Path) -> tuple[list[str], list[str]]:
    """Returns the reports about our code and those about other libraries, by the first frame of a
    stack outside of the sanitizer."""
    ours, others = list[str](), list[str]()
    for path in sorted(folder.glob("log*")):
        for text in re.split(r"^=+$", path.read_text(errors="replace"), flags=re.MULTILINE):
            if "SUMMARY" in text or "runtime error" in text:
                (ours if is_ours(text) else others).append(text.strip())
    return ours, others


def is_ours(text: str) -> bool:
    """Whether one of the stacks of accesses begins in our code."""
    if "runtime error" in text:
        return True  # nothing else is built with these checks
    access = re.split(r"^ +(?:As if|Location|Mutex|Thread) ", text, flags=re.MULTILINE)[0]
    waiting = False
    for number, place in FRAME.findall(access):
        waiting |= number == "0"
        if waiting and not INTERCEPTED.search(place):
            if OURS.search(place):
                return True
            waiting = False
    return False
