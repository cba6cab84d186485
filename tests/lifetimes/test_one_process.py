"""Other libraries in the process export an LLVM of another version, before and after the plugin."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from conformance import host as hosts
from tests.support.subprocesses import run_python
from tflgpu_plugin import native
from tflgpu_plugin.native import drivers

# Each is imported and computes something, so that what it loads late is loaded, too.
USES = {
    "tensorflow": "import tensorflow as tf; assert float(tf.reduce_sum(tf.ones((3, 3)))) == 9",
    "torch": "import torch; assert float(torch.ones(3, 3).matmul(torch.ones(3, 3)).sum()) == 27",
    "jax": "import jax; assert float(jax.jit(lambda x: (x * 2).sum())(jax.numpy.ones(4))) == 8",
    "numba": "import numba; assert numba.njit(lambda x: x * 2)(21) == 42",
    "cv2": "import cv2, numpy; assert cv2.blur(numpy.ones((8, 8)), (3, 3)).sum() == 64",
}
EVERYTHING = tuple(USES)

# Two convolutions in a host, against its own kernels. (tflite-runtime and TensorFlow cannot be in
# one process: each finds functions of the other.)
OURS = """
import numpy as np
import tflgpu_plugin
from tests.support import small_models
from {host} import interpreter as api
def outputs(**more):
    made = api.Interpreter(model_content=small_models.one_partition(), **more)
    made.allocate_tensors()
    made.set_tensor(made.get_input_details()[0]["index"], np.ones((1, 8, 8, 3), "f4"))
    made.invoke()
    return made.get_tensor(made.get_output_details()[0]["index"]).copy()
delegate = api.load_delegate("tflgpu")
got, wanted = outputs(experimental_delegates=[delegate]), outputs()
assert tflgpu_plugin.report(delegate).runs == 1
assert np.abs(got - wanted).max() <= 2e-6 * np.abs(wanted).max(), (got, wanted)
"""


def ours() -> str:
    return OURS.format(host=(hosts.installed() or ["tensorflow.lite.python"])[-1])


def needs(*packages: str) -> None:
    for package in packages:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed here")


@pytest.mark.adapter
@pytest.mark.parametrize("package", USES)
def test_after_another_library(package: str) -> None:
    needs(package)
    run_python(USES[package] + "\n" + ours())


@pytest.mark.adapter
@pytest.mark.parametrize("package", USES)
def test_before_another_library(package: str) -> None:
    needs(package)
    run_python(ours() + USES[package] + "\nassert (outputs() == wanted).all()")


@pytest.mark.adapter
@pytest.mark.parametrize("order", [EVERYTHING, EVERYTHING[::-1]], ids=["tensorflow", "cv2"])
def test_among_all_of_them(order: tuple[str, ...]) -> None:
    needs(*order)
    first, later = order[:3], order[3:]
    code = [*(USES[name] for name in first), ours(), *(USES[name] for name in later)]
    run_python("\n".join([*code, "assert (outputs() == wanted).all()"]))


@pytest.mark.adapter
@pytest.mark.parametrize("package", ["tensorflow", "ai_edge_litert.interpreter"])
def test_lines_of_the_readme(package: str) -> None:
    """Runs the README's lines: `tf.lite` and ai-edge-litert with the bare name."""
    needs(package.partition(".")[0])
    lines = {
        "tensorflow": "import tensorflow as tf\nInterpreter = tf.lite.Interpreter\n"
        "load_delegate = tf.lite.experimental.load_delegate",
        "ai_edge_litert.interpreter": f"from {package} import Interpreter, load_delegate",
    }
    run_python(f"""
import tflgpu_plugin
{lines[package]}
from tests.support import small_models
delegate = load_delegate("tflgpu")
interpreter = Interpreter(
    model_content=small_models.one_partition(), experimental_delegates=[delegate]
)
interpreter.allocate_tensors()
interpreter.invoke()
assert tflgpu_plugin.report(delegate).runs == 1
""")


# Functions that a driver calls when it generates code, and the last function that it calls.
FUNCTIONS = ("LLVMContextCreate", "LLVMContextDispose", "LLVMDisposeExecutionEngine")
WITHOUT = "from tflgpu_plugin.native import drivers\ndrivers.open_ahead = lambda lib: None\n"


