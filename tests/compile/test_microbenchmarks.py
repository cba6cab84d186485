"""Tests which settings a device gets: each is decided by the times of kernels, for which a table
stands here, and the vendor's setting stays unless another one is clearly faster."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from tests.compile.test_compiler import TARGET
from tests.support.net import WINDOW, Net
from tflgpu_plugin import native
from tflgpu_plugin.compile import compiler, microbenchmarks
from tflgpu_plugin.compile.microbenchmarks import Calibrator
from tflgpu_plugin.compile.probes import Probe
from tflgpu_plugin.ir import Target
from tflgpu_plugin.ir.calibration import SETTINGS, THREADS
from tflgpu_plugin.ops import attention, split_depth
from tflgpu_plugin.ops.tiles import choose_tile, loads_ahead
from tflgpu_plugin.runtime import adapter

GPU = replace(TARGET, software=False, vendor="nvidia", subgroup_size=32, native_half=True)
FULL = GPU.threads  # of the table's device, as of the target
Time = Callable[[Probe], float]


def usual(probe: Probe) -> float:
    """Returns nanoseconds on a device for which its vendor's row is right: of any kernel by its
    threads and steps, more where these are more than fill it."""
    launch, iteration = 6400.0, 100.0
    return launch + probe.steps * iteration * max(1.0, probe.threads / FULL)


@dataclass
class Table:
    """Times of kernels from a function, on a clock that stands still otherwise."""

    time: Time
    compiling: float = 0.002  # seconds a kernel
    refused: frozenset[str] = frozenset()  # kinds
    noise: Sequence[float] = (1.0,)
    at: float = 100.0
    asked: list[Probe] = field(default_factory=list)

    def prepare(self, probes: Sequence[Probe]) -> Mapping[Probe, str]:
        self.at += self.compiling * len(probes)
        return {probe: "no" for probe in probes if probe.kind in self.refused}

    def nanoseconds(self, probe: Probe, launches: int) -> float:
        self.asked.append(probe)
        found = self.time(probe) * launches * self.noise[len(self.asked) % len(self.noise)]
        self.at += found / 1e9
        return found

    def release(self) -> None:
        pass


def calibrator(table: Table, target: Target = GPU) -> Calibrator:
    made = Calibrator(target, table, lambda: table.at)
    table.asked.clear()
    return made


def results(time: Time, target: Target = GPU) -> tuple[dict[str, str], int]:
    """Returns settings and threads that differ from the vendor's; "" as state: all was measured."""
    found = calibrator(Table(time), target).run()
    assert found.state == ""
    return dict(found.tuning), found.threads


def faster(factor: float, **these: object) -> Time:
    """Returns times that are `factor` of the usual for kernels with these fields."""

    def time(probe: Probe) -> float:
        fits = all(getattr(probe, name) == value for name, value in these.items())
        return usual(probe) * (factor if fits else 1.0)

    return time


def test_vendors_rows_stay_where_nothing_is_faster() -> None:
    assert results(usual) == ({}, 0)
    assert results(usual, replace(GPU, native_half=False)) == ({}, 0)


@pytest.mark.parametrize(
    ("setting", "value", "these"),
    [
        ("weights", "global", {"kind": "product", "weights": "global"}),
        ("weights", "shuffle", {"kind": "product", "weights": "shuffle"}),
        ("lanes", "128", {"kind": "product", "lanes": 128}),
        ("lanes", "32", {"kind": "product", "lanes": 32}),
        ("ahead", "1", {"kind": "product", "ahead": 1}),
        ("attention_tile", "4x1", {"kind": "scores", "rows": 4, "ahead": 1}),
        ("attention_tile", "2x2", {"kind": "scores", "rows": 2, "ahead": 2}),
        ("half_products", "never", {"kind": "stored"}),
        ("byte_products", "always", {"kind": "bytes"}),
    ],
)
def test_a_setting_is_chosen_if_its_kernel_is_clearly_faster(
    setting: str, value: str, these: dict[str, object]
) -> None:
    found, _ = results(faster(0.85, **these))
    assert found == {setting: value}
    found, _ = results(faster(0.95, **these))
    assert setting not in found, "less than the noise"
    assert results(faster(1.5, **these))[0] == {}, "slower"


