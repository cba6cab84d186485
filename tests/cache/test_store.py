"""Tests files of plans: what is added to them, by whom, and what is not. No device is needed."""

from __future__ import annotations

import os
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support import stored
from tflgpu_plugin.cache import folders, plan_file, store
from tflgpu_plugin.ir import Plan

KEY = {**stored.KEY, "options": "none"}


def entry(folder: Path, **key: str) -> store.Entry:
    content = key.pop("content", "weights")
    return store.Entry(folder / "some.tflgpu", KEY | key, lambda: content, 1 << 20)


def other(number: int) -> Plan:
    """A plan with a constant that no other plan has."""
    one, two = stored.plan().weights
    mine = replace(two, data=np.array([number]), pack=lambda: np.full(two.bytes, number, np.uint8))
    return replace(stored.plan(), weights=(one, mine))


def extra(number: int, source: str = "nodes") -> dict[str, Any]:
    return {store.SOURCE: source, store.SHAPES: [1, number]}


def held(folder: Path) -> plan_file.Contents:
    return plan_file.contents(memoryview((folder / "some.tflgpu").read_bytes()))


def test_plans_are_added_once(tmp_path: Path) -> None:
    entry(tmp_path).store(stored.plan(), {})
    for _ in range(2):
        entry(tmp_path).store(stored.plan(), {})
        for number in (1, 2):
            entry(tmp_path).store(other(number), {}, extra(number))
        entry(tmp_path).store(other(2), {}, extra(2) | {store.TEMPLATE: []})
    entry(tmp_path).store(other(2), {}, extra(2, "other nodes"))
    assert [len(one.images) for one in held(tmp_path).segments] == [2, 1, 1, 0, 0]
    assert os.listdir(tmp_path) == ["some.tflgpu"]
    assert (tmp_path / "some.tflgpu").stat().st_mode & 0o777 == 0o600
    found = list(entry(tmp_path).plans("nodes"))
    assert [one.extra[store.SHAPES] for one in found] == [[1, 1], [1, 2], [1, 2]]
    for number, one in zip((1, 2, 2), found, strict=True):
        entry(tmp_path).check(one)
        assert {*one.plan.weights[1].image()} == {number}
    first = entry(tmp_path).load(stored.dense())
    assert first is not None and not first.extra
    assert [one.extra[store.SOURCE] for one in entry(tmp_path).plans("other nodes")] == [
        "other nodes"
    ]


def test_a_file_for_another_key_is_replaced(tmp_path: Path) -> None:
    for number, key in enumerate(({}, {"plugin": "2"}, {"adapter": "2"}, {"content": "others"})):
        entry(tmp_path, **key).store(other(number), {})
        assert len(held(tmp_path).segments) == 1
        found = entry(tmp_path, **key).load(stored.dense())
        assert found is not None and {*found.plan.weights[1].image()} == {number}


def test_a_file_of_another_key_has_no_plans(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    entry(tmp_path).store(stored.plan(), {}, extra(1))
    assert not list(entry(tmp_path, plugin="2").plans("nodes"))
    assert len(list(entry(tmp_path, content="others").plans("nodes"))) == 1  # `check` refuses it
    with pytest.raises(plan_file.Damaged, match="other weights"):
        entry(tmp_path, content="others").check(next(entry(tmp_path).plans("nodes")))


def test_a_refused_file_is_replaced(tmp_path: Path) -> None:
    one = entry(tmp_path)
    one.store(stored.plan(), {})
    one.store(other(1), {}, extra(1))
    one.refuse("it is old")
    one.store(other(2), {}, extra(2))
    assert [list(segment.extra) for segment in held(tmp_path).segments] == [["source", "shapes"]]
    assert one.load(stored.dense()) is None
    one.store(stored.plan(), {})
    one.store(other(3), {}, extra(3))
    assert len(held(tmp_path).segments) == 3 and one.load(stored.dense()) is not None


def test_a_file_gets_no_more_plans_than_are_read_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "MAX_PLANS", 3)
    entry(tmp_path).store(stored.plan(), {})
    for number in range(5):
        entry(tmp_path).store(other(number), {}, extra(number))
    assert len(held(tmp_path).segments) == 3


