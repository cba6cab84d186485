"""Selects the tests of a run: hosts, operators, types, and the quick part."""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from conformance import host
from conformance.plugin import expect
from conformance.plugin.record import Header
from tflgpu_plugin import ops
from tflgpu_plugin.harness import hosts
from tflgpu_plugin.ir import TYPE_NAMES
from tflgpu_plugin.options import meant

HOSTS = ("tflite", "tflite_runtime", "ai_edge_litert", "litert", "onnxruntime")
DTYPES = {**{name: name for name in (*TYPE_NAMES, "bool")}, **{v: k for k, v in TYPE_NAMES.items()}}

# Modules whose tests all belong to the quick part, and how many of a longer list do, in
# each host.
QUICK = {
    "test_ops": None,
    "test_graph_cases": None,
    "test_suite": None,
    "test_graphs": 12,
    "test_constant_chains": 24,
    "test_onnx_graph_cases": 60,
}
QUICK |= {
    "test_quantized_means": None,
    "test_onnx_twins": None,
    "test_onnx_forms": None,
    "test_versions": None,
    "test_nodes": None,
}
QUICK |= {
    "test_random_tflite": None,
    "test_random_operators": None,
    "test_random_onnx": 24,
    "test_quantized": None,
    "test_fixed_point": None,
}
QUICK |= {
    "test_float16": None,
    "test_bfloat16": None,
    "test_hybrid": None,
    "test_half": None,
    "test_onnx_quantized": None,
}
QUICK |= {
    "test_levels": None,
    "test_random_integers": None,
    "test_random_run_values": None,
    "test_onnx_attention": None,
    "test_onnx_node_tests": None,
    "test_onnx_extents": None,
    "test_webnn": None,
    "test_batches": None,
}
# Modules that no step of tools/check.py runs, and why. Times are those of one core.
LEFT_OUT = {
    "test_onnx_converted": "takes minutes; test_ops and test_onnx_twins run the same cases",
    "test_onnx_half": "takes 25 s, of real models",
    "test_onnx_models": "takes 45 s, of real models",
    "test_onnx_quantized_models": "takes 25 s, of real models",
}
# Of these modules only the sampled tests are quick; the others include the same cases.
SAMPLED = ("test_variants",)
QUICK |= dict.fromkeys(("test_forms", "test_int16", "test_int16_operators", "test_stored_numbers"))
QUICK |= dict.fromkeys(SAMPLED)
# The types of a run without --dtype; "all" selects every type.
DEFAULT_DTYPES, EVERY_DTYPE = ("f32", "bool"), "all"


@dataclass(frozen=True)
class Choice:
    """The selection by options; empty sets mean everything. `typed`: --dtype names types. `every`
    is each installed TFLite host, or those that --host names."""

    tflite: tuple[str, ...]
    onnxruntime: bool
    ops: frozenset[str] = frozenset()
    dtypes: frozenset[str] = frozenset(DEFAULT_DTYPES)
    typed: bool = False
    every: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        return [*self.tflite, *(["onnxruntime"] if self.onnxruntime else [])]

    @property
    def narrowed(self) -> bool:
        """Whether only some operators or types are selected: graphs and models are then left out,
        except those that name their types."""
        return bool(self.ops or self.typed)

    @property
    def whole(self) -> bool:
        """Whether every operator and every type is tested."""
        return not self.ops and not self.dtypes


CHOICE: pytest.StashKey[Choice] = pytest.StashKey()
HEADER: pytest.StashKey[Header] = pytest.StashKey()
ENTRIES: pytest.StashKey[Sequence[expect.Entry]] = pytest.StashKey()


def onnxruntime_usable() -> bool:
    """Whether ONNX Runtime is installed and the plugin has a provider for it."""
    import entrypoints

    points = entrypoints.get_group_all("tflgpu_plugin.providers")
    return importlib.util.find_spec("onnxruntime") is not None and any(
        point.name == "onnxruntime" for point in points
    )


def choose(config: pytest.Config) -> Choice:
    """Returns the options of a run. Raises ValueError with a sentence."""
    given = _words(config.getoption("--host"))
    wanted = given or (["tflite"] + (["onnxruntime"] if onnxruntime_usable() else []))
    if unknown := [name for name in wanted if name not in HOSTS]:
        raise ValueError(f"--host cannot be {unknown[0]}; it is of {', '.join(HOSTS)}.")
    tflite = [_tflite(name) for name in wanted if name != "onnxruntime"]
    if "onnxruntime" in given and not onnxruntime_usable():
        raise ValueError("--host onnxruntime: install it with pip install 'onnxruntime>=1.24.4'.")
    words = _words(config.getoption("--dtype"))
    dtypes = () if EVERY_DTYPE in words else words or DEFAULT_DTYPES
    if unknown := [name for name in dtypes if name not in DTYPES]:
        raise ValueError(
            f"--dtype cannot be {unknown[0]}; write {', '.join(DTYPES)} or {EVERY_DTYPE}."
        )
    return Choice(
        tuple(dict.fromkeys(tflite)),
        "onnxruntime" in wanted,
        frozenset(_known_ops(_words(config.getoption("--op")))),
        frozenset(DTYPES[name] for name in dtypes),
        bool(dtypes and words),
        tuple(dict.fromkeys(tflite)) if given else tuple(host.installed()),
    )


