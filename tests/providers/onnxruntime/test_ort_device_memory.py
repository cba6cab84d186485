"""Tests tensors on the GPU in onnxruntime: created directly, bound to inputs and outputs, passed
between sessions and partitions, and read later."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import tflgpu_plugin
from tests.support.onnx_models import EP, Array, cpu, model, node, session, values
from tests.support.subprocesses import run_python
from tflgpu_plugin import native

ort = pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")
pytestmark = pytest.mark.adapter

GPU = ("gpu", 0)
TWO = {"c": np.full(1, 2, np.float32)}


@pytest.fixture(autouse=True)
def registered() -> None:
    tflgpu_plugin.register()


def one_op(op: str, shape: Any = ("n",)) -> bytes:
    """Returns a model of y = op(x, 2)."""
    return model([node(op, ["x", "c"], ["y"])], {"x": shape}, {"y": shape}, TWO)


def on_gpu(data: Array) -> Any:
    return ort.OrtValue.ortvalue_from_numpy(data, *GPU)


def room(shape: Any, kind: Any = np.float32) -> Any:
    return ort.OrtValue.ortvalue_from_shape_and_type(shape, kind, *GPU)


def run(
    session: Any, inputs: Mapping[str, Any], outputs: Mapping[str, Any] | None = None
) -> list[Any]:
    """Runs with these OrtValues bound; outputs that are not given go to new tensors on the GPU."""
    binding = session.io_binding()
    for name, value in inputs.items():
        binding.bind_ortvalue_input(name, value)
    for output in session.get_outputs():
        if given := (outputs or {}).get(output.name):
            binding.bind_ortvalue_output(output.name, given)
        else:
            binding.bind_output(output.name, *GPU)
    session.run_with_iobinding(binding)
    return list(binding.get_outputs())


def state() -> Any:
    """Returns the state of all tensors on the GPU."""
    found = native.ffi.new("tg_tensor_state *")
    native.lib.tg_tensor_get_state(found)
    return found


def moved(*sessions: Any) -> tuple[int, int]:
    """Returns the bytes sent to the GPU and fetched from it, by these sessions and by copies
    between them."""
    found = state()
    parts = [p for one in sessions for p in tflgpu_plugin.report(one).partitions]
    return (
        found.uploaded_bytes + sum(p.uploaded_bytes for p in parts),
        sum(p.downloaded_bytes for p in parts),
    )


# ---- tensors -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["f4", "f2", "i8", "i4", "u1", "?"])
@pytest.mark.parametrize("shape", [(3, 5), (1,), (), (0, 4), (7, 11, 13)])
def test_a_tensor_comes_back(shape: Any, kind: str) -> None:
    data = np.asarray(100 * values(*shape)).astype(kind)
    tensor = on_gpu(data)
    np.testing.assert_array_equal(tensor.numpy(), data)
    tensor.update_inplace(data[::-1].copy() if shape else data)
    np.testing.assert_array_equal(tensor.numpy(), data[::-1] if shape else data)


def test_tensors_are_copied_in_all_directions() -> None:
    from onnxruntime.capi.onnxruntime_inference_collection import copy_tensors

    data = values(1000)
    host = ort.OrtValue.ortvalue_from_numpy(data)
    device, other = room([1000]), room([1000])
    copy_tensors([host], [device])
    copy_tensors([device], [other])
    back = ort.OrtValue.ortvalue_from_shape_and_type([1000], np.float32)
    copy_tensors([other], [back])
    np.testing.assert_array_equal(back.numpy(), data)


def test_a_copy_on_the_device_moves_nothing_and_stays_as_it_is() -> None:
    from onnxruntime.capi.onnxruntime_inference_collection import copy_tensors

    double = session(one_op("Mul"))
    data = values(4096)
    (y,) = run(double, {"x": on_gpu(data)})
    copy, before = room([4096]), moved(double)
    copy_tensors([y], [copy])
    run(double, {"x": y}, {"y": y})  # y is overwritten, the copy is not
    assert moved(double) == before
    np.testing.assert_array_equal(copy.numpy(), 2 * data)
    np.testing.assert_array_equal(y.numpy(), 4 * data)


# ---- runs ----------------------------------------------------------------------------------------


def test_bound_tensors_give_what_an_ordinary_run_gives() -> None:
    ours, data = session(one_op("Mul")), values(300)
    plain = ours.run(None, {"x": data})[0]
    (y,) = run(ours, {"x": on_gpu(data)})
    assert y.device_name() != "cpu" and y.shape() == [300]
    np.testing.assert_array_equal(y.numpy(), plain)
    np.testing.assert_array_equal(plain, 2 * data)


def test_two_sessions_share_a_tensor_without_the_cpu() -> None:
    double, plus = session(one_op("Mul")), session(one_op("Add"))
    data = values(1 << 18)
    x = on_gpu(data)
    for _ in range(2):  # the second run with a tensor from the host keeps it on the device
        run(double, {"x": x})
    before = moved(double, plus)
    for _ in range(3):
        (y,) = run(double, {"x": x})
        (z,) = run(plus, {"x": y})
    assert moved(double, plus) == before
    np.testing.assert_array_equal(z.numpy(), 2 * data + 2)
    assert moved(double, plus) == (before[0], before[1] + data.nbytes)


def test_an_output_is_bound_to_a_tensor_and_to_its_own_input() -> None:
    double, data = session(one_op("Mul")), values(64)
    y = room([64])
    run(double, {"x": on_gpu(data)}, {"y": y})
    np.testing.assert_array_equal(y.numpy(), 2 * data)
    for times in range(2, 6):
        run(double, {"x": y}, {"y": y})
        if times % 2:
            np.testing.assert_array_equal(y.numpy(), 2**times * data)


def test_inputs_on_both_sides() -> None:
    add = session(model([node("Add", ["a", "b"], ["y"])], {"a": ["n"], "b": ["n"]}, {"y": ["n"]}))
    a, b = values(30), values(30)
    given = {"a": on_gpu(a), "b": ort.OrtValue.ortvalue_from_numpy(b)}
    (y,) = add.run_with_ort_values(None, given)
    np.testing.assert_array_equal(y.numpy(), a + b)
    binding = add.io_binding()
    binding.bind_cpu_input("a", a)
    binding.bind_ortvalue_input("b", on_gpu(b))
    binding.bind_output("y")
    add.run_with_iobinding(binding)
    np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], a + b)


def test_a_part_of_a_tensor_is_bound_by_its_address() -> None:
    double, data = session(one_op("Mul")), values(16)
    x, y = on_gpu(data), room([16])
    run(double, {"x": x}, {"y": y})
    for first, count in ((4, 8), (3, 5)):
        binding = double.io_binding()
        place = y.data_ptr() + 4 * first
        binding.bind_input("x", *GPU, np.float32, [count], place)
        binding.bind_output("y", *GPU, np.float32, [count], place)
        double.run_with_iobinding(binding)
        data[first : first + count] *= 2
        np.testing.assert_array_equal(y.numpy(), 2 * data)
        run(double, {"x": on_gpu(data)}, {"y": y})


def test_new_shapes_and_empty_tensors() -> None:
    double = session(one_op("Mul"))
    for count in (5, 0, 9, 0, 5, 1):
        data = values(count)
        (y,) = run(double, {"x": on_gpu(data)})
        np.testing.assert_array_equal(y.numpy(), 2 * data)


def test_ordinary_runs_after_bound_ones_and_back() -> None:
    double, data = session(one_op("Mul")), values(512)
    x = on_gpu(data)
    for _ in range(3):
        for _ in range(2):
            np.testing.assert_array_equal(double.run(None, {"x": data})[0], 2 * data)
        for _ in range(2):
            np.testing.assert_array_equal(run(double, {"x": x})[0].numpy(), 2 * data)


MIXED = [
    node("Mul", ["x", "c"], ["a"]),
    node("Sin", ["a"], ["b"], name="on_the_cpu"),
    node("Add", ["a", "b"], ["y"]),
]


def test_two_partitions_of_a_session_are_joined_on_the_device() -> None:
    data = model(MIXED, {"x": ["n"]}, {"y": ["n"]}, TWO)
    ours, feed = session(data, exclude="on_the_cpu"), values(256)
    assert [len(p.nodes) for p in tflgpu_plugin.report(ours).partitions] == [1, 1]
    wanted = cpu(data).run(None, {"x": feed})[0]
    for _ in range(2):
        np.testing.assert_allclose(ours.run(None, {"x": feed})[0], wanted, rtol=1e-6)
    before = [p.uploaded_bytes for p in tflgpu_plugin.report(ours).partitions]
    ours.run(None, {"x": feed})
    after = [p.uploaded_bytes for p in tflgpu_plugin.report(ours).partitions]
    # The first one gets x from the CPU, the second one b; the tensor between them stays.
    assert [b - a for a, b in zip(before, after, strict=True)] == [feed.nbytes, feed.nbytes]


def test_partitions_run_on_threads_of_the_host() -> None:
    nodes = [
        node("Mul", ["x", "c"], ["a"]),
        node("Sin", ["a"], ["b"], name="on_the_cpu"),
        node("Add", ["b", "c"], ["y"]),
        node("Cos", ["x"], ["d"], name="cpu_as_well"),
        node("Sub", ["d", "c"], ["z"]),
    ]
    data = model(nodes, {"x": ["n"]}, {"y": ["n"], "z": ["n"]}, TWO)
    options = ort.SessionOptions()
    options.log_severity_level, options.execution_mode = 4, ort.ExecutionMode.ORT_PARALLEL
    providers = [(EP, {"exclude": "on_the_cpu,cpu_as_well"}), "CPUExecutionProvider"]
    ours = ort.InferenceSession(data, options, providers=providers)
    for _ in range(5):
        x = values(5000)
        y, z = ours.run(None, {"x": x})
        np.testing.assert_allclose(y, np.sin(2 * x) + 2, atol=1e-6)
        np.testing.assert_allclose(z, np.cos(x) - 2, atol=1e-6)
    assert tflgpu_plugin.report(ours).runs >= 10


def test_bodies_of_control_flow_take_tensors_on_the_gpu() -> None:
    from onnx import TensorProto, helper

    def body(op: str) -> Any:
        made = helper.make_tensor_value_info("z", TensorProto.FLOAT, ["n"])
        return helper.make_graph([node(op, ["a", "c"], ["z"])], op, [], [made])

    nodes = [
        node("Mul", ["x", "c"], ["a"]),
        node("If", ["k"], ["y"], then_branch=body("Mul"), else_branch=body("Add")),
    ]
    data = model(nodes, {"x": ["n"], "k": []}, {"y": ["n"]}, TWO, kinds={"k": np.bool_})
    ours, x = session(data), values(40)
    for k in (True, False, True):
        (y,) = run(ours, {"x": on_gpu(x), "k": on_gpu(np.array(k))})
        np.testing.assert_array_equal(y.numpy(), 4 * x if k else 2 * x + 2)


def test_numbers_that_select_the_plan_are_read_from_the_gpu() -> None:
    nodes = [node("Relu", ["x"], ["r"]), node("Tile", ["r", "times"], ["y"])]
    data = model(nodes, {"x": [4], "times": [1]}, {"y": None}, kinds={"times": np.int64})
    ours, x = session(data), np.abs(values(4))
    for times in (2, 3, 2):
        (y,) = run(ours, {"x": on_gpu(x), "times": on_gpu(np.array([times]))})
        np.testing.assert_array_equal(y.numpy(), np.tile(x, times))


def test_counted_results_go_to_the_gpu() -> None:
    data = model(
        [node("NonZero", ["x"], ["y"])], {"x": ["n", 4]}, {"y": None}, kinds={"y": np.int64}
    )
    ours = session(data)
    for _ in range(2):
        x = (values(3, 4) > 0).astype(np.float32)
        (y,) = run(ours, {"x": on_gpu(x)})
        np.testing.assert_array_equal(y.numpy(), np.array(np.nonzero(x)))


def test_a_run_that_the_gpu_cannot_do_reads_and_writes_tensors_there() -> None:
    data = model([node("Add", ["a", "a"], ["y"])], {"a": [2]}, {"y": [2]},
                 kinds={"a": np.int64, "y": np.int64})  # fmt: skip
    ours, y = session(data), room([2], np.int64)
    for a in (np.array([1, 2]), np.array([2**31, 3]), np.array([4, 5])):
        run(ours, {"a": on_gpu(a)}, {"y": y})
        np.testing.assert_array_equal(y.numpy(), a + a)
    run(ours, {"a": y}, {"y": y})
    large = on_gpu(np.array([2**31, 3]))
    run(ours, {"a": large}, {"y": large})  # the failed run leaves its input alone
    np.testing.assert_array_equal(large.numpy(), [2**32, 6])
    report = tflgpu_plugin.report(ours)
    assert (report.runs, report.host_runs) == (3, 2)


def test_memory_of_another_provider_is_refused() -> None:
    double, data = session(one_op("Mul")), values(8)
    double.disable_fallback()
    binding = double.io_binding()
    binding.bind_input("x", *GPU, np.float32, [8], data.ctypes.data)
    binding.bind_output("y", *GPU)
    with pytest.raises(Exception, match="in GPU memory of another provider"):
        double.run_with_iobinding(binding)


# ---- inputs and outputs of ordinary runs, which are not copied once more ------------------------


def test_many_large_inputs_and_small_ones() -> None:
    count, shape = 70, (1500,)  # more than a run refers to without a copy
    nodes = [node("Add", [f"x{k}", f"x{k + 1}"], [f"y{k}"]) for k in range(count - 1)]
    inputs: dict[str, Any] = {f"x{k}": shape if k % 3 else (1,) for k in range(count)}
    data = model(nodes, inputs, {f"y{k}": None for k in range(count - 1)})
    ours = session(data)
    for _ in range(2):
        feeds = {name: values(*extents) for name, extents in inputs.items()}
        for k, got in enumerate(ours.run(None, feeds)):
            np.testing.assert_array_equal(got, feeds[f"x{k}"] + feeds[f"x{k + 1}"])


def test_the_hosts_kernels_read_large_inputs() -> None:
    data = model([node("Add", ["a", "a"], ["y"])], {"a": ["n"]}, {"y": ["n"]},
                 kinds={"a": np.int64, "y": np.int64})  # fmt: skip
    ours, a = session(data), np.arange(3000)
    for large in (1, 2**40, 1):
        a[7] = large
        np.testing.assert_array_equal(ours.run(None, {"a": a})[0], a + a)
    assert tflgpu_plugin.report(ours).host_runs == 1


def test_an_output_of_the_cpu_on_the_gpu_outlives_the_run() -> None:
    nodes = [*MIXED[:2], node("Neg", ["b"], ["z"], name="cpu_as_well"), MIXED[2]]
    data = model(nodes, {"x": ["n"]}, {"y": ["n"], "z": ["n"]}, TWO)
    ours = session(data, exclude="on_the_cpu,cpu_as_well")
    kept = []
    for _ in range(4):
        feed = values(5000)
        kept.append((feed, run(ours, {"x": ort.OrtValue.ortvalue_from_numpy(feed)})))
    for feed, (y, z) in kept:
        np.testing.assert_allclose(z.numpy(), -np.sin(2 * feed), atol=1e-6)
        np.testing.assert_allclose(y.numpy(), 2 * feed + np.sin(2 * feed), atol=1e-6)


def test_tensors_that_the_next_run_takes_memory_from() -> None:
    double, data = session(one_op("Mul")), values(5000)
    for _ in range(2):
        double.run(None, {"x": data})  # the next outputs are expected on the CPU, too
    first = run(double, {"x": ort.OrtValue.ortvalue_from_numpy(data)})[0]
    second = run(double, {"x": ort.OrtValue.ortvalue_from_numpy(data + 1)})[0]
    third = double.run_with_ort_values(None, {"x": on_gpu(data + 2)})[0]
    for added, got in enumerate((first, second, third)):
        np.testing.assert_array_equal(got.numpy(), 2 * (data + np.float32(added)))


def test_a_body_that_runs_again_and_again() -> None:
    from onnx import TensorProto, helper

    def info(name: str, kind: int, shape: Any) -> Any:
        return helper.make_tensor_value_info(name, kind, shape)

    body = helper.make_graph(
        [node("Mul", ["a", "c"], ["b"]), node("Identity", ["go"], ["on"])], "body",
        [info("k", TensorProto.INT64, []), info("go", TensorProto.BOOL, []),
         info("a", TensorProto.FLOAT, ["n"])],
        [info("on", TensorProto.BOOL, []), info("b", TensorProto.FLOAT, ["n"])],
    )  # fmt: skip
    nodes = [node("Loop", ["times", "", "x"], ["y"], body=body)]
    data = model(nodes, {"x": ["n"], "times": []}, {"y": ["n"]}, TWO, kinds={"times": np.int64})
    ours, x = session(data), values(3000)
    for times in (1, 5, 3):
        feeds = {"x": x, "times": np.array(times)}
        np.testing.assert_array_equal(ours.run(None, feeds)[0], x * 2**times)


def test_threads_run_one_session() -> None:
    double, wrong = session(one_op("Mul")), list[int]()

    def work(seed: int) -> None:
        data = np.random.default_rng(seed).standard_normal(20_000).astype(np.float32)
        for turn in range(40):
            if not np.array_equal(double.run(None, {"x": data + turn})[0], 2 * (data + turn)):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not wrong


def test_an_adapter_with_memory_of_its_own() -> None:
    """Inputs and outputs go through staging buffers on such an adapter."""
    run_python(
        "from tests.providers.onnxruntime import test_ort_device_memory as t\n"
        "import tflgpu_plugin; tflgpu_plugin.register()\n"
        "t.test_many_large_inputs_and_small_ones()\n"
        "t.test_tensors_that_the_next_run_takes_memory_from()\n"
        "t.test_two_sessions_share_a_tensor_without_the_cpu()\n"
        "t.test_threads_run_one_session()\n",
        TFLGPU_NO_MAPPING="1",
    )


def test_a_tensor_without_memory_is_refused() -> None:
    from onnxruntime.capi.onnxruntime_inference_collection import copy_tensors

    far_too_large = room([1 << 44])  # onnxruntime does not look
    with pytest.raises(RuntimeError, match="not enough memory for a tensor of 70368744177664 byt"):
        copy_tensors([far_too_large], [far_too_large])


# ---- memory --------------------------------------------------------------------------------------


def test_freed_tensors_are_reused_and_bounded() -> None:
    """The test runs in a separate process, because freed memory is kept as long as any session
    exists."""
    run_python(
        """
