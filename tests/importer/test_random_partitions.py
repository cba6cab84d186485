"""Runs seeded chains of operators that take any size, alternating between GPU and CPU nodes:
several interpreters share one delegate and are resized back and forth. Each answer is compared with
the host's reference kernels."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from conformance import host as hosts
from conformance.models.tflite import Model
from tests.support.small_models import FEATURES, binary, conv

pytestmark = pytest.mark.adapter

CPU_OPS = ("NEG", "ABS", "SQUARE", "SIN")  # left to the host
EXCLUDED = ("", "", "ADD", "CONV_2D", "RELU,MUL", "0,2")


def build(seed: int) -> bytes:
    """Returns a model of up to 12 operators over [1, 6, 5, 4] images. Outputs may also be read by
    nodes, be inputs, or occur twice."""
    choose, model, shape = random.Random(seed), Model(), (1, 6, 5, FEATURES)
    images = [model.input("x", shape, signature=(-1, -1, -1, FEATURES))]
    for number in range(choose.choice((3, 6, 9, 12))):
        x, y = choose.choice(images[-4:]), choose.choice(images)
        kind = choose.choice(("conv", "conv", "unary", "cpu", "binary", "binary", "joined"))
        if kind == "conv":
            images.append(conv(model, x, shape, f"conv{number}", seed=number))
        elif kind == "binary":
            op = choose.choice(("ADD", "SUB", "MUL"))
            images.append(binary(model, op, x, choose.choice((x, y)), shape))
        elif kind == "joined":
            wide = (*shape[:-1], 2 * FEATURES)
            axis = {"axis": 3}
            both = model.op("CONCATENATION", [x, y], "ConcatenationOptions", axis, shape=wide)
            images.append(conv(model, both, wide, f"joined{number}", seed=number))
        else:
            op = choose.choice(CPU_OPS if kind == "cpu" else ("RELU", "TANH", "LOGISTIC"))
            images.append(model.op(op, [x], shape=shape))
    read = {t for operator in model.operators for t in operator.inputs}
    made = images[1:]
    model.output(*(t for t in made if t not in read or choose.random() < 0.2))
    model.output(*(choose.choice(images) for _ in range(choose.choice((0, 0, 1)))))
    return model.to_bytes()


def resize(interpreter: Any, shape: tuple[int, ...]) -> None:
    interpreter.resize_tensor_input(interpreter.get_input_details()[0]["index"], shape)
    interpreter.allocate_tensors()


@pytest.mark.parametrize("seed", range(24))
def test_random_partitions(seed: int) -> None:
    choose, model = random.Random(seed), build(seed)
    host = hosts.installed()[seed % len(hosts.installed())]
    excluded = filter(None, (*CPU_OPS, choose.choice(EXCLUDED)))
    options = {"force": seed % 3 > 0, "exclude": ",".join(excluded)}
    made = hosts.load_delegate(host, options)
    kernels = choose.choice(("reference", "default"))
    ours = [
        hosts.interpreter(model, host, kernels, experimental_delegates=[made]) for _ in range(2)
    ]
    reference = hosts.interpreter(model, host)
    sizes: dict[Any, tuple[int, ...]] = {}
    for step in range(8):
        interpreter = choose.choice(ours)
        if interpreter not in sizes or choose.random() < 0.6:
            extents = (choose.randint(1, 3), choose.randint(3, 9), choose.randint(3, 9))
            sizes[interpreter] = (*extents, FEATURES)
            resize(interpreter, sizes[interpreter])
        resize(reference, sizes[interpreter])
        x = np.random.default_rng(step).uniform(-1, 1, sizes[interpreter]).astype(np.float32)
        expected, got = (hosts.invoke(one, [[x]])[0] for one in (reference, interpreter))
        for wanted, given in zip(expected, got, strict=True):
            limit = 1e-4 * max(1.0, float(np.abs(wanted).max()))
            np.testing.assert_allclose(given, wanted, rtol=0, atol=limit)
