"""The command `pytest conformance/`: options, header, selection, and the report at the end.

`pytest conformance/ --adapter NAME --host tflite,onnxruntime --op CONV_2D,add --dtype f32
--report DIR --strict`. docs/conformance.md explains how to read the results."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

# Read by drivers and by our runtime when they load: one thread per worker of a software adapter,
# and pools that start as NaN, so that a kernel which reads what nothing wrote is seen.
os.environ.setdefault("LP_NUM_THREADS", "0")
os.environ.setdefault("TFLGPU_FILL_NAN", "1")
os.environ.setdefault("TFLGPU_DEBUG", "1")  # defects of passes are raised
os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())

import pytest

from conformance.plugin import expect, record, selection, settings
from conformance.plugin.book import Book
from conformance.plugin.session import Session
from tflgpu_plugin.harness import hosts
from tflgpu_plugin.runtime.device import NoAdapter

MARKERS = (
    "adapter: needs a GPU or a software adapter",
    "quick: the part that runs in `make test-all`",
    "onnxruntime: runs in ONNX Runtime",
    "dtype(*names): the types of values that it is about, for --dtype",
    "every_host: runs in every installed TFLite host, or those that --host names",
)
BEFORE = pytest.StashKey[Any]()  # the handler of SIGTERM


def pytest_addoption(parser: pytest.Parser) -> None:
    # pytest has --strict; here it means, too, that a stale entry of expect/ fails the run.
    group = parser.getgroup("conformance")
    group.addoption("--adapter", help="part of an adapter's name, vendor or backend, or its index")
    group.addoption(
        "--host",
        default=None,
        help=f"comma-separated, of {', '.join(selection.HOSTS)}; default: what is installed",
    )
    group.addoption("--op", default="", help="comma-separated host operators, ops or families")
    group.addoption(
        "--dtype",
        default="",
        help="comma-separated, as f32 or float32, bool, f16, bf16, i8, u8; all; default: f32,bool",
    )
    group.addoption(
        "--setting", action="append", default=[], metavar="NAME=VALUE",
        help="an answer of calibration that plans of whole models take, as byte_products=always",
    )  # fmt: skip
    group.addoption("--report", default=None, metavar="DIR", help="write report.json, .md, .html")
    group.addoption(
        "--driver-package", default=os.environ.get("TFLGPU_DRIVER_PACKAGE", ""),
        help="package and version of the driver, for drivers that do not tell",
    )  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
    patch = pytest.MonkeyPatch()
    config.add_cleanup(patch.undo)
    try:
        config.stash[selection.CHOICE] = selection.choose(config)
        config.stash[selection.HEADER] = record.header(
            config.getoption("--adapter"), str(config.getoption("--driver-package"))
        )
        entries = expect.load(expect.slug(config.stash[selection.HEADER]))
        settings.give(patch, config.getoption("--setting"))
    except (NoAdapter, expect.BadExpectation, ValueError) as error:
        raise pytest.UsageError(str(error)) from error
    config.stash[selection.ENTRIES] = entries
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Session(config), "conformance-session")
        _end_with_a_report(config)


def _end_with_a_report(config: pytest.Config) -> None:
    """Makes the signal that ends programs act as Ctrl-C, after which the report of the tests so far
    is written: jobs in the background of a shell ignore Ctrl-C itself."""
    if threading.current_thread() is threading.main_thread():
        config.stash[BEFORE] = signal.signal(signal.SIGTERM, signal.default_int_handler)


def pytest_unconfigure(config: pytest.Config) -> None:
    if BEFORE in config.stash:
        signal.signal(signal.SIGTERM, config.stash[BEFORE] or signal.SIG_DFL)


def pytest_report_header(config: pytest.Config) -> list[str]:
    hosts = ", ".join(config.stash[selection.CHOICE].names)
    return [*config.stash[selection.HEADER].lines(), f"hosts: {hosts}"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests with an argument `host_name` run in each chosen TFLite host, with the marker
    `every_host` in every installed one. Those with `beside`, too, run in every installed one, with
    the kernels of that name for what is left to the CPU: None for the reference's, and "default",
    where the host has a delegate of its own beside ours."""
    if "host_name" in metafunc.fixturenames:
        choice = metafunc.config.stash[selection.CHOICE]
        if "beside" not in metafunc.fixturenames:
            every = metafunc.definition.get_closest_marker("every_host")
            chosen = choice.every if every else choice.tflite
            metafunc.parametrize("host_name", chosen or ["none"], scope="session")
            return
        pairs = [(name, kind) for name in choice.every or ["none"] for kind in (None, "default")]
        ids = ["-".join(filter(None, pair)) for pair in pairs]
        metafunc.parametrize(("host_name", "beside"), pairs, scope="session", ids=ids)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    selection.mark_quick(items)
    left, out = selection.split(items, config.stash[selection.CHOICE])
    if out:
        config.hook.pytest_deselected(items=out)
        items[:] = left


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Iterator[Any]:
    """Skips a test of a model that LiteRT's CompiledModel refuses before it asks an accelerator,
    such as one with variable tensors."""
    try:
        return (yield)
    except hosts.NotTaken as error:
        pytest.skip(" ".join(str(error).split()))


@pytest.fixture(scope="session")
def options(pytestconfig: pytest.Config) -> Mapping[str, Any]:
    """Returns delegate options that select the adapter."""
    wanted = pytestconfig.getoption("--adapter")
    return {"adapter": wanted} if wanted else {}


@pytest.fixture
def book(request: pytest.FixtureRequest) -> Book:
    """Returns the book in which the test records its outcome."""
    config = request.config
    return Book(
        config.stash[selection.ENTRIES],
        report_folder(config),
        {name: config.getoption(name) or "" for name in ("--adapter", "--dtype", "--host")},
        request.node.user_properties,
        request.node.nodeid,
    )


def report_folder(config: pytest.Config) -> Path:
    """Returns the folder given by --report, or a temporary one, for models of failures."""
    given = config.getoption("--report")
    return Path(given) if given else Path(tempfile.gettempdir()) / "tflgpu-conformance"
