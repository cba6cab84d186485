"""`tflgpu bugreport`: writes all that a maintainer asks for into one .zip file, without the names
of users and files. A part that fails is replaced by its error; the others are written anyway."""

from __future__ import annotations

import getpass
import json
import logging
import os
import platform
import re
import subprocess
import sys
import tempfile
import traceback
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from tflgpu_plugin import engine, ops
from tflgpu_plugin.cli import check, compare, conformance, doctor, kernels
from tflgpu_plugin.cli.exits import INTERRUPTED
from tflgpu_plugin.cli.written import replacing
from tflgpu_plugin.harness import inputs
from tflgpu_plugin.harness.built import NOTHING

VARIABLES = re.compile(r"(TFLGPU|VK|WGPU|MESA|DRI|LP|LIBGL|ORT|TF|XNNPACK|OMP)_")
SCREENS = ("DISPLAY", "WAYLAND_DISPLAY")  # whose values name machines
PRIVATE = re.compile("CONFIG|KEY|PASSWORD|SECRET|TOKEN")  # TF_CONFIG names the hosts of a cluster
PATH = re.compile(r"(?<![\w.~-])(?:[A-Za-z]:)?[/\\][^\s\"'<>|]*")  # from the root
README = """A report of tflgpu-plugin.

machine.json      versions, adapters with their limits and features, environment variables
model.json        size and digest of the model's file
check.json        which nodes run on the GPU, and why the others do not
compare.json      the outputs on the CPU and on the GPU, and the first launch that differs
kernels.txt       all launches and kernels of the model
conformance.json  tests of the model's operators, as far as the time allowed
log.txt           the plugin's messages meanwhile

A part that is a traceback failed. User names, the home folder and the model's name are left out;
names of nodes are those of the model. Look through it before you send it."""


@dataclass(frozen=True)
class Request:
    """The file to write, and the model to report on with its inputs, if there is one. `with_model`
    adds the model's file; its operators are tested for `seconds`."""

    out: Path
    model: compare.Request | None = None
    with_model: bool = False
    seconds: float = 0.0


@dataclass(frozen=True)
class Written:
    """The file that was written, its parts with their sizes in bytes, and the parts that failed,
    with their errors."""

    path: str
    parts: Mapping[str, int]
    failed: Mapping[str, str]


def write(request: Request) -> Written:
    """Writes the report; an existing file is replaced once the report is complete. Raises OSError
    with the file's name where it cannot be written, and BadInput for a model that cannot be
    read."""
    with replacing(request.out) as part:
        return _written(request, part)


def _written(request: Request, path: Path) -> Written:
    if request.model:
        inputs.content(request.model.model)
    hidden, sizes, failed = hiding(request), dict[str, int](), dict[str, str]()
    messages = _Messages()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:

        def add(name: str, text: str) -> None:
            text = hidden(text)
            file.writestr(name, text)
            sizes[name] = len(text.encode())

        add("README.txt", README)
        with messages:
            for name, part in _parts(request):
                try:
                    add(name, part())
                except Exception as error:  # the report is for what goes wrong
                    failed[name] = f"{type(error).__name__}: {error}"
                    add(name, traceback.format_exc())
        add("log.txt", "\n".join(messages.lines) + "\n")
        if request.with_model and request.model:
            content = inputs.content(request.model.model)
            file.writestr(f"model{request.model.model.suffix}", content)
            sizes[f"model{request.model.model.suffix}"] = len(content)
    return Written(str(request.out), sizes, failed)


def _parts(request: Request) -> Iterator[tuple[str, Callable[[], str]]]:
    """Yields the name of each part, and the function that returns its text."""
    yield "machine.json", lambda: _json(_machine())
    given = request.model
    if given is None:
        return
    path, options, host = given.model, given.options, given.host
    yield "model.json", lambda: _json(_model(path))
    yield "check.json", lambda: _json(check.check(path, options, host).as_json())
    yield "compare.json", lambda: _json(compare.compared(given).as_json())
    yield "kernels.txt", lambda: "\n".join(kernels.planned(path, options, host).lines())
    if request.seconds:
        yield "conformance.json", lambda: _json(_conformance(given, request.seconds))


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, default=str)


def _machine() -> dict[str, Any]:
    return {
        **asdict(doctor.examine()),
        "machine": platform.machine(),
        "processors": os.cpu_count(),
        "virtual_environment": sys.prefix != sys.base_prefix,
        "environment": {
            k: "set" if k in SCREENS else v
            for k, v in sorted(os.environ.items())
            if k in SCREENS or (VARIABLES.match(k) and not PRIVATE.search(k))
        },
    }


def _conformance(given: compare.Request, seconds: float) -> dict[str, Any]:
    """Returns the results of the conformance suite for the ops of the model on the GPU, which it
    tests for this many seconds, or why there are none."""
    with engine.watch() as built:
        found = check.check(given.model, given.options, given.host)
    names = sorted({node.op for one, _ in built for node in one.graph.nodes} & ops.rows().keys())
    if not names:
        return {"left out": NOTHING}
    with tempfile.TemporaryDirectory() as folder:
        asked = conformance.Request(
            Path(folder), ",".join(names), "all", found.host.split()[0],
            given.options.get("adapter", ""), quick=True, seconds=seconds,
        )  # fmt: skip
        try:
            done = conformance.run(asked, subprocess.DEVNULL)
        except ImportError as error:  # it is not installed
            return {"operators": names, "left out": str(error)}
        if done.status == INTERRUPTED:
            raise KeyboardInterrupt
        return {"operators": names, "seconds": seconds, "counts": done.counts, "bad": done.bad()}


def _model(path: Path) -> dict[str, Any]:
    content = inputs.content(path)
    return {"bytes": len(content), "sha256": sha256(content).hexdigest(), "kind": path.suffix}


def hiding(request: Request) -> Callable[[str], str]:
    """Returns a function that replaces what a report must not name: files, the longest first, and
    then folders that have the name of the user. Other words that contain such names are kept."""
    words = {str(Path.home()): "~"}
    given = request.model
    for path in _files(given) if given else ():
        word = "MODEL" if given and path == given.model else "INPUT"
        words |= {str(path.resolve()): word, str(path): word, path.name: word}
    listed = [word for word in words if "." in word or os.sep in word]
    patterns = [
        (re.compile(rf"(?<![\w.-]){re.escape(word)}(?!\.?[\w-])"), words[word])
        for word in sorted(listed, key=len, reverse=True)
    ]
    try:
        folder = re.compile(rf"(?<=[/\\]){re.escape(getpass.getuser())}(?!\.?[\w@-])")
    except (KeyError, OSError):  # a user without a name
        folder = re.compile("(?!)")

    def hidden(text: str) -> str:
        for pattern, word in patterns:
            text = pattern.sub(word, text)
        return PATH.sub(lambda path: folder.sub("USER", path[0]), text)

    return hidden


def _files(request: compare.Request) -> list[Path]:
    given = request.given
    return [request.model, *given.files.values(), *([given.image] if given.image else [])]


class _Messages(logging.Handler):
    """Collects the plugin's messages of all levels while it is entered."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []
        self.logger = logging.getLogger("tflgpu_plugin")

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.levelname}: {record.getMessage()}")

    def __enter__(self) -> None:
        self.before = self.logger.level
        self.logger.addHandler(self)
        self.logger.setLevel(logging.DEBUG)

    def __exit__(self, *error: object) -> None:
        self.logger.setLevel(self.before)
        self.logger.removeHandler(self)
