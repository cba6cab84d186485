"""Tests the TFLite frontend with real interpreters: what is claimed, printed, reported and
computed. Every comparison is with the host's own reference kernels on the same model and input."""

from __future__ import annotations

import gc
import re
import signal
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from conformance import host as hosts
from conformance.cases import lstm
from conformance.models import tflite as models
from tests.support import small_models
from tests.support.interpreters import delegate, feeds, gpu, places, same
from tflgpu_plugin.providers.tflite import delegate as provider

HOSTS = hosts.installed()
LEFT = "SQUARED_DIFFERENCE"  # to the host, in the example of its guide for delegates
pytestmark = [
    pytest.mark.adapter,
    pytest.mark.parametrize("host", HOSTS),
    pytest.mark.usefixtures("resolver"),
]


# ---- what is claimed and said -------------------------------------------------------------------


def test_the_guides_example(host: str, capfd: pytest.CaptureFixture[str]) -> None:
    """CONV_2D and MEAN run on the GPU. SQUARED_DIFFERENCE, which the guide leaves to the host, is
    excluded, and stderr says so."""
    model = small_models.guide()
    interpreter, made = gpu(model, host, exclude=LEFT)
    lines = capfd.readouterr().err.splitlines()
    start = lines.index("WARNING: op code #99 cannot be handled by this delegate.")
    assert "exclude" in lines[start + 1]
    assert lines[start + 2] == (
        "2 operations will run on the GPU, and the remaining 1 operations will run on the CPU."
    )
    assert places(made) == {"features": "gpu", "mean": "gpu", "distance": "cpu"}
    same(interpreter, model, host)
    report = tflgpu_plugin.report(made)
    assert [partition.runs for partition in report.partitions] == [1]
    assert report == tflgpu_plugin.last_report()


def test_a_whole_model_is_one_partition(host: str, capfd: pytest.CaptureFixture[str]) -> None:
    model = small_models.one_partition()
    interpreter, made = gpu(model, host)
    assert "operations will run" not in capfd.readouterr().err
    ops = [op["op_name"] for op in interpreter._get_ops_details()]
    assert ops == ["CONV_2D", "CONV_2D", "DELEGATE"]
    for seed in range(3):
        same(interpreter, model, host, seed)
    (partition,) = tflgpu_plugin.report(made).partitions
    assert (partition.runs, partition.failures, partition.live) == (3, 0, True)
    assert partition.uploaded_bytes == 3 * 8 * 8 * 3 * 4
    assert partition.downloaded_bytes == 3 * 8 * 8 * 4 * 4


def test_refusals_are_told_to_the_callback(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[Any] = []
    monkeypatch.setattr(tflgpu_plugin, "on_refusal", heard.append)
    gpu(small_models.guide(), host, exclude=LEFT)
    assert [(node.op, node.name, node.where) for node in heard] == [
        ("SQUARED_DIFFERENCE", "distance", "cpu")
    ]


def test_a_callback_that_raises_is_a_warning(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tflgpu_plugin, "on_refusal", lambda node: 1 / 0)
    with pytest.warns(RuntimeWarning, match="on_refusal raised ZeroDivisionError"):
        gpu(small_models.guide(), host, exclude=LEFT)


def test_a_second_prepare_is_quiet(host: str, capfd: pytest.CaptureFixture[str]) -> None:
    made = delegate(host, exclude=LEFT)
    for _ in range(2):
        hosts.interpreter(small_models.guide(), host, experimental_delegates=[made])
    assert capfd.readouterr().err.count("op code #99") == 1


# ---- options ------------------------------------------------------------------------------------


@pytest.mark.parametrize("excluded", ["MEAN", "mean", "1"])
def test_exclude(host: str, excluded: str) -> None:
    model = small_models.guide()
    interpreter, made = gpu(model, host, exclude=excluded)
    assert places(made) == {"features": "gpu", "mean": "cpu", "distance": "gpu"}
    assert tflgpu_plugin.report(made).nodes[1].refusal_code == "option.excluded"
    same(interpreter, model, host)


def test_names_in_exclude_that_are_none(host: str, capfd: pytest.CaptureFixture[str]) -> None:
    """They are neither a node of the graph nor an operator; the warning appears once per
    delegate."""
    made = delegate(host, exclude=["maen", "SOFTMAX", "features", "0"])
    for _ in range(2):
        hosts.interpreter(small_models.guide(), host, experimental_delegates=[made])
    assert capfd.readouterr().err.count("WARNING: tflgpu: the option exclude") == 1
    made = delegate(host, exclude="maen")
    hosts.interpreter(small_models.guide(), host, experimental_delegates=[made])
    assert (
        "WARNING: tflgpu: the option exclude names 'maen', which is neither a node of this graph "
        "nor a known operator."
    ) in capfd.readouterr().err


@pytest.mark.parametrize(("limit", "count"), [(1, 1), (2, 2), (None, 2)])
def test_max_delegated_partitions(host: str, limit: int | None, count: int) -> None:
    model = small_models.two_partitions()
    interpreter, made = gpu(model, host, max_delegated_partitions=limit)
    assert len(tflgpu_plugin.report(made).partitions) == count
    assert places(made)["p"] == "gpu"  # the larger partition stays
    same(interpreter, model, host)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"adaptor": 1}, "There is no option 'adaptor'. Did you mean 'adapter'? The options"),
        ({"force": "perhaps"}, "Option 'force' cannot be 'perhaps'; it takes True or 1"),
        ({"adapter": "no such thing"}, "No adapter matches 'no such thing'. This machine has"),
        ({"device_id": 99}, "No adapter matches '99'. This machine has"),
    ],
)
def test_bad_options_are_a_value_error(host: str, options: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=r"^(There|Option|No adapter)") as caught:
        delegate(host, **options)
    assert sentence in str(caught.value)


