"""Models of one operator of ai.onnx.ml, and random decision trees as its attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tests.support.onnx_models import Array, Shape, cpu, session

KINDS = {"f32": np.float32, "i32": np.int32, "i64": np.int64}
MODES = tuple(f"BRANCH_{name}" for name in ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ"))
TARGETS = ("treeids", "nodeids", "ids", "weights")


def model(
    op: str,
    inputs: Sequence[Shape],
    outputs: str = "y",
    dtype: str = "f32",
    version: int = 3,
    makes: Mapping[str, str] | None = None,
    states: Mapping[str, Shape] | None = None,
    **attributes: Any,
) -> bytes:
    """Returns a model of `op` whose inputs x0, x1, ... have one dtype; `makes` names the dtypes of
    outputs that are not float32, `states` the shapes of those that the model states."""
    from onnx import helper

    def info(name: str, kind: str, shape: Shape | None) -> Any:
        element = helper.np_dtype_to_tensor_dtype(np.dtype(KINDS[kind]))
        return helper.make_tensor_value_info(name, element, shape)

    given = [f"x{k}" for k in range(len(inputs))]
    kinds = dict.fromkeys(outputs, "f32") | dict(makes or {})
    node = helper.make_node(op, given, [*outputs], domain="ai.onnx.ml", **attributes)
    graph = helper.make_graph(
        [node],
        "test",
        [info(name, dtype, shape) for name, shape in zip(given, inputs, strict=True)],
        [info(name, kinds[name], (states or {}).get(name)) for name in outputs],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", version)]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    return bytes(made.SerializeToString())


def assert_same(data: bytes, *runs: Array | Sequence[Array], tolerance: float = 2e-5) -> None:
    """The node runs on the GPU, and its results are those of the CPU provider in each run of one
    input, or a list of inputs; results that are not finite and integers are equal."""
    import tflgpu_plugin

    ours, theirs = session(data), cpu(data)
    assert [node.where for node in tflgpu_plugin.report(ours).nodes] == ["gpu"]
    for given in runs:
        inputs = [given] if isinstance(given, np.ndarray) else given
        feeds = {f"x{k}": x for k, x in enumerate(inputs)}
        _compare(ours.run(None, feeds), theirs.run(None, feeds), tolerance)


def _compare(made: Sequence[Array], expected: Sequence[Array], tolerance: float) -> None:
    for got, wanted in zip(made, expected, strict=True):
        assert got.shape == wanted.shape and got.dtype == wanted.dtype
        if wanted.dtype.kind != "f":
            assert (got == wanted).all()
            continue
        finite = wanted[np.isfinite(wanted)]
        allowed = tolerance * max(float(np.abs(finite).max(initial=0)), 1e-30)
        np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=allowed)


def reason(data: bytes) -> str:
    """Returns why the only node stays on the CPU."""
    import tflgpu_plugin

    (node,) = tflgpu_plugin.report(session(data)).nodes
    assert node.where == "cpu"
    return str(node.reason)


class Trees:
    """Grows random trees as attributes of version 3, each tree's root first. Leaves say something
    about the classes `about(tree)`."""

    def __init__(self, seed: int, features: int, modes: Sequence[str] = MODES):
        self.random, self.features, self.modes = np.random.default_rng(seed), features, modes
        names = ("treeids", "nodeids", "modes", "featureids", "values", "truenodeids",
                 "falsenodeids", "missing_value_tracks_true")  # fmt: skip
        self.nodes: dict[str, list[Any]] = {name: [] for name in names}
        self.said: dict[str, list[Any]] = {name: [] for name in TARGETS}

    def grow(self, tree: int, depth: int, about: Sequence[int], start: int | None = None) -> int:
        """Adds a tree and returns the number of its root."""
        first = len(self.nodes["treeids"]) if start is None else start
        at = len(self.nodes["treeids"])
        for name, column in self.nodes.items():
            column.append("LEAF" if name == "modes" else 0.0 if name == "values" else 0)
        self.nodes["treeids"][at], self.nodes["nodeids"][at] = tree, at - first
        if depth == 0 or self.random.random() < 0.15:
            for target in about:
                said = (tree, at - first, target, float(np.float32(self.random.normal())))
                for name, value in zip(TARGETS, said, strict=True):
                    self.said[name].append(value)
            return at - first
        self.nodes["modes"][at] = str(self.random.choice(self.modes))
        self.nodes["featureids"][at] = int(self.random.integers(self.features))
        self.nodes["values"][at] = float(self.random.integers(-2, 3))
        self.nodes["missing_value_tracks_true"][at] = int(self.random.integers(2))
        for name in ("truenodeids", "falsenodeids"):
            self.nodes[name][at] = self.grow(tree, depth - 1, about, first)
        return at - first

    def attributes(self, what: str) -> dict[str, Any]:
        """Returns the attributes of an operator whose leaves name `what` they are for."""
        said = {f"{what}_{name}": column for name, column in self.said.items()}
        return {f"nodes_{name}": column for name, column in self.nodes.items()} | said


def unknown_rows(seed: int, rows: int, features: int, dtype: str = "f32") -> Array:
    """Returns small integers, with NaN and infinity among floats."""
    x = np.random.default_rng(seed).integers(-3, 4, (rows, features)).astype(KINDS[dtype])
    if dtype == "f32":
        x.flat[::7], x.flat[3::11], x.flat[5::13] = np.nan, np.inf, -np.inf
    return x
