"""The layer that makes a driver inexact does what its words say, within the bounds of WGSL."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from conformance.plugin import settings
from tflgpu_plugin import engine
from tflgpu_plugin.options import Options
from tflgpu_plugin.runtime import adapter

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tools"))

import drivers  # noqa: E402
import worst  # noqa: E402

pytestmark = pytest.mark.adapter

NUMBERS = np.array([3, 7, 1e-20, 1e30, 1 + 2**-12, -(1 + 2**-11), np.nan, 0.75, 1e-30], np.float32)
STATEMENTS = (
    "x[0] / x[1]",
    "exp(x[0])",
    "inverseSqrt(x[1])",
    "sqrt(x[1])",
    "log(x[7])",
    "sin(x[0])",
    "x[4] * x[4] + x[5]",
    "fma(x[4], x[4], x[5])",
    "x[2] * x[2]",
    "x[3] * x[3]",
    "x[2] * x[2] * x[3]",
    "select(x[0], x[6], x[6] < x[0])",
    "f32(i32(-x[1]) % i32(x[0]))",
    "select(0.0, 1.0, x[6] == x[6])",
    "select(0.0, 1.0, x[0] == x[0])",
)
WORDS = (
    *("up", "down", "seed=1", "seed=2", "seed=3", "split", "fused", "flush", "finite"),
    *("regroup,flush", "smaller", "signs", "unordered"),
)
# The layer reads its words whenever a shader is made.
PRINTED = """
import json, os, sys
import numpy as np
from tests.support.harness import run_wgsl
numbers, statements, words = map(json.loads, sys.argv[1:])
for each in words:
    os.environ["WORST_DRIVER"] = each
    main = f"/* {each} */" + " ".join(f"y[{k}] = {s};" for k, s in enumerate(statements))
    print(json.dumps(run_wgsl(main, np.array(numbers, np.float32), len(statements)).tolist()))
"""


def environment(words: str, bits: int = 256) -> dict[str, str]:
    try:
        return worst.environment(worst.Mode(words, bits))
    except drivers.Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def computed() -> dict[str, dict[str, float]]:
    """Returns the result of each statement on the driver that each of these words describes."""
    given = [json.dumps(each) for each in (NUMBERS.tolist(), STATEMENTS, WORDS)]
    done = subprocess.run(
        [sys.executable, "-c", PRINTED, *given], cwd=ROOT, env=environment(""),
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return {
        words: dict(zip(STATEMENTS, r, strict=True)) for words, r in zip(WORDS, rows, strict=True)
    }


# For each function its true value, and the permitted error in units of the last place.
BOUNDS: dict[str, tuple[float, float]] = {
    "x[0] / x[1]": (3 / 7, 2.5),
    "exp(x[0])": (float(np.exp(3.0)), 9),
    "inverseSqrt(x[1])": (7**-0.5, 2),
    "sqrt(x[1])": (7**0.5, 4.5),
    "log(x[7])": (float(np.log(0.75)), 2**-21 / float(np.spacing(np.float32(0.25)))),
    "sin(x[0])": (float(np.sin(3.0)), 2**-11 / float(np.spacing(np.float32(np.sin(3.0))))),
}


def units(found: dict[str, float], name: str) -> float:
    true, _ = BOUNDS[name]
    return (found[name] - true) / float(np.spacing(np.float32(abs(true))))


def test_results_are_off_by_what_is_permitted(computed: dict[str, dict[str, float]]) -> None:
    for name, (_, most) in BOUNDS.items():
        up, down, *seeded = [units(computed[w], name) for w in WORDS[:5]]
        assert up != down, name
        assert max(abs(up), abs(down)) > 0.4 * most, name
        assert len(set(seeded)) > 1, name
        assert max(map(abs, (up, down, *seeded))) <= most + 0.6, name  # the driver's own rounding


def test_what_else_a_driver_may_do(computed: dict[str, dict[str, float]]) -> None:
    sums, tiny = ("x[4] * x[4] + x[5]", "fma(x[4], x[4], x[5])"), "x[2] * x[2]"
    plain = computed["split"]
    assert [computed["fused"][name] for name in sums] == [2**-24] * 2
    assert [plain[name] for name in sums] == [0.0] * 2
    assert 0 < plain[tiny] < 2**-126
    assert computed["flush"][tiny] == computed["flush"]["x[2] * x[2] * x[3]"] == 0.0
    assert computed["regroup,flush"]["x[2] * x[2] * x[3]"] > 0.0  # x[2] * (x[2] * x[3])
    assert np.isinf(plain["x[3] * x[3]"])
    assert np.isfinite(computed["finite"]["x[3] * x[3]"])
    choice = "select(x[0], x[6], x[6] < x[0])"
    assert computed["smaller"][choice] == 3.0
    remainder = "f32(i32(-x[1]) % i32(x[0]))"
    assert plain[remainder] == -1.0 != computed["signs"][remainder]
    nan, number = (f"select(0.0, 1.0, x[{k}] == x[{k}])" for k in (6, 0))
    assert (plain[nan], computed["unordered"][nan]) == (0.0, 1.0)
    assert plain[number] == computed["unordered"][number] == 1.0


KERNELS = ("inexact", "nan", "fixed_point", "function_accuracy")


@pytest.mark.parametrize(
    "words", ["down,regroup,smaller", "up,fused,flush", "seed=4,signs,unordered"]
)
def test_kernels_get_by_without_exact_operations(words: str) -> None:
    passes(words, *(f"tests/ops/test_{name}.py" for name in KERNELS))


def test_long_sums_stay_within_the_tolerance() -> None:
    """The case is a 3x3 convolution of 64 channels by Winograd's kernel, with float16 constants,
    and products fused with sums: with partial sums of 16 channels the error is 1.08 times the
    tolerance."""
    passes("up,fused", "--dtype", "all", "conformance/test_float16.py", "-k", "many and sums")


def passes(words: str, *tests: str) -> None:
    """Asserts that these tests, at least one, pass on a driver that is inexact in this way."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(command, cwd=ROOT, env=environment(words), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:]