@pytest.mark.parametrize(
    ("vendor", "weights"), [("nvidia", "memory"), ("intel", "global"), ("unknown", "global")]
)
def test_float16_products_have_their_weights_where_kernels_have_them(
    vendor: str, weights: str
) -> None:
    """With weights by shuffle, kernels multiply in float32."""
    table = Table(faster(0.5, kind="stored", weights=weights))
    made = calibrator(table, replace(GPU, vendor=vendor)).run()
    assert made.tuning == {"half_products": "never"}


def test_what_is_refused_has_no_result() -> None:
    for kind in ("half", "stored"):
        table = Table(faster(0.5, kind="stored"), refused=frozenset({kind}))
        assert calibrator(table).run().tuning == {}


def test_the_row_of_attention_is_what_the_target_would_run() -> None:
    """With subgroups of 64 lanes, registers bound what is loaded ahead of four rows."""
    wide = replace(GPU, vendor="amd", subgroup_size=64, least_subgroup=64)
    made = calibrator(Table(faster(0.95, kind="scores", ahead=4)), wide).run()
    assert [*made.figures["attention_tile"]] == ["4x1", "2x1"]
    assert [*calibrator(Table(usual)).run().figures["attention_tile"]] == [
        "4x2",
        "2x2",
        "4x1",
        "4x4",
    ]


def test_threads_are_as_many_as_fill_the_device() -> None:
    for full in THREADS:

        def time(probe: Probe, full: int = full) -> float:
            return probe.steps * 100.0 * max(1.0, probe.threads / full)

        assert results(time)[1] == (full if full != FULL else 0)


def test_threads_of_times_that_make_no_sense_are_not_believed() -> None:
    def time(probe: Probe) -> float:  # few threads are fast by chance
        return usual(probe) * (0.1 if probe.threads == THREADS[0] else 1.0)

    assert results(time)[1] == 0


@pytest.mark.parametrize(
    ("launch", "serial"), [(100.0, "16"), (2800.0, "32"), (6400.0, ""), (9000.0, ""), (1e5, "256")]
)
def test_launches_cost_as_much_as_these_iterations(launch: float, serial: str) -> None:
    def time(probe: Probe) -> float:
        return launch + probe.steps * 100.0 * max(1.0, probe.threads / FULL)

    assert results(time)[0].get("serial", "") == serial


def test_noise_changes_nothing() -> None:
    """Every eighth time is thrice as long, and the others differ by a few percent."""
    noise = (1.0, 1.03, 0.98, 1.01, 0.97, 1.0, 1.04, 3.0)
    made = calibrator(Table(usual, noise=noise)).run()
    assert (made.tuning, made.threads) == ({}, 0)


def test_time_is_bounded() -> None:
    """However slow the driver or the device is: what is begun ends, and nothing else begins."""
    for compiling, slow in ((0.002, 0), (0.02, 0), (0.06, 0), (0.002, 300), (0.002, 1e3), (0.2, 0)):

        def time(probe: Probe, slow: float = slow) -> float:
            return usual(probe) + slow * probe.threads * probe.steps

        made = calibrator(Table(time, compiling)).run()
        most = microbenchmarks.BUDGET_SECONDS + compiling  # of the first kernel nothing is known
        assert made.milliseconds <= 1e3 * most + 1
        assert bool(made.state) == (compiling > 0.002 or slow > 0)
        assert made.tuning == {} and made.threads == 0
    assert "before the measurement of weights" in made.state and not made.figures


