"""Software Vulkan drivers for the conformance suite, unpacked beside the system, never into it.

Usage: python tools/drivers.py [NAME...]   makes what is missing and prints how to choose each;
       python tools/drivers.py --run NAME -- COMMAND...   runs a command with one of them.

The packages come from the archive that the system's own package sources name, signatures checked
(archive.py; `apt-get` is needed, no root). Stock lavapipe is that of the system."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import archive
from archive import Unavailable

NEWER_RELEASE = "trixie"  # of Debian: its backports' Mesa has drivers of makers that others lack
STOCK_FILES = ("/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d")


@dataclass(frozen=True)
class Driver:
    """The selection of one driver: variables of the environment, and the package that contains
    it."""

    name: str
    variables: dict[str, str]
    package: str

    def environment(self) -> dict[str, str]:
        """Returns the environment of a command that uses this driver."""
        return {**os.environ, **self.variables, "TFLGPU_DRIVER_PACKAGE": self.package}


def folder() -> Path:
    """Returns the folder of unpacked drivers: $TFLGPU_DRIVERS, or a folder of the user's cache."""
    base = os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))
    return Path(os.environ.get("TFLGPU_DRIVERS", f"{base}/tflgpu-plugin/drivers"))


def system() -> Driver:
    """Returns the system's default driver, a GPU first."""
    return Driver("system", {}, "")


def lavapipe() -> Driver:
    """Returns the system's Mesa software driver. Raises Unavailable."""
    for place in STOCK_FILES:
        for path in sorted(Path(place).glob("lvp_icd*.json")):
            return Driver("lavapipe", _chosen(path), _installed("mesa-vulkan-drivers"))
    raise Unavailable("Stock lavapipe is missing: apt-get install mesa-vulkan-drivers libvulkan1")


def lavapipe_backports() -> Driver:
    """Returns the newer Mesa of the archive's backports. Raises Unavailable."""
    return _of_newer_mesa("lavapipe-backports", "libvulkan_lvp.so", "icd.json")


def null_devices() -> Driver:
    """Returns AMD's driver in the newer Mesa, whose compiler needs no GPU: RADV_FORCE_FAMILY names
    the one to compile for. Raises Unavailable."""
    return _of_newer_mesa("null-devices", "libvulkan_radeon.so", "radeon.json")


def _of_newer_mesa(name: str, file: str, icd: str) -> Driver:
    place = folder() / "lavapipe-backports"
    package = unpacked(place, "mesa-vulkan-drivers", backports=True)
    library = next(iter(place.glob(f"usr/lib/*/{file}")), None)
    if library is None:
        raise Unavailable(f"{package} holds no {file}.")
    chosen = _chosen(_write_icd(place / icd, library, "1.4.0"))
    return Driver(name, chosen | {"LD_LIBRARY_PATH": str(library.parent)}, package)


def newer_release() -> tuple[Path, Path]:
    """Returns a folder with Mesa of a newer release and all that it needs, down to the C library;
    and the include folder of the newer kernel's headers. Raises Unavailable."""
    root, kernel = folder() / "newer-release", folder() / "newer-headers"
    _unpack(root, "mesa-vulkan-drivers", lambda work: archive.fetch_release(
        work, ("mesa-vulkan-drivers", "libvulkan1"), NEWER_RELEASE))  # fmt: skip
    _unpack(kernel, "linux-libc-dev", lambda work: archive.fetch_release(
        work, ("linux-libc-dev",), NEWER_RELEASE))  # fmt: skip
    return root, kernel / "usr" / "include"


def headers(package: str) -> Path:
    """Returns the include folder of a package of headers, unpacked beside the system. Raises
    Unavailable."""
    place = folder() / package
    unpacked(place, package, alone=True)
    return place / "usr" / "include"


def swiftshader() -> Driver:
    """Returns SwiftShader from the Chromium package. Raises Unavailable."""
    place = folder() / "swiftshader"
    package = unpacked(place, "chromium-common", alone=True)
    library = next(iter(place.glob("usr/lib/chromium/libvk_swiftshader.so")), None)
    if library is None:
        raise Unavailable(f"{package} holds no libvk_swiftshader.so.")
    return Driver("swiftshader", _chosen(_write_icd(place / "icd.json", library, "1.3.0")), package)


DRIVERS = {
    "system": system,
    "lavapipe": lavapipe,
    "lavapipe-backports": lavapipe_backports,
    "swiftshader": swiftshader,
}
SOFTWARE = ("lavapipe", "lavapipe-backports", "swiftshader")


def _chosen(icd: Path) -> dict[str, str]:
    """Returns the loader's variable in its older and its newer spelling."""
    return {"VK_ICD_FILENAMES": str(icd), "VK_DRIVER_FILES": str(icd)}


def _write_icd(icd: Path, library: Path, version: str) -> Path:
    """Writes an ICD file with the library's full path: those in the packages name the system's
    path."""
    content = {
        "file_format_version": "1.0.0",
        "ICD": {"library_path": str(library), "api_version": version},
    }
    icd.write_text(json.dumps(content))
    return icd


def _installed(package: str) -> str:
    """Returns a package of the system with its version, "" when dpkg does not know it."""
    query = ["dpkg-query", "-W", "-f", "${Package} ${Version}", package]
    try:
        return subprocess.run(query, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return ""


def unpacked(place: Path, package: str, backports: bool = False, alone: bool = False) -> str:
    """Downloads a package with its dependencies (or alone) and unpacks it into `place`, once.

    Returns the package with its version."""
    return _unpack(place, package, lambda work: archive.fetch(
        work, package, backports=backports, alone=alone))  # fmt: skip


def _unpack(place: Path, package: str, fetch: Callable[[Path], list[Path]]) -> str:
    """Unpacks what `fetch` downloads into `place`, once. Returns the package with its version."""
    stamp = place / "package.txt"
    if stamp.exists():
        return stamp.read_text()
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as work:
        files = fetch(Path(work))
        made = Path(work) / "root"
        archive.unpack(files, made)
        main = next(file for file in files if file.name.startswith(f"{package}_"))
        shown = subprocess.run(
            ["dpkg-deb", "--showformat=${Package} ${Version}", "-W", str(main)],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        (made / "package.txt").write_text(shown.stdout)
        shutil.rmtree(place, ignore_errors=True)
        made.replace(place)
        return shown.stdout


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=", ".join(DRIVERS))
    parser.add_argument("--run", choices=list(DRIVERS), help="run the command after -- with it")
    chosen, command = arguments, list[str]()
    if "--" in arguments:
        place = arguments.index("--")
        chosen, command = arguments[:place], arguments[place + 1 :]
    options = parser.parse_args(chosen)
    try:
        if options.run:
            return subprocess.run(command, env=DRIVERS[options.run]().environment()).returncode
        for name in options.names or SOFTWARE:
            driver = DRIVERS[name]()
            variables = " ".join(f"{k}={v}" for k, v in driver.variables.items())
            print(f"{name} ({driver.package or 'of the system'}): {variables}")
    except KeyError as error:
        parser.error(f"there is no driver {error}; the drivers are {', '.join(DRIVERS)}")
    except Unavailable as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
