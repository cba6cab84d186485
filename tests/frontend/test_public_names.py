"""Tests the public functions and classes of the package that need no host."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import tflgpu_plugin
from tests.support.subprocesses import run_python
from tflgpu_plugin import providers
from tflgpu_plugin.frontend import reports
from tflgpu_plugin.runtime import adapter


def test_all_public_names_are_there() -> None:
    assert dir(tflgpu_plugin) == sorted([*tflgpu_plugin.__all__, "__version__"])
    for name in tflgpu_plugin.__all__:
        assert name == "on_refusal" or getattr(tflgpu_plugin, name).__doc__, name
    assert tflgpu_plugin.Report is reports.Report
    assert tflgpu_plugin.NodeReport is reports.NodeReport
    with pytest.raises(AttributeError, match="has no attribute 'PartitionReport'"):
        tflgpu_plugin.PartitionReport  # noqa: B018


def test_classes_are_imported_late() -> None:
    run_python("""
import sys, tflgpu_plugin
assert "tflgpu_plugin.frontend" not in sys.modules
from tflgpu_plugin import NodeReport, Report
assert "tflgpu_plugin.frontend.reports" in sys.modules
""")


@pytest.mark.adapter
def test_adapters_are_those_that_can_be_chosen() -> None:
    found = tflgpu_plugin.adapters()
    assert [one.index for one in found] == list(range(len(found)))
    for one in found:
        assert one.name == adapter.select(one.index).name and one.kind in adapter.PREFERENCE


def test_without_an_adapter_the_list_is_empty() -> None:
    code = "import tflgpu_plugin; assert tflgpu_plugin.adapters() == []"
    run_python(code, VK_ICD_FILENAMES="/none", VK_DRIVER_FILES="/none")


def test_options_may_be_the_only_argument(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    provider = SimpleNamespace(connect=lambda: None, load_delegate=lambda *a: calls.append(a))
    monkeypatch.setattr(providers, "find", lambda name: provider)
    tflgpu_plugin.load_delegate()
    tflgpu_plugin.load_delegate({"adapter": "0"})
    tflgpu_plugin.load_delegate("tflgpu", {"force": "1"})
    tflgpu_plugin.load_delegate(options={"force": "1"})
    assert calls == [
        ("tflgpu", None),
        ("tflgpu", {"adapter": "0"}),
        *[("tflgpu", {"force": "1"})] * 2,
    ]
    with pytest.raises(TypeError, match="takes its options once"):
        tflgpu_plugin.load_delegate({"force": "1"}, {})
    for given in ((5,), ("tflgpu", 5), (["adapter"],)):
        with pytest.raises(TypeError, match="takes options as a dictionary, such as"):
            tflgpu_plugin.load_delegate(*given)


def test_a_misspelt_option_is_suggested() -> None:
    with pytest.raises(ValueError, match=r"no option 'adaptor'. Did you mean 'adapter'\?"):
        with tflgpu_plugin.preferred(adaptor="0"):
            pass
