"""`tflgpu exec -- PROGRAM`: runs a program that prefers this plugin (tflgpu_plugin.preference)."""

from __future__ import annotations

import json
import os
import re
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

PYTHON = re.compile(r"(python|pypy)w?[\d.]*(\.exe)?", re.IGNORECASE)
OWN = Path(sysconfig.get_path("scripts")), Path(sys.executable).parent


class LaunchError(ValueError):
    """An error for a program that cannot be started; the text says why."""


def launch(words: Sequence[str], options: Mapping[str, str], as_json: bool) -> int:
    """Replaces this process by the program, or on Windows runs it and returns its exit status.
    Raises LaunchError, OptionError, and NoAdapter where the options name an adapter that does not
    exist."""
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
    """Returns the program's path and its arguments: a program of this environment or of the search
    path, a Python file, or the arguments of `python` from -m or -c on."""
    if words[0] in ("-m", "-c"):
        return [sys.executable, *words]
    if words[0].endswith((".py", ".pyw")) and Path(words[0]).is_file():
        return [sys.executable, *words]
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)])
    found = shutil.which(words[0], path=path)
    if found is None:
        if Path(words[0]).is_file():
            raise LaunchError(f"{words[0]!r} is neither executable nor a Python file.")
        if Path(words[0]).is_dir():
            raise LaunchError(f"{words[0]!r} is a folder.")
        raise LaunchError(f"There is no file or program {words[0]!r}.")
    if reason := elsewhere(Path(found)):
        log.say(f"WARNING: tflgpu: {reason}")
    return [os.path.abspath(found), *words[1:]]


def elsewhere(program: Path) -> str:
    """Returns why a program will not have this plugin, as a sentence; "" where it will, or where
    that cannot be determined."""
    if not Path(tflgpu_startup.__file__).with_name("tflgpu_startup.pth").is_file():
        return f"tflgpu_startup.pth is missing beside {tflgpu_startup.__file__}. Reinstall it."
    with program.open("rb") as file:
        begin = file.read(300).split(b"\n")[0].decode(errors="replace")
    script = begin.startswith("#!")
    python = _python(begin[2:].split() if script else [str(program)])
    if python is None:
        if program.parent in OWN and (script or os.name == "nt"):
            return ""  # a script that starts a Python file of this environment
        return (
            f"{program.name} is not a Python program. Only Python processes of this environment "
            "that it starts will have the plugin."
        )
    if _is_own(python):
        return ""
    where = f"{program.name} runs in {python}" if script else f"{program} is another Python"
    return f"{where}, which will not have the plugin; install tflgpu-plugin there."


def _python(command: Sequence[str]) -> Path | None:
    """Returns the interpreter that a command names first, or after `env`; None for another
    program."""
    words = [word for word in command if not word.startswith("-")]
    if words and Path(words[0]).name == "env":
        words = [shutil.which(word) or word for word in words[1:]]
    return Path(words[0]) if words and PYTHON.fullmatch(Path(words[0]).name) else None


def _is_own(python: Path) -> bool:
    """Whether it is the Python of this environment. The Python from which a virtual environment was
    made is another one."""
    same = python.resolve() == Path(sys.executable).resolve()
    if python.parent.resolve() in [folder.resolve() for folder in OWN]:
        return same or os.name == "nt"  # pythonw.exe is another file
    return same and sys.prefix == sys.base_prefix
