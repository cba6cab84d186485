"""Tests that our description of adapters equals that of the wgpu package."""

from __future__ import annotations

import json

import pytest

from tests.support.subprocesses import run_python
from tflgpu_plugin.runtime import adapter
from tflgpu_plugin.runtime.device import AdapterInfo, NoAdapter

INTEL, NVIDIA = (0x8086, 0x9A49), (0x10DE, 0x2204)
BOTH = (("discrete", NVIDIA), ("integrated", INTEL))
Listed = tuple[str, str, tuple[int, int]]  # kind, backend, vendor and device
THEIRS = """
import json, wgpu
found = wgpu.gpu.enumerate_adapters_sync()
print(json.dumps([{"name": a.info["device"], "limits": a.limits} for a in found]))
"""


@pytest.mark.adapter
def test_limits_are_those_of_the_adapter() -> None:
    """Another process is asked, so that the package's own instance stays out of this one."""
    ours, said = adapter.select(None), json.loads(run_python(THEIRS).stdout)
    theirs = [found["limits"] for found in said if found["name"] == ours.name]
    assert dict(ours.limits).keys() == adapter.LIMITS.keys()
    assert any(all(limits[name] == value for name, value in ours.limits) for limits in theirs)


def fake(kind: str, backend: str, ids: tuple[int, int]) -> AdapterInfo:
    return AdapterInfo("GPU", "vendor", "driver", backend, kind, *ids)


@pytest.mark.parametrize(
    ("listed", "chosen"),
    [
        (  # D3D12 listed first
            [("discrete", "D3D12", NVIDIA), ("discrete", "Vulkan", NVIDIA)],
            [("discrete", "Vulkan", NVIDIA), ("discrete", "D3D12", NVIDIA)],
        ),
        (  # the kind comes before the backend
            [("integrated", "Vulkan", INTEL), ("discrete", "D3D12", NVIDIA)],
            [("discrete", "D3D12", NVIDIA), ("integrated", "Vulkan", INTEL)],
        ),
        (
            # Between two adapters of the same kind, the one that the system lists first stays
            # first, even if only the other one offers Vulkan.
            [
                ("discrete", "D3D12", NVIDIA),
                ("discrete", "Vulkan", INTEL),
                ("discrete", "D3D12", INTEL),
            ],
            [
                ("discrete", "D3D12", NVIDIA),
                ("discrete", "Vulkan", INTEL),
                ("discrete", "D3D12", INTEL),
            ],
        ),
        (  # each backend's list of the same two
            [(k, b, i) for b in ("D3D12", "Vulkan") for k, i in BOTH],
            [(k, b, i) for k, i in BOTH for b in ("Vulkan", "D3D12")],
        ),
        (  # two equal cards
            [("discrete", b, NVIDIA) for b in ("D3D12", "D3D12", "Vulkan", "Vulkan")],
            [("discrete", b, NVIDIA) for b in ("Vulkan", "Vulkan", "D3D12", "D3D12")],
        ),
        (  # a backend of software is another adapter than the GPU
            [("software", "Vulkan", INTEL), ("integrated", "D3D12", INTEL)],
            [("integrated", "D3D12", INTEL), ("software", "Vulkan", INTEL)],
        ),
    ],
)  # fmt: skip
def test_order_of_adapters(listed: list[Listed], chosen: list[Listed]) -> None:
    """The order is best first: by kind, then as the system lists them, with Vulkan before D3D12 for
    the same adapter."""
    found = adapter.best_first([fake(*each) for each in listed])
    assert [(a.kind, a.backend, (a.vendor_id, a.device_id)) for a in found] == chosen
    assert [a.index for a in found] == list(range(len(found)))


@pytest.mark.parametrize("first", adapter.BACKENDS.values())
def test_every_backend_has_a_rank(first: str) -> None:
    order = adapter.best_first([fake("discrete", b, NVIDIA) for b in adapter.BACKENDS.values()])
    assert [a.backend for a in order] == list(adapter.BACKEND_PREFERENCE)
    assert first in adapter.BACKEND_PREFERENCE


def test_a_misspelt_adapter_is_suggested(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [AdapterInfo("NVIDIA GeForce RTX 3080", "nvidia", "565.57", "Vulkan", "discrete", 1, 2)]
    monkeypatch.setattr(adapter, "adapters", lambda: found)
    assert adapter.select("rtx 3080") is found[0] and adapter.select("0") is found[0]
    end = " This machine has adapter 0: NVIDIA GeForce RTX 3080 (Vulkan)."
    for wanted, sentence in {
        "Nvidea": f"No adapter matches 'Nvidea'. Did you mean 'nvidia'?{end}",
        "Nvida GeForce RTX 3080": "Did you mean 'nvidia geforce rtx 3080'?",
        "geforse": "Did you mean 'geforce'?",
        "vulcan": "Did you mean 'vulkan'?",
        "7": f"No adapter matches '7'.{end}",
        "radeon": f"No adapter matches 'radeon'.{end}",
    }.items():
        with pytest.raises(NoAdapter) as caught:
            adapter.select(wanted)
        assert sentence in str(caught.value)