@pytest.mark.parametrize("key", ["é" * 5000, "a" + "é" * 5000])
def test_a_long_sentence_is_cut_between_letters(host: str, key: str) -> None:
    with pytest.raises(ValueError, match=r"There is no option 'a?éé"):
        delegate(host, **{key: 1})


def test_the_adapter_by_name(host: str) -> None:
    name = tflgpu_plugin.report(delegate_in_use := gpu(small_models.guide(), host)[1]).adapter.name
    assert delegate_in_use is not None
    assert tflgpu_plugin.report(gpu(small_models.guide(), host, adapter=name[:6])[1]).partitions


# ---- partitions ---------------------------------------------------------------------------------


def test_tensors_between_partitions_stay_on_the_device(host: str) -> None:
    model = small_models.two_partitions()
    interpreter, made = gpu(model, host)
    same(interpreter, model, host)
    first, second = tflgpu_plugin.report(made).partitions
    tensor = 6 * 5 * 4 * 4  # bytes of each of p, q, d and the sum
    assert first.downloaded_bytes == tensor  # q, not p
    assert (second.uploaded_bytes, second.device_inputs) == (tensor, 1)  # d, and p


def test_a_partition_that_the_cpu_and_another_partition_read(host: str) -> None:
    model = small_models.two_partitions(read_by_both=True)
    interpreter, made = gpu(model, host)
    for seed in range(3):
        same(interpreter, model, host, seed)
    assert len(tflgpu_plugin.report(made).partitions) >= 2
    assert sum(partition.device_inputs for partition in tflgpu_plugin.report(made).partitions) == 3


@pytest.mark.parametrize("model", [small_models.shared_output, small_models.two_partitions])
def test_outputs_from_the_middle(host: str, model: Any) -> None:
    interpreter, _ = gpu(model(), host)
    same(interpreter, model(), host)


def test_every_tensor_can_be_read_when_the_host_preserves_them(host: str) -> None:
    if host == "tflite_runtime":
        pytest.skip("tflite-runtime keeps no tensors inside a delegate's partitions")
    model = small_models.two_partitions()
    made = delegate(host)
    ours = hosts.interpreter(
        model, host, experimental_delegates=[made], experimental_preserve_all_tensors=True
    )
    theirs = hosts.interpreter(model, host, experimental_preserve_all_tensors=True)
    for interpreter in (ours, theirs):
        interpreter.allocate_tensors()
        hosts.invoke(interpreter, [feeds(interpreter)])
    for name in ("p", "q", "d", "sum"):
        index = next(t["index"] for t in theirs.get_tensor_details() if t["name"] == name)
        np.testing.assert_allclose(ours.get_tensor(index), theirs.get_tensor(index), atol=1e-5)