def test_measurements_that_are_left_are_made_next() -> None:
    """Each process measures what it has time for, and takes over the results so far; the last one
    finds what one with more time finds at once."""

    def time(probe: Probe) -> float:
        global_, one = probe.weights == "global", probe.ahead == 1
        return usual(probe) * (0.8 if global_ else 1.0) * (0.8 if one else 1.0)

    whole = calibrator(Table(time)).run()
    assert whole.tuning["weights"] == "global" and whole.tuning["ahead"] == "1" and not whole.left
    found, counts = calibrator(Table(time, compiling=0.03)).run(), list[int]()
    while found.left:
        assert f"before the measurement of {found.left[0]}" in found.state
        counts.append(len(found.left))
        table = Table(time, compiling=0.03)
        found = calibrator(table).run(found)
        assert all(name in found.figures for name in ("weights", "launches")[: len(counts)])
    assert len(counts) > 1 and counts == sorted(set(counts), reverse=True)
    assert (found.tuning, found.threads, found.figures, found.state) == (
        whole.tuning, whole.threads, whole.figures, ""
    )  # fmt: skip
    assert found.milliseconds > 2 * 30.0


def test_measurements_without_time_are_given_up() -> None:
    """Where not one of those that are left can be made, no later process loses time for them."""
    first = calibrator(Table(usual, compiling=0.2)).run()
    assert first.left == tuple(microbenchmarks.MEASUREMENTS)
    again = calibrator(Table(usual, compiling=0.2)).run(first)
    assert again.left == () and "before the measurement of weights" in again.state


def test_a_slow_result_is_no_result() -> None:
    """Time is up between the rounds of a measurement, whose setting stays."""
    seconds = 0.012

    def time(probe: Probe) -> float:
        return seconds * 1e9 * (0.1 if probe.weights == "global" else 1.0)

    made = calibrator(Table(time)).run()
    assert made.tuning == {} and "weights" in made.state


def test_kernels_that_are_refused_are_left_out() -> None:
    made = calibrator(Table(usual, refused=frozenset({"scores"}))).run()
    assert made.tuning == {} and made.state == ""
    assert made.figures["attention_tile"] == {}
    made = calibrator(Table(usual, refused=frozenset({"product"}))).run()
    assert made.threads == 0 and not {"weights", "lanes", "ahead", "serial"} & {*made.tuning}


def test_devices_without_a_clock_keep_the_settings() -> None:
    made = calibrator(Table(lambda probe: 0.0)).run()
    assert "weights" not in made.tuning and made.threads == 0 and "serial" not in made.tuning


def test_a_device_that_fails_raises() -> None:
    def time(probe: Probe) -> float:
        raise native.NativeError("lost")

    with pytest.raises(native.NativeError):
        calibrator(Table(time)).run()


def test_shuffles_are_only_timed_where_they_are_right() -> None:
    table = Table(usual)
    calibrator(table, replace(GPU, subgroup_size=0)).run()
    assert table.asked and not [p for p in table.asked if p.weights == "shuffle"]
    assert not [p for p in table.asked if p.kind == "scores"]


# ---- what the results change ---------------------------------------------------------------------


def test_every_setting_reaches_the_kernels() -> None:
    target = replace(GPU, vendor="amd", subgroup_size=32)
    for weights in SETTINGS["weights"]:
        found = choose_tile(replace(target, tuning={"weights": weights}), 64, 1 << 14)
        assert found.weights == weights
    for lanes in SETTINGS["lanes"]:
        found = choose_tile(replace(target, tuning={"lanes": lanes}), 64, 1 << 14)
        assert found.lanes == int(lanes)
    for ahead in SETTINGS["ahead"]:
        assert loads_ahead(replace(target, tuning={"ahead": ahead})) == int(ahead)
    for lanes in ("32", "64", "128"):
        forced = replace(target, tuning={"lanes": lanes, "tile": "4x4"})
        assert choose_tile(forced, 64, 1 << 14).lanes == int(lanes)
    for tile in SETTINGS["attention_tile"]:
        asked = replace(target, tuning={"attention_tile": tile})
        assert attention.starting(asked) == (int(tile[0]), int(tile[2]))


