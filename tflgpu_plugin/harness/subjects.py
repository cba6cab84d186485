"""Opens model files as subjects: selects the host and the input values."""

from __future__ import annotations

from pathlib import Path

from tflgpu_plugin.harness import hosts, inputs, onnx, tflite
from tflgpu_plugin.harness.compare import Subject
from tflgpu_plugin.harness.inputs import BadInput, Given

PLAIN = Given()  # seeded values


def is_onnx(path: Path, host: str | None) -> bool:
    """Whether ONNX Runtime reads this file. Raises BadInput where the user has named another host,
    or NoHost where the host cannot be used."""
    if path.suffix.lower() != ".onnx":
        if host == onnx.HOST:
            raise BadInput(
                f"{host} reads files whose names end in .onnx. For a TFLite model leave --host "
                "out, or name a TFLite host."
            )
        return False
    if host not in (None, onnx.HOST):
        known = [*hosts.PACKAGES, hosts.COMPILED]
        if host.replace("_", "-") not in known:
            names = ", ".join([*known, onnx.HOST])
            raise BadInput(f"There is no host {host}. The hosts are: {names}.")
        raise BadInput(f"{host} does not read ONNX files; leave --host out.")
    if reason := onnx.missing():
        raise hosts.NoHost(reason)
    return True


def opened(path: Path, host: str | None = None, given: Given = PLAIN) -> Subject:
    """Returns a model file in this host, or in the preferred one that reads it, with the given
    inputs. Raises BadInput or NoHost with a sentence."""
    return opened_onnx(path, given) if is_onnx(path, host) else opened_tflite(path, host, given)


def opened_onnx(path: Path, given: Given = PLAIN) -> onnx.OnnxModel:
    """Returns an ONNX model with the given inputs. Raises BadInput."""
    model = onnx.read(path)
    details = onnx.details(model, path)
    values = inputs.make(details, given)
    feeds = dict(zip((detail["name"] for detail in details), values, strict=True))
    return onnx.OnnxModel(model, feeds, inputs.chosen(details))


def opened_tflite(path: Path, host: str | None = None, given: Given = PLAIN) -> tflite.TfliteModel:
    """Returns a TFLite model in this host with the given inputs. Raises BadInput or NoHost."""
    runner, content = hosts.host(host), inputs.model(path)
    details = tflite.details(runner, content, path)
    values = inputs.make(details, given)
    return tflite.TfliteModel(runner, content, values, inputs.chosen(details))
