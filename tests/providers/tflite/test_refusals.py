"""Failures while the frontend claims nodes leave these nodes on the CPU and do not change the
results."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import tflgpu_plugin
from conformance import host as hosts
from tests.support import small_models
from tests.support.interpreters import gpu, places, same
from tflgpu_plugin import engine, kernels, native, ops
from tflgpu_plugin.errors import Unsupported
from tflgpu_plugin.ir import Refusal

pytestmark = [pytest.mark.adapter, pytest.mark.parametrize("host", hosts.installed())]


def test_a_failing_claim_leaves_the_model_on_the_cpu(
    host: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("oops")

    monkeypatch.delenv("TFLGPU_DEBUG", raising=False)
    monkeypatch.setattr(engine, "claim", broken)
    interpreter, made = gpu(small_models.guide(), host)
    said = capfd.readouterr().err
    assert (
        "WARNING: tflgpu: nothing of this model runs on the GPU. tflgpu failed with RuntimeErr"
        in said
    )
    assert "0 operations will run on the GPU, and the remaining 3 operations will run on" in said
    assert set(places(made).values()) == {"cpu"}
    same(interpreter, small_models.guide(), host)


def test_a_device_without_memory_leaves_the_nodes_on_the_cpu(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise native.NativeError("Not enough memory left.")

    monkeypatch.setattr(engine, "Instance", full)
    interpreter, made = gpu(small_models.guide(), host)
    assert set(places(made).values()) == {"cpu"}
    assert tflgpu_plugin.report(made).nodes[0].reason == (
        "The device could not build this partition: Not enough memory left."
    )
    same(interpreter, small_models.guide(), host)


@pytest.mark.parametrize("damage", ["fn main(", None])
def test_a_damaged_kernel_costs_its_nodes_only(
    host: str, damage: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One kernel is refused by the driver, another one cannot be rendered."""
    render = kernels.render

    def damaged(kernel: str, *arguments: Any) -> str:
        return render(kernel, *arguments) + (damage if kernel == "reduce" else "")

    monkeypatch.delenv("TFLGPU_DEBUG", raising=False)
    monkeypatch.setattr(kernels, "render", damaged)
    interpreter, made = gpu(small_models.guide(), host)
    assert places(made) == {"features": "gpu", "mean": "cpu", "distance": "gpu"}
    same(interpreter, small_models.guide(), host)


def test_a_defect_while_building_leaves_the_partition_on_the_cpu(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TFLGPU_DEBUG", raising=False)
    monkeypatch.setattr(engine, "Instance", lambda *_: 1 / 0)
    interpreter, made = gpu(small_models.guide(), host, exclude="SQUARED_DIFFERENCE")
    first, _, last = tflgpu_plugin.report(made).nodes
    assert "Building failed inside this plugin: ZeroDivisionError" in (first.reason or "")
    assert (first.refusal_code, last.refusal_code) == ("defect", "option.excluded")
    same(interpreter, small_models.guide(), host)


def test_a_node_that_cannot_be_planned_is_refused_alone(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(low: Any, node: Any) -> None:
        raise Unsupported(Refusal("device.limit", "No."), node.id)

    rows = dict(ops.rows())
    rows["mean"] = replace(rows["mean"], lower=refused)
    monkeypatch.setattr(ops, "rows", lambda: rows)
    interpreter, made = gpu(small_models.guide(), host)
    assert places(made) == {"features": "gpu", "mean": "cpu", "distance": "gpu"}
    same(interpreter, small_models.guide(), host)