@pytest.fixture
def clashing(tmp_path: Path) -> str:
    """Returns code that loads a library with its own LLVM; {} is GLOBAL (visible to all libraries)
    or LOCAL."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    source, library = tmp_path / "clash.c", tmp_path / "libclash.so"
    bodies = "".join(f"void *{name}(void) {{ abort(); }}\n" for name in FUNCTIONS)
    source.write_text("#include <stdlib.h>\n" + bodies)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    return f"import ctypes; ctypes.CDLL({str(library)!r}, mode=ctypes.RTLD_{{}})\n"


@pytest.mark.adapter
@pytest.mark.parametrize("first", ["library", "driver"])
def test_a_driver_calls_its_own_llvm(first: str, clashing: str) -> None:
    """Without the workaround (the control) the driver calls the other library's LLVM, and the
    process crashes."""
    parts = [clashing.format("GLOBAL"), ours()]
    code = "".join(parts if first == "library" else parts[::-1])
    try:
        run_python(WITHOUT + code, status=-6)
    except AssertionError:
        pytest.skip("this adapter's driver does not import LLVM")
    run_python(code)


LLVM = "from tflgpu_plugin import native\nprint(native.load().tg_llvm_is_exported())"


@pytest.mark.parametrize(("how", "found"), [("GLOBAL", "1"), ("LOCAL", "0")])
def test_only_what_others_can_see_counts(how: str, found: str, clashing: str) -> None:
    assert run_python(LLVM).stdout.strip() == "0"
    assert run_python(clashing.format(how) + LLVM).stdout.strip() == found


def manifest(folder: Path, name: str, library: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f'{{"file_format_version": "1.0.0", "ICD": {{"library_path": "{library}"}}}}')
    return path


@pytest.mark.parametrize(
    "content",
    ["", "[]", '{"ICD": []}', '{"ICD": {"library_path": 3}}', "[" * 100_000, "\xff",
     '{"ICD": {"library_path": "\\ud800"}}', '{"ICD": {"library_path": "a\\u0000b"}}',
     '{"ICD": {"library_path": "/no/such.so"}}', None],
)  # fmt: skip
def test_a_manifest_that_is_none_is_left_to_the_loader(
    content: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / ("x.json" if content is not None else "x" * 5000)
    if content is not None:
        path.write_bytes(content.encode("latin-1"))
    monkeypatch.setenv("VK_DRIVER_FILES", str(path))
    drivers.open_ahead(native.lib)
    monkeypatch.setenv("VK_DRIVER_FILES", str(tmp_path))
    drivers.open_ahead(native.lib)


def test_manifests_are_those_of_the_loader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("VK_")]:
        monkeypatch.delenv(name)
    for name in ("XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("XDG_DATA_DIRS", f"{tmp_path / 'a'}:{tmp_path / 'b'}")
    first = manifest(tmp_path / "a/vulkan/icd.d", "x.json", "libx.so")
    second = manifest(tmp_path / "b/vulkan/icd.d", "y.json", "./liby.so")
    broken = manifest(tmp_path / "b/vulkan/icd.d", "z.json", "")
    broken.write_text("{")
    mine = [path for path in drivers.manifests() if tmp_path in path.parents]
    assert mine == [first, second, broken]
    named = [name for name in drivers.libraries() if name.startswith(("libx", str(tmp_path)))]
    assert named == ["libx.so", str(second.parent / "liby.so")]
    monkeypatch.setenv("VK_ICD_FILENAMES", f"{first}{os.pathsep}{second}")
    assert list(drivers.manifests()) == [first, second]
    monkeypatch.setenv("VK_DRIVER_FILES", str(second))
    assert list(drivers.manifests()) == [second]
    monkeypatch.setenv("VK_ADD_DRIVER_FILES", str(first))
    assert list(drivers.manifests()) == [first, second]
    monkeypatch.setenv("VK_LOADER_DRIVERS_DISABLE", "nothing,*Y.json")
    assert list(drivers.manifests()) == [first]
    monkeypatch.setenv("VK_LOADER_DRIVERS_SELECT", "y*")
    assert list(drivers.manifests()) == []
    drivers.open_ahead(native.lib)  # neither library is there: no error
