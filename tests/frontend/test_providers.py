"""Tests providers: they are found as entry points and in no other way, a broken one causes a
warning, and a third party needs only the interface and the graph."""

from __future__ import annotations

import ast
import subprocess
import sys
import time
import types
from pathlib import Path
from typing import Any

import entrypoints
import pytest

from tests.support.subprocesses import ROOT, run_python
from tflgpu_plugin import providers
from tflgpu_plugin.providers import interface

THIRD_PARTY = ROOT / "tests" / "third_party"


@pytest.fixture(autouse=True)
def _forget() -> Any:
    providers.discover.cache_clear()
    yield
    providers.discover.cache_clear()


def points(monkeypatch: pytest.MonkeyPatch, *specs: tuple[str, str]) -> None:
    """Makes discovery see only these entry points, of a package `somebody`."""
    package = entrypoints.Distribution("somebody", "1.0")
    found = [entrypoints.EntryPoint.from_string(spec, name, package) for name, spec in specs]
    monkeypatch.setattr(entrypoints, "get_group_all", lambda group: found)


def module(monkeypatch: pytest.MonkeyPatch, path: str, **members: Any) -> None:
    made = types.ModuleType(path)
    vars(made).update(members)
    monkeypatch.setitem(sys.modules, path, made)


# ---- discovery ----------------------------------------------------------------------------------


def test_the_built_in_provider_is_an_entry_point() -> None:
    provider = providers.find("tflite")
    assert isinstance(provider, providers.Provider)
    assert (
        provider.name == "tflite" and provider.description and "ai-edge-litert" in provider.install
    )


def test_a_missing_provider_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    points(monkeypatch)
    with pytest.raises(providers.ProviderError, match=r"no provider .tflite.*Reinstall"):
        providers.find("tflite")


def test_an_import_that_fails_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    points(monkeypatch, ("broken", "no_such_module_here.provider [extra]"))
    with pytest.warns(UserWarning) as caught:
        assert providers.discover() == {}
    assert str(caught[0].message) == (
        "The provider 'broken' of somebody cannot be used: it needs the module "
        "'no_such_module_here'. Install that (pip install no_such_module_here), or the package "
        "with all it needs (pip install 'somebody[extra]')."
    )


def test_a_broken_provider_does_not_hurt_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    module(monkeypatch, "somebody_good", name="good", description="d", install="i", connect=print)
    module(monkeypatch, "somebody_odd", name="odd")
    specs = [("good", "somebody_good"), ("odd", "somebody_odd"), ("gone", "somebody_good:missing")]
    points(monkeypatch, *specs, ("good", "somebody_odd"))
    with pytest.warns(UserWarning) as caught:
        assert list(providers.discover()) == ["good"]
    texts = [str(w.message) for w in caught]
    assert "lacks name, description, install or connect()" in texts[0]
    assert "AttributeError" in texts[1] and "pip install --force-reinstall" in texts[1]
    assert texts[2] == "Two packages have a provider 'good'; the first is used."


def test_entry_points_are_read_in_one_place() -> None:
    files = [*ROOT.glob("tflgpu_plugin/**/*.py"), *ROOT.glob("providers/**/*.py")]
    readers = [f.relative_to(ROOT).as_posix() for f in files if "entrypoints" in f.read_text()]
    assert [f for f in readers if "import entrypoints" in (ROOT / f).read_text()] == [
        "providers/__init__.py"
    ]


# ---- importing the package ----------------------------------------------------------------------


def test_importing_the_package_imports_little() -> None:
    code = """
import sys
import tflgpu_plugin
heavy = {"numpy", "wgpu", "cffi", "jinja2", "entrypoints", "tflite_runtime", "ai_edge_litert"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
assert tflgpu_plugin.__version__ and tflgpu_plugin.last_report.__doc__
assert tflgpu_plugin.get_library_path().endswith(".so")
import ctypes
ctypes.CDLL("tflgpu")  # the bare name is known now
"""
    run_python(code)


def test_importing_the_package_is_quick() -> None:
    """Takes the best CPU time of a few, so that a busy machine does not matter."""
    code = "import time; t = time.process_time(); import tflgpu_plugin; {}"
    code = code.format("print(time.process_time() - t)")
    assert min(float(run_python(code).stdout) for _ in range(5)) < 0.15


def test_last_report_is_none_before_anything_happened() -> None:
    run_python("import tflgpu_plugin; assert tflgpu_plugin.last_report() is None")


def test_no_host_is_an_import_error(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    from tflgpu_plugin.providers import tflite

    monkeypatch.setattr(tflite, "HOSTS", ("no_such_host",))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="No TFLite host is installed: pip install ai-edge-lit"):
        tflite.load_delegate()


HIDDEN = """
import sys
import tflgpu_plugin
from conformance import host as hosts
sys.path.insert(0, {folder!r})
loaders = [hosts.module(host).load_delegate for host in hosts.installed()]
for load in [tflgpu_plugin.load_delegate, *loaders]:
    try:
        load("tflgpu")
    except (ValueError, RuntimeError) as error:
        assert "There is no provider 'tflite' in the entry-point group" in str(error), error
        assert "Reinstall tflgpu-plugin" in str(error), error
    else:
        raise SystemExit(f"{{load}} worked")
"""


def test_with_its_entry_removed_the_provider_is_gone(tmp_path: Path) -> None:
    """A distribution of the same name that comes first and has no entry points hides ours."""
    info = tmp_path / "tflgpu_plugin-99.dist-info"
    info.mkdir()
    (info / "entry_points.txt").write_text("")
    run_python(HIDDEN.format(folder=str(tmp_path)))


