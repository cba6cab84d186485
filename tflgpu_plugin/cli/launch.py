"""`tflgpu exec -- PROGRAM`: a program that prefers this plugin (tflgpu_plugin.preference)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path

import tflgpu_startup

from tflgpu_plugin import log
from tflgpu_plugin.options import parse
from tflgpu_plugin.preference import SUMMARY, VARIABLE
from tflgpu_plugin.runtime import adapter


class LaunchError(ValueError):
    """The program cannot be started; the text says why."""


def launch(words: Sequence[str], options: Mapping[str, str], as_json: bool) -> int:
    """Become the program, or on Windows run it; returns its exit status there. Raises LaunchError,
    OptionError, and NoAdapter where the options name an adapter that is not there.
    """
    if (wanted := parse(options).adapter) is not None:
        adapter.select(wanted)
    command, environment = _command(words), dict(os.environ)
    environment[VARIABLE] = json.dumps(options) if options else "1"
    if as_json:
        environment[SUMMARY] = "json"
    try:
        if os.name == "posix":
            environment[tflgpu_startup.EXECUTED] = str(os.getpid())
            os.execve(command[0], command, environment)
        return subprocess.call(command, env=environment)
    except OSError as error:
        raise LaunchError(f"{words[0]} cannot be started ({error.strerror}).") from error


def _command(words: Sequence[str]) -> list[str]:
    """The program's path and its arguments: a program of this environment or of the search path, a
    Python file, or what `python` takes from -m or -c on.
    """
    if words[0] in ("-m", "-c"):
        return [sys.executable, *words]
    if words[0].endswith((".py", ".pyw")) and Path(words[0]).is_file():
        return [sys.executable, *words]
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)])
    found = shutil.which(words[0], path=path)
    if found is None:
        if Path(words[0]).is_file():
            raise LaunchError(f"{words[0]!r} is neither executable nor a Python file.")
        raise LaunchError(f"There is no file or program {words[0]!r}.")
    if reason := _elsewhere(Path(found)):
        log.say(f"WARNING: tflgpu: {reason}")
    return [os.path.abspath(found), *words[1:]]


def _elsewhere(program: Path) -> str:
    """Why this plugin would not be there, where that can be told: "" for programs of this
    environment, and for those that are no scripts.
    """
    if not Path(tflgpu_startup.__file__).with_name("tflgpu_startup.pth").is_file():
        return f"tflgpu_startup.pth is missing beside {tflgpu_startup.__file__}. Reinstall it."
    with program.open("rb") as file:
        begin = file.read(300).split(b"\n")[0].decode(errors="replace")
    python = begin[2:].split()[0] if begin[:2] == "#!" and begin[2:].strip() else ""
    if not Path(python).name.startswith("python"):
        return ""
    own = Path(sysconfig.get_path("scripts")), Path(sys.executable).parent
    if Path(python).parent in own:
        return ""
    return f"{program.name} runs in {python}; install tflgpu-plugin there."
