"""CPython for Windows under Wine, built from packages that are downloaded by name and unpacked
beside the system; a display without a screen, which Wine's Vulkan needs; and the commands that run
there.

Python's own files come from the wheel of panda3d, its library from this machine's Python, and
python.exe, python3.dll and what Wine lacks are built here. Microsoft's C++ runtime comes from its
wheel msvc-runtime: Wine lacks parts of it that ai-edge-litert needs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path

import cpus
import drivers
from archive import Unavailable

from smoke import foreign

TAG = "win_amd64"
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
# As the folders of users can be called who are not English: of two alphabets, and beyond 16 bits.
NAME = "Jürgen 用户 😀"
WINE, DISPLAY, JAIL = "wine64", "xvfb", "proot"
LIBRARIES = "usr/lib/x86_64-linux-gnu"
# Wheels, and what of each is taken.
PYTHON = {
    "panda3d==1.10.16": ("deploy_libs/python3*.dll", "deploy_libs/*.pyd", "deploy_libs/lib*.dll"),
    "msvc-runtime>=14.44": ("*.data/data/Scripts/*.dll",),
}
LEFT_OUT = ("site-packages", "dist-packages", "lib-dynload", "__pycache__", "test", "idlelib",
            "tkinter", "lib2to3", "ensurepip", "turtledemo", "config-*")  # fmt: skip
RUNTIME = (
    "msvcp140,msvcp140_1,msvcp140_2,msvcp140_atomic_wait,vcruntime140,vcruntime140_1,concrt140"
)
OVERRIDES = f"mscoree,mshtml=;winedbg.exe=d;{RUNTIME}=n,b"  # without a debugger, a crash ends
# Programs of Wine have no files as standard streams, only pipes.
PIPED = ("bash", "-c", 'set -o pipefail; "$@" < /dev/null 2>&1 | cat', "wine")
BOOT = 300  # seconds until Wine has made its folders


def run(*command: object, **given: object) -> str:
    """Returns the output of a command of the build. Raises Unavailable."""
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, **given)  # type: ignore[call-overload]
    if done.returncode:
        raise Unavailable(f"{' '.join(map(str, command[:4]))}: {done.stderr.strip()[-2000:]}")
    return str(done.stdout)


def unpacked(package: str) -> Path:
    """Returns a package with its dependencies that the system lacks, beside the system. Raises
    Unavailable."""
    root = foreign.place("windows") / package
    drivers.unpacked(root, package)
    return root


def wine() -> Path:
    """Returns Wine's program. The programs beside it are wrappers with the system's folders, and
    the package's link to one of its libraries is broken."""
    root = unpacked(WINE)
    server = root / "usr/lib/wine/wineserver"
    if not server.is_symlink():
        server.unlink()
        server.symlink_to("wineserver64")
    zlib = root / LIBRARIES / "wine/x86_64-windows/zlib1.dll"
    if not zlib.exists():
        shutil.copy(root / "usr/x86_64-w64-mingw32/lib/zlib1.dll", zlib)
    return root / "usr/lib/wine/wine64"


def environment(display: str) -> dict[str, str]:
    """Returns the environment of Wine's processes, without what tflgpu and Linux's loader read."""
    own = {
        "LD_LIBRARY_PATH": str(foreign.place("windows") / WINE / LIBRARIES),
        "LC_ALL": "C.UTF-8",  # in which Wine reads names of files
        "DISPLAY": display,
        "WINEPREFIX": str(foreign.place("windows") / "prefix"),
        "WINEARCH": "win64",
        "WINEDEBUG": "-all",
        "WINEDLLOVERRIDES": OVERRIDES,
        "LP_NUM_THREADS": "0",
        "XDG_RUNTIME_DIR": tempfile.gettempdir(),
    }
    strange = ("LD_", "TFLGPU_", "PYTHON", "VIRTUAL_ENV", "WINE")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(strange)}
    return kept | own | drivers.lavapipe().variables


