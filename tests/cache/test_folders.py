"""Caches never cause a failure when they cannot be written."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.subprocesses import run_python
from tflgpu_plugin import log
from tflgpu_plugin.cache import folders
from tflgpu_plugin.kernels import bodies, templates


def test_a_folder_in_the_users_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TFLGPU_NO_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert folders.cache("some") == tmp_path / "tflgpu-plugin" / "some"


def test_the_users_cache_is_made_where_there_is_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("TFLGPU_NO_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "no" / "such"))
    folder = folders.cache("some")
    assert folder == tmp_path / "no" / "such" / "tflgpu-plugin" / "some"
    assert folder.is_dir() and folder.stat().st_mode & 0o777 == 0o700


def test_none_where_others_can_write(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TFLGPU_NO_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = folders.cache("some")
    assert folder is not None
    folder.chmod(0o777)
    assert folders.cache("some") is None


def test_none_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    assert folders.cache("some") is None


def test_none_where_it_cannot_be_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert folders.cache("some") is None


def test_others_may_look_but_not_write(tmp_path: Path) -> None:
    for mode, safe in ((0o700, True), (0o755, True), (0o711, True), (0o720, False), (0o702, False)):
        tmp_path.chmod(mode)
        assert (folders.unsafe(tmp_path.stat()) is None) == safe, oct(mode)
    tmp_path.chmod(0o700)


@pytest.mark.skipif(os.name != "posix", reason="files have no such modes here")
def test_folders_above_are_of_this_user_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whoever may write to a parent folder could replace our folder with another one."""
    monkeypatch.delenv("TFLGPU_NO_CACHE", raising=False)
    above = tmp_path / "above"
    monkeypatch.setenv("XDG_CACHE_HOME", str(above / "home"))
    for mode, safe in ((0o755, True), (0o775, True), (0o777, False), (0o1777, True)):
        above.mkdir(exist_ok=True)
        above.chmod(mode)
        assert (folders.cache("some") is not None) == safe, oct(mode)
    linked = tmp_path / "linked"
    linked.symlink_to(above)
    above.chmod(0o777)
    assert "others can write" in str(folders.unsafe_above(linked / "home"))


@pytest.mark.skipif(os.name != "posix", reason="files have no owners here")
def test_folders_above_are_not_of_another_user(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert folders.unsafe_above(tmp_path / "some") is None
    user, stat = os.getuid(), os.stat

    def told(path: Any, **options: Any) -> os.stat_result:
        found = stat(path, **options)
        owner = user + 7 if Path(str(path)) == tmp_path else found.st_uid
        return os.stat_result([*found[:4], owner, *found[5:10]])

    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", told)
        found = folders.unsafe_above(tmp_path / "some")
    assert found is not None and "belongs to another user" in found


def test_nothing_is_left_of_what_cannot_be_kept(tmp_path: Path) -> None:
    place = tmp_path / "a folder"
    place.mkdir()
    folders.keep(place, "text")
    assert list(tmp_path.iterdir()) == [place]


VARIANT = (
    ("lanes", 8),
    ("team", 8),
    ("shuffled", True),
    ("flat", False),
    ("ahead", 1),
    ("normed", ""),
)


def test_kernels_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Kernels are read from the file in the second run, but never a truncated file, or one of
    another variant."""
    monkeypatch.delenv("TFLGPU_NO_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    render = bodies.body.__wrapped__
    made = render("fully_connected", VARIANT)
    assert "subgroupShuffleXor" in made
    (place,) = (tmp_path / "tflgpu-plugin" / "kernels").iterdir()
    text = place.read_text()
    assert text.endswith(made) and render("fully_connected", VARIANT) == made
    other_name = place.with_name("another.wgsl")
    folders.keep(other_name, made)
    of_another = other_name.read_text()
    other_name.unlink()
    for damaged in (text[:-1], text.replace("8u", "4u"), "", "\0", of_another):
        place.write_text(damaged)
        assert render("fully_connected", VARIANT) == made
        assert place.read_text() == text
    other = render("fully_connected", (*VARIANT[:1], ("team", 1), *VARIANT[2:]))
    assert "subgroupShuffleXor" not in other
    assert len(list(place.parent.iterdir())) == 2
    place.parent.chmod(0o500)  # cannot be written to: rendered all the same
    assert render("fully_connected", (("lanes", 16), *VARIANT[1:])) != made


def test_what_is_refused_does_not_stay_open(tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_text("1234")
    before = os.open(place, os.O_RDONLY)
    os.close(before)
    with pytest.raises(folders.Unsafe, match="it has 4 bytes, more than expected"):
        folders.opened(place, 3)
    handle = folders.opened(place, 4)
    os.close(handle)
    assert handle == before  # the lowest number that is free


def test_a_start_with_kept_kernels_imports_no_jinja(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom tflgpu_plugin.kernels.bodies import body\n"
        f"print(len(body('fully_connected', {VARIANT!r})), 'jinja2' in sys.modules)"
    )
    found = [
        run_python(code, XDG_CACHE_HOME=str(tmp_path), TFLGPU_NO_CACHE="").stdout.split()
        for _ in range(2)
    ]
    assert [jinja for _, jinja in found] == ["True", "False"]
    assert found[0][0] == found[1][0]


def test_compiled_templates_are_not_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Compiled templates are code, which is never stored."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert templates.environment().bytecode_cache is None
    bodies.body.__wrapped__("fully_connected", VARIANT)
    for file in tmp_path.glob("*/*/*"):
        file.read_text(encoding="utf-8")


def test_a_system_without_these_flags() -> None:
    """Files can be opened on systems that lack a flag."""
    code = """
import os, sys, tempfile, pathlib
for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY"): delattr(os, name)
from tflgpu_plugin.cache import folders
place = pathlib.Path(tempfile.mkdtemp()) / "some"
folders.keep(place, "text")
assert folders.kept(place) == "text", folders.kept(place)
"""
    run_python(code)


def test_a_line_is_told_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    told = list[str]()
    monkeypatch.setattr(log, "say", told.append)
    one, two = f"one of {tmp_path}", f"two of {tmp_path}"  # which nothing else tells of
    for text in (one, two, one):
        folders.tell(text)
    assert told == [one, two]


def test_windows_has_a_folder_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TFLGPU_NO_CACHE", raising=False)
    monkeypatch.setattr(folders.sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert folders.cache("some") == tmp_path / "local" / "tflgpu-plugin" / "some"
    monkeypatch.delenv("LOCALAPPDATA")
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert folders.cache("some") == tmp_path / "AppData" / "Local" / "tflgpu-plugin" / "some"
