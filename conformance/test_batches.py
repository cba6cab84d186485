"""Runs real models at other batch sizes, up and down again, in one interpreter: every size is
planned once, and gives the reference kernels' result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from conformance import host
from conformance.host import Array
from conformance.models import model_inputs, real_models

BATCHES = (3, 32, 1, 3)
FLOAT = ("resnet8_cifar_float", "vww_96_float", "ad01_fp32", "iris_landmark")
INTEGER = ("resnet8_cifar_int8", "vww_96_int8", "kws_ref_model_int8", "ad01_int8")
MODELS = {real_models.stem(entry): entry for entry in model_inputs.models()}

pytestmark = [
    pytest.mark.adapter,
    pytest.mark.skipif(not MODELS, reason=model_inputs.ABSENT),
]


def _fed(detail: Mapping[str, Any], batch: int) -> Array:
    shape = (batch, *(int(n) for n in detail["shape"][1:]))
    chance = np.random.default_rng([batch, *shape])
    kind = np.dtype(detail["dtype"])
    if kind.kind == "f":
        return chance.uniform(-1, 1, shape).astype(kind)
    limits = np.iinfo(kind)
    return chance.integers(limits.min, limits.max, shape, kind, endpoint=True)


def _run(interpreter: Any, values: Array) -> list[Array]:
    (detail,) = interpreter.get_input_details()
    interpreter.resize_tensor_input(detail["index"], values.shape)
    interpreter.allocate_tensors()
    return host.invoke(interpreter, [[values]])[0]


@pytest.mark.parametrize("name", host.installed()[:1])
@pytest.mark.parametrize("stem", [*FLOAT, *INTEGER])
def test_batches(stem: str, name: str, options: Mapping[str, Any]) -> None:
    content = model_inputs.path(MODELS[stem]).read_bytes()
    reference = host.interpreter(content, name, "reference")
    optimized = host.interpreter(content, name, "optimized")
    delegate = host.load_delegate(name, options)
    ours = host.interpreter(content, name, "optimized", experimental_delegates=[delegate])
    for batch in BATCHES:
        values = _fed(reference.get_input_details()[0], batch)
        wanted, own, got = (_run(i, values) for i in (reference, optimized, ours))
        placement = host.placement(delegate)
        assert placement.on_gpu == placement.total and not placement.failures, placement.sentences
        for expected, theirs, found in zip(wanted, own, got, strict=True):
            assert found.shape == expected.shape
            limit = real_models.allowed(expected, theirs) if stem in FLOAT else 0.0
            wide = np.abs(found.astype(np.float64) - expected.astype(np.float64))
            assert wide.max() <= limit, f"batch {batch}: {wide.max()} off"
