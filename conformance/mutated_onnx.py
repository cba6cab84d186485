"""Damaged ONNX models: `python -m conformance.mutated_onnx FIRST END` makes random graphs of the
seeds [FIRST, END), damages one place in each, and runs them on the CPU provider and on ours.

Before each run it prints "SEED cpu" or "SEED gpu", so that its caller knows which run crashed. Exit
status 1 when one of them refuses what the other one runs, or when their results differ. Results in
which the CPU provider leaves elements unwritten, such as those of a Concat with an empty input of
another shape (seed 268), differ from run to run and are not compared."""

from __future__ import annotations

import random
import sys
from typing import Any

import numpy as np

from conformance.host import Array
from conformance.random import onnx_graphs
from tflgpu_plugin import report
from tflgpu_plugin.harness import onnx as runner

INTEGERS = (-(2**31), -7, -2, -1, 0, 1, 2, 3, 4, 9, 64, 2**31 - 1)
FLOATS = (0.0, -1.0, 0.5, 3.0, 1e30, float("nan"))
LIMITS = ("ot supported", "NOT_IMPLEMENTED", "not implemented")  # of the CPU provider, not errors
AGREES = 1e-3  # of the largest value


def _other_attribute(graph: Any, chance: random.Random) -> None:
    found = [attribute for node in graph.node for attribute in node.attribute]
    if not found:
        return
    one = chance.choice(found)
    if one.ints:
        one.ints[chance.randrange(len(one.ints))] = chance.choice(INTEGERS)
    elif one.HasField("i"):
        one.i = chance.choice(INTEGERS)
    elif one.HasField("f"):
        one.f = chance.choice(FLOATS)


def _fewer_attributes(graph: Any, chance: random.Random) -> None:
    found = [node for node in graph.node if node.attribute]
    if found:
        node = chance.choice(found)
        del node.attribute[chance.randrange(len(node.attribute))]


def _other_number(graph: Any, chance: random.Random) -> None:
    import onnx

    found = [one for one in graph.initializer if one.data_type == onnx.TensorProto.INT64]
    if found:
        one = chance.choice(found)
        values = onnx.numpy_helper.to_array(one).copy()
        if values.size:
            values.reshape(-1)[chance.randrange(values.size)] = chance.choice(INTEGERS)
        one.CopyFrom(onnx.numpy_helper.from_array(values, one.name))


def _other_shape(graph: Any, chance: random.Random) -> None:
    import onnx

    if graph.initializer:
        one = chance.choice(graph.initializer)
        values = onnx.numpy_helper.to_array(one)
        shapes = [(values.size,), (1, *values.shape), (*values.shape, 1), values.shape[::-1]]
        made = values.reshape(chance.choice(shapes))
        one.CopyFrom(onnx.numpy_helper.from_array(np.ascontiguousarray(made), one.name))


def _fewer_values(graph: Any, chance: random.Random) -> None:
    import onnx

    found = [one for one in graph.initializer if one.dims and one.dims[0] > 1]
    if found:
        one = chance.choice(found)
        values = onnx.numpy_helper.to_array(one)[:-1]
        one.CopyFrom(onnx.numpy_helper.from_array(np.ascontiguousarray(values), one.name))


def _other_input(graph: Any, chance: random.Random) -> None:
    node = chance.choice(graph.node)
    names = [value.name for value in (*graph.input, *graph.initializer)]
    if node.input:
        place = chance.randrange(len(node.input))
        node.input[place] = chance.choice([*names, *node.input, ""])


def _fewer_inputs(graph: Any, chance: random.Random) -> None:
    node = chance.choice(graph.node)
    if node.input:
        del node.input[-1]


def _other_operator(graph: Any, chance: random.Random) -> None:
    one, two = chance.choice(graph.node), chance.choice(graph.node)
    one.op_type, one.domain = two.op_type, two.domain


CHANGES = (_other_attribute, _other_attribute, _fewer_attributes, _other_number, _other_number,
           _other_shape, _fewer_values, _other_input, _fewer_inputs, _other_operator)  # fmt: skip


def model(seed: int) -> tuple[str, bytes, list[Array]]:
    """Returns the damage, the model and the feed of its inputs."""
    import onnx

    chance, made = random.Random(seed), onnx_graphs.build(seed)
    damaged = onnx.load_from_string(made.content)
    change = chance.choice(CHANGES)
    change(damaged.graph, chance)
    return change.__name__, damaged.SerializeToString(), made.feeds[0]


def outcome(data: bytes, feed: list[Array], gpu: bool) -> tuple[str, list[Any], int]:
    """Returns the error, "" if it runs, the results, and the number of nodes on the GPU."""
    settings = runner.settings(optimized=False, threads=1, logs=runner.FATAL)
    on_gpu = 0
    try:
        made = runner.opened(data, settings, {"force": "1"} if gpu else None)
        on_gpu = report(made).count("gpu") if gpu else 0
        names = [value.name for value in made.get_inputs()]
        return "", made.run(None, dict(zip(names, feed, strict=True))), on_gpu
    except Exception as error:  # onnxruntime's exceptions have no common class
        return " ".join(str(error).split()) or type(error).__name__, [], on_gpu


def written(ours: list[Any], theirs: list[Any], again: list[Any]) -> tuple[list[Any], list[Any]]:
    """Returns the results that are the same in both runs of the CPU provider, ours and its own."""
    same = [
        k for k, two in enumerate(theirs)
        if np.asarray(two).tobytes() == np.asarray(again[k]).tobytes()
    ]  # fmt: skip
    return [ours[k] for k in same], [theirs[k] for k in same]


def differs(ours: list[Any], theirs: list[Any]) -> str:
    """Returns how results differ, "" where they agree."""
    for place, (one, two) in enumerate(
        zip(map(np.asarray, ours), map(np.asarray, theirs), strict=True)
    ):
        if one.shape != two.shape or one.dtype != two.dtype:
            return f"result {place} is {one.dtype}{one.shape}, not {two.dtype}{two.shape}"
        if one.dtype.kind not in "fiub":
            continue
        wide, wanted = one.astype(np.float64), two.astype(np.float64)
        with np.errstate(invalid="ignore"):
            apart = np.where(
                (wide == wanted) | (np.isnan(wide) & np.isnan(wanted)), 0, abs(wide - wanted)
            )
            largest = max(
                1e-3, float(np.nanmax(np.where(np.isfinite(wanted), abs(wanted), 0), initial=0))
            )
        if not (worst := float(np.max(apart, initial=0.0))) <= AGREES * largest:
            return f"result {place} differs by {worst} of {largest}"
    return ""


def main() -> None:
    first, end = map(int, sys.argv[1:3])
    for seed in range(first, end):
        title, data, feed = model(seed)
        print(seed, "cpu", title, flush=True)
        alone, wanted, _ = outcome(data, feed, gpu=False)
        print(seed, "gpu", title, alone[:200], flush=True)
        ours, found, on_gpu = outcome(data, feed, gpu=True)
        limited = any(text in alone for text in LIMITS)
        if bool(alone) != bool(ours) and not limited and (on_gpu or ours):
            sys.exit(f"{seed} gpu {title}: alone {alone!r}, with us {ours!r}")
        _, again, _ = outcome(data, feed, gpu=False)
        if on_gpu and not limited and (text := differs(*written(found, wanted, again))):
            sys.exit(f"{seed} gpu {title}: {text}")


if __name__ == "__main__":
    main()
