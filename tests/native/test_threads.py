"""Tests work on helper threads, and which work a start does on them."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from tests.support.stored import dense
from tflgpu_plugin import threads
from tflgpu_plugin.cache import fingerprint, folders
from tflgpu_plugin.cache.store import Cache
from tflgpu_plugin.engine import BuildError, Partition


def test_a_result_and_an_error_come_each_time_they_are_asked_for() -> None:
    waiting = threading.Event()
    result = threads.begin(lambda: waiting.wait(10), "test")
    waiting.set()
    assert result() and result()
    failing = threads.begin(lambda: 1 / 0, "test")
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            failing()


def test_a_pause_lasts_and_lets_others_run() -> None:
    start, other = time.monotonic(), threads.begin(lambda: "ran", "test")
    threads.pause(0.05)
    assert time.monotonic() - start >= 0.04 and other() == "ran"


@pytest.mark.adapter
def test_nothing_reads_constants_when_a_partition_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The constants belong to the host, which frees them."""
    from tests.support.harness import device_of
    from tflgpu_plugin.compile import compiler

    ended = []

    def slow(graph: object) -> dict[int, bytes]:
        time.sleep(0.2)
        ended.append(True)
        return {}

    monkeypatch.delenv("TFLGPU_DEBUG", raising=False)
    monkeypatch.setattr(fingerprint, "constants", slow)
    monkeypatch.setattr(compiler, "compile", lambda graph, target: 1 / 0)
    with pytest.raises(BuildError, match="ZeroDivisionError"):
        Partition((0,), dense(), device_of(), cache=Cache(tmp_path, "test", ""))
    assert ended == [True]


def test_other_code_is_seen_whatever_its_size_and_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The digest of the code is cached by the file system's metadata."""
    code = tmp_path / "code" / "conv.py"
    code.parent.mkdir()
    code.write_text("tile = 4")
    before = code.stat()
    kept_in = tmp_path / "kept"
    kept_in.mkdir()
    monkeypatch.setattr(fingerprint, "code_files", lambda: list(os.scandir(tmp_path / "code")))
    monkeypatch.setattr(folders, "cache", lambda name: kept_in)
    first, again = (fingerprint.of_plugin.__wrapped__() for _ in range(2))
    kept = (kept_in / "digest").read_text()
    assert first == again and first in kept
    time.sleep(0.02)  # more than a tick of the clock that file systems use
    code.write_text("tile = 8")
    os.utime(code, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert code.stat().st_size == before.st_size
    assert fingerprint.of_plugin.__wrapped__() != first
    (kept_in / "digest").write_text(kept)  # of the code before, of another installation
    assert fingerprint.of_plugin.__wrapped__() != first


def test_shared_work_is_done_once_each_and_its_errors_surface() -> None:
    done: list[int] = []
    threads.share(done.append, range(100), "test", 4)
    assert sorted(done) == list(range(100))

    def fails(item: int) -> None:
        if item == 7:
            raise IndexError("of the work itself")
        done.append(item)

    with pytest.raises(IndexError, match="of the work itself"):
        threads.share(fails, range(20), "test", 3)


def test_a_worker_begins_again_where_no_thread_could_be_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Work that is given to it later is done, too."""

    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    worker = threads.Worker("test")
    with monkeypatch.context() as patch:
        patch.setattr(threads.builtin_thread, "start_new_thread", refuse)
        with pytest.raises(RuntimeError, match="new thread"):
            worker.begin(lambda: 1)
    assert worker.begin(lambda: 2)() == 2
