"""Set-up of every smoke test: a folder for downloads, and our wheel installed with its hosts for
a Python that this machine's is not. Nothing goes into the system or into the checkout's
environment."""

from __future__ import annotations

import hashlib
import importlib.metadata
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

import drivers  # noqa: E402
from archive import Unavailable  # noqa: E402

WHEELS = ROOT / "dist" / "wheels"
# Where a wheel has the package's files, and which of them are those of the checkout.
ROOMS = {"tflgpu_plugin": "tflgpu_plugin/", "providers": "tflgpu_plugin/providers/"}
SOURCES, GENERATED = (".py", ".wgsl"), ("_declarations.py", "_declarations_ort.py")
CONSTRAINTS = ROOT / "tools" / "constraints.txt"


def place(name: str) -> Path:
    """Returns the folder of a smoke test's downloads, beside the software drivers."""
    return drivers.folder().parent / "smoke" / name


def wheel(tag: str) -> Path:
    """Returns our wheel for a platform. Raises Unavailable."""
    found = sorted(WHEELS.glob(f"tflgpu_plugin-*-{tag}.whl"))
    if len(found) != 1:
        raise Unavailable(
            f"dist/wheels holds {len(found)} wheels for {tag}: run python tools/wheels.py {tag}."
        )
    return found[0]


def check(wheel: Path, checkout: Path = ROOT) -> None:
    """Raises Unavailable where a wheel was made of other files than the checkout has: its tests
    would not match."""
    with zipfile.ZipFile(wheel) as held:
        names = {name for name in held.namelist() if name.endswith(SOURCES)}
        made = {name: held.read(name) for name in names if not name.endswith(GENERATED)}
    own = {
        f"{room}{path.relative_to(checkout / folder).as_posix()}": path.read_bytes()
        for folder, room in ROOMS.items()
        for path in (checkout / folder).rglob("*")
        if path.name.endswith(SOURCES) and not path.name.endswith(("declare.py", *GENERATED))
    }
    if made != own:
        other = {name for name in made.keys() | own.keys() if made.get(name) != own.get(name)}
        raise Unavailable(
            f"{wheel.name} was made before {min(other)} became what it is: run make wheels."
        )


def pinned(hosts: Iterable[str]) -> list[str]:
    """Returns the hosts in the versions that are installed here."""
    return [f"{host}=={importlib.metadata.version(host)}" for host in hosts]


def installed(tag: str, tags: Sequence[str], requirements: Sequence[str], into: Path) -> Path:
    """Returns a new folder of packages with our wheel in it, for the platforms that `tags` name.

    `requirements` may begin with "[extras]" of our wheel. The same wheel and requirements are
    installed once. Raises Unavailable."""
    own = wheel(tag)
    extras, *more = requirements if requirements[0].startswith("[") else ["", *requirements]
    wanted = [f"{own}{extras}", *more, "-c", str(CONSTRAINTS)]
    state = hashlib.sha256(own.read_bytes() + CONSTRAINTS.read_bytes() + str(wanted).encode())
    stamp = into.with_suffix(".txt")
    if into.exists() and stamp.exists() and stamp.read_text() == state.hexdigest():
        return into
    shutil.rmtree(into, ignore_errors=True)
    command = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    command += ["--target", str(into), "--only-binary=:all:", "--no-compile"]
    command += ["--python-version", f"{sys.version_info.major}.{sys.version_info.minor}"]
    command += [part for platform in tags for part in ("--platform", platform)]
    done = subprocess.run([*command, *wanted], capture_output=True, text=True)
    if done.returncode:
        raise Unavailable(f"pip cannot install {own.name}{extras}: {done.stderr.strip()}")
    stamp.write_text(state.hexdigest())
    return into
