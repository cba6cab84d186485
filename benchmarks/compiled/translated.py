"""Translates kernels to the languages of D3D12 and Metal, and compiles the former.

wgpu translates WGSL with its library naga, on Windows to HLSL and on macOS to MSL. naga is also to
be had in WebAssembly (an older version, so what it refuses is not always what wgpu refuses), and
Microsoft's compiler for HLSL as a library for Linux, in a package of another project."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks import layers
from benchmarks.compiled.dxc import Compiler
from benchmarks.engine import Unavailable
from tflgpu_plugin.ir import Pipeline

TRANSLATOR = "wgsl-wasm-transpiler-bundler@0.0.1"  # of npm
COMPILER = "compushady==0.17.5"  # of PyPI
LIBRARY = "libdxcompiler_x86_64.so.3.7"
SCRIPT = Path(__file__).with_name("translate.mjs")
# node may wait for its own compiler threads at exit without end (nodejs/node#54918); without them
# it is also the quicker.
NODE = ("--single-threaded",)
DOT = """fn dot4I8Packed(a: u32, b: u32) -> i32 {
  let products = unpack4xI8(a) * unpack4xI8(b);
  return products.x + products.y + products.z + products.w;
}"""
LONGEST = 600  # seconds that a command may take


def check(kernels: Mapping[Pipeline, str], sample: int = 1) -> int:
    """Translates every kernel, compiles every `sample`-th, and prints what is wrong. Returns 1 if
    something is. Raises Unavailable where node, npm or a package is missing."""
    package, compiler = _translator(), Compiler(_library())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        given = folder / "kernels.json"
        given.write_text(json.dumps([_for_older(pipeline.wgsl) for pipeline in kernels]))
        _run("node", *NODE, str(SCRIPT), str(package), str(given), str(folder))
        wrong = dict(_refused(kernels, folder))
        compiled = [k for k in range(0, len(kernels), sample) if (folder / f"{k}.hlsl").exists()]
        labels = list(kernels.items())
        for k in compiled:
            if error := compiler.error((folder / f"{k}.hlsl").read_bytes()):
                wrong[f"{labels[k][0].name} ({labels[k][1]}), compiled HLSL"] = error
    for title, error in wrong.items():
        print(f"{title}: {error}")
    print(
        f"{len(kernels)} kernels to HLSL and MSL, {len(compiled)} compiled by DXC, "
        f"{len(wrong)} failed"
    )
    return 1 if wrong else 0


def _for_older(wgsl: str) -> str:
    """Returns a kernel with a function in place of the integer dot product, which this naga does
    not know, unlike that of wgpu."""
    return f"{DOT}\n{wgsl}" if "dot4I8Packed(" in wgsl else wgsl


def _refused(kernels: Mapping[Pipeline, str], folder: Path) -> Iterator[tuple[str, str]]:
    """Yields the title and error of each translation that failed."""
    for k, (pipeline, where) in enumerate(kernels.items()):
        for language in ("hlsl", "metal"):
            if (path := folder / f"{k}.{language}.error").exists():
                yield f"{pipeline.name} ({where}), to {language}", path.read_text()[:300]


def _translator() -> Path:
    """Returns the folder of naga in WebAssembly, unpacked beside the drivers."""
    place = _folder() / "translator"
    package = place / "node_modules" / TRANSLATOR.partition("@")[0]
    if not package.exists():
        place.mkdir(parents=True, exist_ok=True)
        quiet = ("--no-audit", "--no-fund", "--ignore-scripts", "--silent")
        _run("npm", "install", *quiet, "--prefix", str(place), TRANSLATOR)
    return package


def _library() -> Path:
    """Returns DXC, unpacked beside the drivers."""
    place = _folder() / "dxc"
    library = place / LIBRARY
    if not library.exists():
        place.mkdir(parents=True, exist_ok=True)
        options = ("--quiet", "--disable-pip-version-check", "--no-deps", "--no-binary", ":all:")
        _run(sys.executable, "-m", "pip", "download", *options, "--dest", str(place), COMPILER)
        archive = next(place.glob("compushady-*.tar.gz"))
        with tarfile.open(archive) as content:
            member = next(each for each in content if each.name.endswith(f"/{LIBRARY}"))
            source = content.extractfile(member)
            assert source is not None
            library.write_bytes(source.read())
        archive.unlink()
    return library


def _folder() -> Path:
    drivers, _ = layers.tools()
    found: Path = drivers.folder()
    return found


def _run(*command: str) -> None:
    """Runs a command. Raises Unavailable with the end of its output where it fails."""
    both = subprocess.PIPE, subprocess.STDOUT
    try:
        done = subprocess.run(command, text=True, timeout=LONGEST, stdout=both[0], stderr=both[1])
    except OSError as error:
        raise Unavailable(f"{command[0]} is missing: {error}") from error
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"{' '.join(command[:3])} did not end in {LONGEST} s") from error
    if done.returncode:
        last = done.stdout.strip().splitlines()[-1:] or ["no output"]
        raise Unavailable(f"{' '.join(command[:3])} failed: {last[0][:300]}")
