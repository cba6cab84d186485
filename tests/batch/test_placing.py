"""Tests which adapter a worker selects; no adapter is opened."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support.subprocesses import run_python
from tflgpu_plugin.batch import placing
from tflgpu_plugin.runtime.device import AdapterInfo, NoAdapter


def machine(monkeypatch: pytest.MonkeyPatch, *kinds: str) -> None:
    """Pretends that the machine has adapters of these kinds, best first."""
    found = [
        AdapterInfo(kind, "", "", "Vulkan", kind, 0, 0, index=k) for k, kind in enumerate(kinds)
    ]
    monkeypatch.setattr(placing, "present", lambda: found)

    def select(wanted: str | None) -> AdapterInfo:
        if wanted not in (None, *kinds, *map(str, range(len(kinds)))):
            raise NoAdapter(f"No adapter matches '{wanted}'.")
        return found[0]

    monkeypatch.setattr(placing, "select", select)


def test_adapters_go_round() -> None:
    assert [placing.dealt(["0", "2"], worker) for worker in range(5)] == ["0", "2", "0", "2", "0"]
    assert placing.dealt([], 3) is None


def test_all_are_those_like_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, "discrete", "discrete", "integrated", "software")
    assert placing.spread(["all"]) == ["0", "1", "2"]
    machine(monkeypatch, "software", "software")
    assert placing.spread(["all"]) == ["0", "1"]
    assert placing.spread(["software", "1"]) == ["software", "1"]


def test_every_name_is_one_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that selects an adapter for another worker must be on this machine, too."""
    machine(monkeypatch, "discrete", "software")
    for wrong in (["nvidia"], ["0", "nvidia"], ["nvidia", "0"]):
        with pytest.raises(NoAdapter, match="No adapter matches 'nvidia'"):
            placing.adapter(wrong)


def test_the_gpu_that_ray_has_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """If there are only software adapters, Ray's assignment of a GPU is ignored."""

    def given(*ids: str) -> None:
        context = SimpleNamespace(get_accelerator_ids=lambda: {"GPU": [*ids], "TPU": []})
        fake = SimpleNamespace(is_initialized=lambda: True, get_runtime_context=lambda: context)
        monkeypatch.setitem(sys.modules, "ray", fake)

    machine(monkeypatch, "discrete", "discrete", "software")
    for ids, wanted in (((), None), (("1",), "1"), (("0",), "0"), (("3",), "1")):
        given(*ids)
        assert placing.adapter(()) == wanted
    machine(monkeypatch, "software")
    assert placing.adapter(()) is None


@pytest.mark.skipif(not importlib.util.find_spec("filelock"), reason="filelock comes with Ray")
def test_workers_that_nobody_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No two living workers have the same number; the number of a dead one is free again."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    machine(monkeypatch, "a", "b", "c", "other")
    code = (
        "from tflgpu_plugin.batch import placing; placing.select = str\n"
        "print(placing.adapter(('a', 'b', 'c')))"
    )
    names = ("a", "b", "c")
    assert placing.adapter(names) == "a"
    for _ in range(2):
        assert run_python(code).stdout.split() == ["b"]
    assert [placing.adapter(names), placing.adapter(names), placing.adapter(names)] == [
        "b", "c", "a",
    ]  # fmt: skip
    assert placing.adapter(("other",)) == "other"