def planned(target: Target, depth: int) -> int:
    """Returns the parts of a convolution over a small map."""
    b = Net()
    x, weights = b.input((1, 3, 3, depth)), b.constant(np.zeros((8, 1, 1, depth), np.float32))
    plan = compiler.compile(b.graph(b.op("conv_2d", x, weights, None, **WINDOW)), target)
    (found,) = (d.groups[2] for d in plan.dispatches if d.label == "conv")
    return found


def test_dear_launches_are_not_made_for_short_sums() -> None:
    target = Target(vendor="amd")
    assert split_depth.FEW_SERIAL == 64
    assert planned(target, 256) > 1  # 64 iterations
    assert planned(replace(target, tuning={"serial": "128"}), 256) == 1
    assert planned(target, 128) == 1
    assert planned(replace(target, tuning={"serial": "32"}), 128) > 1


def test_attention_has_the_rows_and_loads_that_are_asked_for() -> None:
    b = Net()
    shape = (1, 8, 1024, 64)
    y = b.op("attention", *(b.input(shape) for _ in range(3)), scale=0.125)
    found = set()
    for tile in SETTINGS["attention_tile"]:
        target = replace(GPU, tuning={"attention_tile": tile})
        plan = compiler.compile(b.graph(y), target)
        (text,) = (p.wgsl for p in plan.pipelines if p.label.startswith("attention"))
        found.add(text)
        rows, ahead = int(tile[0]), int(tile[2])
        assert (f"var peak{rows - 1} " in text or f"peak{rows - 1} =" in text) and (
            f"peak{rows} " not in text
        )
        assert f"k += {ahead}u" in text or ahead == 1
    assert len(found) == len(SETTINGS["attention_tile"])


def test_registers_bound_also_the_loads_that_are_asked_for() -> None:
    """Four rows of heads of 64, in subgroups of 64 lanes, have registers for one slice of keys."""
    b = Net()
    y = b.op("attention", *(b.input((1, 64, 1024, 64)) for _ in range(3)), scale=0.125)
    wide = replace(GPU, vendor="amd", subgroup_size=64, least_subgroup=64)
    found = set()
    for tile in ("4x1", "4x4"):
        plan = compiler.compile(b.graph(y), replace(wide, tuning={"attention_tile": tile}))
        (text,) = (p.wgsl for p in plan.pipelines if p.label.startswith("attention"))
        assert "peak3" in text
        found.add(text)
    assert len(found) == 1


# ---- on the device -------------------------------------------------------------------------------


@pytest.mark.adapter
@pytest.mark.parametrize("stamped", [True, False])
def test_every_kernel_runs(stamped: bool) -> None:
    """A software adapter stands for a GPU, with kernels as short as they can be."""
    device = adapter.open_device(adapter.select(None))
    clock = microbenchmarks.DeviceClock(device)
    clock.stamped &= stamped
    kinds = ["product", "bytes", "scores" if device.target.shuffles else "product"]
    kinds += ["stored", "half"] if "shader-f16" in device.target.features else []
    probes = [Probe(kind, ahead=2, threads=1, steps=8, rows=2) for kind in kinds]
    more = ["memory", "shuffle" if device.target.shuffles else "global"]
    probes += [
        Probe(kind, weights, ahead=1, threads=1, steps=8)
        for kind in ("product", "bytes") for weights in more
    ]  # fmt: skip
    assert clock.prepare(probes) == {}
    assert all(clock.nanoseconds(probe, 2) >= 0 for probe in probes)
    assert any(clock.nanoseconds(replace(probe, steps=64), 4) > 0 for probe in probes)
    clock.release()
    assert not clock.instances


@pytest.mark.adapter
def test_a_refused_kernel_is_named() -> None:
    device = adapter.open_device(adapter.select(None))
    clock = microbenchmarks.DeviceClock(device)
    broken = Probe(kind="product", weights="memory", lanes=100_000)
    assert set(clock.prepare([broken])) == {broken}