# ---- shapes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernels", ["reference", "default"])
@pytest.mark.parametrize(
    "build",
    [
        small_models.one_partition,
        small_models.two_partitions,
        small_models.resized_between_partitions,
        small_models.squeezed,
        lambda: small_models.two_partitions(read_by_both=True),
    ],
)
def test_resize(host: str, build: Any, kernels: str, capfd: pytest.CaptureFixture[str]) -> None:
    """New shapes, including repeated ones, give the CPU's results and stay on the GPU."""
    model = build()
    interpreter, made = gpu(model, host, kernels)
    before = places(made)
    batch = 1 if build is small_models.squeezed else 3
    for shape in [(1, 9, 7, 3), (batch, 7, 9, 3), (1, 9, 7, 3), (1, 6, 5, 3)]:
        index = interpreter.get_input_details()[0]["index"]
        interpreter.resize_tensor_input(index, shape)
        interpreter.allocate_tensors()
        same(interpreter, model, host)
        assert places(made) == before
    assert all(
        partition.runs for partition in tflgpu_plugin.report(made).partitions if partition.live
    )


def _refusal(model: bytes, host: str, shape: tuple[int, ...]) -> str:
    """Returns the error of the host's own kernels for an input of this shape, "" if they run."""
    reference = hosts.interpreter(model, host, "reference")
    reference.resize_tensor_input(0, shape)
    try:
        reference.allocate_tensors()
    except RuntimeError as error:
        return str(error).partition("Node number")[0]
    return ""


def test_a_shape_that_cannot_be_built_runs_on_the_kernels_of_the_host(host: str) -> None:
    """The shape is a mean of no elements."""
    interpreter, made = gpu(small_models.guide(), host)
    interpreter.resize_tensor_input(0, (1, 0, 8, 3))
    interpreter.allocate_tensors()
    if refusal := _refusal(small_models.guide(), host, (1, 0, 8, 3)):
        with pytest.raises(RuntimeError, match=re.escape(refusal)):
            interpreter.invoke()
    else:
        same(interpreter, small_models.guide(), host)
    interpreter.resize_tensor_input(0, (1, 8, 8, 3))
    interpreter.allocate_tensors()
    same(interpreter, small_models.guide(), host)
    newest = tflgpu_plugin.report(made).partitions[-1]
    assert (newest.runs, newest.failures) == (1, 1 if refusal else 0)


@pytest.fixture
def heard() -> Iterator[None]:
    """Makes Ctrl-C effective where the parent process of the tests ignores it (in the
    background)."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heard")
def test_an_interrupted_build_is_no_refusal(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while a new shape is planned reaches the user, and the shape still works."""
    interpreter, made = gpu(small_models.one_partition(), host)
    build, calls = provider.build, list[int]()

    def interrupted(*args: Any) -> None:
        calls.append(1)
        if len(calls) == 1:
            raise KeyboardInterrupt
        time.sleep(0.2)  # the user hears of it only after this
        build(*args)

    monkeypatch.setattr(provider, "build", interrupted)
    with pytest.raises(KeyboardInterrupt):
        interpreter.resize_tensor_input(0, (1, 9, 8, 3))
        interpreter.allocate_tensors()
        time.sleep(5)
    same(interpreter, small_models.one_partition(), host)
    assert tflgpu_plugin.report(made).partitions[-1].failures == 0