def test_threads_that_add_at_once_lose_nothing(tmp_path: Path) -> None:
    def add(number: int) -> None:
        ready.wait()
        entry(tmp_path).store(stored.plan(), {})
        entry(tmp_path).store(other(number), {}, extra(number))

    ready = threading.Barrier(6)
    threads = [threading.Thread(target=add, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = sorted(one.extra[store.SHAPES][1] for one in entry(tmp_path).plans("nodes"))
    assert found == [*range(6)] and len(held(tmp_path).segments) == 7
    assert os.listdir(tmp_path) == ["some.tflgpu"]


def test_what_was_added_meanwhile_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process adds a plan or replaces the file after this one has read it."""
    entry(tmp_path).store(stored.plan(), {})

    def meanwhile(change: Any) -> None:
        writing = plan_file.write

        def write(*args: Any) -> None:
            writing(*args)
            monkeypatch.setattr(plan_file, "write", writing)
            change()

        monkeypatch.setattr(plan_file, "write", write)

    meanwhile(lambda: entry(tmp_path).store(other(1), {}, extra(1)))
    entry(tmp_path).store(other(1), {}, extra(1))
    assert len(held(tmp_path).segments) == 2
    meanwhile(lambda: entry(tmp_path).store(other(2), {}, extra(2)))
    entry(tmp_path).store(other(3), {}, extra(3))
    assert len(held(tmp_path).segments) == 4
    (tmp_path / "some.tflgpu").unlink()
    meanwhile(lambda: entry(tmp_path).store(other(4), {}, extra(4)))
    entry(tmp_path).store(other(5), {}, extra(5))  # with all that it needs
    assert [len(one.images) for one in held(tmp_path).segments] == [2, 2]
    meanwhile((tmp_path / "some.tflgpu").unlink)
    entry(tmp_path).store(other(6), {}, extra(6))  # it lacks what the file had
    assert not os.listdir(tmp_path)


def test_a_half_written_plan_is_cut_off(tmp_path: Path) -> None:
    entry(tmp_path).store(stored.plan(), {})
    path = tmp_path / "some.tflgpu"
    good = path.read_bytes()
    path.write_bytes(good + good[:100])
    before = path.open("rb")  # as mapped by another process
    entry(tmp_path).store(other(1), {}, extra(1))
    assert before.read() == good + good[:100]
    before.close()
    assert len(held(tmp_path).segments) == 2 and os.listdir(tmp_path) == ["some.tflgpu"]


@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit for the size of files")
@pytest.mark.parametrize("half_written", [False, True])
def test_a_full_disk_leaves_the_plans_that_are_there(tmp_path: Path, half_written: bool) -> None:
    """Files cannot grow beyond a limit, a different one each time, as on a disk with so much room.
    The process that meets it and the next ones have the plan that was stored before."""
    import resource

    entry(tmp_path).store(stored.plan(), {})
    path = tmp_path / "some.tflgpu"
    good = path.read_bytes()
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    before, refused = good + (good[:100] if half_written else b""), 0
    for room in range(0, 3 * len(good), len(good) // 7):
        path.write_bytes(before)
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, unlimited[1]))
        try:
            entry(tmp_path).store(other(1), {}, extra(1))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
        assert os.listdir(tmp_path) == ["some.tflgpu"], room
        added = len(list(entry(tmp_path).plans("nodes")))
        refused += not added
        assert entry(tmp_path).load(stored.dense()) is not None
        entry(tmp_path).store(other(2), {}, extra(2))
        assert len(held(tmp_path).segments) == added + 2
    assert 5 < refused < 20  # the last disks have room


def test_a_folder_that_stays_locked_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = list[str]()
    monkeypatch.setattr(folders, "LOCK_SECONDS", 0.05)
    monkeypatch.setattr(folders, "tell", told.append)
    with folders.locked(tmp_path):
        entry(tmp_path).store(stored.plan(), {})
    assert len(told) == 1 and "another process has locked it" in told[0]
    assert not os.listdir(tmp_path)
    entry(tmp_path).store(stored.plan(), {})
    assert len(told) == 1 and os.listdir(tmp_path) == ["some.tflgpu"]


def test_a_lock_is_free_again_after_an_error(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(KeyError), folders.locked(tmp_path):
            raise KeyError


def test_without_locks_plans_are_added_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some network file systems have no locks."""
    fcntl = pytest.importorskip("fcntl")

    def refuse(*_: Any) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", refuse)
    for number in (1, 2):
        entry(tmp_path).store(other(number), {}, extra(number))
    assert len(held(tmp_path).segments) == 2


def test_the_content_is_computed_once(tmp_path: Path) -> None:
    asked = list[int]()
    one = replace(entry(tmp_path), content=lambda: f"{asked.append(1)}")
    one.settle()
    assert (one.content(), one.content(), len(asked)) == ("None", "None", 1)
