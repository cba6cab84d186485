"""Real models with values stored as float16, in either host: the answers, those in float32, and
those of a simulation of float16 storage. `python -m conformance.models_table --half` prints it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from conformance import host, onnx_host
from conformance.host import Outputs, Placement
from conformance.models import model_inputs, onnx_models, real_models
from conformance.variants import half_storage, onnx_half
from conformance.variants.half_storage import Distance

ALLOWED = {"is_precision_loss_allowed": 1}
LARGE = ("fns_candy",)  # one feed, because half a minute goes by

Run = Callable[[], object]


class Unmeasured(Exception):
    """A model that cannot be compared; the text says why."""


@dataclass(frozen=True)
class Outcome:
    """Outputs by feed: in float32 on the CPU, simulated, and ours; and where the nodes ran."""

    expected: Sequence[Outputs]
    simulated: Sequence[Outputs]
    got: Sequence[Outputs]
    placement: Placement
    host: str

    @property
    def found(self) -> Distance:
        return half_storage.distance(self.expected, self.got)

    @property
    def measure(self) -> Distance:
        return half_storage.distance(self.expected, self.simulated)


@dataclass(frozen=True)
class Runner:
    """A model that is ready to run through our frontend, on its first feed."""

    run: Run
    report: Any  # ours, of what was prepared


def tflite_entries() -> list[dict[str, Any]]:
    """Returns TFLite models of float32 values, whose constants may be float16."""
    return [e for e in model_inputs.models() if e["kind"] in ("float32", "float16")]


def onnx_entries() -> list[dict[str, Any]]:
    return [e for e in onnx_models.entries() if e["kind"] == "float32"]


def tflite(entry: Mapping[str, Any], options: Mapping[str, Any]) -> Outcome:
    """Runs a TFLite model on all its feeds, compared with the host whose result is the
    reference."""
    content = real_models.before_final(model_inputs.path(entry).read_bytes())
    name, kernels = host.oracle(content)
    feeds = list(model_inputs.feeds(entry).values())
    every = range(len(feeds))
    run = host.run_on_gpu(content, feeds, name, {**options, **ALLOWED}, kernels, every)
    expected = real_models.reference(content, feeds, name, kernels)
    simulated = [half_storage.simulate(content, feed, name) for feed in feeds]
    label = f"{name} {host.version(name)}"
    return Outcome(expected, simulated, run.outputs, run.placement, label)


def onnx(entry: Mapping[str, Any], wanted: str | None = None) -> Outcome:
    """Runs an ONNX model on its feeds, on the adapter that `wanted` names. Raises Unmeasured."""
    model = load(entry)
    try:
        simulation, full = cpu(onnx_half.simulation(model)), cpu(model)
    except Exception as error:  # onnxruntime has no common class for what it raises
        raise Unmeasured(f"the CPU provider does not load its simulation: {error}") from error
    ours = onnx_host.session(model.SerializeToString(), wanted, half=True)
    sides = [
        [arrays(one.run(None, feed)) for feed in feeds(entry)] for one in (full, simulation, ours)
    ]
    expected, simulated, got = sides
    return Outcome(expected, simulated, got, onnx_host.placement(ours), onnx_host.label())


def tflite_runner(entry: Mapping[str, Any], options: Mapping[str, Any], half: bool) -> Runner:
    import tflgpu_plugin

    content = model_inputs.path(entry).read_bytes()
    name, _ = host.oracle(content)
    delegate = host.load_delegate(name, {**options, **(ALLOWED if half else {})})
    made = host.interpreter(content, name, "default", experimental_delegates=[delegate])
    made.allocate_tensors()
    feed = next(iter(model_inputs.feeds(entry).values()))
    return Runner(lambda: host.invoke(made, [feed]), tflgpu_plugin.report(delegate))


def onnx_runner(entry: Mapping[str, Any], wanted: str | None, half: bool) -> Runner:
    import tflgpu_plugin

    made = onnx_host.session(load(entry).SerializeToString(), wanted, half=half)
    feed = feeds(entry)[0]
    return Runner(lambda: made.run(None, feed), tflgpu_plugin.report(made))


def feeds(entry: Mapping[str, Any]) -> list[onnx_models.Feed]:
    """Returns the feeds of an ONNX model, except faint noise, for which the largest outputs are
    small errors themselves."""
    found = [feed for kind, feed in onnx_models.feeds(entry).items() if "noise" not in kind]
    return found[: 1 if real_models.stem(entry) in LARGE else None]


def load(entry: Mapping[str, Any]) -> Any:
    import onnx

    return onnx.load(str(model_inputs.path(entry)))


def cpu(model: Any) -> Any:
    return onnx_host.session(model.SerializeToString(), cpu=True)


def arrays(outputs: Any) -> Outputs:
    """Raises Unmeasured where an output is no tensor."""
    if any(isinstance(value, list) for value in outputs):
        raise Unmeasured("its output is a map of classes to scores")
    return [np.asarray(value) for value in outputs]