def test_a_mode_runs_what_it_is_about() -> None:
    names = ["test_models.py::a[vww_96_int8]", "test_models.py::a[vww_96_float]", "b[arg-u8]"]
    assert worst.chosen(worst.MODES["bytes"], names, 0, 0) == [names[0], names[2]]
    assert worst.chosen(worst.MODES["unordered"], [*names, "c[arg]"], 0, 0) == names
    assert worst.chosen(worst.MODES["low"], names, 0, 0) == names


@pytest.mark.parametrize("setting", ["byte_products=sometimes", "byte_products", "colour=always"])
def test_a_setting_is_a_result_of_calibration(setting: str) -> None:
    command = [sys.executable, "-m", "pytest", "--collect-only", f"--setting={setting}"]
    done = subprocess.run(
        [*command, "conformance/test_networks.py"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert f"{setting} is no setting of calibration" in done.stderr


@pytest.mark.parametrize(("given", "forced"), [((), None), (("byte_products=always",), "always")])
def test_a_setting_is_that_of_all_plans(given: tuple[str, ...], forced: str | None) -> None:
    device = adapter.open_device(adapter.select(None))
    with pytest.MonkeyPatch.context() as patch:
        settings.give(patch, given)
        assert engine.target_of(device, Options()).tuning.get("byte_products") == forced


def test_hosts_that_are_asked_for_run() -> None:
    """The identifiers of tests contain the name of the host."""
    file = "conformance/test_levels.py"
    for words in (["--host", "ai_edge_litert", file], [file, "--host=ai_edge_litert", "-k", "x"]):
        assert worst.kept(words) == ["--host", "ai_edge_litert"]
    assert worst.kept(["-m", "quick", file]) == []


def test_the_variables_name_the_layer_and_the_driver() -> None:
    found = environment("up,fused", 128)
    assert found["WORST_DRIVER"] == "up,fused"
    assert found["LP_NATIVE_VECTOR_WIDTH"] == "128"
    assert os.path.exists(os.path.join(found["VK_LAYER_PATH"], "layer.json"))