@pytest.mark.usefixtures("heard")
@pytest.mark.parametrize("name", ["create", "prepare"])
def test_ctrl_c_is_no_error_of_the_host(
    host: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reaches the user immediately, as in any Python program."""
    work, calls = getattr(provider, name), list[int]()

    def interrupted(*args: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return work(*args)

    delegate(host)  # connects
    monkeypatch.setattr(provider, name, interrupted)
    with pytest.raises(KeyboardInterrupt):
        gpu(small_models.one_partition(), host)
    interpreter, made = gpu(small_models.one_partition(), host)
    same(interpreter, small_models.one_partition(), host)
    assert tflgpu_plugin.report(made).count("gpu") == 2


@pytest.mark.parametrize("left", ["", "RESHAPE"])
def test_nodes_behind_a_shape_that_a_run_gives(host: str, left: str) -> None:
    """They run on the GPU, also if the node that gives them this shape is on the CPU."""
    model = small_models.shape_at_run_time()
    interpreter, made = gpu(model, host, exclude=left)
    found = {"again": "cpu" if left else "gpu", "dynamic": "gpu", "static": "gpu"}
    assert places(made) == found
    feed = feeds(interpreter)
    feed[1] = np.array([1, 9, 4, 3], np.int32)
    reference = hosts.interpreter(model, host)
    reference.allocate_tensors()
    for got, wanted in zip(
        *(hosts.invoke(i, [feed])[0] for i in (interpreter, reference)), strict=True
    ):
        np.testing.assert_allclose(got, wanted, atol=1e-5)


# ---- state, branches ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["basic", "full", "sequence"])
def test_lstm_state_is_kept_and_reset(host: str, kind: str) -> None:
    steps = {"full": 0, "sequence": 3}
    model = (
        small_models.lstm()
        if kind == "basic"
        else models.build(lstm.full("lstm", 6, outputs=5, steps=steps[kind]))
    )
    interpreter, made = gpu(model, host)
    reference = hosts.interpreter(model, host)
    reference.allocate_tensors()
    assert set(places(made).values()) == {"gpu"}
    for reset in (False, True):
        if reset:
            interpreter.reset_all_variables()
            reference.reset_all_variables()
        for seed in range(4):
            values = feeds(interpreter, seed)
            ours, theirs = (hosts.invoke(i, [values])[0][0] for i in (interpreter, reference))
            np.testing.assert_allclose(ours, theirs, atol=2e-6)


def test_branches_are_prepared_one_by_one(host: str) -> None:
    model = small_models.branches()
    interpreter, made = gpu(model, host)
    reference = hosts.interpreter(model, host)
    reference.allocate_tensors()
    values = np.random.default_rng(0).uniform(-1, 1, (1, 5, 5, 3)).astype(np.float32)
    for which in (True, False):
        feed = [np.array(which), values]
        ours, theirs = (hosts.invoke(i, [feed])[0][0] for i in (interpreter, reference))
        np.testing.assert_allclose(ours, theirs, atol=1e-5)
    assert {node.op for node in tflgpu_plugin.report(made).nodes} == {"IF", "CONV_2D"}


# ---- several delegates --------------------------------------------------------------------------


def test_two_of_our_delegates_in_one_interpreter(host: str) -> None:
    """The second delegate sees the first one's nodes as another delegate's, and claims the rest."""
    model = small_models.two_partitions()
    first, second = delegate(host, max_delegated_partitions=1), delegate(host)
    interpreter = hosts.interpreter(model, host, experimental_delegates=[first, second])
    interpreter.allocate_tensors()
    for seed in range(2):
        same(interpreter, model, host, seed)
    assert places(first) == {"p": "gpu", "q": "gpu", "d": "cpu", "sum": "cpu"}
    assert places(second) == {"d": "cpu", "sum": "gpu"}


def test_one_delegate_twice_in_one_interpreter(host: str) -> None:
    """The second time, the first one's nodes are already claimed; the report includes both."""
    model = small_models.two_partitions()
    made = delegate(host)
    interpreter = hosts.interpreter(model, host, experimental_delegates=[made, made])
    interpreter.allocate_tensors()
    same(interpreter, model, host)
    assert places(made) == {"p": "gpu", "q": "gpu", "d": "cpu", "sum": "gpu"}
    assert [partition.runs for partition in tflgpu_plugin.report(made).partitions] == [1, 1]


def test_a_delegate_from_one_host_in_another(host: str) -> None:
    """A delegate of `tflgpu_plugin.load_delegate` works in any interpreter."""
    made = hosts.load_delegate(HOSTS[0])
    interpreter = hosts.interpreter(small_models.guide(), host, experimental_delegates=[made])
    interpreter.allocate_tensors()
    same(interpreter, small_models.guide(), host)
    assert tflgpu_plugin.report(made).runs == 1


# ---- report -------------------------------------------------------------------------------------


def test_what_the_host_takes_back_is_reported(host: str) -> None:
    interpreter, made = gpu(small_models.one_partition(), host)
    assert tflgpu_plugin.report(made).count("reverted") == 0
    del interpreter
    gc.collect()
    report = tflgpu_plugin.report(made)
    assert (report.count("gpu"), report.count("reverted")) == (0, 2)
    assert [partition.live for partition in report.partitions] == [False]
    assert "taken back" in str(report)


def test_report_wants_a_delegate(host: str) -> None:
    with pytest.raises(TypeError, match="takes what load_delegate"):
        tflgpu_plugin.report(object())
