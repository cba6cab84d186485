"""While the driver compiles many kernels, a line of level info says so, once."""

from __future__ import annotations

from typing import Any

import pytest

from tflgpu_plugin import log
from tflgpu_plugin.ir import Pipeline
from tflgpu_plugin.runtime import pipelines

PIPELINES = tuple(Pipeline(name, f"fn {name}() {{}}", "w") for name in ("a", "b", "c"))


class Cache(pipelines.Pipelines):
    """Stands for a device, which makes pipelines without a driver."""

    def made(self, pipeline: Pipeline, device: Any) -> Any:
        return f"made {pipeline.label}"


@pytest.mark.parametrize(("after", "lines"), [(-1, 1), (1e9, 0)])
def test_compiling_is_information(
    after: float, lines: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = list[tuple[str, int]]()
    monkeypatch.setattr(pipelines, "SILENT_SECONDS", after)
    monkeypatch.setattr(log, "say", lambda text, level=log.WARNING: said.append((text, level)))
    made = pipelines.make(PIPELINES, None, Cache(), False)
    assert made == ["made a", "made b", "made c"]
    assert [level for _, level in said] == [log.INFO] * lines
    assert all("the driver compiles 3 GPU kernels" in text for text, _ in said)