def _words(text: Any) -> list[str]:
    return [word.strip() for word in str(text or "").split(",") if word.strip()]


def _tflite(name: str) -> str:
    found = host.installed()
    if name == "tflite" and found:
        return found[0]
    if name == host.COMPILED:
        _usable(name)
    elif name not in found:
        raise ValueError(f"--host {name} is not installed: pip install tflite-runtime.")
    return name


def _usable(name: str) -> None:
    """Raises ValueError with a sentence where this host cannot be imported."""
    try:
        host.module(name)
    except hosts.NoHost as error:
        raise ValueError(str(error)) from error


def _known_ops(words: list[str]) -> list[str]:
    """Returns lower-case names. Raises ValueError for one that is no operator, op or family."""
    known = all_names()
    if unknown := [word for word in words if word.lower() not in known]:
        guess = meant(unknown[0], known)
        raise ValueError(
            f"--op cannot be {unknown[0]}.{guess} Operators are in `tflgpu ops`, families are "
            f"{', '.join(ops.FAMILIES)}."
        )
    return [word.lower() for word in words]


def all_names() -> set[str]:
    """Returns every name that --op takes, in lower case."""
    from tflgpu_plugin.providers.tflite.ops import HOST_OPS

    names = {*ops.FAMILIES, *ops.rows(), *HOST_OPS}
    if onnxruntime_usable():
        try:
            from tflgpu_plugin.providers.onnxruntime import ops as onnx_ops

            names |= set(getattr(onnx_ops, "HOST_OPS", ()))
        except ImportError:
            pass
    return {name.lower() for name in names}


def split(
    items: Sequence[pytest.Item], choice: Choice
) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Returns the tests that run, and the tests that do not."""
    left: list[pytest.Item] = []
    out: list[pytest.Item] = []
    for item in items:
        (left if _wanted(item, choice) else out).append(item)
    return left, out


def _wanted(item: pytest.Item, choice: Choice) -> bool:
    if item.get_closest_marker("onnxruntime"):
        if not choice.onnxruntime:
            return False
    elif item.get_closest_marker("adapter") and not choice.tflite:
        return False
    if choice.dtypes and not _dtypes(item) & choice.dtypes:
        return False
    if not choice.narrowed:
        return True
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    case, family = parameters.get("case"), parameters.get("family")
    if case is None and family is None:
        # Graphs and models are no test of one operator; a marker says what types a test is about.
        return not choice.ops and item.get_closest_marker("dtype") is not None
    return _op_wanted(case, family, choice)


def _op_wanted(case: Any, family: Any, choice: Choice) -> bool:
    if not choice.ops:
        return True
    if case is None:
        return family in choice.ops or any(
            op in ops.rows() and ops.rows()[op].family == family for op in choice.ops
        )
    return bool({str(name).lower() for name in (family, *names(case))} & choice.ops)


def _dtypes(item: pytest.Item) -> set[str]:
    """Returns the types that a test is about: those of its marker `dtype` or of its case. A test
    without either belongs to the default run."""
    if marker := item.get_closest_marker("dtype"):
        return set(marker.args)
    case = getattr(getattr(item, "callspec", None), "params", {}).get("case")
    return set(DEFAULT_DTYPES) if case is None else {dtype(case)}


def names(case: Any) -> tuple[str, ...]:
    """Returns the host's operator of a case, and the op that it becomes."""
    from tflgpu_plugin.providers.tflite.ops import HOST_OPS

    form = HOST_OPS.get(case.op)
    return (case.op, form.op) if form else (case.op,)


def dtype(case: Any) -> str:
    """Returns the type of the values that a case computes."""
    return str(getattr(case, "output_type", "f32"))


def mark_quick(items: Sequence[pytest.Item]) -> None:
    """Adds the marker `quick` to the tests of the quick part."""
    seen: Counter[tuple[str, ...]] = Counter()
    for item in items:
        module = item.path.stem
        if module not in QUICK or (module in SAMPLED and "_sample_" not in item.name):
            continue
        given = getattr(getattr(item, "callspec", None), "params", {})
        where = (module, str(given.get("host_name")), str(given.get("beside")))
        seen[where] += 1
        limit = QUICK[module]
        if limit is None or seen[where] <= limit:
            item.add_marker("quick")
