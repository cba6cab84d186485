"""Plans whose numbers are inconsistent count as damaged, whoever wrote them; each defect has its
own message."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.support import stored
from tflgpu_plugin.cache import codec, plan_check, plan_file
from tflgpu_plugin.ir import Buffer, Pipeline, Plan, Weight

MORE = Buffer("pool", 64)  # one that nothing uses
LIMIT = 1 << 32  # of groups


def _read(plan: Plan) -> plan_file.Stored:
    """Returns a plan that is read from bytes which a hostile writer could have stored."""
    data = stored.changed(
        stored.written(stored.plan()), lambda header: header.update(plan=codec.encode(plan))
    )
    return stored.read(data)


def _number(plan: Plan, role: str) -> int:
    return next(k for k, buffer in enumerate(plan.buffers) if buffer.role == role)


def _with(name: str, k: int, **fields: Any) -> Callable[[Plan], Plan]:
    """Returns a change that replaces some fields of one part of a plan; a callable computes a value
    from the plan and the old value."""

    def change(plan: Plan) -> Plan:
        parts = list(getattr(plan, name))
        values = {
            field: value(plan, getattr(parts[k], field)) if callable(value) else value
            for field, value in fields.items()
        }
        parts[k] = replace(parts[k], **values)
        return replace(plan, **{name: tuple(parts)})

    return change


def _buffers(*more: Buffer) -> Callable[[Plan], Plan]:
    return lambda plan: replace(plan, buffers=(*plan.buffers, *more))


def _uniforms(more: int) -> Callable[[Plan], Plan]:
    return lambda plan: replace(plan, uniforms=plan.uniforms + bytes(more))


def _bound(plan: Plan) -> int:
    """Returns the bytes of the buffers that the first launch binds, without the uniform block."""
    uniforms = _number(plan, "uniforms")
    return sum(plan.buffers[k].bytes for k in {*plan.dispatches[0].buffers} - {uniforms})


def _other_kind(plan: Plan, numbers: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the first launch's buffers with the uniform block in the place of a tensor."""
    return _uniforms_at("w", plan, numbers)


def _uniforms_at(kind: str, plan: Plan, numbers: tuple[int, ...]) -> tuple[int, ...]:
    """The uniform block at the first binding of this kind."""
    place = plan.pipelines[plan.dispatches[0].pipeline].kinds.index(kind)
    return (*numbers[:place], _number(plan, "uniforms"), *numbers[place + 1 :])