# ---- a third party ------------------------------------------------------------------------------

PROGRAM = """
import sys
sys.path.insert(0, {folder!r})
import numpy as np
from tflgpu_plugin import providers
assert providers.find("tinyhost").description == "programs of numpy functions"
providers.find("tinyhost").connect()
from tinyhost import Program, Step
steps = [
    Step(np.add, ("x", "bias"), "shifted"),
    Step(np.tanh, ("shifted",), "bent"),
    Step(np.cumsum, ("bent",), "flat"),
    Step(np.exp, ("flat",), "grown"),
    Step(np.multiply, ("bent", "scale"), "scaled"),
]
constants = {{"bias": np.float32([1, 2, 3, 4, 5]), "scale": np.float32(0.25)}}
program = Program(steps, ["grown", "scaled"], constants)
feed = {{"x": np.linspace(-1, 1, 35, dtype=np.float32).reshape(7, 5)}}
wanted = program.run(feed)
claim = program.accelerate({{"x": (7, 5)}})
assert sorted(n for i in claim.partitions for n in i.nodes) == [0, 1, 3, 4], claim
assert claim.refusals == {{2: "cumsum is not in the table of this plugin."}}
assert len(claim.partitions) == 2 and claim.adapter.name
for got, want in zip(program.run(feed), wanted):
    np.testing.assert_allclose(got, want, rtol=2e-5)
assert all(int(i.instance.counters().runs) == 1 for i in claim.partitions)
bigger = np.ones((3, 5), np.float32)
first = claim.partitions[0]
outputs = first.build(program.kept[0].reshaped([bigger.shape], first.judge).runs()).run([bigger])
np.testing.assert_allclose(outputs[0], np.tanh(bigger + constants["bias"]), rtol=1e-5)
try:
    providers.judge({{"nonsense": 1}})
except providers.OptionError as error:
    assert "no option 'nonsense'" in str(error)
"""


@pytest.mark.adapter
def test_a_third_party_runs_its_graph_on_the_gpu(tmp_path: Path) -> None:
    """It is installed like any package, is found and called, and gets partitions that run."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    flags = ["--no-deps", "--no-build-isolation", "--no-index", "--target", str(tmp_path)]
    subprocess.run([*pip, *flags, str(THIRD_PARTY)], check=True, timeout=120)
    run_python(PROGRAM.format(folder=str(tmp_path)))


def test_the_third_party_imports_the_interface_only() -> None:
    tree = ast.parse((THIRD_PARTY / "tinyhost" / "__init__.py").read_text())
    imported = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "tflgpu_plugin":
            imported |= {f"tflgpu_plugin.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module or "")
        elif isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
    ours = {name for name in imported if name.startswith("tflgpu_plugin")}
    assert ours == {"tflgpu_plugin.providers"}


# Facts of single ops that rows of ONNX ask about, the format of compiled models, and the importer
# without the checks of third parties' models.
BEYOND = {
    "onnxruntime/activations.py": ["tflgpu_plugin.ops.gate_functions"],
    "onnxruntime/blockwise.py": ["tflgpu_plugin.ops.gather_blocks"],
    "onnxruntime/context.py": ["tflgpu_plugin.cache"],
    "onnxruntime/counted_results.py": ["tflgpu_plugin.ops"],
    "onnxruntime/external.py": ["tflgpu_plugin.cache"],
    "onnxruntime/forests.py": ["tflgpu_plugin.ops.decision_trees"],
    "onnxruntime/matmul_norm.py": ["tflgpu_plugin.ops.normalization"],
    "onnxruntime/reader.py": ["tflgpu_plugin.importer.importer"],
    "onnxruntime/rows.py": ["tflgpu_plugin.ops"],
    "onnxruntime/spectral.py": ["tflgpu_plugin.ops.spectrum"],
    "tflite/reader.py": ["tflgpu_plugin.importer.importer"],
}


def test_built_in_hosts_import_the_interface_and_the_words_of_graphs() -> None:
    found: dict[str, list[str]] = {}
    for host in ("onnxruntime", "tflite"):
        for path in sorted((ROOT / "providers" / host).glob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                named = [a.name for a in node.names] if isinstance(node, ast.Import) else []
                if isinstance(node, ast.ImportFrom) and not node.level:
                    named = [node.module or ""]
                    if named == ["tflgpu_plugin"]:
                        named = [f"tflgpu_plugin.{alias.name}" for alias in node.names]
                found.setdefault(f"{host}/{path.name}", []).extend(
                    name
                    for name in named
                    if name.startswith("tflgpu_plugin")
                    and name not in ("tflgpu_plugin.ir", "tflgpu_plugin.providers")
                )
    assert {file: sorted({*names}) for file, names in found.items() if names} == BEYOND


def test_the_interface_exports_what_it_promises() -> None:
    start = time.perf_counter()
    for name in interface.__all__:
        assert name in dir(providers)
        assert getattr(providers, name) is not None
    assert time.perf_counter() - start < 30
    with pytest.raises(AttributeError):
        providers.nonsense  # noqa: B018


def test_last_report_is_the_newest_of_all_hosts() -> None:
    import tflgpu_plugin
    from tflgpu_plugin.frontend import reports

    made = [reports.Report(None, (), ()), reports.Report(None, (), ())]
    for one in made:
        reports.remember(lambda one=one: one)
        assert tflgpu_plugin.last_report() is one