@contextmanager
def display() -> Iterator[str]:
    """Yields the name of an X display without a screen. Its server calls a program by its path in
    the system, so it sees the unpacked one there."""
    server, jail = unpacked(DISPLAY), unpacked(JAIL)
    libraries = ":".join(str(root / LIBRARIES) for root in (server, jail))
    parts = [part for part in ("usr/bin/xkbcomp", "usr/share/X11/xkb") if (server / part).exists()]
    bound = [word for part in parts for word in ("-b", f"{server / part}:/{part}")]
    command = [str(jail / "usr/bin/proot"), *bound, str(server / "usr/bin/Xvfb")]
    command += ["-displayfd", "1", "-screen", "0", "64x64x24", "-nolisten", "tcp", "-noreset"]
    with subprocess.Popen(
        command, env={**os.environ, "LD_LIBRARY_PATH": libraries}, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as process:  # fmt: skip
        try:
            assert process.stdout
            number = process.stdout.readline().strip()
            if not number.isdigit():
                raise Unavailable("Xvfb does not start; `proot` needs a system that allows ptrace.")
            yield f":{number}"
        finally:
            os.killpg(process.pid, signal.SIGTERM)


def prefix(display: str) -> Path:
    """Returns Wine's folders, made once. Raises Unavailable."""
    made, program = foreign.place("windows") / "prefix", wine()
    stamp, system = made / "made.txt", made / "drive_c/windows/system32"
    if not stamp.exists():
        shutil.rmtree(made, ignore_errors=True)
        # Its status tells of a part for programs of 32 bits, which is not there.
        boot = [program, "wineboot", "-i"]
        said = subprocess.run(boot, env=environment(display), capture_output=True, timeout=BOOT)
        stop(display)
        if not (system / "kernel32.dll").exists():
            raise Unavailable(f"Wine cannot make its folders: {said.stderr.decode()[-2000:]}")
        # Things that Windows has in this place, and Wine has elsewhere or not at all.
        shutil.copy(unpacked(WINE) / "usr/x86_64-w64-mingw32/lib/zlib1.dll", system)
        random = ["-shared", Path(__file__).with_name("wine_random.c"), "-ladvapi32"]
        compiled(*random, "-o", system / "bcryptprimitives.dll")
        stamp.write_text(drivers.unpacked(foreign.place("windows") / WINE, WINE))
    return made


def leftovers() -> list[Path]:
    """Returns the data and cache folders that earlier runs left in the home of the Wine user. Any
    user name matches, because Wine takes it from the Linux user."""
    users = foreign.place("windows") / "prefix/drive_c/users"
    places = ("AppData/Local/tflgpu-plugin", ".cache")
    return [path for place in places for path in users.glob(f"*/{place}")]


def stop(display: str) -> None:
    """Ends all processes of Wine's folders."""
    server = wine().with_name("wineserver")
    subprocess.run([server, "-k"], env=environment(display), capture_output=True, timeout=60)


def compiled(*arguments: object) -> None:
    """Calls the C compiler for Windows; its library is made once. Raises Unavailable."""
    kept = os.environ.get("ZIG_GLOBAL_CACHE_DIR", str(foreign.place("windows") / "zig"))
    command = [sys.executable, "-m", "ziglang", "cc", "-target", "x86_64-windows-gnu", "-O2", "-s"]
    run(*command, *arguments, env={**os.environ, "ZIG_GLOBAL_CACHE_DIR": kept})


def built(into: Path) -> None:
    """Builds Python's program, and its library for the stable interface, into the folder of its own
    files. Raises Unavailable."""
    own = into / f"python{VERSION.replace('.', '')}.dll"
    source = Path(__file__).with_name("wine_python.c")
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        compiled("-municode", source, own, "-o", work / "python.exe")
        listed, empty = work / "python3.def", work / "empty.c"
        listed.write_text(forwarders(own))
        empty.write_text("int DllMainCRTStartup(void *a, unsigned b, void *c) { return 1; }\n")
        compiled("-shared", "-nostdlib", empty, listed, "-o", work / "python3.dll")
        for name in ("python.exe", "python3.dll"):
            shutil.copy(work / name, into)


def forwarders(library: Path) -> str:
    """Returns python3.dll as a linker's list: each of its functions forwards to Python's
    library."""
    import pefile

    found = pefile.PE(str(library)).DIRECTORY_ENTRY_EXPORT.symbols
    names = sorted(symbol.name.decode() for symbol in found if symbol.name)
    lines = [f"  {name}={library.stem}.{name}\n" for name in names if "Py" in name[:3]]
    return "LIBRARY python3.dll\nEXPORTS\n" + "".join(lines)


def taken(wheel: Path, wanted: Sequence[str], into: Path) -> None:
    """Unpacks files of a wheel, without their folders. Raises Unavailable where one of `wanted` is
    missing."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        for pattern in wanted:
            found = [name for name in names if fnmatchcase(name, pattern)]
            if not found:
                raise Unavailable(f"{wheel.name} holds no {pattern}.")
            for name in found:
                (into / Path(name).name).write_bytes(archive.read(name))


def home() -> Path:
    """Returns a folder like that of Python's installer for Windows, made once. Raises
    Unavailable."""
    place = foreign.place("windows")
    made, stamp = place / NAME / f"Python {VERSION}", place / "python.txt"
    state = "\n".join(
        [*PYTHON, VERSION, *(p.read_text() for p in Path(__file__).parent.glob("*.c"))]
    )
    if made.exists() and stamp.exists() and stamp.read_text() == state:
        return made
    shutil.rmtree(made, ignore_errors=True)
    ignored = shutil.ignore_patterns(*LEFT_OUT)
    shutil.copytree(sysconfig.get_path("stdlib"), made / "Lib", ignore=ignored)
    command = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check"]
    command += ["--no-deps", "--only-binary=:all:", "--platform", TAG, "--python-version", VERSION]
    with tempfile.TemporaryDirectory() as work:
        for number, (package, wanted) in enumerate(PYTHON.items()):
            into = Path(work) / str(number)
            run(*command, "--dest", into, package)
            taken(next(into.glob("*.whl")), wanted, made)
    built(made)
    stamp.write_text(state)
    return made


@contextmanager
def session() -> Iterator[str]:
    """Yields a display, and keeps Wine's own processes running meanwhile: their start takes longer
    than a program's. Raises Unavailable."""
    with display() as name:
        prefix(name)
        wait = [
            *PIPED,
            str(wine()),
            str(home() / "python.exe"),
            "-c",
            "import time; time.sleep(1e6)",
        ]
        with subprocess.Popen(wait, env=environment(name), stdout=subprocess.DEVNULL):
            try:
                yield name
            finally:
                stop(name)


def python(display: str, requirements: Sequence[str], folder: Path) -> cpus.Python:
    """Returns Python for Windows with our wheel and `requirements`, working in a folder. Its paths
    may be Linux paths: from drive Z: they are the same. Raises Unavailable."""
    foreign.check(foreign.wheel(TAG))
    own = home()
    foreign.installed(TAG, [TAG], requirements, own / "Lib" / "site-packages")
    start = [*PIPED, str(wine()), str(own / "python.exe")]
    return cpus.Python(start, environment(display), folder)
