#!/bin/sh
# One wheel for every Python: build, repair (the manylinux tag), check, into dist/. Needs `tools/setup.sh dev`.
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-.venv/bin/python}
PATH="$(cd "$(dirname "$python")" && pwd):$PATH"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$python" -m build --wheel --no-isolation --outdir "$work/built" .
mkdir -p dist
rm -f dist/tflgpu_plugin-*.whl
"$python" -m auditwheel repair --wheel-dir "$work/repaired" "$work"/built/*.whl
"$python" -m auditwheel show "$work"/repaired/*.whl

# The bare name "tflgpu" is found by SONAME, so repairing must not have renamed anything.
"$python" - "$work"/repaired/*.whl <<'CHECK'
import re, subprocess, sys, tempfile, zipfile
wheel = sys.argv[1]
name = wheel.rsplit("/", 1)[1]
assert re.fullmatch(r"tflgpu_plugin-[\w.]+-py3-none-manylinux\w*(\.manylinux\w+)*\.whl", name), name
archive = zipfile.ZipFile(wheel)
libraries = [n for n in archive.namelist() if ".so" in n]
assert libraries == ["tflgpu_plugin/native/libtflgpu.so", "tflgpu_plugin/native/litert/libLiteRtGpuAccelerator.so"], libraries
wanted = ["tflgpu_plugin/native/core/tflgpu.h", "tflgpu_plugin/native/tflite/abi.h", "tflgpu_plugin/providers/__init__.py"]
missing = set(wanted) - set(archive.namelist())
assert not missing, missing
assert not [n for n in archive.namelist() if n.endswith((".c", "CMakeLists.txt"))]
with tempfile.TemporaryDirectory() as folder:
    path = archive.extract(libraries[0], folder)
    soname = subprocess.run(["patchelf", "--print-soname", path], capture_output=True, text=True, check=True).stdout
assert soname.strip() == "tflgpu", soname
print(f"{name}: {len(archive.namelist())} files, SONAME tflgpu")
CHECK
mv "$work"/repaired/*.whl dist/
ls -l dist/
