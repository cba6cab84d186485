"""`make wheels`: builds a wheel for every platform with the C compiler of the ziglang package, and
the wheel of tools/ep, which is for all of them (platform "any").

Usage: python tools/wheels.py [PLATFORM ...]; they go to dist/wheels. tests/wheels reads them."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WHEELS = ROOT / "dist" / "wheels"


@dataclass(frozen=True)
class Platform:
    """The `tag` of wheels, `target` of the compiler, and CMake's names of system and processor."""

    tag: str
    target: str
    system: str
    processor: str


PLATFORMS = (
    Platform("manylinux_2_28_x86_64", "x86_64-linux-gnu.2.28", "Linux", "x86_64"),
    Platform("manylinux_2_28_aarch64", "aarch64-linux-gnu.2.28", "Linux", "aarch64"),
    Platform("win_amd64", "x86_64-windows-gnu", "Windows", "AMD64"),
    Platform("win_arm64", "aarch64-windows-gnu", "Windows", "ARM64"),
    Platform("macosx_12_0_arm64", "aarch64-macos.12.0", "Darwin", "arm64"),
)


def build(platform: Platform, folder: Path) -> Path:
    """Returns the wheel of a platform, in WHEELS. Raises CalledProcessError."""
    tools = {name: folder / f"{platform.tag}-{name}" for name in ("cc", "ar", "ranlib", "rc")}
    for name, path in tools.items():
        target = f" -target {platform.target}" if name == "cc" else ""
        path.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ziglang {name}{target} "$@"\n')
        path.chmod(0o755)
    defines = {
        "CMAKE_SYSTEM_NAME": platform.system,
        "CMAKE_SYSTEM_PROCESSOR": platform.processor,
        "CMAKE_C_COMPILER": tools["cc"],
        "CMAKE_AR": tools["ar"],
        "CMAKE_RANLIB": tools["ranlib"],
        "CMAKE_RC_COMPILER": tools["rc"],
        "CMAKE_SHARED_LINKER_FLAGS": "-s",
        "CMAKE_OSX_SYSROOT": "",
        "CMAKE_OSX_ARCHITECTURES": "",
        "CMAKE_OSX_DEPLOYMENT_TARGET": "",
        "Python3_EXECUTABLE": sys.executable,
    }
    settings = [f"cmake.define.{name}={value}" for name, value in defines.items()]
    settings += [f"build-dir={folder / platform.tag}", "install.strip=false"]
    cache = {"ZIG_GLOBAL_CACHE_DIR": os.environ.get("ZIG_GLOBAL_CACHE_DIR", str(folder / "zig"))}
    made = _built(ROOT, folder, *(f"-C{setting}" for setting in settings), **cache)
    tag = [sys.executable, "-m", "wheel", "tags", "--remove", "--platform-tag", platform.tag]
    named = subprocess.run([*tag, str(made)], check=True, capture_output=True, text=True).stdout
    return _kept(folder / named.split()[-1])


def build_ep(folder: Path) -> Path:
    """Returns the wheel of onnxruntime-ep-tflgpu, in WHEELS. Raises CalledProcessError."""
    return _kept(_built(ROOT / "tools" / "ep", folder))


def _built(project: Path, folder: Path, *settings: str, **environment: str) -> Path:
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder)]
    before = set(folder.glob("*.whl"))
    subprocess.run(
        [*command, *settings, str(project)],
        check=True, env=os.environ | environment, stdout=sys.stderr,
    )  # fmt: skip
    (made,) = set(folder.glob("*.whl")) - before
    return made


def _kept(wheel: Path) -> Path:
    WHEELS.mkdir(parents=True, exist_ok=True)
    return Path(shutil.move(wheel, WHEELS / wheel.name))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python tools/wheels.py", description=__doc__)
    parser.add_argument("platforms", nargs="*", metavar="PLATFORM", help="default: all")
    wanted = parser.parse_args().platforms
    known = {platform.tag: partial(build, platform) for platform in PLATFORMS} | {"any": build_ep}
    if unknown := set(wanted) - set(known):
        parser.error(f"{sorted(unknown)[0]} is not one of {', '.join(known)}.")
    with tempfile.TemporaryDirectory(prefix="tflgpu-wheels-") as folder:
        for tag in wanted or known:
            made = known[tag](Path(folder))
            print(f"{made.relative_to(ROOT)}: {made.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