MISFITS: dict[str, tuple[str, Callable[[Plan], Plan]]] = {
    "a role that there is not": ("a buffer", _buffers(Buffer("other", 64))),
    "fewer bytes than none": ("a buffer", _buffers(Buffer("pool", -1))),
    "more zeros than bytes": ("a buffer", _buffers(Buffer("pool", 64, 80))),
    "a shared buffer of no port": ("a shared buffer", _buffers(Buffer("shared", 64))),
    "a shared buffer of an output only": (
        "a shared buffer",
        lambda plan: _with("buffers", _number(plan, "output"), role="shared")(plan),
    ),
    "two blocks of uniforms": ("the uniform buffer", _buffers(Buffer("uniforms", 256))),
    "no block of uniforms": (
        "the uniform buffer",
        lambda plan: _with("buffers", _number(plan, "uniforms"), role="pool")(plan),
    ),
    "more uniforms than their block": ("the uniforms", _uniforms(1)),
    "a weight in no buffer": ("a buffer for weights", _with("weights", 0, buffer=-1)),
    "a weight after the last buffer": (
        "a buffer for weights",
        _with("weights", 0, buffer=lambda plan, _: len(plan.buffers)),
    ),
    "a weight in another's buffer": (
        "a buffer for weights",
        _with("weights", 0, buffer=lambda plan, _: _number(plan, "uniforms")),
    ),
    "a weight at an odd place": ("a weight", _with("weights", 0, offset=2, bytes=4)),
    "a weight of an odd size": ("a weight", _with("weights", 0, bytes=lambda _, size: size - 2)),
    "a weight before its buffer": ("a weight", _with("weights", 0, offset=-4)),
    "a weight of fewer bytes than none": ("a weight", _with("weights", 0, offset=8, bytes=-4)),
    "a weight beyond its buffer": (
        "a weight",
        _with("weights", 0, offset=lambda plan, _: plan.bytes_of("weights")),
    ),
    "a launch of no pipeline": ("a dispatch", _with("dispatches", 0, pipeline=-1)),
    "a launch after the last pipeline": (
        "a dispatch",
        _with("dispatches", 0, pipeline=lambda plan, _: len(plan.pipelines)),
    ),
    "fewer buffers than bindings": (
        "a dispatch",
        _with("dispatches", 0, buffers=lambda _, numbers: numbers[:-1]),
    ),
    "a binding to no buffer": (
        "a dispatch",
        _with("dispatches", 0, buffers=lambda _, numbers: (-1, *numbers[1:])),
    ),
    "a binding after the last buffer": (
        "a dispatch",
        _with("dispatches", 0, buffers=lambda plan, old: (*old[:-1], len(plan.buffers))),
    ),
    "a tensor in the block of uniforms": ("a binding", _with("dispatches", 0, buffers=_other_kind)),
    "uniforms in a tensor": (
        "a binding",
        _with("dispatches", 0, buffers=lambda plan, old: (_number(plan, "pool"), *old[1:])),
    ),
    "uniforms before the block": ("a dispatch", _with("dispatches", 0, uniform_offset=-256)),
    "uniforms after the block": (
        "a dispatch",
        _with("dispatches", 0, uniform_offset=lambda plan, _: len(plan.uniforms)),
    ),
    "uniforms between two blocks": (
        "a dispatch",
        lambda plan: _with("dispatches", 0, uniform_offset=4)(_roomy(plan)),
    ),
    "no groups": ("a dispatch", _with("dispatches", 0, groups=(1, 0, 1))),
    "more groups than a number holds": ("a dispatch", _with("dispatches", 0, groups=(1, 1, LIMIT))),
    "more groups than there are bytes": (
        "a dispatch",
        _with("dispatches", 0, groups=lambda plan, _: (1, 1, _bound(plan) + 1)),
    ),
    "groups that keep a device busy": ("a dispatch", _with("dispatches", 0, groups=(65535,) * 3)),
    "an input in no buffer": ("a buffer for input", _with("inputs", 0, buffer=-1)),
    "an output in an input": (
        "a buffer for output",
        _with("outputs", 0, buffer=lambda plan, _: _number(plan, "input")),
    ),
    "an input of no type": ("a port", _with("inputs", 0, dtype="f31")),
    "an input of extents below zero": ("a port", _with("inputs", 0, shape=(-2, -8))),
    "an input of fewer bytes than none": (
        "a port",
        _with("inputs", 0, shape=(-2, 8), bytes=-64),
    ),
    "an input of other extents": ("a port", _with("inputs", 0, shape=(2, 9))),
    "an input larger than its buffer": (
        "a port",
        _with("inputs", 0, shape=(2, 800), bytes=6400),
    ),
    "an output of other bytes": ("a port", _with("outputs", 0, bytes=lambda _, size: size - 4)),
}  # fmt: skip


def _roomy(plan: Plan) -> Plan:
    """Returns the plan with an unused block of uniforms."""
    number = _number(plan, "uniforms")
    larger = _with("buffers", number, bytes=lambda _, size: size + 256)(plan)
    return replace(larger, uniforms=plan.uniforms + bytes(256))


@pytest.mark.parametrize("name", MISFITS)
def test_numbers_that_do_not_fit(name: str) -> None:
    what, change = MISFITS[name]
    with pytest.raises(plan_file.Damaged, match=rf"\({what} does not fit\)"):
        _read(change(stored.plan()))


def test_more_launches_than_any_model_has(monkeypatch: pytest.MonkeyPatch) -> None:
    many = replace(stored.plan(), dispatches=stored.plan().dispatches[:1] * 5)
    monkeypatch.setattr(plan_check, "MAX_DISPATCHES", 5)
    assert _read(many).plan == many
    monkeypatch.setattr(plan_check, "MAX_DISPATCHES", 4)
    with pytest.raises(plan_file.Damaged, match="the number of dispatches does not fit"):
        _read(many)


