"""Creates the package as it would be installed, with one text changed: a folder of links."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.mutation.mutants import ROOT, Mutant

PACKAGE = "tflgpu_plugin"
NATIVE = ROOT / PACKAGE / "native"
LIBRARY = "libtflgpu.so"
# Python started by tests takes the links as well: an editable install and the current folder stand
# in their way.
CUSTOMIZED = """import sys
from importlib.machinery import PathFinder
from pathlib import Path

class Links:
    def find_spec(name, path=None, target=None):
        if name == "tflgpu_plugin":
            return PathFinder.find_spec(name, [str(Path(__file__).parent)])

sys.meta_path[:] = [f for f in sys.meta_path if "ScikitBuild" not in type(f).__name__]
sys.meta_path.insert(0, Links)
sys.dont_write_bytecode = True  # through a link it would go into the working tree
"""


class Stillborn(Exception):
    """Is raised for a changed text that does not compile."""


def build(folder: Path, mutant: Mutant | None, objects: Path) -> None:
    """Creates `folder/tflgpu_plugin`; `objects` caches the compiled C code of the unchanged
    files."""
    for source, target in ((ROOT / PACKAGE, folder / PACKAGE),
                           (ROOT / "providers", folder / PACKAGE / "providers")):  # fmt: skip
        _link(source, target)
    for name in ("_declarations.py", "_declarations_ort.py", LIBRARY):
        (folder / PACKAGE / "native" / name).unlink(missing_ok=True)
        (folder / PACKAGE / "native" / name).symlink_to(_installed() / name)
    (folder / "sitecustomize.py").write_text(CUSTOMIZED)
    if mutant is None:
        return
    place = mutant.file if mutant.file.startswith(PACKAGE) else f"{PACKAGE}/{mutant.file}"
    (folder / place).unlink()
    (folder / place).write_text(mutant.mutated)
    if mutant.area == "native":
        library = folder / PACKAGE / "native" / LIBRARY
        library.unlink()
        _compile(folder / place, objects, library)


def _link(source: Path, target: Path) -> None:
    """Creates folders, and links to files; compiled Python files are used if they are newer."""
    target.mkdir(parents=True, exist_ok=True)
    for entry in os.scandir(source):
        if entry.is_dir() and entry.name != "__pycache__":
            _link(Path(entry.path), target / entry.name)
        else:
            os.symlink(entry.path, target / entry.name)


@functools.cache
def _installed() -> Path:
    """Returns the folder of the installed library and its declarations."""
    import importlib.metadata

    if (NATIVE / LIBRARY).is_file():
        return NATIVE
    found = importlib.metadata.distribution("tflgpu-plugin")
    place = Path(str(found.locate_file(f"{PACKAGE}/native/{LIBRARY}")))
    return place.parent


def enter(folder: Path) -> None:
    """Makes this process, and those that it starts, import the package from `folder`."""
    place = str(folder / "sitecustomize.py")
    exec(compile(CUSTOMIZED, place, "exec"), {"__file__": place})
    os.environ["PYTHONPATH"] = str(folder)
    assert not any(name == PACKAGE or name.startswith(f"{PACKAGE}.") for name in sys.modules)


def sources(folder: Path = NATIVE) -> list[Path]:
    """Returns the C files in a folder of native code from which the library is built here: not what
    is for Windows, and not the small library beside it that LiteRT looks for."""
    others = {folder / "platform" / f"{name}.c" for name in ("windows", "accelerator")}
    return [path for path in sorted(folder.glob("*/*.c")) if path not in others]


def compile_all(objects: Path, folder: Path = NATIVE, more: Sequence[str] = ()) -> None:
    """Compiles every C file of a folder, with further arguments of the compiler."""
    objects.mkdir(parents=True, exist_ok=True)
    for source in sources(folder):
        compile_one(source, made_of(objects, source), more)


def rebuild(
    folder: Path, more: Sequence[str] = (), linked: Sequence[str] = (), added: str = ""
) -> Path:
    """Makes `folder/tree` with a library of the C code that is imported here, compiled and linked
    with further arguments, and of the C source `added`. Returns the tree."""
    from tflgpu_plugin import native  # perhaps of a mutant

    compile_all(objects := folder / "objects", Path(native.__file__).parent, more)
    (source := folder / "added.c").write_text(added)
    compile_one(source, objects / "added.o")
    build(folder / "tree", None, objects)
    library = folder / "tree" / PACKAGE / "native" / LIBRARY
    library.unlink()
    link(sorted(objects.glob("*.o")), library, linked)
    return folder / "tree"


def _compile(source: Path, objects: Path, library: Path) -> None:
    made = library.with_name("mutant.o")
    compile_one(source, made)
    mine = made_of(objects, source)
    link([made, *(other for other in sorted(objects.glob("*.o")) if other != mine)], library)


def made_of(objects: Path, source: Path) -> Path:
    """Returns the path of the object file for a source file; files in different folders may have
    the same name."""
    return objects / f"{source.parent.name}_{source.stem}.o"


def link(objects: Sequence[Path], library: Path, more: Sequence[str] = ()) -> None:
    """Links a shared library of these objects, with further arguments for the compiler."""
    options = ("-shared", "-Wl,-soname,tflgpu", "-Wl,-z,nodelete", "-lpthread", "-ldl")
    _call("-o", str(library), *map(str, objects), *options, *(more or ("-Wl,-z,defs",)))


def compile_one(source: Path, made: Path, more: Sequence[str] = ()) -> None:
    """Compiles a C file, with further arguments. Raises Stillborn."""
    resources = Path(str(importlib.util.find_spec("wgpu").origin)).parent / "resources"  # type: ignore[union-attr]
    version = re.search(r'^version = "(.*)"', (ROOT / "pyproject.toml").read_text(), re.M)
    assert version is not None
    defines = (
        *("-D_GNU_SOURCE", "-DTGI_CHECK_LOCKS", f'-DTFLGPU_VERSION="{version[1]}"'),
        f"-I{NATIVE}",
    )
    flags = (
        *("-std=c11", "-O1", "-fPIC", "-fvisibility=hidden"),
        *("-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror"),
    )
    _call("-c", *flags, *defines, *more, "-isystem", str(resources), "-o", str(made), str(source))


def _call(*arguments: str) -> None:
    compiler = shutil.which("cc") or "cc"
    done = subprocess.run([compiler, *arguments], capture_output=True, text=True)
    if done.returncode:
        raise Stillborn(done.stderr[-500:])