import onnxruntime as ort, tflgpu_plugin
from tests.providers.onnxruntime.test_ort_device_memory import *
tflgpu_plugin.register()
double = session(one_op("Mul"))
for count in range(1000, 60_000, 1000):
    (y,) = run(double, {"x": on_gpu(values(count))})
    y.numpy()
found = state()
assert 0 < found.kept_bytes <= found.most_bytes
options = ort.RunOptions()
options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "gpu:0")
del y
double.run(None, {"x": values(10)}, options)
assert state().kept_bytes <= 4096
del double
assert state().kept_bytes == 0
"""
    )


def test_the_report_names_tensors_on_the_gpu() -> None:
    double = session(one_op("Mul"))
    (y,) = run(double, {"x": on_gpu(values(25_000))})
    found = tflgpu_plugin.report(double).tensors
    assert found.bytes >= 100_000 and found.device_bytes >= 100_000
    assert f"{found.device_bytes:,} in GPU buffers" in str(tflgpu_plugin.report(double))
    assert y.shape() == [25_000]


def test_the_time_of_a_run_has_that_of_reading_its_results() -> None:
    """A first run does not wait for its results, because none knows yet who reads them."""
    product = model([node("MatMul", ["x", "x"], ["y"])], {"x": (256, 256)}, {"y": (256, 256)}, {})
    feeds, plain, bound = values(256, 256), session(product), session(product)
    start = native.lib.tg_run_nanoseconds()

    def check(one: Any, earlier: float = 0.0) -> float:
        """Returns the milliseconds of the last run, which with the earlier ones make all."""
        (partition,) = tflgpu_plugin.report(one).partitions
        everything = (native.lib.tg_run_nanoseconds() - start) / 1e6
        assert partition.milliseconds + earlier == pytest.approx(everything)
        return partition.milliseconds

    plain.run(None, {"x": feeds})
    first = check(plain)
    (y,) = run(bound, {"x": on_gpu(feeds)})
    unread = check(bound, first)
    y.numpy()
    assert check(bound, first) > unread


def test_threads_share_tensors() -> None:
    sessions = [session(one_op("Mul")), session(one_op("Add"))]
    x, wrong = on_gpu(values(2048)), list[str]()
    data = x.numpy()

    def work(first: int) -> None:
        for turn in range(25):
            (y,) = run(sessions[first], {"x": x})
            (z,) = run(sessions[1 - first], {"x": y})
            wanted = 2 * data + 2 if first == 0 else 2 * (data + 2)
            if not np.array_equal(z.numpy(), wanted):
                wrong.append(f"thread {first}, turn {turn}")

    threads = [threading.Thread(target=work, args=(k % 2,)) for k in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not wrong


def test_a_session_names_our_memory() -> None:
    assert EP in session(one_op("Mul")).get_providers()
    (device, *_) = [d for d in ort.get_ep_devices() if d.ep_name == EP]
    info = device.memory_info(ort.OrtDeviceMemoryType.DEFAULT)
    assert info.name == "tflgpu"