@pytest.mark.parametrize(
    "change",
    [
        lambda plan: plan,
        _buffers(MORE, Buffer("input", 0)),
        # Symbolic constants, which kernels read, are behind the uniform blocks.
        _with("dispatches", 0, buffers=lambda plan, old: _uniforms_at("r", plan, old)),
        _with("inputs", 0, shape=(0, 3), bytes=0),
        _with("outputs", 0, shape=(), bytes=4),
        _roomy,
        _with("dispatches", 0, groups=lambda plan, _: (1, _bound(plan), 1)),
        lambda plan: _with("dispatches", 0, uniform_offset=256)(_roomy(plan)),
        lambda plan: replace(plan, pipelines=(*plan.pipelines, Pipeline("none", "", "ur"))),
    ],
)
def test_numbers_that_fit(change: Callable[[Plan], Plan]) -> None:
    made = change(stored.plan())
    assert _read(made).plan == made


def _array(**entry: Any) -> Callable[[Any], None]:
    return lambda header: header.update(arrays=entry)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (_array(a=["float31", [4]]), "'float31' [(]4,[)] is not an array"),
        (_array(a=["float32", [-1]]), "is not an array"),
        (_array(a=["float32", [-1, -16]]), "is not an array"),
        (_array(a=["float32", [-1, 4]]), "is not an array"),
        (_array(a=["float32", [17]]), "an array is too long"),
        (_array(a=["float32", [16]], b=["uint8", [1]]), "an array is too long"),
        (_array(), "bytes after the last array"),
        (_array(a=["uint8", [0]]), "bytes after the last array"),
        (_array(a=["float32", [1.5]]), "is no int"),
    ],
)
def test_arrays_that_do_not_fit(change: Callable[[Any], None], reason: str) -> None:
    """A file with an additional array of 64 bytes after its weights is refused."""
    data = _with_arrays({"a": np.arange(16, dtype=np.float32)})
    with pytest.raises(plan_file.Damaged, match=reason):
        plan_file.read(memoryview(stored.changed(data, change)))


def test_arrays_come_back() -> None:
    """Each array is at its own offset, whatever the size of the previous one."""
    given = {
        "a": np.arange(5, dtype=np.uint8),
        "none": np.zeros((0, 3), np.float32),
        "b": np.arange(32, dtype=np.float32).reshape(2, 16),
        "c": np.array(7, np.int32),
        "full": np.arange(16, dtype=np.float32),
    }
    stored_plan = stored.read(_with_arrays(given))
    found = stored_plan.arrays
    assert len(stored_plan.plan.weights[0].image())
    assert list(found) == list(given)
    for name, array in given.items():
        assert found[name].dtype == array.dtype and found[name].shape == array.shape
        np.testing.assert_array_equal(found[name], array)


def _with_arrays(arrays: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    plan_file.write(stream, stored.plan(), stored.KEY, {}, arrays=arrays)
    return stream.getvalue()


def test_a_weight_of_another_size_than_its_bytes_is_damage() -> None:
    smaller = _with("weights", 0, bytes=lambda _, size: size - 4)
    with pytest.raises(plan_file.Damaged, match="a weight does not fit"):
        _read(smaller(stored.plan()))


def test_what_is_shown_of_a_stored_plan_has_no_weights() -> None:
    assert "body" not in repr(_read(stored.plan()))


def test_where_weights_lie() -> None:
    """Each weight begins at a multiple of 64 bytes of the body, which is aligned in the file; gaps
    are zero."""
    sizes = {1: 8, 2: 100, 3: 64, 4: 4}  # by what fills them
    weights = tuple(
        Weight(
            (0, fill),
            0,
            128 * k,
            size,
            pack=partial(np.full, size, fill, np.uint8),
            data=np.array(fill),
        )
        for k, (fill, size) in enumerate(sizes.items())
    )
    buffers = Buffer("weights", 512), Buffer("pool", 4096), Buffer("uniforms", 256)
    plan = Plan((), buffers, weights, b"", (), (), (), ())
    data, found = stored.written(plan), stored.read(stored.written(plan))
    wanted = b"".join(bytes([fill]) * size + bytes(-size % 64) for fill, size in sizes.items())
    assert bytes(found.segments[0].body) == wanted and (len(data) - len(wanted)) % 64 == 0
    assert [set(weight.image()) for weight in found.plan.weights] == [{1}, {2}, {3}, {4}]
