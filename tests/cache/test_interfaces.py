"""The parts of a compiled model must match the node that holds them: each number and name that does
not gets its own message, before anything is built."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cache.test_compiled_models import compiled
from tests.support import onnx_models as m
from tflgpu_plugin.ir import Plan

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.adapter
Arguments = tuple[Any, Any, Any, Any]


@pytest.fixture(scope="module")
def fitting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arguments]:
    """Returns fitting arguments of the check for a partition that counts its results."""
    from tflgpu_plugin.providers.onnxruntime import context

    nodes = [m.node("NonZero", ["x"], ["y"]), m.node("Abs", ["x"], ["z"])]
    data = m.model(nodes, {"x": (4, 6)}, {"y": (2, "n"), "z": (4, 6)}, kinds={"y": np.int64})
    m.session(data)  # registers
    path = compiled(tmp_path_factory.mktemp("made"), "1", data, force="1")
    asked: list[Arguments] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(context, "check_node", lambda *given: asked.append(given))
        m.session(Path(path).read_bytes(), force=1)
    (found,) = asked
    context.check_node(*found)
    yield found


def test_a_count_is_behind_the_outputs(fitting: Arguments) -> None:
    plan = fitting[0].plan
    assert [port.counted is not None for port in plan.outputs] == [
        name == "y" for name in fitting[1].outputs
    ] + [False]
    assert plan.counts == (len(plan.outputs) - 1,)


def port(k: int, **fields: Any) -> Callable[[Plan], Plan]:
    """Returns a change that replaces output `k` of a plan (a negative k counts from the end)."""

    def change(plan: Plan) -> Plan:
        ports = list(plan.outputs)
        ports[k] = replace(ports[k], **fields)
        return replace(plan, outputs=tuple(ports))

    return change


def counted(axis: int) -> Callable[[Plan], Plan]:
    def change(plan: Plan) -> Plan:
        (k,) = (k for k, one in enumerate(plan.outputs) if one.counted)
        return port(k, counted=(axis, *plan.outputs[k].counted[1:]))(plan)  # type: ignore[index]

    return change


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (port(-1, dtype="f32"), "counts are not scalars"),
        (port(-1, dtype="i64"), "counts are not scalars"),
        (port(-1, shape=(1,)), "counts are not scalars"),
        (port(-1, shape=(2,)), "counts are not scalars"),
        (counted(-1), "lacks the axis whose elements are counted"),
        (counted(2), "lacks the axis whose elements are counted"),
        (port(0, dtype="i8"), "is not of type i8"),
        (port(1, dtype="i8"), "is not of type i8"),
    ],
)
def test_numbers_that_do_not_fit(
    fitting: Arguments, change: Callable[[Plan], Plan], sentence: str
) -> None:
    from tflgpu_plugin.providers.onnxruntime import context

    found, *others = fitting
    with pytest.raises(ValueError, match=sentence):
        context.check_node(replace(found, plan=change(found.plan)), *others)


@pytest.mark.parametrize("axis", [0, 1])
def test_any_axis_there_is_may_be_counted(fitting: Arguments, axis: int) -> None:
    from tflgpu_plugin.providers.onnxruntime import context

    found, *others = fitting
    context.check_node(replace(found, plan=counted(axis)(found.plan)), *others)


@pytest.mark.parametrize("more", [{"outputs": ("y",)}, {"ports": ()}, {"inputs": ("x", "x")},
                                  {"shapes": ()}, {"shapes": ((4, 7),)}])  # fmt: skip
def test_names_and_shapes_that_do_not_fit(fitting: Arguments, more: dict[str, Any]) -> None:
    from tflgpu_plugin.providers.onnxruntime import context

    found, interface, *others = fitting
    with pytest.raises(ValueError, match="are not those that it was compiled with"):
        context.check_node(found, replace(interface, **more), *others)


def test_states(fitting: Arguments) -> None:
    from tflgpu_plugin.providers.onnxruntime import context

    found, *others = fitting
    other = replace(found, plan=replace(found.plan, states=found.plan.inputs))
    with pytest.raises(ValueError, match="content is not that of an EPContext node"):
        context.check_node(other, *others)
