"""Tests `tflgpu cache`: what is kept between runs, and deleting it."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.support import onnx_models
from tflgpu_plugin.cache import fingerprint, folders, store
from tflgpu_plugin.cli import caches, exits
from tflgpu_plugin.cli.commands import main
from tflgpu_plugin.harness.inputs import BadInput

ROOT = Path(__file__).resolve().parents[2]


def invoke(*words: object, typed: str | None = None) -> Result:
    return CliRunner().invoke(main, ["cache", *map(str, words)], input=typed)


def answer(*words: object) -> Any:
    """Returns the JSON output of a command that succeeds."""
    done = invoke(*words, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns a cache with files of two kinds and others that are not ours."""
    monkeypatch.delenv("TFLGPU_DEBUG", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    made = tmp_path / folders.PACKAGE
    sizes = {"kernels/a.wgsl": 1000, "kernels/b.wgsl": 500, "plans/c.tflgpu": 2_000_000,
             "references/d.npz": 7, "e.lock": 3}  # fmt: skip
    for name, size in sizes.items():
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_bytes(bytes(size))
    (made / "tuning").mkdir()
    (made / "tuning" / "link.json").symlink_to(made / "e.lock")
    (made / "tuning" / "folder").mkdir()
    return made


def left(folder: Path) -> set[str]:
    """Returns the names of all files in a folder and its folders."""
    return {path.name for path in folder.rglob("*") if path.is_file() or path.is_symlink()}


def test_info_counts_what_is_kept(home: Path) -> None:
    found = answer("info")
    assert (found["folder"], found["bytes"], found["plans"]) == (str(home), 2_001_500, [])
    kinds = {one["name"]: (one["files"], one["bytes"]) for one in found["kinds"]}
    none = dict.fromkeys(folders.CONTENTS, (0, 0))
    assert kinds == none | {"kernels": (2, 1500), "plans": (1, 2_000_000)}
    lines = invoke("info").stdout.splitlines()
    assert lines[0] == f"{home}: 2.0 MB"
    assert lines[2].split() == ["kernels", "2", "1.5", "kB", "generated", "kernels"]


def test_clear_deletes_what_is_ours(home: Path) -> None:
    assert invoke("clear", "--yes").stdout == f"Deleted 3 files (2.0 MB) in {home}.\n"
    assert left(home) == {"d.npz", "e.lock", "link.json"}
    assert invoke("clear").stdout == f"There was nothing in {home}.\n"
    assert invoke("clear", str(home)).stdout == f"There were no plans in {home}.\n"


def test_clear_asks_first(home: Path) -> None:
    before = left(home)
    no = invoke("clear", typed="n\n")
    assert (no.exit_code, no.stdout) == (0, "Nothing was deleted.\n")
    assert f"Delete 3 files (2.0 MB) in {home}? [y/N]" in no.stderr
    for words, typed in ((["clear"], ""), (["clear", "--json"], "y\n")):  # nobody can answer
        done = invoke(*words, typed=typed)
        assert (done.exit_code, done.stdout) == (exits.UNUSABLE, "")
        assert "Nothing was deleted: add --yes" in done.stderr
    assert left(home) == before
    assert invoke("clear", typed="y\n").exit_code == 0
    assert left(home) == {"d.npz", "e.lock", "link.json"}


def test_clear_as_json(home: Path) -> None:
    assert answer("clear", "-y") == {"folder": str(home), "files": 3, "bytes": 2_001_500}


def test_a_file_that_cannot_be_deleted(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Path, missing_ok: bool = False) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "unlink", fail)
    done = invoke("clear", "--yes")
    assert done.exit_code == exits.UNUSABLE
    first = home / "kernels" / "a.wgsl"
    assert f"3 of 3 files (2.0 MB) in {home} could not be deleted: {first}: Perm" in done.stderr


def test_a_cache_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    assert answer("info")["bytes"] == 0
    assert not list(tmp_path.iterdir())  # looking makes nothing


def test_folders_that_cannot_be_read(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link in the place of a folder is not followed: its files may be anybody's."""
    (home / "code").symlink_to(home / "references")
    assert {one.name: one.files for one in caches.contents(None).kinds}["code"] == 0
    (home / "workers").write_text("")
    with pytest.raises(BadInput, match=r"workers cannot be read: "):
        caches.contents(None)

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(folders, "home", homeless)
    with pytest.raises(BadInput, match=r"There is no cache folder: Could not determine"):
        caches.files(None)


def test_every_folder_of_the_cache_is_listed() -> None:
    found = set()
    for path in (ROOT / "tflgpu_plugin").rglob("*.py"):
        found |= {*re.findall(r'folders\.cache\("(\w+)"\)', path.read_text(encoding="utf-8"))}
    from tflgpu_plugin.batch import spec

    assert {*found, spec.PLANS} == set(folders.CONTENTS)


@pytest.mark.adapter
def test_the_plans_of_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "plans"
    onnx_models.session(onnx_models.add_relu(), serialization_dir=folder, model_token="small")
    (folder / "junk.tflgpu").write_bytes(b"junk")
    (folder / f".small_{'0a' * 12}-x_1.part").write_bytes(b"x")
    for other in ("notes.txt", "film.part", ".film.part", ".hidden"):
        (folder / other).write_bytes(b"mine")
    junk, plan = answer("info", folder)["plans"]
    assert (junk["plans"], junk["state"], plan["plans"]) == (0, "it is truncated", 1)
    assert (plan["model_token"], plan["state"]) == ("small", "usable")
    assert plan["bytes"] == os.path.getsize(folder / plan["name"]) and plan["adapter"]
    assert re.search(rf"{plan['name']} .* 1 +small .* usable\n", invoke("info", folder).stdout)
    monkeypatch.setattr(fingerprint, "of_plugin", lambda: "another")
    assert answer("info", folder)["plans"][1]["state"] == store.DIFFERENCES["plugin"]
    assert answer("clear", folder, "--yes")["files"] == 3
    assert left(folder) == {"notes.txt", "film.part", ".film.part", ".hidden"}
    assert invoke("info", folder).stdout == f"{folder}: 0.0 MB\n"


def test_a_file_without_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a file is nobody's, so its state is that of another version."""
    (tmp_path / "x.tflgpu").write_bytes(b"x")
    for header in ({}, {"key": 7}):
        segment = caches.plan_file.Segment(header, memoryview(b""), 0)
        read = caches.plan_file.Contents((segment,), 0)
        monkeypatch.setattr(store, "mapped_file", lambda *_, **__: memoryview(b""))
        monkeypatch.setattr(caches.plan_file, "contents", lambda *_, read=read, **__: read)
        (found,) = caches.contents(tmp_path).plans
        assert (found.model_token, found.state) == ("", store.DIFFERENCES["plugin"])
